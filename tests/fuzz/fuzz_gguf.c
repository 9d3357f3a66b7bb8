/* tests/fuzz/fuzz_gguf.c: any bytes as a GGUF file. Whatever opens must be sound, and all of its
 * values and tensors readable. As a test it replays the files of the shared folder and mutations of
 * a sound file; FILE... replays those. */
#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../unit/gguf_bytes.h"
#include "../unit/test.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int descriptor = -1; /* the file of all inputs, in memory */

static bool set_input(const uint8_t *data, size_t n)
{
    if (descriptor < 0)
        descriptor = memfd_create("gguf", MFD_CLOEXEC);
    for (size_t at = 0; descriptor >= 0 && at < n;) {
        ssize_t written = pwrite(descriptor, data + at, n - at, (off_t)at);
        if (written <= 0)
            return false;
        at += (size_t)written;
    }
    return descriptor >= 0 && ftruncate(descriptor, (off_t)n) == 0;
}

/* Read every byte, so that the sanitizers see them. */
static unsigned sum_bytes(const void *data, size_t n)
{
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((const unsigned char *)data)[i];
    return sum;
}

static unsigned read_entry(const GgufMeta *m, const GgufEntry *e)
{
    char        key[64];
    int64_t     integer;
    double      number;
    bool        yes;
    GgufString  s, *strings = NULL;
    int32_t    *ints = NULL;
    float      *floats = NULL;
    size_t      n;
    unsigned    sum = sum_bytes(e->key.bytes, e->key.n);
    /* a cut key is absent or another */
    snprintf(key, sizeof key, "%.*s", (int)(e->key.n < 60 ? e->key.n : 60), e->key.bytes);
    if (gguf_read_string(m, key, &s, NULL))
        sum += sum_bytes(s.bytes, s.n);
    sum += gguf_read_int(m, key, -1, INT64_MAX, &integer, NULL);
    sum += gguf_read_number(m, key, &number, NULL);
    sum += gguf_read_bool(m, key, &yes, NULL);
    if (gguf_read_strings(m, key, &strings, &n, NULL))
        for (size_t i = 0; i < n; i++)
            sum += sum_bytes(strings[i].bytes, strings[i].n);
    if (gguf_read_ints(m, key, &ints, &n, NULL))
        sum += sum_bytes(ints, n * sizeof *ints);
    if (gguf_read_floats(m, key, &floats, &n, NULL))
        sum += sum_bytes(floats, n * sizeof *floats);
    free(strings);
    free(ints);
    free(floats);
    return sum;
}

/* Aborts where a tensor is not what gguf.h promises. */
static unsigned read_tensor(const GgufFile *f, const Tensor *t)
{
    const GgufPart *p = gguf_part_of(f, t);
    float           block[256];
    bool            inside = t->offset >= p->data_offset && t->offset <= p->map.size
        && t->n_bytes <= p->map.size - t->offset;
    if (!inside || t->data != p->map.data + t->offset || gguf_tensor(f, t->name) != t
        || t->n_elements == 0)
        abort();
    if (dtype_blocked(t->dtype))
        blocks_to_f32(dtype_block_type(t->dtype), block, t->data, dtype_block_elements(t->dtype));
    return sum_bytes(t->data, t->n_bytes) + sum_bytes(t->name, strlen(t->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static volatile unsigned sink;
    char     path[64];
    GgufFile f;
    Error    e = { 0 };
    if (!set_input(data, n))
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (!gguf_open(&f, path, &e)) {
        if (!e.msg[0] || e.status != INPUT)
            abort();
        return 0;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < f.meta->n_entries; i++)
        sum += read_entry(f.meta, &f.meta->entry[i]);
    for (size_t i = 0; i < f.n_tensors; i++)
        sum += read_tensor(&f, &f.tensors[i]);
    sink = sum;
    gguf_close(&f);
    return (int)(sink & 0);
}

#ifndef FUZZER

#include "../unit/test_data.h"
#include "replay.h"

static int replay_folder(const char *name)
{
    char folder[512], path[1024];
    int  n = 0;
    DIR *d = test_data(folder, name) ? opendir(folder) : NULL;
    for (struct dirent *entry = NULL; d && (entry = readdir(d));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        n += entry->d_name[0] != '.' && replay_file(path);
    }
    if (d)
        closedir(d);
    return n;
}

static void gguf_seeds_do_no_harm(void)
{
    if (replay_folder("data/gguf-malformed") + replay_folder("data/gguf-old")
            + replay_folder("data/gguf-small")
        == 0)
        SKIP("no data");
}

static void mutations_of_a_sound_file_do_no_harm(void)
{
    Bytes    whole, b;
    uint32_t state = 7;
    put_sound_file(&whole, 3);
    for (int round = 0; round < 20000; round++) {
        b = whole;
        for (int k = 0; k <= round % 4; k++) {
            state = state * 1664525 + 1013904223;
            size_t at = (state >> 8) % b.n;
            state = state * 1664525 + 1013904223;
            b.at[at] = state & 0x100 ? (unsigned char)(state >> 20)
                                     : (unsigned char)(b.at[at] + (state & 0x200 ? 1 : -1));
        }
        LLVMFuzzerTestOneInput(b.at, state & 0x400 ? b.n : (state >> 12) % b.n);
    }
}

int main(int argc, char **argv)
{
    if (replay_arguments(argc, argv))
        return TEST_END();
    replay_target = "gguf";
    TEST_MAIN_ARGS(argc, argv);
    TEST(the_corpus_does_no_harm);
    TEST(gguf_seeds_do_no_harm);
    TEST(mutations_of_a_sound_file_do_no_harm);
    return TEST_END();
}

#endif
