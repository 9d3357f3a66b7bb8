/* api/golden_prints.c: the fingerprints of a golden's model: written, and read as untrusted
 * input. */
#include "api/golden.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define VERSION "1" /* of the fingerprints: metadata "fingerprints" */

enum { MOST_RULES = 1 << 16 }; /* bytes of a tokenizer's rules that a golden holds */

/* ---- Recording ------------------------------------------------------------------------------- */

bool golden_prints_make(GoldenPrints *p, const tblock_context *c, Error *err)
{
    const StoredModel *stored = &c->model->source.stored;
    Isa                most   = ISA_COUNT - 1;
    while (most > ISA_SCALAR && strcmp(isa_name(most), c->kernels->isa) != 0)
        most--;
    *p     = (GoldenPrints){ .n = (size_t)stored->n };
    p->own = calloc(p->n, sizeof *p->own);
    return p->own ? fingerprint_model(stored, c->threads, most, p->own, err) : no_memory(NULL, err);
}

bool golden_prints_declare(const GoldenPrints *p, const tblock_model *m, TensorWriter *w,
                           Error *err)
{
    const int64_t n     = (int64_t)p->n;
    const char   *rules = source_meta(&m->source, "tokenizer");
    char          layout[65];
    return source_layout_hash(&m->source, layout, err)
        && tensor_writer_meta(w, "fingerprints", VERSION, err)
        && tensor_writer_meta(w, "model_layout", layout, err)
        && (!rules || strlen(rules) > MOST_RULES
            || tensor_writer_meta(w, "tokenizer", rules, err))
        && tensor_writer_declare(w, "fingerprint.hash", DT_U64, 2,
                                 (int64_t[]){ n, PRINT_HASHES }, err)
        && tensor_writer_declare(w, "fingerprint.sum", DT_F64, 2, (int64_t[]){ n, PRINT_SUMS },
                                 err);
}

bool golden_prints_put(const GoldenPrints *p, TensorWriter *w, Error *err)
{
    bool good = true;
    for (size_t i = 0; good && i < p->n; i++) {
        const Fingerprint *f = &p->own[i];
        good = tensor_writer_put(w, 0, i * sizeof f->hash, f->hash, sizeof f->hash, err)
            && tensor_writer_put(w, 1, i * sizeof f->sum, f->sum, sizeof f->sum, err);
    }
    return good;
}

void golden_prints_free(GoldenPrints *p)
{
    free(p->own);
    *p = (GoldenPrints){ 0 };
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Untrusted: a version, two tensors, their types and shapes. */
static bool check_prints(const GoldenFile *g, const char *name, DType type, int columns,
                         const Tensor **out, Error *err)
{
    char          found[96];
    const Tensor *t = *out = tensor_find(&g->st, name);
    return (t && t->dtype == type && t->rank == 2 && t->shape[1] == columns)
        || fail(err, INPUT, "%s: tensor %s: expected %s [n, %d], found %s %s", g->path, name,
                dtype_name(type), columns, t ? dtype_name(t->dtype) : "none",
                t ? tensor_shape_text(t, found, sizeof found) : "");
}

bool golden_prints_read(GoldenFile *g, Error *err)
{
    GoldenPrints *p       = &g->prints;
    const char   *version = golden_is_ours(g) ? golden_meta(g, "fingerprints") : NULL;
    if (!version)
        return true;
    if (strcmp(version, VERSION) != 0)
        return fail(err, INPUT, "%s: fingerprints: expected version " VERSION ", found '%.20s'",
                    g->path, version);
    if (!check_prints(g, "fingerprint.hash", DT_U64, PRINT_HASHES, &p->hash, err)
        || !check_prints(g, "fingerprint.sum", DT_F64, PRINT_SUMS, &p->sum, err))
        return false;
    p->n = (size_t)p->hash->shape[0];
    return p->hash->shape[0] == p->sum->shape[0]
        || fail(err, INPUT, "%s: fingerprint.hash and fingerprint.sum: expected as many rows, "
                "found %lld and %lld", g->path, (long long)p->hash->shape[0],
                (long long)p->sum->shape[0]);
}

/* The file's data may be unaligned. */
Fingerprint golden_print(const GoldenPrints *p, size_t i)
{
    Fingerprint f;
    if (p->own)
        return p->own[i];
    memcpy(f.hash, (const char *)p->hash->data + i * sizeof f.hash, sizeof f.hash);
    memcpy(f.sum, (const char *)p->sum->data + i * sizeof f.sum, sizeof f.sum);
    return f;
}
