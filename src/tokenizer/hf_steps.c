/* The parts of a tokenizer.json around its model: normalizer, pre_tokenizer, decoder and
 * post_processor. Each becomes settings of the model file with the meaning it has in tokenizers
 * 0.23. What a model file cannot express is an error that names it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tokenizer/regex.h"
#include "tokenizer/vocab_draft.h"

enum { MOST_STEPS = 16, MOST_NODES = 64 };

static const char META[] = "\xE2\x96\x81";

/* ---- Lists of parts -------------------------------------------------------------------------- */

/* The parts of a Sequence, with Sequences inside it unpacked. A single part is a list of one; null
 * is an empty list. */
typedef struct SequenceParts { const JsonNode *node[MOST_NODES]; size_t n; } SequenceParts;

static const JsonNode *type_of(const JsonNode *j) { return node_get(j, "type"); }

/* What a message says of j. */
static const JsonNode *shown(const JsonNode *j) { return j->kind == NODE_OBJECT ? type_of(j) : j; }

static bool flatten(VocabDraft *d, const JsonNode *j, const char *what, const char *key,
                    SequenceParts *out)
{
    if (!j || j->kind == NODE_NULL)
        return true;
    if (j->kind != NODE_OBJECT)
        return draft_expected(d, j, "%s: expected an object", what);
    if (node_is(type_of(j), "Sequence")) {
        const JsonNode *list;
        if (!draft_member(d, j, key, NODE_ARRAY, key, &list))
            return false;
        JSON_NODES (i, list)
            if (!flatten(d, i, what, key, out))
                return false;
        return true;
    }
    if (out->n == MOST_NODES)
        return fail(d->err, INPUT, "%s: %s: expected at most %d steps, found more", d->file, what,
                    MOST_STEPS);
    out->node[out->n++] = j;
    return true;
}

/* Read a text without NUL. */
static bool text_of(VocabDraft *d, const JsonNode *j, const char *what, const char *key, Text *out)
{
    const JsonNode *value = node_get(j, key);
    if (!is_kind(value, NODE_STRING) || memchr(value->text, 0, value->n))
        return draft_expected(d, value, "%s: %s: expected a text without NUL", what, key);
    *out = node_bytes(value);
    return true;
}

/* INPUT if the library tokenizers, which runs Oniguruma, would read the pattern differently. Other
 * faults are reported when the tokenizer is opened. */
static bool check_regex(VocabDraft *d, const char *what, Text regex)
{
    Pattern    pattern;
    RegexFault fault;
    if (regex_parse(&pattern, regex.p, regex.n, &REGEX_ONIGURUMA, &fault))
        pattern_free(&pattern);
    else if (!fault.from)
        return no_memory(what, d->err);
    else if (fault.unlike)
        return fail(d->err, INPUT, "%s: %s: '%.*s' in the regex '%.*s' is not supported", d->file,
                    what, (int)(fault.to - fault.from), fault.from, SHOWN(regex));
    return true;
}

/* Read the pattern {"Regex": text} or {"String": text}. */
static bool pattern_of(VocabDraft *d, const JsonNode *j, const char *what, bool *is_regex,
                       Text *out)
{
    const JsonNode *pattern = node_get(j, "pattern");
    if (!is_kind(pattern, NODE_OBJECT) || pattern->n != 1)
        return draft_expected(d, pattern, "%s: expected a pattern", what);
    *is_regex = node_get(pattern, "Regex") != NULL;
    if (!*is_regex && !node_get(pattern, "String"))
        return fail(d->err, INPUT, "%s: %s: expected a Regex or a String, found '%.*s'", d->file,
                    what, pattern[1].key_n < 100 ? (int)pattern[1].key_n : 100, pattern[1].key);
    return text_of(d, pattern, what, *is_regex ? "Regex" : "String", out)
        && (!*is_regex || check_regex(d, what, *out));
}

/* ---- normalizer ------------------------------------------------------------------------------ */

static bool precompiled(VocabDraft *d, const JsonNode *j, bool *there)
{
    const JsonNode *map = node_get(j, "precompiled_charsmap");
    *there = false;
    if (d->has_charsmap)
        return fail(d->err, INPUT, "%s: normalizer: expected one Precompiled, found two", d->file);
    if (!node_truth(map))
        return true;
    char  *blob = map->kind == NODE_STRING ? draft_bytes(d, map->n) : NULL;
    size_t n = 0;
    if (map->kind == NODE_STRING && !blob)
        return false;
    if (!blob || !base64_decode(node_bytes(map), blob, &n))
        return draft_expected(d, map, "normalizer Precompiled: expected base64");
    if (n && !charsmap_read(d, (Text){ blob, n }, "normalizer Precompiled"))
        return false;
    *there = d->has_charsmap;
    return true;
}

static bool replace_step(VocabDraft *d, const JsonNode *j, TextOut *o)
{
    bool is_regex;
    Text pattern, content;
    if (!pattern_of(d, j, "normalizer Replace", &is_regex, &pattern)
        || !text_of(d, j, "normalizer Replace", "content", &content))
        return false;
    if (!pattern.n)
        return fail(d->err, INPUT, "%s: normalizer Replace: expected a pattern, found an empty one",
                    d->file);
    json_out(o, "{");
    json_out_member(o, is_regex ? "replace_regex" : "replace", pattern.p, pattern.n);
    json_out_member(o, "with", content.p, content.n);
    json_out(o, "}");
    return true;
}

/* Write one step, or nothing if the part has no effect. */
static bool normalizer_step(VocabDraft *d, const JsonNode *j, TextOut *o)
{
    static const char *const form[][2] = {
        { "NFC", "nfc" }, { "NFD", "nfd" }, { "NFKC", "nfkc" }, { "NFKD", "nfkd" }
    };
    const JsonNode *type = type_of(j);
    Text            text;
    bool            there;
    for (int i = 0; i < 4; i++)
        if (node_is(type, form[i][0]))
            return json_out(o, "{form: %s}", form[i][1]), true;
    if (node_is(type, "Prepend")) {
        if (!text_of(d, j, "normalizer Prepend", "prepend", &text))
            return false;
        json_out(o, "{");
        json_out_member(o, "prepend", text.p, text.n);
        return json_out(o, "}"), true;
    }
    if (node_is(type, "Replace"))
        return replace_step(d, j, o);
    if (node_is(type, "Strip")) {
        bool left = node_truth(node_get(j, "strip_left")),
             right = node_truth(node_get(j, "strip_right"));
        if (left || right)
            json_out(o, "{strip: %s}", left && right ? "both" : left ? "left" : "right");
        return true;
    }
    if (node_is(type, "Lowercase"))
        return json_out(o, "{lowercase: true}"), true;
    if (node_is(type, "Precompiled")) {
        if (!precompiled(d, j, &there))
            return false;
        if (there)
            json_out(o, "{charsmap: true}");
        return true;
    }
    return draft_expected(d, shown(j),
                          "normalizer: expected NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, "
                          "Lowercase, Precompiled");
}

bool hf_normalizer(VocabDraft *d, const JsonNode *node)
{
    SequenceParts parts = { 0 };
    TextOut       o = { .compact = true };
    if (!flatten(d, node, "normalizer", "normalizers", &parts))
        return false;
    if (parts.n > MOST_STEPS)
        return fail(d->err, INPUT, "%s: normalizer: expected at most %d steps, found %zu", d->file,
                    MOST_STEPS, parts.n);
    text_out(&o, "[");
    for (size_t i = 0; i < parts.n; i++)
        if (!normalizer_step(d, parts.node[i], &o)) {
            text_out_free(&o);
            return false;
        }
    text_out(&o, "]");
    if (o.n > 2 || o.failed)
        return draft_set(d, "normalizer", &o);
    text_out_free(&o);
    return true;
}

/* ---- pre_tokenizer --------------------------------------------------------------------------- */

/* char::is_ascii_punctuation, or category P as the Rust crate unicode_categories has it. That is
 * Unicode 8, so later characters are excluded. */
#define PUNCTUATION \
    "(?![\\x{61D}\\x{9FD}-\\x{A76}\\x{C77}-\\x{C84}\\x{1B4E}-\\x{1B4F}\\x{1B7D}-\\x{1B7F}\\x{2E43}-\\x{2E5D}\\x{10D6E}-\\x{10F89}" \
    "\\x{113D4}-\\x{1145D}\\x{11660}-\\x{116B9}\\x{1183B}-\\x{11FFF}\\x{12FF1}-\\x{12FF2}\\x{16D6D}-\\x{16FE2}\\x{1E5FF}-\\x{1E95F}])" \
    "[!-/:-@\\[-`{-~\\p{P}\\x{166D}\\x{111C9}]"
/* Rust's is_numeric: \p{N}, with the digits that Unicode 17 added. */
#define DIGIT "[\\p{N}\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}]"
/* \w of the Rust crate regex: Alphabetic, marks, decimal digits, connectors, joiners. */
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24B6}-\\x{24E9}\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}" \
             "\\x{200C}\\x{200D}"

typedef struct Steps { VocabDraft *d; TextOut *o; size_t n; } Steps;

static void split(Steps *s, const char *regex, const char *behavior, bool invert)
{
    draft_set_split(s->o, regex, strlen(regex), behavior, invert);
    s->n++;
}

/* Split at exactly this text: a regex with everything escaped. */
static bool split_literal(Steps *s, Text text, const char *behavior, bool invert)
{
    char *regex = draft_bytes(s->d, 2 * text.n + 1), *out = regex;
    if (!regex)
        return false;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] && strchr("\\^$.[]|()?*+{}#- ", text.p[i]))
            *out++ = '\\';
        *out++ = text.p[i];
    }
    *out = 0;
    split(s, regex, behavior, invert);
    return true;
}

static bool behavior_of(VocabDraft *d, const JsonNode *j, const char *what, const char *otherwise,
                        const char **out)
{
    static const char *const known[][2] = { { "Isolated", "isolated" }, { "Removed", "removed" },
        { "MergedWithPrevious", "merged_with_previous" }, { "MergedWithNext", "merged_with_next" },
        { "Contiguous", "contiguous" } };
    const JsonNode *value = node_get(j, "behavior");
    *out = otherwise;
    if (!value && otherwise)
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (node_is(value, known[i][0])) {
            *out = known[i][1];
            return true;
        }
    return draft_expected(d, value,
                          "%s behavior: expected Isolated, Removed, MergedWithPrevious, "
                          "MergedWithNext, Contiguous", what);
}

static bool prepend_scheme(VocabDraft *d, const JsonNode *j, const char *what, const char **out)
{
    static const char *const known[] = { "first", "always", "never" };
    const JsonNode *replacement = node_get(j, "replacement"),
                   *scheme = node_get(j, "prepend_scheme");
    if (replacement && !node_is(replacement, META))
        return draft_expected(d, replacement, "%s replacement: expected U+2581", what);
    *out = is_kind(node_get(j, "add_prefix_space"), NODE_FALSE) ? "never" : "always";
    for (size_t i = 0; scheme && i < 3; i++)
        if (node_is(scheme, known[i])) {
            *out = known[i];
            return true;
        }
    return !scheme
        || draft_expected(d, scheme, "%s prepend_scheme: expected first, always or never", what);
}

static bool split_step(Steps *s, const JsonNode *j)
{
    static const char what[] = "pre_tokenizer Split";
    const char *behavior;
    bool        is_regex, invert = node_truth(node_get(j, "invert"));
    Text        text;
    if (!pattern_of(s->d, j, what, &is_regex, &text)
        || !behavior_of(s->d, j, what, NULL, &behavior))
        return false;
    if (!is_regex)
        return split_literal(s, text, behavior, invert);
    draft_set_split(s->o, text.p, text.n, behavior, invert);
    s->n++;
    return true;
}

static bool metaspace_step(Steps *s, const JsonNode *j)
{
    const char *scheme;
    if (!prepend_scheme(s->d, j, "pre_tokenizer Metaspace", &scheme))
        return false;
    bool cuts = !is_kind(node_get(j, "split"), NODE_FALSE);
    json_out(s->o, cuts ? "{metaspace: %s, split: true}" : "{metaspace: %s}", scheme);
    s->n++;
    return true;
}

static bool pre_tokenizer_step(Steps *s, const JsonNode *j)
{
    const JsonNode *type = type_of(j);
    const char     *behavior;
    Text            text;
    if (node_is(type, "Split"))
        return split_step(s, j);
    if (node_is(type, "Metaspace"))
        return metaspace_step(s, j);
    if (node_is(type, "Digits")) {
        split(s, node_truth(node_get(j, "individual_digits")) ? DIGIT : DIGIT "+", "isolated",
              false);
    } else if (node_is(type, "Punctuation")) {
        if (!behavior_of(s->d, j, "pre_tokenizer Punctuation", "isolated", &behavior))
            return false;
        split(s, PUNCTUATION, behavior, false);
    } else if (node_is(type, "Whitespace")) {
        split(s, "[" WORD "]+|[^" WORD "\\s]+", "removed", true);
    } else if (node_is(type, "WhitespaceSplit")) {
        split(s, "\\s", "removed", false);
    } else if (node_is(type, "BertPreTokenizer")) {
        split(s, "\\s", "removed", false);
        split(s, PUNCTUATION, "isolated", false);
    } else if (node_is(type, "CharDelimiterSplit")) {
        return text_of(s->d, j, "pre_tokenizer CharDelimiterSplit", "delimiter", &text)
            && split_literal(s, text, "removed", false);
    } else if (node_is(type, "ByteLevel")) {
        return fail(
            s->d->err, INPUT,
            "%s: pre_tokenizer: expected ByteLevel as the last step, found another after it",
            s->d->file);
    } else {
        return draft_expected(s->d, shown(j),
                              "pre_tokenizer: expected Split, Digits, Punctuation, Whitespace, "
                              "WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, Metaspace "
                              "and ByteLevel");
    }
    return true;
}

/* *byte_level: do the pieces consist of bytes? Then ByteLevel must be the last part. */
bool hf_pre_tokenizer(VocabDraft *d, const JsonNode *node, TextOut *o, bool *byte_level,
                      bool *add_prefix_space)
{
    SequenceParts parts = { 0 };
    Steps         s = { d, o, 0 };
    if (!flatten(d, node, "pre_tokenizer", "pretokenizers", &parts))
        return false;
    const JsonNode *last = parts.n ? parts.node[parts.n - 1] : NULL,
                   *prefix = node_get(last, "add_prefix_space");
    *byte_level = node_is(type_of(last), "ByteLevel");
    text_out(o, "[");
    for (size_t i = 0; i + *byte_level < parts.n; i++)
        if (!pre_tokenizer_step(&s, parts.node[i]))
            return false;
    if (*byte_level) {
        const JsonNode *use_regex = node_get(last, "use_regex");
        if (!use_regex || node_truth(use_regex))
            split(&s, BYTE_LEVEL_GPT2, "isolated", false);
        *add_prefix_space = !prefix || node_truth(prefix);
        /* After other steps it would put a prefix on each of their pieces. */
        if (*add_prefix_space && parts.n > 1)
            return fail(d->err, INPUT,
                        "%s: pre_tokenizer ByteLevel add_prefix_space: expected false after other "
                        "steps, found true",
                        d->file);
    }
    if (s.n > MOST_STEPS)
        return fail(d->err, INPUT, "%s: pre_tokenizer: expected at most %d steps, found %zu",
                    d->file, MOST_STEPS, s.n);
    text_out(o, "]");
    return true;
}

/* ---- decoder --------------------------------------------------------------------------------- */

static bool wrong_decoder(VocabDraft *d, const char *wanted, const SequenceParts *parts)
{
    char   list[512] = "null", found[NODE_TEXT];
    size_t n = 0;
    for (size_t i = 0; i < parts->n && n < sizeof list - NODE_TEXT - 4; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              node_text(shown(parts->node[i]), found));
    return fail(d->err, INPUT, "%s: decoder: expected %s, found %s", d->file, wanted, list);
}

/* Is it Replace, then any of ByteFallback, Fuse and Strip in this order, with Strip only after
 * Fuse? *strip is the Strip. */
static bool is_usual_decoder(const SequenceParts *parts, const JsonNode **strip)
{
    static const char *const order[] = { "ByteFallback", "Fuse", "Strip" };
    size_t at = 1;
    bool   fused = false;
    if (!parts->n || !node_is(type_of(parts->node[0]), "Replace"))
        return false;
    for (int i = 0; i < 3; i++)
        if (at < parts->n && node_is(type_of(parts->node[at]), order[i])) {
            fused |= i == 1;
            if (i == 2)
                *strip = parts->node[at];
            at++;
        }
    return at == parts->n && (!*strip || fused);
}

static bool set_strip(VocabDraft *d, const char *value)
{
    TextOut o = { 0 };
    text_out(&o, "\"%s\"", value);
    return draft_set(d, "decode_strip", &o);
}

/* Decoders turn U+2581 into spaces and byte pieces into bytes, which the model file's tokenizer
 * always does. So they are only checked, and what they strip is recorded. */
bool hf_decoder(VocabDraft *d, const JsonNode *node)
{
    SequenceParts   parts = { 0 };
    const JsonNode *strip = NULL;
    const char     *scheme;
    bool            is_regex;
    Text            pattern;
    if (!flatten(d, node, "decoder", "decoders", &parts))
        return false;
    if (d->type == DRAFT_BPE)
        return parts.n == 0 || (parts.n == 1 && node_is(type_of(parts.node[0]), "ByteLevel"))
            || wrong_decoder(d, "ByteLevel", &parts);
    if (parts.n == 1 && node_is(type_of(parts.node[0]), "Metaspace"))
        return prepend_scheme(d, parts.node[0], "decoder Metaspace", &scheme)
            && (strcmp(scheme, "never") == 0 || set_strip(d, "first_piece"));
    if (!is_usual_decoder(&parts, &strip))
        return wrong_decoder(d, "Metaspace, or Replace with ByteFallback, Fuse and Strip", &parts);
    if (!pattern_of(d, parts.node[0], "decoder Replace", &is_regex, &pattern))
        return false;
    if (is_regex || !text_is(pattern, TEXT("\xE2\x96\x81"))
        || !node_is(node_get(parts.node[0], "content"), " "))
        return fail(d->err, INPUT,
                    "%s: decoder Replace: expected U+2581 by a space, found another replacement",
                    d->file);
    if (!strip)
        return true;
    if (!node_is(node_get(strip, "content"), " ") || node_number(node_get(strip, "start")) != 1
        || node_number(node_get(strip, "stop")) != 0)
        return fail(d->err, INPUT,
                    "%s: decoder Strip: expected one space at the start, found another strip",
                    d->file);
    return set_strip(d, "space");
}

/* ---- post_processor -------------------------------------------------------------------------- */

static const JsonNode *template_ids(const JsonNode *processor, const JsonNode *item)
{
    const JsonNode *name = node_get(node_get(item, "SpecialToken"), "id"),
                   *tokens = node_get(processor, "special_tokens");
    if (!is_kind(name, NODE_STRING) || !is_kind(tokens, NODE_OBJECT))
        return NULL;
    JSON_NODES (i, tokens)
        if (i->key_n == name->n && memcmp(i->key, name->text, name->n) == 0)
            return is_kind(node_get(i, "ids"), NODE_ARRAY) ? node_get(i, "ids") : NULL;
    return NULL;
}

static bool bad_template(VocabDraft *d)
{
    return fail(d->err, INPUT,
                "%s: post_processor: expected a template of known special tokens around one text, "
                "found another",
                d->file);
}

static bool add_ids(VocabDraft *d, const JsonNode *ids, IdArray *out)
{
    JSON_NODES (i, ids) {
        if (i->kind != NODE_INT || i->integer < 0 || i->integer >= (int64_t)d->size)
            return bad_template(d);
        if (!id_list_add(out, (int32_t)i->integer, d->err))
            return false;
    }
    return true;
}

static bool read_template(VocabDraft *d, const JsonNode *processor, IdArray *before, IdArray *after)
{
    const JsonNode *single;
    int             texts = 0;
    if (!draft_member(d, processor, "single", NODE_ARRAY, "post_processor", &single))
        return false;
    JSON_NODES (i, single) {
        if (node_get(i, "Sequence")) {
            texts++;
            continue;
        }
        const JsonNode *ids = template_ids(processor, i);
        if (!ids || texts > 1)
            return bad_template(d);
        if (!add_ids(d, ids, texts ? after : before))
            return false;
    }
    return texts == 1 || bad_template(d);
}

/* Read the ids that the template puts around one text. ByteLevel only moves offsets, so it is
 * skipped. Each processor wraps the result of the one before it. */
bool hf_post_processor(VocabDraft *d, const JsonNode *node)
{
    SequenceParts parts = { 0 };
    if (!flatten(d, node, "post_processor", "processors", &parts))
        return false;
    for (size_t i = 0; i < parts.n; i++) {
        IdArray before = { 0 };
        if (node_is(type_of(parts.node[i]), "ByteLevel"))
            continue;
        if (!node_is(type_of(parts.node[i]), "TemplateProcessing"))
            return draft_expected(d, shown(parts.node[i]),
                                  "post_processor: expected TemplateProcessing");
        bool ok = read_template(d, parts.node[i], &before, &d->suffix);
        for (size_t j = 0; ok && j < d->prefix.n; j++)
            ok = id_list_add(&before, d->prefix.id[j], d->err);
        free(d->prefix.id);
        d->prefix = before;
        if (!ok)
            return false;
    }
    return true;
}
