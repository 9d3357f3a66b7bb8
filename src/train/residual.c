/* train/residual.c: sums along the residual stream, and dropout. */
#include "base/number.h"
#include "train/train_ops.h"

enum { ADD_PIECE = 16384 }; /* elements; a multiple of 4, the words of one Philox call */

typedef struct Residual {
    const Crew       *c;
    float            *out;
    const float      *x, *y;
    float             scale;
    const DropoutKey *key;
    uint64_t          first;
} Residual;

static void add_piece(void *arg, size_t at, int n)
{
    const Residual *r = arg;
    for (size_t j = at; j < at + (size_t)n; j++)
        r->out[j] = r->x[j] + r->y[j] * r->scale;
}

void residual_add(const Crew *c, float *out, const float *x, const float *y, float scale, size_t n)
{
    Residual r = { .c = c, .out = out, .x = x, .y = y, .scale = scale };
    crew_cut(c, n, ADD_PIECE, add_piece, &r);
}

static void scale_piece(void *arg, size_t at, int n)
{
    const Residual *r = arg;
    r->c->k->scale(r->out + at, r->scale, n);
}

void scale_all(const Crew *c, float *x, float m, size_t n)
{
    Residual r = { .c = c, .out = x, .scale = m };
    if (m != 1.0f)
        crew_cut(c, n, ADD_PIECE, scale_piece, &r);
}

/* One call of Philox serves four elements: key = seed, counter = (number / 4 in 64 bits, site,
 * step). params_init's counters end in (tensor, 1), those of training windows in (step's high
 * word, 2). So at steps 1 and 2 some masks use words that weights or windows used too. That is
 * harmless: elements of a mask stay independent of each other, and which weights share their
 * words is chance. */
static void drop_piece(void *arg, size_t at, int n)
{
    const Residual *r    = arg;
    const uint32_t  key[2] = { (uint32_t)r->key->seed, (uint32_t)(r->key->seed >> 32) };
    double          edge = (double)r->key->p * 0x1p32;
    uint32_t        word[4];
    for (size_t j = at; j < at + (size_t)n; j++) {
        uint64_t number = r->first + j;
        if (j == at || number % 4 == 0)
            philox4x32((uint32_t[4]){ (uint32_t)(number / 4), (uint32_t)(number / 4 >> 32),
                                      r->key->site, r->key->step },
                       key, word);
        r->out[j] = (double)word[number % 4] < edge ? 0.0f : r->out[j] * r->scale;
    }
}

void dropout(const Crew *c, float *x, const DropoutKey *k, uint64_t first, size_t n)
{
    Residual r = { .c = c, .out = x, .scale = 1.0f / (1.0f - k->p), .key = k, .first = first };
    if (k->p > 0)
        crew_cut(c, n, ADD_PIECE, drop_piece, &r);
}
