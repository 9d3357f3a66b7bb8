/* Names formats by their first bytes. */
#include "format/bytes.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REPLACED ", which GGUF replaced in August 2023: convert the model again from its source"

/* ggml wrote its magic as a little-endian number, so the letters are reversed. */
static const struct {
    const char *magic, *name;
} formats[] = {
    { "GGUF", "a GGUF file" },
    { "lmgg", "a GGML file (no version)" REPLACED },
    { "fmgg", "a GGMF file" REPLACED },
    { "tjgg", "a GGJT file" REPLACED },
    { "algg", "a GGLA file (a LoRA adapter)" REPLACED },
    { "PK\3\4", "a zip archive (a PyTorch checkpoint? give its folder)" },
    { "\x80\2", "a Python pickle (an old PyTorch checkpoint?)" },
    { "{", "a JSON text" },
    { "version https://git-lfs", "a Git LFS pointer: the file itself was not downloaded; run git "
                                 "lfs pull in its folder" },
    { "<!DOCTYPE html", "a web page" },
    { "<!doctype html", "a web page" },
    { "<html", "a web page" },
};

/* Is there a header length that readers accept, and a "{" after it? */
static bool is_safetensors(const unsigned char *bytes, size_t n)
{
    uint64_t length = 0;
    if (n > sizeof length)
        memcpy(&length, bytes, sizeof length);
    return length > 1 && length <= 100000000 && bytes[sizeof length] == '{';
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
    return NULL;
}
