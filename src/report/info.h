/* report/info.h: what a model is made of and what it costs, as text, as JSON and as a page. Shows
 * the numbers of model/count.h, of model/data_check.c and of the runtime's plans; computes none. */
#ifndef REPORT_INFO_H
#define REPORT_INFO_H

#include "base/json.h"
#include "base/report_rows.h"
#include "base/text.h"
#include "model/count.h"
#include "model/tensor_list.h"
#include "source/source.h"
#include "tblock_tools.h"

/* Memory of a run, as the runtime would allocate it on one thread. */
typedef struct MemoryPlan {
    int      n_ctx, n_seqs, n_batch;
    uint64_t weights;          /* as stored: mapped, not copied                        */
    uint64_t packed;           /* panels made when loading (layout rows)               */
    uint64_t kv;               /* every sequence at n_ctx, in whole tiles              */
    uint64_t activations;      /* buffers for n_batch tokens                           */
    uint64_t logits;           /* of one token                                         */
    uint64_t total;
    uint64_t each_thread;      /* what one thread more adds                            */
    uint64_t attention;        /* working memory of attention in one thread, any length */
    uint64_t available;        /* on this machine, in this control group; 0: not known */
} MemoryPlan;

/* How many ranks would share it (0, 1: none); bytes per second between two of them, seconds per
 * message, bytes per second from the memory of each (0: unknown). */
typedef struct RankPlan { int ranks; double bandwidth, latency, memory; } RankPlan;

/* One length of the plots. */
typedef struct InfoPoint {
    int    seq;
    double ffn, attention_full, attention, scores; /* FLOP of one block for each token of a prompt
                                                    * of seq tokens; the last two as computed, with
                                                    * the mask */
    double kv[3], kv_mha;      /* KV bytes of a sequence: f32, f16, q8; of the chosen type with a KV
                                * head for each head */
} InfoPoint;

/* What to report. Everything belongs to the caller. */
typedef struct Info {
    const char       *path;
    const char       *kind;        /* "model file", "GGUF" ...; NULL: a bare config */
    bool              ours;        /* a model file */
    const SourceContents *contents; /* NULL: a bare config */
    const Config     *cfg;         /* NULL: the file holds only a tokenizer; then nothing is
                                    * counted */
    const Count      *count;       /* of the file, or of the config with matrices of `type` */
    WeightType        type;        /* of a bare config */
    uint64_t          type_bytes[WT_COUNT]; /* of a bare config: all weights in each type tblock
                                             * makes */
    const Json       *tokenizer;   /* metadata entries, parsed; NULL: absent */
    const Json       *source;
    const char       *chat;        /* name of the chat format, or what is known of it; NULL: none */
    const char       *sha256;      /* as recorded in the file; NULL: absent */
    const char       *tokenizer_hash;
    const char       *kv_type;     /* "f32", "f16", "q8" */
    FlopLoad          load;        /* of prefill */
    Flops             prefill, decode;
    Crossover         crossover;
    KvCount           kv;          /* in kv_type */
    double            score_bytes; /* count_score_bytes of load */
    MemoryPlan        memory;
    double            huge_share;  /* of weights in the page cache, those in huge pages; below 0:
                                    * unknown */
    RankPlan          ranks;
    const DataCheck  *check;       /* NULL: not asked for */
    const InfoPoint  *curve;       /* [n_curve], ascending */
    int               n_curve;
} Info;

/* Allocates *text, NUL-terminated; fails only without memory. Text keeps within 80 columns. A page
 * has its style and drawings inside: nothing is loaded, no script runs, and no text of a file can
 * become markup. */
bool info_report(const Info *info, Face face, const tblock_report_options *opt, char **text,
                 Error *err);

/* ---- Words (forms.c); what takes a buf fills it, of n bytes, and returns it ------------------ */

/* a bit mask of WeightType: "Q4,BF16,F32" */
const char *form_types(unsigned types, char *buf, size_t n);
/* "[rows, k]" or "[rows]" */
const char *form_shape(const CountPart *p, char *buf, size_t n);

/* The weight types in the order of the reports, from the fewest bits; and as they are spelled
 * there: "Q4", "BF16", "F32". */
WeightType  info_type(int i); /* i < WT_COUNT */
const char *info_type_name(WeightType t);
/* bits per weight on average, with padding and vectors */
double      info_bits(const Count *n);

/* How a block is built, in words: the norms' places and kind, the feed-forward's function, windows,
 * positions, experts ("" if there are none), multipliers and caps ("" if there are none). For text
 * and page alike: no character needs escaping. */
/* "pre-norm (rms, eps 1e-06)" */
const char *info_norms(const Config *c, char *buf, size_t n);
/* "swiglu" */
const char *info_ffn(const Config *c);
/* ", window 4096 in 13 of 26 layers" */
const char *info_windows(const Config *c, char *buf, size_t n);
/* "rope, theta 10000" */
const char *info_positions(const Config *c, char *buf, size_t n);
/* "8 of 128 experts of 768 a token ..." */
const char *info_experts(const Config *c, char *buf, size_t n);
/* "embedding x 48, logit cap 30" */
const char *info_numbers(const Config *c, char *buf, size_t n);

/* Does the model have the operation? Others are left out of tables. */
/* by windows or experts */
bool info_blocks_differ(const Config *c);
/* is another not as large as the first? */
bool info_sizes_differ(const Info *info);
bool info_has_op(const Info *info, FlopOp op);

/* "16 blocks" */
const char *info_blocks(const Info *info, char buf[32]);
/* "rows16", "rows" or "mixed" */
const char *info_layout(const Count *n);
/* what limits attention: "causal", "window"; "both": nothing, it looks in both directions */
const char *info_seen(const Info *info);

/* An entry of the metadata `source`: the key that says how the weights were made, what precedes its
 * value on a page, the key of a hash and what it is a hash of. */
typedef struct SourceForm { const char *key, *before, *hash_key, *hash_of; } SourceForm;
/* NULL: of another form, which is not shown */
const SourceForm *info_source_form(const Json *entry);

#endif
