/* api/train_open.c: configs, optimizer numbers and tensor names for training. */
#include "api/training.h"

#include <string.h>

#include "source/source.h"

/* The default config of training: 2.6 million parameters. */
static const char usual_config[] = "{\"d_model\": 192, \"n_layers\": 6, \"heads\": 6, "
                                   "\"kv_heads\": 3, \"d_ff\": 512, \"vocab_size\": 1024, "
                                   "\"n_ctx\": 256, \"norm_eps\": 1e-5, \"tied_embeddings\": true}";

bool train_config(Config *c, const char *path, int vocab, Error *err)
{
    const char *what = path ? path : "the default config of train";
    bool ok = path ? config_source_read(c, path, err)
                   : config_parse(c, usual_config, sizeof usual_config - 1, what, err);
    if (ok && vocab) {
        c->vocab_size = vocab;
        c->bos        = -1; /* they are ids of the config's own vocabulary */
        c->n_eos      = 0;
    }
    return ok && config_check(c, what, err) && config_supported(c, what, err)
        && train_supported(c, what, err);
}

bool adamw_check(const tblock_adamw *a, Error *err)
{
    const struct { const char *name; double x, min, max; } numbers[] = {
        { "lr", a->lr, 0, 1e3 }, { "beta1", a->beta1, 0, 0.999999 },
        { "beta2", a->beta2, 0, 0.999999 },
        { "eps", a->eps, 1e-30, 1 }, { "weight_decay", a->weight_decay, 0, 1e3 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i].x >= numbers[i].min && numbers[i].x <= numbers[i].max))
            return fail(err, USAGE, "%s: expected %g to %g, found %g", numbers[i].name,
                        numbers[i].min, numbers[i].max, numbers[i].x);
    return true;
}

int micro_batch(int n_seqs, int seq_len)
{
    enum { TOKENS = 2048 };
    int n = TOKENS / seq_len;
    n = n < 1 ? 1 : n;
    return n < n_seqs ? n : n_seqs;
}

/* ---- As the checkpoint has them -------------------------------------------------------------- */

static const char *checkpoint_name(const CheckedTensor *t)
{
    return t->rows ? t->rows->name : t->part[0]->name;
}

/* Is tensor j cut from the same tensor of the checkpoint as i? */
static bool together(const Source *s, int i, int j)
{
    const CheckedTensor *t = s->stored.tensor;
    return i == j || (s->kind == SOURCE_HF
                      && strcmp(checkpoint_name(&t[i]), checkpoint_name(&t[j])) == 0);
}

/* The row of the output that row r of tensor i becomes. */
static size_t row_there(const Source *s, int i, int r)
{
    const RowSource *rows = s->stored.tensor[i].rows;
    return s->kind == SOURCE_HF && rows ? row_source_file_row(rows, r) : (size_t)r;
}

const char *source_tensor(const Source *s, const Params *p, int i, int64_t *rows)
{
    *rows = 0;
    for (int j = 0; j < p->n; j++) {
        if (!together(s, i, j))
            continue;
        if (j < i)
            return NULL;
        *rows += p->spec[j].rows;
    }
    return s->kind == SOURCE_HF ? checkpoint_name(&s->stored.tensor[i]) : p->spec[i].name;
}

bool source_tensor_put(const Source *s, const Params *p, int i, TensorWriter *w, int out,
                       const float *array, Error *err)
{
    for (int j = i; j < p->n; j++) {
        size_t row = (p->spec[j].k ? (size_t)p->spec[j].k : 1) * sizeof *array;
        for (int r = 0, n; together(s, i, j) && r < p->spec[j].rows; r += n) {
            size_t to = row_there(s, j, r);
            for (n = 1; r + n < p->spec[j].rows && row_there(s, j, r + n) == to + (size_t)n;)
                n++;
            if (!tensor_writer_put(w, out, to * row, array + p->at[j] + (size_t)r * row / 4,
                                   (size_t)n * row, err))
                return false;
        }
    }
    return true;
}
