/* Binding: what is in the file is what the layers hold, in every layout and type, and a wrong file is refused by name. */
#include "test.h"
#include "temp_folder.h"

#include <unistd.h>

#include "base/hash.h"
#include "model/count.h"
#include "model/model.h"
#include "model/tensor_list.h"

/* ---- A model file with known weights, and one thing wrong with it if asked ---- */

typedef struct Wrong {
    const char *name;                 /* this tensor ...                                        */
    bool        absent;               /* ... is left out                                        */
    int         dtype;                /* ... has this dtype plus 1                              */
    int         rank;                 /* ... has this shape                                     */
    int64_t     shape[4];
    const char *extra;                /* a tensor [4] of this name is added                     */
    const char *meta;                 /* a metadata key is added                                */
    size_t      skew;                 /* so many bytes come before the first tensor             */
} Wrong;

static const char *file_path(void)
{
    static char path[96];
    snprintf(path, sizeof path, "%s/model.bin", folder);
    return path;
}

/* Exact in every type: multiples of 1/64 up to 1. */
static float weight(const char *name, int row, int column)
{
    uint64_t h = fnv1a(fnv1a(fnv1a(FNV_SEED, name, strlen(name)), &row, sizeof row), &column, sizeof column);
    return ((float)(h % 129) - 64) / 64;
}

static DType dtype_of(WeightType t) { return t == WT_F32 ? DT_F32 : t == WT_F16 ? DT_F16 : DT_BF16; }

/* The bytes of one tensor, as panels or row by row; caller frees. */
static void *tensor_data(const TensorSpec *s, WeightType type, bool panels, size_t *n_bytes)
{
    size_t columns = s->k ? (size_t)s->k : 1, row_bytes = columns * weight_type_bytes(type);
    size_t n       = (size_t)s->rows * row_bytes;
    float *values  = malloc(columns * sizeof *values);
    char  *rows    = malloc(n), *packed = NULL;
    for (int r = 0; r < s->rows; r++) {
        for (int j = 0; j < (int)columns; j++)
            values[j] = weight(s->name, r, j);
        elements_from_f32(type, rows + (size_t)r * row_bytes, values, columns);
    }
    *n_bytes = n;
    if (panels) {
        size_t panel = panel_bytes(type, s->k);
        *n_bytes = panel * (size_t)panel_count(s->rows);
        packed   = malloc(*n_bytes);
        for (int p = 0; p < panel_count(s->rows); p++)
            panel_pack(type, packed + (size_t)p * panel, rows + (size_t)p * PANEL_ROWS * row_bytes,
                       s->rows - p * PANEL_ROWS < PANEL_ROWS ? s->rows - p * PANEL_ROWS : PANEL_ROWS, s->k);
    }
    free(values);
    if (packed)
        free(rows);
    return packed ? packed : rows;
}

static void declare(TensorWriter *w, const TensorSpec *s, WeightType type, bool panels, const Wrong *wrong, Error *e)
{
    int64_t shape[4] = { s->rows, s->k };
    int     rank     = panels ? part_shape(type, 0, s->rows, s->k, shape) : s->k ? 2 : 1;
    DType   dtype    = dtype_of(type);
    if (wrong->name && strcmp(wrong->name, s->name) == 0) {
        dtype = wrong->dtype ? (DType)(wrong->dtype - 1) : dtype;
        if (wrong->rank) {
            rank = wrong->rank;
            memcpy(shape, wrong->shape, sizeof shape);
        }
    }
    CHECK(tensor_writer_declare(w, s->name, dtype, rank, shape, e), "%.300s", e->msg);
}

/* A file whose vectors are of the type of its matrices. A wrong tensor's bytes are written as zeros. */
static void write_model(const Config *c, WeightType type, bool panels, const Wrong *wrong)
{
    Error         e = { 0 };
    TensorWriter *w = tensor_writer_new(file_path(), wrong->skew ? 1 : 4096, &e);
    CHECK(w != NULL, "%.300s", e.msg);
    if (!w)
        return;
    CHECK(tensor_writer_meta(w, "format", "tblock", &e), "%.300s", e.msg);
    if (wrong->meta)
        CHECK(tensor_writer_meta(w, wrong->meta, "q9", &e), "%.300s", e.msg);
    int n = 0;
    if (wrong->skew)
        tensor_writer_declare(w, "pad.0", DT_U8, 1, (int64_t[]){ (int64_t)wrong->skew }, &e);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);)
        if (!(wrong->absent && strcmp(wrong->name, s.name) == 0))
            declare(w, &s, type, panels && s.k && s.panels, wrong, &e);
    if (wrong->extra)
        tensor_writer_declare(w, wrong->extra, DT_F32, 1, (int64_t[]){ 4 }, &e);
    CHECK(tensor_writer_begin(w, &e), "%.300s", e.msg);
    static const char zeros[1 << 16];
    if (wrong->skew)
        tensor_writer_put(w, n++, 0, zeros, wrong->skew, &e);
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        bool   is_wrong = wrong->name && strcmp(wrong->name, s.name) == 0;
        size_t n_bytes;
        if (is_wrong && wrong->absent)
            continue;
        void *data = tensor_data(&s, type, panels && s.k && s.panels, &n_bytes);
        if (is_wrong && (wrong->dtype || wrong->rank)) {
            DType dtype = wrong->dtype ? (DType)(wrong->dtype - 1) : dtype_of(type);
            size_t elements = s.k ? (size_t)s.rows * (size_t)s.k : (size_t)s.rows;
            if (wrong->rank)
                for (elements = 1, n_bytes = 0; n_bytes < (size_t)wrong->rank; n_bytes++)
                    elements *= (size_t)wrong->shape[n_bytes];
            CHECK(tensor_writer_put(w, n++, 0, zeros, elements * dtype_bytes(dtype), &e), "%.300s", e.msg);
        } else {
            CHECK(tensor_writer_put(w, n++, 0, data, n_bytes, &e), "%.300s", e.msg);
        }
        free(data);
    }
    if (wrong->extra)
        tensor_writer_put(w, n++, 0, zeros, 16, &e);
    CHECK(tensor_writer_end(w, &e), "%.300s", e.msg);
}

/* 3 layers; rows that are no multiple of 16, an odd k, biases. */
static Config odd_config(bool tied)
{
    Config c;
    config_defaults(&c);
    c.d_model = 20, c.n_layers = 2, c.heads = 4, c.kv_heads = 2, c.head_dim = 6, c.d_ff = 33, c.vocab_size = 50;
    c.qkv_bias = c.out_bias = c.ffn_bias = true;
    c.tied_embeddings = tied;
    return c;
}

/* ---- What is bound ---- */

static void check_mat(const Mat *m, const char *name, bool bias)
{
    float row[64];
    char  bias_name[64];
    CHECK((uintptr_t)m->w.part[0] % 64 == 0, "%s: panels not aligned", name);
    for (int r = 0; r < panel_count(m->rows) * PANEL_ROWS; r++) {
        panel_row_to_f32(m->type, row, panels_from(m->type, m->w, r / 16, m->k), r % 16, m->k);
        for (int j = 0; j < m->k; j++)
            CHECK(row[j] == (r < m->rows ? weight(name, r, j) : 0), "%s: row %d column %d: %a", name, r, j, (double)row[j]);
    }
    CHECK((m->bias != NULL) == bias, "%s: bias", name);
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    for (int r = 0; bias && r < panel_count(m->rows) * PANEL_ROWS; r++)
        CHECK(m->bias[r] == (r < m->rows ? weight(bias_name, r, 0) : 0), "%s: row %d: %a", bias_name, r, (double)m->bias[r]);
}

static void check_norm(const float *norm, const char *name, int n)
{
    for (int i = 0; i < n; i++)
        CHECK(norm[i] == weight(name, i, 0), "%s: %d: %a", name, i, (double)norm[i]);
}

static void check_model(const Model *m)
{
    float row[64];
    char  name[64];
    for (int r = 0; r < m->cfg.vocab_size; r++) {
        embedding_row(&m->embed, r, row);
        for (int j = 0; j < m->cfg.d_model; j++)
            CHECK(row[j] == weight("embed", r, j), "embed: row %d column %d: %a", r, j, (double)row[j]);
    }
    for (int l = 0; l < m->cfg.n_layers; l++) {
        const Layer *w = &m->layer[l];
        const struct { const char *name; const Mat *mat; } mats[] = {
            { "wq", &w->wq }, { "wk", &w->wk }, { "wv", &w->wv }, { "wo", &w->wo },
            { "w_gate", &w->w_gate }, { "w_up", &w->w_up }, { "w_down", &w->w_down },
        };
        for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
            snprintf(name, sizeof name, "layers.%d.%s", l, mats[i].name);
            check_mat(mats[i].mat, name, true);
        }
        snprintf(name, sizeof name, "layers.%d.attn_norm", l);
        check_norm(w->attn_norm, name, m->cfg.d_model);
        snprintf(name, sizeof name, "layers.%d.ffn_norm", l);
        check_norm(w->ffn_norm, name, m->cfg.d_model);
    }
    check_norm(m->final_norm, "final_norm", m->cfg.d_model);
    check_mat(&m->lm_head, m->cfg.tied_embeddings ? "embed" : "lm_head", false);
}

static void every_type_and_layout_binds_the_same_weights(void)
{
    for (int i = 0; i < WT_FLOATS * 2 * 2 * 2; i++) {
        WeightType type   = (WeightType)(i % WT_FLOATS);
        bool       panels = i / WT_FLOATS & 1, tied = i / WT_FLOATS & 2, skewed = i / WT_FLOATS & 4;
        Config     c      = odd_config(tied);
        Error      e      = { 0 };
        TensorFile f;
        Model      m;
        write_model(&c, type, panels, &(Wrong){ .skew = skewed ? 3 : 0 });
        bool ok = safetensors_open(&f, file_path(), &e);
        CHECK(ok, "%.300s", e.msg);
        if (!ok)
            return;
        ok = model_bind(&m, &c, &f, &e);
        CHECK(ok, "%.300s", e.msg);
        if (ok) {
            check_model(&m);
            CHECK(m.n_params == count_params(&c), "%llu parameters", (unsigned long long)m.n_params);
            CHECK(m.embed.panels == tied, "the embedding is in panels when tied");
            model_free(&m);
        }
        tensor_file_close(&f);
    }
}

static void bytes_per_token_is_what_a_decode_step_reads(void)
{
    Config     c = odd_config(false);
    Error      e = { 0 };
    TensorFile f;
    Model      m;
    Count      n;
    write_model(&c, WT_F32, true, &(Wrong){ 0 });
    bool ok = safetensors_open(&f, file_path(), &e) && model_bind(&m, &c, &f, &e);
    CHECK(ok, "%.300s", e.msg);
    if (!ok)
        return;
    count_config(&n, &c, WT_F32);
    CHECK(m.weight_bytes == n.bytes, "%zu bytes, expected %llu", m.weight_bytes, (unsigned long long)n.bytes);
    CHECK(m.bytes_per_token == n.bytes - n.embed_bytes + 4 * 20, "%zu bytes, of %llu", m.bytes_per_token,
          (unsigned long long)n.bytes);
    model_free(&m);
    tensor_file_close(&f);
}

/* ---- What is refused ---- */

static void wrong_files_are_refused_by_name(void)
{
    static const struct { Wrong wrong; bool tied, panels; const char *message; } cases[] = {
        { { .name = "layers.1.wk", .absent = true }, false, true, "tensor layers.1.wk: expected [12, 20], found no such tensor" },
        { { .name = "lm_head", .absent = true }, false, true, "tensor lm_head: expected [50, 20], found no such tensor (tied_embeddings false" },
        { { .name = "layers.0.wq_bias", .absent = true }, false, true, "tensor layers.0.wq_bias: expected [24], found no such tensor" },
        { { .extra = "lm_head" }, true, true, "tensor lm_head: expected no such tensor (tied_embeddings true in the config)" },
        { { .extra = "layers.2.wq" }, true, true, "tensor layers.2.wq: expected no such tensor (n_layers 2 in the config)" },
        { { .extra = "layers.0.wz" }, true, true, "tensor layers.0.wz: expected no such tensor" },
        { { .extra = "pads" }, true, true, "tensor pads: expected no such tensor" },
        { { .meta = "type.embed" }, true, true, "tensor embed: weight type 'q9' is not supported" },
        { { .name = "layers.0.wv", .dtype = DT_I32 + 1 }, false, false, "tensor layers.0.wv: expected dtype F32, F16 or BF16, found I32" },
        { { .name = "final_norm", .dtype = DT_F64 + 1 }, false, true, "tensor final_norm: expected dtype F32, F16 or BF16, found F64" },
        { { .name = "layers.0.wk", .rank = 2, .shape = { 24, 20 } }, false, false,
          "tensor layers.0.wk: expected [12, 20] or panels [1, 10, 16, 2], found [24, 20] (kv_heads 2 in the config; this fits 4)" },
        { { .name = "layers.0.wq", .rank = 4, .shape = { 3, 10, 16, 2 } }, false, true,
          "expected [24, 20] or panels [2, 10, 16, 2], found [3, 10, 16, 2] (heads 4 in the config; this fits 8)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 40, 20 } }, false, false, "(d_ff 33 in the config; this fits 40)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 33, 24 } }, false, false, "(d_model 20 in the config; this fits 24)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 20, 33 } }, false, false, "found [20, 33] (the transpose)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 40, 24 } }, false, false, "(neither dimension fits the config)" },
        { { .name = "layers.0.w_up", .rank = 3, .shape = { 3, 20, 16 } }, false, false, "found [3, 20, 16]" },
        { { .name = "layers.0.w_up", .rank = 1, .shape = { 660 } }, false, false, "found [660]" },
        { { .name = "final_norm", .rank = 1, .shape = { 21 } }, false, true, "expected [20], found [21] (d_model 20 in the config; this fits 21)" },
        { { .name = "final_norm", .rank = 2, .shape = { 20, 1 } }, false, true, "expected [20], found [20, 1]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Config     c = odd_config(cases[i].tied);
        Error      e = { 0 };
        TensorFile f;
        Model      m;
        Count      n;
        write_model(&c, WT_BF16, cases[i].panels, &cases[i].wrong);
        bool ok = safetensors_open(&f, file_path(), &e);
        CHECK(ok, "%.300s", e.msg);
        if (!ok)
            return;
        CHECK(!model_bind(&m, &c, &f, &e), "case %zu was accepted", i);
        CHECK(e.status == INPUT && strncmp(e.msg, file_path(), strlen(file_path())) == 0 && strstr(e.msg, cases[i].message),
              "case %zu: %.400s", i, e.msg);
        CHECK(m.layer == NULL && m.owned == NULL, "case %zu: left something behind", i);
        CHECK(!count_file(&n, &c, &f, &e) && strstr(e.msg, cases[i].message), "count, case %zu: %.400s", i, e.msg);
        tensor_file_close(&f);
    }
}

static void a_config_that_contradicts_the_tensors_is_refused(void)
{
    Config     c = odd_config(false);
    Error      e = { 0 };
    TensorFile f;
    Model      m;
    write_model(&c, WT_F32, true, &(Wrong){ 0 });
    bool ok = safetensors_open(&f, file_path(), &e);
    CHECK(ok, "%.300s", e.msg);
    if (!ok)
        return;
    c.d_ff = 32;
    CHECK(!model_bind(&m, &c, &f, &e) && strstr(e.msg, "layers.0.w_gate"), "%.400s", e.msg);
    c = odd_config(false);
    c.qkv_bias = false;
    CHECK(!model_bind(&m, &c, &f, &e) && strstr(e.msg, "layers.0.wq_bias: expected no such tensor (qkv_bias false"),
          "%.400s", e.msg);
    c = odd_config(false);
    c.n_layers = 3;
    CHECK(!model_bind(&m, &c, &f, &e) && strstr(e.msg, "layers.2.attn_norm: expected [20], found no such tensor"),
          "%.400s", e.msg);
    c = odd_config(false);
    c.heads = 3;
    CHECK(!model_bind(&m, &c, &f, &e) && strstr(e.msg, "kv_heads"), "%.400s", e.msg);
    c = odd_config(false);
    c.ffn = FFN_RELU;
    CHECK(!model_bind(&m, &c, &f, &e) && strstr(e.msg, "ffn: expected swiglu, found relu"), "%.400s", e.msg);
    tensor_file_close(&f);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(every_type_and_layout_binds_the_same_weights);
    TEST(bytes_per_token_is_what_a_decode_step_reads);
    TEST(wrong_files_are_refused_by_name);
    TEST(a_config_that_contradicts_the_tensors_is_refused);
    unlink(file_path());
    rmdir(folder);
    return TEST_END();
}
