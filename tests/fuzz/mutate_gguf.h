/* tests/fuzz/mutate_gguf.h: changes one key, value or tensor of a GGUF file; what follows stays
 * where the file says that it is. */
#ifndef MUTATE_GGUF_H
#define MUTATE_GGUF_H

#include "mutate.h"

enum { GGUF_MOST = 512, GGUF_PAD = 32 };

/* Where the entries and the tensors of a head begin; [n] is where they end. */
typedef struct GgufPlaces {
    size_t entry[GGUF_MOST + 1], tensor[GGUF_MOST + 1];
    size_t n_entries, n_tensors;
} GgufPlaces;

static inline uint64_t number_at(const uint8_t *b, size_t at, size_t width)
{
    uint64_t x = 0;
    memcpy(&x, b + at, width);
    return x;
}

/* Bytes of a value of ggml's type number; 0: none of a fixed size. */
static inline size_t gguf_width(uint64_t type)
{
    static const uint8_t width[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof width ? width[type] : 0;
}

/* Past `n` bytes, or past the string, or past the value; false at the end of the file. */
static inline bool gguf_skip(size_t n, size_t *at, uint64_t by)
{
    return *at <= n && by <= n - *at && (*at += by, true);
}

static inline bool gguf_skip_string(const uint8_t *b, size_t n, size_t *at)
{
    return *at <= n && n - *at >= 8 && gguf_skip(n, at, 8)
        && gguf_skip(n, at, number_at(b, *at - 8, 8));
}

static inline bool gguf_skip_value(const uint8_t *b, size_t n, size_t *at, uint64_t type, int deep)
{
    if (type == 8)
        return gguf_skip_string(b, n, at);
    if (gguf_width(type))
        return gguf_skip(n, at, gguf_width(type));
    if (type != 9 || deep > 3 || *at > n || n - *at < 12)
        return false;
    uint64_t item = number_at(b, *at, 4), count = number_at(b, *at + 4, 8);
    *at += 12;
    if (gguf_width(item))
        return count <= n && gguf_skip(n, at, count * gguf_width(item));
    for (uint64_t i = 0; i < count; i++)
        if (!gguf_skip_value(b, n, at, item, deep + 1))
            return false;
    return true;
}

static inline bool gguf_places(const uint8_t *b, size_t n, GgufPlaces *p)
{
    if (n < 24 || memcmp(b, "GGUF", 4) != 0)
        return false;
    size_t at = 24;
    p->n_tensors = number_at(b, 8, 8), p->n_entries = number_at(b, 16, 8);
    if (p->n_tensors > GGUF_MOST || p->n_entries > GGUF_MOST)
        return false;
    for (size_t i = 0; i < p->n_entries; i++) {
        p->entry[i] = at;
        if (!gguf_skip_string(b, n, &at) || !gguf_skip(n, &at, 4)
            || !gguf_skip_value(b, n, &at, number_at(b, at - 4, 4), 0))
            return false;
    }
    p->entry[p->n_entries] = at;
    for (size_t i = 0; i < p->n_tensors; i++) {
        p->tensor[i] = at;
        if (!gguf_skip_string(b, n, &at) || !gguf_skip(n, &at, 4)
            || !gguf_skip(n, &at, 8 * number_at(b, at - 4, 4)) || !gguf_skip(n, &at, 12))
            return false;
    }
    p->tensor[p->n_tensors] = at;
    return true;
}

/* ---- What changes ---------------------------------------------------------------------------- */

/* The head alone: its bytes, and what they may become. */
typedef struct GgufHead {
    uint8_t   *b;
    size_t     n, max;
    GgufPlaces p;
} GgufHead;

static inline void gguf_put(GgufHead *h, size_t at, size_t length, const void *with, size_t m)
{
    h->n = splice(h->b, h->n, h->max, at, length, with, m);
}

/* A string becomes another one, with its length. */
static inline void gguf_put_string(GgufHead *h, size_t at, const char *text, size_t n)
{
    uint8_t  with[300];
    uint64_t old = number_at(h->b, at, 8);
    if (n > 256)
        return;
    memcpy(with, &(uint64_t){ n }, 8);
    memcpy(with + 8, text, n);
    gguf_put(h, at, 8 + old, with, 8 + n);
}

static inline const char *gguf_word(void)
{
    static const char *const words[] = { "", "x", "llama", "qwen2", "qwen3", "qwen3moe", "gemma2",
        "gemma3", "phi3", "gpt2", "gptneox", "deepseek2", "lfm2", "qwen3next", "qwen35", "gpt-oss",
        "llama4", "command-r", "cohere2", "stablelm", "minimax-m2", "granite", "olmo2", "smollm3",
        "glm4", "glm4moe", "nemotron", "apertus", "mistral3", "gemma-embedding", "none", "linear",
        "yarn", "longrope", "default", "llama-bpe", "qwen2", "gpt-2", "deepseek-llm", "tekken",
        "<s>", "\xE2\x96\x81", "<0x0A>", "\xC4\xA0", "\xFF", "a b", "adapter", "model", "lora" };
    return words[draw(sizeof words / sizeof *words)];
}

/* Keys that a seed may lack: the model's own ones follow its architecture. */
static inline size_t gguf_key(const GgufHead *h, char *out)
{
    static const char *const own[] = { "expert_count", "expert_used_count", "context_length",
        "expert_feed_forward_length", "expert_shared_count", "expert_shared_feed_forward_length",
        "expert_gating_func", "expert_weights_norm", "expert_weights_scale", "attention.scale",
        "leading_dense_block_count", "nextn_predict_layers", "attention.sliding_window",
        "attention.sliding_window_pattern", "attention.key_length", "attention.value_length",
        "attention.key_length_mla", "attention.value_length_mla", "attention.kv_lora_rank",
        "attention.q_lora_rank", "attention.causal", "attention.clamp_kqv", "pooling_type",
        "attention.temperature_scale", "attention.temperature_length", "embedding_scale",
        "attention.layer_norm_epsilon", "attention.recurrent_layers", "logit_scale",
        "full_attention_interval", "interleave_moe_layer_step", "shortconv.l_cache",
        "ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
        "ssm.inner_size", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor",
        "rope.scaling.original_context_length", "rope.freq_base", "rope.freq_base_swa",
        "rope.scaling.yarn_log_multiplier", "rope.scaling.alpha", "use_parallel_residual",
        "final_logit_softcapping", "attn_logit_softcapping", "vocab_size", "residual_scale",
        "attention.max_alibi_bias", "attention.shared_kv_layers", "no_rope_layer_step" };
    static const char *const common[] = { "general.alignment", "general.type", "general.name",
        "split.count", "split.no", "split.tensors.count", "tokenizer.ggml.model", "",
        "tokenizer.ggml.pre", "tokenizer.ggml.tokens", "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.chat_template",
        "tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces",
        "tokenizer.ggml.precompiled_charsmap", "tokenizer.ggml.unknown_token_id" };
    const char *name = common[draw(sizeof common / sizeof *common)];
    size_t      n = 0;
    for (size_t i = 0; draw(4) && i < h->p.n_entries; i++) {
        size_t   at = h->p.entry[i];
        uint64_t m = number_at(h->b, at, 8);
        if (m != 20 || memcmp(h->b + at + 8, "general.architecture", 20) != 0
            || number_at(h->b, at + 28, 4) != 8 || (m = number_at(h->b, at + 32, 8)) > 40)
            continue;
        memcpy(out, h->b + at + 40, m);
        out[m] = '.';
        n = m + 1;
        name = own[draw(sizeof own / sizeof *own)];
        break;
    }
    memcpy(out + n, name, strlen(name));
    return n + strlen(name);
}

/* A value of this type, of a few items where it is an array. */
static inline size_t gguf_value(uint8_t *out, uint64_t type)
{
    if (type == 9) {
        uint64_t item = (uint64_t[]){ 4, 5, 6, 7, 8, 0 }[draw(6)], count = draw(5);
        size_t   n = 12;
        memcpy(out, &item, 4);
        memcpy(out + 4, &count, 8);
        for (uint64_t i = 0; i < count; i++)
            n += gguf_value(out + n, item);
        return n;
    }
    if (type == 8) {
        const char *word = gguf_word();
        memcpy(out, &(uint64_t){ strlen(word) }, 8);
        memcpy(out + 8, word, strlen(word));
        return 8 + strlen(word);
    }
    uint64_t x = draw_integer();
    static const float some[] = { 0, 1, -1, 1e-5f, 0.5f, 10000, 1e30f, 3.5f };
    if (type == 6)
        memcpy(out, &some[draw(8)], 4);
    else if (type == 7)
        out[0] = (uint8_t)draw(2);
    else
        memcpy(out, &x, 8);
    return gguf_width(type) ? gguf_width(type) : 4;
}

static inline void gguf_change_entry(GgufHead *h)
{
    size_t   i = draw(h->p.n_entries), at = h->p.entry[i], end = h->p.entry[i + 1];
    size_t   kind = at + 8 + number_at(h->b, at, 8);
    uint64_t type = number_at(h->b, kind, 4);
    uint8_t  made[2048];
    char     key[128];
    switch (draw(10)) {
    case 0: /* another key */
        gguf_put_string(h, at, key, gguf_key(h, key));
        break;
    case 1: /* away */
        memcpy(h->b + 16, &(uint64_t){ h->p.n_entries - 1 }, 8);
        gguf_put(h, at, end - at, "", 0);
        break;
    case 2: /* another type */
        type = draw(14);
        memcpy(made, &type, 4);
        gguf_put(h, kind, end - kind, made, 4 + gguf_value(made + 4, type));
        break;
    case 3: /* the type alone: what follows reads as something else */
        memcpy(h->b + kind, &(uint32_t){ (uint32_t)draw(14) }, 4);
        break;
    default:
        if (type != 9) {
            gguf_put(h, kind + 4, end - kind - 4, made, gguf_value(made, type));
        } else if (draw(3) == 0) {
            memcpy(h->b + kind + 8, &(uint64_t){ draw_integer() }, 8);
        } else if (end - kind > 16) { /* an item */
            size_t   in = kind + 16, width = gguf_width(number_at(h->b, kind + 4, 4));
            uint64_t count = number_at(h->b, kind + 8, 8), item = number_at(h->b, kind + 4, 4);
            size_t   to = in, which = draw(count), begin = in;
            for (size_t k = 0; k <= which && to < end; k++) {
                begin = to;
                if (!gguf_skip_value(h->b, end, &to, item, 0))
                    return;
            }
            (void)width;
            gguf_put(h, begin, to - begin, made, gguf_value(made, item));
        }
    }
}

static inline void gguf_add_entry(GgufHead *h)
{
    uint8_t  made[2300];
    char     key[128];
    size_t   n = gguf_key(h, key);
    uint64_t type = (uint64_t[]){ 4, 6, 7, 8, 9, 10 }[draw(6)];
    memcpy(made, &(uint64_t){ n }, 8);
    memcpy(made + 8, key, n);
    memcpy(made + 8 + n, &type, 4);
    n += 12 + gguf_value(made + 12 + n, type);
    size_t before = h->n;
    gguf_put(h, h->p.entry[draw(h->p.n_entries + 1)], 0, made, n);
    if (h->n != before)
        memcpy(h->b + 16, &(uint64_t){ h->p.n_entries + 1 }, 8);
}

static inline void gguf_change_tensor(GgufHead *h)
{
    size_t   i = draw(h->p.n_tensors), at = h->p.tensor[i], end = h->p.tensor[i + 1];
    size_t   rank_at = at + 8 + number_at(h->b, at, 8), j = draw(h->p.n_tensors);
    uint64_t rank = number_at(h->b, rank_at, 4), x = draw_integer();
    switch (draw(8)) {
    case 0: /* away */
        memcpy(h->b + 8, &(uint64_t){ h->p.n_tensors - 1 }, 8);
        gguf_put(h, at, end - at, "", 0);
        break;
    case 1: /* another one's name */
        gguf_put(h, at, rank_at - at, h->b + h->p.tensor[j],
                 8 + number_at(h->b, h->p.tensor[j], 8));
        break;
    case 2:
        memcpy(h->b + end - 12, &(uint32_t){ (uint32_t)draw(42) }, 4);
        break;
    case 3:
        x = draw(2) ? x : draw(h->n) / 32 * 32;
        memcpy(h->b + end - 8, &x, 8);
        break;
    case 4: /* a dimension more or less */
        if (draw(2) && rank > 0) {
            memcpy(h->b + rank_at, &(uint32_t){ (uint32_t)(rank - 1) }, 4);
            gguf_put(h, rank_at + 4, 8, "", 0);
        } else {
            memcpy(h->b + rank_at, &(uint32_t){ (uint32_t)(rank + 1) }, 4);
            gguf_put(h, end - 12, 0, &(uint64_t){ draw(3) }, 8);
        }
        break;
    case 5: { /* a letter of its name */
        uint64_t n = number_at(h->b, at, 8);
        if (n)
            h->b[at + 8 + draw(n)] = (uint8_t)("0123456789.abkvqw"[draw(17)]);
        break;
    }
    default:
        if (rank)
            memcpy(h->b + rank_at + 4 + 8 * draw(rank), &x, 8);
    }
}

static inline size_t mutate_gguf(uint8_t *bytes, size_t n, size_t max)
{
    GgufHead h = { .max = n < max ? n + 4096 : max };
    if (draw(10) == 0 || !gguf_places(bytes, n, &h.p))
        return mutate_bytes(bytes, n, max);
    size_t whole = h.p.tensor[h.p.n_tensors];
    size_t data = (whole + GGUF_PAD - 1) / GGUF_PAD * GGUF_PAD;
    data = data < n ? data : n;
    if (!(h.b = malloc(h.max + GGUF_PAD)))
        return n;
    memcpy(h.b, bytes, whole);
    h.n = whole;
    uint64_t what = draw(16);
    if (what == 0)
        memcpy(h.b + (draw(2) ? 8 : 16), &(uint64_t){ draw_integer() }, 8);
    else if (what < 4)
        gguf_add_entry(&h);
    else if (what < 10 && h.p.n_entries)
        gguf_change_entry(&h);
    else if (h.p.n_tensors)
        gguf_change_tensor(&h);
    while (h.n % GGUF_PAD)
        h.b[h.n++] = 0;
    n = splice(bytes, n, max, 0, data, h.b, h.n);
    free(h.b);
    return n;
}

#endif
