/* Every allocation of the library's main calls fails once: each call then ends with status 4 or
 * does without what it lacks, and nothing that was allocated stays. With --quick some of them, the
 * first ones and others evenly; files lie in a folder of its own. */
#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/sanitized.h"
#include "../unit/temp_folder.h"
#include "../unit/test.h"
#include "failing_malloc.h"
#include "format/pth.h"
#include "format/tensors.h"
#include "tblock_tools.h"
#include "chat/chat_answer.h"
#include "chat/chat_template.h"
#include "chat/jinja.h"
#include "train/train_ops.h"

#define DATA "tests/data/"
static bool quick;
static char model[128], config[128], folder_c[128], golden[128], questions[128], state[128],
    prose[128], small[128], trained[128], tokens[128];
static const char text[] = "The quick brown fox: 3.14 and \xc3\xa4\xf0\x9f\x99\x82 <|eot_id|>\n";
static const tblock_context_options one = { .threads = 1, .n_ctx = 64, .n_batch = 16 };

/* ---- What is called: false with err filled, or true ------------------------------------------ */

static bool decode(tblock_context *c, const int32_t *ids, int n, tblock_error *err)
{
    tblock_item item[32];
    for (int i = 0; i < n; i++)
        item[i] = (tblock_item){ 0, i, ids[i], i + 1 == n };
    return tblock_decode(c, item, (size_t)n, err);
}

static bool open_as(const char *path, const tblock_open_options *o, tblock_error *err)
{
    tblock_model *m = tblock_open(path, o, err);
    tblock_close(m);
    return m != NULL;
}

static bool opens(tblock_error *err) { return open_as(model, NULL, err); }
static bool opens_as_q8(tblock_error *err)
{
    return open_as(model, &(tblock_open_options){ .type = "q8" }, err);
}
static bool opens_folder(tblock_error *err) { return open_as(DATA "models/llama3-e2e", NULL, err); }
static bool opens_sharded(tblock_error *err)
{
    return open_as(DATA "models/llama-sharded", NULL, err);
}
/* Its matrices are packed before the second pass. */
static bool computes_gguf(tblock_error *err)
{
    tblock_model   *m = tblock_open(DATA "gguf/llama-kquants/model.gguf", NULL, err);
    tblock_context *c = m ? tblock_context_new(m, &one, err) : NULL;
    const int32_t ids[] = { 1, 2, 3 };
    bool          good  = c && decode(c, ids, 3, err) && tblock_seq_rewind(c, 0, 0, err)
        && decode(c, ids, 2, err);
    tblock_context_free(c);
    tblock_close(m);
    return good;
}
static bool opens_llama2c(tblock_error *err) { return open_as(folder_c, NULL, err); }

static bool open_pth(const char *path, tblock_error *err)
{
    TensorFile f = { 0 };
    bool       good = pth_open(&f, path, err);
    if (good)
        tensor_file_close(&f);
    return good;
}
static bool opens_pth(tblock_error *err) { return open_pth(DATA "pth/torch-zip-state.pth", err); }
static bool opens_legacy_pth(tblock_error *err)
{
    return open_pth(DATA "pth/torch-legacy-kinds.pth", err);
}

static tblock_model *shared; /* opened before the counting begins */
static tblock_model *changed; /* so is this one, whose weights are not those of the file digest */

static bool runs(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 };
    tblock_context *c = tblock_context_new(
        shared, &(tblock_context_options){ .threads = 1, .n_seqs = 2, .n_batch = 4 }, err);
    tblock_model_info info;
    tblock_model_describe(shared, &info);
    tblock_sampler *s = c
        ? tblock_sampler_new(info.vocab_size,
                             &(tblock_sampler_options){ .temp = 1, .top_k = 5, .top_p = 0.9 }, err)
        : NULL;
    int32_t next;
    bool good = s && tblock_profile(c, true, err) && decode(c, ids, 17, err)
        && tblock_sampler_next(s, tblock_logits(c, 16), ids, 17, 17, &next, err)
        && tblock_seq_copy(c, 0, 1, 10, err) && tblock_seq_rewind(c, 0, 3, err);
    tblock_sampler_free(s);
    tblock_context_free(c);
    return good;
}

/* What generations made when nothing failed; a step that failed and was repeated changes nothing of
 * it. */
static bool sampled_the_same(const tblock_generation_info *now, int which)
{
    static int32_t id[2][32];
    static size_t  n[2];
    if (n[which] == 0)
        memcpy(id[which], now->ids, (n[which] = now->n_ids) * sizeof id[0][0]);
    return n[which] == now->n_ids && memcmp(id[which], now->ids, n[which] * sizeof id[0][0]) == 0;
}

/* The same of an embedding. */
static bool embeds_the_same(const tblock_generation *g, tblock_error *err)
{
    static uint64_t hash;
    float           y[256];
    tblock_model_info m;
    tblock_model_describe(shared, &m);
    CHECK(m.d_model <= 256, "d_model %d", m.d_model);
    if (!tblock_generation_embedding(g, true, y, err))
        return false;
    const uint64_t found = tblock_hash_floats(y, (size_t)m.d_model);
    hash                 = hash ? hash : found;
    CHECK(hash == found, "another embedding");
    return true;
}

/* Two at once, one with a draft and an embedding, and one with a stop text. by: a model guesses. */
static bool generates_by(bool by, tblock_error *err)
{
    static const int32_t            ids[] = { 1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2 };
    static const char *const        never = "never in it";
    const tblock_generation_options o[2]  = {
        { .ids = ids, .n_ids = 11, .max_tokens = 20, .draft = 7, .pool = TBLOCK_POOL_MEAN },
        { .ids = ids + 2, .n_ids = 5, .max_tokens = 9, .sampling = { .temp = 9 },
          .stop_texts = &never, .n_stop_texts = 1 },
    };
    const tblock_context_options two = { .threads = 1, .n_seqs = 2 };
    tblock_context         *c = tblock_context_new(shared, &two, err), *draft = NULL;
    tblock_generation      *g[2] = { NULL, NULL };
    tblock_generation_info  info;
    bool good = c
        && (!by
            || ((draft = tblock_context_new(shared, &two, err)) && tblock_draft_by(c, draft, err)))
        && (g[0] = tblock_generation_open(c, &o[0], err))
        && (g[1] = tblock_generation_open(c, &o[1], err));
    for (int step = 0; good && step < 30; step++)
        good = tblock_advance(c, g, 2, 7, err) || tblock_advance(c, g, 2, 7, err);
    for (int i = 0; good && i < 2; i++) {
        tblock_generation_describe(g[i], &info);
        good = info.end == TBLOCK_END_LENGTH || info.end == TBLOCK_END_TOKEN;
        *err = *info.error;
        CHECK(!good || sampled_the_same(&info, i), "generation %d drew other tokens", i);
        good = good && (i || embeds_the_same(g[i], err));
    }
    tblock_generation_close(g[0]), tblock_generation_close(g[1]);
    tblock_context_free(c);
    tblock_context_free(draft);
    return good;
}

static bool generates(tblock_error *err) { return generates_by(false, err); }
static bool generates_by_a_model(tblock_error *err) { return generates_by(true, err); }

static tblock_constraint *some_constraint(tblock_error *err)
{
    static const char schema[] = "{\"anyOf\": [{\"enum\": [[1, 2], {\"a\": true}]},"
                                 " {\"type\": \"string\", \"maxLength\": 20},"
                                 " {\"$ref\": \"#/$defs/o\"}], \"$defs\": {\"o\": {\"type\":"
                                 " \"object\", \"additionalProperties\": {\"type\": \"null\"}}}}";
    return tblock_constraint_new(shared, TBLOCK_JSON_SCHEMA, schema, strlen(schema), "s", err);
}

/* The model keeps its vocabulary's tree from the first time on, so this is a case of its own. */
static bool constrains(tblock_error *err)
{
    tblock_constraint *k = some_constraint(err);
    bool               accepts = false;
    bool good = k && tblock_constraint_accepts(k, "[1, 2]", 6, &accepts, err);
    CHECK(!good || accepts, "it does not fit");
    good = good && tblock_constraint_accepts(k, "{\"ab\":null,\"ab\":null}", 21, &accepts, err);
    CHECK(!good || !accepts, "a name comes twice");
    tblock_constraint_free(k);
    return good;
}

static bool run_to_end(tblock_context *c, tblock_generation *g, tblock_generation_info *info,
                        tblock_error *err)
{
    bool good = true;
    for (tblock_generation_describe(g, info); good && info->end == TBLOCK_GOES_ON;
         tblock_generation_describe(g, info))
        good = tblock_advance(c, &g, 1, 0, err);
    if (!good || info->end != TBLOCK_END_FAILED)
        return good;
    *err = *info->error;
    return false;
}

static bool generates_what_fits(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    tblock_constraint   *k = some_constraint(err);
    tblock_context      *c =
        k ? tblock_context_new(shared, &(tblock_context_options){ .threads = 1 }, err) : NULL;
    tblock_generation_options o = { .ids = ids, .n_ids = 3, .max_tokens = 40, .constraint = k };
    tblock_generation        *g = c ? tblock_generation_open(c, &o, err) : NULL;
    tblock_generation_info    info;
    bool                      good = g && run_to_end(c, g, &info, err);
    CHECK(!good || info.end == TBLOCK_END_FITS || info.end == TBLOCK_END_TOKEN
              || info.end == TBLOCK_END_LENGTH, "end %d", info.end);
    tblock_generation_close(g), tblock_context_free(c), tblock_constraint_free(k);
    return good;
}

static bool verify_text(tblock_context *c, const char *json, tblock_error *err)
{
    tblock_receipt    *r = tblock_receipt_read(json, strlen(json), "r", err);
    tblock_receipt_row row;
    bool               good = r && tblock_receipt_verify(c, &r, 1, NULL, &row, err);
    CHECK(!good || row.verdict == TBLOCK_RECEIPT_HOLDS, "%s", row.why);
    tblock_receipt_free(r);
    return good;
}

/* Made, written, read and computed again, with a bias and a constraint. */
static bool proves(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    static const float   bias[] = { 1 };
    char                *json = NULL;
    tblock_constraint   *k = some_constraint(err);
    tblock_context      *c =
        k ? tblock_context_new(shared, &(tblock_context_options){ .threads = 1 }, err) : NULL;
    tblock_generation_options o = {
        .ids = ids, .n_ids = 3, .max_tokens = 6, .constraint = k, .on_token = tblock_receipt_token,
        .sampling = { .bias_ids = ids, .bias = bias, .n_bias = 1 }
    };
    tblock_receipt_options how = { .every = 2 };
    tblock_receipt        *r   = c ? tblock_receipt_new(c, &o, &how, err) : NULL;
    o.user                       = r;
    tblock_generation     *g     = r ? tblock_generation_open(c, &o, err) : NULL;
    tblock_generation_info info;
    bool                   good  = g && run_to_end(c, g, &info, err);
    good = good && tblock_receipt_json(r, &json, err);
    tblock_generation_close(g);
    good = good && verify_text(c, json, err);
    tblock_free(json);
    tblock_receipt_free(r), tblock_context_free(c), tblock_constraint_free(k);
    return good;
}

/* Lines of a log in each form, and their texts. */
static bool audits(tblock_error *err)
{
    static const char *const lines[] = {
        "{\"prompt\": [1, 2], \"drawn\": [3, 4], \"sampling\": {\"bias\": [[3, 1.5]]}}",
        "{\"request\": {\"prompt\": \"a b\", \"logit_bias\": {\"5\": 2}, \"seed\": 7}, "
        "\"response\": {\"choices\": [{\"logprobs\": {\"tokens\": [\"token_id:3\"]}}]}}",
    };
    enum { N = sizeof lines / sizeof *lines };
    tblock_sampler_options claimed = { .temp = 1 };
    tblock_audit_row       row[N];
    size_t                 n;
    tblock_context *c = tblock_context_new(shared, &(tblock_context_options){ .threads = 1 }, err);
    tblock_audit_log *log  = c ? tblock_audit_log_new(shared, &claimed, 3, err) : NULL;
    bool              good = log != NULL;
    for (int i = 0; good && i < N; i++)
        good = tblock_audit_log_add(log, lines[i], strlen(lines[i]), "line", err);
    good = good && tblock_audit(c, tblock_audit_log_texts(log, &n), N, NULL, row, err);
    for (int i = 0; good && i < N; i++) {
        CHECK(row[i].verdict != TBLOCK_AUDIT_FAILED, "%s", row[i].why);
        tblock_free(row[i].tokens);
    }
    tblock_audit_log_free(log), tblock_context_free(c);
    return good;
}

static bool saves_and_loads(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    int32_t        *read = NULL;
    size_t          n;
    tblock_context *c = tblock_context_new(shared, &one, err);
    bool good = c && decode(c, ids, 3, err) && tblock_state_save(c, 0, ids, 3, state, err)
        && tblock_seq_rewind(c, 0, 0, err) && tblock_state_load(c, 0, state, &read, &n, err);
    tblock_free(read);
    tblock_context_free(c);
    return good;
}

/* Of layers with a state: copied whole, saved and loaded. */
static bool keeps_states_of(const char *path, tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    int32_t        *read = NULL;
    size_t          n;
    tblock_model   *m = tblock_open(path, NULL, err);
    tblock_context *c = m
        ? tblock_context_new(m, &(tblock_context_options){ .threads = 1, .n_seqs = 2 }, err)
        : NULL;
    bool good = c && decode(c, ids, 9, err) && tblock_seq_copy(c, 0, 1, 9, err)
        && tblock_state_save(c, 1, ids, 9, state, err) && tblock_seq_rewind(c, 0, 0, err)
        && tblock_state_load(c, 0, state, &read, &n, err);
    tblock_free(read);
    tblock_context_free(c);
    tblock_close(m);
    return good;
}

static bool keeps_a_state(tblock_error *err) { return keeps_states_of(DATA "models/lfm2", err); }
static bool keeps_matrices(tblock_error *err)
{
    return keeps_states_of(DATA "models/qwen3-next", err);
}

static bool tokenizes(tblock_error *err)
{
    int32_t *ids = NULL;
    char    *back = NULL, *answer = NULL;
    size_t   n = 0, n_back;
    static const char line[] = "{\"text\": \"a b\\u00e4\", \"mode\": \"special\"}";
    bool good = tblock_tokenize(shared, text, sizeof text - 1,
                                TBLOCK_ADD_SPECIAL | TBLOCK_PARSE_SPECIAL, &ids, &n, err)
        && tblock_detokenize(shared, ids, n, &back, &n_back, err)
        && tblock_tokenize_json(shared, line, sizeof line - 1, &answer, err);
    tblock_stream *s = good ? tblock_stream_new(shared, false, err) : NULL;
    for (size_t i = 0; s && i < n; i++)
        tblock_stream_put(s, ids[i], &n_back);
    tblock_stream_free(s);
    tblock_free(ids);
    tblock_free(back);
    tblock_free(answer);
    return s != NULL;
}

static bool templates(tblock_error *err)
{
    static const char program[] =
        "{% macro m(x) %}<{{ x | upper }}>{% endmacro %}{% set n = namespace(t='') %}"
        "{% for c in 'abc' * 40 %}{% set n.t = n.t + m(c) + '%.1f' % loop.index %}{% endfor %}"
        "{{ n.t }}{{ [1.5, 2.5 | round, {'k': n.t * 30}] | tojson }}{{ 1500 | filesizeformat }}";
    JinjaText  out = { 0 };
    JinjaInput in = { 0 };
    Jinja     *t = jinja_parse(program, sizeof program - 1, "template", err);
    bool       good = t && jinja_render(t, &in, &out, err);
    jinja_text_free(&out);
    jinja_free(t);
    return good;
}

static bool makes_a_template(tblock_error *err)
{
    static const char entry[] =
        "{\"version\": 1, \"name\": \"made\", \"begin\": \"{bos}\", \"user_system\": "
        "\"{trim}{system} {content}{/trim}\", \"default_system\": \"be\", \"user\": "
        "\"{content}\", \"assistant\": \"{content}{eos}\", \"open\": \"\", \"alternate\": true, "
        "\"thinking_end\": \"</t>\", \"stop\": [\"x\"]}";
    char *made = chat_entry_template(entry, sizeof entry - 1, "chat", err);
    bool  good = made != NULL;
    free(made);
    return good;
}

static bool answers(tblock_error *err)
{
    static const char program[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.thinking or '' }}|{{ m.content or '' }}"
        "{% for c in m.tool_calls or [] %}<f={{ c.function.name }}>"
        "{% for k, v in c.function.arguments.items() %}<p={{ k }}>{{ v if v is string else "
        "v | tojson }}</p>{% endfor %}</f>{% endfor %}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}";
    static const char   said[] = "So:<f=write><p=a>{\"k\": [1]}</p><p=b>five</p></f>", *s = said;
    static const char *const roles[] = { "assistant", NULL };
    AnswerInput in = { .roles = roles, .tools = true };
    Jinja      *t = jinja_parse(program, sizeof program - 1, "template", err);
    AnswerForm *f = t ? answer_form_new(t, &in, err) : NULL;
    Answer     *a = f ? answer_new(f, NULL, err) : NULL;
    bool        good = a != NULL;
    while (good && *s)
        good = answer_put(a, s++, 1, false, err);
    good = good && answer_end(a, err);
    answer_free(a);
    answer_form_free(f);
    jinja_free(t);
    return good;
}

static bool chats(tblock_error *err)
{
    static const char json[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"be <|eot_id|>\"}, "
        "{\"role\": \"user\", \"content\": \"a\\u00e4\"}, "
        "{\"role\": \"assistant\", \"content\": \"b\", \"thinking\": \"c\"}]}";
    static const tblock_chat_options options = {
        .format = "{% for m in messages %}{{ m.role ~ m.content }}<|eot_id|>{% endfor %}",
        .args = "{\"a\": [1]}", .tools = "[{\"b\": 2}]", .date = "2024-07-26" };
    static const int32_t sampled[] = { 65 };
    tblock_chat_message *message = NULL;
    int32_t *ids = NULL;
    char    *back = NULL, *shown = NULL;
    size_t   n, n_ids, n_shown;
    tblock_chat *c = tblock_chat_new(shared, &options, err);
    bool good =
        c && tblock_chat_from_json(json, sizeof json - 1, "conversation", &message, &n, err);
    if (good)
        message[2].ids = sampled, message[2].n_ids = 1;
    good = good && tblock_chat_render(c, message, n, true, &ids, &n_ids, err)
        && tblock_chat_text(c, message, n, true, &shown, &n_shown, err)
        && tblock_chat_to_json(message, n, &back, err)
        && tblock_chat_save(message, n, "/dev/null", err);
    const tblock_answer_part *part;
    tblock_answer *a = good ? tblock_answer_new(c, err) : NULL;
    char *said = NULL;
    good = a && tblock_answer_put(a, "Hello", 5, &part, &n, err)
        && tblock_answer_put(a, NULL, 0, &part, &n, err) && tblock_answer_json(a, &said, err);
    tblock_answer_free(a);
    tblock_free(said);
    tblock_chat_free(c);
    tblock_free(message);
    tblock_free(ids);
    tblock_free(back);
    tblock_free(shown);
    return good;
}

static bool calls_required(tblock_error *err)
{
    static const tblock_chat_options options = {
        .format = "{% for m in messages %}[{{ m.role }}]{{ m.content }}"
                  "{% for c in m.tool_calls or [] %}<call>{{ c.function | tojson }}</call>"
                  "{% endfor %}[/]{% endfor %}"
                  "{% if add_generation_prompt %}[assistant]{% endif %}",
        .tools = "[{\"name\": \"a\", \"parameters\": {\"properties\": {\"b\": {}}}}]" };
    tblock_chat       *c = tblock_chat_new(shared, &options, err);
    tblock_constraint *q = c ? tblock_chat_calls(c, NULL, TBLOCK_CALLS_SEVERAL, err) : NULL;
    bool               good = q != NULL;
    tblock_constraint_free(q);
    tblock_chat_free(c);
    return good;
}

static bool report(const char *path, const tblock_report_options *o, tblock_error *err)
{
    char *out = NULL;
    bool  good = tblock_report(path, o, &out, err);
    tblock_free(out);
    return good;
}
static bool reports(tblock_error *err)
{
    return report(model, &(tblock_report_options){ .tensors = true, .check = true }, err);
}
static bool reports_config(tblock_error *err)
{
    return report(config, &(tblock_report_options){ .json = true, .html = in_folder("i.html") },
                  err);
}
static bool reports_gguf(tblock_error *err)
{
    return report(DATA "gguf/llama-kquants/model.gguf", &(tblock_report_options){ .check = true },
                  err);
}

static bool synthesizes(tblock_error *err)
{
    return tblock_synth(config, in_folder("synth.bin"),
                        &(tblock_synth_options){ .type = "q4", .threads = 1 }, err);
}

static bool quantizes(tblock_error *err)
{
    tblock_quantize_report r = { 0 };
    bool good = tblock_quantize(model, in_folder("q.bin"),
                                &(tblock_quantize_options){ .type = "q8", .threads = 1 }, &r, err);
    tblock_free(r.rows);
    return good;
}

static bool converts(tblock_error *err)
{
    tblock_convert_report r = { 0 };
    bool good = tblock_convert(DATA "models/llama3-e2e", in_folder("c.bin"),
                               &(tblock_convert_options){ .threads = 1 }, &r, err);
    tblock_free(r.warnings);
    return good;
}

#define ADAPTER DATA "adapters/trained"

static bool applies_an_adapter(tblock_error *err)
{
    tblock_model   *m = tblock_open(model, NULL, err);
    tblock_context *c = NULL;
    tblock_lora     half = { 0, 0.5 };
    const int32_t   ids[] = { 1, 2, 3 };
    bool good = m && tblock_lora_load(m, ADAPTER, &half.adapter, err)
        && (c = tblock_context_new(m, &one, err)) && tblock_lora_choose(c, -1, &half, 1, err)
        && decode(c, ids, 3, err);
    tblock_context_free(c);
    tblock_close(m);
    return good;
}

static bool merges_an_adapter(tblock_error *err)
{
    return tblock_convert(DATA "models/llama3-e2e", in_folder("m.bin"),
                          &(tblock_convert_options){
                              .threads = 1,
                              .merge_lora = &(tblock_lora_file){ ADAPTER, 0.5 },
                              .n_merge_lora = 1 },
                          NULL, err);
}

static bool record_digest(const tblock_model *m, const char *path, tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    tblock_context *c    = tblock_context_new(m, &one, err);
    const bool      good = c
        && tblock_logits_write(c, ids, 3, path,
                               &(tblock_logits_options){ .hidden = true, .digest = true }, err);
    tblock_context_free(c);
    return good;
}

/* Whatever could not be allocated, no other cause is named. */
static bool names_a_cause(tblock_error *err)
{
    tblock_verify_report r    = { 0 };
    tblock_context      *c    = tblock_context_new(changed, &one, err);
    const bool           good = c && record_digest(changed, in_folder("again"), err)
        && tblock_verify(c, in_folder("digest"), NULL, &r, err);
    if (good)
        CHECK(!r.ok && strncmp(r.cause, "tensor: embed: ", 15) == 0, "%s", r.cause);
    tblock_free(r.rows);
    tblock_context_free(c);
    return good;
}

static bool records_and_verifies(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    tblock_verify_report r = { 0 };
    tblock_context *c = tblock_context_new(shared, &one, err);
    bool good = c
        && tblock_logits_write(c, ids, 3, golden, &(tblock_logits_options){ .hidden = true }, err)
        && tblock_verify(c, golden, &(tblock_verify_options){ .exact = true }, &r, err)
        && tblock_verify_junit(in_folder("j.xml"), golden, &r, NULL, err);
    tblock_free(r.rows);
    tblock_context_free(c);
    return good;
}

static bool evaluates(tblock_error *err)
{
    static const int32_t  ids[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    tblock_eval_report    r;
    tblock_choices_report choices = { 0 };
    tblock_context *c = tblock_context_new(shared, &one, err);
    bool good = c && tblock_eval_text(c, ids, 8, &(tblock_eval_options){ .window = 4 }, &r, err)
        && tblock_eval_choices(c, questions, NULL, &choices, err);
    tblock_free(choices.rows);
    tblock_free(choices.score);
    tblock_context_free(c);
    return good;
}

static bool attends(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    static const char *const format[] = { "html", "json", "safetensors" };
    tblock_context   *c = tblock_context_new(shared, &one, err);
    tblock_attention *a = c ? tblock_attention_new(c, ids, 3, NULL, err) : NULL;
    bool good = a != NULL;
    for (int i = 0; good && i < 3; i++)
        good = tblock_attention_write(a, in_folder("attn"), format[i], err);
    tblock_attention_free(a);
    tblock_context_free(c);
    return good;
}

/* ---- Training, which needs OpenBLAS ---------------------------------------------------------- */

static const char small_config[] = "{\"d_model\": 8, \"n_layers\": 2, \"heads\": 2, \"d_ff\": 12, "
                                   "\"vocab_size\": 262, \"n_ctx\": 8}";

static bool train_small(const char *out, const char *from, const char *init, bool resume,
                        int lora, tblock_error *err)
{
    tblock_train_report  r;
    tblock_train_options o = { .text = prose,
                               .config = from,
                               .init = init,
                               .steps = 3,
                               .batch = 3,
                               .n_ctx = 8,
                               .micro_batch = 2,
                               .dropout = 0.1,
                               .eval_every = 2,
                               .save_every = 2,
                               .plot = in_folder("loss.svg"),
                               .threads = 1,
                               .lora_rank = lora,
                               .resume = resume };
    return tblock_train(out, &o, &r, err);
}
static bool trains(tblock_error *err)
{
    remove(in_folder("t.bin.ckpt")); /* of a try that failed: training anew would be refused */
    return train_small(in_folder("t.bin"), small, NULL, false, 0, err);
}
static bool trains_a_model(tblock_error *err)
{
    remove(in_folder("i.bin.ckpt"));
    return train_small(in_folder("i.bin"), NULL, trained, false, 0, err);
}
static bool trains_an_adapter(tblock_error *err)
{
    remove(in_folder("adapter.ckpt"));
    return train_small(in_folder("adapter"), NULL, trained, false, 2, err);
}
static bool resumes(tblock_error *err)
{
    return train_small(trained, small, NULL, true, 0, err);
}

static bool checks_gradients(tblock_error *err)
{
    tblock_grad_check_row *rows = NULL;
    size_t                 n;
    bool good = tblock_grad_check(
        &(tblock_grad_check_options){ .init = trained, .n_tokens = 5, .samples = 1, .threads = 1 },
        &rows, &n, err);
    tblock_free(rows);
    return good;
}

static bool writes_gradients(tblock_error *err)
{
    tblock_grad_report r;
    return tblock_grad(trained, tokens, in_folder("grads"),
                       &(tblock_grad_options){ .adamw_steps = 1, .threads = 1 }, &r, err);
}

static bool block(const char *path, bool json, tblock_error *err)
{
    char *out  = NULL;
    bool  good = tblock_block(
        path,
        &(tblock_block_options){
             .output = in_folder("block"), .check = 1, .stack = 2, .json = json, .threads = 1 },
        &out, err);
    tblock_free(out);
    return good;
}
static bool looks_into_a_block(tblock_error *err) { return block(NULL, false, err); }
static bool looks_into_a_layer(tblock_error *err) { return block(trained, true, err); }

/* ---- The loop -------------------------------------------------------------------------------- */

/* Number of the k-th allocation to try: the first ones all, then with even gaps where they are more
 * than `most`. */
static long next_try(long i, long n, long most)
{
    long gap = n / most + 1;
    return i < most / 4 ? i + 1 : i + gap;
}

static void fail_at(bool (*call)(tblock_error *), long i, bool lasting, long n)
{
    tblock_error err = { 0 };
    long         before = failing_malloc_live();
    failing_malloc_arm(i, lasting);
    bool good = call(&err);
    failing_malloc_disarm();
    long left = failing_malloc_live() - before;
    CHECK(good || err.status == TBLOCK_SYSTEM, "allocation %ld%s of %ld: status %d: %s", i,
          lasting ? " and all after" : "", n, err.status, err.msg);
    CHECK(good || err.msg[0], "allocation %ld of %ld: no message", i, n);
    CHECK(left <= 0, "allocation %ld%s of %ld: %ld left (%s)", i, lasting ? " and all after" : "",
          n, left, good ? "good" : err.msg);
}

static void every_allocation(bool (*call)(tblock_error *))
{
    tblock_error err = { 0 };
    if (SANITIZED) {
        SKIP("the sanitizer's allocator stands in its place");
        return;
    }
    /* what the C library keeps once made is there now */
    CHECK(call(&err), "before anything fails: %s", err.msg);
    failing_malloc_arm(-1, false);
    bool good = call(&err);
    long n = failing_malloc_disarm(), most = quick ? 60 : 1000000;
    CHECK(good && n > 0, "%ld allocations: %s", n, err.msg);
    for (long i = 0; i < n && test_case_state == 0; i = next_try(i, n, most)) {
        fail_at(call, i, false, n);
        if (!quick || i % 4 == 0)
            fail_at(call, i, true, n);
    }
    CHECK(call(&err), "after all: %s", err.msg);
}

static Blas blas;
static bool can_train; /* OpenBLAS is there */
static void every_allocation_of_training(bool (*call)(tblock_error *))
{
    if (can_train)
        every_allocation(call);
    else
        SKIP("no OpenBLAS");
}

#define CASES(X) \
    X(opens) X(opens_as_q8) X(opens_folder) X(opens_sharded) X(computes_gguf) X(opens_llama2c) \
    X(opens_pth) X(opens_legacy_pth) X(runs) X(generates) X(generates_by_a_model) X(constrains) \
    X(generates_what_fits) X(proves) X(audits) X(saves_and_loads) X(keeps_a_state) \
    X(keeps_matrices) X(tokenizes) X(templates) X(makes_a_template) X(answers) X(chats) \
    X(calls_required) X(reports) X(reports_config) X(reports_gguf) X(synthesizes) X(quantizes) \
    X(converts) X(applies_an_adapter) X(merges_an_adapter) X(records_and_verifies) \
    X(names_a_cause) X(evaluates) X(attends)
#define TRAINING(X) \
    X(trains) X(trains_a_model) X(trains_an_adapter) X(resumes) X(checks_gradients) \
    X(writes_gradients) X(looks_into_a_block) X(looks_into_a_layer)
#define DEFINE(name) static void name##_without_memory(void) { every_allocation(name); }
#define RUN(name) TEST(name##_without_memory);
#define DEFINE_TRAINING(name) \
    static void name##_without_memory(void) { every_allocation_of_training(name); }
CASES(DEFINE)
TRAINING(DEFINE_TRAINING)

static bool write_text(const char *path, const char *data, size_t n)
{
    FILE *f = fopen(path, "w");
    bool  ok = f && fwrite(data, 1, n, f) == n;
    return f && fclose(f) == 0 && ok;
}

/* A llama2.c checkpoint of version 0: seven sizes and zeros. */
static bool write_llama2c(const char *path)
{
    static const int32_t size[] = { 16, 32, 1, 2, 2, 40, 8 };
    size_t floats = 40 * 16 + 16 + 4 * 16 * 16 + 16 + 3 * 16 * 32 + 16 + 2 * 8 * 4,
           n = sizeof size + floats * 4;
    char  *bytes = calloc(n, 1);
    bool   ok = bytes != NULL;
    if (ok) {
        memcpy(bytes, size, sizeof size);
        ok = write_text(path, bytes, n);
    }
    free(bytes);
    return ok;
}

static bool write_tokens(const char *path, tblock_error *err)
{
    static const int32_t id[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 7, 8, 9, 10, 11, 12 } };
    TensorWriter *w = tensor_writer_new(path, 64, err);
    if (w && tensor_writer_declare(w, "tokens", DT_I32, 2, (int64_t[]){ 2, 6 }, err)
        && tensor_writer_begin(w, err) && tensor_writer_put(w, 0, 0, id, sizeof id, err))
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

/* A text of few words, a config for it, and a model that has seen it. */
static bool prepare_training(tblock_error *err)
{
    char line[64];
    FILE *f = fopen(prose, "w");
    for (int i = 0; f && i < 60; i++)
        fwrite(line, 1,
               (size_t)snprintf(line, sizeof line, "the %d of them, and the %d\n", i % 7, i), f);
    if (!f || fclose(f) != 0 || !write_text(small, small_config, sizeof small_config - 1)
        || !write_tokens(tokens, err))
        return false;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    can_train = blas_open(&blas, err); /* stays open: what its start keeps is no leak of a call */
    return !can_train || train_small(trained, small, NULL, false, 0, err);
}

/* A digest of a model, and another model of its shape. */
static bool prepare_digest(tblock_error *err)
{
    tblock_synth_options o = { .type = "f32", .threads = 1, .seed = 1 };
    tblock_model        *m = NULL;
    bool good = tblock_synth(config, in_folder("first.bin"), &o, err)
        && (m = tblock_open(in_folder("first.bin"), NULL, err)) != NULL
        && record_digest(m, in_folder("digest"), err);
    tblock_close(m);
    o.seed = 2;
    return good && tblock_synth(config, in_folder("second.bin"), &o, err)
        && (changed = tblock_open(in_folder("second.bin"), NULL, err)) != NULL;
}

static bool prepare(tblock_error *err)
{
    static const char asked[] =
        "{\"context\": \"a\", \"choices\": [\"b\", \"cd\"], \"answer\": 1}\n";
    if (!make_folder()
        || !write_config("{\"d_model\": 32, \"n_layers\": 2, \"heads\": 2, \"d_ff\": 48, "
                         "\"vocab_size\": 60, \"n_ctx\": 64}"))
        return false;
    snprintf(config, sizeof config, "%s", in_folder("config.json"));
    snprintf(model, sizeof model, "%s", in_folder("model.bin"));
    snprintf(folder_c, sizeof folder_c, "%s", in_folder("llama2c.bin"));
    snprintf(golden, sizeof golden, "%s", in_folder("golden"));
    snprintf(questions, sizeof questions, "%s", in_folder("questions"));
    snprintf(state, sizeof state, "%s", in_folder("state"));
    snprintf(prose, sizeof prose, "%s", in_folder("prose.txt"));
    snprintf(small, sizeof small, "%s", in_folder("small.json"));
    snprintf(trained, sizeof trained, "%s", in_folder("trained.bin"));
    snprintf(tokens, sizeof tokens, "%s", in_folder("tokens"));
    return prepare_training(err) && write_llama2c(folder_c)
        && write_text(questions, asked, sizeof asked - 1)
        && tblock_convert(DATA "models/llama3-e2e", model, NULL, NULL, err)
        && (shared = tblock_open(model, NULL, err)) != NULL && prepare_digest(err);
}

static void remove_folder(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (*folder && system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
}

int main(int argc, char **argv)
{
    tblock_error err = { 0 };
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        quick = true;
        argv[1] = argv[0];
        argc--, argv++;
    }
    TEST_MAIN_ARGS(argc, argv);
    if (!prepare(&err)) {
        printf("FAIL prepare: %s\n", err.msg);
        return 1;
    }
    CASES(RUN)
    TRAINING(RUN)
    tblock_close(shared);
    tblock_close(changed);
    blas_close(&blas);
    remove_folder();
    return TEST_END();
}
