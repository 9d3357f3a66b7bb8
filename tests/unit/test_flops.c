/* FLOP: the published figures, a small block by hand, masks counted pair by pair, and the crossover
 * where it should be. */
#include "test.h"

#include <math.h>

#include "base/file.h"
#include "model/count.h"

static bool preset(const char *name, Config *c, Count *n)
{
    char   path[128], *json;
    size_t n_bytes;
    Error  e = { 0 };
    snprintf(path, sizeof path, "models/%s.json", name);
    if (!file_read(path, 1 << 20, &json, &n_bytes, &e)) {
        SKIP("%s", e.msg);
        return false;
    }
    bool ok = config_parse(c, json, n_bytes, path, &e);
    CHECK(ok, "%s", e.msg);
    free(json);
    if (ok)
        count_config(n, c, WT_BF16);
    return ok;
}

static void llama_2_7b_at_2048_tokens(void)
{
    Config c;
    Count  n;
    Flops  f;
    if (!preset("llama-2-7b", &c, &n))
        return;
    count_flops(&f, &c, &n, &(FlopLoad){ .seq = 2048, .batch = 1, .kv_bytes = 4 });
    double t = 2048, d = 4096, ff = 11008;
    /* 274.9 G */
    CHECK(f.group[GROUP_PROJECTIONS].full == 8 * t * d * d, "projections %.0f",
          f.group[GROUP_PROJECTIONS].full);
    CHECK(round(f.group[GROUP_PROJECTIONS].full / 1e8) == 2749, "projections %.0f",
          f.group[GROUP_PROJECTIONS].full);
    CHECK(f.group[GROUP_SCORES].full == 4 * t * t * d, "scores %.0f", f.group[GROUP_SCORES].full);
    CHECK(round(f.group[GROUP_SCORES].full / 1e8) == 687, "scores %.0f",
          f.group[GROUP_SCORES].full);
    CHECK(f.op[OP_GATE].full + f.op[OP_UP].full + f.op[OP_DOWN].full == 6 * t * d * ff, "FFN");
    CHECK(round(f.group[GROUP_FFN].full / 1e8) == 5541, "FFN %.0f", f.group[GROUP_FFN].full);
    CHECK(f.group[GROUP_SCORES].computed == 2 * t * (t + 1) * d, "causal %.0f",
          f.group[GROUP_SCORES].computed);
    CHECK(f.blocks.full == 32 * f.block.full && f.total.full == f.blocks.full + f.head.full,
          "sums");
}

static const Config small = { .d_model = 6,
                              .n_layers = 3,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 2,
                              .d_ff = 10,
                              .vocab_size = 7,
                              .n_ctx = 32,
                              .window = 3,
                              .bos = -1,
                              .rotary_dim = 2 };

static void a_small_block_by_hand(void)
{
    Count n;
    Flops f;
    count_config(&n, &small, WT_F32);
    count_flops(&f, &small, &n, &(FlopLoad){ .seq = 5, .batch = 2, .kv_bytes = 2 });
    double t = 10, full = 2 * 25, seen = 2 * (1 + 2 + 3 + 3 + 3);
    CHECK(f.op[OP_ATTN_NORM].full == t * (4 * 6 + 4)
              && f.op[OP_FFN_NORM].full == f.op[OP_ATTN_NORM].full,
          "norm");
    CHECK(f.op[OP_Q].full == 2 * t * 8 * 6 && f.op[OP_K].full == 2 * t * 4 * 6
              && f.op[OP_V].full == f.op[OP_K].full,
          "q k v");
    CHECK(f.op[OP_ROPE].full == 3 * t * (8 + 4), "rope");
    CHECK(f.op[OP_QK].full == 2 * 8 * full && f.op[OP_QK].computed == 2 * 8 * seen
              && f.op[OP_AV].computed == 2 * 8 * seen,
          "scores");
    CHECK(f.op[OP_SOFTMAX].full == 5 * 4 * full + t * 4 * 3
              && f.op[OP_SOFTMAX].computed == 5 * 4 * seen + t * 4 * 3,
          "softmax");
    CHECK(f.op[OP_OUT].full == 2 * t * 6 * 8 && f.op[OP_ATTN_ADD].full == t * 6, "output");
    CHECK(f.op[OP_GATE].full == 2 * t * 10 * 6 && f.op[OP_SILU].full == 4 * t * 10
              && f.op[OP_DOWN].full == 2 * t * 6 * 10,
          "FFN");
    CHECK(f.head.full == t * 28 + 2 * 2 * 7 * 6, "head %.0f", f.head.full);
    /* bytes: panels of 16 rows, activations in f32, K and V in f16 */
    CHECK(f.op[OP_Q].bytes == 16 * 6 * 4 + 4 * t * (6 + 8), "q bytes %.0f", f.op[OP_Q].bytes);
    CHECK(f.op[OP_QK].bytes == 4 * t * 8 + 2 * 5 * 4 * 2 && f.op[OP_SOFTMAX].bytes == 0,
          "score bytes %.0f", f.op[OP_QK].bytes);
    CHECK(f.op[OP_ROPE].bytes == 8 * t * 12 + 8 * t * 4 + 2 * t * 4 * 2, "rope bytes %.0f",
          f.op[OP_ROPE].bytes);
    double sum = 0;
    for (int i = 0; i < OP_COUNT; i++)
        sum += f.op[i].computed;
    CHECK(sum == f.block.computed && flop_intensity(&f.block) == f.block.computed / f.block.bytes,
          "block");
}

static void a_decode_step_is_what_the_prompt_grows_by(void)
{
    Count n;
    Flops before, after, step;
    count_config(&n, &small, WT_F32);
    for (int seq = 2; seq < 9; seq++) {
        count_flops(&before, &small, &n, &(FlopLoad){ .seq = seq - 1, .batch = 1, .kv_bytes = 4 });
        count_flops(&after, &small, &n, &(FlopLoad){ .seq = seq, .batch = 1, .kv_bytes = 4 });
        count_flops(&step, &small, &n,
                    &(FlopLoad){ .seq = seq, .batch = 1, .decode = true, .kv_bytes = 4 });
        for (int i = 0; i < OP_COUNT; i++)
            CHECK(after.op[i].computed - before.op[i].computed == step.op[i].computed, "%s at %d",
                  flop_op_key((FlopOp)i), seq);
    }
}

/* Blocks that differ: the rows are the mean of all. */
static void experts_and_windows_of_some_blocks(void)
{
    Config c = small;
    Count  n;
    Flops  f;
    c.n_layers = 4, c.n_experts = 8, c.experts_used = 2, c.expert_d_ff = 5, c.shared_d_ff = 3,
    c.shared_router = true, c.expert_scale = 1;
    c.qk_norm = QK_HEAD, c.norm_placement = PLACE_BOTH;
    layers_add(&c.dense_layers, 1);
    layers_add(&c.full_layers, 0);
    layers_add(&c.full_layers, 2);
    count_config(&n, &c, WT_F32);
    uint64_t expert = 3 * 6 * 5, dense = 3 * 6 * 10, shared = 3 * 6 * 3, router = 8 * 6 + 6;
    uint64_t rest = 2 * 7 * 6 + 6 + 4 * (4 * 6 + 2 * 2 + 2 * 6 * 8 + 2 * 6 * 4);
    CHECK(n.params == rest + dense + 3 * (8 * expert + shared + router), "%llu parameters",
          (unsigned long long)n.params);
    CHECK(n.active_params == rest + dense + 3 * (2 * expert + shared + router), "%llu active",
          (unsigned long long)n.active_params);
    count_flops(&f, &c, &n, &(FlopLoad){ .seq = 5, .batch = 2, .kv_bytes = 2 });
    double t = 10, seen = 2 * (0.5 * 15 + 0.5 * 12), one = 2 * t * 6,
           widths = 0.75 * (2 * 5 + 3) + 0.25 * 10;
    CHECK(f.op[OP_QK].computed == 2 * 8 * seen, "windows %.2f", f.op[OP_QK].computed);
    CHECK(f.op[OP_GATE].full == one * widths && f.op[OP_UP].full == one * widths
              && f.op[OP_DOWN].full == one * widths,
          "FFN");
    CHECK(f.op[OP_SILU].full == 4 * t * widths, "activation");
    CHECK(f.op[OP_ROUTER].full == 0.75 * (one * 8 + t * 5 * 8 + t * (2 * 6 + 3)), "router %.2f",
          f.op[OP_ROUTER].full);
    CHECK(f.op[OP_COMBINE].full == 0.75 * t * 2 * 3 * 6, "sum %.2f", f.op[OP_COMBINE].full);
    CHECK(f.op[OP_QK_NORM].full == t * (4 * 12 + 4 * 6), "norms of q and k %.2f",
          f.op[OP_QK_NORM].full);
    CHECK(f.op[OP_ATTN_POST_NORM].full == f.op[OP_ATTN_NORM].full
              && f.op[OP_FFN_POST_NORM].full == f.op[OP_FFN_NORM].full,
          "norms");
    /* a step of one token reads two experts, of 16 rows in panels; ten tokens at most all eight */
    double gate = f.op[OP_GATE].bytes;
    count_flops(&f, &c, &n, &(FlopLoad){ .seq = 5, .batch = 1, .decode = true, .kv_bytes = 2 });
    double step = 0.75 * (2 * 16 * 6 * 4 + 16 * 6 * 4 + 4 * (2 * (6 + 5) + 6 + 3))
        + 0.25 * (16 * 6 * 4 + 4 * (6 + 10));
    CHECK(f.op[OP_GATE].bytes == step, "%.2f bytes, expected %.2f", f.op[OP_GATE].bytes, step);
    double call = 0.75 * (8 * 16 * 6 * 4 + 16 * 6 * 4 + 4 * t * (2 * (6 + 5) + 6 + 3))
        + 0.25 * (16 * 6 * 4 + 4 * t * (6 + 10));
    CHECK(gate == call, "%.2f bytes, expected %.2f", gate, call);
    KvCount kv = count_kv_cache(&c, 4, 0);
    CHECK(kv.full_bytes == 2 * 4 * 4 * (2 * 32 + 2 * 3) && kv.positions == 32 && kv.n_windowed == 2,
          "KV %llu", (unsigned long long)kv.full_bytes);
}

static bool dearer(const Config *c, const Count *n, int seq, bool decode, bool full)
{
    Flops f;
    count_flops(&f, c, n, &(FlopLoad){ .seq = seq, .batch = 1, .decode = decode, .kv_bytes = 4 });
    return (full ? f.attention.full : f.attention.computed) >= f.group[GROUP_FFN].full;
}

static void crossover_is_the_first_length(void)
{
    Config c;
    Count  n;
    if (!preset("llama-2-7b", &c, &n))
        return;
    Crossover x = count_crossover(&c, &n);
    CHECK(dearer(&c, &n, x.full, false, true) && !dearer(&c, &n, x.full - 1, false, true),
          "full %d", x.full);
    CHECK(dearer(&c, &n, x.prefill, false, false) && !dearer(&c, &n, x.prefill - 1, false, false),
          "prefill %d", x.prefill);
    CHECK(x.decode == x.full && x.full > 8000 && x.full < 8400 && abs(x.prefill - 2 * x.full) <= 2,
          "%d %d %d", x.full, x.prefill, x.decode);
    if (!preset("mistral-7b", &c, &n)) /* its window keeps attention the cheaper part for ever */
        return;
    x = count_crossover(&c, &n);
    CHECK(x.full > 16000 && x.prefill == 0 && x.decode == 0, "%d %d %d", x.full, x.prefill,
          x.decode);
    c = small;
    c.d_ff = 1;
    count_config(&n, &c, WT_F32);
    x = count_crossover(&c, &n);
    CHECK(x.full == 1 && x.prefill == 1 && x.decode == 1, "%d %d %d", x.full, x.prefill, x.decode);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(llama_2_7b_at_2048_tokens);
    TEST(a_small_block_by_hand);
    TEST(a_decode_step_is_what_the_prompt_grows_by);
    TEST(experts_and_windows_of_some_blocks);
    TEST(crossover_is_the_first_length);
    return TEST_END();
}
