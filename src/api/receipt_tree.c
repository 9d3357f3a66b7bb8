/* api/receipt_tree.c: the hashes of a receipt (docs/receipts.md): the chain through a block of
 * tokens, the block's leaf, and the Merkle tree over the leaves. A byte before what is hashed keeps
 * leaf, node and start apart (RFC 9162, 2.1.1). In version 1 all tokens are one block, whose leaf
 * is its last link. */
#include "api/receipt.h"

#include <stdlib.h>
#include <string.h>

#include "base/fp_env.h"

enum { LEAF = 0, NODE = 1, START = 2 };

static void digest_of(Sha256 *sha, uint8_t what, const void *a, size_t n_a, const void *b,
                      size_t n_b, Digest *out)
{
    sha256_add(sha, &what, 1);
    sha256_add(sha, a, n_a);
    sha256_add(sha, b, n_b);
    sha256_take(sha, out->byte);
}

size_t receipt_block(const tblock_receipt *r)
{
    return r->version == 1 ? SIZE_MAX : RECEIPT_BLOCK;
}

void receipt_link(Sha256 *sha, const tblock_receipt *r, size_t index, const float *logits,
                  int vocab_size, Digest *link)
{
    const size_t   number = index - r->n_given, block = receipt_block(r);
    const uint64_t first  = index; /* base/cpu.h: this machine is little-endian */
    if (number == 0 && r->version == 1)
        *link = r->begin;
    else if (number % block == 0)
        digest_of(sha, START, &r->begin, sizeof r->begin, &first, sizeof first, link);
    sha256_add(sha, link->byte, sizeof link->byte);
    sha256_add(sha, &r->ids[index], sizeof *r->ids);
    sha256_add(sha, logits, (size_t)vocab_size * sizeof *logits);
    sha256_take(sha, link->byte);
}

void receipt_leaf(Sha256 *sha, const tblock_receipt *r, const Digest *link, Digest *leaf)
{
    if (r->version == 1)
        *leaf = *link;
    else
        digest_of(sha, LEAF, link, sizeof *link, NULL, 0, leaf);
}

bool receipt_root(const tblock_receipt *r, Digest *out, Error *err)
{
    Sha256 *sha  = sha256_new();
    Digest *node = malloc((r->n_blocks + 1) * sizeof *node);
    bool    good = (sha && node) || no_memory("receipt", err);
    if (good) {
        node[0] = r->begin;
        if (r->n_blocks)
            memcpy(node, r->blocks, r->n_blocks * sizeof *node);
        /* A node without a sibling moves up unchanged, which splits like the RFC. */
        for (size_t n = r->n_blocks; n > 1; n = (n + 1) / 2) {
            for (size_t i = 0; i < n / 2; i++)
                digest_of(sha, NODE, &node[2 * i], sizeof *node, &node[2 * i + 1], sizeof *node,
                          &node[i]);
            if (n % 2)
                node[n / 2] = node[n - 1];
        }
        *out = node[0];
    }
    sha256_free(sha);
    free(node);
    return good;
}

/* ---- Two receipts ---------------------------------------------------------------------------- */

static bool same_block(const tblock_receipt *a, const tblock_receipt *b, size_t i)
{
    return i < a->n_blocks && i < b->n_blocks
        && memcmp(&a->blocks[i], &b->blocks[i], sizeof *a->blocks) == 0;
}

FP_ENV_WORK
static bool bisect(const tblock_receipt *a, const tblock_receipt *b, tblock_receipt_parting *out,
                   Error *err)
{
    const tblock_receipt *longer  = a->n_ids > b->n_ids ? a : b;
    const size_t          shorter = a->n_ids + b->n_ids - longer->n_ids, size = receipt_block(a);
    size_t                token = a->n_given, block = 0;
    *out = (tblock_receipt_parting){ receipt_heads_part(a, b, err), -1, -1, -1, -1 };
    if (!out->field || *out->field)
        return out->field;
    while (token < shorter && a->ids[token] == b->ids[token])
        token++;
    while (block < longer->n_blocks && same_block(a, b, block))
        block++;
    if (token < longer->n_ids) {
        const size_t its = (token - a->n_given) / size;
        out->token       = (int64_t)token;
        block            = its < block ? its : block;
    }
    if (block == longer->n_blocks)
        return true;
    const size_t first = a->n_given + block * size, left = longer->n_ids - first;
    out->block         = (int64_t)block;
    out->first         = (int64_t)first;
    out->last          = (int64_t)(first + (left < size ? left : size) - 1);
    return true;
}

bool tblock_receipt_bisect(const tblock_receipt *a, const tblock_receipt *b,
                           tblock_receipt_parting *out, tblock_error *err)
{
    NEED(false, err, a, b, out);
    HOST_ENV_RETURN(bool, bisect(a, b, out, err));
}
