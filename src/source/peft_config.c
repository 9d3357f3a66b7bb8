/* source/peft_config.c: adapter_config.json, as peft 0.21 writes it (src/peft/tuners/lora/config.py
 * has its keys, utils/other.py, get_pattern_key, what the keys of patterns match). */
#include "source/adapter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "tokenizer/regex.h"

enum { MAX_BYTES = 16 << 20 };

/* A number for the modules whose names a regular expression matches. */
typedef struct ModulePattern { Regex *name; double value; } ModulePattern;
typedef struct Patterns { ModulePattern *pattern; size_t n; } Patterns;

struct PeftConfig {
    char      path[PATH_BYTES];
    JsonDoc   doc;
    double    rank, alpha;
    bool      root;            /* scale alpha / sqrt(rank) */
    Patterns  ranks, alphas;
    RegexRun *run;
};

/* Keys without effect on a trained adapter's results, or that the tensors repeat. */
static const char *const harmless[] = {
    "auto_mapping", "base_model_name_or_path", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights",
    "layers_pattern", "layers_to_transform", "loftq_config", "lora_dropout", "lora_ga_config",
    "megatron_config", "megatron_core", "peft_version", "qalora_group_size", "revision",
    "target_modules", "task_type",
};
/* Read below. */
static const char *const known[] = { "peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern",
                                     "alpha_pattern", "bias" };

static bool one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}
#define ONE_OF(name, list) one_of(name, list, sizeof list / sizeof *list)

static bool wrong(const PeftConfig *p, const char *key, const char *expected, const JsonNode *found,
                  Error *err)
{
    char text[NODE_TEXT];
    return fail(err, INPUT, "%s: %s: expected %s, found %s", p->path, key, expected,
                node_text(found, text));
}

/* Any other key means a method that computes something else (use_dora), or adds to the adapter
 * (modules_to_save), unless it is off. */
static bool check_keys(const PeftConfig *p, Error *err)
{
    const JsonNode *root = p->doc.node;
    if (root->kind != NODE_OBJECT)
        return fail(err, INPUT, "%s: expected a JSON object, found %s", p->path,
                    node_text(root, (char[NODE_TEXT]){ 0 }));
    if (!node_is(node_get(root, "peft_type"), "LORA"))
        return wrong(p, "peft_type", "'LORA'", node_get(root, "peft_type"), err);
    const JsonNode *bias = node_get(root, "bias");
    if (bias && !node_is(bias, "none"))
        return wrong(p, "bias", "'none'", bias, err);
    JSON_NODES (i, root)
        if (!ONE_OF(i->key, harmless) && !ONE_OF(i->key, known) && node_truth(i))
            return wrong(p, i->key, "nothing (tblock computes W x + scale * B (A x) alone)", i,
                         err);
    return true;
}

static bool number(const PeftConfig *p, const char *key, const JsonNode *j, double least,
                   double *out, Error *err)
{
    double x = j && (j->kind == NODE_INT || j->kind == NODE_DOUBLE) ? node_number(j) : NAN;
    *out     = x;
    return (x >= least && x <= 1e9) || wrong(p, key, least > 0 ? "a number from 1 on" : "a number",
                                             j, err);
}

/* re.match("(.*\.)?(KEY)$", module), as in peft. */
static bool add_pattern(const PeftConfig *p, Patterns *to, const char *key, const JsonNode *j,
                        double least, Error *err)
{
    TextOut        o   = { 0 };
    ModulePattern *add = &to->pattern[to->n];
    char           what[PATH_BYTES + 200];
    snprintf(what, sizeof what, "%s: %s: %.100s", p->path, key, j->key);
    text_out(&o, "^(?:.*\\.)?(?:%s)$", j->key);
    char *pattern = text_out_take(&o, err);
    bool  ok      = pattern && number(p, key, j, least, &add->value, err)
        && regex_compile(&add->name, pattern, what, err);
    to->n += ok;
    free(pattern);
    return ok;
}

static bool read_patterns(const PeftConfig *p, Patterns *to, const char *key, double least,
                          Error *err)
{
    const JsonNode *j = node_get(p->doc.node, key);
    if (!j || !node_truth(j))
        return true;
    if (j->kind != NODE_OBJECT)
        return wrong(p, key, "an object", j, err);
    to->pattern = calloc((size_t)j->n, sizeof *to->pattern);
    if (!to->pattern)
        return no_memory(p->path, err);
    JSON_NODES (i, j)
        if (!add_pattern(p, to, key, i, least, err))
            return false;
    return true;
}

static bool read_config(PeftConfig *p, Error *err)
{
    char  *text;
    size_t n;
    if (!file_read(p->path, MAX_BYTES, &text, &n, err)
        || !json_doc_parse(&p->doc, text, n, JSON_NO_NUL | JSON_FINITE, p->path, err)
        || !check_keys(p, err))
        return false;
    const JsonNode *root = p->doc.node, *r = node_get(root, "r"),
                   *alpha = node_get(root, "lora_alpha");
    p->rank = p->alpha = 8; /* peft's defaults */
    p->root = node_truth(node_get(root, "use_rslora"));
    return (!r || number(p, "r", r, 1, &p->rank, err))
        && (!alpha || number(p, "lora_alpha", alpha, -1e9, &p->alpha, err))
        && read_patterns(p, &p->ranks, "rank_pattern", 1, err)
        && read_patterns(p, &p->alphas, "alpha_pattern", -1e9, err) && regex_begin(&p->run, err);
}

PeftConfig *peft_config_open(const char *path, Error *err)
{
    PeftConfig *p = calloc(1, sizeof *p);
    if (!p) {
        no_memory(path, err);
        return NULL;
    }
    snprintf(p->path, sizeof p->path, "%s", path);
    if (!read_config(p, err)) {
        peft_config_free(p);
        return NULL;
    }
    return p;
}

static void free_patterns(Patterns *p)
{
    for (size_t i = 0; i < p->n; i++)
        regex_free(p->pattern[i].name);
    free(p->pattern);
}

void peft_config_free(PeftConfig *p)
{
    if (!p)
        return;
    free_patterns(&p->ranks);
    free_patterns(&p->alphas);
    regex_end(p->run);
    json_doc_free(&p->doc);
    free(p);
}

/* The value of the first pattern that matches; else *out stays. */
static bool look_up(PeftConfig *p, const Patterns *list, const char *module, double *out,
                    Error *err)
{
    char  *room   = NULL;
    size_t n_room = 0, n = strlen(module), start, end;
    int    found  = 0;
    regex_budget(p->run, n);
    for (size_t i = 0; i < list->n && found == 0; i++) {
        const char *text = regex_text(list->pattern[i].name, module, n, &room, &n_room, err);
        found = text ? regex_next(p->run, list->pattern[i].name, text, n, 0, &start, &end, err)
                     : -1;
        if (found > 0)
            *out = list->pattern[i].value;
    }
    free(room);
    return found >= 0;
}

bool peft_config_module(PeftConfig *p, const char *module, int *rank, double *scale, Error *err)
{
    double r = p->rank, alpha = p->alpha;
    if (!look_up(p, &p->ranks, module, &r, err) || !look_up(p, &p->alphas, module, &alpha, err))
        return false;
    *rank  = (int)r;
    *scale = alpha / (p->root ? sqrt(r) : r);
    return true;
}
