/* serve/completions.c: /v1/completions, as OpenAI and vLLM define it (docs/serve.md). */
#include "serve/server.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct CompletionRequest {
    Settings        s;
    const JsonNode *prompt;
    bool            echo, add_special, parse_special;
    int64_t         best_of, max_tokens, logprobs;
} CompletionRequest;

#define AT(field) offsetof(CompletionRequest, field)
static const Field completion_fields[] = {
    FIELD("prompt", NODE | FIELD_REQUIRED, prompt,
          "a text, an array of ids, or an array of either"),
    FIELD_IN("max_tokens", INT, max_tokens, 0, 1 << 24, "most tokens to generate"),
    FIELD_IN("best_of", INT, best_of, 1, MOST_CHOICES,
          "generate so many texts, and answer with the n most probable ones"),
    FIELD("echo", BOOL, echo, "begin with the prompt"),
    FIELD_IN("logprobs", INT, logprobs, 0, MOST_TOP,
          "of each token, and of so many most probable ones"),
    FIELD("add_special_tokens", BOOL, add_special,
          "put what the tokenizer says first (BOS) before a prompt that is a text"),
    FIELD("parse_special", BOOL, parse_special, "read special tokens that such a prompt spells"),
    REJECTED("suffix", "the models here only continue a text"),
    { 0 },
};
#undef AT

static const CompletionRequest completion_default = { .s           = SETTINGS_DEFAULT,
                                                      .add_special = true,
                                                      .parse_special = true,
                                                      .best_of       = -1,
                                                      .max_tokens    = 16,
                                                      .logprobs      = -1 };
static const Field *const completion_tables[] = { completion_fields, settings_fields, openai_fields,
                                                  NULL };
const Body completions_body = { completion_tables, &completion_default };

/* What is needed to write the response. */
typedef struct Completion { bool echo, logprobs; size_t n, per_prompt; } Completion;

/* ---- Writing --------------------------------------------------------------------------------- */

static const char object[] = "text_completion";

static void top_json(TextOut *o, const Server *s, const SampledToken *t)
{
    bool has = false;
    if (isnan(t->log_prob)) {
        json_out(o, "null");
        return;
    }
    json_out(o, "{");
    for (size_t i = 0; i <= t->n_top; i++) { /* and the token itself, unless it is among them */
        const TokenProb p = i < t->n_top ? t->top[i] : (TokenProb){ t->id, t->log_prob };
        if (i == t->n_top && has)
            break;
        has |= p.token == t->id;
        token_json(o, s, p.token);
        text_out_bytes(o, ": ", 2);
        json_out(o, "%g", p.log_prob);
    }
    json_out(o, "}");
}

static size_t n_characters(const Server *s, const int32_t *id, size_t n_ids)
{
    TextOut text = { 0 };
    size_t  n    = 0;
    for (size_t i = 0; i < n_ids; i++)
        token_bytes(&text, s, id[i]);
    for (size_t i = 0; i < text.n; i++)
        n += ((unsigned char)text.text[i] & 0xC0) != 0x80;
    text_out_free(&text);
    return n;
}

/* The log-probabilities of raw logits. Offsets count characters of the text, as OpenAI's do,
 * including those of resumed tokens, which another server emitted. */
static void logprobs_json(Choice *c, size_t first, size_t n)
{
    Job     *j = c->job;
    TextOut *o = &j->out;
    if (!j->want_probs || !((const Completion *)j->request)->logprobs) {
        json_out(o, "logprobs: null");
        return;
    }
    const SampledToken *t = n ? &c->token[first] : NULL;
    json_out(o, "logprobs: {tokens: [");
    for (size_t i = 0; i < n; i++)
        token_json(o, j->server, t[i].id);
    json_out(o, "], token_logprobs: [");
    for (size_t i = 0; i < n; i++)
        json_out(o, "%g", t[i].log_prob);
    json_out(o, "], top_logprobs: [");
    for (size_t i = 0; i < n; i++)
        top_json(o, j->server, &t[i]);
    json_out(o, "], text_offset: [");
    for (size_t i = 0; i < n; i++) {
        if (c->n_resumed && first + i == (j->options.prompt_logits ? c->prompt->n : 0))
            c->offset += n_characters(j->server, c->ids + c->prompt->n, c->n_resumed);
        json_out(o, "%zu", c->offset);
        c->offset += n_characters(j->server, &t[i].id, 1);
    }
    json_out(o, "]}");
}

static void choice_json(Choice *c, const char *text, size_t n, size_t first, size_t n_tokens,
                        bool ended)
{
    TextOut *o = &c->job->out;
    json_out(o, "{index: %d", c->index);
    json_out_member(o, "text", text, n);
    logprobs_json(c, first, n_tokens);
    sampled_ids_json(c, first, n_tokens);
    if (ended)
        receipt_json(c);
    json_out(o, "finish_reason: %s}", finish_reason(c));
}

/* One event; the first has the prompt, if requested. */
static void choice_event(Choice *c, const char *text, size_t n, size_t first, bool ended)
{
    Job              *j    = c->job;
    const Completion *r    = j->request;
    TextOut           both = { 0 };
    if (r->echo && !c->told_text && !c->told_tokens) {
        text_out_bytes(&both, c->prompt->text, c->prompt->n_text);
        text_out_bytes(&both, text, n);
        text = both.text;
        n    = both.n;
    }
    event_begin(j, NULL);
    head_json(j, object);
    json_out(&j->out, "choices: [");
    choice_json(c, text, n, first, c->n_tokens - first, ended);
    json_out(&j->out, "]}");
    event_end(j);
    text_out_free(&both);
}

static void write_piece(Choice *c, const char *text, size_t n, size_t first)
{
    choice_event(c, text, n, first, false);
}

static void write_ended(Choice *c) { choice_event(c, "", 0, c->n_tokens, true); }

/* Of the best_of choices, the n whose tokens are the most probable on average. */
static bool is_among_best(const Job *j, const Choice *c)
{
    const Completion *r      = j->request;
    const size_t      first  = (size_t)(c - j->choice) / r->per_prompt * r->per_prompt;
    size_t            better = 0;
    double mine = c->n_sampled ? c->log_prob_sum / (double)c->n_sampled : 0;
    for (size_t i = first; i < first + r->per_prompt; i++) {
        const Choice *other = &j->choice[i];
        double p = other->n_sampled ? other->log_prob_sum / (double)other->n_sampled : 0;
        better += p > mine || (p == mine && other < c);
    }
    return better < r->n;
}

static void write_whole(Job *j)
{
    const Completion *r = j->request;
    TextOut          *o = &j->out;
    int               index = 0;
    if (j->stream) {
        end_stream(j, object);
        return;
    }
    head_json(j, object);
    json_out(o, "choices: [");
    for (size_t i = 0; i < j->n_choices; i++) {
        Choice *c    = &j->choice[i];
        TextOut both = { 0 };
        if (!is_among_best(j, c))
            continue;
        if (r->echo)
            text_out_bytes(&both, c->prompt->text, c->prompt->n_text);
        text_out_bytes(&both, c->text.text, c->text.n);
        c->index = index++;
        choice_json(c, both.text, both.n, 0, c->n_tokens, true);
        text_out_free(&both);
    }
    end_whole(j);
}

static const JobForm completion_form = { write_piece, write_ended, write_whole, job_failed, false };

/* ---- Reading --------------------------------------------------------------------------------- */

static bool check_request(Exchange *x, CompletionRequest *r)
{
    if (r->best_of < 0)
        r->best_of = r->s.n;
    if (r->best_of < r->s.n || (r->best_of > r->s.n && r->s.stream))
        return refuse(x, MHD_HTTP_BAD_REQUEST, "best_of",
                      "best_of: expected at least n, and n itself in a stream");
    r->s.max_tokens = r->max_tokens ? (int)r->max_tokens : -1;
    r->s.top        = r->logprobs < 0 && r->best_of > r->s.n ? 0 : (int)r->logprobs;
    return settings_check(x, &r->s);
}

static bool fill_job(Exchange *x, const CompletionRequest *r, Job *j)
{
    const size_t n_prompts = prompts_count(r->prompt);
    Completion  *c         = j->request = calloc(1, sizeof *c);
    j->free_request                     = free;
    if (!c)
        return refuse_memory(x);
    *c = (Completion){ .echo       = r->echo,
                       .logprobs   = r->logprobs >= 0,
                       .n          = (size_t)r->s.n,
                       .per_prompt = (size_t)r->best_of };
    if (n_prompts * c->per_prompt > MOST_CHOICES)
        return refuse(x, MHD_HTTP_BAD_REQUEST, "prompt",
                      "expected at most %d texts in all, prompts times n, found %zu", MOST_CHOICES,
                      n_prompts * c->per_prompt);
    if (!job_choices(j, n_prompts, c->per_prompt)
        || !prompts_read(x, r->prompt,
                         &(PromptForm){ .param         = "prompt",
                                        .add_special   = r->add_special,
                                        .parse_special = r->parse_special,
                                        .texts         = r->echo },
                         j)
        || !settings_apply(x, &r->s, j))
        return false;
    j->options.prompt_logits = r->echo && r->logprobs >= 0;
    return open_receipts(x, &r->s, NULL, j);
}

static bool complete(Exchange *x, const JsonDoc *d)
{
    CompletionRequest r = completion_default;
    if (!fields_read(x, d->node, completion_tables, &r)
        || !check_request(x, &r))
        return false;
    Job *j = job_new(x, "cmpl-", &completion_form);
    if (j && fill_job(x, &r, j) && job_submit(x, j))
        return true;
    job_free(j);
    return false;
}

bool completions_handle(Exchange *x) { return with_body(x, complete); }
