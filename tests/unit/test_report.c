/* The info report: right numbers, 80 columns, JSON that parses, for a model, a tokenizer and a bare config. */
#include "test.h"

#include <unistd.h>

#include "base/json.h"
#include "format/tensors.h"

static char folder[64];

static const char *in_folder(const char *name)
{
    static char path[4][128];
    static int  at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static const char config[] =
    "{\"d_model\": 40, \"n_layers\": 2, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 10, \"d_ff\": 70,"
    "\"vocab_size\": 301, \"qkv_bias\": true, \"window\": 64, \"bos\": 1, \"eos\": [2],"
    "\"rope\": {\"type\": \"linear\", \"factor\": 2}}";

enum {
    EMBED = 301 * 40,
    BLOCK = 80 + 2 * 40 * 40 + 2 * 20 * 40 + 40 + 20 + 20 + 3 * 70 * 40,
    TOTAL = 2 * EMBED + 2 * BLOCK + 40
};

static bool write_config(const char *json)
{
    FILE *f = fopen(in_folder("config.json"), "w");
    bool ok = f && fputs(json, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

static bool write_model(void)
{
    Error e  = { 0 };
    bool  ok = write_config(config) && tblock_synth(in_folder("config.json"), in_folder("model.bin"), NULL, &e);
    CHECK(ok, "%.400s", e.msg);
    return ok;
}

/* A file that holds only a tokenizer; its name tries to reach the terminal. */
static void write_tokenizer(void)
{
    Error         e = { 0 };
    TensorWriter *w = tensor_writer_new(in_folder("tok.bin"), 4096, &e);
    bool ok = w && tensor_writer_meta(w, "format", "tblock", &e) && tensor_writer_meta(w, "version", "1", &e)
           && tensor_writer_meta(w, "tokenizer", "{\"type\": \"spm\", \"size\": 512}", &e)
           && tensor_writer_meta(w, "source", "[{\"file\": \"a\\u001b[31m.model\", \"sha256\": \"00ff\"}]", &e)
           && tensor_writer_declare(w, "tok.bytes", DT_U8, 1, (int64_t[]){ 4 }, &e) && tensor_writer_begin(w, &e)
           && tensor_writer_put(w, 0, 0, "abcd", 4, &e);
    CHECK(ok && tensor_writer_end(w, &e), "%.400s", e.msg);
}

static char *report(const char *name, bool json, bool tensors, bool colour)
{
    Error e    = { 0 };
    char *text = NULL;
    bool  ok   = tblock_report(in_folder(name),
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
    static const char *const parts[] = { "window 64", "linear factor 2", "on q k v",      "4 heads of 10, 2 kv heads",
                                         "[70, 40]",  "rows16",          "synth, seed 0", "layers.1.wk_bias",
                                         "50,840",    "sha256",          "1; 2" };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        CHECK(strstr(text, parts[i]), "no '%s' in: %.700s", parts[i], text);
    CHECK(!strchr(text, '\033'), "colours unasked");
    free(text);
    text = report("model.bin", false, false, true);
    CHECK(text && strstr(text, "\033[1m") && !strstr(text, "layers.1"), "no colours, or tensors unasked");
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
        CHECK(number(j, "parameters", "total") == TOTAL && number(j, "parameters", "embedding") == EMBED
              && number(j, "parameters", "block") == BLOCK && number(j, "parameters", "blocks") == 2 * BLOCK
              && number(j, "parameters", "head") == EMBED, "%.700s", text);
        CHECK(number(j, "kv_bytes_per_token", "f32") == 2 * 2 * 20 * 4, "%.700s", text);
        CHECK(number(j, "config", "d_ff") == 70, "%.700s", text);
        int64_t bytes = 0;
        for (const Json *t = json_first(json_get(j, "tensors")); t; t = json_next(t))
            bytes += number(t, "bytes", NULL);
        CHECK(bytes + number(j, "data_offset", NULL) == number(j, "file_bytes", NULL), "%lld bytes of tensors",
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
    CHECK(text && strstr(text, "50,840") && strstr(text, ", or bf16 ") && widest(text) <= 80, "%.700s", text ? text : "");
    free(text);
    text    = report("config.json", true, false, false);
    Json *j = text ? json_parse(text, strlen(text), "report", &e) : NULL;
    CHECK(j && is(j, "kind", "config") && number(j, "parameters", "total") == TOTAL, "%.700s", text ? text : e.msg);
    /* with panels of 16 rows, bf16 of an even k: every matrix but the embedding is padded */
    int64_t panels = 2 * (48 * 40 + 2 * 32 * 40 + 48 * 40 + 2 * 80 * 40 + 48 * 70) + 304 * 40, vectors = 2 * (80 + 80) + 40;
    CHECK(number(j, "weight_bytes", "bf16") == 2 * (panels + EMBED) + 4 * vectors, "%.700s", text ? text : "");
    CHECK(!json_get(j, "tokenizer") && !json_get(j, "file_bytes"), "%.700s", text ? text : "");
    json_free(j);
    free(text);
}

static void a_tokenizer_alone_is_described(void)
{
    Error e = { 0 };
    write_tokenizer();
    char *text = report("tok.bin", false, true, false);
    CHECK(text && strstr(text, "spm, 512 tokens") && strstr(text, "a?[31m.model, sha256 00ff...") &&
              strstr(text, "tok.bytes"),
          "%.700s", text ? text : "");
    CHECK(text && !strstr(text, "parameters") && !strchr(text, '\033'), "%.700s", text ? text : "");
    free(text);
    text    = report("tok.bin", true, false, false);
    Json *j = text ? json_parse(text, strlen(text), "report", &e) : NULL;
    CHECK(j && is(j, "kind", "tokenizer") && is(json_get(j, "tokenizer"), "type", "spm") &&
              number(j, "tokenizer", "size") == 512,
          "%.700s", text ? text : e.msg);
    CHECK(j && json_is_null(json_get(j, "sha256")) && !json_get(j, "parameters"), "%.700s", text ? text : "");
    json_free(j);
    free(text);
}

static void what_is_neither_is_refused(void)
{
    static const struct { const char *text, *message; } cases[] = {
        { "", "model.bin" },
        { "hello, this is a text", "model.bin" },
        { "  {\"d_model\": 64}", "n_layers: expected an integer, found nothing" },
        { "{\"architectures\": []}", "unknown key 'architectures'; this is a Hugging Face config" },
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
        CHECK(e.status == INPUT && strstr(e.msg, cases[i].message), "case %zu: %d %.400s", i, e.status, e.msg);
    }
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/tblock.XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return 1;
    TEST(text_of_a_model_fits_80_columns);
    TEST(json_of_a_model_has_the_counts);
    TEST(a_bare_config_is_counted_for_every_type);
    TEST(a_tokenizer_alone_is_described);
    TEST(what_is_neither_is_refused);
    unlink(in_folder("model.bin"));
    unlink(in_folder("tok.bin"));
    unlink(in_folder("config.json"));
    rmdir(folder);
    return TEST_END();
}
