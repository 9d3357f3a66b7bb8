/* Any bytes are opened as a PyTorch checkpoint; where that succeeds, every byte of every tensor is readable.
 * tests/unit/test_pth.c replays it over its files. To search further:
 *   make config=asan CC=clang && clang -g -fsanitize=fuzzer,address -Isrc -D_GNU_SOURCE tests/fuzz/fuzz_pth.c build/asan/librooms.a
 *     $(pkg-config --libs libcjson libpcre2-8 libutf8proc nettle) -lm -o build/fuzz_pth && build/fuzz_pth build/corpus tests/data/pth */
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
