/* serve/exchange.c: what all handlers of requests share: errors, ids, and members of JSON. */
#include "serve/server.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>

void random_id(char *out, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char     byte[64];
    if (getrandom(byte, sizeof byte, 0) != (ssize_t)sizeof byte)
        memset(byte, 0, sizeof byte); /* not on Linux since 3.17 */
    for (size_t i = 0; i + 1 < n; i++)
        out[i] = digits[byte[i % sizeof byte] & 15];
    out[n - 1] = '\0';
}

uint64_t random_seed(void)
{
    uint64_t x = 0;
    return getrandom(&x, sizeof x, 0) == (ssize_t)sizeof x ? x >> 11 : 0;
}

bool hung_up(int fd)
{
    struct pollfd watched = { .fd = fd, .events = POLLRDHUP };
    return poll(&watched, 1, 0) > 0 && watched.revents;
}

static const char *error_type(int status)
{
    return status == MHD_HTTP_UNAUTHORIZED        ? "authentication_error"
           : status == MHD_HTTP_FORBIDDEN         ? "permission_error"
           : status == MHD_HTTP_NOT_FOUND         ? "not_found_error"
           : status == MHD_HTTP_TOO_MANY_REQUESTS ? "rate_limit_error"
           : status >= 500                        ? "server_error"
                                                  : "invalid_request_error";
}

void error_json(TextOut *o, const char *request_id, int status, const char *param,
                const char *message)
{
    const bool no_model = status == MHD_HTTP_NOT_FOUND && param;
    (void)request_id; /* a header has it */
    json_out(o, "{error: {message: %s, type: %s, param: %s, code:", message, error_type(status),
             param);
    if (no_model)
        json_out(o, "model_not_found}}\n");
    else
        json_out(o, "%d}}\n", status);
}

bool refuse(Exchange *x, int status, const char *param, const char *fmt, ...)
{
    tblock_error made; /* for its escapes and truncation */
    char         message[sizeof made.msg];
    va_list      args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    fail(&made, TBLOCK_USAGE, "%s", message);
    text_out_free(&x->answer);
    x->status = status;
    (x->error ? x->error : error_json)(&x->answer, x->id, status, param, made.msg);
    return false;
}

bool refuse_error(Exchange *x, const char *param, const tblock_error *err)
{
    return refuse(x,
                  err->status == TBLOCK_SYSTEM ? MHD_HTTP_INTERNAL_SERVER_ERROR
                                               : MHD_HTTP_BAD_REQUEST,
                  param, "%s", err->msg);
}

bool refuse_memory(Exchange *x)
{
    return refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, "out of memory");
}

void exchange_answer(Exchange *x)
{
    if (x->route->handle(x) && !x->status && !x->job)
        x->status = MHD_HTTP_OK;
}
