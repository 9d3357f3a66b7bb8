/* source/imatrix.c: llama.cpp's importance matrices, in the legacy format and as GGUF. */
#include "source/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "format/bytes.h"
#include "source/source.h"

/* What a file says of one matrix; all in the mapping, at any address. */
typedef struct Entry {
    const char          *name;
    size_t               n_name, n_values, n_counts;
    const unsigned char *values, *counts; /* f32; n_counts 0: none */
} Entry;

typedef struct Imatrix {
    const char *path;
    FileMap     map;
    GgufFile    gguf;
    Entry      *entry;  /* [n], by name */
    size_t      n, at;  /* at: the next byte of a legacy file */
    Error      *err;
} Imatrix;

enum { MOST_NAME = 256, LEAST_ENTRY = 4 + 1 + 4 + 4 + 4 };

/* ---- The legacy format ----------------------------------------------------------------------- */

static bool take_bytes(Imatrix *m, const char *what, size_t n_bytes, const unsigned char **out)
{
    if (n_bytes > m->map.size - m->at)
        return fail(m->err, INPUT, "%s: byte %zu: expected %zu bytes of %s, found %zu to the end "
                                   "of the file", m->path, m->at, n_bytes, what,
                    m->map.size - m->at);
    *out = m->map.data + m->at;
    m->at += n_bytes;
    return true;
}

static bool take_count(Imatrix *m, const char *what, int32_t least, int32_t most, int32_t *out)
{
    const unsigned char *p  = NULL;
    size_t               at = m->at;
    if (!take_bytes(m, what, sizeof *out, &p))
        return false;
    *out = read_i32(p);
    return (*out >= least && *out <= most)
        || fail(m->err, INPUT, "%s: byte %zu: %s: expected %d to %d, found %d", m->path, at, what,
                least, most, *out);
}

static bool take_entry(Imatrix *m, Entry *e)
{
    int32_t              n_name, calls, n;
    const unsigned char *name = NULL;
    if (!take_count(m, "the length of a name", 1, MOST_NAME, &n_name)
        || !take_bytes(m, "a name", (size_t)n_name, &name)
        || !take_count(m, "a number of calls", 0, INT32_MAX, &calls)
        || !take_count(m, "a number of values", 1, INT32_MAX, &n)
        || !take_bytes(m, "values", (size_t)n * sizeof(float), &e->values))
        return false;
    e->name     = (const char *)name;
    e->n_name   = (size_t)n_name;
    e->n_values = (size_t)n;
    return true;
}

static bool read_legacy(Imatrix *m)
{
    size_t  most = m->map.size / LEAST_ENTRY;
    int32_t n;
    if (most < 1)
        return fail(m->err, INPUT, "%s: expected an importance matrix of llama.cpp, found %zu "
                                   "bytes", m->path, m->map.size);
    if (!take_count(m, "not GGUF; the number of entries of an importance matrix", 1,
                    most < INT32_MAX ? (int32_t)most : INT32_MAX, &n))
        return false;
    m->entry = calloc((size_t)n, sizeof *m->entry);
    if (!m->entry)
        return no_memory(NULL, m->err);
    while (m->n < (size_t)n)
        if (!take_entry(m, &m->entry[m->n++]))
            return false;
    return true;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static bool check_floats(Imatrix *m, const Tensor *t)
{
    return t->dtype == DT_F32 || fail(m->err, INPUT, "%s: tensor %s: expected F32, found %s",
                                      m->path, t->name, dtype_name(t->dtype));
}

/* The entry of NAME.in_sum2. */
static bool gguf_entry(Imatrix *m, const Tensor *sums, size_t n_name)
{
    char name[GGUF_MAX_NAME + 16];
    snprintf(name, sizeof name, "%.*s.counts", (int)n_name, sums->name);
    const Tensor *counts = gguf_tensor(&m->gguf, name);
    if (!counts)
        return fail(m->err, INPUT, "%s: tensor %s: expected it beside %s, found no such tensor",
                    m->path, name, sums->name);
    m->entry[m->n++] = (Entry){ sums->name, n_name, sums->n_elements, counts->n_elements,
                                sums->data, counts->data };
    return check_floats(m, sums) && check_floats(m, counts);
}

static bool read_gguf(Imatrix *m)
{
    GgufString type;
    if (!gguf_open(&m->gguf, m->path, m->err)
        || !gguf_read_string(m->gguf.meta, "general.type", &type, m->err))
        return false;
    if (!gguf_string_is(type, "imatrix"))
        return fail(m->err, INPUT, "%s: key general.type: expected imatrix, found %.*s", m->path,
                    (int)(type.n < 40 ? type.n : 40), type.bytes);
    m->entry = calloc(m->gguf.n_tensors + 1, sizeof *m->entry);
    if (!m->entry)
        return no_memory(NULL, m->err);
    for (size_t i = 0; i < m->gguf.n_tensors; i++) {
        const Tensor *t   = &m->gguf.tensors[i];
        const char   *end = strrchr(t->name, '.');
        if (end && strcmp(end, ".in_sum2") == 0
            && !gguf_entry(m, t, (size_t)(end - t->name)))
            return false;
    }
    return true;
}

/* ---- Entries by name ------------------------------------------------------------------------- */

static int entry_order(const void *a, const void *b)
{
    const Entry *x = a, *y = b;
    size_t       n = x->n_name < y->n_name ? x->n_name : y->n_name;
    int          order = memcmp(x->name, y->name, n);
    return order ? order : (x->n_name > y->n_name) - (x->n_name < y->n_name);
}

static bool sort_entries(Imatrix *m)
{
    if (m->n > 1)
        qsort(m->entry, m->n, sizeof *m->entry, entry_order);
    for (size_t i = 1; i < m->n; i++)
        if (entry_order(&m->entry[i - 1], &m->entry[i]) == 0)
            return fail(m->err, INPUT, "%s: entry %.*s: expected it once, found it twice", m->path,
                        (int)m->entry[i].n_name, m->entry[i].name);
    return true;
}

static const Entry *find_named(const Imatrix *m, const TensorSpec *s, const char *base)
{
    char name[GGUF_NAME_BYTES];
    gguf_tensor_name(s, base, "", name);
    Entry key = { .name = name, .n_name = strlen(name) };
    return m->n ? bsearch(&key, m->entry, m->n, sizeof key, entry_order) : NULL;
}

/* By its usual name, or that of a tensor which GGUF may have it fused with, or that it has in
 * another architecture: all of them are multiplied by the same vector. */
static const Entry *find_entry(const Imatrix *m, const TensorSpec *s)
{
    static const struct { TensorRole role; const char *name; } others[] = {
        { ROLE_WQ, "attn_qkv" }, { ROLE_WK, "attn_qkv" }, { ROLE_WV, "attn_qkv" },
        { ROLE_WK, "attn_kv_a_mqa" }, { ROLE_W_GATE, "ffn_up" },
        { ROLE_EXPERT_GATE, "ffn_gate_up_exps" }, { ROLE_EXPERT_UP, "ffn_gate_up_exps" },
    };
    const Entry *e = find_named(m, s, tensor_row(s->role)->gguf);
    for (size_t i = 0; !e && i < sizeof others / sizeof *others; i++)
        if (others[i].role == s->role)
            e = find_named(m, s, others[i].name);
    return e;
}

/* Has the matrix columns whose importance files may know? An embedding is only looked up, and a
 * router stays in floats; those of latent attention are stored in another form than ours. */
static bool may_be_known(const TensorSpec *s)
{
    const TensorRow *row = tensor_row(s->role);
    return s->k && row->gguf && (row->kind == KIND_MAT || row->kind == KIND_STACK)
        && row->quantized != AS_FLOATS;
}

/* ---- Into the model's ------------------------------------------------------------------------ */

static bool check_value(const Imatrix *m, const Entry *e, const char *what, size_t i, float x)
{
    return (isfinite(x) && x >= 0)
        || fail(m->err, INPUT, "%s: entry %.*s: %s %zu: expected a finite number of at least 0, "
                               "found %g", m->path, (int)e->n_name, e->name, what, i, (double)x);
}

static bool check_sizes(const Imatrix *m, const Entry *e, const TensorSpec *s)
{
    if (e->n_values != (size_t)s->stack * (size_t)s->k)
        return fail(m->err, INPUT, "%s: entry %.*s: expected %d x %d values (matrices x columns) "
                                   "for %s, found %zu", m->path, (int)e->n_name, e->name, s->stack,
                    s->k, s->name, e->n_values);
    return e->n_counts <= 1 || e->n_counts == (size_t)s->stack
        || fail(m->err, INPUT, "%s: entry %.*s: expected 1 or %d counts, found %zu", m->path,
                (int)e->n_name, e->name, s->stack, e->n_counts);
}

static bool use_entry(const Imatrix *m, const Entry *e, const TensorSpec *s, Importance *out)
{
    size_t k = (size_t)s->k;
    if (!check_sizes(m, e, s) || !importance_room(out, s, m->err))
        return false;
    double *sum = malloc(k * sizeof *sum);
    bool    ok  = sum || no_memory(NULL, m->err);
    for (size_t item = 0; ok && item < (size_t)s->stack; item++) {
        size_t at    = item < e->n_counts ? item : 0;
        float  count = e->n_counts ? read_f32(e->counts + at * sizeof(float)) : 1;
        ok = check_value(m, e, "count", at, count);
        for (size_t i = 0; ok && i < k; i++) {
            float x = read_f32(e->values + (item * k + i) * sizeof x);
            ok      = check_value(m, e, "value", item * k + i, x);
            sum[i]  = count > 0 ? (double)x : 0;
        }
        if (ok)
            importance_put(out, s, (int)item, sum);
    }
    free(sum);
    return ok;
}

static bool use_entries(const Imatrix *m, const Config *c, Importance *out)
{
    size_t n = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        const Entry *e = may_be_known(&s) ? find_entry(m, &s) : NULL;
        if (e && !use_entry(m, e, &s, out))
            return false;
        n += e != NULL;
    }
    return n > 0
        || fail(m->err, INPUT, "%s: expected an entry for a matrix of the model, such as "
                               "blk.0.attn_q.weight, found none among %zu", m->path, m->n);
}

bool imatrix_read(Importance *m, const Config *c, const char *path, char sha256[65], Error *err)
{
    Imatrix f  = { .path = path, .err = err };
    bool    ok = file_map_open(&f.map, path, err)
        && (gguf_is(f.map.data, f.map.size) ? read_gguf(&f) : read_legacy(&f)) && sort_entries(&f)
        && importance_new(m, c, err) && use_entries(&f, c, m)
        && (sha256_hex(f.map.data, f.map.size, sha256) || no_memory(NULL, err));
    free(f.entry);
    gguf_close(&f.gguf);
    file_map_close(&f.map);
    return ok;
}
