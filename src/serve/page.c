/* serve/page.c: the page at /, for people. It contains nothing of the model: it sends requests as
 * any client does, so it needs no key itself. */
#include "serve/server.h"

static const char *const page[] = {
#include "serve/page.html.inc"
};

/* Its style and script have the nonce that the Content-Security-Policy of the response allows:
 * nothing that got into the page in another way would run. */
bool page_handle(Exchange *x)
{
    static const char mark[] = "NONCE";
    random_id(x->nonce, sizeof x->nonce);
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        const char *at = strstr(page[i], mark), *rest = at ? at + sizeof mark - 1 : page[i];
        if (at) {
            text_out_bytes(&x->answer, page[i], (size_t)(at - page[i]));
            text_out(&x->answer, "%s", x->nonce);
        }
        text_out(&x->answer, "%s", rest);
    }
    x->type = "text/html; charset=utf-8";
    return true;
}
