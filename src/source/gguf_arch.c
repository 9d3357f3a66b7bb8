/* source/gguf_arch.c: the architectures of GGUF files: a row each. */
#include "source/gguf_config.h"

#include <string.h>

static const GgufArch archs[] = {
    { .name = "llama",     .family = "llama", .moe_family = "mixtral",
      .flags = ROTATES_PAIRS | RENORMALIZE },
    { .name = "qwen2",     .family = "qwen2" },
    { .name = "qwen3",     .family = "qwen3" },
    { .name = "qwen2moe",  .family = "qwen2_moe" },
    { .name = "qwen3moe",  .family = "qwen3_moe", .flags = RENORMALIZE },
    { .name = "phi3",      .family = "phi3" },
    { .name = "gemma",     .family = "gemma" },
    { .name = "gemma2",    .family = "gemma2", .flags = LAST_SCALE, .big_layers = 46 },
    { .name = "gemma3",    .family = "gemma3_text", .flags = LAST_SCALE, .big_layers = 62 },
    { .name = "gemma-embedding", .family = "gemma3_text", .flags = BOTH_DIRECTIONS },
    { .name = "olmo2",     .family = "olmo2", .window_family = "olmo3", .full_every = 4 },
    { .name = "smollm3",   .family = "smollm3", .flags = ROTATES_PAIRS, .no_rope_every = 4 },
    { .name = "exaone4",   .family = "exaone4" },
    { .name = "granite",   .family = "granite", .flags = ROTATES_PAIRS | DIVIDE },
    { .name = "seed_oss",  .family = "seed_oss", .flags = FFN_NORM_POST },
    { .name = "glm4",      .family = "glm4", .flags = ROTATES_PAIRS },
    { .name = "ernie4_5",  .family = "ernie4_5", .flags = ROTATES_PAIRS },
    { .name = "granitemoe", .family = "granitemoeshared",
      .flags = ROTATES_PAIRS | DIVIDE | RENORMALIZE },
    { .name = "olmoe",     .family = "olmoe" },
    { .name = "hunyuan-dense", .family = "hunyuan_v1_dense" },
    { .name = "arcee",     .family = "arcee", .flags = ROTATES_PAIRS },
    { .name = "nemotron",  .family = "nemotron" },
    { .name = "apertus",   .family = "apertus" },
    { .name = "lfm2",      .family = "lfm2", .flags = OF_LFM2 },
    { .name = "lfm2moe",   .family = "lfm2_moe", .flags = OF_LFM2 | RENORMALIZE },
    { .name = "qwen3next", .family = "qwen3_next",
      .flags = OF_DELTA | RENORMALIZE | FFN_NORM_POST },
    { .name = "qwen35",    .family = "qwen3_5_text",
      .flags = OF_DELTA | TILED_HEADS | FFN_NORM_POST },
    { .name = "qwen35moe", .family = "qwen3_5_moe_text",
      .flags = OF_DELTA | TILED_HEADS | RENORMALIZE | FFN_NORM_POST },
    { .name = "minimax-m2", .family = "minimax_m2", .flags = RENORMALIZE },
    { .name = "gpt-oss",   .family = "gpt_oss", .flags = RENORMALIZE | FFN_NORM_POST | OF_GPT_OSS },
    { .name = "glm4moe",   .family = "glm4_moe", .flags = FFN_NORM_POST },
    { .name = "ernie4_5-moe", .family = "ernie4_5_moe", .flags = ROTATES_PAIRS | RENORMALIZE },
    { .name = "deepseek2", .family = "deepseek_v3", .flags = ROTATES_PAIRS | OF_DEEPSEEK },
    { .name = "mistral3",  .family = "ministral3", .flags = ROTATES_PAIRS | QUERY_SCALE },
    { .name = "llama4",    .family = "llama4_text", .flags = ROTATES_PAIRS | OF_LLAMA4,
      .full_every = 4, .no_rope_every = 4 },
    { .name = "command-r", .family = "cohere", .flags = ROTATES_PAIRS },
    { .name = "cohere2",   .family = "cohere2", .flags = ROTATES_PAIRS },
    { .name = "stablelm",  .family = "stablelm" },
    { .name = "gpt2",      .family = "gpt2" },
    { .name = "gptneox",   .family = "gpt_neox" },
};
enum { N_ARCHS = sizeof archs / sizeof archs[0] };

bool gguf_arch_pairs(const GgufArch *a) { return a->flags & ROTATES_PAIRS; }

bool gguf_arch_of(const GgufArch *a, const char *family)
{
    const char *const is[] = { a->family, a->moe_family, a->window_family,
                               strcmp(a->name, "llama") == 0 ? "mistral" : NULL };
    for (size_t i = 0; i < sizeof is / sizeof *is; i++)
        if (is[i] && strcmp(is[i], family) == 0)
            return true;
    return false;
}

const char *gguf_arch_name(const GgufArch *a, TensorRole role, const char *usual)
{
    if (role == ROLE_WK && a->flags & OF_DEEPSEEK)
        return "attn_kv_a_mqa";
    if (role == ROLE_FINAL_NORM && a->flags & OF_LFM2)
        return "token_embd_norm";
    return role == ROLE_FFN_NORM && a->flags & FFN_NORM_POST ? "post_attention_norm" : usual;
}

const GgufArch *gguf_arch(const GgufFile *f, Error *err)
{
    GgufString name;
    if (!gguf_read_string(f->meta, "general.architecture", &name, err))
        return NULL;
    for (int i = 0; i < N_ARCHS; i++)
        if (gguf_string_is(name, archs[i].name))
            return &archs[i];
    fail(err, INPUT,
         "%s: key general.architecture: expected one that docs/sources.md lists, found '%.*s'",
         f->meta->path, (int)(name.n < 40 ? name.n : 40), name.bytes);
    return NULL;
}
