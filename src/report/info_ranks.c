/* report/info_ranks.c: a model divided among ranks: what each holds, what they exchange, and an
 * estimate of its speed (docs/ranks.md). */
#include <stdio.h>

#include "model/model.h"
#include "report/page.h"

static const Column share_columns[] = {
    { "rank", "rank", 8, 0, UNIT_COUNT, "" },
    { "weights", "weights", 10, 1, UNIT_BYTES, "" },
    { "read", "a token reads", 14, 1, UNIT_BYTES, "" },
    { "kv_cache", "kv cache", 10, 1, UNIT_BYTES, "" },
};
static const Table rank_table = TABLE_OF(share_columns);

/* Seconds that the exchanges of a token take. A gather of N ranks takes log2 N steps, rounded up,
 * and each rank gets all parts but its own. */
static double exchange_seconds(const RankExchange *x, const RankPlan *p)
{
    int steps = 0;
    for (int n = 1; n < p->ranks; n *= 2)
        steps++;
    return (x->gathers + 1) * steps * p->latency
        + (double)x->bytes * (p->ranks - 1) / p->ranks / p->bandwidth;
}

void info_ranks(Rows *r, const Info *info)
{
    const RankPlan *p = &info->ranks;
    RankExchange    x = rank_exchange(info->cfg), guess = rank_exchange_ahead(info->cfg);
    bool            ahead = info->cfg->mtp_layers > 0;
    double          most = 0, seconds = exchange_seconds(&x, p);
    if (p->ranks < 2)
        return;
    rows_heading(r, "ranks");
    rows_open(r, "ranks", '{');
    rows_members(r, { "n", v_int(p->ranks) });
    rows_table(r, "each", &rank_table);
    for (int i = 0; i < p->ranks; i++) {
        RankShare s  = rank_share(info->cfg, info->count, i, p->ranks);
        double    states = (double)info->memory.n_seqs * (double)info->kv.state_bytes,
                  kv = s.kv * ((double)info->memory.kv - states) + info->memory.n_seqs * s.state;
        most         = s.read > most ? s.read : most;
        rows_row(r, &rank_table,
                 (Cell[]){ v_int(i), v_count((uint64_t)s.weights), v_count((uint64_t)s.read),
                           v_count((uint64_t)kv) },
                 NULL);
    }
    rows_table_end(r, "each");
    rows_members(r, { "exchanges_per_token", v_int(x.gathers) },
                 { "bytes_per_token", v_count(x.bytes) },
                 { "exchanges_per_guess", ahead ? v_int(guess.gathers) : v_none() },
                 { "bytes_per_guess", ahead ? v_count(guess.bytes) : v_none() },
                 { "exchange_s", v_real(seconds) },
                 { "tokens_per_s", p->memory > 0 ? v_real(1 / (seconds + most / p->memory))
                                                 : v_none() });
    if (r->face != FACE_JSON) {
        rows_pair(r, "exchanges", "%d a token, %llu bytes, about %.2f ms", x.gathers,
                  (unsigned long long)x.bytes, 1e3 * seconds);
        if (ahead)
            rows_pair(r, "--draft mtp", "%d a guess, %llu bytes", guess.gathers,
                      (unsigned long long)guess.bytes);
        if (p->memory > 0)
            rows_pair(r, "predicted", "%.1f tokens/s; one process %.1f",
                      1 / (seconds + most / p->memory),
                      p->memory / rank_share(info->cfg, info->count, 0, 1).read);
    }
    rows_close(r, '}');
}
