/* Any bytes are opened as a llama2.c checkpoint; where that succeeds, every element of every tensor is readable.
 * tests/unit/test_llama2c.c replays it over its files. To search further, as fuzz_pth.c says. */
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
            llama2c_read(&f.tensors[i], k, f.tensors[i].n_elements - k < 64 ? f.tensors[i].n_elements - k : 64, some);
    if (ok)
        (void)llama2c_rope_agrees(&f);
    llama2c_close(&f);
    return 0;
}
