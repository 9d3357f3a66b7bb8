/* tests/fuzz/packed_folder.h: several files in one input, and what changes one of them. Each is
 * the number of its name below, its length (u32), its bytes; the last one may be cut. */
#ifndef PACKED_FOLDER_H
#define PACKED_FOLDER_H

#include "memory_folder.h"
#include "mutate_gguf.h"

/* make_seeds.py reads this list. */
static const char *const packed_names[] = {
    "config.json", "model.safetensors", "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json",
    "tokenizer_config.json", "generation_config.json", "modules.json", "1_Pooling/config.json",
    "2_Dense/config.json", "2_Dense/model.safetensors", "config_sentence_transformers.json",
    "sentence_bert_config.json", "params.json", "consolidated.00.pth", "tokenizer.model",
    "model.gguf", "model-00001-of-00002.gguf", "model-00002-of-00002.gguf", "stories.bin",
    "tokenizer.bin", "chat_template.jinja", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt",
};
enum { PACKED_NAMES = sizeof packed_names / sizeof packed_names[0] };

typedef struct PackedFile { int name; size_t at, n; } PackedFile; /* its bytes, and how many */

/* The next file of the input; *at: where it begins, then where it ends. */
static inline bool packed_next(const uint8_t *bytes, size_t n, size_t *at, PackedFile *f)
{
    uint32_t length;
    if (*at > n || n - *at < 5)
        return false;
    memcpy(&length, bytes + *at + 1, 4);
    *f  = (PackedFile){ bytes[*at] % PACKED_NAMES, *at + 5, length };
    f->n = f->n < n - f->at ? f->n : n - f->at;
    *at = f->at + f->n;
    return true;
}

/* The folder has these files and no others; returns the path of the first one. */
static inline const char *packed_folder_put(const uint8_t *bytes, size_t n)
{
    static bool there[PACKED_NAMES];
    bool        now[PACKED_NAMES] = { false };
    int         first = -1;
    PackedFile  f;
    for (size_t at = 0; packed_next(bytes, n, &at, &f);) {
        memory_folder_put(packed_names[f.name], bytes + f.at, f.n);
        now[f.name] = there[f.name] = true;
        first = first < 0 ? f.name : first;
    }
    for (int i = 0; i < PACKED_NAMES; i++)
        if (there[i] && !now[i]) {
            memory_folder_put(packed_names[i], NULL, 0);
            there[i] = false;
        }
    return memory_path(first < 0 ? "none" : packed_names[first]);
}

static inline size_t mutate_file(const char *name, uint8_t *bytes, size_t n, size_t max)
{
    const char *end = strrchr(name, '.');
    return strcmp(end, ".json") == 0          ? mutate_json(bytes, n, max)
        : strcmp(end, ".safetensors") == 0 ? mutate_safetensors(bytes, n, max)
        : strcmp(end, ".gguf") == 0        ? mutate_gguf(bytes, n, max)
                                           : mutate_bytes(bytes, n, max);
}

/* One change of one file; now and then of the packing. */
static inline size_t mutate_input(uint8_t *bytes, size_t n, size_t max)
{
    PackedFile f, chosen = { 0 };
    size_t     seen = 0, whole = n;
    for (size_t at = 0; packed_next(bytes, n, &at, &f);)
        if (draw(++seen) == 0)
            chosen = f;
    if (!seen || draw(40) == 0)
        return mutate_bytes(bytes, n, max);
    if (draw(40) == 0) {
        bytes[chosen.at - 5] = (uint8_t)draw(PACKED_NAMES);
        return n;
    }
    size_t   room = chosen.n + 4096, m;
    uint8_t *file = malloc(room);
    if (!file)
        return n;
    memcpy(file, bytes + chosen.at, chosen.n);
    m = mutate_file(packed_names[chosen.name], file, chosen.n, room);
    n = splice(bytes, n, max, chosen.at, chosen.n, file, m);
    if (n == whole - chosen.n + m)
        memcpy(bytes + chosen.at - 4, &(uint32_t){ (uint32_t)m }, 4);
    free(file);
    return n;
}

#endif
