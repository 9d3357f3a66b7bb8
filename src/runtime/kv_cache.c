/* runtime/kv_cache.c: takes tiles from chunks of pages, shares them between sequences, releases
 * them, and writes keys and values into them. Tiles without users are kept for the next
 * sequence. */
#include "runtime/kv_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/sound.h"

static const struct { const char *name; size_t element, scale; } types[KV_COUNT] = {
    [KV_F32] = {"f32", 4, 0}, [KV_F16] = {"f16", 2, 0}, [KV_Q8] = {"q8", 1, 4},
};

const char *kv_type_name(KvType t) { return types[t].name; }
size_t      kv_element_bytes(KvType t) { return types[t].element; }
size_t      kv_scale_bytes(KvType t) { return types[t].scale; }

static int v_stride(const KvShape *s) { return (int)round_up((size_t)s->head_dim, LANES); }

/* K of one KV head in a tile, beside V. */
static size_t k_bytes(const KvShape *s)
{
    return s->v_is_k ? 0 : (size_t)KV_TILE * (size_t)s->head_dim * kv_element_bytes(s->type);
}

/* K and V of one KV head in a tile, without scales. A multiple of 64, because KV_TILE elements
 * of any type are. */
static size_t code_bytes(const KvShape *s)
{
    return k_bytes(s) + (size_t)KV_TILE * (size_t)v_stride(s) * kv_element_bytes(s->type);
}

static size_t head_bytes(const KvShape *s)
{
    return code_bytes(s) + (s->v_is_k ? 1u : 2u) * KV_TILE * kv_scale_bytes(s->type);
}

static int tiles_for(int n_tok) { return (n_tok + KV_TILE - 1) / KV_TILE; }

KvShape kv_shape(const Config *c, KvType type)
{
    return (KvShape){ .n_layers = c->n_layers,
                      .kv_heads = c->kv_heads,
                      .head_dim = c->head_dim,
                      .v_is_k = config_kv_vectors(c) == 1,
                      .window = c->window,
                      .chunked = c->window_chunked,
                      .type = type,
                      .full_layers = c->full_layers,
                      .state_layers = c->state_layers,
                      .state_floats = config_state_floats(c) };
}

static bool is_state(const KvShape *s, int layer) { return layers_has(&s->state_layers, layer); }

/* Bytes of the states of one sequence. */
static size_t state_bytes(const KvShape *s)
{
    size_t n = 0;
    for (int l = 0; l < s->n_layers; l++)
        n += is_state(s, l) ? s->state_floats * sizeof(float) : 0;
    return n;
}

/* The oldest position that the next query sees in a layer, if the sequence has `length` tokens. */
static int oldest_seen(const KvShape *s, int layer, int length)
{
    return layers_has(&s->full_layers, layer) ? 0 : window_oldest(s->window, s->chunked, length);
}

/* The number of tiles in all layers while n_new tokens are added to `length`. */
static size_t tiles_held(const KvShape *s, int length, int n_new)
{
    size_t n = 0;
    for (int l = 0; l < s->n_layers; l++)
        if (!is_state(s, l))
            n += (size_t)(tiles_for(length + n_new) - oldest_seen(s, l, length) / KV_TILE);
    return n;
}

/* Tiles are released before new ones are taken, and spare ones stay allocated. So the memory is
 * the largest number of tiles ever held at once. */
size_t kv_cache_plan_bytes(const KvShape *s, int n_tok, int n_batch)
{
    size_t most = 0;
    for (int length = 0; length < n_tok;) {
        int    n_new = n_tok - length < n_batch ? n_tok - length : n_batch;
        size_t held  = tiles_held(s, length, n_new);
        most         = held > most ? held : most;
        length      += n_new;
    }
    return most * (size_t)s->kv_heads * head_bytes(s) + state_bytes(s);
}

/* Does tile number i in layer l of a sequence have as many users as it says? n: counts tiles that
 * are not mapped, and those that are; a tile counts with its first user. */
static bool tile_is_sound(const KvCache *c, int seq, int l, int i, size_t n[2])
{
    const KvTile *tile = c->seq[seq].layer[l].tile[i];
    int           users = 0, first = c->n_seqs;
    for (int s = c->n_seqs - 1; tile && s >= 0; s--)
        if (i < c->seq[s].layer[l].n && c->seq[s].layer[l].tile[i] == tile) {
            users++;
            first = s;
        }
    if (!tile || tile->users != users)
        return false;
    n[tile->map != NULL] += first == seq;
    return true;
}

static bool layer_is_sound(const KvCache *c, int seq, int l, size_t n[2])
{
    const KvTiles *t      = &c->seq[seq].layer[l];
    const int      length = c->seq[seq].length;
    if (is_state(&c->shape, l))
        return t->state && t->n == 0;
    bool sound = !t->state && t->first >= 0 && t->first <= t->n && t->n <= t->cap
        && tiles_for(length) <= t->n
        && (length == 0 || t->first * KV_TILE <= oldest_seen(&c->shape, l, length));
    for (int i = 0; sound && i < t->n; i++)
        sound = i < t->first ? !t->tile[i] : tile_is_sound(c, seq, l, i, n);
    return sound;
}

bool kv_cache_is_sound(const KvCache *c)
{
    size_t n[2] = { 0 }, used = 0;
    for (int s = 0; s < c->n_seqs; s++)
        for (int l = 0; l < c->shape.n_layers; l++)
            if (!layer_is_sound(c, s, l, n))
                return false;
    for (const KvTile *t = c->spare; t; t = t->next) /* bounded, even if it is a circle */
        if (t->users != 0 || t->map || ++n[0] * c->tile_bytes > c->bytes)
            return false;
    for (const KvChunk *k = c->chunk; k; k = k->next) {
        used += k->used;
        if (k->used > k->bytes || (k != c->chunk && k->bytes - k->used >= c->tile_bytes))
            return false;
    }
    return used == n[0] * c->tile_bytes
        && c->bytes == used + n[1] * c->tile_bytes + (size_t)c->n_seqs * state_bytes(&c->shape);
}

static bool seq_init(KvSeq *s, const KvShape *shape)
{
    bool good = (s->layer = calloc((size_t)shape->n_layers, sizeof *s->layer)) != NULL;
    for (int l = 0; good && l < shape->n_layers; l++)
        if (is_state(shape, l))
            good = (s->layer[l].state = calloc(shape->state_floats, sizeof(float))) != NULL;
    return good;
}

bool kv_cache_init(KvCache *c, const KvShape *shape, int n_seqs, Error *err)
{
    *c = (KvCache){.shape = *shape, .n_seqs = n_seqs};
    c->v_stride   = v_stride(shape);
    c->head_bytes = head_bytes(shape);
    if (!mul_size(c->head_bytes, (size_t)shape->kv_heads, &c->tile_bytes))
        return fail(err, INPUT, "a KV tile of %d heads x %d is too large", shape->kv_heads,
                    shape->head_dim);
    c->seq = calloc((size_t)n_seqs, sizeof *c->seq);
    for (int s = 0; c->seq && s < n_seqs; s++)
        if (!seq_init(&c->seq[s], shape))
            kv_cache_free(c);
    c->bytes = c->seq ? (size_t)n_seqs * state_bytes(shape) : 0;
    return c->seq ? true : fail(err, SYSTEM, "out of memory for %d sequences", n_seqs);
}

/* Adds a chunk for n tiles, plus a quarter of the current size so that chunks stay few. Pages
 * that no tile uses are never touched. Decode reads every tile for every token, so a large cache
 * uses huge pages (base/pages.c). */
static bool add_chunk(KvCache *c, size_t n_tiles)
{
    size_t   bytes, page = 4096;
    KvChunk *chunk = malloc(sizeof *chunk);
    if (!chunk)
        return false;
    if (mul_size(n_tiles, c->tile_bytes, &bytes) && add_size(bytes, c->bytes / 4, &bytes)
        && bytes < SIZE_MAX / 2
        && (bytes < HUGE_PAGE || memory_is_there(n_tiles * c->tile_bytes))) {
        page   = bytes < HUGE_PAGE ? page : HUGE_PAGE;
        bytes  = round_up(bytes, page);
        *chunk = (KvChunk){.data = pages_map(bytes), .bytes = bytes, .next = c->chunk};
        if (chunk->data) {
            c->chunk = chunk;
            return true;
        }
    }
    free(chunk);
    return false;
}

/* Takes a spare tile or cuts one from a chunk. New tiles are zero: kernels multiply lanes without
 * a position like any other (and drop the result). n_more: tiles taken after this one. */
static KvTile *take_tile(KvCache *c, size_t n_more)
{
    KvTile *tile = c->spare;
    if (tile) {
        c->spare    = tile->next;
        tile->users = 1;
        return tile;
    }
    if ((!c->chunk || c->chunk->bytes - c->chunk->used < c->tile_bytes)
        && !add_chunk(c, n_more + 1))
        return NULL;
    tile = malloc(sizeof *tile);
    if (!tile)
        return NULL;
    *tile = (KvTile){.data = (char *)c->chunk->data + c->chunk->used, .users = 1};
    c->chunk->used += c->tile_bytes;
    c->bytes       += c->tile_bytes;
    return tile;
}

static void release_map(KvMap *map)
{
    if (--map->users > 0)
        return;
    file_map_close(&map->file);
    free(map);
}

/* The sequence no longer uses the tile. Without users, a tile becomes spare; a mapped one is
 * freed. */
static void release_tile(KvCache *c, KvTile *tile)
{
    if (--tile->users > 0)
        return;
    if (tile->map) {
        release_map(tile->map);
        c->bytes -= c->tile_bytes;
        free(tile);
        return;
    }
    tile->next = c->spare;
    c->spare   = tile;
}

void kv_cache_free(KvCache *c)
{
    for (int s = 0; c->seq && s < c->n_seqs; s++) {
        for (int l = 0; c->seq[s].layer && l < c->shape.n_layers; l++) {
            KvTiles *t = &c->seq[s].layer[l];
            for (int i = t->first; i < t->n; i++)
                release_tile(c, t->tile[i]);
            free(t->tile);
            free(t->state);
        }
        free(c->seq[s].layer);
    }
    free(c->seq);
    for (KvTile *next; c->spare; c->spare = next) {
        next = c->spare->next;
        free(c->spare);
    }
    for (KvChunk *next; c->chunk; c->chunk = next) {
        next = c->chunk->next;
        pages_unmap(c->chunk->data, c->chunk->bytes);
        free(c->chunk);
    }
    *c = (KvCache){0};
}

static bool grow_table(KvTiles *t, int n)
{
    if (n <= t->cap)
        return true;
    int      cap  = n > 2 * t->cap ? n : 2 * t->cap;
    KvTile **tile = realloc(t->tile, (size_t)cap * sizeof *tile);
    if (!tile)
        return false;
    t->tile = tile;
    t->cap  = cap;
    return true;
}

/* The next position's tile must belong to this sequence alone: copies it if it is shared. */
static bool own_last_tile(KvCache *c, int seq, int layer)
{
    int      length = c->seq[seq].length;
    KvTile **tile = &c->seq[seq].layer[layer].tile[length / KV_TILE];
    if (length % KV_TILE == 0 || (*tile)->users == 1)
        return true;
    KvTile *own = take_tile(c, 0);
    if (!own)
        return false;
    memcpy(own->data, (*tile)->data, c->tile_bytes);
    release_tile(c, *tile);
    *tile = own;
    return true;
}

/* Releases the tiles that neither the next query of their layer sees, nor one after a planned
 * rewind. */
static void give_back(KvCache *c, KvSeq *s)
{
    const int needed = s->kept && s->kept < s->length ? s->kept : s->length;
    for (int l = 0; l < c->shape.n_layers; l++) {
        KvTiles *t     = &s->layer[l];
        int      first = oldest_seen(&c->shape, l, needed);
        for (; t->first < t->n && (t->first + 1) * KV_TILE <= first; t->first++) {
            release_tile(c, t->tile[t->first]);
            t->tile[t->first] = NULL;
        }
    }
}

bool kv_cache_reserve(KvCache *c, int seq, int n_new, Error *err)
{
    KvSeq *s    = &c->seq[seq];
    int    need = tiles_for(s->length + n_new);
    give_back(c, s);
    for (int l = 0; l < c->shape.n_layers; l++) {
        KvTiles *t = &s->layer[l];
        if (t->state)
            continue;
        if (!grow_table(t, need) || !own_last_tile(c, seq, l))
            return fail(err, SYSTEM, "out of memory for a KV cache of %d positions",
                        s->length + n_new);
        for (; t->n < need; t->n++) {
            size_t left = (size_t)(need - t->n);
            t->tile[t->n] = take_tile(c, left - 1 + left * (size_t)(c->shape.n_layers - l - 1));
            if (!t->tile[t->n])
                return fail(err, SYSTEM,
                            "out of memory for a KV cache of %d positions (%zu MB in use)",
                            s->length + n_new, c->bytes >> 20);
        }
    }
    ASSERT_SOUND(kv_cache_is_sound(c));
    return true;
}

/* Does the cache still hold everything that the token at position `length` sees? */
static bool reaches_back(const KvCache *c, int seq, int length)
{
    if (c->shape.state_floats && length > 0 && length != c->seq[seq].length)
        return false;
    for (int l = 0; length > 0 && l < c->shape.n_layers; l++)
        if (c->seq[seq].layer[l].first * KV_TILE > oldest_seen(&c->shape, l, length))
            return false;
    return true;
}

bool kv_cache_rewind(KvCache *c, int seq, int length)
{
    KvSeq *s = &c->seq[seq];
    if (!reaches_back(c, seq, length))
        return false;
    int keep = tiles_for(length);
    for (int l = 0; l < c->shape.n_layers; l++) {
        KvTiles *t = &s->layer[l];
        for (; t->n > keep && t->n > t->first; t->n--)
            release_tile(c, t->tile[t->n - 1]);
        if (length == 0)
            t->n = t->first = 0;
        if (length == 0 && t->state)
            memset(t->state, 0, c->shape.state_floats * sizeof *t->state);
    }
    s->length = length;
    ASSERT_SOUND(kv_cache_is_sound(c));
    return true;
}

/* Marks the first `first` tiles of an empty layer as released. */
static void start_at(KvTiles *t, int first)
{
    for (int i = 0; i < first; i++)
        t->tile[i] = NULL;
    t->n = t->first = first;
}

/* Empties the sequence and sizes its tables for the tiles of `length` tokens. */
static bool start_tables(KvCache *c, int seq, int length, Error *err)
{
    kv_cache_rewind(c, seq, 0);
    for (int l = 0; l < c->shape.n_layers; l++) {
        KvTiles *t = &c->seq[seq].layer[l];
        if (!t->state && !grow_table(t, tiles_for(length)))
            return fail(err, SYSTEM, "out of memory for a KV cache of %d positions", length);
    }
    return true;
}

const char *kv_cache_lost(const KvShape *s, char buf[KV_LOST])
{
    if (s->state_floats)
        snprintf(buf, KV_LOST, "layers with a state (state_layers) hold only what all tokens made");
    else
        snprintf(buf, KV_LOST, "the sliding window of %d no longer holds them", s->window);
    return buf;
}

bool kv_cache_share(KvCache *c, int from, int to, int length, Error *err)
{
    char lost[KV_LOST];
    if (!reaches_back(c, from, length)) {
        kv_cache_rewind(c, to, 0);
        return fail(err, USAGE, "sequence %d: cannot copy its first %d tokens: %s", from, length,
                    kv_cache_lost(&c->shape, lost));
    }
    if (!start_tables(c, to, length, err))
        return false;
    for (int l = 0; l < c->shape.n_layers; l++) {
        KvTiles *source = &c->seq[from].layer[l], *t = &c->seq[to].layer[l];
        if (t->state) {
            if (length > 0) /* else it is empty */
                memcpy(t->state, source->state, c->shape.state_floats * sizeof *t->state);
            continue;
        }
        start_at(t, length > 0 ? source->first : 0);
        for (; t->n < tiles_for(length); t->n++) {
            t->tile[t->n] = source->tile[t->n];
            t->tile[t->n]->users++;
        }
    }
    c->seq[to].length = length;
    ASSERT_SOUND(kv_cache_is_sound(c));
    return true;
}

int kv_cache_first_tile(const KvCache *c, int layer, int length)
{
    return oldest_seen(&c->shape, layer, length) / KV_TILE;
}

bool kv_cache_adopt(KvCache *c, int seq, int length, const KvMapped *layer, FileMap *file,
                    Error *err)
{
    KvMap *map = calloc(1, sizeof *map);
    if (!map || !start_tables(c, seq, length, err)) {
        free(map);
        return map ? false : fail(err, SYSTEM, "out of memory for a state of %d tokens", length);
    }
    map->users = 1;
    bool good = true;
    for (int l = 0; good && l < c->shape.n_layers; l++) {
        KvTiles *t = &c->seq[seq].layer[l];
        if (t->state) {
            memcpy(t->state, layer[l].data, c->shape.state_floats * sizeof *t->state);
            continue;
        }
        start_at(t, layer[l].first);
        for (; good && t->n < tiles_for(length); t->n++) {
            KvTile *tile = malloc(sizeof *tile);
            if (!tile) {
                good = fail(err, SYSTEM, "out of memory for a state of %d tokens", length);
                break;
            }
            const char *data =
                (const char *)layer[l].data + (size_t)(t->n - t->first) * c->tile_bytes;
            *tile = (KvTile){.data = (void *)(uintptr_t)data, .users = 1, .map = map};
            t->tile[t->n] = tile;
            c->bytes += c->tile_bytes;
            map->users++;
        }
    }
    if (good) {
        map->file = *file;
        *file     = (FileMap){0};
        c->seq[seq].length = length;
    } else {
        kv_cache_rewind(c, seq, 0);
    }
    release_map(map);
    ASSERT_SOUND(kv_cache_is_sound(c));
    return good;
}

bool kv_cache_start(KvCache *c, int seq, int length, int first, Error *err)
{
    if (!start_tables(c, seq, length, err))
        return false;
    for (int l = 0; l < c->shape.n_layers; l++)
        if (!is_state(&c->shape, l))
            start_at(&c->seq[seq].layer[l], kv_cache_first_tile(c, l, length) ? first : 0);
    if (!kv_cache_reserve(c, seq, length, err)) {
        kv_cache_rewind(c, seq, 0);
        return false;
    }
    c->seq[seq].length = length;
    ASSERT_SOUND(kv_cache_is_sound(c));
    return true;
}

void kv_cache_tile_set(const KvCache *c, int seq, int layer, int tile, const void *all)
{
    memcpy(c->seq[seq].layer[layer].tile[tile]->data,
           (const char *)all + (size_t)c->shape.first_kv_head * c->head_bytes, c->tile_bytes);
}

const void *kv_cache_k(const KvCache *c, int seq, int layer, int kv_head, int tile)
{
    return (const char *)c->seq[seq].layer[layer].tile[tile]->data
        + (size_t)(kv_head - c->shape.first_kv_head) * c->head_bytes;
}

const void *kv_cache_v(const KvCache *c, int seq, int layer, int kv_head, int tile)
{
    return (const char *)kv_cache_k(c, seq, layer, kv_head, tile) + k_bytes(&c->shape);
}

const float *kv_cache_k_scales(const KvCache *c, int seq, int layer, int kv_head, int tile)
{
    if (c->shape.type != KV_Q8)
        return NULL;
    return (const float *)(const void *)((const char *)kv_cache_k(c, seq, layer, kv_head, tile)
                                         + code_bytes(&c->shape));
}

const float *kv_cache_v_scales(const KvCache *c, int seq, int layer, int kv_head, int tile)
{
    const float *k = kv_cache_k_scales(c, seq, layer, kv_head, tile);
    return k && !c->shape.v_is_k ? k + KV_TILE : k;
}

/* Where one position is stored. K is in panels of 16 positions, [4][head_dim][16], so that the
 * lanes of a score are positions. V is in rows. */
typedef struct Slot {
    void  *k, *v;                       /* of the tile and head; k NULL: it is v */
    size_t k_at, v_at;                  /* of the position; K's elements are LANES apart */
    int    d_head;
} Slot;

static void put_f16(const Slot *s, const Kernels *kernels, const float *k, const float *v)
{
    for (int d = 0; s->k && d < s->d_head; d += KV_TILE) {
        uint16_t half[KV_TILE];
        int      n = s->d_head - d < KV_TILE ? s->d_head - d : KV_TILE;
        kernels->f32_to_f16(half, k + d, n);
        for (int i = 0; i < n; i++)
            ((uint16_t *)s->k)[s->k_at + (size_t)(d + i) * LANES] = half[i];
    }
    kernels->f32_to_f16((uint16_t *)s->v + s->v_at, v, s->d_head);
}

/* Quantizes K into the row where V will go (both have head_dim codes), then moves the codes to
 * their panel. */
static void put_q8(const Slot *s, const Kernels *kernels, const float *k, const float *v,
                   float *k_scale, float *v_scale)
{
    int8_t *row = (int8_t *)s->v + s->v_at;
    if (s->k)
        *k_scale = kernels->f32_to_q8(row, k, s->d_head);
    for (int d = 0; s->k && d < s->d_head; d++)
        ((int8_t *)s->k)[s->k_at + (size_t)d * LANES] = row[d];
    *v_scale = kernels->f32_to_q8(row, v, s->d_head);
}

void kv_cache_put(const KvCache *c, const Kernels *kernels, int seq, int layer, int kv_head,
                  int pos, const float *k, const float *v)
{
    int    d_head = c->shape.head_dim;
    int    tile = pos / KV_TILE, t = pos % KV_TILE;
    float *k_scale = (float *)(uintptr_t)kv_cache_k_scales(c, seq, layer, kv_head, tile),
          *v_scale = (float *)(uintptr_t)kv_cache_v_scales(c, seq, layer, kv_head, tile);
    bool   once    = c->shape.v_is_k;
    Slot   s = {
          .k      = once ? NULL : (void *)(uintptr_t)kv_cache_k(c, seq, layer, kv_head, tile),
          .v      = (void *)(uintptr_t)kv_cache_v(c, seq, layer, kv_head, tile),
          .k_at   = (size_t)(t / LANES) * (size_t)d_head * LANES + (size_t)(t % LANES),
          .v_at   = (size_t)t * (size_t)c->v_stride,
          .d_head = d_head,
    };
    v = once ? k : v;
    switch (c->shape.type) {
    case KV_F16: put_f16(&s, kernels, k, v); break;
    case KV_Q8: put_q8(&s, kernels, k, v, k_scale + t, v_scale + t); break;
    default:
        for (int d = 0; s.k && d < d_head; d++)
            ((float *)s.k)[s.k_at + (size_t)d * LANES] = k[d];
        memcpy((float *)s.v + s.v_at, v, (size_t)d_head * sizeof *v);
    }
}

void kv_cache_tile_clean(const KvCache *c, int seq, int layer, int tile, void *out)
{
    const size_t element = kv_element_bytes(c->shape.type), scale = kv_scale_bytes(c->shape.type);
    const size_t d_head = c->shape.v_is_k ? 0 : (size_t)c->shape.head_dim; /* of K beside V */
    const int    held = c->seq[seq].length - tile * KV_TILE;
    memcpy(out, c->seq[seq].layer[layer].tile[tile]->data, c->tile_bytes);
    for (int h = 0; h < c->shape.kv_heads; h++) {
        char *k = (char *)out + (size_t)h * c->head_bytes, *v = k + k_bytes(&c->shape),
             *scales = k + code_bytes(&c->shape);
        for (int t = held; t < KV_TILE; t++) {
            char *panel = k + (size_t)(t / LANES) * d_head * LANES * element;
            for (size_t d = 0; d < d_head; d++)
                memset(panel + (d * LANES + (size_t)(t % LANES)) * element, 0, element);
            memset(v + (size_t)t * (size_t)c->v_stride * element, 0, (size_t)c->v_stride * element);
            memset(scales + (size_t)t * scale, 0, scale);
            if (!c->shape.v_is_k)
                memset(scales + (size_t)(KV_TILE + t) * scale, 0, scale);
        }
    }
}
