/* tests/fuzz/fuzz_pth.c: any bytes as a PyTorch checkpoint. Where it opens, every byte of every
 * tensor is readable. As a test it replays the recorded files, each with every byte changed;
 * FILE... replays those. */
#include "format/pth.h"
#include "memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    TensorFile f;
    Error      e = { 0 };
    bool       ok = pth_open(&f, memory_file(bytes, n), &e);
    if (!ok && (e.status == 0 || e.msg[0] == 0))
        abort(); /* an error says so */
    volatile unsigned char sum = 0;
    for (int i = 0; ok && i < f.n_tensors; i++)
        for (size_t k = 0; k < f.tensors[i].n_bytes; k++)
            sum = (unsigned char)(sum + ((const unsigned char *)f.tensors[i].data)[k]);
    tensor_file_close(&f);
    return 0;
}

#ifndef FUZZER

#include <glob.h>
#include "replay.h"

static void changed_bytes_do_no_harm(void)
{
    glob_t g = { 0 };
    CHECK(glob("tests/data/pth/*.pth", 0, NULL, &g) == 0 && g.gl_pathc >= 12, "%zu files",
          (size_t)g.gl_pathc);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        char  *bytes = NULL;
        size_t n = 0;
        Error  e = { 0 };
        CHECK(file_read(g.gl_pathv[i], 1 << 20, &bytes, &n, &e), "%s", e.msg);
        replay_changed((uint8_t *)bytes, n, n);
        free(bytes);
    }
    globfree(&g);
}

int main(int argc, char **argv)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    TEST_MAIN_ARGS(argc, argv);
    replay_target = "pth";
    TEST(the_corpus_does_no_harm);
    TEST(changed_bytes_do_no_harm);
    return TEST_END();
}

#endif
