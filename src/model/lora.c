/* model/lora.c: an adapter in memory: A and B of each matrix it changes, and its hash. */
#include "model/lora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"

/* What all parts are stored as; f32 if they differ, or are not floats. */
static WeightType common_type(const LoraPart *part, size_t n)
{
    WeightType type = n ? part[0].a.type : WT_F32;
    for (size_t i = 0; i < n; i++)
        if (part[i].a.type != type || part[i].b.type != type)
            return WT_F32;
    return weight_type_quantized(type) ? WT_F32 : type;
}

static size_t mat_bytes(const Lora *l, int rows, int k)
{
    return (size_t)panel_count(rows) * panel_bytes(l->type, k);
}

/* ---- Packing --------------------------------------------------------------------------------- */

typedef struct Packer {
    Lora       *l;
    const char *path;
    Sha256     *hash;
    char       *rows, *scratch; /* 16 rows of f32, as they are packed and as they are stored */
    size_t      cap;
    Error      *err;
} Packer;

/* Packs a matrix of the file into panels at `to`; its rows are part of the hash. */
static bool pack(Packer *p, const RowSource *s, char *to)
{
    WeightType type = p->l->type;
    size_t     row  = (size_t)s->k * weight_type_bytes(type);
    for (int r = 0, n; r < s->rows; r += n, to += panel_bytes(type, s->k)) {
        n = s->rows - r < PANEL_ROWS ? s->rows - r : PANEL_ROWS;
        if (s->type == type)
            row_source_read(s, 0, r, n, p->rows);
        else
            row_source_read_f32(s, 0, r, n, (float *)(void *)p->rows, p->scratch);
        if (elements_first_nonfinite(type, p->rows, (size_t)n * (size_t)s->k)
            < (size_t)n * (size_t)s->k)
            return fail(p->err, INPUT, "%s: tensor %s: expected finite numbers, found another one "
                                       "in rows %d to %d", p->path, s->name, r, r + n - 1);
        sha256_add(p->hash, p->rows, (size_t)n * row);
        panel_pack(type, to, p->rows, n, s->k);
    }
    return true;
}

static void hash_head(Packer *p, const LoraPart *part)
{
    char head[160];
    int  n = snprintf(head, sizeof head, "%s %d %d ", part->spec.name, part->rank,
                      (int)p->l->type);
    sha256_add(p->hash, head, (size_t)n);
    sha256_add(p->hash, &part->scale, sizeof part->scale);
}

static bool pack_part(Packer *p, const LoraPart *part)
{
    int      number = lora_number(part->spec.layer, part->spec.role);
    LoraMat *m      = &p->l->mat[number];
    Mat     *down   = &p->l->down[lora_input(number)];
    char    *a      = (char *)down->w.part[0]
        + (size_t)(m->at / PANEL_ROWS) * panel_bytes(p->l->type, part->spec.k);
    size_t   width = (size_t)(part->spec.k > part->rank ? part->spec.k : part->rank),
           bytes = width * PANEL_ROWS * sizeof(float);
    if (bytes > p->cap) {
        free(p->rows), free(p->scratch);
        p->rows    = malloc(bytes);
        p->scratch = malloc(bytes);
        p->cap     = p->rows && p->scratch ? bytes : 0;
    }
    if (bytes > p->cap)
        return no_memory(p->path, p->err);
    hash_head(p, part);
    return pack(p, &part->a, a) && pack(p, &part->b, (char *)m->up.w.part[0]);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* Counts the columns of every input vector and assigns each part its own. */
static void count_columns(Lora *l, const LoraPart *part, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const TensorSpec *s      = &part[i].spec;
        int               number = lora_number(s->layer, s->role);
        Mat              *down   = &l->down[lora_input(number)];
        l->mat[number] = (LoraMat){ .up    = { .type = l->type, .rows = s->rows, .k = part[i].rank,
                                               .stack = 1, .op = "lora" },
                                    .scale = part[i].scale,
                                    .at    = down->rows };
        *down = (Mat){ .type = l->type, .rows = down->rows + panel_count(part[i].rank) * PANEL_ROWS,
                       .k = s->k, .stack = 1, .op = "lora" };
    }
}

/* Assigns every matrix its address; with data NULL it only measures. */
static size_t place(Lora *l, char *data)
{
    size_t at = 0, n = (size_t)l->n_layers + 1;
    for (size_t i = 0; i < n * ROLE_COUNT; i++) {
        Mat *up = &l->mat[i].up;
        if (up->rows == 0)
            continue;
        up->w.part[0] = data ? data + at : NULL;
        at += round_up(mat_bytes(l, up->rows, up->k), 64);
    }
    for (size_t i = 0; i < n * INPUT_COUNT; i++) {
        Mat *down = &l->down[i];
        if (down->rows == 0)
            continue;
        down->w.part[0] = data ? data + at : NULL;
        at += round_up(mat_bytes(l, down->rows, down->k), 64);
    }
    return at;
}

bool lora_make(Lora *out, const Config *c, const LoraPart *part, size_t n, const char *path,
               Error *err)
{
    size_t n_places = (size_t)c->n_layers + 1;
    *out = (Lora){ .n_layers = c->n_layers, .type = common_type(part, n),
                   .mat = calloc(n_places * ROLE_COUNT, sizeof *out->mat),
                   .down = calloc(n_places * INPUT_COUNT, sizeof *out->down) };
    Packer p  = { .l = out, .path = path, .hash = sha256_new(), .err = err };
    bool   ok = out->mat && out->down && p.hash;
    if (ok) {
        count_columns(out, part, n);
        out->n_bytes = place(out, NULL);
        out->data    = aligned_alloc(64, out->n_bytes ? out->n_bytes : 64);
        ok           = out->data != NULL;
    }
    if (!ok)
        no_memory(path, err);
    else
        place(out, memset(out->data, 0, out->n_bytes));
    for (size_t i = 0; ok && i < n; i++)
        ok = pack_part(&p, &part[i]);
    free(p.rows);
    free(p.scratch);
    if (ok)
        sha256_end(p.hash, out->sha256);
    else
        sha256_free(p.hash);
    return ok;
}

void lora_free(Lora *l)
{
    free(l->mat);
    free(l->down);
    free(l->data);
    free(l->path);
    *l = (Lora){ 0 };
}
