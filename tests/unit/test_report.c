/* The info report: right numbers, 80 columns, JSON that parses, for a model, a tokenizer and a bare
 * config. */
#include "test.h"
#include "temp_folder.h"

#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "format/tensors.h"
#include "tblock_tools.h"

static const char config[] =
    "{\"d_model\": 40, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 10, \"d_ff\": "
    "70,"
    "\"vocab_size\": 301, \"qkv_bias\": true, \"window\": 64, \"bos\": 1, \"eos\": [2],"
    "\"rope\": {\"type\": \"linear\", \"factor\": 2}}";

enum {
    EMBED = 301 * 40,
    BLOCK = 80 + 2 * 40 * 40 + 2 * 20 * 40 + 40 + 20 + 20 + 3 * 70 * 40,
    TOTAL = 2 * EMBED + 2 * BLOCK + 40
};

static bool write_model(void)
{
    Error e  = { 0 };
    bool  ok = write_config(config)
        && tblock_synth(in_folder("config.json"), in_folder("model.bin"), NULL, &e);
    CHECK(ok, "%.400s", e.msg);
    return ok;
}

/* A file that holds only a tokenizer; its name tries to reach the terminal. */
static void write_tokenizer(void)
{
    Error         e = { 0 };
    TensorWriter *w = tensor_writer_new(in_folder("tok.bin"), 4096, &e);
    bool ok = w && tensor_writer_meta(w, "format", "tblock", &e)
        && tensor_writer_meta(w, "version", "1", &e)
        && tensor_writer_meta(w, "tokenizer", "{\"type\": \"spm\", \"size\": 512}", &e)
        && tensor_writer_meta(w, "source",
                              "[{\"file\": \"a\\u001b[31m.model\", \"sha256\": \"00ff\"}]", &e)
        && tensor_writer_declare(w, "tok.bytes", DT_U8, 1, (int64_t[]){ 4 }, &e)
        && tensor_writer_begin(w, &e) && tensor_writer_put(w, 0, 0, "abcd", 4, &e);
    CHECK(ok && tensor_writer_end(w, &e), "%.400s", e.msg);
}

static char *report(const char *name, bool json, bool tensors, bool colour)
{
    Error e    = { 0 };
    char *text = NULL;
    bool  ok   = tblock_report(
        in_folder(name),
        &(tblock_report_options){ .json = json, .tensors = tensors, .colour = colour }, &text, &e);
    CHECK(ok, "%.400s", e.msg);
    return ok ? text : NULL;
}

/* Bytes of the longest line after the first, which is the path. */
static size_t widest(const char *text)
{
    size_t widest = 0;
    for (const char *line = strchr(text, '\n'); line && line[1];) {
        size_t n = strcspn(line + 1, "\n");
        widest   = n > widest ? n : widest;
        line     = strchr(line + 1, '\n');
    }
    return widest;
}

static void text_of_a_model_fits_80_columns(void)
{
    if (!write_model())
        return;
    char *text = report("model.bin", false, true, false);
    if (!text)
        return;
    CHECK(widest(text) <= 80, "%zu columns", widest(text));
    static const char *const parts[] = {
        "window 64", "linear factor 2", "on q k v",      "4 heads of 10, 2 kv heads",
        "[70, 40]",  "rows16",          "synth, seed 0", "layers.1.wk_bias",
        "12,040",    "sha256",          "1; 2"
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        CHECK(strstr(text, parts[i]), "no '%s' in: %.700s", parts[i], text);
    CHECK(!strchr(text, '\033'), "colours unasked");
    free(text);
    text = report("model.bin", false, false, true);
    CHECK(text && strstr(text, "\033[1m") && !strstr(text, "layers.1"),
          "no colours, or tensors unasked");
    free(text);
}

static int64_t number(const Json *j, const char *a, const char *b)
{
    int64_t v = -1;
    j = json_get(j, a);
    json_read_int(b ? json_get(j, b) : j, a, 0, INT64_C(1) << 53, &v, NULL);
    return v;
}

static bool is(const Json *j, const char *key, const char *value)
{
    const char *s;
    return json_read_string(json_get(j, key), key, &s, NULL) && strcmp(s, value) == 0;
}

static void json_of_a_model_has_the_counts(void)
{
    Error e    = { 0 };
    char *text = write_model() ? report("model.bin", true, true, false) : NULL;
    Json *j    = text ? json_parse(text, strlen(text), "report", &e) : NULL;
    CHECK(j != NULL, "%.400s", e.msg);
    if (j) {
        CHECK(is(j, "kind", "model") && is(j, "layout", "rows16"), "%.700s", text);
        CHECK(number(j, "parameters", "total") == TOTAL
                  && number(j, "parameters", "embedding") == EMBED
                  && number(j, "parameters", "block") == BLOCK
                  && number(j, "parameters", "blocks") == 2 * BLOCK
                  && number(j, "parameters", "head") == EMBED,
              "%.700s", text);
        CHECK(number(j, "kv_bytes_per_token", "f32") == 2 * 2 * 20 * 4, "%.700s", text);
        CHECK(number(j, "config", "d_ff") == 70, "%.700s", text);
        int64_t bytes = 0;
        for (const Json *t = json_first(json_get(j, "tensors")); t; t = json_next(t))
            bytes += number(t, "bytes", NULL);
        CHECK(bytes + number(j, "data_offset", NULL) == number(j, "file_bytes", NULL),
              "%lld bytes of tensors",
              (long long)bytes);
    }
    json_free(j);
    free(text);
}

static void a_bare_config_is_counted_for_every_type(void)
{
    Error e = { 0 };
    CHECK(write_config(config), "cannot write");
    char *text = report("config.json", false, true, false);
    CHECK(text && strstr(text, "12,040") && strstr(text, ", bf16 ") && strstr(text,
        ", q8 ") && strstr(text, ", q4 ") && widest(text) <= 80, "%.700s", text ? text : "");
    free(text);
    text    = report("config.json", true, false, false);
    Json *j = text ? json_parse(text, strlen(text), "report", &e) : NULL;
    CHECK(j && is(j, "kind", "config") && number(j, "parameters", "total") == TOTAL, "%.700s",
          text ? text : e.msg);
    /* with panels of 16 rows, bf16 of an even k: every matrix but the embedding is padded */
    int64_t panels = 2 * (48 * 40 + 2 * 32 * 40 + 48 * 40 + 2 * 80 * 40 + 48 * 70) + 304 * 40,
            vectors = 2 * (80 + 80) + 40;
    CHECK(number(j, "weight_bytes", "bf16") == 2 * (panels + EMBED) + 4 * vectors, "%.700s",
          text ? text : "");
    /* panels of 40 columns (padded to 64) and of 70 (to 128): codes, of q4 sub-scales too,
     * scales */
    int64_t of_40 = 2 * (3 + 2 + 2 + 3 + 5 + 5), ends = 2 * 19, of_70 = 2 * 3;
    int64_t q8 = (of_40 + ends) * (1024 + 32) + of_70 * (2048 + 32);
    int64_t q4 = of_40 * (512 + 40 + 32) + of_70 * (1024 + 80 + 32) + ends * (1024 + 32);
    CHECK(number(j, "weight_bytes", "q8") == q8 + 4 * vectors, "%lld: %.700s", (long long)q8,
          text ? text : "");
    CHECK(number(j, "weight_bytes", "q4") == q4 + 4 * vectors, "%lld: %.700s", (long long)q4,
          text ? text : "");
    CHECK(!json_get(j, "tokenizer") && !json_get(j, "file_bytes"), "%.700s", text ? text : "");
    json_free(j);
    free(text);
}

static double real(const Json *j, const char *key)
{
    double v = -1;
    json_read_double(json_get(j, key), key, 0, 1e9, &v, NULL);
    return v;
}

static void a_quantized_model_is_counted_by_type(void)
{
    static const char *const types[] = { "q8", "q4" }, *const names[] = { "Q8", "Q4" };
    for (int i = 0; i < 2; i++) {
        Error e = { 0 };
        bool  ok = write_config(config)
             && tblock_synth(in_folder("config.json"), in_folder("model.bin"),
                             &(tblock_synth_options){ .type = types[i] }, &e);
        CHECK(ok, "%.400s", e.msg);
        char *json = report("model.bin", true, true, false),
             *text = report("model.bin", false, true, false);
        Json *j    = json ? json_parse(json, strlen(json), "report", &e) : NULL, *bare;
        CHECK(text && widest(text) <= 80 && strstr(text, "bits per weight") && strstr(text,
            "layers.1.wq.d") && strstr(text, "rows16"),
              "%.900s", text ? text : "");
        free(text);
        text = NULL;
        CHECK(tblock_report(in_folder("config.json"),
                            &(tblock_report_options){ .type = types[i], .json = true }, &text, &e),
        "%.400s", e.msg);
        bare = text ? json_parse(text, strlen(text), "report", &e) : NULL;
        int64_t all = number(j, "memory", "weights");
        int64_t ends = i == 0 ? 0 : number(j, "weight_bytes", "Q8"); /* embedding and head of q4 */
        CHECK(all > 0 && number(j, "weight_bytes", names[i]) + ends + number(j, "weight_bytes",
            "F32") == all, "%.700s", json);
        CHECK(i == 0 || ends > 0, "%.700s", json);
        CHECK(all == number(bare, "memory", "weights") && number(bare, "weight_bytes",
            types[i]) == all, "a bare config: %.700s", text);
        CHECK(real(j, "bits_per_weight") == 8.0 * (double)all / TOTAL, "%.17g",
              real(j, "bits_per_weight"));
        const char *type = "";
        json_read_string(json_first(json_get(json_first(json_get(j, "parts")), "dtypes")), "dtypes",
                         &type, NULL);
        CHECK(strcmp(type, "Q8") == 0, "the embedding is %s", type);
        json_free(bare);
        json_free(j);
        free(json);
        free(text);
    }
}

static void a_tokenizer_alone_is_described(void)
{
    Error e = { 0 };
    write_tokenizer();
    char *text = report("tok.bin", false, true, false);
    CHECK(text && strstr(text, "spm, 512 tokens") && strstr(text,
                                                            "a\\x1b[31m.model, sha256 00ff...") &&
              strstr(text, "tok.bytes"),
          "%.700s", text ? text : "");
    CHECK(text && !strstr(text, "parameters") && !strchr(text, '\033'), "%.700s", text ? text : "");
    free(text);
    text    = report("tok.bin", true, false, false);
    Json *j = text ? json_parse(text, strlen(text), "report", &e) : NULL;
    CHECK(j && is(j, "kind", "tokenizer") && is(json_get(j, "tokenizer"), "type", "spm")
              && number(j, "tokenizer", "size") == 512,
          "%.700s", text ? text : e.msg);
    CHECK(j && json_is_null(json_get(j, "sha256")) && !json_get(j, "parameters"), "%.700s",
          text ? text : "");
    json_free(j);
    free(text);
}

/* The largest numbers that a config may hold still stand in their columns, and no count
 * overflows. */
static void the_largest_config_fits_80_columns(void)
{
    static const char *const configs[] = {
        ("{\"d_model\": 1048576, \"n_layers\": 4096, \"heads\": 128, \"head_dim\": 8192, \"d_ff\": "
         "4194304, \"vocab_size\": 16777216,"
         "\"n_ctx\": 16777216, \"qkv_bias\": true}"),
        "{\"d_model\": 1, \"n_layers\": 1, \"heads\": 1, \"head_dim\": 2, \"d_ff\": 1, "
        "\"vocab_size\": 1, \"n_ctx\": 1}",
    };
    for (int i = 0; i < 2; i++) {
        Error e    = { 0 };
        char *text = NULL, *page = NULL;
        CHECK(write_config(configs[i]), "cannot write");
        CHECK(tblock_report(in_folder("config.json"),
                            &(tblock_report_options){ .seq = i ? 1 : 1 << 24 }, &text, &e),
        "%.400s", e.msg);
        CHECK(text && widest(text) <= 80, "%zu columns: %.900s", text ? widest(text) : 0,
              text ? text : "");
        CHECK(text && !strstr(text, "inf") && !strstr(text, "nan"), "%.900s", text);
        free(text);
        text = NULL;
        CHECK(tblock_report(in_folder("config.json"),
                            &(tblock_report_options){ .html = in_folder("page.html") }, &text, &e),
        "%.400s", e.msg);
        free(text);
        CHECK(file_read(in_folder("page.html"), 1 << 20, &page, &(size_t){ 0 }, &e) && !strstr(page,
            "inf,") && !strstr(page, "nan"), "page");
        free(page);
    }
    Error e    = { 0 };
    char *text = NULL;
    CHECK(write_config(configs[0]), "cannot write");
    CHECK(!tblock_report(in_folder("config.json"), &(tblock_report_options){ .batch = 65536 },
                         &text, &e) && e.status == USAGE
          && strstr(e.msg, "batch: 65536"), "%d %.400s", e.status, e.msg);
}

/* What the report plans is what a context then takes: whole batches, a window that gives tiles
 * back, more threads. */
static void memory_is_what_the_runtime_allocates(void)
{
    static const char *const configs[] = {
        "{\"d_model\": 40, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 10, "
        "\"d_ff\": 70, \"vocab_size\": 301, \"n_ctx\": 700}",
        ("{\"d_model\": 40, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 10, "
         "\"d_ff\": 70, \"vocab_size\": 301, \"n_ctx\": 1300,"
         "\"window\": 100}"),
        "{\"d_model\": 24, \"n_layers\": 1, \"heads\": 3, \"head_dim\": 8, \"d_ff\": 5, "
        "\"vocab_size\": 33, \"n_ctx\": 65, \"window\": 1}",
    };
    for (int i = 0; i < 9; i++) {
        static const char *const types[] = { "f32", "f16", "q8" };
        const char *kv_type = types[i % 3];
        int         threads = 1 + i / 2 % 3;
        Error       e    = { 0 };
        char       *text = NULL;
        Json       *j    = NULL;
        tblock_context_info ctx = { 0 };
        tblock_model       *m   = NULL;
        tblock_context     *c   = NULL;
        static const char *const weights[] = { "bf16", "q8", "q4" };
        tblock_synth_options     synth   = { .type = weights[(i + i / 3) % 3] };
        bool ok = write_config(configs[i / 3])
            && tblock_synth(in_folder("config.json"), in_folder("model.bin"), &synth, &e)
            && tblock_report(in_folder("model.bin"),
                             &(tblock_report_options){ .json = true, .kv_type = kv_type }, &text,
                             &e)
            && (j = json_parse(text, strlen(text), "report", &e))
            && (m = tblock_open(in_folder("model.bin"), NULL, &e))
            && (c = tblock_context_new(
                    m, &(tblock_context_options){ .threads = threads, .kv_type = kv_type }, &e));
        CHECK(ok, "case %d: %.400s", i, e.msg);
        if (ok) {
            static tblock_item item[1300];
            const Json *plan = json_get(j, "memory");
            int n_ctx = (int)number(plan, "n_ctx", NULL);
            for (int t = 0; t < n_ctx; t++)
                item[t] = (tblock_item){ .pos = t, .token = t % 33, .want_logits = t == n_ctx - 1 };
            CHECK(tblock_decode(c, item, (size_t)n_ctx, &e), "%.400s", e.msg);
            tblock_context_describe(c, &ctx);
            CHECK(number(plan, "kv_cache", NULL) == (int64_t)ctx.kv_bytes,
                  "case %d: planned %lld, found %zu", i,
                  (long long)number(plan, "kv_cache", NULL), ctx.kv_bytes);
            int64_t activations = number(plan, "activations", NULL) + number(plan, "logits", NULL)
                                  + (threads - 1) * number(plan, "each_thread", NULL);
            CHECK(activations == (int64_t)ctx.activation_bytes
                      && number(plan, "n_batch", NULL) == ctx.n_batch,
                  "case %d: planned %lld, found %zu", i, (long long)activations,
                  ctx.activation_bytes);
        }
        tblock_context_free(c);
        tblock_close(m);
        json_free(j);
        free(text);
    }
}

static void json_has_what_a_model_costs(void)
{
    Error e    = { 0 };
    char *text = NULL;
    if (!tblock_report("models/llama-2-7b.json",
                       &(tblock_report_options){ .json = true, .kv_type = "f16", .type = "f16" },
                       &text, &e)) {
        SKIP("%.400s", e.msg);
        return;
    }
    Json       *j       = json_parse(text, strlen(text), "report", &e);
    const Json *flops   = json_get(j, "flops"), *prefill = json_get(flops, "prefill"),
                 *groups = json_get(prefill, "groups");
    CHECK(j != NULL, "%.400s", e.msg);
    CHECK(number(flops, "seq", NULL) == 2048 && number(flops, "batch", NULL) == 1, "%.300s", text);
    CHECK(number(groups, "projections", "full") == 274877906944 && number(groups, "scores",
        "full") == 68719476736
          && number(groups, "scores", "computed") == 34376515584, "%.300s", text);
    CHECK(number(json_get(prefill, "rows"), "gate", "full") == 184683593728, "%.300s", text);
    CHECK(json_count(json_get(prefill, "rows")) == 16 && json_count(json_get(json_get(flops,
        "decode"), "rows")) == 16, "rows");
    CHECK(number(j, "kv_cache", "bytes_per_token_and_layer") == 16384 && is(json_get(j, "kv_cache"),
        "type", "f16"), "%.300s", text);
    CHECK(number(j, "parameters", "block_attention") == 67108864 && number(j, "parameters",
        "block_ffn") == 135266304, "%.300s", text);
    CHECK(is(j, "weight_type", "f16") && number(j, "memory", "weights") == number(j, "weight_bytes",
        "f16"), "%.300s", text);
    json_free(j);
    free(text);
}

/* Every tag of the page is closed in its turn. */
static bool is_balanced(const char *page, char *why, size_t n_why)
{
    char open[64][24];
    int  depth = 0;
    for (const char *p = strchr(page, '<'); p; p = strchr(p + 1, '<')) {
        const char *end = strchr(p, '>');
        char        name[24] = "";
        snprintf(why, n_why, "at '%.60s'", p);
        if (!end || depth == 64)
            return false;
        if (p[1] == '!' || end[-1] == '/' || strncmp(p, "<meta", 5) == 0)
            continue;
        size_t n = strcspn(p + 1 + (p[1] == '/'), " >");
        if (n >= sizeof name)
            return false;
        memcpy(name, p + 1 + (p[1] == '/'), n);
        if (p[1] != '/')
            memcpy(open[depth++], name, sizeof name);
        else if (depth == 0 || strcmp(open[--depth], name) != 0)
            return false;
    }
    return depth == 0;
}

static void a_page_needs_nothing_else(void)
{
    static const char *const parts[] = { "<svg class=\"flow-svg\"",
                                         "<svg class=\"plot\"",
                                         "prefers-color-scheme:dark",
                                         "layers.1.wk_bias",
                                         "window 64",
                                         "causal, window",
                                         "50,840",
                                         "default-src 'none'",
                                         "all finite" };
    static const char *const strangers[] = { "<script", "http:", "https:", "src=",
                                             "href=",   "@import", "url(h",  "<link" };
    Error e    = { 0 };
    char *text = NULL, *page = NULL, why[96] = "";
    if (!write_model())
        return;
    CHECK(tblock_report(in_folder("model.bin"),
                        &(tblock_report_options){ .tensors = true, .check = true,
                                                  .html = in_folder("page.html") },
                        &text, &e), "%.400s", e.msg);
    free(text);
    CHECK(file_read(in_folder("page.html"), 1 << 20, &page, &(size_t){ 0 }, &e), "%.400s", e.msg);
    for (size_t i = 0; page && i < sizeof parts / sizeof parts[0]; i++)
        CHECK(strstr(page, parts[i]), "no '%s'", parts[i]);
    for (size_t i = 0; page && i < sizeof strangers / sizeof strangers[0]; i++)
        CHECK(!strstr(page, strangers[i]), "'%s'", strangers[i]);
    CHECK(page && is_balanced(page, why, sizeof why), "%s", why);
    free(page);
}

static void a_page_shows_what_a_file_says_as_text(void)
{
    Error         e    = { 0 };
    char         *text = NULL, *page = NULL, why[96] = "";
    TensorWriter *w    = tensor_writer_new(in_folder("tok.bin"), 4096, &e);
    bool ok = w && tensor_writer_meta(w, "format", "tblock", &e)
        && tensor_writer_meta(w, "version", "1", &e)
        && tensor_writer_meta(w, "tokenizer",
                              "{\"type\": \"<script>alert(1)</script>\", \"size\": 512}", &e)
        && tensor_writer_meta(w, "sha256", "\"><img>", &e)
        && tensor_writer_meta(w, "source",
                              "[{\"file\": \"a&b'\\u001b.model\", \"sha256\": \"</code><b>\"}]", &e)
        && tensor_writer_declare(w, "tok.<i>", DT_U8, 1, (int64_t[]){ 4 }, &e)
        && tensor_writer_begin(w, &e) && tensor_writer_put(w, 0, 0, "abcd", 4, &e)
        && tensor_writer_end(w, &e);
    CHECK(ok, "%.400s", e.msg);
    CHECK(tblock_report(in_folder("tok.bin"),
                        &(tblock_report_options){ .tensors = true, .html = in_folder("page.html") },
    &text, &e),
          "%.400s", e.msg);
    free(text);
    CHECK(file_read(in_folder("page.html"), 1 << 20, &page, &(size_t){ 0 }, &e), "%.400s", e.msg);
    CHECK(page && strstr(page, "&lt;script&gt;alert(1)&lt;/script&gt;")
              && strstr(page, "&quot;&gt;&lt;img&gt;") && strstr(page, "a&amp;b&#39;&#xfffd;.model")
              && strstr(page, "&lt;/code&gt;&lt;b&gt;") && strstr(page, "tok.&lt;i&gt;"),
          "page");
    CHECK(page && is_balanced(page, why, sizeof why), "%s", why);
    free(page);
}

static void what_is_neither_is_refused(void)
{
    static const struct { const char *text, *message; } cases[] = {
        { "", "model.bin" },
        { "hello, this is a text", "model.bin" },
        { "  {\"d_model\": 64}", "n_layers: expected an integer, found nothing" },
        { "{\"architectures\": []}", "model_type: expected a family that docs/" },
        { "{", "model.bin" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Error e    = { 0 };
        char *text = NULL;
        FILE *f    = fopen(in_folder("model.bin"), "w");
        CHECK(f && fputs(cases[i].text, f) >= 0, "cannot write");
        if (f)
            fclose(f);
        CHECK(!tblock_report(in_folder("model.bin"), NULL, &text, &e), "case %zu was accepted", i);
        CHECK(e.status == INPUT && strstr(e.msg, cases[i].message), "case %zu: %d %.400s", i,
              e.status, e.msg);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(text_of_a_model_fits_80_columns);
    TEST(json_of_a_model_has_the_counts);
    TEST(a_bare_config_is_counted_for_every_type);
    TEST(a_quantized_model_is_counted_by_type);
    TEST(a_tokenizer_alone_is_described);
    TEST(the_largest_config_fits_80_columns);
    TEST(memory_is_what_the_runtime_allocates);
    TEST(json_has_what_a_model_costs);
    TEST(a_page_needs_nothing_else);
    TEST(a_page_shows_what_a_file_says_as_text);
    TEST(what_is_neither_is_refused);
    unlink(in_folder("page.html"));
    unlink(in_folder("model.bin"));
    unlink(in_folder("tok.bin"));
    unlink(in_folder("config.json"));
    rmdir(folder);
    return TEST_END();
}
