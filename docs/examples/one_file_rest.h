/* What one_file.c and one_file_train.c need beside the transformer itself: a model file, which has
 * a plain Llama in f32 or bf16 (docs/format.md), lists of ids, and random numbers. An error is one
 * line, and the status is 1. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef PROGRAM
#define PROGRAM "one_file"
#endif
#define FAIL(...) (fprintf(stderr, PROGRAM ": " __VA_ARGS__), fputc('\n', stderr), exit(1))

typedef struct Tensor {
    char   name[40];
    long   rows, k;      /* a matrix W of y = W x is [rows, k], a vector [1, k] */
    float *w;            /* row after row */
    float *grad, *m, *v; /* of the same shape; used by one_file_train.c alone */
} Tensor;

typedef struct Layer {
    Tensor *attn_norm, *wq, *wk, *wv, *wo, *ffn_norm, *w_gate, *w_up, *w_down;
} Layer;

static long d_model, n_layers, heads, kv_heads, head_dim, d_ff, vocab_size, n_ctx;
static long q_dim, kv_dim; /* heads * head_dim, kv_heads * head_dim */
static double theta, norm_eps;
static Tensor *tensors, *embed, *final_norm, *lm_head; /* embed and lm_head are often the same */
static long n_tensors;
static Layer *layer; /* [n_layers] */

static const char *path, *data; /* of the tensors, n_data bytes */
static char *header;
static size_t n_data;

/* Zeros, which the system releases when the program ends. */
static float *floats(long rows, long k)
{
    float *p = calloc((size_t)rows * (size_t)k, sizeof *p);
    if (!p)
        FAIL("out of memory");
    return p;
}

/* The next tensor of the file. 16 rows of a matrix lie side by side there (a panel), in bf16 with
 * two columns of each row together; a bf16 is the upper half of a float. */
static Tensor *read_tensor(const char *format, long l, long rows, long k)
{
    Tensor *t = &tensors[n_tensors++];
    char start[80], type[8], shape[64];
    size_t from = 0, to = 0;
    *t = (Tensor){ .rows = rows, .k = k };
    snprintf(t->name, sizeof t->name, format, l);
    snprintf(start, sizeof start, "\n\"%s\": {\"dtype\": \"", t->name);
    const char *at = strstr(header, start);
    if (!at || sscanf(at + strlen(start), "%7[A-Z0-9]\", \"shape\": [%63[0-9, ]], "
                      "\"data_offsets\": [%15zu, %15zu]", type, shape, &from, &to) != 4)
        FAIL("%s: tensor %s: expected a line of the header, found none", path, t->name);
    int bf16 = strcmp(type, "BF16") == 0;
    if (bf16 ? rows == 1 : strcmp(type, "F32") != 0)
        FAIL("%s: tensor %s: expected F32%s, found %s (tblock convert --type bf16 writes bf16)",
             path, t->name, rows > 1 ? " or BF16" : "", type);
    int dims = 1;
    for (const char *c = shape; *c; c++)
        dims += *c == ',';
    long tall = dims > 2 ? 16 : 1, pair = dims > 2 && bf16 ? 2 : 1, pairs = (k + pair - 1) / pair;
    size_t size = bf16 ? 2 : 4;
    size_t n_bytes = (size_t)((rows + tall - 1) / tall * tall * pairs * pair) * size;
    if (from > to || to > n_data || to - from != n_bytes)
        FAIL("%s: tensor %s: expected %zu bytes within %zu, found %zu to %zu", path, t->name,
             n_bytes, n_data, from, to);
    t->w = floats(rows, k);
    for (long r = 0; r < rows; r++)
        for (long c = 0; c < k; c++) {
            long i = ((r / tall * pairs + c / pair) * tall + r % tall) * pair + c % pair;
            memcpy((char *)&t->w[r * k + c] + 4 - size, data + from + (size_t)i * size, size);
        }
    return t;
}

/* Finds header and data. The header is copied without backslashes: the config is a string in it. */
static void read_header(void)
{
    struct stat file = { 0 };
    uint64_t n_header = 0;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &file) != 0)
        FAIL("%s: cannot be opened: %s", path, strerror(errno));
    if (file.st_size <= 8)
        FAIL("%s: expected a model file, found %lld bytes", path, (long long)file.st_size);
    data = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        FAIL("%s: cannot be mapped: %s", path, strerror(errno));
    memcpy(&n_header, data, 8);
    if (n_header > (uint64_t)file.st_size - 8 || (n_header + 8) % 4096 != 0)
        FAIL("%s: expected a header up to a multiple of 4096 in a file of %lld bytes, found %llu "
             "bytes: no model file, or a cut one", path, (long long)file.st_size,
             (unsigned long long)n_header);
    n_data = (size_t)file.st_size - 8 - n_header;
    header = calloc(n_header + 1, 1);
    if (!header)
        FAIL("out of memory");
    char *to = header;
    for (const char *from = data + 8; from < data + 8 + n_header; from++)
        if (*from != '\\')
            *to++ = *from;
    data += 8 + n_header;
}

/* The numbers of the config; all else in it must be what Llama has. Returns tied_embeddings. */
static int read_config(void)
{
    static const char rest[] =
        "\"norm\": \"rms\", \"norm_placement\": \"pre\", \"ffn\": \"swiglu\", \"qkv_bias\": false, "
        "\"out_bias\": false, \"ffn_bias\": false, \"qk_norm\": false, \"window\": 0, "
        "\"positions\": \"rope\", \"rope\": {\"type\": \"default\"}, \"bos\"";
    const char *at = strstr(header, "\"config\": \"{\"family\": ");
    char tied[6];
    int used = 0;
    if (at)
        sscanf(at + 11, "{\"family\": \"llama\", \"d_model\": %6ld, \"n_layers\": %4ld, "
               "\"heads\": %4ld, \"kv_heads\": %4ld, \"head_dim\": %4ld, \"d_ff\": %6ld, "
               "\"vocab_size\": %7ld, \"theta\": %lf, \"norm_eps\": %lf, \"n_ctx\": %7ld, "
               "\"tied_embeddings\": %5[a-z], %n", &d_model, &n_layers, &heads, &kv_heads,
               &head_dim, &d_ff, &vocab_size, &theta, &norm_eps, &n_ctx, tied, &used);
    if (!used)
        FAIL("%s: config: expected {\"family\": \"llama\" and its numbers, found %.60s", path,
             at ? at + 11 : "none");
    at += 11 + used;
    size_t same = 0, key = 0;
    for (; rest[same] && rest[same] == at[same]; same++)
        key = rest[same] == ',' ? same + 2 : key;
    if (rest[same])
        FAIL("%s: config: expected %.*s, found %.*s", path, (int)strcspn(rest + key, ","),
             rest + key, (int)strcspn(at + key, ","), at + key);
    if (d_model < 1 || n_layers < 1 || heads < 1 || kv_heads < 1 || d_ff < 1 || vocab_size < 1 ||
        n_ctx < 1 || head_dim < 2)
        FAIL("%s: config: expected numbers from 1 on, found %.200s", path, at - used);
    if (heads % kv_heads || head_dim % 2 || head_dim > 1024)
        FAIL("%s: config: expected heads a multiple of kv_heads, head_dim even and at most 1024, "
             "found %ld, %ld and %ld", path, heads, kv_heads, head_dim);
    return strcmp(tied, "true") == 0;
}

static void read_model(const char *file)
{
    path = file;
    read_header();
    int tied = read_config();
    q_dim = heads * head_dim, kv_dim = kv_heads * head_dim;
    tensors = calloc((size_t)n_layers * 9 + 3, sizeof *tensors);
    layer = calloc((size_t)n_layers, sizeof *layer);
    if (!tensors || !layer)
        FAIL("out of memory");
    embed = read_tensor("embed", 0, vocab_size, d_model);
    for (long l = 0; l < n_layers; l++) {
        layer[l].attn_norm = read_tensor("layers.%ld.attn_norm", l, 1, d_model);
        layer[l].wq = read_tensor("layers.%ld.wq", l, q_dim, d_model);
        layer[l].wk = read_tensor("layers.%ld.wk", l, kv_dim, d_model);
        layer[l].wv = read_tensor("layers.%ld.wv", l, kv_dim, d_model);
        layer[l].wo = read_tensor("layers.%ld.wo", l, d_model, q_dim);
        layer[l].ffn_norm = read_tensor("layers.%ld.ffn_norm", l, 1, d_model);
        layer[l].w_gate = read_tensor("layers.%ld.w_gate", l, d_ff, d_model);
        layer[l].w_up = read_tensor("layers.%ld.w_up", l, d_ff, d_model);
        layer[l].w_down = read_tensor("layers.%ld.w_down", l, d_model, d_ff);
    }
    final_norm = read_tensor("final_norm", 0, 1, d_model);
    lm_head = tied ? embed : read_tensor("lm_head", 0, vocab_size, d_model);
}

/* A whole number from least to most. *at moves behind it and the comma or blank that ends it. */
static long read_number(const char **at, long least, long most)
{
    char *end;
    long number = strtol(*at, &end, 10);
    if (end == *at || (*end && !strchr(", \n", *end)) || number < least || number > most)
        FAIL("expected a number from %ld to %ld, found '%.20s'", least, most, *at);
    *at = *end ? end + 1 : end;
    return number;
}

/* The ids of "1,2,3", at most `most`; n_more others have room behind them. */
static long *read_ids(const char *text, long most, long n_more, long *n_ids)
{
    long *id = calloc(strlen(text) + (size_t)n_more + 1, sizeof *id);
    if (!id)
        FAIL("out of memory");
    for (*n_ids = 0; !*n_ids || *text; ++*n_ids)
        id[*n_ids] = read_number(&text, 0, vocab_size - 1);
    if (*n_ids + n_more > most)
        FAIL("expected at most %ld tokens, found %ld ids and -n %ld", most, *n_ids, n_more);
    return id;
}

/* The first two words that Philox4x32-10 makes of a counter and a seed, the first one in the upper
 * half (Salmon et al. 2011). */
static uint64_t philox(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint64_t seed)
{
    uint32_t w[4] = { c0, c1, c2, c3 }, key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        uint64_t p0 = 0xD2511F53ull * w[0], p1 = 0xCD9E8D57ull * w[2];
        w[0] = (uint32_t)(p1 >> 32) ^ w[1] ^ key0;
        w[1] = (uint32_t)p1;
        w[2] = (uint32_t)(p0 >> 32) ^ w[3] ^ key1;
        w[3] = (uint32_t)p0;
    }
    return (uint64_t)w[0] << 32 | w[1];
}
