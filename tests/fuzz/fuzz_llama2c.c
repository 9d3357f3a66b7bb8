/* tests/fuzz/fuzz_llama2c.c: any bytes as a llama2.c checkpoint. Where it opens, every element of
 * every tensor is readable. As a test it replays the smallest model of each version with every byte
 * of its header changed; FILE... replays those. */
#include "format/llama2c.h"
#include "memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Llama2cFile f;
    Error       e = { 0 };
    float       some[64];
    bool        ok = llama2c_open(&f, memory_file(bytes, n), &e);
    if (ok ? !llama2c_is(bytes, n, n) : e.status == 0 || e.msg[0] == 0)
        abort(); /* what opens is recognised; an error says so */
    for (int i = 0; ok && i < f.n_tensors; i++)
        for (size_t k = 0; k < f.tensors[i].n_elements; k += 64)
            llama2c_read(&f.tensors[i], k,
                         f.tensors[i].n_elements - k < 64 ? f.tensors[i].n_elements - k : 64, some);
    if (ok)
        (void)llama2c_rope_agrees(&f);
    llama2c_close(&f);
    return 0;
}

#ifndef FUZZER

#include "replay.h"

/* dim 2, everything else 1, group size 2; all values 0. Its bytes by hand: 30 elements, 24 of them
 * in matrices. */
static size_t smallest(uint8_t *bytes, int version)
{
    static const int32_t dims[] = { 2, 1, 1, 1, 1, 1, 1 };
    static const size_t  sizes[] = { 28 + (30 + 2) * 4, 256 + 30 * 4, 256 + 6 * 4 + 24 + 12 * 4 };
    memset(bytes, 0, 512);
    memcpy(bytes + (version ? 8 : 0), dims, sizeof dims);
    if (version) {
        memcpy(bytes, "24ka", 4);
        bytes[4] = (uint8_t)version;
        bytes[36] = 1;
        bytes[37] = 2;
    }
    return sizes[version];
}

static void changed_headers_do_no_harm(void)
{
    static uint8_t bytes[1 << 12];
    for (int version = 0; version < 3; version++) {
        Llama2cFile f;
        Error       e = { 0 };
        size_t      n = smallest(bytes, version);
        CHECK(llama2c_open(&f, memory_file(bytes, n), &e) && f.n_tensors == 11, "%s", e.msg);
        llama2c_close(&f);
        replay_changed(bytes, n, n);
        /* more room, so that other sizes open too */
        for (size_t longer = n; longer < sizeof bytes; longer += 160)
            replay_changed(bytes, longer, version ? 44 : 28);
    }
}

int main(int argc, char **argv)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    TEST_MAIN_ARGS(argc, argv);
    replay_target = "llama2c";
    TEST(the_corpus_does_no_harm);
    TEST(changed_headers_do_no_harm);
    return TEST_END();
}

#endif
