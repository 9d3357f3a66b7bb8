/* Finds out which tokenizer a file or folder holds, and adds the settings of the small JSON files
 * beside it: added tokens, names of bos and eos, the template around a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "tokenizer/vocab_draft.h"

static const char JSON_NAME[] = "tokenizer.json", MODEL_NAME[] = "tokenizer.model",
                  CONFIG_NAME[] = "tokenizer_config.json", ADDED_NAME[] = "added_tokens.json",
                  SPECIAL_NAME[] = "special_tokens_map.json";

bool no_pattern(VocabDraft *d, const char *path)
{
    return !d->pattern
        || fail(d->err, USAGE,
                "pattern: expected a file that does not hold its split pattern, found %s", path);
}

/* Does it mention U+2581 anywhere? */
static bool mentions_blank(const JsonNode *j)
{
    /* This visits all nodes inside, in the order of the file. */
    for (const JsonNode *i = j, *end = node_end(j); i != end; i++)
        if (node_is(i, "\xE2\x96\x81"))
            return true;
    return false;
}

/* Is this tokenizer.json a converted SentencePiece vocabulary? Then it turns spaces into U+2581. */
static bool is_sentencepiece_json(const JsonNode *root)
{
    const JsonNode *model = node_get(root, "model"), *type = node_get(model, "type");
    return is_kind(model, NODE_OBJECT) && (!type || node_is(type, "BPE"))
        && (mentions_blank(node_get(root, "normalizer"))
            || mentions_blank(node_get(root, "pre_tokenizer")));
}

/* ---- Spellings ------------------------------------------------------------------------------- */

/* Replace bytes that are not UTF-8 by U+FFFD. */
static bool as_text(VocabDraft *d, Text *t)
{
    char    *out = NULL, *at = NULL;
    uint32_t code;
    for (size_t i = 0; i < t->n;) {
        int length = utf8_decode(t->p + i, t->n - i, &code);
        if (length < 0 && !out) {
            at = out = draft_bytes(d, 3 * t->n);
            if (!out)
                return false;
            memcpy(out, t->p, i);
            at += i;
        }
        if (out) {
            memcpy(at, length < 0 ? "\xEF\xBF\xBD" : t->p + i, length < 0 ? 3 : (size_t)length);
            at += length < 0 ? 3 : length;
        }
        i += (size_t)(length < 0 ? -length : length);
    }
    if (out)
        *t = (Text){ out, (size_t)(at - out) };
    return true;
}

/* Index the base vocabulary of a SentencePiece model by the spellings that the files beside it use.
 * Of equal ones the first counts. */
static bool spell_pieces(VocabDraft *d)
{
    bool found;
    for (size_t i = 0; i < d->size; i++) {
        Text t = d->piece[i];
        if (d->types[i] != TYPE_BYTE
            && (!as_text(d, &t)
                || !byte_map_put(&d->spelled, t.p, t.n, (int32_t)i, &found, d->err)))
            return false;
    }
    return true;
}

/* ---- Files beside it ------------------------------------------------------------------------- */

/* Read an id from digits. A number too large for an id stays too large for an id. */
static bool read_key_id(const JsonNode *entry, int64_t *id)
{
    *id = 0;
    for (uint32_t i = 0; i < entry->key_n; i++) {
        if (entry->key[i] < '0' || entry->key[i] > '9')
            return false;
        if (*id < DRAFT_LARGEST)
            *id = 10 * *id + (entry->key[i] - '0');
    }
    return entry->key_n > 0;
}

/* Add the entries of added_tokens_decoder ({id: token}) in tokenizer_config.json. */
static bool merge_decoder(VocabDraft *d, const char *path, const JsonNode *settings)
{
    char            found[NODE_TEXT];
    const JsonNode *entries;
    int64_t         id;
    if (!draft_member(d, settings, "added_tokens_decoder", NODE_OBJECT, "added_tokens_decoder",
                      &entries))
        return false;
    JSON_NODES (i, entries) {
        if (!read_key_id(i, &id) || !is_kind(node_get(i, "content"), NODE_STRING))
            return fail(d->err, INPUT,
                        "%s: added_tokens_decoder: expected {id: {content: ...}}, found '%.*s': %s",
                        path, i->key_n < 100 ? (int)i->key_n : 100, i->key, node_text(i, found));
        if (!draft_add_known(d, id, i, &d->spelled))
            return false;
    }
    return true;
}

/* Add the entries of added_tokens.json ({content: id}). */
static bool merge_added(VocabDraft *d, const char *folder)
{
    char            found[NODE_TEXT];
    const JsonNode *added;
    const char     *path = draft_path(d, folder, ADDED_NAME);
    if (!draft_read_object_if_there(d, path, &added))
        return false;
    JSON_NODES (i, added) {
        Text content = { i->key, i->key_n };
        if (i->kind != NODE_INT)
            return fail(d->err, INPUT, "%s: '%.*s': expected an id, found %s", path, SHOWN(content),
                        node_text(i, found));
        int64_t id = i->integer;
        bool    inside = id >= 0 && id < (int64_t)d->size;
        if (inside && d->marks[id] & MARK_THERE)
            continue;
        if (is_sentencepiece_draft(d) && inside && text_is(d->piece[id], content))
            draft_mark(d, (int32_t)id, 0);
        else if (!draft_add_plain_token(d, id, content, false, 0, &d->spelled))
            return false;
    }
    return true;
}

/* Is the name null or ""? Then the model has no such token, whatever its other files say. */
static bool names_none(const JsonNode *name)
{
    return name && (name->kind == NODE_NULL || node_is(name, ""));
}

/* Set bos, eos and unk: by their names in tokenizer_config.json, else in special_tokens_map.json.
 * For bos and eos, the model's config comes last. */
static bool name_ids(VocabDraft *d, const char *folder, const JsonNode *settings,
                     const TokenizerMakeOptions *opt)
{
    const struct {
        const char *key; int32_t *id;
    } row[] = { { "bos_token", &d->bos }, { "eos_token", &d->eos }, { "unk_token", &d->unk } };
    const int32_t   config[] = { opt->bos, opt->eos };
    const JsonNode *map;
    bool            none[3];
    if (!draft_read_object_if_there(d, draft_path(d, folder, SPECIAL_NAME), &map))
        return false;
    for (int i = 0; i < 3; i++) {
        const JsonNode *name = node_get(settings, row[i].key);
        if (!name)
            name = node_get(map, row[i].key);
        if (is_kind(name, NODE_OBJECT))
            name = node_get(name, "content");
        none[i] = names_none(name);
        int32_t id = is_kind(name, NODE_STRING) ? draft_find(d, node_bytes(name)) : -1;
        if (id >= 0) {
            *row[i].id = id;
            draft_mark(d, id, MARK_SPECIAL);
        }
    }
    /* SentencePiece puts bos before a text by default, so a model without bos must undo that. */
    if (none[0] && is_sentencepiece_draft(d))
        d->prefix.n = 0;
    /* Not for unk: only the vocabulary decides whether it has an unknown token. */
    for (int i = 0; i < 2; i++)
        if (none[i])
            *row[i].id = -1;
        else if (*row[i].id < 0 && config[i] >= 0 && (size_t)config[i] < d->size)
            *row[i].id = config[i];
    return true;
}

static bool is_bool(const JsonNode *j) { return is_kind(j, NODE_TRUE) || is_kind(j, NODE_FALSE); }

static bool set_template(VocabDraft *d, const JsonNode *flag, int32_t id, IdArray *out)
{
    if (!is_bool(flag))
        return true;
    out->n = 0;
    return flag->kind == NODE_FALSE || id < 0 || id_list_add(out, id, d->err);
}

/* add_bos_token and add_eos_token set the template in the Llama classes. Elsewhere add_bos_token is
 * only compared with the template, with a warning. */
static bool read_template(VocabDraft *d, const char *path, const JsonNode *settings)
{
    static const char *const classes[] = { "LlamaTokenizer", "LlamaTokenizerFast",
                                           "CodeLlamaTokenizer", "CodeLlamaTokenizerFast" };
    const JsonNode *bos = node_get(settings, "add_bos_token"),
                   *eos = node_get(settings, "add_eos_token");
    bool            rules = is_sentencepiece_draft(d);
    for (int i = 0; i < 4; i++)
        rules |= node_is(node_get(settings, "tokenizer_class"), classes[i]);
    if (rules)
        return set_template(d, bos, d->bos, &d->prefix) && set_template(d, eos, d->eos, &d->suffix);
    if (is_bool(bos) && (bos->kind == NODE_TRUE) != (d->prefix.n > 0))
        text_out(&d->warnings,
                 "%s: add_bos_token is %s, but the template of %s %s a token before the text: the "
                 "template holds\n",
                 path, bos->kind == NODE_TRUE ? "true" : "false", JSON_NAME,
                 d->prefix.n ? "puts" : "does not put");
    return true;
}

/* ---- Folders and files ----------------------------------------------------------------------- */

static bool from_file(VocabDraft *d, const char *path, const TokenizerMakeOptions *opt,
                      bool *there);

/* Read tokenizer.json, tokenizer.model, or vocab.json with merges.txt. *json is the parsed
 * tokenizer.json, also if a SentencePiece model beside it was read instead. */
static bool read_base(VocabDraft *d, const char *folder, bool gpt2, const TokenizerMakeOptions *opt,
                      bool *there, const JsonNode **json)
{
    const char *json_path = draft_path(d, folder, JSON_NAME),
               *model_path = draft_path(d, folder, MODEL_NAME);
    const char *vocab = draft_path(d, folder, "vocab.json"),
               *merges = draft_path(d, folder, "merges.txt");
    if (!json_path || !model_path || !vocab || !merges)
        return false;
    bool has_model = !gpt2 && path_exists(model_path);
    *there = true;
    if (!gpt2 && path_exists(json_path)) {
        d->file = json_path;
        if (!draft_read_object(d, json_path, json))
            return false;
        if (!has_model || !is_sentencepiece_json(*json))
            return hf_json_read(d, *json);
    }
    if (has_model)
        return from_file(d, model_path, opt, there)
            && (*there
                || fail(d->err, INPUT,
                        "%s: expected a SentencePiece model or a tiktoken rank file, found "
                        "something else",
                        model_path));
    *there = gpt2 || (path_exists(vocab) && path_exists(merges));
    return !*there || gpt2_files_read(d, folder);
}

static bool from_folder(VocabDraft *d, const char *folder, bool gpt2,
                        const TokenizerMakeOptions *opt, bool *there)
{
    const JsonNode *json = NULL, *settings, *added;
    const char     *config_path = draft_path(d, folder, CONFIG_NAME);
    if (!config_path || !read_base(d, folder, gpt2, opt, there, &json))
        return false;
    if (!*there)
        return true;
    if (is_sentencepiece_draft(d) && !spell_pieces(d))
        return false;
    if (is_sentencepiece_draft(d) && json
        && (!draft_member(d, json, "added_tokens", NODE_ARRAY, "added_tokens", &added)
            || !hf_json_added_tokens(d, added, &d->spelled, true)))
        return false;
    return draft_read_object_if_there(d, config_path, &settings)
        && merge_decoder(d, config_path, settings) && merge_added(d, folder)
        && name_ids(d, folder, settings, opt) && read_template(d, config_path, settings);
}

/* Is it {spelling: id} and nothing else? */
static bool is_vocab_json(const JsonNode *root)
{
    JSON_NODES (i, root)
        if (i->kind != NODE_INT)
            return false;
    return root->n > 0;
}

static bool from_json_file(VocabDraft *d, const char *path, const TokenizerMakeOptions *opt,
                           bool *there)
{
    const JsonNode *root;
    d->file = path;
    if (!draft_read_object(d, path, &root))
        return false;
    if (!is_vocab_json(root))
        return hf_json_read(d, root);
    const char *folder = draft_folder(d, path);
    /* from_folder reads the file again, as vocab.json. */
    json_doc_free(&d->doc[--d->n_docs]);
    return folder && from_folder(d, folder, true, opt, there);
}

static bool from_file(VocabDraft *d, const char *path, const TokenizerMakeOptions *opt, bool *there)
{
    char   head[256];
    size_t n;
    *there = true;
    if (!draft_read_head(d, path, head, &n))
        return false;
    bool llama2c = llama2c_vocab_looks_like(head, n);
    if (json_object_begins(head, n))
        return from_json_file(d, path, opt, there);
    if (rank_file_looks_like(head, n) && !llama2c)
        return rank_file_read(d, path);
    *there = llama2c || spm_model_looks_like(head, n);
    return !*there
        || (no_pattern(d, path) && (llama2c ? llama2c_vocab_read : spm_model_read)(d, path));
}

/* ---- The whole ------------------------------------------------------------------------------- */

bool tokenizer_looks_like(const char *head, size_t n)
{
    n = n < 256 ? n : 256;
    return llama2c_vocab_looks_like(head, n) || rank_file_looks_like(head, n)
        || spm_model_looks_like(head, n);
}

bool tokenizer_make(TokenizerData *out, const char *path, const TokenizerMakeOptions *opt,
                    Error *err)
{
    static const TokenizerMakeOptions none = { .bos = -1, .eos = -1 };
    opt = opt ? opt : &none;
    VocabDraft d = {
        .file = path, .bos = -1, .eos = -1, .unk = -1, .pattern = opt->pattern, .err = err
    };
    bool  there = true;
    *out = (TokenizerData){ .path = strdup(path) };
    bool ok = out->path ? (path_is_folder(path) ? from_folder(&d, path, false, opt, &there)
                                                : from_file(&d, path, opt, &there))
                        : no_memory(path, err);
    ok = ok && (!there || draft_finish(&d, out));
    draft_free(&d);
    if (!ok)
        tokenizer_data_free(out);
    return ok;
}

char *tokenizer_files_not_read(const char *folder)
{
    static const char *const other[] = { "tekken.json", "tokenizer.model.v3", "tokenizer.model.v7",
                                         "spiece.model" };
    TextOut lines = { 0 };
    char    path[PATH_BYTES];
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (path_there(folder, other[i], path))
            text_out(&lines, "%s%s%s", lines.n ? ", " : folder, lines.n ? "" : ": ", other[i]);
    if (!lines.n)
        return NULL;
    text_out(&lines, ": not read; %s or %s is\n", JSON_NAME, MODEL_NAME);
    return text_out_take(&lines, NULL);
}
