/* serve/status.c: health, models, properties and metrics. */
#include "serve/server.h"

#include "base/progress.h"

/* ---- Health, models, properties -------------------------------------------------------------- */

bool health_handle(Exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    const bool draining = x->server->draining;
    pthread_mutex_unlock(&x->server->lock);
    if (draining)
        return refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, "the server is about to stop");
    json_out(&x->answer, "{status: ok}\n");
    return true;
}

static void model_json(TextOut *o, const Server *s, size_t number)
{
    json_out(o, "{id: %s", model_name(s, number));
    if (number)
        json_out(o, "parent: %s", s->o->name);
    json_out(o, "object: model, created: 0, owned_by: tblock, max_model_len: %d, meta: "
                "{vocab_size: %d, n_params: %llu, family: %s, types: %s, hash: %s",
             s->computing.n_ctx, s->info.vocab_size, (unsigned long long)s->info.n_params,
             s->info.family, s->info.weight_types, s->info.hash);
    if (number)
        json_out(o, "adapter_hash: %s",
                 tblock_lora_hash(s->o->model, s->o->adapter[number - 1].use->adapter));
    json_out(o, "numerics_version: %d}}", TBLOCK_NUMERICS_VERSION);
}

bool models_handle(Exchange *x)
{
    json_out(&x->answer, "{object: list, data: [");
    for (size_t i = 0; i <= x->server->o->n_adapters; i++)
        model_json(&x->answer, x->server, i);
    json_out(&x->answer, "]}\n");
    return true;
}

bool model_handle(Exchange *x)
{
    size_t number = x->server->o->n_adapters;
    while (strcmp(x->rest, model_name(x->server, number)) != 0)
        if (number-- == 0)
            return refuse_model(x, x->rest);
    model_json(&x->answer, x->server, number);
    text_out(&x->answer, "\n");
    return true;
}

/* The fields of llama-server that clients read; no file paths. */
bool props_handle(Exchange *x)
{
    const Server *s = x->server;
    TextOut      *o = &x->answer;
    json_out(o, "{default_generation_settings: {n_ctx: %d, params: {", s->computing.n_ctx);
    SAMPLING_EACH (row)
        json_out(o, "%s: %g", row->name, row->off);
    json_out(o,
             "}}, total_slots: %d, modalities: {vision: false, video: false, audio: false}, "
             "endpoint_slots: false, endpoint_props: false, endpoint_metrics: true, is_sleeping: "
             "false, model_alias: %s, model_ftype: %s, build_info: %s",
             s->o->parallel, s->o->name, s->info.weight_types, tblock_version());
    if (s->info.has_tokenizer) {
        token_member(x, "bos_token", s->info.bos);
        token_member(x, "eos_token", s->info.n_eos ? s->info.eos[0] : -1);
    }
    json_out(o, "chat: %i}\n", s->chat != NULL);
    return true;
}

/* ---- Metrics in the form of Prometheus ------------------------------------------------------- */

static const double bounds[BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                        0.25,  0.5,    1,     2.5,  5,     10,   60 };

void histogram_add(Histogram *h, double seconds)
{
    int i = 0;
    while (i < BUCKETS && seconds > bounds[i])
        i++;
    h->bucket[i]++;
    h->n++;
    h->sum += seconds;
}

/* Each number also under vLLM's name for it, which gateways read. */
typedef struct Metric { const char *name, *other, *help; double value; bool counter; } Metric;

static void write_metric(TextOut *o, const Metric *m, const char *name)
{
    if (!name)
        return;
    text_out(o, "# HELP %s %s\n# TYPE %s %s\n%s ", name, m->help, name,
             m->counter ? "counter" : "gauge", name);
    json_out_double(o, m->value);
    text_out(o, "\n");
}

static void write_histogram(TextOut *o, const Histogram *h, const char *name, const char *help)
{
    uint64_t n = 0;
    text_out(o, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (int i = 0; i < BUCKETS; i++) {
        n += h->bucket[i];
        text_out(o, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)n);
    }
    text_out(o, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", name, (unsigned long long)h->n, name);
    json_out_double(o, h->sum);
    text_out(o, "\n%s_count %llu\n", name, (unsigned long long)h->n);
}

bool metrics_handle(Exchange *x)
{
    Server  *s = x->server;
    TextOut *o = &x->answer;
    pthread_mutex_lock(&s->lock);
    const Counts c      = s->counts;
    const double bodies = (double)s->body_bytes;
    pthread_mutex_unlock(&s->lock);
    const double kv = (double)c.kv_bytes, most = (double)s->o->kv_bytes;
    const Metric metric[] = {
        { "tblock_requests_running", "vllm:num_requests_running", "Sequences being generated.",
          (double)c.running, false },
        { "tblock_requests_waiting", "vllm:num_requests_waiting", "Texts that wait.",
          (double)c.waiting, false },
        { "tblock_body_bytes", NULL, "Bytes of requests that are held.", bodies, false },
        { "tblock_kv_bytes", NULL, "Bytes of KV cache in use.", kv, false },
        { "tblock_kv_usage", "vllm:kv_cache_usage_perc",
          "Share of the KV memory budget in use, 0 to 1; 0 without a budget.",
          most > 0 ? kv / most : 0, false },
        { "tblock_requests_total", "vllm:request_success_total", "Requests answered.",
          (double)c.requests, true },
        { "tblock_requests_refused_total", NULL, "Requests refused because the queue was full.",
          (double)c.refused, true },
        { "tblock_requests_cancelled_total", NULL, "Requests whose client left.",
          (double)c.cancelled, true },
        { "tblock_requests_failed_total", NULL, "Requests that failed.", (double)c.failed, true },
        { "tblock_preemptions_total", "vllm:num_preemptions_total",
          "Texts that gave way for memory and went on later.", (double)c.preempted, true },
        { "tblock_prompt_tokens_total", "vllm:prompt_tokens_total", "Tokens of prompts.",
          (double)c.prompt_tokens, true },
        { "vllm:prefix_cache_queries_total", NULL, "Tokens of prompts that were looked up.",
          (double)c.prompt_tokens, true },
        { "tblock_cached_tokens_total", "vllm:prefix_cache_hits_total",
          "Tokens of prompts that were not computed again.", (double)c.cached_tokens, true },
        { "tblock_generated_tokens_total", "vllm:generation_tokens_total", "Tokens sampled.",
          (double)c.sampled_tokens, true },
        { "tblock_draft_tokens_total", "vllm:spec_decode_num_draft_tokens_total",
          "Tokens guessed ahead, and those that a constraint makes sure.", (double)c.draft_tokens,
          true },
        { "tblock_accepted_tokens_total", "vllm:spec_decode_num_accepted_tokens_total",
          "Of these, tokens that were accepted.", (double)c.accepted_tokens, true },
        { "tblock_steps_total", NULL, "Batches computed.", (double)c.steps, true },
    };
    for (size_t i = 0; i < sizeof metric / sizeof *metric; i++) {
        write_metric(o, &metric[i], metric[i].name);
        write_metric(o, &metric[i], metric[i].other);
    }
    static const char first[] = "Seconds from a request to its first token.",
                      next[]  = "Seconds from a token to the next.",
                      whole[] = "Seconds from a request to its end.";
    write_histogram(o, &c.first_token, "tblock_time_to_first_token_seconds", first);
    write_histogram(o, &c.first_token, "vllm:time_to_first_token_seconds", first);
    write_histogram(o, &c.next_token, "tblock_inter_token_latency_seconds", next);
    write_histogram(o, &c.next_token, "vllm:inter_token_latency_seconds", next);
    write_histogram(o, &c.whole, "tblock_request_seconds", whole);
    write_histogram(o, &c.whole, "vllm:e2e_request_latency_seconds", whole);
    x->type = "text/plain; version=0.0.4; charset=utf-8";
    return true;
}
