/* tests/fuzz/fuzz_jinja.c: any bytes as a template, over a small conversation. What renders is
 * UTF-8, and renders to the same again. */
#include "fuzz.h"
#include "chat/jinja.h"
#include "tokenizer/unicode.h"

static const char DATA[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\u00fc <|im_end|>\"},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\":"
    " {\"name\": \"f\", \"arguments\": {\"x\": 1.5}}}]}], \"a\": 1, \"b\": -2.5, \"l\": [3, 1, 2],"
    " \"s\": \"some text\", \"add_generation_prompt\": true}";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    Error   e = { 0 };
    JsonDoc d = { 0 };
    char   *text = exact_copy(bytes, n);
    claim(json_doc_parse(&d, exact_copy(DATA, sizeof DATA - 1), sizeof DATA - 1, 0, "data", &e));
    Jinja *t = jinja_parse(text, n, "template", &e);
    said(t != NULL, &e);
    free(text); /* the template keeps nothing of it */
    if (t) {
        JinjaText  out = { 0 }, again = { 0 };
        JinjaInput in = { d.node, d.node, n % 2 ? "2026-01-31" : NULL, NULL };
        if (said(jinja_render(t, &in, &out, &e), &e)) {
            claim(!out.n || valid_prefix(out.text, out.n) == out.n);
            for (size_t i = 0; i < out.n; i++)
                claim(out.mark[i] == 0 || out.mark[i] == 1);
            claim(jinja_render(t, &in, &again, &e) && again.n == out.n
                  && memcmp(again.text, out.text, out.n) == 0);
        }
        jinja_text_free(&out);
        jinja_text_free(&again);
    }
    jinja_free(t);
    json_doc_free(&d);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "jinja"); }
#endif
