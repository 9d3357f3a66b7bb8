#include "format/pickle.h"
#include "test.h"

#define BYTES(text) (const unsigned char *)(text), sizeof(text) - 1
#define P2          "\x80\2"

static Pickle      pickle;
static PickleValue value;

/* Reads into pickle and value; the caller frees. */
static bool read_bytes(const unsigned char *bytes, size_t n, Error *e)
{
    size_t used = 0;
    *e = (Error){ 0 };
    bool ok = pickle_read(&pickle, bytes, n, "x", &value, &used, e);
    CHECK(!ok || used == n, "%zu of %zu bytes were read", used, n);
    return ok;
}

static void refused(const char *what, const unsigned char *bytes, size_t n, const char *message)
{
    Error e;
    bool  ok = read_bytes(bytes, n, &e);
    CHECK(!ok, "%s was accepted", what);
    CHECK(e.status == INPUT && strncmp(e.msg, "x: byte ", 8) == 0 && strstr(e.msg, message),
          "%s: %d '%s'", what, e.status, e.msg);
    pickle_free(&pickle);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void numbers_are_read(void)
{
    static const struct {
        const char *bytes;
        size_t      n;
        int64_t     expected;
    } cases[] = {
#define N(text, expected) { P2 text ".", sizeof(P2 text "."), expected }
        N("K\xFF", 255),
        N("M\xFF\xFF", 65535),
        N("J\xFF\xFF\xFF\xFF", -1),
        N("J\0\0\0\x80", INT32_MIN),
        N("\x8a\0", 0),
        N("\x8a\1\xFF", -1),
        N("\x8a\2\xFF\0", 255),
        N("\x8a\x05\0\0\0\0\1", INT64_C(1) << 32),
        N("\x8a\x08\0\0\0\0\0\0\0\x80", INT64_MIN),
        N("\x8b\2\0\0\0\0\x80", -32768),
#undef N
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e;
        bool  ok = read_bytes((const unsigned char *)cases[i].bytes, cases[i].n - 1, &e);
        CHECK(ok && value.kind == PICKLE_INT && value.i == cases[i].expected, "%zu: %s %lld", i,
              e.msg, ok ? (long long)value.i : 0);
        pickle_free(&pickle);
    }
    Error e;
    CHECK(read_bytes(BYTES(P2 "G\xBF\xF8\0\0\0\0\0\0."),
                     &e) && value.kind == PICKLE_FLOAT && value.f == -1.5, "%s", e.msg);
    pickle_free(&pickle);
    CHECK(read_bytes(BYTES(P2 "\x8a\x09\0\0\0\0\0\0\0\0\1."),
                     &e) && value.kind == PICKLE_LONG && value.n == 9, "%s", e.msg);
    pickle_free(&pickle);
}

static void strings_of_every_form_are_read(void)
{
    static const struct {
        const char *bytes;
        size_t      n;
    } cases[] = {
#define S(text) { P2 text "abc.", sizeof(P2 text "abc.") - 1 }
        S("U\3"), S("T\3\0\0\0"), S("X\3\0\0\0"), S("\x8c\3"), S("\x8d\3\0\0\0\0\0\0\0"),
        S("C\3"), S("B\3\0\0\0"), S("\x8e\3\0\0\0\0\0\0\0"),
#undef S
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error e;
        CHECK(read_bytes((const unsigned char *)cases[i].bytes, cases[i].n,
                         &e) && pickle_is_text(&value, "abc")
              && !pickle_is_text(&value, "ab"), "%zu: %s", i, e.msg);
        pickle_free(&pickle);
    }
}

/* {"a": [1, (2,), None], "b": {}, "a": True}, by every way to build one */
static void collections_are_read(void)
{
    Error e;
    CHECK(read_bytes(BYTES(P2 "}q\0(X\1\0\0\0a](K\1K\2\x85NeX\1\0\0\0b}X\1\0\0\0a\x88u."), &e),
          "%s", e.msg);
    CHECK(value.kind == PICKLE_DICT && value.items->n == 6, "not a dict of 3");
    const PickleValue *a = pickle_get(&value, "a"), *b = pickle_get(&value, "b");
    CHECK(a && a->kind == PICKLE_BOOL && a->i == 1 && b && b->kind == PICKLE_DICT
              && !pickle_get(&value, "c"),
          "entries");
    const PickleValue *list = &value.items->at[1];
    CHECK(list->kind == PICKLE_LIST && list->items->n == 3
              && list->items->at[1].kind == PICKLE_TUPLE && list->items->at[1].items->at[0].i == 2
              && list->items->at[2].kind == PICKLE_NONE,
          "list");
    pickle_free(&pickle);

    CHECK(read_bytes(BYTES(P2 "(K\1(K\2K\3l(K\4K\5d)K\6K\7\x86K\x08K\x09K\x0A\x87t."), &e), "%s",
          e.msg);
    static const PickleKind kinds[] = { PICKLE_INT, PICKLE_LIST, PICKLE_DICT,
                                        PICKLE_TUPLE, PICKLE_TUPLE, PICKLE_TUPLE };
    static const size_t     counts[] = { 0, 2, 2, 0, 2, 3 };
    CHECK(value.kind == PICKLE_TUPLE && value.items->n == 6, "not a tuple of 6");
    for (size_t i = 0; i < 6; i++) {
        const PickleValue *v = &value.items->at[i];
        CHECK(v->kind == kinds[i] && (i == 0 || v->items->n == counts[i]), "item %zu is a %s", i,
              pickle_kind_name(v->kind));
    }
    pickle_free(&pickle);
}

static void memo_and_stack_instructions_work(void)
{
    Error e;
    /* [5, 5, 5, 6]: put and get in both widths, memoize, dup, pop, pop_mark */
    CHECK(read_bytes(
              BYTES("\x80\4\x95\x1D\0\0\0\0\0\0\0](K\5q\0h\0r\1\0\0\0j\1\0\0\0K\6\x94(NN10h\2e."),
              &e),
          "%s", e.msg);
    CHECK(value.kind == PICKLE_LIST && value.items->n == 4, "%zu values",
          value.kind == PICKLE_LIST ? value.items->n : 0);
    CHECK(value.items->at[2].i == 5 && value.items->at[3].i == 6, "values");
    pickle_free(&pickle);
    CHECK(read_bytes(BYTES(P2 "]K\1aK\2" "20\x86."), &e), "%s", e.msg);
    CHECK(value.kind == PICKLE_TUPLE && value.items->n == 2
              && value.items->at[0].kind == PICKLE_LIST && value.items->at[1].i == 2,
          "pair");
    pickle_free(&pickle);
}

static void empty_collections_are_read_from_an_empty_stack(void)
{
    static const char *const pickles[] = {
        P2 ").", P2 "(t.", P2 "(l.", P2 "(d.", P2 "].", P2 "}."
    };
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        Error e;
        CHECK(read_bytes((const unsigned char *)pickles[i], strlen(pickles[i]),
                         &e) && value.items->n == 0, "%zu: %s", i, e.msg);
        pickle_free(&pickle);
    }
}

/* Old files: Python 2 gives OrderedDict its entries as a list of pairs. */
static void ordered_dicts_take_pairs_or_items(void)
{
    Error e;
    CHECK(read_bytes(BYTES(P2 "ccollections\nOrderedDict\n](](U\1aK\1e](U\1bK\2ee\x85R."), &e),
          "%s", e.msg);
    const PickleValue *b = pickle_get(&value, "b");
    CHECK(b && b->i == 2, "b");
    pickle_free(&pickle);
    CHECK(
        read_bytes(BYTES("\x80\4\x8c\x0b"
                         "collections\x8c\x0bOrderedDict\x93)R(\x8c\1aK\1u}\x8c\x09_metadata}sb."),
                   &e),
        "%s", e.msg);
    const PickleValue *a = pickle_get(&value, "a");
    CHECK(a && a->i == 1 && value.items->n == 2, "a, and the state is no entry");
    pickle_free(&pickle);
    refused("no pairs", BYTES(P2 "ccollections\nOrderedDict\n]K\1a\x85R."),
            "expected a pair, found int");
    refused("a number", BYTES(P2 "ccollections\nOrderedDict\nK\1\x85R."),
            "expected a list of pairs, found int");
}

/* ---- Code ------------------------------------------------------------------------------------ */

static void nothing_is_executed(void)
{
#define RM "X\2\0\0\0id\x85"
    refused("GLOBAL, REDUCE", BYTES(P2 "cos\nsystem\n" RM "R."),
            "byte 2: global os.system would execute code; refused");
    refused("posix", BYTES(P2 "cposix\nsystem\n" RM "R."),
            "global posix.system would execute code; refused");
    refused("eval", BYTES(P2 "cbuiltins\neval\n" RM "R."),
            "global builtins.eval would execute code; refused");
    refused("getattr", BYTES(P2 "c__builtin__\ngetattr\n."),
            "global __builtin__.getattr would execute code; refused");
    refused("STACK_GLOBAL", BYTES("\x80\4\x8c\2os\x8c\6system\x93" RM "R."),
            "global os.system would execute code; refused");
    refused("a memoized name",
            BYTES("\x80\4\x8c\2os\x94"
                  "0\x8c\6system\x94"
                  "0h\0h\1\x93" RM "R."),
            "global os.system would execute code");
    refused("BUILD", BYTES(P2 "cos\n_Environ\n}b."),
            "global os._Environ would execute code; refused");
    refused("BUILD of a list", BYTES(P2 "]}b."),
            "setting the state of a list (BUILD) would execute code; refused");
    refused("BUILD of a global", BYTES(P2 "ccollections\nOrderedDict\n}b."),
            "setting the state of a global (BUILD) would execute code");
    refused("BUILD by another state", BYTES(P2 "}(K\1tb."), "(BUILD) would execute code; refused");
    refused("INST", BYTES(P2 "(X\2\0\0\0idios\nsystem\n."),
            "making a os.system (INST) would execute code; refused");
    refused("OBJ", BYTES(P2 "(ccollections\nOrderedDict\no."),
            "instruction OBJ would execute code; refused");
    refused("NEWOBJ", BYTES(P2 "ccollections\nOrderedDict\n)\x81."),
            "instruction NEWOBJ would execute code; refused");
    refused("NEWOBJ_EX",
            BYTES("\x80\4"
                  "ccollections\nOrderedDict\n)}\x92."),
            "instruction NEWOBJ_EX would execute code; refused");
    refused("EXT1", BYTES(P2 "\x82\1."), "instruction EXT1 would execute code; refused");
    refused("EXT2", BYTES(P2 "\x83\1\0."), "instruction EXT2 would execute code; refused");
    refused("EXT4", BYTES(P2 "\x84\1\0\0\0."), "instruction EXT4 would execute code; refused");
    refused("calling a string", BYTES(P2 "X\2\0\0\0os)R."),
            "calling a string would execute code; refused");
    refused("calling a storage type", BYTES(P2 "ctorch\nFloatStorage\nK\4\x85R."),
            "calling torch.FloatStorage would execute code");
    refused("calling a dtype", BYTES(P2 "ctorch\nfloat32\n)R."),
            "calling torch.float32 would execute code; refused");
    refused("a longer name", BYTES(P2 "ctorch._utils\n_rebuild_tensor_v2x\n."),
            "would execute code; refused");
    refused("a shorter name", BYTES(P2 "ctorch._utils\n_rebuild_tensor_v\n."),
            "would execute code; refused");
    refused("another split", BYTES(P2 "ctorch\n_utils._rebuild_tensor\n)R."),
            "expected 4 to 4 arguments, found 0");
    refused("a dotted name", BYTES("\x80\4\x8c\5torch\x8c\x0eserialization.\x93."),
            "would execute code; refused");
    refused("PERSID", BYTES(P2 "Pos.system\n."),
            "expected a pickle instruction of protocol 2 to 4, found byte 0x50");
#undef RM
}

static void foreign_persistent_ids_are_refused(void)
{
#define FLOATS "ctorch\nFloatStorage\n"
    refused("a string", BYTES(P2 "U\1aQ."), "persistent id: expected (\"storage\"");
    refused("a module", BYTES(P2 "(U\6module)NNNtQ."), "persistent id: expected (\"storage\"");
    refused("no type",
            BYTES(P2 "(U\7storageU\1aU\1"
                     "0U\3cpuK\1tQ."),
            "storage: type: expected a torch storage type, found string");
    refused("no key", BYTES(P2 "(U\7storage" FLOATS "K\0U\3cpuK\1tQ."),
            "storage: key: expected a string, found int");
    refused("no size",
            BYTES(P2 "(U\7storage" FLOATS "U\1"
                     "0U\3cpuNtQ."),
            "storage: size: expected a number from 0 to 2^63 - 1, found None");
    refused("negative",
            BYTES(P2 "(U\7storage" FLOATS "U\1"
                     "0U\3cpuJ\xFF\xFF\xFF\xFFtQ."),
            "storage: size: expected a number of at least 0, found -1");
    refused("complex",
            BYTES(P2 "(U\7storagectorch\nComplexFloatStorage\nU\1"
                     "0U\3cpuK\1tQ."),
            "elements of torch.ComplexFloatStorage are not supported");
    refused("untyped",
            BYTES(P2 "(U\7storagectorch.storage\nTypedStorage\nU\1"
                     "0U\3cpuK\1tQ."),
            "elements of torch.storage.TypedStorage are not supported");
    refused("view",
            BYTES(P2 "(U\7storage" FLOATS "U\1"
                     "0U\3cpuK\4(U\1"
                     "1K\3K\2ttQ."),
            "2 elements from element 3 do not fit into its storage of 4");
}

static void tensors_are_checked_before_they_are_made(void)
{
#define STORAGE "(U\7storage" FLOATS "U\1" "0U\3cpuK\4tQ"
#define V2      P2 "ctorch._utils\n_rebuild_tensor_v2\n("
    Error e;
    CHECK(read_bytes(BYTES(V2 STORAGE "K\1K\3\x85K\1\x85\x89}tR."), &e), "%s", e.msg);
    CHECK(value.kind == PICKLE_TENSOR && value.tensor->rank == 1 && value.tensor->shape[0] == 3
              && value.tensor->offset == 1 && value.tensor->dtype == DT_F32
              && pickle.storages.n == 1,
          "tensor");
    pickle_free(&pickle);
    refused("arguments", BYTES(V2 STORAGE "K\1K\3\x85K\1\x85tR."),
            "expected 6 to 7 arguments, found 4");
    refused("no tuple", BYTES(P2 "ctorch._utils\n_rebuild_tensor_v2\n]R."),
            "arguments: expected a tuple, found list");
    refused("no storage", BYTES(V2 "NK\1K\3\x85K\1\x85\x89}tR."),
            "storage: expected a storage, found None");
    refused("offset", BYTES(V2 STORAGE "J\xFF\xFF\xFF\xFFK\3\x85K\1\x85\x89}tR."),
            "offset: expected a number of at least 0, found -1");
    refused("size",
            BYTES(V2 STORAGE "K\1\x8a\x09"
                             "123456789\x85K\1\x85\x89}tR."),
            "size: expected a number from 0 to 2^63 - 1, found long int");
    refused("negative stride", BYTES(V2 STORAGE "K\1K\3\x85J\xFE\xFF\xFF\xFF\x85\x89}tR."),
            "stride: expected a number of at least 0, found -2");
    refused("strides", BYTES(V2 STORAGE "K\1K\3\x85)\x89}tR."),
            "expected a stride for each of 1 dimensions, found 0");
    refused("rank", BYTES(V2 STORAGE "K\1(K\1K\1K\1K\1K\1K\1K\1K\1K\1t)\x89}tR."),
            "expected at most 8 dimensions, found 9");
    refused("metadata", BYTES(V2 STORAGE "K\1K\3\x85K\1\x85\x89}}U\3neg\x88stR."),
            "expected no tensor metadata");
    refused("float8",
            BYTES(P2 "ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE
                     "K\0K\3\x85K\1\x85\x89}ctorch\nfloat8_e4m3fn\ntR."),
            "element type torch.float8_e4m3fn is not supported");
    refused("parameter", BYTES(P2 "ctorch._utils\n_rebuild_parameter\n(K\1\x88}tR."),
            "expected a tensor and two more arguments");
}

/* ---- Malformed ------------------------------------------------------------------------------- */

static void malformed_pickles_are_refused(void)
{
    refused("nothing", BYTES(""), "byte 0: expected 1 more bytes, found 0");
    refused("no stop", BYTES(P2 "N"), "byte 3: expected 1 more bytes, found 0");
    refused("no value", BYTES(P2 "."), "expected one value on the stack at the end, found 0");
    refused("two values", BYTES(P2 "NN."), "expected one value on the stack at the end, found 2");
    refused("an open mark", BYTES(P2 "N(."), "expected one value on the stack at the end");
    refused("protocol 1", BYTES("\x80\1N."), "expected pickle protocol 2 to 5, found 1");
    refused("protocol 6", BYTES("\x80\6N."), "expected pickle protocol 2 to 5, found 6");
    refused("protocol 0 text", BYTES("I5\n."),
            "expected a pickle instruction of protocol 2 to 4, found byte 0x49");
    refused("a frame", BYTES("\x80\4\x95\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFN."),
            "frame: expected at most 2 bytes, found 18446744073709551615");
    refused("BINUNICODE", BYTES(P2 "X\xFF\xFF\xFF\xFFN."),
            "expected 4294967295 more bytes, found 2");
    refused("BINUNICODE8", BYTES(P2 "\x8d\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFFN."),
            "expected 18446744073709551615 more bytes");
    refused("BINBYTES8", BYTES(P2 "\x8e\0\0\0\0\0\0\0\x80N."),
            "expected 9223372036854775808 more bytes");
    refused("LONG4", BYTES(P2 "\x8b\xFF\xFF\xFF\x7FN."), "expected 2147483647 more bytes");
    refused("LONG4 below 0", BYTES(P2 "\x8b\xFF\xFF\xFF\xFFN."),
            "expected a length of at least 0, found -1");
    refused("a global", BYTES(P2 "cos"), "expected a line, found no line end");
    refused("a global of numbers", BYTES(P2 "K\1K\2\x93."),
            "global: expected two strings, found int and int");
    refused("pop", BYTES(P2 "0."), "expected a value on the stack, found none");
    refused("pop below a mark", BYTES(P2 "N(\x85."), "expected 1 values on the stack, found 0");
    refused("no mark", BYTES(P2 "t."), "expected a mark on the stack, found none");
    refused("append to a tuple", BYTES(P2 ")Na."),
            "expected a list to put values into, found tuple");
    refused("items of a list", BYTES(P2 "]NNs."), "expected a dict to put values into, found list");
    refused("appends to nothing", BYTES(P2 "(N(Ne."),
            "expected a list to put values into, found None");
    refused("odd", BYTES(P2 "}(NNNu."), "dict: expected keys and values in pairs, found 3 values");
    refused("odd dict", BYTES(P2 "(Nd."),
            "dict: expected keys and values in pairs, found 1 values");
    refused("memo get", BYTES(P2 "h\0."), "memo: expected an index that was set, found 0");
    refused("memo gap", BYTES(P2 "NNNNq\3h\1."), "memo: expected an index that was set, found 1");
    refused("memo put", BYTES(P2 "Nr\xFF\xFF\xFF\xFF."),
            "memo: expected an index below 8 here, found 4294967295");
    refused("memo of nothing", BYTES(P2 "\x94."), "expected a value on the stack, found none");
}

/* ---- Bombs ----------------------------------------------------------------------------------- */

/* Read n bytes made of a head, a repeated part and a tail; the memory used for them. */
static size_t memory_of(const char *head, const char *part, size_t n_part, size_t times,
                        const char *tail, const char *message)
{
    size_t         n = strlen(head) + n_part * times + strlen(tail), at = strlen(head);
    unsigned char *bytes = malloc(n + 2);
    memcpy(bytes, P2, 2);
    memcpy(bytes + 2, head, at);
    for (size_t i = 0; i < times; i++, at += n_part)
        memcpy(bytes + 2 + at, part, n_part);
    memcpy(bytes + 2 + at, tail, strlen(tail));
    Error  e;
    bool   ok = read_bytes(bytes, n + 2, &e);
    size_t used = pickle.used;
    CHECK(message ? !ok && strstr(e.msg, message) : ok, "'%s'", e.msg);
    pickle_free(&pickle);
    free(bytes);
    return used;
}

static void memory_stays_in_proportion_to_the_pickle(void)
{
    static const struct {
        const char *head, *part;
        size_t      n_part;
        const char *tail, *message;
    } bombs[] = {
        /* marks in marks */
        { "", "(", 1, ".", "at the end, found 0" },
        /* many empty lists */
        { "", "]", 1, ".", "at the end, found 100000" },
        /* (x, x) of (x, x) of ...: 2^100000 leaves */
        { "]", "2\x86", 2, ".", NULL },
        /* ((((...)))), 100000 deep */
        { "]", "\x85", 1, ".", NULL },
        /* a list in itself, 100000 times */
        { "]q\1", "h\1a", 3, ".", NULL },
        { "](", "2N", 2, ".", "found none" },
        /* a memo as long as the pickle */
        { "N", "\x94", 1, ".", NULL },
        { "]q\1(", "h\1", 2, "t.", "at the end" },
    };
    for (size_t i = 0; i < sizeof bombs / sizeof *bombs; i++) {
        size_t used = memory_of(bombs[i].head, bombs[i].part, bombs[i].n_part, 100000,
                                bombs[i].tail, bombs[i].message);
        CHECK(used <= 1000 + bombs[i].n_part * 100000 * 96, "bomb %zu used %zu bytes of memory", i,
              used);
    }
}

/* A dict of 1000 pairs, made again and again from one list: three bytes each. */
static void memory_has_a_limit(void)
{
    char   head[3100] = "ccollections\nOrderedDict\nq\1](";
    size_t at = strlen(head);
    for (int i = 0; i < 1000; i++, at += 3)
        memcpy(head + at, "NN\x86", 3);
    memcpy(head + at, "eq\2", 4);
    pickle.limit = 1 << 20;
    size_t used = memory_of(head, "h\1h\2\x85R", 6, 1000, ".",
                            "expected objects of at most 1 MB in memory, found more");
    CHECK(used <= 1 << 20, "%zu bytes", used);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(numbers_are_read);
    TEST(strings_of_every_form_are_read);
    TEST(collections_are_read);
    TEST(memo_and_stack_instructions_work);
    TEST(empty_collections_are_read_from_an_empty_stack);
    TEST(ordered_dicts_take_pairs_or_items);
    TEST(nothing_is_executed);
    TEST(foreign_persistent_ids_are_refused);
    TEST(tensors_are_checked_before_they_are_made);
    TEST(malformed_pickles_are_refused);
    TEST(memory_stays_in_proportion_to_the_pickle);
    TEST(memory_has_a_limit);
    return TEST_END();
}
