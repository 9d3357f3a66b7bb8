/* serve/server.h: what the files of this room share.
 *
 * Threads: libmicrohttpd's receives requests and sends responses (http.c). A few more parse request
 * bodies and make jobs (prepare.c), while the connection is suspended. The thread of serve()
 * computes (scheduler.c), and alone uses the context. They share two lists, of requests and of
 * jobs, under one lock. */
#ifndef SERVE_SERVER_H
#define SERVE_SERVER_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdint.h>

#include "base/json.h"
#include "base/sampling.h"
#include "base/text.h"
#include "base/threads.h"
#include "serve/serve.h"
#include "tblock_tools.h"

typedef struct Server   Server;
typedef struct Exchange Exchange;
typedef struct Job      Job;
typedef struct Connection Connection;
typedef struct Body     Body;
typedef struct Route    Route;

enum {
    REQUEST_ID = 24, NONCE = 33, MOST_TOP = 20, MOST_CHOICES = 128, READERS = 2
};

/* ---- Numbers for /metrics (status.c) --------------------------------------------------------- */

enum { BUCKETS = 14 };
typedef struct Histogram { uint64_t bucket[BUCKETS + 1], n; double sum; } Histogram;
void histogram_add(Histogram *h, double seconds);

typedef struct Counts {
    uint64_t  requests, refused, cancelled, failed; /* of jobs: ended in each way */
    uint64_t  prompt_tokens, cached_tokens, sampled_tokens, preempted, steps;
    uint64_t  draft_tokens, accepted_tokens;
    size_t    waiting, running;                     /* choices, now */
    size_t    kv_bytes;                             /* now */
    Histogram first_token, next_token, whole;
} Counts;

/* ---- The log (log.c) ------------------------------------------------------------------------- */

typedef struct Log {
    pthread_mutex_t lock;
    const char     *path;   /* NULL: standard error */
    bool            wanted; /* else no line is written */
    int             fd;     /* under the lock */
    size_t          n_lost; /* lines, since the last one that was written */
} Log;
bool log_open(Log *l, const ServeOptions *o, tblock_error *err);
void log_close(Log *l);
/* By its name, after another program has moved the file away. */
void log_reopen(Log *l);
/* A line: id, time, and the message, which must be printable. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void log_line(Log *l, const char *id, const char *fmt, ...);
/* Untrusted text, with everything escaped that is not printable. */
void log_text(TextOut *o, const char *text, size_t n);

/* ---- The server ------------------------------------------------------------------------------ */

struct Server {
    const ServeOptions *o;
    const Route        *routes;    /* a row without a path ends them */
    tblock_model_info   info;
    tblock_context_info computing;
    tblock_chat        *chat;      /* for requests that add nothing to the template; NULL: none */
    struct MHD_Daemon  *daemon;
    Log                 log;
    pthread_t           reader[READERS];
    int                 n_readers;
    /* Under the lock: */
    pthread_mutex_t     lock;
    pthread_cond_t      come;      /* a request to parse, or time to stop */
    Exchange           *unread, *last_unread;
    Job                *unwritten; /* its response is to be written */
    size_t              n_unread;  /* these, and those being parsed or written */
    bool                read_all;  /* no more will come */
    pthread_cond_t      work;      /* a new job, or time to stop */
    Job                *first, *last;
    Connection         *connection;
    double              swept;     /* when connections were last swept */
    size_t              n_jobs, n_exchanges, body_bytes;
    bool                draining, at_once; /* take no new work; end what runs */
    Counts              counts;
    /* Of the thread that computes: */
    struct Asked       *asked;     /* [n_asked] log-probabilities that the current step asked for */
    size_t              n_asked, cap_asked;
};

/* From its model and options; starts nothing yet. */
void server_open(Server *s, const ServeOptions *o);
void server_close(Server *s);

/* ---- Exchanges: a request and its response (exchange.c) -------------------------------------- */

/* How a path writes an error. param: the parameter, or NULL. */
typedef void ErrorForm(TextOut *o, const char *request_id, int status, const char *param,
                       const char *message);

struct Route {
    const char *method, *path;   /* the last part of a path may be a name in braces: any text */
    bool (*handle)(Exchange *x); /* false: refused, and the response says why */
    bool        open;            /* needs no key */
    ErrorForm  *error;           /* NULL: OpenAI's form */
    const char *help;
    const Body *body;            /* of a POST */
};
extern const Route routes[]; /* serve.c */

struct Exchange {
    Server                *server;
    struct MHD_Connection *connection;
    const Route           *route;
    char                   id[REQUEST_ID];
    const char            *method;
    char                   path[128];
    const char            *rest;         /* of the path, if its route has a name in braces */
    ErrorForm             *error;        /* of its path; NULL: OpenAI's form */
    const char            *origin;       /* to allow in the response; NULL */
    const char            *key;          /* that it came with; NULL: none is required */
    double                 arrived;
    TextOut                body;         /* of the request */
    bool                   told, crowded; /* response queued; no room for its body */
    Exchange              *next;         /* to be parsed */
    bool                   read;
    int                    status;       /* of the response; 0: none yet */
    TextOut                answer;
    const char            *type;         /* its content type; NULL: JSON */
    char                   nonce[NONCE]; /* of the script in a page; "": it is no page */
    Job                   *job;          /* NULL: answered at once */
};

/* Respond with an error in the form of the path. param: the bad parameter, or NULL. Always returns
 * false. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
bool refuse(Exchange *x, int status, const char *param, const char *fmt, ...);
/* The same with the library's error, or for lack of memory. */
bool refuse_error(Exchange *x, const char *param, const tblock_error *err);
bool refuse_memory(Exchange *x);
ErrorForm error_json; /* OpenAI's */
/* Let the route respond, or make a job. */
void exchange_answer(Exchange *x);

/* Random bytes as hexadecimal digits, n - 1 of them; a random number below 2^53, which every
 * reader of JSON can hold. */
void     random_id(char *out, size_t n);
uint64_t random_seed(void);
/* Has the client closed this connection, or its writing half? */
bool hung_up(int fd);

/* ---- Connections (http.c, listen.c) ---------------------------------------------------------- */

/* What --host and --port name; freeaddrinfo frees it. */
struct addrinfo;
bool address_find(const char *host, int port, struct addrinfo **out, tblock_error *err);
bool http_start(Server *s, int listening, tblock_error *err);
void http_stop(Server *s);
/* Close connections whose client takes too long to send a request, or has left without one. With
 * the lock held; cheap when called often. */
void http_sweep(Server *s);
int  http_port(const Server *s);

/* ---- Threads that parse requests (prepare.c) ------------------------------------------------- */

bool prepare_start(Server *s, tblock_error *err);
/* Waits for the requests being parsed. */
void prepare_stop(Server *s);
/* Its body is complete: queue it for parsing, and suspend its connection. False: refused. */
bool prepare_request(Exchange *x);

/* ---- Fields of a request (fields.c) ---------------------------------------------------------- */

typedef enum FieldKind {
    FIELD_BOOL,    /* bool */
    FIELD_INT,     /* int64_t */
    FIELD_NUMBER,  /* double */
    FIELD_TEXT,    /* const JsonNode *, a string */
    FIELD_NODE,    /* const JsonNode *, of any kind */
    FIELD_IGNORED, /* a published one that does not affect the output */
    FIELD_REFUSED, /* a published one that is unsupported: help says why */
    FIELD_REQUIRED = 16 /* flag: it must be present */
} FieldKind;

typedef struct Field {
    const char *name;
    int         kind;
    size_t      at;
    double      min, max;
    const char *help;
} Field;

/* Rows of tables of them. The file that has the table says as AT(member) where a member lies. */
#define FIELD_IN(name, kind, member, min, max, help)                                               \
    { name, FIELD_##kind, AT(member), min, max, help }
#define FIELD(name, kind, member, help) FIELD_IN(name, kind, member, 0, 0, help)
#define IGNORED(name)       { name, FIELD_IGNORED, 0, 0, 0, NULL }
#define REJECTED(name, why) { name, FIELD_REFUSED, 0, 0, 0, why }

/* The fields that the body of a request may have, and the defaults of absent ones; NULL: zeros. */
struct Body { const Field *const *tables; const void *defaults; };

/* Read the members of an object into out, which holds the defaults; null counts as absent. An
 * unknown member is rejected, unless the server is lenient. tables end with NULL. */
bool fields_read(Exchange *x, const JsonNode *object, const Field *const *tables, void *out);
/* The same for an object within the body: where it is, as errors name it ("tools[0]"). */
bool fields_read_at(Exchange *x, const char *where, const JsonNode *object,
                    const Field *const *tables, void *out);
/* Such a path, "input[3].content[0]"; and the error that another value was expected there. */
typedef struct Place { char text[96]; } Place;
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
Place place(const char *fmt, ...);
bool  refuse_value(Exchange *x, const char *where, const char *expected, const JsonNode *found);

/* ---- Jobs (jobs.c) --------------------------------------------------------------------------- */

typedef struct Prompt { int32_t *ids; size_t n; char *text; size_t n_text; } Prompt;

typedef struct TokenProb { int32_t token; double log_prob; } TokenProb;

/* A token of the text, with its log-probabilities if requested. */
typedef struct SampledToken {
    int32_t   id;
    bool      given, ends; /* of an echoed prompt; sampled, but no part of the text */
    double    log_prob;    /* NaN: not requested, or the first of a prompt */
    size_t    n_top;
    TokenProb *top;        /* [n_top] */
} SampledToken;

/* One generated text (a choice of the response). */
typedef struct Choice {
    Job               *job;
    int                index;
    const Prompt      *prompt;
    uint64_t           seed;
    tblock_generation *generation;   /* NULL: it waits, or has ended */
    int32_t           *ids;          /* [n_ids] to resume from, after a preemption; or NULL */
    size_t             n_ids, n_resumed; /* generated and emitted by another server */
    int                end, stop;    /* as in tblock_generation_info */
    TextOut            text;
    SampledToken      *token;
    size_t             n_tokens, cap_tokens, n_sampled;
    size_t             told_text, told_tokens; /* emitted so far */
    size_t             offset;       /* of the next token, in characters of the text */
    size_t             n_cached;
    size_t             n_proposed, n_accepted; /* its generation's draft tokens counted so far */
    double             log_prob_sum;
    double             last_token;   /* when */
    tblock_receipt    *receipt;      /* NULL: not requested */
    bool               failed_memory;
} Choice;

/* How one endpoint writes responses, without the lock, but for `failed`: a response may be long.
 * Output goes to job->out. */
typedef struct JobForm {
    void (*piece)(Choice *c, const char *text, size_t n, size_t first_token); /* of a stream */
    void (*ended)(Choice *c);                                                 /* of a stream */
    void (*whole)(Job *j); /* the end of a stream, or the whole response */
    void (*failed)(Job *j, int status); /* the same after a failure: j->why has the reason */
    bool pieces; /* call `piece` and `ended` even if the response is no stream */
} JobForm;

struct Job {
    Job            *next;
    Server         *server;
    Exchange       *exchange;      /* NULL: the client has left */
    const JobForm  *form;
    /* Called when a choice is computed, before its generation closes; may be NULL. A failure ends
     * the job. */
    bool          (*computed)(Choice *c, tblock_error *err);
    void           *request;       /* the form's own data */
    void          (*free_request)(void *request);
    char            id[REQUEST_ID];
    long long       created;       /* seconds since 1970 */
    double          arrived;
    bool            stream, ended, asleep;
    bool            usage, return_ids; /* the response has them */
    bool            want_probs;    /* log-probabilities of tokens, and of the top n_top */
    size_t          n_top;
    tblock_generation_options options; /* of every choice, but for ids and seed */
    int32_t        *stop_ids;
    char          **stop_texts;
    int32_t        *bias_ids;
    float          *bias;
    size_t          n_bias;
    tblock_constraint *constraint;
    Prompt         *prompt;        /* [n_prompts] */
    size_t          n_prompts;
    uint64_t        cache_scope;   /* as in tblock_generation_options */
    size_t          adapter;       /* 1 + its number in the options; 0: none */
    Choice         *choice;        /* [n_choices] */
    size_t          n_choices, n_open, n_running;
    bool            passed;        /* its next choice is deferred in this round of the scheduler */
    int             status;        /* of the response; 0: not known yet */
    TextOut         out;           /* of the thread that writes; its connection reads `ready` */
    TextOut         ready;
    size_t          n_sent;        /* of that */
    char            why[512];      /* of a failure */
};

/* A job for this exchange, without prompts yet; its id begins with prefix. NULL: refused. */
Job *job_new(Exchange *x, const char *prefix, const JobForm *form);
bool job_choices(Job *j, size_t n_prompts, size_t per_prompt);
/* Whose cached prefixes it shares: those of the exchange's key and of this salt (NULL: none). */
bool job_scope(Job *j, const JsonNode *salt);
void job_free(Job *j);
/* Hand it to the scheduler. False: refused (the queue is full, the server stops). The exchange
 * owns the job until then, and both do afterwards. */
bool job_submit(Exchange *x, Job *j);
bool refuse_full(Exchange *x);
/* Has a request that arrived then timed out? */
bool is_late(const Server *s, double arrived);
#define LATE_WORDS "the request took more than %g seconds"
/* Detach the exchange: the client has its response, or is gone. */
void job_leave(Job *j);
/* There may be new output, or the response is complete: move it to where its connection reads, and
 * wake that. With the lock held. */
void job_wake(Job *j);
/* All its choices have ended, and it is in no list: a thread of prepare.c writes its response, and
 * ends it. With the lock held. */
void job_write(Job *j);
/* "stop", "length" or NULL while it runs. */
const char *finish_reason(const Choice *c);
/* How OpenAI's forms report a failed job. */
void job_failed(Job *j, int status);
/* An event of a stream, "data: TEXT", after "event: NAME" unless name is NULL. */
void event_begin(Job *j, const char *name);
void event_end(Job *j);

/* Record a token that was sampled or echoed, and a request for its log-probabilities, if any. These
 * are computed after the step, by all threads: each needs an exponential of every logit, and the
 * team would wait for them one by one. */
void choice_on_token(void *user, size_t index, int32_t token, const float *logits);
void find_asked(Server *s, ThreadPool *pool);

/* ---- Prompts (prompts.c) --------------------------------------------------------------------- */

/* How to read a parameter that takes a text, an array of ids, or an array of either. */
typedef struct PromptForm {
    const char *param;
    bool        add_special, parse_special; /* to texts: as in tblock_tokenize */
    bool        texts;                      /* of ids too, if the model has a tokenizer */
} PromptForm;
size_t prompts_count(const JsonNode *p);
/* Into the job's prompts, of which there are prompts_count. False: refused, also if one is empty or
 * longer than the context. */
bool prompts_read(Exchange *x, const JsonNode *p, const PromptForm *f, Job *j);

/* ---- Settings (settings.c) ------------------------------------------------------------------- */

/* The first member of the struct that a request to generate is read into. */
typedef struct Settings {
    const JsonNode *model, *stop, *stream_options, *resume_ids, *bias, *salt;
    bool            stream, usage, return_ids, receipt;
    int64_t         n, seed;
    union { double real; int64_t whole; } sampling[SAMPLING_N]; /* whole: of type INT, off is 0 */
    int             max_tokens, top; /* set by the endpoint: as in tblock_generation_options; how
                                      * many top log-probabilities, -1: none */
    const char     *max_param, *stop_param; /* the endpoint's names of these, for errors */
} Settings;
extern const Field settings_fields[], /* of every endpoint */
    openai_fields[];                  /* of OpenAI's endpoints */
#define SAMPLING_OFF(field, type, least, most, usual, option, help, low, off, ...) { off },
#define SETTINGS_DEFAULT                                                                           \
    { .n = 1, .top = -1, .sampling = { SAMPLING_ROWS(SAMPLING_OFF) }, .seed = -1,                  \
      .max_param = "max_tokens", .stop_param = "stop" }
/* Also draws a random seed if there is none (-1). */
bool     settings_check(Exchange *x, Settings *s);
/* Into the job, which has its choices and prompts. */
bool     settings_apply(Exchange *x, const Settings *s, Job *j);
/* When all options of the job are known: a receipt for each choice, if the request wants it.
 * The first one reads the model's data. */
bool     open_receipts(Exchange *x, const Settings *s, const tblock_chat *chat, Job *j);

/* "id", "object", "created", "model" and, for generated texts, "seed" of an object that begins
 * here. */
void head_json(Job *j, const char *object);
void usage_json(Job *j);
/* The receipt of a choice that has ended, after a comma; nothing if none was requested. */
void receipt_json(const Choice *c);
void sampled_ids_json(const Choice *c, size_t first, size_t n);
void end_stream(Job *j, const char *object);
void end_whole(Job *j); /* of a response that ends with the array being written, and the usage */

/* ---- Conversations (talk.c) ------------------------------------------------------------------ */

/* An item of a reply: text, reasoning or a tool call. */
typedef struct Item {
    int    kind;        /* TBLOCK_ANSWER_CONTENT, _REASONING or _CALL */
    size_t index, call; /* of the item in the reply; of the call among its calls */
    size_t from, n;     /* its bytes in the content or the reasoning */
    bool   begun, grown, open, cut;
    size_t first, end;  /* for the endpoint: tokens that it comes from */
} Item;

/* The parsed reply of one choice. */
typedef struct Reply {
    tblock_answer *answer;
    Item          *item;       /* [n_items] */
    size_t         n_items, cap;
    size_t         n_bytes[3]; /* in items of each kind */
    bool           begun;      /* for the endpoint: its first event was emitted */
} Reply;

/* A chat request of any endpoint, which translates its request into the first part, and writes the
 * parsed replies. It is the first member of the job's request, allocated with calloc. */
typedef struct Talk {
    const char  *param;       /* names the messages in errors */
    TextOut      messages;    /* [n_messages] JSON objects in OpenAI's form, each with a NUL */
    size_t       n_messages;
    TextOut      tools, args; /* an array of OpenAI's tools, an object of more variables of the
                               * template; each with a NUL; or nothing */
    TextOut      schema;      /* a JSON Schema that the reply must fit, without NUL; or nothing */
    const char  *schema_param;
    bool         must_call, one_call; /* the reply must be tool calls; at most one call, ... */
    const char  *call_name;           /* ... of the tool of this name; NULL: of any */
    bool         strict;              /* an optional call must fit its schema too */
    /* made by talk_open and talk_job */
    tblock_chat  *chat, *own;
    Reply        *reply;       /* [n] one for each choice */
    size_t        n;
} Talk;
void talk_free(void *t); /* accepts NULL */
/* A job with such a request of n bytes; NULL: refused. */
Job *talk_new(Exchange *x, const char *prefix, const JobForm *form, size_t n,
              void (*free_request)(void *request));

/* The template with what the request adds to it; t NULL: the server's. */
tblock_chat *talk_chat(const Server *s, const Talk *t, tblock_error *err);
/* The types that parts of a message may have (NULL ends them), and the fields besides type and
 * text, ignored or rejected by name; NULL: none. */
typedef struct PartForm { const char *const *types; const Field *more; } PartForm;
/* The text of a part; NULL: refused. */
const JsonNode *talk_part(Exchange *x, Place at, const JsonNode *part, const PartForm *form);
/* A content as one text: its parts concatenated. Templates would put images between them; many do
 * not support parts at all. */
bool talk_text(Exchange *x, Place at, const JsonNode *content, const PartForm *form, TextOut *o);
/* A function that the model may call, in OpenAI's form; description and parameters may be NULL. */
void talk_tool(TextOut *o, const JsonDoc *d, const JsonNode *name, const JsonNode *description,
               const JsonNode *parameters);
/* Consecutive items of one role, which become one message in OpenAI's form. */
typedef struct Turn {
    const char     *role; /* NULL: not begun */
    TextOut         text, reasoning, calls;
    const JsonNode *call_id, *name; /* of a tool's result */
    bool            is_error;
} Turn;
/* Ends another role's turn first. */
void turn_begin(Turn *turn, Talk *t, const char *role);
void turn_call(Turn *turn, const JsonDoc *d, const JsonNode *id, const JsonNode *name,
               const JsonNode *arguments);
void turn_end(Turn *turn, Talk *t);
/* More variables of the template: an object, and reasoning_effort; NULL: none. */
bool talk_args(Exchange *x, const JsonDoc *d, const JsonNode *args, const JsonNode *effort,
               Talk *t);
/* Makes the talk's chat, unless it has one. */
bool talk_open(Exchange *x, Talk *t);
/* OpenAI's tool_choice (NULL: auto) and parallel_tool_calls, after tools, which "none" hides. */
bool talk_choice(Exchange *x, const JsonNode *choice, bool parallel, Talk *t);
/* Can the reply be limited to one call, as param asks? */
bool talk_may_be_one(Exchange *x, const char *param, const Talk *t);
/* After talk_open: the ids or the text of the prompt, which end with what opens a reply. Calls in
 * messages get their arguments as the template needs them, an object or a string. */
bool talk_prompt(Exchange *x, Talk *t, bool as_text, Prompt *p);
/* Sets up a job whose request is a Talk: choices, prompt, settings, stops, constraint. */
bool talk_job(Exchange *x, const Settings *s, Job *j);


/* ---- Replies (reply.c) ----------------------------------------------------------------------- */

/* How an endpoint emits the items of a reply. An item begins when its first part comes, a call not
 * before all that its head shows is known. */
typedef struct ItemForm {
    void (*begins)(Choice *c, Item *i);
    void (*grows)(Choice *c, Item *i, const char *text, size_t n); /* or arguments of a call */
    void (*ends)(Choice *c, Item *i);
} ItemForm;
Reply             *reply_of(const Choice *c);
tblock_answer_info reply_said(const Choice *c);
void               reply_free(Reply *r);
Item              *reply_last(const Choice *c); /* NULL: there is none */
/* The next bytes of a choice's reply, or NULL at its end. If that fails, out.failed is set. */
void  reply_put(Choice *c, const char *text, size_t n, const ItemForm *form);
/* The same in two steps. cut: a call that ends here was cut by a limit. */
const tblock_answer_part *reply_parse(Choice *c, const char *text, size_t n, size_t *n_parts);
void  reply_add(Choice *c, const tblock_answer_part *part, size_t n_parts, bool cut,
                const ItemForm *form);
/* A new item, after the end of the last one; NULL: no memory. And the end of the last one. */
Item *reply_item(Choice *c, int kind, size_t call, const ItemForm *form);
void  reply_end(Choice *c, bool cut, const ItemForm *form);
/* Its call k. If the model gave it no id, it gets one, the same each time. */
typedef struct TalkCall { tblock_answer_call_info said; char id[9]; } TalkCall;
void reply_call(const Choice *c, size_t k, TalkCall *out);
/* Tokens first .. first + n with their log-probabilities, as an array. */
void probs_json(const Choice *c, size_t first, size_t n);

/* ---- Input of /v1/responses (response_input.c) ----------------------------------------------- */

/* Items as messages; instructions, or NULL, come before them. Functions as tools. */
bool response_input(Exchange *x, const JsonDoc *d, const JsonNode *instructions,
                    const JsonNode *input, Talk *t);
bool response_tools(Exchange *x, const JsonDoc *d, const JsonNode *tools, Talk *t);

/* ---- The scheduler --------------------------------------------------------------------------- */

/* Does its invariant hold (scheduler.c)? With the lock held, between steps. */
typedef struct Scheduler Scheduler;
bool scheduler_is_sound(const Scheduler *k);
/* Is the KV memory enough for one sequence? */
bool scheduler_check(const Server *s, tblock_error *err);
/* Compute until scheduler_stop was called and all jobs have ended. */
void scheduler_run(Server *s);
/* Stop it, as a signal does. */
void scheduler_stop(Server *s, bool at_once);

/* ---- Endpoints ------------------------------------------------------------------------------- */

bool completions_handle(Exchange *x);
bool embeddings_handle(Exchange *x);
bool rerank_handle(Exchange *x);
bool chat_handle(Exchange *x);
bool responses_handle(Exchange *x);
bool apply_template_handle(Exchange *x);
bool openapi_handle(Exchange *x);
extern const Body completions_body, embeddings_body, chat_body, responses_body, messages_body,
    count_tokens_body, rerank_body, tokenize_body, detokenize_body;
bool tokenize_handle(Exchange *x);
bool detokenize_handle(Exchange *x);
bool tokenizer_info_handle(Exchange *x);
bool messages_handle(Exchange *x);
bool count_tokens_handle(Exchange *x);
ErrorForm messages_error;
bool models_handle(Exchange *x);
bool model_handle(Exchange *x);
bool health_handle(Exchange *x);
bool props_handle(Exchange *x);
bool page_handle(Exchange *x);
bool metrics_handle(Exchange *x);

/* ---- Tokens (tokens.c) ----------------------------------------------------------------------- */

/* The text of a token, as JSON: bytes that are not UTF-8 as "bytes:\xe4"; "token_id:7" if there is
 * no tokenizer. */
void token_json(TextOut *o, const Server *s, int32_t id);
/* The same as a member of the response; null for an id below 0. */
void token_member(Exchange *x, const char *key, int32_t id);
/* Its bytes; none without a tokenizer. */
void token_bytes(TextOut *o, const Server *s, int32_t id);
/* An array of ids; strings: and "token_strs", their texts. */
void ids_json(TextOut *o, const Server *s, const int32_t *ids, size_t n, bool strings);
/* How many values the JSON of a request may have: each takes 40 bytes, and more in its use. */
size_t most_values(const Server *s);
/* Handle a request by its body, which must be JSON. */
bool with_body(Exchange *x, bool (*answer)(Exchange *x, const JsonDoc *d));
/* served.c. 1 + the number of the adapter that a request names; 0: the model itself, also if a
 * lenient server does not know the name. */
size_t      model_number(const Server *s, const JsonNode *model);
const char *model_name(const Server *s, size_t number);
void        model_member(TextOut *o, const Server *s, size_t number); /* "model": its name */
/* "system_fingerprint", after a comma: if it is equal, equal requests get equal responses. */
void        fingerprint_member(TextOut *o, const Server *s, size_t number);
const tblock_lora *adapter_use(const Job *j); /* never NULL; of n_lora j->adapter > 0 */
/* Is it our model, or an adapter of it? NULL is. */
bool check_model(Exchange *x, const JsonNode *model);
bool refuse_model(Exchange *x, const char *name);
/* The ids of an array, and those of a text; false: refused. *ids is allocated. */
bool ids_of(Exchange *x, const char *param, const JsonNode *list, int32_t **ids, size_t *n);
bool tokens_of(Exchange *x, const JsonNode *text, unsigned flags, int32_t **ids, size_t *n);

#endif
