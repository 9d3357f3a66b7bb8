/* tests/unit/test_weight_pages.c: weights of a mapped file move into huge pages, and nobody who
 * reads them sees it. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "base/file.h"
#include "base/memory.h"
#include "tblock_tools.h"
#include "temp_folder.h"

enum { VOCAB = 2048, N_CTX = 600, STEPS = 12 };

static Error    err;
static uint64_t expected[STEPS]; /* hashes of the logits after each token */
static bool     have_huge;

/* A model of 40 MB whose file lies in the page cache in small pages: written 4 KB at a time. */
static bool make_model(void)
{
    tblock_synth_options o = { .type = "q8", .seed = 5 };
    char                 page[4096];
    size_t               n;
    bool                 good =
        write_config("{\"d_model\": 512, \"n_layers\": 12, \"heads\": 8, \"d_ff\": 1536, "
                     "\"vocab_size\": 2048, \"n_ctx\": 600}")
        && tblock_synth(in_folder("config.json"), in_folder("first.bin"), &o, &err);
    FILE *from = good ? fopen(in_folder("first.bin"), "r") : NULL,
         *to   = good ? fopen(in_folder("model.bin"), "w") : NULL;
    if (to)
        setvbuf(to, NULL, _IOFBF, sizeof page);
    while (from && to && (n = fread(page, 1, sizeof page, from)) > 0)
        good &= fwrite(page, 1, n, to) == n;
    if (from)
        fclose(from);
    return to && fclose(to) == 0 && good;
}

static tblock_model *open_model(void)
{
    tblock_model *m = tblock_open(in_folder("model.bin"), NULL, &err);
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

static bool step(tblock_context *c, int pos, uint64_t *hash)
{
    tblock_item item = { 0, pos, pos * 7 % VOCAB, true };
    if (!tblock_decode(c, &item, 1, &err))
        return false;
    *hash = tblock_hash_floats(tblock_logits(c, 0), VOCAB);
    return true;
}

/* Are the logits of the first tokens those of weights that stay in the file? */
static bool as_expected(tblock_context *c)
{
    bool     same = tblock_seq_rewind(c, 0, 0, &err);
    uint64_t hash;
    for (int i = 0; same && i < STEPS; i++)
        same = step(c, i, &hash) && hash == expected[i];
    return same;
}

static size_t made(const tblock_model *m)
{
    tblock_model_info i;
    tblock_model_describe(m, &i);
    return i.made_bytes;
}

static bool can_move(void)
{
    char *memory = pages_map(HUGE_PAGE);
    if (memory)
        memset(memory, 1, HUGE_PAGE);
    bool can = memory && pages_huge_share(memory, HUGE_PAGE) > 0.5;
    pages_unmap(memory, HUGE_PAGE);
    return can;
}

static void they_stay_in_the_file(void)
{
    tblock_model   *m = open_model();
    tblock_context *c = m ? context_of(m, "file") : NULL;
    for (int i = 0; c && i < 200; i++) {
        uint64_t hash;
        CHECK(step(c, i, i < STEPS ? &expected[i] : &hash), "%s", err.msg);
    }
    CHECK(m && made(m) == 0, "%zu bytes of its own", made(m));
    tblock_context_free(c);
    tblock_close(m);
}

/* The sample of a file that nobody read says what the kernel says of one that was read. */
static void the_page_cache_is_sampled(void)
{
    FileMap f;
    if (!file_map_open(&f, in_folder("model.bin"), &err)) {
        CHECK(false, "%s", err.msg);
        return;
    }
    double        sampled = pages_cache_share(f.data, f.size);
    unsigned char all     = 0;
    for (size_t i = 0; i < f.size; i += 4096)
        all |= ((const unsigned char *)f.data)[i];
    double read = pages_huge_share(f.data, f.size);
    CHECK(all && sampled > read - 0.2 && sampled < read + 0.2, "%.3f sampled, %.3f", sampled,
          read);
    CHECK(pages_cache_share(f.data, HUGE_PAGE - 1) < 0, "less than a huge page");
    file_map_close(&f);
}

static void they_move_at_once(void)
{
    tblock_model   *m     = open_model();
    tblock_context *c     = m ? context_of(m, "huge") : NULL;
    double          share = m ? tblock_huge_share(m) : 0;
    CHECK(c && as_expected(c), "other logits: %s", err.msg);
    CHECK(!have_huge || share > 0.9, "%.3f in huge pages", share);
    CHECK(made(m) % HUGE_PAGE == 0 && made(m) <= (size_t)42e6, "%zu bytes", made(m));
    tblock_context_free(c);
    c = context_of(m, "file"); /* they stay moved */
    CHECK(c && as_expected(c) && tblock_huge_share(m) > share - 0.1, "other logits");
    tblock_context_free(c);
    tblock_close(m);
    if (!have_huge)
        SKIP("no huge pages here");
}

/* One more generation of so many tokens, without end tokens. */
static void generate(tblock_context *c, int n)
{
    int32_t            id = 1;
    tblock_generation *g  = tblock_generation_open(
        c, &(tblock_generation_options){ .ids = &id, .n_ids = 1, .max_tokens = n, .stop_ids = &id },
        &err);
    tblock_generation_info now = { 0 };
    CHECK(g, "%s", err.msg);
    while (g && now.end == TBLOCK_GOES_ON && tblock_advance(c, &g, 1, 0, &err))
        tblock_generation_describe(g, &now);
    CHECK(now.end == TBLOCK_END_LENGTH, "end %d: %s", now.end, err.msg);
    tblock_generation_close(g);
}

static void a_long_generation_moves_them(void)
{
    tblock_model   *m = open_model();
    tblock_context *c = m ? context_of(m, NULL) : NULL;
    if (c)
        generate(c, 40);
    CHECK(m && made(m) == 0, "moved for 40 tokens");
    if (c)
        generate(c, 130);
    CHECK(!have_huge || tblock_huge_share(m) > 0.9, "%.3f moved for 130 tokens",
          tblock_huge_share(m));
    CHECK(c && as_expected(c), "other logits");
    tblock_context_free(c);
    tblock_close(m);
}

static void many_steps_move_them(void)
{
    tblock_model   *m = open_model();
    tblock_context *c = m ? context_of(m, "auto") : NULL;
    uint64_t        hash;
    for (int i = 0; c && i < 90; i++)
        CHECK(step(c, i, &hash), "%s", err.msg);
    CHECK(m && made(m) == 0, "moved after 90 steps");
    for (int i = 90; c && i < 130; i++)
        CHECK(step(c, i, &hash), "%s", err.msg);
    CHECK(!have_huge || tblock_huge_share(m) > 0.9, "%.3f moved after 130 steps",
          tblock_huge_share(m));
    CHECK(c && as_expected(c), "other logits");
    tblock_context_free(c);
    tblock_close(m);
}

typedef struct Reader { tblock_context *c; atomic_bool *over; bool same; } Reader;

static void *keep_reading(void *arg)
{
    Reader *r = arg;
    r->same   = true;
    do
        r->same = r->same && as_expected(r->c);
    while (!atomic_load(r->over));
    return NULL;
}

static void others_read_and_move_meanwhile(void)
{
    tblock_model *m = open_model();
    atomic_bool   over;
    Reader        r[2];
    pthread_t     thread[2];
    atomic_init(&over, false);
    for (int i = 0; i < 2; i++) {
        r[i] = (Reader){ context_of(m, "file"), &over, false };
        CHECK(r[i].c && pthread_create(&thread[i], NULL, keep_reading, &r[i]) == 0, "no thread");
    }
    usleep(20000);
    tblock_context *c = context_of(m, "huge");
    CHECK(c && as_expected(c), "other logits for the one that moves them");
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        CHECK(r[i].same, "other logits for reader %d", i);
        tblock_context_free(r[i].c);
    }
    tblock_context_free(c);
    tblock_close(m);
}

/* Forked when some of them have moved: the child goes on with it, and so does the parent. */
static void a_fork_reads_and_moves_them(void)
{
    tblock_model   *m = open_model();
    tblock_context *c = m ? context_of(m, "file") : NULL;
    int             status = 1;
    if (m && m->weights.pages)
        weight_pages_move(m->weights.pages, 6);
    pid_t child = c ? fork() : -1;
    if (child == 0) {
        bool same = as_expected(c);
        tblock_context *again = context_of(m, "huge");
        _exit(same && again && as_expected(again) ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "status %d", status);
    CHECK(c && as_expected(c), "other logits");
    tblock_context_free(c);
    tblock_close(m);
}

static void locked_weights_stay(void)
{
    tblock_model *m =
        tblock_open(in_folder("model.bin"), &(tblock_open_options){ .mlock = true }, &err);
    if (!m) {
        SKIP("%s", err.msg);
        return;
    }
    tblock_context *c = context_of(m, "huge");
    CHECK(c && as_expected(c) && made(m) == 0, "%zu bytes moved", made(m));
    tblock_context_free(c);
    tblock_close(m);
}

static void other_names_are_refused(void)
{
    tblock_model *m = open_model();
    CHECK(m && !tblock_context_new(m, &(tblock_context_options){ .pages = "large" }, &err)
              && err.status == TBLOCK_USAGE
              && strstr(err.msg, "pages: expected auto, file or huge, found 'large'"),
          "%s", err.msg);
    tblock_close(m);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    if (!make_folder() || !make_model()) {
        printf("FAIL model: %s\n", err.msg);
        return 1;
    }
    have_huge = can_move();
    TEST(they_stay_in_the_file);
    TEST(the_page_cache_is_sampled);
    TEST(they_move_at_once);
    TEST(a_long_generation_moves_them);
    TEST(many_steps_move_them);
    TEST(others_read_and_move_meanwhile);
    TEST(a_fork_reads_and_moves_them);
    TEST(locked_weights_stay);
    TEST(other_names_are_refused);
    unlink(in_folder("config.json"));
    unlink(in_folder("first.bin"));
    unlink(in_folder("model.bin"));
    rmdir(folder);
    return TEST_END();
}
