/* source/tokenizer_source.c: a tokenizer alone, and one beside a model. */
#include "source/source.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "source/hf.h"

/* ---- Which paths are one --------------------------------------------------------------------- */

static bool holds(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    return path_there(folder, name, path);
}

bool tokenizer_folder_is(const char *folder)
{
    return holds(folder, "tokenizer.json") || holds(folder, "tokenizer.model")
        || (holds(folder, "vocab.json") && holds(folder, "merges.txt"));
}

/* A JSON object is a tokenizer.json if it has these keys, and a vocab.json by its file name. Other
 * objects are configs. */
static bool is_tokenizer_json(const FileMap *m)
{
    return strcmp(path_name(m->path), "vocab.json") == 0
        || (memmem(m->data, m->size, "\"model\"", 7) && memmem(m->data, m->size, "\"vocab\"", 7));
}

bool tokenizer_file_is(const FileMap *m)
{
    /* a safetensors file: the length of its header, then the header */
    if (m->size > 8 && m->data[6] == 0 && m->data[7] == 0 && m->data[8] == '{')
        return false;
    return json_object_begins(m->data, m->size)
        ? is_tokenizer_json(m)
        : tokenizer_looks_like((const char *)m->data, m->size);
}

/* ---- Making it ------------------------------------------------------------------------------- */

/* Copy the tokenizer's files and warnings to the source's lists. */
static bool note(Source *s, Error *err)
{
    for (size_t i = 0; i < s->tokenizer.n_files; i++)
        if (!source_uses(s, s->tokenizer.files[i], err))
            return false;
    const char *lines = s->tokenizer.warnings;
    return !lines || !*lines || source_warn(s, err, "%.*s", (int)strlen(lines) - 1, lines);
}

bool open_tokenizer_source(Source *s, Error *err)
{
    char                 folder[PATH_BYTES];
    const Config        *c = &s->stored.config;
    TokenizerMakeOptions opt = { .bos = s->has_weights ? c->bos : -1,
                                 .eos = s->has_weights && c->n_eos ? c->eos[0] : -1,
                                 .pattern = s->opt.pattern };
    const char          *from = hf_folder_of(s, folder, sizeof folder);
    bool ok = s->opt.no_tokenizer     ? true
            : s->kind == SOURCE_GGUF ? tokenizer_make_gguf(&s->tokenizer, s->gguf.meta, err)
                                     : tokenizer_make(&s->tokenizer, from, &opt, err);
    if (!ok)
        return false;
    if (!note(s, err)
        || ((s->kind == SOURCE_HF || s->kind == SOURCE_TOKENIZER) && path_is_folder(from)
            && !folder_chat(s, from, err)))
        return false;
    if (s->tokenizer.metadata)
        return tokenizer_data_view(&s->file, &s->tokenizer, err);
    if (s->opt.no_tokenizer)
        return source_need_weights(s, err);
    return s->has_weights
        || fail(err, INPUT, "%s: expected weights or a tokenizer, found neither", s->path);
}

/* ---- Beside a llama2.c file or Meta's folder ------------------------------------------------- */

static bool set_note(Source *s, const char *before, const char *what, const char *after, Error *err)
{
    size_t n    = strlen(before) + strlen(what) + strlen(after) + 1;
    char  *text = source_alloc(s, n, err);
    if (text)
        snprintf(text, n, "%s%s%s", before, what, after);
    s->tokenizer_note = text;
    return text != NULL;
}

/* Reject a tokenizer of another size: it belongs to another model. */
static bool check_size(const Source *s, Error *err)
{
    const TokenizerData *t = &s->tokenizer;
    int expected = s->stored.config.vocab_size, i = 0;
    while (i < t->n_tensors && strcmp(t->tensor[i].name, "tok.types") != 0)
        i++;
    if (!t->metadata || i == t->n_tensors)
        return fail(err, INPUT,
                    "%s: expected a tokenizer of llama2.c or SentencePiece, found neither",
                    t->path);
    return t->tensor[i].shape[0] == expected
        || fail(err, INPUT, "%s: expected the %d tokens of the model, found %lld", t->path,
                expected, (long long)t->tensor[i].shape[0]);
}

static bool take(Source *s, const char *path, Error *err)
{
    const Config        *c   = &s->stored.config;
    TokenizerMakeOptions opt = { .bos = c->bos, .eos = c->n_eos ? c->eos[0] : -1,
                                 .pattern = s->kind == SOURCE_META ? s->opt.pattern : NULL };
    return tokenizer_make(&s->tokenizer, path, &opt, err) && check_size(s, err);
}

/* run.c reads tokenizer.bin, which is made from tokenizer.model. Llama 2's download.sh keeps one
 * tokenizer above the folders of its models. */
static const char *const beside[] = { "tokenizer.bin", "tokenizer.model", TOKENIZER_ABOVE };
enum { N_BESIDE = 2, N_ALL = 3 };

bool open_tokenizer_beside(Source *s, Error *err)
{
    char       path[PATH_BYTES];
    const bool meta = s->kind == SOURCE_META;
    if (meta && tokenizer_folder_is(s->path))
        return open_tokenizer_source(s, err);
    for (int i = meta ? N_BESIDE : 0; i < (meta ? N_ALL : N_BESIDE) && !s->opt.no_tokenizer; i++) {
        Error why;
        if (!path_there(s->path, beside[i], path))
            continue;
        if (take(s, path, &why))
            return set_note(s, "tokenizer: ", beside[i], meta ? "" : " beside it", err)
                && note(s, err)
                && tokenizer_data_view(&s->file, &s->tokenizer, err);
        tokenizer_data_free(&s->tokenizer);
        if (why.status == SYSTEM)
            return fail(err, SYSTEM, "%s", why.msg);
        if (!s->tokenizer_note
            && !set_note(s, "the one beside it does not fit: ", why.msg, "", err))
            return false;
    }
    return s->tokenizer_note
        || set_note(s, "put its ", meta ? "tokenizer.model" : "tokenizer.bin or tokenizer.model",
                    meta ? " into it" : " beside it", err);
}

bool tokenizer_beside_apart(const char *path, const char *output, Error *err)
{
    char file[PATH_BYTES];
    for (int i = 0; i < N_BESIDE; i++)
        if (path_there(path, beside[i], file) && !file_check_apart(output, file, err))
            return false;
    return true;
}
