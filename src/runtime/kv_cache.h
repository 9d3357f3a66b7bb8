/* runtime/kv_cache.h: the keys and values of every sequence, in tiles of 64 positions. A
 * sequence takes more tiles as it grows.
 *
 * A tile holds 64 consecutive positions (the first is a multiple of 64), of all KV heads of one
 * layer. It is the unit of the attention sum (docs/numerics.md), so the division into tiles
 * never changes the result. vLLM's word for a tile is block. A sliding-window layer releases tiles
 * that no later query can see: it holds at most the window plus the batch, rounded up to tiles.
 *
 * For each KV head a tile holds, one after another: K [4][head_dim][16], V [64][v_stride], and
 * for KV_Q8 the scales, f32 [64] of K and [64] of V. If K is V too (latent attention), it
 * holds V alone, and [64] scales. Each head starts at a multiple of 64 bytes; so do its scales. */
#ifndef RUNTIME_KV_CACHE_H
#define RUNTIME_KV_CACHE_H

#include "base/file.h"
#include "kernels/kernels.h"
#include "model/config.h"

typedef struct KvShape {
    int    n_layers, kv_heads, head_dim; /* kv_heads: those held here */
    int    first_kv_head;               /* a rank holds only the heads that it computes */
    bool   v_is_k;                      /* latent attention: K and V are one vector */
    int    window;                      /* 0: none */
    bool   chunked;                     /* Config.window_chunked */
    KvType type;
    Layers full_layers;                 /* layers without the window */
    Layers state_layers;                /* recurrent layers: a state and no tiles ... */
    size_t state_floats;                /* ... of this length; 0: there are none */
} KvShape;

/* The shape of a cache for a model, of all KV heads. */
KvShape kv_shape(const Config *c, KvType type);

/* A mapped file of a saved sequence, closed with the last tile that lies in it. */
typedef struct KvMap { FileMap file; int users; } KvMap;

/* One tile of one layer. Sequences with a common prefix share its tiles. A sequence that writes
 * to a shared tile copies it first. */
typedef struct KvTile {
    void          *data;                /* tile_bytes, 64-byte aligned */
    int            users;               /* sequences that use it */
    KvMap         *map;                 /* the mapping that data is in; NULL: a chunk */
    struct KvTile *next;                /* in the list of spare tiles */
} KvTile;

/* Tiles are allocated in chunks of pages from the system. The pages are zero; on machines
 * with several memory nodes they go to the node of the thread that first writes to them. */
typedef struct KvChunk {
    void  *data;
    size_t bytes;                       /* mapped; the last tile may end earlier */
    size_t used;
    struct KvChunk *next;               /* older ones, which are full */
} KvChunk;

typedef struct KvTiles {                /* one layer of one sequence */
    KvTile **tile;                      /* [n] by tile number; NULL: released */
    int    n, cap, first;               /* tiles below first are released */
    float *state;                       /* [state_floats], all zero at first; else NULL */
} KvTiles;

typedef struct KvSeq {
    int      length;                    /* tokens in the cache */
    int      kept;                      /* a rewind to here stays possible; 0: none is planned */
    KvTiles *layer;                     /* [n_layers]  */
} KvSeq;

/* Between calls (kv_cache_is_sound):
 * - A tile is in the tables of its `users`, in each at the same layer and number. A tile without
 *   users is in no table; it is in `spare`, or freed if it was mapped.
 * - A layer has released its tiles below `first`, and has tiles first .. n - 1. They cover the
 *   length of the sequence or more, and all positions that its next token sees. A layer with a
 *   state has none.
 * - The tiles that are not mapped fill the used part of the chunks. Only the newest chunk has room
 *   for another. */
typedef struct KvCache {
    KvShape shape;
    int     v_stride;                   /* head_dim rounded up to 16 */
    size_t  head_bytes, tile_bytes;     /* K and V of one KV head in a tile; of all heads */
    size_t  bytes;                      /* of all tiles, shared ones count once, and states */
    int     n_seqs;
    KvSeq  *seq;
    KvTile *spare;                      /* tiles without users */
    KvChunk *chunk;                     /* newest first */
} KvCache;

/* n_seqs empty sequences. No tile is allocated yet. Fails with SYSTEM (no memory), or with INPUT
 * if a tile would be too large. */
bool kv_cache_init(KvCache *c, const KvShape *shape, int n_seqs, Error *err);
void kv_cache_free(KvCache *c);         /* accepts a zeroed KvCache */
/* Does the invariant hold? Takes time proportional to tiles times sequences. */
bool kv_cache_is_sound(const KvCache *c);

/* The value of `bytes` after one sequence grew from 0 to n_tok tokens in chunks of n_batch (the
 * last may be shorter), as kv_cache_reserve allocates. shape: one that kv_cache_init accepts. */
size_t kv_cache_plan_bytes(const KvShape *shape, int n_tok, int n_batch);

/* Allocates tiles for n_new tokens after seq's length in every layer, and releases what a
 * windowed layer no longer needs. Does not change the length. Fails with SYSTEM (no memory); tiles
 * taken so far stay with the sequence. */
bool kv_cache_reserve(KvCache *c, int seq, int n_new, Error *err);

/* Why a sequence cannot go back to an earlier length. Returns buf. */
enum { KV_LOST = 96 };
const char *kv_cache_lost(const KvShape *s, char buf[KV_LOST]);

/* Makes sequence `to` equal to the first `length` tokens of another sequence `from`, without
 * copying: full tiles stay shared, the last partial one until either writes to it. Drops what
 * `to` held. Fails with USAGE if a windowed layer of `from` has released what the next token
 * needs, or if a state belongs to other tokens than these, and with SYSTEM (no memory). Then `to`
 * is empty. */
bool kv_cache_share(KvCache *c, int from, int to, int length, Error *err);

/* The first tile of a layer that the token at position `length` sees. */
int kv_cache_first_tile(const KvCache *c, int layer, int length);

/* Copies a tile to out [tile_bytes], with zeros at positions past the end, so that a saved
 * sequence reveals nothing of others. */
void kv_cache_tile_clean(const KvCache *c, int seq, int layer, int tile, void *out);

/* Tiles of one layer in a mapping, from number `first` to the last: [tiles, tile_bytes], aligned
 * to 64; or its state, which is copied. */
typedef struct KvMapped { const void *data; int first; } KvMapped;

/* Gives the empty sequence seq `length` tokens, with tiles that lie in a mapping; layer
 * [n_layers]. On success it takes over *file and zeroes it. On failure (SYSTEM) seq is empty. */
bool kv_cache_adopt(KvCache *c, int seq, int length, const KvMapped *layer, FileMap *file,
                    Error *err);

/* Gives sequence seq `length` tokens in tiles of its own, which kv_cache_tile_set fills.
 * first: the first tile of layers that no longer hold position 0. Fails with SYSTEM (no memory);
 * then seq is empty. */
bool kv_cache_start(KvCache *c, int seq, int length, int first, Error *err);
/* all: the tile with all KV heads of the model, of which this cache copies its own. */
void kv_cache_tile_set(const KvCache *c, int seq, int layer, int tile, const void *all);

/* Drops the tokens from `length` on. False (nothing changes) if a windowed layer has released a
 * position that is needed again, or if a layer with a state would have to undo some tokens. */
bool kv_cache_rewind(KvCache *c, int seq, int length);

const char *kv_type_name(KvType t); /* "f32", "f16", "q8" */
/* Bytes of an element, and of a scale (0 for float types). Each position of a head has one scale
 * for K, one for V. */
size_t kv_element_bytes(KvType t);
size_t kv_scale_bytes(KvType t);

/* Stores one position of one KV head. k and v are [head_dim] f32 and are rounded to the cache's
 * type; if v_is_k, v is not read. The tile must be reserved. */
void kv_cache_put(const KvCache *c, const Kernels *kernels, int seq, int layer, int kv_head,
                  int pos, const float *k, const float *v);

/* The K panels and V rows of one KV head in tile number `tile` (kernels.h: AttnTile). If v_is_k,
 * both are the rows. */
const void *kv_cache_k(const KvCache *c, int seq, int layer, int kv_head, int tile);
const void *kv_cache_v(const KvCache *c, int seq, int layer, int kv_head, int tile);

/* KV_Q8: the 64 scales of K, or of V. Float types: NULL. */
const float *kv_cache_k_scales(const KvCache *c, int seq, int layer, int kv_head, int tile);
const float *kv_cache_v_scales(const KvCache *c, int seq, int layer, int kv_head, int tile);

#endif
