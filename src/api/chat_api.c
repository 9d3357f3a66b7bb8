/* api/chat_api.c: turns conversations into token ids, by the model's chat template or another. */
#include "api/api.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/fp_env.h"
#include "base/hash.h"
#include "base/memory.h"
#include "chat/chat_format.h"
#include "chat/chat_template.h"

enum { MOST_STOP_IDS = 32, MOST_STOP_TEXTS = 16 };

struct tblock_chat {
    const tblock_model *model;
    ChatTemplate *t;
    char         *name;
    char          sha256[65];           /* of the template's text */
    char         *date;                 /* given to the template; NULL: none */
    ChatTokens    tokens;
    ChatHabits    habits;
    AnswerForm   *answers;              /* the format of replies */
    char         *bos, *eos;            /* the text of the model's tokens, "" for none */
    ChatFormat   *entry;                /* of an old model file; NULL: none */
    int32_t       stop_id[MOST_STOP_IDS];
    size_t        n_stop_ids;
    const char   *stop_text[MOST_STOP_TEXTS];
    size_t        n_stop_texts;
};

/* ---- Which template -------------------------------------------------------------------------- */

const char *chat_source_name(const Source *s)
{
    bool template = source_meta(s, "chat_template") || source_meta(s, "chat_template_tools");
    return template ? "the model's template" : source_meta(s, "chat") ? "an entry chat" : NULL;
}

/* The names of all built-in templates. */
static char *builtin_names(Error *err)
{
    TextOut     o = { 0 };
    const char *name;
    for (size_t i = 0; (name = chat_builtin_name(i)); i++)
        text_out(&o, "%s%s", i ? ", " : "", name);
    return text_out_take(&o, err);
}

const char *chat_format_text(const char *format, Error *err)
{
    const char *text = strchr(format, '{') ? format : chat_builtin_template(format);
    if (text)
        return text;
    char *names = builtin_names(err);
    if (names)
        fail(err, USAGE, "chat format: found '%.80s', expected one of %s, or a template", format,
             names);
    free(names);
    return NULL;
}

/* A template, its origin, and its name in messages. */
typedef struct Chosen { const char *text, *name; char *made, what[512]; } Chosen;

static bool no_template(const tblock_model *m, Error *err)
{
    char *names = builtin_names(err);
    bool  tools = m->chat_meta[CHAT_TEMPLATE_TOOLS] != NULL;
    if (names)
        fail(err, INPUT, "%s: the model has no chat template%s: choose one with --chat-format NAME "
                         "or FILE; names: %s",
             m->source.path, tools ? " without tools" : "", names);
    free(names);
    return false;
}

/* The entry of an old file, as a template. */
static bool choose_entry(tblock_chat *c, Chosen *out, Error *err)
{
    const char *entry = c->model->chat;
    snprintf(out->what, sizeof out->what, "%.400s: chat", c->model->source.path);
    c->entry = chat_format_parse(entry, strlen(entry), out->what, err);
    out->made = c->entry ? chat_entry_template(entry, strlen(entry), out->what, err) : NULL;
    out->text = out->made;
    out->name = out->made ? chat_format_name(c->entry) : NULL;
    return out->text != NULL;
}

/* As transformers: of a model's two templates, the one for tools if there are any. */
static bool choose(tblock_chat *c, const tblock_chat_options *o, Chosen *out, Error *err)
{
    const tblock_model *m = c->model;
    const char         *tools = o->tools ? m->chat_meta[CHAT_TEMPLATE_TOOLS] : NULL;
    if (o->format) {
        snprintf(out->what, sizeof out->what, "chat template");
        out->name = strchr(o->format, '{') ? "custom" : o->format;
        out->text = chat_format_text(o->format, err);
        return out->text != NULL;
    }
    snprintf(out->what, sizeof out->what, "%.400s: chat template", m->source.path);
    out->name = "the model's own";
    out->text = tools ? tools : m->chat_meta[CHAT_TEMPLATE];
    return out->text || (m->chat ? choose_entry(c, out, err) : no_template(m, err));
}

static bool open_template(tblock_chat *c, const tblock_chat_options *o, Error *err)
{
    Chosen from = { 0 };
    bool   ok = choose(c, o, &from, err);
    if (ok
        && (!(c->name = strdup(from.name)) || (o->date && !(c->date = strdup(o->date)))
            || !sha256_hex(from.text, strlen(from.text), c->sha256)))
        ok = no_memory(NULL, err);
    if (ok)
        c->t = chat_template_new(&(ChatTemplateOptions){
                                     .text = from.text,
                                     .what = from.what,
                                     .special = c->model->chat_meta[CHAT_SPECIAL_TOKENS],
                                     .bos = c->bos,
                                     .eos = c->eos,
                                     .args = o->args,
                                     .tools = o->tools,
                                     .date = o->date },
                                 err);
    free(from.made);
    return c->t != NULL;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* The text of a token; "" for none. One that the tokenizer would not find is noted. */
static bool spell(tblock_chat *c, int32_t id, char **out, Error *err)
{
    const Tokenizer *t = c->model->tokenizer;
    const char      *bytes = "";
    size_t           n = 0;
    if (id >= 0)
        tokenizer_piece(t, id, &bytes, &n);
    *out = strndup(bytes, n);
    if (*out && **out && !tokenizer_is_special(t, id))
        c->tokens.spelled[c->tokens.n_spelled++] = (SpelledToken){ id, *out };
    return *out || no_memory(NULL, err);
}

static void add_stop_id(tblock_chat *c, int32_t id)
{
    for (size_t i = 0; i < c->n_stop_ids; i++)
        if (c->stop_id[i] == id)
            return;
    if (id >= 0 && c->n_stop_ids < MOST_STOP_IDS)
        c->stop_id[c->n_stop_ids++] = id;
}

static void add_stop_text(tblock_chat *c, const char *text)
{
    if (text && c->n_stop_texts < MOST_STOP_TEXTS)
        c->stop_text[c->n_stop_texts++] = text;
}

/* Does the token after a reply end it? It may also stand between its parts. */
static bool ends_answers(const tblock_chat *c)
{
    size_t      n = 0;
    const char *bytes = "";
    char        text[64];
    if (c->habits.stop_id >= 0)
        tokenizer_piece(c->tokens.tokenizer, c->habits.stop_id, &bytes, &n);
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : 0), bytes);
    return !answer_goes_on(c->answers, text);
}

/* Stop tokens: the model's end tokens, an entry's, and what the template writes after a reply. */
static void find_stops(tblock_chat *c)
{
    const Config      *cfg = &c->model->weights.cfg;
    const char *const *stop = NULL;
    size_t             n = c->entry ? chat_format_stops(c->entry, &stop) : 0;
    for (int i = 0; c->model->has_weights && i < cfg->n_eos; i++)
        add_stop_id(c, cfg->eos[i]);
    for (size_t i = 0; i < n; i++) {
        int id = tokenizer_special_id(c->model->tokenizer, stop[i], strlen(stop[i]));
        add_stop_id(c, id);
        add_stop_text(c, id < 0 ? stop[i] : NULL);
    }
    if (!c->entry) {
        add_stop_id(c, ends_answers(c) ? c->habits.stop_id : -1);
        add_stop_text(c, c->habits.stop_text);
    }
}

static bool open_chat(tblock_chat *c, const tblock_chat_options *o, Error *err)
{
    const tblock_model *m   = c->model;
    const Config       *cfg = &m->weights.cfg;
    if (!m->tokenizer) {
        const char *note = m->source.tokenizer_note;
        return fail(err, INPUT, "%s: found no tokenizer: a chat needs one%s%s", m->source.path,
                    note ? "; " : "", note ? note : "");
    }
    c->tokens.tokenizer = m->tokenizer;
    if (!spell(c, m->has_weights ? cfg->bos : -1, &c->bos, err)
        || !spell(c, m->has_weights && cfg->n_eos ? cfg->eos[0] : -1, &c->eos, err)
        || !open_template(c, o, err) || !chat_habits_find(&c->tokens, c->t, &c->habits, err)
        || !(c->answers = chat_template_answers(c->t, err)))
        return false;
    find_stops(c);
    return true;
}

FP_ENV_WORK
static tblock_chat *chat_new(const tblock_model *m, const tblock_chat_options *opt, Error *err)
{
    static const tblock_chat_options defaults = { 0 };
    tblock_chat *c = calloc(1, sizeof *c);
    if (!c)
        no_memory(NULL, err);
    else
        c->model = m;
    if (c && open_chat(c, opt ? opt : &defaults, err))
        return c;
    tblock_chat_free(c);
    return NULL;
}

tblock_chat *tblock_chat_new(const tblock_model *m, const tblock_chat_options *opt,
                             tblock_error *err)
{
    NEED(NULL, err, m);
    HOST_ENV_RETURN(tblock_chat *, chat_new(m, opt, err));
}

void tblock_chat_free(tblock_chat *c)
{
    if (!c)
        return;
    chat_template_free(c->t);
    chat_habits_free(&c->habits);
    answer_form_free(c->answers);
    chat_format_free(c->entry);
    free(c->name);
    free(c->date);
    free(c->bos);
    free(c->eos);
    free(c);
}

void tblock_chat_describe(const tblock_chat *c, tblock_chat_info *out)
{
    NEED(, NULL, c, out);
    static const int system[] = { [SYSTEM_REFUSED] = TBLOCK_CHAT_SYSTEM_REFUSED,
                                  [SYSTEM_IGNORED] = TBLOCK_CHAT_SYSTEM_IGNORED,
                                  [SYSTEM_TOLD]    = TBLOCK_CHAT_SYSTEM_TOLD };
    *out = (tblock_chat_info){ .name = c->name,
                               .stop_ids = c->stop_id,
                               .n_stop_ids = c->n_stop_ids,
                               .stop_texts = c->stop_text,
                               .n_stop_texts = c->n_stop_texts,
                               .answer_prefix = c->habits.answer_prefix,
                               .system = system[c->habits.system] };
}

const char *tblock_chat_known(size_t i) { return chat_builtin_name(i); }

ChatParts chat_parts(const tblock_chat *c)
{
    return (ChatParts){ c->model, c->answers, chat_template_tools(c->t), c->sha256, c->date };
}

void tblock_chat_answers(const tblock_chat *c, tblock_answer_form *out)
{
    NEED(, NULL, c, out);
    const AnswerFacts f = answer_form_facts(c->answers);
    *out = (tblock_answer_form){ .reasoning        = f.reasoning,
                                 .calls            = f.calls,
                                 .object_arguments = f.object_arguments,
                                 .text_arguments   = f.text_arguments };
}

/* ---- Rendering ------------------------------------------------------------------------------- */

/* Ids may be tokens of the tokenizer or, beyond its end, rows of the model, which can be sampled
 * too. */
static bool check_sampled(const tblock_chat *c, const tblock_chat_message *m, size_t i, Error *err)
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

/* Decodes the ids of a reply as they were streamed, because text may follow them. */
static bool spell_sampled(const tblock_chat *c, const tblock_chat_message *m, ChatTurn *out,
                        Error *err)
{
    size_t      n;
    TextOut     text = { 0 };
    TextStream *s = text_stream_new(c->model->tokenizer, true);
    bool        ok = s || no_memory(NULL, err);
    for (size_t i = 0; ok && i <= m->n_ids; i++) {
        const char *piece =
            i < m->n_ids ? text_stream_put(s, m->ids[i], &n) : text_stream_flush(s, &n);
        ok = text_out_add(&text, piece, n, err);
    }
    text_stream_free(s);
    out->sampled = text.text;
    out->n_sampled = text.n;
    return ok;
}

static void free_turns(ChatTurn *turn, size_t n)
{
    for (size_t i = 0; turn && i < n; i++)
        free((char *)(uintptr_t)turn[i].sampled);
    free(turn);
}

/* The messages as turns, which point into them. */
static ChatTurn *turns_of(const tblock_chat *c, const tblock_chat_message *m, size_t n, Error *err)
{
    ChatTurn *turn = n <= CHAT_MOST_MESSAGES ? calloc(n + 1, sizeof *turn) : NULL;
    bool      ok = turn || fail(err, SYSTEM, "chat: out of memory for %zu messages", n);
    for (size_t i = 0; ok && i < n; i++) {
        turn[i] = (ChatTurn){ .role = m[i].role, .text = m[i].text, .n = m[i].n_bytes,
                              .json = m[i].json };
        ok = m[i].role || m[i].json
            || fail(err, INPUT, "chat: message %zu: expected a role, found none", i + 1);
        if (ok && m[i].n_ids) {
            turn[i].ids = m[i].ids, turn[i].n_ids = m[i].n_ids;
            ok = check_sampled(c, &m[i], i, err) && spell_sampled(c, &m[i], &turn[i], err);
        }
    }
    if (ok)
        return turn;
    free_turns(turn, n);
    return NULL;
}

FP_ENV_WORK
static bool render_ids(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                       bool answer, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    Ids       out = { 0 };
    ChatTurn *turn = turns_of(c, messages, n, err);
    bool      ok = turn && chat_tokens_encode(&c->tokens, c->t, turn, n, answer, &out, err);
    free_turns(turn, n);
    if (ok && !out.id && !(out.id = malloc(sizeof *out.id)))
        ok = no_memory(NULL, err);
    if (!ok) {
        free(out.id);
        return false;
    }
    *ids   = out.id;
    *n_ids = out.n;
    return true;
}

bool tblock_chat_render(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                        bool answer, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    NEED(false, err, ids, n_ids);
    *ids = NULL;
    *n_ids = 0;
    NEED(false, err, c, messages || !n);
    HOST_ENV_RETURN(bool, render_ids(c, messages, n, answer, ids, n_ids, err));
}

FP_ENV_WORK
static bool render_text(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                        bool answer, char **text, size_t *n_bytes, tblock_error *err)
{
    Conversation talk = { 0 };
    JinjaText    out = { 0 };
    ChatTurn    *turn = turns_of(c, messages, n, err);
    bool         ok = turn && conversation_new(c->t, turn, n, &talk, err)
        && conversation_render(&talk, n, answer, &out, err);
    conversation_free(&talk);
    free_turns(turn, n);
    *text    = out.text;
    *n_bytes = out.n;
    free(out.mark);
    return ok;
}

bool tblock_chat_text(const tblock_chat *c, const tblock_chat_message *messages, size_t n,
                      bool answer, char **text, size_t *n_bytes, tblock_error *err)
{
    NEED(false, err, text, n_bytes);
    *text = NULL;
    *n_bytes = 0;
    NEED(false, err, c, messages || !n);
    HOST_ENV_RETURN(bool, render_text(c, messages, n, answer, text, n_bytes, err));
}
