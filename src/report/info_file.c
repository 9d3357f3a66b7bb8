/* report/info_file.c: the rows of `tblock info` about a file: its contents, the check of its data,
 * its tensors. */
#include "report/page.h"

#include <stdio.h>
#include <string.h>

/* The string or number of a key in a parsed metadata entry; no text if it is absent. */
static Cell entry_value(const Json *entry, const char *key)
{
    Error       ignored;
    const char *text = NULL;
    int64_t     number;
    const Json *value = json_get(entry, key);
    if (json_read_int(value, "", 0, INT64_C(1) << 53, &number, &ignored))
        return v_int(number);
    json_read_string(value, "", &text, &ignored);
    return v_text(text);
}

/* Of a hash, text shows enough to recognize it. */
static void source_pair(Rows *r, const char *label, const SourceForm *form, const char *name,
                        const char *hash)
{
    if (!hash)
        rows_pair(r, label, "%s%s", form->before, name);
    else if (r->face == FACE_PAGE)
        rows_pair(r, label, "%s%s,%s sha256 %s", form->before, name, form->hash_of, hash);
    else
        rows_pair(r, label, "%s%s,%s sha256 %.12s...", form->before, name, form->hash_of, hash);
}

static void source_rows(Rows *r, const Json *source)
{
    const char *label = "source";
    rows_open(r, "source", '[');
    for (const Json *i = json_first(source); i; i = json_next(i)) {
        const SourceForm *form = info_source_form(i);
        if (!form)
            continue;
        Cell name = entry_value(i, form->key),
              hash = form->hash_key ? entry_value(i, form->hash_key) : v_none();
        rows_object(r, NULL, { "kind", v_text(form->key) }, { form->key, name },
                    { form->hash_key, hash });
        if (name.text)
            source_pair(r, label, form, name.text, hash.text);
        label = name.text ? "" : label;
    }
    rows_close(r, ']');
}

static void tokenizer_rows(Rows *r, const Json *tokenizer, const char *hash)
{
    Cell type = entry_value(tokenizer, "type"), size = entry_value(tokenizer, "size");
    rows_object(r, "tokenizer", { "present", v_flag(tokenizer != NULL) },
                { "type", tokenizer ? type : v_none() }, { "size", tokenizer ? size : v_none() },
                { "sha256", tokenizer ? v_text(hash) : v_none() });
    if (type.text && size.kind == VALUE_INT && size.whole <= INT32_MAX)
        rows_pair(r, "tokenizer", r->face == FACE_PAGE ? "%s, %d tokens, sha256 %s"
                                                       : "%s, %d tokens, sha256 %.12s...",
                  type.text, (int)size.whole, hash);
    else
        rows_pair(r, "tokenizer", "none");
}

static void file_size(Rows *r, const Info *info)
{
    const SourceContents *c = info->contents;
    char                  bytes[32], files[32] = "", data[48] = "";
    if (c->n_files > 1)
        snprintf(files, sizeof files, " in %zu files", c->n_files);
    if (info->ours)
        snprintf(data, sizeof data, ", data at byte %zu", c->data_offset);
    rows_members(r, { "file_bytes", v_count(c->bytes) }, { "files", v_count(c->n_files) },
                 { "data_offset", info->ours ? v_count(c->data_offset) : v_none() });
    rows_pair(r, "size", "%s bytes%s, %zu tensors%s", form_count(c->bytes, bytes, sizeof bytes),
              files, c->n_tensors, data);
}

void info_file(Rows *r, const Info *info)
{
    const SourceContents *c = info->contents;
    rows_heading(r, "file");
    rows_value(r, "source_kind", "kind", v_text(info->kind), UNIT_NONE);
    file_size(r, info);
    rows_put(r, "stored_as", v_text(c->types));
    if (!info->ours && *c->types)
        rows_pair(r, "stored as", "%s (tensors)", c->types);
    if (info->cfg && info->ours)
        rows_value(r, "layout", "layout", v_text(info_layout(info->count)), UNIT_NONE);
    tokenizer_rows(r, info->tokenizer, info->tokenizer_hash);
    rows_value(r, "chat", info->chat ? "chat" : NULL, v_text(info->chat), UNIT_NONE);
    source_rows(r, info->source);
    rows_value(r, "sha256", info->sha256 ? "sha256" : NULL, v_text(info->sha256), UNIT_NONE);
}

/* ---- Check ----------------------------------------------------------------------------------- */

static void check_part(Rows *r, const char *key, const char *label, const CheckPart *c,
                       const char *good, const char *none)
{
    static const char *const answers[] = {
        [CHECK_OK] = "ok", [CHECK_BAD] = "wrong", [CHECK_NONE] = "none"
    };
    bool bad = c->answer == CHECK_BAD;
    char more[48] = "";
    rows_object(r, key, { "answer", v_text(answers[c->answer]) },
                { "found", bad ? v_text(c->found) : v_none() },
                { "tensors", bad ? v_int(c->n_bad) : v_none() });
    if (c->n_bad > 1)
        snprintf(more, sizeof more, " (and %d more tensor%s)", c->n_bad - 1,
                 c->n_bad > 2 ? "s" : "");
    if (c->answer == CHECK_NONE)
        rows_pair(r, label, "%s", none);
    else
        rows_verdict(r, label, !bad, bad ? "WRONG" : "ok", ": %s%s", bad ? c->found : good, more);
}

void info_check(Rows *r, const DataCheck *d)
{
    rows_heading(r, "check");
    rows_open(r, "check", '{');
    rows_put(r, "ok", v_flag(d->ok));
    check_part(r, "sha256", "sha256", &d->hash, "matches the metadata", "none recorded");
    check_part(r, "padding", "padding", &d->padding, "all zero", "none in this file");
    check_part(r, "finite", "weights", &d->finite, "all finite", "none in this file");
    rows_close(r, '}');
}

/* ---- Tensors --------------------------------------------------------------------------------- */

void info_tensors(Rows *r, const SourceContents *c)
{
    static const Column columns[] = {
        { "name", "name", -23, 0, UNIT_NONE, "" },
                 { "dtype", "dtype", -5, 0, UNIT_NONE, "l dim" },
        { "shape", "shape", -20, 0, UNIT_NONE, "l dim" },
          { "bytes", "bytes", 13, 0, UNIT_COUNT, "" },
        { "offset", "offset", 13, 0, UNIT_COUNT, "" },
    };
    static const Table table = TABLE_OF(columns);
    char shape[160];
    rows_heading(r, "tensors");
    rows_table(r, "tensors", &table);
    for (size_t i = 0; i < c->n_tensors; i++) {
        const Tensor *t = c->tensors[i];
        rows_row(r, &table,
                 (Cell[]){ v_text(t->name), v_text(dtype_name(t->dtype)),
                           v_json(tensor_shape_text(t, shape, sizeof shape)), v_count(t->n_bytes),
                           v_count(t->offset) },
                 NULL);
    }
    rows_table_end(r, "tensors");
}
