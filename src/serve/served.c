/* serve/served.c: what requests may name as their model: the model itself, or an adapter of it. */
#include "serve/server.h"

#include <stdio.h>

#include "base/hash.h"

size_t model_number(const Server *s, const JsonNode *model)
{
    size_t i = s->o->n_adapters;
    while (i > 0 && !(model && node_is(model, s->o->adapter[i - 1].name)))
        i--;
    return i;
}

const char *model_name(const Server *s, size_t number)
{
    return number ? s->o->adapter[number - 1].name : s->o->name;
}

void model_member(TextOut *o, const Server *s, size_t number)
{
    json_out(o, "model: %s", model_name(s, number));
}

/* A hash of all that an output depends on, besides its request and the chat template. */
void fingerprint_member(TextOut *o, const Server *s, size_t number)
{
    const char        *part[] = { s->info.hash, s->computing.math, s->computing.activations,
                                  s->computing.kv_type };
    const int          whole[] = { TBLOCK_NUMERICS_VERSION, s->computing.n_ctx };
    const tblock_lora *use     = number ? s->o->adapter[number - 1].use : NULL;
    uint64_t           h       = fnv1a(FNV_SEED, whole, sizeof whole);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        h = fnv1a(h, part[i], strlen(part[i]) + 1);
    if (s->computing.rope_length)
        h = fnv1a(h, &s->computing.rope_length, sizeof s->computing.rope_length);
    if (use) {
        const char *hash = tblock_lora_hash(s->o->model, use->adapter);
        h = fnv1a(fnv1a(h, hash, strlen(hash)), &use->scale, sizeof use->scale);
    }
    json_out(o, "system_fingerprint: %s", place("fp_%016llx", (unsigned long long)h).text);
}

const tblock_lora *adapter_use(const Job *j)
{
    static const tblock_lora none = { 0 };
    return j->adapter ? j->server->o->adapter[j->adapter - 1].use : &none;
}
