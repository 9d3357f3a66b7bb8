/* api/chat_api.c: turns conversations into token ids, by the chat format of a model or a chosen
 * one. */
#include "api/api.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/memory.h"
#include "text/chat_format.h"

enum { MOST_STOP_IDS = 32, MOST_STOP_TEXTS = 16 };

struct tblock_chat {
    const tblock_model *model;
    ChatFormat *format;
    int32_t     bos, eos;           /* -1: none */
    char       *bos_text, *eos_text; /* their spelling, "" for none */
    int32_t     stop_id[MOST_STOP_IDS];
    size_t      n_stop_ids;
    char       *answer_prefix;
    const char *stop_text[MOST_STOP_TEXTS];
    size_t      n_stop_texts;
};

/* ---- Which format ---------------------------------------------------------------------------- */

bool chat_source_format(const char *path, const char *chat, const char *program, ChatFormat **out,
                        Error *err)
{
    char what[512];
    *out = NULL;
    if (!chat && !program)
        return true;
    snprintf(what, sizeof what, "%.400s: %s", path, chat ? "chat" : "chat_template");
    char *json = NULL;
    if (!chat && !chat_format_recognise(program, strlen(program), what, &json, err))
        return false;
    chat = chat ? chat : json;
    *out = chat_format_parse(chat, strlen(chat), what, err);
    free(json);
    return *out != NULL;
}

static bool choose_format(tblock_chat *c, const char *format, Error *err)
{
    const tblock_model *m = c->model;
    if (format) {
        c->format = *format == '{' ? chat_format_parse(format, strlen(format), "chat format", err)
                                   : chat_format_named(format, err);
        return c->format != NULL;
    }
    if (!chat_source_format(m->source.path, m->chat, m->chat_template, &c->format, err))
        return false;
    if (c->format)
        return true;
    char *names = chat_format_names(err);
    if (names)
        fail(err, INPUT, "%s: the model has no chat format: choose one with --chat-format NAME: %s",
             m->source.path, names);
    free(names);
    return false;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* How a token is spelled; "" for none. */
static bool spell(const tblock_chat *c, int32_t id, char **out, Error *err)
{
    const char *bytes = "";
    size_t      n = 0;
    if (id >= 0)
        tokenizer_piece(c->model->tokenizer, id, &bytes, &n);
    *out = strndup(bytes, n);
    return *out || no_memory(NULL, err);
}

static void add_stop_id(tblock_chat *c, int32_t id)
{
    for (size_t i = 0; i < c->n_stop_ids; i++)
        if (c->stop_id[i] == id)
            return;
    if (c->n_stop_ids < MOST_STOP_IDS)
        c->stop_id[c->n_stop_ids++] = id;
}

/* Stops are the model's end tokens and those of the format. A stop that is not a special token
 * here is a text. */
static void find_stops(tblock_chat *c)
{
    const Config      *cfg = &c->model->weights.cfg;
    const char *const *stop;
    size_t             n = chat_format_stops(c->format, &stop);
    for (int i = 0; c->model->has_weights && i < cfg->n_eos; i++)
        add_stop_id(c, cfg->eos[i]);
    for (size_t i = 0; i < n; i++) {
        int id = tokenizer_special_id(c->model->tokenizer, stop[i], strlen(stop[i]));
        if (id >= 0)
            add_stop_id(c, id);
        else if (c->n_stop_texts < MOST_STOP_TEXTS)
            c->stop_text[c->n_stop_texts++] = stop[i];
    }
}

tblock_chat *tblock_chat_new(const tblock_model *m, const char *format, tblock_error *err)
{
    if (!m->tokenizer) {
        const char *note = m->source.tokenizer_note;
        fail(err, INPUT, "%s: found no tokenizer: a chat needs one%s%s", m->source.path,
             note ? "; " : "", note ? note : "");
        return NULL;
    }
    tblock_chat *c = calloc(1, sizeof *c);
    if (!c) {
        no_memory(NULL, err);
        return NULL;
    }
    const Config *cfg = &m->weights.cfg;
    c->model = m;
    c->bos = m->has_weights ? cfg->bos : -1;
    c->eos = m->has_weights && cfg->n_eos ? cfg->eos[0] : -1;
    if (!choose_format(c, format, err) || !spell(c, c->bos, &c->bos_text, err)
        || !spell(c, c->eos, &c->eos_text, err)
        || !chat_answer_prefix(c->format, c->bos_text, c->eos_text, &c->answer_prefix, err)) {
        tblock_chat_free(c);
        return NULL;
    }
    find_stops(c);
    return c;
}

void tblock_chat_free(tblock_chat *c)
{
    if (!c)
        return;
    chat_format_free(c->format);
    free(c->bos_text);
    free(c->eos_text);
    free(c->answer_prefix);
    free(c);
}

void tblock_chat_describe(const tblock_chat *c, tblock_chat_info *out)
{
    ChatSystem system = chat_format_system(c->format);
    *out = (tblock_chat_info){ .name = chat_format_name(c->format),
                               .stop_ids = c->stop_id,
                               .n_stop_ids = c->n_stop_ids,
                               .stop_texts = c->stop_text,
                               .n_stop_texts = c->n_stop_texts,
                               .answer_prefix = c->answer_prefix,
                               .system = system == CHAT_SYSTEM_TOLD ? TBLOCK_CHAT_SYSTEM_TOLD
                                   : system == CHAT_SYSTEM_NONE     ? TBLOCK_CHAT_SYSTEM_REFUSED
                                                                    : TBLOCK_CHAT_SYSTEM_IGNORED };
}

const char *tblock_chat_known(size_t i) { return chat_format_known(i); }

/* ---- Rendering ------------------------------------------------------------------------------- */

/* Ids may be tokens of the tokenizer or, beyond its end, rows of the model: a model can draw
 * these too. */
static bool check_drawn(const tblock_chat *c, const tblock_chat_message *m, size_t i, Error *err)
{
    const tblock_model *model = c->model;
    int                 size  = tokenizer_size(model->tokenizer);
    if (model->has_weights && model->weights.cfg.vocab_size > size)
        size = model->weights.cfg.vocab_size;
    for (size_t k = 0; k < m->n_ids; k++)
        if (m->ids[k] < 0 || m->ids[k] >= size)
            return fail(err, INPUT, "chat: message %zu: id %zu: expected 0 to %d, found %d", i + 1,
                        k, size - 1, m->ids[k]);
    return true;
}

/* Spells the ids of an answer as they were streamed, because a text may go on after them. */
static bool spell_drawn(const tblock_chat *c, const tblock_chat_message *m, ChatMessage *out,
                        Error *err)
{
    size_t      n, room = 0, used = 0;
    TextStream *s = text_stream_new(c->model->tokenizer, true);
    char       *text = NULL;
    bool        ok = s || no_memory(NULL, err);
    for (size_t i = 0; ok && i <= m->n_ids; i++) {
        const char *piece =
            i < m->n_ids ? text_stream_put(s, m->ids[i], &n) : text_stream_flush(s, &n);
        if (used + n > room) {
            room = 2 * (used + n) + 64;
            char *grown = realloc(text, room);
            ok = grown || no_memory(NULL, err);
            text = grown ? grown : text;
        }
        if (ok && n)
            memcpy(text + used, piece, n);
        used += n;
    }
    text_stream_free(s);
    out->drawn = text;
    out->n_drawn = used;
    return ok;
}

static bool read_role(const char *role, size_t i, ChatRole *out, Error *err)
{
    return chat_role_parse(role, out)
        || fail(err, INPUT,
                "chat: message %zu: expected the role system, user or assistant, found '%s'", i + 1,
                role ? role : "");
}

/* Makes the text and the spans of the conversation. */
static bool render(const tblock_chat *c, const tblock_chat_message *m, size_t n, bool open,
                   ChatText *out, Error *err)
{
    ChatMessage *message = n <= CHAT_MOST_MESSAGES ? calloc(n + 1, sizeof *message) : NULL;
    bool         ok = message || fail(err, SYSTEM, "chat: out of memory for %zu messages", n);
    for (size_t i = 0; ok && i < n; i++) {
        message[i] = (ChatMessage){ .text = m[i].text, .n = m[i].n_bytes };
        ok = read_role(m[i].role, i, &message[i].role, err)
             && (!m[i].n_ids || message[i].role != CHAT_ASSISTANT
                 || (check_drawn(c, &m[i], i, err) && spell_drawn(c, &m[i], &message[i], err)));
    }
    ok = ok && chat_render(c->format, message, n, open, c->bos_text, c->eos_text, out, err);
    for (size_t i = 0; message && i < n; i++)
        free((char *)(uintptr_t)message[i].drawn);
    free(message);
    return ok;
}

/* Converts spans of the text into the tokenizer's. A BOS or EOS that the tokenizer finds by
 * spelling needs none. */
static size_t spans_of(const tblock_chat *c, const ChatText *t, const tblock_chat_message *m,
                       TextSpan *span)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_spans; i++) {
        const ChatSpan *s = &t->span[i];
        const int32_t  *id = s->kind == CHAT_BOS ? &c->bos : &c->eos;
        bool            end = s->kind == CHAT_BOS || s->kind == CHAT_EOS;
        if (s->start == s->end || (end && tokenizer_is_special(c->model->tokenizer, *id)))
            continue;
        span[n] = (TextSpan){ .start = s->start, .end = s->end };
        if (end)
            span[n].ids = id, span[n].n_ids = 1;
        if (s->kind == CHAT_DRAWN)
            span[n].ids = m[s->message].ids, span[n].n_ids = m[s->message].n_ids,
            span[n].if_safe = true;
        n++;
    }
    return n;
}

FP_ENV_WORK
static bool render_ids(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                       bool open, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    ChatText text;
    Ids      out = { 0 };
    if (!render(c, messages, n, open, &text, err))
        return false;
    TextSpan *span = calloc(text.n_spans + 1, sizeof *span);
    bool      ok = span || no_memory(NULL, err);
    ok = ok
        && tokenizer_encode_spans(c->model->tokenizer, text.text, text.n, span,
                                  spans_of(c, &text, messages, span), &out, err);
    if (ok && !out.id && !(out.id = malloc(sizeof *out.id)))
        ok = no_memory(NULL, err);
    free(span);
    chat_text_free(&text);
    if (!ok) {
        free(out.id);
        return false;
    }
    *ids   = out.id;
    *n_ids = out.n;
    return true;
}

bool tblock_chat_render(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                        bool open, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    *ids   = NULL;
    *n_ids = 0;
    HOST_ENV_RETURN(bool, render_ids(c, messages, n, open, ids, n_ids, err));
}

FP_ENV_WORK
static bool render_text(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                        bool open, char **text, size_t *n_bytes, tblock_error *err)
{
    ChatText out;
    if (!render(c, messages, n, open, &out, err))
        return false;
    free(out.span);
    *text    = out.text;
    *n_bytes = out.n;
    return true;
}

bool tblock_chat_text(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                      bool open, char **text, size_t *n_bytes, tblock_error *err)
{
    *text    = NULL;
    *n_bytes = 0;
    HOST_ENV_RETURN(bool, render_text(c, messages, n, open, text, n_bytes, err));
}
