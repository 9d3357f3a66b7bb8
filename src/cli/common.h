/* cli/common.h: options that several commands share, each declared in one table, and what they do. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include "options.h"

typedef struct GeneralOptions { bool quiet, help, version; } GeneralOptions;
extern const Option general_options[];

/* Rows that several commands have in tables of their own. The command gives the field that a row
 * fills and the words of the help that are its own. */
#define OPTION_JSON(at, help)         { "json", 0, NULL, OPT_FLAG, at, 0, 0, NULL, help }
#define OPTION_OUTPUT(at, need, help) { "output", 'o', "FILE", OPT_TEXT, at, 0, 0, need, help }
#define OPTION_SEED(at, help)         { "seed", 's', "N|random", OPT_SEED, at, 0, 0, "0", help }
#define OPTION_IDS(at, help)          { "ids", 0, "IDS", OPT_IDS, at, 0, 0, NULL, help }
#define OPTION_NO_BOS(at, help)       { "no-bos", 0, NULL, OPT_FLAG, at, 0, 0, NULL, help }
#define OPTION_SPECIAL(at, in)                                                                     \
    { "special", 0, NULL, OPT_FLAG, at, 0, 0, NULL,                                                \
      "read special tokens in " in " as special; by default they are ordinary text" }
#define OPTION_THREADS(at, more)                                                                   \
    { "threads", 't', "N", OPT_INT, at, 0, 1024, "0",                                              \
      "number of threads; 0: one per physical core" more }
#define OPTION_KEEP(at, when, more)                                                                \
    { "keep", 'k', "PATTERN=TYPE", OPT_TEXTS, at, 0, 0, NULL,                                      \
      when "another type for matrices whose names match" more }
#define OPTION_KV_TYPE(at)                                                                         \
    { "kv-type", 0, "auto|f32|f16|q8", OPT_CHOICE, at, 0, 0, "auto",                               \
      "type of the KV cache; auto: f32 for float weights, f16 for quantized ones" }
#define OPTION_SANDBOX(at)                                                                         \
    { "sandbox", 0, NULL, OPT_FLAG, at, 0, 0, NULL,                                                \
      "after opening the files, allow only computing, reading and writing (Linux; see SECURITY.md)" }
#define OPERAND_OUT(at) { "OUT", at, true, "an older form of -o OUT" }

/* Groups, in the order of the help; the last one ends the table. */
#define GROUP_PROMPT(at)                                                                           \
    { "Prompt: one of --prompt, --prompt-file, --ids or standard input", prompt_options, at }
#define GROUP_COMPUTE(at) { "Computing", compute_options, at }
#define GROUPS_END(at)    { "General", general_options, at }, { 0 }

/* What every command takes. */
#define MODEL_OPERAND "a model file, a Hugging Face folder, a .gguf, a Meta folder or a llama2.c .bin"

/* How logits are computed. */
typedef struct ComputeOptions {
    int         n_ctx, threads;
    const char *isa, *math, *activations, *kv_type, *affinity;
    bool        mlock, huge_pages, allow_nan, sandbox, check;
    const char *type;
    TextList    keep;
} ComputeOptions;
extern const Option compute_options[];

/* The options after --ctx and --threads, for a command that has its own of these. */
enum { COMPUTE_SIZES = 2 };

enum { COMPUTE_BATCH = 512 }; /* most tokens computed at once; wider does not read the weights any better */

/* tblock_open as the options say */
tblock_model *compute_open(const char *path, const ComputeOptions *o, tblock_error *err);

/* tblock_context_new as the options say; warns where n_ctx is over the model's own limit. path is for messages. */
tblock_context *compute_context(const tblock_model *m, const char *path, const ComputeOptions *o, bool quiet,
                                tblock_error *err);

/* How a token is drawn. */
typedef struct SamplingOptions {
    double temp, top_p, min_p, repeat_penalty;
    int    top_k;
    Seed   seed;
} SamplingOptions;
extern const Option sampling_options[];

tblock_sampler_options sampling_of(const SamplingOptions *o, uint64_t seed);

/* A generation on its way to its end (generate.c). */
typedef struct Generating {
    tblock_context        *context;
    tblock_generation     *generation;
    const char            *reading; /* what a long prompt's bar says; NULL: no bar               */
    bool (*show)(void *user, const tblock_generation_info *now, tblock_error *err); /* every step */
    void                  *user;
    tblock_generation_info now;
    size_t                 piece, n_pieces; /* of the prompt: the next one's tokens; pieces read  */
    double                 read_s, draw_s;  /* with the first token; with the others              */
} Generating;

/* Start with context, generation, reading, show and user. Ctrl-C (interrupt.h) stops it, which is an
 * end like others. False: show failed, or the generation. */
bool generate(Generating *g, tblock_error *err);

/* Where the tokens come from. */
typedef struct PromptOptions {
    const char *text, *file;
    IdList      ids;
    bool        no_bos, special;
    bool        needs_text; /* no option: an empty text is an error, which names its file */
    bool        continues; /* no option: the text goes on from other tokens; none is put first, and it may be empty */
} PromptOptions;
extern const Option prompt_options[];

typedef struct Prompt {
    char    *text;   /* as given; empty when the prompt is ids */
    size_t   n_text;
    int32_t *ids;
    size_t   n;
} Prompt;

/* Read and tokenize: --ids, --prompt, --prompt-file or else standard input. An empty text is the BOS alone where the
 * tokenizer puts one first. Fails (TBLOCK_INPUT) for text and a model without tokenizer, and (TBLOCK_USAGE) when there is no
 * token at all. path: the model, for messages. */
bool prompt_read(Prompt *p, const PromptOptions *o, const tblock_model *m, const char *path, bool quiet,
                 tblock_error *err);
void prompt_free(Prompt *p);

/* Tell that the tokenizer is not from the model's own file, where it is not (compute_context does). */
void note_tokenizer(const tblock_model_info *info, const char *path, bool quiet);

/* Tell how many weights became 0 in a change of type, if any did (convert, quantize). */
void note_flushed(uint64_t n, bool quiet);

/* Fails for a model without tokenizer; says what to do instead. */
bool need_tokenizer(const tblock_model *m, const char *path, const char *instead, tblock_error *err);

/* Where the prompt is read from: a file's name, "-" for standard input, NULL for neither. */
const char *prompt_file(const PromptOptions *o);

/* The output of a command that takes it as -o OUT and, in an older form, as an argument: *out is the one that was given, NULL where
 * neither was. Both are an error (TBLOCK_USAGE). */
bool output_one(const char **out, const char *argument, tblock_error *err);

/* What a command reads beside its model: names of files, of which NULL is none and "-" standard input. */
enum { MOST_INPUTS = 4 };
typedef struct Inputs { const char *model; const char *file[MOST_INPUTS]; } Inputs;

/* An output must replace none of them, and no file of the model (m; NULL: it could not be opened): fails (TBLOCK_USAGE, naming both).
 * To be asked before anything is opened for writing. output may be NULL. */
bool output_apart(const char *output, const tblock_model *m, const Inputs *in, tblock_error *err);

/* Replace a random seed by a value and tell it (unless quiet), so that the run can be repeated. */
bool seed_choose(Seed *seed, bool quiet, tblock_error *err);

#endif
