/* Binding: what is in the file is what the layers hold, in every layout and type, and a wrong file
 * is refused by name. */
#include "temp_folder.h"
#include "test.h"

#include <unistd.h>

#include "base/hash.h"
#include "model/count.h"
#include "model/model.h"
#include "model/tensor_list.h"

/* ---- A model file with known weights, and one thing wrong with it if asked ------------------- */

typedef struct Wrong {
    const char *name;                 /* this tensor ...                                        */
    bool        absent;               /* ... is left out                                        */
    int         dtype;                /* ... has this dtype plus 1                              */
    int         rank;                 /* ... has this shape                                     */
    int64_t     shape[4];
    const char *extra;                /* a tensor [4] of this name is added                     */
    const char *meta, *value;         /* this metadata entry has this value; "": is left out    */
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
    uint64_t h =
        fnv1a(fnv1a(fnv1a(FNV_SEED, name, strlen(name)), &row, sizeof row), &column, sizeof column);
    return ((float)(h % 129) - 64) / 64;
}

static DType dtype_of(WeightType t) { return element_dtype(part_element(t, 0)); }

/* The rows of a tensor, [rows, columns]; caller frees. */
static float *weights_of(const TensorSpec *s, size_t columns)
{
    float *values = malloc((size_t)s->rows * columns * sizeof *values);
    for (int r = 0; r < s->rows; r++)
        for (int j = 0; j < (int)columns; j++)
            values[(size_t)r * columns + (size_t)j] = weight(s->name, r, j);
    return values;
}

/* One part of a matrix in panels; caller frees. */
static char *part_data(const TensorSpec *s, WeightType type, const char *rows, size_t row_bytes,
                       int part, size_t *n_bytes)
{
    void *to[MAX_PARTS] = { NULL };
    char *data = malloc(*n_bytes = part_bytes(type, part, s->k) * (size_t)panel_count(s->rows));
    for (int i = 0; i < part_count(type); i++)
        to[i] = malloc(part_bytes(type, i, s->k));
    for (int p = 0; p < panel_count(s->rows); p++) {
        int n = s->rows - p * PANEL_ROWS < PANEL_ROWS ? s->rows - p * PANEL_ROWS : PANEL_ROWS;
        const char *at = rows + (size_t)p * PANEL_ROWS * row_bytes;
        if (weight_type_quantized(type))
            panel_quantize(type, to, (const float *)(const void *)at, NULL, n, s->k);
        else
            panel_pack(type, to[0], at, n, s->k);
        memcpy(data + (size_t)p * part_bytes(type, part, s->k), to[part],
               part_bytes(type, part, s->k));
    }
    for (int i = 0; i < part_count(type); i++)
        free(to[i]);
    return data;
}

/* The bytes of one tensor, as panels or row by row; caller frees. */
static void *tensor_data(const TensorSpec *s, WeightType type, bool panels, int part,
                         size_t *n_bytes)
{
    size_t columns = s->k ? (size_t)s->k : 1,
           size = weight_type_quantized(type) ? sizeof(float) : weight_type_bytes(type);
    float *values  = weights_of(s, columns);
    char  *rows    = malloc(*n_bytes = (size_t)s->rows * columns * size);
    elements_from_f32(weight_type_quantized(type) ? WT_F32 : type, rows, values,
                      (size_t)s->rows * columns);
    char *packed = panels ? part_data(s, type, rows, columns * size, part, n_bytes) : NULL;
    free(values);
    if (packed)
        free(rows);
    return packed ? packed : rows;
}

/* One tensor of the file. Of a wrong one, the bytes are zeros. */
typedef struct Item {
    char name[80]; DType dtype; int rank; int64_t shape[4]; void *data; size_t n_bytes;
} Item;
static Item items[128];
static int  n_items;

static void add_item(const Wrong *wrong, Item item)
{
    if (wrong->name && strcmp(wrong->name, item.name) == 0) {
        size_t n;
        free(item.data);
        if (wrong->absent)
            return;
        item.dtype = wrong->dtype ? (DType)(wrong->dtype - 1) : item.dtype;
        if (wrong->rank)
            memcpy(item.shape, wrong->shape, sizeof item.shape);
        item.rank = wrong->rank ? wrong->rank : item.rank;
        CHECK(shape_bytes(item.dtype, item.rank, item.shape, &n, &item.n_bytes), "%s", item.name);
        item.data = calloc(1, item.n_bytes);
    }
    items[n_items++] = item;
}

/* The tensors of a model whose vectors are of the type of its matrices, F32 where that is
 * quantized. */
static void add_tensors(const Config *c, WeightType type, bool panels, const Wrong *wrong)
{
    n_items = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        WeightType t = s.k == 0 && weight_type_quantized(type) ? WT_F32 : type;
        bool       p = s.k && panels && tensor_spec_panels(&s, t);
        for (int i = 0; i < (p ? part_count(t) : 1); i++) {
            Item item = { .dtype = p ? element_dtype(part_element(t, i)) : dtype_of(t),
                          .rank = s.k ? 2 : 1,
                          .shape = { s.rows, s.k } };
            snprintf(item.name, sizeof item.name, "%s%s", s.name, p ? part_suffix(t, i) : "");
            if (p)
                item.rank = part_shape(t, i, s.rows, s.k, item.shape);
            item.data = tensor_data(&s, t, p, i, &item.n_bytes);
            add_item(wrong, item);
        }
    }
}

static void add_types(TensorWriter *w, const Config *c, WeightType type, const Wrong *wrong)
{
    Error e = { 0 };
    char  key[80];
    for (TensorSpec s = tensor_list_start(); tensor_list_next(c, &s);) {
        snprintf(key, sizeof key, "type.%s", s.name);
        if (s.k && weight_type_quantized(type) && !(wrong->meta && strcmp(wrong->meta, key) == 0))
            CHECK(tensor_writer_meta(w, key, weight_type_name(type), &e), "%.300s", e.msg);
    }
}

static void write_model(const Config *c, WeightType type, bool panels, const Wrong *wrong)
{
    Error         e = { 0 };
    TensorWriter *w = tensor_writer_new(file_path(), wrong->skew ? 1 : 4096, &e);
    CHECK(w != NULL, "%.300s", e.msg);
    if (!w)
        return;
    add_tensors(c, type, panels, wrong);
    CHECK(tensor_writer_meta(w, "format", "tblock", &e), "%.300s", e.msg);
    if (wrong->meta && strcmp(wrong->value, "") != 0)
        CHECK(tensor_writer_meta(w, wrong->meta, wrong->value, &e), "%.300s", e.msg);
    add_types(w, c, type, wrong);
    static const char zeros[64];
    int n = 0, first = wrong->skew != 0;
    if (wrong->skew)
        tensor_writer_declare(w, "pad.0", DT_U8, 1, (int64_t[]){ (int64_t)wrong->skew }, &e);
    for (int i = 0; i < n_items; i++)
        CHECK(tensor_writer_declare(w, items[i].name, items[i].dtype, items[i].rank, items[i].shape,
                                    &e), "%.300s", e.msg);
    if (wrong->extra)
        tensor_writer_declare(w, wrong->extra, DT_F32, 1, (int64_t[]){ 4 }, &e);
    CHECK(tensor_writer_begin(w, &e), "%.300s", e.msg);
    if (wrong->skew)
        tensor_writer_put(w, 0, 0, zeros, wrong->skew, &e);
    for (; n < n_items; n++) {
        CHECK(tensor_writer_put(w, first + n, 0, items[n].data, items[n].n_bytes, &e), "%.300s",
              e.msg);
        free(items[n].data);
    }
    if (wrong->extra)
        tensor_writer_put(w, first + n, 0, zeros, 16, &e);
    CHECK(tensor_writer_end(w, &e), "%.300s", e.msg);
}

/* 3 layers; rows that are no multiple of 16, an odd k, biases. */
static Config odd_config(bool tied)
{
    Config c;
    config_defaults(&c);
    c.d_model = 20, c.n_layers = 2, c.heads = 4, c.kv_heads = 2, c.head_dim = c.rotary_dim = 6,
    c.d_ff = 33, c.vocab_size = 50;
    c.qkv_bias = c.out_bias = c.ffn_bias = true;
    c.tied_embeddings = tied;
    return c;
}

/* ---- What is bound --------------------------------------------------------------------------- */

static void check_mat(const Mat *m, const char *name, bool bias)
{
    float row[64];
    char  bias_name[64];
    CHECK((uintptr_t)m->w.part[0] % 64 == 0, "%s: panels not aligned", name);
    for (int r = 0; r < panel_count(m->rows) * PANEL_ROWS; r++) {
        panel_row_to_f32(m->type, row, panels_from(m->type, m->w, r / 16, m->k), r % 16, m->k);
        for (int j = 0; j < m->k; j++)
            CHECK(row[j] == (r < m->rows ? weight(name, r, j) : 0), "%s: row %d column %d: %a",
                  name, r, j, (double)row[j]);
    }
    CHECK((m->bias != NULL) == bias, "%s: bias", name);
    snprintf(bias_name, sizeof bias_name, "%s_bias", name);
    for (int r = 0; bias && r < panel_count(m->rows) * PANEL_ROWS; r++)
        CHECK(m->bias[r] == (r < m->rows ? weight(bias_name, r, 0) : 0), "%s: row %d: %a",
              bias_name, r, (double)m->bias[r]);
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
        embedding_row(&m->embed, r, row, NULL);
        for (int j = 0; j < m->cfg.d_model; j++)
            CHECK(row[j] == weight("embed", r, j), "embed: row %d column %d: %a", r, j,
                  (double)row[j]);
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
        check_norm(w->attn_norm.w, name, m->cfg.d_model);
        snprintf(name, sizeof name, "layers.%d.ffn_norm", l);
        check_norm(w->ffn_norm.w, name, m->cfg.d_model);
    }
    check_norm(m->final_norm.w, "final_norm", m->cfg.d_model);
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
        ok = model_bind_file(&m, &c, &f, &e);
        CHECK(ok, "%.300s", e.msg);
        if (ok) {
            check_model(&m);
            CHECK(m.n_params == count_params(&c), "%llu parameters",
                  (unsigned long long)m.n_params);
            CHECK(m.embed.panels == tied, "the embedding is in panels when tied");
            model_free(&m);
        }
        tensor_file_close(&f);
    }
}

static const Mat *mats_of(const Model *m, int l, int i)
{
    const Layer *w = &m->layer[l];
    const Mat   *mats[] = { &w->wq, &w->wk, &w->wv, &w->wo, &w->w_gate, &w->w_up, &w->w_down };
    return mats[i];
}

/* The parts that a matrix is bound to hold the rows of this name, quantized. */
static void check_parts(const TensorSpec *s, const Mat *m, WeightType type)
{
    CHECK(m->type == type && m->rows == s->rows && m->k == s->k, "%s: type or shape", s->name);
    for (int i = 0; i < part_count(type); i++) {
        size_t n;
        void  *expected = tensor_data(s, type, true, i, &n);
        CHECK((uintptr_t)m->w.part[i] % 64 == 0, "%s, part %d: not aligned", s->name, i);
        CHECK(memcmp(m->w.part[i], expected, n) == 0, "%s, part %d: other bytes", s->name, i);
        free(expected);
    }
}

static void check_quantized(const Model *m, WeightType type, bool tied)
{
    static const char *const names[] = { "wq", "wk", "wv", "wo", "w_gate", "w_up", "w_down" };
    float row[64], most = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&m->cfg, &s);) {
        for (int i = 0; s.layer >= 0 && s.k && i < 7; i++)
            if (strcmp(s.part, names[i]) == 0)
                check_parts(&s, mats_of(m, s.layer, i), type);
        if (s.role == ROLE_LM_HEAD || (s.role == ROLE_EMBED && tied))
            check_parts(&s, &m->lm_head, type);
    }
    CHECK(m->embed.type == type && m->embed.panels, "the embedding is not %s in panels",
          weight_type_name(type));
    for (int r = 0; r < m->cfg.vocab_size; r++) {
        embedding_row(&m->embed, r, row, NULL);
        for (int j = 0; j < m->cfg.d_model; j++) {
            float off = row[j] - weight("embed", r, j);
            most = off > most ? off : -off > most ? -off : most;
        }
    }
    CHECK(most > 0 && most < (type == WT_Q8 ? 0.01f : 0.2f), "embedding: off by %g", (double)most);
}

static bool count_file(Count *n, const Config *c, const TensorFile *f, Error *e)
{
    StoredModel p;
    bool ok = stored_model_from_file(&p, c, f, e);
    if (ok)
        count_stored(n, &p);
    stored_model_free(&p);
    return ok;
}

static void quantized_parts_are_bound(void)
{
    for (int i = 0; i < 8; i++) {
        WeightType type = i & 1 ? WT_Q8 : WT_Q4;
        bool       tied = i & 2, skewed = i & 4;
        Config     c    = odd_config(tied);
        Error      e    = { 0 };
        TensorFile f    = { 0 };
        Model      m    = { 0 };
        Count      n;
        c.d_ff = 300; /* two superblocks of w_down */
        write_model(&c, type, true, &(Wrong){ .skew = skewed ? 3 : 0 });
        bool ok = safetensors_open(&f, file_path(), &e) && model_bind_file(&m, &c, &f, &e)
            && count_file(&n, &c, &f, &e);
        CHECK(ok, "%.300s", e.msg);
        if (ok) {
            check_quantized(&m, type, tied);
            check_norm(m.final_norm.w, "final_norm", c.d_model);
            CHECK(m.weight_bytes == n.bytes && n.bytes_of[type] + n.bytes_of[WT_F32] == n.bytes
                      && m.matrix_bytes[type] == n.bytes_of[type],
                  "%zu bytes, counted %llu", m.weight_bytes, (unsigned long long)n.bytes);
            /* the biases are copied to whole panels and 4 bytes a row are read of them */
            size_t embed = tied ? 0 : 4 * panel_bytes(type, 20);
            CHECK(m.bytes_per_token == m.weight_bytes - embed + panel_bytes(type, 20) / 16,
                  "%zu bytes of %zu", m.bytes_per_token,
                  m.weight_bytes);
            CHECK(n.n_row_major == 0 && n.params == count_params(&c), "count");
        }
        model_free(&m);
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
    bool ok = safetensors_open(&f, file_path(), &e) && model_bind_file(&m, &c, &f, &e);
    CHECK(ok, "%.300s", e.msg);
    if (!ok)
        return;
    count_config(&n, &c, WT_F32);
    CHECK(m.weight_bytes == n.bytes, "%zu bytes, expected %llu", m.weight_bytes,
          (unsigned long long)n.bytes);
    CHECK(m.bytes_per_token == n.bytes - n.embed_bytes + 4 * 20, "%zu bytes, of %llu",
          m.bytes_per_token,
          (unsigned long long)n.bytes);
    model_free(&m);
    tensor_file_close(&f);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void wrong_files_are_refused_by_name(void)
{
    static const struct { Wrong wrong; bool tied, panels; const char *message;
    } cases[] = {
        { { .name = "layers.1.wk", .absent = true },
          false,
          true,
          "tensor layers.1.wk: expected [12, 20], found no such tensor" },
        { { .name = "lm_head", .absent = true },
          false,
          true,
          "tensor lm_head: expected [50, 20], found no such tensor (tied_embeddings false" },
        { { .name = "layers.0.wq_bias", .absent = true },
          false,
          true,
          "tensor layers.0.wq_bias: expected [24], found no such tensor" },
        { { .extra = "lm_head" },
          true,
          true,
          "tensor lm_head: expected no such tensor (tied_embeddings true in the config)" },
        { { .extra = "layers.2.wq" },
          true,
          true,
          "tensor layers.2.wq: expected no such tensor (n_layers 2 in the config)" },
        { { .extra = "layers.0.wz" }, true, true, "tensor layers.0.wz: expected no such tensor" },
        { { .extra = "pads" }, true, true, "tensor pads: expected no such tensor" },
        { { .meta = "type.embed", .value = "q9" },
          true,
          true,
          "metadata type.embed: expected q8, q4, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, "
          "q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, "
          "q4_z32, q4_z64, q4_z128 or q8_16, found 'q9'" },
        { { .name = "layers.0.wv", .dtype = DT_I32 + 1 },
          false,
          false,
          "tensor layers.0.wv: expected dtype F32, F16 or BF16, found I32" },
        { { .name = "final_norm", .dtype = DT_F64 + 1 },
          false,
          true,
          "tensor final_norm: expected dtype F32, F16 or BF16, found F64" },
        { { .name = "layers.0.wk", .rank = 2, .shape = { 24, 20 } },
          false,
          false,
          "tensor layers.0.wk: expected [12, 20] or panels [1, 10, 16, 2], found [24, 20] "
          "(kv_heads 2 in the config; this fits 4)" },
        { { .name = "layers.0.wq", .rank = 4, .shape = { 3, 10, 16, 2 } },
          false,
          true,
          "expected [24, 20] or panels [2, 10, 16, 2], found [3, 10, 16, 2] (heads 4 in the "
          "config; this fits 8)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 40, 20 } },
          false,
          false,
          "(d_ff 33 in the config; this fits 40)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 33, 24 } },
          false,
          false,
          "(d_model 20 in the config; this fits 24)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 20, 33 } },
          false,
          false,
          "found [20, 33] (the transpose)" },
        { { .name = "layers.0.w_up", .rank = 2, .shape = { 40, 24 } },
          false,
          false,
          "(neither dimension fits the config)" },
        { { .name = "layers.0.w_up", .rank = 3, .shape = { 3, 20, 16 } },
          false,
          false,
          "found [3, 20, 16]" },
        { { .name = "layers.0.w_up", .rank = 1, .shape = { 660 } }, false, false, "found [660]" },
        { { .name = "final_norm", .rank = 1, .shape = { 21 } },
          false,
          true,
          "expected [20], found [21] (d_model 20 in the config; this fits 21)" },
        { { .name = "final_norm", .rank = 2, .shape = { 20, 1 } },
          false,
          true,
          "expected [20], found [20, 1]" },
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
        CHECK(!model_bind_file(&m, &c, &f, &e), "case %zu was accepted", i);
        CHECK(e.status == INPUT && strncmp(e.msg, file_path(),
                                           strlen(file_path())) == 0 && strstr(e.msg,
            cases[i].message),
              "case %zu: %.400s", i, e.msg);
        CHECK(m.layer == NULL && m.owned == NULL, "case %zu: left something behind", i);
        CHECK(!count_file(&n, &c, &f, &e) && strstr(e.msg, cases[i].message),
              "count, case %zu: %.400s", i, e.msg);
        tensor_file_close(&f);
    }
}

static void wrong_parts_are_refused_by_name(void)
{
    static const struct { WeightType type; Wrong wrong; const char *message;
    } cases[] = {
        { WT_Q8,
          { .name = "layers.0.wq.d", .absent = true },
          "tensor layers.0.wq.d: expected F16 [2, 1, 16], found no such tensor (layers.0.wq is q8 "
          "in the metadata)" },
        { WT_Q4,
          { .name = "embed.s", .absent = true },
          "tensor embed.s: expected U8 [4, 1, 40], found no such tensor (embed is q4" },
        { WT_Q4,
          { .name = "embed", .absent = true },
          "tensor embed: expected [50, 20], found no such tensor" },
        { WT_Q8,
          { .name = "layers.1.wk", .dtype = DT_U8 + 1 },
          "tensor layers.1.wk: expected dtype I8, found U8 (layers.1.wk is q8" },
        { WT_Q8,
          { .name = "layers.1.wk.d", .dtype = DT_BF16 + 1 },
          "tensor layers.1.wk.d: expected dtype F16, found BF16" },
        { WT_Q8,
          { .name = "layers.0.wq.d", .rank = 3, .shape = { 2, 2, 16 } },
          "tensor layers.0.wq.d: expected [2, 1, 16], found [2, 2, 16]" },
        { WT_Q4,
          { .name = "layers.0.wo.s", .rank = 3, .shape = { 2, 1, 32 } },
          "tensor layers.0.wo.s: expected [2, 1, 40], found [2, 1, 32]" },
        { WT_Q8,
          { .name = "layers.0.wk", .rank = 4, .shape = { 2, 16, 16, 4 } },
          "tensor layers.0.wk: expected panels [1, 16, 16, 4], found [2, 16, 16, 4] (kv_heads 2 in "
          "the config; this fits 5)" },
        { WT_Q4,
          { .name = "layers.0.wk", .rank = 2, .shape = { 12, 20 } },
          "tensor layers.0.wk: expected panels [1, 16, 16, 2], found [12, 20]" },
        { WT_Q8,
          { .meta = "type.layers.0.wq", .value = "" },
          "tensor layers.0.wq.d: expected no such tensor (the metadata has no entry "
          "type.layers.0.wq)" },
        { WT_Q8,
          { .meta = "type.layers.0.wq", .value = "f32" },
          "metadata type.layers.0.wq: expected q8, q4, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, "
          "q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, "
          "q4_z32, q4_z64, q4_z128 or q8_16, found 'f32'" },
        { WT_Q4,
          { .meta = "type.layers.0.wq", .value = "q8" },
          "tensor layers.0.wq.s: expected no such tensor (layers.0.wq is q8 in the metadata)" },
        { WT_Q8,
          { .meta = "type.layers.0.wq", .value = "q4" },
          "tensor layers.0.wq: expected dtype U8, found I8 (layers.0.wq is q4" },
        { WT_Q8,
          { .meta = "type.layers.7.wq", .value = "q8" },
          "metadata type.layers.7.wq: expected a matrix of the config" },
        { WT_Q8,
          { .meta = "type.final_norm", .value = "q8" },
          "metadata type.final_norm: expected a matrix of the config" },
        { WT_F32,
          { .meta = "type.embed", .value = "f16" },
          "metadata type.embed: expected q8, q4, q8_0, q4_0, q4_1, q5_0, q5_1, q2_k, "
          "q3_k, q4_k, q5_k, q6_k, iq4_nl, iq4_xs, mxfp4, "
          "q4_z32, q4_z64, q4_z128 or q8_16, found 'f16'" },
        { WT_F32,
          { .meta = "type.embed", .value = "q8" },
          "tensor embed: expected dtype I8, found F32 (embed is q8 in the metadata)" },
        { WT_F32,
          { .extra = "layers.0.wq.d" },
          "tensor layers.0.wq.d: expected no such tensor (the metadata has no entry "
          "type.layers.0.wq)" },
        { WT_Q8,
          { .extra = "layers.0.wq.s" },
          "tensor layers.0.wq.s: expected no such tensor (layers.0.wq is q8 in the metadata)" },
        { WT_Q8, { .extra = "final_norm.d" }, "tensor final_norm.d: expected no such tensor" },
        { WT_F32,
          { .name = "layers.0.wq", .dtype = DT_I8 + 1 },
          "tensor layers.0.wq: expected dtype F32, F16 or BF16, found I8 without a metadata entry "
          "type.layers.0.wq" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Config     c = odd_config(false);
        Error      e = { 0 };
        TensorFile f = { 0 };
        Model      m;
        Count      n;
        write_model(&c, cases[i].type, true, &cases[i].wrong);
        bool ok = safetensors_open(&f, file_path(), &e);
        CHECK(ok, "%.300s", e.msg);
        CHECK(ok && !model_bind_file(&m, &c, &f, &e), "case %zu was accepted", i);
        CHECK(e.status == INPUT && strstr(e.msg, cases[i].message), "case %zu: %.400s", i, e.msg);
        CHECK(ok && !count_file(&n, &c, &f, &e), "case %zu was counted", i);
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
    CHECK(!model_bind_file(&m, &c, &f, &e) && strstr(e.msg, "layers.0.w_gate"), "%.400s", e.msg);
    c = odd_config(false);
    c.qkv_bias = false;
    CHECK(!model_bind_file(&m, &c, &f, &e)
              && strstr(e.msg, "layers.0.wq_bias: expected no such tensor (qkv_bias false"),
          "%.400s", e.msg);
    c = odd_config(false);
    c.n_layers = 3;
    CHECK(!model_bind_file(&m, &c, &f, &e)
              && strstr(e.msg, "layers.2.attn_norm: expected [20], found no such tensor"),
          "%.400s", e.msg);
    c = odd_config(false);
    c.heads = 3;
    CHECK(!model_bind_file(&m, &c, &f, &e) && strstr(e.msg, "kv_heads"), "%.400s", e.msg);
    c = odd_config(false);
    c.norm_placement = PLACE_POST;
    CHECK(!model_bind_file(&m, &c, &f, &e) && strstr(e.msg, "norm_placement: expected pre, both"),
          "%.400s", e.msg);
    tensor_file_close(&f);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(every_type_and_layout_binds_the_same_weights);
    TEST(quantized_parts_are_bound);
    TEST(bytes_per_token_is_what_a_decode_step_reads);
    TEST(wrong_files_are_refused_by_name);
    TEST(wrong_parts_are_refused_by_name);
    TEST(a_config_that_contradicts_the_tensors_is_refused);
    unlink(file_path());
    rmdir(folder);
    return TEST_END();
}
