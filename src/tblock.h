/* tblock.h: run Llama-style language models on a CPU, with the same bits everywhere.
 *
 * All that a program needs to run models; tblock_tools.h evaluates, explains, converts and trains
 * them. Opaque handles, errors as values, no global state, no signal handler, no printing. A model
 * may be shared by any number of threads; a context with its generations, or a sampler, belongs to
 * one thread at a time.
 *
 * A zeroed options struct, or NULL for it, means the defaults. While the library is at version 0,
 * structs may grow from one minor version to the next: compile against the header of the library
 * you link.
 *
 * Functions that can fail return false or NULL and fill *err (which may be NULL when the caller
 * does not want the reason). Text and arrays handed out through a pointer-to-pointer belong to the
 * caller: release with tblock_free(); after a failure they are NULL and their counts 0. Errors of
 * the system (memory, disk) are TBLOCK_SYSTEM wherever they may happen.
 *
 * What the host has set of rounding, subnormals and locale changes no result, and is as it was
 * afterwards. Callbacks run in the caller's thread with tblock's own setting (round to nearest, the
 * C locale); they must return, not throw or jump out, and may not call functions of the context
 * that calls them. docs/embed.md is a complete example. */
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

typedef struct tblock_model   tblock_model;   /* a mapped model file: weights, config, tokenizer;
                                               * immutable */
typedef struct tblock_context tblock_context; /* KV caches and activations of one run */
typedef struct tblock_sampler tblock_sampler; /* options and scratch memory of the sampler */
typedef struct tblock_stream  tblock_stream;  /* token ids to UTF-8 text, never half a character */

TBLOCK_API const char *tblock_version(void); /* the TBLOCK_VERSION of the library that runs */
TBLOCK_API void        tblock_free(void *p); /* releases what the library allocated for the
                                              * caller */

/* ---- Model ----------------------------------------------------------------------------------- */

typedef struct tblock_open_options {
    bool mlock;      /* lock the weights into memory; an error where the limit forbids it */
    bool huge_pages; /* of a model file: ask for transparent huge pages where the file system can (a
                      * hint) */
    bool populate;   /* of a model file: read it whole now, not at first use */
    const char *type; /* NULL or "auto": as stored; "f32", "f16", "bf16", "q8", "q4": of the
                       * matrices, made while loading in memory of the model's own, with the bits
                       * that a file of tblock_quantize has */
    const char *const *keep; /* with type: as in tblock_quantize_options */
    size_t             n_keep;
    bool check;      /* read and check all data first, as the check of tblock_report does */
    void (*progress)(void *user, double done); /* 0 .. 1 of the weights that are checked, packed or
                                                * converted to another type, from the calling
                                                * thread; may be NULL */
    void *user;      /* passed to progress */
} tblock_open_options;

/* Map the model file at path. opt may be NULL. Only headers are read and checked, and weights are
 * paged in when they are used (with a type, all are read now, by one thread for each physical
 * core); only check finds out whether the data is unchanged and finite. The mapping stays valid if
 * the file is replaced by rename; truncating the file under a running model raises SIGBUS. path may
 * also be a Hugging Face or Meta folder, a .gguf or a llama2.c checkpoint (docs/sources.md): those
 * are read now and packed in the model's own memory. Fails with TBLOCK_INPUT (no model, a tensor
 * that is not what the config asks for; with check: data that differs from its sha256, padding that
 * is not zero, a weight that is not finite; with a type: a weight that it cannot hold, a quantized
 * matrix that would be quantized again), TBLOCK_USAGE (type, keep) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_model *tblock_open(const char *path, const tblock_open_options *opt,
                                     tblock_error *err);
TBLOCK_API void          tblock_close(tblock_model *m); /* NULL is accepted; contexts must be closed
                                                         * before */

/* An output must not replace what it is made from: fails (TBLOCK_USAGE, naming both) where `output`
 * is, under whatever name, a regular file that m was read from, of a folder any that was read. m
 * may be NULL, for a model at `path` that could not be opened, say: then a file counts that lies
 * where its parts would and is named like one. Functions that write what a model makes ask this of
 * the path that they are given; a program that writes a file of its own, or hands over a name such
 * as /dev/fd/3 for one, asks before. */
TBLOCK_API bool tblock_output_apart(const tblock_model *m, const char *path, const char *output,
                                    tblock_error *err);

typedef struct tblock_model_info {
    int         d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx, window;
    bool        tied_embeddings, has_weights, has_tokenizer;
    const char *family;       /* "llama", "mistral", ... */
    const char *hash;         /* sha256 of the data section as recorded in the file, or "" */
    const char *weight_types; /* the matrices' types, most bytes first: "bf16" or "bf16,f32" */
    size_t      file_bytes;   /* of a model file; 0 of other sources                             */
    uint64_t    n_params;
    size_t      bytes_per_token; /* bytes of weights that one decode step reads */
    size_t      made_bytes;   /* weights held in memory of their own: packed or made another type
                               * when opened, not mapped */
    int32_t     bos;          /* -1: none */
    int         n_eos;
    const int32_t *eos;
    const char *tokenizer_note; /* of a llama2.c file: which tokenizer in its folder was taken, or
                                 * why none; else "" */
} tblock_model_info;

/* Describe an open model; the strings live as long as the model. Cannot fail. */
TBLOCK_API void tblock_model_describe(const tblock_model *m, tblock_model_info *out);

/* ---- Text ------------------------------------------------------------------------------------ */

enum {
    TBLOCK_ADD_SPECIAL = 1, /* apply the tokenizer's template (usually: BOS first)          */
    TBLOCK_PARSE_SPECIAL =
        2 /* special tokens spelled in the text become their ids; without this flag they are
                                   ordinary text, which is what untrusted input needs           */
};

/* Text to token ids. text is n_bytes of UTF-8 and may hold NUL and invalid bytes. flags: 0 or the
 * enum above. *ids is allocated (never NULL on success, also for no tokens). Fails with
 * TBLOCK_INPUT for a model without tokenizer and TBLOCK_SYSTEM without memory. */
TBLOCK_API bool tblock_tokenize(const tblock_model *m, const char *text, size_t n_bytes,
                                unsigned flags, int32_t **ids, size_t *n_ids, tblock_error *err);

/* Token ids to text, special tokens shown; the exact bytes, which need not be UTF-8. *text is
 * NUL-terminated too. Fails with TBLOCK_INPUT (an id that the tokenizer does not have, no
 * tokenizer) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_detokenize(const tblock_model *m, const int32_t *ids, size_t n_ids,
                                  char **text, size_t *n_bytes, tblock_error *err);

/* Answer one request of the JSON lines protocol of `tblock tokenize --jsonl`: an object with "text"
 * or "bytes_hex" (optional "mode": "plain" | "special", "add_special": bool), or "ids" to decode.
 * *answer is one line of ASCII JSON without '\n': {"ids": [...]} or {"text": ..., "bytes_hex":
 * ...}. */
TBLOCK_API bool tblock_tokenize_json(const tblock_model *m, const char *line, size_t n_bytes,
                                     char **answer, tblock_error *err);

/* Streaming decode. tblock_stream_put returns the bytes that are now complete (possibly none):
 * whole UTF-8 characters, invalid bytes as they are. The text belongs to the stream and is valid
 * until the next call. continues: true when the text follows other text of the same sequence (then
 * a leading dummy-prefix space is kept). An id that the tokenizer does not have adds nothing. The
 * model must outlive the stream. NULL: no tokenizer (TBLOCK_INPUT), no memory. */
TBLOCK_API tblock_stream *tblock_stream_new(const tblock_model *m, bool continues,
                                            tblock_error *err);
TBLOCK_API const char    *tblock_stream_put(tblock_stream *s, int32_t id, size_t *n_bytes);
/* what is left, half or not */
TBLOCK_API const char    *tblock_stream_flush(tblock_stream *s, size_t *n_bytes);
TBLOCK_API void           tblock_stream_free(tblock_stream *s);

/* ---- Chat (docs/chat.md) --------------------------------------------------------------------- */

typedef struct tblock_chat tblock_chat; /* how a conversation becomes tokens of one model;
                                         * immutable, uses the model */

typedef struct tblock_chat_message {
    const char    *role;    /* "system", "user" or "assistant" */
    const char    *text;    /* any bytes: special tokens spelled in it stay ordinary text */
    size_t         n_bytes;
    const int32_t *ids;     /* of an answer the tokens as they were drawn, without the one that
                             * ended it; or NULL */
    size_t         n_ids;
} tblock_chat_message;

/* The chat format of the model (format NULL), or one chosen: a name of tblock_chat_known, or a JSON
 * object as in docs/format.md, "Chat". Fails with TBLOCK_INPUT (the model has no tokenizer or no
 * format, its chat template is not recognised, bad JSON), TBLOCK_USAGE (an unknown name) and
 * TBLOCK_SYSTEM. */
TBLOCK_API tblock_chat *tblock_chat_new(const tblock_model *m, const char *format,
                                        tblock_error *err);
TBLOCK_API void         tblock_chat_free(tblock_chat *c); /* NULL is accepted */
TBLOCK_API const char  *tblock_chat_known(size_t i);      /* the names, from 0; NULL past the last
                                                           * one */

/* What becomes of a system text: it is told to the model, left out by the format, or an error. */
enum { TBLOCK_CHAT_SYSTEM_TOLD, TBLOCK_CHAT_SYSTEM_IGNORED, TBLOCK_CHAT_SYSTEM_REFUSED };

typedef struct tblock_chat_info {
    const char        *name;       /* "llama3" */
    int                system;     /* the enum above */
    const int32_t     *stop_ids;   /* tokens that end an answer, the model's own among them */
    size_t             n_stop_ids;
    const char *const *stop_texts; /* texts that do */
    size_t             n_stop_texts;
    const char        *answer_prefix; /* what stands between the opening and an answer's content ("
                                       * " after "ASSISTANT:"): where the model draws it, it is no
                                       * part of the message's text */
} tblock_chat_info;
/* lives as long as c */
TBLOCK_API void tblock_chat_describe(const tblock_chat *c, tblock_chat_info *out);

/* A conversation as token ids, BOS and all: a system message first or none, then turns. answer: end
 * with what opens the assistant's answer. The ids are those of the text that the model's chat
 * template renders, tokenized as a whole with special tokens, but what a message spells is never
 * one. An answer with ids keeps them where the format puts its text back unchanged and a special
 * token ends it. *ids is allocated. Fails with TBLOCK_INPUT (a role, an order of roles or a system
 * text that the format has no place for; no turn; an id that is no token) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_chat_render(const tblock_chat *c, const tblock_chat_message *messages,
                                   size_t n, bool answer, int32_t **ids, size_t *n_ids,
                                   tblock_error *err);

/* A conversation as JSON, {"messages": [{"role": ..., "content": ...}, ...]}, and back; an array
 * alone is read too. *json and *messages (one piece of memory, ids NULL) are allocated. Bytes that
 * are no UTF-8 become U+FFFD. Writing fails with TBLOCK_USAGE (another role, NUL in a content),
 * reading with TBLOCK_INPUT, `what` beginning the message (no JSON, the same). tblock_chat_save
 * writes a file of it, atomically, and fails with TBLOCK_USAGE as tblock_chat_to_json does, and
 * with TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_chat_to_json(const tblock_chat_message *messages, size_t n, char **json,
                                    tblock_error *err);
TBLOCK_API bool tblock_chat_save(const tblock_chat_message *messages, size_t n, const char *path,
                                 tblock_error *err);
TBLOCK_API bool tblock_chat_from_json(const char *json, size_t n_bytes, const char *what,
                                      tblock_chat_message **messages, size_t *n, tblock_error *err);

/* The same as text, to look at: which parts of it are special tokens no longer shows. *text is
 * NUL-terminated too. */
TBLOCK_API bool tblock_chat_text(const tblock_chat *c, const tblock_chat_message *messages,
                                 size_t n, bool answer, char **text, size_t *n_bytes,
                                 tblock_error *err);

/* ---- Context and decode ---------------------------------------------------------------------- */

typedef struct tblock_context_options {
    int         n_ctx;    /* longest sequence; 0: the model's own */
    int         n_seqs;   /* sequences 0 .. n_seqs - 1; 0: 1 */
    int         n_batch;  /* most tokens computed at once; longer batches are cut; 0: 512 */
    int         threads;  /* 0: one for each physical core this process may use, fewer for a tiny
                           * model; never more than this many, at times fewer (below) */
    const char *isa;      /* NULL or "auto": the best this CPU has; "scalar", "avx2", "avx512vnni"
                           * ... */
    const char *math;     /* NULL or "auto", "f32", "int8", "bf16" (docs/numerics.md, "Modes") */
    const char *activations; /* NULL or "auto", "8", "16": bits, where quantized weights meet
                              * integers */
    const char *kv_type;  /* NULL or "auto", "f32", "f16", "q8" */
    const char *affinity; /* NULL or "none"; "cores": each of two or more computing threads stays on
                           * a physical core */
    bool        allow_nan; /* logits may be NaN; otherwise tblock_decode fails there and says why */
} tblock_context_options;

/* KV memory grows with the sequences; n_ctx reserves nothing. opt may be NULL. The context makes
 * its threads when it first needs them and ends them with itself; what the system does not give is
 * done without, and decoding takes fewer while other work has the processors. affinity "cores"
 * takes the first cores of the caller's mask, the caller itself pinned to the first while it
 * computes: two such contexts or processes at once take the same ones, unless each has a mask of
 * its own (taskset). Fails with TBLOCK_USAGE (n_ctx over 2^24, or over the model's where positions
 * are learned; n_seqs or n_batch over 65536, threads over 1024; an isa that is unknown or not this
 * processor's; an arithmetic or type that is unknown or has no meaning with these weights),
 * TBLOCK_INPUT (a model without weights) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_context *tblock_context_new(const tblock_model *m,
                                              const tblock_context_options *opt, tblock_error *err);
TBLOCK_API void            tblock_context_free(tblock_context *c); /* NULL is accepted */

typedef struct tblock_item {
    int32_t seq;         /* which sequence */
    int32_t pos;         /* position in it, from 0; must be the sequence's next one */
    int32_t token;       /* 0 .. vocab_size - 1 */
    bool    want_logits; /* compute logits after this token */
} tblock_item;

/* Run the tokens of a batch: prefill, decode and several sequences are this one call, and any way
 * of cutting the same tokens into calls gives the same bits. Items of one sequence stand in
 * ascending order of position. Fails with TBLOCK_USAGE (a position that is not the next, an id out
 * of range, a full context: both numbers named; the context is unchanged), TBLOCK_SYSTEM (memory:
 * pieces of n_batch tokens before it are done and kept, see tblock_seq_length) or TBLOCK_INPUT (a
 * wanted logit is NaN, unless the context allows that: all weights are read then, and the first
 * that is NaN or infinite is named; the tokens are done, and tblock_logits shows them). */
TBLOCK_API bool tblock_decode(tblock_context *c, const tblock_item *items, size_t n_items,
                              tblock_error *err);

/* Logits [vocab_size] after item i of the last tblock_decode; NULL where not asked for. Valid until
 * the next decode. */
TBLOCK_API const float *tblock_logits(const tblock_context *c, size_t i);

/* A hash of n floats (NaN canonical), the one `run --stats` prints: equal bits give equal
 * hashes. */
TBLOCK_API uint64_t tblock_hash_floats(const float *x, size_t n);

/* Tokens held by a sequence; -1 for a sequence that does not exist. */
TBLOCK_API int32_t tblock_seq_length(const tblock_context *c, int32_t seq);

/* Forget all but the first length tokens of a sequence. Fails (TBLOCK_USAGE) when a windowed layer
 * has already given up positions that token length would need; length 0 always works. */
TBLOCK_API bool tblock_seq_rewind(tblock_context *c, int32_t seq, int32_t length,
                                  tblock_error *err);

/* Make sequence `to` the first n_tokens of sequence `from`, whatever it held before: it can go on
 * from there by itself, with the bits it would have from scratch. KV tiles of 64 tokens are shared,
 * not copied, and counted once in kv_bytes; a partial last one is copied when either sequence goes
 * on. Fails with TBLOCK_USAGE (a sequence that does not exist, both the same, more tokens than
 * there are; a windowed layer has given up positions that are needed: as tblock_seq_rewind) and
 * TBLOCK_SYSTEM (memory); `to` is then unchanged or empty. */
TBLOCK_API bool tblock_seq_copy(tblock_context *c, int32_t from, int32_t to, int32_t n_tokens,
                                tblock_error *err);

/* Write sequence seq to a file (docs/format.md, "State"), atomically: tokens [n_tokens], all the
 * tokens it holds, and its KV cache. The file is bound to the model by its hash, and to everything
 * else that changes bits. A model file without a hash is read as a whole to make one. Fails with
 * TBLOCK_USAGE (an empty sequence, another number of tokens, an id that is no token, the model's
 * own file as path) and TBLOCK_SYSTEM. */
TBLOCK_API bool tblock_state_save(const tblock_context *c, int32_t seq, const int32_t *tokens,
                                  size_t n_tokens, const char *path, tblock_error *err);

/* Make sequence seq, whatever it held before, the one that the file holds; it goes on with the same
 * bits as from scratch. The KV cache is mapped, not read: pages come when they are used, and what
 * the sequence writes stays in this process. *tokens is allocated. Replace such a file by renaming;
 * truncating it under a running context raises SIGBUS. Fails with TBLOCK_INPUT (no state file, or
 * made with another model, KV type, ...: what differs is named), TBLOCK_USAGE (a sequence that does
 * not exist, more tokens than the context holds) and TBLOCK_SYSTEM; the sequence is then unchanged
 * or empty. */
TBLOCK_API bool tblock_state_load(tblock_context *c, int32_t seq, const char *path,
                                  int32_t **tokens, size_t *n_tokens, tblock_error *err);

/* Called during tblock_decode with the residual stream: "embed", then of each layer "layer0.attn"
 * (after its attention) and "layer0" (after its feed-forward network, the layer's output), at last
 * "final_norm": x is [n_tok, stride] f32 of which d_model columns count, for items first .. first +
 * n_tok - 1 of the batch; the other threads wait. NULL removes the observer. tblock_logits_write
 * and tblock_verify set it aside; the other functions that run a context call it. */
typedef void (*tblock_observer)(void *user, const char *name, size_t first, int n_tok,
                                const float *x, size_t stride);
TBLOCK_API void tblock_observe(tblock_context *c, tblock_observer fn, void *user);

typedef struct tblock_context_info {
    int         n_ctx, n_seqs, n_batch, threads;
    const char *isa, *math, *kv_type;
    const char *activations;      /* "8", "16", "auto" (both occur), "none" (no integers) */
    size_t      kv_bytes;         /* KV memory in use now          */
    size_t      activation_bytes; /* buffers of the context        */
} tblock_context_info;
TBLOCK_API void tblock_context_describe(const tblock_context *c, tblock_context_info *out);

/* Where the time of tblock_decode goes: one row for each operation of the forward pass, summed over
 * layers and calls. */
typedef struct tblock_profile_row {
    const char *name;        /* "embed", "norm", "qkv", "attention", "wo", "gate_up", "down",
                              * "head" */
    uint64_t    calls;
    double      seconds;     /* from its start to the start of the next, on the first thread,
                              * waiting for others included */
    double      bytes;       /* of weights or KV cache, counted once a call of up to n_batch
                              * tokens */
    double      operations;  /* of its products: a multiply-add is 2 */
} tblock_profile_row;

/* on: begin from zero; off: stop, what was measured stays to be read. Fails with TBLOCK_SYSTEM
 * without memory. No bit changes. */
TBLOCK_API bool tblock_profile(tblock_context *c, bool on, tblock_error *err);

/* Fills up to n rows in the order of the first calls; returns how many there are (at most 16). */
TBLOCK_API size_t tblock_profile_read(const tblock_context *c, tblock_profile_row *row, size_t n);

/* ---- Sampling (docs/numerics.md) ------------------------------------------------------------- */

typedef struct tblock_sampler_options {
    float    temp;           /* 0: greedy; else at least 1e-6                               */
    int      top_k;          /* 0: all                                                      */
    double   top_p;          /* 0, 1: all                                                   */
    float    min_p;          /* 0: all                                                      */
    float    repeat_penalty; /* 0, 1: none                                                  */
    uint64_t seed;
} tblock_sampler_options;

/* opt may be NULL: greedy. Fails with TBLOCK_USAGE (a number outside of its range). */
TBLOCK_API tblock_sampler *tblock_sampler_new(int vocab_size, const tblock_sampler_options *opt,
                                              tblock_error *err);
TBLOCK_API void            tblock_sampler_free(tblock_sampler *s);

/* Draw the token with index `index` of its sequence (the first token of a sequence has index 0)
 * from logits [vocab_size]. previous [n_previous]: ids that the repetition penalty applies to (may
 * be NULL). The same arguments give the same token on every machine. A NaN logit is an error
 * (TBLOCK_INPUT), and a previous id that is no token. */
TBLOCK_API bool tblock_sampler_next(tblock_sampler *s, const float *logits, const int32_t *previous,
                                    size_t n_previous, uint32_t index, int32_t *token,
                                    tblock_error *err);

/* ---- Generation ------------------------------------------------------------------------------ */

/* One sequence of a context that draws its own next tokens. Any number of them go on together, and
 * each draws what it would draw alone, to the bit. */
typedef struct tblock_generation tblock_generation;

/* Called for each token that is drawn: `index` is its place in the sequence, logits [vocab_size]
 * are those that it was drawn from. A token that ends the generation is told too. */
typedef void (*tblock_token_fn)(void *user, size_t index, int32_t token, const float *logits);

typedef struct tblock_generation_options {
    const int32_t         *ids;       /* [n_ids] the text to go on from: at least one token */
    size_t                 n_ids;
    tblock_sampler_options sampling;  /* zeroed: greedy */
    int                    max_tokens; /* most to draw; 0: until the context is full; -1: none */
    const int32_t         *stop_ids;  /* [n_stop_ids] tokens that end it; NULL: the model's own */
    size_t                 n_stop_ids;
    const char *const     *stop_texts; /* [n_stop_texts] it ends before one of these appears */
    size_t                 n_stop_texts;
    const char            *skip;      /* dropped where the new text begins with it; may be NULL
                                         (tblock_chat_info.answer_prefix) */
    int                    draft;     /* guess at most so many tokens ahead, up to 63; 0: none. A
                                         guess is what followed the last tokens where they occurred
                                         before. All are checked in one batch, which takes less time
                                         where a text repeats itself and draws the same tokens */
    int                    draft_match; /* fewest tokens that must have occurred before; 0: 2 */
    bool                   prompt_logits; /* call on_token for ids too, from the second on; none of
                                             them is reused then */
    tblock_token_fn        on_token;  /* may be NULL */
    void                  *user;      /* passed to on_token */
} tblock_generation_options;

/* Take a free sequence of the context: the one that holds the longest beginning of ids, which is
 * not computed again. Until it is closed, only the generation may change that sequence. Options are
 * copied. Fails with TBLOCK_USAGE (no token, more than the context holds, an id or number out of
 * range, an empty stop text, no free sequence), TBLOCK_INPUT (stop texts, but the model has no
 * tokenizer) and TBLOCK_SYSTEM. */
TBLOCK_API tblock_generation *tblock_generation_open(tblock_context *c,
                                                     const tblock_generation_options *opt,
                                                     tblock_error *err);

/* Close it before its context; NULL is accepted. The sequence is free again. It keeps its tokens
 * for the next generation that begins with them, until tblock_seq_rewind. */
TBLOCK_API void tblock_generation_close(tblock_generation *g);

/* Take n generations one step on, in one batch: each computes a piece of its prompt, or its last
 * token and a draft, and then draws. One that has ended does nothing. prompt_tokens: at most so
 * many tokens of prompts, given out in the order of the list; 0: the context's n_batch. Which
 * generations take part and how prompts are cut changes no bit.
 * What fails for one generation (a NaN logit) ends that one, and its info says why. False: no one
 * moved (TBLOCK_SYSTEM: no memory; TBLOCK_USAGE: a generation of another context, or one that is in
 * the list twice); the call may be tried again. */
TBLOCK_API bool tblock_advance(tblock_context *c, tblock_generation *const *generations, size_t n,
                               size_t prompt_tokens, tblock_error *err);

/* End it with its next step, which computes nothing more of it. May be called from on_token, from
 * another thread and from a signal handler. */
TBLOCK_API void tblock_generation_stop(tblock_generation *g);

enum tblock_end {
    TBLOCK_GOES_ON     = 0,
    TBLOCK_END_TOKEN   = 1, /* drew a token of stop_ids */
    TBLOCK_END_TEXT    = 2, /* a stop text appeared */
    TBLOCK_END_LENGTH  = 3, /* max_tokens are drawn */
    TBLOCK_END_CONTEXT = 4, /* the context is full */
    TBLOCK_END_STOPPED = 5, /* tblock_generation_stop */
    TBLOCK_END_FAILED  = 6  /* error says why */
};

typedef struct tblock_generation_info {
    int                 end;    /* enum tblock_end */
    const tblock_error *error;  /* of TBLOCK_END_FAILED */
    const int32_t      *ids;    /* [n_ids] given, then drawn; not the token that ended it */
    size_t              n_ids, n_given;
    size_t              n_reused; /* of those given: found in the sequence */
    size_t              n_held; /* of all: computed or found, so that the sequence holds them; it
                                 * may hold a wrong draft behind them. The prompt is read when
                                 * n_held reaches n_given */
    const char         *text;   /* [n_bytes] of the tokens drawn, in whole UTF-8 characters and as
                                   far as it is no part of a stop text; the rest comes at the
                                   end. What is there stays. "" for a model without tokenizer */
    size_t              n_bytes;
    const float        *logits; /* [vocab_size] that the last token was drawn from, until the
                                   context computes again; NULL: none, or gone */
    int32_t             seq;    /* the sequence */
    size_t              n_steps; /* after the prompt: each computes one token and a draft */
    size_t              n_proposed, n_accepted; /* tokens of drafts; those that were right */
} tblock_generation_info;

/* What has come of it. Pointers are good until its next step. Cannot fail. */
TBLOCK_API void tblock_generation_describe(const tblock_generation *g, tblock_generation_info *out);

#ifdef __cplusplus
}
#endif
#endif
