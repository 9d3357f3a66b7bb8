/* cli/aliases.c: the names that options have in llama.cpp, ollama, vLLM, transformers and OpenAI's
 * interface. They are read like ours; errors say our name. */
#include "help.h"

#include "command.h"

#include <stdio.h>
#include <string.h>

/* By our name, so that the help has one entry for each. */
static const Alias aliases[] = {
    { "MODEL", "model", 'm' },
    { "predict", "n-predict", 0 },
    { "predict", "max-tokens", 0 },
    { "predict", "max-new-tokens", 0 },
    { "predict", "num-predict", 0 },
    { "temp", "temperature", 0 },
    { "repeat-penalty", "repetition-penalty", 0 },
    { "ctx", "ctx-size", 0 },
    { "ctx", "num-ctx", 0 },
    { "ctx", "max-model-len", 0 },
    { "prompt-file", "file", 0 },
    { "grammar", "grammar-file", 0 },
    { "json-schema", "json-schema-file", 0 },
    { "system", "system-prompt", 0 },
    { "chat-format", "chat-template", 0 },
    { "chat-format", "chat-template-file", 0 },
    { "kv-type", "cache-type-k", 0 },
    { "kv-type", "kv-cache-dtype", 0 },
    { "draft", "model-draft", 0 },
    { "stats", "verbose", 0 },
    { 0 },
};

/* Options that only other programs have. */
static const struct { const char *names, *instead; } hints[] = {
    { "hf|hfr|hf-repo|hf-file", "give ORG/NAME[:QUANTIZATION] as MODEL, after tblock pull of it" },
    { "mu|model-url", "download the file, and give its path as MODEL" },
    { "ngl|n-gpu-layers|gpu-layers|mg|main-gpu|sm|split-mode|ts|tensor-split|dev|device|gpu",
      "leave it out: tblock computes on the processor" },
    { "flash-attn|mmap|no-mmap|b|batch-size|ub|ubatch-size|tb|threads-batch|stream|no-stream",
      "leave it out: tblock needs no such choice" },
    { "i|interactive|cnv|conversation", "tblock chat MODEL holds a conversation" },
    { "no-cnv|no-conversation|st|single-turn", "leave it out: tblock run continues a text" },
    { "sys", "tblock chat has --system TEXT" },
    { "ctk|ctv|cache-type-v", "--kv-type is the type of keys and values" },
    { "response-format", "--json-object or --json-schema" },
    { "api-key", "tblock serve has --key-file FILE" },
};

/* Does the command have an option of this name, or is its first operand called so? */
static bool has(const Syntax *s, const char *name)
{
    EACH_OPTION(o, g, s)
        if (strcmp(o->name, name) == 0)
            return true;
    return s->operands->name && strcmp(s->operands->name, name) == 0;
}

const Alias *alias_next(const Syntax *s, const Alias *last)
{
    for (const Alias *a = last ? last + 1 : aliases; a->of; a++)
        if (!s || (has(s, a->of) && !has(s, a->name)))
            return a;
    return NULL;
}

/* A name as typed, with - for _. */
static const char *with_dashes(const char *typed, size_t n, char out[ALIAS_BYTES])
{
    snprintf(out, ALIAS_BYTES, "%.*s", (int)(n < ALIAS_BYTES ? n : ALIAS_BYTES), typed);
    for (char *c = out; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return out;
}

const char *alias_read(const Syntax *s, const char *typed, size_t n, char out[ALIAS_BYTES])
{
    with_dashes(typed, n, out);
    for (const Alias *a = alias_next(s, NULL); a; a = alias_next(s, a))
        if (strcmp(a->name, out) == 0)
            return a->of;
    return out;
}

const char *alias_list(const Syntax *s, char *out, size_t n_out)
{
    size_t      used = 0;
    const char *of   = NULL; /* of the alias before */
    *out = '\0';
    for (const Alias *a = alias_next(s, NULL); a && used < n_out; a = alias_next(s, a)) {
        char        letter[8] = "", end[48] = "";
        const bool  operand = strcmp(a->of, "MODEL") == 0;
        const Alias *next   = alias_next(s, a);
        if (a->letter)
            snprintf(letter, sizeof letter, "-%c and ", a->letter);
        if (!next || strcmp(next->of, a->of) != 0)
            snprintf(end, sizeof end, " for %s%s%s", operand ? "" : "--", a->of, next ? "; " : "");
        used += (size_t)snprintf(out + used, n_out - used, "%s%s--%s%s",
                                 of && strcmp(of, a->of) == 0 ? ", " : "", letter, a->name, end);
        of = a->of;
    }
    return out;
}

const char *alias_hint(const char *typed, size_t n)
{
    char name[ALIAS_BYTES];
    with_dashes(typed, n, name);
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (choice_has(hints[i].names, name))
            return hints[i].instead;
    return NULL;
}
