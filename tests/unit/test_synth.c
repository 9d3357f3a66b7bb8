/* synth: the bytes depend on config, type and seed alone, and the file is a good model file. */
#include "test.h"
#include "temp_folder.h"

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "model/model.h"
#include "model/tensor_list.h"
#include "tblock_tools.h"

/* Odd widths, rows that are no multiple of 16, biases, one matrix longer than a chunk of work. */
static const char untied[] = "{\"d_model\": 37, \"n_layers\": 2, \"heads\": 3, \"kv_heads\": 1, "
                             "\"head_dim\": 10, \"d_ff\": 70,"
                             "\"vocab_size\": 150001, \"qkv_bias\": true, \"ffn_bias\": true}";
static const char tied[] = "{\"d_model\": 64, \"n_layers\": 1, \"heads\": 4, \"d_ff\": 100, "
                           "\"vocab_size\": 501, \"tied_embeddings\": true}";

static bool synth(const char *name, const char *type, uint64_t seed, int threads, Error *e)
{
    static const char *const keep[] = { "embed=q4" }; /* else it is q8 */
    size_t n_keep = type && strcmp(type, "q4") == 0;
    return tblock_synth(
        in_folder("config.json"), in_folder(name),
        &(tblock_synth_options){
            .type = type, .seed = seed, .threads = threads, .keep = keep, .n_keep = n_keep },
        e);
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

static void same_bytes_whatever_the_threads(void)
{
    static const char *const types[] = { "f32", "f16", "bf16", "q8", "q4" };
    Error e = { 0 };
    CHECK(write_config(untied), "cannot write");
    for (int i = 0; i < 5; i++) {
        uint64_t one = 0;
        for (int threads = 1; threads <= 3; threads++) {
            bool ok = synth("model.bin", types[i], 7, threads, &e);
            CHECK(ok, "%.400s", e.msg);
            one = threads == 1 ? digest("model.bin") : one;
            CHECK(one == digest("model.bin"), "%s: other bytes with %d threads", types[i], threads);
        }
    }
}

static void the_seed_and_the_type_change_the_bytes(void)
{
    Error    e = { 0 };
    uint64_t h[4];
    CHECK(write_config(tied), "cannot write");
    CHECK(synth("model.bin", "bf16", 0, 1, &e), "%.400s", e.msg);
    h[0] = digest("model.bin");
    CHECK(synth("model.bin", NULL, 0, 2, &e), "%.400s", e.msg);
    h[1] = digest("model.bin");
    CHECK(synth("model.bin", "bf16", UINT64_MAX, 1, &e), "%.400s", e.msg);
    h[2] = digest("model.bin");
    CHECK(synth("model.bin", "f32", 0, 1, &e), "%.400s", e.msg);
    h[3] = digest("model.bin");
    CHECK(h[0] == h[1] && h[0] != h[2] && h[0] != h[3], "%llx %llx %llx %llx",
          (unsigned long long)h[0],
          (unsigned long long)h[1], (unsigned long long)h[2], (unsigned long long)h[3]);
}

static void check_file(const TensorFile *f)
{
    char    hex[65];
    Sha256 *sha = sha256_new();
    sha256_add(sha, f->map.data + f->data_offset, f->data_bytes);
    sha256_end(sha, hex);
    CHECK(strcmp(hex, tensor_meta(f, "sha256")) == 0, "sha256 %s, recorded %s", hex,
          tensor_meta(f, "sha256"));
    CHECK(f->data_offset % 4096 == 0, "data at %zu", f->data_offset);
    for (int i = 0; i < f->n_tensors; i++)
        CHECK(strncmp(f->tensors[i].name, "pad.", 4) == 0 || f->tensors[i].offset % 64 == 0,
              "%s at %zu",
              f->tensors[i].name, f->tensors[i].offset);
    CHECK(strcmp(tensor_meta(f, "format"), "tblock") == 0 && strcmp(tensor_meta(f, "version"),
        "1") == 0, "metadata");
    CHECK(strcmp(tensor_meta(f, "source"), "[{\"synth\": \"seed 5\"}]") == 0, "source %s",
          tensor_meta(f, "source"));
}

/* Weights of deviation 1 / sqrt(k) around 0, norms of 1. */
static void check_weights(const Model *m)
{
    double sum = 0, squares = 0;
    float  row[64];
    for (int t = 0; t < m->cfg.vocab_size; t++) {
        embedding_row(&m->embed, t, row, NULL);
        for (int j = 0; j < m->cfg.d_model; j++) {
            sum     += (double)row[j];
            squares += (double)row[j] * (double)row[j];
        }
    }
    double n = (double)m->cfg.vocab_size * m->cfg.d_model;
    CHECK(fabs(sum / n) < 4 / sqrt(n * m->cfg.d_model), "mean %g", sum / n);
    /* the sub-scales of q4 spread the squares of 16 weights at once: about 0.03 for so few */
    CHECK(fabs(squares / n * m->cfg.d_model - 1) < (m->embed.type == WT_Q4 ? 0.12 : 0.02),
          "variance %g of 1/k", squares / n * m->cfg.d_model);
    for (int i = 0; i < m->cfg.d_model; i++)
        CHECK(m->final_norm.w[i] == 1 && m->layer[0].attn_norm.w[i] == 1, "norm %d", i);
}

static void the_file_binds_in_place(void)
{
    static const char *const configs[] = { untied, tied },
                             *const types[] = { "f32", "f16", "bf16", "q8", "q4" };
    for (int i = 0; i < 10; i++) {
        Error      e = { 0 };
        TensorFile f = { 0 };
        Model      m = { 0 };
        Config     c;
        CHECK(write_config(configs[i / 5]), "cannot write");
        bool ok = synth("model.bin", types[i % 5], 5, 2, &e)
            && safetensors_open(&f, in_folder("model.bin"), &e);
        CHECK(ok, "%.400s", e.msg);
        if (!ok)
            return;
        check_file(&f);
        const char *json = tensor_meta(&f, "config");
        ok = config_parse(&c, json, strlen(json), "config", &e) && model_bind_file(&m, &c, &f, &e);
        CHECK(ok, "%.400s", e.msg);
        if (ok) {
            check_weights(&m);
            /* only biases whose rows are no multiple of 16 are copied */
            CHECK(m.n_owned == (i < 5 ? c.n_layers * 6 : 0), "%d pieces copied", m.n_owned);
        }
        model_free(&m);
        tensor_file_close(&f);
    }
}

static void progress_goes_up_to_one(void *user, double done)
{
    double *last = user;
    CHECK(done >= *last && done <= 1, "%g after %g", done, *last);
    *last = done;
}

static void progress_is_told(void)
{
    Error  e    = { 0 };
    double done = 0;
    CHECK(write_config(untied), "cannot write");
    CHECK(tblock_synth(
              in_folder("config.json"), in_folder("model.bin"),
              &(tblock_synth_options){ .progress = progress_goes_up_to_one, .user = &done }, &e),
          "%.400s", e.msg);
    CHECK(done == 1, "ended at %g", done);
    done = 0;
    tblock_model *m = tblock_open(in_folder("model.bin"),
                                  &(tblock_open_options){ .check = true, .type = "q8",
                                                          .progress = progress_goes_up_to_one,
                                                          .user = &done }, &e);
    CHECK(m && done == 1, "%.400s, ended at %g", e.msg, done);
    tblock_close(m);
}

static void wrong_usage_and_wrong_configs_leave_no_file(void)
{
    Error e = { 0 };
    unlink(in_folder("none.bin"));
    CHECK(write_config(tied), "cannot write");
    CHECK(!synth("none.bin", "f64", 0, 1, &e) && e.status == USAGE
              && strstr(e.msg, "expected f32, f16, bf16, q8 or q4, found 'f64'"),
          "%.400s", e.msg);
    CHECK(write_config("{\"d_model\": 64}"), "cannot write");
    CHECK(!synth("none.bin", "f32", 0, 1, &e) && e.status == INPUT && strstr(e.msg,
        "config.json: n_layers"), "%.400s",
          e.msg);
    CHECK(write_config("{\"d_model\": 64, \"n_layers\": 1, \"heads\": 4, \"d_ff\": 100, "
                       "\"vocab_size\": 501, \"norm_placement\": \"post\"}"),
          "cannot write");
    CHECK(!synth("none.bin", "f32", 0, 1, &e) && strstr(e.msg,
                                                        "norm_placement: expected pre, both"),
    "%.400s", e.msg);
    CHECK(!tblock_synth(in_folder("absent.json"), in_folder("none.bin"), NULL,
                        &e) && e.status == INPUT, "%d %.400s",
          e.status, e.msg);
    CHECK(write_config(tied), "cannot write");
    CHECK(!synth("no folder/none.bin", "f32", 0, 1, &e) && e.status == SYSTEM, "%d %.400s",
          e.status, e.msg);
    CHECK(access(in_folder("none.bin"), F_OK) != 0, "a file was left");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder())
        return 1;
    TEST(same_bytes_whatever_the_threads);
    TEST(the_seed_and_the_type_change_the_bytes);
    TEST(the_file_binds_in_place);
    TEST(progress_is_told);
    TEST(wrong_usage_and_wrong_configs_leave_no_file);
    unlink(in_folder("model.bin"));
    unlink(in_folder("config.json"));
    rmdir(folder);
    return TEST_END();
}
