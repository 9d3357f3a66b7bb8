/* api/ranks_orders.h: the orders of rank 0 to the others: ranks_orders.c sends them, ranks_api.c
 * executes them. */
#ifndef API_RANKS_ORDERS_H
#define API_RANKS_ORDERS_H

#include "api/api.h"

typedef enum OrderKind {
    ORDER_END, ORDER_OPEN, ORDER_CLOSE, ORDER_CONTEXT, ORDER_AHEAD, ORDER_FREE, ORDER_DECODE,
    ORDER_REWIND, ORDER_COPY, ORDER_SAVE, ORDER_START, ORDER_TILES, ORDER_LORA,
    ORDER_HASH
} OrderKind;

/* What rank 0 broadcasts. Ranks may run on different processors, but all have little-endian
 * integers (base/cpu.h). More than `with` holds follows in a broadcast of its own. */
enum { ORDER_WITH = 480, ORDER_BYTES = 1 << 30 };
typedef struct Order {
    int32_t kind, id, number[4];
    int32_t n_bytes, unused;
    char    with[ORDER_WITH];
} Order;
_Static_assert(sizeof(Order) == 512, "the same on every rank");

/* Is there an observer of the pass? The states for it are gathered first, on all ranks. */
enum { NOT_SEEN, SEEN, SEEN_LAST /* only POOLED_STATE */ };

/* kept: of its sequence (KvSeq), so that all ranks can rewind as far. lora: 1 + the index of its
 * adapters among the sets that come with the order; 0: none. */
typedef struct OrderItem {
    uint16_t seq, lora;
    int32_t  pos, token;
    uint32_t logits : 1, state : 1, kept : 30;
} OrderItem;
_Static_assert(sizeof(OrderItem) == 16, "the same on every rank");

/* Adapters that are used together, by their numbers in the model. */
typedef struct OrderLora {
    int32_t n, number[LORA_MOST], unused;
    double  scale[LORA_MOST];
} OrderLora;
_Static_assert(sizeof(OrderLora) == 200, "the same on every rank");

enum { ORDER_NAME = 16 };
typedef struct OrderContext {
    int32_t n_ctx, n_seqs, n_batch, threads, rope_length, allow_nan;
    char    isa[ORDER_NAME], math[ORDER_NAME], activations[ORDER_NAME], kv_type[ORDER_NAME],
            affinity[ORDER_NAME], pages[ORDER_NAME];
} OrderContext;
_Static_assert(sizeof(OrderContext) <= ORDER_WITH, "fits into an order");

/* An order, and what comes with it; ranks_order: on its own, in this thread's turn. A failure stays
 * in r->error: the next decode reports it. */
bool ranks_send_order(Ranks *r, Order *o, const void *with, size_t n_bytes);
void ranks_order(Ranks *r, OrderKind kind, int id, int a, int b, int c, int d);
bool ranks_exchange_failed(const Ranks *r, Error *err); /* err: why */

/* Every rank reports its error (status 0: none), and the hash of what it has opened if that must be
 * the same. Rank 0 fails with the first that is bad, and names its machine. */
bool ranks_agree(Ranks *r, const Error *own, const char *hash, Error *err);

/* This rank's part of ranks_check_hash; all ranks call it. Models that record no hash are compared
 * with rank 0's. */
bool ranks_check_hash_here(Ranks *r, const Source *s, Error *err);

/* Bytes of the state that each item of this context reads. */
size_t ranks_before_bytes(const tblock_context *c);

#endif
