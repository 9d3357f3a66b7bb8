/* $ref, inside one document: JSON pointers, $anchor, $id. */
#include <stdio.h>
#include "constrain/schema_parts.h"

typedef struct UriPart { const char *p; size_t n; } UriPart;

static bool same(UriPart a, UriPart b)
{
    return a.n == b.n && (!a.n || memcmp(a.p, b.p, a.n) == 0);
}

static UriPart before(UriPart t, char c)
{
    const char *hit = t.n ? memchr(t.p, c, t.n) : NULL;
    return (UriPart){ t.p, hit ? (size_t)(hit - t.p) : t.n };
}

/* The $id of a schema, without the fragment. */
static UriPart id_of(const Schema *s, const JsonNode *schema)
{
    const JsonNode *id = node_get(schema, s->draft == DRAFT_4 ? "id" : "$id");
    return id && id->kind == NODE_STRING ? before((UriPart){ id->text, id->n }, '#')
                                         : (UriPart){ NULL, 0 };
}

/* Removes "." and ".." from a path, which begins at byte `from` (RFC 3986, section 5.2.4). */
static void remove_dots(TextOut *out, size_t from)
{
    size_t n = from;
    for (size_t i = from; i < out->n;) {
        size_t end = i + before((UriPart){ out->text + i, out->n - i }, '/').n;
        size_t next = end + (end < out->n);
        if (end - i == 2 && memcmp(out->text + i, "..", 2) == 0)
            for (n -= n > from; n > from && out->text[n - 1] != '/';)
                n--;
        else if (end - i != 1 || out->text[i] != '.')
            memmove(out->text + n, out->text + i, next - i), n += next - i;
        i = next;
    }
    out->n = n;
}

/* Appends to out a reference, resolved against a base (RFC 3986, section 5.2). */
static void resolve(TextOut *out, UriPart base, UriPart ref)
{
    UriPart scheme = before(ref, ':');
    size_t  keep = 0, authority = 0;
    if (scheme.n < ref.n && !memchr(ref.p, '/', scheme.n)) { /* it has its own scheme */
        text_out_bytes(out, ref.p, ref.n);
        return;
    }
    scheme = before(base, ':');
    if (scheme.n + 2 < base.n && memcmp(base.p + scheme.n, "://", 3) == 0)
        authority = scheme.n + 3 + before((UriPart){ base.p + scheme.n + 3, base.n - scheme.n - 3 },
                                          '/').n;
    if (!ref.n)
        keep = base.n;
    else if (ref.p[0] == '/')
        keep = authority;
    else
        for (keep = base.n; keep > authority && base.p[keep - 1] != '/';)
            keep--;
    text_out_bytes(out, base.p, keep);
    text_out_bytes(out, ref.p, ref.n);
    if (!out->failed && out->text)
        remove_dots(out, authority);
}

/* The base of a node: the $id of all that contains it, each resolved against the one around it.
 * own: its own $id counts too. *root: the innermost of them. */
static void base_of(const Schema *s, const JsonNode *at, bool own, TextOut *base,
                    const JsonNode **root)
{
    if (at == s->doc.node)
        *root = at;
    else
        base_of(s, s->doc.node + s->fact[node_index(s, at)].parent, true, base, root);
    if (own && s->fact[node_index(s, at)].has_id && id_of(s, at).n) {
        TextOut next = { 0 };
        resolve(&next, (UriPart){ base->text, base->n }, id_of(s, at));
        base->failed |= next.failed;
        text_out_free(base);
        *base = next;
        *root = at;
    }
}

/* One part of a pointer: %XX first, then ~1 and ~0. Returns its bytes in out. */
static size_t pointer_part(UriPart part, char *out)
{
    size_t n = 0, m = 0;
    for (size_t i = 0; i < part.n; i++) {
        int high = i + 2 < part.n ? hex_digit(part.p[i + 1]) : -1;
        int low = i + 2 < part.n ? hex_digit(part.p[i + 2]) : -1;
        out[n++] = part.p[i];
        if (part.p[i] == '%' && high >= 0 && low >= 0) {
            out[n - 1] = (char)(16 * high + low);
            i += 2;
        }
    }
    for (size_t i = 0; i < n; i++) {
        bool tilde = out[i] == '~' && i + 1 < n && (out[i + 1] == '0' || out[i + 1] == '1');
        out[m++] = tilde ? (out[i + 1] == '0' ? '~' : '/') : out[i];
        i += tilde;
    }
    return m;
}

/* ---- Indexes of the document, built once ----------------------------------------------------- */

static void no_index(Schema *s)
{
    Error e;
    no_memory(s->what, &e);
    grammar_fail(s->g, &e);
}

/* Indexes the members of all objects by the number of the object, then the key. */
static bool index_members(Schema *s)
{
    size_t n_bytes = 1;
    Error  e;
    if (s->members.slot)
        return true;
    for (size_t i = 1; i < s->doc.n_nodes; i++)
        n_bytes += sizeof(uint32_t) + s->doc.node[i].key_n;
    char *names = schema_keep(s, n_bytes, 1);
    for (size_t i = 1; names && i < s->doc.n_nodes; i++) {
        const JsonNode *j = s->doc.node + i;
        bool            found;
        if (!j->key)
            continue;
        memcpy(names, &s->fact[i].parent, sizeof(uint32_t));
        memcpy(names + sizeof(uint32_t), j->key, j->key_n);
        if (!byte_map_put(&s->members, names, sizeof(uint32_t) + j->key_n, (int32_t)i, &found,
                          &e)) {
            no_index(s);
            break;
        }
        names += sizeof(uint32_t) + j->key_n;
    }
    return !schema_failed(s);
}

/* The member or item with this name, which follows the room for a number. */
static const JsonNode *child_named(Schema *s, const JsonNode *j, char *room, size_t n)
{
    uint32_t own = node_index(s, j), index = 0;
    memcpy(room, &own, sizeof own);
    if (j->kind == NODE_OBJECT) {
        int32_t at = byte_map_find(&s->members, room, n + sizeof own, 0);
        return at ? s->doc.node + at : NULL;
    }
    if (!grammar_work(s->g, j->n / 4))
        return NULL;
    JSON_NODES (i, j) {
        char digits[16];
        int  length = snprintf(digits, sizeof digits, "%u", index++);
        if ((size_t)length == n && memcmp(digits, room + sizeof own, n) == 0)
            return i;
    }
    return NULL;
}

static const JsonNode *follow(Schema *s, const JsonNode *j, UriPart pointer, char *room)
{
    if (!index_members(s))
        return NULL;
    while (j && pointer.n) {
        pointer.p++, pointer.n--; /* the slash */
        UriPart part = before(pointer, '/');
        size_t  n = pointer_part(part, room + sizeof(uint32_t));
        j = child_named(s, j, room, n);
        pointer.p += part.n, pointer.n -= part.n;
    }
    return j;
}

/* The node inside root's resource that has $anchor (or, before 2019, $id: "#name"). */
static const JsonNode *find_anchor(Schema *s, const JsonNode *root, UriPart name)
{
    if (!grammar_work(s->g, root->skip))
        return NULL;
    for (const JsonNode *j = root; j != node_end(root); j++) {
        while (j != root && j != node_end(root) && id_of(s, j).n) /* another resource */
            j = node_end(j);
        if (j == node_end(root))
            break;
        const JsonNode *a = node_get(j, "$anchor"), *id = node_get(j, "$id");
        id = id ? id : node_get(j, "id");
        if (!a)
            a = node_get(j, "$dynamicAnchor");
        if (a && a->kind == NODE_STRING && same((UriPart){ a->text, a->n }, name))
            return j;
        if (s->draft < DRAFT_2019 && id && id->kind == NODE_STRING && id->n > 1
            && id->text[0] == '#' && same((UriPart){ id->text + 1, id->n - 1 }, name))
            return j;
    }
    return NULL;
}

/* Indexes every $id, resolved, with the first schema that has it. */
static bool index_ids(Schema *s)
{
    if (s->ids.slot)
        return true;
    for (size_t i = 0; i < s->doc.n_nodes && !schema_failed(s); i++) {
        const JsonNode *j = s->doc.node + i, *root;
        Error           e;
        bool            found;
        if (i > 0 && (!s->fact[i].has_id || !id_of(s, j).n))
            continue;
        TextOut base = { 0 };
        base_of(s, j, true, &base, &root);
        char *copy = schema_keep(s, base.n + 1, 1);
        if (copy && base.n)
            memcpy(copy, base.text, base.n);
        if (base.failed || !copy
            || !byte_map_put(&s->ids, copy, base.n, (int32_t)i, &found, &e))
            no_index(s);
        text_out_free(&base);
    }
    return !schema_failed(s);
}

/* The schema with this resolved $id. */
static const JsonNode *find_id(Schema *s, UriPart wanted)
{
    int32_t at = index_ids(s) ? byte_map_find(&s->ids, wanted.p ? wanted.p : "", wanted.n, -1) : -1;
    return at >= 0 ? s->doc.node + at : NULL;
}

static const JsonNode *find_target(Schema *s, const JsonNode *schema, const JsonNode *ref)
{
    UriPart         text = { ref->text, ref->n }, address = before(text, '#'), fragment = { 0 };
    const JsonNode *root;
    TextOut         base = { 0 }, full = { 0 };
    char           *room = schema_keep(s, sizeof(uint32_t) + text.n + 1, 1);
    if (address.n < text.n)
        fragment = (UriPart){ text.p + address.n + 1, text.n - address.n - 1 };
    /* before 2019, $ref hides $id like any other keyword */
    base_of(s, schema, !ref_alone(s) || schema == s->doc.node, &base, &root);
    resolve(&full, (UriPart){ base.text, base.n }, address);
    if (address.n)
        root = find_id(s, (UriPart){ full.text, full.n });
    text_out_free(&base);
    text_out_free(&full);
    if (!room || !root || !fragment.n)
        return root;
    return fragment.p[0] == '/' ? follow(s, root, fragment, room) : find_anchor(s, root, fragment);
}

const JsonNode *schema_target(Schema *s, const JsonNode *schema)
{
    const JsonNode *ref = keyword(schema, "$ref"), *target;
    NodeFacts      *f = &s->fact[schema - s->doc.node];
    if (!f->resolved) {
        target = find_target(s, schema, ref);
        if (!target) { /* unless it has failed already */
            schema_refuse(s, ref, "$ref: '%.100s' is not in this document", ref->text);
            return NULL;
        }
        f->resolved = true;
        f->target = node_index(s, target);
    }
    return s->doc.node + f->target;
}
