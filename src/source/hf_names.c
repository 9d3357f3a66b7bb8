/* source/hf_names.c: the tensors of a folder by their names, and those that are bound to none of
 * ours. */
#include "source/hf_bind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const NamedTensor *)a)->name, ((const NamedTensor *)b)->name);
}

NamedTensor *hf_find(const HfBinder *b, const char *name)
{
    NamedTensor key = { .name = name };
    return bsearch(&key, b->named, b->n, sizeof key, by_name);
}

NamedTensor *hf_find_codes(const HfBinder *b, const char *name)
{
    QuantTensor  want;
    NamedTensor *n = hf_quant_tensor(&b->h->quant, QUANT_CODES, name, 1, 1, &want)
        ? hf_find(b, want.name)
        : NULL;
    return n && n->t->dtype == want.dtype[0] ? n : NULL;
}

/* Modules after pooling have their own files: linear.weight of the first is
 * dense1.linear.weight. */
static const char *full_name(const HfBinder *b, int file, const char *name)
{
    const int first = b->s->n_files - (b->s->dense[0] != NULL) - (b->s->dense[1] != NULL);
    if (file < first)
        return name;
    const size_t n    = strlen(name) + 8;
    char        *full = source_alloc(b->s, n + 1, b->err);
    if (full)
        snprintf(full, n + 1, "dense%d.%s", file - first + 1, name);
    return full;
}

bool hf_list_names(HfBinder *b)
{
    for (int i = 0; i < b->s->n_files; i++)
        b->n += (size_t)b->s->files[i].n_tensors;
    b->named = source_alloc(b->s, b->n * sizeof *b->named, b->err);
    size_t at = 0;
    for (int i = 0; b->named && i < b->s->n_files; i++)
        for (int t = 0; t < b->s->files[i].n_tensors; t++) {
            const Tensor *one  = &b->s->files[i].tensors[t];
            const char   *name = full_name(b, i, one->name);
            if (!name)
                return false;
            b->named[at++] = (NamedTensor){ name, one, &b->s->files[i], false };
        }
    if (b->named)
        qsort(b->named, b->n, sizeof *b->named, by_name);
    return b->named != NULL;
}

/* ---- Tensors that are there and not needed --------------------------------------------------- */

/* Does a name follow a pattern, in which "@" is the prefix, "#" digits, "*" the rest? */
static bool follows(const HfBinder *b, const char *name, const char *pattern)
{
    if (*pattern == '@') {
        if (strncmp(name, b->prefix, strlen(b->prefix)) != 0)
            return false;
        name += strlen(b->prefix);
        pattern++;
    }
    for (; *pattern && *pattern != '*'; pattern++) {
        size_t digits = strspn(name, "0123456789");
        if (*pattern == '#' ? digits == 0 : *name != *pattern)
            return false;
        name += *pattern == '#' ? digits : 1;
    }
    return *pattern == '*' || !*name;
}

/* The number after a word of the name; -1: none. */
static int number_after(const char *name, const char *word)
{
    const char *at = strstr(name, word);
    int         n;
    return at && sscanf(at + strlen(word), "%9d.", &n) == 1 ? n : -1;
}

/* Programs of 2023 stored biases of zeros with each matrix that they quantized. */
static bool bias_of_zeros(const HfBinder *b, const NamedTensor *n)
{
    char        weight[NAME_BYTES];
    const char *end = strrchr(n->name, '.');
    if (b->h->quant.form < QUANT_GPTQ || !end || strcmp(end, ".bias") != 0)
        return false;
    int length = snprintf(weight, sizeof weight, "%.*s.weight", (int)(end - n->name), n->name);
    if (length >= (int)sizeof weight || !hf_find_codes(b, weight))
        return false;
    for (size_t i = 0; i < n->t->n_bytes; i++)
        if (((const char *)n->t->data)[i] != 0)
            return false;
    return true;
}

static bool unused(const HfBinder *b, const char *name)
{
    const FamilyWrapper *w = b->h->wrapper;
    int                  layer = number_after(name, "layers.") - b->c->n_layers;
    if (layer >= 0 && layer < b->s->next_layers)
        return true;
    for (int i = 0; i < 3 && b->h->family->unused[i]; i++)
        if (follows(b, name, b->h->family->unused[i]))
            return true;
    for (int i = 0; w && i < 6 && w->others[i]; i++)
        if (strncmp(name, w->others[i], strlen(w->others[i])) == 0)
            return true;
    return false;
}

/* A tied model may store its head as well. Loaders disagree on a head that differs: the model is
 * then ambiguous, so it is an error. */
static bool check_head(const HfBinder *b, NamedTensor *head)
{
    const Tensor *embed = b->s->rows[0].part[0].t, *t = head->t;
    bool same = t->dtype == embed->dtype && t->rank == 2 && t->shape[0] == embed->shape[0]
        && t->shape[1] == embed->shape[1]
        && (t->data == embed->data || memcmp(t->data, embed->data, t->n_bytes) == 0);
    head->used = true;
    return same
        || fail(b->err, INPUT,
                "%s: tensor %s: expected the values of %s (tie_word_embeddings is true), found "
                "others"
                " (set tie_word_embeddings to false to use this head, or remove it)",
                head->file->map.path, head->name, embed->name);
}

static bool extra(const HfBinder *b, const NamedTensor *n, int n_extra)
{
    char        found[160], why[128] = "";
    const char *end = strrchr(n->name, '.');
    int         layer = number_after(n->name, "layers.") >= 0 ? number_after(n->name, "layers.")
                                                              : number_after(n->name, "h.");
    if (n_extra > 1)
        snprintf(why, sizeof why, " (%d tensors that the config does not ask for)", n_extra);
    if (end && strcmp(end, ".bias") == 0)
        snprintf(why, sizeof why, " (the config has no bias here)");
    if (layer >= b->c->n_layers)
        snprintf(why, sizeof why, " (the config has %d layers)", b->c->n_layers);
    else if (number_after(n->name, ".experts.") >= b->c->n_experts)
        snprintf(why, sizeof why, " (the config has %d experts)", b->c->n_experts);
    return fail(b->err, INPUT, "%s: tensor %s: expected no such tensor, found %s %s%s",
                n->file->map.path, n->name, dtype_name(n->t->dtype),
                tensor_shape_text(n->t, found, sizeof found), why);
}

bool hf_check_rest(HfBinder *b)
{
    int          n_extra = 0;
    const NamedTensor *first   = NULL;
    for (const FamilyTensor *t = b->c->tied_embeddings ? hf_family_rows(b->h->family, ROLE_LM_HEAD)
                                                       : NULL;
         t; t = hf_family_more(t + 1, ROLE_LM_HEAD)) {
        NamedTensor *head = hf_find(b, t->name);
        if (head && !check_head(b, head))
            return false;
    }
    for (size_t i = 0; i < b->n; i++)
        if (!b->named[i].used && !unused(b, b->named[i].name) && !bias_of_zeros(b, &b->named[i])) {
            first = first ? first : &b->named[i];
            n_extra++;
        }
    return !first || extra(b, first, n_extra);
}
