/* tests/unit/gguf_bytes.h: GGUF files, sound or not, byte by byte. */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "format/gguf.h"

typedef struct Bytes {
    unsigned char at[8192];
    size_t        n;
} Bytes;

static inline void put(Bytes *b, const void *data, size_t n)
{
    if (n > sizeof b->at - b->n)
        abort();
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static inline void put_u8(Bytes *b, uint8_t v) { put(b, &v, sizeof v); }
static inline void put_u16(Bytes *b, uint16_t v) { put(b, &v, sizeof v); }
static inline void put_u32(Bytes *b, uint32_t v) { put(b, &v, sizeof v); }
static inline void put_u64(Bytes *b, uint64_t v) { put(b, &v, sizeof v); }
static inline void put_f32(Bytes *b, float v) { put(b, &v, sizeof v); }
static inline void put_f64(Bytes *b, double v) { put(b, &v, sizeof v); }

static inline void put_string(Bytes *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static inline void put_head(Bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_entries)
{
    *b = (Bytes){ 0 };
    put(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensors);
    put_u64(b, n_entries);
}

/* A key and the type of its value, which follows. */
static inline void put_key(Bytes *b, const char *key, GgufType type)
{
    put_string(b, key);
    put_u32(b, type);
}

static inline void put_array(Bytes *b, const char *key, GgufType item, uint64_t n)
{
    put_key(b, key, GGUF_ARRAY);
    put_u32(b, item);
    put_u64(b, n);
}

/* dimensions end at the first 0; the fastest first. type: ggml's number. */
static inline void put_tensor(Bytes *b, const char *name, const uint64_t dimensions[4],
                              uint32_t type, uint64_t offset)
{
    uint32_t rank = 0;
    while (rank < 4 && dimensions[rank])
        rank++;
    put_string(b, name);
    put_u32(b, rank);
    for (uint32_t i = 0; i < rank; i++)
        put_u64(b, dimensions[i]);
    put_u32(b, type);
    put_u64(b, offset);
}

#define DIMS(...) ((const uint64_t[4]){ __VA_ARGS__ })

/* n bytes of tensor data, 1, 2, 3 ... after the padding. */
static inline void put_data(Bytes *b, size_t alignment, size_t n)
{
    while (b->n % alignment)
        put_u8(b, 0);
    for (size_t i = 1; i <= n; i++)
        put_u8(b, (uint8_t)i);
}

/* A sound file with every kind of value and three tensors: a F32 [2, 3], b Q8_0 [2, 32], c F16
 * scalar; it ends with the last byte of data, so that each byte of it is needed. */
static inline void put_sound_file(Bytes *b, uint32_t version)
{
    put_head(b, version, 3, 18);
    put_key(b, "general.architecture", GGUF_STRING), put_string(b, "llama");
    put_key(b, "u8", GGUF_U8), put_u8(b, 200);
    put_key(b, "i8", GGUF_I8), put_u8(b, 0xFF);
    put_key(b, "u16", GGUF_U16), put_u16(b, 60000);
    put_key(b, "i16", GGUF_I16), put_u16(b, 0x8000);
    put_key(b, "u32", GGUF_U32), put_u32(b, 4000000000u);
    put_key(b, "i32", GGUF_I32), put_u32(b, (uint32_t)-5);
    put_key(b, "f32", GGUF_F32), put_f32(b, 1e-5f);
    put_key(b, "bool", GGUF_BOOL), put_u8(b, 1);
    put_key(b, "u64", GGUF_U64), put_u64(b, UINT64_MAX);
    put_key(b, "i64", GGUF_I64), put_u64(b, (uint64_t)INT64_MIN);
    put_key(b, "f64", GGUF_F64), put_f64(b, 0.1);
    put_array(b, "strings", GGUF_STRING, 3), put_string(b, "a"), put_string(b, ""),
        put_string(b, "caf\xC3\xA9");
    put_array(b, "floats", GGUF_F32, 2), put_f32(b, 0.5f), put_f32(b, -2);
    put_array(b, "ints", GGUF_I32, 2), put_u32(b, 7), put_u32(b, (uint32_t)-7);
    put_array(b, "longs", GGUF_U64, 2), put_u64(b, 1), put_u64(b, UINT64_C(1) << 40);
    put_array(b, "none", GGUF_STRING, 0);
    put_array(b, "nested", GGUF_ARRAY, 2), put_u32(b, GGUF_U8), put_u64(b, 1), put_u8(b, 1);
    put_u32(b, GGUF_STRING), put_u64(b, 1), put_string(b, "x");
    put_tensor(b, "c", DIMS(0), 1, 128);
    put_tensor(b, "a", DIMS(3, 2), 0, 0);
    put_tensor(b, "b", DIMS(32, 2), 8, 32);
    put_data(b, 32, 130);
}

static inline void write_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        abort();
}

#endif
