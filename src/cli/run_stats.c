/* cli/run_stats.c: tblock run --stats and --json: speed, memory, drafts. */
#include "command.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct Speed { double tok_per_s, gb_per_s; } Speed;

/* Weights are read once per call. */
static Speed speed(const tblock_model_info *m, size_t tokens, size_t calls, double seconds)
{
    if (tokens == 0 || seconds <= 0)
        return (Speed){ 0, 0 };
    return (Speed){ (double)tokens / seconds,
                    (double)calls * (double)m->bytes_per_token / seconds / 1e9 };
}

static double acceptance(const RunStats *s)
{
    return s->n_proposed ? (double)s->n_accepted / (double)s->n_proposed : 0;
}

static const char *spell_bytes(size_t n, char out[24])
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
    double x = (double)n;
    int    u = 0;
    while (x >= 1000 && u < 4) {
        x /= 1000;
        u++;
    }
    snprintf(out, 24, u ? "%.2f %s" : "%.0f %s", x, units[u]);
    return out;
}

static size_t resident_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* ---- Private memory -------------------------------------------------------------------------- */

int run_stats_open_memory(void) { return open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC); }

/* The kB after a key at the start of a line, in bytes; 0: no such line. */
static size_t bytes_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found ? (size_t)strtoull(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* Bytes of memory not backed by a file; 0: unknown. (The kernel's Private_Dirty also counts pages
 * of a file just written.) */
static size_t private_bytes(int fd)
{
    char    text[4096];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    size_t anonymous = bytes_after(text, "\nAnonymous:");
    return anonymous ? anonymous + bytes_after(text, "\nSwap:") : 0;
}

/* The memory that this run requested: weights that are not used in place in a file, the cache in
 * use, activations and logits. The program itself, its libraries and a tokenizer's tables come on
 * top (docs/reliability.md, "Memory"). */
static size_t predicted_bytes(const RunStats *s, const tblock_model_info *m,
                              const tblock_context_info *c)
{
    return m->made_bytes + s->draft_made_bytes + c->kv_bytes + c->activation_bytes;
}

static void speed_row(Rows *r, const char *key, const tblock_model_info *m, size_t tokens,
                      size_t calls, double seconds)
{
    Speed x = speed(m, tokens, calls, seconds);
    rows_object(r, key, { "tokens", v_count(tokens) }, { "seconds", v_real(seconds) },
                { "tok_per_s", v_real(x.tok_per_s) }, { "gb_per_s", v_real(x.gb_per_s) });
    rows_pair(r, key, "%zu tokens in %.2f ms: %.2f tok/s, %.2f GB/s", tokens, seconds * 1e3,
              x.tok_per_s, x.gb_per_s);
}

static void draft_row(Rows *r, const RunStats *s)
{
    rows_object(r, "draft", { "proposed", v_count(s->n_proposed) },
                { "accepted", v_count(s->n_accepted) }, { "acceptance", v_real(acceptance(s)) },
                { "calls", v_count(s->n_calls) });
    rows_pair(r, "draft", "%zu of %zu proposed tokens accepted: %.1f%%, %zu calls", s->n_accepted,
              s->n_proposed, 100 * acceptance(s), s->n_calls);
}

static void memory_rows(Rows *r, const RunStats *s, const tblock_model_info *m,
                        const tblock_context_info *c)
{
    char         file[24], weights[24], kv[24], activations[24], resident[24];
    const size_t now = resident_bytes(), own = private_bytes(s->memory_fd),
                 predicted = predicted_bytes(s, m, c);
    rows_members(r, { "file_bytes", v_count(m->file_bytes) }, { "kv_bytes", v_count(c->kv_bytes) },
                 { "activation_bytes", v_count(c->activation_bytes) },
                 { "resident_bytes", v_count(now) },
                 { "predicted_private_bytes", v_count(predicted) },
                 { "private_bytes", own > 0 ? v_count(own) : v_none() },
                 { "huge_share", s->huge_share >= 0 ? v_real(s->huge_share) : v_none() });
    rows_pair(r, "memory", "file %s, kv %s, activations %s", spell_bytes(m->file_bytes, file),
              spell_bytes(c->kv_bytes, kv), spell_bytes(c->activation_bytes, activations));
    rows_pair(r, "", "peak resident %s", spell_bytes(now, resident));
    if (s->huge_share >= 0)
        rows_pair(r, "pages", "%.0f%% of the weights in huge ones", 100 * s->huge_share);
    if (own > 0)
        rows_pair(r, "private", "%s predicted (%s of it for weights), %s measured",
                  spell_bytes(predicted, file),
                  spell_bytes(m->made_bytes + s->draft_made_bytes, weights),
                  spell_bytes(own, resident));
}

void run_stats_rows(Rows *r, const RunStats *s, const tblock_model_info *m,
                    const tblock_context_info *c, const char *stopped)
{
    char seed[24], hash[24], weights[24];
    snprintf(seed, sizeof seed, "%" PRIu64, s->seed);
    snprintf(hash, sizeof hash, "%016" PRIx64, s->hash);
    rows_members(r, { "seed", v_json(seed) }, { "logits_hash", v_text(hash) });
    rows_open(r, "stats", '{');
    rows_put(r, "load_seconds", v_real(s->load_s));
    rows_pair(r, "load", "%.2f ms: %s, %s", s->load_s * 1e3, m->family, m->weight_types);
    rows_pair(r, "model", "%" PRIu64 " parameters, %s read per token", m->n_params,
              spell_bytes(m->bytes_per_token, weights));
    if (s->n_loaded) {
        rows_put(r, "state_tokens", v_count(s->n_loaded));
        rows_pair(r, "state", "%zu tokens loaded", s->n_loaded);
    }
    speed_row(r, "prefill", m, s->n_prefilled, s->n_pieces, s->prefill_s);
    speed_row(r, "decode", m, s->n_decoded, s->n_calls, s->decode_s);
    if (s->drafts)
        draft_row(r, s);
    memory_rows(r, s, m, c);
    rows_members(r, { "threads", v_int(c->threads) }, { "isa", v_text(c->isa) },
                 { "math", v_text(c->math) }, { "activations", v_text(c->activations) },
                 { "kv_type", v_text(c->kv_type) }, { "n_ctx", v_int(c->n_ctx) });
    if (c->rope_length) {
        rows_put(r, "rope_length", v_int(c->rope_length));
        rows_pair(r, "rotation", "for a length of %d", c->rope_length);
    }
    rows_close(r, '}');
    rows_pair(r, "settings", "seed %" PRIu64 ", threads %d, isa %s, context %d", s->seed,
              c->threads, c->isa, c->n_ctx);
    rows_pair(r, "", "math %s, activations %s, kv %s", c->math, c->activations, c->kv_type);
    rows_pair(r, "stopped", "%s; last logits %s", stopped, hash);
}
