/* Counting: published models have exactly the published number of parameters. */
#include "test.h"

#include "base/file.h"
#include "model/count.h"
#include "model/tensor_list.h"

static bool preset(const char *name, Config *c)
{
    char   path[128], *json;
    size_t n_bytes;
    Error  e = { 0 };
    snprintf(path, sizeof path, "models/%s.json", name);
    if (!file_read(path, 1 << 20, &json, &n_bytes, &e)) {
        SKIP("%s", e.msg);
        return false;
    }
    bool ok = config_parse(c, json, n_bytes, path, &e) && config_supported(c, path, &e);
    CHECK(ok, "%s", e.msg);
    free(json);
    return ok;
}

static void presets_have_the_published_totals(void)
{
    static const struct { const char *name; uint64_t params; } models[] = {
        { "llama-2-7b", 6738415616 },    { "llama-2-13b", 13015864320 },
           { "llama-2-70b", 68976648192 },
        { "llama-3-8b", 8030261248 },    { "llama-3.2-1b", 1235814400 },
           { "llama-3.2-3b", 3212749824 },
        { "mistral-7b", 7241732096 },    { "tinyllama-1.1b", 1100048384 },
         { "smollm2-135m", 134515008 },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        Config c;
        Count  n;
        if (!preset(models[i].name, &c))
            return;
        count_config(&n, &c, WT_BF16);
        CHECK(count_params(&c) == models[i].params && n.params == models[i].params,
              "%s: %llu, expected %llu", models[i].name,
              (unsigned long long)n.params, (unsigned long long)models[i].params);
        CHECK(n.params == n.embed_params + n.blocks_params + n.final_norm_params + n.head_params,
              "%s: parts", models[i].name);
        CHECK(n.blocks_params == n.layer_params * (uint64_t)c.n_layers, "%s: blocks",
              models[i].name);
    }
}

static void blocks_have_the_published_shares(void)
{
    static const struct { const char *name; uint64_t block, attention, ffn; } models[] = {
        { "llama-2-7b", 202383360, 67108864, 135266304 },
        { "llama-2-70b", 855654400, 150994944, 704643072 },
        { "llama-3-8b", 218112000, 41943040, 176160768 },
        { "mistral-7b", 218112000, 41943040, 176160768 },
    };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        Config c;
        Count  n;
        if (!preset(models[i].name, &c))
            return;
        count_config(&n, &c, WT_BF16);
        CHECK(n.layer_params == models[i].block && n.attn_params == models[i].attention
                  && n.ffn_params == models[i].ffn,
              "%s: block %llu, attention %llu, FFN %llu", models[i].name,
              (unsigned long long)n.layer_params, (unsigned long long)n.attn_params,
              (unsigned long long)n.ffn_params);
        CHECK(n.attn_params + n.ffn_params + n.norm_params == n.layer_params
                  && n.norm_params == 2 * (uint64_t)c.d_model,
              "%s: norms %llu", models[i].name, (unsigned long long)n.norm_params);
        CHECK(n.attn_bytes + n.ffn_bytes + n.norm_bytes == n.layer_bytes, "%s: bytes",
              models[i].name);
    }
}

static void kv_cache_of_published_models(void)
{
    Config c;
    if (!preset("llama-2-7b", &c))
        return;
    KvCount kv = count_kv_cache(&c, 2, 0);
    CHECK(kv.layer_bytes == 16384 && kv.token_bytes == 32 * 16384 && kv.mha_ratio == 1, "%llu",
          (unsigned long long)kv.layer_bytes);
    CHECK(kv.positions == 4096 && kv.full_bytes == kv.token_bytes * 4096, "%d positions",
          kv.positions);
    CHECK(count_score_bytes(&c, 2048, 3) == 3 * 4.0 * 32 * 2048 * 2048, "scores");
    if (!preset("mistral-7b", &c))
        return;
    kv = count_kv_cache(&c, 4, 0); /* a quarter of the heads, and a window */
    CHECK(kv.layer_bytes == 8192 && kv.mha_ratio == 0.25 && kv.positions == 4096
              && c.n_ctx == 32768,
          "%d", kv.positions);
}

static void without_attention_the_context_counts(void)
{
    static const char json[] = "{\"d_model\": 8, \"n_layers\": 1, \"heads\": 2, \"d_ff\": 8,"
                               "\"vocab_size\": 5, \"n_ctx\": 16, \"state_layers\": [0],"
                               "\"conv_taps\": 3}";
    Config c;
    Error  e = { 0 };
    CHECK(config_parse(&c, json, sizeof json - 1, "x.json", &e), "%s", e.msg);
    KvCount kv = count_kv_cache(&c, 4, 0);
    CHECK(kv.positions == 16 && kv.full_bytes == 0, "%d positions", kv.positions);
}

static void small_model_by_hand(void)
{
    Config c;
    Count  n;
    Error  e = { 0 };
    static const char json[] =
        "{\"d_model\": 20, \"n_layers\": 3, \"heads\": 4, \"kv_heads\": 2, \"head_dim\": 6, "
        "\"d_ff\": 33,"
        "\"vocab_size\": 50, \"qkv_bias\": true, \"out_bias\": true, \"ffn_bias\": true}";
    CHECK(config_parse(&c, json, sizeof json - 1, "x.json", &e), "%s", e.msg);
    count_config(&n, &c, WT_BF16);
    uint64_t attention = 24 * 20 + 24 + 2 * (12 * 20 + 12) + 20 * 24 + 20,
             ffn = 3 * 33 * 20 + 33 + 33 + 20;
    CHECK(n.layer_params == 40 + attention + ffn, "block %llu", (unsigned long long)n.layer_params);
    CHECK(n.params == 3 * n.layer_params + 2 * 50 * 20 + 20, "total %llu",
          (unsigned long long)n.params);
    CHECK(n.kv_bytes_f32 == 3 * 2 * 2 * 6 * 4 && n.kv_bytes_f16 * 2 == n.kv_bytes_f32
              && n.kv_bytes_q8 == 3 * 2 * 2 * (6 + 4),
          "kv %llu", (unsigned long long)n.kv_bytes_f32);
    /* bf16 panels: 16 rows and an even number of columns; the untied embedding is row-major */
    uint64_t panels = 2 * (32 * 20 + 2 * 16 * 20 + 32 * 24 + 2 * 48 * 20 + 32 * 34);
    uint64_t vectors = 4 * (40 + 24 + 12 + 12 + 20 + 33 + 33 + 20);
    CHECK(n.layer_bytes == panels + vectors, "layer bytes %llu", (unsigned long long)n.layer_bytes);
    CHECK(n.embed_bytes == 2 * 50 * 20 && n.head_bytes == 2 * 64 * 20, "embedding and head bytes");
    CHECK(n.bytes_of[WT_BF16] + n.bytes_of[WT_F32] == n.bytes && n.n_row_major == 0,
          "bytes by dtype");
}

static void quantized_matrices_count_with_all_their_parts(void)
{
    Config c;
    Count  n;
    config_defaults(&c);
    c.d_model = 320, c.n_layers = 2, c.heads = c.kv_heads = 10, c.head_dim = 32, c.d_ff = 70,
    c.vocab_size = 50;
    /* panels x (codes of k rounded up to 64 + 16 scales for each started 256); vectors f32; the
     * embedding is in panels too */
    uint64_t square = 20 * (16 * 320 + 2 * 32), up = 5 * (16 * 320 + 2 * 32),
             down = 20 * (16 * 128 + 32), vocab = 4 * (16 * 320 + 2 * 32);
    count_config(&n, &c, WT_Q8);
    CHECK(n.bytes_of[WT_Q8] == 2 * (4 * square + 2 * up + down) + 2 * vocab
              && n.bytes_of[WT_F32] == 5 * 4 * 320,
          "q8: %llu", (unsigned long long)n.bytes_of[WT_Q8]);
    CHECK(n.embed_bytes == vocab && n.n_row_major == 0, "q8: embedding");
    square = 20 * (8 * 320 + 5 * 40 + 2 * 32), up = 5 * (8 * 320 + 5 * 40 + 2 * 32),
    down = 20 * (8 * 128 + 2 * 40 + 32);
    count_config(&n, &c, WT_Q4); /* its embedding and head are q8 */
    CHECK(n.bytes_of[WT_Q4] == 2 * (4 * square + 2 * up + down) && n.bytes_of[WT_Q8] == 2 * vocab
              && n.bytes_of[WT_F32] == 5 * 4 * 320,
          "q4: %llu", (unsigned long long)n.bytes_of[WT_Q4]);
    CHECK(n.bytes == n.bytes_of[WT_Q4] + n.bytes_of[WT_Q8] + n.bytes_of[WT_F32]
              && n.params == count_params(&c),
          "q4: sums");
}

static void a_tied_head_counts_once(void)
{
    Config c;
    Count  n;
    config_defaults(&c);
    c.d_model = 16, c.n_layers = 1, c.heads = c.kv_heads = 2, c.head_dim = 8, c.d_ff = 8,
    c.vocab_size = 10;
    uint64_t untied = count_params(&c);
    c.tied_embeddings = true;
    count_config(&n, &c, WT_F32);
    CHECK(untied - n.params == 160 && n.head_params == 0 && n.embed_bytes == 4 * 16 * 16, "%llu",
          (unsigned long long)n.params);
}

static void tensors_come_in_file_order(void)
{
    static const char *const expected[] = {
        "embed",
        "layers.0.attn_norm",
        "layers.0.wq",
        "layers.0.wk",
        "layers.0.wv",
        "layers.0.wo",
        "layers.0.wo_bias",
        "layers.0.ffn_norm",
        "layers.0.w_gate",
        "layers.0.w_up",
        "layers.0.w_down",
        "layers.1.attn_norm",
        "layers.1.wq",
        "layers.1.wk",
        "layers.1.wv",
        "layers.1.wo",
        "layers.1.wo_bias",
        "layers.1.ffn_norm",
        "layers.1.w_gate",
        "layers.1.w_up",
        "layers.1.w_down",
        "final_norm",
        "lm_head",
    };
    Config c;
    config_defaults(&c);
    c.d_model = 16, c.n_layers = 2, c.heads = c.kv_heads = 2, c.head_dim = 8, c.d_ff = 8,
    c.vocab_size = 10, c.out_bias = true;
    size_t i = 0;
    for (TensorSpec s = tensor_list_start(); tensor_list_next(&c, &s); i++) {
        CHECK(i < sizeof expected / sizeof expected[0] && strcmp(expected[i], s.name) == 0,
              "%zu: %s", i, s.name);
        CHECK(tensor_list_has(&c, s.name), "%s", s.name);
    }
    CHECK(i == sizeof expected / sizeof expected[0], "%zu tensors", i);
    static const char *const others[] = {
        "layers.2.wq", "layers.00.wq", "layers.0.wq_bias",      "wq", "layers.0.embed",
        "layers..wq",  "layers.0.",    "layers.99999999999.wq", ""
    };
    for (i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(!tensor_list_has(&c, others[i]), "'%s' is none of this config's tensors", others[i]);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(presets_have_the_published_totals);
    TEST(blocks_have_the_published_shares);
    TEST(kv_cache_of_published_models);
    TEST(without_attention_the_context_counts);
    TEST(small_model_by_hand);
    TEST(quantized_matrices_count_with_all_their_parts);
    TEST(a_tied_head_counts_once);
    TEST(tensors_come_in_file_order);
    return TEST_END();
}
