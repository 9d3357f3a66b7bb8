/* tests/fuzz/replay.h: what a fuzzer's main does where there is no libFuzzer. */
#ifndef REPLAY_H
#define REPLAY_H

#include <dirent.h>
#include "base/file.h"
#include "../unit/test.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int    replay_n;
static char **replay_paths;

static inline bool replay_file(const char *path)
{
    FileMap m;
    Error   e = { 0 };
    if (!file_map_open(&m, path, &e))
        return false;
    LLVMFuzzerTestOneInput(m.data, m.size);
    file_map_close(&m);
    return true;
}

static inline void named_files_are_replayed(void)
{
    for (int i = 0; i < replay_n; i++)
        CHECK(replay_file(replay_paths[i]), "cannot read %s", replay_paths[i]);
}

/* Arguments other than --list are files to replay, in place of the cases. */
static inline bool replay_arguments(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--list") == 0)
        return false;
    replay_n = argc - 1;
    replay_paths = argv + 1;
    TEST_MAIN_ARGS(1, argv);
    TEST(named_files_are_replayed);
    return true;
}

/* The bytes as they are, then each of the first n_changed of them changed in one bit, and in
 * all. */
static inline void replay_changed(uint8_t *bytes, size_t n, size_t n_changed)
{
    LLVMFuzzerTestOneInput(bytes, n);
    for (size_t i = 0; i < n_changed; i++) {
        uint8_t kept = bytes[i];
        bytes[i] = kept ^ 1;
        LLVMFuzzerTestOneInput(bytes, n);
        bytes[i] = (uint8_t)~kept;
        LLVMFuzzerTestOneInput(bytes, n);
        bytes[i] = kept;
    }
}

/* ---- The regression corpus ------------------------------------------------------------------- */

enum { REPLAY_CHANGED = 3000 }; /* bytes of a small file of which each is changed */

static const char *replay_target;

/* Every file of tests/fuzz/corpus/TARGET as it is, and the small ones with each byte changed. */
static inline void the_corpus_does_no_harm(void)
{
    char folder[256], path[1024];
    int  n = 0;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", replay_target);
    DIR *d = opendir(folder);
    for (struct dirent *entry = NULL; d && (entry = readdir(d));) {
        char  *bytes = NULL;
        size_t size = 0;
        Error  e = { 0 };
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        CHECK(file_read(path, 1 << 24, &bytes, &size, &e), "%s", e.msg);
        if (bytes)
            replay_changed((uint8_t *)bytes, size, size < REPLAY_CHANGED ? size : 0);
        free(bytes);
        n++;
    }
    if (d)
        closedir(d);
    CHECK(n > 0, "%s: expected files", folder);
}

/* main of a target that has no cases of its own. */
static inline int replay_main(int argc, char **argv, const char *target)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    replay_target = target;
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_corpus_does_no_harm);
    return TEST_END();
}

#endif
