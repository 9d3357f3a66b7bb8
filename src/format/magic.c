/* Names formats by their first bytes. */
#include "format/bytes.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#define UNPACK ": unpack it and give the model that is in it"
#define WEB_PAGE "a web page saved in place of the file: download the file itself, whose address " \
                 "has /resolve/ in it, or use tblock pull ORG/NAME"
#define REPLACED ", which GGUF replaced in August 2023: convert the model again from its source"

/* ggml wrote its magic as a little-endian number, so the letters are reversed. */
typedef struct Magic { const char *magic, *name; } Magic;
static const Magic formats[] = {
    { "GGUF", "a GGUF file" },
    { "lmgg", "a GGML file (no version)" REPLACED },
    { "fmgg", "a GGMF file" REPLACED },
    { "tjgg", "a GGJT file" REPLACED },
    { "algg", "a GGLA file (a LoRA adapter)" REPLACED },
    { "PK\3\4", "a zip archive (a PyTorch checkpoint? give its folder; else unpack it)" },
    { "\x1F\x8B", "a gzip archive" UNPACK },
    { "BZh", "a bzip2 archive" UNPACK },
    { "\xFD" "7zXZ", "an xz archive" UNPACK },
    { "\x28\xB5\x2F\xFD", "a zstd archive" UNPACK },
    { "7z\xBC\xAF", "a 7z archive" UNPACK },
    { "\x80\2", "a Python pickle (an old PyTorch checkpoint?)" },
    { "{", "a JSON text" },
};
/* What a failed download leaves: letters in either case, after white space. */
static const Magic failed[] = {
    { "version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded; run git "
                                 "lfs pull in its folder" },
    { "<!doctype html", WEB_PAGE },
    { "<html", WEB_PAGE },
    { "<?xml", "an XML text, the answer of a server: download it again" },
};

static const char *find_failed(const char *text, size_t n)
{
    while (n > 0 && *text && strchr(" \t\r\n", *text))
        text++, n--;
    for (size_t i = 0; i < sizeof failed / sizeof *failed; i++) {
        const size_t length = strlen(failed[i].magic);
        if (n >= length && strncasecmp(text, failed[i].magic, length) == 0)
            return failed[i].name;
    }
    return NULL;
}

/* Is there a header length that readers accept, and a "{" after it? */
static bool is_safetensors(const unsigned char *bytes, size_t n)
{
    uint64_t length = 0;
    if (n > sizeof length)
        memcpy(&length, bytes, sizeof length);
    return length > 1 && length <= 100000000 && bytes[sizeof length] == '{';
}

/* A field of ONNX's protobuf, ir_version, and the next one: producer_name, graph or opset_import.
 * Source: onnx.proto. */
static bool is_onnx(const unsigned char *bytes, size_t n)
{
    return n > 16 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32
        && (bytes[2] == 0x12 || bytes[2] == 0x3A || bytes[2] == 0x42);
}

bool format_downloaded(const char *path, const void *data, size_t n, Error *err)
{
    const char *found = find_failed(data, n);
    return !found || fail(err, INPUT, "%s: expected the file itself, found %s", path, found);
}

const char *format_of(const void *data, size_t n)
{
    /* This test comes first, since the length may look like another format's magic. */
    if (is_safetensors(data, n))
        return "a safetensors file";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t length = strlen(formats[i].magic);
        if (n >= length && memcmp(data, formats[i].magic, length) == 0)
            return formats[i].name;
    }
    if (n > 262 && memcmp((const char *)data + 257, "ustar", 5) == 0)
        return "a tar archive" UNPACK;
    return is_onnx(data, n) ? "an ONNX model, which tblock does not read: take safetensors or GGUF"
                            : find_failed(data, n);
}
