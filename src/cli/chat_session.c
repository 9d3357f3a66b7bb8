#include "chat_session.h"

#include "chat_file.h"
#include "interrupt.h"
#include "message.h"
#include "progress_bar.h"
#include "stop_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* ---- Messages ------------------------------------------------------------------------------------------------- */

static void message_free(SessionMessage *m)
{
    free(m->text);
    free(m->ids);
    *m = (SessionMessage){ 0 };
}

static bool add_message(Session *s, const char *role, const char *text, size_t n, tblock_error *err)
{
    if (s->n == s->cap) {
        size_t          cap = s->cap ? 2 * s->cap : 16;
        SessionMessage *grown = realloc(s->message, cap * sizeof *grown);
        if (!grown)
            return no_memory(NULL, err);
        s->message = grown;
        s->cap = cap;
    }
    char *copy = malloc(n + 1);
    if (!copy)
        return no_memory(NULL, err);
    if (n)
        memcpy(copy, text, n);
    copy[n] = '\0';
    s->message[s->n++] = (SessionMessage){ .role = role, .text = copy, .n = n };
    return true;
}

static void drop_last(Session *s) { message_free(&s->message[--s->n]); }

static size_t first_turn(const Session *s) { return s->n && strcmp(s->message[0].role, "system") == 0; }

static bool is_users(const SessionMessage *m) { return strcmp(m->role, "user") == 0; }

void session_reset(Session *s)
{
    for (size_t first = first_turn(s); s->n > first;)
        drop_last(s);
    s->n_left_out = 0;
}

bool session_system(Session *s, const char *text, tblock_error *err)
{
    if (s->format.system == TBLOCK_CHAT_SYSTEM_REFUSED)
        return fail(err, TBLOCK_USAGE, "system text: chat format %s does not support one", s->format.name);
    if (s->format.system == TBLOCK_CHAT_SYSTEM_IGNORED)
        cli_note(s->o.quiet, "system text: chat format %s ignores it", s->format.name);
    if (!add_message(s, "system", text, strlen(text), err))
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

/* ---- The conversation as tokens ------------------------------------------------------------------------------- */

/* Ids of the system text and of all messages that are not left out. */
static bool render(const Session *s, int32_t **ids, size_t *n_ids, tblock_error *err)
{
    size_t               first = first_turn(s), n = 0;
    tblock_chat_message *m = calloc(s->n + 1, sizeof *m);
    if (!m)
        return no_memory(NULL, err);
    for (size_t i = 0; i < s->n; i++) {
        const SessionMessage *from = &s->message[i];
        if (i < first || i >= first + s->n_left_out)
            m[n++] = (tblock_chat_message){ from->role, from->text, from->n, from->ids, from->n_ids };
    }
    bool good = tblock_chat_render(s->chat, m, n, true, ids, n_ids, err);
    free(m);
    return good;
}

/* Leave out the oldest turn that is still told, an answer with it. False: only the last message is left. */
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

/* The rule for a full context (docs/chat.md): where the conversation leaves less than a quarter of the context for the
 * answer, or less than --predict where that is smaller, the oldest turns are left out until half of it is free. */
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
        cli_note(s->o.quiet, "the context of %zu tokens is full: dropped the %zu oldest messages; "
                             "%zu tokens remain",
                 n_ctx, s->n_left_out - before, *n_ids);
    if (*n_ids < n_ctx)
        return true;
    tblock_free(*ids);
    s->n_left_out = before;
    return fail(err, TBLOCK_USAGE, "the message has %zu tokens with those of the chat format, "
                                       "but the context holds %zu", *n_ids, n_ctx);
}

/* Make the sequence what ids say, as far as the KV cache holds it already; at least the last token is computed anew, since its
 * logits are needed. */
static bool take_ids(Session *s, const int32_t *ids, size_t n_ids, tblock_error *err)
{
    size_t same = 0;
    while (same < s->n_cached && same + 1 < n_ids && s->ids[same] == ids[same])
        same++;
    memcpy(s->ids, ids, n_ids * sizeof *ids);
    s->n_ids = n_ids;
    if (same < s->n_cached && !tblock_seq_rewind(s->context, 0, (int32_t)same, NULL)) {
        same = 0; /* a windowed layer no longer has what comes before: all is read again */
        if (!tblock_seq_rewind(s->context, 0, 0, err))
            return false;
    }
    s->n_cached = s->n_reused = same;
    return true;
}

/* Compute the next n tokens of the sequence; logits after the last one, or NULL. */
static const float *compute(Session *s, size_t n, tblock_error *err)
{
    tblock_item items[COMPUTE_BATCH];
    for (size_t i = 0; i < n; i++)
        items[i] = (tblock_item){ .pos = (int32_t)(s->n_cached + i), .token = s->ids[s->n_cached + i], .want_logits = i + 1 == n };
    if (!tblock_decode(s->context, items, n, err))
        return NULL;
    s->n_cached += n;
    return tblock_logits(s->context, n - 1);
}

/* Read what the cache lacks, in pieces that take a moment each, so that Ctrl-C is heard. NULL: failed or interrupted. */
static const float *read_prompt(Session *s, tblock_error *err)
{
    double       start = clock_seconds();
    size_t       piece = 64, from = s->n_cached;
    const float *logits = NULL;
    while (s->n_cached < s->n_ids && !interrupted()) {
        size_t left = s->n_ids - s->n_cached, n = left < piece ? left : piece;
        double piece_start = clock_seconds();
        progress_show("reading", (double)(s->n_cached - from) / (double)(s->n_ids - from));
        logits = compute(s, n, err);
        if (!logits)
            break;
        if (piece < COMPUTE_BATCH && clock_seconds() - piece_start < 0.2)
            piece *= 2;
    }
    progress_end();
    s->n_read = s->n_cached - from;
    s->read_s = clock_seconds() - start;
    return s->n_cached == s->n_ids ? logits : NULL;
}

/* ---- Answers -------------------------------------------------------------------------------------------------- */

/* An answer on its way out. */
typedef struct Answer {
    tblock_stream *stream;
    StopText       stop;
    const char    *prefix;  /* what is still to come of the format's text before the content */
    TextOut        now, all; /* to print; all of the content */
} Answer;

static bool show(Answer *a, const char *text, size_t n, bool last, tblock_error *err)
{
    while (n && *a->prefix && *text == *a->prefix)
        a->prefix++, text++, n--;
    if (n)
        a->prefix = "";
    if (!stop_text_put(&a->stop, text, n, &a->now, err) || (last && !stop_text_flush(&a->stop, &a->now, err)))
        return false;
    output_write(a->now.text, a->now.n);
    if (!text_out_add(&a->all, a->now.text, a->now.n, err))
        return false;
    a->now.n = 0;
    return output_flush(err);
}

static bool ends_answer(const Session *s, int32_t id)
{
    for (size_t i = 0; i < s->format.n_stop_ids; i++)
        if (s->format.stop_ids[i] == id)
            return true;
    return false;
}

/* Why no further token is drawn; false: one is. */
static bool is_over(Session *s, const Answer *a, size_t n_prompt)
{
    size_t n_drawn = s->n_ids - n_prompt;
    if (a->stop.found)
        s->end = ANSWER_DONE;
    else if (interrupted())
        s->end = ANSWER_INTERRUPTED;
    else if (s->o.n_predict && n_drawn >= (size_t)s->o.n_predict)
        s->end = ANSWER_LENGTH;
    else if (s->n_ids >= (size_t)s->computing.n_ctx)
        s->end = ANSWER_CONTEXT;
    else
        return false;
    return true;
}

static bool draw(Session *s, Answer *a, tblock_sampler *sampler, const float *logits, tblock_error *err)
{
    size_t n_prompt = s->n_ids, n;
    double start = clock_seconds();
    s->end = ANSWER_DONE;
    while (logits && !is_over(s, a, n_prompt)) {
        int32_t id;
        if (!sampling_draw(sampler, s->o.path, logits, s->ids, s->n_ids, &id, err))
            return false;
        if (ends_answer(s, id))
            break;
        s->ids[s->n_ids++] = id;
        const char *text = tblock_stream_put(a->stream, id, &n);
        if (!show(a, text, n, false, err))
            return false;
        if (!is_over(s, a, n_prompt) && !(logits = compute(s, 1, err)))
            return false;
    }
    s->draw_s = clock_seconds() - start;
    s->n_drawn = s->n_ids - n_prompt;
    const char *rest = tblock_stream_flush(a->stream, &n);
    return show(a, rest, n, true, err);
}

/* Keep the answer as a message. Tokens of one that a stop text cut off are not what it says. */
static bool keep_answer(Session *s, const Answer *a, size_t n_prompt, tblock_error *err)
{
    if (!add_message(s, "assistant", a->all.text, a->all.n, err))
        return false;
    SessionMessage *m = &s->message[s->n - 1];
    m->n_ids = a->stop.found ? 0 : s->n_ids - n_prompt;
    m->ids = m->n_ids ? malloc(m->n_ids * sizeof *m->ids) : NULL;
    if (!m->ids)
        m->n_ids = 0;
    else
        memcpy(m->ids, s->ids + n_prompt, m->n_ids * sizeof *m->ids);
    s->n_answers++;
    s->all_drawn += s->n_drawn;
    s->all_draw_s += s->draw_s;
    return true;
}

static bool answer(Session *s, const float *logits, uint64_t seed, tblock_error *err)
{
    size_t          n_prompt = s->n_ids;
    tblock_sampler *sampler = sampling_new(s->o.sampling, s->info.vocab_size, seed, err);
    Answer          a = { .prefix = s->format.answer_prefix, .stop = { .texts = s->format.stop_texts, .n = s->format.n_stop_texts } };
    a.stream = sampler ? tblock_stream_new(s->model, true, err) : NULL;
    bool good = a.stream && draw(s, &a, sampler, logits, err);
    if (good && s->end == ANSWER_INTERRUPTED && s->n_drawn == 0)
        good = fail(err, CLI_INTERRUPTED, "%s", "");
    good = good && keep_answer(s, &a, n_prompt, err);
    tblock_stream_free(a.stream);
    tblock_sampler_free(sampler);
    free(a.stop.held.text);
    free(a.now.text);
    free(a.all.text);
    return good;
}

static bool try_answer(Session *s, uint64_t seed, tblock_error *err)
{
    int32_t *ids;
    size_t   n_ids;
    if (!fit(s, &ids, &n_ids, err))
        return false;
    bool good = take_ids(s, ids, n_ids, err);
    tblock_free(ids);
    s->seed = seed;
    const float *logits = good ? read_prompt(s, err) : NULL;
    if (good && !logits && interrupted()) {
        s->end = ANSWER_INTERRUPTED;
        s->n_drawn = 0;
        return fail(err, CLI_INTERRUPTED, "%s", "");
    }
    return logits && answer(s, logits, seed, err);
}

/* Answer the last message, a user's. Without an answer, the turns that had to make room for it are told again. */
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
    drop_last(s); /* an answer is added last, so this is the user's message */
    return false;
}

bool session_say(Session *s, const char *text, size_t n, tblock_error *err)
{
    return add_message(s, "user", text, n, err) && session_reply(s, err);
}

bool session_again(Session *s, tblock_error *err)
{
    if (s->n < 2 || is_users(&s->message[s->n - 1]) || !is_users(&s->message[s->n - 2]))
        return fail(err, TBLOCK_USAGE, "/regen: there is no answer yet");
    SessionMessage old = s->message[--s->n];
    if (answer_last(s, s->seed + 1, err)) {
        message_free(&old);
        return true;
    }
    s->message[s->n++] = old; /* its place is still there */
    return false;
}

/* ---- Files ---------------------------------------------------------------------------------------------------- */

bool session_save(const Session *s, const char *path, tblock_error *err)
{
    tblock_chat_message *m = calloc(s->n + 1, sizeof *m);
    if (!m)
        return no_memory(NULL, err);
    for (size_t i = 0; i < s->n; i++)
        m[i] = (tblock_chat_message){ .role = s->message[i].role, .text = s->message[i].text, .n_bytes = s->message[i].n };
    bool good = tblock_output_apart(s->model, s->o.path, path, err) && tblock_chat_save(m, s->n, path, err);
    free(m);
    return good;
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
    bool   good = n == system || tblock_chat_render(s->chat, m, n, true, &ids, &n_ids, err); /* do the roles suit the format? */
    for (size_t i = 0; good && i < n; i++)
        good = add_message(&loaded, m[i].role, m[i].text, m[i].n_bytes, err);
    if (good && system && s->format.system == TBLOCK_CHAT_SYSTEM_REFUSED)
        good = fail(err, TBLOCK_INPUT, "%s: system text: chat format %s does not support one", path, s->format.name);
    SessionMessage *gone = good ? s->message : loaded.message;
    size_t          n_gone = good ? s->n : loaded.n;
    for (size_t i = 0; i < n_gone; i++)
        message_free(&gone[i]);
    free(gone);
    if (good) {
        s->message = loaded.message, s->n = loaded.n, s->cap = loaded.cap;
        s->n_left_out = 0;
        *waits = s->n && is_users(&s->message[s->n - 1]);
    }
    tblock_free(ids);
    tblock_free(m);
    return good;
}

/* ---- Opening and telling -------------------------------------------------------------------------------------- */

bool session_open(Session *s, const SessionOptions *o, tblock_error *err)
{
    *s = (Session){ .o = *o, .seed = o->sampling->seed.value };
    s->model = compute_open(o->path, o->compute, err);
    if (!s->model)
        return false;
    tblock_model_describe(s->model, &s->info);
    s->chat = tblock_chat_new(s->model, o->chat_format, err);
    if (!s->chat)
        return false;
    tblock_chat_describe(s->chat, &s->format);
    s->context = compute_context(s->model, o->path, o->compute, o->quiet, err);
    if (!s->context)
        return false;
    tblock_context_describe(s->context, &s->computing);
    s->ids = malloc((size_t)s->computing.n_ctx * sizeof *s->ids);
    return s->ids || no_memory(NULL, err);
}

void session_close(Session *s)
{
    while (s->n)
        drop_last(s);
    free(s->message);
    free(s->ids);
    tblock_chat_free(s->chat);
    tblock_context_free(s->context);
    tblock_close(s->model);
    *s = (Session){ 0 };
}

static double per_second(size_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

void session_stats(const Session *s)
{
    static const char *const ends[] = { "done", "--predict reached", "context full", "interrupted" };
    tblock_context_info c;
    char                format[CLI_SHOWN];
    tblock_context_describe(s->context, &c);
    size_t turns = s->n - first_turn(s);
    fprintf(stderr, "conversation  %zu messages%s, %zu of the oldest dropped, chat format %s\n", turns,
            first_turn(s) ? " and a system text" : "", s->n_left_out, cli_shown(format, s->format.name));
    fprintf(stderr, "context       %zu of %d tokens used, KV cache %.2f MB\n", s->n_ids, c.n_ctx, (double)c.kv_bytes / 1e6);
    if (s->n_answers == 0)
        return;
    fprintf(stderr, "last answer   %zu tokens reused, %zu read at %.2f tok/s, %zu generated at "
                    "%.2f tok/s, seed %" PRIu64 ", %s\n", s->n_reused,
            s->n_read, per_second(s->n_read, s->read_s), s->n_drawn, per_second(s->n_drawn, s->draw_s), s->seed, ends[s->end]);
    fprintf(stderr, "all answers   %zu, %zu tokens generated at %.2f tok/s\n", s->n_answers, s->all_drawn,
            per_second(s->all_drawn, s->all_draw_s));
}
