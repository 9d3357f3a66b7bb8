/* chat/chat_answer_parts.h: the internals of answer parsing. Private to the files that it names.
 *
 * chat_probe*.c find the form, chat_answer.c parses by it, with answer_text.c and answer_calls.c;
 * answer_json.c tracks JSON byte by byte and converts values of other notations to JSON. */
#ifndef CHAT_CHAT_ANSWER_PARTS_H
#define CHAT_CHAT_ANSWER_PARTS_H

#include "base/text.h"
#include "chat/chat_answer.h"

static inline bool answer_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* ---- answer_json.c --------------------------------------------------------------------------- */

enum { JSON_DEEPEST = 64, KEY_BYTES = 40, PATH_KEYS = 4 };

/* The keys that lead to a value; arrays add none. */
typedef struct KeyPath { int n; struct { size_t n; char s[KEY_BYTES]; } key[PATH_KEYS]; } KeyPath;
bool key_path_same(const KeyPath *a, const KeyPath *b, int n); /* of the first n keys */

typedef enum JsonStep {
    JSON_BAD,    /* no JSON */
    JSON_INSIDE,
    JSON_BEGINS, /* this byte is the first of a value, whose path is track->path */
    JSON_ENDS,   /* ... the last of a string, array or object */
    JSON_DONE,   /* ... the last of the whole value */
} JsonStep;

/* Tracks an array or object byte by byte. Zero it to begin. path is that of the value that this
 * byte begins, ends or is in. */
typedef struct JsonTrack {
    int     depth, objects, expect;
    bool    escape;
    char    open[JSON_DEEPEST];
    KeyPath path;
} JsonTrack;
JsonStep json_track(JsonTrack *t, char c);
bool json_at_colon(const JsonTrack *t); /* a key has ended, and its value is next */
/* The length of the array or object that s begins with, or 0. */
size_t json_length(const char *s, size_t n);

/* Converts a value in JSON's or Python's notation, or with `quote` around strings, to JSON; keys
 * may be unquoted. False: it is none, or no memory (then o->failed); part may be written. */
bool json_from_loose(TextOut *o, const char *s, size_t n, const char *quote, size_t n_quote);
/* The text of a JSON string with its quotes. */
bool json_unquote(TextOut *o, const char *s, size_t n);
/* s[0 .. n) as it stands inside the quotes of a JSON string; UTF-8 stays. */
bool json_out_inside(TextOut *o, const char *s, size_t n);

/* ---- The form -------------------------------------------------------------------------------- */

enum { LITERAL_BYTES = 320, HEADER_BYTES = 512, NAME_BYTES = 128, SPACES = 64 };

/* Text that a template writes around the words of a message. Where it has white space, an answer
 * may have other white space or none; DIGITS stands for a number. Matching looks for s[from .. to),
 * without the white space around it. known: it exists, even if empty. */
enum { DIGITS = 1 };
typedef struct Literal {
    size_t n, from, to;
    bool   known;
    char   s[LITERAL_BYTES], special[LITERAL_BYTES]; /* 1: a byte of a special token */
} Literal;
static inline bool literal_empty(const Literal *l) { return l->from >= l->to; }

typedef enum CallStyle {
    CALLS_NONE,
    CALLS_JSON,   /* name and arguments lie in a JSON value: begin VALUE (next VALUE)* end */
    CALLS_FRAME,  /* begin NAME after ARGUMENTS (next NAME after ARGUMENTS)* end */
} CallStyle;

enum { TEXT_VALUE, OTHER_VALUE }; /* of an argument: a string, or anything else */

typedef struct CallForm {
    CallStyle style;
    Literal   begin, begin_later, next, end; /* begin_later: after content, if it differs */
    /* CALLS_JSON */
    char      opens;             /* '{' or '[' */
    KeyPath   name, args, id, first; /* first: of all keys */
    int       shared;            /* keys that lead to the object that is one call */
    /* CALLS_FRAME */
    int       n_fields;
    char      field[2];          /* 'n'ame, 'i'd, in the order of the text */
    Literal   after[2];          /* after each; the last leads to the arguments */
    bool      by_key;            /* arguments one by one, not as a JSON object */
    bool      typed, quoted;     /* the frame differs for strings; strings are literals */
    Literal   quote;             /* around strings inside other values */
    Literal   none_end, none_next; /* no arguments, then the end or the next call */
    Literal   value[2];          /* between key and value, by kind of the value */
    Literal   more[2], value_end[2], value_next[2]; /* after a value */
} CallForm;

struct AnswerForm {
    Literal     primed;          /* the part of the answer that the prompt already has */
    bool        reasoning, starts_reasoning;
    bool        has_specials;
    const char *reasoning_key;
    bool        text_arguments, object_arguments, no_content;
    Literal     think, think_end, content;
    Literal     turn_end, turn_first; /* after content; its first marker in brackets */
    Literal     head, head_end;  /* every part begins with a header between these */
    CallForm    calls;
};

/* Where an answer starts: after the part that the prompt already has, in reasoning if every answer
 * begins with it, or between parts. */
typedef enum AnswerBegin { BEGINS_PRIMED, BEGINS_ANY, BEGINS_FREE } AnswerBegin;
Answer *answer_begin(const AnswerForm *f, const JsonNode *tools, AnswerBegin where, Error *err);

/* ---- chat_answer.c --------------------------------------------------------------------------- */

typedef enum AnswerState {
    FREE,       /* between parts */
    CONTENT, REASONING,
    JSON_BEGIN, JSON_CALL,
    FIELD, HEADER_REST, JSON_ARGS, /* of a call in a frame */
    KEY, VALUE_BEGIN, VALUE, VALUE_TRACKED,
    CALL_AFTER,
} AnswerState;

/* Holds between public calls, while there is memory (answer_is_sound):
 * - Consumed bytes are gone from `in`, except those that may be emitted later: a held call from
 *   held_from on, which may be content; a call's arguments, name or id in a JSON value. flag has a
 *   byte for each of `in`. An incomplete character waits in tail, not in `in`.
 * - A call is held until it is emitted (told), never both. Between tool calls it is neither; held
 *   while its name is read, told while its arguments are; in a JSON value it may be either.
 * - The texts of the parts are in `out` in their order, each with a NUL. A part of a call names one
 *   that was emitted. */
struct Answer {
    const AnswerForm *f;
    const JsonNode   *tools;
    AnswerState state;
    TextOut    in, flag;        /* flag: 1 for each byte of a special token */
    size_t     at;              /* what is before it was consumed */
    bool       ending, fresh, skip, no_memory;
    size_t     marker_at;       /* start of the literal that text_until found, with white
                                 * space */
    char       tail[4];         /* an incomplete character */
    size_t     n_tail;

    TextOut    out;             /* the texts of the parts */
    AnswerPart *part;
    size_t     n_parts, cap;

    int        n_calls;
    bool       held, told;      /* a call: its text may still be content; it was emitted */
    size_t     held_from;       /* in `in` */
    TextOut    name, id, key, value;
    int        field;
    size_t     args_from, args_to, value_at; /* CALLS_JSON: indices into `in`; SIZE_MAX: none */
    bool       has_args, args_text; /* args_text: they are a string that contains JSON */
    JsonTrack  json;
    int        kind;            /* of the value being read: TEXT_VALUE or OTHER_VALUE */
    bool       text, any_value; /* it streams as a string; there was one before */
    int        deep;            /* VALUE_TRACKED: open brackets; the open quote */
    char       quote;
    bool       escape;
};

/* ---- answer_text.c --------------------------------------------------------------------------- */

typedef enum LiteralMatch { NO_MATCH, MATCHES, NEEDS_MORE } LiteralMatch;
typedef struct LiteralChoice { const Literal *l[8]; int n; } LiteralChoice;

/* Adds text to the parts; it joins the last one if it continues that. */
void answer_emit(Answer *a, AnswerKind kind, const char *s, size_t n);
/* Of a string among arguments: its text, escaped; that it begins. */
void answer_emit_inside(Answer *a, const char *s, size_t n);
void answer_text_begins(Answer *a);
/* The end of the white space from byte i on. */
size_t answer_skip(const Answer *a, size_t i);
/* Does the literal match at byte i? White space in it matches any, or none. */
LiteralMatch literal_at(const Answer *a, const Literal *l, size_t i, size_t *to);
void literal_choose(LiteralChoice *c, const Literal *l); /* unless it is empty */
/* The longest literal that matches at byte i: its index in the choice, or -1. *more: one may
 * continue after the end of the input; then it waits for that. */
int literal_choice_at(const Answer *a, const LiteralChoice *c, size_t i, size_t *to, bool *more);
/* Takes what is certainly text. Returns which literal came, and consumes it; -1: needs more. */
int answer_text_until(Answer *a, const LiteralChoice *c);

/* ---- answer_calls.c -------------------------------------------------------------------------- */

/* In a state of a call: returns true if something changed, so there may be more to do. */
bool answer_call_step(Answer *a);
/* A call seems to begin here: its text is held until it is one. */
void answer_hold_call(Answer *a, size_t from, AnswerState state);
/* What looked like a call is none. If it was emitted already, it ends here. */
void answer_no_call(Answer *a);
/* Its name and id are complete. */
void answer_arguments_begin(Answer *a);
/* Closes what is open when the answer ends. */
void answer_close_call(Answer *a);

#endif
