/* tests/unit/test_state.c: sequences that share a prefix, and a sequence in a file: the bits of one
 * that was never copied, stored or rewound; and every way in which a file can be wrong. */
#include "test.h"

#include <math.h>
#include <unistd.h>

#include "api/api.h"
#include "tblock_tools.h"
#include "temp_folder.h"

enum { VOCAB = 50, LAYERS = 2, N_CTX = 640, N_SEQS = 4 };
/* For a window: one layer, or both, have a state instead. */
enum { STATE = 1000, STATES, DELTA, DELTAS };

static Error err;

/* Groups of 3 heads; a head_dim that fills no vector. A negative window: of the first layer
 * alone. */
static tblock_model *model_of(int window, int seed)
{
    const bool  state = window >= STATE;
    static const char *const delta[] = {
        ", \"state_layers\": [0], \"conv_taps\": 4, \"attn_gate\": true, \"delta_heads\": 4, "
        "\"delta_key_heads\": 2, \"delta_key_dim\": 5, \"delta_value_dim\": 18",
        ", \"state_layers\": [0, 1], \"conv_taps\": 2, \"delta_heads\": 1, "
        "\"delta_key_heads\": 1, \"delta_key_dim\": 16, \"delta_value_dim\": 70"
    };
    const char *more  = window < 0      ? ", \"full_layers\": [1]"
        : window == STATE               ? ", \"state_layers\": [1], \"conv_taps\": 4"
        : window == STATES              ? ", \"state_layers\": [0, 1], \"conv_taps\": 40"
        : window >= DELTA               ? delta[window - DELTA]
                                        : "";
    char        json[480];
    snprintf(json, sizeof json,
             "{\"d_model\": 36, \"n_layers\": %d, \"heads\": 6, \"kv_heads\": 2, \"head_dim\": 10, "
             "\"d_ff\": 40, "
             "\"vocab_size\": %d, \"n_ctx\": %d, \"window\": %d%s}",
             LAYERS, VOCAB, N_CTX, state ? 0 : abs(window), more);
    CHECK(write_config(json), "cannot write");
    tblock_synth_options o = {.type = "f32", .seed = (uint64_t)seed};
    tblock_model *m = tblock_synth(in_folder("config.json"), in_folder("m.bin"), &o,
                                   &err) ? tblock_open(in_folder("m.bin"), NULL, &err)
                                                                                          : NULL;
    CHECK(m, "%s", err.msg);
    return m;
}

static tblock_context *context_of(const tblock_model *m, const char *kv, int n_seqs)
{
    tblock_context *c = m
        ? tblock_context_new(
            m, &(tblock_context_options){ .n_seqs = n_seqs, .kv_type = kv, .n_batch = 96 }, &err)
        : NULL;
    CHECK(c, "%s", err.msg);
    return c;
}

static uint32_t random_state = 1;
static int      below(int n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)n);
}

/* What a sequence should hold. */
typedef struct Text { int32_t id[N_CTX]; int n; } Text;

/* Go on with n random tokens; false: an error. */
static bool go_on(tblock_context *c, int seq, Text *t, int n)
{
    static tblock_item item[N_CTX];
    for (int i = 0; i < n; i++) {
        t->id[t->n + i] = below(VOCAB);
        item[i]         = (tblock_item){seq, t->n + i, t->id[t->n + i], i == n - 1};
    }
    t->n += n;
    return tblock_decode(c, item, (size_t)n, &err);
}

/* The logits of c's last call, of n items, against a context that computes the text from its
 * start. */
static void check_logits(tblock_context *c, int n, tblock_context *scratch, const Text *t,
                         const char *what)
{
    static tblock_item item[N_CTX];
    for (int i = 0; i < t->n; i++)
        item[i] = (tblock_item){0, i, t->id[i], i == t->n - 1};
    CHECK(tblock_seq_rewind(scratch, 0, 0, &err) && tblock_decode(scratch, item, (size_t)t->n,
        &err), "%s", err.msg);
    const float *got = tblock_logits(c, (size_t)n - 1),
                *want = tblock_logits(scratch, (size_t)t->n - 1);
    CHECK(got && want && memcmp(got, want, VOCAB * sizeof *got) == 0,
          "%s: other logits after %d tokens", what, t->n);
}

/* Tiles count their users right, and bytes are those of the tiles there are, each once. */
static void audit(const tblock_context *c)
{
    const KvCache *kv = &c->kv;
    double         tiles = 0;
    for (const KvTile *t = kv->spare; t; t = t->next)
        tiles++;
    for (int s = 0; s < kv->n_seqs; s++)
        for (int l = 0; l < LAYERS; l++) {
            const KvTiles *held = &kv->seq[s].layer[l];
            for (int i = held->first; i < held->n; i++) {
                int users = 0;
                for (int o = 0; o < kv->n_seqs; o++) {
                    const KvTiles *other = &kv->seq[o].layer[l];
                    users += i >= other->first && i < other->n && other->tile[i] == held->tile[i];
                }
                CHECK(users == held->tile[i]->users,
                      "sequence %d, layer %d, tile %d: %d users, %d counted", s, l, i, users,
                      held->tile[i]->users);
                tiles += 1.0 / users;
            }
        }
    double states = 0;
    for (int l = 0; l < LAYERS; l++)
        states += kv->seq[0].layer[l].state ? (double)kv->shape.state_floats * 4 * kv->n_seqs : 0;
    CHECK(fabs(tiles - ((double)kv->bytes - states) / (double)kv->tile_bytes) < 1e-6,
          "%g tiles, %zu bytes, %zu each, %g of states", tiles, kv->bytes, kv->tile_bytes, states);
}

static void expect(bool done, int status, const char *words)
{
    CHECK(!done && err.status == status && strstr(err.msg, words),
          "expected status %d, '%s'; found %d, '%s'", status,
          words, err.status,
          done ? "done" : err.msg);
}

/* ---- Sharing --------------------------------------------------------------------------------- */

static void a_copy_shares_full_tiles(void)
{
    tblock_model   *m = model_of(0, 1);
    tblock_context *c = context_of(m, "f32", N_SEQS), *scratch = context_of(m, "f32", 1);
    Text            t = {.n = 0}, other;
    if (!c || !scratch)
        return;
    CHECK(go_on(c, 0, &t, 200), "%s", err.msg);
    const size_t bytes = c->kv.bytes, tile = c->kv.tile_bytes;
    CHECK(bytes == 8 * tile, "4 tiles in 2 layers: %zu bytes", bytes);
    other = t;
    CHECK(tblock_seq_copy(c, 0, 1, 200, &err) && c->kv.bytes == bytes,
          "%s: a copy takes no memory: %zu", err.msg,
          c->kv.bytes);
    CHECK(tblock_seq_copy(c, 1, 2, 128, &err) && tblock_seq_copy(c, 2, 3, 65,
        &err) && c->kv.bytes == bytes,
          "nor a copy of a copy");
    CHECK(tblock_seq_length(c, 3) == 65, "length %d", tblock_seq_length(c, 3));
    audit(c);
    CHECK(go_on(c, 1, &other, 1) && c->kv.bytes == bytes + 2 * tile,
          "who goes on takes its own last tile: %zu",
          c->kv.bytes);
    check_logits(c, 1, scratch, &other, "the copy");
    CHECK(go_on(c, 0, &t, 1) && c->kv.bytes == bytes + 2 * tile,
          "and leaves the other its own: %zu", c->kv.bytes);
    check_logits(c, 1, scratch, &t, "the source");
    audit(c);
    for (int s = 0; s < N_SEQS; s++)
        CHECK(tblock_seq_rewind(c, s, 0, &err), "%s", err.msg);
    audit(c);
    CHECK(c->kv.bytes == bytes + 2 * tile, "what was given back is kept: %zu", c->kv.bytes);
    tblock_context_free(c);
    tblock_context_free(scratch);
    tblock_close(m);
}

static void wrong_copies_are_refused(void)
{
    tblock_model   *m = model_of(70, 1);
    tblock_context *c = context_of(m, "f32", 2);
    Text            t = {.n = 0};
    if (!c)
        return;
    for (int i = 0; i < 300; i++)
        CHECK(go_on(c, 0, &t, 1), "%s", err.msg);
    expect(tblock_seq_copy(c, 0, 2, 10, &err), USAGE, "sequence to: expected 0 to 1, found 2");
    expect(tblock_seq_copy(c, -1, 1, 10, &err), USAGE, "sequence from: expected 0 to 1, found -1");
    expect(tblock_seq_copy(c, 0, 0, 10, &err), USAGE, "expected a different sequence from 0");
    expect(tblock_seq_copy(c, 0, 1, 301, &err), USAGE, "expected 0 to 300, found 301");
    expect(tblock_seq_copy(c, 0, 1, -1, &err), USAGE, "expected 0 to 300, found -1");
    expect(tblock_seq_copy(c, 0, 1, 100, &err), USAGE, "window of 70 no longer holds them");
    CHECK(tblock_seq_copy(c, 0, 1, 299, &err) && tblock_seq_copy(c, 0, 1, 0,
        &err) && tblock_seq_length(c, 1) == 0, "%s",
          err.msg);
    tblock_context_free(c);
    tblock_close(m);
}

/* One operation on one of four sequences; texts say what they should hold. */
static void do_something(tblock_context *c, tblock_context *scratch, Text *text, int *done)
{
    /* a file is synced: few */
    static const int operations[16] = {0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5};
    int   s = below(N_SEQS), o = (s + 1 + below(N_SEQS - 1)) % N_SEQS, what = operations[below(16)];
    Text *t = &text[s];
    int   room = N_CTX - t->n;
    if (what <= 2 && room > 0) {
        int n = 1 + below(what ? 3 : 150);
        n     = n < room ? n : room;
        CHECK(go_on(c, s, t, n), "%s", err.msg);
        check_logits(c, n, scratch, t, "after random operations");
    } else if (what == 3) {
        int length = below(4) ? t->n - below(t->n < 20 ? t->n + 1 : 20) : below(t->n + 1);
        if (tblock_seq_rewind(c, s, length, &err))
            t->n = length;
        else
            return;
    } else if (what == 4) {
        int n = below(3) ? t->n : below(t->n + 1);
        if (!tblock_seq_copy(c, s, o, n, &err)) {
            text[o].n = 0;
            return;
        }
        text[o]   = *t;
        text[o].n = n;
    } else if (t->n > 0) {
        int32_t *ids;
        size_t   n;
        CHECK(tblock_state_save(c, s, t->id, (size_t)t->n, in_folder("random.state"), &err)
                  && tblock_state_load(c, o, in_folder("random.state"), &ids, &n, &err),
              "%s", err.msg);
        if (test_case_state)
            return;
        CHECK(n == (size_t)t->n && memcmp(ids, t->id, n * sizeof *ids) == 0, "%zu other tokens", n);
        tblock_free(ids);
        text[o] = *t;
    }
    for (int i = 0; i < N_SEQS; i++)
        CHECK(tblock_seq_length(c, i) == text[i].n, "sequence %d: length %d, expected %d", i,
              tblock_seq_length(c, i),
              text[i].n);
    done[what]++;
}

static void random_operations_leave_the_bits_of_a_fresh_start(void)
{
    static const int         windows[] = {0, 70, 1, 200, -70, STATE, STATES, DELTA, DELTAS};
    static const char *const types[]   = {"f32", "f16", "q8"};
    static Text              text[N_SEQS];
    int                      done[6] = {0};
    enum { N = 3 * (int)(sizeof windows / sizeof *windows) };
    for (int i = 0; i < N && test_case_state == 0; i++) {
        tblock_model   *m = model_of(windows[i / 3], 1);
        tblock_context *c = context_of(m, types[i % 3], N_SEQS),
                       *scratch = context_of(m, types[i % 3], 1);
        for (int s = 0; s < N_SEQS; s++)
            text[s].n = 0;
        for (int step = 0; c && scratch && step < 90 && test_case_state == 0; step++) {
            do_something(c, scratch, text, done);
            audit(c);
        }
        tblock_context_free(c);
        tblock_context_free(scratch);
        tblock_close(m);
    }
    for (int i = 0; i < 6; i++)
        CHECK(done[i] > 30, "operation %d was done %d times", i, done[i]);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void a_loaded_state_goes_on_with_the_same_bits(void)
{
    static const char *const types[]   = {"f32", "f16", "q8"};
    static const int         windows[] = {0, 70, -70, STATE, STATES, DELTA, DELTAS},
                             lengths[] = {1, 63, 64, 65, 300};
    enum { N = (int)(sizeof windows / sizeof *windows) };
    for (int i = 0; i < 15 * N; i++) {
        int             window = windows[i / 3 % N];
        tblock_model   *m      = model_of(window, 1);
        tblock_context *c = context_of(m, types[i % 3], 2),
                       *scratch = context_of(m, types[i % 3], 1);
        Text            t = {.n = 0}, u;
        int32_t        *ids;
        size_t          n;
        if (!c || !scratch)
            return;
        CHECK(go_on(c, 1, &t, lengths[i / 3 / N]), "%s", err.msg);
        CHECK(tblock_state_save(c, 1, t.id, (size_t)t.n, in_folder("s"), &err), "%s", err.msg);
        tblock_context *again = context_of(m, types[i % 3], 1);
        bool loaded = again && tblock_state_load(again, 0, in_folder("s"), &ids, &n, &err);
        CHECK(loaded && n == (size_t)t.n, "%s", err.msg);
        if (!loaded)
            return;
        tblock_free(ids);
        audit(again);
        u = t;
        CHECK(go_on(again, 0, &t, 130), "%s", err.msg); /* writes into the mapped last tile */
        check_logits(again, 130, scratch, &t, "after loading");
        CHECK(tblock_state_load(again, 0, in_folder("s"), &ids, &n, &err),
              "the file is as it was: %s", err.msg);
        tblock_free(ids);
        if (window < STATE) {
            CHECK(tblock_seq_rewind(again, 0, u.n - 1, &err), "back by one: %s", err.msg);
            u.n--;
        } else if (u.n > 1) {
            expect(tblock_seq_rewind(again, 0, u.n - 1, &err), USAGE, "(state_layers) hold only");
        }
        CHECK(go_on(again, 0, &u, 1), "%s", err.msg);
        check_logits(again, 1, scratch, &u, "the last token anew");
        audit(again);
        tblock_context_free(again);
        tblock_context_free(c);
        tblock_context_free(scratch);
        tblock_close(m);
    }
}

static char *contents(const char *path, size_t *n)
{
    char *text = NULL;
    CHECK(file_read(path, 1 << 26, &text, n, &err), "%s", err.msg);
    return text;
}

static void a_file_tells_nothing_of_other_sequences(void)
{
    tblock_model   *m = model_of(0, 1);
    tblock_context *c = context_of(m, "q8", 1), *fresh = context_of(m, "q8", 1);
    Text            t = {.n = 0}, u = {.n = 0};
    size_t          a_n, b_n;
    if (!c || !fresh)
        return;
    CHECK(go_on(c, 0, &t, 200) && tblock_seq_rewind(c, 0, 0, &err), "%s", err.msg);
    t.n = 0;
    random_state = 7;
    CHECK(go_on(c, 0, &t, 70), "%s", err.msg);
    random_state = 7;
    CHECK(go_on(fresh, 0, &u, 70), "%s", err.msg);
    CHECK(tblock_state_save(c, 0, t.id, 70, in_folder("a"), &err) && tblock_state_save(fresh, 0,
        u.id, 70, in_folder("b"),
                                                                                       &err), "%s",
          err.msg);
    char *a = contents(in_folder("a"), &a_n), *b = contents(in_folder("b"), &b_n);
    CHECK(a && b && a_n == b_n && memcmp(a, b, a_n) == 0, "used tiles show in the file");
    free(a);
    free(b);
    tblock_context_free(c);
    tblock_context_free(fresh);
    tblock_close(m);
}

/* Write the state at `from` again with one thing changed: a metadata value (NULL: left out), or a
 * tensor's shape, bytes or name. */
typedef struct Change {
    const char *key, *value, *tensor, *name;
    int         rank;
    int64_t     shape[2], extra;
    DType       dtype;
    bool        tokens_first;
} Change;

static bool rewrite(const char *from, const char *to, const Change *ch)
{
    TensorFile f;
    if (!safetensors_open(&f, from, &err))
        return false;
    TensorWriter *w  = tensor_writer_new(to, 64, &err);
    bool          ok = w != NULL;
    for (int i = 0; ok && i < f.n_meta; i++) {
        bool hit = ch->key && strcmp(f.meta[i].key, ch->key) == 0;
        if (!hit || ch->value)
            ok = tensor_writer_meta(w, f.meta[i].key, hit ? ch->value : f.meta[i].value, &err);
    }
    if (ch->extra)
        ok = ok && tensor_writer_declare(w, "extra", DT_U8, 1, &ch->extra, &err);
    for (int i = 0; ok && i < f.n_tensors; i++) {
        const Tensor *t   = &f.tensors[ch->tokens_first ? (i + f.n_tensors - 1) % f.n_tensors : i];
        bool          hit = ch->tensor && strcmp(t->name, ch->tensor) == 0;
        ok = tensor_writer_declare(
            w, hit && ch->name ? ch->name : t->name, hit && ch->rank ? ch->dtype : t->dtype,
            hit && ch->rank ? ch->rank : t->rank, hit && ch->rank ? ch->shape : t->shape, &err);
    }
    ok = ok && tensor_writer_begin(w, &err);
    int at = 0;
    if (ok && ch->extra)
        ok = tensor_writer_put(w, at++, 0, "xxxxxxxx", (size_t)ch->extra, &err);
    for (int i = 0; ok && i < f.n_tensors; i++, at++) {
        const Tensor *t   = &f.tensors[ch->tokens_first ? (i + f.n_tensors - 1) % f.n_tensors : i];
        bool          hit = ch->tensor && strcmp(t->name, ch->tensor) == 0 && ch->rank;
        size_t        n   = t->n_bytes, elements;
        if (hit)
            ok = shape_bytes(ch->dtype, ch->rank, ch->shape, &elements, &n);
        char *data = calloc(1, n + 1);
        if (data)
            memcpy(data, t->data, n < t->n_bytes ? n : t->n_bytes);
        ok = ok && data && tensor_writer_put(w, at, 0, data, n, &err);
        free(data);
    }
    if (ok)
        ok = tensor_writer_end(w, &err);
    else
        tensor_writer_abort(w);
    tensor_file_close(&f);
    return ok;
}

typedef struct BadState { Change change; const char *words; } BadState;

/* Each change of the state "s" is named, and the sequence stays as it was. */
static void refuse_all(tblock_context *c, const BadState *bad, size_t n_bad, int length)
{
    int32_t *ids;
    size_t   n;
    for (size_t i = 0; i < n_bad; i++) {
        CHECK(rewrite(in_folder("s"), in_folder("bad"), &bad[i].change), "case %zu: %s", i,
              err.msg);
        expect(tblock_state_load(c, 0, in_folder("bad"), &ids, &n, &err), INPUT, bad[i].words);
        CHECK(tblock_seq_length(c, 0) == length, "case %zu: the sequence is as it was", i);
    }
}

static void a_state_of_another_length_is_refused(void)
{
    tblock_model   *m = model_of(STATE, 1);
    tblock_context *c = context_of(m, "f32", 1);
    Text            t = {.n = 0};
    if (!c)
        return;
    CHECK(go_on(c, 0, &t, 70) && tblock_state_save(c, 0, t.id, 70, in_folder("s"), &err), "%s",
          err.msg);
    const BadState bad[] = {
        {{.tensor = "state.layer1", .name = "kv.layer1"},
          "tensor state.layer1: expected F32 of rank 1, found no such tensor"},
        {{.tensor = "state.layer1", .rank = 1, .shape = {107}, .dtype = DT_F32},
          "tensor state.layer1: expected [112], found [107]"},
        {{.tensor = "state.layer1", .rank = 2, .shape = {3, 36}, .dtype = DT_F32},
          "tensor state.layer1: expected F32 of rank 1, found F32 [3, 36]"},
    };
    refuse_all(c, bad, sizeof bad / sizeof *bad, 70);
    tblock_context_free(c);
    tblock_close(m);
}

static void every_difference_is_named(void)
{
    tblock_model   *m = model_of(0, 1), *twin;
    tblock_context *c = context_of(m, "f32", 1);
    Text            t = {.n = 0};
    int32_t        *ids;
    size_t          n;
    if (!c)
        return;
    CHECK(go_on(c, 0, &t, 130) && tblock_state_save(c, 0, t.id, 130, in_folder("s"), &err), "%s",
          err.msg);
    const int64_t bytes = (int64_t)c->kv.tile_bytes;
    const BadState bad[] = {
        {{.key = "format", .value = "tblock"},
          "metadata format: expected \"tblock-state\", found \"tblock\""},
        {{.key = "version", .value = "2"}, "metadata version: expected 1, found \"2\""},
        {{.key = "numerics", .value = "0"}, "metadata numerics: expected \"1\", found \"0\""},
        {{.key = "numerics"}, "metadata numerics: expected \"1\", found no such entry"},
        {{.key = "model_sha256", .value = "12"}, "metadata model_sha256: expected"},
        {{.key = "model_layout", .value = "12"}, "metadata model_layout: expected"},
        {{.key = "config", .value = "{}"},
          "metadata config: expected that of this model, found another"},
        {{.key = "math", .value = "bf16"}, "metadata math: expected \"f32\", found \"bf16\""},
        {{.key = "weight_types", .value = "q8"},
          "metadata weight_types: expected \"f32\", found \"q8\""},
        {{.key = "activations", .value = "16"},
          "metadata activations: expected \"none\", found \"16\""},
        {{.key = "kv_type", .value = "f16"}, "metadata kv_type: expected \"f32\", found \"f16\""},
        {{.tensor = "tokens", .name = "token"},
          "tensor tokens: expected I32 of rank 1, found no such tensor"},
        {{.tensor = "tokens", .rank = 1, .shape = {130}, .dtype = DT_F32},
         "tensor tokens: expected I32 of rank 1, found F32 [130]"},
        {{.tensor = "tokens", .rank = 2, .shape = {130, 1}, .dtype = DT_I32},
         "tensor tokens: expected I32 of rank 1, found I32 [130, 1]"},
        {{.tensor = "tokens", .rank = 1, .shape = {0}, .dtype = DT_I32},
          "tensor tokens: expected at least one"},
        {{.tensor = "tokens", .rank = 1, .shape = {128}, .dtype = DT_I32},
          "tensor kv.layer0: expected [2, "},
        {{.tensor = "kv.layer1", .name = "kv.layer2"},
          "tensor kv.layer1: expected U8 of rank 2, found no such tensor"},
        {{.tensor = "kv.layer1", .rank = 2, .shape = {2, bytes}, .dtype = DT_U8},
          "tensor kv.layer1: expected [3, "},
        {{.tensor = "kv.layer0", .rank = 2, .shape = {4, bytes}, .dtype = DT_U8},
          "tensor kv.layer0: expected [3, "},
        {{.tensor = "kv.layer0", .rank = 2, .shape = {0, bytes}, .dtype = DT_U8},
          "tensor kv.layer0: expected [3, "},
        {{.tensor = "kv.layer0", .rank = 2, .shape = {6, bytes / 2}, .dtype = DT_U8},
          "tensor kv.layer0: expected [3, "},
        {{.tensor = "kv.layer0", .rank = 2, .shape = {3, bytes}, .dtype = DT_I8},
         "tensor kv.layer0: expected U8 of rank 2, found I8"},
        {{.extra = 8}, "expected 3 tensors, found 4"},
        {{.tokens_first = true},
          "tensor kv.layer0: expected an offset that is a multiple of 64, found"},
    };
    refuse_all(c, bad, sizeof bad / sizeof *bad, 130);
    CHECK(rewrite(in_folder("s"), in_folder("bad"), &(Change){.key = "tblock", .value = "9"}), "%s",
          err.msg);
    CHECK(tblock_state_load(c, 0, in_folder("bad"), &ids, &n, &err),
          "another program version is no difference: %s",
          err.msg);
    tblock_free(ids);
    expect(tblock_state_load(c, 1, in_folder("s"), &ids, &n, &err), USAGE,
           "sequence: expected 0 to 0, found 1");
    expect(tblock_state_load(c, 0, in_folder("none"), &ids, &n, &err), INPUT, "none: cannot open");
    expect(tblock_state_load(c, 0, in_folder("m.bin"), &ids, &n, &err), INPUT,
           "expected \"tblock-state\", found \"tblock\"");
    expect(tblock_state_save(c, 0, t.id, 129, in_folder("x"), &err), USAGE,
           "expected the 130 that it holds, found 129");
    expect(tblock_state_save(c, 0, t.id, 130, in_folder("m.bin"), &err), USAGE, "m.bin");
    CHECK(tblock_seq_rewind(c, 0, 0, &err), "%s", err.msg);
    expect(tblock_state_save(c, 0, t.id, 0, in_folder("x"), &err), USAGE, "at least 1, found 0");
    tblock_context_free(c);
    c = tblock_context_new(m, &(tblock_context_options){.n_ctx = 129}, &err);
    expect(tblock_state_load(c, 0, in_folder("s"), &ids, &n, &err), USAGE,
           "the state has 130 tokens, but the context holds 129");
    tblock_context_free(c);
    tblock_close(m);
    twin = model_of(0, 2); /* the same shape, other weights */
    c    = context_of(twin, "f32", 1);
    if (c)
        expect(tblock_state_load(c, 0, in_folder("s"), &ids, &n, &err), INPUT,
               "metadata model_sha256: expected");
    tblock_context_free(c);
    tblock_close(twin);
}

/* Without the recorded hash the data is read: other weights are another model, the same ones are
 * the same. */
static void a_model_without_a_hash_is_still_told_from_another(void)
{
    int32_t *ids;
    size_t   n;
    for (int seed = 1; seed <= 2; seed++) {
        tblock_model *m = model_of(0, seed);
        tblock_close(m);
        CHECK(rewrite(in_folder("m.bin"), in_folder(seed == 1 ? "one.bin" : "two.bin"),
                      &(Change){.key = "sha256"}), "%s",
              err.msg);
    }
    tblock_model   *one = tblock_open(in_folder("one.bin"), NULL, &err),
                   *two = tblock_open(in_folder("two.bin"), NULL, &err);
    tblock_context *c = context_of(one, NULL, 1), *d = context_of(two, NULL, 1);
    Text            t = {.n = 0};
    if (!c || !d)
        return;
    CHECK(go_on(c, 0, &t, 20) && tblock_state_save(c, 0, t.id, 20, in_folder("h"), &err), "%s",
          err.msg);
    expect(tblock_state_load(d, 0, in_folder("h"), &ids, &n, &err), INPUT,
           "metadata model_sha256: expected");
    CHECK(tblock_state_load(c, 0, in_folder("h"), &ids, &n, &err), "%s", err.msg);
    tblock_free(ids);
    tblock_context_free(c);
    tblock_context_free(d);
    tblock_close(one);
    tblock_close(two);
}

/* A file with a byte changed is refused or, where the byte is a key, a value or nothing, loaded:
 * never worse. */
static void a_damaged_file_does_no_harm(void)
{
    tblock_model   *m = model_of(70, 1);
    tblock_context *c = context_of(m, "q8", 1);
    Text            t = {.n = 0};
    size_t          size, n;
    int32_t        *ids;
    int             refused = 0;
    if (!c)
        return;
    CHECK(go_on(c, 0, &t, 150) && tblock_state_save(c, 0, t.id, 150, in_folder("s"), &err), "%s",
          err.msg);
    char *data = contents(in_folder("s"), &size);
    for (int i = 0; data && i < 400; i++) {
        size_t at  = i < 300 ? (size_t)below(1500) : size - 1 - (size_t)below(600);
        size_t cut = i % 10 ? size : (size_t)below((int)size);
        char   was = data[at];
        data[at]   = (char)below(256);
        unlink(in_folder("damaged")); /* it may be mapped */
        FILE *f = fopen(in_folder("damaged"), "w");
        CHECK(f && fwrite(data, 1, cut, f) == cut && fclose(f) == 0, "cannot write");
        data[at] = was;
        if (!tblock_state_load(c, 0, in_folder("damaged"), &ids, &n, &err)) {
            refused++;
            continue;
        }
        for (size_t j = 0; j < n; j++)
            CHECK(ids[j] >= 0 && ids[j] < VOCAB, "token %d", ids[j]);
        tblock_free(ids);
        t.n = (int)n;
        CHECK(go_on(c, 0, &t, 3), "%s", err.msg);
    }
    CHECK(refused > 100, "%d refused", refused);
    free(data);
    tblock_context_free(c);
    tblock_close(m);
}

static void learned_positions_bound_the_context(void)
{
    CHECK(write_config("{\"d_model\": 36, \"n_layers\": 1, \"heads\": 6, \"d_ff\": 40, "
                       "\"vocab_size\": 50, \"n_ctx\": 80, "
                       "\"positions\": \"learned\"}"),
          "cannot write");
    tblock_model *m = tblock_synth(in_folder("config.json"), in_folder("m.bin"), NULL, &err)
        ? tblock_open(in_folder("m.bin"), NULL, &err)
        : NULL;
    CHECK(m, "%s", err.msg);
    if (!m)
        return;
    tblock_context *c = tblock_context_new(m, &(tblock_context_options){.n_ctx = 81}, &err);
    expect(c != NULL, USAGE,
           "n_ctx: expected at most 80, the number of learned positions, found 81");
    c = tblock_context_new(m, &(tblock_context_options){.n_ctx = 80}, &err);
    Text t = {.n = 0};
    CHECK(c && go_on(c, 0, &t, 80) && !go_on(c, 0, &t, 1), "%s", err.msg);
    tblock_context_free(c);
    tblock_close(m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 0); /* each state is synced, which takes a disk a while */
    if (!make_folder())
        return 4;
    TEST(a_copy_shares_full_tiles);
    TEST(wrong_copies_are_refused);
    TEST(random_operations_leave_the_bits_of_a_fresh_start);
    TEST(learned_positions_bound_the_context);
    TEST(a_loaded_state_goes_on_with_the_same_bits);
    TEST(a_file_tells_nothing_of_other_sequences);
    TEST(a_state_of_another_length_is_refused);
    TEST(every_difference_is_named);
    TEST(a_model_without_a_hash_is_still_told_from_another);
    TEST(a_damaged_file_does_no_harm);
    static const char *const names[] = {
        "config.json", "m.bin", "one.bin", "two.bin", "random.state", "s",
        "a",           "b",     "h",       "bad",     "damaged"
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(in_folder(names[i]));
    rmdir(folder);
    return TEST_END();
}
