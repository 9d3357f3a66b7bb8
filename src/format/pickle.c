/* The pickle machine: one function for each instruction, a stack, marks on the stack, and a
 * memo. */
#include "format/pickle.h"

#include <string.h>
#include "format/bytes.h"

typedef struct Machine {
    Pickle              *p;
    const unsigned char *bytes;
    size_t               n, at, op_at; /* op_at: where the current instruction is, for messages */
    PickleItems          stack, marks, memo;
    size_t               floor;        /* values below belong to an outer mark: no popping */
    bool                 stopped;
    Error                why;          /* without a position in the file */
} Machine;

/* ---- Bytes ----------------------------------------------------------------------------------- */

static bool take(Machine *m, uint64_t n, const unsigned char **out)
{
    *out = NULL;
    if (n > m->n - m->at)
        return fail(&m->why, INPUT, "expected %llu more bytes, found %zu (cut short?)",
                    (unsigned long long)n, m->n - m->at);
    *out = m->bytes + m->at;
    m->at += (size_t)n;
    return true;
}

/* Read an unsigned little-endian number of n_bytes. */
static bool take_number(Machine *m, int n_bytes, uint64_t *out)
{
    const unsigned char *p;
    *out = 0;
    if (!take(m, (uint64_t)n_bytes, &p))
        return false;
    memcpy(out, p, (size_t)n_bytes);
    return true;
}

/* Read up to the end of the line; *line does not include the newline. */
static bool take_line(Machine *m, const char **line, size_t *n)
{
    *line = NULL;
    *n = 0;
    const unsigned char *start = m->bytes + m->at,
                        *end = m->at < m->n ? memchr(start, '\n', m->n - m->at) : NULL;
    if (!end)
        return fail(&m->why, INPUT, "expected a line, found no line end (cut short?)");
    *line = (const char *)start;
    *n = (size_t)(end - start);
    m->at += *n + 1;
    return true;
}

/* ---- The stack ------------------------------------------------------------------------------- */

static bool push(Machine *m, PickleValue v) { return pickle_append(m->p, &m->stack, v, &m->why); }

static bool pop(Machine *m, PickleValue *out)
{
    *out = (PickleValue){ 0 };
    if (m->stack.n == m->floor)
        return fail(&m->why, INPUT, "expected a value on the stack, found none");
    *out = m->stack.at[--m->stack.n];
    return true;
}

static PickleValue *top(Machine *m)
{
    if (m->stack.n > m->floor)
        return &m->stack.at[m->stack.n - 1];
    fail(&m->why, INPUT, "expected a value on the stack, found none");
    return NULL;
}

/* Remove the last mark and the values above it. The values stay in memory until the next push. */
static bool pop_mark(Machine *m, const PickleValue **values, size_t *n)
{
    *values = NULL;
    *n = 0;
    if (m->marks.n == 0)
        return fail(&m->why, INPUT, "expected a mark on the stack, found none");
    *values = m->stack.at + m->floor;
    *n = m->stack.n - m->floor;
    m->stack.n = m->floor;
    m->marks.n--;
    m->floor = m->marks.n ? (size_t)m->marks.at[m->marks.n - 1].i : 0;
    return true;
}

static bool op_mark(Machine *m)
{
    m->floor = m->stack.n;
    return pickle_append(m->p, &m->marks,
                         (PickleValue){ .kind = PICKLE_INT, .i = (int64_t)m->floor }, &m->why);
}

static bool op_pop_mark(Machine *m)
{
    const PickleValue *values;
    size_t             n;
    return pop_mark(m, &values, &n);
}

static bool op_pop(Machine *m)
{
    PickleValue v;
    if (m->marks.n && m->stack.n == m->floor)
        return op_pop_mark(m);
    return pop(m, &v);
}

static bool op_dup(Machine *m)
{
    const PickleValue *v = top(m);
    return v && push(m, *v);
}

static bool op_proto(Machine *m)
{
    uint64_t version;
    if (!take_number(m, 1, &version))
        return false;
    return (version >= 2 && version <= 5)
           || fail(&m->why, INPUT, "expected pickle protocol 2 to 5, found %llu",
                   (unsigned long long)version);
}

/* A frame says how many bytes a reader may fetch at once. Here all bytes are in memory already. */
static bool op_frame(Machine *m)
{
    uint64_t n;
    if (!take_number(m, 8, &n))
        return false;
    return n <= m->n - m->at
           || fail(&m->why, INPUT, "frame: expected at most %zu bytes, found %llu (cut short?)",
                   m->n - m->at, (unsigned long long)n);
}

static bool op_stop(Machine *m)
{
    m->stopped = true;
    if (m->marks.n || m->stack.n != 1)
        return fail(&m->why, INPUT, "expected one value on the stack at the end, found %zu",
                    m->stack.n);
    return true;
}

/* ---- Plain values ---------------------------------------------------------------------------- */

static bool op_none(Machine *m) { return push(m, (PickleValue){ .kind = PICKLE_NONE }); }
static bool op_true(Machine *m) { return push(m, (PickleValue){ .kind = PICKLE_BOOL, .i = 1 }); }
static bool op_false(Machine *m) { return push(m, (PickleValue){ .kind = PICKLE_BOOL }); }

static bool push_int(Machine *m, int64_t i)
{
    return push(m, (PickleValue){ .kind = PICKLE_INT, .i = i });
}

static bool op_int1(Machine *m)
{
    uint64_t v;
    return take_number(m, 1, &v) && push_int(m, (int64_t)v);
}

static bool op_int2(Machine *m)
{
    uint64_t v;
    return take_number(m, 2, &v) && push_int(m, (int64_t)v);
}

static bool op_int4(Machine *m)
{
    const unsigned char *p;
    return take(m, 4, &p) && push_int(m, read_i32(p));
}

/* Two's complement of any length: up to 8 bytes become an int; a longer one stays bytes. */
static bool push_long(Machine *m, uint64_t n)
{
    const unsigned char *p;
    if (!take(m, n, &p))
        return false;
    if (n > 8)
        return push(
            m, (PickleValue){ .kind = PICKLE_LONG, .n = (uint32_t)n, .text = (const char *)p });
    int64_t v = n && p[n - 1] & 0x80 ? -1 : 0;
    memcpy(&v, p, (size_t)n);
    return push_int(m, v);
}

static bool op_long1(Machine *m)
{
    uint64_t n;
    return take_number(m, 1, &n) && push_long(m, n);
}

static bool op_long4(Machine *m)
{
    uint64_t n;
    if (!take_number(m, 4, &n))
        return false;
    return n <= INT32_MAX ? push_long(m, n) : fail(&m->why, INPUT,
            "expected a length of at least 0, found %d", (int)(int32_t)n);
}

static bool op_float(Machine *m)
{
    const unsigned char *p;
    if (!take(m, 8, &p))
        return false;
    PickleValue v = { .kind = PICKLE_FLOAT };
    /* This is the only big-endian value of the format. */
    uint64_t    bits = __builtin_bswap64(read_u64(p));
    memcpy(&v.f, &bits, sizeof bits);
    return push(m, v);
}

/* Push a string or bytes, which follow their length of length_bytes. */
static bool push_text(Machine *m, PickleKind kind, int length_bytes)
{
    uint64_t             n;
    const unsigned char *p;
    if (!take_number(m, length_bytes, &n) || !take(m, n, &p))
        return false;
    if (n > INT32_MAX)
        return fail(&m->why, INPUT, "expected a string of at most %d bytes, found %llu", INT32_MAX,
                    (unsigned long long)n);
    return push(m, (PickleValue){ .kind = kind, .n = (uint32_t)n, .text = (const char *)p });
}

static bool op_string1(Machine *m) { return push_text(m, PICKLE_STRING, 1); }
static bool op_string4(Machine *m) { return push_text(m, PICKLE_STRING, 4); }
static bool op_string8(Machine *m) { return push_text(m, PICKLE_STRING, 8); }
static bool op_bytes1(Machine *m) { return push_text(m, PICKLE_BYTES, 1); }
static bool op_bytes4(Machine *m) { return push_text(m, PICKLE_BYTES, 4); }
static bool op_bytes8(Machine *m) { return push_text(m, PICKLE_BYTES, 8); }

/* ---- Tuples, lists, dicts -------------------------------------------------------------------- */

static bool push_new(Machine *m, PickleKind kind, const PickleValue *from, size_t n)
{
    PickleValue v;
    return pickle_new_items(m->p, kind, from, n, &v, &m->why) && push(m, v);
}

/* Turn the last n values into a tuple. */
static bool push_tuple(Machine *m, size_t n)
{
    if (m->stack.n - m->floor < n)
        return fail(&m->why, INPUT, "expected %zu values on the stack, found %zu", n,
                    m->stack.n - m->floor);
    m->stack.n -= n;
    return push_new(m, PICKLE_TUPLE, m->stack.at + m->stack.n, n);
}

static bool op_tuple0(Machine *m) { return push_tuple(m, 0); }
static bool op_tuple1(Machine *m) { return push_tuple(m, 1); }
static bool op_tuple2(Machine *m) { return push_tuple(m, 2); }
static bool op_tuple3(Machine *m) { return push_tuple(m, 3); }
static bool op_list0(Machine *m) { return push_new(m, PICKLE_LIST, NULL, 0); }
static bool op_dict0(Machine *m) { return push_new(m, PICKLE_DICT, NULL, 0); }

static bool push_marked(Machine *m, PickleKind kind)
{
    const PickleValue *values;
    size_t             n;
    if (!pop_mark(m, &values, &n))
        return false;
    if (kind == PICKLE_DICT && n % 2)
        return fail(&m->why, INPUT, "dict: expected keys and values in pairs, found %zu values", n);
    return push_new(m, kind, values, n);
}

static bool op_tuple(Machine *m) { return push_marked(m, PICKLE_TUPLE); }
static bool op_list(Machine *m) { return push_marked(m, PICKLE_LIST); }
static bool op_dict(Machine *m) { return push_marked(m, PICKLE_DICT); }

/* Add n values to the list or dict on top of the stack. */
static bool extend(Machine *m, PickleKind kind, const PickleValue *values, size_t n)
{
    const PickleValue *into = top(m);
    if (!into)
        return false;
    if (into->kind != kind)
        return fail(&m->why, INPUT, "expected a %s to put values into, found %s",
                    pickle_kind_name(kind), pickle_kind_name(into->kind));
    if (kind == PICKLE_DICT && n % 2)
        return fail(&m->why, INPUT, "dict: expected keys and values in pairs, found %zu values", n);
    for (size_t i = 0; i < n; i++)
        if (!pickle_append(m->p, into->items, values[i], &m->why))
            return false;
    return true;
}

static bool extend_marked(Machine *m, PickleKind kind)
{
    const PickleValue *values;
    size_t             n;
    return pop_mark(m, &values, &n) && extend(m, kind, values, n);
}

static bool op_append(Machine *m)
{
    PickleValue v;
    return pop(m, &v) && extend(m, PICKLE_LIST, &v, 1);
}

static bool op_setitem(Machine *m)
{
    PickleValue pair[2];
    return pop(m, &pair[1]) && pop(m, &pair[0]) && extend(m, PICKLE_DICT, pair, 2);
}

static bool op_appends(Machine *m) { return extend_marked(m, PICKLE_LIST); }
static bool op_setitems(Machine *m) { return extend_marked(m, PICKLE_DICT); }

/* ---- The memo -------------------------------------------------------------------------------- */

static bool put(Machine *m, uint64_t index)
{
    const PickleValue *v = top(m);
    if (!v)
        return false;
    /* Writers count up, and each entry takes two bytes or more. So the length of the pickle bounds
     * the memo. */
    if (index >= m->at)
        return fail(&m->why, INPUT, "memo: expected an index below %zu here, found %llu", m->at,
                    (unsigned long long)index);
    const PickleValue unset = { .kind = PICKLE_GLOBAL };
    while (m->memo.n <= index)
        if (!pickle_append(m->p, &m->memo, unset, &m->why))
            return false;
    m->memo.at[index] = *v;
    return true;
}

static bool get(Machine *m, uint64_t index)
{
    if (index >= m->memo.n
        || (m->memo.at[index].kind == PICKLE_GLOBAL && !m->memo.at[index].global))
        return fail(&m->why, INPUT, "memo: expected an index that was set, found %llu",
                    (unsigned long long)index);
    return push(m, m->memo.at[index]);
}

static bool op_memoize(Machine *m) { return put(m, m->memo.n); }

static bool op_put1(Machine *m)
{
    uint64_t i;
    return take_number(m, 1, &i) && put(m, i);
}

static bool op_put4(Machine *m)
{
    uint64_t i;
    return take_number(m, 4, &i) && put(m, i);
}

static bool op_get1(Machine *m)
{
    uint64_t i;
    return take_number(m, 1, &i) && get(m, i);
}

static bool op_get4(Machine *m)
{
    uint64_t i;
    return take_number(m, 4, &i) && get(m, i);
}

/* ---- What Python would call ------------------------------------------------------------------ */

static bool push_global(Machine *m, const char *module, size_t n_module, const char *name,
                        size_t n_name)
{
    PickleValue v;
    return pickle_torch_global(module, n_module, name, n_name, &v, &m->why) && push(m, v);
}

static bool op_global(Machine *m)
{
    const char *module, *name;
    size_t      n_module, n_name;
    return take_line(m, &module, &n_module) && take_line(m, &name, &n_name)
        && push_global(m, module, n_module, name, n_name);
}

static bool op_stack_global(Machine *m)
{
    PickleValue name, module;
    if (!pop(m, &name) || !pop(m, &module))
        return false;
    if (name.kind != PICKLE_STRING || module.kind != PICKLE_STRING)
        return fail(&m->why, INPUT, "global: expected two strings, found %s and %s",
                    pickle_kind_name(module.kind), pickle_kind_name(name.kind));
    return push_global(m, module.text, module.n, name.text, name.n);
}

static bool op_reduce(Machine *m)
{
    PickleValue args, global, result;
    return pop(m, &args) && pop(m, &global)
        && pickle_torch_call(m->p, &global, &args, &result, &m->why) && push(m, result);
}

/* Set the state of an object. An OrderedDict's state is its attributes (_metadata of a state dict),
 * which hold no weights, so it is dropped. */
static bool op_build(Machine *m)
{
    PickleValue        state;
    const PickleValue *object;
    if (!pop(m, &state) || !(object = top(m)))
        return false;
    if (object->kind != PICKLE_DICT || state.kind != PICKLE_DICT)
        return fail(&m->why, INPUT, "setting the state of a %s (BUILD) would execute code; refused",
                    pickle_kind_name(object->kind));
    return true;
}

static bool op_persistent_id(Machine *m)
{
    PickleValue id, storage;
    return pop(m, &id) && pickle_torch_storage(m->p, &id, &storage, &m->why) && push(m, storage);
}

/* A class by name, with arguments. No state dict is written this way, so it is an error that names
 * the class. */
static bool op_inst(Machine *m)
{
    const char *module, *name;
    size_t      n_module, n_name;
    if (!take_line(m, &module, &n_module) || !take_line(m, &name, &n_name))
        return false;
    return fail(&m->why, INPUT, "making a %.*s.%.*s (INST) would execute code; refused",
                n_module < 80 ? (int)n_module : 80, module, n_name < 80 ? (int)n_name : 80, name);
}

static bool op_refused(Machine *m)
{
    static const struct {
        unsigned char op;
        const char   *name;
    } names[] = { { 'o', "OBJ" }, { 0x81, "NEWOBJ" }, { 0x92, "NEWOBJ_EX" },
                  { 0x82, "EXT1" }, { 0x83, "EXT2" },   { 0x84, "EXT4" } };
    unsigned char op = m->bytes[m->op_at];
    const char   *name = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].op == op)
            name = names[i].name;
    return fail(&m->why, INPUT, "instruction %s would execute code; refused", name);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The instructions that torch.save has used since protocol 2, by their byte. The text forms of
 * protocol 0, sets and buffers are not supported. */
static bool (*const instructions[256])(Machine *) = {
    [0x80] = op_proto,     [0x95] = op_frame,    ['.'] = op_stop,        ['('] = op_mark,
    ['0'] = op_pop,      ['1'] = op_pop_mark, ['2'] = op_dup,           ['N'] = op_none,
    [0x88] = op_true,    [0x89] = op_false,   ['K'] = op_int1,          ['M'] = op_int2,
    ['J'] = op_int4,     [0x8a] = op_long1,   [0x8b] = op_long4,        ['G'] = op_float,
    ['U'] = op_string1,  ['T'] = op_string4,  [0x8c] = op_string1,      ['X'] = op_string4,
    [0x8d] = op_string8, ['C'] = op_bytes1,   ['B'] = op_bytes4,        [0x8e] = op_bytes8,
    [')'] = op_tuple0,   [0x85] = op_tuple1,  [0x86] = op_tuple2,       [0x87] = op_tuple3,
    ['t'] = op_tuple,    [']'] = op_list0,    ['l'] = op_list,          ['a'] = op_append,
    ['e'] = op_appends,  ['}'] = op_dict0,    ['d'] = op_dict,          ['s'] = op_setitem,
    ['u'] = op_setitems, [0x94] = op_memoize, ['q'] = op_put1,          ['r'] = op_put4,
    ['h'] = op_get1,     ['j'] = op_get4,     ['c'] = op_global,        [0x93] = op_stack_global,
    ['R'] = op_reduce,   ['b'] = op_build,    ['Q'] = op_persistent_id, ['i'] = op_inst,
    ['o'] = op_refused,  [0x81] = op_refused, [0x92] = op_refused,      [0x82] = op_refused,
    [0x83] = op_refused, [0x84] = op_refused,
};

static bool step(Machine *m)
{
    const unsigned char *op;
    m->op_at = m->at;
    if (!take(m, 1, &op))
        return false;
    if (instructions[*op])
        return instructions[*op](m);
    return fail(&m->why, INPUT,
                "expected a pickle instruction of protocol 2 to 4, found byte 0x%02x", *op);
}

bool pickle_read(Pickle *p, const unsigned char *bytes, size_t n, const char *what,
                 PickleValue *out, size_t *used, Error *err)
{
    Machine m = { .p = p, .bytes = bytes, .n = n };
    /* Allocates the stack, so that pointers into it are valid. */
    bool    ok = push(&m, (PickleValue){ 0 });
    m.stack.n = 0;
    while (ok && !m.stopped)
        ok = step(&m);
    if (!ok)
        return fail(err, m.why.status, "%s: byte %zu: %s", what, m.op_at, m.why.msg);
    *out = m.stack.at[0];
    *used = m.at;
    return true;
}
