/* tests/fuzz/fuzz_config.c: any bytes as a config, ours and a Hugging Face folder's config.json.
 * What is taken is sound, can be counted, and comes back from its own JSON. */
#include "base/json.h"
#include "fuzz.h"
#include "memory_file.h"
#include "model/count.h"
#include "source/hf.h"

static void count_it(const Config *c)
{
    static const FlopLoad loads[] = { { 1, 1, false, 4, 0 },
                                      { 4096, 3, false, 2, 0 },
                                      { 77, 1, true, 1, 4 } };
    Count n;
    count_config(&n, c, WT_BF16);
    claim(n.params >= n.active_params && n.params == count_params(c));
    KvCount kv = count_kv_cache(c, 2, 0);
    claim(kv.positions > 0 && kv.positions <= c->n_ctx && count_windowed(c) <= c->n_layers
          && count_moe(c) <= c->n_layers);
    for (int i = 0; i < 3; i++) {
        Flops f;
        count_flops(&f, c, &n, &loads[i]);
        claim(f.total.full >= f.total.computed && f.total.computed > 0 && f.total.bytes > 0);
    }
    (void)count_crossover(c, &n);
}

/* The same config from its own text. */
static void comes_back(const Config *c)
{
    Error  e = { 0 };
    Config again;
    char  *json = config_to_json(c, &e);
    claim(json != NULL && config_parse(&again, json, strlen(json), "again", &e));
    char *twice = config_to_json(&again, &e);
    claim(twice != NULL && strcmp(json, twice) == 0);
    free(json);
    free(twice);
}

static void check(const Config *c)
{
    Error e = { 0 };
    claim(config_check(c, "config", &e));
    said(config_supported(c, "config", &e), &e);
    comes_back(c);
    count_it(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error    e = { 0 };
    Config   c;
    HfConfig h;
    Source   s = { .path = strdup("folder") };
    char    *text = exact_copy(bytes, n);
    const char *path = memory_file(bytes, n);
    if (said(config_parse(&c, text, n, "config", &e), &e))
        check(&c);
    if (said(hf_config_read(&h, &s, path, NULL, &e), &e))
        check(&h.config);
    source_close(&s);
    free(text);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "config"); }
#endif
