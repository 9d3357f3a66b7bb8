/* report/info_text.c: the report of `tblock info` as text. */
#include "report/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct Page {
    JsonOut out;       /* a growing text; JSON has no part in it */
    bool    colour;
} Page;

/* ---- Small forms ---- */

/* 1234567 as "1,234,567". */
static const char *thousands(uint64_t v, char *buf, size_t n)
{
    char digits[24];
    int  len = snprintf(digits, sizeof digits, "%" PRIu64, v);
    size_t at = 0;
    for (int i = 0; i < len && at + 2 < n; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = '\0';
    return buf;
}

/* Bytes in decimal units, three digits: "5.79 MB". */
static const char *bytes_text(uint64_t v, char *buf, size_t n)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double x = (double)v;
    int    u = 0;
    for (; x >= 999.5 && u < 5; u++)
        x /= 1000;
    snprintf(buf, n, "%.*f %s", u == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2, x, units[u]);
    return buf;
}

/* Text from a file: control characters must not reach the terminal. */
static void out_safe(Page *p, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s, next = (unsigned char)s[1];
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0);
        json_out_bytes(&p->out, control ? "?" : s, 1);
        s += control && c == 0xc2;
    }
}

static void heading(Page *p, const char *text)
{
    json_out(&p->out, "\n%s%s%s\n", p->colour ? "\033[1m" : "", text, p->colour ? "\033[0m" : "");
}

static void label(Page *p, const char *text) { json_out(&p->out, "  %-12s  ", text); }

/* ---- Config ---- */

static void draw_attention(Page *p, const Config *c)
{
    label(p, "attention");
    json_out(&p->out, "%d heads of %d, %d kv heads", c->heads, c->head_dim, c->kv_heads);
    if (c->window)
        json_out(&p->out, ", window %d", c->window);
    json_out(&p->out, "%s\n", c->qk_norm ? ", q and k normalised" : "");
}

static void draw_positions(Page *p, const Config *c)
{
    static const char *const names[] = { "", "linear", "llama3", "yarn" };
    const Rope *r = &c->rope;
    label(p, "positions");
    json_out(&p->out, "rope, theta %.10g", c->theta);
    if (r->type != ROPE_DEFAULT)
        json_out(&p->out, ", %s factor %.10g", names[r->type], r->factor);
    if (r->type == ROPE_LLAMA3)
        json_out(&p->out, " (%.10g to %.10g)", r->low_freq_factor, r->high_freq_factor);
    if (r->type == ROPE_LLAMA3 || r->type == ROPE_YARN)
        json_out(&p->out, " from %.10g", r->original_n_ctx);
    json_out(&p->out, "\n");
}

static void draw_config(Page *p, const Config *c)
{
    heading(p, "config");
    label(p, "family");
    out_safe(p, c->family);
    json_out(&p->out, "\n");
    label(p, "blocks");
    json_out(&p->out, "%d, pre-norm (rms, eps %.10g)\n", c->n_layers, c->norm_eps);
    label(p, "width");
    json_out(&p->out, "d_model %d, d_ff %d (swiglu)\n", c->d_model, c->d_ff);
    draw_attention(p, c);
    draw_positions(p, c);
    label(p, "biases");
    if (!c->qkv_bias && !c->out_bias && !c->ffn_bias)
        json_out(&p->out, "none");
    else
        json_out(&p->out, "on%s%s%s", c->qkv_bias ? " q k v" : "", c->out_bias ? " wo" : "", c->ffn_bias ? " ffn" : "");
    json_out(&p->out, "\n");
    label(p, "vocabulary");
    json_out(&p->out, "%d, %s\n", c->vocab_size,
             c->tied_embeddings ? "the head is the embedding (tied)" : "a head of its own (untied)");
    label(p, "context");
    json_out(&p->out, "%d\n", c->n_ctx);
    label(p, "bos, eos");
    c->bos < 0 ? json_out(&p->out, "none;") : json_out(&p->out, "%d;", c->bos);
    for (int i = 0; i < c->n_eos; i++)
        json_out(&p->out, " %d", c->eos[i]);
    json_out(&p->out, "%s\n", c->n_eos ? "" : " none");
}

/* ---- Parameters ---- */

static void types_text(unsigned dtypes, char *buf, size_t n)
{
    buf[0] = '\0';
    for (int d = 0; d < DT_COUNT; d++)
        if (dtypes >> d & 1) {
            size_t at = strlen(buf);
            snprintf(buf + at, n - at, "%s%s", at ? "," : "", dtype_name((DType)d));
        }
}

static void draw_row(Page *p, const char *name, const char *shape, int n, uint64_t params, const Count *total,
                     const char *types, const uint64_t *bytes)
{
    char number[32], size[16], times[16] = "";
    if (n > 1)
        snprintf(times, sizeof times, "x%d", n);
    json_out(&p->out, "  %-12s %-16s %5s %15s %5.1f%%", name, shape, times, thousands(params, number, sizeof number),
             100 * (double)params / (double)total->params);
    if (bytes)
        json_out(&p->out, "  %-9s %8s", types, bytes_text(*bytes, size, sizeof size));
    json_out(&p->out, "\n");
}

static void draw_parameters(Page *p, const Info *info)
{
    const Count *n        = info->count;
    bool         stored   = info->file != NULL;
    char         shape[40], types[64], blocks[32];
    heading(p, "parameters");
    json_out(&p->out, "  %-12s %-16s %5s %15s %6s%s\n", "tensor", "shape", "", "parameters", "share",
             stored ? "  type         bytes" : "");
    for (int i = 0; i < n->n_parts; i++) {
        const CountPart *part = &n->part[i];
        types_text(part->dtypes, types, sizeof types);
        draw_row(p, part->name, info_shape(part, shape, sizeof shape), part->n_tensors, part->params, n, types,
                 stored ? &part->bytes : NULL);
    }
    json_out(&p->out, "\n");
    snprintf(blocks, sizeof blocks, "%d blocks", info->cfg->n_layers);
    draw_row(p, "embedding", "", 1, n->embed_params, n, "", stored ? &n->embed_bytes : NULL);
    draw_row(p, "one block", "", 1, n->layer_params, n, "", stored ? &n->layer_bytes : NULL);
    draw_row(p, blocks, "", 1, n->blocks_params, n, "", stored ? &n->blocks_bytes : NULL);
    draw_row(p, "final norm", "", 1, n->final_norm_params, n, "", stored ? &n->final_norm_bytes : NULL);
    if (info->cfg->tied_embeddings)
        json_out(&p->out, "  %-12s the embedding\n", "head");
    else
        draw_row(p, "head", "", 1, n->head_params, n, "", stored ? &n->head_bytes : NULL);
    draw_row(p, "total", "", 1, n->params, n, "", stored ? &n->bytes : NULL);
}

/* ---- Memory and file ---- */

static void draw_memory(Page *p, const Info *info)
{
    const Count *n = info->count;
    char         a[32], b[32];
    bool         first = true;
    heading(p, "memory");
    label(p, "weights");
    if (info->file) {
        for (int d = 0; d < DT_COUNT; d++)
            if (n->bytes_of[d]) {
                json_out(&p->out, "%s%s %s", first ? "" : ", ", dtype_name((DType)d),
                         bytes_text(n->bytes_of[d], a, sizeof a));
                first = false;
            }
    } else {
        for (int t = 0; t < WT_COUNT; t++)
            json_out(&p->out, "%s%s %s", t ? ", or " : "", weight_type_name((WeightType)t),
                     bytes_text(n[t].bytes, a, sizeof a));
    }
    json_out(&p->out, "\n");
    label(p, "kv cache");
    json_out(&p->out, "%s bytes a token in f32, %s in f16\n", thousands(n->kv_bytes_f32, a, sizeof a),
             thousands(n->kv_bytes_f16, b, sizeof b));
}

static void draw_sources(Page *p, const Json *source)
{
    bool first = true;
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        Error       ignored; /* a source of another form is not drawn */
        const char *name, *hash;
        label(p, first ? "source" : "");
        if (json_read_string(json_get(i, "synth"), "", &name, &ignored)) {
            json_out(&p->out, "synth, ");
            out_safe(p, name);
        } else if (json_read_string(json_get(i, "file"), "", &name, &ignored)) {
            out_safe(p, name);
            if (json_read_string(json_get(i, "sha256"), "", &hash, &ignored)) {
                char start[20]; /* enough to recognise it by; --json has it whole */
                snprintf(start, sizeof start, "%.12s", hash);
                json_out(&p->out, ", sha256 ");
                out_safe(p, start);
                json_out(&p->out, "...");
            }
        }
        json_out(&p->out, "\n");
        first = false;
    }
}

static void draw_file(Page *p, const Info *info)
{
    Error       ignored;
    const char *type;
    int64_t     size;
    char        bytes[32];
    heading(p, "file");
    label(p, "size");
    json_out(&p->out, "%s bytes, %d tensors, data at byte %zu\n", thousands(info->file->map.size, bytes, sizeof bytes),
             info->file->n_tensors, info->file->data_offset);
    if (info->cfg) {
        label(p, "layout");
        json_out(&p->out, "%s\n", info_layout(info->count));
    }
    label(p, "tokenizer");
    if (json_read_string(json_get(info->tokenizer, "type"), "", &type, &ignored)
        && json_read_int(json_get(info->tokenizer, "size"), "", 0, INT32_MAX, &size, &ignored)) {
        out_safe(p, type);
        json_out(&p->out, ", %d tokens\n", (int)size);
    } else {
        json_out(&p->out, "none\n");
    }
    draw_sources(p, info->source);
    if (info->sha256) {
        label(p, "sha256");
        out_safe(p, info->sha256);
        json_out(&p->out, "\n");
    }
}

static void draw_tensors(Page *p, const TensorFile *f)
{
    char shape[160], bytes[32], offset[32];
    heading(p, "tensors");
    json_out(&p->out, "  %-23s %-5s %-20s %13s %13s\n", "name", "dtype", "shape", "bytes", "offset");
    for (int i = 0; i < f->n_tensors; i++) {
        const Tensor *t   = &f->tensors[i];
        int           gap = 23 - (int)(strlen(t->name) < 23 ? strlen(t->name) : 23);
        json_out(&p->out, "  ");
        out_safe(p, t->name);
        json_out(&p->out, "%*s %-5s %-20s %13s %13s\n", gap, "", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), thousands(t->n_bytes, bytes, sizeof bytes),
                 thousands(t->offset, offset, sizeof offset));
    }
}

bool info_text(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    Page p = { .colour = opt->colour };
    out_safe(&p, info->path);
    json_out(&p.out, "\n");
    if (info->cfg) {
        draw_config(&p, info->cfg);
        draw_parameters(&p, info);
        draw_memory(&p, info);
    }
    if (info->file)
        draw_file(&p, info);
    if (info->file && opt->tensors)
        draw_tensors(&p, info->file);
    *text = json_out_take(&p.out, err);
    return *text != NULL;
}

const char *info_layout(const Count *n)
{
    int panels = 0;
    for (int i = 0; i < n->n_parts; i++)
        panels += n->part[i].n_panels;
    return n->n_row_major == 0 ? "rows16" : panels == 0 ? "rows" : "mixed";
}

const char *info_shape(const CountPart *p, char *buf, size_t n)
{
    if (p->k)
        snprintf(buf, n, "[%d, %d]", p->rows, p->k);
    else
        snprintf(buf, n, "[%d]", p->rows);
    return buf;
}
