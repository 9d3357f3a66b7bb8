/* tests/fuzz/fuzz_written.c: what a server's model draws, byte by byte: answers in every form of
 * /v1/completions, /v1/chat/completions, /v1/responses and /v1/messages, as streams and whole. The
 * first three bytes choose the request. No model computes: the generations of tblock.h are played
 * here from the other bytes, and the server's own scheduler runs them. */
#include "answer_templates.h"
#include "fuzz.h"
#include "small_server.h"

#if defined(HAVE_MICROHTTPD)

enum {
    N_SEQS = 4, VOCAB = 1024,
    /* Bytes that no UTF-8 has: the text ends in one of these ways, or a token of two more bytes
     * comes. All others are tokens of a byte. */
    END_BY_TOKEN = 0xF8, END_BY_TEXT, END_BY_CONTEXT, FAILS, ANY_TOKEN
};

/* ---- Generations ----------------------------------------------------------------------------- */

typedef struct Script { const uint8_t *at, *end; size_t step; } Script;

static Script script[2];         /* of the two choices that there may be */
static bool   taken[N_SEQS];
static float  logits[VOCAB];

struct tblock_generation {
    tblock_generation_options o;
    int32_t                  *ids;
    size_t                    n_ids, n_held, cap;
    int32_t                   seq;
    tblock_stream            *stream;
    TextOut                   text;
    Script                    script;
    tblock_error              error;
    int                       end;
};

tblock_generation *tblock_generation_open(tblock_context *c, const tblock_generation_options *o,
                                          tblock_error *err)
{
    tblock_generation *g = calloc(1, sizeof *g);
    (void)c;
    claim(g != NULL);
    g->o      = *o;
    g->cap    = o->n_ids + 1;
    g->n_ids  = o->n_ids;
    g->ids    = malloc(g->cap * sizeof *g->ids);
    g->script = script[o->sampling.seed % 2];
    g->stream = tblock_stream_new(small_options.model, true, err);
    claim(g->ids && g->stream);
    memcpy(g->ids, o->ids, o->n_ids * sizeof *g->ids);
    while (taken[g->seq])
        claim(++g->seq < N_SEQS);
    taken[g->seq] = true;
    return g;
}

void tblock_generation_close(tblock_generation *g)
{
    if (!g)
        return;
    taken[g->seq] = false;
    tblock_stream_free(g->stream);
    text_out_free(&g->text);
    free(g->ids);
    free(g);
}

void tblock_generation_stop(tblock_generation *g) { g->end = TBLOCK_END_STOPPED; }

bool tblock_generation_embedding(const tblock_generation *g, bool normalize, float *out,
                                 tblock_error *err)
{
    (void)g, (void)normalize, (void)out;
    return fail(err, TBLOCK_USAGE, "embedding: nothing computes here");
}

void tblock_generation_describe(const tblock_generation *g, tblock_generation_info *out)
{
    *out = (tblock_generation_info){ .end     = g->end,
                                     .error   = &g->error,
                                     .seq     = g->seq,
                                     .ids     = g->ids,
                                     .n_ids   = g->n_ids,
                                     .n_given = g->o.n_ids,
                                     .n_held  = g->n_held,
                                     .text    = g->text.text ? g->text.text : "",
                                     .n_bytes = g->text.n };
}

static void tell(tblock_generation *g, size_t index, int32_t id)
{
    if (g->o.on_token)
        g->o.on_token(g->o.user, index, id, logits);
}

static void end_with(tblock_generation *g, int why)
{
    size_t      n;
    const char *rest = tblock_stream_flush(g->stream, &n);
    text_out_bytes(&g->text, rest, n);
    g->end = why;
    if (why == TBLOCK_END_FAILED)
        fail(&g->error, TBLOCK_INPUT, "logits that are no numbers");
}

static void generate(tblock_generation *g)
{
    Script *s = &g->script;
    size_t  n;
    if (s->at == s->end || g->n_ids - g->o.n_ids == (size_t)g->o.max_tokens) {
        end_with(g, TBLOCK_END_LENGTH);
        return;
    }
    int32_t id = *s->at++;
    if (id == END_BY_TOKEN) {
        tell(g, g->n_ids, g->o.n_stop_ids ? g->o.stop_ids[0] : 1);
        end_with(g, TBLOCK_END_TOKEN);
    } else if (id >= END_BY_TEXT && id <= FAILS) {
        end_with(g, id == END_BY_TEXT      ? TBLOCK_END_TEXT
                    : id == END_BY_CONTEXT ? TBLOCK_END_CONTEXT
                                           : TBLOCK_END_FAILED);
    } else {
        if (id == ANY_TOKEN && s->end - s->at >= 2) {
            id = (s->at[0] << 8 | s->at[1]) % VOCAB;
            s->at += 2;
        }
        g->ids = realloc(g->ids, (g->n_ids + 1) * sizeof *g->ids);
        claim(g->ids != NULL);
        tell(g, g->n_ids, id);
        g->ids[g->n_ids++] = id;
        const char *text   = tblock_stream_put(g->stream, id, &n);
        text_out_bytes(&g->text, text, n);
    }
}

/* The prompt is one step, and then so many tokens are as the script says. */
bool tblock_advance(tblock_context *c, tblock_generation *const *generations, size_t n,
                    size_t prompt_tokens, tblock_error *err)
{
    (void)c, (void)prompt_tokens, (void)err;
    for (size_t i = 0; i < n; i++) {
        tblock_generation *g = generations[i];
        claim(g->end == TBLOCK_GOES_ON);
        for (size_t k = 1; g->n_held == 0 && g->o.prompt_logits && k < g->n_ids; k++)
            tell(g, k, g->ids[k]);
        for (size_t k = 0; k < g->script.step && g->end == TBLOCK_GOES_ON; k++)
            generate(g);
        g->n_held = g->n_ids - 1;
    }
    return true;
}

/* No connection: nobody hangs up. */
const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
                                                        enum MHD_ConnectionInfoType type, ...)
{
    (void)connection, (void)type;
    return NULL;
}

/* ---- Requests -------------------------------------------------------------------------------- */

enum { COMPLETIONS, CHAT, RESPONSES, MESSAGES, N_PATHS };
static const char *const paths[] = { "/v1/completions", "/v1/chat/completions", "/v1/responses",
                                     "/v1/messages" };

/* One bit of the choice for each thing that a request may ask. */
enum { PROBS = 1, IDS = 2, TWO = 4, COUNTS = 8, ECHOES = 16, TOOLS = 32 };

static const char tools_chat[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\", "
                                 "\"parameters\": {\"type\": \"object\"}}}]";
static const char tools_flat[] = "[{\"type\": \"function\", \"name\": \"look\", \"parameters\": "
                                 "{\"type\": \"object\"}}]";
static const char tools_messages[] = "[{\"name\": \"look\", \"input_schema\": {\"type\": "
                                     "\"object\"}}]";

static void write_body(TextOut *o, int path, unsigned what, bool stream)
{
    static const char user[] = "[{\"role\": \"user\", \"content\": \"q\"}]";
    text_out(o, "{\"seed\": 2, \"stream\": %s, \"return_token_ids\": %s",
             stream ? "true" : "false", what & IDS ? "true" : "false");
    if (path != MESSAGES && path != RESPONSES) {
        text_out(o, ", \"n\": %d", what & TWO ? 2 : 1);
        if (stream && what & COUNTS)
            text_out(o, ", \"stream_options\": {\"include_usage\": true}");
    }
    if (path == COMPLETIONS) {
        text_out(o, ", \"prompt\": \"ab\", \"max_tokens\": 200, \"echo\": %s",
                 what & ECHOES ? "true" : "false");
        text_out(o, what & PROBS ? ", \"logprobs\": 2}" : "}");
        return;
    }
    text_out(o, path == RESPONSES ? ", \"input\": %s" : ", \"messages\": %s", user);
    text_out(o, path == MESSAGES ? ", \"max_tokens\": 200" : "");
    if (what & PROBS && path == CHAT)
        text_out(o, ", \"logprobs\": true, \"top_logprobs\": 2");
    if (what & PROBS && path == RESPONSES)
        text_out(o, ", \"include\": [\"message.output_text.logprobs\"], \"top_logprobs\": 2");
    if (what & TOOLS)
        text_out(o, ", \"tools\": %s",
                 path == CHAT ? tools_chat : path == RESPONSES ? tools_flat : tools_messages);
    text_out(o, "}");
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* What an answer says, in the order of its texts. */
typedef struct Heard { TextOut content, thoughts, arguments; } Heard;

static void hear(TextOut *o, const JsonNode *j)
{
    if (j && j->kind == NODE_STRING)
        text_out_bytes(o, j->text, j->n);
}

/* A message of chat, or a delta. */
static void hear_message(Heard *h, const JsonNode *m)
{
    hear(&h->content, node_get(m, "content"));
    hear(&h->thoughts, node_get(m, "reasoning_content"));
    JSON_NODES (call, node_get(m, "tool_calls"))
        hear(&h->arguments, node_get(node_get(call, "function"), "arguments"));
}

/* Of choice 0, where there are choices. */
static void hear_choices(Heard *h, const JsonNode *answer)
{
    JSON_NODES (c, node_get(answer, "choices"))
        if (node_get(c, "index")->integer == 0) {
            hear(&h->content, node_get(c, "text"));
            hear_message(h, node_get(c, "message"));
            hear_message(h, node_get(c, "delta"));
        }
}

static void parse(const char *text, size_t n, Heard *h)
{
    JsonDoc d = { 0 };
    Error   e;
    claim(json_doc_read(&d, text, n, 0, "answer", &e) && d.node->kind == NODE_OBJECT);
    hear_choices(h, d.node);
    json_doc_free(&d);
}

/* Lines "event: NAME" and "data: JSON", and an empty one behind each event. */
static void read_events(const TextOut *o, Heard *h)
{
    const char *end = o->text + o->n;
    claim(o->n > 1 && end[-1] == '\n' && end[-2] == '\n');
    for (const char *at = o->text, *line; at < end; at = line + 1) {
        line = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)(line - at);
        if (n > 6 && memcmp(at, "data: ", 6) == 0 && memcmp(at + 6, "[DONE]", 6) != 0)
            parse(at + 6, n - 6, h);
        else
            claim(n == 0 || memcmp(at, "data: [DONE]", 12) == 0
                  || (n > 7 && memcmp(at, "event: ", 7) == 0));
    }
}

/* Runs a request to its end. Returns whether it failed, as the script may say. */
static bool ask(Server *s, int path, unsigned what, bool stream, Heard *h)
{
    Exchange x = { .server = s, .id = "req-fuzz" };
    for (x.route = routes; strcmp(x.route->path, paths[path]) != 0;)
        x.route++;
    x.error = x.route->error;
    write_body(&x.body, path, what, stream);
    exchange_answer(&x);
    claim(x.job != NULL);
    s->draining = true;
    claim(prepare_start(s, NULL)); /* they write the responses */
    scheduler_run(s);
    prepare_stop(s);
    s->read_all = false;
    s->draining = false;
    Job *j      = x.job;
    claim(j->ended && !s->first && s->n_jobs == 0 && s->counts.running == 0 && !j->ready.failed);
    const bool failed = j->why[0];
    if (stream)
        read_events(&j->ready, h);
    else
        parse(j->ready.text, j->ready.n, h);
    job_leave(j);
    text_out_free(&x.body);
    return failed;
}

static bool same(const TextOut *a, const TextOut *b)
{
    return !a->failed && a->n == b->n && (!a->n || memcmp(a->text, b->text, a->n) == 0);
}

static void heard_free(Heard *h)
{
    text_out_free(&h->content);
    text_out_free(&h->thoughts);
    text_out_free(&h->arguments);
}

/* The chat of a template, made once. */
static tblock_chat *chat_of(Server *s, size_t which)
{
    static tblock_chat *chat[N_TEMPLATES], *first;
    tblock_error        err;
    first = first ? first : s->chat;
    small_options.chat_format = templates[which];
    if (!chat[which])
        chat[which] = talk_chat(s, NULL, &err);
    claim(chat[which] != NULL);
    return chat[which];
}

/* Byte 0: the path and the template; 1: what is asked; 2: tokens of a step, and where those of the
 * second choice end. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Server *s     = small_server();
    Heard   whole = { .content = { 0 } }, told = { .content = { 0 } };
    if (n < 3 || n > 400)
        return 0;
    const int      path  = bytes[0] % N_PATHS;
    const uint8_t *first = bytes + 3 + (n - 3) * (bytes[2] >> 4) / 16;
    script[0] = (Script){ first, bytes + n, 1 + (bytes[2] & 7) };
    script[1] = (Script){ bytes + 3, first, 1 + (bytes[2] >> 3 & 3) };
    s->chat   = chat_of(s, bytes[0] / N_PATHS % N_TEMPLATES);
    const bool failed = ask(s, path, bytes[1], false, &whole);
    claim(ask(s, path, bytes[1], true, &told) == failed);
    claim(failed || (same(&whole.content, &told.content) && same(&whole.thoughts, &told.thoughts)
                     && same(&whole.arguments, &told.arguments)));
    heard_free(&whole);
    heard_free(&told);
    return 0;
}

#endif

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "written"); }
#endif
