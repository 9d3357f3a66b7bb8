/* Parses a chat format from its JSON (docs/format.md, "The entry chat") and checks that each form
 * has the placeholders it needs and no others. */
#include "chat/chat_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum {
    MOST_BYTES = 64 << 10,
    MOST_STOPS = 16,
    MOST_STOP_BYTES = 128,
    MOST_NAME = 64,
    CHAT_VERSION = 1
};

/* ---- Forms ----------------------------------------------------------------------------------- */

/* must, may: sets of bits 1 << FormPartKind. */
typedef struct FormRule { const char *key; unsigned must, may; } FormRule;

enum {
    ANYWHERE = 1 << FORM_TEXT | 1 << FORM_BOS | 1 << FORM_EOS,
    TRIMMING = 1 << FORM_TRIM | 1 << FORM_TRIM_END,
    CONTENT = 1 << FORM_CONTENT,
    SYSTEM_TEXT = 1 << FORM_SYSTEM
};
static const FormRule rules[CHAT_FORMS] = {
    [CHAT_BEGIN]          = { "begin", 0, ANYWHERE },
    /* An empty form drops the system message. */
    [CHAT_SYSTEM_TURN]    = { "system", 0, ANYWHERE | TRIMMING | SYSTEM_TEXT },
    [CHAT_USER_TURN]      = { "user", CONTENT, ANYWHERE | TRIMMING | CONTENT },
    [CHAT_USER_FIRST]     = { "user_first", CONTENT, ANYWHERE | TRIMMING | CONTENT },
    [CHAT_USER_SYSTEM]    = { "user_system", CONTENT | SYSTEM_TEXT,
                              ANYWHERE | TRIMMING | CONTENT | SYSTEM_TEXT },
    [CHAT_ASSISTANT_TURN] = { "assistant", CONTENT, ANYWHERE | TRIMMING | CONTENT },
    [CHAT_OPEN]           = { "open", 0, ANYWHERE },
    [CHAT_CLOSE]          = { "close", 0, ANYWHERE },
};

static const struct { const char *word; FormPartKind kind; } placeholders[] = {
    { "{content}", FORM_CONTENT }, { "{system}", FORM_SYSTEM }, { "{bos}", FORM_BOS },
    { "{eos}", FORM_EOS },         { "{trim}", FORM_TRIM },     { "{/trim}", FORM_TRIM_END },
};

/* The kind of the placeholder at text, with its length in *n; -1: none. */
static int placeholder_at(const char *text, size_t *n)
{
    for (size_t i = 0; i < sizeof placeholders / sizeof *placeholders; i++) {
        *n = strlen(placeholders[i].word);
        if (strncmp(text, placeholders[i].word, *n) == 0)
            return (int)placeholders[i].kind;
    }
    return -1;
}

/* Split text into parts. Plain text is copied to f->texts, with {{ and }} as one brace. */
static bool cut_form(ChatForm *f, const char *text, const char *name, Error *err)
{
    char *to = f->texts;
    for (size_t i = 0, n; text[i]; i += n) {
        bool brace = text[i] == '{' || text[i] == '}', doubled = brace && text[i + 1] == text[i];
        int       kind = brace && !doubled ? placeholder_at(text + i, &n) : (int)FORM_TEXT;
        FormPart *last = f->n_parts ? &f->part[f->n_parts - 1] : NULL;
        if (kind < 0)
            return fail(err, INPUT,
                        "%s: expected {content}, {system}, {bos}, {eos}, {trim}, {/trim}, {{ or "
                        "}}, found '%.20s'",
                        name, text + i);
        if (kind == FORM_TEXT)
            n = doubled ? 2 : 1;
        if (kind == FORM_TEXT && last && last->kind == FORM_TEXT)
            last->n++;
        else
            f->part[f->n_parts++] = (FormPart){ (FormPartKind)kind, to, kind == FORM_TEXT };
        if (kind == FORM_TEXT)
            *to++ = text[i];
    }
    return true;
}

static bool check_form(const ChatForm *f, const FormRule *rule, const char *name, Error *err)
{
    unsigned seen = 0;
    bool     trimming = false;
    for (size_t i = 0; i < f->n_parts; i++) {
        FormPartKind kind = f->part[i].kind;
        unsigned     bit = 1u << kind;
        if (!(rule->may & bit))
            return fail(err, INPUT, "%s: one of its placeholders is not allowed here", name);
        if ((seen & bit & (CONTENT | SYSTEM_TEXT)))
            return fail(err, INPUT, "%s: expected each text once, found one twice", name);
        if ((kind == FORM_TRIM && trimming) || (kind == FORM_TRIM_END && !trimming))
            return fail(err, INPUT, "%s: {trim} and {/trim}: expected pairs, not nested", name);
        trimming = kind == FORM_TRIM || (trimming && kind != FORM_TRIM_END);
        seen |= bit;
    }
    if (trimming)
        return fail(err, INPUT, "%s: {trim}: expected {/trim} after it", name);
    return (seen & rule->must) == rule->must
           || fail(err, INPUT, "%s: expected %s in it, found none", name,
                   rule->must & ~seen & SYSTEM_TEXT ? "{system}" : "{content}");
}

static bool read_form(ChatForm *f, const FormRule *rule, const Json *j, const char *name,
                      Error *err)
{
    const char *text;
    if (!json_read_string(j, name, &text, err))
        return false;
    size_t n = strlen(text);
    *f = (ChatForm){ .given = true,
                     .part = malloc((n + 1) * sizeof *f->part),
                     .texts = malloc(n + 1) };
    if (!f->texts || !f->part)
        return no_memory(name, err);
    return cut_form(f, text, name, err) && check_form(f, rule, name, err);
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool read_stops(ChatFormat *f, const Json *j, const char *name, Error *err)
{
    size_t n = json_count(j);
    if (!json_is_array(j) || n > MOST_STOPS)
        return fail(err, INPUT, "%s: expected an array of at most %d texts, found %s of %zu", name,
                    MOST_STOPS, json_kind(j), n);
    f->stop = calloc(n + 1, sizeof *f->stop);
    if (!f->stop)
        return no_memory(name, err);
    for (const Json *i = json_first(j); i; i = json_next(i)) {
        char *text = NULL;
        if (!json_copy_string(i, name, MOST_STOP_BYTES, &text, err))
            return false;
        f->stop[f->n_stops++] = text;
        if (!*text)
            return fail(err, INPUT, "%s: expected texts, found an empty one", name);
    }
    return true;
}

static bool read_place(ChatFormat *f, const Json *j, const char *name, Error *err)
{
    const char *text;
    if (!json_read_string(j, name, &text, err))
        return false;
    f->system_at_last = strcmp(text, "last") == 0;
    return f->system_at_last || strcmp(text, "first") == 0
        || fail(err, INPUT, "%s: expected first or last, found '%s'", name, text);
}

static bool read_key(ChatFormat *f, const Json *j, const char *what, Error *err)
{
    const char *key = json_key(j);
    char        name[512];
    snprintf(name, sizeof name, "%.400s: %.64s", what, key);
    for (int i = 0; i < CHAT_FORMS; i++)
        if (strcmp(key, rules[i].key) == 0)
            return read_form(&f->form[i], &rules[i], j, name, err);
    int64_t version;
    if (strcmp(key, "version") == 0)
        return json_read_int(j, name, 1, CHAT_VERSION, &version, err);
    if (strcmp(key, "name") == 0)
        return json_copy_string(j, name, MOST_NAME, &f->name, err);
    if (strcmp(key, "default_system") == 0)
        return json_copy_string(j, name, MOST_BYTES, &f->default_system, err);
    if (strcmp(key, "user_system_at") == 0)
        return read_place(f, j, name, err);
    if (strcmp(key, "thinking_end") == 0)
        return json_copy_string(j, name, MOST_STOP_BYTES, &f->thinking_end, err);
    if (strcmp(key, "thinking_strip") == 0)
        return json_read_bool(j, name, &f->thinking_strip, err);
    if (strcmp(key, "alternate") == 0)
        return json_read_bool(j, name, &f->alternate, err);
    if (strcmp(key, "stop") == 0)
        return read_stops(f, j, name, err);
    return fail(err, INPUT,
                "%s: unknown key: this tblock (%s) is older than the file, or it is misspelled",
                name, TBLOCK_VERSION);
}

static bool check_whole(const ChatFormat *f, const Json *j, const char *what, Error *err)
{
    if (!json_get(j, "version"))
        return fail(err, INPUT, "%s: version: expected 1, found none", what);
    static const FormName needed[] = { CHAT_USER_TURN, CHAT_ASSISTANT_TURN, CHAT_OPEN };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!f->form[needed[i]].given)
            return fail(err, INPUT, "%s: %s: expected a form, found none", what,
                        rules[needed[i]].key);
    if (f->form[CHAT_SYSTEM_TURN].given && f->form[CHAT_USER_SYSTEM].given)
        return fail(err, INPUT, "%s: expected system or user_system, found both", what);
    if (f->default_system && chat_format_system(f) != CHAT_SYSTEM_TOLD)
        return fail(err, INPUT, "%s: default_system: expected a form with {system}, found none",
                    what);
    if (f->thinking_end && !*f->thinking_end)
        return fail(err, INPUT, "%s: thinking_end: expected a text, found an empty one", what);
    return true;
}

ChatFormat *chat_format_parse(const char *json, size_t n_bytes, const char *what, Error *err)
{
    if (n_bytes > MOST_BYTES) {
        fail(err, INPUT, "%s: expected at most %d bytes, found %zu", what, MOST_BYTES, n_bytes);
        return NULL;
    }
    Json       *j = json_parse(json, n_bytes, what, err);
    ChatFormat *f = j ? calloc(1, sizeof *f) : NULL;
    bool        ok = f != NULL;
    if (j && !f)
        no_memory(what, err);
    if (ok && !json_is_object(j))
        ok = fail(err, INPUT, "%s: expected an object, found %s", what, json_kind(j));
    for (const Json *i = ok ? json_first(j) : NULL; ok && i; i = json_next(i))
        ok = read_key(f, i, what, err);
    ok = ok && check_whole(f, j, what, err);
    if (ok && !f->name && !(f->name = strdup("custom")))
        ok = no_memory(what, err);
    json_free(j);
    if (ok)
        return f;
    chat_format_free(f);
    return NULL;
}

void chat_format_free(ChatFormat *f)
{
    if (!f)
        return;
    for (int i = 0; i < CHAT_FORMS; i++) {
        free(f->form[i].part);
        free(f->form[i].texts);
    }
    for (size_t i = 0; i < f->n_stops; i++)
        free((char *)(uintptr_t)f->stop[i]);
    free(f->stop);
    free(f->name);
    free(f->default_system);
    free(f->thinking_end);
    free(f);
}

const char *chat_format_name(const ChatFormat *f) { return f->name; }

size_t chat_format_stops(const ChatFormat *f, const char *const **stop)
{
    *stop = f->stop;
    return f->n_stops;
}

ChatSystem chat_format_system(const ChatFormat *f)
{
    const ChatForm *turn = &f->form[CHAT_SYSTEM_TURN];
    for (size_t i = 0; i < turn->n_parts; i++)
        if (turn->part[i].kind == FORM_SYSTEM)
            return CHAT_SYSTEM_TOLD;
    return f->form[CHAT_USER_SYSTEM].given ? CHAT_SYSTEM_TOLD
        : turn->given                      ? CHAT_SYSTEM_IGNORED
                                           : CHAT_SYSTEM_NONE;
}
