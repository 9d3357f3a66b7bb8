/* tests/unit/test_one_thread.c: a context that two threads use at once is noticed (ALONE). In a
 * debug build the library's own functions are tried, in others a function of this file. */
#ifdef TBLOCK_DEBUG
enum { LIBRARY = 1 };
#else
#define TBLOCK_DEBUG
enum { LIBRARY = 0 };
#endif
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api.h"
#include "tblock_tools.h"
#include "temp_folder.h"

static Error           err;
static tblock_context *context;
static int             calls;

/* A function that changes a context. Inside, another thread does the same, or nobody. */
static void *change(void *other)
{
    pthread_t thread;
    ALONE(context);
    calls++;
    if (other && pthread_create(&thread, NULL, change, NULL) == 0)
        pthread_join(thread, NULL);
    return NULL;
}

static void *rewind_it(void *unused)
{
    tblock_seq_rewind(context, 0, 0, NULL);
    return unused;
}

static void observed(void *user, const char *name, size_t first, int n_tok, const float *x,
                     size_t stride)
{
    pthread_t thread;
    (void)name, (void)first, (void)n_tok, (void)x, (void)stride;
    if (user && pthread_create(&thread, NULL, rewind_it, NULL) == 0)
        pthread_join(thread, NULL);
    calls++;
}

static void one_call(bool another)
{
    const tblock_item item = { .seq = 0, .pos = 0, .token = 1 };
    if (!LIBRARY) {
        change(another ? &calls : NULL);
        return;
    }
    tblock_observe(context, observed, another ? &calls : NULL);
    CHECK(tblock_decode(context, &item, 1, &err), "%s", err.msg);
    CHECK(tblock_seq_rewind(context, 0, 0, &err), "%s", err.msg);
}

static void another_thread_within_a_call_is_the_end(void)
{
    int   pipes[2], status = 0;
    char  said[300] = "";
    CHECK(pipe(pipes) == 0, "no pipe");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        one_call(true);
        _exit(0);
    }
    close(pipes[1]);
    CHECK(waitpid(child, &status, 0) == child, "no child");
    ssize_t n = read(pipes[0], said, sizeof said - 1);
    close(pipes[0]);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && n > 0
              && strstr(said, LIBRARY ? "tblock_seq_rewind: another thread" : "change: another"),
          "status %d, '%s'", status, said);
}

static void *calls_of_this_thread(void *unused)
{
    one_call(false);
    return unused;
}

static void threads_may_take_turns(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        one_call(false);
        CHECK(pthread_create(&thread, NULL, calls_of_this_thread, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    CHECK(calls >= 6 && context->owner_depth == 0 && context->owner == 0, "%d calls", calls);
}

static void calls_within_calls_are_one_threads(void)
{
    ALONE(context);
    one_call(false);
    CHECK(context->owner_depth == 1 && context->owner != 0, "depth %d", context->owner_depth);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    tblock_synth_options o = { .type = "f32" };
    make_folder();
    tblock_model *m = write_config("{\"d_model\": 16, \"n_layers\": 1, \"heads\": 2, "
                                   "\"d_ff\": 16, \"vocab_size\": 20, \"n_ctx\": 32}")
            && tblock_synth(in_folder("config.json"), in_folder("m.bin"), &o, &err)
        ? tblock_open(in_folder("m.bin"), NULL, &err)
        : NULL;
    context = m ? tblock_context_new(m, &(tblock_context_options){ .threads = 1 }, &err) : NULL;
    if (!context)
        printf("FAIL context: %s\n", err.msg);
    else {
        TEST(another_thread_within_a_call_is_the_end);
        TEST(threads_may_take_turns);
        TEST(calls_within_calls_are_one_threads);
    }
    tblock_context_free(context);
    tblock_close(m);
    unlink(in_folder("config.json")), unlink(in_folder("m.bin"));
    rmdir(folder);
    return context ? TEST_END() : 1;
}
