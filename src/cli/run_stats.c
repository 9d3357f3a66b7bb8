#include "run_stats.h"

#include "message.h"
#include "output.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef struct Speed { double tok_per_s, gb_per_s; } Speed;

/* Weights are read once for each call. */
static Speed speed(const tblock_model_info *m, size_t tokens, size_t calls, double seconds)
{
    if (tokens == 0 || seconds <= 0)
        return (Speed){ 0, 0 };
    return (Speed){ (double)tokens / seconds, (double)calls * (double)m->bytes_per_token / seconds / 1e9 };
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

/* ---- Private memory ---------------------------------------------------------------------------------------------- */

int run_stats_open_memory(void) { return open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC); }

/* The kB after a key at the start of a line, in bytes; 0: no such line. */
static size_t bytes_after(const char *text, const char *key)
{
    const char *found = strstr(text, key);
    return found ? (size_t)strtoull(found + strlen(key), NULL, 10) * 1024 : 0;
}

/* Bytes of memory that no file holds; 0: not known. (The kernel's Private_Dirty also counts pages of a file just written.) */
static size_t private_bytes(int fd)
{
    char    text[4096];
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    size_t anonymous = bytes_after(text, "\nAnonymous:");
    return anonymous ? anonymous + bytes_after(text, "\nSwap:") : 0;
}

/* What this run asked for: weights that are not used where they lie in a file, the cache in use, activations and logits. The program
 * itself, its libraries and a tokenizer's tables come on top (docs/reliability.md, "Memory"). */
static size_t predicted_bytes(const tblock_model_info *m, const tblock_context_info *c)
{
    return m->made_bytes + c->kv_bytes + c->activation_bytes;
}

void run_stats_print(const RunStats *s, const tblock_model_info *m, const tblock_context_info *c, const char *stopped)
{
    char  family[CLI_SHOWN], file[24], weights[24], kv[24], activations[24], resident[24];
    size_t private;
    Speed prefill = speed(m, s->n_prefilled, s->n_pieces, s->prefill_s);
    Speed decode = speed(m, s->n_decoded, s->n_calls, s->decode_s);

    fprintf(stderr, "load      %.2f ms: %s, %s\n", s->load_s * 1e3, cli_shown(family, m->family), m->weight_types);
    fprintf(stderr, "model     %" PRIu64 " parameters, %s read per token\n", m->n_params, spell_bytes(m->bytes_per_token, weights));
    if (s->n_loaded)
        fprintf(stderr, "state     %zu tokens loaded\n", s->n_loaded);
    fprintf(stderr, "prefill   %zu tokens in %.2f ms: %.2f tok/s, %.2f GB/s\n", s->n_prefilled, s->prefill_s * 1e3,
            prefill.tok_per_s, prefill.gb_per_s);
    fprintf(stderr, "decode    %zu tokens in %.2f ms: %.2f tok/s, %.2f GB/s\n", s->n_decoded, s->decode_s * 1e3,
            decode.tok_per_s, decode.gb_per_s);
    if (s->drafts)
        fprintf(stderr, "draft     %zu of %zu proposed tokens accepted: %.1f%%, %zu calls\n", s->n_accepted, s->n_proposed,
                100 * acceptance(s), s->n_calls);
    fprintf(stderr, "memory    file %s, kv %s, activations %s\n"
                    "          peak resident %s\n", spell_bytes(m->file_bytes, file),
            spell_bytes(c->kv_bytes, kv), spell_bytes(c->activation_bytes, activations),
            spell_bytes(resident_bytes(), resident));
    if ((private = private_bytes(s->memory_fd)) > 0)
        fprintf(stderr, "private   %s predicted (%s of it for weights), %s measured\n", spell_bytes(predicted_bytes(m, c), file),
                spell_bytes(m->made_bytes, weights), spell_bytes(private, resident));
    fprintf(stderr, "settings  seed %" PRIu64 ", threads %d, isa %s, context %d\n"
                    "          math %s, activations %s, kv %s\n", s->seed,
            c->threads, c->isa, c->n_ctx, c->math, c->activations, c->kv_type);
    fprintf(stderr, "stopped   %s; last logits %016" PRIx64 "\n", stopped, s->hash);
}

static void print_json_speed(const char *key, Speed s, size_t tokens, double seconds)
{
    output_format("\"%s\": {\"tokens\": %zu, ", key, tokens);
    output_json_number("seconds", seconds);
    output_format(", ");
    output_json_number("tok_per_s", s.tok_per_s);
    output_format(", ");
    output_json_number("gb_per_s", s.gb_per_s);
    output_format("}, ");
}

void run_stats_json(const RunStats *s, const tblock_model_info *m, const tblock_context_info *c)
{
    output_format("\"seed\": %" PRIu64 ", \"logits_hash\": \"%016" PRIx64 "\", \"stats\": {", s->seed, s->hash);
    output_json_number("load_seconds", s->load_s);
    output_format(", ");
    if (s->n_loaded)
        output_format("\"state_tokens\": %zu, ", s->n_loaded);
    print_json_speed("prefill", speed(m, s->n_prefilled, s->n_pieces, s->prefill_s), s->n_prefilled, s->prefill_s);
    print_json_speed("decode", speed(m, s->n_decoded, s->n_calls, s->decode_s), s->n_decoded, s->decode_s);
    if (s->drafts) {
        output_format("\"draft\": {\"proposed\": %zu, \"accepted\": %zu, ", s->n_proposed, s->n_accepted);
        output_json_number("acceptance", acceptance(s));
        output_format(", \"calls\": %zu}, ", s->n_calls);
    }
    output_format("\"file_bytes\": %zu, \"kv_bytes\": %zu, \"activation_bytes\": %zu, \"resident_bytes\": %zu, ",
                  m->file_bytes, c->kv_bytes, c->activation_bytes, resident_bytes());
    size_t private = private_bytes(s->memory_fd);
    output_format("\"predicted_private_bytes\": %zu, ", predicted_bytes(m, c));
    if (private > 0)
        output_format("\"private_bytes\": %zu, ", private);
    output_format("\"threads\": %d, \"isa\": \"%s\", \"math\": \"%s\", ", c->threads, c->isa, c->math);
    output_format("\"activations\": \"%s\", \"kv_type\": \"%s\", \"n_ctx\": %d}", c->activations, c->kv_type, c->n_ctx);
}
