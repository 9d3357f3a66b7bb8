/* Recognises common chat templates by the words in them, and adjusts the known format to the
 * variant. The idea and many of the words are from llama.cpp's llm_chat_detect_template
 * (src/llama-chat.cpp). The result is what transformers renders for that template, which differs
 * between variants; so a template that is only similar is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "text/chat_format.h"

enum { MOST_WORDS = 4, MOST_PROGRAM = 1 << 20, MOST_FORM = 4096, MOST_ROOMS = 12 };

/* What to adjust to the template at hand. */
enum {
    BOS_IF_USED    = 1,  /* {bos} in front, only if the template uses bos_token */
    TRIM_IF_USED   = 2,  /* trim contents if the template does */
    SYSTEM_ALIKE   = 4,  /* the system text is trimmed as the other messages are */
    DEFAULT_IF_SET = 8,  /* take over the template's own default system text */
    OPEN_IN_USER   = 16, /* no add_generation_prompt: each user turn ends with the opening */
    OPEN_ALWAYS    = 32, /* no add_generation_prompt: the conversation ends with the opening */
    EOS_AT_CLOSE   = 64, /* "{% else %}{{ eos_token }}": without an opening, the end is eos */
    ALTERNATE_IF_USED = 128,
    ANY_LAYOUT     = 256 /* white space between tags matters only in parts for tools */
};

typedef struct Sign {
    const char *name;              /* the known format to start from       */
    const char *words[MOST_WORDS]; /* the template holds all of these      */
    const char *without[MOST_WORDS]; /* and none of these                  */
    unsigned    how;
} Sign;

/* The first row that fits is taken. */
static const Sign signs[] = {
    { "phi-4", { "<|im_start|>", "<|im_sep|>" }, { 0 }, BOS_IF_USED | OPEN_IN_USER },
    { "chatml",
      { "<|im_start|>" },
      { "<end_of_utterance>", "strftime_now" },
      BOS_IF_USED | TRIM_IF_USED | SYSTEM_ALIKE | DEFAULT_IF_SET | OPEN_IN_USER
          | ALTERNATE_IF_USED },
    { "mistral-v7",
      { "[INST] ", "[SYSTEM_PROMPT]" },
      { "strftime_now", "default_system_message" },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "mistral-v7-tekken",
      { "[INST]", "[SYSTEM_PROMPT]" },
      { "strftime_now", "default_system_message", "[INST] " },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "mistral-v1", { "' [INST] ' + system_message" }, { 0 }, BOS_IF_USED | ALTERNATE_IF_USED },
    { "mistral-v3",
      { "[AVAILABLE_TOOLS]", "[INST] " },
      { "\"[INST]\"" },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "mistral-v3-tekken",
      { "[AVAILABLE_TOOLS]", "\"[INST]\"" },
      { 0 },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "mistral",
      { "'[INST] ' + message['content'] + ' [/INST]'" },
      { "<<SYS>>", "system_message" },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "llama2",
      { "[INST] ", "<<SYS>>" },
      { 0 },
      TRIM_IF_USED | DEFAULT_IF_SET | ALTERNATE_IF_USED },
    { "phi-3",
      { "<|assistant|>", "<|end|>" },
      { "strftime_now" },
      BOS_IF_USED | TRIM_IF_USED | OPEN_IN_USER | EOS_AT_CLOSE },
    { "chatglm4", { "[gMASK]<sop>" }, { 0 }, ANY_LAYOUT },
    { "chatglm3", { "[gMASK]sop" }, { 0 }, 0 },
    { "zephyr",
      { "<|assistant|>", "eos_token" },
      { "<|start_header_id|>", "strftime_now" },
      BOS_IF_USED | TRIM_IF_USED | SYSTEM_ALIKE | ALTERNATE_IF_USED },
    { "monarch", { "bos_token + message['role']" }, { 0 }, 0 },
    { "gemma3",
      { "<start_of_turn>", "first_user_prefix" },
      { 0 },
      BOS_IF_USED | ALTERNATE_IF_USED },
    { "gemma", { "<start_of_turn>" }, { "developer" }, BOS_IF_USED | ALTERNATE_IF_USED },
    { "orion", { "'\\n\\nAssistant: ' + eos_token" }, { 0 }, BOS_IF_USED },
    { "openchat", { "GPT4 Correct " }, { 0 }, BOS_IF_USED },
    { "vicuna-orca",
      { "USER: ", "ASSISTANT: ", "SYSTEM: " },
      { 0 },
      BOS_IF_USED | TRIM_IF_USED | ALTERNATE_IF_USED },
    { "vicuna",
      { "USER: ", "ASSISTANT: " },
      { 0 },
      BOS_IF_USED | TRIM_IF_USED | ALTERNATE_IF_USED },
    { "deepseek", { "### Instruction:", "<|EOT|>" }, { 0 }, BOS_IF_USED | DEFAULT_IF_SET },
    { "alpaca", { "### Instruction:", "### Response:" }, { 0 }, BOS_IF_USED | ALTERNATE_IF_USED },
    { "command-r",
      { "<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>" },
      { "<|START_RESPONSE|>", "strftime_now" },
      BOS_IF_USED | DEFAULT_IF_SET | ALTERNATE_IF_USED },
    { "llama3.1",
      { "<|start_header_id|>", "Cutting Knowledge Date: December 2023\\n", "\"26 Jul 2024\"" },
      { 0 },
      BOS_IF_USED },
    { "llama3",
      { "<|start_header_id|>", "<|end_header_id|>" },
      { "Cutting Knowledge Date", "strftime_now" },
      BOS_IF_USED | SYSTEM_ALIKE | OPEN_ALWAYS | ALTERNATE_IF_USED },
    { "minicpm", { "<用户>" }, { 0 }, 0 },
    { "deepseek2", { "'Assistant: ' + message['content'] + eos_token" }, { 0 }, BOS_IF_USED },
    { "deepseek-r1", { "<｜Assistant｜><think>" }, { "thinking is defined" }, BOS_IF_USED },
    { "deepseek3", { "<｜Assistant｜>", "<｜User｜>" }, { "thinking is defined" }, BOS_IF_USED },
    { "granite", { "<|start_of_role|>" }, { "strftime_now", "system_message" }, BOS_IF_USED },
    { "yandex", { " Ассистент:" }, { 0 }, 0 },
    { "seed-oss", { "<seed:bos>" }, { 0 }, 0 },
};
enum { N_SIGNS = sizeof signs / sizeof *signs };

/* A row while it is adjusted. Changed texts lie in `room`. */
typedef struct Variant {
    const char *program;
    ChatKnown   k;
    char        room[MOST_ROOMS][MOST_FORM];
    size_t      n_room;
} Variant;

static bool has(const Variant *v, const char *word) { return strstr(v->program, word) != NULL; }

static bool has_any(const Variant *v, const char *const *word, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (has(v, word[i]))
            return true;
    return false;
}
#define HAS_ANY(v, ...) \
    has_any(v, (const char *const[]){ __VA_ARGS__ },                                               \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static char *room(Variant *v) { return v->room[v->n_room++]; }

/* text with its first `word` replaced by `by`; text itself if `word` is not in it. The rows are
 * short, so the result fits MOST_FORM. */
static const char *replaced(Variant *v, const char *text, const char *word, const char *by)
{
    const char *at = text ? strstr(text, word) : NULL;
    if (!at)
        return text;
    char *out = room(v);
    snprintf(out, MOST_FORM, "%.*s%s%s", (int)(at - text), text, by, at + strlen(word));
    return out;
}

/* Copy the string literal whose opening quote is just before text to out, with escapes resolved.
 * Returns its length in the program, closing quote included; 0: it has no end or is too long. */
static size_t literal(const char *text, char quote, char out[MOST_FORM])
{
    size_t n = 0;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == quote) {
            out[n] = '\0';
            return i + 1;
        }
        char c = text[i];
        if (c == '\\' && text[i + 1])
            c = text[++i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
        if (n + 1 == MOST_FORM)
            return 0;
        out[n++] = c;
    }
    return 0;
}

/* The first string literal that follows `before` and after which its tag ends; NULL: none. */
static const char *literal_after(Variant *v, const char *before, const char *from)
{
    const char *at = from ? strstr(from, before) : NULL;
    for (; at; at = strstr(at + 1, before)) {
        const char *open = at + strlen(before);
        if (*open != '\'' && *open != '"')
            continue;
        char       *out = v->room[v->n_room];
        size_t      n = literal(open + 1, *open, out);
        const char *end = open + 1 + n;
        end += strspn(end, " -");
        if (n && *out && (strncmp(end, "%}", 2) == 0 || strncmp(end, "}}", 2) == 0)) {
            v->n_room++;
            return out;
        }
    }
    return NULL;
}

/* The default system text of chatml, which is inside one literal: '<|im_start|>system\nYou are
 * ...<|im_end|>\n'. */
static const char *default_in_turn(Variant *v)
{
    const char *const begins[] = { "<|im_start|>system\\n", "<|im_start|>system\n" };
    for (int i = 0; i < 2; i++)
        for (const char *at = strstr(v->program, begins[i]); at; at = strstr(at + 1, begins[i])) {
            const char *text = at + strlen(begins[i]), *end = strstr(text, "<|im_end|>");
            char        quote = at > v->program && at[-1] == '"' ? '"' : '\'';
            if (!end || *text == quote)
                continue;
            char *out = v->room[v->n_room], whole[MOST_FORM];
            if ((size_t)(end - text) + 2 > sizeof whole)
                continue;
            snprintf(whole, sizeof whole, "%.*s%c", (int)(end - text), text, quote);
            if (literal(whole, quote, out) == 0 || memchr(text, quote, (size_t)(end - text)))
                continue;
            v->n_room++;
            return out;
        }
    return NULL;
}

static const char *default_system(Variant *v)
{
    const char *found = default_in_turn(v);
    if (!found && !has(v, "false == true"))
        found = literal_after(v, "system_message = ", v->program);
    return found ? found : literal_after(v, "{{", strstr(v->program, "not ns.found"));
}

static void adjust_trimming(Variant *v, unsigned how)
{
    static const char group[] = "{trim}{content}{/trim}";
    ChatKnown *k = &v->k;
    bool plain = !HAS_ANY(v, "content'] | trim", "content']|trim", "content | trim", "content|trim",
                          "content.strip()", "content'].strip()");
    bool of_system = HAS_ANY(v, "messages[0]['content'] | trim", "messages[0]['content']|trim",
                             "system_message | trim")
        || (!plain && (how & SYSTEM_ALIKE) && !has(v, "system_message"));
    if (of_system && k->system && !strstr(k->system, "{trim}"))
        k->system = replaced(v, k->system, "{system}", "{trim}{system}{/trim}");
    if (plain) {
        k->user = replaced(v, k->user, group, "{content}");
        k->assistant = replaced(v, k->assistant, group, "{content}");
        k->user_system = replaced(v, replaced(v, k->user_system, "{trim}<<SYS>>", "<<SYS>>"),
                                  "{content}{/trim}", "{content}");
    }
    if (!plain && !strstr(k->user, group))
        k->user = replaced(v, k->user, "{content}", group);
    if (!plain && !strstr(k->assistant, group))
        k->assistant = replaced(v, k->assistant, "{content}", group);
}

static void adjust_opening(Variant *v, unsigned how)
{
    ChatKnown *k = &v->k;
    if (has(v, "add_generation_prompt") || !*k->open)
        return;
    if (how & OPEN_ALWAYS)
        k->close = k->open;
    size_t n = strlen(k->open);
    if (!(how & OPEN_IN_USER) || strncmp(k->assistant, k->open, n) != 0)
        return;
    char *user = room(v);
    snprintf(user, MOST_FORM, "%s%s", k->user, k->open);
    k->user = user;
    k->assistant += n;
    k->open = "";
}

/* Details that only one format has. */
static void adjust_chatml(Variant *v)
{
    ChatKnown *k = &v->k;
    if (has(v, "</think>")) {
        k->name = "qwen3";
        k->thinking_end = "</think>";
        k->thinking_strip = has(v, "lstrip('\\n')");
    }
    if (HAS_ANY(v, "<|im_start|>assistant\\n<think>\\n' }}",
                "<|im_start|>assistant\\n<think>\\n\" }}"))
        k->open = "<|im_start|>assistant\n<think>\n";
    if (has(v, "{{ system_message }}") && !has(v, "<|im_start|>system"))
        k->system = "{system}";
}

static void adjust_llama2(Variant *v)
{
    ChatKnown *k = &v->k;
    /* Here the system text writes the opening bracket of the first turn. */
    if (has(v, "if idx > 1")) {
        k->system = "[INST] <<SYS>>\n{system}\n<</SYS>>\n\n";
        k->user = "{bos}[INST] {content} [/INST]";
        k->user_first = "{content} [/INST]";
        k->user_system = NULL;
        return;
    }
    bool system_trimmed =
        HAS_ANY(v, "messages[0]['content'] | trim", "messages[0]['content']|trim");
    if (system_trimmed)
        k->user_system =
            "{bos}[INST] <<SYS>>\n{trim}{system}{/trim}\n{trim}<</SYS>>\n\n{content}{/trim} "
            "[/INST]";
    if (!has(v, "bos_token + '[INST]")) {
        k->begin = has(v, "bos_token") ? "{bos}" : NULL;
        k->user = replaced(v, k->user, "{bos}", "");
        k->user_system = replaced(v, k->user_system, "{bos}", "");
    }
}

static void adjust_phi3(Variant *v)
{
    if (!HAS_ANY(v, "<|system|>", "'<|' + message['role'] + '|>'"))
        v->k.system = "";
}

static void adjust_zephyr(Variant *v)
{
    if (!HAS_ANY(v, "<|system|>", "'<|' + message['role'] + '|>"))
        v->k.system = "";
    if (HAS_ANY(v, "'<|user|>\\n' + message['content'] }}", "'<|user|>\n' + message['content'] }}"))
        v->k.user = replaced(v, v->k.user, "{eos}", "");
}

static void adjust_one(Variant *v)
{
    ChatKnown  *k = &v->k;
    const char *name = k->name;
    if (strcmp(name, "chatml") == 0)
        adjust_chatml(v);
    else if (strcmp(name, "llama2") == 0)
        adjust_llama2(v);
    else if (strcmp(name, "phi-3") == 0)
        adjust_phi3(v);
    else if (strcmp(name, "zephyr") == 0)
        adjust_zephyr(v);
    else if (strcmp(name, "mistral") == 0 && has(v, "eos_token + ' '"))
        k->assistant = "{content}{eos} ";
    else if (strcmp(name, "chatglm4") == 0 && has(v, "<|assistant|>\n{% endif"))
        k->open = "<|assistant|>\n";
    else if (strncmp(name, "vicuna", 6) == 0 && !has(v, "eos_token") && has(v, "</s>"))
        k->assistant = replaced(v, k->assistant, "{eos}", "</s>");
    else if (strcmp(name, "deepseek3") == 0 && has(v, "</think>"))
        k->thinking_end = "</think>";
}

static void adjust(Variant *v, unsigned how)
{
    ChatKnown *k = &v->k;
    if (how & BOS_IF_USED)
        k->begin = has(v, "bos_token") ? "{bos}" : NULL;
    adjust_one(v);
    if (how & TRIM_IF_USED)
        adjust_trimming(v, how);
    if (how & DEFAULT_IF_SET)
        k->default_system = default_system(v);
    if (how & ALTERNATE_IF_USED)
        k->alternate = has(v, "must alternate");
    if ((how & EOS_AT_CLOSE) && has(v, "{% else %}{{ eos_token }}"))
        k->close = "{eos}";
    adjust_opening(v, how);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* The end of the tag at text ("{%", "{{" or "{#"), behind its closing brackets. Quoted strings
 * inside are skipped. NULL: the tag does not end. */
static const char *tag_end(const char *text)
{
    char close[3] = { text[1] == '{' ? '}' : text[1], '}', '\0' }, quote = '\0';
    for (const char *p = text + 2; *p; p++) {
        if (quote && *p == '\\' && p[1])
            p++;
        else if (quote)
            quote = *p == quote ? '\0' : quote;
        else if (text[1] != '#' && (*p == '\'' || *p == '"'))
            quote = *p;
        else if (strncmp(p, close, 2) == 0)
            return p + 2;
    }
    return NULL;
}

static bool is_tag(const char *text) { return text[0] == '{' && text[1] && strchr("%{#", text[1]); }

/* How much of the white space from text to end, which lies between two tags, Jinja keeps.
 * transformers sets trim_blocks and lstrip_blocks. `before` is the tag in front of the space, or
 * NULL. */
static size_t space_left(const char *text, const char *end, const char *before)
{
    if ((before && text[-3] == '-') || (is_tag(end) && end[2] == '-'))
        return 0;
    if (before && before[1] != '{' && *text == '\n')
        text++;
    /* lstrip_blocks removes the spaces at the start of the line of a block tag. */
    if (is_tag(end) && end[1] != '{') {
        const char *line = end;
        while (line > text && line[-1] != '\n')
            line--;
        if (line > text || !before || text[-1] == '\n')
            end = line;
    }
    return (size_t)(end - text);
}

/* Does the program write more than one character of white space between tags? Then it was laid out
 * for human readers, and it makes more text than its literals say. A single newline between tags is
 * common, and the rows account for it. */
static bool has_layout(const char *program)
{
    const char *text = program, *before = NULL;
    while (text && *text) {
        if (is_tag(text)) {
            before = text;
            text = tag_end(text);
            continue;
        }
        const char *end = text;
        while (*end && !is_tag(end))
            end++;
        if (!*end && before)
            return false; /* white space at the end of the file */
        if (strspn(text, " \n\t") >= (size_t)(end - text) && space_left(text, end, before) > 1)
            return true;
        text = end;
    }
    return false;
}

/* ---- Finding the row ------------------------------------------------------------------------- */

static bool fits(const Variant *v, const Sign *s, bool variants)
{
    for (int i = 0; i < MOST_WORDS && s->words[i]; i++)
        if (!has(v, s->words[i]))
            return false;
    for (int i = 0; variants && i < MOST_WORDS && s->without[i]; i++)
        if (has(v, s->without[i]))
            return false;
    return true;
}

static const Sign *find_sign(const Variant *v, bool variants)
{
    for (size_t i = 0; i < N_SIGNS; i++)
        if (fits(v, &signs[i], variants))
            return &signs[i];
    return NULL;
}

static bool not_found(const Variant *v, const char *what, Error *err)
{
    const Sign *like = find_sign(v, false);
    if (like && has_layout(v->program))
        return fail(err, INPUT,
                    "%s: the chat template is like %s, but the line breaks and spaces between its "
                    "tags are part of the text: choose --chat-format %s, or convert the model's "
                    "folder with tools/convert.py of tblock's sources, which runs the template",
                    what, like->name, like->name);
    if (like)
        return fail(err, INPUT, "%s: the chat template is like %s except for a part that only "
                                "running it would show%s; if that is close enough, use "
                                "--chat-format %s", what, like->name,
                    has(v, "strftime_now") ? " (it asks for today's date)" : "", like->name);
    return fail(err, INPUT,
                "%s: the chat template is not a known one: choose --chat-format NAME, "
                "or convert the model's folder with tools/convert.py of tblock's sources, which "
                "runs the template",
                what);
}

static bool read_program(char **text, const char *program, size_t n, const char *what, Error *err)
{
    if (n > MOST_PROGRAM)
        return fail(err, INPUT, "%s: expected at most %d bytes, found %zu", what, MOST_PROGRAM, n);
    *text = strndup(program, n);
    return *text || no_memory(what, err);
}

bool chat_format_recognise(const char *program, size_t n_bytes, const char *what, char **json,
                           Error *err)
{
    char *text = NULL;
    if (!read_program(&text, program, n_bytes, what, err))
        return false;
    Variant *v = calloc(1, sizeof *v);
    bool     ok = v || no_memory(what, err);
    if (ok) {
        v->program = text;
        const Sign *s = find_sign(v, true);
        if (s && !(s->how & ANY_LAYOUT) && has_layout(text))
            s = NULL;
        ok = s || not_found(v, what, err);
        if (ok) {
            v->k = *chat_known_find(s->name);
            adjust(v, s->how);
            *json = chat_known_json(&v->k, err);
            ok = *json != NULL;
        }
    }
    free(v);
    free(text);
    return ok;
}
