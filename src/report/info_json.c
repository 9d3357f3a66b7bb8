/* report/info_json.c: the report of `tblock info --json`: one object. Its keys (docs/info.md) stay from version to version;
 * new ones come. */
#include "report/info.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void out_text(TextOut *o, const char *key, const char *value)
{
    text_out(o, ", \"%s\": ", key);
    if (value)
        json_out_string(o, value, strlen(value));
    else
        text_out(o, "null");
}

/* The string or number that stands in a parsed metadata entry, null where it does not. */
static void out_copy(TextOut *o, const char *key, const Json *value)
{
    Error       ignored;
    const char *text = NULL;
    int64_t     number;
    if (json_read_int(value, "", 0, INT64_C(1) << 53, &number, &ignored)) {
        text_out(o, ", \"%s\": %" PRId64, key, number);
        return;
    }
    json_read_string(value, "", &text, &ignored);
    out_text(o, key, text);
}

static void out_part(TextOut *o, const CountPart *p)
{
    char        shape[40];
    const char *comma = "";
    text_out(o, "{\"name\": \"%s\", \"shape\": %s, \"tensors\": %d, \"parameters\": %" PRIu64 ", \"parameters_each\": %" PRIu64
                ", \"bytes\": %" PRIu64 ", \"dtypes\": [",
             p->name, form_shape(p, shape, sizeof shape), p->n_tensors, p->params, p->one_params, p->bytes);
    for (int i = 0; i < WT_COUNT; i++)
        if (p->types >> info_types[i] & 1) {
            text_out(o, "%s\"%s\"", comma, info_type_name(info_types[i]));
            comma = ", ";
        }
    text_out(o, "]}");
}

static void out_parameters(TextOut *o, const Count *n)
{
    text_out(o,
             ", \"parameters\": {\"total\": %" PRIu64 ", \"embedding\": %" PRIu64 ", \"block\": %" PRIu64
             ", \"block_attention\": %" PRIu64 ", \"block_ffn\": %" PRIu64 ", \"block_norms\": %" PRIu64 ", \"blocks\": %" PRIu64
             ", \"final_norm\": %" PRIu64 ", \"head\": %" PRIu64 ", \"active\": %" PRIu64 "}",
             n->params, n->embed_params, n->layer_params, n->attn_params, n->ffn_params, n->norm_params, n->blocks_params,
             n->final_norm_params, n->head_params, n->active_params);
    text_out(o, ", \"parts\": [");
    for (int i = 0; i < n->n_parts; i++) {
        text_out(o, "%s", i ? ", " : "");
        out_part(o, &n->part[i]);
    }
    text_out(o, "]");
}

/* Of a file by type; of a config what each weight type would take. */
static void out_bytes(TextOut *o, const Info *info)
{
    const Count *n     = info->count;
    const char  *comma = "";
    text_out(o, ", \"weight_bytes\": {");
    for (int i = 0; info->contents && i < WT_COUNT; i++)
        if (n->bytes_of[info_types[i]]) {
            text_out(o, "%s\"%s\": %" PRIu64, comma, info_type_name(info_types[i]), n->bytes_of[info_types[i]]);
            comma = ", ";
        }
    for (int t = 0; !info->contents && t < WT_MADE; t++)
        text_out(o, "%s\"%s\": %" PRIu64, t ? ", " : "", weight_type_name((WeightType)t), info->type_bytes[t]);
    text_out(o, "}");
    if (!info->contents)
        text_out(o, ", \"weight_type\": \"%s\"", weight_type_name(info->type));
    text_out(o, ", \"bits_per_weight\": ");
    json_out_double(o, info_bits(n));
    text_out(o, ", \"kv_bytes_per_token\": {\"f32\": %" PRIu64 ", \"f16\": %" PRIu64 ", \"q8\": %" PRIu64 "}",
             n->kv_bytes_f32, n->kv_bytes_f16, n->kv_bytes_q8);
}

/* ---- FLOP ---- */

static void out_flops(TextOut *o, const char *key, const FlopRow *r, const FlopRow *whole)
{
    text_out(o, "\"%s\": {\"full\": %.0f, \"computed\": %.0f, \"bytes\": %.0f, \"intensity\": ", key, r->full, r->computed, r->bytes);
    json_out_double(o, r->bytes > 0 ? flop_intensity(r) : (double)NAN);
    if (whole) {
        text_out(o, ", \"share\": ");
        json_out_double(o, r->full / whole->full);
        text_out(o, ", \"share_computed\": ");
        json_out_double(o, r->computed / whole->computed);
    }
    text_out(o, "}");
}

static void out_step(TextOut *o, const char *key, const Info *info, const Flops *f)
{
    const char *comma = "";
    text_out(o, ", \"%s\": {\"rows\": {", key);
    for (int i = 0; i < OP_COUNT; i++) {
        if (!info_has_op(info, (FlopOp)i))
            continue;
        text_out(o, "%s", comma);
        comma = ", ";
        out_flops(o, flop_op_key((FlopOp)i), &f->op[i], &f->block);
    }
    text_out(o, "}, \"groups\": {");
    for (int i = 0; i < GROUP_COUNT; i++) {
        text_out(o, "%s", i ? ", " : "");
        out_flops(o, flop_group_key((FlopGroup)i), &f->group[i], &f->block);
    }
    text_out(o, "}, ");
    out_flops(o, "attention", &f->attention, &f->block);
    text_out(o, ", ");
    out_flops(o, "block", &f->block, NULL);
    text_out(o, ", ");
    out_flops(o, "blocks", &f->blocks, NULL);
    text_out(o, ", ");
    out_flops(o, "head", &f->head, NULL);
    text_out(o, ", ");
    out_flops(o, "total", &f->total, NULL);
    text_out(o, "}");
}

static void out_length(TextOut *o, const char *key, int length)
{
    text_out(o, "\"%s\": ", key);
    length ? text_out(o, "%d", length) : text_out(o, "null");
}

static void out_costs(TextOut *o, const Info *info)
{
    text_out(o, ", \"flops\": {\"seq\": %d, \"batch\": %d", info->load.seq, info->load.batch);
    out_step(o, "prefill", info, &info->prefill);
    out_step(o, "decode", info, &info->decode);
    text_out(o, ", \"crossover\": {");
    out_length(o, "full", info->crossover.full);
    text_out(o, ", ");
    out_length(o, "prefill", info->crossover.prefill);
    text_out(o, ", ");
    out_length(o, "decode", info->crossover.decode);
    text_out(o, "}}");
}

/* ---- Memory ---- */

static void out_memory(TextOut *o, const Info *info)
{
    const KvCount    *kv = &info->kv;
    const MemoryPlan *m  = &info->memory;
    text_out(o, ", \"kv_cache\": {\"type\": \"%s\", \"bytes_per_token_and_layer\": %" PRIu64 ", \"bytes_per_token\": %" PRIu64
                ", \"positions\": %d, \"windowed_layers\": %d, \"bytes_at_full_context\": %" PRIu64 ", \"ratio_to_mha\": ",
             info->kv_type, kv->layer_bytes, kv->token_bytes, kv->positions, kv->n_windowed, kv->full_bytes);
    json_out_double(o, kv->mha_ratio);
    text_out(o, "}, \"attention_scores\": {\"whole_bytes_per_layer\": %.0f, \"tiled_bytes_per_thread\": %" PRIu64 "}",
             info->score_bytes, m->attention);
    text_out(o, ", \"memory\": {\"sequences\": %d, \"n_ctx\": %d, \"n_batch\": %d, \"weights\": %" PRIu64 ", \"packed\": %" PRIu64
                ", \"kv_cache\": %" PRIu64 ", \"activations\": %" PRIu64 ", \"logits\": %" PRIu64 ", \"total\": %" PRIu64
                ", \"each_thread\": %" PRIu64 "}",
             m->n_seqs, m->n_ctx, m->n_batch, m->weights, m->packed, m->kv, m->activations, m->logits, m->total, m->each_thread);
}

/* ---- Check ---- */

static void out_check_part(TextOut *o, const char *key, const CheckPart *c)
{
    text_out(o, ", \"%s\": {\"answer\": \"%s\"", key, info_answer(c));
    if (c->answer == CHECK_BAD) {
        out_text(o, "found", c->found);
        text_out(o, ", \"tensors\": %d", c->n_bad);
    }
    text_out(o, "}");
}

static void out_check(TextOut *o, const DataCheck *d)
{
    text_out(o, ", \"check\": {\"ok\": %s", d->ok ? "true" : "false");
    out_check_part(o, "sha256", &d->hash);
    out_check_part(o, "padding", &d->padding);
    out_check_part(o, "finite", &d->finite);
    text_out(o, "}");
}

/* ---- File ---- */

static void out_sources(TextOut *o, const Json *source)
{
    const char *open = "{";
    text_out(o, ", \"source\": [");
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const SourceForm *form = info_source_form(i);
        if (!form)
            continue;
        text_out(o, "%s\"kind\": \"%s\"", open, form->key);
        out_copy(o, form->key, json_get(i, form->key));
        if (form->hash_key)
            out_copy(o, form->hash_key, json_get(i, form->hash_key));
        text_out(o, "}");
        open = ", {";
    }
    text_out(o, "]");
}

static void out_file(TextOut *o, const Info *info)
{
    out_text(o, "source_kind", info->kind);
    text_out(o, ", \"file_bytes\": %llu, \"files\": %zu", (unsigned long long)info->contents->bytes, info->contents->n_files);
    if (info->ours)
        text_out(o, ", \"data_offset\": %zu", info->contents->data_offset);
    out_text(o, "stored_as", info->contents->types);
    if (info->cfg && info->ours)
        out_text(o, "layout", info_layout(info->count));
    if (info->tokenizer) {
        text_out(o, ", \"tokenizer\": {\"present\": true");
        out_copy(o, "type", json_get(info->tokenizer, "type"));
        out_copy(o, "size", json_get(info->tokenizer, "size"));
        text_out(o, "}");
    } else {
        text_out(o, ", \"tokenizer\": {\"present\": false}");
    }
    out_text(o, "chat", info->chat);
    out_sources(o, info->source);
    out_text(o, "sha256", info->sha256);
}

static void out_tensors(TextOut *o, const SourceContents *c)
{
    char shape[160];
    text_out(o, ", \"tensors\": [");
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Tensor *t = c->tensors[i];
        text_out(o, "%s{\"name\": ", i ? ", " : "");
        json_out_string(o, t->name, strlen(t->name));
        text_out(o, ", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %zu, \"offset\": %zu}", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), t->n_bytes, t->offset);
    }
    text_out(o, "]");
}

bool info_json(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    TextOut o      = { 0 };
    char   *config = NULL;
    if (info->cfg && !(config = config_to_json(info->cfg, err)))
        return false;
    text_out(&o, "{\"path\": ");
    json_out_string(&o, info->path, strlen(info->path));
    out_text(&o, "kind", !info->contents ? "config" : info->cfg ? "model" : "tokenizer");
    if (info->cfg) {
        text_out(&o, ", \"config\": %s", config);
        out_parameters(&o, info->count);
        out_bytes(&o, info);
        out_costs(&o, info);
        out_memory(&o, info);
    }
    if (info->contents)
        out_file(&o, info);
    if (info->check)
        out_check(&o, info->check);
    if (info->contents && opt->tensors)
        out_tensors(&o, info->contents);
    text_out(&o, "}\n");
    free(config);
    *text = text_out_take(&o, err);
    return *text != NULL;
}
