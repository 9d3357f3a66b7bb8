/* tests/fuzz/mutated.h: libFuzzer's mutator, or a test's rounds, of a target that has mutate_input
 * (a change that knows the structure of its input). Included last. */
#ifndef MUTATED_H
#define MUTATED_H

#ifdef FUZZER

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t max, unsigned seed)
{
    mutate_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    mutate_state += mutate_state == 0;
    for (uint64_t left = 1 + draw(4); left > 0; left--)
        n = mutate_input(bytes, n, max);
    return n;
}

#else

#include "replay.h"

enum { MUTATED_MAX = 1 << 20 };

/* The same rounds each time, of one input. */
static inline void replay_mutated(const uint8_t *bytes, size_t n, int rounds)
{
    static uint8_t changed[MUTATED_MAX];
    if (n > MUTATED_MAX)
        return;
    mutate_state = 1;
    for (int i = 0; i < rounds; i++) {
        size_t m = n;
        memcpy(changed, bytes, n);
        for (uint64_t left = 1 + draw(3); left > 0; left--)
            m = mutate_input(changed, m, MUTATED_MAX);
        LLVMFuzzerTestOneInput(changed, m);
    }
}

static int mutated_rounds;

/* Every file of tests/fuzz/corpus/TARGET, changed so often. One named seed-NAME is sound,
 * but for a NAME with a dot. */
static inline void the_corpus_changed_does_no_harm(void)
{
    char folder[256], path[1024];
    int  n = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", replay_target);
    DIR *d = opendir(folder);
    for (struct dirent *entry = NULL; d && (entry = readdir(d));) {
        FileMap m;
        Error   e = { 0 };
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        CHECK(file_map_open(&m, path, &e), "%s", e.msg);
        if (e.status)
            continue;
        int opened = small_run_opened;
        LLVMFuzzerTestOneInput(m.data, m.size);
        bool sound = strncmp(entry->d_name, "seed-", 5) == 0 && !strchr(entry->d_name, '.');
        CHECK(!sound || small_run_opened > opened,
              "%s: expected a sound model, which opens", entry->d_name);
        replay_mutated(m.data, m.size, mutated_rounds);
        file_map_close(&m);
        n++;
    }
    if (d)
        closedir(d);
    CHECK(n > 0, "%s: expected files", folder);
}

/* main of a target that has no cases of its own. */
static inline int mutated_main(int argc, char **argv, const char *target, int rounds)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    replay_target  = target;
    mutated_rounds = rounds;
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_corpus_changed_does_no_harm);
    return TEST_END();
}

#endif
#endif
