/* A tiktoken rank file (lines of base64 and rank), with special_tokens.json beside it. The file
 * does not have the split pattern. For a published rank file it follows from the number of ranks;
 * for any other the user names it. */
#include <stdlib.h>
#include <string.h>
#include "tokenizer/vocab_draft.h"

/* Published pieces are under 130 bytes. A bound is needed because every cut of a piece is tried. */
enum { LONGEST_PIECE = 1024, LLAMA3_RANKS = 128000 };

typedef struct Special { const char *token; int32_t id; } Special;

/* From tiktoken_ext/openai_public.py, and from meta-llama/llama-models, models/llama3/tokenizer.py
 * (only the tokens that Llama 3 and 3.1 share). */
static const struct Published {
    size_t ranks; const char *pattern; Special special[6];
} published[] = {
    { 50256, "gpt2", { { "<|endoftext|>", 50256 } } },
    { 50280, "gpt2", { { "<|endoftext|>", 50256 } } },
    { 100256, "cl100k", { { "<|endoftext|>", 100257 }, { "<|fim_prefix|>", 100258 },
                          { "<|fim_middle|>", 100259 },
                          { "<|fim_suffix|>", 100260 }, { "<|endofprompt|>", 100276 } } },
    { 199998, "o200k", { { "<|endoftext|>", 199999 }, { "<|endofprompt|>", 200018 } } },
    { LLAMA3_RANKS, "llama3", { { "<|begin_of_text|>", 128000 }, { "<|end_of_text|>", 128001 },
                                { "<|start_header_id|>", 128006 },
                                { "<|end_header_id|>", 128007 }, { "<|eot_id|>", 128009 } } },
};

/* ---- Base64 ---------------------------------------------------------------------------------- */

static int digit64(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A'
        : c >= 'a' && c <= 'z'  ? c - 'a' + 26
        : c >= '0' && c <= '9'  ? c - '0' + 52
        : c == '+'              ? 62
        : c == '/'              ? 63
                                : -1;
}

bool base64_decode(Text t, char *out, size_t *n)
{
    *n = 0;
    if (t.n % 4)
        return false;
    for (size_t i = 0; i < t.n; i += 4) {
        int pad = i + 4 < t.n ? 0 : (t.p[i + 3] == '=') + (t.p[i + 2] == '=' && t.p[i + 3] == '=');
        uint32_t bits = 0;
        for (int j = 0; j < 4; j++) {
            int digit = j < 4 - pad ? digit64(t.p[i + (size_t)j]) : 0;
            if (digit < 0)
                return false;
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int j = 0; j < 3 - pad; j++)
            out[(*n)++] = (char)(bits >> (16 - 8 * j));
    }
    return true;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static Text next_word(Text *line)
{
    while (line->n && is_space(*line->p))
        line->p++, line->n--;
    Text word = { line->p, 0 };
    while (line->n && !is_space(*line->p))
        line->p++, line->n--, word.n++;
    return word;
}

static bool read_number(Text t, int64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < t.n; i++) {
        if (t.p[i] < '0' || t.p[i] > '9' || *out >= DRAFT_LARGEST)
            return false;
        *out = 10 * *out + (t.p[i] - '0');
    }
    return t.n > 0;
}

static bool wrong_line(VocabDraft *d, size_t n, const char *wanted, Text line)
{
    return fail(d->err, INPUT, "%s: line %zu: expected %s, found '%.*s'", d->file, n, wanted,
                line.n < 60 ? (int)line.n : 60, line.p);
}

static bool read_line(VocabDraft *d, Text line, size_t number)
{
    Text    rest = line, word = next_word(&rest), rank_word = next_word(&rest), piece = { 0 };
    int64_t rank = 0;
    bool    found;
    if (!word.n)
        return true;
    char *bytes = draft_bytes(d, word.n);
    if (!bytes)
        return false;
    piece.p = bytes;
    if (!base64_decode(word, bytes, &piece.n) || !read_number(rank_word, &rank))
        return wrong_line(d, number, "base64 and a rank", line);
    if (piece.n > LONGEST_PIECE)
        return wrong_line(d, number, "a piece of at most 1024 bytes", line);
    if (!piece.n || next_word(&rest).n || rank >= DRAFT_LARGEST)
        return wrong_line(d, number, "a piece and its rank", line);
    if ((size_t)rank < d->size && d->types[rank] != TYPE_UNUSED)
        return wrong_line(d, number, "a rank of its own", line);
    return byte_map_put(&d->spelled, piece.p, piece.n, (int32_t)rank, &found, d->err)
        && (!found || wrong_line(d, number, "a new piece", line))
        && draft_add(d, rank, piece, TYPE_NORMAL);
}

static bool read_ranks(VocabDraft *d, Text t)
{
    for (size_t number = 1; t.n; number++) {
        const char *end = memchr(t.p, '\n', t.n);
        Text        line = { t.p, end ? (size_t)(end - t.p) : t.n };
        if (!read_line(d, line, number))
            return false;
        t.p += line.n + (end != NULL);
        t.n -= line.n + (end != NULL);
    }
    return true;
}

/* ---- Merges ---------------------------------------------------------------------------------- */

static int by_left(const void *a, const void *b)
{
    const Merge *x = a, *y = b;
    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

/* Every cut of a piece into two pieces is a merge. Merges are ordered by the rank of the result,
 * then of the left and the right piece (as in transformers' TikTokenConverter). */
static bool make_merges(VocabDraft *d)
{
    for (size_t rank = 0; rank < d->size; rank++) {
        Text   piece = d->piece[rank];
        size_t first = d->n_merges;
        if (d->types[rank] == TYPE_UNUSED)
            continue;
        if (!draft_index(d, (int32_t)rank))
            return false;
        for (size_t cut = 1; cut < piece.n; cut++) {
            int32_t left = byte_map_find(&d->spelled, piece.p, cut, -1);
            int32_t right =
                left < 0 ? -1 : byte_map_find(&d->spelled, piece.p + cut, piece.n - cut, -1);
            if (right >= 0
                && !draft_merge(d, (Merge){ (uint32_t)left, (uint32_t)right, (uint32_t)rank }))
                return false;
        }
        if (d->n_merges - first > 1)
            qsort(d->merges + first, d->n_merges - first, sizeof *d->merges, by_left);
    }
    return true;
}

/* ---- Special tokens -------------------------------------------------------------------------- */

static bool add_special(VocabDraft *d, const char *path, Text token, int64_t id, size_t n_ranks)
{
    static const ByteMap none = { 0 };
    if (id < 0 || (id < (int64_t)n_ranks && d->types[id] == TYPE_NORMAL))
        return fail(d->err, INPUT, "%s: '%.*s': expected an id that no rank has, found %lld", path,
                    SHOWN(token), (long long)id);
    if (text_is(token, TEXT("<|begin_of_text|>")))
        d->bos = (int32_t)id;
    if (text_is(token, TEXT("<|end_of_text|>"))
        || (d->eos < 0 && text_is(token, TEXT("<|endoftext|>"))))
        d->eos = (int32_t)id;
    return draft_add_plain_token(d, id, token, true, MARK_SPECIAL, &none);
}

static bool add_listed(VocabDraft *d, const char *path, const JsonNode *root, size_t n_ranks)
{
    char found[NODE_TEXT];
    JSON_NODES (i, root) {
        Text token = { i->key, i->key_n };
        if (i->kind != NODE_INT)
            return fail(d->err, INPUT, "%s: '%.*s': expected an id that no rank has, found %s",
                        path, SHOWN(token), node_text(i, found));
        if (!add_special(d, path, token, i->integer, n_ranks))
            return false;
    }
    return true;
}

static bool add_published(VocabDraft *d, const struct Published *p, size_t n_ranks)
{
    for (const Special *s = p->special; s->token; s++)
        if (!add_special(d, d->file, (Text){ s->token, strlen(s->token) }, s->id, n_ranks))
            return false;
    return true;
}

static bool set_pattern(VocabDraft *d, const struct Published *p)
{
    const char *pattern = d->pattern ? d->pattern : p ? p->pattern : d->bos >= 0 ? "llama3" : NULL;
    if (!pattern)
        return fail(d->err, INPUT,
                    "%s: split pattern: expected a published rank file (50256, 50280, 100256, "
                    "128000, 199998 ranks), found %zu ranks; a rank file does not say how to split "
                    "a text: convert it with --pattern NAME",
                    d->file, d->indexed.n);
    return byte_level_settings(d, pattern) && draft_set_bool(d, "ignore_merges", true);
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Is the first line a short base64 word, a space and a number? */
bool rank_file_looks_like(const char *head, size_t n)
{
    const char *end = n ? memchr(head, '\n', n) : NULL, *space;
    size_t      line = end ? (size_t)(end - head) : n;
    while (line && head[line - 1] == '\r')
        line--;
    space = line ? memchr(head, ' ', line) : NULL;
    size_t word = space ? (size_t)(space - head) : 0;
    for (size_t i = word + 1; word && i < line; i++)
        if (head[i] < '0' || head[i] > '9')
            return false;
    return word && word % 4 == 0 && word + 1 < line;
}

bool rank_file_read(VocabDraft *d, const char *path)
{
    Text            t;
    const JsonNode *listed;
    d->file = path;
    d->type = DRAFT_BPE;
    if (!draft_read(d, path, &t) || !read_ranks(d, t) || !make_merges(d))
        return false;
    const struct Published *p = published, *end = published + sizeof published / sizeof *published;
    while (p < end && p->ranks != d->indexed.n)
        p++;
    p = p < end ? p : NULL;
    const char *folder = draft_folder(d, path),
               *beside = folder ? draft_path(d, folder, "special_tokens.json") : NULL;
    size_t      n_ranks = d->size;
    if (!draft_read_object_if_there(d, beside, &listed)
        || !(listed ? add_listed(d, beside, listed, n_ranks) : !p || add_published(d, p, n_ranks)))
        return false;
    if (!listed && p && p->ranks == LLAMA3_RANKS)
        text_out(&d->warnings,
                 "%s: no special_tokens.json beside it: so only the special tokens that Llama 3 "
                 "and 3.1 share are known\n",
                 path);
    else if (!listed && !p)
        text_out(&d->warnings, "%s: no special_tokens.json beside it: no special tokens\n", path);
    /* The files beside it refer to the pieces by id, not by spelling. */
    byte_map_free(&d->spelled);
    return set_pattern(d, p) && (d->bos < 0 || id_list_add(&d->prefix, d->bos, d->err));
}
