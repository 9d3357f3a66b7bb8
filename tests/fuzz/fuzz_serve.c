/* tests/fuzz/fuzz_serve.c: the body of a request to tblock serve. The first byte chooses the path.
 * Each is answered with JSON, or becomes a job, whose client then leaves. */
#include "fuzz.h"
#include "small_server.h"

#if defined(HAVE_MICROHTTPD)

static const Route *route_of(unsigned char which)
{
    const Route *post[32];
    size_t       n = 0;
    for (const Route *r = routes; r->path; r++)
        if (strcmp(r->method, "POST") == 0 && n < 32)
            post[n++] = r;
    return post[which % n];
}

/* Parses what was answered, which must be JSON and say why it is an error. */
static void check_answer(const Exchange *x)
{
    JsonDoc d = { 0 };
    Error   e;
    claim(x->status == 200 || (x->status >= 400 && x->status < 600));
    claim(!x->answer.failed && json_doc_read(&d, x->answer.text, x->answer.n, 0, "answer", &e));
    const JsonNode *error = node_get(d.node, "error");
    claim((error != NULL) == (x->status != 200));
    claim(!error || node_get(error, "message"));
    json_doc_free(&d);
}

static void leave(Exchange *x, Server *s)
{
    claim(x->status == 0 && s->first == x->job);
    job_leave(x->job);
    s->draining = true;
    scheduler_run(s); /* ends what nobody waits for */
    s->draining = false;
    claim(!s->first && s->n_jobs == 0 && s->counts.waiting == 0 && s->counts.running == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Server  *s = small_server();
    Exchange x = { .server = s, .id = "req-fuzz" };
    if (n < 1)
        return 0;
    x.route = route_of(bytes[0]);
    x.error = x.route->error;
    if (n > 1)
        text_out_bytes(&x.body, (const char *)bytes + 1, n - 1);
    exchange_answer(&x);
    if (x.job)
        leave(&x, s);
    else
        check_answer(&x);
    text_out_free(&x.body);
    text_out_free(&x.answer);
    return 0;
}

#endif

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "serve"); }
#endif
