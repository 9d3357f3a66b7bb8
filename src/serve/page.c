/* serve/page.c: the page at /, for people. It contains nothing of the model: it sends requests as
 * any client does, so it needs no key itself. */
#include "serve/server.h"

static const char *const page[] = {
#include "serve/page.html.inc"
};

/* Its style and script have the nonce that the Content-Security-Policy of the response allows:
 * nothing that got into the page in another way would run. Its script has the sampling options: of
 * each the parameter, and its name in /props. */
bool page_handle(Exchange *x)
{
    static const char *const marks[] = { "NONCE", "SAMPLING_ROWS" };
    TextOut                 *o       = &x->answer;
    random_id(x->nonce, sizeof x->nonce);
    for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
        const char *rest = page[i];
        for (int m = 0; m < 2; m++) {
            const char *at = strstr(rest, marks[m]);
            if (!at)
                continue;
            text_out_bytes(o, rest, (size_t)(at - rest));
            rest = at + strlen(marks[m]);
            if (m == 0)
                text_out(o, "%s", x->nonce);
            else
                SAMPLING_EACH (row)
                    text_out(o, "['%s', '%s'], ", row->parameter, row->name);
        }
        text_out(o, "%s", rest);
    }
    x->type = "text/html; charset=utf-8";
    return true;
}
