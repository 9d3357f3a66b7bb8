/* Decodes one id at a time and holds back an incomplete UTF-8 character until its next bytes
 * arrive. */
#include <stdlib.h>
#include <string.h>
#include "tokenizer/tokenizer_parts.h"
#include "tokenizer/unicode.h"

struct TextStream {
    const Tokenizer *t;
    bool   start;     /* nothing shown yet: a dummy prefix is dropped */
    char   waiting[3];
    size_t n_waiting;
    char   out[];     /* 3 + decode_longest(t) + NUL */
};

TextStream *text_stream_new(const Tokenizer *t, bool continues)
{
    TextStream *s = malloc(sizeof *s + sizeof s->waiting + decode_longest(t) + 1);
    if (s)
        *s = (TextStream){ .t = t, .start = !continues };
    return s;
}

void text_stream_free(TextStream *s) { free(s); }

const char *text_stream_put(TextStream *s, int id, size_t *n_bytes)
{
    size_t n = s->n_waiting;
    memcpy(s->out, s->waiting, n);
    if (id >= 0 && id < s->t->vocab.size)
        n += decode_id(s->t, id, &s->start, s->out + n);
    s->n_waiting = partial_tail(s->out, n);
    n -= s->n_waiting;
    memcpy(s->waiting, s->out + n, s->n_waiting);
    s->out[n] = '\0';
    *n_bytes  = n;
    return s->out;
}

const char *text_stream_alone(TextStream *s, int id, size_t *n_bytes)
{
    bool start = false;
    *n_bytes = id >= 0 && id < s->t->vocab.size ? decode_id(s->t, id, &start, s->out) : 0;
    s->out[*n_bytes] = '\0';
    return s->out;
}

const char *text_stream_flush(TextStream *s, size_t *n_bytes)
{
    memcpy(s->out, s->waiting, s->n_waiting);
    s->out[s->n_waiting] = '\0';
    *n_bytes = s->n_waiting;
    s->n_waiting = 0;
    return s->out;
}
