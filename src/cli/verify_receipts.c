/* cli/verify_receipts.c: writes receipts, and verifies them. */
#include "frame.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tblock_tools.h"

enum { AT_ONCE = 16 }; /* receipts computed together: fewer fill a batch */

static const char *const verdicts[] = {
    [TBLOCK_RECEIPT_HOLDS]  = "holds",  [TBLOCK_RECEIPT_OTHER] = "other",
    [TBLOCK_RECEIPT_CHANGED] = "changed", [TBLOCK_RECEIPT_TOKEN] = "token",
    [TBLOCK_RECEIPT_LOGITS] = "logits", [TBLOCK_RECEIPT_FAILED] = "failed",
    [TBLOCK_RECEIPT_NOTHING] = "nothing", [TBLOCK_RECEIPT_TEXT] = "text",
};

bool receipt_is(const char *path)
{
    struct stat st;
    char        begin[256];
    if (strcmp(path, "-") == 0)
        return true;
    if (file_stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return false; /* the function that opens it reports why */
    int     fd = file_open(path, 0);
    ssize_t n  = fd >= 0 ? read(fd, begin, sizeof begin) : -1;
    if (fd >= 0)
        close(fd);
    return n > 0 && json_object_begins(begin, (size_t)n);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_one(const char *path, tblock_receipt **out, tblock_error *err)
{
    TextOut text = { 0 };
    bool    good = input_read(path, TBLOCK_RECEIPT_MOST, &text, err);
    *out         = good ? tblock_receipt_read(text.text ? text.text : "", text.n, path, err) : NULL;
    text_out_free(&text);
    return *out != NULL;
}

bool receipt_write(const tblock_receipt *r, const char *path, tblock_error *err)
{
    char   *json = NULL;
    TextOut line = { 0 };
    bool    good = tblock_receipt_json(r, &json, err)
        && text_out_add(&line, json, strlen(json), err) && text_out_add(&line, "\n", 1, err)
        && file_write(path, line.text, line.n, err);
    text_out_free(&line);
    tblock_free(json);
    return good;
}

typedef struct Verifying {
    Frame                 *frame;
    tblock_receipt       **receipt; /* [in->files.n] */
    tblock_receipt_row    *row;
    tblock_receipt_parting parting; /* of --bisect */
    int64_t                block;   /* computed alone; -1: all are */
} Verifying;

/* ---- Telling --------------------------------------------------------------------------------- */

static void receipt_row(Rows *r, const Table *t, const char *name, const tblock_receipt_row *v)
{
    char       shown[CLI_SHOWN];
    const bool token = v->position >= 0, links = v->first >= 0;
    rows_row(r, t,
             (Cell[]){ v_shown(v_text(name), cli_shown(shown, name)), v_count(v->n_given),
                       v_count(v->n_drawn), v_int(v->version),
                       v_shown(v_text(verdicts[v->verdict]),
                               v->verdict == TBLOCK_RECEIPT_FAILED ? "not checked"
                              : v->verdict      ? verdicts[v->verdict]
                              : v->version == 1 ? "every token and every bit (version 1)"
                                                : "every token and every bit"),
                        token ? v_int(v->position) : v_none(), token ? v_int(v->found) : v_none(),
                        token ? v_int(v->expected) : v_none(), links ? v_int(v->first) : v_none(),
                        links ? v_int(v->last) : v_none(), *v->why ? v_text(v->why) : v_none() },
             NULL);
    if (*v->why) {
        rows_text(r, "  ");
        if (r->face == FACE_TEXT)
            safe_text(&r->out, v->why);
        rows_text(r, "\n");
    }
}

/* Which block was computed, and where two receipts diverge. */
static void block_rows(Rows *r, const ReceiptFiles *in, const Verifying *v)
{
    const tblock_receipt_parting *p     = &v->parting;
    const bool                    parts = v->block >= 0;
    rows_value(r, "block", NULL, parts ? v_int(v->block) : v_none(), UNIT_NONE);
    if (!in->bisect && parts)
        rows_text(r, "only block %" PRId64 " was computed\n", v->block);
    if (!in->bisect)
        return;
    rows_object(r, "bisect", { "first", parts ? v_int(p->first) : v_none() },
                { "last", parts ? v_int(p->last) : v_none() },
                { "token", p->token >= 0 ? v_int(p->token) : v_none() });
    if (!parts)
        rows_text(r, "no block differs\n");
    else
        rows_text(r, "the first block that differs is %" PRId64 ", positions %" PRId64
                     " to %" PRId64 "%s; only it was computed\n",
                  v->block, p->first, p->last, p->token < 0 ? ", with the same tokens" : "");
}

static bool tell(const ReceiptFiles *in, const Verifying *v, tblock_error *err)
{
    const tblock_receipt_row *row = v->row;
    static const Column columns[] = {
        { "name", "receipt", -32, 0, UNIT_NONE, NULL },
        { "given", "given", 6, 1, UNIT_NONE, NULL },
        { "drawn", "drawn", 6, 1, UNIT_NONE, NULL },
        JSON_COLUMN("version"),
        { "verdict", "verdict", -1, 1, UNIT_NONE, NULL },
        JSON_COLUMN("position"), JSON_COLUMN("found"), JSON_COLUMN("expected"),
        JSON_COLUMN("first"), JSON_COLUMN("last"), JSON_COLUMN("why"),
    };
    Rows        r = OUTPUT_ROWS(in->json, 0);
    const Table t = TABLE_OF(columns);
    size_t      n_hold = 0, n_open = 0, bad = in->files.n; /* the first that does not hold, else */
    for (size_t i = in->files.n; i-- > 0;) {               /* the first that was not checked */
        const bool open = row[i].verdict == TBLOCK_RECEIPT_FAILED;
        n_hold += row[i].verdict == TBLOCK_RECEIPT_HOLDS;
        n_open += open;
        if (row[i].verdict != TBLOCK_RECEIPT_HOLDS
            && (!open || bad == in->files.n || row[bad].verdict == TBLOCK_RECEIPT_FAILED))
            bad = i;
    }
    rows_open(&r, NULL, '{');
    rows_members(&r, { "ok", v_flag(bad == in->files.n) },
                 { "hash_checked", v_flag(!in->trust_hash) });
    rows_table(&r, "receipts", &t);
    for (size_t i = 0; i < in->files.n; i++)
        receipt_row(&r, &t, in->files.texts[i], &row[i]);
    rows_table_end(&r, "receipts");
    block_rows(&r, in, v);
    rows_close(&r, '}');
    rows_text(&r, "%zu of %zu receipts hold", n_hold, in->files.n);
    if (n_open)
        rows_text(&r, ", %zu not checked", n_open);
    rows_text(&r, "; %s\n", data_said(!in->trust_hash));
    const bool open = bad < in->files.n && row[bad].verdict == TBLOCK_RECEIPT_FAILED;
    return output_rows(&r, err) && output_flush(err)
        && (bad == in->files.n
            || fail(err, open ? TBLOCK_UNKNOWN : TBLOCK_NO, "%s: %s%s", in->files.texts[bad],
                    open ? "not checked: " : "", row[bad].why));
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* --bisect: finds the block to compute, if there is one. */
static bool bisect(Verifying *v, const ReceiptFiles *in, tblock_error *err)
{
    v->block = in->block;
    if (!in->bisect)
        return true;
    if (!tblock_receipt_bisect(v->receipt[0], v->receipt[1], &v->parting, err))
        return false;
    v->block = v->parting.block;
    return !*v->parting.field
        || fail(err, TBLOCK_INPUT,
                "%s: %s: expected that of %s, found another: --bisect takes two receipts of one "
                "request", in->files.texts[1], v->parting.field, in->files.texts[0]);
}

static bool open_all(Verifying *v, const ReceiptFiles *in, tblock_error *err)
{
    const size_t n          = in->files.n;
    v->frame->compute.n_seqs = n < AT_ONCE ? (int)n : AT_ONCE;
    v->receipt              = calloc(n, sizeof(tblock_receipt *));
    v->row                  = calloc(n, sizeof *v->row);
    if (!v->receipt || !v->row)
        return no_memory(NULL, err);
    for (size_t i = 0; i < n; i++)
        if (!read_one(in->files.texts[i], &v->receipt[i], err))
            return false;
    return bisect(v, in, err) && frame_model(v->frame, err)
        && frame_apart(v->frame, in->junit, NULL, err);
}

/* A context for the receipts from `first` on, as far as they have the same rope_length. Returns how
 * many these are; 0: failed. */
static size_t open_context(Verifying *v, size_t first, size_t n, tblock_error *err)
{
    Frame          *f = v->frame;
    tblock_recorded one, *all = &f->compute.recorded;
    size_t          i = first;
    if (!tblock_receipt_recorded(v->receipt[first], all, err))
        return 0;
    for (i++; i < n && tblock_receipt_recorded(v->receipt[i], &one, err)
              && one.rope_length == all->rope_length; i++)
        all->n_ctx = one.n_ctx > all->n_ctx ? one.n_ctx : all->n_ctx;
    tblock_context_free(f->context);
    f->compute.silent = first > 0; /* its notes were printed */
    return frame_context(f, err) ? i - first : 0;
}

static bool verify_some(Verifying *v, const ReceiptFiles *in, size_t first, size_t n,
                        tblock_error *err)
{
    progress_show("verifying", 0);
    bool good = tblock_receipt_verify(
        v->frame->context, v->receipt + first, n,
        &(tblock_receipt_verify_options){ .progress   = progress_advance,
                                          .trust_hash = in->trust_hash,
                                          .one_block  = v->block >= 0,
                                          .block      = v->block >= 0 ? (size_t)v->block : 0 },
        v->row + first, err);
    progress_end();
    return good;
}

static bool verify_all(Verifying *v, const ReceiptFiles *in, tblock_error *err)
{
    size_t n = 0;
    for (size_t first = 0; first < in->files.n; first += n)
        if (!(n = open_context(v, first, in->files.n, err)) || !verify_some(v, in, first, n, err))
            return false;
    return true;
}

/* --junit: also if nothing was compared, for a reader that only sees the file; but not if the file
 * is one of the inputs. */
static bool write_junit(Verifying *v, const ReceiptFiles *in, bool ran, tblock_error *err)
{
    tblock_error why = *err;
    if (!in->junit || (!ran && !frame_apart(v->frame, in->junit, NULL, &why)))
        return true;
    return tblock_receipt_junit(v->frame->out[0].path, in->files.texts, ran ? v->row : NULL,
                                in->files.n, &why, err)
        && frame_commit(v->frame, err);
}

bool receipts_verify(Frame *f, const ReceiptFiles *in, tblock_error *err)
{
    Verifying v   = { .frame = f };
    bool      ran = open_all(&v, in, err) && verify_all(&v, in, err);
    bool      good = write_junit(&v, in, ran, err) && ran && tell(in, &v, err);
    for (size_t i = 0; v.receipt && i < in->files.n; i++)
        tblock_receipt_free(v.receipt[i]);
    free(v.receipt);
    free(v.row);
    return good;
}
