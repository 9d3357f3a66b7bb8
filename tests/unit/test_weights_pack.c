/* tests/unit/test_weights_pack.c: matrices of a GGUF file are packed before the second pass, and
 * nobody who reads them sees it. */
#include "test.h"

#include <pthread.h>
#include <string.h>

#include "api/api.h"
#include "tblock_tools.h"

enum { VOCAB = 256, D_MODEL = 256, STEPS = 6, READERS = 3 };

static Error    err;
/* Hashes of the logits after each token, of weights that were packed before the first. */
static uint64_t expected[STEPS];

static tblock_model *open_model(void)
{
    tblock_model *m = tblock_open("tests/data/gguf/llama-kquants/model.gguf", NULL, &err);
    CHECK(m, "%s", err.msg);
    return m;
}

static tblock_context *context_of(const tblock_model *m, const char *pages)
{
    tblock_context *c =
        tblock_context_new(m, &(tblock_context_options){ .threads = 2, .pages = pages }, &err);
    CHECK(c, "%s", err.msg);
    return c;
}

static uint64_t step(tblock_context *c, int pos)
{
    tblock_item item = { 0, pos, pos * 37 % VOCAB, true };
    return tblock_decode(c, &item, 1, &err) ? tblock_hash_floats(tblock_logits(c, 0), VOCAB) : 0;
}

static size_t made(const tblock_model *m)
{
    tblock_model_info i;
    tblock_model_describe(m, &i);
    return i.made_bytes;
}

/* In a context that asks for pages they are packed at once. */
static bool expect(void)
{
    tblock_model   *m      = open_model();
    size_t          before = made(m);
    tblock_context *c      = context_of(m, "huge");
    bool            packed = made(m) > before + 250000;
    for (int i = 0; c && i < STEPS; i++)
        expected[i] = step(c, i);
    tblock_context_free(c);
    tblock_close(m);
    return c && packed && expected[STEPS - 1] != 0;
}

static void the_first_pass_leaves_them_in_the_file(void)
{
    tblock_model   *m      = open_model();
    size_t          before = made(m);
    tblock_context *c      = context_of(m, NULL);
    CHECK(c && step(c, 0) == expected[0], "other logits: %s", err.msg);
    CHECK(made(m) == before, "%zu bytes, %zu before", made(m), before);
    for (int i = 1; c && i < STEPS; i++)
        CHECK(step(c, i) == expected[i], "step %d: other logits: %s", i, err.msg);
    CHECK(made(m) > before + 250000, "%zu bytes, %zu before", made(m), before);
    tblock_context_free(c);
    tblock_close(m);
}

static void a_second_context_packs_them(void)
{
    tblock_model   *m      = open_model();
    size_t          before = made(m);
    tblock_context *a = context_of(m, NULL), *b = context_of(m, NULL);
    CHECK(a && b && step(a, 0) == expected[0] && made(m) == before, "other logits, or packed");
    CHECK(b && step(b, 0) == expected[0] && made(m) > before, "other logits, or not packed");
    CHECK(a && step(a, 1) == expected[1], "other logits");
    tblock_context_free(a);
    tblock_context_free(b);
    tblock_close(m);
}

typedef struct Reader { tblock_context *c; bool same; } Reader;

static void *all_steps(void *arg)
{
    Reader *r = arg;
    r->same   = true;
    for (int i = 0; i < STEPS; i++)
        r->same &= step(r->c, i) == expected[i];
    return NULL;
}

static void others_read_meanwhile(void)
{
    for (int round = 0; round < 50; round++) {
        tblock_model *m = open_model();
        Reader        r[READERS];
        pthread_t     thread[READERS];
        for (int i = 0; i < READERS; i++)
            r[i] = (Reader){ context_of(m, NULL), false };
        for (int i = 0; i < READERS; i++)
            CHECK(pthread_create(&thread[i], NULL, all_steps, &r[i]) == 0, "no thread");
        for (int i = 0; i < READERS; i++) {
            pthread_join(thread[i], NULL);
            CHECK(r[i].same, "round %d: other logits for reader %d", round, i);
            tblock_context_free(r[i].c);
        }
        tblock_close(m);
    }
}

/* Single rows of an embedding that is also the head are read. This head stands for one. */
static void rows_are_the_same(void)
{
    static float  before[VOCAB][D_MODEL], after[D_MODEL];
    tblock_model *m    = open_model();
    const Mat    *head = &m->weights.lm_head;
    Embedding     e    = { head->type, true, head->rows, head->k, head->w, head->late,
                           { 0, panel_count(head->rows) }, NULL };
    CHECK(e.late && !late_matrix_packed(e.late), "packed already");
    for (int i = 0; i < VOCAB; i++)
        embedding_row(&e, i, before[i], NULL);
    tblock_context_free(context_of(m, "file"));
    CHECK(late_matrix_packed(e.late), "not packed");
    for (int i = 0; i < VOCAB; i++) {
        embedding_row(&e, i, after, NULL);
        CHECK(memcmp(before[i], after, sizeof after) == 0, "row %d", i);
    }
    tblock_close(m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!expect()) {
        printf("FAIL packed at once: %s\n", err.msg);
        return 1;
    }
    TEST(the_first_pass_leaves_them_in_the_file);
    TEST(a_second_context_packs_them);
    TEST(others_read_meanwhile);
    TEST(rows_are_the_same);
    return TEST_END();
}
