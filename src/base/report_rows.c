/* base/report_rows.c: rows of a report as text, as a page and as JSON. */
#include "base/report_rows.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/json.h"
#include "base/text.h"

/* ---- Spelling -------------------------------------------------------------------------------- */

static void spell_size(double v, char *buf, size_t n)
{
    double a = fabs(v);
    if (isnan(v))
        snprintf(buf, n, "-");
    else if (a != 0 && (a < 0.001 || a >= 1e6))
        snprintf(buf, n, "%.1e", v);
    else
        snprintf(buf, n, "%.*f",
                 a < 0.01       ? 5
                     : a < 0.1  ? 4
                     : a < 10   ? 3
                     : a < 100  ? 2
                     : a < 1000 ? 1
                                : 0,
                 v);
}

static void spell_digits(double v, int style, int digits, char *buf, size_t n)
{
    if (isnan(v)) /* printf writes it with its sign, which is noise */
        snprintf(buf, n, "nan");
    else if (style == UNIT_DIGITS)
        snprintf(buf, n, "%.*g", digits, v);
    else if (style == UNIT_POWER)
        snprintf(buf, n, "%.*e", digits, v);
    else if (style == UNIT_PERCENT)
        snprintf(buf, n, "%.*f%%", digits, 100 * v);
    else
        snprintf(buf, n, "%.*f", digits, v);
}

static void spell_number(double v, Unit unit, char *buf, size_t n)
{
    switch ((int)unit) {
    case UNIT_BYTES: form_bytes(v, buf, n); break;
    case UNIT_SI:    form_si(v, buf, n); break;
    case UNIT_RATIO: form_ratio(v, buf, n); break;
    case UNIT_SIZE:  spell_size(v, buf, n); break;
    case UNIT_SPEED:
        snprintf(buf, n, "%.*f", v < 10 ? 3 : v < 100 ? 2 : v < 1000 ? 1 : 0, v);
        break;
    case UNIT_SHARE: snprintf(buf, n, v > 0 ? "%.1f%%" : "-", 100 * v); break;
    default:         spell_digits(v, (int)unit & ~31, (int)unit & 31, buf, n);
    }
}

const char *value_spell(const Cell *v, Unit unit, char *buf, size_t n)
{
    if (v->words)
        return v->words;
    switch (v->kind) {
    case VALUE_NONE: return "";
    case VALUE_TEXT:
    case VALUE_JSON: return v->text ? v->text : "";
    case VALUE_FLAG: return v->whole ? "yes" : "no";
    case VALUE_PART: return v->of > 0 ? form_percent(v->real, v->of, buf, n) : "-";
    case VALUE_INT:
        if (unit == UNIT_COUNT)
            return form_count((uint64_t)v->whole, buf, n);
        if (unit == UNIT_NONE)
            snprintf(buf, n, "%" PRId64, v->whole);
        else
            spell_number((double)v->whole, unit, buf, n);
        return buf;
    case VALUE_REAL:
    case VALUE_WHOLE: spell_number(v->real, unit, buf, n);
    }
    return buf;
}

void safe_text(TextOut *o, const char *s)
{
    for (size_t n = strlen(s), n_read; n > 0; s += n_read, n -= n_read) {
        char   shown[PRINTABLE_BYTES];
        size_t n_shown = printable(shown, s, n, &n_read);
        text_out_bytes(o, shown, n_shown);
    }
}

static const char *html_escape(uint32_t code)
{
    switch (code) {
    case '&':  return "&amp;";
    case '<':  return "&lt;";
    case '>':  return "&gt;";
    case '"':  return "&quot;";
    case '\'': return "&#39;";
    default:   return is_printable(code) ? NULL : "&#xfffd;";
    }
}

static void html_bytes(TextOut *o, const char *s, size_t n)
{
    while (n > 0) {
        uint32_t    code = 0;
        int         length = utf8_decode(s, n, &code);
        const char *as = length < 0 ? "&#xfffd;" : html_escape(code);
        length = length < 0 ? -length : length;
        text_out_bytes(o, as ? as : s, as ? strlen(as) : (size_t)length);
        s += length;
        n -= (size_t)length;
    }
}

void html_text(TextOut *o, const char *s) { html_bytes(o, s, strlen(s)); }

void html_name(TextOut *o, const char *s)
{
    const char *raised = strstr(s, "^T");
    html_bytes(o, s, raised ? (size_t)(raised - s) : strlen(s));
    if (raised) {
        text_out(o, "<sup>T</sup>");
        html_text(o, raised + 2);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Writes what separates two values, then the key. */
static void write_key(Rows *r, const char *key)
{
    if (r->line)
        text_out(&r->out, "%s\n%*s", r->follows ? "," : "", r->line - 1, "");
    else if (r->follows)
        text_out(&r->out, ", ");
    if (key)
        text_out(&r->out, "\"%s\": ", key);
    r->line    = 0;
    r->follows = true;
}

static void write_number(TextOut *o, double x, bool plain)
{
    if (plain && isfinite(x))
        text_out(o, "%.17g", x);
    else
        json_out_double(o, x);
}

static void write_string(TextOut *o, const char *s, size_t n, bool plain)
{
    if (!plain) {
        json_out_string(o, s, n);
        return;
    }
    text_out_bytes(o, "\"", 1);
    for (size_t n_read; n > 0; s += n_read, n -= n_read) {
        char   shown[JSON_CHAR_BYTES];
        size_t n_shown = json_char(shown, s, n, &n_read);
        text_out_bytes(o, shown, n_shown);
    }
    text_out_bytes(o, "\"", 1);
}

static void write_value(Rows *r, const Cell *v)
{
    TextOut *o = &r->out;
    switch (v->kind) {
    case VALUE_NONE:  break;
    case VALUE_INT:   text_out(o, "%" PRId64, v->whole); break;
    case VALUE_REAL:  write_number(o, v->real, r->plain); break;
    case VALUE_WHOLE: text_out(o, isfinite(v->real) ? "%.0f" : "null", v->real); break;
    case VALUE_PART:  write_number(o, v->real / v->of, r->plain); break;
    case VALUE_FLAG:  text_out(o, "%s", v->whole ? "true" : "false"); break;
    case VALUE_JSON:  text_out_bytes(o, v->text, strlen(v->text)); break;
    case VALUE_TEXT:
        if (v->text)
            write_string(o, v->text, (size_t)v->whole, r->plain);
        else
            text_out(o, "null");
    }
}

void rows_open(Rows *r, const char *key, char bracket)
{
    if (r->face != FACE_JSON)
        return;
    write_key(r, key);
    text_out_bytes(&r->out, &bracket, 1);
    r->follows = false;
}

void rows_close(Rows *r, char bracket)
{
    if (r->face != FACE_JSON)
        return;
    text_out_bytes(&r->out, &bracket, 1);
    r->follows = true;
}

void rows_members_of(Rows *r, const Member *m)
{
    for (; m->key; m++)
        rows_put(r, m->key, m->value);
}

void rows_object_of(Rows *r, const char *key, const Member *m)
{
    rows_open(r, key, '{');
    rows_members_of(r, m);
    rows_close(r, '}');
}

void rows_line(Rows *r, int indent) { r->line = 1 + indent; }

/* ---- One face -------------------------------------------------------------------------------- */

static void end_list(Rows *r)
{
    if (r->in_list)
        text_out(&r->out, "</dl>\n");
    r->in_list = false;
}

/* Escaped for the format. */
static void out_words(Rows *r, const char *fmt, va_list list)
{
    TextOut words = { 0 };
    text_out_list(&words, fmt, list);
    if (text_out_reserve(&words, 0)) {
        words.text[words.n] = '\0';
        (r->face == FACE_PAGE ? html_text : safe_text)(&r->out, words.text);
    }
    r->out.failed |= words.failed;
    text_out_free(&words);
}

void rows_text(Rows *r, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    if (r->face == FACE_TEXT)
        text_out_list(&r->out, fmt, list);
    va_end(list);
}

void rows_page(Rows *r, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    if (r->face == FACE_PAGE) {
        end_list(r);
        text_out_list(&r->out, fmt, list);
    }
    va_end(list);
}

void rows_heading(Rows *r, const char *text)
{
    rows_text(r, "\n%s%s%s\n", r->colour ? "\033[1m" : "", text, r->colour ? "\033[0m" : "");
}

static void out_verdict(Rows *r, bool good, const char *verdict)
{
    if (r->face == FACE_PAGE)
        text_out(&r->out, "<span class=\"%s\">%s</span>", good ? "ok" : "wrong", verdict);
    else
        text_out(&r->out, "%s%s%s",
                 !r->colour ? ""
                     : good ? "\033[32m"
                            : "\033[1;31m",
                 verdict, r->colour ? "\033[0m" : "");
}

void rows_toned(Rows *r, bool good, const char *text)
{
    if (r->face == FACE_TEXT)
        out_verdict(r, good, text);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* Not in JSON: false. */
static bool pair_begin(Rows *r, const char *label)
{
    if (r->face == FACE_PAGE) {
        text_out(&r->out, "%s<dt>%s</dt><dd>", r->in_list ? "" : "<dl>\n", label);
        r->in_list = true;
    }
    rows_text(r, "%*s%-*s  ", r->margin, "", r->label_width, label);
    return r->face != FACE_JSON;
}

void rows_item(Rows *r, Cell v)
{
    if (r->face != FACE_JSON)
        return;
    write_key(r, NULL);
    write_value(r, &v);
}

void rows_value(Rows *r, const char *key, const char *label, Cell v, Unit unit)
{
    char buf[64];
    if (r->face == FACE_JSON && key && v.kind != VALUE_NONE) {
        write_key(r, key);
        write_value(r, &v);
    } else if (r->face != FACE_JSON && label) {
        rows_pair(r, label, "%s", value_spell(&v, unit, buf, sizeof buf));
    }
}

static void out_pair(Rows *r, const char *label, bool good, const char *verdict, const char *fmt,
                     va_list list)
{
    if (!pair_begin(r, label))
        return;
    if (verdict)
        out_verdict(r, good, verdict);
    out_words(r, fmt, list);
    text_out(&r->out, r->face == FACE_PAGE ? "</dd>\n" : "\n");
}

void rows_pair(Rows *r, const char *label, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    out_pair(r, label, false, NULL, fmt, list);
    va_end(list);
}

void rows_verdict(Rows *r, const char *label, bool good, const char *verdict, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    out_pair(r, label, good, verdict, fmt, list);
    va_end(list);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static int width_of(const Table *t, size_t i)
{
    return i == 0 && t->first_width ? t->first_width : t->column[i].width;
}

/* A cell in text format, aligned left or right in its column. */
static void text_cell(Rows *r, const Table *t, size_t i, const Cell *v)
{
    const Column *c = &t->column[i];
    TextOut      *o = &r->out;
    char          buf[64];
    const char   *words = value_spell(v, c->unit, buf, sizeof buf);
    int           width = width_of(t, i);
    size_t        start;
    text_out(o, "%*s", i ? 1 + c->gap : r->indent, "");
    start = o->n;
    if (width > 0)
        text_out(o, "%*s", width > (int)strlen(words) ? width - (int)strlen(words) : 0, "");
    if (v->kind == VALUE_FLAG && v->words)
        out_verdict(r, v->whole, v->words);
    else
        safe_text(o, words);
    if (width < 0 && o->n - start < (size_t)-width)
        text_out(o, "%*s", -width - (int)(o->n - start), "");
}

static void text_row(Rows *r, const Table *t, const Cell *cell)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->column[i].width)
            text_cell(r, t, i, &cell[i]);
    while (r->out.n && r->out.text[r->out.n - 1] == ' ')
        r->out.n--;
    text_out(&r->out, "\n");
}

/* A share is shown as a bar and a number. */
static void page_cell(Rows *r, const Column *c, const Cell *v, const char *colour)
{
    TextOut *o = &r->out;
    char     buf[64];
    if (v->kind == VALUE_NONE || (v->kind == VALUE_PART && !colour)) {
        text_out(o, "<td></td>");
        return;
    }
    if (v->kind == VALUE_PART) {
        text_out(o,
                 "<td class=\"share\"><div><b><i class=\"%s\" "
                 "style=\"width:%.2f%%\"></i></b><span>%s</span></div></td>",
                 colour, v->of > 0 ? 100 * v->real / v->of : 0.0,
                 value_spell(v, c->unit, buf, sizeof buf));
        return;
    }
    text_out(o, *c->cell ? "<td class=\"%s\">" : "<td>", c->cell);
    html_name(o, value_spell(v, c->unit, buf, sizeof buf));
    text_out(o, "</td>");
}

static void page_row(Rows *r, const Table *t, const Cell *cell, const RowStyle *style)
{
    TextOut *o = &r->out;
    text_out(o, style ? "<tr class=\"%s\">" : "<tr>", style ? style->cls : "");
    for (size_t i = 0; i < t->n; i++) {
        if (i == 0 && style && style->colour) {
            char buf[64];
            text_out(o, "<td><i class=\"key %s\"></i>", style->colour);
            html_name(o, value_spell(&cell[0], t->column[0].unit, buf, sizeof buf));
            text_out(o, "</td>");
        } else if (t->column[i].cell) {
            page_cell(r, &t->column[i], &cell[i], style ? style->colour : NULL);
        }
    }
    text_out(o, "</tr>\n");
}

static void text_titles(Rows *r, const Table *t)
{
    Cell title[24];
    assert(t->n <= sizeof title / sizeof *title);
    for (size_t i = 0; i < t->n; i++)
        title[i] = v_text(t->column[i].title);
    text_row(r, t, title);
}

static void page_titles(Rows *r, const Table *t)
{
    text_out(&r->out, "<thead>%s<tr>", t->groups ? t->groups : "");
    for (size_t i = 0; i < t->n; i++)
        if (t->column[i].cell)
            text_out(&r->out,
                     t->column[i].width < 0 && *t->column[i].title ? "<th class=\"l\">%s</th>"
                                                                   : "<th>%s</th>",
                     t->column[i].title);
    text_out(&r->out, "</tr></thead>");
}

void rows_table(Rows *r, const char *key, const Table *t)
{
    bool titles = t->column[0].title != NULL;
    if (key)
        rows_open(r, key, '[');
    rows_page(r, "<div class=\"wide\"><table>");
    if (r->face == FACE_PAGE && titles)
        page_titles(r, t);
    rows_page(r, "<tbody>\n");
    if (r->face == FACE_TEXT && titles)
        text_titles(r, t);
}

static bool has_keys(const Table *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->column[i].key)
            return true;
    return false;
}

void rows_cells(Rows *r, const Table *t, const Cell *cell)
{
    for (size_t i = 0; r->face == FACE_JSON && i < t->n; i++)
        rows_put(r, t->column[i].key, cell[i]);
}

void rows_row(Rows *r, const Table *t, const Cell *cell, const RowStyle *style)
{
    if (r->face == FACE_TEXT)
        text_row(r, t, cell);
    if (r->face == FACE_PAGE)
        page_row(r, t, cell, style);
    if (r->face == FACE_JSON && has_keys(t)) {
        rows_open(r, NULL, '{');
        rows_cells(r, t, cell);
        rows_close(r, '}');
    }
}

void rows_table_end(Rows *r, const char *key)
{
    rows_page(r, "</tbody></table></div>\n");
    if (key)
        rows_close(r, ']');
}
