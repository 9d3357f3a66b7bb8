/* api/audit.h: logs to audit (docs/audit.md): what a log holds, and the readers of its lines. */
#ifndef API_AUDIT_H
#define API_AUDIT_H

#include "api/record.h"

/* The arrays that one text of a log owns. */
typedef struct AuditOwned { int32_t *ids, *bias_ids; float *bias; } AuditOwned;

/* The id of a piece of the vocabulary, found by its bytes (audit_openai.c). */
typedef struct AuditPiece { const char *bytes; size_t n; int32_t id; } AuditPiece;

struct tblock_audit_log {
    const tblock_model *model;
    SamplerOptions      claimed;
    unsigned            flags;
    tblock_audit_text  *text;        /* [n] */
    AuditOwned         *owned;       /* [n] */
    size_t              n, cap, n_ids; /* n_ids: of all texts */
    tblock_chat        *chat;        /* for requests with messages; NULL: none yet */
    AuditPiece         *piece;       /* [n_pieces], sorted by bytes; NULL until first needed */
    char               *bytes;
    size_t              n_pieces;
};

/* Adds a text of ids: n_prompt of prompt, then n_sampled of sampled. Copies the options and their
 * bias. Fails with INPUT (no prompt, a full log) and SYSTEM. */
bool audit_log_text(tblock_audit_log *log, const Record *in, const int32_t *prompt, size_t n_prompt,
                    const int32_t *sampled, size_t n_sampled, const SamplerOptions *sampling,
                    bool seeded);

/* A line in OpenAI's form: a response, or a request and its response. */
bool audit_openai_line(tblock_audit_log *log, const Record *in, const JsonDoc *d);

/* The ids of an array, [*n], allocated (room for at least one). */
bool audit_ids(const Record *in, const char *key, const JsonNode *j, int32_t **out, size_t *n);

#endif
