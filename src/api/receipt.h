/* api/receipt.h: receipts (docs/receipts.md): what a receipt holds. */
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
    char           *fact[RECEIPT_FACTS];  /* of the run, in the order of receipt_fact_keys; NULL: it
                                           * has none */
    char           *chat_sha256, *chat_date;            /* NULL: none */
    int32_t        *ids;                                /* prompt, then generated */
    size_t          n_ids, cap_ids, n_given;
    SamplerOptions  sampling;                           /* its arrays are the next three */
    int32_t        *bias_ids;
    float          *bias;
    int32_t        *stop_ids;                           /* only with a constraint */
    int             kind;                               /* of the constraint; 0: none */
    int             rules;                              /* SCHEMA_RULES of its time */
    char           *text;                               /* [n_text] */
    size_t          n_text;
    size_t          every, n_links, cap_links, n_blocks, cap_blocks;
    Digest         *links, *blocks, begin, root;        /* blocks: the leaves, of the tokens so far;
                                                         * version 1: at most one, the root */
    bool            has_text;
    Digest          text_hash;
    /* while it is being made: */
    const Tokenizer *tokenizer;                         /* NULL: the model has none */
    Sha256         *sha;
    Digest          link;
    int             vocab_size;
    bool            no_memory, gap;
};

extern const char *const receipt_fact_keys[RECEIPT_FACTS];
/* The names of the kinds of constraints, by ConstraintText.kind; those from `json_schema` on are
 * made by rules (docs/constraints.md, "JSON Schema"), whose number goes up when other texts fit the
 * same schema: 2, of 2026-11: one spelling of integers and listed values, bounded numbers. */
enum { RECEIPT_KINDS = CONSTRAINT_CALLS + 1, FIRST_BY_RULES = TBLOCK_JSON_SCHEMA,
       SCHEMA_RULES = 2 };
extern const char *const receipt_kinds[RECEIPT_KINDS];

/* The facts of this context, as a receipt holds them; hex is room for one of the values. */
bool receipt_facts(const tblock_context *c, const char *loaded_as, RunBinding *b, char hex[65],
                   Error *err);

/* The hash of all fields before it. */
bool receipt_begin(const tblock_receipt *r, Digest *out, Error *err);
/* The first field before `begin` in which two receipts differ; "": none; NULL: failed. */
const char *receipt_heads_part(const tblock_receipt *a, const tblock_receipt *b, Error *err);
/* The hash of the text of the generated ids. */
bool receipt_text(const tblock_receipt *r, const Tokenizer *t, Digest *out, Error *err);

/* ---- receipt_tree.c -------------------------------------------------------------------------- */

/* Tokens in a block; the last one may have fewer. */
size_t receipt_block(const tblock_receipt *r);
/* From the link of the previous token (none at the start of a block) to that of token `index`,
 * which was sampled from these logits. */
void receipt_link(Sha256 *sha, const tblock_receipt *r, size_t index, const float *logits,
                  int vocab_size, Digest *link);
/* The leaf of a block, from the block's last link. */
void receipt_leaf(Sha256 *sha, const tblock_receipt *r, const Digest *link, Digest *leaf);
/* The root of the tree over all blocks. */
bool receipt_root(const tblock_receipt *r, Digest *out, Error *err);

#endif
