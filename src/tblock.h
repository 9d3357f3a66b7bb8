/* tblock.h: run Llama-style language models on a CPU, with the same bits everywhere.
 *
 * The one public header. Opaque handles, errors as values, no global state, no signal handler, no printing.
 * A model may be shared by any number of threads; a context or a sampler belongs to one thread at a time.
 *
 * A zeroed options struct, or NULL for it, means the defaults. While the library is at version 0, structs may grow from one
 * minor version to the next: compile against the header of the library you link.
 *
 * Functions that can fail return false or NULL and fill *err (which may be NULL when the caller does not want the
 * reason). Text and arrays handed out through a pointer-to-pointer belong to the caller: release with tblock_free(); after a
 * failure they are NULL and their counts 0. Errors of the system (memory, disk) are TBLOCK_SYSTEM wherever they may happen.
 *
 * What the host has set of rounding, subnormals and locale changes no result, and is as it was afterwards. Callbacks run in the caller's
 * thread with tblock's own setting (round to nearest, the C locale); they must return, not throw or jump out, and may not call functions of
 * the context that calls them.
 * docs/embed.md is a complete example. */
#ifndef TBLOCK_H
#define TBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TBLOCK_API __attribute__((visibility("default")))
#else
#define TBLOCK_API
#endif

#define TBLOCK_VERSION "0.2.0"
#define TBLOCK_NUMERICS_VERSION 1 /* changes when any output bit changes (docs/numerics.md) */
#define TBLOCK_UNICODE_VERSION "16.0" /* of the tokenizers' patterns (docs/tokenizers.md) */

/* Also the exit status of the program. */
enum tblock_status {
    TBLOCK_OK     = 0,
    TBLOCK_NO     = 1, /* the answer is no: verify, a check            */
    TBLOCK_USAGE  = 2, /* wrong usage: an option or argument           */
    TBLOCK_INPUT  = 3, /* bad or unsupported input file                */
    TBLOCK_SYSTEM = 4  /* the system failed: memory, disk, I/O         */
};

typedef struct tblock_error {
    int  status;   /* enum tblock_status                               */
    char msg[512]; /* one line: file, thing, expected, found; no '\n'  */
} tblock_error;

typedef struct tblock_model   tblock_model;   /* a mapped model file: weights, config, tokenizer; immutable */
typedef struct tblock_context tblock_context; /* KV caches and activations of one run                       */
typedef struct tblock_sampler tblock_sampler; /* options and scratch memory of the sampler                  */
typedef struct tblock_stream  tblock_stream;  /* token ids to UTF-8 text, never half a character            */

TBLOCK_API const char *tblock_version(void); /* the TBLOCK_VERSION of the library that runs */
TBLOCK_API void        tblock_free(void *p); /* releases what the library allocated for the caller */

/* ---- Model ---------------------------------------------------------------------------------------------------- */

typedef struct tblock_open_options {
    bool mlock;      /* lock the weights into memory; an error where the limit forbids it                  */
    bool huge_pages; /* of a model file: ask for transparent huge pages where the file system can (a hint) */
    bool populate;   /* of a model file: read it whole now, not at first use                               */
    const char *type; /* NULL or "auto": as stored; "f32", "f16", "bf16", "q8", "q4": of the matrices, made while
                         loading in memory of the model's own, with the bits that a file of tblock_quantize has */
    const char *const *keep; /* with type: as in tblock_quantize_options                                    */
    size_t             n_keep;
    bool check;      /* read and check all data first, as the check of tblock_report does           */
    void (*progress)(void *user, double done); /* 0 .. 1 of the weights that are checked, packed or
                        converted to another type, from the calling thread; may be NULL               */
    void *user;      /* passed to progress                                                          */
} tblock_open_options;

/* Map the model file at path. opt may be NULL. Only headers are read and checked, and weights are
 * paged in when they are used (with a type, all are read now, by one thread for each physical core);
 * only check finds out whether the data is unchanged and finite. The mapping stays valid if the file
 * is replaced by rename; truncating the file under a running model raises SIGBUS. path may also be a
 * Hugging Face or Meta folder, a .gguf or a llama2.c checkpoint (docs/sources.md): those are read now
 * and packed in the model's own memory. Fails with TBLOCK_INPUT (no model, a tensor that is not what
 * the config asks for; with check: data that differs from its sha256, padding that is not zero, a
 * weight that is not finite; with a type: a weight that it cannot hold, a quantized matrix that would
 * be quantized again), TBLOCK_USAGE (type, keep) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_model *tblock_open(const char *path, const tblock_open_options *opt, tblock_error *err);
TBLOCK_API void          tblock_close(tblock_model *m); /* NULL is accepted; contexts must be closed before */

/* An output must not replace what it is made from: fails (TBLOCK_USAGE, naming both) where `output` is, under whatever name, a regular
 * file that m was read from, of a folder any that was read. m may be NULL, for a model at `path` that could not be opened, say: then a
 * file counts that lies where its parts would and is named like one. Functions that write what a model makes ask this of the path that
 * they are given; a program that writes a file of its own, or hands over a name such as /dev/fd/3 for one, asks before. */
TBLOCK_API bool tblock_output_apart(const tblock_model *m, const char *path, const char *output, tblock_error *err);

typedef struct tblock_model_info {
    int         d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx, window;
    bool        tied_embeddings, has_weights, has_tokenizer;
    const char *family;       /* "llama", "mistral", ...                                             */
    const char *hash;         /* sha256 of the data section as recorded in the file, or ""           */
    const char *weight_types; /* the matrices' types, most bytes first: "bf16" or "bf16,f32"         */
    size_t      file_bytes;   /* of a model file; 0 of other sources                             */
    uint64_t    n_params;
    size_t      bytes_per_token; /* bytes of weights that one decode step reads                      */
    size_t      made_bytes;   /* weights held in memory of their own: packed or made another type when opened, not mapped */
    int32_t     bos;          /* -1: none */
    int         n_eos;
    const int32_t *eos;
    const char *tokenizer_note; /* of a llama2.c file: which tokenizer in its folder was taken, or why none; else "" */
} tblock_model_info;

/* Describe an open model; the strings live as long as the model. Cannot fail. */
TBLOCK_API void tblock_model_describe(const tblock_model *m, tblock_model_info *out);

/* ---- Text ----------------------------------------------------------------------------------------------------- */

enum { TBLOCK_ADD_SPECIAL = 1,  /* apply the tokenizer's template (usually: BOS first)          */
       TBLOCK_PARSE_SPECIAL = 2 /* special tokens spelled in the text become their ids; without this flag they are
                                   ordinary text, which is what untrusted input needs           */ };

/* Text to token ids. text is n_bytes of UTF-8 and may hold NUL and invalid bytes. flags: 0 or the enum above.
 * *ids is allocated (never NULL on success, also for no tokens). Fails with TBLOCK_INPUT for a model without
 * tokenizer and TBLOCK_SYSTEM without memory. */
TBLOCK_API bool tblock_tokenize(const tblock_model *m, const char *text, size_t n_bytes, unsigned flags, int32_t **ids,
                                size_t *n_ids, tblock_error *err);

/* Token ids to text, special tokens shown; the exact bytes, which need not be UTF-8. *text is NUL-terminated too. Fails with
 * TBLOCK_INPUT (an id that the tokenizer does not have, no tokenizer) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_detokenize(const tblock_model *m, const int32_t *ids, size_t n_ids, char **text, size_t *n_bytes,
                                  tblock_error *err);

/* Answer one request of the JSON lines protocol of `tblock tokenize --jsonl`: an object with "text" or "bytes_hex"
 * (optional "mode": "plain" | "special", "add_special": bool), or "ids" to decode. *answer is one line of ASCII JSON
 * without '\n': {"ids": [...]} or {"text": ..., "bytes_hex": ...}. */
TBLOCK_API bool tblock_tokenize_json(const tblock_model *m, const char *line, size_t n_bytes, char **answer,
                                     tblock_error *err);

/* Streaming decode. tblock_stream_put returns the bytes that are now complete (possibly none): whole UTF-8
 * characters, invalid bytes as they are. The text belongs to the stream and is valid until the next call. continues:
 * true when the text follows other text of the same sequence (then a leading dummy-prefix space is kept). An id that the tokenizer
 * does not have adds nothing. The model must outlive the stream. NULL: no tokenizer (TBLOCK_INPUT), no memory. */
TBLOCK_API tblock_stream *tblock_stream_new(const tblock_model *m, bool continues, tblock_error *err);
TBLOCK_API const char    *tblock_stream_put(tblock_stream *s, int32_t id, size_t *n_bytes);
TBLOCK_API const char    *tblock_stream_flush(tblock_stream *s, size_t *n_bytes); /* what is left, half or not */
TBLOCK_API void           tblock_stream_free(tblock_stream *s);

/* ---- Chat (docs/chat.md) -------------------------------------------------------------------------------------- */

typedef struct tblock_chat tblock_chat; /* how a conversation becomes tokens of one model; immutable, uses the model */

typedef struct tblock_chat_message {
    const char    *role;    /* "system", "user" or "assistant"                                                 */
    const char    *text;    /* any bytes: special tokens spelled in it stay ordinary text                      */
    size_t         n_bytes;
    const int32_t *ids;     /* of an answer the tokens as they were drawn, without the one that ended it; or NULL */
    size_t         n_ids;
} tblock_chat_message;

/* The chat format of the model (format NULL), or one chosen: a name of tblock_chat_known, or a JSON object as in docs/format.md,
 * "Chat". Fails with TBLOCK_INPUT (the model has no tokenizer or no format, its chat template is not recognised, bad JSON),
 * TBLOCK_USAGE (an unknown name) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_chat *tblock_chat_new(const tblock_model *m, const char *format, tblock_error *err);
TBLOCK_API void         tblock_chat_free(tblock_chat *c); /* NULL is accepted */
TBLOCK_API const char  *tblock_chat_known(size_t i);      /* the names, from 0; NULL past the last one */

/* What becomes of a system text: it is told to the model, left out by the format, or an error. */
enum { TBLOCK_CHAT_SYSTEM_TOLD, TBLOCK_CHAT_SYSTEM_IGNORED, TBLOCK_CHAT_SYSTEM_REFUSED };

typedef struct tblock_chat_info {
    const char        *name;       /* "llama3"                                                        */
    int                system;     /* the enum above                                                  */
    const int32_t     *stop_ids;   /* tokens that end an answer, the model's own among them           */
    size_t             n_stop_ids;
    const char *const *stop_texts; /* texts that do                                                   */
    size_t             n_stop_texts;
    const char        *answer_prefix; /* what stands between the opening and an answer's content (" " after "ASSISTANT:"): where the
                                         model draws it, it is no part of the message's text */
} tblock_chat_info;
TBLOCK_API void tblock_chat_describe(const tblock_chat *c, tblock_chat_info *out); /* lives as long as c */

/* A conversation as token ids, BOS and all: a system message first or none, then turns. answer: end with what opens the
 * assistant's answer. The ids are those of the text that the model's chat template renders, tokenized as a whole with special
 * tokens, but what a message spells is never one. An answer with ids keeps them where the format puts its text back unchanged
 * and a special token ends it. *ids is allocated. Fails with TBLOCK_INPUT (a role, an order of roles or a system text that the format
 * has no place for; no turn; an id that is no token) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_chat_render(const tblock_chat *c, const tblock_chat_message *messages, size_t n, bool answer, int32_t **ids,
                                   size_t *n_ids, tblock_error *err);

/* A conversation as JSON, {"messages": [{"role": ..., "content": ...}, ...]}, and back; an array alone is read too. *json and
 * *messages (one piece of memory, ids NULL) are allocated. Bytes that are no UTF-8 become U+FFFD. Writing fails with TBLOCK_USAGE
 * (another role, NUL in a content), reading with TBLOCK_INPUT, `what` beginning the message (no JSON, the same). tblock_chat_save
 * writes a file of it, atomically, and fails with TBLOCK_USAGE as tblock_chat_to_json does, and with TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_chat_to_json(const tblock_chat_message *messages, size_t n, char **json, tblock_error *err);
TBLOCK_API bool tblock_chat_save(const tblock_chat_message *messages, size_t n, const char *path, tblock_error *err);
TBLOCK_API bool tblock_chat_from_json(const char *json, size_t n_bytes, const char *what, tblock_chat_message **messages, size_t *n,
                                      tblock_error *err);

/* The same as text, to look at: which parts of it are special tokens no longer shows. *text is NUL-terminated too. */
TBLOCK_API bool tblock_chat_text(const tblock_chat *c, const tblock_chat_message *messages, size_t n, bool answer, char **text,
                                 size_t *n_bytes, tblock_error *err);

/* ---- Context and decode --------------------------------------------------------------------------------------- */

typedef struct tblock_context_options {
    int         n_ctx;    /* longest sequence; 0: the model's own                                   */
    int         n_seqs;   /* sequences 0 .. n_seqs - 1; 0: 1                                        */
    int         n_batch;  /* most tokens computed at once; longer batches are cut; 0: 512           */
    int         threads;  /* 0: one for each physical core this process may use, fewer for a tiny model; never more
                             than this many, at times fewer (below)                                     */
    const char *isa;      /* NULL or "auto": the best this CPU has; "scalar", "avx2", "avx512vnni" ... */
    const char *math;     /* NULL or "auto", "f32", "int8", "bf16" (docs/numerics.md, "Modes")      */
    const char *activations; /* NULL or "auto", "8", "16": bits, where quantized weights meet integers */
    const char *kv_type;  /* NULL or "auto", "f32", "f16", "q8"                                     */
    const char *affinity; /* NULL or "none"; "cores": each of two or more computing threads stays on a physical core */
    bool        allow_nan; /* logits may be NaN; otherwise tblock_decode fails there and says why   */
} tblock_context_options;

/* KV memory grows with the sequences; n_ctx reserves nothing. opt may be NULL. The context makes its threads when it first needs
 * them and ends them with itself; what the system does not give is done without, and decoding takes fewer while other work has the
 * processors. affinity "cores" takes the first cores of the caller's mask, the caller itself pinned to the first while it
 * computes: two such contexts or processes at once take the same ones, unless each has a mask of its own (taskset). Fails with TBLOCK_USAGE
 * (n_ctx over 2^24, or over the model's where positions are learned; n_seqs or n_batch over 65536, threads over 1024; an isa that is
 * unknown or not this processor's; an arithmetic or type that is unknown or has no meaning with these weights), TBLOCK_INPUT (a model
 * without weights) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_context *tblock_context_new(const tblock_model *m, const tblock_context_options *opt, tblock_error *err);
TBLOCK_API void            tblock_context_free(tblock_context *c); /* NULL is accepted */

typedef struct tblock_item {
    int32_t seq;         /* which sequence                                                          */
    int32_t pos;         /* position in it, from 0; must be the sequence's next one                 */
    int32_t token;       /* 0 .. vocab_size - 1                                                     */
    bool    want_logits; /* compute logits after this token                                         */
} tblock_item;

/* Run the tokens of a batch: prefill, decode and several sequences are this one call, and any way of cutting the same
 * tokens into calls gives the same bits. Items of one sequence stand in ascending order of position.
 * Fails with TBLOCK_USAGE (a position that is not the next, an id out of range, a full context: both numbers named; the
 * context is unchanged), TBLOCK_SYSTEM (memory: pieces of n_batch tokens before it are done and kept, see
 * tblock_seq_length) or TBLOCK_INPUT (a wanted logit is NaN, unless the context allows that: all weights are read then, and the first
 * that is NaN or infinite is named; the tokens are done, and tblock_logits shows them). */
TBLOCK_API bool tblock_decode(tblock_context *c, const tblock_item *items, size_t n_items, tblock_error *err);

/* Logits [vocab_size] after item i of the last tblock_decode; NULL where not asked for. Valid until the next decode. */
TBLOCK_API const float *tblock_logits(const tblock_context *c, size_t i);

/* A hash of n floats (NaN canonical), the one `run --stats` prints: equal bits give equal hashes. */
TBLOCK_API uint64_t tblock_hash_floats(const float *x, size_t n);

/* Tokens held by a sequence; -1 for a sequence that does not exist. */
TBLOCK_API int32_t tblock_seq_length(const tblock_context *c, int32_t seq);

/* Forget all but the first length tokens of a sequence. Fails (TBLOCK_USAGE) when a windowed layer has already given
 * up positions that token length would need; length 0 always works. */
TBLOCK_API bool tblock_seq_rewind(tblock_context *c, int32_t seq, int32_t length, tblock_error *err);

/* Make sequence `to` the first n_tokens of sequence `from`, whatever it held before: it can go on from there by itself, with
 * the bits it would have from scratch. KV tiles of 64 tokens are shared, not copied, and counted once in kv_bytes; a
 * partial last one is copied when either sequence goes on. Fails with TBLOCK_USAGE (a sequence that does not exist, both the
 * same, more tokens than there are; a windowed layer has given up positions that are needed: as tblock_seq_rewind) and
 * TBLOCK_SYSTEM (memory); `to` is then unchanged or empty. */
TBLOCK_API bool tblock_seq_copy(tblock_context *c, int32_t from, int32_t to, int32_t n_tokens, tblock_error *err);

/* Write sequence seq to a file (docs/format.md, "State"), atomically: tokens [n_tokens], all the tokens it holds, and its KV
 * cache. The file is bound to the model by its hash, and to everything else that changes bits. A model file without a hash
 * is read as a whole to make one. Fails with TBLOCK_USAGE (an empty sequence, another number of tokens, an id that is no
 * token, the model's own file as path) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_state_save(const tblock_context *c, int32_t seq, const int32_t *tokens, size_t n_tokens,
                                  const char *path, tblock_error *err);

/* Make sequence seq, whatever it held before, the one that the file holds; it goes on with the same bits as from scratch.
 * The KV cache is mapped, not read: pages come when they are used, and what the sequence writes stays in this process.
 * *tokens is allocated. Replace such a file by renaming; truncating it under a running context raises SIGBUS. Fails with
 * TBLOCK_INPUT (no state file, or made with another model, KV type, ...: what differs is named), TBLOCK_USAGE (a sequence
 * that does not exist, more tokens than the context holds) and TBLOCK_SYSTEM; the sequence is then unchanged or empty. */
TBLOCK_API bool tblock_state_load(tblock_context *c, int32_t seq, const char *path, int32_t **tokens, size_t *n_tokens,
                                  tblock_error *err);

/* Called during tblock_decode with the residual stream: "embed", then of each layer "layer0.attn" (after its attention) and
 * "layer0" (after its feed-forward network, the layer's output), at last "final_norm": x is [n_tok, stride] f32 of which d_model
 * columns count, for items first .. first + n_tok - 1 of the batch; the other threads wait. NULL removes the observer.
 * tblock_logits_write and tblock_verify set it aside; the other functions that run a context call it. */
typedef void (*tblock_observer)(void *user, const char *name, size_t first, int n_tok, const float *x, size_t stride);
TBLOCK_API void tblock_observe(tblock_context *c, tblock_observer fn, void *user);

typedef struct tblock_context_info {
    int         n_ctx, n_seqs, n_batch, threads;
    const char *isa, *math, *kv_type;
    const char *activations;      /* "8", "16", "auto" (both occur), "none" (no integers) */
    size_t      kv_bytes;         /* KV memory in use now          */
    size_t      activation_bytes; /* buffers of the context        */
} tblock_context_info;
TBLOCK_API void tblock_context_describe(const tblock_context *c, tblock_context_info *out);

/* Where the time of tblock_decode goes: one row for each operation of the forward pass, summed over layers and calls. */
typedef struct tblock_profile_row {
    const char *name;        /* "embed", "norm", "qkv", "attention", "wo", "gate_up", "down", "head"                        */
    uint64_t    calls;
    double      seconds;     /* from its start to the start of the next, on the first thread, waiting for others included   */
    double      bytes;       /* of weights or KV cache, counted once a call of up to n_batch tokens                         */
    double      operations;  /* of its products: a multiply-add is 2                                                        */
} tblock_profile_row;

/* on: begin from zero; off: stop, what was measured stays to be read. Fails with TBLOCK_SYSTEM without memory. No bit changes. */
TBLOCK_API bool tblock_profile(tblock_context *c, bool on, tblock_error *err);

/* Fills up to n rows in the order of the first calls; returns how many there are (at most 16). */
TBLOCK_API size_t tblock_profile_read(const tblock_context *c, tblock_profile_row *row, size_t n);

/* ---- Sampling (docs/numerics.md) ------------------------------------------------------------------------------ */

typedef struct tblock_sampler_options {
    float    temp;           /* 0: greedy; else at least 1e-6                               */
    int      top_k;          /* 0: all                                                      */
    double   top_p;          /* 0, 1: all                                                   */
    float    min_p;          /* 0: all                                                      */
    float    repeat_penalty; /* 0, 1: none                                                  */
    uint64_t seed;
} tblock_sampler_options;

/* opt may be NULL: greedy. Fails with TBLOCK_USAGE (a number outside of its range). */
TBLOCK_API tblock_sampler *tblock_sampler_new(int vocab_size, const tblock_sampler_options *opt, tblock_error *err);
TBLOCK_API void            tblock_sampler_free(tblock_sampler *s);

/* Draw the token with index `index` of its sequence (the first token of a sequence has index 0) from logits
 * [vocab_size]. previous [n_previous]: ids that the repetition penalty applies to (may be NULL). The same arguments
 * give the same token on every machine. A NaN logit is an error (TBLOCK_INPUT), and a previous id that is no token. */
TBLOCK_API bool tblock_sampler_next(tblock_sampler *s, const float *logits, const int32_t *previous, size_t n_previous,
                                    uint32_t index, int32_t *token, tblock_error *err);

/* ---- Drafts --------------------------------------------------------------------------------------------------- */

typedef struct tblock_draft_options {
    int min_match; /* fewest tokens at the end of the text that must have occurred before; 0: 2       */
    int max_match; /* a match of so many tokens is as good as a longer one; 0: 16                     */
    int window;    /* how many of the newest tokens are searched; 0: 65536                            */
} tblock_draft_options;

/* Prompt lookup: guess the tokens after ids [n], the text so far, from what followed its last tokens where they occurred
 * before (the longest match, the newest of equals). Writes them to out [most] and returns how many: `most`, or 0 where
 * nothing matches. opt may be NULL; below 0 counts as 0. Cannot fail, keeps nothing.
 *
 * To use a draft, decode the last token and the draft in one batch with want_logits everywhere, draw from each item's
 * logits in turn while the token drawn is the one drafted, and forget the rest with tblock_seq_rewind. A batch gives the
 * bits of single tokens, so the text is the same with and without it; going back to a length that the sequence had
 * before the call, or a greater one, always works as long as the call has at most n_batch items. */
TBLOCK_API size_t tblock_draft_ngram(const int32_t *ids, size_t n, const tblock_draft_options *opt, int32_t *out, size_t most);

/* ---- Golden logits -------------------------------------------------------------------------------------------- */

typedef struct tblock_logits_options {
    bool last;   /* only the last position's logits: logits F32 [1, vocab_size]    */
    bool hidden; /* also hidden.embed, of each layer hidden.layerI.attn (after its attention) and hidden.layerI (its output),
                    and hidden.final_norm: F32 [n, d_model]                        */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_logits_options;

/* Run tokens as sequence 0 of c (which is emptied before and after) and write a safetensors file: tokens I32 [n], logits
 * F32 [n, vocab_size], metadata that names everything that changes bits. Atomic: the old file stays if this fails: TBLOCK_USAGE (no token,
 * more than the context holds, an id out of range, a file of the model as path), TBLOCK_INPUT (a logit is NaN and the context does not
 * allow it), TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_logits_write(tblock_context *c, const int32_t *tokens, size_t n, const char *path,
                                    const tblock_logits_options *opt, tblock_error *err);

typedef struct tblock_verify_options {
    bool   exact;  /* every bit (NaN canonical)                                                        */
    bool   has_tol; /* tol holds; otherwise the default rule of docs/numerics.md                      */
    double tol;    /* largest |difference|                                                             */
    bool   greedy; /* also replay [PREFIX.]greedy continuations token by token                         */
    const char *tokens; /* a .npy file of tokens; the golden is a .npy file of logits then, of any name. NULL: as their names tell */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_verify_options;

typedef struct tblock_verify_row {
    char    name[64];     /* PREFIX, or "" for a file with plain tokens/logits                          */
    size_t  n_tokens;
    double  max_abs;      /* largest |ours - golden|; NaN where a NaN stands on one side only           */
    double  mean_kl;      /* mean KL divergence golden || ours per position, nats                       */
    double  max_kl;       /* the largest of a position                                                  */
    double  top1;         /* share of positions with the same most likely token, or NaN alone in both   */
    double  top5;         /* share of positions with the same five most likely tokens, in any order     */
    int64_t first_diff;   /* first position outside the tolerance (not bit-equal with exact); -1: none  */
    int64_t greedy_diff;  /* first greedy token that differs; -1: none or not asked                     */
    size_t  n_greedy;     /* greedy tokens compared                                                     */
    int     n_hidden;     /* hidden states compared: [PREFIX.]hidden.NAME of the golden file            */
    char    parted[40];   /* the first of them, in the order of the model, that differs: "the embedding", "layer 3, attention",
                             "layer 3, feed-forward", "layer 3" (where hidden.layer3.attn was not recorded), "the final norm";
                             "the head": none, but the logits do; "": nothing known                     */
    int     parted_layer; /* that layer; -1: outside the layers, or nothing known                       */
    int64_t parted_pos;   /* first position where it differs; -1: nothing known                         */
    double  parted_abs;   /* its largest |ours - golden|                                                */
    bool    ok;
} tblock_verify_row;

typedef struct tblock_verify_report {
    double             tol;    /* the tolerance applied; 0 with exact */
    bool               exact, ok;
    size_t             n_rows;
    tblock_verify_row *rows;   /* release with tblock_free */
    char               settings[512]; /* "math bf16 (here f32), ..."; see below */
    bool               recorded;      /* the file names everything that changes bits: settings "" then says that all is the same */
    char               advice[640];   /* if ok is false: which settings of this run round, and which options to try; else "" */
} tblock_verify_report;

/* Recompute every [PREFIX.]tokens of the golden file and compare with [PREFIX.]logits_f64 (or logits). The file is safetensors, by
 * tblock_logits_write or anyone, or a pair of .npy files: golden_path is the logits', whose name holds "logits"; that of the tokens has
 * "tokens" instead (docs/verify.md). Returns true when the comparison ran, whatever its answer: see out->ok. out->settings names
 * everything that changes bits in which a file of tblock_logits_write records another run than this one; "" where nothing does, or
 * the file is of another program.
 *
 * Hidden states are compared bit by bit with exact, and then count for `ok`; else a difference counts from the share of the state's
 * largest value that the tolerance is of the largest logit, and only says where two runs part. Runs in sequence 0, emptied before and
 * after. Fails with TBLOCK_USAGE (a tolerance that is none), TBLOCK_INPUT (no golden, of another vocabulary, more tokens than the
 * context holds; a logit is NaN and the context does not allow it) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_verify(tblock_context *c, const char *golden_path, const tblock_verify_options *opt,
                              tblock_verify_report *out, tblock_error *err);

/* The name of the .npy file of tokens that tblock_verify reads beside one of logits, allocated; *tokens NULL: golden_path is no .npy
 * file. Fails with TBLOCK_INPUT (no "logits" in its name) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_verify_tokens(const char *golden_path, char **tokens, tblock_error *err);

/* What is wrong with a row that is not ok, in one line: "logits differ from position 3 on: expected within 0.0004, found ...". Writes
 * at most n_out bytes, the NUL too. */
TBLOCK_API void tblock_verify_explain(const tblock_verify_report *report, const tblock_verify_row *row, char *out, size_t n_out);

/* Write the outcome of a tblock_verify as JUnit XML, which CI systems show, atomically: a test case for each row. report NULL: the
 * comparison did not run, for the reason in *why; one case, in error. name: of the test suite, such as the golden's path. Fails
 * with TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_verify_junit(const char *path, const char *name, const tblock_verify_report *report, const tblock_error *why,
                                    tblock_error *err);

/* ---- Evaluation (docs/eval.md) -------------------------------------------------------------------------------- */

/* All sums are taken in double, in the order of the text: the same bits whatever the threads, n_batch or instruction set. */
typedef struct tblock_eval_options {
    int    window;        /* tokens at once: 2 to the context's n_ctx; 0: n_ctx                                 */
    int    stride;        /* tokens from one window to the next: 1 to window; 0: window                         */
    size_t n_bytes;       /* of the text that the tokens stand for, for bits_per_byte; 0: not known             */
    size_t n_added;       /* tokens that stand for none of it: BOS                                              */
    bool (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; false: stop. May be NULL      */
    void  *user;
} tblock_eval_options;

typedef struct tblock_eval_report {
    size_t n_tokens;      /* given                                                                              */
    size_t n_scored;      /* of them, predicted: not the first, nor what comes without context                  */
    size_t n_windows;
    double nll;           /* mean negative log-likelihood of a scored token, nats                               */
    double nll_error;     /* its standard error, tokens taken as independent; NaN for fewer than two            */
    double perplexity;    /* exp(nll)                                                                           */
    double perplexity_error; /* perplexity * nll_error                                                          */
    double recipe_perplexity; /* windows weighted as transformers' recipe does; the same where stride is window */
    double bits_per_byte; /* nll in bits * tokens of the text / its bytes; NaN: n_bytes not given               */
    double accuracy;      /* share of scored tokens that were the most likely one                               */
    bool   stopped;       /* by progress: the numbers are those of what was done                                */
} tblock_eval_report;

/* Perplexity of tokens [n], with windows as transformers' documentation takes them: window i is tokens i * stride to
 * i * stride + window; in it those are scored that no window before it held, each but a window's first token once. Runs in
 * sequence 0 of c, which is emptied before and after. opt may be NULL. Fails with TBLOCK_USAGE (fewer than two tokens, window,
 * stride, an id out of range), TBLOCK_INPUT (a logit is NaN and the context does not allow it) and TBLOCK_SYSTEM. Source:
 * huggingface.co/docs/transformers/perplexity */
TBLOCK_API bool tblock_eval_text(tblock_context *c, const int32_t *tokens, size_t n, const tblock_eval_options *opt,
                                 tblock_eval_report *out, tblock_error *err);

typedef struct tblock_against_report {
    tblock_eval_report ours, parent; /* perplexity of both over the same tokens                                 */
    double mean_kl;       /* of the parent's distribution from ours, sum of p log(p / q) per scored token, nats */
    double mean_kl_error; /* its standard error; NaN for fewer than two                                         */
    double max_kl;
    int64_t max_kl_at;    /* index of the token whose prediction that is                                        */
    double percentile[6]; /* of the KL divergence: 50, 90, 95, 99, 99.9 % and the smallest                      */
    double top1, top1_error; /* share of tokens for which both hold the same one most likely; standard error    */
    double top5;          /* the same five, in any order                                                        */
    double log_ratio, log_ratio_error; /* mean of ln(our perplexity / parent's), standard error over tokens     */
    double rms_probability; /* root of the mean square difference of the probability given to the right token   */
} tblock_against_report;

/* How far c's distributions are from those of parent, another context (a quantized model's and the model's it was made from),
 * at the tokens that tblock_eval_text scores. Both models must have one vocabulary size. Fails as tblock_eval_text does. */
TBLOCK_API bool tblock_eval_against(tblock_context *c, tblock_context *parent, const int32_t *tokens, size_t n,
                                    const tblock_eval_options *opt, tblock_against_report *out, tblock_error *err);

typedef struct tblock_choices_options {
    const char *delimiter; /* between context and choice; NULL: " "                                             */
    bool        no_added;  /* no BOS, nor what else the tokenizer's template adds                               */
    bool (*progress)(void *user, double done); /* as in tblock_eval_options                                     */
    void       *user;
} tblock_choices_options;

typedef struct tblock_choice_score {
    double sum;           /* log-likelihood of the choice given its context, nats                               */
    size_t n_tokens, n_bytes; /* tokens summed; bytes of the choice, without the delimiter: sum / n_bytes is the
                             length-normalised score                                                            */
} tblock_choice_score;

typedef struct tblock_choices_row {
    size_t line;          /* of the file, from 1                                                                */
    size_t first, n;      /* its choices: score[first .. first + n)                                             */
    int    answer;        /* the right one, from 0                                                              */
    int    best, best_norm; /* of the largest sum, and of the largest sum / n_bytes; of equals the first; -1: a sum is NaN, and
                             nothing is decided                                                                 */
    bool   cut;           /* the context did not fit: its oldest tokens were left out                           */
} tblock_choices_row;

typedef struct tblock_choices_report {
    size_t n_rows, n_cut;
    tblock_choices_row  *rows;  /* release with tblock_free                                                     */
    tblock_choice_score *score; /* release with tblock_free                                                     */
    double accuracy, accuracy_error;           /* share of rows with best == answer; standard error
                                                  sqrt(p (1 - p) / (n - 1)), NaN for one row                    */
    double accuracy_norm, accuracy_norm_error; /* with best_norm                                                */
    bool   stopped;       /* by progress: the numbers are those of what was done                                */
} tblock_choices_report;

/* Multiple choice: every line of a JSONL file is an object with "context" or "question" (a string), "choices" (two or more
 * strings, none empty) and "answer" (the index of the right one, from 0); other keys are ignored, so are empty lines. A choice is scored by the
 * log-likelihood of the tokens of context + delimiter + choice that follow those it shares with the context alone. "-" is standard
 * input. Runs in sequence 0 of c. opt may be NULL. Fails with TBLOCK_INPUT (a line: what is wrong; a model without tokenizer; a
 * choice longer than the context; no token before a choice), TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_eval_choices(tblock_context *c, const char *path, const tblock_choices_options *opt,
                                    tblock_choices_report *out, tblock_error *err);

/* ---- Attention probabilities ---------------------------------------------------------------------------------- */

typedef struct tblock_attention tblock_attention; /* the probabilities of one run; holds nothing of the context */

typedef struct tblock_attention_options {
    const int *layers;   /* the layers to keep, in this order, none twice; NULL: all */
    size_t     n_layers;
    const int *heads;    /* the query heads, as above                                */
    size_t     n_heads;
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_attention_options;

/* A run keeps at most this many bytes of probabilities, 4 for each layer, head, query and key. */
enum { TBLOCK_ATTENTION_MAX_BYTES = 256 << 20 };

/* Run tokens as sequence 0 of c (which is emptied before and after) and keep the attention probabilities of the chosen
 * layers and heads: softmax of the scores of docs/numerics.md, "attention", with the same bits whatever the threads or the
 * instruction set. opt may be NULL. The model must outlive the result. Fails with TBLOCK_USAGE (no token, too many, a layer
 * or head that does not exist or stands there twice, more than MAX_BYTES), TBLOCK_INPUT (a kept probability is NaN, unless the context
 * allows that) or TBLOCK_SYSTEM (memory). */
TBLOCK_API tblock_attention *tblock_attention_new(tblock_context *c, const int32_t *tokens, size_t n,
                                                  const tblock_attention_options *opt, tblock_error *err);
TBLOCK_API void tblock_attention_free(tblock_attention *a); /* NULL is accepted */

/* Probabilities [n, n] (query, key) of one head, row-major; masked keys are 0, the others of a row sum to 1. NULL for a
 * layer or head that was not kept. Valid as long as a. */
TBLOCK_API const float *tblock_attention_head(const tblock_attention *a, int layer, int head);

/* Write a file, atomically. format:
 *   "html"         one page with heat maps, for people, under 3 MB: a long text is drawn in
 *                  coarser cells; it loads nothing from elsewhere
 *   "json"         one object: tokens, pieces, layers, heads, window, windows, attention [{layer, head, p: n rows of n numbers}]
 *   "safetensors"  tokens I32 [n], attn.layerI F32 [heads kept, n, n]; metadata: heads, window, and what changes bits
 * The same as html or json in pieces: put returns false to stop, which is TBLOCK_SYSTEM. An unknown format or a file of the model is
 * TBLOCK_USAGE. */
TBLOCK_API bool tblock_attention_write(const tblock_attention *a, const char *path, const char *format, tblock_error *err);
TBLOCK_API bool tblock_attention_print(const tblock_attention *a, const char *format,
                                       bool (*put)(void *user, const char *data, size_t n_bytes), void *user,
                                       tblock_error *err);

/* ---- Reports and synthetic models ----------------------------------------------------------------------------- */

typedef struct tblock_report_options {
    bool json;           /* one JSON object instead of text (docs/info.md lists its keys)                          */
    bool tensors;        /* list every tensor                                                                      */
    bool colour;
    bool check;          /* read all data: is the sha256 right, padding zero, every weight finite?                 */
    int  seq;            /* tokens of the prompt whose cost is counted; 0: 2048, or n_ctx where that is less       */
    int  batch;          /* sequences of that length at once; 0: 1                                                 */
    const char *kv_type; /* NULL or "auto", "f32", "f16", "q8"                                                     */
    const char *type;    /* weight type that a bare config is counted with: NULL or "bf16", "f32", "f16", "q8", "q4" */
    const char *html;    /* also write the report to this file, as one page that needs nothing else; NULL: no page */
    void (*progress)(void *user, double done); /* of a check: 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_report_options;

/* What a model file, or a bare JSON config, is made of, what it costs and what memory it needs. opt may be NULL. *text is
 * allocated; so it is where a check found the data wrong: then the result is false with TBLOCK_NO, and err names the
 * tensor. Any other failure leaves NULL. */
TBLOCK_API bool tblock_report(const char *path, const tblock_report_options *opt, char **text, tblock_error *err);

typedef struct tblock_synth_options {
    const char *type; /* NULL or "bf16", "f32", "f16", "q8", "q4"; embedding and head of "q4" are "q8" */
    const char *const *keep; /* "PATTERN=TYPE", as tblock_quantize_options      */
    size_t      n_keep;
    uint64_t    seed;
    int         threads;
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
    bool        sparse; /* every matrix is a hole in the file: it reads as zeros and takes no disk space; the
                           file records no sha256, and the output must be a regular file (TBLOCK_USAGE) */
} tblock_synth_options;

/* Write a model file with seeded random weights for the JSON config at config_path. Atomic. Same bytes for the same
 * config, type and seed, whatever the threads. Fails with TBLOCK_USAGE (type, keep, threads, the config as output), TBLOCK_INPUT (the
 * config) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_synth(const char *config_path, const char *out_path, const tblock_synth_options *opt, tblock_error *err);

/* ---- Quantizing ----------------------------------------------------------------------------------------------- */

typedef struct tblock_quantize_options {
    const char        *type;   /* "q8", "q4", "bf16", "f16", "f32": of the matrices; vectors are f32 always              */
    const char *const *keep;   /* "PATTERN=TYPE": another type for the matrices whose names the glob matches; the first counts */
    size_t             n_keep;
    int                threads; /* 0: one for each physical core                                                         */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL                            */
    void *user;
} tblock_quantize_options;

/* What became of one matrix. */
typedef struct tblock_quantize_row {
    char        name[64];          /* "layers.3.wq"                                                          */
    const char *part;              /* "wq"                                                                   */
    int         layer;             /* -1: outside the layers                                                 */
    const char *from, *type;       /* "bf16", "q4"                                                           */
    uint64_t    n_params, bytes;   /* bytes: as written                                                      */
    double      error;             /* relative RMS error: sqrt(error2 / sum2)                                */
    double      error2, sum2;      /* sums of squares: of the differences, and of what there was             */
    uint64_t    flushed;           /* weights too small for the type that became 0                           */
} tblock_quantize_row;

typedef struct tblock_quantize_report {
    size_t               n_rows;
    tblock_quantize_row *rows;     /* in file order; release with tblock_free                                */
    double               error;    /* relative RMS error of all matrices together                            */
    uint64_t             n_params, bytes; /* of the whole model, vectors too                                 */
    uint64_t             flushed;
} tblock_quantize_report;

/* Write the model at in_path with matrices of another type, atomically; config and tokenizer stay, and the metadata says what it
 * was made from. Same bytes whatever the threads. Memory does not grow with the model. Without `keep`, the embedding and the
 * head of a q4 model are q8 (docs/quantize.md). A q8 or q4 matrix stays as it is or becomes a float type. report may be NULL.
 * Fails with TBLOCK_USAGE (type, keep, a pattern that matches nothing, one file twice), TBLOCK_INPUT (a weight that is not
 * finite or too large for its type: tensor, row and column are named), TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_quantize(const char *in_path, const char *out_path, const tblock_quantize_options *opt,
                                tblock_quantize_report *report, tblock_error *err);

/* ---- Converting ----------------------------------------------------------------------------------------------- */

typedef struct tblock_convert_options {
    const char        *type;   /* NULL: each matrix as it is stored; else as tblock_quantize_options                     */
    const char *const *keep;   /* with a type: "PATTERN=TYPE"                                                            */
    size_t             n_keep;
    const char        *tokenizer; /* NULL: the source's own; else a file or folder (docs/convert.md)                     */
    const char        *pattern;   /* of that tokenizer, where its files do not say how a text is split; NULL             */
    bool               no_tokenizer;
    bool               tokenizer_only; /* leave the weights out; a source without weights is converted so in any case     */
    bool               row_major;      /* matrices that are not quantized in layout `rows` (docs/format.md), not in panels */
    const char        *chat_format;    /* NULL: the source's; else a name (tblock_chat_known) or the JSON of one to store  */
    int                threads; /* 0: one for each physical core                                                         */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL                            */
    void *user;
} tblock_convert_options;

typedef struct tblock_convert_report {
    const char *source;          /* "Hugging Face folder", "GGUF" ...                                                    */
    uint64_t    n_params, bytes; /* of all weights, as written; 0: only a tokenizer                                      */
    uint64_t    flushed;         /* weights too small for their type that became 0                                       */
    uint64_t    not_finite;      /* vectors with NaN or infinity: kept                                                   */
    char       *warnings;        /* lines, each with its newline; release with tblock_free                               */
} tblock_convert_report;

/* Write whatever in_path is (a Hugging Face folder, a .gguf, a Meta folder, a llama2.c checkpoint, a model file, a tokenizer) as a
 * model file, atomically. opt and report may be NULL. Same bytes whatever the threads; memory does not grow with the model. Errors: as
 * tblock_open for what is read, as tblock_quantize for the rest. */
TBLOCK_API bool tblock_convert(const char *in_path, const char *out_path, const tblock_convert_options *opt,
                               tblock_convert_report *report, tblock_error *err);

/* ---- Training (docs/train.md) --------------------------------------------------------------------------------- */

/* Training needs OpenBLAS (libopenblas.so.0), which is loaded when one of these functions is called; without it they fail with
 * TBLOCK_SYSTEM. No bit depends on the number of threads; bits may depend on the version of OpenBLAS and on the processor. OpenBLAS is
 * told to use one thread, for the whole process and from then on: the threads are ours. */

/* AdamW: decoupled weight decay, of all parameters or (decay_all false) of matrices alone. All numbers count: NULL, not a zeroed one,
 * means the defaults. */
typedef struct tblock_adamw { double lr, beta1, beta2, eps, weight_decay; bool decay_all; } tblock_adamw;

typedef struct tblock_grad_options {
    int         adamw_steps;    /* steps to take on the same batch, at a constant rate and without clipping; 0: none      */
    const tblock_adamw *adamw;  /* NULL: 1e-3, 0.9, 0.95, 1e-8, 0.1, of all                                              */
    int         threads;        /* 0: one for each physical core; no bit depends on it                                   */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_grad_options;

typedef struct tblock_grad_report {
    double   loss, loss_after;  /* of the model as it is; after the last step                                            */
    double   grad_norm;         /* of all gradients as one vector                                                        */
    uint64_t n_params;
    int      n_tensors;
} tblock_grad_report;

/* Mean cross-entropy of token t+1 from position t over the sequences of a safetensors file with `tokens` I32 [B, T], and its
 * gradients by all parameters in f32, written to a safetensors file: loss, grad.NAME, row-major [out, in]; with steps
 * also losses [steps + 1] and afterN.NAME, the parameters after the N-th and last step. NAME is the checkpoint's name
 * of a Hugging Face folder, else ours. Atomic. Fails with TBLOCK_INPUT (no such tokens, an id out of range, a part of a model that
 * training lacks: named), TBLOCK_USAGE (steps, an optimizer's number out of range), TBLOCK_NO (a loss or gradient that is no number) and
 * TBLOCK_SYSTEM. opt and report may be NULL. */
TBLOCK_API bool tblock_grad(const char *model_path, const char *tokens_path, const char *out_path, const tblock_grad_options *opt,
                            tblock_grad_report *report, tblock_error *err);

typedef struct tblock_train_progress {
    int64_t step, n_steps;      /* steps that are done                                                                    */
    double  loss, grad_norm, lr; /* of the last step; the loss before it changed the parameters                          */
    double  val_loss;           /* the latest one; NaN: none yet                                                         */
    bool    validated, saved;   /* since the last call                                                                   */
    double  tok_per_s, seconds, eta_seconds; /* of steps alone; since training began; until it ends, at this speed       */
} tblock_train_progress;

typedef struct tblock_train_options {
    const char *text;           /* the file to learn from, any bytes; required                                           */
    const char *config;         /* a JSON config: begin with random weights and a tokenizer made from the text           */
    const char *init;           /* or a model: begin with its weights, config and tokenizer. Neither: a config of our own */
    const char *tokenizer;      /* a model or a published tokenizer: read the text by this one, instead of making one; vocab_size is its size */
    int         vocab;          /* of a tokenizer made from the text, instead of the config's vocab_size; 0: that one    */
    int         steps;          /* 0: 1000                                                                               */
    int         batch, n_ctx;   /* sequences of a step, their length; 0: 24, the smaller of the config's n_ctx and 256   */
    int         micro_batch;    /* sequences computed at once, gradients added up; 0: about 2,048 tokens                  */
    const tblock_adamw *adamw;  /* NULL: 1e-3, 0.9, 0.95, 1e-8, 0.1, of matrices                                        */
    double      min_lr;         /* where the cosine ends; 0: a tenth of lr, negative: at 0. NaN: the rate stays constant  */
    int         warmup;         /* steps; -1: none, 0: a twentieth of all                                                */
    double      clip;           /* largest norm of the gradients; 0: 1; negative: not clipped                            */
    double      dropout;        /* 0 to below 1                                                                          */
    double      validation;     /* share of the tokens, from the end, that is held back; 0: 0.1; negative: none          */
    uint64_t    seed;
    int         eval_every, save_every; /* steps; 0: a tenth of all, but at least 50; negative: only at the end           */
    bool        resume;         /* go on from the checkpoint                                                             */
    const char *plot;           /* an SVG file with the losses, NULL: none; written with every checkpoint                */
    int         threads;        /* 0: one for each physical core; no bit depends on it                                   */
    /* After every step. False: save a checkpoint and stop. May be NULL. */
    bool (*progress)(void *user, const tblock_train_progress *p);
    void *user;
} tblock_train_options;

typedef struct tblock_train_report {
    int64_t  step;              /* steps that are done                                             */
    bool     stopped;           /* by progress: there is a checkpoint, and no model file was written */
    double   loss, val_loss;    /* of the last step; on all that is held back, NaN: nothing is      */
    double   tok_per_s, seconds;
    size_t   n_train, n_held;   /* tokens                                                          */
    uint64_t n_params;
    size_t   bytes;             /* memory of parameters, gradients, moments and activations         */
} tblock_train_report;

/* Train a model on a text and write a model file of f32 at out_path. Checkpoints lie beside it, at out_path with ".ckpt" behind:
 * with resume, and the same options otherwise (but threads, eval_every's and save_every's progress), training goes on bit for bit as
 * if it had never stopped. Both files are written whole or not at all; a failure leaves the last checkpoint, and without resume one of a
 * training that was stopped is not replaced (TBLOCK_USAGE). Fails with TBLOCK_USAGE (a number out of range, two of config, init and
 * tokenizer that exclude each other), TBLOCK_INPUT (no text, too short a one, a config that training lacks parts of, a checkpoint with
 * other settings), TBLOCK_NO (a loss that is no number) and TBLOCK_SYSTEM. report may be NULL. */
TBLOCK_API bool tblock_train(const char *out_path, const tblock_train_options *opt, tblock_train_report *report, tblock_error *err);

typedef struct tblock_grad_check_row {
    char     name[64];
    double   worst;             /* largest |g - d| / max(|d|, root mean square of the gradient of its tensor)             */
    double   grad, difference;  /* g and d where it was                                                                   */
    size_t   element;           /* and the number of that element                                                         */
    int      n;                 /* elements that were looked at                                                           */
} tblock_grad_check_row;

typedef struct tblock_grad_check_options {
    const char *config;         /* a JSON config: random values; or                                                       */
    const char *init;           /* a model: its values. Neither: the config that train has of its own                      */
    int         n_tokens;       /* length of the sequence of random tokens; 0: 12                                         */
    int         samples;        /* elements of each parameter; 0: 8                                                       */
    uint64_t    seed;
    int         threads;
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_grad_check_options;

/* Compare gradients g of the backward pass (f32) with central differences d of the loss, computed in double by a second
 * implementation. *rows [*n_rows], one for each parameter, is released with tblock_free. Fails as tblock_train does. */
TBLOCK_API bool tblock_grad_check(const tblock_grad_check_options *opt, tblock_grad_check_row **rows, size_t *n_rows, tblock_error *err);

/* ---- One block (docs/block.md) -------------------------------------------------------------------------------- */

enum { TBLOCK_BLOCK_MAX_STACK = 1000 };

/* What the block is, where it differs from what the path says. 0 and NULL: as there; of no path, a block of width 64. */
typedef struct tblock_block_options {
    const char *tensors;    /* a safetensors file with x and dy [B, L, d_model]; weights too, unless they are a model's   */
    const char *output;     /* a safetensors file to write: y, attn, dx and grad.NAME; may be NULL                        */
    int         layer;      /* of a model or its config                                                                  */
    const char *norm, *placement, *ffn; /* "rms" ..., "pre", "post", "both", "output"; "swiglu", "geglu", "gelu" ...      */
    int         d_model, heads, kv_heads, head_dim, d_ff;
    int         window;     /* positions a query sees, itself included; -1: all                                          */
    bool        non_causal, bias, no_rope;
    double      theta, eps;
    int         batch, length; /* 0: those of x, of the case, else 2 and 16                                              */
    uint64_t    seed;
    int         stack;      /* blocks one on another, pre- against post-norm; 0: none. Fewer where a model has fewer     */
    int         check;      /* places of every tensor at which gradients are checked; 0: none                            */
    int         threads;    /* 0: one for each physical core                                                             */
    bool        json, colour; /* one JSON object; with the terminal's bold                                               */
    void (*progress)(void *user, double done); /* 0 .. 1, from the calling thread; may be NULL */
    void *user;
} tblock_block_options;

/* One decoder block, looked into: runs it forward and backward and describes every step. path: NULL, a JSON config, a case (the JSON of
 * a block, docs/block.md), or any model. *text is allocated, also where the result is false with TBLOCK_NO: a value came out
 * NaN or infinite (the first is named), a gradient or the fused operation is wrong. Fails with TBLOCK_INPUT (config, tensors missing
 * or of another shape, a given value that is not finite), TBLOCK_USAGE and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_block(const char *path, const tblock_block_options *opt, char **text, tblock_error *err);

/* ---- What the machine can do at most (docs/bench.md) ---------------------------------------------------------- */

typedef struct tblock_measure_options {
    int         threads;    /* 0: one for each physical core this process may use                          */
    const char *isa;        /* NULL or "auto": the best this CPU has; else a name as for a context         */
    size_t      read_bytes; /* memory to read, allocated meanwhile: well over the caches; 0: 1.6 GB        */
} tblock_measure_options;

typedef struct tblock_machine {
    char        cpu[128];          /* the processor's name, or "unknown"                                   */
    const char *isa;
    int         threads;
    double      read_gb_per_s;     /* best of plain and prefetching loops, each thread over its own part   */
    double      f32_gflop_per_s;   /* fused multiply-adds (2 each) of f32 in registers                     */
    double      int8_gop_per_s;    /* products and additions (2) of the dot products that the ISA's kernels */
    double      int16_gop_per_s;   /* use for activations of 8 and of 16 bits; 0: not known for this ISA   */
} tblock_machine;

/* Measure the limits of this machine with so many threads at once; takes a second or two. opt may be NULL. Fails with
 * TBLOCK_USAGE (threads over 1024, an isa that is not to be had) and TBLOCK_SYSTEM (memory). */
TBLOCK_API bool tblock_measure_machine(const tblock_measure_options *opt, tblock_machine *out, tblock_error *err);

/* A limit, and something measured against it, for a roofline plot. */
typedef struct tblock_roof {
    const char *name;                 /* "2 threads"                                           */
    double      gb_per_s, gop_per_s;  /* bandwidth; peak, 0: not known, the roof has no top    */
} tblock_roof;
typedef struct tblock_roof_point {
    const char *name;                 /* "prefill 512"                                         */
    size_t      roof;                 /* which roof it lies under                              */
    double      operations_per_byte, gop_per_s;
} tblock_roof_point;

/* Draw operations per byte against GOP/s, both logarithmic, as an SVG file for light and dark pages that loads nothing.
 * Atomic. Fails with TBLOCK_USAGE (no roof or over 16, over 256 points, a number that is not from 1e-90 to 1e90, a roof
 * that does not exist) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_roofline_plot(const char *path, const char *title, const tblock_roof *roof, size_t n_roofs,
                                     const tblock_roof_point *point, size_t n_points, tblock_error *err);

#ifdef __cplusplus
}
#endif
#endif
