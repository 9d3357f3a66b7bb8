/* report/info_json.c: the report of `tblock info --json`: one object. Its keys (docs/info.md) stay from version to version;
 * new ones come. */
#include "report/info.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void out_text(JsonOut *o, const char *key, const char *value)
{
    json_out(o, ", \"%s\": ", key);
    value ? json_out_string(o, value, strlen(value)) : json_out(o, "null");
}

/* The string or number that stands in a parsed metadata entry, null where it does not. */
static void out_copy(JsonOut *o, const char *key, const Json *value)
{
    Error       ignored;
    const char *text = NULL;
    int64_t     number;
    if (json_read_int(value, "", 0, INT64_C(1) << 53, &number, &ignored)) {
        json_out(o, ", \"%s\": %" PRId64, key, number);
        return;
    }
    json_read_string(value, "", &text, &ignored);
    out_text(o, key, text);
}

static void out_part(JsonOut *o, const CountPart *p)
{
    char        shape[40];
    const char *comma = "";
    json_out(o, "{\"name\": \"%s\", \"shape\": %s, \"tensors\": %d, \"parameters\": %" PRIu64 ", \"parameters_each\": %" PRIu64
                ", \"bytes\": %" PRIu64 ", \"dtypes\": [",
             p->name, form_shape(p, shape, sizeof shape), p->n_tensors, p->params, p->one_params, p->bytes);
    for (int i = 0; i < WT_COUNT; i++)
        if (p->types >> info_types[i] & 1) {
            json_out(o, "%s\"%s\"", comma, info_type_name(info_types[i]));
            comma = ", ";
        }
    json_out(o, "]}");
}

static void out_parameters(JsonOut *o, const Count *n)
{
    json_out(o,
             ", \"parameters\": {\"total\": %" PRIu64 ", \"embedding\": %" PRIu64 ", \"block\": %" PRIu64
             ", \"block_attention\": %" PRIu64 ", \"block_ffn\": %" PRIu64 ", \"block_norms\": %" PRIu64 ", \"blocks\": %" PRIu64
             ", \"final_norm\": %" PRIu64 ", \"head\": %" PRIu64 ", \"active\": %" PRIu64 "}",
             n->params, n->embed_params, n->layer_params, n->attn_params, n->ffn_params, n->norm_params, n->blocks_params,
             n->final_norm_params, n->head_params, n->active_params);
    json_out(o, ", \"parts\": [");
    for (int i = 0; i < n->n_parts; i++) {
        json_out(o, "%s", i ? ", " : "");
        out_part(o, &n->part[i]);
    }
    json_out(o, "]");
}

/* Of a file by type; of a config what each weight type would take. */
static void out_bytes(JsonOut *o, const Info *info)
{
    const Count *n     = info->count;
    const char  *comma = "";
    json_out(o, ", \"weight_bytes\": {");
    for (int i = 0; info->contents && i < WT_COUNT; i++)
        if (n->bytes_of[info_types[i]]) {
            json_out(o, "%s\"%s\": %" PRIu64, comma, info_type_name(info_types[i]), n->bytes_of[info_types[i]]);
            comma = ", ";
        }
    for (int t = 0; !info->contents && t < WT_MADE; t++)
        json_out(o, "%s\"%s\": %" PRIu64, t ? ", " : "", weight_type_name((WeightType)t), info->type_bytes[t]);
    json_out(o, "}");
    if (!info->contents)
        json_out(o, ", \"weight_type\": \"%s\"", weight_type_name(info->type));
    json_out(o, ", \"bits_per_weight\": ");
    json_out_double(o, info_bits(n));
    json_out(o, ", \"kv_bytes_per_token\": {\"f32\": %" PRIu64 ", \"f16\": %" PRIu64 ", \"q8\": %" PRIu64 "}",
             n->kv_bytes_f32, n->kv_bytes_f16, n->kv_bytes_q8);
}

/* ---- FLOP ---- */

static void out_flops(JsonOut *o, const char *key, const FlopRow *r, const FlopRow *whole)
{
    json_out(o, "\"%s\": {\"full\": %.0f, \"computed\": %.0f, \"bytes\": %.0f, \"intensity\": ", key, r->full, r->computed, r->bytes);
    r->bytes > 0 ? json_out_double(o, flop_intensity(r)) : json_out(o, "null");
    if (whole) {
        json_out(o, ", \"share\": ");
        json_out_double(o, r->full / whole->full);
        json_out(o, ", \"share_computed\": ");
        json_out_double(o, r->computed / whole->computed);
    }
    json_out(o, "}");
}

static void out_step(JsonOut *o, const char *key, const Info *info, const Flops *f)
{
    const char *comma = "";
    json_out(o, ", \"%s\": {\"rows\": {", key);
    for (int i = 0; i < OP_COUNT; i++) {
        if (!info_has_op(info, (FlopOp)i))
            continue;
        json_out(o, "%s", comma);
        comma = ", ";
        out_flops(o, flop_op_key((FlopOp)i), &f->op[i], &f->block);
    }
    json_out(o, "}, \"groups\": {");
    for (int i = 0; i < GROUP_COUNT; i++) {
        json_out(o, "%s", i ? ", " : "");
        out_flops(o, flop_group_key((FlopGroup)i), &f->group[i], &f->block);
    }
    json_out(o, "}, ");
    out_flops(o, "attention", &f->attention, &f->block);
    json_out(o, ", ");
    out_flops(o, "block", &f->block, NULL);
    json_out(o, ", ");
    out_flops(o, "blocks", &f->blocks, NULL);
    json_out(o, ", ");
    out_flops(o, "head", &f->head, NULL);
    json_out(o, ", ");
    out_flops(o, "total", &f->total, NULL);
    json_out(o, "}");
}

static void out_length(JsonOut *o, const char *key, int length)
{
    json_out(o, "\"%s\": ", key);
    length ? json_out(o, "%d", length) : json_out(o, "null");
}

static void out_costs(JsonOut *o, const Info *info)
{
    json_out(o, ", \"flops\": {\"seq\": %d, \"batch\": %d", info->load.seq, info->load.batch);
    out_step(o, "prefill", info, &info->prefill);
    out_step(o, "decode", info, &info->decode);
    json_out(o, ", \"crossover\": {");
    out_length(o, "full", info->crossover.full);
    json_out(o, ", ");
    out_length(o, "prefill", info->crossover.prefill);
    json_out(o, ", ");
    out_length(o, "decode", info->crossover.decode);
    json_out(o, "}}");
}

/* ---- Memory ---- */

static void out_memory(JsonOut *o, const Info *info)
{
    const KvCount    *kv = &info->kv;
    const MemoryPlan *m  = &info->memory;
    json_out(o, ", \"kv_cache\": {\"type\": \"%s\", \"bytes_per_token_and_layer\": %" PRIu64 ", \"bytes_per_token\": %" PRIu64
                ", \"positions\": %d, \"windowed_layers\": %d, \"bytes_at_full_context\": %" PRIu64 ", \"ratio_to_mha\": ",
             info->kv_type, kv->layer_bytes, kv->token_bytes, kv->positions, kv->n_windowed, kv->full_bytes);
    json_out_double(o, kv->mha_ratio);
    json_out(o, "}, \"attention_scores\": {\"whole_bytes_per_layer\": %.0f, \"tiled_bytes_per_thread\": %" PRIu64 "}",
             info->score_bytes, m->attention);
    json_out(o, ", \"memory\": {\"sequences\": %d, \"n_ctx\": %d, \"n_batch\": %d, \"weights\": %" PRIu64 ", \"packed\": %" PRIu64
                ", \"kv_cache\": %" PRIu64 ", \"activations\": %" PRIu64 ", \"logits\": %" PRIu64 ", \"total\": %" PRIu64
                ", \"each_thread\": %" PRIu64 "}",
             m->n_seqs, m->n_ctx, m->n_batch, m->weights, m->packed, m->kv, m->activations, m->logits, m->total, m->each_thread);
}

/* ---- Check ---- */

static void out_check_part(JsonOut *o, const char *key, const CheckPart *c)
{
    json_out(o, ", \"%s\": {\"answer\": \"%s\"", key, info_answer(c));
    if (c->answer == CHECK_BAD) {
        out_text(o, "found", c->found);
        json_out(o, ", \"tensors\": %d", c->n_bad);
    }
    json_out(o, "}");
}

static void out_check(JsonOut *o, const DataCheck *d)
{
    json_out(o, ", \"check\": {\"ok\": %s", d->ok ? "true" : "false");
    out_check_part(o, "sha256", &d->hash);
    out_check_part(o, "padding", &d->padding);
    out_check_part(o, "finite", &d->finite);
    json_out(o, "}");
}

/* ---- File ---- */

static void out_sources(JsonOut *o, const Json *source)
{
    const char *open = "{";
    json_out(o, ", \"source\": [");
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const SourceForm *form = info_source_form(i);
        if (!form)
            continue;
        json_out(o, "%s\"kind\": \"%s\"", open, form->key);
        out_copy(o, form->key, json_get(i, form->key));
        if (form->hash_key)
            out_copy(o, form->hash_key, json_get(i, form->hash_key));
        json_out(o, "}");
        open = ", {";
    }
    json_out(o, "]");
}

static void out_file(JsonOut *o, const Info *info)
{
    out_text(o, "source_kind", info->kind);
    json_out(o, ", \"file_bytes\": %llu, \"files\": %zu", (unsigned long long)info->contents->bytes, info->contents->n_files);
    if (info->ours)
        json_out(o, ", \"data_offset\": %zu", info->contents->data_offset);
    out_text(o, "stored_as", info->contents->types);
    if (info->cfg && info->ours)
        out_text(o, "layout", info_layout(info->count));
    if (info->tokenizer) {
        json_out(o, ", \"tokenizer\": {\"present\": true");
        out_copy(o, "type", json_get(info->tokenizer, "type"));
        out_copy(o, "size", json_get(info->tokenizer, "size"));
        json_out(o, "}");
    } else {
        json_out(o, ", \"tokenizer\": {\"present\": false}");
    }
    out_text(o, "chat", info->chat);
    out_sources(o, info->source);
    out_text(o, "sha256", info->sha256);
}

static void out_tensors(JsonOut *o, const SourceContents *c)
{
    char shape[160];
    json_out(o, ", \"tensors\": [");
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Tensor *t = c->tensors[i];
        json_out(o, "%s{\"name\": ", i ? ", " : "");
        json_out_string(o, t->name, strlen(t->name));
        json_out(o, ", \"dtype\": \"%s\", \"shape\": %s, \"bytes\": %zu, \"offset\": %zu}", dtype_name(t->dtype),
                 tensor_shape_text(t, shape, sizeof shape), t->n_bytes, t->offset);
    }
    json_out(o, "]");
}

bool info_json(const Info *info, const tblock_report_options *opt, char **text, Error *err)
{
    JsonOut o      = { 0 };
    char   *config = NULL;
    if (info->cfg && !(config = config_to_json(info->cfg, err)))
        return false;
    json_out(&o, "{\"path\": ");
    json_out_string(&o, info->path, strlen(info->path));
    out_text(&o, "kind", !info->contents ? "config" : info->cfg ? "model" : "tokenizer");
    if (info->cfg) {
        json_out(&o, ", \"config\": %s", config);
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
    json_out(&o, "}\n");
    free(config);
    *text = json_out_take(&o, err);
    return *text != NULL;
}
