#include "source/tokenizer_source.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "source/folder_chat.h"
#include "source/hf_folder.h"

/* ---- Which paths are one ---------------------------------------------------------------------------------------- */

static bool holds(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    return path_there(folder, name, path);
}

bool tokenizer_folder_is(const char *folder)
{
    return holds(folder, "tokenizer.json") || holds(folder, "tokenizer.model") || (holds(folder, "vocab.json") && holds(folder, "merges.txt"));
}

/* A JSON object is a tokenizer.json where it has these keys, and a vocab.json by its name; others are configs. */
static bool is_tokenizer_json(const FileMap *m)
{
    const char *slash = strrchr(m->path, '/');
    return strcmp(slash ? slash + 1 : m->path, "vocab.json") == 0 ||
           (memmem(m->data, m->size, "\"model\"", 7) && memmem(m->data, m->size, "\"vocab\"", 7));
}

bool tokenizer_file_is(const FileMap *m)
{
    size_t i = 0;
    if (m->size > 8 && m->data[6] == 0 && m->data[7] == 0 && m->data[8] == '{') /* the length of a safetensors header, and the header */
        return false;
    while (i < m->size && (m->data[i] == ' ' || (m->data[i] >= '\t' && m->data[i] <= '\r')))
        i++;
    return i < m->size && m->data[i] == '{' ? is_tokenizer_json(m) : tokenizer_looks_like((const char *)m->data, m->size);
}

/* ---- Making it -------------------------------------------------------------------------------------------------- */

/* What was read and what the user should know go to the source's own lists. */
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
    const Config        *c = &s->checkpoint.config;
    TokenizerMakeOptions opt = { .bos = s->has_weights ? c->bos : -1, .eos = s->has_weights && c->n_eos ? c->eos[0] : -1 };
    const char          *from = hf_folder_of(s, folder, sizeof folder);
    bool ok = s->kind == SOURCE_GGUF ? tokenizer_make_gguf(&s->tokenizer, s->gguf.meta, err) : tokenizer_make(&s->tokenizer, from, &opt, err);
    if (!ok)
        return false;
    if (!note(s, err) || (s->kind == SOURCE_HF && !folder_chat_template(s, from, err)))
        return false;
    if (s->tokenizer.metadata)
        return tokenizer_data_view(&s->file, &s->tokenizer, err);
    return s->has_weights || fail(err, INPUT, "%s: expected weights or a tokenizer, found neither", s->path);
}
