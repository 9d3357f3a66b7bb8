/* The formats of JSON Schema as regular languages, each from its RFC. */
#include "constrain/schema_parts.h"

/* RFC 3339, section 5.6 and 5.7: the days of each month */
#define LEAP_YEAR                                                                                  \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                                 \
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR_MINUTE "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
#define TIME HOUR_MINUTE ":[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-]" HOUR_MINUTE ")"

/* RFC 3339, appendix A */
#define DURATION_TIME                                                                              \
    "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE                                                                              \
    "(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"

/* RFC 3986, section 3.2.2 and appendix A */
#define OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(?:\\." OCTET "){3}"
#define H16 "[0-9A-Fa-f]{1,4}"
#define LS32 "(?:" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "(?:(?:" H16 ":){6}" LS32 "|::(?:" H16 ":){5}" LS32 "|(?:" H16 ")?::(?:" H16 ":){4}" LS32      \
    "|(?:(?:" H16 ":){0,1}" H16 ")?::(?:" H16 ":){3}" LS32                                         \
    "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LS32                                         \
    "|(?:(?:" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|(?:(?:" H16 ":){0,4}" H16 ")?::" LS32        \
    "|(?:(?:" H16 ":){0,5}" H16 ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"
#define URI_CHAR "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
#define PATH_CHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY                                                                                  \
    "(?:(?:" URI_CHAR "|:)*@)?(?:\\[(?:" IPV6 "|[vV][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)"  \
    "\\]|" URI_CHAR "*)(?::[0-9]*)?"
#define PATH_AFTER "(?:/" PATH_CHAR "*)*"
#define QUERY "(?:\\?(?:" PATH_CHAR "|[/?])*)?(?:#(?:" PATH_CHAR "|[/?])*)?"
#define FROM_ROOT "//" AUTHORITY PATH_AFTER "|/(?:" PATH_CHAR "+" PATH_AFTER ")?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]*:(?:" FROM_ROOT "|" PATH_CHAR "+" PATH_AFTER "|)" QUERY
#define URI_RELATIVE                                                                               \
    "(?:" FROM_ROOT "|(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+" PATH_AFTER "|)" QUERY

/* RFC 1123, section 2.1: letters, digits and hyphens, at most 63 in a label. RFC 5890, section
 * 2.3.1, reserves "--" at positions 3 and 4, for xn--, and no regular expression can tell whether
 * such a label is valid. */
#define ALNUM "[A-Za-z0-9]"
#define LDH "[A-Za-z0-9-]"
#define LABEL                                                                                      \
    ALNUM "(?:" ALNUM "|" LDH ALNUM "(?:" LDH "{0,59}" ALNUM ")?|" LDH "-" ALNUM "(?:" LDH         \
          "{0,58}" ALNUM ")?)?"
/* RFC 5321, section 4.1.2 */
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define SUB_DOMAIN "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"

/* limit: a pattern that the text must match too; next: the format of the rest, by name. An address
 * has two parts, so that their lengths need not be counted together. */
typedef struct StringFormat { const char *name, *pattern, *limit, *next; } StringFormat;

static const StringFormat formats[FORMATS] = {
    { "date", DATE, NULL, NULL },
    { "time", TIME, NULL, NULL },
    { "date-time", TIME, NULL, NULL },
    { "duration", "P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|[0-9]+W)", NULL,
      NULL },
    { "uuid", "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", NULL, NULL },
    { "ipv4", IPV4, NULL, NULL },
    { "ipv6", IPV6, NULL, NULL },
    { "hostname", LABEL "(?:\\." LABEL ")*", "[ -~]{1,253}", NULL },
    { "uri", URI, NULL, NULL },
    { "uri-reference", "(?:" URI "|" URI_RELATIVE ")", NULL, NULL },
    { "email", "(?:" ATOM "(?:\\." ATOM ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")", "[ -~]{1,64}",
      "@" },
    { "@", "@(?:" SUB_DOMAIN "(?:\\." SUB_DOMAIN ")*|\\[(?:" IPV4 "|IPv6:" IPV6 ")\\])",
      "[ -~]{2,256}", NULL },
};

static Expr regex(Schema *s, const char *pattern)
{
    return expr_regex(s->g, pattern, strlen(pattern), false, CHARS_JSON, "format");
}

/* Leap seconds come at 23:59:60 UTC. Written with an offset, that is another hour and minute:
 * with +00:MM the minute MM - 1 of hour 0, and so on. */
static Expr leap_second(Schema *s)
{
    Grammar *g = s->g;
    Expr     second = regex(s, ":60(?:\\.[0-9]+)?"), hours[24], minutes[60], colon_minute[60];
    Expr     two[60], east = expr_text(g, "+", 1), west = expr_text(g, "-", 1);
    for (int i = 0; i < 60; i++) {
        const char text[] = { ':', (char)('0' + i / 10), (char)('0' + i % 10) };
        two[i] = expr_text(g, text + 1, 2);
        colon_minute[i] = expr_text(g, text, 3);
    }
    for (int hour = 0; hour < 24; hour++) {
        for (int minute = 0; minute < 60; minute++) {
            int  ahead = (hour * 60 + minute + 1) % 1440, behind = 1439 - hour * 60 - minute;
            Expr zone[] = {
                expr_seq(g, east, expr_seq(g, two[ahead / 60], colon_minute[ahead % 60])),
                expr_seq(g, west, expr_seq(g, two[behind / 60], colon_minute[behind % 60])),
                ahead ? EXPR_NOTHING : regex(s, "[Zz]"),
            };
            minutes[minute] = expr_seq(g, colon_minute[minute],
                                       expr_seq(g, second, expr_alt_list(g, zone, 3)));
        }
        hours[hour] = expr_seq(g, two[hour], expr_alt_list(g, minutes, 60));
    }
    return expr_alt_list(g, hours, 24);
}

static Expr make_format(Schema *s, const StringFormat *f)
{
    Grammar *g = s->g;
    Expr     e = regex(s, f->pattern);
    if (f->limit)
        e = expr_and(g, e, regex(s, f->limit));
    if (strstr(f->name, "time"))
        e = expr_alt(g, e, leap_second(s));
    for (size_t i = 0; f->next && i < FORMATS; i++)
        if (strcmp(formats[i].name, f->next) == 0)
            e = expr_seq(g, e, make_format(s, &formats[i]));
    return strcmp(f->name, "date-time") == 0 ? expr_seq(g, regex(s, DATE "[Tt]"), e) : e;
}

bool is_format(const Schema *s, Expr e)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (e == s->format[i] && e != EXPR_NOTHING)
            return true;
    return false;
}

Expr format_strings(Schema *s, const JsonNode *j)
{
    for (size_t i = 0; i < FORMATS; i++)
        if (j->text[0] != '@' && node_is(j, formats[i].name)) {
            if (s->format[i] == EXPR_NOTHING)
                s->format[i] = make_format(s, &formats[i]);
            return s->format[i];
        }
    size_t n = j->n < 60 ? j->n : 60;
    bool   listed = false;
    for (size_t i = 0; s->unknown && i + n <= s->unknown->n; i++)
        listed |= memcmp(s->unknown->text + i, j->text, n) == 0;
    if (s->unknown && !listed)
        text_out(s->unknown, "%s%.*s", s->unknown->n ? ", " : "", (int)n, j->text);
    return s->all[IS_STRING];
}
