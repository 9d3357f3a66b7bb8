/* tests/unit/test_kv_cache.c: tiles of 64 positions, taken as a sequence grows, given back behind a
 * window. */
#include "test.h"

#include <math.h>

#include "base/number.h"
#include "runtime/kv_cache.h"

static Error err;

static KvCache cache_of(int n_layers, int kv_heads, int head_dim, int window, KvType type,
                        int n_seqs)
{
    KvCache c;
    KvShape shape = { .n_layers = n_layers,
                      .kv_heads = kv_heads,
                      .head_dim = head_dim,
                      .window = window,
                      .type = type };
    if (!kv_cache_init(&c, &shape, n_seqs, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(4);
    }
    return c;
}

/* What a forward pass does to the lengths. */
static bool grow(KvCache *c, int seq, int n_new)
{
    if (!kv_cache_reserve(c, seq, n_new, &err))
        return false;
    c->seq[seq].length += n_new;
    return true;
}

static void memory_is_taken_as_a_sequence_grows(void)
{
    KvCache c = cache_of(3, 2, 20, 0, KV_F32, 2);
    CHECK(c.bytes == 0, "an empty cache holds %zu bytes", c.bytes);
    CHECK(grow(&c, 0, 1), "%s", err.msg);
    CHECK(c.bytes == 3 * c.tile_bytes, "one token: %zu bytes, a tile is %zu", c.bytes,
          c.tile_bytes);
    CHECK(grow(&c, 0, 63), "%s", err.msg);
    CHECK(c.bytes == 3 * c.tile_bytes, "64 tokens: %zu bytes", c.bytes);
    CHECK(grow(&c, 0, 1), "%s", err.msg);
    CHECK(c.bytes == 6 * c.tile_bytes, "65 tokens: %zu bytes", c.bytes);
    CHECK(grow(&c, 1, 1), "%s", err.msg);
    CHECK(c.bytes == 9 * c.tile_bytes, "a second sequence: %zu bytes", c.bytes);
    kv_cache_free(&c);
}

static void an_f16_cache_takes_half(void)
{
    KvCache full = cache_of(1, 2, 64, 0, KV_F32, 1), half = cache_of(1, 2, 64, 0, KV_F16, 1);
    CHECK(full.tile_bytes == 2 * half.tile_bytes, "%zu and %zu", full.tile_bytes, half.tile_bytes);
    kv_cache_free(&full);
    kv_cache_free(&half);
}

static void a_q8_cache_takes_a_byte_and_a_scale(void)
{
    KvCache c = cache_of(1, 3, 20, 0, KV_Q8, 1);
    CHECK(c.head_bytes == 64 * 20 + 64 * 32 + 2 * 64 * 4 && c.tile_bytes == 3 * c.head_bytes,
          "%zu, %zu", c.head_bytes, c.tile_bytes);
    CHECK(grow(&c, 0, 1), "%s", err.msg);
    for (int h = 0; h < 3; h++)
        CHECK((uintptr_t)kv_cache_k(&c, 0, 0, h, 0) % 64 == 0
                  && (uintptr_t)kv_cache_v(&c, 0, 0, h, 0) % 64 == 0
                  && (uintptr_t)kv_cache_v_scales(&c, 0, 0, h, 0) % 64 == 0,
              "head %d is not aligned", h);
    kv_cache_free(&c);
}

/* A query sees `window` positions; whatever its first tile began with stays too. */
static void a_windowed_layer_holds_the_window_and_the_batch(void)
{
    static const int windows[] = {1, 8, 64, 100, 128}, batches[] = {1, 16, 64, 65};
    for (int w = 0; w < 5; w++)
        for (int b = 0; b < 4; b++) {
            KvCache c     = cache_of(2, 1, 16, windows[w], KV_F32, 1);
            size_t  tiles = (size_t)(windows[w] + batches[b] + 63) / 64 + 1;
            for (int n = 0; n < 3000; n += batches[b])
                CHECK(grow(&c, 0, batches[b]), "%s", err.msg);
            CHECK(c.bytes <= 2 * tiles * c.tile_bytes,
                  "window %d, batch %d: %zu tiles, expected at most %zu", windows[w], batches[b],
                  c.bytes / c.tile_bytes / 2, tiles);
            kv_cache_free(&c);
        }
}

static void a_window_keeps_every_position_that_the_next_query_sees(void)
{
    static const int windows[] = {1, 63, 64, 65, 100};
    for (int w = 0; w < 5; w++) {
        KvCache c = cache_of(1, 1, 16, windows[w], KV_F32, 1);
        for (int n = 0; n < 700; n++) {
            int oldest = n >= windows[w] ? n - windows[w] + 1 : 0;
            CHECK(grow(&c, 0, 1), "%s", err.msg);
            const KvTiles *t = &c.seq[0].layer[0];
            for (int tile = oldest / 64; tile <= n / 64; tile++)
                CHECK(tile >= t->first && tile < t->n && t->tile[tile],
                      "window %d, position %d: tile %d is gone", windows[w], n, tile);
        }
        kv_cache_free(&c);
    }
}

/* Layer 0 has the window, layers 1 and 2 have none; what one gives back another may take. */
static void layers_without_a_window_keep_all(void)
{
    static const int batches[] = {1, 64, 100};
    for (int b = 0; b < 3; b++) {
        KvShape shape = {
            .n_layers = 3, .kv_heads = 1, .head_dim = 16, .window = 100, .type = KV_F32
        };
        KvCache c;
        layers_add(&shape.full_layers, 1);
        layers_add(&shape.full_layers, 2);
        CHECK(kv_cache_init(&c, &shape, 2, &err), "%s", err.msg);
        for (int n = 0; n < 1000; n += batches[b])
            CHECK(grow(&c, 0, batches[b]), "%s", err.msg);
        int length = c.seq[0].length;
        CHECK(c.bytes == kv_cache_plan_bytes(&shape, length, batches[b]),
              "batch %d: %zu bytes, planned %zu", batches[b], c.bytes,
              kv_cache_plan_bytes(&shape, length, batches[b]));
        CHECK(c.seq[0].layer[0].first == (length - batches[b] - 99) / 64
                  && c.seq[0].layer[1].first == 0 && c.seq[0].layer[2].first == 0,
              "first tiles %d %d %d", c.seq[0].layer[0].first, c.seq[0].layer[1].first,
              c.seq[0].layer[2].first);
        CHECK(!kv_cache_rewind(&c, 0, 300) && !kv_cache_share(&c, 0, 1, 300, &err),
              "the window has moved on");
        CHECK(kv_cache_share(&c, 0, 1, length - 1,
                             &err) && c.seq[1].layer[0].first == c.seq[0].layer[0].first
              && c.seq[1].layer[1].first == 0, "%s", err.msg);
        kv_cache_free(&c);
    }
}

static void keys_lie_in_panels_of_16_positions_and_values_in_rows(void)
{
    const Kernels *kernels = kernels_select("scalar", &err);
    for (int type = 0; type < KV_COUNT; type++) {
        enum { D = 20, H = 3, N = 130 };
        KvCache c = cache_of(2, H, D, 0, (KvType)type, 1);
        CHECK(grow(&c, 0, N), "%s", err.msg);
        for (int pos = 0; pos < N; pos++)
            for (int h = 0; h < H; h++) {
                float k[D], v[D];
                for (int d = 0; d < D; d++) {
                    k[d] = (float)(pos * 100 + d) / 7 + (float)h;
                    v[d] = -k[d] / 3;
                }
                kv_cache_put(&c, kernels, 0, 1, h, pos, k, v);
            }
        for (int pos = 0; pos < N; pos++)
            for (int h = 0; h < H; h++)
                for (int d = 0; d < D; d++) {
                    float want_k = (float)(pos * 100 + d) / 7 + (float)h, want_v = -want_k / 3,
                          got_k, got_v;
                    const void *k = kv_cache_k(&c, 0, 1, h, pos / 64),
                               *v = kv_cache_v(&c, 0, 1, h, pos / 64);
                    int         t = pos % 64, k_at = t / 16 * D * 16 + d * 16 + t % 16,
                                v_at = t * c.v_stride + d;
                    if (type == KV_F32) {
                        got_k = ((const float *)k)[k_at];
                        got_v = ((const float *)v)[v_at];
                    } else if (type == KV_Q8) { /* the last element is the largest */
                        const float *scale = kv_cache_k_scales(&c, 0, 1, h, pos / 64);
                        float        top_k = (float)(pos * 100 + D - 1) / 7 + (float)h;
                        float        k_scale = top_k / 127, v_scale = top_k / 3 / 127;
                        CHECK(scale[t] == k_scale && scale[64 + t] == v_scale, "scales %a, %a",
                              (double)scale[t], (double)scale[64 + t]);
                        got_k  = (float)((const int8_t *)k)[k_at] * k_scale;
                        got_v  = (float)((const int8_t *)v)[v_at] * v_scale;
                        want_k = (float)(int)rintf(want_k * (1 / k_scale)) * k_scale;
                        want_v = (float)(int)rintf(want_v * (1 / v_scale)) * v_scale;
                    } else {
                        got_k  = f16_to_f32(((const uint16_t *)k)[k_at]);
                        got_v  = f16_to_f32(((const uint16_t *)v)[v_at]);
                        want_k = f16_to_f32(f32_to_f16(want_k));
                        want_v = f16_to_f32(f32_to_f16(want_v));
                    }
                    CHECK(f32_bits(got_k) == f32_bits(want_k), "k[%d][%d][%d]: %a, expected %a",
                          pos, h, d, (double)got_k, (double)want_k);
                    CHECK(f32_bits(got_v) == f32_bits(want_v), "v[%d][%d][%d]: %a, expected %a",
                          pos, h, d, (double)got_v, (double)want_v);
                }
        CHECK(c.v_stride == 32, "v_stride %d", c.v_stride);
        kv_cache_free(&c);
    }
}

static void k_that_is_v_is_a_row_and_a_clean_tile_shows_it_alone(void)
{
    enum { D = 20, N = 3 };
    const Kernels *kernels = kernels_select("scalar", &err);
    for (int type = 0; type < KV_COUNT; type++) {
        KvCache c;
        KvShape shape = { .n_layers = 1, .kv_heads = 1, .head_dim = D, .v_is_k = true,
                          .type = (KvType)type };
        CHECK(kv_cache_init(&c, &shape, 1, &err), "%s", err.msg);
        size_t row = 32 * kv_element_bytes(shape.type), scale = kv_scale_bytes(shape.type);
        CHECK(c.tile_bytes == KV_TILE * (row + scale), "type %d: a tile of %zu", type,
              c.tile_bytes);
        CHECK(grow(&c, 0, KV_TILE), "%s", err.msg);
        float x[D] = { 0 };
        x[0] = 127, x[D - 1] = 3;
        for (int pos = 0; pos < KV_TILE; pos++)
            kv_cache_put(&c, kernels, 0, 0, 0, pos, x, NULL);
        CHECK(kv_cache_k(&c, 0, 0, 0, 0) == kv_cache_v(&c, 0, 0, 0, 0)
                  && kv_cache_k_scales(&c, 0, 0, 0, 0) == kv_cache_v_scales(&c, 0, 0, 0, 0),
              "one place");
        CHECK(kv_cache_rewind(&c, 0, N), "back to %d", N);
        char *clean = malloc(c.tile_bytes), *was = c.seq[0].layer[0].tile[0]->data;
        kv_cache_tile_clean(&c, 0, 0, 0, clean);
        CHECK(memcmp(clean, was, N * row) == 0, "type %d: rows that are held", type);
        for (size_t i = N * row; i < KV_TILE * row + N * scale; i++)
            CHECK(clean[i] == (i < KV_TILE * row ? 0 : was[i]), "type %d: byte %zu", type, i);
        for (size_t i = KV_TILE * row + N * scale; i < c.tile_bytes; i++)
            CHECK(clean[i] == 0, "type %d: byte %zu of the scales", type, i);
        free(clean);
        kv_cache_free(&c);
    }
}

/* Chunks of the system's pages: tiles are zero, 64-byte aligned and apart, also where chunks are
 * many and huge. */
static void tiles_are_zero_and_apart_across_chunks(void)
{
    KvCache c = cache_of(2, 3, 64, 0, KV_F32, 1);
    for (int n = 0; n < 70; n++) {
        CHECK(grow(&c, 0, n < 60 ? KV_TILE : 5 * KV_TILE), "%s", err.msg);
        for (int l = 0; l < 2; l++) {
            const KvTiles *t = &c.seq[0].layer[l];
            for (int i = c.seq[0].length / KV_TILE - (n < 60 ? 1 : 5); i < t->n; i++) {
                const unsigned char *data = t->tile[i]->data;
                CHECK((uintptr_t)data % 64 == 0 && data[0] == 0 && memcmp(data, data + 1,
                    c.tile_bytes - 1) == 0, "tile %d is not zero", i);
                memset(t->tile[i]->data, 1 + i % 250, c.tile_bytes);
            }
        }
    }
    for (int l = 0; l < 2; l++)
        for (int i = 0; i < c.seq[0].layer[l].n; i++) {
            const unsigned char *data = c.seq[0].layer[l].tile[i]->data;
            CHECK(data[0] == 1 + i % 250 && memcmp(data, data + 1, c.tile_bytes - 1) == 0,
                  "layer %d: tile %d was written over", l, i);
        }
    CHECK(c.bytes == 2 * (60 + 50) * c.tile_bytes, "%zu bytes", c.bytes);
    kv_cache_free(&c);
}

static void rewinding_gives_tiles_back_for_use_again(void)
{
    KvCache c = cache_of(2, 1, 8, 0, KV_F16, 1);
    CHECK(grow(&c, 0, 500), "%s", err.msg);
    size_t bytes = c.bytes;
    CHECK(kv_cache_rewind(&c, 0, 65) && c.seq[0].length == 65, "length %d", c.seq[0].length);
    CHECK(c.seq[0].layer[1].n == 2, "65 tokens need 2 tiles, %d are held", c.seq[0].layer[1].n);
    CHECK(grow(&c, 0, 435), "%s", err.msg);
    CHECK(c.bytes == bytes, "the same 500 tokens: %zu bytes, before %zu", c.bytes, bytes);
    CHECK(kv_cache_rewind(&c, 0, 0) && c.seq[0].length == 0, "length %d", c.seq[0].length);
    CHECK(grow(&c, 0, 500) && c.bytes == bytes, "after emptying: %zu bytes, before %zu", c.bytes,
          bytes);
    kv_cache_free(&c);
}

static void rewinding_behind_a_window_is_refused(void)
{
    KvCache c = cache_of(1, 1, 8, 8, KV_F32, 1);
    for (int n = 0; n < 200; n++)
        CHECK(grow(&c, 0, 1), "%s", err.msg);
    CHECK(kv_cache_rewind(&c, 0, 199), "one token back");
    CHECK(!kv_cache_rewind(&c, 0, 100), "position 93 was given up");
    CHECK(c.seq[0].length == 199, "a refusal changes nothing: length %d", c.seq[0].length);
    CHECK(kv_cache_rewind(&c, 0, 0), "length 0 always works");
    CHECK(grow(&c, 0, 200), "%s", err.msg);
    for (int tile = 0; tile < 4; tile++)
        CHECK(c.seq[0].layer[0].tile[tile], "tile %d after starting again", tile);
    kv_cache_free(&c);
}

static KvCache cache_with_states(int n_seqs)
{
    KvCache c;
    KvShape shape = { .n_layers = 3, .kv_heads = 1, .head_dim = 8, .type = KV_F32,
                      .state_floats = 5 };
    layers_add(&shape.state_layers, 0);
    layers_add(&shape.state_layers, 2);
    if (!kv_cache_init(&c, &shape, n_seqs, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        exit(4);
    }
    return c;
}

static void a_layer_with_a_state_takes_no_tile(void)
{
    KvCache c     = cache_with_states(2);
    size_t  state = 2 * 5 * sizeof(float);
    CHECK(c.bytes == 2 * state, "two empty sequences: %zu bytes", c.bytes);
    CHECK(grow(&c, 0, 130), "%s", err.msg);
    CHECK(c.bytes == 2 * state + 3 * c.tile_bytes, "130 tokens: %zu bytes", c.bytes);
    CHECK(kv_cache_plan_bytes(&c.shape, 130, 64) == state + 3 * c.tile_bytes, "plan: %zu bytes",
          kv_cache_plan_bytes(&c.shape, 130, 64));
    CHECK(!c.seq[0].layer[0].n && !c.seq[0].layer[2].n && c.seq[0].layer[1].n == 3, "its tiles");
    CHECK(c.seq[0].layer[0].state && !c.seq[0].layer[1].state, "its states");
    kv_cache_free(&c);
}

/* It is what all tokens made: it goes along with all of them, or with none. */
static void a_state_forgets_all_or_nothing(void)
{
    KvCache c = cache_with_states(2);
    CHECK(grow(&c, 0, 70), "%s", err.msg);
    for (int i = 0; i < 5; i++)
        c.seq[0].layer[0].state[i] = c.seq[0].layer[2].state[i] = (float)(i + 1);
    CHECK(!kv_cache_rewind(&c, 0, 69) && c.seq[0].length == 70, "one token back");
    CHECK(kv_cache_rewind(&c, 0, 70) && c.seq[0].layer[2].state[4] == 5, "none back");
    CHECK(!kv_cache_share(&c, 0, 1, 69, &err) && strstr(err.msg, "state_layers"), "%s", err.msg);
    CHECK(kv_cache_share(&c, 0, 1, 70, &err) && c.seq[1].layer[2].state[4] == 5, "%s", err.msg);
    c.seq[1].layer[2].state[4] = 6;
    CHECK(c.seq[0].layer[2].state[4] == 5, "a copy is its own");
    CHECK(kv_cache_rewind(&c, 0, 0), "length 0 always works");
    for (int i = 0; i < 5; i++)
        CHECK(c.seq[0].layer[0].state[i] == 0 && c.seq[0].layer[2].state[i] == 0, "value %d", i);
    CHECK(kv_cache_share(&c, 0, 1, 0, &err) && c.seq[1].layer[2].state[4] == 0, "an empty copy");
    kv_cache_free(&c);
}

/* Two sequences share tiles of a layer with a window and of one without; a third gave some back. */
static void a_broken_invariant_shows(void)
{
    KvCache c = cache_of(2, 1, 16, 70, KV_F32, 3), states = cache_with_states(1);
    layers_add(&c.shape.full_layers, 1);
    CHECK(grow(&c, 0, 100) && grow(&c, 0, 100) && kv_cache_share(&c, 0, 1, 200, &err)
              && grow(&c, 1, 1) && grow(&c, 2, 200) && kv_cache_rewind(&c, 2, 0)
              && grow(&c, 2, 10), "%s", err.msg);
    KvTiles *windowed = &c.seq[0].layer[0], *full = &c.seq[0].layer[1], *own = &c.seq[2].layer[1];
    CHECK(windowed->first == 0 && full->tile[0]->users == 2 && full->tile[3]->users == 1
              && c.spare, "what the sequences hold");
    BREAKS(kv_cache_is_sound(&c), full->tile[0]->users, 1);
    BREAKS(kv_cache_is_sound(&c), full->tile[0], own->tile[0]);
    BREAKS(kv_cache_is_sound(&c), full->tile[1], NULL);
    BREAKS(kv_cache_is_sound(&c), own->tile[0], c.spare);
    BREAKS(kv_cache_is_sound(&c), own->first, 1);
    BREAKS(kv_cache_is_sound(&c), own->n, 0);
    BREAKS(kv_cache_is_sound(&c), own->cap, 0);
    BREAKS(kv_cache_is_sound(&c), c.seq[0].length, 300);
    BREAKS(kv_cache_is_sound(&c), c.spare->users, 1);
    BREAKS(kv_cache_is_sound(&c), c.spare, c.spare->next);
    BREAKS(kv_cache_is_sound(&c), c.spare->next, c.spare);
    BREAKS(kv_cache_is_sound(&c), c.chunk->used, c.chunk->used - c.tile_bytes);
    BREAKS(kv_cache_is_sound(&c), c.bytes, c.bytes + 1);
    CHECK(grow(&c, 0, 300) && grow(&c, 0, 1) && windowed->first > 1, "%s", err.msg);
    BREAKS(kv_cache_is_sound(&c), windowed->tile[0], full->tile[0]);
    BREAKS(kv_cache_is_sound(&c), c.seq[0].length, 200);
    BREAKS(kv_cache_is_sound(&states), states.seq[0].layer[0].n, 1);
    BREAKS(kv_cache_is_sound(&states), states.seq[0].layer[0].state, NULL);
    kv_cache_free(&c), kv_cache_free(&states);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(memory_is_taken_as_a_sequence_grows);
    TEST(an_f16_cache_takes_half);
    TEST(a_q8_cache_takes_a_byte_and_a_scale);
    TEST(a_windowed_layer_holds_the_window_and_the_batch);
    TEST(layers_without_a_window_keep_all);
    TEST(a_window_keeps_every_position_that_the_next_query_sees);
    TEST(keys_lie_in_panels_of_16_positions_and_values_in_rows);
    TEST(k_that_is_v_is_a_row_and_a_clean_tile_shows_it_alone);
    TEST(tiles_are_zero_and_apart_across_chunks);
    TEST(rewinding_gives_tiles_back_for_use_again);
    TEST(rewinding_behind_a_window_is_refused);
    TEST(a_layer_with_a_state_takes_no_tile);
    TEST(a_state_forgets_all_or_nothing);
    TEST(a_broken_invariant_shows);
    return TEST_END();
}
