/* cli/chat_session.c: a conversation: its messages, which of them fit, replies, /save, /load. */
#include "chat_session.h"

#include "frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "tblock_tools.h"

/* ---- Messages -------------------------------------------------------------------------------- */

static void message_free(SessionMessage *m)
{
    free(m->role);
    free(m->text);
    free(m->json);
    free(m->ids);
    *m = (SessionMessage){ 0 };
}

static bool add_message(Session *s, const tblock_chat_message *from, tblock_error *err)
{
    if (!ARRAY_ROOM(s->message, s->cap, s->n + 1))
        return no_memory(NULL, err);
    SessionMessage m = { .role = strdup(from->role), .text = malloc(from->n_bytes + 1),
                         .json = from->json ? strdup(from->json) : NULL, .n = from->n_bytes };
    if (!m.role || !m.text || (from->json && !m.json)) {
        message_free(&m);
        return no_memory(NULL, err);
    }
    if (m.n)
        memcpy(m.text, from->text, m.n);
    m.text[m.n] = '\0';
    s->message[s->n++] = m;
    return true;
}

static bool add_text(Session *s, const char *role, const char *text, size_t n, tblock_error *err)
{
    return add_message(s, &(tblock_chat_message){ .role = role, .text = text, .n_bytes = n }, err);
}

static tblock_chat_message message_of(const SessionMessage *m)
{
    return (tblock_chat_message){ m->role, m->text, m->n, m->ids, m->n_ids, m->json };
}

static void drop_last(Session *s) { message_free(&s->message[--s->n]); }

static size_t first_turn(const Session *s)
{
    return s->n && strcmp(s->message[0].role, "system") == 0;
}

static bool is_users(const SessionMessage *m) { return strcmp(m->role, "user") == 0; }
static bool is_answer(const SessionMessage *m) { return strcmp(m->role, "assistant") == 0; }

void session_reset(Session *s)
{
    for (size_t first = first_turn(s); s->n > first;)
        drop_last(s);
    s->n_left_out = 0;
}

bool session_system(Session *s, const char *text, tblock_error *err)
{
    if (s->format.system == TBLOCK_CHAT_SYSTEM_REFUSED)
        return fail(err, TBLOCK_USAGE, "system text: the chat template (%s) does not support one",
                    s->format.name);
    if (s->format.system == TBLOCK_CHAT_SYSTEM_IGNORED)
        cli_note("system text: the chat template (%s) ignores it", s->format.name);
    if (!add_text(s, "system", text, strlen(text), err))
        return false;
    SessionMessage m = s->message[s->n - 1];
    if (first_turn(s) && s->n > 1) {
        message_free(&s->message[0]);
        s->n--;
    } else {
        memmove(s->message + 1, s->message, (s->n - 1) * sizeof m);
    }
    s->message[0] = m;
    return true;
}

/* ---- The conversation as tokens -------------------------------------------------------------- */

/* Ids of the system message and of all messages that are not left out. */
static bool render(const Session *s, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    size_t               first = first_turn(s), n = 0;
    tblock_chat_message *m = calloc(s->n + 1, sizeof *m);
    if (!m)
        return no_memory(NULL, err);
    for (size_t i = 0; i < s->n; i++) {
        if (i < first || i >= first + s->n_left_out)
            m[n++] = message_of(&s->message[i]);
    }
    bool good = tblock_chat_render(s->chat, m, n, true, ids, n_ids, err);
    free(m);
    return good;
}

/* Leave out the oldest turn that the model still sees, with its reply. False: only the last message
 * is left. */
static bool leave_out_turn(Session *s)
{
    size_t at = first_turn(s) + s->n_left_out;
    size_t next = at + 1;
    while (next < s->n && !is_users(&s->message[next]))
        next++;
    if (next >= s->n)
        return false;
    s->n_left_out += next - at;
    return true;
}

/* The rule for a full context (docs/chat.md): if the conversation leaves less than a quarter of the
 * context for the reply, or less than --predict if that is smaller, the oldest turns are left out
 * until half of it is free. */
static bool fit(Session *s, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    size_t n_ctx = (size_t)s->computing.n_ctx, wanted = n_ctx / 4, before = s->n_left_out;
    if (s->o.n_predict && (size_t)s->o.n_predict < wanted)
        wanted = (size_t)s->o.n_predict;
    if (!render(s, ids, n_ids, err))
        return false;
    bool full = *n_ids + wanted > n_ctx;
    while (full && *n_ids > n_ctx / 2 && leave_out_turn(s)) {
        tblock_free(*ids);
        if (!render(s, ids, n_ids, err))
            return false;
    }
    if (s->n_left_out > before)
        cli_note("the context of %zu tokens is full: dropped the %zu oldest messages; "
                             "%zu tokens remain",
                 n_ctx, s->n_left_out - before, *n_ids);
    if (*n_ids < n_ctx)
        return true;
    tblock_free(*ids);
    s->n_left_out = before;
    return fail(err, TBLOCK_USAGE, "the message has %zu tokens with those of the chat template, "
                                       "but the context holds %zu", *n_ids, n_ctx);
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* Shows the new part of the reply. */
static bool show(void *user, const tblock_generation_info *now, tblock_error *err)
{
    return answer_view_text(user, now->text, now->n_bytes, false, err);
}

static void note_speed(Session *s, const Generating *g)
{
    const tblock_generation_info *now = &g->now;
    const size_t n_read = now->n_held < now->n_given ? now->n_held : now->n_given;
    s->end         = now->end;
    s->n_ids       = now->n_ids;
    s->n_reused    = now->n_reused;
    s->n_prefilled = n_read - now->n_reused;
    s->n_sampled   = now->n_ids - now->n_given;
    s->n_proposed  = now->n_proposed;
    s->n_accepted  = now->n_accepted;
    s->prefill_s   = g->prefill_s;
    s->decode_s    = g->decode_s;
}

/* Keep the reply as a message; not its ids if a stop string cut it: they differ from the text. */
static bool keep_answer(Session *s, const AnswerView *v, const tblock_generation_info *now,
                        tblock_error *err)
{
    tblock_chat_message said = { .role = "assistant", .text = now->text, .n_bytes = now->n_bytes };
    char *json = NULL;
    bool  good = !v->calls_or_reasons || tblock_answer_json(v->answer, &json, err);
    said.json = json;
    good = good && add_message(s, &said, err);
    tblock_free(json);
    if (!good)
        return false;
    SessionMessage *m = &s->message[s->n - 1];
    m->n_ids = now->end == TBLOCK_END_TEXT ? 0 : s->n_sampled;
    m->ids = m->n_ids ? malloc(m->n_ids * sizeof *m->ids) : NULL;
    if (!m->ids)
        m->n_ids = 0;
    else
        memcpy(m->ids, now->ids + now->n_given, m->n_ids * sizeof *m->ids);
    s->n_answers++;
    s->all_sampled += s->n_sampled;
    s->all_decode_s += s->decode_s;
    return true;
}

/* A receipt for the reply that o will generate, if one is wanted. */
static bool begin_receipt(const Session *s, tblock_generation_options *o, tblock_receipt **out,
                          tblock_error *err)
{
    if (!s->receipt)
        return true;
    *out = tblock_receipt_new(s->f->context, o, &(tblock_receipt_options){ .chat = s->chat }, err);
    o->on_token = tblock_receipt_token;
    o->user     = *out;
    return *out != NULL;
}

/* If the file cannot be written, the conversation continues. */
static void save_receipt(const Session *s, const tblock_receipt *r)
{
    tblock_error err = { 0 };
    if (!receipt_write(r, s->receipt, &err))
        fprintf(stderr, "tblock: %s\n", err.msg);
}

static bool answer(Session *s, const int32_t *ids, size_t n_ids, tblock_error *err)
{
    tblock_generation_options o = { .ids          = ids,
                                          .n_ids        = n_ids,
                                          .sampling     = sampling_of(s->o.sampling, s->seed),
                                          .max_tokens   = s->o.n_predict,
                                          .stop_ids     = s->format.stop_ids,
                                          .n_stop_ids   = s->format.n_stop_ids,
                                          .stop_texts   = s->format.stop_texts,
                                          .n_stop_texts =
                                              s->constraint ? 0 : s->format.n_stop_texts,
                                          .constraint   = s->constraint,
                                          .draft        = s->f->drafting.most,
                                          .draft_match  = s->f->draft->match,
                                          .skip         = s->format.answer_prefix };
    AnswerView view;
    Generating g = { .context = s->f->context, .reading = "reading", .show = show, .user = &view };
    tblock_receipt *receipt = NULL;
    if (!answer_view_open(&view, s->chat, s->o.raw, err))
        return false;
    bool good = begin_receipt(s, &o, &receipt, err)
        && (g.generation = tblock_generation_open(s->f->context, &o, err)) && generate(&g, err)
        && answer_view_text(&view, g.now.text, g.now.n_bytes, true, err);
    if (g.generation)
        note_speed(s, &g);
    if (good && s->end == TBLOCK_END_STOPPED && s->n_sampled == 0)
        good = fail(err, CLI_INTERRUPTED, "%s", "");
    good = good && constraint_was_cut(s->constraint, &g.now, &s->cut, err)
        && keep_answer(s, &view, &g.now, err);
    if (good && receipt)
        save_receipt(s, receipt);
    tblock_generation_close(g.generation);
    tblock_receipt_free(receipt);
    tblock_answer_free(view.answer);
    return good;
}

static bool try_answer(Session *s, uint64_t seed, tblock_error *err)
{
    int32_t *ids;
    size_t   n_ids;
    if (!fit(s, &ids, &n_ids, err))
        return false;
    s->seed   = seed;
    bool good = answer(s, ids, n_ids, err);
    tblock_free(ids);
    return good;
}

/* Reply to the last message. On failure, the turns that were left out for the reply are put
 * back. */
static bool answer_last(Session *s, uint64_t seed, tblock_error *err)
{
    size_t left_out = s->n_left_out;
    bool   good = try_answer(s, seed, err);
    if (!good)
        s->n_left_out = left_out;
    return good;
}

bool session_reply(Session *s, tblock_error *err)
{
    if (answer_last(s, s->o.sampling->seed.value, err))
        return true;
    drop_last(s); /* a reply is added last, so this is the user's message */
    return false;
}

bool session_say(Session *s, const char *text, size_t n, tblock_error *err)
{
    return add_text(s, "user", text, n, err) && session_reply(s, err);
}

bool session_again(Session *s, tblock_error *err)
{
    if (s->n < first_turn(s) + 2 || !is_answer(&s->message[s->n - 1])
        || is_answer(&s->message[s->n - 2]))
        return fail(err, TBLOCK_USAGE, "/regen: there is no answer yet");
    SessionMessage old = s->message[--s->n];
    if (answer_last(s, s->seed + 1, err)) {
        message_free(&old);
        return true;
    }
    s->message[s->n++] = old; /* there is still room for it */
    return false;
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool session_save(const Session *s, const char *path, tblock_error *err)
{
    tblock_chat_message *m = calloc(s->n + 1, sizeof *m);
    if (!m)
        return no_memory(NULL, err);
    for (size_t i = 0; i < s->n; i++)
        m[i] = message_of(&s->message[i]);
    bool good = tblock_output_apart(s->f->model, s->f->path, path, err)
        && tblock_chat_save(m, s->n, path, err);
    free(m);
    return good;
}

bool session_receipt(Session *s, const char *path, tblock_error *err)
{
    if (path && !tblock_output_apart(s->f->model, s->f->path, path, err))
        return false;
    char *copy = path ? strdup(path) : NULL;
    if (path && !copy)
        return no_memory(NULL, err);
    free(s->receipt);
    s->receipt = copy;
    return true;
}

bool session_load(Session *s, const char *path, bool *waits, tblock_error *err)
{
    tblock_chat_message *m = NULL;
    int32_t             *ids = NULL;
    size_t               n = 0, n_ids;
    Session              loaded = { 0 };
    if (!chat_file_read(path, &m, &n, err))
        return false;
    size_t system = n && strcmp(m[0].role, "system") == 0;
    /* do the messages suit the template? */
    bool   good = n == system || tblock_chat_render(s->chat, m, n, true, &ids, &n_ids, err);
    for (size_t i = 0; good && i < n; i++)
        good = add_message(&loaded, &m[i], err);
    if (good && system && s->format.system == TBLOCK_CHAT_SYSTEM_REFUSED)
        good = fail(err, TBLOCK_INPUT,
                    "%s: system text: the chat template (%s) does not support one", path,
                    s->format.name);
    SessionMessage *gone = good ? s->message : loaded.message;
    size_t          n_gone = good ? s->n : loaded.n;
    for (size_t i = 0; i < n_gone; i++)
        message_free(&gone[i]);
    free(gone);
    if (good) {
        s->message = loaded.message, s->n = loaded.n, s->cap = loaded.cap;
        s->n_left_out = 0;
        *waits = s->n > first_turn(s) && !is_answer(&s->message[s->n - 1]);
    }
    tblock_free(ids);
    tblock_free(m);
    return good;
}

/* ---- Opening and telling --------------------------------------------------------------------- */

bool session_open(Session *s, Frame *f, const SessionOptions *o, tblock_error *err)
{
    *s = (Session){ .f = f, .o = *o, .seed = o->sampling->seed.value };
    s->chat = frame_model(f, err) ? template_open(f->model, o->chat, err) : NULL;
    if (!s->chat)
        return false;
    tblock_chat_describe(s->chat, &s->format);
    if (constraint_given(o->constraint)) {
        s->constraint = constraint_open(f->model, o->constraint, err);
        if (!s->constraint)
            return false;
    }
    if (!frame_context(f, err) || !frame_draft(f, err))
        return false;
    tblock_context_describe(f->context, &s->computing);
    return true;
}

void session_close(Session *s)
{
    while (s->n)
        drop_last(s);
    free(s->message);
    free(s->receipt);
    tblock_chat_free(s->chat);
    tblock_constraint_free(s->constraint);
    *s = (Session){ 0 };
}

static double per_second(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

void session_stats(const Session *s)
{
    static const char *const ends[] = { [TBLOCK_END_TOKEN]   = "done",
                                        [TBLOCK_END_TEXT]    = "done",
                                        [TBLOCK_END_LENGTH]  = "--predict reached",
                                        [TBLOCK_END_CONTEXT] = "context full",
                                        [TBLOCK_END_STOPPED] = "interrupted",
                                        [TBLOCK_END_FAILED]  = "failed",
                                        [TBLOCK_END_FITS]    = "done" };
    tblock_context_info c;
    char                format[CLI_SHOWN];
    tblock_context_describe(s->f->context, &c);
    size_t turns = s->n - first_turn(s);
    fprintf(stderr, "conversation  %zu messages%s, %zu of the oldest dropped, chat template: %s\n",
            turns, first_turn(s) ? " and a system text" : "", s->n_left_out,
            cli_shown(format, s->format.name));
    fprintf(stderr, "context       %zu of %d tokens used, KV cache %.2f MB\n", s->n_ids, c.n_ctx,
            (double)c.kv_bytes / 1e6);
    if (s->n_answers == 0)
        return;
    fprintf(stderr,
            "last answer   %zu tokens reused, %zu read at %.2f tok/s, %zu generated at "
            "%.2f tok/s, seed %" PRIu64 ", %s\n",
            s->n_reused, s->n_prefilled, per_second(s->n_prefilled, s->prefill_s), s->n_sampled,
            per_second(s->n_sampled, s->decode_s), s->seed, ends[s->end]);
    if (s->f->drafting.most)
        fprintf(stderr, "its drafts    %zu of %zu tokens accepted\n", s->n_accepted, s->n_proposed);
    fprintf(stderr, "all answers   %zu, %zu tokens generated at %.2f tok/s\n", s->n_answers,
            s->all_sampled, per_second(s->all_sampled, s->all_decode_s));
}
