/* api/receipt.h: receipts (docs/receipts.md): what one holds. */
#ifndef API_RECEIPT_H
#define API_RECEIPT_H

#include "api/fitting.h"
#include "base/hash.h"

/* The last fact is one that not every run has. */
enum { RECEIPT_VERSION = 1, ROPE_LENGTH_FACT = BINDING_FACTS - 1 };

typedef struct Digest { uint8_t byte[SHA256_BYTES]; } Digest;

struct tblock_receipt {
    char           *fact[BINDING_FACTS];  /* of the run, in the order of receipt_fact_keys; NULL:
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
    size_t          every, n_links, cap_links;
    Digest         *links, begin, end;                  /* end: of the tokens so far */
    /* of one that is being made: */
    Sha256         *sha;
    int             vocab_size;
    bool            no_memory, gap;
};

extern const char *const receipt_fact_keys[BINDING_FACTS];
/* The names of the kinds of constraints, by what constraint_text says. */
enum { RECEIPT_KINDS = CONSTRAINT_CALLS + 1 };
extern const char *const receipt_kinds[RECEIPT_KINDS];

/* What this context computes, as a receipt has it; hex is room for one of the values. */
bool receipt_facts(const tblock_context *c, const char *loaded_as, RunBinding *b, char hex[65],
                   Error *err);

/* The link before the first token: of all that stands before it. */
bool receipt_begin(const tblock_receipt *r, Digest *out, Error *err);
/* The next link: SHA-256 of the link before, the id and the logits, little-endian. */
void receipt_link(Sha256 *sha, Digest *link, int32_t id, const float *logits, int vocab_size);

#endif
