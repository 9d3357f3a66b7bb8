/* serve/prompts.c: prompts from a parameter that takes a text, an array of ids, or an array of
 * either. */
#include "serve/server.h"

#include <stdlib.h>

static bool is_list(const JsonNode *p)
{
    return p->kind == NODE_ARRAY && p->n
        && (p[1].kind == NODE_STRING || p[1].kind == NODE_ARRAY);
}

size_t prompts_count(const JsonNode *p) { return is_list(p) ? p->n : 1; }

static bool read_text(Exchange *x, const JsonNode *p, const PromptForm *f, Prompt *out)
{
    if (!tokens_of(x, p,
                   (f->add_special ? TBLOCK_ADD_SPECIAL : 0u)
                       | (f->parse_special ? TBLOCK_PARSE_SPECIAL : 0u),
                   &out->ids, &out->n))
        return false;
    out->text = f->texts ? malloc(p->n + 1) : NULL;
    if (!f->texts)
        return true;
    if (!out->text)
        return refuse_memory(x);
    memcpy(out->text, p->text, p->n + 1);
    out->n_text = p->n;
    return true;
}

static bool read_ids(Exchange *x, const JsonNode *p, const PromptForm *f, Prompt *out)
{
    tblock_error err;
    return ids_of(x, f->param, p, &out->ids, &out->n)
        && (!f->texts || !x->server->info.has_tokenizer
            || tblock_detokenize(x->server->o->model, out->ids, out->n, &out->text, &out->n_text,
                                 &err)
            || refuse_error(x, f->param, &err));
}

static bool read_prompt(Exchange *x, const JsonNode *p, const PromptForm *f, Prompt *out)
{
    const int n_ctx = x->server->computing.n_ctx;
    char      found[NODE_TEXT];
    if (p->kind != NODE_ARRAY && p->kind != NODE_STRING)
        return refuse(x, MHD_HTTP_BAD_REQUEST, f->param,
                      "%s: expected a string, an array of ids or an array of these, found %s",
                      f->param, node_text(p, found));
    if (!(p->kind == NODE_ARRAY ? read_ids : read_text)(x, p, f, out))
        return false;
    if (!out->n)
        return refuse(x, MHD_HTTP_BAD_REQUEST, f->param,
                      "%s: expected at least one token, found none", f->param);
    return out->n <= (size_t)n_ctx
        || refuse(x, MHD_HTTP_BAD_REQUEST, f->param,
                  "%s: expected at most the %d tokens of the context, found %zu", f->param, n_ctx,
                  out->n);
}

bool prompts_read(Exchange *x, const JsonNode *p, const PromptForm *f, Job *j)
{
    if (!is_list(p))
        return read_prompt(x, p, f, &j->prompt[0]);
    size_t i = 0;
    JSON_NODES (one, p)
        if (!read_prompt(x, one, f, &j->prompt[i++]))
            return false;
    return true;
}
