/* tests/unit/test_scheduler.c: the scheduler's books. What it schedules is in tests/serve. Without
 * libmicrohttpd there is none. */
#include "test.h"

#if defined(HAVE_MICROHTTPD)
#include "serve/scheduler.c" /* what is inside one */
#include "../fuzz/small_server.h"

static int32_t ids[] = { 1, 2, 3 };

/* A job of so many texts, the last in the server's list. */
static Job *add_job(Server *s, size_t n)
{
    Job *j = calloc(1, sizeof *j);
    claim(j && job_choices(j, 1, n));
    j->server            = s;
    j->prompt[0].n       = 3;
    j->prompt[0].ids     = ids;
    j->options.max_tokens = 5;
    *(s->last ? &s->last->next : &s->first) = j;
    s->last = j;
    s->n_jobs++;
    s->counts.waiting += n;
    return j;
}

static void a_broken_invariant_shows(void)
{
    Server    *s = small_server();
    bool       taken[4] = { false };
    uint64_t   used[4] = { 0 };
    Scheduler  k = { .s = s, .taken = taken, .used = used };
    Job       *two = add_job(s, 2), *one = add_job(s, 1);
    Choice    *runs = &two->choice[0], *waits = &two->choice[1];
    CHECK(scheduler_is_sound(&k), "two jobs that wait");
    CHECK(open_choice(&k, runs), "%s", two->why);
    const int32_t seq = info_of(runs).seq;
    BREAKS(scheduler_is_sound(&k), s->first, one);
    BREAKS(scheduler_is_sound(&k), s->last, two);
    BREAKS(scheduler_is_sound(&k), one->next, two);
    BREAKS(scheduler_is_sound(&k), one->ended, true);
    BREAKS(scheduler_is_sound(&k), two->n_open, 1);
    BREAKS(scheduler_is_sound(&k), two->n_running, 2);
    BREAKS(scheduler_is_sound(&k), waits->end, TBLOCK_END_TEXT);
    BREAKS(scheduler_is_sound(&k), waits->generation, runs->generation);
    BREAKS(scheduler_is_sound(&k), runs->end, TBLOCK_END_FAILED);
    BREAKS(scheduler_is_sound(&k), s->counts.running, 0);
    BREAKS(scheduler_is_sound(&k), s->counts.waiting, 3);
    BREAKS(scheduler_is_sound(&k), taken[seq], false);
    BREAKS(scheduler_is_sound(&k), taken[(seq + 1) % 4], true);
    BREAKS(scheduler_is_sound(&k), small_options.parallel, 0);
    release_sequence(&k, runs);
    s->counts.waiting++;
    CHECK(scheduler_is_sound(&k), "it gave way");
    one->prompt[0].ids = two->prompt[0].ids = NULL;
    job_free(one);
    job_free(two);
    s->first = s->last = NULL;
    s->n_jobs = s->counts.waiting = 0;
}
#else
static void a_broken_invariant_shows(void) { SKIP("no libmicrohttpd"); }
#endif

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_broken_invariant_shows);
    return TEST_END();
}
