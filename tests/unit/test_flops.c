/* FLOP: the published figures, a small block by hand, masks counted pair by pair, and the crossover where it should be. */
#include "test.h"

#include <math.h>

#include "base/file.h"
#include "model/flops.h"

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
    CHECK(f.group[GROUP_PROJECTIONS].full == 8 * t * d * d, "projections %.0f", f.group[GROUP_PROJECTIONS].full); /* 274.9 G */
    CHECK(round(f.group[GROUP_PROJECTIONS].full / 1e8) == 2749, "projections %.0f", f.group[GROUP_PROJECTIONS].full);
    CHECK(f.group[GROUP_SCORES].full == 4 * t * t * d, "scores %.0f", f.group[GROUP_SCORES].full);
    CHECK(round(f.group[GROUP_SCORES].full / 1e8) == 687, "scores %.0f", f.group[GROUP_SCORES].full);
    CHECK(f.op[OP_GATE].full + f.op[OP_UP].full + f.op[OP_DOWN].full == 6 * t * d * ff, "FFN");
    CHECK(round(f.group[GROUP_FFN].full / 1e8) == 5541, "FFN %.0f", f.group[GROUP_FFN].full);
    CHECK(f.group[GROUP_SCORES].computed == 2 * t * (t + 1) * d, "causal %.0f", f.group[GROUP_SCORES].computed);
    CHECK(f.blocks.full == 32 * f.block.full && f.total.full == f.blocks.full + f.head.full, "sums");
}

static const Config small = { .d_model = 6, .n_layers = 3, .heads = 4, .kv_heads = 2, .head_dim = 2, .d_ff = 10, .vocab_size = 7,
                              .n_ctx = 32, .window = 3, .bos = -1 };

static void a_small_block_by_hand(void)
{
    Count n;
    Flops f;
    count_config(&n, &small, WT_F32);
    count_flops(&f, &small, &n, &(FlopLoad){ .seq = 5, .batch = 2, .kv_bytes = 2 });
    double t = 10, full = 2 * 25, seen = 2 * (1 + 2 + 3 + 3 + 3);
    CHECK(f.op[OP_ATTN_NORM].full == t * (4 * 6 + 4) && f.op[OP_FFN_NORM].full == f.op[OP_ATTN_NORM].full, "norm");
    CHECK(f.op[OP_Q].full == 2 * t * 8 * 6 && f.op[OP_K].full == 2 * t * 4 * 6 && f.op[OP_V].full == f.op[OP_K].full, "q k v");
    CHECK(f.op[OP_ROPE].full == 3 * t * (8 + 4), "rope");
    CHECK(f.op[OP_QK].full == 2 * 8 * full && f.op[OP_QK].computed == 2 * 8 * seen && f.op[OP_AV].computed == 2 * 8 * seen, "scores");
    CHECK(f.op[OP_SOFTMAX].full == 5 * 4 * full + t * 4 * 3 && f.op[OP_SOFTMAX].computed == 5 * 4 * seen + t * 4 * 3, "softmax");
    CHECK(f.op[OP_OUT].full == 2 * t * 6 * 8 && f.op[OP_ATTN_ADD].full == t * 6, "output");
    CHECK(f.op[OP_GATE].full == 2 * t * 10 * 6 && f.op[OP_SILU].full == 4 * t * 10 && f.op[OP_DOWN].full == 2 * t * 6 * 10, "FFN");
    CHECK(f.head.full == t * 28 + 2 * 2 * 7 * 6, "head %.0f", f.head.full);
    /* bytes: panels of 16 rows, activations in f32, K and V in f16 */
    CHECK(f.op[OP_Q].bytes == 16 * 6 * 4 + 4 * t * (6 + 8), "q bytes %.0f", f.op[OP_Q].bytes);
    CHECK(f.op[OP_QK].bytes == 4 * t * 8 + 2 * 5 * 4 * 2 && f.op[OP_SOFTMAX].bytes == 0, "score bytes %.0f", f.op[OP_QK].bytes);
    CHECK(f.op[OP_ROPE].bytes == 8 * t * 12 + 8 * t * 4 + 2 * t * 4 * 2, "rope bytes %.0f", f.op[OP_ROPE].bytes);
    double sum = 0;
    for (int i = 0; i < OP_COUNT; i++)
        sum += f.op[i].computed;
    CHECK(sum == f.block.computed && flop_intensity(&f.block) == f.block.computed / f.block.bytes, "block");
}

static void a_decode_step_is_what_the_prompt_grows_by(void)
{
    Count n;
    Flops before, after, step;
    count_config(&n, &small, WT_F32);
    for (int seq = 2; seq < 9; seq++) {
        count_flops(&before, &small, &n, &(FlopLoad){ .seq = seq - 1, .batch = 1, .kv_bytes = 4 });
        count_flops(&after, &small, &n, &(FlopLoad){ .seq = seq, .batch = 1, .kv_bytes = 4 });
        count_flops(&step, &small, &n, &(FlopLoad){ .seq = seq, .batch = 1, .decode = true, .kv_bytes = 4 });
        for (int i = 0; i < OP_COUNT; i++)
            CHECK(after.op[i].computed - before.op[i].computed == step.op[i].computed, "%s at %d", flop_op_key((FlopOp)i), seq);
    }
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
    CHECK(dearer(&c, &n, x.full, false, true) && !dearer(&c, &n, x.full - 1, false, true), "full %d", x.full);
    CHECK(dearer(&c, &n, x.prefill, false, false) && !dearer(&c, &n, x.prefill - 1, false, false), "prefill %d", x.prefill);
    CHECK(x.decode == x.full && x.full > 8000 && x.full < 8400 && abs(x.prefill - 2 * x.full) <= 2, "%d %d %d", x.full, x.prefill, x.decode);
    if (!preset("mistral-7b", &c, &n)) /* its window keeps attention the cheaper part for ever */
        return;
    x = count_crossover(&c, &n);
    CHECK(x.full > 16000 && x.prefill == 0 && x.decode == 0, "%d %d %d", x.full, x.prefill, x.decode);
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
    TEST(crossover_is_the_first_length);
    return TEST_END();
}
