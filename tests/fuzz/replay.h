/* tests/fuzz/replay.h: what a fuzzer's main does where there is no libFuzzer. Include after memory_file.h. */
#ifndef REPLAY_H
#define REPLAY_H

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

/* The bytes as they are, then each of the first n_changed of them changed in one bit, and in all. */
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

#endif
