/* api/receipt.h: receipts (docs/receipts.md): what one holds. */
#ifndef API_RECEIPT_H
#define API_RECEIPT_H

#include "api/fitting.h"
#include "base/hash.h"

/* Facts: the first are in every receipt, the next in those of version 2, and then one that not
 * every run has. The last of a run is in none: `chat` names the template that wrote the prompt. */
enum { RECEIPT_VERSION = 2, RECEIPT_BLOCK = 64, RECEIPT_FACTS = BINDING_FACTS - 1,
       TOKENIZER_FACT = RECEIPT_FACTS - 2, ROPE_LENGTH_FACT };

typedef struct Digest { uint8_t byte[SHA256_BYTES]; } Digest;

struct tblock_receipt {
    int             version;
    char           *fact[RECEIPT_FACTS];  /* of the run, in the order of receipt_fact_keys; NULL:
                                           * it has none */
    char           *chat_sha256, *chat_date;            /* NULL: none */
    int32_t        *ids;                                /* given, then drawn */
    size_t          n_ids, cap_ids, n_given;
    SamplerOptions  sampling;                           /* its arrays are the next two */
    int32_t        *bias_ids;
    float          *bias;
    int             kind;                               /* of the constraint; 0: none */
    char           *text;                               /* [n_text] */
    size_t          n_text;
    int32_t        *stop_ids;                           /* of a constraint alone */
    size_t          n_stop_ids;
    size_t          every, n_links, cap_links, n_blocks, cap_blocks;
    Digest         *links, *blocks, begin, root;        /* blocks: the leaves, of the tokens so far;
                                                         * version 1: at most one, the root */
    bool            has_text;
    Digest          text_hash;
    /* of one that is being made: */
    const Tokenizer *tokenizer;                         /* NULL: the model has none */
    Sha256         *sha;
    Digest          link;
    int             vocab_size;
    bool            no_memory, gap;
};

extern const char *const receipt_fact_keys[RECEIPT_FACTS];
/* The names of the kinds of constraints, by what constraint_text says. */
enum { RECEIPT_KINDS = CONSTRAINT_CALLS + 1 };
extern const char *const receipt_kinds[RECEIPT_KINDS];

/* What this context computes, as a receipt has it; hex is room for one of the values. */
bool receipt_facts(const tblock_context *c, const char *loaded_as, RunBinding *b, char hex[65],
                   Error *err);

/* The hash of all that stands before it. */
bool receipt_begin(const tblock_receipt *r, Digest *out, Error *err);
/* The name of the first field before `begin` in which two differ; "": they do not; NULL: fails. */
const char *receipt_heads_part(const tblock_receipt *a, const tblock_receipt *b, Error *err);
/* The hash of the text of the drawn ids. */
bool receipt_text(const tblock_receipt *r, const Tokenizer *t, Digest *out, Error *err);

/* ---- receipt_tree.c -------------------------------------------------------------------------- */

/* Tokens in a block; the last one may have fewer. */
size_t receipt_block(const tblock_receipt *r);
/* From the link of the token before (of none, where a block begins) to that of token `index`, which
 * was drawn from these logits. */
void receipt_link(Sha256 *sha, const tblock_receipt *r, size_t index, const float *logits,
                  int vocab_size, Digest *link);
/* Of a block whose last link this is. */
void receipt_leaf(Sha256 *sha, const tblock_receipt *r, const Digest *link, Digest *leaf);
/* Of the tree over all blocks. */
bool receipt_root(const tblock_receipt *r, Digest *out, Error *err);

#endif
