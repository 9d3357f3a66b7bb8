/* search: hill climbing over the codebooks of q4 (bench/q4/search.py compiles and feeds it).
 *   search FILE... < CODEBOOK     each FILE: i32 n, i32 length[n], then n superblocks of 256 floats
 *                                 (0 past the length)
 *   options: -n STEPS (0: only judge what stands on standard input), -s SEED
 * A codebook is judged by the mean logarithm of the relative RMS error over the files, scales
 * searched thoroughly: 32 scales of a superblock, every magnitude with both signs for each 16
 * weights, then refits by least squares. Magnitudes are 1 .. 127 / the largest code, so every
 * product fits int8. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CODES = 16, BLOCK = 256, SUB = 16, MAX_FILES = 8, SCALES = 32, REFITS = 3 };

typedef struct Data { int n, *length; float *x; } Data;
typedef struct Codec { int code[CODES], top; float value[CODES], middle[CODES - 1]; } Codec;
typedef struct Fit { float error, dot, square; } Fit; /* of x with what its codes stand for */

static Data    data[MAX_FILES];
static int     n_files;
static uint32_t state;

static uint32_t draw(void) { return (state = state * 1664525u + 1013904223u) >> 8; }

static void stop(const char *what, const char *path)
{
    fprintf(stderr, "search: %s: %s\n", path, what);
    exit(3);
}

static void read_data(Data *d, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fread(&d->n, sizeof d->n, 1, f) != 1 || d->n < 1 || d->n > 1 << 20)
        stop("expected a file of superblocks", path);
    d->length = malloc((size_t)d->n * sizeof *d->length);
    d->x      = malloc((size_t)d->n * BLOCK * sizeof *d->x);
    if (!d->length || !d->x || fread(d->length, sizeof *d->length, (size_t)d->n, f) != (size_t)d->n
        || fread(d->x, BLOCK * sizeof *d->x, (size_t)d->n, f) != (size_t)d->n)
        stop("expected all its superblocks", path);
    fclose(f);
}

/* Ascending, one of them 0, none over 16. Fills in the rest of k. */
static int complete(Codec *k)
{
    int zero = 0, largest = 0;
    for (int i = 0; i < CODES; i++) {
        int a = abs(k->code[i]);
        zero |= a == 0;
        largest = a > largest ? a : largest;
        if (i && k->code[i] <= k->code[i - 1])
            return 0;
        k->value[i] = (float)k->code[i];
        if (i)
            k->middle[i - 1] = (k->value[i] + k->value[i - 1]) / 2;
    }
    k->top = largest ? 127 / largest : 0;
    k->top = k->top > CODES ? CODES : k->top;
    return zero && largest <= 16;
}

static Fit fit_sub(const Codec *k, const float *x, float scale)
{
    Fit   f = { 0 };
    float r = 1 / scale;
    for (int i = 0; i < SUB; i++) {
        int c = 0;
        for (int j = 0; j < CODES - 1; j++)
            c += x[i] * r > k->middle[j];
        float v = k->value[c] * scale, e = x[i] - v;
        f.error += e * e, f.dot += x[i] * v, f.square += v * v;
    }
    return f;
}

/* All sub-blocks with scale d, each with its best magnitude and sign; *refit: the scale that least
 * squares would take. */
static float fit_block(const Codec *k, const float *x, int n_subs, float d, float *refit)
{
    float error = 0, dot = 0, square = 0;
    for (int b = 0; b < n_subs; b++) {
        Fit best = { .error = INFINITY };
        for (int m = -k->top; m <= k->top; m++) {
            Fit f = m ? fit_sub(k, x + b * SUB, d * (float)m) : best;
            best  = f.error < best.error ? f : best;
        }
        error += best.error, dot += best.dot, square += best.square;
    }
    *refit = square > 0 ? d * dot / square : d;
    return error;
}

static float best_error(const Codec *k, const float *x, int length, float largest)
{
    int   n_subs = (length + SUB - 1) / SUB,
        last = abs(k->code[0]) > k->code[CODES - 1] ? abs(k->code[0]) : k->code[CODES - 1];
    float base = largest / (float)(last * k->top), best = INFINITY, scale = base;
    for (int i = 0; i < SCALES; i++) {
        float refit,
            error =
                fit_block(k, x, n_subs, base * (0.75f + 0.6f * (float)i / (SCALES - 1)), &refit);
        if (error < best)
            best = error, scale = refit;
    }
    for (int i = 0; i < REFITS; i++) {
        float refit, error = fit_block(k, x, n_subs, scale, &refit);
        best  = error < best ? error : best;
        scale = refit;
    }
    return best;
}

static double relative_error(const Codec *k, const Data *d)
{
    double error = 0, square = 0;
    for (int i = 0; i < d->n; i++) {
        const float *x       = d->x + (size_t)i * BLOCK;
        float        largest = 0;
        for (int j = 0; j < BLOCK; j++) {
            largest = fmaxf(largest, fabsf(x[j]));
            square += (double)x[j] * x[j];
        }
        if (largest > 0)
            error += best_error(k, x, d->length[i], largest);
    }
    return sqrt(error / square);
}

/* Prints a row where the codebook is better than `below`. */
static double judge(const Codec *k, double below)
{
    double e[MAX_FILES], sum = 0;
    for (int i = 0; i < n_files; i++)
        sum += log(e[i] = relative_error(k, &data[i])) / n_files;
    if (sum >= below)
        return sum;
    printf("%.5f |", sum);
    for (int i = 0; i < n_files; i++)
        printf(" %.5f", e[i]);
    printf(" |");
    for (int i = 0; i < CODES; i++)
        printf(" %d", k->code[i]);
    printf(" | magnitudes to %d\n", k->top);
    fflush(stdout);
    return sum;
}

static void change(Codec *k)
{
    for (int n = 1 + (int)(draw() % 3); n > 0; n--)
        k->code[draw() % CODES] += draw() & 1 ? 1 : -1;
    if (draw() % 8 == 0) {
        int by = draw() & 1 ? 1 : -1;
        for (int i = (int)(draw() % CODES); i < CODES; i++)
            k->code[i] += by;
    }
}

int main(int argc, char **argv)
{
    int   steps = 0;
    Codec k;
    for (int c; (c = getopt(argc, argv, "n:s:")) != -1;) {
        if (c == '?')
            return 2;
        *(c == 'n' ? &steps : (int *)&state) = atoi(optarg);
    }
    for (; optind < argc && n_files < MAX_FILES; optind++)
        read_data(&data[n_files++], argv[optind]);
    for (int i = 0; i < CODES; i++)
        if (scanf("%d", &k.code[i]) != 1)
            stop("expected 16 integers", "standard input");
    if (n_files == 0 || !complete(&k))
        stop("expected files, and 16 ascending integers within 16 with a 0 among them",
             "standard input");
    double best = judge(&k, INFINITY);
    while (steps > 0) {
        Codec next = k;
        change(&next);
        if (!complete(&next) || memcmp(next.code, k.code, sizeof k.code) == 0)
            continue;
        steps--;
        double s = judge(&next, best);
        if (s < best)
            best = s, k = next;
    }
    return 0;
}
