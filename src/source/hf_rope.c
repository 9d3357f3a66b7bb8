/* source/hf_rope.c: reads the rotary embedding in both dialects. In transformers 5, rope_parameters
 * holds theta and scaling; in 4, rope_theta and rope_scaling are two keys. If a file has both, they
 * must agree, because the two versions would use different ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "source/hf.h"

static const char QUERY_SCALE[] = "llama_4_scaling_beta";
static const char ORIGINAL[]    = "original_max_position_embeddings";
/* The lists of longrope. */
static const char MROPE[] = "mrope", SECTION[] = "mrope_section";
static const char *const lists[] = { "short_factor", "long_factor" };
static const char FULL[] = "full_attention", SLIDING[] = "sliding_attention";

/* The object that holds the scaling, and its name for messages. */
typedef struct Scaling { const Json *object; char where[64]; } Scaling;

static bool object_or_null(HfReader *r, const char *key, const Json **out)
{
    *out = key_take(&r->keys, key);
    if (*out && json_is_null(*out))
        *out = NULL;
    return !*out || json_is_object(*out)
        || key_wrong(&r->keys, key, "expected an object or null, found %s", json_kind(*out));
}

/* "rope_scaling.factor" */
static const char *inside(const Scaling *s, const char *key, char buf[128])
{
    snprintf(buf, 128, "%s.%s", s->where, key);
    return buf;
}

/* A key that exists and is not null. */
static const Json *value(const Json *object, const char *key)
{
    const Json *j = json_get(object, key);
    return j && !json_is_null(j) ? j : NULL;
}

/* "type" is the older spelling of "rope_type". */
static bool type_word(HfReader *r, const Scaling *s, const char **word)
{
    char        a[80], b[80], name[128];
    const Json *old = value(s->object, "type"), *new = value(s->object, "rope_type"),
               *j = new ? new : old;
    if (old && new && !key_same(old, new))
        return key_wrong(&r->keys, "rope type", "expected %s, found %s (rope_type and type)",
                         key_found(new, a, sizeof a), key_found(old, b, sizeof b));
    *word = "default";
    return !j
        || json_read_string(j, key_what(&r->keys, inside(s, "rope_type", name)), word, r->keys.err);
}

/* ---- theta and the share of a head ----------------------------------------------------------- */

/* A number may be in two objects. Both may have it if they agree. */
static bool one_of(HfReader *r, const char *key, const Json *outside, const char *where,
                   const Json *inside, const Json **out)
{
    char a[80], b[80];
    if (outside && json_is_null(outside))
        outside = NULL;
    if (outside && inside && !key_same(outside, inside))
        return key_wrong(&r->keys, key, "expected what %s says, %s, found %s", where,
                         key_found(inside, a, sizeof a), key_found(outside, b, sizeof b));
    *out = outside ? outside : inside;
    return true;
}

static bool rotary(HfReader *r, const Json *share)
{
    const Family *f = r->family;
    double        part = f->rotary;
    char          a[80];
    Config       *c = r->c;
    const Json   *whole = f->rotary_dim_key ? key_take(&r->keys, f->rotary_dim_key) : NULL;
    int           dim;
    if (share && !key_number(&r->keys, "partial_rotary_factor", share, &part))
        return false;
    if (!share && whole && !json_is_null(whole)) {
        if (!key_size(&r->keys, f->rotary_dim_key, whole, &dim))
            return false;
        part = (double)dim / r->c->head_dim; /* and back, as transformers does */
    }
    if (f->rotary == 0)
        return !share || part == 1
            || key_wrong(&r->keys, "partial_rotary_factor", "expected 1, found %s",
                         key_found(share, a, sizeof a));
    c->rotary_dim = part > 0 && part <= 1 ? (int)((double)c->head_dim * part) : 0;
    return (c->rotary_dim >= 2 && c->rotary_dim % 2 == 0)
        || key_wrong(&r->keys, "partial_rotary_factor",
                     "expected an even number of dimensions of head_dim %d, found %.9g of them",
                     c->head_dim, part);
}

/* Do layers with a window rotate differently from the others? */
static bool by_layer(const Family *f) { return f->theta_window != 0 || f->window_unscaled; }

/* theta of the layers with a window, which is never scaled. nested: rope_parameters by kind of
 * layer, or NULL. */
static bool local_theta(HfReader *r, const Json *nested)
{
    Scaling s = { .object = value(nested, SLIDING), .where = "rope_parameters.sliding_attention" };
    const Json *theta, *outside = r->family->theta_window != 0
        ? key_take(&r->keys, "rope_local_base_freq") : NULL;
    const char *word;
    char        name[128];
    if (!one_of(r, "rope_local_base_freq", outside, s.where, value(s.object, "rope_theta"), &theta)
        || !type_word(r, &s, &word))
        return false;
    if (strcmp(word, "default") != 0)
        return key_wrong(&r->keys, inside(&s, "rope_type", name), "expected 'default', found '%s'",
                         word);
    if (!theta && r->family->theta_window == 0 && r->c->theta != r->family->theta)
        return key_wrong(&r->keys, "rope_theta", "expected %.9g, or rope_parameters with one for "
                         "layers with a window, as programs disagree on theirs, found %.9g",
                         r->family->theta, r->c->theta);
    r->c->theta_window = r->family->theta_window != 0 ? r->family->theta_window : r->c->theta;
    return !theta || key_number(&r->keys, "rope_local_base_freq", theta, &r->c->theta_window);
}

/* ---- Scaling --------------------------------------------------------------------------------- */

static bool read_type(HfReader *r, const Scaling *s, const char *word, RopeType *out)
{
    char   known[80] = "", name[128];
    size_t n = 0;
    for (int t = 0; rope_type_words[t]; t++) {
        if (!(r->family->rope_types >> t & 1))
            continue;
        if (strcmp(word, rope_type_words[t]) == 0) {
            *out = (RopeType)t;
            return true;
        }
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "",
                              rope_type_words[t]);
    }
    return key_wrong(&r->keys, inside(s, "rope_type", name), "expected one of %s, found '%s'",
                     known, word);
}

static bool read_keys(HfReader *r, const Scaling *s, Rope *rope)
{
    for (const ConfigKey *k = rope_keys; k->name; k++) {
        char        name[128];
        const Json *j  = value(s->object, k->hf);
        void       *to = (char *)rope + k->at;
        if (!(k->types >> rope->type & 1))
            continue;
        inside(s, k->hf, name);
        if (!j && k->hf_needed >> rope->type & 1)
            return key_wrong(&r->keys, name, "expected a number, found no such key");
        if (j
            && !(k->kind == KEY_BOOL ? key_bool(&r->keys, name, j, to)
                                     : key_number(&r->keys, name, j, to)))
            return false;
        /* below 0 would mean absent in our config */
        if (j && to == &rope->attention_factor && !(rope->attention_factor > 0))
            return key_wrong(&r->keys, name, "expected a number above 0, found %.9g",
                             rope->attention_factor);
    }
    return true;
}

/* Reject keys that the type of scaling does not have: they may change the result. */
static bool check_keys(HfReader *r, const Scaling *s, const Rope *rope)
{
    static const char *const always[] = { "type", "rope_type", "rope_theta",
                                          "partial_rotary_factor" };
    for (const Json *i = json_first(s->object); i; i = json_next(i)) {
        char name[128];
        bool known = json_is_null(i);
        for (size_t a = 0; a < sizeof always / sizeof always[0]; a++)
            known |= strcmp(json_key(i), always[a]) == 0;
        known |= r->family->has & QUERY_SCALED
            && (strcmp(json_key(i), QUERY_SCALE) == 0
                || strcmp(json_key(i), "max_position_embeddings") == 0);
        known |= r->family->has & TAKES_MROPE
            && (strcmp(json_key(i), SECTION) == 0
                || strcmp(json_key(i), "mrope_interleaved") == 0);
        for (int l = 0; l < 2 && rope->type == ROPE_LONGROPE; l++)
            known |= strcmp(json_key(i), lists[l]) == 0;
        for (const ConfigKey *k = rope_keys; k->name; k++)
            known |= (k->types >> rope->type & 1) && strcmp(k->hf, json_key(i)) == 0;
        /* The older rope_scaling has no kinds of layer: such keys were never read. */
        bool kind = strcmp(s->where, "rope_parameters") == 0
            && (strcmp(json_key(i), FULL) == 0 || strcmp(json_key(i), SLIDING) == 0);
        if (!known && (json_is_object(i) || kind))
            return key_wrong(&r->keys, s->where, "expected one set of values, found one for %s",
                             json_key(i));
        if (!known && rope->type != ROPE_DEFAULT)
            return key_wrong(&r->keys, inside(s, json_key(i), name), "unknown key for rope type %s",
                             rope_type_words[rope->type]);
    }
    return true;
}

/* The length before scaling, which llama3, yarn and longrope may also have beside their object;
 * that one counts in transformers. dynamic uses the context, whatever its object says. */
static bool original(HfReader *r, const Scaling *s, Rope *rope)
{
    const Json *in = value(s->object, ORIGINAL), *j = NULL;
    char        name[128];
    int         n = r->family->rope_original;
    if (rope->type == ROPE_DYNAMIC && rope->original_n_ctx != r->c->n_ctx)
        return key_wrong(&r->keys, inside(s, ORIGINAL, name),
                         "expected max_position_embeddings %d with rope type dynamic, found %.9g",
                         r->c->n_ctx, rope->original_n_ctx);
    if (rope->type != ROPE_LLAMA3 && rope->type != ROPE_YARN && rope->type != ROPE_LONGROPE)
        return true;
    const Json *beside = key_take(&r->keys, ORIGINAL);
    if (beside && json_is_null(beside))
        beside = NULL;
    if (!beside && in && n > 0 && rope->original_n_ctx != n)
        return key_wrong(&r->keys, inside(s, ORIGINAL, name),
                         "expected %d, which no such key beside %s means, found %.9g", n,
                         s->where, rope->original_n_ctx);
    if (!one_of(r, ORIGINAL, beside, s->where, in, &j)
        || (j != in && !key_size(&r->keys, ORIGINAL, j, &n)))
        return false;
    if (j != in || (!in && n > 0))
        rope->original_n_ctx = n;
    return true;
}

static bool read_list(HfReader *r, const Scaling *s, const char *key, float *out)
{
    const Json *list = value(s->object, key);
    int         n = r->c->rotary_dim / 2, at = 0;
    char        name[128];
    inside(s, key, name);
    if (!json_is_array(list) || json_count(list) != (size_t)n)
        return key_wrong(&r->keys, name, "expected %d numbers, found %zu", n, json_count(list));
    for (const Json *i = json_first(list); i; i = json_next(i), at++) {
        double x = 0;
        if (!key_number(&r->keys, name, i, &x))
            return false;
        if (!(x >= 1e-6 && x <= 1e6))
            return key_wrong(&r->keys, name, "expected numbers from 1e-6 to 1e6, found %.9g", x);
        out[at] = (float)x;
    }
    return true;
}

static bool longrope(HfReader *r, const Scaling *s)
{
    const int n    = r->c->rotary_dim / 2;
    Rope     *rope = &r->c->rope;
    float    *both = source_alloc(r->source, 2 * (size_t)n * sizeof *both, r->keys.err);
    r->source->rope_factors = both;
    if (!value(s->object, "factor"))
        rope->factor = fmax(1, r->c->n_ctx / fmax(1, rope->original_n_ctx));
    return both && read_list(r, s, lists[0], both) && read_list(r, s, lists[1], both + n);
}

/* Hunyuan: "dynamic" with alpha is a fixed theta, whatever the length. The other keys then mean
 * nothing. */
static bool fixed_alpha(HfReader *r, const Scaling *s, const char *word, bool *is)
{
    static const char *const idle[] = { "alpha",     "beta_fast", "beta_slow",      "factor",
                                        "mscale",    "mscale_all_dim", "type", "rope_type",
                                        "rope_theta", NULL };
    const Json *alpha = value(s->object, "alpha");
    char        name[128];
    double      by = 0, n = r->c->rotary_dim;
    *is = false;
    if (!r->family->rope_alpha || strcmp(word, "dynamic") != 0 || !alpha)
        return true;
    if (!key_number(&r->keys, inside(s, "alpha", name), alpha, &by))
        return false;
    for (const Json *i = json_first(s->object); i; i = json_next(i)) {
        int known = 0;
        while (idle[known] && strcmp(idle[known], json_key(i)) != 0)
            known++;
        if (!idle[known] && !json_is_null(i))
            return key_wrong(&r->keys, inside(s, json_key(i), name), "unknown key beside alpha");
    }
    if (by == 0)
        return true;
    if (!(by > 0) || n <= 2)
        return key_wrong(&r->keys, inside(s, "alpha", name),
                         "expected a number above 0 and head_dim above 2, found %.9g", by);
    r->c->theta *= math64_pow(by, n / (n - 2));
    *is = true;
    return true;
}

/* The numbers of pairs of dimensions that take each of a token's three positions; together, all. */
static bool sections(HfReader *r, const Scaling *s)
{
    const Json *list = value(s->object, SECTION);
    int         n = 0, one = 0;
    char        name[128];
    inside(s, SECTION, name);
    if (!list)
        return true;
    if (!json_is_array(list))
        return key_wrong(&r->keys, name, "expected an array, found %s", json_kind(list));
    for (const Json *i = json_first(list); i && n <= r->c->rotary_dim; i = json_next(i), n += one)
        if (!key_size(&r->keys, name, i, &one))
            return false;
    return (json_count(list) == 3 && n == r->c->rotary_dim / 2)
        || key_wrong(&r->keys, name, "expected three numbers that add up to %d, found others",
                     r->c->rotary_dim / 2);
}

static bool scaling(HfReader *r, const Scaling *s)
{
    Rope       *rope = &r->c->rope;
    const char *word;
    bool        fixed;
    if (!s->object && r->family->has & NEEDS_ROPE_TYPE)
        return key_wrong(&r->keys, "rope_scaling", "expected an object, found none");
    /* if it is absent, transformers uses the context of the config */
    rope->original_n_ctx = r->c->n_ctx;
    if (!type_word(r, s, &word) || !fixed_alpha(r, s, word, &fixed))
        return false;
    if (fixed)
        return true;
    if (r->family->has & TAKES_MROPE) {
        if (!sections(r, s))
            return false;
        word = strcmp(word, MROPE) == 0 ? rope_type_words[ROPE_DEFAULT] : word;
    }
    /* Phi-3's older names */
    if (r->family->rope_original && (strcmp(word, "su") == 0 || strcmp(word, "yarn") == 0))
        word = rope_type_words[ROPE_LONGROPE];
    if (!read_type(r, s, word, &rope->type) || !read_keys(r, s, rope) || !check_keys(r, s, rope)
        || !original(r, s, rope))
        return false;
    if (rope->type == ROPE_LONGROPE)
        return longrope(r, s);
    if (rope->type == ROPE_YARN && !value(s->object, "factor"))
        rope->factor = r->c->n_ctx / fmax(1, rope->original_n_ctx);
    return true;
}

/* Ministral 3: queries grow with the position, by a key among those of the scaling. */
static bool query_scale(HfReader *r, const Scaling *s)
{
    Config     *c = r->c;
    const Json *beta = value(s->object, QUERY_SCALE),
               *n    = value(s->object, ORIGINAL);
    char        name[128];
    if (!(r->family->has & QUERY_SCALED) || !s->object)
        return true;
    if (!beta)
        return key_wrong(&r->keys, inside(s, QUERY_SCALE, name),
                         "expected a number, found no such key");
    c->query_scale_length = c->n_ctx;
    if (!key_number(&r->keys, inside(s, QUERY_SCALE, name), beta, &c->query_scale)
        || (n && !key_size(&r->keys, inside(s, ORIGINAL, name), n,
                           &c->query_scale_length)))
        return false;
    if (c->query_scale == 0)
        c->query_scale_length = 0;
    return true;
}

static void use_absent(Config *c, const FamilyRope *f)
{
    c->theta       = f->theta;
    c->rope        = f->rope;
    c->query_scale = f->query_scale;
    c->query_scale_length = f->query_scale != 0 ? (int)f->rope.original_n_ctx : 0;
}

/* ---- Both dialects --------------------------------------------------------------------------- */

static bool covers(const Json *a, const Json *b)
{
    for (const Json *i = json_first(a); i; i = json_next(i)) {
        const char *key = strcmp(json_key(i), "type") == 0 ? "rope_type" : json_key(i);
        const Json *other = json_get(b, key);
        if (!other && strcmp(key, "rope_type") == 0)
            other = json_get(b, "type");
        if (strcmp(key, "rope_theta") != 0 && strcmp(key, "partial_rotary_factor") != 0
            && !(other && key_same(i, other)))
            return false;
    }
    return true;
}

static bool find_scaling(HfReader *r, Scaling *s, const Json **nested)
{
    const Json *old, *new;
    char        name[128];
    *nested = NULL;
    if (!object_or_null(r, "rope_scaling", &old) || !object_or_null(r, "rope_parameters", &new))
        return false;
    bool by_kind =
        new && by_layer(r->family) && (json_get(new, FULL) || json_get(new, SLIDING));
    snprintf(s->where, sizeof s->where, "%s%s",
             json_count(new) ? "rope_parameters" : "rope_scaling",
             by_kind ? ".full_attention" : "");
    if (by_kind) {
        *nested = new;
        new     = value(new, FULL);
        for (const Json *i = json_first(*nested); i; i = json_next(i))
            if (!json_is_object(i) && !json_is_null(i))
                return key_wrong(
                    &r->keys, inside(&(Scaling){ .where = "rope_parameters" }, json_key(i), name),
                    "expected an object, found %s", json_kind(i));
    }
    if (json_count(new) && json_count(old) && !(covers(old, new) && covers(new, old)))
        return key_wrong(&r->keys, "rope_scaling",
                         "expected the same as rope_parameters, found other values");
    s->object = json_count(new) ? new : old;
    return true;
}

bool hf_rope_read(HfReader *r)
{
    const Family *f = r->family;
    Config       *c = r->c;
    Scaling       s = { 0 };
    const Json   *nested, *theta = NULL, *share = NULL;
    const char   *theta_key = "", *share_key = "";
    if (c->kv_lora == 0)
        c->rotary_dim = c->head_dim;
    if (!f->theta_keys)
        return true;
    if (!find_scaling(r, &s, &nested) || !key_take_any(&r->keys, f->theta_keys, &theta, &theta_key))
        return false;
    char name[64];
    snprintf(name, sizeof name, "%s", theta_key);
    if (f->rotary != 0 && !key_take_any(&r->keys, f->rotary_keys, &share, &share_key))
        return false;
    if (!one_of(r, name, theta, s.where, value(s.object, "rope_theta"), &theta)
        || !one_of(r, "partial_rotary_factor", share, s.where,
                   value(s.object, "partial_rotary_factor"), &share))
        return false;
    c->theta = f->theta;
    if (!s.object && f->rope_absent) {
        use_absent(c, f->rope_absent);
        return rotary(r, share);
    }
    if ((theta && !key_number(&r->keys, name, theta, &c->theta))
        || (by_layer(f) && !local_theta(r, nested)) || !rotary(r, share) || !scaling(r, &s)
        || !query_scale(r, &s))
        return false;
    family_one_theta(f, c);
    return true;
}
