/* data_check: a whole file passes; each kind of damage is found and its tensor named. */
#include "temp_folder.h"
#include "test.h"

#include <unistd.h>

#include "base/number.h"
#include "format/tensors.h"
#include "model/count.h"
#include "model/tensor_list.h"
#include "tblock_tools.h"

static char model[128], config[128];

/* Odd widths: panels have padding rows, bf16 pairs a missing half, and tensors pads between
 * them. */
static const char json[] = "{\"d_model\": 37, \"n_layers\": 2, \"heads\": 3, \"kv_heads\": 1, "
                           "\"head_dim\": 10, \"d_ff\": 21,"
                           "\"vocab_size\": 50, \"qkv_bias\": true}";

static bool make_model(const char *type)
{
    Error e = { 0 };
    FILE *f = fopen(config, "w");
    bool  ok = f && fputs(json, f) >= 0;
    ok = f && fclose(f) == 0 && ok
        && tblock_synth(config, model, &(tblock_synth_options){ .type = type, .seed = 3 }, &e);
    CHECK(ok, "%.300s", e.msg);
    return ok;
}

static bool check(DataCheck *out)
{
    TensorFile f = { 0 };
    Error      e = { 0 };
    Config     c;
    StoredModel p = { 0 };
    bool ok = config_parse(&c, json, sizeof json - 1, "config", &e)
        && safetensors_open(&f, model, &e) && stored_model_from_file(&p, &c, &f, &e)
        && data_check(out, &p, &f, NULL, &e);
    stored_model_free(&p);
    CHECK(ok, "%.300s", e.msg);
    tensor_file_close(&f);
    return ok;
}

/* Overwrite n bytes at byte `at` of a tensor. */
static void damage(const char *name, size_t at, const void *with, size_t n)
{
    TensorFile f = { 0 };
    Error      e = { 0 };
    size_t     offset = 0;
    if (safetensors_open(&f, model, &e)) {
        const Tensor *t = tensor_find(&f, name);
        CHECK(t && at + n <= t->n_bytes, "no byte %zu in %s", at, name);
        offset = t ? t->offset + at : 0;
    }
    tensor_file_close(&f);
    FILE *file = fopen(model, "r+b");
    bool  ok   =
        file && offset && fseek(file, (long)offset, SEEK_SET) == 0 && fwrite(with, 1, n, file) == n;
    CHECK(ok, "cannot damage %s", name);
    if (file)
        fclose(file);
}

static void a_whole_file_passes(void)
{
    static const char *const types[] = { "f32", "f16", "bf16", "q8", "q4" };
    for (int i = 0; i < 5; i++) {
        DataCheck d;
        if (!make_model(types[i]) || !check(&d))
            return;
        CHECK(d.ok && d.hash.answer == CHECK_OK && d.padding.answer == CHECK_OK
                  && d.finite.answer == CHECK_OK,
              "%s: %s%s%s", types[i], d.hash.found, d.padding.found, d.finite.found);
    }
}

static void a_changed_byte_breaks_the_hash_alone(void)
{
    DataCheck d;
    if (!make_model("bf16"))
        return;
    damage("layers.1.w_up", 0, "\x01\x01", 2);
    if (!check(&d))
        return;
    CHECK(!d.ok && d.hash.answer == CHECK_BAD && strstr(d.hash.found,
                                                        "expected ") && strstr(d.hash.found,
        ", found "), "%s", d.hash.found);
    CHECK(d.padding.answer == CHECK_OK && d.finite.answer == CHECK_OK, "%s%s", d.padding.found,
          d.finite.found);
}

static void padding_is_looked_at_everywhere(void)
{
    static const struct { const char *type, *tensor; size_t at; const char *found; } cases[] = {
        /* wk: 10 rows of 37; a row past the last of the only panel, first and last column */
        { "f32", "layers.0.wk", 4 * 10, "tensor layers.0.wk: padding at row 10, column 0 " },
        { "f16", "layers.1.wk", 2 * (36 * 16 + 15),
          "tensor layers.1.wk: padding at row 15, column 36 " },
        { "bf16", "layers.1.wk", 2 * (18 * 32 + 2 * 15),
          "tensor layers.1.wk: padding at row 15, column 36 " },
        /* wq: 30 rows; the missing half of the last pair in the first, full panel */
        { "bf16", "layers.0.wq", 2 * (18 * 32 + 2 * 3 + 1),
          "tensor layers.0.wq: padding at row 3, column 37 " },
        { "bf16", "layers.0.wq", 2 * (19 * 32 + 2 * 14),
          "tensor layers.0.wq: padding at row 30, column 0 " },
        /* q8 wq [30, 37]: 4 columns of 16 rows stand together; column 38 of row 3, then rows past
         * the last of the second panel, whose codes count once their scale is not 0 (as it is of
         * every row of the first) */
        { "q8", "layers.0.wq", 16 * 4 * 9 + 3 * 4 + 2,
          "tensor layers.0.wq: padding at row 3, column 38 " },
        { "q8", "layers.0.wo", 16 * 4 * 7 + 2 * 4 + 2,
          "tensor layers.0.wo: padding at row 2, column 30 " },
        { "q4", "layers.0.wq", 64 * 4 + 3 * 4 + 2,
          "tensor layers.0.wq: padding at row 3, column 38 " },
        { "f32", "pad.0", 1, "tensor pad.0: byte 1 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DataCheck d;
        if (!make_model(cases[i].type))
            return;
        damage(cases[i].tensor, cases[i].at, "\x01", 1);
        if (!check(&d))
            return;
        CHECK(!d.ok && d.padding.answer == CHECK_BAD && strncmp(d.padding.found, cases[i].found,
            strlen(cases[i].found)) == 0,
              "case %zu: %s", i, d.padding.found);
        CHECK(d.padding.n_bad == 1 && d.finite.answer == CHECK_OK, "case %zu: %s", i,
              d.finite.found);
    }
}

static void rows_past_the_last_of_a_quantized_matrix_decode_to_zero(void)
{
    DataCheck d;
    if (!make_model("q8"))
        return;
    /* wk [10, 37]: row 12, column 8; its scale is 0 */
    damage("layers.0.wk", 16 * 4 * 2 + 4 * 12, "\x01", 1);
    if (!check(&d))
        return;
    CHECK(d.padding.answer == CHECK_OK && d.hash.answer == CHECK_BAD, "%s", d.padding.found);
    damage("layers.0.wk.d", 2 * 12 + 1, "\x3c", 1);
    if (!check(&d))
        return;
    CHECK(d.padding.answer == CHECK_BAD
              && strncmp(d.padding.found, "tensor layers.0.wk: padding at row 12, column 8 ", 48)
                  == 0,
          "%s", d.padding.found);
}

static void what_is_not_finite_is_found_in_its_place(void)
{
    uint32_t nan32 = 0x7fc00000, inf32 = 0xff800000;
    uint16_t nan16 = 0x7c01, inf16 = 0x7f80, inf_f16 = 0xfc00;
    const struct {
        const char *type, *tensor; size_t at; const void *value; size_t n; const char *found;
    } cases[] = {
        { "f32", "layers.0.wq", 4 * (37 * 16 + 36 * 16 + 13), &nan32, 4,
          "tensor layers.0.wq: element [29, 36] is NaN" },
        { "f32", "final_norm", 4 * 36, &inf32, 4,
          "tensor final_norm: element [36] is minus infinite" },
        { "f16", "embed", 2 * (49 * 37 + 5), &nan16, 2, "tensor embed: element [49, 5] is NaN" },
        { "bf16", "lm_head", 2 * (3 * 19 * 32 + 18 * 32 + 2 * 1), &inf16, 2,
          "tensor lm_head: element [49, 36] is infinite" },
        /* .d [panels, superblocks, 16]; row 17 is the second panel's second */
        { "q8", "layers.0.wq.d", 2 * 17, &inf_f16, 2,
          "tensor layers.0.wq.d: scale of row 17, columns from 0 is minus infinite" },
        { "q4", "lm_head.d", 2 * 49, &nan16, 2,
          "tensor lm_head.d: scale of row 49, columns from 0 is NaN" },
        { "bf16", "layers.1.wq_bias", 4 * 7, &nan32, 4,
          "tensor layers.1.wq_bias: element [7] is NaN" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DataCheck d;
        if (!make_model(cases[i].type))
            return;
        damage(cases[i].tensor, cases[i].at, cases[i].value, cases[i].n);
        if (!check(&d))
            return;
        CHECK(!d.ok && d.finite.answer == CHECK_BAD && strcmp(d.finite.found, cases[i].found) == 0,
              "case %zu: %s", i, d.finite.found);
        CHECK(d.padding.answer == CHECK_OK && d.finite.n_bad == 1, "case %zu: %s", i,
              d.padding.found);
    }
}

/* Such a row is never used, so it makes no logit NaN: the padding is wrong, the weights are not. */
static void a_row_that_only_fills_a_panel_is_no_weight(void)
{
    uint32_t nan32 = 0x7fc00000;
    uint16_t nan16 = 0x7fc0, nan_f16 = 0x7e00;
    const struct { const char *type, *tensor; size_t at; const void *value; size_t n; } cases[] = {
        { "f32", "layers.0.wk", 4 * 10, &nan32, 4 },
        { "bf16", "layers.0.wq", 2 * (19 * 32 + 2 * 14), &nan16, 2 },
        { "q8", "layers.0.wk.d", 2 * 12, &nan_f16, 2 },
        { "q4", "lm_head.d", 2 * 50, &nan_f16, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DataCheck d;
        if (!make_model(cases[i].type))
            return;
        damage(cases[i].tensor, cases[i].at, cases[i].value, cases[i].n);
        if (!check(&d))
            return;
        CHECK(d.finite.answer == CHECK_OK && d.padding.answer == CHECK_BAD && d.padding.n_bad == 1,
              "case %zu: %s, %s", i, d.finite.found,
              d.padding.found);
    }
}

static void a_report_of_a_damaged_file_says_no(void)
{
    Error e    = { 0 };
    char *text = NULL;
    if (!make_model("bf16"))
        return;
    CHECK(tblock_report(model, &(tblock_report_options){ .check = true }, &text, &e) && strstr(text,
        "all finite"), "%.300s", e.msg);
    free(text);
    damage("layers.0.attn_norm", 8, "\x00\x00\xc0\x7f", 4);
    text = NULL;
    CHECK(!tblock_report(model, &(tblock_report_options){ .check = true }, &text, &e),
          "a NaN was accepted");
    CHECK(e.status == NO && strstr(e.msg, "tensor layers.0.attn_norm: element [2] is NaN"),
          "%d %.300s", e.status, e.msg);
    CHECK(text && strstr(text, "WRONG: tensor layers.0.attn_norm"), "%.900s",
          text ? text : "no text");
    free(text);
    CHECK(!tblock_report(config, &(tblock_report_options){ .check = true }, &text,
                         &e) && e.status == USAGE && !text, "%.300s", e.msg);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    snprintf(model, sizeof model, "%s/model.bin", folder);
    snprintf(config, sizeof config, "%s/config.json", folder);
    TEST(a_whole_file_passes);
    TEST(a_changed_byte_breaks_the_hash_alone);
    TEST(padding_is_looked_at_everywhere);
    TEST(rows_past_the_last_of_a_quantized_matrix_decode_to_zero);
    TEST(what_is_not_finite_is_found_in_its_place);
    TEST(a_row_that_only_fills_a_panel_is_no_weight);
    TEST(a_report_of_a_damaged_file_says_no);
    unlink(model);
    unlink(config);
    rmdir(folder);
    return TEST_END();
}
