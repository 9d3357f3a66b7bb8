/* source/hf_quant.c: how the linear layers of a folder are quantized: quantization_config.
 * Unsupported keys that would change the result are rejected with an error that names them. How
 * activations were to be quantized is ignored: here they are not. Sources of the keys: transformers
 * 5.23 (utils/quantization_config.py), compressed-tensors 0.20 (quantization/quant_config.py,
 * quant_args.py), GPTQModel (quantization/config.py), AutoAWQ 0.2.9 (models/_config.py). */
#include "source/hf.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The value of a key that may be absent or null: then NULL. */
static const Json *value_of(KeyReader *r, const char *name)
{
    const Json *j = key_take(r, name);
    return j && !json_is_null(j) ? j : NULL;
}

static bool word_of(KeyReader *r, const char *name, const char **out)
{
    const Json *j = value_of(r, name);
    return !j || json_read_string(j, key_what(r, name), out, r->err);
}

static bool flag_of(KeyReader *r, const char *name, bool *out)
{
    const Json *j = value_of(r, name);
    return !j || key_bool(r, name, j, out);
}

/* The key must be absent or null, empty, or this word or flag. */
static bool only(KeyReader *r, const char *name, const char *word)
{
    const Json *j = value_of(r, name);
    const char *text = "";
    char        found[80];
    if (!j || ((json_is_array(j) || json_is_object(j)) && json_count(j) == 0)
        || (json_is_bool(j) && strcmp(json_kind(j), word) == 0)
        || (json_is_string(j) && json_read_string(j, "", &text, NULL)
            && strcasecmp(text, word) == 0))
        return true;
    return key_wrong(r, name, "expected %s, found %s", word, key_found(j, found, sizeof found));
}

/* Keys that were not read must be among the harmless ones, " a b c ". Those that list modules are:
 * the tensors show which modules are quantized. */
static bool nothing_left(KeyReader *r, const char *harmless)
{
    for (const Json *i = key_left(r, NULL); i; i = key_left(r, i)) {
        const char *key = json_key(i), *p = harmless;
        size_t      n = strlen(key);
        while ((p = n ? strstr(p, key) : NULL) && !(p > harmless && p[-1] == ' ' && p[n] == ' '))
            p++;
        if (!json_is_null(i) && (!p || strchr(key, ' ')))
            return fail(r->err, INPUT, "%s: unknown, and may change the result", key_what(r, key));
    }
    return true;
}

/* Columns that share a scale: -1 means all of a row. */
static bool group_size(KeyReader *r, const Json *j, HfQuant *q)
{
    int n = 128;
    if (j && !key_int(r, "group_size", j, -1, KEY_LARGEST, &n))
        return false;
    q->block_rows = 1;
    q->block_k    = n < 0 ? 0 : n;
    return n != 0 || key_wrong(r, "group_size", "expected -1 or a size, found 0");
}

/* [128, 128], or "128x128". */
static bool block_shape(KeyReader *r, const char *name, const Json *j, HfQuant *q)
{
    const Json *first = json_first(j), *second = first ? json_next(first) : NULL;
    const char *text  = "";
    int         end   = 0;
    if (json_is_string(j) && json_read_string(j, "", &text, NULL)
        && sscanf(text, "%8dx%8d%n", &q->block_rows, &q->block_k, &end) == 2 && !text[end]
        && q->block_rows > 0 && q->block_k > 0)
        return true;
    if (!json_is_array(j) || json_count(j) != 2)
        return key_wrong(r, name, "expected two sizes, found %s", json_kind(j));
    return key_size(r, name, first, &q->block_rows) && key_size(r, name, second, &q->block_k);
}

/* ---- Methods --------------------------------------------------------------------------------- */

static bool read_fp8(KeyReader *r, HfQuant *q)
{
    const Json *block = key_take(r, "weight_block_size");
    *q = (HfQuant){ .form = QUANT_FP8, .block_rows = 128, .block_k = 128 };
    if (block && json_is_null(block))
        q->block_rows = q->block_k = 0;
    else if (block && !block_shape(r, "weight_block_size", block, q))
        return false;
    return only(r, "fmt", "e4m3") && only(r, "expert_dtype", "fp8")
        && nothing_left(r, " activation_scheme modules_to_not_convert ignored_layers "
                           "modules_to_convert dequantize scale_fmt ");
}

static bool read_gptq(KeyReader *r, HfQuant *q)
{
    const Json *bits = value_of(r, "bits");
    const char *format = "gptq", *older = NULL;
    bool        order = false;
    *q = (HfQuant){ .form = QUANT_GPTQ, .zeros = true };
    if (!word_of(r, "format", &format) || !word_of(r, "checkpoint_format", &older))
        return false;
    format = older ? older : format;
    if (!key_int(r, "bits", bits, 2, 8, &q->bits) || !flag_of(r, "desc_act", &order)
        || !group_size(r, value_of(r, "group_size"), q))
        return false;
    if (q->bits > 4 && q->bits < 8)
        return key_wrong(r, "bits", "expected 2, 3, 4 or 8, found %d", q->bits);
    q->ordered        = order ? QUANT_ORDERED : QUANT_MAY_BE_ORDERED;
    q->zeros_less_one = strcasecmp(format, "gptq") == 0;
    if (!q->zeros_less_one && strcasecmp(format, "gptq_v2") != 0)
        return key_wrong(r, older ? "checkpoint_format" : "format",
                         "expected 'gptq' or 'gptq_v2', found '%s'", format);
    return only(r, "pack_dtype", "int32") && only(r, "is_marlin_format", "false")
        && only(r, "dynamic", "{}") && only(r, "adapter", "null")
        && nothing_left(
               r, " sym damp_percent damp_auto_increment static_groups true_sequential mse meta "
                  "model_name_or_path model_file_base_name lm_head tokenizer dataset backend "
                  "model_seqlen block_name_to_quantize module_name_preceding_first_block "
                  "batch_size pad_token_id max_input_length cache_block_outputs use_exllama "
                  "modules_in_block_to_quantize act_group_aware use_cuda_fp16 disable_exllama "
                  "exllama_config max_memory modules_to_not_convert method ");
}

static bool read_awq(KeyReader *r, HfQuant *q)
{
    *q = (HfQuant){ .form = QUANT_AWQ, .bits = 4, .zeros = true };
    const Json *bits = value_of(r, "bits");
    return (!bits || key_int(r, "bits", bits, 4, 4, &q->bits))
        && group_size(r, value_of(r, "group_size"), q) && only(r, "version", "gemm")
        && only(r, "format", "gemm") && only(r, "zero_point", "true")
        && only(r, "backend", "autoawq")
        && nothing_left(r, " modules_to_not_convert do_fuse fuse_max_seq_len modules_to_fuse "
                           "exllama_config checkpoint_format ");
}

/* ---- compressed-tensors ---------------------------------------------------------------------- */

static bool read_strategy(KeyReader *r, HfQuant *q)
{
    const Json *group = value_of(r, "group_size"), *block = value_of(r, "block_structure");
    const char *word = NULL;
    if (!word_of(r, "strategy", &word))
        return false;
    if (!word)
        word = group ? "group" : "tensor"; /* of a group of -1, the same as channel */
    q->block_rows = q->block_k = 0;
    if (strcmp(word, "channel") == 0)
        q->block_rows = 1;
    else if (strcmp(word, "group") == 0 && group)
        return group_size(r, group, q);
    else if (strcmp(word, "block") == 0 && block)
        return block_shape(r, "block_structure", block, q);
    else if (strcmp(word, "tensor") != 0)
        return key_wrong(r, "strategy",
                         "expected tensor, channel, group (with group_size) or block (with "
                         "block_structure), found '%s'",
                         word);
    return true;
}

/* The settings of the weights of one group. format: how they are stored. */
static bool read_weights(KeyReader *r, const char *format, HfQuant *q)
{
    const Json *bits = value_of(r, "num_bits"), *order = value_of(r, "actorder");
    const char *type = "int", *word = "";
    bool        symmetric = true, packed = strcmp(format, "pack-quantized") == 0;
    *q = (HfQuant){ .bits = 8 };
    if ((bits && !key_int(r, "num_bits", bits, 2, 8, &q->bits)) || !word_of(r, "type", &type)
        || !flag_of(r, "symmetric", &symmetric) || !read_strategy(r, q)
        || !only(r, "dynamic", "false"))
        return false;
    if (json_is_string(order) && !json_read_string(order, "", &word, NULL))
        return false;
    bool is_float = strcmp(type, "float") == 0, naive = strcmp(format, "naive-quantized") == 0;
    q->zeros   = !symmetric;
    q->ordered = strcasecmp(word, "group") == 0 || strcmp(json_kind(order), "true") == 0
        ? QUANT_ORDERED
        : QUANT_MAY_BE_ORDERED;
    q->form    = packed ? QUANT_PACKED : is_float ? QUANT_FLOAT : QUANT_INT;
    if ((!is_float && strcmp(type, "int") != 0)
        || (!packed && !naive && is_float != (strcmp(format, "float-quantized") == 0))
        || (packed && is_float))
        return key_wrong(r, "type", "expected %s of format %s, found '%s'",
                         packed ? "int" : "int or float", format, type);
    if (is_float && (q->bits != 8 || q->zeros))
        return key_wrong(r, "num_bits", "expected 8, symmetric, of floats, found %d%s", q->bits,
                         q->zeros ? ", asymmetric" : "");
    if (q->zeros && q->block_rows != 1)
        return key_wrong(r, "symmetric", "expected true with this strategy, found false");
    return nothing_left(r, " observer observer_kwargs scale_dtype zp_dtype ");
}

static bool same(const HfQuant *a, const HfQuant *b)
{
    return a->form == b->form && a->bits == b->bits && a->block_rows == b->block_rows
        && a->block_k == b->block_k && a->zeros == b->zeros && a->ordered == b->ordered;
}

static bool read_group(KeyReader *of, const Json *group, const char *format, HfQuant *q)
{
    char      prefix[160];
    KeyReader r = { .path = of->path, .prefix = prefix, .json = group, .err = of->err };
    snprintf(prefix, sizeof prefix, "%sconfig_groups.%.64s.", of->prefix, json_key(group));
    if (!json_is_object(group))
        return fail(of->err, INPUT, "%s: %s: expected an object, found %s", of->path, prefix,
                    json_kind(group));
    const Json *weights = value_of(&r, "weights");
    if (!only(&r, "output_activations", "null") || !only(&r, "format", format)
        || !nothing_left(&r, " targets input_activations "))
        return false;
    if (!weights)
        return true;
    char      inner[200];
    KeyReader w = { .path = of->path, .prefix = inner, .json = weights, .err = of->err };
    HfQuant   found;
    snprintf(inner, sizeof inner, "%sweights.", prefix);
    if (!json_is_object(weights))
        return key_wrong(&r, "weights", "expected an object, found %s", json_kind(weights));
    if (!read_weights(&w, format, &found))
        return false;
    if (q->form && !same(q, &found))
        return key_wrong(of, "config_groups", "expected groups that quantize weights alike, found "
                                              "others in %s", json_key(group));
    *q = found;
    return true;
}

static bool read_compressed(KeyReader *r, HfQuant *q)
{
    static const char *const known[] = { "pack-quantized", "int-quantized", "float-quantized",
                                         "naive-quantized" };
    const Json *groups = value_of(r, "config_groups"), *sparse = value_of(r, "sparsity_config");
    const char *format = "";
    bool        good = false;
    if (!word_of(r, "format", &format))
        return false;
    for (int i = 0; i < 4; i++)
        good |= strcmp(format, known[i]) == 0;
    if (!good)
        return key_wrong(r, "format", "expected %s, %s, %s or %s, found '%s'", known[0], known[1],
                         known[2], known[3], format);
    if (!json_is_object(groups))
        return key_wrong(r, "config_groups", "expected an object, found %s", json_kind(groups));
    *q = (HfQuant){ .form = QUANT_NONE };
    for (const Json *i = json_first(groups); i; i = json_next(i))
        if (!read_group(r, i, format, q))
            return false;
    const char *kind = "dense";
    if (sparse && json_get(sparse, "format")
        && !json_read_string(json_get(sparse, "format"), key_what(r, "sparsity_config.format"),
                             &kind, r->err))
        return false;
    if (strcmp(kind, "dense") != 0)
        return key_wrong(r, "sparsity_config", "expected format dense, found '%s'", kind);
    return only(r, "kv_cache_scheme", "null") && only(r, "transform_config", "null")
        && only(r, "moe_sparsity_config", "null")
        && nothing_left(r, " ignore quantization_status global_compression_ratio version ");
}

/* ---- The object ------------------------------------------------------------------------------ */

static bool read_mxfp4(KeyReader *r, HfQuant *q)
{
    (void)r;
    *q = (HfQuant){ .form = QUANT_MXFP4 };
    return true;
}

bool hf_quant_read(HfReader *of, HfQuant *out)
{
    static const struct { const char *name; bool (*read)(KeyReader *, HfQuant *); } methods[] = {
        { "mxfp4", read_mxfp4 }, { "fp8", read_fp8 }, { "compressed-tensors", read_compressed },
        { "gptq", read_gptq }, { "awq", read_awq },
    };
    enum { N = sizeof methods / sizeof methods[0] };
    const Json *q = key_take(&of->keys, "quantization_config");
    KeyReader   r = { .path = of->keys.path, .prefix = "quantization_config.", .json = q,
                      .err = of->keys.err };
    const char *name = "";
    char        found[80];
    *out = (HfQuant){ .form = QUANT_NONE };
    if (!q || json_is_null(q))
        return true;
    const Json *method = json_is_object(q) ? key_take(&r, "quant_method") : NULL;
    if (json_is_string(method) && !json_read_string(method, "", &name, NULL))
        name = "";
    bool blocks = of->family->has & TAKES_MXFP4;
    for (int i = blocks ? 0 : 1; i < (blocks ? 1 : N); i++)
        if (strcmp(methods[i].name, name) == 0)
            return methods[i].read(&r, out);
    return key_wrong(&of->keys, "quantization_config", "expected quant_method %s, found %s",
                     blocks ? "mxfp4" : "fp8, compressed-tensors, gptq or awq",
                     key_found(method ? method : q, found, sizeof found));
}
