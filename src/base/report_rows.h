/* base/report_rows.h: a report as rows of key, label, value and unit, written once and shown as
 * text, as JSON or as HTML.
 *
 * A report calls these functions in its order. Values with a key appear in JSON, those with a label
 * or a title in text and on a page. Functions for one of the three formats alone have it in their
 * names. */
#ifndef BASE_REPORT_ROWS_H
#define BASE_REPORT_ROWS_H

#include "base/text.h"

typedef enum Face { FACE_TEXT, FACE_JSON, FACE_PAGE } Face;

/* Zeroed but for the settings here. Take the text from out. */
typedef struct Rows {
    TextOut out;
    Face    face;
    bool    colour;      /* text: for a terminal that has colours        */
    int     indent;      /* text: of the rows of tables                  */
    int     margin;      /* text: spaces before the labels of pairs      */
    int     label_width; /* text: of the labels of pairs                 */
    bool    plain;       /* JSON: UTF-8 and 17 digits, not ASCII and the fewest that read back */
    bool    follows;     /* JSON: a comma is due                         */
    int     line;        /* JSON: 1 + the indent of a new line that is due; 0: none */
    bool    in_list;     /* page: inside a list of pairs                 */
} Rows;

/* How text and pages spell a number. */
typedef enum Unit {
    UNIT_NONE,         /* 1234567, and a string as it is                               */
    UNIT_COUNT,        /* 1,234,567                                                    */
    UNIT_BYTES,        /* 5.79 MB                                                      */
    UNIT_SI,           /* 274.9 G                                                      */
    UNIT_RATIO,        /* three digits: 0.25, 1.33, 341; "-" if it is not over 0       */
    UNIT_SPEED,        /* four digits: 3.142, 31.42, 314.2, 3142                       */
    UNIT_SHARE,        /* of 1: 33.2%; "-" if it is not over 0                         */
    UNIT_SIZE,         /* three or four digits in seven columns; "-" for a NaN         */
    UNIT_DIGITS = 32,  /* + n: n significant ones, as %g                               */
    UNIT_FIXED = 64,   /* + n: n of them after the point                               */
    UNIT_PERCENT = 96, /* + n: the same of 100 times the number, with a percent sign   */
    UNIT_POWER = 128   /* + n: n after the point and an exponent                       */
} Unit;

typedef struct Cell {
    enum {
        VALUE_NONE,
        VALUE_INT,
        VALUE_REAL,
        VALUE_WHOLE,
        VALUE_PART,
        VALUE_FLAG,
        VALUE_TEXT,
        VALUE_JSON
    } kind;
    int64_t     whole;
    double      real, of;
    const char *text;
    const char *words; /* text and pages show these instead; NULL: the value */
} Cell;

/* an empty cell; JSON leaves it out */
static inline Cell v_none(void) { return (Cell){ .kind = VALUE_NONE }; }
static inline Cell v_int(int64_t x) { return (Cell){ VALUE_INT, .whole = x }; }
static inline Cell v_count(uint64_t x) { return v_int((int64_t)x); }
/* JSON: null if it is not finite */
static inline Cell v_real(double x) { return (Cell){ VALUE_REAL, .real = x }; }
/* a whole number, however large; JSON: null if it is not finite */
static inline Cell v_whole(double x) { return (Cell){ VALUE_WHOLE, .real = x }; }
/* the share x / of */
static inline Cell v_part(double x, double of)
{
    return (Cell){ VALUE_PART, .real = x, .of = of };
}
static inline Cell v_flag(bool x) { return (Cell){ VALUE_FLAG, .whole = x }; }
/* in JSON alone */
static inline Cell v_bytes(const char *s, size_t n)
{
    return (Cell){ VALUE_TEXT, .whole = (int64_t)n, .text = s };
}
/* NULL: JSON null */
static inline Cell v_text(const char *s) { return v_bytes(s, s ? strlen(s) : 0); }
/* JSON as it is: "[2, 3]" */
static inline Cell v_json(const char *s) { return (Cell){ VALUE_JSON, .text = s }; }
static inline Cell v_shown(Cell v, const char *words) { v.words = words; return v; }

/* Fill buf of n bytes and return it. */
const char *value_spell(const Cell *v, Unit unit, char *buf, size_t n);
static inline const char *real_spell(double x, Unit unit, char *buf, size_t n)
{
    return value_spell(&(Cell){ VALUE_REAL, .real = x }, unit, buf, n);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* A label and its value; without a label only in JSON, without a key only in text and page. */
void rows_value(Rows *r, const char *key, const char *label, Cell v, Unit unit);
void rows_item(Rows *r, Cell v); /* in JSON alone: one of an array */
static inline void rows_put(Rows *r, const char *key, Cell v)
{
    rows_value(r, key, NULL, v, UNIT_NONE);
}

/* A label and words, not in JSON. Characters that a terminal or a page would obey are escaped. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void rows_pair(Rows *r, const char *label, const char *fmt, ...);

/* The same after a verdict, which is green or red if there are colours. */
#if defined(__GNUC__)
__attribute__((format(printf, 5, 6)))
#endif
void rows_verdict(Rows *r, const char *label, bool good, const char *verdict, const char *fmt, ...);

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct Column {
    const char *key;   /* in JSON; NULL: not there                                   */
    const char *title;
    int         width; /* of text; negative: to the left; 0: not in text             */
    int         gap;   /* spaces before it in text, besides the one between columns */
    Unit        unit;
    const char *cell;  /* class of its cells on a page; NULL: not there              */
} Column;
#define JSON_COLUMN(key) { key, "", 0, 0, UNIT_NONE, NULL } /* not in text */

typedef struct Table {
    const Column *column;
    size_t        n;
    int           first_width; /* not 0: of the first column                    */
    const char   *groups;      /* markup: a row of titles over the others; or NULL */
} Table;
#define TABLE_OF(columns) { .column = columns, .n = sizeof columns / sizeof *columns }

/* A row of a page: its class, and the colour of its key and of the bars that show its shares;
 * NULL: neither. */
typedef struct RowStyle { const char *cls, *colour; } RowStyle;

/* Starts a table: titles, if columns have any; an array in JSON if there is a key. */
void rows_table(Rows *r, const char *key, const Table *t);
/* cell [t->n]; style may be NULL */
void rows_row(Rows *r, const Table *t, const Cell *cell, const RowStyle *style);
/* in JSON alone: into the object that is open */
void rows_cells(Rows *r, const Table *t, const Cell *cell);
void rows_table_end(Rows *r, const char *key);

/* ---- One format ------------------------------------------------------------------------------ */

#if defined(__GNUC__)
#define ROWS_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define ROWS_PRINTF
#endif
ROWS_PRINTF void rows_text(Rows *r, const char *fmt, ...);
ROWS_PRINTF void rows_page(Rows *r, const char *fmt, ...); /* markup; nothing is escaped */
void rows_heading(Rows *r, const char *text); /* text: a separate line, bold if there are colours */
void rows_toned(Rows *r, bool good, const char *text); /* text: green or red, if there are
                                                        * colours */

/* JSON: an object '{' or an array '['; key: NULL inside an array, and for the whole. */
void rows_open(Rows *r, const char *key, char bracket);
void rows_close(Rows *r, char bracket);

/* JSON: an object with these members: rows_object(r, "bytes", { "kept", v_count(n) }, { "flop",
 * v_real(x) }) */
typedef struct Member { const char *key; Cell value; } Member;
#define MEMBERS(...) ((const Member[]){ __VA_ARGS__, { .value.kind = VALUE_NONE } })
#define rows_object(r, name, ...) rows_object_of(r, name, MEMBERS(__VA_ARGS__))
#define rows_members(r, ...) rows_members_of(r, MEMBERS(__VA_ARGS__)) /* into the object that is
                                                                       * open */
void rows_object_of(Rows *r, const char *key, const Member *m);
void rows_members_of(Rows *r, const Member *m);
void rows_line(Rows *r, int indent); /* JSON: starts a new line for what comes next */

/* For element content and quoted attributes of a page: markup characters escaped, control
 * characters and bytes that are not UTF-8 shown as U+FFFD. */
void html_text(TextOut *o, const char *s);
void html_name(TextOut *o, const char *s); /* the same, a ^T in it raised */

/* For a terminal: escaped as base/printable.c says. */
void safe_text(TextOut *o, const char *s);

#endif
