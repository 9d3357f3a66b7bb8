/* tblock.h: run Llama-style language models on a CPU, with the same bits everywhere.
 *
 * This header runs models; tblock_tools.h explains, converts and trains them. Handles are
 * opaque; docs/embed.md has an example. No signal handler, no printing, no state of the process
 * but tblock_hold's files and a list of mapped ones. Any number of threads may share a model; one
 * at a time may use a context with its generations, or a sampler (config=debug: two abort).
 *
 * Options: a zeroed struct, or NULL for it, means the defaults. While the library is at version 0,
 * structs may grow between minor versions: compile against the header of the library you link.
 *
 * Errors: a function that can fail returns false or NULL and fills *err, which may be NULL. Any
 * such function may fail with TBLOCK_SYSTEM (memory, disk). What it hands out through a pointer to
 * a pointer belongs to the caller, who releases it with tblock_free(); after a failure it is NULL
 * and its count is 0. NULL for a required pointer is TBLOCK_USAGE with its name (in a function
 * without err: nothing is done, the result is NULL, 0 or -1). An array of no items may be NULL.
 *
 * The host's rounding mode, subnormal flags and locale change no result, and are restored on
 * return. Callbacks run in the caller's thread with tblock's settings (round to nearest, C locale).
 * They must return, not throw or jump, and not call functions of the context that calls them. */
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
#define TBLOCK_NUMERICS_VERSION 3 /* changes when any output bit changes (docs/numerics.md) */
#define TBLOCK_UNICODE_VERSION "16.0" /* of the tokenizers' patterns (docs/tokenizers.md) */

/* Also the exit status of the program. */
enum tblock_status {
    TBLOCK_OK      = 0,
    TBLOCK_NO      = 1, /* the answer is no: verify, a check           */
    TBLOCK_USAGE   = 2, /* wrong usage: an option or argument          */
    TBLOCK_INPUT   = 3, /* bad or unsupported input file               */
    TBLOCK_SYSTEM  = 4, /* the system failed: memory, disk, I/O        */
    TBLOCK_UNKNOWN = 5  /* inconclusive: audit, a receipt not checked  */
};

typedef struct tblock_error {
    int  status;   /* enum tblock_status                               */
    char msg[512]; /* one line: file, thing, expected, found; no '\n'  */
} tblock_error;

typedef struct tblock_model   tblock_model;   /* weights, config, tokenizer; never changes */
typedef struct tblock_context tblock_context; /* KV caches and activations of one run */
typedef struct tblock_sampler tblock_sampler; /* options and scratch memory of the sampler */
typedef struct tblock_constraint tblock_constraint; /* made by tblock_tools.h */
typedef struct tblock_stream  tblock_stream;  /* token ids to UTF-8 text, never half a character */

TBLOCK_API const char *tblock_version(void); /* the TBLOCK_VERSION of the library that runs */
TBLOCK_API void        tblock_free(void *p); /* memory that the library gave to the caller */

/* ---- Model ----------------------------------------------------------------------------------- */

typedef struct tblock_open_options {
    bool mlock;      /* lock the weights into memory; fails if the limit forbids it */
    bool populate;   /* of a model file: read it whole now, not at first use */
    const char *type; /* of the matrices: NULL or "auto": as stored; "f32", "f16", "bf16", "q8",
                       * "q4": made while loading, with the bits of tblock_quantize */
    const char *const *keep; /* [n_keep] with type: as in tblock_quantize_options */
    size_t             n_keep;
    bool check;      /* read and check all data first, as the check of tblock_report does */
    void (*progress)(void *user, double done); /* 0 .. 1 of the work; may be NULL */
    void *user;      /* passed to progress and go_on */
    bool (*go_on)(void *user, double done); /* as progress; false: stop, with TBLOCK_SYSTEM */
} tblock_open_options;

/* Open a model: a model file, a Hugging Face or Meta folder, a .gguf or a llama2.c checkpoint
 * (docs/sources.md). A model file is mapped: only its headers are read and checked, weights are
 * paged in when they are used, and only `check` finds out whether they are unchanged and finite. A
 * .gguf is mapped too; before the second pass its quantized matrices are packed into the model's
 * own memory. Other sources, and any with a type, are packed now, by one thread per physical core.
 * A mapped file may be replaced by rename; truncating it under a running model raises SIGBUS. Fails
 * with TBLOCK_INPUT (not a model; a tensor that does not fit the config; with check: data that
 * differs from its sha256, padding that is not zero, a weight that is not finite; with a type: a
 * weight that it cannot hold, a matrix that is quantized already) and TBLOCK_USAGE (type, keep). */
TBLOCK_API tblock_model *tblock_open(const char *path, const tblock_open_options *opt,
                                     tblock_error *err);
TBLOCK_API void          tblock_close(tblock_model *m); /* after its contexts; accepts NULL */

typedef struct tblock_model_info {
    int         d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx, window;
    bool        tied_embeddings, has_weights, has_tokenizer;
    const char *family;       /* "llama", "mistral", ... */
    const char *hash;         /* sha256 of the data section as recorded in the file, or "" */
    const char *weight_types; /* the matrices' types, most bytes first: "bf16" or "bf16,f32" */
    size_t      file_bytes;   /* of a model file; 0 for other sources */
    uint64_t    n_params;
    size_t      bytes_per_token; /* bytes of weights that one decode step reads */
    size_t      made_bytes;   /* weights in private memory: packed, converted, in huge pages */
    int32_t     bos;          /* -1: none */
    int         n_eos;
    const int32_t *eos;
    const char *tokenizer_note; /* llama2.c, Meta: which tokenizer beside it is used, or why none */
    size_t      left_bytes, memory_bytes; /* weights that stay in the file; memory available then */
} tblock_model_info;

/* Describe an open model; the strings live as long as the model. Cannot fail. */
TBLOCK_API void tblock_model_describe(const tblock_model *m, tblock_model_info *out);

/* ---- Text ------------------------------------------------------------------------------------ */

enum {
    TBLOCK_ADD_SPECIAL   = 1, /* apply the tokenizer's template (usually: BOS first) */
    TBLOCK_PARSE_SPECIAL = 2  /* special tokens spelled in the text become their ids; without this
                               * flag they are ordinary text, which untrusted input needs */
};

/* Text to token ids. text [n_bytes] is UTF-8 and may hold NUL and invalid bytes. flags: 0 or the
 * enum above. *ids is allocated, also for no tokens. Fails with TBLOCK_INPUT (no tokenizer). */
TBLOCK_API bool tblock_tokenize(const tblock_model *m, const char *text, size_t n_bytes,
                                unsigned flags, int32_t **ids, size_t *n_ids, tblock_error *err);

/* Token ids to text: the exact bytes, which need not be UTF-8, with special tokens. *text is
 * NUL-terminated too. Fails with TBLOCK_INPUT (an id that the tokenizer lacks, no tokenizer). */
TBLOCK_API bool tblock_detokenize(const tblock_model *m, const int32_t *ids, size_t n_ids,
                                  char **text, size_t *n_bytes, tblock_error *err);

/* Streaming decode. tblock_stream_put returns the bytes that are now complete (possibly none):
 * whole UTF-8 characters, invalid bytes as they are. They belong to the stream until the next call.
 * continues: the text follows other text of the same sequence, so a leading dummy space is kept. An
 * id that the tokenizer lacks adds nothing. The model must outlive the stream. Fails with
 * TBLOCK_INPUT (no tokenizer). */
TBLOCK_API tblock_stream *tblock_stream_new(const tblock_model *m, bool continues,
                                            tblock_error *err);
TBLOCK_API const char    *tblock_stream_put(tblock_stream *s, int32_t id, size_t *n_bytes);
TBLOCK_API const char    *tblock_stream_flush(tblock_stream *s, size_t *n_bytes); /* the rest */
TBLOCK_API void           tblock_stream_free(tblock_stream *s);

/* ---- Chat (docs/chat.md) --------------------------------------------------------------------- */

typedef struct tblock_chat tblock_chat; /* how a conversation becomes tokens of one model */

typedef struct tblock_chat_message {
    const char    *role;    /* "system", "user", "assistant", "tool", ... */
    const char    *text;    /* its content: special tokens spelled in it stay ordinary text */
    size_t         n_bytes;
    const int32_t *ids; size_t n_ids; /* of a reply: its sampled tokens without the end; or NULL */
    const char    *json;    /* all of it as a JSON object, instead of role and text; or NULL */
} tblock_chat_message;

typedef struct tblock_chat_options {
    const char *format; /* NULL: the model's own; a name of tblock_chat_known; or a template */
    const char *args;   /* JSON object: more variables, as {"enable_thinking": false}; or NULL */
    const char *tools;  /* JSON array of the tools that the model may call; or NULL */
    const char *date;   /* "YYYY-MM-DD" for templates that use it; NULL: none */
} tblock_chat_options;

/* Fails with TBLOCK_INPUT (no tokenizer, no template, one that cannot be read) and TBLOCK_USAGE. */
TBLOCK_API tblock_chat *tblock_chat_new(const tblock_model *m, const tblock_chat_options *opt,
                                        tblock_error *err);
TBLOCK_API void         tblock_chat_free(tblock_chat *c); /* accepts NULL */
TBLOCK_API const char  *tblock_chat_known(size_t i);      /* name i, from 0; NULL past the last */

/* What the template does with a system message: renders it, drops it or raises an error. */
enum { TBLOCK_CHAT_SYSTEM_TOLD, TBLOCK_CHAT_SYSTEM_IGNORED, TBLOCK_CHAT_SYSTEM_REFUSED };

typedef struct tblock_chat_info {
    const char        *name;       /* "llama3"; "the model's own"; "custom"; lives as long as c */
    int                system;     /* the enum above */
    const int32_t *stop_ids; size_t n_stop_ids; /* tokens that end a reply, also the model's own */
    const char *const *stop_texts; size_t n_stop_texts; /* strings that end it */
    const char        *answer_prefix; /* (" " after "ASSISTANT:"): drop it from the model's reply */
} tblock_chat_info;

TBLOCK_API void tblock_chat_describe(const tblock_chat *c, tblock_chat_info *out);

/* A conversation as token ids: those of the rendered text as a whole, but the text of a message
 * never becomes a special token. answer: end with what opens the assistant's reply. A reply with
 * ids keeps them if the template renders its text unchanged and a special token ends it. Fails with
 * TBLOCK_INPUT (the template raises an error, no message, an id that is not a token). */
TBLOCK_API bool tblock_chat_render(const tblock_chat *c, const tblock_chat_message *messages,
                                   size_t n, bool answer, int32_t **ids, size_t *n_ids,
                                   tblock_error *err);

/* The same as text, which no longer shows which parts are special tokens; NUL-terminated too. */
TBLOCK_API bool tblock_chat_text(const tblock_chat *c, const tblock_chat_message *messages,
                                 size_t n, bool answer, char **text, size_t *n_bytes,
                                 tblock_error *err);

typedef struct tblock_answer tblock_answer; /* parses one reply; the chat must outlive it */
enum { TBLOCK_ANSWER_CONTENT, TBLOCK_ANSWER_REASONING, TBLOCK_ANSWER_CALL, TBLOCK_ANSWER_CALL_ID,
       TBLOCK_ANSWER_ARGUMENTS, TBLOCK_ANSWER_CALL_END };
typedef struct tblock_answer_part { int kind, call; const char *text; size_t n; }
    tblock_answer_part;
/* tblock_answer_put parses the next bytes of a reply, NULL at its end, into *parts [n], which are
 * valid until the next call. Tool calls (number, name, arguments as JSON) are parsed if the chat
 * has tools. tblock_answer_json gives the message, with reasoning_content and tool_calls. */
TBLOCK_API tblock_answer *tblock_answer_new(const tblock_chat *c, tblock_error *err);
TBLOCK_API bool tblock_answer_put(tblock_answer *a, const char *text, size_t n_bytes,
                                  const tblock_answer_part **parts, size_t *n, tblock_error *err);
TBLOCK_API bool tblock_answer_json(const tblock_answer *a, char **json, tblock_error *err);
TBLOCK_API void tblock_answer_free(tblock_answer *a); /* accepts NULL */
/* A conversation as JSON, {"messages": [{"role": ..., "content": ...}, ...]}, and back; a bare
 * array is read too. *json and *messages (one allocation, ids NULL) are allocated. Bytes that are
 * not UTF-8 become U+FFFD. Writing fails with TBLOCK_USAGE (no role, NUL in a content), reading
 * with TBLOCK_INPUT (bad JSON, the same); the error message begins with `what`. */
TBLOCK_API bool tblock_chat_to_json(const tblock_chat_message *messages, size_t n, char **json,
                                    tblock_error *err);
TBLOCK_API bool tblock_chat_save(const tblock_chat_message *messages, size_t n, const char *path,
                                 tblock_error *err);
TBLOCK_API bool tblock_chat_from_json(const char *json, size_t n_bytes, const char *what,
                                      tblock_chat_message **messages, size_t *n, tblock_error *err);

/* ---- Context and decode ---------------------------------------------------------------------- */

typedef struct tblock_context_options {
    int         n_ctx;    /* longest sequence; 0: the model's own */
    int         n_seqs;   /* sequences 0 .. n_seqs - 1; 0: 1 */
    int         n_batch;  /* most tokens computed at once; longer batches are split; 0: 512 */
    int         threads;  /* at most; 0: one per physical core, fewer for a tiny model */
    int         rope_length; /* for rotations that depend on a length; 0: n_ctx (numerics.md) */
    const char *isa;      /* NULL or "auto": the best of this CPU; "scalar", "avx2", ... */
    const char *math;     /* NULL or "auto", "f32", "int8", "bf16" (docs/numerics.md, "Modes") */
    const char *activations; /* bits, for quantized weights: NULL or "auto", "8", "16" */
    const char *kv_type;  /* NULL or "auto", "f32", "f16", "q8" */
    const char *affinity; /* NULL or "none"; "cores": pin each thread to a physical core */
    bool        allow_nan; /* logits may be NaN; otherwise tblock_decode fails and says why */
    const char *pages; /* weights move into huge pages: NULL, "auto": if it pays; "huge"; "file" */
    const struct tblock_recorded *recorded; /* of a record (tblock_tools.h); NULL: none */
} tblock_context_options;

/* Make a context. KV memory grows with the sequences; n_ctx reserves nothing. Threads start when
 * they are first needed and end with the context. It runs on fewer if the system gives no more, and
 * decodes on fewer while other programs use the processors. affinity "cores" takes the first cores
 * of the caller's mask and pins the caller while it computes, so two such contexts or processes
 * share cores unless each has its own mask (taskset). Fails with TBLOCK_USAGE (n_ctx over 2^24, or
 * over the model's if positions are learned; n_seqs or n_batch over 65536, threads over 1024; an
 * isa that is unknown or not this processor's; an arithmetic or type that is unknown or does not
 * fit the weights), TBLOCK_INPUT (no weights) and TBLOCK_SYSTEM (memory; not for n_ctx tokens). */
TBLOCK_API tblock_context *tblock_context_new(const tblock_model *m,
                                              const tblock_context_options *opt, tblock_error *err);
TBLOCK_API void            tblock_context_free(tblock_context *c); /* accepts NULL */

typedef struct tblock_item {
    int32_t seq;         /* which sequence */
    int32_t pos;         /* position in it, from 0; must be the sequence's next one */
    int32_t token;       /* 0 .. vocab_size - 1 */
    bool    want_logits; /* compute logits after this token */
} tblock_item;

/* Run the tokens of a batch. Prefill, decode and several sequences are this one call, and any split
 * of the same tokens into calls gives the same bits. Items of one sequence must be in ascending
 * order of position. Fails with TBLOCK_USAGE (a position that is not the next, an id out of range,
 * a full context; nothing is computed then), TBLOCK_SYSTEM (memory; earlier chunks of n_batch
 * tokens are computed and kept, see tblock_seq_length) and TBLOCK_INPUT (a wanted logit is NaN,
 * unless the context allows that: the message names the first weight that is NaN or infinite; the
 * tokens are computed, and tblock_logits has their logits). */
TBLOCK_API bool tblock_decode(tblock_context *c, const tblock_item *items, size_t n_items,
                              tblock_error *err);

/* Logits [vocab_size] after item i of the last tblock_decode, until the next one; NULL if item i
 * did not ask for them. */
TBLOCK_API const float *tblock_logits(const tblock_context *c, size_t i);

/* A hash of n floats (all NaNs are equal): equal bits, equal hashes. `run --stats` prints it. */
TBLOCK_API uint64_t tblock_hash_floats(const float *x, size_t n);

/* Tokens held by a sequence; -1 for a sequence that does not exist. */
TBLOCK_API int32_t tblock_seq_length(const tblock_context *c, int32_t seq);

/* Drop all but the first length tokens of a sequence. Fails with TBLOCK_USAGE if a sliding-window
 * layer no longer holds what token `length` would need; length 0 always works. */
TBLOCK_API bool tblock_seq_rewind(tblock_context *c, int32_t seq, int32_t length,
                                  tblock_error *err);

/* Make sequence `to` the first n_tokens of sequence `from`, whatever it held before. It continues
 * with the bits that it would have from scratch. KV tiles of 64 tokens are shared, and counted once
 * in kv_bytes; a partial last tile is copied when either sequence continues. Fails with
 * TBLOCK_USAGE (a sequence that does not exist, both the same, more tokens than there are; as
 * tblock_seq_rewind); `to` is then unchanged or empty. */
TBLOCK_API bool tblock_seq_copy(tblock_context *c, int32_t from, int32_t to, int32_t n_tokens,
                                tblock_error *err);

/* Write sequence seq to a file (docs/format.md, "State"), whole or not at all: tokens [n_tokens],
 * all the tokens that it holds, and its KV cache. The file is bound to the model by its hash, and
 * to everything else that changes bits. If the model file records no hash, all of it is read to
 * compute one. Fails with TBLOCK_USAGE (an empty sequence, another number of tokens, an id that is
 * not a token, a path to the model itself). */
TBLOCK_API bool tblock_state_save(const tblock_context *c, int32_t seq, const int32_t *tokens,
                                  size_t n_tokens, const char *path, tblock_error *err);

/* Make sequence seq, whatever it held before, the one in the file; it continues with the bits that
 * it would have from scratch. The KV cache is mapped: pages are read when used, and what the
 * sequence writes stays in this process. *tokens is allocated. Replace such a file by renaming;
 * truncating it under a running context raises SIGBUS. Fails with TBLOCK_INPUT (not a state, or of
 * another model, KV type, ...: the message names it) and TBLOCK_USAGE (a sequence that does not
 * exist, more tokens than the context holds); the sequence is then unchanged or empty. */
TBLOCK_API bool tblock_state_load(tblock_context *c, int32_t seq, const char *path,
                                  int32_t **tokens, size_t *n_tokens, tblock_error *err);

/* Called during tblock_decode with the residual stream: "embed"; for each layer "layer0.attn"
 * (after attention) and "layer0" (after the feed-forward network); "final_norm". x is [n_tok,
 * stride] f32, of which d_model columns count, for items first .. first + n_tok - 1 of the batch.
 * The other threads wait. NULL removes the observer. tblock_logits_write and tblock_verify suspend
 * it; other functions that run a context call it. */
typedef void (*tblock_observer)(void *user, const char *name, size_t first, int n_tok,
                                const float *x, size_t stride);
TBLOCK_API void tblock_observe(tblock_context *c, tblock_observer fn, void *user);

typedef struct tblock_context_info {
    int         n_ctx, n_seqs, n_batch, threads, rope_length; /* 0: none */
    const char *isa, *math, *kv_type;
    const char *activations;      /* "8", "16", "auto" (both occur), "none" (no integers) */
    size_t      kv_bytes, kv_tile_bytes; /* KV memory in use; of 64 tokens of one sequence */
    size_t      activation_bytes, kv_room; /* buffers; KV memory that fits at first, 0: unknown */
} tblock_context_info;
TBLOCK_API void tblock_context_describe(const tblock_context *c, tblock_context_info *out);

/* ---- Sampling (docs/numerics.md) ------------------------------------------------------------- */

typedef struct tblock_sampler_options {
    float    temp;           /* temperature; 0: greedy; else at least 1e-6 */
    int      top_k;          /* 0: all */
    int      min_tokens;     /* until so many are sampled, end_ids are masked; 0: off */
    double   top_p;          /* 0, 1: all */
    float    min_p, repeat_penalty; /* 0: all; 0, 1: none */
    float    presence_penalty, frequency_penalty; /* of tokens sampled before; 0: none */
    const int32_t *bias_ids; /* [n_bias]: bias [n_bias] is added to these logits */
    const float   *bias;
    const int32_t *end_ids;  /* [n_end_ids] end the text. A generation sets these and n_given */
    size_t   n_bias, n_end_ids, n_given; /* n_given: of `previous`, those that were not sampled */
    uint64_t seed;
} tblock_sampler_options;

/* Make a sampler. Fails with TBLOCK_USAGE (a number out of range). */
TBLOCK_API tblock_sampler *tblock_sampler_new(int vocab_size, const tblock_sampler_options *opt,
                                              tblock_error *err);
TBLOCK_API void            tblock_sampler_free(tblock_sampler *s);

/* Sample a token from logits [vocab_size]. index is its position in the sequence, from 0.
 * previous [n_previous]: ids that the repetition penalty applies to; may be NULL. The
 * same arguments give the same token on every machine. Fails with TBLOCK_INPUT (a NaN logit, a
 * previous id that is not a token). */
TBLOCK_API bool tblock_sampler_next(tblock_sampler *s, const float *logits, const int32_t *previous,
                                    size_t n_previous, uint32_t index, int32_t *token,
                                    tblock_error *err);

/* ---- Generation ------------------------------------------------------------------------------ */

/* A sequence of a context that samples its own next tokens. Any number run in one batch, each with
 * the bits that it would have alone. */
typedef struct tblock_generation tblock_generation;

/* Called for each sampled token, also for one that ends the generation. index is its position in
 * the sequence; it was sampled from logits [vocab_size], as tblock_logits has them. */
typedef void (*tblock_token_fn)(void *user, size_t index, int32_t token, const float *logits);

typedef struct tblock_generation_options {
    const int32_t         *ids;       /* [n_ids] the prompt: at least one token */
    size_t                 n_ids;
    size_t                 n_drawn;   /* the last n_drawn of ids were sampled by an interrupted
                                       * generation, which this one continues exactly */
    tblock_sampler_options sampling;  /* zeroed: greedy */
    int                    max_tokens; /* most to sample; 0: until the context is full; -1: none */
    const int32_t         *stop_ids;  /* [n_stop_ids] tokens that end it; NULL: the model's own */
    size_t                 n_stop_ids;
    const char *const     *stop_texts; /* [n_stop_texts] it ends before one, after min_tokens */
    size_t                 n_stop_texts;
    tblock_constraint     *constraint; /* the text fits it, unless cut short; not with stop_texts,
                                        * and skip is ignored. Generations share it; NULL: none */
    const char            *skip;      /* dropped from the start of the new text; may be NULL
                                       * (tblock_chat_info.answer_prefix) */
    int                    draft;     /* most draft tokens per step, up to 63; 0: none. They are
                                       * what followed the last tokens earlier (prompt lookup), or
                                       * of tblock_draft_by's drafter. The text stays the same */
    int                    draft_match; /* fewest tokens that must match for prompt lookup; 0: 2 */
    bool                   prompt_logits; /* on_token for ids too, but the first; none is reused */
    uint64_t               cache_scope; /* only prefixes of generations with the same are reused */
    int                    pool;      /* enum tblock_pool (tblock_tools.h): for an embedding */
    tblock_token_fn        on_token;  /* may be NULL */
    void                  *user;      /* passed to on_token */
} tblock_generation_options;

/* Take a free sequence of the context. The longest prefix of ids in its cache_scope is reused.
 * Until the generation is closed, only it may change its sequence. Options are copied. Fails with
 * TBLOCK_USAGE (no token, more than the context holds, an id or number out of range, an empty stop
 * string, no free sequence, a constraint of another model or with stop strings) and TBLOCK_INPUT
 * (stop strings without a tokenizer). */
TBLOCK_API tblock_generation *tblock_generation_open(tblock_context *c,
                                                     const tblock_generation_options *opt,
                                                     tblock_error *err);

/* Close it before its context; accepts NULL. The sequence is free again, and keeps its tokens as a
 * cached prefix for later generations, until tblock_seq_rewind. */
TBLOCK_API void tblock_generation_close(tblock_generation *g);

/* Run one step of n generations in one batch: each computes a chunk of its prompt, or its last
 * token and a draft, and samples once its prompt is complete. One that has ended does nothing.
 * prompt_tokens: most prompt tokens in this step, given out in the order of the list; 0: n_batch.
 * No bit depends on which generations take part or how prompts are chunked. A failure of one (a NaN
 * logit) ends that one, and its info says why. Returns false if none advanced (TBLOCK_SYSTEM: no
 * memory; TBLOCK_USAGE: a generation of another context, or twice in the list); the call may be
 * tried again. */
TBLOCK_API bool tblock_advance(tblock_context *c, tblock_generation *const *generations, size_t n,
                               size_t prompt_tokens, tblock_error *err);

/* End it at its next step, which computes nothing more for it. Safe in on_token, in another thread
 * and in a signal handler. */
TBLOCK_API void tblock_generation_stop(tblock_generation *g);

enum tblock_end {
    TBLOCK_GOES_ON     = 0,
    TBLOCK_END_TOKEN   = 1, /* sampled a token of stop_ids */
    TBLOCK_END_TEXT    = 2, /* a stop string appeared */
    TBLOCK_END_LENGTH  = 3, /* max_tokens are sampled */
    TBLOCK_END_CONTEXT = 4, /* the context is full */
    TBLOCK_END_STOPPED = 5, /* tblock_generation_stop */
    TBLOCK_END_FAILED  = 6, /* error says why */
    TBLOCK_END_FITS    = 7  /* the text fits the constraint, and nothing may follow */
};

typedef struct tblock_generation_info {
    int                 end, stop; /* enum tblock_end; which of stop_texts appeared */
    const tblock_error *error;  /* of TBLOCK_END_FAILED */
    const int32_t      *ids;    /* [n_ids] prompt, then generated; not the token that ended it */
    size_t              n_ids, n_given;
    size_t              n_reused; /* prompt tokens found in the prefix cache */
    size_t              n_held; /* tokens computed or cached, so the sequence holds them. Prefill is
                                 * complete when n_held reaches n_given */
    const char         *text;   /* [n_bytes] of the generated tokens: whole UTF-8 characters that
                                 * are no part of a stop string; the rest comes at the end. It only
                                 * grows. "" for a model without tokenizer */
    size_t              n_bytes;
    const float        *logits; /* [vocab_size] that the last token was sampled from; NULL: none, or
                                 * the context has computed since */
    int32_t             seq;    /* the sequence */
    size_t              n_steps; /* after the prompt: each computes one token and a draft */
    size_t              n_proposed, n_accepted; /* draft tokens; those accepted */
} tblock_generation_info;

/* Describe a generation; pointers are valid until its next step. Cannot fail. */
TBLOCK_API void tblock_generation_describe(const tblock_generation *g, tblock_generation_info *out);

#ifdef __cplusplus
}
#endif
#endif
