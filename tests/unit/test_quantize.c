/* quantize: the file holds what panel_quantize makes of the rows, whatever the threads; the report
 * is right; what cannot be stored is refused by name. */
#include "temp_folder.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "model/tensor_list.h"
#include "tblock_tools.h"

/* Odd widths, two superblocks in d_ff, biases, a head of its own. */
static const char untied[] = "{\"d_model\": 37, \"n_layers\": 2, \"heads\": 3, \"kv_heads\": 1, "
                             "\"head_dim\": 10, \"d_ff\": 300,"
                             "\"vocab_size\": 501, \"qkv_bias\": true}";

static bool synth(const char *name, const char *type)
{
    Error e  = { 0 };
    bool  ok = write_config(untied)
        && tblock_synth(in_folder("config.json"), in_folder(name),
                         &(tblock_synth_options){ .type = type, .seed = 3 }, &e);
    CHECK(ok, "%.400s", e.msg);
    return ok;
}

static bool quantize(const char *in, const char *out, const char *type, const char *keep,
                     tblock_quantize_report *r, Error *e)
{
    return tblock_quantize(
        in_folder(in), in_folder(out),
        &(tblock_quantize_options){ .type = type, .keep = &keep, .n_keep = keep != NULL }, r, e);
}

static uint64_t digest(const char *name)
{
    FileMap  f;
    Error    e = { 0 };
    uint64_t h = 0;
    if (file_map_open(&f, in_folder(name), &e))
        h = fnv1a(FNV_SEED, f.data, f.size);
    file_map_close(&f);
    return h;
}

/* A file and its config, opened; false: what went wrong is told. */
typedef struct Opened { TensorFile f; Config c; } Opened;

static bool open_model(Opened *o, const char *name)
{
    Error e = { 0 };
    *o = (Opened){ .f = { .n_tensors = 0 } };
    bool ok = safetensors_open(&o->f, in_folder(name), &e)
        && config_parse(&o->c, tensor_meta(&o->f, "config"), strlen(tensor_meta(&o->f, "config")),
                        "config", &e);
    CHECK(ok, "%.400s", e.msg);
    return ok;
}

/* Row r of a matrix of a file of f32 (panels, or row-major). */
static void f32_row(const CheckedTensor *t, int r, int k, float *out)
{
    if (t->panels)
        panel_row_to_f32(t->type, out, panels_from(t->type, checked_panels(t), r / 16, k), r % 16,
                         k);
    else
        memcpy(out, (const float *)t->part[0]->data + (size_t)r * (size_t)k,
               (size_t)k * sizeof *out);
}

static void check_matrix(const TensorSpec *s, const CheckedTensor *from, const CheckedTensor *to,
                         double *error2, double *sum2)
{
    static float rows[16 * 512], back[512];
    for (int p = 0; p < panel_count(s->rows); p++) {
        static uint8_t room[3][1 << 16];
        void  *panel[MAX_PARTS] = { room[0], room[1], room[2] };
        int    n = s->rows - 16 * p < 16 ? s->rows - 16 * p : 16;
        Panels expected = { { room[0], room[1], room[2] } },
               found = panels_from(to->type, checked_panels(to), p, s->k);
        for (int r = 0; r < n; r++)
            f32_row(from, 16 * p + r, s->k, rows + r * s->k);
        panel_quantize(to->type, panel, rows, NULL, n, s->k);
        for (int i = 0; i < part_count(to->type); i++)
            CHECK(memcmp(expected.part[i], found.part[i], part_bytes(to->type, i, s->k)) == 0,
                  "%s: panel %d, part %d", s->name, p, i);
        for (int r = 0; r < n; r++) {
            panel_row_to_f32(to->type, back, found, r, s->k);
            for (int j = 0; j < s->k; j++) {
                double x = (double)rows[r * s->k + j], d = (double)back[j] - x;
                *error2 += d * d;
                *sum2   += x * x;
            }
        }
    }
}

static void matrices_are_what_panel_quantize_makes(void)
{
    static const char *const types[] = { "q8", "q4" };
    if (!synth("in.bin", "f32"))
        return;
    for (int i = 0; i < 2; i++) {
        Error                  e = { 0 };
        tblock_quantize_report r = { 0 };
        Opened                 in, out;
        CHECK(quantize("in.bin", "out.bin", types[i], NULL, &r, &e), "%.400s", e.msg);
        if (!open_model(&in, "in.bin") || !open_model(&out, "out.bin"))
            return;
        double error2 = 0, sum2 = 0;
        size_t row = 0;
        for (TensorSpec s = tensor_list_start(); tensor_list_next(&in.c, &s);) {
            CheckedTensor from, to;
            CHECK(tensor_check(&s, &in.f, &from, &e) && tensor_check(&s, &out.f, &to, &e), "%.400s",
                  e.msg);
            if (s.k == 0) {
                CHECK(to.type == WT_F32 && memcmp(from.part[0]->data, to.part[0]->data,
                                                  to.part[0]->n_bytes) == 0, "%s", s.name);
                continue;
            }
            bool end = s.role == ROLE_EMBED || s.role == ROLE_LM_HEAD;
            CHECK(to.type == (end ? WT_Q8 : i ? WT_Q4 : WT_Q8), "%s is %s", s.name,
                  weight_type_name(to.type));
            double e2 = 0, s2 = 0;
            check_matrix(&s, &from, &to, &e2, &s2);
            CHECK(row < r.n_rows && strcmp(r.rows[row].name,
                                           s.name) == 0 && r.rows[row].bytes == checked_bytes(&to),
            "%s", s.name);
            CHECK(fabs(r.rows[row].error - sqrt(e2 / s2)) <= 1e-9 * sqrt(e2 / s2) && e2 > 0,
                  "%s: %g", s.name, r.rows[row].error);
            error2 += e2;
            sum2   += s2;
            row++;
        }
        CHECK(row == r.n_rows && fabs(r.error - sqrt(error2 / sum2)) <= 1e-9 * r.error,
              "%zu rows, error %g", row, r.error);
        tblock_free(r.rows);
        tensor_file_close(&in.f);
        tensor_file_close(&out.f);
    }
}

static void same_bytes_whatever_the_threads(void)
{
    static const char *const types[] = { "q8", "q4", "f16", "bf16" };
    Error e = { 0 };
    for (int i = 0; i < 4 && synth("in.bin", "f32"); i++) {
        uint64_t one = 0;
        for (int threads = 1; threads <= 3; threads++) {
            CHECK(tblock_quantize(in_folder("in.bin"), in_folder("out.bin"),
                                  &(tblock_quantize_options){ .type = types[i],
                .threads = threads },
                                  NULL, &e), "%.400s", e.msg);
            one = threads == 1 ? digest("out.bin") : one;
            CHECK(one == digest("out.bin"), "%s: other bytes with %d threads", types[i], threads);
        }
    }
}

static bool same_data(const char *a, const char *b)
{
    Opened x, y;
    bool   same = open_model(&x, a) && open_model(&y, b);
    same = same && x.f.data_bytes == y.f.data_bytes
        && memcmp(x.f.map.data + x.f.data_offset, y.f.map.data + y.f.data_offset, x.f.data_bytes)
            == 0;
    tensor_file_close(&x.f);
    tensor_file_close(&y.f);
    return same;
}

static void float_types_there_and_back(void)
{
    Error e = { 0 };
    if (!synth("in.bin", "bf16"))
        return;
    CHECK(quantize("in.bin", "wide.bin", "f32", NULL, NULL, &e) && quantize("wide.bin", "out.bin",
        "bf16", NULL, NULL, &e), "%.400s", e.msg);
    CHECK(same_data("in.bin", "out.bin"), "bf16 to f32 and back changed the data");
    /* what q4 stands for, as f32; a quantized file stays what it is */
    CHECK(quantize("in.bin", "q.bin", "q4", NULL, NULL, &e) && quantize("q.bin", "out.bin", "q4",
        NULL, NULL, &e), "%.400s", e.msg);
    CHECK(same_data("q.bin", "out.bin"), "q4 to q4 changed the data");
    CHECK(quantize("q.bin", "wide.bin", "f32", NULL, NULL, &e), "%.400s", e.msg);
    Opened q, w;
    if (!open_model(&q, "q.bin") || !open_model(&w, "wide.bin"))
        return;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&q.c, &s);) {
        CheckedTensor a, b;
        float         x[512], y[512];
        CHECK(tensor_check(&s, &q.f, &a, &e) && tensor_check(&s, &w.f, &b, &e), "%.400s", e.msg);
        for (int r = 0; s.k && r < s.rows; r++) {
            f32_row(&a, r, s.k, x);
            f32_row(&b, r, s.k, y);
            CHECK(memcmp(x, y, (size_t)s.k * sizeof *x) == 0, "%s: row %d", s.name, r);
        }
    }
    tensor_file_close(&q.f);
    tensor_file_close(&w.f);
    CHECK(!quantize("q.bin", "out.bin", "q8", NULL, NULL, &e) && e.status == INPUT
          && strstr(e.msg, "tensor layers.0.wq: expected floats to convert to q8, found q4"),
          "%d %.400s", e.status, e.msg);
    CHECK(quantize("q.bin", "out.bin", "q8", "layers.*=f16", NULL, &e), "%.400s", e.msg);
}

static void keep_takes_the_first_that_matches(void)
{
    const char *keep[] = { "layers.1.w_*=q8", "layers.*.w_down=bf16", "embed=f16", "lm_?ead=q4" };
    static const struct { const char *name, *type; } expected[] = {
        { "embed", "f16" }, { "layers.0.wq", "q4" }, { "layers.0.w_down", "bf16" },
        { "layers.1.w_down", "q8" }, { "layers.1.w_up", "q8" },
        { "layers.0.w_up", "q4" }, { "lm_head", "q4" },
    };
    Error                  e = { 0 };
    tblock_quantize_report r = { 0 };
    if (!synth("in.bin", "f32"))
        return;
    CHECK(tblock_quantize(in_folder("in.bin"), in_folder("out.bin"),
                          &(tblock_quantize_options){ .type = "q4", .keep = keep, .n_keep = 4 }, &r,
    &e),
          "%.400s", e.msg);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        for (size_t j = 0; j < r.n_rows; j++)
            if (strcmp(r.rows[j].name, expected[i].name) == 0)
                CHECK(strcmp(r.rows[j].type, expected[i].type) == 0, "%s is %s", r.rows[j].name,
                      r.rows[j].type);
    tblock_free(r.rows);
    Opened o;
    if (open_model(&o, "out.bin")) {
        CHECK(
            strstr(
                tensor_meta(&o.f, "source"),
                "[{\"synth\": \"seed 3\"}, {\"quantized\": \"q4\", \"keep\": [\"layers.1.w_*=q8\"")
                && strstr(tensor_meta(&o.f, "source"), "\"from_sha256\": \""),
            "%s", tensor_meta(&o.f, "source"));
        CHECK(tensor_meta(&o.f, "bf16_min") && strcmp(tensor_meta(&o.f, "bf16_min"), "2^-50") == 0,
              "bf16_min");
    }
    tensor_file_close(&o.f);
    static const struct { const char *keep, *message; } wrong[] = {
        { "layers.2.*=q8", "keep: 'layers.2.*=q8' matches no matrix" },
        { "*_norm=q8", "matches no matrix" },
        { "embed", "keep: expected PATTERN=TYPE" }, { "=q8", "keep: expected PATTERN=TYPE" },
        { "embed=q5", "found 'embed=q5'" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!quantize("in.bin", "none.bin", "q4", wrong[i].keep, NULL,
                        &e) && e.status == USAGE && strstr(e.msg, wrong[i].message),
              "%zu: %d %.400s", i, e.status, e.msg);
}

/* Overwrite one float of a tensor of in.bin. */
static void damage(const char *tensor, size_t element, float value)
{
    Opened o;
    size_t at = 0;
    if (open_model(&o, "in.bin"))
        at = tensor_find(&o.f, tensor)->offset + element * sizeof value;
    tensor_file_close(&o.f);
    FILE *f = fopen(in_folder("in.bin"), "r+b");
    CHECK(f && fseek(f, (long)at, SEEK_SET) == 0 && fwrite(&value, sizeof value, 1, f) == 1,
          "cannot damage %s", tensor);
    if (f)
        fclose(f);
}

static void what_cannot_be_stored_is_named(void)
{
    static const struct {
        const char *tensor; size_t element; float value; const char *type, *message;
    } cases[] = {
        /* panels [panels, k, 16] */
        { "layers.1.w_up", 16 * (37 * 2 + 5) + 3, NAN, "q4",
          "tensor layers.1.w_up: element [35, 5]: expected a finite weight, found NaN" },
        { "layers.0.wq", 16 * 36 + 1, -INFINITY, "f32",
          "tensor layers.0.wq: element [1, 36]: expected a finite weight, found -infinity" },
        { "layers.0.wq", 16 * 36 + 1, 65520, "f16",
          "element [1, 36]: expected at most 65504 for f16, found 65520" },
        { "layers.0.w_down", 16 * 299 + 2, -9e6f, "q8",
          "element [2, 299]: expected at most 8.31901e+06 for q8, found -9e+06" },
        { "layers.0.w_down", 16 * 299 + 2, 3e38f, "q4",
          "element [2, 299]: expected at most 7.86048e+06 for q4, found 3e+38" },
        { "layers.0.w_down", 16 * 299 + 2, 65504.0f * 121, "q4",
          "element [2, 299]: expected at most 7.86048e+06 for q4, found 7.92598e+06" },
        { "embed", 37 * 500 + 36, 3.4e38f, "bf16",
          "tensor embed: element [500, 36]: expected at most 3.38953e+38 for bf16, found 3.4e+38" },
        { "final_norm", 7, NAN, "q8",
          "tensor final_norm: element [7]: expected a finite weight, found NaN" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Error e = { 0 };
        if (!synth("in.bin", "f32"))
            return;
        damage(cases[i].tensor, cases[i].element, cases[i].value);
        unlink(in_folder("none.bin"));
        CHECK(!quantize("in.bin", "none.bin", cases[i].type, NULL, NULL,
                        &e) && e.status == INPUT && strstr(e.msg, cases[i].message)
              && strstr(e.msg, "in.bin"), "case %zu: %d %.400s", i, e.status, e.msg);
        CHECK(access(in_folder("none.bin"), F_OK) != 0, "case %zu left a file", i);
    }
}

static void what_becomes_zero_is_counted(void)
{
    Error                  e = { 0 };
    tblock_quantize_report r = { 0 };
    Opened                 o;
    if (!synth("in.bin", "f32"))
        return;
    damage("layers.0.wq", 16 * 36 + 1, 0x1p-51f);
    damage("layers.0.wq", 16 * 36 + 2, -0x1p-50f);  /* stays */
    damage("layers.0.wq", 16 * 36 + 3, 0);          /* was 0 */
    damage("layers.0.wq", 16 * 36 + 4, 0x1.ffp-51f); /* is 2^-50 in bf16 */
    CHECK(quantize("in.bin", "out.bin", "bf16", NULL, &r, &e) && r.flushed == 1,
          "%llu became 0: %.400s", (unsigned long long)r.flushed, e.msg);
    tblock_free(r.rows);
    if (open_model(&o, "out.bin")) {
        const uint16_t *w = tensor_find(&o.f, "layers.0.wq")->data; /* [panels, 19, 16, 2] */
        CHECK(w[18 * 32 + 2 * 1] == 0 && w[18 * 32 + 2 * 2] == 0xa680
                  && w[18 * 32 + 2 * 4] == 0x2680,
              "%x %x %x", w[18 * 32 + 2], w[18 * 32 + 4], w[18 * 32 + 8]);
    }
    tensor_file_close(&o.f);
}

static void wrong_usage_leaves_the_old_file(void)
{
    Error e = { 0 };
    if (!synth("in.bin", "bf16") || !synth("out.bin", "f16"))
        return;
    uint64_t in = digest("in.bin"), out = digest("out.bin");
    CHECK(!quantize("in.bin", "in.bin", "q4", NULL, NULL, &e) && e.status == USAGE, "%d %.400s",
          e.status, e.msg);
    CHECK(!quantize("in.bin", "out.bin", "q5", NULL, NULL, &e) && e.status == USAGE && strstr(e.msg,
        "found 'q5'"), "%.400s", e.msg);
    CHECK(!tblock_quantize(in_folder("in.bin"), in_folder("out.bin"), NULL, NULL,
                           &e) && e.status == USAGE, "%.400s", e.msg);
    CHECK(!quantize("absent.bin", "out.bin", "q4", NULL, NULL, &e) && e.status == INPUT, "%.400s",
          e.msg);
    CHECK(!quantize("config.json", "out.bin", "q4", NULL, NULL, &e) && e.status == INPUT, "%.400s",
          e.msg);
    CHECK(digest("in.bin") == in && digest("out.bin") == out, "a file was changed");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(matrices_are_what_panel_quantize_makes);
    TEST(same_bytes_whatever_the_threads);
    TEST(float_types_there_and_back);
    TEST(keep_takes_the_first_that_matches);
    TEST(what_cannot_be_stored_is_named);
    TEST(what_becomes_zero_is_counted);
    TEST(wrong_usage_leaves_the_old_file);
    static const char *const files[] = { "in.bin", "out.bin", "wide.bin", "q.bin", "config.json" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(in_folder(files[i]));
    rmdir(folder);
    return TEST_END();
}
