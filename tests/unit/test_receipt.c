/* tests/unit/test_receipt.c: a receipt holds where it tells the truth, and a lie is named. */
#include "test.h"

#include "api/calls.h"
#include "api/receipt.h"
#include "tblock_tools.h"

enum { MOST = 64 };

static Error         err;
static tblock_model *model;

static const tblock_generation_options usual = { .ids        = (const int32_t[]){ 834, 58 },
                                                 .n_ids      = 2,
                                                 .sampling   = { .temp = 1, .seed = 3 },
                                                 .max_tokens = 20 };

static tblock_context *context_of(int n_seqs, int n_batch)
{
    tblock_context *c = tblock_context_new(
        model, &(tblock_context_options){ .n_seqs = n_seqs, .n_batch = n_batch }, &err);
    CHECK(c, "%s", err.msg);
    return c;
}

/* What was sampled with `o`, in a receipt that says it was with `claim`. */
static tblock_receipt *sampled(tblock_generation_options o, const tblock_generation_options *claim,
                             size_t every)
{
    tblock_context *c = context_of(1, 0);
    tblock_receipt *r =
        tblock_receipt_new(c, claim, &(tblock_receipt_options){ .every = every }, &err);
    CHECK(r, "%s", err.msg);
    o.on_token = tblock_receipt_token;
    o.user     = r;
    tblock_generation     *g    = tblock_generation_open(c, &o, &err);
    tblock_generation_info info = { .end = TBLOCK_GOES_ON };
    CHECK(g, "%s", err.msg);
    while (info.end == TBLOCK_GOES_ON && tblock_advance(c, &g, 1, 0, &err))
        tblock_generation_describe(g, &info);
    CHECK(info.end != TBLOCK_END_FAILED, "%s", err.msg);
    tblock_generation_close(g);
    tblock_context_free(c);
    return r;
}

/* Written and read, as another program would have it. */
static tblock_receipt *sent(tblock_receipt *r)
{
    char *json = NULL;
    CHECK(tblock_receipt_json(r, &json, &err), "%s", err.msg);
    tblock_receipt *read = tblock_receipt_read(json, strlen(json), "receipt", &err);
    CHECK(read, "%s", err.msg);
    tblock_receipt_free(r);
    tblock_free(json);
    return read;
}

static tblock_receipt_row verified(tblock_receipt *r, int n_batch)
{
    tblock_context    *c = context_of(1, n_batch);
    tblock_receipt_row row;
    CHECK(tblock_receipt_verify(c, &r, 1, NULL, &row, &err), "%s", err.msg);
    tblock_context_free(c);
    return row;
}

static void expect(tblock_receipt *r, int verdict, const char *words)
{
    tblock_receipt_row row = verified(r, 0);
    CHECK(row.verdict == verdict && strstr(row.why, words), "expected %d, '%s'; found %d, '%s'",
          verdict, words, row.verdict, row.why);
    tblock_receipt_free(r);
}

static void a_true_one_holds(void)
{
    for (int n_batch = 1; n_batch <= 24; n_batch += 7) {
        tblock_receipt    *r   = sent(sampled(usual, &usual, 3));
        tblock_receipt_row row = verified(r, n_batch);
        CHECK(row.verdict == TBLOCK_RECEIPT_HOLDS && !*row.why, "%s", row.why);
        CHECK(row.n_given == 2 && row.n_drawn == 20 && row.position == -1 && row.first == -1,
              "row");
        tblock_receipt_free(r);
    }
}

/* The chain is of the run itself, so only drawing again shows it. */
static void other_options_than_those_that_sampled_are_found(void)
{
    static const int32_t ids[] = { 10, 46 };
    static const float   bias[] = { -4, 3 };
    tblock_sampler_options claims[] = {
        { .temp = 1, .seed = 4 },
        { .temp = 0 },
        { .temp = 0.2f, .seed = 3 },
        { .temp = 1, .seed = 3, .top_k = 1 },
        { .temp = 1, .seed = 3, .top_p = 0.05 },
        { .temp = 1, .seed = 3, .min_p = 0.9f },
        { .temp = 1, .seed = 3, .repeat_penalty = 9 },
        { .temp = 1, .seed = 3, .presence_penalty = 9 },
        { .temp = 1, .seed = 3, .frequency_penalty = 9 },
        { .temp = 1, .seed = 3, .bias_ids = ids, .bias = bias, .n_bias = 2 },
    };
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        tblock_generation_options claim = usual;
        claim.sampling                  = claims[i];
        expect(sent(sampled(usual, &claim, 1)), TBLOCK_RECEIPT_TOKEN,
               "the logits are the receipt's, so it was sampled with other");
    }
}

static void another_constraint_than_the_one_that_sampled_is_found(void)
{
    for (int i = 0; i < 2; i++) {
        tblock_generation_options claim = usual, o = usual;
        const char               *text  = i ? "[a-z]{2}" : "[0-9]+";
        claim.constraint =
            tblock_constraint_new(model, TBLOCK_REGEX, text, strlen(text), "c", &err);
        if (i) { /* true as far as the text goes */
            o.constraint = tblock_constraint_new(model, TBLOCK_REGEX, "[a-z]{2}[0-9]{4}", 16, "o",
                                                 &err);
            CHECK(o.constraint, "%s", err.msg);
        }
        CHECK(claim.constraint, "%s", err.msg);
        expect(sent(sampled(o, &claim, 0)), TBLOCK_RECEIPT_TOKEN,
               i ? "but the text had ended" : "its logits give");
        tblock_constraint_free(claim.constraint);
        tblock_constraint_free(o.constraint);
    }
}

#define FORM(begins, think_end, thinks, tools)                                                     \
    "{\"first\":\"<\\u0001(\",\"next\":\";\\u0001(\",\"end\":\")\",\"begins\":\"" begins           \
    "\",\"think\":\"\",\"think_end\":\"" think_end "\",\"thinks\":" thinks ",\"tools\":" tools "}"
#define TOOL(most)                                                                                 \
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\",\"maxLength\":"   \
    most "}},\"required\":[\"s\"]}}]"

static tblock_constraint *calls_of(const char *text)
{
    return calls_constraint_read(model, text, strlen(text), "calls", &err);
}

static tblock_receipt *of_calls(const char *made, const char *claims)
{
    tblock_generation_options o = usual, claim = usual;
    o.max_tokens = claim.max_tokens = 60;
    o.constraint                    = calls_of(made);
    claim.constraint                = claims ? calls_of(claims) : NULL;
    CHECK(o.constraint && (claim.constraint || !claims), "%s", err.msg);
    tblock_receipt *r = sent(sampled(o, &claim, 0));
    tblock_constraint_free(o.constraint);
    tblock_constraint_free(claim.constraint);
    return r;
}

static void calls_of_tools_hold(void)
{
    static const char *const text[] = { FORM("", "", "false", TOOL("4")),
                                        FORM("", "e", "true", TOOL("4")),
                                        FORM("a", "", "false", TOOL("4")),
                                        FORM("a", "e", "true", TOOL("4")) };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        expect(of_calls(text[i], text[i]), TBLOCK_RECEIPT_HOLDS, "");
        expect(of_calls(text[i], NULL), TBLOCK_RECEIPT_TOKEN, "its logits give");
        expect(of_calls(text[i], FORM("", "", "false", TOOL("0"))), TBLOCK_RECEIPT_TOKEN, "");
    }
}

/* Whatever a receipt says there: it is named, and nothing is computed. */
static void wrong_calls_are_named(void)
{
    static const char *const wrong[][2] = {
        { "[]", "calls: expected an object, found an array" },
        { "{\"first\":\"\"}", "calls: expected the field \"next\"" },
        { FORM("", "", "1", TOOL("4")), "thinks: expected true or false" },
        { FORM("", "", "true", TOOL("4")), "think_end: expected a marker" },
        { FORM("", "", "false", "[]"), "tools: expected an array of 1 to 1,024 tools" },
        { FORM("", "", "false", "[1]"), "tools: expected an object, found 1" },
        { FORM("", "", "false", "[{\"name\":\"f\"}]"), "expected the field \"parameters\"" },
        { FORM("", "", "false", "[{\"name\":\"(\",\"parameters\":{}}]"), "tools: name: expected" },
        { FORM("", "", "false", TOOL("\"x\"")), "maxLength" },
        { FORM("", "", "false", "[[[[" ), "calls: " },
        { FORM("\\u0000", "", "false", TOOL("4")), "NUL" },
    };
    char long_text[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK(!calls_of(wrong[i][0]) && err.status == INPUT && strstr(err.msg, wrong[i][1]),
              "%zu: expected '%s', found '%s'", i, wrong[i][1], err.msg);
    snprintf(long_text, sizeof long_text, FORM("%01100d", "", "false", "[]"), 0);
    CHECK(!calls_of(long_text) && strstr(err.msg, "begins: expected a short text"), "%s", err.msg);
    tblock_receipt *r =
        of_calls(FORM("", "", "false", TOOL("4")), FORM("", "", "false", TOOL("4")));
    memcpy(strstr(r->text, "first"), "fir5t", 5);
    CHECK(receipt_begin(r, &r->begin, &err), "%s", err.msg);
    expect(r, TBLOCK_RECEIPT_FAILED, "constraint: calls: unknown field \"fir5t\"");
}

/* Of what is wrong in several places the first counts, wherever the pieces end. */
static void company_changes_no_answer(void)
{
    enum { N = 9 };
    tblock_generation_options o = usual, claim = usual;
    tblock_receipt           *r[N];
    tblock_receipt_row        alone[N], together[N];
    o.max_tokens                = 70;
    claim.sampling.temp         = 0.7f;
    for (size_t i = 0; i < N; i++) {
        o.sampling.seed = claim.sampling.seed = i;
        r[i] = sent(sampled(o, i % 3 ? &claim : &o, i % 4));
        if (i % 4)
            r[i]->links[(i * 5) % r[i]->n_links].byte[i] ^= 1;
        alone[i] = verified(r[i], 0);
    }
    tblock_context *c = context_of(4, 0);
    CHECK(tblock_receipt_verify(c, r, N, NULL, together, &err), "%s", err.msg);
    for (size_t i = 0; i < N; i++) {
        CHECK(alone[i].verdict == together[i].verdict && alone[i].position == together[i].position
                  && alone[i].first == together[i].first && alone[i].last == together[i].last
                  && strcmp(alone[i].why, together[i].why) == 0,
              "%zu: '%s', together '%s'", i, alone[i].why, together[i].why);
        CHECK(!(i % 3 || i % 4) == !alone[i].verdict, "%zu: %d", i, alone[i].verdict);
        tblock_receipt_free(r[i]);
    }
    tblock_context_free(c);
}

static void a_token_that_is_left_out_is_an_error(void)
{
    tblock_context *c    = context_of(1, 0);
    tblock_receipt *r    = tblock_receipt_new(c, &usual, NULL, &err);
    char           *json = NULL;
    float          *logits = calloc((size_t)c->model->weights.cfg.vocab_size, sizeof *logits);
    CHECK(r && logits, "%s", err.msg);
    tblock_receipt_token(r, 1, 5, logits); /* of the prompt */
    tblock_receipt_token(r, 2, 5, logits);
    tblock_receipt_token(r, 2, 5, logits); /* again */
    CHECK(tblock_receipt_json(r, &json, &err) && strstr(json, "\"drawn\":[5],"), "%s", err.msg);
    tblock_free(json);
    tblock_receipt_token(r, 4, 5, logits);
    CHECK(!tblock_receipt_json(r, &json, &err) && err.status == USAGE && !json, "a gap");
    free(logits);
    tblock_receipt_free(r);
    tblock_context_free(c);
}

static void what_no_receipt_can_hold_is_refused(void)
{
    tblock_context           *c = context_of(1, 0);
    tblock_generation_options o = usual;
    o.n_drawn                   = 1;
    CHECK(!tblock_receipt_new(c, &o, NULL, &err) && err.status == USAGE
              && strstr(err.msg, "sampled before"),
          "%s", err.msg);
    tblock_context_free(c);
}

static bool stop_at_once(void *user, double done)
{
    *(double *)user = done;
    return false;
}

static void it_can_be_stopped(void)
{
    tblock_receipt    *r    = sent(sampled(usual, &usual, 0));
    tblock_context    *c    = context_of(1, 0);
    double             done = -1;
    tblock_receipt_row row;
    tblock_receipt_verify_options o = { .go_on = stop_at_once, .user = &done };
    CHECK(!tblock_receipt_verify(c, &r, 1, &o, &row, &err) && err.status == SYSTEM && done >= 0,
          "status %d at %g", err.status, done);
    CHECK(tblock_receipt_verify(c, &r, 1, NULL, &row, &err) && row.verdict == TBLOCK_RECEIPT_HOLDS,
          "%s", row.why);
    tblock_context_free(c);
    tblock_receipt_free(r);
}

static void a_context_in_use_is_an_error(void)
{
    tblock_receipt    *r = sent(sampled(usual, &usual, 0));
    tblock_context    *c = context_of(1, 0);
    tblock_generation *g = tblock_generation_open(c, &usual, &err);
    tblock_receipt_row row;
    CHECK(g, "%s", err.msg);
    CHECK(!tblock_receipt_verify(c, &r, 1, NULL, &row, &err) && err.status == USAGE
              && strstr(err.msg, "free sequence"),
          "%s", err.msg);
    tblock_generation_close(g);
    CHECK(tblock_receipt_verify(c, &r, 1, NULL, &row, &err) && row.verdict == TBLOCK_RECEIPT_HOLDS,
          "%s", row.why);
    tblock_context_free(c);
    tblock_receipt_free(r);
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    model = tblock_open("models/shakespeare.bin", NULL, &err);
    if (!model) {
        printf("FAIL prepare: %s\n", err.msg);
        return 1;
    }
    TEST(a_true_one_holds);
    TEST(other_options_than_those_that_sampled_are_found);
    TEST(another_constraint_than_the_one_that_sampled_is_found);
    TEST(calls_of_tools_hold);
    TEST(wrong_calls_are_named);
    TEST(company_changes_no_answer);
    TEST(a_token_that_is_left_out_is_an_error);
    TEST(what_no_receipt_can_hold_is_refused);
    TEST(it_can_be_stopped);
    TEST(a_context_in_use_is_an_error);
    tblock_close(model);
    return TEST_END();
}
