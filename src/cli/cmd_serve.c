/* tblock serve: one model over HTTP. */
#include "chat_session.h"

#include "frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "serve/serve.h"
#include "tblock_tools.h"

typedef struct ServeArgs {
    ServeOptions   o;
    const char    *model, *alias, *key_file;
    int            cache, body_mb, kv_mb, timeout;
    TextList       origin, allowed_host;
    bool           check;
    DraftArgs      draft;
    ComputeOptions compute;
    GeneralOptions general;
} ServeArgs;

#if defined(HAVE_MICROHTTPD)

/* The last part of a path, without a file's extension. */
static void name_of(const char *path, char *out, size_t n_out)
{
    char   place[PATH_BYTES];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    snprintf(place, sizeof place, "%.*s", (int)n, path);
    const char *name = path_name(place);
    int         end  = path_ends(name, ".bin") ? 4 : path_ends(name, ".gguf") ? 5 : 0;
    snprintf(out, n_out, "%.*s", (int)strlen(name) - end, name);
}

typedef struct Keys { TextOut text; size_t n; } Keys;

/* One key per line; empty lines and those that begin with # are skipped. */
static bool add_key(void *user, const Lines *at, const char *line, size_t n, tblock_error *err)
{
    Keys *k = user;
    n -= n && line[n - 1] == '\r';
    if (n == 0 || line[0] == '#')
        return true;
    text_out_bytes(&k->text, line, n);
    text_out_bytes(&k->text, "", 1);
    k->n++;
    return !k->text.failed || no_memory(at->name, err);
}

static bool read_keys(const char *path, Keys *k, tblock_error *err)
{
    return !path
        || (lines_each(path, add_key, k, err)
            && (k->n || fail(err, TBLOCK_INPUT, "%s: expected a key, found none", path)));
}

/* With --sandbox the model is read in it. Keys are read before: they are the user's own. */
static bool enter_sandbox(Frame *f, ServeOptions *o, tblock_error *err)
{
    return !f->compute.sandbox
        || (guarded_model(f->path, &f->compute, f->draft, err)
            && (o->listens = serve_listen(o, err)) > 0 && sandbox_enter(&o->listens, 1, true, err));
}

/* Prints the cost of a draft model: its weights, and its KV cache beside the other's. */
static void tell_draft(const Drafting *d, const char *path)
{
    tblock_context_info c;
    if (!d->context)
        return;
    tblock_context_describe(d->context, &c);
    cli_note("draft: %s reads %.2f MB of weights a token, and adds %.2f kB of KV cache to "
                    "each token, which --kv-memory counts", path,
             (double)d->info.bytes_per_token / 1e6, (double)c.kv_tile_bytes / 64e3);
}

/* The bytes of KV cache that a server takes at most: a tenth of what is available is left to
 * others. */
static size_t room_of(const tblock_context_info *c) { return c->kv_room / 10 * 9; }

/* The context. If nobody chose its length, it is the model's, or as much of it as the memory has
 * room for. */
static bool open_context(Frame *f, tblock_error *err)
{
    tblock_context_info c;
    if (!frame_context(f, err))
        return false;
    tblock_context_describe(f->context, &c);
    const size_t tiles = c.kv_tile_bytes ? room_of(&c) / c.kv_tile_bytes : SIZE_MAX;
    if (f->compute.n_ctx || !c.kv_room || tiles >= serve_text_tiles(c.n_ctx))
        return true;
    f->compute.n_ctx =
        tiles > serve_text_tiles(64) ? (int)(tiles - serve_text_tiles(0)) * 64 : 64;
    cli_note("context of %d tokens: the memory has no room for the model's %d (--ctx)",
             f->compute.n_ctx, c.n_ctx);
    tblock_context_free(f->context);
    return frame_context(f, err);
}

/* Without --kv-memory the available memory bounds the cache, if all sequences together could take
 * more. One text of n_ctx tokens fits. */
static void bound_kv(ServeOptions *o)
{
    tblock_context_info c;
    tblock_context_describe(o->context, &c);
    const size_t text = serve_text_tiles(c.n_ctx) * c.kv_tile_bytes, room = room_of(&c);
    if (o->kv_bytes || !c.kv_room || room / (size_t)c.n_seqs >= text)
        return;
    o->kv_bytes = room > text ? room : text;
    cli_note("KV cache: at most %zu MB, as %d texts of %d tokens do not fit into the memory "
             "(--kv-memory)", o->kv_bytes >> 20, c.n_seqs, c.n_ctx);
}

enum { NAME = 256 };

/* The names that requests may use: the last part of each adapter's path. */
typedef struct Adapters {
    tblock_lora_file *file;
    ServeAdapter     *of;
    tblock_lora      *use;
    char            (*name)[NAME];
} Adapters;

static void adapters_free(Adapters *x)
{
    free(x->file);
    free(x->of);
    free(x->use);
    free(x->name);
}

static bool name_adapters(Adapters *x, const TextList *lora, const char *model, tblock_error *err)
{
    x->of   = calloc(lora->n + 1, sizeof *x->of);
    x->use  = calloc(lora->n + 1, sizeof *x->use);
    x->name = calloc(lora->n + 1, sizeof *x->name);
    if (!x->of || !x->use || !x->name)
        return no_memory(NULL, err);
    x->file = loras_read(lora, err);
    for (size_t i = 0; x->file && i < lora->n; i++) {
        name_of(x->file[i].path, x->name[i], NAME);
        x->use[i] = (tblock_lora){ (int)i, x->file[i].scale };
        x->of[i]          = (ServeAdapter){ x->name[i], &x->use[i] };
        bool taken        = strcmp(x->name[i], model) == 0;
        for (size_t j = 0; j < i; j++)
            taken |= strcmp(x->name[i], x->name[j]) == 0;
        if (taken)
            return fail(err, TBLOCK_USAGE, "--lora %s: expected a name of its own for requests, "
                                           "found another model of the name %s", x->file[i].path,
                        x->name[i]);
    }
    return x->file != NULL;
}

static bool serve_with(Frame *f, ServeOptions *o, tblock_error *err)
{
    const ServeArgs *a = f->args;
    char             name[NAME];
    Adapters         adapters = { 0 };
    name_of(a->model, name, sizeof name);
    o->name            = a->alias ? a->alias : name;
    o->n_adapters      = a->compute.lora.n;
    o->origin          = a->origin.texts;
    o->n_origins       = a->origin.n;
    o->allowed_host    = a->allowed_host.texts;
    o->n_allowed_hosts = a->allowed_host.n;
    o->draft_match     = a->draft.match;
    o->body_bytes      = (size_t)a->body_mb << 20;
    o->kv_bytes        = (size_t)a->kv_mb << 20;
    o->timeout_s       = a->timeout;
    o->quiet           = a->general.quiet;
    f->compute.n_seqs  = o->parallel + a->cache;
    if (!enter_sandbox(f, o, err) || !frame_model(f, err))
        return false;
    f->compute.lora = (TextList){ 0 }; /* requests choose their adapter */
    bool good = open_context(f, err) && frame_draft(f, err)
        && name_adapters(&adapters, &a->compute.lora, o->name, err)
        && frame_apart(f, o->log, NULL, err);
    o->model   = f->model;
    o->context = f->context;
    o->draft   = f->drafting.most;
    o->adapter = adapters.of;
    if (good) {
        tell_draft(&f->drafting, a->draft.by);
        bound_kv(o);
    }
    good = good && serve(o, err);
    adapters_free(&adapters);
    return good;
}

static bool serve_model(Frame *f, tblock_error *err)
{
    const ServeArgs *a = f->args;
    if (a->check)
        return serve_check(a->o.host, a->o.port, err);
    ServeOptions o    = a->o;
    TextOut      text = { 0 };
    Keys         keys = { 0 };
    bool         good = read_keys(a->key_file, &keys, err)
        && template_read(a->o.chat_format, &text, &o.chat_format, err);
    o.keys   = keys.text.text;
    o.n_keys = keys.n;
    good     = good && serve_with(f, &o, err);
    text_out_free(&text);
    text_out_free(&keys.text);
    return good;
}

#else

static bool serve_model(Frame *f, tblock_error *err)
{
    (void)f;
    return fail(err, TBLOCK_SYSTEM, "serve: this tblock was built without libmicrohttpd "
                                    "(libmicrohttpd-dev of Debian and Ubuntu), which it needs");
}

#endif

static bool check_serve(Frame *f, tblock_error *err)
{
    const ServeArgs *a = f->args;
    if (a->check && a->model)
        return fail(err, TBLOCK_USAGE, "--check: expected no MODEL beside it, found %s", a->model);
    if (!a->check && !a->model)
        return fail(err, TBLOCK_USAGE, "serve: expected MODEL; see tblock help serve");
    if (a->o.log && a->compute.sandbox)
        return fail(err, TBLOCK_USAGE,
                    "--log: expected no --sandbox beside it, in which no file is opened again; "
                    "2>> %s appends to it too", a->o.log);
    return true;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

#define AT(field) offsetof(ServeArgs, field)
static const Option serve_options[] = {
    { "host",        0,  "HOST", OPT_TEXT, AT(o.host),     0, 0, "127.0.0.1",
      "address to listen at; one that other machines can reach needs --key-file" },
    { "port", 0, "N", OPT_INT, AT(o.port), 0, 65535, "8080", "0: a free one" },
    { "alias", 0, "NAME", OPT_TEXT, AT(alias), 0, 0, NULL,
      "the model's name in requests and answers; default: that of its file" },
    { "chat-format", 0, "NAME|FILE", OPT_TEXT, AT(o.chat_format), 0, 0, NULL,
      "the chat template: a built-in one or a file in Jinja; default: the model's own" },
    { "date", 0, "YYYY-MM-DD", OPT_TEXT, AT(o.date), 0, 0, NULL,
      "today's date for templates that ask for it; without it they have none" },
    { "parallel", 0, "N", OPT_INT, AT(o.parallel), 1, 1024, "32",
      "maximum number of sequences generated at once (slots)" },
    { "cache", 0, "N", OPT_INT, AT(cache), 0, 4096, "32",
      "remember up to N more sequences for requests that begin like them" },
    { "kv-memory", 0, "MB", OPT_INT, AT(kv_mb), 0, 1 << 30, "0",
      "at most so much KV cache: what no one uses is forgotten, then the youngest text waits; 0: "
      "what the memory leaves" },
    { "queue", 0, "N", OPT_INT, AT(o.queue), 0, 1 << 20, "512",
      "at most N texts wait; then the answer is status 429" },
    { "timeout", 0, "SECONDS", OPT_INT, AT(timeout), 0, 1 << 20, "0",
      "end a request after so long; 0: never" },
    { "connections", 0, "N", OPT_INT, AT(o.connections), 1, 1 << 20, "1000",
      "at most N connections" },
    { "request-timeout", 0, "SECONDS", OPT_INT, AT(o.request_seconds), 1, 1 << 20, "60",
      "hang up on a client that takes longer to send its request" },
    { "max-body", 0, "MB", OPT_INT, AT(body_mb), 1, 1024, "16", "at most so large a request" },
    { "check", 0, NULL, OPT_FLAG, AT(check), 0, 0, NULL,
      "start no server: ask the one at --host and --port for /health; status 1 where it is not "
      "well" },
    { 0 },
};
static const Option access_options[] = {
    { "key-file",     0, "FILE",   OPT_TEXT,  AT(key_file),     0, 0, NULL,
      "ask for one of these keys, one in each line, everywhere but at / and /health" },
    { "share-cache",  0, NULL,     OPT_FLAG,  AT(o.share_cache),  0, 0, NULL,
      "keys share the cached prefixes of prompts; without it the count of cached tokens and the "
      "time tell no key what others sent" },
    { "allow-origin", 0, "ORIGIN", OPT_TEXTS, AT(origin),       0, 0, NULL,
      "let pages of that site ask, as https://example.org; *: any site" },
    { "allow-host",   0, "NAME",   OPT_TEXTS, AT(allowed_host), 0, 0, NULL,
      "a name under which this server is reached, besides addresses and localhost" },
    { "lenient",      0, NULL,     OPT_FLAG,  AT(o.lenient),      0, 0, NULL,
      "ignore unknown parameters and other model names; by default they are errors" },
    { "log",          0, "FILE",   OPT_TEXT,  AT(o.log),          0, 0, NULL,
      "append the log to that file, which SIGHUP opens again; default: standard error" },
    { "log-prompts",  0, NULL,     OPT_FLAG,  AT(o.log_prompts),  0, 0, NULL,
      "write what requests say to the log too" },
    { 0 },
};
const Command cmd_serve = {
    { "serve", OPERANDS({ "MODEL", AT(model), true, MODEL_OPERAND }),
      GROUPS({ "Serving", serve_options, 0 }, { "Access", access_options, 0 },
             GROUP_DRAFT(AT(draft)), GROUP_COMPUTE(AT(compute)), GROUP_GENERAL(AT(general))) },
    "answer requests over HTTP",
    "Speaks the protocol of OpenAI's completions and chat (docs/serve.md). Each text has the bits "
    "of tblock run with the same settings and seed, whatever else runs beside it. A line for each "
    "request goes to standard error. SIGTERM and Ctrl-C: no new requests, and running ones may "
    "end; a second one stops at once.",
    EXAMPLES({ "tblock serve model.bin", "prints its address; docs/serve.md has requests to try" },
             { "tblock serve model.bin --host 0.0.0.0 --key-file keys.txt --kv-memory 4096",
               "for other machines, with keys and a bound on memory" }),
    .args_size = sizeof(ServeArgs), .run = serve_model, .check = check_serve,
    .reads = { "key-file", "chat-format" },
};
