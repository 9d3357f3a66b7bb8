/* serve/reply.c: what the model says in a conversation, as a stream of items: text, reasoning and
 * tool calls, in the order in which they come. Each endpoint emits them in its own form. */
#include "serve/server.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"

Reply *reply_of(const Choice *c) { return &((Talk *)c->job->request)->reply[c->index]; }

tblock_answer_info reply_said(const Choice *c)
{
    tblock_answer_info said;
    tblock_answer_describe(reply_of(c)->answer, &said);
    return said;
}

void reply_free(Reply *r)
{
    tblock_answer_free(r->answer);
    free(r->item);
}

/* ---- Items ----------------------------------------------------------------------------------- */

Item *reply_last(const Choice *c)
{
    const Reply *r = reply_of(c);
    return r->n_items ? &r->item[r->n_items - 1] : NULL;
}

static void item_begin(Choice *c, Item *i, const ItemForm *form)
{
    if (!i->begun)
        form->begins(c, i);
    i->begun = true;
}

void reply_end(Choice *c, bool cut, const ItemForm *form)
{
    Item *i = reply_last(c);
    if (!i || !i->open)
        return;
    item_begin(c, i, form);
    i->open = false;
    i->cut  = cut;
    form->ends(c, i);
}

Item *reply_item(Choice *c, int kind, size_t call, const ItemForm *form)
{
    Reply *r = reply_of(c);
    reply_end(c, false, form);
    if (!ARRAY_ROOM(r->item, r->cap, r->n_items + 1)) {
        c->job->out.failed = true;
        return NULL;
    }
    Item *i = &r->item[r->n_items];
    *i = (Item){ .kind = kind, .index = r->n_items++, .call = call, .from = r->n_bytes[kind],
                 .open = true };
    if (kind != TBLOCK_ANSWER_CALL) /* a call waits for its id, if the model gives it one */
        item_begin(c, i, form);
    return i;
}

static void add_part(Choice *c, const tblock_answer_part *p, bool cut, const ItemForm *form)
{
    Item      *i    = reply_last(c);
    const bool call = p->kind >= TBLOCK_ANSWER_CALL;
    if (p->kind == TBLOCK_ANSWER_CALL || (!call && !(i && i->open && i->kind == p->kind)))
        i = reply_item(c, p->kind, (size_t)p->call, form);
    if (!i || p->kind == TBLOCK_ANSWER_CALL || p->kind == TBLOCK_ANSWER_CALL_ID)
        return;
    if (p->kind == TBLOCK_ANSWER_CALL_END) {
        reply_end(c, cut, form);
        return;
    }
    item_begin(c, i, form);
    if (!call) {
        reply_of(c)->n_bytes[p->kind] += p->n;
        i->n += p->n;
    }
    form->grows(c, i, p->text, p->n);
    i->grown = true;
}

const tblock_answer_part *reply_parse(Choice *c, const char *text, size_t n, size_t *n_parts)
{
    const tblock_answer_part *part = NULL;
    *n_parts = 0;
    if (!tblock_answer_put(reply_of(c)->answer, text, n, &part, n_parts, NULL))
        c->job->out.failed = true;
    return part;
}

void reply_add(Choice *c, const tblock_answer_part *part, size_t n_parts, bool cut,
               const ItemForm *form)
{
    for (size_t i = 0; i < n_parts && !c->job->out.failed; i++)
        add_part(c, &part[i], cut, form);
}

void reply_put(Choice *c, const char *text, size_t n, const ItemForm *form)
{
    size_t                    n_parts;
    const tblock_answer_part *part = reply_parse(c, text, n, &n_parts);
    reply_add(c, part, n_parts, false, form);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Nine letters and digits, as some templates require. The same text gets the same id, so a client
 * that resumes at another server recognizes its calls; another turn has another prompt. */
void reply_call(const Choice *c, size_t k, TalkCall *out)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    const uint64_t    place[]  = { c->seed, k };
    uint64_t h = fnv1a(FNV_SEED, c->prompt->ids, c->prompt->n * sizeof *c->prompt->ids);
    tblock_answer_describe_call(reply_of(c)->answer, k, &out->said);
    if (out->said.n_id)
        return;
    h = fnv1a(h, place, sizeof place);
    for (size_t i = 0; i < sizeof out->id; i++, h /= 36)
        out->id[i] = digits[h % 36];
    out->said.id   = out->id;
    out->said.n_id = sizeof out->id;
}

/* ---- Log-probabilities ----------------------------------------------------------------------- */

/* An object, which the caller ends. */
static void prob_json(TextOut *o, const Server *s, int32_t id, double log_prob)
{
    TextOut text = { 0 };
    json_out(o, "{token:");
    token_json(o, s, id);
    token_bytes(&text, s, id);
    json_out(o, "logprob: %g, bytes: [", log_prob);
    for (size_t i = 0; i < text.n; i++)
        json_out(o, "%d", (unsigned char)text.text[i]);
    json_out(o, "]");
    text_out_free(&text);
}

void probs_json(const Choice *c, size_t first, size_t n)
{
    TextOut *o = &c->job->out;
    json_out(o, "[");
    for (size_t k = first; k < first + n; k++) {
        const SampledToken *t = &c->token[k];
        if (t->ends)
            continue;
        prob_json(o, c->job->server, t->id, t->log_prob);
        json_out(o, "top_logprobs: [");
        for (size_t i = 0; i < t->n_top; i++) {
            prob_json(o, c->job->server, t->top[i].token, t->top[i].log_prob);
            json_out(o, "}");
        }
        json_out(o, "]}");
    }
    json_out(o, "]");
}
