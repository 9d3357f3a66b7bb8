/* chat/jinja_lex.c: splits a template into tokens, with Jinja2's rules for white space around tags:
 * trim_blocks, lstrip_blocks, '-' and '+' (jinja2/lexer.py, which has these rules as regexes). */
#include "chat/jinja_parts.h"

#include "base/hash.h"
#include "tokenizer/unicode.h"

typedef struct Lexer {
    JinjaRun   *r;
    const char *s;
    size_t      n, at;
    Token      *token;
    size_t      n_tokens, cap;
    char        open[JINJA_NESTED];  /* open brackets in a tag */
    int         n_open;
    bool        line_starts;         /* the last match ended with a newline, or there was none */
} Lexer;

static Token *add_token(Lexer *x, TokenType type, size_t at)
{
    if (x->n_tokens == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        Token *t = jinja_array(x->r, cap, sizeof *t);
        if (x->cap)
            memcpy(t, x->token, x->n_tokens * sizeof *t);
        x->token = t, x->cap = cap;
    }
    jinja_work(x->r, 1);
    x->token[x->n_tokens] = (Token){ .type = type, .at = at };
    return &x->token[x->n_tokens++];
}

#if defined(__GNUC__)
__attribute__((noreturn))
#endif
static void lex_failed(Lexer *x, size_t at, const char *why)
{
    x->r->at = at;
    jinja_fail(x->r, "%s", why);
}

static bool has(const Lexer *x, size_t at, const char *s)
{
    size_t n = strlen(s);
    return at <= x->n && x->n - at >= n && memcmp(x->s + at, s, n) == 0;
}

static size_t skip_space(const Lexer *x, size_t at)
{
    uint32_t c = 0;
    size_t   n;
    while ((n = character_at(x->s + at, x->n - at, &c)) > 0 && is_space(c))
        at += n;
    return at;
}

/* ---- Text between tags ----------------------------------------------------------------------- */

/* Adds the template's own text, marked as such. */
static void add_data(Lexer *x, size_t from, size_t to)
{
    if (to == from)
        return;
    char *mark = memset(jinja_alloc(x->r, to - from), 1, to - from);
    add_token(x, T_DATA, from)->text = string_new(x->r, x->s + from, mark, to - from);
}

/* Where the text before a tag ends: '-' strips all white space; without '+', a block or comment tag
 * strips the blanks between the start of its line and itself. */
static size_t text_end(const Lexer *x, size_t from, size_t to, char sign, bool variable)
{
    size_t   line = to, end = to;
    uint32_t c = 0;
    while (line > from && x->s[line - 1] != '\n')
        line--;
    size_t floor = sign == '-' ? from : line;
    if (sign == '+' || (sign != '-' && (variable || !(line > from || x->line_starts))))
        return to;
    for (size_t n; end > floor && (n = character_before(x->s + from, end - from, &c)) > 0;) {
        if (!is_space(c))
            break;
        end -= n;
    }
    return sign == '-' || end == floor ? end : to;
}

static char sign_at(const Lexer *x, size_t at)
{
    return at < x->n && (x->s[at] == '-' || x->s[at] == '+') ? x->s[at] : 0;
}

/* The end of a tag, such as "%}"; 0: it is not here. A minus strips the white space after it, and a
 * block or comment one newline. */
static size_t tag_end(const Lexer *x, size_t at, const char *end, bool trims)
{
    size_t n = strlen(end);
    if (x->s[at] == '-' && has(x, at + 1, end))
        return skip_space(x, at + 1 + n);
    if (trims && x->s[at] == '+' && has(x, at + 1, end))
        return at + 1 + n;
    if (!has(x, at, end))
        return 0;
    return at + n + (trims && has(x, at + n, "\n"));
}

static void comment(Lexer *x, size_t begin)
{
    for (; x->at < x->n; x->at++) {
        size_t end = tag_end(x, x->at, "#}", true);
        if (end) {
            x->line_starts = x->s[end - 1] == '\n';
            x->at = end;
            return;
        }
    }
    lex_failed(x, begin, "missing end of comment tag");
}

/* {% raw %} at `at`, which is at "{%": where its text begins; 0: another tag. */
static size_t raw_begin(const Lexer *x, size_t at)
{
    at = skip_space(x, at + 2 + (sign_at(x, at + 2) != 0));
    if (!has(x, at, "raw"))
        return 0;
    at = skip_space(x, at + 3);
    if (has(x, at, "-%}"))
        return skip_space(x, at + 3);
    return has(x, at, "%}") ? at + 2 : 0;
}

static void raw(Lexer *x, size_t from)
{
    x->line_starts = x->s[from - 1] == '\n';
    for (size_t at = from; at < x->n; at++) {
        if (!has(x, at, "{%"))
            continue;
        char   sign = sign_at(x, at + 2);
        size_t name = skip_space(x, at + 2 + (sign != 0));
        size_t end = 0;
        if (has(x, name, "endraw") && (name = skip_space(x, name + 6)) < x->n)
            end = tag_end(x, name, "%}", true);
        if (end) {
            add_data(x, from, text_end(x, from, at, sign, false));
            x->line_starts = x->s[end - 1] == '\n';
            x->at = end;
            return;
        }
    }
    lex_failed(x, from, "missing end of raw directive");
}

/* ---- Inside a tag ---------------------------------------------------------------------------- */

static bool digit(char c, int base)
{
    int d = hex_digit(c);
    return d >= 0 && d < base;
}

/* Digits with single underscores between them from `at` on; returns where they end. */
static size_t digits(const Lexer *x, size_t at, int base)
{
    while (at < x->n && (digit(x->s[at], base)
                         || (x->s[at] == '_' && at + 1 < x->n && digit(x->s[at + 1], base)
                             && at > 0 && x->s[at - 1] != '_')))
        at++;
    return at;
}

/* The end of a float that begins at `at`, or 0. */
static size_t float_end(const Lexer *x, size_t at)
{
    size_t end = digits(x, at, 10), whole = end;
    if (at > 0 && x->s[at - 1] == '.')
        return 0;
    if (end + 1 < x->n && x->s[end] == '.' && digit(x->s[end + 1], 10))
        end = digits(x, end + 1, 10);
    if (end < x->n && (x->s[end] == 'e' || x->s[end] == 'E')) {
        size_t power = end + 1 + (end + 1 < x->n && sign_at(x, end + 1) != 0);
        if (power < x->n && digit(x->s[power], 10))
            return digits(x, power, 10);
    }
    return end > whole ? end : 0;
}

static void number(Lexer *x)
{
    size_t at = x->at, end = float_end(x, at);
    char   text[64];
    size_t n = 0;
    bool   real = end > 0;
    char   letter = at + 2 < x->n && x->s[at] == '0' ? (char)(x->s[at + 1] | 32) : 0;
    int    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    size_t first = at + (base == 10 ? 0 : 2);
    if (base != 10 && first < x->n && x->s[first] == '_')
        first++;
    if (base != 10 && !(first < x->n && digit(x->s[first], base)))
        base = 10, first = at;
    if (!real) {
        end = digits(x, first, base);
        if (base == 10 && x->s[at] == '0') /* 007 is 00 and 7 */
            for (end = at; end < x->n && (x->s[end] == '0' || has(x, end, "_0")); end++)
                ;
    }
    for (size_t i = first; i < end; i++)
        if (x->s[i] != '_') {
            if (n + 1 == sizeof text)
                lex_failed(x, at, "a number of more than 62 digits");
            text[n++] = x->s[i];
        }
    text[n] = 0;
    Token *t = add_token(x, real ? T_FLOAT : T_INT, at);
    if (real) {
        t->number = v_float(json_to_double(text));
    } else {
        int64_t value = 0;
        for (size_t i = 0; i < n; i++)
            if (__builtin_mul_overflow(value, base, &value)
                || __builtin_add_overflow(value, hex_digit(text[i]), &value))
                lex_failed(x, at, "an integer of more than 64 bits is not supported");
        t->number = v_int(value);
    }
    x->at = end;
}

static void escape_code(Lexer *x, StringBuffer *b, size_t *at, size_t end, int n_digits, int base)
{
    uint32_t c = 0;
    size_t   begin = *at;
    int      n = 0;
    for (; n < n_digits && *at < end && digit(x->s[*at], base); n++)
        c = c * (uint32_t)base + (uint32_t)hex_digit(x->s[(*at)++]);
    if ((base == 16 && n < n_digits) || c > 0x10FFFF)
        lex_failed(x, begin, "an escape in a string without its hex digits");
    if (c >= 0xD800 && c < 0xE000)
        lex_failed(x, begin, "half a surrogate pair in a string is not supported");
    buffer_char(x->r, b, c, true);
}

static void escaped(Lexer *x, StringBuffer *b, size_t *at, size_t end)
{
    static const char spelled[] = "\\'\"abfnrtv", meant[] = "\\'\"\a\b\f\n\r\t\v";
    char        c = x->s[*at];
    const char *hit = c ? strchr(spelled, c) : NULL;
    if (c == '\n') {
        (*at)++;
    } else if (hit) {
        buffer_char(x->r, b, (unsigned char)meant[hit - spelled], true);
        (*at)++;
    } else if (c == 'x' || c == 'u' || c == 'U') {
        (*at)++;
        escape_code(x, b, at, end, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
    } else if (c >= '0' && c <= '7') {
        escape_code(x, b, at, end, 3, 8);
    } else if (c == 'N') {
        lex_failed(x, *at, "\\N{...} in a string is not supported");
    } else {
        buffer_char(x->r, b, '\\', true); /* Python keeps unknown escapes */
    }
}

static void string(Lexer *x)
{
    size_t begin = x->at, end = begin + 1;
    char   quote = x->s[begin];
    while (end < x->n && x->s[end] != quote)
        end += x->s[end] == '\\' ? 2 : 1;
    if (end >= x->n)
        lex_failed(x, begin, "a string without its end");
    StringBuffer *b = buffer_new(x->r);
    for (size_t at = begin + 1; at < end;) {
        if (x->s[at] == '\\') {
            at++;
            escaped(x, b, &at, end);
        } else {
            uint32_t c = 0;
            at += character_at(x->s + at, end - at, &c);
            buffer_char(x->r, b, c, true);
        }
    }
    add_token(x, T_STRING, begin)->text = string_new(x->r, b->n ? b->s : "", b->mark, b->n);
    x->at = end + 1;
}

static bool name(Lexer *x)
{
    size_t   at = x->at, n;
    uint32_t c = 0;
    while ((n = character_at(x->s + at, x->n - at, &c)) > 0 && (c == '_' || is_word(c)))
        at += n;
    if (at == x->at)
        return false;
    add_token(x, T_NAME, x->at)->text = string_new(x->r, x->s + x->at, NULL, at - x->at);
    x->at = at;
    return true;
}

static void bracket(Lexer *x, TokenType t)
{
    static const char closes[] = "}])";
    if (t == T_LBRACE || t == T_LBRACKET || t == T_LPAREN) {
        if (x->n_open == JINJA_NESTED)
            lex_failed(x, x->at, "brackets nested too deep");
        x->open[x->n_open++] = closes[t == T_LBRACE ? 0 : t == T_LBRACKET ? 1 : 2];
    } else if (t == T_RBRACE || t == T_RBRACKET || t == T_RPAREN) {
        if (!x->n_open || x->open[--x->n_open] != x->s[x->at])
            lex_failed(x, x->at, "a closing bracket that does not fit the one that is open");
    }
}

static void operator_(Lexer *x)
{
    static const struct { const char *text; TokenType type; } operators[] = {
        { "//", T_FLOORDIV }, { "**", T_POW }, { "==", T_EQ }, { "!=", T_NE }, { ">=", T_GE },
        { "<=", T_LE }, { "+", T_ADD }, { "-", T_SUB }, { "/", T_DIV }, { "*", T_MUL },
        { "%", T_MOD }, { "~", T_TILDE }, { "[", T_LBRACKET }, { "]", T_RBRACKET },
        { "(", T_LPAREN }, { ")", T_RPAREN }, { "{", T_LBRACE }, { "}", T_RBRACE }, { ">", T_GT },
        { "<", T_LT }, { "=", T_ASSIGN }, { ".", T_DOT }, { ":", T_COLON }, { "|", T_PIPE },
        { ",", T_COMMA }, { ";", T_SEMICOLON },
    };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (has(x, x->at, operators[i].text)) {
            bracket(x, operators[i].type);
            add_token(x, operators[i].type, x->at);
            x->at += strlen(operators[i].text);
            return;
        }
    lex_failed(x, x->at, "a character that no expression has");
}

static void tag(Lexer *x, bool block)
{
    size_t begin = x->at;
    x->n_open = 0;
    add_token(x, block ? T_BLOCK_BEGIN : T_VARIABLE_BEGIN, begin);
    x->at += 2u + (sign_at(x, begin + 2) != 0);
    for (;;) {
        x->at = skip_space(x, x->at);
        if (x->at >= x->n)
            return; /* the parser says what is missing */
        size_t end = x->n_open ? 0 : tag_end(x, x->at, block ? "%}" : "}}", block);
        if (end) {
            add_token(x, block ? T_BLOCK_END : T_VARIABLE_END, x->at);
            x->line_starts = x->s[end - 1] == '\n';
            x->at = end;
            return;
        }
        if (digit(x->s[x->at], 10))
            number(x);
        else if (x->s[x->at] == '\'' || x->s[x->at] == '"')
            string(x);
        else if (!name(x))
            operator_(x);
    }
}

Token *jinja_tokens(JinjaRun *r)
{
    Lexer x = { .r = r, .s = r->source, .n = r->n_source, .line_starts = true };
    while (x.at < x.n) {
        size_t begin = x.at, at = begin;
        while (at < x.n && !(x.s[at] == '{' && at + 1 < x.n && strchr("{%#", x.s[at + 1])
                             && x.s[at + 1]))
            at++;
        if (at == x.n) {
            add_data(&x, begin, at);
            x.at = at;
            break;
        }
        bool variable = x.s[at + 1] == '{';
        add_data(&x, begin, text_end(&x, begin, at, sign_at(&x, at + 2), variable));
        x.at = at;
        size_t text = x.s[at + 1] == '%' ? raw_begin(&x, at) : 0;
        if (text) {
            raw(&x, text);
        } else if (x.s[at + 1] == '#') {
            x.at += 2u + (sign_at(&x, at + 2) != 0);
            comment(&x, at);
        } else {
            tag(&x, !variable);
        }
    }
    add_token(&x, T_END, x.n);
    for (size_t i = 0; i < x.n_tokens; i++) /* now: a template does not change while it runs */
        if (x.token[i].text)
            string_chars(r, x.token[i].text);
    return x.token;
}
