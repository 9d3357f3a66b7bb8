/* chat/jinja_string.c: the methods of Python's str, over marked text: what is cut, joined, padded
 * or changed in case keeps the marks of its source bytes. */
#include "chat/jinja_parts.h"

#include "tokenizer/unicode.h"

bool is_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

static String *empty(JinjaRun *r) { return string_new(r, "", NULL, 0); }

/* ---- Case ------------------------------------------------------------------------------------ */

static bool cased(uint32_t c)
{
    Category g = category_of(c);
    return g == LU || g == LL || g == LT || c == 0xAA || c == 0xBA || (c >= 0x2160 && c <= 0x217F)
        || (c >= 0x24B6 && c <= 0x24E9);
}

#if defined(__GNUC__)
__attribute__((noreturn))
#endif
static void no_case(JinjaRun *r, uint32_t c)
{
    jinja_fail(r, "changing the case of U+%04X is not supported", (unsigned)c);
}

/* The character whose lower case is c: the inverse of our one table. Characters are rejected if
 * their upper case is several characters, or is not the inverse. */
static uint32_t upper_char(JinjaRun *r, uint32_t c)
{
    if (c < 0x80)
        return c >= 'a' && c <= 'z' ? c - 32 : c;
    if (c == 0xDF || c == 0x345 || (c >= 0x1F80 && c < 0x2000 && cased(c)))
        no_case(r, c);
    jinja_work(r, LOWER_RUNS_N / 16);
    for (size_t i = 0; i < LOWER_RUNS_N; i++) {
        const CaseRun *run = &LOWER_RUNS[i];
        uint32_t from = (uint32_t)((int64_t)c - run->add), at = from - run->first;
        if (from >= run->first && at % run->step == 0 && at / run->step < run->n)
            return from;
    }
    if (category_of(c) == LL || category_of(c) == LT)
        no_case(r, c);
    return c;
}

static uint32_t title_char(JinjaRun *r, uint32_t c)
{
    bool digraph = (c >= 0x1C4 && c <= 0x1CC) || (c >= 0x1F1 && c <= 0x1F3);
    if (digraph || (c >= 0x10D0 && c <= 0x10FF))
        no_case(r, c);
    return upper_char(r, c);
}

/* Final sigma depends on the letters around it; unless these are plain, it is rejected. */
static uint32_t lower_at(JinjaRun *r, const String *s, size_t at, size_t n, uint32_t c)
{
    uint32_t before = ' ', after = ' ';
    if (c == 0x130)
        no_case(r, c);
    if (c != 0x3A3)
        return to_lower(c);
    character_before(s->s, at, &before);
    character_at(s->s + at + n, s->n - at - n, &after);
    if (is_space(before) || (cased(before) && cased(after)))
        return 0x3C3;
    if (!cased(before) || !is_space(after))
        no_case(r, c);
    return 0x3C2;
}

String *change_case(JinjaRun *r, String *s, CaseChange how)
{
    StringBuffer *b = buffer_new(r);
    bool          within = false; /* after a cased character */
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0, y;
        n = character_at(s->s + i, s->n - i, &c);
        jinja_work(r, 1);
        bool up = how == CASE_UPPER || (how == CASE_SWAP && category_of(c) != LU);
        bool first = how == CASE_TITLE ? !within : how == CASE_CAPITAL && i == 0;
        if (c == 0xDF && (first || up)) { /* sharp s: of several characters, the only common one */
            buffer_char(r, b, 'S', s->mark && s->mark[i]);
            c = first && how != CASE_SWAP ? 's' : 'S';
            buffer_char(r, b, c, s->mark && s->mark[i]);
            within = true;
            continue;
        }
        y = first ? title_char(r, c) : up ? upper_char(r, c) : lower_at(r, s, i, n, c);
        within = cased(c);
        buffer_char(r, b, y, s->mark && s->mark[i]);
    }
    return buffer_take(r, b);
}

/* ---- Cutting --------------------------------------------------------------------------------- */

static bool among(const String *chars, const char *c, size_t n)
{
    return memmem(chars->s, chars->n, c, n) != NULL;
}

String *strip(JinjaRun *r, String *s, Value chars, bool left, bool right)
{
    size_t        from = 0, to = s->n, n;
    uint32_t      c = 0;
    const String *set = chars.kind == V_NONE ? NULL : need_string(r, "strip", chars);
    while (left && from < to) {
        n = character_at(s->s + from, to - from, &c);
        if (!(set ? among(set, s->s + from, n) : is_space(c)))
            break;
        from += n;
    }
    while (right && from < to) {
        n = character_before(s->s + from, to - from, &c);
        if (!(set ? among(set, s->s + to - n, n) : is_space(c)))
            break;
        to -= n;
    }
    jinja_work(r, (s->n - (to - from)) * (set ? set->n / 16 + 1 : 1));
    return string_part(r, s, from, to);
}

/* Splits at white space, from the left, at most `most` times. */
static List *split_space(JinjaRun *r, String *s, int64_t most)
{
    List    *l = list_new(r, 0);
    size_t   i = 0, n, begin;
    uint32_t c = 0;
    for (;;) {
        for (; i < s->n && (n = character_at(s->s + i, s->n - i, &c)) > 0 && is_space(c); i += n)
            ;
        if (i >= s->n)
            return l;
        begin = i;
        if (most >= 0 && (int64_t)l->n >= most) {
            list_add(r, l, v_string(string_part(r, s, begin, s->n)));
            return l;
        }
        for (; i < s->n && (n = character_at(s->s + i, s->n - i, &c)) > 0 && !is_space(c); i += n)
            ;
        jinja_work(r, i - begin);
        list_add(r, l, v_string(string_part(r, s, begin, i)));
    }
}

static void reverse_list(List *l)
{
    for (size_t i = 0; i < l->n / 2; i++) {
        Value v = l->item[i];
        l->item[i] = l->item[l->n - 1 - i];
        l->item[l->n - 1 - i] = v;
    }
}

static List *rsplit_space(JinjaRun *r, String *s, int64_t most)
{
    List    *l = list_new(r, 0);
    size_t   end = s->n, n, at;
    uint32_t c = 0;
    for (;;) {
        for (; end > 0 && (n = character_before(s->s, end, &c)) > 0 && is_space(c); end -= n)
            ;
        if (end == 0)
            break;
        at = end;
        if (most >= 0 && (int64_t)l->n >= most) {
            list_add(r, l, v_string(string_part(r, s, 0, end)));
            break;
        }
        for (; at > 0 && (n = character_before(s->s, at, &c)) > 0 && !is_space(c); at -= n)
            ;
        jinja_work(r, end - at);
        list_add(r, l, v_string(string_part(r, s, at, end)));
        end = at;
    }
    reverse_list(l);
    return l;
}

/* The index of the last `part` in s[0 .. end), or SIZE_MAX. */
static size_t find_last(JinjaRun *r, const String *s, const String *part, size_t end)
{
    for (size_t at = end >= part->n ? end - part->n + 1 : 0; at-- > 0;) {
        jinja_work(r, 1 + part->n / 64);
        if (memcmp(s->s + at, part->s, part->n) == 0)
            return at;
    }
    return SIZE_MAX;
}

static List *split(JinjaRun *r, String *s, Value by, int64_t most, bool right)
{
    if (by.kind == V_NONE)
        return right ? rsplit_space(r, s, most) : split_space(r, s, most);
    const String *sep = need_string(r, "split", by);
    List         *l = list_new(r, 0);
    size_t        from = 0, end = s->n, at;
    if (!sep->n)
        jinja_fail(r, "split: empty separator");
    while (most < 0 || (int64_t)l->n < most) {
        at = right ? find_last(r, s, sep, end) : string_find(r, s, sep, from);
        if (at == SIZE_MAX)
            break;
        list_add(r, l, v_string(right ? string_part(r, s, at + sep->n, end)
                                      : string_part(r, s, from, at)));
        if (right)
            end = at;
        else
            from = at + sep->n;
    }
    list_add(r, l, v_string(string_part(r, s, from, end)));
    if (right)
        reverse_list(l);
    return l;
}

List *split_lines(JinjaRun *r, String *s, bool keep)
{
    List  *l = list_new(r, 0);
    size_t begin = 0;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        n = character_at(s->s + i, s->n - i, &c);
        jinja_work(r, 1);
        if (!((c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028
              || c == 0x2029))
            continue;
        n += c == '\r' && i + 1 < s->n && s->s[i + 1] == '\n';
        list_add(r, l, v_string(string_part(r, s, begin, keep ? i + n : i)));
        begin = i + n;
    }
    if (begin < s->n)
        list_add(r, l, v_string(string_part(r, s, begin, s->n)));
    return l;
}

static Value partition(JinjaRun *r, String *s, Value by, bool right)
{
    const String *sep = need_string(r, "partition", by);
    List         *l = list_new(r, 3);
    if (!sep->n)
        jinja_fail(r, "partition: empty separator");
    size_t at = right ? find_last(r, s, sep, s->n) : string_find(r, s, sep, 0);
    bool   found = at != SIZE_MAX;
    l->item[0] = v_string(found ? string_part(r, s, 0, at) : right ? empty(r) : s);
    l->item[1] = v_string(found ? by.s : empty(r));
    l->item[2] = v_string(found ? string_part(r, s, at + sep->n, s->n) : right ? s : empty(r));
    return v_tuple(l);
}

/* ---- Making ---------------------------------------------------------------------------------- */

String *pad(JinjaRun *r, String *s, size_t width, String *fill, char how)
{
    size_t n = string_chars(r, s), more = width > n ? width - n : 0;
    /* If the padding is uneven, Python puts the extra character left if the width is odd. */
    size_t left = how == '<' ? 0 : how == '>' ? more : more / 2 + (more & width & 1);
    if (!more)
        return s;
    StringBuffer *b = buffer_new(r);
    buffer_fill(r, b, fill, left);
    buffer_string(r, b, s);
    buffer_fill(r, b, fill, more - left);
    return buffer_take(r, b);
}

String *replace(JinjaRun *r, String *s, const String *old, const String *with, int64_t count)
{
    StringBuffer *b = buffer_new(r);
    size_t        from = 0;
    for (int64_t done = 0; count < 0 || done < count; done++) {
        size_t at = string_find(r, s, old, old->n ? from : from + (done > 0));
        if (!old->n && done > 0) { /* before each character, and at the end */
            uint32_t c = 0;
            size_t   n = character_at(s->s + from, s->n - from, &c);
            at = n ? from + n : SIZE_MAX;
        }
        if (at == SIZE_MAX)
            break;
        jinja_work(r, 1);
        buffer_add(r, b, s->s + from, s->mark ? s->mark + from : NULL, at - from);
        buffer_string(r, b, with);
        from = at + old->n;
    }
    buffer_add(r, b, s->s + from, s->mark ? s->mark + from : NULL, s->n - from);
    return buffer_take(r, b);
}

String *join(JinjaRun *r, const String *separator, const List *l)
{
    StringBuffer *b = buffer_new(r);
    for (size_t i = 0; i < l->n; i++) {
        jinja_work(r, 1);
        if (i)
            buffer_string(r, b, separator);
        buffer_string(r, b, to_string(r, l->item[i]));
    }
    return buffer_take(r, b);
}

static Value join_method(JinjaRun *r, String *self, Value items)
{
    List *l = to_list(r, items);
    for (size_t i = 0; i < l->n; i++)
        need_string(r, "join", l->item[i]);
    return v_string(join(r, self, l));
}

static String *expand_tabs(JinjaRun *r, String *s, int64_t size)
{
    StringBuffer *b = buffer_new(r);
    int64_t       column = 0;
    for (size_t i = 0; i < s->n; i++) {
        int64_t n = size > 0 ? size - column % size : 0;
        if (s->s[i] == '\t') {
            buffer_fill(r, b, string_new(r, " ", NULL, 1), (size_t)n);
            column += n;
        } else {
            buffer_add(r, b, s->s + i, s->mark ? s->mark + i : NULL, 1);
            column += ((unsigned char)s->s[i] & 0xC0) != 0x80;
            column = s->s[i] == '\n' || s->s[i] == '\r' ? 0 : column;
        }
        jinja_work(r, 1);
    }
    return buffer_take(r, b);
}

static String *zero_fill(JinjaRun *r, String *s, size_t width)
{
    bool    sign = s->n && (s->s[0] == '-' || s->s[0] == '+');
    String *digits = string_part(r, s, sign, s->n);
    digits = pad(r, digits, width > sign ? width - sign : 0, string_new(r, "0", NULL, 1), '>');
    return sign ? string_join2(r, string_part(r, s, 0, 1), digits) : digits;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static bool char_is(JinjaRun *r, const char *name, uint32_t c)
{
    Category g = category_of(c);
    bool     letter = g >= LU && g <= LO;
    if (strcmp(name, "isspace") == 0)
        return is_space(c);
    if (strcmp(name, "isalpha") == 0)
        return letter;
    if (strcmp(name, "isdecimal") == 0)
        return g == ND;
    if (strcmp(name, "isalnum") == 0)
        return letter || g == ND || g == NL || g == NO_;
    if (strcmp(name, "isprintable") == 0)
        return c == ' ' || !(g == CC || g == CF || g == CS || g == CO || g == CN || g == ZL
                             || g == ZP || g == ZS);
    bool digits = strcmp(name, "isdigit") == 0;
    if ((digits && g == NO_ && c != 0xB2 && c != 0xB3 && c != 0xB9) || (!digits && g == LO))
        jinja_fail(r, "%s of U+%04X is not supported", name, (unsigned)c);
    return g == ND || g == NO_ || (!digits && g == NL);
}

/* islower, isupper, istitle: all cased characters are of that case, and there is one. */
static bool case_is(String *s, const char *name)
{
    bool any = false, within = false;
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        n = character_at(s->s + i, s->n - i, &c);
        bool lower = cased(c) && category_of(c) != LT && to_lower(c) == c;
        if (cased(c)) {
            bool good = name[2] == 'l'   ? lower
                        : name[2] == 'u' ? !lower && category_of(c) != LT
                                         : lower == within;
            if (!good)
                return false;
            any = true;
        }
        within = cased(c);
    }
    return any;
}

bool text_test(JinjaRun *r, String *s, const char *name)
{
    jinja_work(r, s->n);
    if (strcmp(name, "isascii") == 0)
        return ascii_prefix(s->s, s->n) == s->n;
    if (strcmp(name, "islower") == 0 || strcmp(name, "isupper") == 0
        || strcmp(name, "istitle") == 0)
        return case_is(s, name);
    for (size_t i = 0, n; i < s->n; i += n) {
        uint32_t c = 0;
        n = character_at(s->s + i, s->n - i, &c);
        if (!char_is(r, name, c))
            return false;
    }
    return s->n > 0 || strcmp(name, "isprintable") == 0;
}

/* The part of s between two indices of characters, as in a search; false: it is empty, and not even
 * an empty string is found in it. */
static bool window(JinjaRun *r, String *s, const Value v[2], size_t *from, size_t *to)
{
    int64_t n = (int64_t)string_chars(r, s), i[2] = { 0, n };
    for (int k = 0; k < 2; k++) {
        if (v[k].kind == V_NONE)
            continue;
        i[k] = need_int(r, "an index", v[k]);
        i[k] = i[k] < 0 ? (i[k] + n < 0 ? 0 : i[k] + n) : k && i[k] > n ? n : i[k];
    }
    if (i[0] > i[1])
        return false;
    *from = string_byte(r, s, (size_t)i[0]);
    *to = string_byte(r, s, (size_t)i[1]);
    return true;
}

static Value find(JinjaRun *r, String *s, const char *name, const Args *args)
{
    Value  v[3] = { { 0 }, v_none(), v_none() };
    size_t from = 0, to = 0, at = SIZE_MAX;
    take_args(r, name, args, "sub start end", v);
    const String *part = need_string(r, name, v[0]);
    bool          last = name[0] == 'r', may_fail = strchr(name, 'f') != NULL;
    if (window(r, s, v + 1, &from, &to)) {
        String *w = string_part(r, s, 0, to);
        at = last ? find_last(r, w, part, to) : string_find(r, w, part, from);
        at = at != SIZE_MAX && at < from ? SIZE_MAX : at;
    }
    if (at == SIZE_MAX && !may_fail)
        jinja_fail(r, "%s: substring not found", name);
    return v_int(at == SIZE_MAX ? -1 : (int64_t)string_chars(r, string_part(r, s, 0, at)));
}

static Value count(JinjaRun *r, String *s, const Args *args)
{
    Value   v[3] = { { 0 }, v_none(), v_none() };
    size_t  from = 0, to = 0;
    int64_t n = 0;
    take_args(r, "count", args, "sub start end", v);
    const String *part = need_string(r, "count", v[0]);
    if (!window(r, s, v + 1, &from, &to))
        return v_int(0);
    String *w = string_part(r, s, 0, to);
    if (!part->n)
        return v_int((int64_t)string_chars(r, string_part(r, s, from, to)) + 1);
    for (size_t at = from; (at = string_find(r, w, part, at)) != SIZE_MAX; at += part->n)
        n++;
    return v_int(n);
}

static Value begins_or_ends(JinjaRun *r, String *s, const char *name, const Args *args)
{
    Value  v[3] = { { 0 }, v_none(), v_none() };
    size_t from = 0, to = 0;
    take_args(r, name, args, "prefix start end", v);
    List *l = list_new(r, 1);
    l->item[0] = v[0];
    if (v[0].kind == V_TUPLE)
        l = v[0].list;
    bool inside = window(r, s, v + 1, &from, &to), found = false;
    for (size_t i = 0; i < l->n; i++) {
        const String *p = need_string(r, name, l->item[i]);
        if (inside && p->n <= to - from)
            found |= memcmp(s->s + (name[0] == 's' ? from : to - p->n), p->s, p->n) == 0;
    }
    return v_bool(found);
}

/* ---- All of them ----------------------------------------------------------------------------- */

static Value padded(JinjaRun *r, String *s, const char *name, const Args *args)
{
    Value v[2] = { { 0 }, v_text(r, " ") };
    take_args(r, name, args, "width fillchar", v);
    int64_t width = need_int(r, name, v[0]);
    String *fill = need_string(r, name, v[1]);
    if (string_chars(r, fill) != 1)
        jinja_fail(r, "%s: the fill must be one character", name);
    return v_string(pad(r, s, width > 0 ? (size_t)width : 0, fill,
                        name[0] == 'l'   ? '<'
                        : name[0] == 'r' ? '>'
                                         : '^'));
}

static Value split_method(JinjaRun *r, String *s, const char *name, const Args *args)
{
    Value v[2] = { v_none(), v_int(-1) };
    if (strcmp(name, "splitlines") == 0) {
        v[0] = v_bool(false);
        take_args(r, name, args, "keepends", v);
        return v_list(split_lines(r, s, truth(r, v[0])));
    }
    take_args(r, name, args, "sep maxsplit", v);
    return v_list(split(r, s, v[0], need_int(r, name, v[1]), name[0] == 'r'));
}

static Value one_argument(JinjaRun *r, String *s, const char *name, const Args *args)
{
    Value v[1] = { strstr(name, "strip") ? v_none() : (Value){ 0 } };
    if (strcmp(name, "expandtabs") == 0)
        v[0] = v_int(8);
    take_args(r, name, args, "argument", v);
    if (strstr(name, "strip"))
        return v_string(strip(r, s, v[0], name[0] != 'r', name[0] != 'l'));
    if (strcmp(name, "join") == 0)
        return join_method(r, s, v[0]);
    if (strcmp(name, "expandtabs") == 0)
        return v_string(expand_tabs(r, s, need_int(r, name, v[0])));
    if (strcmp(name, "zfill") == 0) {
        int64_t width = need_int(r, name, v[0]);
        return v_string(zero_fill(r, s, width > 0 ? (size_t)width : 0));
    }
    if (strstr(name, "partition"))
        return partition(r, s, v[0], name[0] == 'r');
    const String *part = need_string(r, name, v[0]);
    bool          prefix = strcmp(name, "removeprefix") == 0;
    bool          has = part->n <= s->n
            && memcmp(s->s + (prefix ? 0 : s->n - part->n), part->s, part->n) == 0;
    if (!has)
        return v_string(s);
    return v_string(string_part(r, s, prefix ? part->n : 0, prefix ? s->n : s->n - part->n));
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

Value string_method(JinjaRun *r, String *s, const char *name, const Args *args)
{
    static const char *const changes[] = { "lower", "upper", "title", "capitalize", "swapcase" };
    static const char *const refused[] = { "casefold", "encode", "isidentifier", "maketrans",
                                           "translate", NULL };
    static const char *const pads[] = { "ljust", "rjust", "center", NULL };
    static const char *const finds[] = { "find", "rfind", "index", "rindex", NULL };
    Value v[3] = { { 0 }, { 0 }, v_int(-1) };
    for (int i = 0; i < 5; i++)
        if (strcmp(name, changes[i]) == 0) {
            take_args(r, name, args, "", v);
            return v_string(change_case(r, s, (CaseChange)i));
        }
    if (is_one_of(name, refused))
        jinja_fail(r, "the method %s of a str is not supported", name);
    if (is_one_of(name, pads))
        return padded(r, s, name, args);
    if (is_one_of(name, finds))
        return find(r, s, name, args);
    if (strcmp(name, "count") == 0)
        return count(r, s, args);
    if (strcmp(name, "startswith") == 0 || strcmp(name, "endswith") == 0)
        return begins_or_ends(r, s, name, args);
    if (strstr(name, "split"))
        return split_method(r, s, name, args);
    if (strcmp(name, "format") == 0)
        return format_braces(r, s, args);
    if (strcmp(name, "format_map") == 0) {
        take_args(r, name, args, "mapping", v);
        if (v[0].kind != V_DICT)
            jinja_fail(r, "format_map: expected a dict, found %s", type_name(v[0]));
        return format_braces(r, s, &(Args){ .named = v[0].dict });
    }
    if (strcmp(name, "replace") == 0) {
        take_args(r, name, args, "old new count", v);
        return v_string(replace(r, s, need_string(r, name, v[0]), need_string(r, name, v[1]),
                                need_int(r, name, v[2])));
    }
    if (strncmp(name, "is", 2) == 0) {
        take_args(r, name, args, "", v);
        return v_bool(text_test(r, s, name));
    }
    return one_argument(r, s, name, args);
}
