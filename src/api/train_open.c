#include "api/train_open.h"

bool adamw_check(const tblock_adamw *a, Error *err)
{
    const struct { const char *name; double x, min, max; } numbers[] = {
        { "lr", a->lr, 0, 1e3 }, { "beta1", a->beta1, 0, 0.999999 }, { "beta2", a->beta2, 0, 0.999999 },
        { "eps", a->eps, 1e-30, 1 }, { "weight_decay", a->weight_decay, 0, 1e3 },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (!(numbers[i].x >= numbers[i].min && numbers[i].x <= numbers[i].max))
            return fail(err, USAGE, "%s: expected %g to %g, found %g", numbers[i].name, numbers[i].min, numbers[i].max, numbers[i].x);
    return true;
}

int micro_batch(int n_seqs, int seq_len)
{
    enum { TOKENS = 2048 };
    int n = TOKENS / seq_len;
    n = n < 1 ? 1 : n;
    return n < n_seqs ? n : n_seqs;
}

const char *tensor_source_name(const Source *s, const Params *p, int tensor)
{
    const CheckedTensor *t = &s->checkpoint.tensor[tensor];
    if (s->kind == SOURCE_MODEL_FILE || s->kind == SOURCE_GGUF || s->kind == SOURCE_META || s->kind == SOURCE_LLAMA2C)
        return p->spec[tensor].name;
    return t->rows ? t->rows->name : t->part[0]->name;
}
