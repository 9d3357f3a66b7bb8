/* tblock_tools.h: tools for models: compare, evaluate, explain, convert, train, measure.
 *
 * The rules of tblock.h hold here too, and these:
 *   - A file is written whole or not at all. If a function fails, the old file stays.
 *   - An output never overwrites a file that it is made from (TBLOCK_USAGE).
 *   - progress may be NULL. It is called in the caller's thread, with done from 0 to 1. So is
 *     go_on, which can cancel: when it returns false, the function fails with TBLOCK_SYSTEM.
 *   - threads 0 means one per physical core that this process may use, at most 1024. Results do not
 *     depend on the number of threads.
 *   - opt may be NULL, unless a member of it is required. */
#ifndef TBLOCK_TOOLS_H
#define TBLOCK_TOOLS_H

#include "tblock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files and lines ------------------------------------------------------------------------- */

/* Check that writing `output` would not replace a file of the model. Fails (TBLOCK_USAGE, naming
 * both) if `output` is, under any name, a regular file that m was read from. m may be NULL for a
 * model at `path` that could not be opened: then any file counts that lies where its parts would
 * and is named like one. Functions here that write files check this themselves; call it before you
 * write a file of your own, or pass a name such as /dev/fd/3. */
TBLOCK_API bool tblock_output_apart(const tblock_model *m, const char *path, const char *output,
                                    tblock_error *err);

/* Open the files at `path` early, so that this process can give up opening files (seccomp,
 * Landlock) before it parses a byte: functions here that get the same path later read what was
 * opened. TBLOCK_HOLD_MODEL: a model, a tokenizer or an adapter, with all its files; _FILE: a
 * golden or a state; _TEXT: a text; a FIFO waits for its writer; _PLACE: opens nothing, and
 * records what is there, for tblock_output_apart. Lasts until the process ends. A missing file is
 * no error here, but for the function that reads it. Call it before there are other threads. Fails
 * without memory. */
enum { TBLOCK_HOLD_PLACE, TBLOCK_HOLD_FILE, TBLOCK_HOLD_TEXT, TBLOCK_HOLD_MODEL };
TBLOCK_API bool tblock_hold(const char *path, int what, tblock_error *err);

/* The path, as it was given, of the model or other file whose mapping contains an address; valid
 * until that file is closed. NULL: none. A SIGBUS handler may call it with si_addr, to report which
 * file was truncated. */
TBLOCK_API const char *tblock_mapped_file(const void *address);

/* Process one line of `tblock tokenize --jsonl`: an object with "text" or "bytes_hex" (optional
 * "mode": "plain" | "special", "add_special": bool), or "ids" to decode. *answer is one line of
 * ASCII JSON without '\n': {"ids": [...]} or {"text": ..., "bytes_hex": ...}. */
TBLOCK_API bool tblock_tokenize_json(const tblock_model *m, const char *line, size_t n_bytes,
                                     char **answer, tblock_error *err);

/* The vocabulary of a model's tokenizer; pointers live as long as the model. */
typedef struct tblock_tokenizer_info {
    const char    *type; /* "spm", "spm_unigram", "bpe", "bpe_char", "unigram" (docs/format.md)   */
    int            size; /* ids are 0 .. size - 1                                                 */
    int32_t        unk;  /* -1: none                                                              */
    const int32_t *prefix; size_t n_prefix; /* what TBLOCK_ADD_SPECIAL puts before a text,        */
    const int32_t *suffix; size_t n_suffix; /* ... and after it                                   */
    const char *chat_template, *chat_template_tools, *special_tokens; /* as the model's source has
                            them (docs/format.md, "Chat"); NULL: it has none                      */
} tblock_tokenizer_info;

/* Fails with TBLOCK_INPUT (no tokenizer). */
TBLOCK_API bool tblock_tokenizer_describe(const tblock_model *m, tblock_tokenizer_info *out,
                                          tblock_error *err);

enum tblock_token_type { TBLOCK_TOKEN_NORMAL = 1, TBLOCK_TOKEN_UNKNOWN, TBLOCK_TOKEN_CONTROL,
                         TBLOCK_TOKEN_ADDED, TBLOCK_TOKEN_UNUSED, TBLOCK_TOKEN_BYTE };

/* A token as stored in tok.bytes and tok.types (docs/format.md): spaces of types other than "bpe"
 * are U+2581, and the bytes are not NUL-terminated. */
typedef struct tblock_token { const char *bytes; size_t n_bytes; int type; } tblock_token;

/* Tokens first .. first + n - 1. Fails with TBLOCK_INPUT (no tokenizer) and TBLOCK_USAGE (an id out
 * of range). */
TBLOCK_API bool tblock_tokens(const tblock_model *m, int32_t first, size_t n, tblock_token *out,
                              tblock_error *err);

/* A weight as the model's source has it, before any type of tblock_open_options. */
typedef struct tblock_weight {
    char        name[64]; /* "layers.3.wq": docs/format.md, "Tensors"                            */
    const char *type;     /* "bf16", "q4_k" ...                                                   */
    int         n_dims;   /* 1: [n]; 2: [rows, k] of W in y = W x; 3: [experts, rows, k]          */
    int64_t     shape[3];
} tblock_weight;

/* How many weights a model has; 0: it is only a tokenizer. */
TBLOCK_API size_t tblock_weight_count(const tblock_model *m);

/* Weight i, in the order of docs/format.md. Fails with TBLOCK_USAGE (i). */
TBLOCK_API bool tblock_weight_describe(const tblock_model *m, size_t i, tblock_weight *out,
                                       tblock_error *err);

/* Its values, out [shape], row-major; those of quantized types as they are decoded. Any thread may
 * call it. Fails with TBLOCK_USAGE (i). */
TBLOCK_API bool tblock_weight_read(const tblock_model *m, size_t i, float *out, tblock_error *err);

/* The bytes of one token in the middle of a text, even if they are part of a character. They
 * belong to the stream until the next call; bytes pending in the stream stay there. */
TBLOCK_API const char *tblock_stream_alone(tblock_stream *s, int32_t id, size_t *n_bytes);

/* The logits of the last tblock_decode, whose ownership passes to the caller: a row of *stride
 * floats, of which vocab_size count, for each item that asked for them, in order. Release them with
 * tblock_free; the context allocates new ones. NULL, and *n_rows 0: there are none. */
TBLOCK_API float *tblock_logits_take(tblock_context *c, size_t *n_rows, size_t *stride);

/* ---- Golden logits (docs/verify.md) ---------------------------------------------------------- */

typedef struct tblock_logits_options {
    bool last;   /* only the logits of the last position: F32 [1, vocab_size]                     */
    bool hidden; /* also hidden.embed; for each layer hidden.layerI.attn (after its attention) and
                    hidden.layerI (its output); and hidden.final_norm: F32 [n, d_model]           */
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
    bool digest; /* in place of the logits and hidden states, of each position a hash of them, and
                    of the logits the five largest: what equal bits need, a 1,000th of the size   */
} tblock_logits_options;

/* Run tokens as sequence 0 of c, which is emptied before and after, and write a safetensors file:
 * tokens I32 [n], logits F32 [n, vocab_size], metadata that names everything that changes bits, and
 * a fingerprint of each weight (docs/verify.md), for which all weights are read once.
 * Fails with TBLOCK_USAGE (no tokens, more than the context holds, an id out of range) and
 * TBLOCK_INPUT (a logit is NaN and the context does not allow it). */
TBLOCK_API bool tblock_logits_write(tblock_context *c, const int32_t *tokens, size_t n,
                                    const char *path, const tblock_logits_options *opt,
                                    tblock_error *err);

typedef struct tblock_verify_options {
    bool   exact;       /* require equal bits; all NaN are equal                                  */
    bool   has_tol;     /* use tol; otherwise the default rule of docs/numerics.md                */
    double tol;         /* largest |difference|                                                   */
    bool   greedy;      /* also generate the [PREFIX.]greedy continuations again                  */
    const char *tokens; /* a .npy file of tokens; golden_path is then a .npy file of logits with any
                           name. NULL: the names say which is which                               */
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
    bool trust_hash;    /* do not compare the model's data with their recorded hash               */
    bool logits_only;   /* the model may differ in what does not reach these logits. So it is with
                           has_tol, too                                                           */
} tblock_verify_options;

typedef struct tblock_verify_row {
    char    name[64];     /* PREFIX, or "" for a file with plain tokens and logits                */
    size_t  n_tokens;
    double  max_abs;      /* largest |ours - golden|; NaN if only one side is NaN                 */
    double  mean_kl;      /* mean KL divergence golden || ours per position, nats                 */
    double  max_kl;       /* the largest KL divergence at one position                            */
    double  top1;         /* share of positions with the same most likely token; two rows of only
                             NaN count as the same                                                */
    double  top5;         /* share with the same five most likely tokens, in any order            */
    int64_t first_diff;   /* first position outside the tolerance, or with exact not bit-equal;
                             -1: none                                                             */
    int64_t greedy_diff;  /* first greedy token that differs; -1: none differs, or not compared   */
    size_t  n_greedy;     /* greedy tokens compared                                               */
    int     n_hidden;     /* hidden states compared: [PREFIX.]hidden.NAME of the golden file      */
    char    parted[40];   /* the first of these that differs, in the order of the model: "the
                             embedding", "layer 3, attention", "layer 3, feed-forward", "layer 3"
                             (if hidden.layer3.attn was not recorded), "the final norm"; "the head":
                             no state differs, but the logits do; "": not known                   */
    int     parted_layer; /* that layer; -1: outside the layers, or not known                     */
    int64_t parted_pos;   /* first position at which it differs; -1: not known                    */
    double  parted_abs;   /* its largest |ours - golden|                                          */
    bool    ok;
} tblock_verify_row;

typedef struct tblock_verify_report {
    double             tol;    /* the tolerance applied; 0 with exact                             */
    bool               exact, ok;
    size_t             n_rows;
    tblock_verify_row *rows;   /* release with tblock_free                                        */
    char               settings[512]; /* "math bf16 (here f32), ...": recorded settings that change
                                         bits and differ from this run's; "": none differs, or
                                         another program wrote the file                           */
    bool               recorded;      /* the file records everything that changes bits, so settings
                                         "" means that all are equal                              */
    char               advice[640];   /* if ok is false: which settings of this run round, and which
                                         options to try; else ""                                  */
    bool               hash_checked;  /* the model's data match the hash that its file records    */
    bool               digest;        /* the file has hashes in place of logits: then exact is true,
                                         max_abs is that of the recorded five largest, and KL
                                         divergences are NaN                                      */
    bool               model_known;   /* the file has fingerprints of its model: if the model here
                                         differs, ok is false (but see logits_only)               */
    /* How the model differs from the recorded one, in words; "": it does not, or the file does not
       say, or nothing differs with logits_only. */
    char               config_diff[256], tensor_diff[320], tokenizer_diff[256], template_diff[96];
    char               cause[320];    /* if ok is false, and it is known why: the first of these, or
                                         of the settings, and the names of the others             */
} tblock_verify_report;

/* Recompute every [PREFIX.]tokens of the golden file and compare with [PREFIX.]logits_f64 or
 * [PREFIX.]logits. The file is safetensors, from tblock_logits_write or another program, or a pair
 * of .npy files: golden_path is the one with "logits" in its name, and the other has "tokens"
 * instead. Returns true if the comparison ran, whatever its result: see out->ok.
 *
 * If the file has fingerprints of its model, whatever differs in config, weights, tokenizer or chat
 * template makes every row not ok, however near the logits are; see logits_only.
 *
 * With exact, hidden states are compared bit by bit, and count for ok. Otherwise they only show
 * where two runs diverge: a difference counts if it is a larger share of the state's largest value
 * than the tolerance is of the largest logit.
 *
 * Runs in sequence 0, which is emptied before and after. Fails with TBLOCK_USAGE (a tolerance that
 * is negative or NaN, or one for a file of hashes) and TBLOCK_INPUT (not a golden file, one of
 * another vocabulary, more tokens than the context holds; a logit is NaN and the context does not
 * allow it). */
TBLOCK_API bool tblock_verify(tblock_context *c, const char *golden_path,
                              const tblock_verify_options *opt, tblock_verify_report *out,
                              tblock_error *err);

/* The path of the .npy file of tokens that tblock_verify reads with a .npy file of logits.
 * *tokens is allocated; it is NULL if golden_path is not a .npy file. Fails with TBLOCK_INPUT if
 * the file's name lacks "logits". */
TBLOCK_API bool tblock_verify_tokens(const char *golden_path, char **tokens, tblock_error *err);

/* What a golden file, a state or a receipt says of the context that it was recorded in. A context
 * whose options point to it has at least its n_ctx if theirs is 0, and its rope_length if theirs is
 * 0, unless the model's positions are learned or depend on no length. */
typedef struct tblock_recorded {
    int n_ctx;       /* positions that it needs; 0: not known */
    int rope_length; /* 0: none */
} tblock_recorded;

/* What the context for a golden file or a state must have; with greedy, also for the continuations
 * of the golden file. golden_path as in tblock_verify. Nothing else of the file is checked. Fails
 * with TBLOCK_INPUT (no such file). */
TBLOCK_API bool tblock_recorded_read(const char *golden_path, bool greedy, tblock_recorded *out,
                                     tblock_error *err);

/* Say in one line what is wrong with a row that is not ok: "logits differ from position 3 on:
 * expected within 0.0004, found ...". Writes at most n_out bytes, with the NUL. */
TBLOCK_API void tblock_verify_explain(const tblock_verify_report *report,
                                      const tblock_verify_row *row, char *out, size_t n_out);

/* Write the outcome of tblock_verify as JUnit XML, which CI systems show: one test case per row.
 * name is the test suite's, such as the golden's path. report NULL means that the comparison did
 * not run: the file then has one case, in error, with the reason in *why. */
TBLOCK_API bool tblock_verify_junit(const char *path, const char *name,
                                    const tblock_verify_report *report, const tblock_error *why,
                                    tblock_error *err);

/* ---- Receipts (docs/receipts.md) ------------------------------------------------------------- */

/* What a generation sampled, and from what, as JSON that anyone with the model can recompute. */
typedef struct tblock_receipt tblock_receipt;

typedef struct tblock_receipt_options {
    size_t      every;      /* keep each link of the chain whose number is a multiple; 0: none    */
    bool        trust_hash; /* do not compare the model's data with their recorded hash           */
    const tblock_chat *chat; /* that rendered the prompt: its template is recorded; NULL: none    */
    const struct tblock_lora *lora; /* [n_lora] adapters of the generation; NULL: those chosen    */
    size_t      n_lora;
} tblock_receipt_options;

/* Begin a receipt of a generation that will be opened with opt. Then give it each token: set
 * opt->on_token to tblock_receipt_token and opt->user to the receipt, or call it in an on_token of
 * your own. The first receipt of a model reads all its data, unless trust_hash. The model must
 * outlive the receipt. Another thread may use the context meanwhile, but if `lora` is NULL it must
 * not choose adapters. Fails with TBLOCK_INPUT (data that differ from their hash, a constraint
 * whose text is not UTF-8) and TBLOCK_USAGE (a constraint of tblock_chat_calls, which has no text;
 * n_drawn, tokens that were sampled before). */
TBLOCK_API tblock_receipt *tblock_receipt_new(const tblock_context *c,
                                              const tblock_generation_options *opt,
                                              const tblock_receipt_options *how, tblock_error *err);
TBLOCK_API void            tblock_receipt_free(tblock_receipt *r); /* accepts NULL */

/* A tblock_token_fn. It ignores prompt tokens, and tokens that it already has. */
TBLOCK_API void tblock_receipt_token(void *receipt, size_t index, int32_t token,
                                     const float *logits);

/* The receipt of the tokens so far: one line of JSON without '\n', in ASCII. *json is allocated.
 * Fails with TBLOCK_USAGE (a token was left out). */
TBLOCK_API bool tblock_receipt_json(const tblock_receipt *r, char **json, tblock_error *err);

/* Read an untrusted receipt: n_bytes of JSON, at most TBLOCK_RECEIPT_MOST. Errors begin with name.
 * Fails with TBLOCK_INPUT (no receipt, a field that is missing, unknown or out of range). */
enum { TBLOCK_RECEIPT_MOST = 1 << 24 };
TBLOCK_API tblock_receipt *tblock_receipt_read(const char *json, size_t n_bytes, const char *name,
                                               tblock_error *err);

/* What the context for it must have. Fails with TBLOCK_USAGE (a NULL). */
TBLOCK_API bool tblock_receipt_recorded(const tblock_receipt *r, tblock_recorded *out,
                                        tblock_error *err);

enum tblock_receipt_verdict {
    TBLOCK_RECEIPT_HOLDS   = 0, /* every token and every bit                                      */
    TBLOCK_RECEIPT_OTHER   = 1, /* of another model, numerics or option than this context         */
    TBLOCK_RECEIPT_CHANGED = 2, /* a field before the sampled tokens was changed afterwards       */
    TBLOCK_RECEIPT_TOKEN   = 3, /* its logits do not give this token                              */
    TBLOCK_RECEIPT_LOGITS  = 4, /* the tokens were sampled from other logits                      */
    TBLOCK_RECEIPT_FAILED  = 5, /* not checked: it cannot be computed: an id that is no token, too
                                   many of them, an unsupported constraint, a logit that is NaN   */
    TBLOCK_RECEIPT_NOTHING = 6, /* no token was sampled, so there is nothing to check             */
    TBLOCK_RECEIPT_TEXT    = 7  /* its hash of the text is not that of the sampled tokens         */
};

typedef struct tblock_receipt_row {
    int     verdict;         /* for OTHER, CHANGED, TEXT and NOTHING nothing is computed          */
    int     version;         /* of the receipt; 1 does not record the tokenizer                   */
    size_t  n_given, n_drawn;
    int64_t position;        /* of the first token that its logits do not give; -1: none          */
    int32_t found, expected; /* that token, and the one that they give; -1: the text had ended    */
    int64_t first, last;     /* the first link that differs closes over the logits that the tokens
                                of these positions were sampled from; -1: none differs            */
    char    why[512];        /* in words; "" if it holds                                          */
} tblock_receipt_row;

typedef struct tblock_receipt_verify_options {
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
    bool trust_hash; /* do not compare the model's data with their recorded hash                  */
    bool   one_block; /* only the tokens of block `block`, from 0; earlier ones are trusted       */
    size_t block;
} tblock_receipt_verify_options;

/* Recompute n receipts, as many at a time as the context has sequences, and report in row [n]
 * whether each holds. Returns true if all were checked, whatever the result. Takes every sequence
 * that no generation has. Fails with TBLOCK_USAGE (no free sequence). */
TBLOCK_API bool tblock_receipt_verify(tblock_context *c, tblock_receipt *const *receipts, size_t n,
                                      const tblock_receipt_verify_options *opt,
                                      tblock_receipt_row *row, tblock_error *err);

/* Where two receipts of one request diverge. */
typedef struct tblock_receipt_parting {
    const char *field; /* the first before `begin` that differs, a constant; then the rest has no
                          meaning; "": none                                                       */
    int64_t     block; /* the first whose tokens or hashes differ; -1: none                       */
    int64_t     first, last; /* positions of its tokens, in the longer of both                    */
    int64_t     token; /* position of the first token that differs or that one lacks; -1: none    */
} tblock_receipt_parting;

/* Compare two receipts; nothing is computed. tblock_receipt_verify with this `block` then tells
 * which of them holds there. Fails with TBLOCK_SYSTEM (no memory). */
TBLOCK_API bool tblock_receipt_bisect(const tblock_receipt *a, const tblock_receipt *b,
                                      tblock_receipt_parting *out, tblock_error *err);

/* The outcome as JUnit XML: a test case for each receipt, names [n]. rows NULL means that nothing
 * was compared: the file then has one case, in error, with the reason in *why. */
TBLOCK_API bool tblock_receipt_junit(const char *path, const char *const *names,
                                     const tblock_receipt_row *rows, size_t n,
                                     const tblock_error *why, tblock_error *err);

/* ---- Sampling options ------------------------------------------------------------------------ */

/* What is known of each option of a sampler that is a number. A request to `tblock serve` has
 * another default than `tblock run`: what switches the option off, or temperature 1. */
enum tblock_sampling_type { TBLOCK_FLOAT, TBLOCK_DOUBLE, TBLOCK_INT };
typedef struct tblock_sampling_row {
    const char *field;       /* of tblock_sampler_options; NULL ends the table */
    size_t      at;          /* its offset */
    int         type;        /* enum tblock_sampling_type */
    double      least, most, usual; /* of run */
    double      off;         /* the default of a request */
    const char *option, *parameter, *name; /* its name in run, in a request, in Python */
} tblock_sampling_row;
TBLOCK_API const tblock_sampling_row *tblock_sampling_rows(void);

/* ---- Audit (docs/audit.md) ------------------------------------------------------------------- */

/* A text that another engine claims to have sampled with this model. */
typedef struct tblock_audit_text {
    const int32_t *ids;              /* [n_ids]: n_given of the prompt, then the sampled ones     */
    size_t         n_ids, n_given;   /* n_given at least 1                                        */
    tblock_sampler_options sampling; /* as claimed; its n_given is set here                       */
    bool           seeded;           /* the seed is claimed too, for tblock's sampler             */
} tblock_audit_text;

typedef struct tblock_audit_token {
    int32_t id;
    int32_t expected;           /* the token that seed or temp 0 gives; -1: not known             */
    int32_t rank;               /* 1: the most likely one, after bias and penalties               */
    double  prob;               /* its probability under the options; 0: they rule it out         */
    double  margin;             /* the largest logit, after bias and penalties, minus its own     */
    double  miss;               /* how far the random number of the seed lies outside of its share
                                   of [0, 1); 0: the seed samples it; NaN: no seed, or temp 0     */
    double  tail;               /* probability of a token as unlikely, before top-k, top-p and
                                 * min-p; NaN: temp 0 */
    double  surprise;           /* -ln prob                                                       */
    double  entropy, deviation; /* mean and standard deviation of a sampled token's surprise here */
    struct tblock_audit_any {   /* what is expected of an id drawn uniformly from all:            */
        double possible, difference; /* that the options give it; miss or margin, cut off      */
        double surprise, variance;   /* its surprise minus entropy, 0 if it is not possible       */
        double least;                /* of these                                                  */
    } any;
} tblock_audit_token;

enum tblock_audit_verdict {
    TBLOCK_AUDIT_FITS    = 0,
    TBLOCK_AUDIT_DIFFERS = 1, /* an honest text would hardly look like that                       */
    TBLOCK_AUDIT_FAILED  = 2, /* it cannot be computed: an id that is no token, too many of them,
                                 an option that run rejects, a logit that is NaN                  */
    TBLOCK_AUDIT_NO_POWER = 3 /* inconclusive: it fits, but so might random ids                   */
};

typedef struct tblock_audit_row {
    int    verdict;
    size_t n_given, n_drawn;
    size_t n_ruled_out;       /* tokens that the options cannot give                              */
    size_t n_other;           /* tokens that are not the expected ones                            */
    double difference;        /* with seed: mean of miss; temp 0: of margin; each cut off as
                                 docs/audit.md says; NaN: neither                                 */
    double rarest;            /* probability, at most, that a text of this length has a token as
                                 unlikely as its least likely one; NaN: temp 0                    */
    double surprise;          /* all surprises minus their means, in standard deviations; NaN: no
                                 choice was left                                                  */
    double likelihood;        /* probability that sampling is at least so far from its mean       */
    double blind;             /* probability, at most, that uniformly drawn ids fit as well       */
    tblock_audit_token *tokens; /* [n_drawn], release with tblock_free; NULL: nothing computed    */
    char   why[512];          /* in words; "" if it fits                                          */
} tblock_audit_row;

typedef struct tblock_audit_options {
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_audit_options;

/* Prefill n texts, as many at a time as the context has sequences, and report in rows [n] how well
 * each fits. Returns true if all were checked, whatever the result. Takes every sequence that no
 * generation has. Fails with TBLOCK_USAGE (no free sequence). */
TBLOCK_API bool tblock_audit(tblock_context *c, const tblock_audit_text *texts, size_t n,
                             const tblock_audit_options *opt, tblock_audit_row *rows,
                             tblock_error *err);

/* The outcome as JUnit XML: a test case for each text, "text 1" and so on. rows NULL: as in
 * tblock_receipt_junit. */
TBLOCK_API bool tblock_audit_junit(const char *path, const tblock_audit_row *rows, size_t n,
                                   const tblock_error *why, tblock_error *err);

/* The texts of a log: one JSON object on each line, in one of the forms of docs/audit.md. */
typedef struct tblock_audit_log tblock_audit_log;

/* Every text is checked against `claimed`, whatever its line says: the log may be the prover's.
 * flags: those of enum tblock_audit_flags. */
enum tblock_audit_flags {
    TBLOCK_AUDIT_SHARED_SEED = 1, /* the seed of `claimed`, and with the next flag those of
                                   * requests, are of tblock's sampler */
    TBLOCK_AUDIT_CLAIMS_FROM_LOG = 2 /* what a line or its request says replaces `claimed`; a seed
                                   * in a line of tblock's own form is tblock's sampler's */
};
TBLOCK_API tblock_audit_log *tblock_audit_log_new(const tblock_model *m,
                                                  const tblock_sampler_options *claimed,
                                                  unsigned flags, tblock_error *err);
TBLOCK_API void              tblock_audit_log_free(tblock_audit_log *log); /* accepts NULL */

/* Add an untrusted line of at most TBLOCK_AUDIT_MOST bytes. Errors begin with name. Fails with
 * TBLOCK_INPUT (no such line, a field that is missing, unknown or out of range; over
 * TBLOCK_AUDIT_TEXTS texts or TBLOCK_AUDIT_IDS ids in the log). */
enum { TBLOCK_AUDIT_MOST = 1 << 24, TBLOCK_AUDIT_TEXTS = 1 << 16, TBLOCK_AUDIT_IDS = 1 << 26 };
TBLOCK_API bool tblock_audit_log_add(tblock_audit_log *log, const char *line, size_t n_bytes,
                                     const char *name, tblock_error *err);

/* The texts so far, *n of them; valid until the next line. */
TBLOCK_API const tblock_audit_text *tblock_audit_log_texts(const tblock_audit_log *log, size_t *n);

/* ---- Evaluation (docs/eval.md) --------------------------------------------------------------- */

/* All sums are in double and in the order of the text, so the bits do not depend on threads,
 * n_batch or instruction set. */

typedef struct tblock_eval_options {
    int    window;  /* tokens at once: 2 to the context's n_ctx; 0: n_ctx                         */
    int    stride;  /* tokens from one window to the next: 1 to window; 0: window                 */
    size_t n_bytes; /* bytes of the tokenized text, for bits_per_byte; 0: not known               */
    size_t n_added; /* tokens that are not part of the text: BOS                                  */
    bool (*progress)(void *user, double done); /* false: stop                                     */
    void  *user;
} tblock_eval_options;

typedef struct tblock_eval_report {
    size_t n_tokens;         /* tokens given                                                      */
    size_t n_scored;         /* tokens predicted: not the first one of the text, nor the first one
                                of a window that does not overlap the window before it            */
    size_t n_windows;
    double nll;              /* mean negative log-likelihood of a scored token, nats              */
    double nll_error;        /* its standard error, as if tokens were independent; NaN for fewer
                                than two                                                          */
    double perplexity;       /* exp(nll)                                                          */
    double perplexity_error; /* perplexity * nll_error                                            */
    double recipe_perplexity; /* with windows weighted as in transformers' recipe; equal to
                                perplexity if stride is window                                    */
    double bits_per_byte;    /* nll in bits * tokens of the text / its bytes; NaN: n_bytes was 0  */
    double accuracy;         /* share of scored tokens that were the most likely one              */
    bool   stopped;          /* progress stopped it: the numbers cover the part that was done     */
} tblock_eval_report;

/* Perplexity of tokens [n], with the windows of transformers' documentation: window i holds the
 * tokens from i * stride to i * stride + window. Each window scores the tokens that no earlier
 * window held, except its own first token. Runs in sequence 0 of c, which is emptied before and
 * after. Fails with TBLOCK_USAGE (fewer than two tokens, window, stride, an id out of range) and
 * TBLOCK_INPUT (a logit is NaN and the context does not allow it).
 * Source: huggingface.co/docs/transformers/perplexity */
TBLOCK_API bool tblock_eval_text(tblock_context *c, const int32_t *tokens, size_t n,
                                 const tblock_eval_options *opt, tblock_eval_report *out,
                                 tblock_error *err);

typedef struct tblock_against_report {
    tblock_eval_report ours, parent; /* perplexity of both over the same tokens                   */
    double mean_kl;         /* of the parent's distribution from ours: sum of p log(p / q) per
                               scored token, nats                                                 */
    double mean_kl_error;   /* its standard error; NaN for fewer than two                         */
    double max_kl;
    int64_t max_kl_at;      /* index of the token that has it                                     */
    double percentile[6];   /* percentiles 50, 90, 95, 99, 99.9 of the KL divergence, then the
                               smallest                                                           */
    double top1, top1_error; /* share of tokens at which both models have the same most likely
                               token; its standard error                                          */
    double top5;            /* the same five, in any order                                        */
    double log_ratio, log_ratio_error; /* mean of ln(our perplexity / parent's); its standard error
                               over tokens                                                        */
    double rms_probability; /* root of the mean square difference of the probability given to the
                               right token                                                        */
} tblock_against_report;

/* Measure how far c's distributions are from those of parent, another context (for example of the
 * model that c's was quantized from), at the tokens that tblock_eval_text scores. Both models must
 * have the same vocabulary size. Fails as tblock_eval_text does. */
TBLOCK_API bool tblock_eval_against(tblock_context *c, tblock_context *parent,
                                    const int32_t *tokens, size_t n,
                                    const tblock_eval_options *opt, tblock_against_report *out,
                                    tblock_error *err);

typedef struct tblock_choices_options {
    const char *delimiter; /* between context and choice; NULL: " "                               */
    bool        no_added;  /* add no BOS or other tokens of the tokenizer's template              */
    bool (*progress)(void *user, double done); /* false: stop                                     */
    void       *user;
} tblock_choices_options;

typedef struct tblock_choice_score {
    double sum;               /* log-likelihood of the choice given its context, nats             */
    size_t n_tokens, n_bytes; /* tokens summed; bytes of the choice, without the delimiter: the
                                 length-normalised score is sum / n_bytes                         */
} tblock_choice_score;

typedef struct tblock_choices_row {
    size_t line;            /* of the file, from 1                                                */
    size_t first, n;        /* its choices: score[first .. first + n)                             */
    int    answer;          /* the right one, from 0                                              */
    int    best, best_norm; /* the choice with the largest sum, and with the largest sum / n_bytes;
                               the first of equal ones; -1: none, since a sum is NaN              */
    bool   cut;             /* the context did not fit: its oldest tokens were dropped            */
} tblock_choices_row;

typedef struct tblock_choices_report {
    size_t n_rows, n_cut;
    tblock_choices_row  *rows;  /* release with tblock_free                                       */
    tblock_choice_score *score; /* release with tblock_free                                       */
    double accuracy, accuracy_error; /* share of rows with best == answer; its standard error
                                   sqrt(p (1 - p) / (n - 1)), NaN for one row                     */
    double accuracy_norm, accuracy_norm_error; /* the same with best_norm                         */
    bool   stopped;             /* progress stopped it: the numbers cover the part that was done  */
} tblock_choices_report;

/* Multiple choice: every line of a JSONL file is an object with "context" or "question" (a string),
 * "choices" (two or more strings, none empty) and "answer" (the index of the right one, from 0);
 * other keys and empty lines are ignored. The score of a choice is the log-likelihood of the tokens
 * of context + delimiter + choice after those that it shares with the context alone. path "-" is
 * standard input. Runs in sequence 0 of c, which is empty afterwards. Fails with TBLOCK_INPUT (a
 * bad line: what is wrong with it; a model without tokenizer; a choice longer than the context; no
 * token before a choice). */
TBLOCK_API bool tblock_eval_choices(tblock_context *c, const char *path,
                                    const tblock_choices_options *opt, tblock_choices_report *out,
                                    tblock_error *err);

/* ln of the probability of a token, and of the n_top most probable ones (at most vocab_size; of
 * equals the lowest id first) in top and top_log_prob [n_top], for raw logits [vocab_size]: softmax
 * in double, the numbers that evaluation sums. NaN if a logit is NaN.
 * Fails with TBLOCK_USAGE (a token or n_top out of range). */
TBLOCK_API bool tblock_log_probs(const float *logits, int vocab_size, int32_t token,
                                 double *log_prob, int32_t *top, double *top_log_prob,
                                 size_t n_top, tblock_error *err);

/* ---- Attention probabilities (docs/attn.md) -------------------------------------------------- */

/* The probabilities of one run: independent of the context, but uses its model. */
typedef struct tblock_attention tblock_attention;

typedef struct tblock_attention_options {
    const int *layers; /* layers to keep, in this order, each once; NULL: all                     */
    size_t     n_layers;
    const int *heads;  /* query heads to keep, likewise                                           */
    size_t     n_heads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_attention_options;

/* A run keeps at most this many bytes of probabilities, 4 for each layer, head, query and key. */
enum { TBLOCK_ATTENTION_MAX_BYTES = 256 << 20 };

/* Run tokens as sequence 0 of c, which is emptied before and after, and keep the attention
 * probabilities of the chosen layers and heads: softmax of the scores of docs/numerics.md,
 * "attention", with the same bits for any number of threads and any instruction set. The model must
 * outlive the result. Fails with TBLOCK_USAGE (no tokens, too many, a layer or head that does not
 * exist or is listed twice, more than TBLOCK_ATTENTION_MAX_BYTES) and TBLOCK_INPUT (a kept
 * probability is NaN and the context does not allow it). */
TBLOCK_API tblock_attention *tblock_attention_new(tblock_context *c, const int32_t *tokens,
                                                  size_t n, const tblock_attention_options *opt,
                                                  tblock_error *err);
TBLOCK_API void tblock_attention_free(tblock_attention *a); /* NULL is accepted */

/* Probabilities [n, n] (query, key) of one head, row-major; masked keys are 0, the others of a row
 * sum to 1. NULL for a layer or head that was not kept. Valid as long as a. */
TBLOCK_API const float *tblock_attention_head(const tblock_attention *a, int layer, int head);

/* Write a file. format:
 *   "html"         one page of heat maps, under 3 MB (a long text gets larger cells); it loads no
 *                  other file
 *   "json"         one object: tokens, pieces, layers, heads, window, windows, attention [{layer,
 *                  head, p: n rows of n numbers}]
 *   "safetensors"  tokens I32 [n], attn.layerI F32 [heads kept, n, n]; metadata: heads, window, and
 *                  everything that changes bits
 * tblock_attention_print passes the same html or json to put, in parts. put returns false to stop;
 * the call then fails with TBLOCK_SYSTEM. Both fail with TBLOCK_USAGE for an unknown format. */
TBLOCK_API bool tblock_attention_write(const tblock_attention *a, const char *path,
                                       const char *format, tblock_error *err);
TBLOCK_API bool tblock_attention_print(const tblock_attention *a, const char *format,
                                       bool (*put)(void *user, const char *data, size_t n_bytes),
                                       void *user, tblock_error *err);

/* ---- Reports (docs/info.md) and synthetic models --------------------------------------------- */

typedef struct tblock_report_options {
    bool json;           /* one JSON object instead of text (docs/info.md lists its keys)         */
    bool tensors;        /* list every tensor                                                     */
    bool colour;
    bool check;          /* read all data: is the sha256 right, padding zero, each weight finite? */
    int  seq;            /* prompt tokens to estimate for; 0: 2048, at most n_ctx                 */
    int  batch;          /* sequences of that length at once; 0: 1                                */
    const char *kv_type; /* NULL or "auto", "f32", "f16", "q8"                                    */
    const char *type;    /* weight type to assume for a bare config: NULL or "bf16", "f32", "f16",
                            "q8", "q4"                                                            */
    const char *html;    /* also write the report to this file, as one page that loads no other
                            file; NULL: no page                                                   */
    void (*progress)(void *user, double done); /* of check                                        */
    void *user;
    bool (*go_on)(void *user, double done);
    int    ranks;        /* also report for this many processes (docs/ranks.md); 0: no            */
    double bandwidth;    /* of the network between two, Gbit/s; 0: 1                              */
    double latency;      /* microseconds until a message arrives; 0: 50                           */
    double memory;       /* GB/s at which each reads weights, for a prediction; 0: none           */
} tblock_report_options;

/* Describe a model or a bare JSON config: its parts, what it costs, how much memory it needs. *text
 * is allocated. If check finds a fault in the data, the result is false with TBLOCK_NO, err names
 * the tensor, and *text is allocated nevertheless. After any other failure it is NULL. */
TBLOCK_API bool tblock_report(const char *path, const tblock_report_options *opt, char **text,
                              tblock_error *err);

typedef struct tblock_synth_options {
    const char *type;        /* NULL or "bf16", "f32", "f16", "q8", "q4"; with "q4", the embedding
                                and the head are "q8"                                             */
    const char *const *keep; /* "PATTERN=TYPE", as in tblock_quantize_options                     */
    size_t      n_keep;
    uint64_t    seed;
    int         threads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
    bool        sparse;      /* every matrix is a hole in the file: it reads as zeros and takes no
                                disk space. The file records no sha256, and the output must be a
                                regular file (TBLOCK_USAGE)                                       */
} tblock_synth_options;

/* Write a model file with seeded random weights for the JSON config at config_path. The same
 * config, type and seed give the same bytes. Fails with TBLOCK_USAGE (type, keep, threads) and
 * TBLOCK_INPUT (the config). */
TBLOCK_API bool tblock_synth(const char *config_path, const char *out_path,
                             const tblock_synth_options *opt, tblock_error *err);

/* ---- Quantizing (docs/quantize.md) ----------------------------------------------------------- */

typedef struct tblock_quantize_options {
    const char        *type;    /* type of the matrices: "q8", "q4", "bf16", "f16", "f32"; vectors
                                   are always f32. Required                                       */
    const char *const *keep;    /* "PATTERN=TYPE": another type for matrices whose names match the
                                   glob; the first match counts                                   */
    size_t             n_keep;
    int                threads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
    const char        *calibrate; /* a text, or NULL: the model runs it, and q8 and q4 weigh the
                                     errors of a column by the mean square of what multiplies it  */
    size_t             calibrate_bytes; /* 0: up to a NUL */
    const char        *imatrix; /* instead of a text: an importance matrix of llama.cpp, .dat or
                                   .gguf; NULL: none                                              */
    bool               requantize; /* quantized matrices too become another quantized type; the
                                      rows say what that loses                                    */
} tblock_quantize_options;

/* The result for one matrix. */
typedef struct tblock_quantize_row {
    char        name[64];        /* "layers.3.wq"                                                 */
    const char *part;            /* "wq"                                                          */
    int         layer;           /* -1: outside the layers                                        */
    const char *from, *type;     /* "bf16", "q4"                                                  */
    uint64_t    n_params, bytes; /* bytes: as written                                             */
    double      error;           /* relative RMS error: sqrt(error2 / sum2)                       */
    double      error2, sum2;    /* sums of squares: of the differences; of the original weights */
    uint64_t    flushed;         /* weights that underflowed to 0 in the type                     */
    uint64_t    from_bytes;      /* as stored in the source                                       */
    bool        weighed;         /* by calibrate or imatrix                                       */
    bool        requantized;     /* from one quantized type to another: the error comes on top    */
} tblock_quantize_row;

typedef struct tblock_quantize_report {
    size_t               n_rows;
    tblock_quantize_row *rows;            /* in file order; release with tblock_free              */
    double               error;           /* relative RMS error of all matrices together          */
    uint64_t             n_params, bytes; /* of the whole model, with vectors                     */
    uint64_t             flushed;
} tblock_quantize_report;

/* tblock_convert with a type, which also reports the quantization error of each matrix. Config and
 * tokenizer stay, and the metadata says what the file was made from. Memory does not grow with the
 * model. Without keep, the embedding and the head of a q4 model are q8. A quantized matrix stays
 * as it is or becomes a float type, unless requantize is set. report may be NULL. Fails with
 * TBLOCK_USAGE (type, keep, a pattern that matches nothing, output and input the same file) and
 * TBLOCK_INPUT (a quantized matrix without requantize; a weight that is not finite or too large for
 * its type: tensor, row and column are named). */
TBLOCK_API bool tblock_quantize(const char *in_path, const char *out_path,
                                const tblock_quantize_options *opt, tblock_quantize_report *report,
                                tblock_error *err);

/* ---- Converting (docs/convert.md) ------------------------------------------------------------ */

/* An adapter (docs/lora.md) and its scale; 1: as trained. */
typedef struct tblock_lora_file { const char *path; double scale; } tblock_lora_file;

typedef struct tblock_convert_options {
    const char        *type;      /* as in tblock_quantize_options; NULL: as stored              */
    const char *const *keep;      /* with a type: "PATTERN=TYPE"                                  */
    size_t             n_keep;
    const char        *tokenizer; /* a file or folder; NULL: the source's own                     */
    const char        *pattern;   /* how that tokenizer splits a text, if its files do not say so */
    bool               no_tokenizer;
    bool               tokenizer_only; /* omit the weights, as for a source that has none         */
    bool               row_major;   /* matrices that are not quantized in layout `rows`
                                       (docs/format.md), not in panels                            */
    const char        *chat_format; /* a name of tblock_chat_known or the text of a template to
                                       store; NULL: the source's own                              */
    const tblock_lora_file *merge_lora; /* adapters to add to the weights, at most 16 */
    size_t             n_merge_lora;
    int                threads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_convert_options;

typedef struct tblock_convert_report {
    const char *source;          /* "Hugging Face folder", "GGUF" ...                             */
    uint64_t    n_params, bytes; /* of all weights, as written; 0: only a tokenizer               */
    uint64_t    flushed;         /* weights that underflowed to 0 in their type                   */
    uint64_t    not_finite;      /* vectors with NaN or infinity, which are kept                  */
    char       *warnings;        /* lines, each with a newline; release with tblock_free          */
} tblock_convert_report;

/* Convert in_path (a Hugging Face folder, a .gguf, a Meta folder, a llama2.c checkpoint, a model
 * file, a tokenizer) to a model file. report may be NULL. Memory does not grow with the model.
 * Reading fails like tblock_open, adapters like tblock_lora_load, the rest like tblock_quantize. */
TBLOCK_API bool tblock_convert(const char *in_path, const char *out_path,
                               const tblock_convert_options *opt, tblock_convert_report *report,
                               tblock_error *err);

/* ---- Published models (docs/pull.md) --------------------------------------------------------- */

/* The path of a model that is named like a published one: ORG/NAME[:FILE or QUANTIZATION] in the
 * cache of the Hugging Face Hub on this machine, or [ORG/]NAME[:TAG] in ollama's store; or what a
 * path leads to: from a folder of that cache to its snapshot, from a folder with one GGUF model to
 * its file, from ollama's manifest to the weights. Returns a copy of `name` if it is another file
 * or folder, or if there is no such model: opening it then says what is missing. Release with
 * tblock_free. NULL: the folder or the named model is there and does not open (TBLOCK_INPUT: parts
 * are missing, it is something else, or it must be said which file is meant), or TBLOCK_SYSTEM. */
TBLOCK_API char *tblock_model_path(const char *name, tblock_error *err);

typedef struct tblock_pull_options {
    const char *revision; /* a branch, a tag or a commit; NULL: that of the name, or main         */
    bool        dry_run;  /* ask the Hub what there is, and write nothing                         */
    /* called before each file of the model; there: it is in the cache already */
    void (*file)(void *user, const char *path, uint64_t bytes, bool there);
    void (*progress)(void *user, double done);
    void *user;
} tblock_pull_options;

typedef struct tblock_pulled {
    char     commit[41];
    char     path[4096];     /* of the model, a file or a folder                                  */
    size_t   n_files;
    uint64_t bytes, fetched; /* of all files; of those that were not there                        */
} tblock_pulled;

/* Download a model of the Hub into its cache, where Python finds it too: of the repository only the
 * files that tblock reads. The host is that of HF_ENDPOINT, the token that of HF_TOKEN or of the
 * file of `hf auth login`. Every file is compared with its hash; what was cut off is continued.
 * This is the only function that opens a connection; it loads libcurl. Fails with TBLOCK_USAGE (not
 * a name of the Hub), TBLOCK_INPUT (no such repository, file or revision, a wrong hash) or
 * TBLOCK_SYSTEM (the network, the disk, no libcurl). */
TBLOCK_API bool tblock_pull(const char *name, const tblock_pull_options *opt, tblock_pulled *out,
                            tblock_error *err);

typedef struct tblock_kept {
    const char *name;   /* ORG/NAME, or ollama's NAME:TAG                                         */
    const char *commit; /* "": ollama's                                                           */
    const char *kinds;  /* "safetensors", "GGUF Q4_K_M, GGUF Q8_0", "ollama"                      */
    const char *path;
    size_t      n_files;
    uint64_t    bytes;
} tblock_kept;

/* Call `take` for each model in the cache of the Hub, by name, and then in ollama's store. The
 * texts last until it returns. */
TBLOCK_API bool tblock_kept_each(void (*take)(void *user, const tblock_kept *model), void *user,
                                 tblock_error *err);

/* Remove ORG/NAME from the cache of the Hub; with a file or a quantization only its files, and the
 * blobs that no other file there needs. *bytes: how many were freed. dry_run: removes nothing. */
TBLOCK_API bool tblock_kept_remove(const char *name, bool dry_run, uint64_t *bytes,
                                   tblock_error *err);

/* ---- Training (docs/train.md) ---------------------------------------------------------------- */

/* Training needs OpenBLAS (libopenblas.so.0), which is loaded when one of these functions is
 * called; without it they fail with TBLOCK_SYSTEM. From then on, OpenBLAS uses one thread in the
 * whole process; tblock has its own threads. Bits may depend on the version of OpenBLAS and on the
 * processor. */

/* AdamW with decoupled weight decay, of all parameters or (decay_all false) only of matrices. A
 * zeroed struct is not the defaults: every number is used as it is. Pass NULL for the defaults: lr
 * 1e-3, betas 0.9 and 0.95, eps 1e-8, decay 0.1. */
typedef struct tblock_adamw {
    double lr, beta1, beta2, eps, weight_decay;
    bool   decay_all;
} tblock_adamw;

typedef struct tblock_grad_options {
    int adamw_steps;           /* steps to take on the same batch, at a constant rate and without
                                  clipping; 0: none                                               */
    const tblock_adamw *adamw; /* NULL: the defaults, with decay of all parameters                */
    int threads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_grad_options;

typedef struct tblock_grad_report {
    double   loss, loss_after; /* of the model as it is; after the last step                      */
    double   grad_norm;        /* of all gradients as one vector                                  */
    uint64_t n_params;
    int      n_tensors;
} tblock_grad_report;

/* Compute the mean cross-entropy of token t+1 from position t over the sequences of a safetensors
 * file with `tokens` I32 [B, T], and its gradients with respect to all parameters, in f32. They are
 * written to a safetensors file: loss, grad.NAME, row-major [out, in]; with steps also losses
 * [steps + 1] and afterN.NAME, the parameters after the N-th and last step. NAME is the tensor's
 * name in a Hugging Face folder, otherwise ours (docs/train.md). report may be NULL. Fails with
 * TBLOCK_INPUT (no such tokens, an id out of range, a model with a part that training does not
 * support, which is named), TBLOCK_USAGE (steps, a number of adamw out of range) and TBLOCK_NO (a
 * loss or gradient that is NaN or infinite). */
TBLOCK_API bool tblock_grad(const char *model_path, const char *tokens_path, const char *out_path,
                            const tblock_grad_options *opt, tblock_grad_report *report,
                            tblock_error *err);

typedef struct tblock_train_progress {
    int64_t step, n_steps;                   /* steps done; of how many                           */
    double  loss, grad_norm, lr;             /* of the last step; the loss is that before it changed
                                                the parameters                                    */
    double  val_loss;                        /* the latest one; NaN: none yet                     */
    bool    validated, saved;                /* whether that happened since the last call         */
    double  tok_per_s, seconds, eta_seconds; /* speed of the steps alone; time since training began;
                                                time left at this speed                           */
} tblock_train_progress;

typedef struct tblock_train_options {
    const char *text;          /* the file to learn from, any bytes; required                     */
    const char *config;        /* a JSON config: start with random weights and a tokenizer made from
                                  the text; or                                                    */
    const char *init;          /* a model: start with its weights, config and tokenizer. If both are
                                  NULL: the default config                                        */
    const char *tokenizer;     /* a model or a published tokenizer: use it instead of making one;
                                  its size is vocab_size                                          */
    int    vocab;              /* size of a tokenizer that is made; 0: the config's vocab_size   */
    int    steps;              /* 0: 1000                                                         */
    int    batch, n_ctx;       /* sequences per step, 0: 24; their length, 0: the config's n_ctx, at
                                  most 256                                                        */
    int    micro_batch;        /* sequences computed at once, gradients added up; 0: about 2,048
                                  tokens                                                          */
    const tblock_adamw *adamw; /* NULL: the defaults, with decay of matrices                      */
    double min_lr;             /* rate at the end of the cosine; 0: a tenth of lr; negative: 0; NaN:
                                  the rate is constant                                            */
    int    warmup;             /* steps; -1: none; 0: a twentieth of all                          */
    double clip;               /* largest norm of the gradients; 0: 1; negative: not clipped      */
    double dropout;            /* 0 to below 1                                                    */
    double validation;         /* share of the tokens, at the end of the text, that is held back;
                                  0: 0.1; negative: none                                          */
    uint64_t seed;
    int    eval_every, save_every; /* steps; 0: a tenth of all, but at least 50; negative: only at
                                  the end                                                         */
    bool   resume;             /* continue from the checkpoint                                    */
    const char *plot;          /* an SVG file of the losses, written with every checkpoint; NULL:
                                  none                                                            */
    int    lora_rank;          /* train a LoRA adapter of init's model (docs/lora.md), whose weights
                                  stay; out_path is a folder then, as peft writes it; 0: none     */
    double lora_alpha;         /* its scale is alpha / rank; 0: alpha is the rank                 */
    const char *lora_targets;  /* some of q,k,v,o,gate,up,down; NULL: "q,v"                       */
    int    threads;
    bool (*progress)(void *user, const tblock_train_progress *p); /* after every step. False: save a
                                  checkpoint and stop                                             */
    void  *user;
} tblock_train_options;

typedef struct tblock_train_report {
    int64_t  step;            /* steps that are done                                              */
    bool     stopped;         /* progress stopped it: a checkpoint was saved, and no model file was
                                 written                                                          */
    double   loss, val_loss;  /* of the last step; on all held-back tokens, NaN: there are none */
    double   tok_per_s, seconds;
    size_t   n_train, n_held; /* tokens                                                           */
    uint64_t n_params;
    size_t   bytes;           /* memory of parameters, gradients, moments and activations         */
} tblock_train_report;

/* Train a model on a text and write a model file of f32 at out_path. The checkpoint is out_path
 * with ".ckpt" appended. With resume and otherwise the same options (threads, eval_every,
 * save_every, plot and progress may differ), training continues bit for bit as if it had never
 * stopped. A failure leaves the last checkpoint. Without resume, the checkpoint of a stopped
 * training is not overwritten (TBLOCK_USAGE). report may be NULL. Fails with TBLOCK_USAGE (a number
 * out of range, two of config, init and tokenizer that exclude each other), TBLOCK_INPUT (no text
 * or one that is too short, a config with parts that training does not support, a checkpoint with
 * other settings) and TBLOCK_NO (a loss that is NaN or infinite). */
TBLOCK_API bool tblock_train(const char *out_path, const tblock_train_options *opt,
                             tblock_train_report *report, tblock_error *err);

typedef struct tblock_grad_check_row {
    char   name[64];
    double worst;            /* largest |g - d| / max(|d|, root mean square of the gradient of its
                                tensor)                                                           */
    double grad, difference; /* g and d of the worst element                                      */
    size_t element;          /* its index                                                         */
    int    n;                /* elements that were compared                                       */
} tblock_grad_check_row;

typedef struct tblock_grad_check_options {
    const char *config;      /* a JSON config, with random values; or                             */
    const char *init;        /* a model, with its values; both NULL: the default config of
                                tblock_train                                                      */
    int         n_tokens;    /* length of the sequence of random tokens; 0: 12                    */
    int         samples;     /* elements of each parameter; 0: 8                                  */
    int         lora_rank;   /* only of an adapter with random values, as in tblock_train_options */
    double      lora_alpha;
    const char *lora_targets;
    uint64_t    seed;
    int         threads;
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_grad_check_options;

/* Compare gradients g of the backward pass (f32) with central differences d of the loss, computed
 * in double by a second implementation. *rows [*n_rows], one per parameter, is allocated. Fails as
 * tblock_train does. */
TBLOCK_API bool tblock_grad_check(const tblock_grad_check_options *opt,
                                  tblock_grad_check_row **rows, size_t *n_rows, tblock_error *err);

/* ---- One block (docs/block.md) --------------------------------------------------------------- */

enum { TBLOCK_BLOCK_MAX_STACK = 1000 };

/* Changes to the block that path describes. 0 and NULL: no change; without a path, a block of width
 * 64. */
typedef struct tblock_block_options {
    const char *tensors; /* a safetensors file with x and dy [B, L, d_model], and the weights
                            unless path is a model                                                */
    const char *output;  /* a safetensors file to write: y, attn, dx and grad.NAME; may be NULL   */
    int         layer;   /* which layer of a model or its config                                  */
    const char *norm, *placement, *ffn; /* "rms" ..., "pre", "post", "both", "output"; "swiglu",
                            "geglu", "gelu" ...                                                   */
    int         d_model, heads, kv_heads, head_dim, d_ff;
    int         window;  /* positions a query sees, with its own; -1: all                         */
    bool        non_causal, bias, no_rope;
    double      theta, eps;
    int         batch, length; /* 0: those of x, of the case, else 2 and 16                       */
    uint64_t    seed;
    int         stack;   /* blocks in the stack that compares pre-norm with post-norm; 0: no stack;
                            at most the layers that a model has                                   */
    int         check;   /* elements of each tensor whose gradients are checked; 0: none          */
    int         threads;
    bool        json, colour; /* print one JSON object; use the terminal's bold                   */
    void (*progress)(void *user, double done);
    void *user;
    bool (*go_on)(void *user, double done);
} tblock_block_options;

/* Run one decoder block forward and backward, and describe every step. path: NULL, a JSON config, a
 * case (the JSON of a block, docs/block.md), or any model. *text is allocated. It is allocated too
 * if the result is false with TBLOCK_NO: a value is NaN or infinite (the first is named), or a
 * gradient or the fused operation is wrong. Fails with TBLOCK_INPUT (config, tensors missing or of
 * another shape, a given value that is not finite) and TBLOCK_USAGE. */
TBLOCK_API bool tblock_block(const char *path, const tblock_block_options *opt, char **text,
                             tblock_error *err);

/* ---- The limits of the machine (docs/bench.md) ----------------------------------------------- */

typedef struct tblock_measure_options {
    int         threads;
    const char *isa;        /* NULL or "auto": the best this CPU has; or a name as for a context */
    size_t      read_bytes; /* memory to allocate and read; choose several times the caches; 0:
                               1.6 GB                                                             */
    const tblock_model *model; /* also read its weights where they lie; NULL: none                */
} tblock_measure_options;

typedef struct tblock_machine {
    char        cpu[128];        /* the processor's name, or "unknown"                            */
    const char *isa;
    int         threads;
    double      read_gb_per_s;   /* best of plain and prefetching loops, each thread over its own
                                    part of memory in huge pages                                  */
    double      weights_gb_per_s; /* the same over the model's weights, at most read_bytes of them;
                                    0: no model, under 64 kB of weights, or not packed yet        */
    double      huge_share;      /* tblock_huge_share of the model                                */
    double      f32_gflop_per_s; /* fused multiply-adds (2 each) of f32 in registers              */
    double      bf16_gflop_per_s; /* the same of bf16 with sums of f32, as its kernels use them   */
    double      int8_gop_per_s;  /* integer dot products as the ISA's kernels use them for 8-bit
                                    activations; a product and its addition are 2                 */
    double      int16_gop_per_s; /* the same for 16-bit activations; 0: not known for this ISA    */
} tblock_machine;

/* Measure the limits of this machine with that many threads. It takes a second or two. Fails with
 * TBLOCK_USAGE (threads, an isa that is unknown or that this processor lacks). */
TBLOCK_API bool tblock_measure_machine(const tblock_measure_options *opt, tblock_machine *out,
                                       tblock_error *err);

/* The share of the model's weights in this process's memory that is in huge pages now: 0 to 1;
 * below 0: not known, because none is in memory or /proc/self/smaps cannot be opened. */
TBLOCK_API double tblock_huge_share(const tblock_model *m);

/* Where the time of tblock_decode goes: a row for each operation of the forward pass, summed over
 * layers and calls. */
typedef struct tblock_profile_row {
    const char *name;        /* "embed", "norm", "qkv", "attention", "wo", "gate_up", "down",
                              * "head" */
    uint64_t    calls;
    double      seconds;     /* from its start to the start of the next, on the first thread,
                              * waiting for others included */
    double      bytes;       /* of weights or KV cache, counted once per call of up to n_batch
                              * tokens */
    double      operations;  /* of its products: a multiply-add is 2 */
} tblock_profile_row;

/* Start measuring from zero (on), or stop; the rows can still be read then. No bit changes. */
TBLOCK_API bool tblock_profile(tblock_context *c, bool on, tblock_error *err);

/* Fills up to n rows in the order of the first calls; returns how many there are (at most 16). */
TBLOCK_API size_t tblock_profile_read(const tblock_context *c, tblock_profile_row *row, size_t n);

/* A limit (roof) and a measurement (point) of a roofline plot. */
typedef struct tblock_roof {
    const char *name;                /* "2 threads"                                               */
    double      gb_per_s, gop_per_s; /* bandwidth; peak, 0: not known, so the roof has no top     */
} tblock_roof;

typedef struct tblock_roof_point {
    const char *name;                /* "prefill 512"                                             */
    size_t      roof;                /* index of its roof                                         */
    double      operations_per_byte, gop_per_s;
} tblock_roof_point;

/* Write an SVG file that plots operations per byte against GOP/s, both logarithmic. It suits light
 * and dark pages and loads no other file. Fails with TBLOCK_USAGE (no roof or over 16, over 256
 * points, a number that is not from 1e-90 to 1e90, a roof that does not exist). */
TBLOCK_API bool tblock_roofline_plot(const char *path, const char *title, const tblock_roof *roof,
                                     size_t n_roofs, const tblock_roof_point *point,
                                     size_t n_points, tblock_error *err);

/* ---- Parsed replies (docs/chat.md) ----------------------------------------------------------- */

/* How a chat's replies are parsed, as derived from its template. */
typedef struct tblock_answer_form {
    bool reasoning;        /* they may contain reasoning */
    bool calls;            /* they may contain tool calls: only if the chat has tools */
    bool object_arguments; /* a call in a message should have its arguments as an object; */
    bool text_arguments;   /* ... as a string of JSON. Neither: it is not known */
} tblock_answer_form;
TBLOCK_API void tblock_chat_answers(const tblock_chat *c, tblock_answer_form *out);

/* The parsed reply so far, valid until its next tblock_answer_put: texts are never NULL, and are
 * not NUL-terminated. */
typedef struct tblock_answer_info {
    const char *content; size_t n_content;
    const char *reasoning; size_t n_reasoning;
    size_t      n_calls;
} tblock_answer_info;
TBLOCK_API void tblock_answer_describe(const tblock_answer *a, tblock_answer_info *out);

/* Call i of n_calls: id is empty if the model wrote none; arguments may be incomplete. */
typedef struct tblock_answer_call_info {
    const char *name; size_t n_name;
    const char *id; size_t n_id;
    const char *arguments; size_t n_arguments;
} tblock_answer_call_info;
TBLOCK_API void tblock_answer_describe_call(const tblock_answer *a, size_t i,
                                            tblock_answer_call_info *out);

/* ---- Embeddings (docs/numerics.md) ----------------------------------------------------------- */

/* An embedding: the hidden states of a prompt after the final norm (hidden.final_norm of
 * tblock_logits_write), pooled into a vector of d_model numbers by a generation with the option
 * `pool`. With max_tokens -1 it does nothing else. */
enum tblock_pool {
    TBLOCK_POOL_NONE = 0,
    TBLOCK_POOL_MEAN = 1, /* their mean; all ids are computed, no cached prefix is used */
    TBLOCK_POOL_LAST = 2, /* the last one, for models trained for it */
    TBLOCK_POOL_CLS  = 3, /* the first one */
    TBLOCK_POOL_MODEL = 4 /* as the model's source says, then the matrices that follow pooling */
};

/* The kind for "mean", "last" or "cls"; NULL or "auto": what the model's source says, else mean.
 * Fails with TBLOCK_USAGE (another name) and TBLOCK_INPUT (an unsupported pooling in the source,
 * which is named). */
TBLOCK_API bool tblock_pool_choose(const tblock_model *m, const char *name, int *kind,
                                   tblock_error *err);

/* The length of its vectors: d_model, or the output width of the last matrix after pooling. */
TBLOCK_API int tblock_pool_width(const tblock_model *m, int kind);

/* The vector, out [tblock_pool_width]; normalize: of length 1, unless it is all zeros or logits of
 * labels. Its bits depend neither on how the prompt was chunked nor on the rest of the batch. A
 * state that is NaN or infinite ends the generation with TBLOCK_END_FAILED, unless the context
 * allows NaN. Fails with TBLOCK_USAGE (no pool, the prompt is not complete). */
TBLOCK_API bool tblock_generation_embedding(const tblock_generation *g, bool normalize, float *out,
                                            tblock_error *err);

typedef struct tblock_embed_text { const int32_t *ids; size_t n_ids; } tblock_embed_text;
typedef struct tblock_embed_options {
    const char *pool; /* as in tblock_pool_choose */
    bool        raw;  /* not normalized */
    bool (*progress)(void *user, double done); /* false stops */
    void *user;
} tblock_embed_options;

/* Embed n texts, out [n, tblock_pool_width], in batches of as many as the context has sequences. It
 * must have no open generation; its sequences keep only prefixes that later texts may share. Fails
 * as tblock_pool_choose, and with TBLOCK_USAGE (a text of no token or of more than the context
 * holds, an id), TBLOCK_SYSTEM (memory; it was stopped) and TBLOCK_INPUT (a state that is NaN or
 * infinite, unless the context allows it); *failed, which may be NULL, is then the index of the
 * text, or n if it is of no single text. */
TBLOCK_API bool tblock_embed(tblock_context *c, const tblock_embed_text *text, size_t n,
                             const tblock_embed_options *opt, float *out, size_t *failed,
                             tblock_error *err);

/* ---- Speculative decoding (docs/drafts.md) --------------------------------------------------- */

/* Choose the drafter for generations of c with the option `draft`, from now on. `draft`: a context
 * of another model, which c alone uses and which must outlive c; NULL: prompt lookup; c itself: its
 * model's MTP layer. Another context needs as many sequences as c, and keeps for each what it has
 * computed; it drafts no further than its n_ctx. tblock_context_describe counts its memory too.
 * Generations in one step share the draft: together they add no more rows than one alone. Texts,
 * tokens and logits do not change. Fails with TBLOCK_INPUT (a model whose tokenizer has other
 * tokens; c or draft has recurrent layers, which cannot roll back rejected tokens; c's has no MTP
 * layer) and TBLOCK_USAGE (fewer sequences; draft is not c, and ranks share its model). */
TBLOCK_API bool tblock_draft_by(tblock_context *c, tblock_context *draft, tblock_error *err);

/* ---- Reranking (docs/embeddings.md) ---------------------------------------------------------- */

/* Inputs of a reranker, which may be untrusted: special tokens spelled in them stay text. */
typedef struct tblock_rerank_texts {
    const char *instruction; size_t n_instruction; /* NULL: the model card's, of web searches */
    const char *query; size_t n_query;
    const char *document; size_t n_document;
} tblock_rerank_texts;

/* The prompt after which a model in the form of Qwen3-Reranker judges whether the document meets
 * the query. *ids is allocated. Fails with TBLOCK_INPUT: a tokenizer in which <|im_start|>,
 * <|im_end|>, yes or no is not one token. */
TBLOCK_API bool tblock_rerank_prompt(const tblock_model *m, const tblock_rerank_texts *texts,
                                     int32_t **ids, size_t *n, tblock_error *err);

/* Sets what a reranking generation needs besides that prompt: max_tokens and pool. Fails with
 * TBLOCK_INPUT: a model with several labels. */
TBLOCK_API bool tblock_rerank_options(const tblock_model *m, tblock_generation_options *o,
                                      tblock_error *err);

/* The score from a generation of m that has ended, before the next step: the output of a one-label
 * head, else P("yes") / (P("yes") + P("no")) from the logits after the prompt. Fails like
 * tblock_rerank_prompt, and with TBLOCK_INPUT if it is not a number. */
TBLOCK_API bool tblock_rerank_score(const tblock_model *m, const tblock_generation *g,
                                    double *score, tblock_error *err);

/* Score n documents, usually for one query: scores [n], in batches of as many as the context has
 * sequences. A score depends on its own texts alone. The context must have no open generation.
 * Fails as the functions above and tblock_embed do; *failed, which may be NULL, is then the index
 * of the document, or n if it is of no single document. */
TBLOCK_API bool tblock_rerank(tblock_context *c, const tblock_rerank_texts *texts, size_t n,
                              double *scores, size_t *failed, tblock_error *err);

/* A document and its score. Sorts n of them: the best first; of equal scores, the lower index. */
typedef struct tblock_rerank_result { double score; size_t index; } tblock_rerank_result;
TBLOCK_API void tblock_rerank_sort(tblock_rerank_result *results, size_t n);

/* ---- Adapters (docs/lora.md) ----------------------------------------------------------------- */

/* Load a LoRA adapter for a model: a folder with adapter_config.json and adapter_model.safetensors,
 * as peft writes them, or a .gguf. *number counts the model's adapters from 0; they live as long as
 * the model. Call it before other threads use the model. Fails with TBLOCK_INPUT (not an adapter,
 * one of another model, of an unsupported kind, or of a matrix that cannot be adapted; a number
 * that is not finite). If ranks share the model, each loads the adapter from this path; if one
 * fails, none has it. */
TBLOCK_API bool tblock_lora_load(tblock_model *m, const char *path, int *number, tblock_error *err);

/* A hash, 64 hexadecimal digits, of everything in it that changes bits; NULL: no such adapter. */
TBLOCK_API const char *tblock_lora_hash(const tblock_model *m, int number);

typedef struct tblock_lora { int adapter; double scale; } tblock_lora; /* scale: 1 is as trained */

/* From now on, new generations and empty sequences use these adapters, in this order (n 0: none; at
 * most 16). All others keep theirs, in the same calls and with the same bits as alone. If seq is
 * not -1, only this sequence uses them, until it is emptied. A prefix is shared only between
 * sequences with the same adapters. Fails with TBLOCK_USAGE (no such adapter, a scale that is not
 * finite; a sequence that holds tokens or is a generation's). */
TBLOCK_API bool tblock_lora_choose(tblock_context *c, int32_t seq, const tblock_lora *use, size_t n,
                                   tblock_error *err);

/* ---- Constraints (docs/constraints.md) ------------------------------------------------------- */

/* A tblock_constraint (structured output) is what a text must fit. Its tables grow as it runs: one
 * thread at a time may use it, or the generations that have it. */

enum tblock_constraint_kind {
    TBLOCK_REGEX  = 1, /* the whole text matches this pattern of ECMA-262      */
    TBLOCK_GRAMMAR = 2, /* the text is a `root` of this grammar in GBNF        */
    /* the text is JSON that this JSON Schema allows, properties in its order, or in any */
    TBLOCK_JSON_SCHEMA = 3,
    TBLOCK_JSON_SCHEMA_ANY_ORDER = 4
};

/* text [n_bytes] is UTF-8; errors begin with name. m, which must outlive the constraint, may be
 * NULL: then it knows bytes and no tokens. Fails with TBLOCK_INPUT (no pattern, grammar or schema,
 * something unsupported, no text fits: with its position) and TBLOCK_USAGE (kind). */
TBLOCK_API tblock_constraint *tblock_constraint_new(const tblock_model *m, int kind,
                                                    const char *text, size_t n_bytes,
                                                    const char *name, tblock_error *err);
TBLOCK_API void               tblock_constraint_free(tblock_constraint *c); /* accepts NULL */

/* Several: one or more calls, if the template supports more. Optional: the reply need not call a
 * tool; it is unconstrained up to the marker that begins a call. Such a constraint may be combined
 * with stop strings: they end the reply before its calls. */
enum { TBLOCK_CALLS_SEVERAL = 1, TBLOCK_CALLS_OPTIONAL = 2 };
/* Constrains a reply to tool calls in the template's format, with arguments valid under the tool's
 * schema: the tool of that name, or NULL: any. If the prompt opens reasoning, that comes first.
 * Fails with TBLOCK_INPUT: no such tool; a template that does not write arguments as JSON, or that
 * is not understood; optional, one that shows no marker; an unsupported schema. */
TBLOCK_API tblock_constraint *tblock_chat_calls(const tblock_chat *c, const char *name,
                                                unsigned flags, tblock_error *err);

/* The unknown names in a schema's `format`, which are not enforced: "a, b", or "". Lives as long as
 * c. */
TBLOCK_API const char *tblock_constraint_unknown_formats(const tblock_constraint *c);

/* Does the text fit? With a model, token by token: each of its tokens, without special ones, is
 * checked against the mask at its position. A text that the tokenizer changes, so that the tokens
 * do not spell it to the byte, is checked byte by byte. Fails with TBLOCK_INPUT (tables are full, a
 * text that cannot be tokenized). */
TBLOCK_API bool tblock_constraint_accepts(tblock_constraint *c, const char *text, size_t n_bytes,
                                          bool *accepts, tblock_error *err);

/* How long it took so far to compute which tokens may come next. */
typedef struct tblock_constraint_times {
    double   compile_s;  /* tblock_constraint_new, without the vocabulary's tree */
    uint64_t n_masks;
    double   first_s, mean_s, p99_s, max_s; /* of masks; 0: none                */
} tblock_constraint_times;
TBLOCK_API void tblock_constraint_measure(const tblock_constraint *c, tblock_constraint_times *out);

/* ---- Ranks (docs/ranks.md) ------------------------------------------------------------------- */

/* This process as one of several that mpirun has started, to run one model together. Rank 0 runs
 * the program; the others execute its commands, and hold their shard of the model and its contexts.
 * Results have the bits of one process. The library loads libtblock-mpi.so for it. */
typedef struct tblock_ranks tblock_ranks;

/* *out is NULL if mpirun has not started this process, or only this one. Call it once, on every
 * rank. Fails with TBLOCK_SYSTEM: no plug-in, another version on another rank. */
TBLOCK_API bool tblock_ranks_join(tblock_ranks **out, tblock_error *err);
TBLOCK_API int  tblock_ranks_rank(const tblock_ranks *r); /* from 0 */
TBLOCK_API int  tblock_ranks_size(const tblock_ranks *r);

/* On rank 0: opens a model on all ranks, from the same path on each. Everything that takes a model
 * then works as usual, except attention probabilities and the options mlock and populate, which
 * fail with TBLOCK_USAGE. Close it before rank 0 leaves. Fails with the first error of any rank,
 * which it names, and if one finds another model. */
TBLOCK_API tblock_model *tblock_ranks_open(tblock_ranks *r, const char *path,
                                           const tblock_open_options *opt, tblock_error *err);

/* On the other ranks: returns when rank 0 leaves. */
TBLOCK_API bool tblock_ranks_follow(tblock_ranks *r, tblock_error *err);

TBLOCK_API void tblock_ranks_leave(tblock_ranks *r); /* at the end, on every rank; accepts NULL */

#ifdef __cplusplus
}
#endif
#endif
