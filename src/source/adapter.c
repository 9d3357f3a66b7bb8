/* source/adapter.c: opens LoRA adapters: a folder of peft, or GGUF. */
#include "source/adapter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source/hf.h"

enum { MOST_RANK = 1 << 16 };

/* ---- What all kinds share -------------------------------------------------------------------- */

bool adapter_parts_new(AdapterParts *p, const char *path, const Config *c, const Tensor *tensors,
                       size_t n_tensors, Error *err)
{
    size_t most = (size_t)tensor_list_count(c) + 1;
    *p          = (AdapterParts){ .path = path, .config = c, .tensors = tensors,
                                  .n_tensors = n_tensors, .err = err,
                                  .used = calloc(n_tensors + 1, sizeof *p->used),
                                  .part = calloc(most, sizeof *p->part),
                                  .from = calloc(2 * most, sizeof *p->from) };
    return (p->used && p->part && p->from) || no_memory(path, err);
}

void adapter_parts_free(AdapterParts *p)
{
    free(p->used);
    free(p->part);
    free(p->from);
}

/* A tied model has no separate head, but an adapter may change the head's use of the embedding. */
bool adapter_next(const Config *c, TensorSpec *s)
{
    if (s->role == ROLE_LM_HEAD && s->layer < 0 && s->k)
        return false;
    while (tensor_list_next(c, s) && s->layer < c->n_layers)
        if (!s->bias && lora_role(s->role))
            return true;
    *s = (TensorSpec){ .name = "lm_head", .part = "lm_head", .role = ROLE_LM_HEAD, .layer = -1,
                       .rows = c->vocab_size, .k = c->d_model, .stack = 1 };
    return true;
}

static bool misshaped(const AdapterParts *p, const Tensor *t, int64_t rows, int64_t k)
{
    char found[160];
    return fail(p->err, INPUT, "%s: tensor %s: expected [%lld, %lld], found %s", p->path, t->name,
                (long long)rows, (long long)k, tensor_shape_text(t, found, sizeof found));
}

/* The rows of one tensor, as a RowSource. */
static bool source_of(AdapterParts *p, RowSource *r, const Tensor *t, SourcePart *from,
                      const FileMap *map)
{
    r->name    = t->name;
    r->stack   = 1;
    r->part    = from;
    r->n_parts = 1;
    *from      = (SourcePart){ t, map };
    p->used[t - p->tensors] = true;
    return row_source_type(t->dtype, &r->type)
        || fail(p->err, INPUT, "%s: tensor %s: expected a type of weights, found %s", p->path,
                t->name, dtype_name(t->dtype));
}

bool adapter_add(AdapterParts *p, const TensorSpec *s, const Tensor *a, const Tensor *b,
                 int64_t file_rows, const RowSource *rows, double scale, const FileMap *map)
{
    int64_t rank = a->rank == 2 ? a->shape[0] : 0;
    if (rank < 1 || rank > MOST_RANK)
        return fail(p->err, INPUT, "%s: tensor %s: expected [rank, %d] with a rank from 1 to %d, "
                                   "found another shape", p->path, a->name, s->k, MOST_RANK);
    if (a->shape[1] != s->k)
        return misshaped(p, a, rank, s->k);
    if (b->rank != 2 || b->shape[0] != file_rows || b->shape[1] != rank)
        return misshaped(p, b, file_rows, rank);
    LoraPart *part = &p->part[p->n];
    *part          = (LoraPart){ .spec = *s, .rank = (int)rank, .scale = scale, .b = *rows };
    part->a.rows   = (int)rank;
    part->a.k      = s->k;
    part->b.rows   = s->rows;
    part->b.k      = (int)rank;
    part->b.head_dim = p->config->head_dim;
    bool ok = source_of(p, &part->a, a, &p->from[2 * p->n], map)
        && source_of(p, &part->b, b, &p->from[2 * p->n + 1], map);
    p->n += ok;
    return ok;
}

bool adapter_parts_check(const AdapterParts *p)
{
    static const struct { const char *in, *is; } kinds[] = {
        { "lora_magnitude_vector", "DoRA" }, { "lora_embedding_", "an adapter of the embedding" },
        { "token_embd", "an adapter of the embedding" }, { "modules_to_save", "a whole module" },
        { "_exps", "an adapter of experts" }, { ".experts", "an adapter of experts" },
        { "router", "an adapter of a router" }, { "norm", "a whole norm" },
    };
    for (size_t i = 0; i < p->n_tensors; i++) {
        const char *name = p->tensors[i].name, *is = NULL;
        for (size_t j = 0; !p->used[i] && !is && j < sizeof kinds / sizeof *kinds; j++)
            is = strstr(name, kinds[j].in) ? kinds[j].is : NULL;
        if (!p->used[i])
            return fail(p->err, INPUT, "%s: tensor %s: expected one of q, k, v, o, gate, up, down "
                                       "or the head of this model's %d layers, found %s", p->path,
                        name, p->config->n_layers, is ? is : "another");
    }
    return p->n > 0
        || fail(p->err, INPUT, "%s: expected at least one adapted matrix, found none", p->path);
}

/* ---- peft ------------------------------------------------------------------------------------ */

typedef struct Peft {
    AdapterParts  parts;
    TensorFile    file;
    PeftConfig   *config;
    const Family *family;
} Peft;

/* Prefixes of module names, of the family or a wrapper around it. */
enum { PREFIXES = 6 };
static const char *prefix(const Family *f, int i)
{
    static const char *const wrapped[] = { "model.language_model.", "language_model.model.", "" };
    return i < 3 ? f->prefix[i] : wrapped[i - 3];
}

/* RowSource.pair of a row of the family's table. */
static int rotary_pair(const Config *c, const FamilyTensor *t)
{
    return t->lies & PAIRS ? c->rotary_dim : 0;
}

/* The tensors of a module: base_model.model.MODULE.lora_A.weight and .lora_B.weight. */
static bool add_module(Peft *x, const TensorSpec *s, const FamilyTensor *t, const char *module,
                       bool *found)
{
    char          name[2][HF_NAME + 64];
    const Tensor *tensor[2];
    for (int i = 0; i < 2; i++) {
        snprintf(name[i], sizeof name[i], "base_model.model.%s.lora_%c.weight", module,
                 "AB"[i]);
        tensor[i] = tensor_find(&x->file, name[i]);
    }
    *found = tensor[0] || tensor[1];
    if (!*found)
        return true;
    if (!tensor[0] || !tensor[1])
        return fail(x->parts.err, INPUT, "%s: tensor %s: expected beside %s, found no such tensor",
                    x->parts.path, name[!tensor[0] ? 0 : 1], name[!tensor[0] ? 1 : 0]);
    RowSource rows   = { .pair = rotary_pair(x->parts.config, t) };
    int64_t   n_rows = hf_fused_rows(x->parts.config, t->lies, s->rows, &rows);
    double    scale;
    int       rank;
    if (!peft_config_module(x->config, module, &rank, &scale, x->parts.err))
        return false;
    if (tensor[0]->rank == 2 && tensor[0]->shape[0] != rank)
        return misshaped(&x->parts, tensor[0], rank, s->k);
    return adapter_add(&x->parts, s, tensor[0], tensor[1], n_rows, &rows, scale, &x->file.map);
}

/* The module of a row of the family's table. */
static void module_name(const char *begins, const FamilyTensor *t, int layer, char module[HF_NAME])
{
    hf_tensor_name(begins, t->name, layer, 0, false, module);
    size_t n = strlen(module), end = strlen(".weight");
    if (n > end && strcmp(module + n - end, ".weight") == 0)
        module[n - end] = '\0';
}

/* The part of one matrix, if the adapter has it: under any of the family's names for it. */
static bool add_matrix(Peft *x, const TensorSpec *s)
{
    bool found = false;
    char module[HF_NAME];
    for (const FamilyTensor *t = hf_family_rows(x->family, s->role); t && !found;
         t = hf_family_more(t + 1, s->role))
        for (int i = 0; i < PREFIXES && !found; i++) {
            const char *begins = prefix(x->family, i);
            if (!begins)
                continue;
            module_name(begins, t, s->layer, module);
            if (!add_module(x, s, t, module, &found))
                return false;
        }
    return true;
}

static const char *const peft_files[] = { "adapter_config.json", "adapter_model.safetensors" };

static bool open_peft(Peft *x, Lora *out, const Config *c, const char *path, Error *err)
{
    char config[PATH_BYTES], weights[PATH_BYTES];
    if (!path_there(path, peft_files[0], config) || !path_there(path, peft_files[1], weights))
        return fail(err, INPUT, "%s: expected adapter_config.json and adapter_model.safetensors, "
                                "or a GGUF file, found no such files", path);
    x->family = family_find(c->family, NULL);
    if (!x->family)
        return fail(err, INPUT, "%s: expected a model of a family of Hugging Face, found '%s'",
                    path, c->family);
    if (c->kv_lora > 0)
        return fail(err, INPUT, "%s: kv_lora: expected a model without latent attention for an "
                                "adapter, found one with it", path);
    x->config = peft_config_open(config, err);
    if (!x->config || !safetensors_open(&x->file, weights, err)
        || !adapter_parts_new(&x->parts, weights, c, x->file.tensors, (size_t)x->file.n_tensors,
                              err))
        return false;
    TensorSpec s = tensor_list_start();
    while (adapter_next(c, &s))
        if (!add_matrix(x, &s))
            return false;
    return adapter_parts_check(&x->parts)
        && lora_make(out, c, x->parts.part, x->parts.n, weights, err);
}

_Static_assert((int)ADAPTER_MODULE == (int)HF_NAME, "room for a name");

bool adapter_module(const Config *c, const TensorSpec *s, char module[ADAPTER_MODULE],
                    RowSource *rows, Error *err)
{
    const Family       *f = family_find(c->family, NULL);
    const FamilyTensor *t = f ? hf_family_rows(f, s->role) : NULL;
    if (!f)
        return fail(err, INPUT, "lora: expected a model of a family of Hugging Face, found '%s'",
                    c->family);
    if (!t || t->lies & ~(unsigned)PAIRS)
        return fail(err, INPUT, "lora targets: %s: expected a matrix that %s stores alone, [rows, "
                                "columns], found another", tensor_row(s->role)->name, c->family);
    module_name(f->prefix[0], t, s->layer, module);
    if (rows)
        *rows = (RowSource){ .head_dim = c->head_dim, .pair = rotary_pair(c, t) };
    return true;
}

static bool peft_open(Lora *out, const Config *c, const char *path, Error *err)
{
    Peft x  = { 0 };
    bool ok = open_peft(&x, out, c, path, err);
    adapter_parts_free(&x.parts);
    peft_config_free(x.config);
    tensor_file_close(&x.file);
    return ok;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static bool gguf_adapter_open(Lora *out, const Config *c, const char *path, Error *err)
{
    char         name[PATH_BYTES];
    Source       s     = { .path = name, .stored = { .config = *c } };
    AdapterParts parts = { 0 };
    snprintf(name, sizeof name, "%s", path);
    bool ok = gguf_open(&s.gguf, path, err)
        && adapter_parts_new(&parts, path, c, s.gguf.tensors, s.gguf.n_tensors, err)
        && gguf_adapter_read(&s, &parts, err) && adapter_parts_check(&parts)
        && lora_make(out, c, parts.part, parts.n, path, err);
    adapter_parts_free(&parts);
    gguf_close(&s.gguf);
    return ok;
}

bool adapter_open(Lora *out, const Config *c, const char *path, Error *err)
{
    if (config_has_state(c))
        return fail(err, INPUT, "%s: state_layers: expected a model with attention in every layer "
                                "for an adapter, found some with a state", path);
    if (c->attn_gate) /* other programs hold the two in one matrix */
        return fail(err, INPUT, "%s: attn_gate: expected a model without it for an adapter, found "
                                "one with it", path);
    bool ok = path_is_folder(path) ? peft_open(out, c, path, err)
                                   : gguf_adapter_open(out, c, path, err);
    if (ok)
        out->path = strdup(path);
    return ok && (out->path || no_memory(path, err));
}

bool adapter_check_apart(const Lora *l, const char *output, Error *err)
{
    char part[PATH_BYTES];
    for (int i = 0; i < 2 && path_is_folder(l->path); i++)
        if (path_there(l->path, peft_files[i], part) && !file_check_apart(output, part, err))
            return false;
    return file_check_apart(output, l->path, err);
}
