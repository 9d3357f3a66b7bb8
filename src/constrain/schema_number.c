/* Ranges and multiples of numbers as regular expressions over their decimal digits. No double is
 * involved, so bounds are exact. */
#include <stdlib.h>
#include "constrain/schema_parts.h"

enum { USUAL_DIGITS = 20 }; /* a text may write so many on each side of the point */
enum { MOST_DIGITS = 800, MOST_RESIDUES = 10000, MOST_COPRIME = 16, MOST_PLACES = 40 };

/* The absolute value of a number: digits without zeros at either end, and the point's position. */
typedef struct Decimal {
    bool negative;
    int  n, whole; /* the point comes after `whole` digits; below 0 or above n: zeros between */
    char digit[MOST_DIGITS];
} Decimal;

/* Appends the digits at p to d; those after the point do not move it. */
static const char *read_digits(Decimal *d, const char *p, bool fraction, int *zeros)
{
    for (; *p >= '0' && *p <= '9'; p++) {
        d->whole += !fraction && (d->n || *zeros || *p != '0');
        if (*p == '0' && !d->n) {
            d->whole -= fraction;
        } else if (*p == '0') {
            (*zeros)++;
        } else {
            for (; *zeros && d->n < MOST_DIGITS; (*zeros)--)
                d->digit[d->n++] = '0';
            if (d->n < MOST_DIGITS)
                d->digit[d->n] = *p;
            d->n++;
        }
    }
    return p;
}

static bool read_decimal(Schema *s, const JsonNode *j, Decimal *d)
{
    const char *p = json_spelling(&s->doc, j);
    int         zeros = 0;
    *d = (Decimal){ .negative = *p == '-' };
    p = read_digits(d, p + d->negative, false, &zeros);
    if (*p == '.')
        p = read_digits(d, p + 1, true, &zeros);
    long exponent = *p == 'e' || *p == 'E' ? strtol(p + 1, NULL, 10) : 0;
    if (!d->n) {
        *d = (Decimal){ 0 };
        return true;
    }
    if (d->n > MOST_DIGITS || exponent < -400 || exponent > 400)
        return schema_refuse(s, j, "a number with more digits than are kept");
    d->whole += (int)exponent;
    return d->whole < MOST_DIGITS && d->whole > -MOST_DIGITS
        ? true
        : schema_refuse(s, j, "a number with more digits than are kept");
}

/* Digit i after (below 0: before) the point; zeros beyond the ends. */
static char digit_at(const Decimal *d, int i)
{
    int k = d->whole + i;
    return k >= 0 && k < d->n ? d->digit[k] : '0';
}

static Expr pattern_of(Schema *s, TextOut *o)
{
    Error e;
    char *text = text_out_take(o, &e);
    if (!text) {
        grammar_fail(s->g, &e);
        return EXPR_NOTHING;
    }
    Expr x = expr_pattern(s->g, text);
    free(text);
    return x;
}

/* The alternatives of same-length digits d[0 .. n) that are first greater at digit i. */
static void greater_digits(TextOut *o, const Decimal *d, int from, int to, const char *tail)
{
    for (int i = from; i < to; i++) {
        char c = digit_at(d, i);
        if (c == '9')
            continue;
        text_out(o, "|");
        for (int k = from; k < i; k++)
            text_out(o, "%c", digit_at(d, k));
        text_out(o, "[%c-9]", c + 1);
        if (tail)
            text_out(o, "[0-9]{%d}%s", to - i - 1, tail);
        else
            text_out(o, "[0-9]*");
    }
}

/* Spellings without a sign of numbers at least (above: more than) |d|. */
static Expr size_from(Schema *s, const Decimal *d, bool above)
{
    static const char fraction[] = "(?:\\.[0-9]+)?";
    TextOut o = { 0 };
    int     whole = d->whole > 0 ? d->whole : 0, places = d->n > d->whole ? d->n - d->whole : 0;
    if (!d->n)
        places = 0;
    /* more digits before the point; or as many, and one of them greater */
    text_out(&o, "[1-9][0-9]{%d,}%s", whole, fraction);
    greater_digits(&o, d, -whole, 0, fraction);
    /* the same before the point */
    text_out(&o, "|");
    for (int i = -whole; i < 0; i++)
        text_out(&o, "%c", digit_at(d, i));
    text_out(&o, whole ? "" : "0");
    if (!places) {
        text_out(&o, "%s", above ? "\\.[0-9]*[1-9][0-9]*" : fraction);
    } else {
        text_out(&o, "\\.(?:");
        for (int i = 0; i < places; i++)
            text_out(&o, "%c", digit_at(d, i));
        text_out(&o, above ? "[0-9]*[1-9][0-9]*" : "[0-9]*");
        greater_digits(&o, d, 0, places, NULL);
        text_out(&o, ")");
    }
    return pattern_of(s, &o);
}

static Expr from_decimal(Schema *s, const Decimal *d, bool above)
{
    Grammar *g = s->g;
    Expr     minus = expr_text(g, "-", 1), all = expr_pattern(g, "(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?");
    if (!d->negative) {
        Expr e = size_from(s, d, above);
        if (!d->n && !above) /* -0 is zero too */
            e = expr_alt(g, e, expr_seq(g, minus, expr_pattern(g, "0(?:\\.0+)?")));
        return e;
    }
    /* above -x: smaller than x; from -x on: x and smaller */
    Expr too_large = size_from(s, d, !above);
    return expr_alt(g, all, expr_seq(g, minus, expr_minus(g, all, too_large)));
}

Expr number_from(Schema *s, const JsonNode *j, bool above)
{
    Decimal d;
    return read_decimal(s, j, &d) ? from_decimal(s, &d, above) : EXPR_NOTHING;
}

Expr number_equal(Schema *s, const JsonNode *j)
{
    Decimal d;
    if (!read_decimal(s, j, &d))
        return EXPR_NOTHING;
    TextOut o = { 0 };
    text_out(&o, "%s", !d.n ? "-?" : d.negative ? "-" : "");
    for (int i = -(d.whole > 0 ? d.whole : 0); i < 0; i++)
        text_out(&o, "%c", digit_at(&d, i));
    text_out(&o, d.whole > 0 ? "" : "0");
    if (d.n && d.n > d.whole) {
        text_out(&o, "\\.");
        for (int i = 0; i < d.n - d.whole; i++)
            text_out(&o, "%c", digit_at(&d, i));
        text_out(&o, "0*");
    } else {
        text_out(&o, "(?:\\.0+)?");
    }
    return pattern_of(s, &o);
}

/* ---- multipleOf ------------------------------------------------------------------------------ */

/* All digits, without the point, form a multiple of r, which is coprime to 10, so zeros at the end
 * change nothing. From the automaton of the remainder so far, one state eliminated after the other
 * (Kleene). */
static Expr coprime_multiple(Schema *s, uint32_t r)
{
    Grammar *g = s->g;
    Expr     way[MOST_COPRIME][MOST_COPRIME];
    for (uint32_t i = 0; i < r; i++)
        for (uint32_t k = 0; k < r; k++)
            way[i][k] = i == k ? expr_text(g, ".", 1) : EXPR_NOTHING;
    for (uint32_t i = 0; i < r; i++)
        for (uint32_t digit = 0; digit < 10; digit++) {
            char  c = (char)('0' + digit);
            Expr *w = &way[i][(10 * i + digit) % r];
            *w = expr_alt(g, *w, expr_text(g, &c, 1));
        }
    for (uint32_t out = r - 1; out > 0; out--) {
        Expr loop = expr_repeat(g, way[out][out], 0, REPEAT_FOREVER);
        for (uint32_t i = 0; i < out; i++)
            for (uint32_t k = 0; k < out; k++)
                way[i][k] = expr_alt(g, way[i][k],
                                     expr_seq(g, way[i][out], expr_seq(g, loop, way[out][k])));
    }
    return expr_seq(g, expr_pattern(g, "-?"), expr_repeat(g, way[0][0], 0, REPEAT_FOREVER));
}

/* k more digits, of which the last `places` come after the point, that are `rest` modulo m. */
static Expr residue(Schema *s, Expr *memo, int k, int places, uint32_t rest, uint32_t m,
                    const uint32_t *power)
{
    Grammar *g = s->g;
    Expr    *e = &memo[(size_t)k * m + rest];
    if (k == 0)
        return rest == 0 ? EXPR_EMPTY : EXPR_NOTHING;
    if (*e)
        return *e;
    Expr list[10];
    for (uint32_t digit = 0; digit < 10; digit++) {
        char     c = (char)('0' + digit);
        uint32_t left = (rest + m - digit * power[k - 1] % m) % m;
        list[digit] = expr_seq(g, expr_text(g, &c, 1),
                               residue(s, memo, k - 1, places, left, m, power));
    }
    Expr all = expr_alt_list(g, list, 10);
    *e = k == places ? expr_seq(g, expr_text(g, ".", 1), all) : all;
    return *e;
}

/* Numbers with exactly `places` digits after the point, whose digits form a multiple of m, which
 * has no prime factors but 2 and 5: only the last few digits matter. */
static Expr smooth_multiple(Schema *s, uint32_t m, int places)
{
    uint32_t power[MOST_PLACES + 1] = { 1 % m };
    int      t = 0;
    while (power[t]) {
        power[t + 1] = power[t] * 10 % m;
        t++;
    }
    Grammar *g = s->g;
    TextOut  o = { 0 };
    if (t <= places) {
        text_out(&o, "-?[0-9]+");
        if (places)
            text_out(&o, "\\.[0-9]{%d}", places - t);
        Expr *memo = schema_keep(s, ((size_t)t + 1) * m, sizeof *memo);
        Expr  head = pattern_of(s, &o);
        return memo ? expr_seq(g, head, residue(s, memo, t, -1, 0, m, power)) : EXPR_NOTHING;
    }
    Expr *memo = schema_keep(s, ((size_t)t + 1) * m, sizeof *memo);
    if (!memo)
        return EXPR_NOTHING;
    Expr all = expr_seq(g, expr_pattern(g, "-?[0-9]*"), residue(s, memo, t, places, 0, m, power));
    for (int k = places + 1; k < t; k++)
        all = expr_alt(g, all, expr_seq(g, expr_pattern(g, "-?"),
                                        residue(s, memo, k, places, 0, m, power)));
    return all;
}

static uint32_t common_factor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The multiples of m * 10^-places, m having no prime factors but 2 and 5. */
static Expr smooth_places(Schema *s, uint32_t m, int places)
{
    Grammar *g = s->g;
    Expr     all = EXPR_NOTHING;
    for (int written = 0; written <= places; written++) {
        uint32_t left = m;
        for (int i = written; i < places; i++)
            left /= common_factor(left, 10);
        Expr e = smooth_multiple(s, left, written);
        if (written == places)
            e = expr_seq(g, e, expr_pattern(g, places ? "0*" : "(?:\\.0+)?"));
        all = expr_alt(g, all, e);
    }
    return all;
}

Expr number_multiple(Schema *s, const JsonNode *j)
{
    Decimal  d;
    uint64_t p = 0;
    if (!read_decimal(s, j, &d))
        return EXPR_NOTHING;
    int zeros = d.whole > d.n ? d.whole - d.n : 0, places = d.n > d.whole ? d.n - d.whole : 0;
    for (int i = 0; i < d.n && d.n <= 18; i++)
        p = 10 * p + (uint64_t)(d.digit[i] - '0');
    uint64_t rest = p;
    uint32_t smooth = 1;
    for (uint32_t prime = 2; prime && rest; prime = prime == 2 ? 5 : 0)
        for (; rest % prime == 0 && smooth <= MOST_RESIDUES; rest /= prime)
            smooth *= prime;
    for (; zeros && smooth <= MOST_RESIDUES; zeros--)
        smooth *= 10;
    if (!p || d.negative || rest > MOST_COPRIME || smooth > MOST_RESIDUES || places > MOST_PLACES) {
        schema_refuse(s, j, "multipleOf: a step that is not kept (its digits must be a product of "
                            "2s, 5s and a number up to %d)", MOST_COPRIME);
        return EXPR_NOTHING;
    }
    Expr e = smooth_places(s, smooth, places);
    if (rest > 1)
        e = expr_and(s->g, e, coprime_multiple(s, (uint32_t)rest));
    return expr_and(s->g, e, s->all[IS_NUMBER]);
}

/* ---- Spelling -------------------------------------------------------------------------------- */

/* In the keywords every spelling of a number counts, so that complements are exact. A model that
 * samples 7.0000 would find no end, so a text has a bounded number of digits: as many as any
 * number of the schema, and one more, so that something lies between two of them. */
void number_begin(Schema *s)
{
    int whole = USUAL_DIGITS, places = USUAL_DIGITS;
    for (size_t i = 0; i < s->doc.n_nodes; i++) {
        const JsonNode *j = &s->doc.node[i];
        if (j->kind != NODE_INT && j->kind != NODE_DOUBLE)
            continue;
        const char  *p = json_spelling(&s->doc, j) + (*json_spelling(&s->doc, j) == '-');
        const size_t n = strspn(p, "0123456789"),
                     m = p[n] == '.' ? strspn(p + n + 1, "0123456789") : 0;
        const char  *e = p + n + (p[n] == '.') + m;
        const long   shift = *e == 'e' || *e == 'E' ? strtol(e + 1, NULL, 10) : 0;
        const long   far = shift < -MOST_DIGITS || shift > MOST_DIGITS ? 0 : shift; /* is refused */
        const long   before = (long)(n < MOST_DIGITS ? n : MOST_DIGITS) + far + 1,
                     after = (long)(m < MOST_DIGITS ? m : MOST_DIGITS) - far + 1;
        whole = before > whole ? (int)before : whole;
        places = after > places ? (int)after : places;
    }
    TextOut once = { 0 }, any = { 0 };
    text_out(&once, "0|-?[1-9][0-9]{0,%d}|-?(?:0|[1-9][0-9]{0,%d})\\.[0-9]{0,%d}[1-9]", whole - 1,
             whole - 1, places - 1);
    text_out(&any, "-?(?:0|[1-9][0-9]{0,%d})(?:\\.[0-9]{1,%d})?", whole - 1, places);
    s->number_once = pattern_of(s, &once);
    s->number_short = pattern_of(s, &any);
}

static bool spelled_once(Schema *s, const JsonNode *schema);

static bool look_how_spelled(Schema *s, const JsonNode *schema)
{
    const JsonNode *type = keyword(schema, "type"), *any = keyword(schema, "anyOf"),
                   *some = any ? any : keyword(schema, "oneOf"),
                   *target = keyword(schema, "$ref") ? schema_target(s, schema) : NULL;
    bool once = target && spelled_once(s, target), integer = type != NULL, all = some != NULL;
    if (keyword(schema, "$ref") && ref_alone(s))
        return once;
    EACH_OR_ONE (i, type)
        integer &= !node_is(i, "number");
    JSON_NODES (i, keyword(schema, "allOf"))
        once |= spelled_once(s, i);
    JSON_NODES (i, some)
        all = all && spelled_once(s, i);
    return once || integer || all || keyword(schema, "enum") || keyword(schema, "const");
}

/* Is every number of this schema listed, or an integer? False may also mean that it does not
 * show: the schema contains itself, or is nested deeply. */
static bool spelled_once(Schema *s, const JsonNode *schema)
{
    NodeFacts *f = &s->fact[node_index(s, schema)];
    if (schema->kind != NODE_OBJECT)
        return schema->kind == NODE_FALSE;
    if (f->spelled == NOT_LOOKED && schema_enter(s, schema)) {
        f->spelled = IN_WAYS; /* if it is asked on the way */
        f->spelled = look_how_spelled(s, schema) ? ONCE : IN_WAYS;
        schema_leave(s);
    }
    return f->spelled == ONCE;
}

Expr number_spelled(Schema *s, SetId id, Expr e)
{
    Grammar        *g = s->g;
    const SetFacts *f = &s->set[id];
    bool            once = false;
    if (e == s->all[IS_NUMBER]) /* if any number is allowed, so are exponents */
        return expr_seq(g, s->number_short, expr_pattern(g, "(?:[eE][+-]?[0-9]{1,3})?"));
    for (uint32_t i = 0; e != EXPR_NOTHING && i < f->n && !once; i++)
        once = !(f->literal[i] & 1)
            && (f->literal[i] & 2 || spelled_once(s, literal_node(s, f->literal[i])));
    return e == EXPR_NOTHING ? e : expr_and(g, e, once ? s->number_once : s->number_short);
}
