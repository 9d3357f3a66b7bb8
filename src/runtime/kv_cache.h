/* runtime/kv_cache.h: the keys and values of every sequence, in tiles of 64 positions that are taken as a sequence grows.
 *
 * A tile holds 64 consecutive positions, at absolute boundaries, of all KV heads of one layer: the unit of the attention
 * sum (docs/numerics.md), so how the cache is cut never shows in the result. A windowed layer gives tiles back that its
 * next query cannot see any more: it holds the window plus the batch, rounded up to tiles, for ever.
 *
 * Of each KV head in a tile there lie, one after the other: K [4][head_dim][16], V [64][v_stride] of the type, and for KV_Q8
 * the scales, f32 [64] of K and [64] of V. Each head begins at a multiple of 64 bytes; so do its scales. */
#ifndef RUNTIME_KV_CACHE_H
#define RUNTIME_KV_CACHE_H

#include "base/file.h"
#include "kernels/kernels.h"
#include "model/config.h"

typedef struct KvShape {
    int    n_layers, kv_heads, head_dim;
    int    window;                      /* 0: none */
    KvType type;
    Layers full_layers;                 /* those without the window */
} KvShape;

KvShape kv_shape(const Config *c, KvType type);

typedef struct KvMap { FileMap file; int users; } KvMap; /* a mapped state; closed with the last tile that lies in it */

/* One tile, of one layer. Sequences that share a prefix share its tiles; who writes to a shared one takes a copy before. */
typedef struct KvTile {
    void          *data;                /* tile_bytes, 64-byte aligned */
    int            users;               /* sequences that hold it      */
    KvMap         *map;                 /* where data lies; NULL: memory of its own */
    struct KvTile *next;                /* of the spare ones           */
} KvTile;

/* Tiles lie side by side in chunks of the system's pages, which are zero and belong to the thread that writes first. */
typedef struct KvChunk {
    void  *data;
    size_t bytes;                       /* mapped; the last tile may end before */
    size_t used;
    struct KvChunk *next;               /* the older ones, which are full       */
} KvChunk;

typedef struct KvTiles {                /* one layer of one sequence */
    KvTile **tile;                      /* [n] by tile number; NULL where given up */
    int    n, cap, first;               /* tiles below first are given up */
} KvTiles;

typedef struct KvSeq {
    int      length;                    /* tokens held */
    KvTiles *layer;                     /* [n_layers]  */
} KvSeq;

typedef struct KvCache {
    KvShape shape;
    int     v_stride;                   /* head_dim rounded up to 16 */
    size_t  head_bytes, tile_bytes;     /* K and V of one KV head in a tile; all heads */
    size_t  bytes;                      /* tiles in use, spare and mapped ones included, shared ones once */
    int     n_seqs;
    KvSeq  *seq;
    KvTile *spare;                      /* in nobody's use */
    KvChunk *chunk;                     /* tiles of its own, the newest first */
} KvCache;

bool kv_cache_init(KvCache *c, const KvShape *shape, int n_seqs, Error *err);
void kv_cache_free(KvCache *c);         /* a zeroed KvCache is accepted */

/* What `bytes` becomes for one sequence that grows from 0 to n_tok tokens in pieces of n_batch (the last may be shorter),
 * by the formulas that kv_cache_reserve allocates with. shape is one that kv_cache_init accepts. */
size_t kv_cache_plan_bytes(const KvShape *shape, int n_tok, int n_batch);

/* Make room for n_new tokens after seq's length, in every layer; give back what a windowed layer no longer needs.
 * Does not change the length. Fails with SYSTEM when memory runs out (what was taken stays with the sequence). */
bool kv_cache_reserve(KvCache *c, int seq, int n_new, Error *err);

/* Make seq `to`, whatever it held, the first `length` tokens of seq `from` (another one), without copying: full tiles stay
 * shared, the last partial one until either writes to it. Fails with USAGE when a windowed layer of `from` has given up
 * what the next token needs, and with SYSTEM without memory; `to` is then empty. */
bool kv_cache_share(KvCache *c, int from, int to, int length, Error *err);

/* The first tile of a layer that the token after `length` others sees. */
int kv_cache_first_tile(const KvCache *c, int layer, int length);

/* A tile as it is stored: zeros where no position is, so that a file tells nothing of other sequences. out: [tile_bytes] */
void kv_cache_tile_clean(const KvCache *c, int seq, int layer, int tile, void *out);

/* Tiles of one layer, from number `first` to the last, in a mapping: [tiles, tile_bytes], aligned to 64 bytes. */
typedef struct KvMapped { const void *data; int first; } KvMapped;

/* Make seq, which is empty, a sequence of `length` tokens whose tiles lie in a mapping: layer [n_layers]. *file is taken over
 * (and zeroed) on success; on failure (SYSTEM) seq is empty. */
bool kv_cache_adopt(KvCache *c, int seq, int length, const KvMapped *layer, FileMap *file, Error *err);

/* Forget the tokens from `length` on. False when a windowed layer has given up a position that is needed then. */
bool kv_cache_rewind(KvCache *c, int seq, int length);

/* Bytes of an element, and of the scale that a type keeps for each position of a head (of K and of V: two of them). */
size_t kv_element_bytes(KvType t);
size_t kv_scale_bytes(KvType t);

/* Store one position of one KV head: k, v are [head_dim] f32, rounded to the cache's type. The tile must be reserved. */
void kv_cache_put(const KvCache *c, const Kernels *kernels, int seq, int layer, int kv_head, int pos, const float *k,
                  const float *v);

/* K panels and V rows of one KV head in tile number `tile` (kernels.h: AttnTile). */
const void *kv_cache_k(const KvCache *c, int seq, int layer, int kv_head, int tile);
const void *kv_cache_v(const KvCache *c, int seq, int layer, int kv_head, int tile);

/* KV_Q8: the 64 scales of K, then the 64 of V; NULL for the float types. */
const float *kv_cache_scales(const KvCache *c, int seq, int layer, int kv_head, int tile);

#endif
