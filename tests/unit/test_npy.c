/* tests/unit/test_npy.c: files of numpy, right and wrong. */
#include "test.h"

#include <unistd.h>

#include "format/npy.h"

static Error err;
static char  path[] = "/tmp/test_npy_XXXXXX";

/* A file of the given version, header text and bytes of data. */
static bool open_bytes(NpyFile *f, int version, const char *header, size_t n_data)
{
    unsigned char file[4096] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0};
    size_t        n = strlen(header), at = version == 1 ? 10 : 12;
    file[8] = (unsigned char)n;
    file[9] = (unsigned char)(n >> 8);
    memcpy(file + at, header, n);
    for (size_t i = 0; i < n_data; i++)
        file[at + n + i] = (unsigned char)i;
    err.msg[0] = 0;
    return file_write(path, file, at + n + n_data, NULL) && npy_open(f, path, "logits", &err);
}

static void good_headers_are_read(void)
{
    static const struct {
        const char *header; DType type; int rank; int64_t first; size_t n_bytes;
    } good[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", DT_F32, 2, 2, 24},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (5,), }\n", DT_I64, 1, 5, 40},
        {"{\"shape\":(3,1,2,),\"fortran_order\":False,\"descr\":\"<f8\"}", DT_F64, 3, 3, 48},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (7,)}\n", DT_U8, 1, 7, 7},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': ()}\n", DT_I32, 0, 0, 4},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (0, 3), }\n", DT_F16, 2, 0, 0},
    };
    for (int version = 1; version <= 3; version++)
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            NpyFile f;
            bool    ok = open_bytes(&f, version, good[i].header, good[i].n_bytes);
            CHECK(ok, "version %d, %s: %s", version, good[i].header, err.msg);
            if (!ok)
                continue;
            CHECK(f.tensor.dtype == good[i].type && f.tensor.rank == good[i].rank
                      && f.tensor.n_bytes == good[i].n_bytes,
                  "%s: %s of rank %d", good[i].header, dtype_name(f.tensor.dtype), f.tensor.rank);
            CHECK(f.tensor.rank == 0 || f.tensor.shape[0] == good[i].first,
                  "%s: first dimension %lld", good[i].header,
                  (long long)f.tensor.shape[0]);
            CHECK(f.tensor.n_bytes < 2 || ((const unsigned char *)f.tensor.data)[1] == 1,
                  "%s: other data", good[i].header);
            npy_close(&f);
        }
}

static void bad_headers_are_refused(void)
{
    static const struct { const char *header, *says; size_t n_data; } bad[] = {
        {"", "'{'", 0},
        {"{}", "no descr", 0},
        {"{'descr': '<f4', 'fortran_order': False}", "no shape", 0},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", "'>f4'", 4},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8'", 8},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (1,)}", "'|f4'", 4},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "not a structure", 4},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2)}", "fortran_order", 8},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (1, 2)}", "True or False", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", "expected 8 bytes", 7},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)}", "expected 8 bytes", 9},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}", "a dimension", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "overflows",
          8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "overflows",
          8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1)}", "at most 8", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}", "',' or ')'", 8},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2", "',' or ')'", 8},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "repeated", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "unknown key", 4},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "nothing after", 4},
        {"{'descr: '<f4', 'fortran_order': False, 'shape': (1,)}", "':'", 4},
        {"{'descr", "a key", 0},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        NpyFile f;
        bool    opened = open_bytes(&f, 1, bad[i].header, bad[i].n_data);
        CHECK(!opened && err.status == INPUT && strstr(err.msg, bad[i].says),
              "%s: expected '%s' in: %s", bad[i].header, bad[i].says,
              opened ? "nothing" : err.msg);
        if (opened)
            npy_close(&f);
    }
}

/* Every file cut short, at each of its bytes. */
static void cut_files_are_refused(void)
{
    static const unsigned char head[] =
        "\x93NUMPY\x01\0\x36\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}";
    unsigned char whole[sizeof head - 1 + 4];
    NpyFile       f;
    memcpy(whole, head, sizeof head - 1);
    whole[8] = (unsigned char)(sizeof head - 1 - 10);
    memset(whole + sizeof head - 1, 0, 4);
    CHECK(file_write(path, whole, sizeof whole, NULL) && npy_open(&f, path, "x", &err), "%s",
          err.msg);
    npy_close(&f);
    for (size_t n = 0; n < sizeof whole; n++) {
        bool opened = file_write(path, whole, n, NULL) && npy_open(&f, path, "x", &err);
        CHECK(!opened && err.status == INPUT, "%zu bytes: status %d", n, err.status);
    }
}

static void other_versions_are_refused(void)
{
    NpyFile f;
    for (int version = 0; version < 256; version++)
        if (version < 1 || version > 3)
            CHECK(!open_bytes(&f, version,
                              "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 4),
            "version %d", version);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    int fd = mkstemp(path);
    if (fd < 0)
        return 4;
    close(fd);
    TEST(good_headers_are_read);
    TEST(bad_headers_are_refused);
    TEST(cut_files_are_refused);
    TEST(other_versions_are_refused);
    unlink(path);
    return TEST_END();
}
