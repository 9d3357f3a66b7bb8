/* serve/tokens.c: text to tokens and back, in vLLM's form. */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>

void token_bytes(TextOut *o, const Server *s, int32_t id)
{
    if (!s->info.has_tokenizer)
        return;
    tblock_stream *stream = tblock_stream_new(s->o->model, true, NULL);
    size_t         n      = 0;
    if (!stream) {
        o->failed = true;
        return;
    }
    const char *text = tblock_stream_alone(stream, id, &n);
    text_out_bytes(o, text, n);
    tblock_stream_free(stream);
}

void token_json(TextOut *o, const Server *s, int32_t id)
{
    TextOut text = { 0 }, spelled = { 0 };
    json_out_comma(o);
    if (!s->info.has_tokenizer) {
        json_out(o, "%s", place("token_id:%d", id).text);
        return;
    }
    token_bytes(&text, s, id);
    if (utf8_valid(text.text ? text.text : "", text.n)) {
        json_out_string(o, text.text ? text.text : "", text.n);
    } else {
        text_out(&spelled, "bytes:");
        for (size_t i = 0; i < text.n; i++)
            text_out(&spelled, "\\x%02x", (unsigned char)text.text[i]);
        json_out_string(o, spelled.text ? spelled.text : "", spelled.n);
    }
    o->failed |= text.failed || spelled.failed;
    text_out_free(&text);
    text_out_free(&spelled);
}

/* ---- A request's body ------------------------------------------------------------------------ */

enum { VALUE_BYTES = 16 }; /* of the largest body, for each value that one may have */

size_t most_values(const Server *s) { return s->o->body_bytes / VALUE_BYTES; }

/* The body stays for the log. */
static bool body_json(Exchange *x, JsonDoc *d)
{
    tblock_error err;
    return json_doc_read_within(d, x->body.text, x->body.n, JSON_FINITE, most_values(x->server),
                                "the body", &err)
        || refuse_error(x, NULL, &err);
}

bool refuse_model(Exchange *x, const char *name)
{
    const Server *s   = x->server;
    char          all[256];
    size_t        n = 0;
    for (size_t i = 0; i <= s->o->n_adapters && n < sizeof all; i++)
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s",
                              i == 0 ? "" : i < s->o->n_adapters ? ", " : " or ",
                              model_name(s, i));
    return refuse(x, MHD_HTTP_NOT_FOUND, "model", "model: expected %s, found %s", all, name);
}

bool check_model(Exchange *x, const JsonNode *model)
{
    return !model || node_is(model, x->server->o->name) || x->server->o->lenient
        || model_number(x->server, model) || refuse_model(x, model->text);
}

bool ids_of(Exchange *x, const char *param, const JsonNode *list, int32_t **out, size_t *n)
{
    size_t   i    = 0;
    int32_t *ids  = list->kind == NODE_ARRAY ? malloc((list->n + 1) * sizeof *ids) : NULL;
    char     found[NODE_TEXT];
    *out = NULL;
    *n   = 0;
    if (!ids)
        return list->kind == NODE_ARRAY
                   ? refuse_memory(x)
                   : refuse(x, MHD_HTTP_BAD_REQUEST, param, "%s: expected an array, found %s",
                            param, node_text(list, found));
    JSON_NODES (j, list) {
        if (j->kind != NODE_INT || j->integer < 0
            || j->integer >= x->server->info.vocab_size) {
            free(ids);
            return refuse(x, MHD_HTTP_BAD_REQUEST, param,
                          "%s: token %zu: expected 0 to %d, found %s", param, i,
                          x->server->info.vocab_size - 1, node_text(j, found));
        }
        ids[i++] = (int32_t)j->integer;
    }
    *out = ids;
    *n   = i;
    return true;
}

bool tokens_of(Exchange *x, const JsonNode *text, unsigned flags, int32_t **ids, size_t *n)
{
    tblock_error err;
    return tblock_tokenize(x->server->o->model, text->text, text->n, flags, ids, n, &err)
        || refuse_error(x, NULL, &err);
}

void ids_json(TextOut *o, const Server *s, const int32_t *ids, size_t n, bool strings)
{
    json_out_ints(o, ids, n);
    if (!strings)
        return;
    json_out(o, "token_strs: [");
    for (size_t i = 0; i < n; i++)
        token_json(o, s, ids[i]);
    json_out(o, "]");
}

/* ---- /tokenize, /detokenize, /tokenizer_info ------------------------------------------------- */

typedef struct TokenizeRequest {
    const JsonNode *model, *prompt;
    bool            add_special, parse_special, strings;
} TokenizeRequest;

#define AT(field) offsetof(TokenizeRequest, field)
static const Field tokenize_fields[] = {
    FIELD("model", TEXT, model, "the model's name, or absent"),
    FIELD("prompt", TEXT | FIELD_REQUIRED, prompt, "a text"),
    FIELD("add_special_tokens", BOOL, add_special,
          "put what the tokenizer says first (BOS) before it"),
    FIELD("parse_special", BOOL, parse_special, "read special tokens that it spells"),
    FIELD("return_token_strs", BOOL, strings, "the texts of the tokens too"),
    { 0 },
};
#undef AT

static const TokenizeRequest tokenize_default  = { .add_special = true, .parse_special = true };
static const Field *const    tokenize_tables[] = { tokenize_fields, NULL };
const Body                   tokenize_body     = { tokenize_tables, &tokenize_default };

static bool tokenize(Exchange *x, const JsonDoc *d)
{
    TokenizeRequest r   = tokenize_default;
    TextOut        *o   = &x->answer;
    int32_t        *ids = NULL;
    size_t          n;
    if (!fields_read(x, d->node, tokenize_tables, &r)
        || !check_model(x, r.model))
        return false;
    if (!tokens_of(x, r.prompt,
                   (r.add_special ? TBLOCK_ADD_SPECIAL : 0u)
                       | (r.parse_special ? TBLOCK_PARSE_SPECIAL : 0u),
                   &ids, &n))
        return false;
    json_out(o, "{count: %zu, max_model_len: %d, tokens:", n, x->server->computing.n_ctx);
    ids_json(o, x->server, ids, n, r.strings);
    json_out(o, "}\n");
    tblock_free(ids);
    return true;
}

typedef struct DetokenizeRequest { const JsonNode *model, *tokens; } DetokenizeRequest;
static const Field detokenize_fields[] = {
    { "model", FIELD_TEXT, offsetof(DetokenizeRequest, model), 0, 0,
          "the model's name, or absent" },
    { "tokens", FIELD_NODE | FIELD_REQUIRED, offsetof(DetokenizeRequest, tokens), 0, 0,
          "an array of ids" },
    { 0 },
};

static const Field *const detokenize_tables[] = { detokenize_fields, NULL };
const Body                detokenize_body     = { detokenize_tables, NULL };

static bool detokenize(Exchange *x, const JsonDoc *d)
{
    DetokenizeRequest r    = { 0 };
    int32_t          *ids  = NULL;
    char             *text = NULL;
    size_t            n, n_bytes;
    tblock_error      err;
    if (!fields_read(x, d->node, detokenize_tables, &r)
        || !check_model(x, r.model))
        return false;
    if (!ids_of(x, "tokens", r.tokens, &ids, &n))
        return false;
    bool good = tblock_detokenize(x->server->o->model, ids, n, &text, &n_bytes, &err)
        || refuse_error(x, "tokens", &err);
    if (good) {
        json_out(&x->answer, "{");
        json_out_member(&x->answer, "prompt", text, n_bytes);
        json_out(&x->answer, "}\n");
    }
    tblock_free(text);
    free(ids);
    return good;
}

bool with_body(Exchange *x, bool (*answer)(Exchange *x, const JsonDoc *d))
{
    JsonDoc d    = { 0 };
    bool    good = body_json(x, &d) && answer(x, &d);
    json_doc_free(&d);
    return good;
}

bool tokenize_handle(Exchange *x) { return with_body(x, tokenize); }
bool detokenize_handle(Exchange *x) { return with_body(x, detokenize); }

void token_member(Exchange *x, const char *key, int32_t id)
{
    json_out(&x->answer, id < 0 ? "%s: null" : "%s:", key);
    if (id >= 0)
        token_json(&x->answer, x->server, id);
}

bool tokenizer_info_handle(Exchange *x)
{
    const tblock_model_info *m = &x->server->info;
    if (!m->has_tokenizer)
        return refuse(x, MHD_HTTP_BAD_REQUEST, NULL, "the model has no tokenizer");
    json_out(&x->answer, "{tokenizer_class: tblock, vocab_size: %d", m->vocab_size);
    token_member(x, "bos_token", m->bos);
    token_member(x, "eos_token", m->n_eos ? m->eos[0] : -1);
    json_out(&x->answer, "pad_token: null}\n");
    return true;
}
