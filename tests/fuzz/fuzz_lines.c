/* tests/fuzz/fuzz_lines.c: any bytes as JSON lines: the questions of `eval --choices`, by a small
 * model with a tokenizer, and the requests of `tokenize --jsonl`, line by line. */
#include <math.h>

#include "fuzz.h"
#include "memory_folder.h"
#include "tblock_tools.h"

static const char config[] = "{\"d_model\": 8, \"n_layers\": 1, \"heads\": 1, \"d_ff\": 8, "
                             "\"vocab_size\": 264, \"n_ctx\": 24}";

static tblock_model   *model;
static tblock_context *context;

/* llama2.c's tokenizer.bin: the longest piece; then score, length and text of each: three special
 * tokens, the bytes, some letters. */
static void put_tokenizer(void)
{
    static const char *const more[] = { " ", "a", "b", " a", "ab" };
    char    file[8192], piece[16];
    size_t  at = 0;
    int32_t longest = 8;
    memcpy(file, &longest, 4), at = 4;
    for (int i = 0; i < 264; i++) {
        float   score = (float)-i;
        int32_t n = i < 3 ? snprintf(piece, sizeof piece, "<%s>",
                                     i == 0       ? "unk"
                                         : i == 1 ? "s"
                                                  : "/s")
            : i < 259     ? snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)(i - 3))
                          : snprintf(piece, sizeof piece, "%s", more[i - 259]);
        memcpy(file + at, &score, 4), memcpy(file + at + 4, &n, 4),
            memcpy(file + at + 8, piece, (size_t)n);
        at += 8 + (size_t)n;
    }
    memory_folder_put("tokenizer.bin", file, at);
}

static void open_model(void)
{
    Error e = { 0 };
    char  weights[128], out[128];
    memory_folder_put("config.json", config, sizeof config - 1);
    put_tokenizer();
    snprintf(weights, sizeof weights, "%s/weights.bin", memory_folder());
    snprintf(out, sizeof out, "%s/model.bin", memory_folder());
    claim(tblock_synth(memory_path("config.json"), weights,
                       &(tblock_synth_options){ .type = "f32", .threads = 1 }, &e));
    claim(tblock_convert(
        weights, out,
        &(tblock_convert_options){ .tokenizer = memory_path("tokenizer.bin"), .threads = 1 }, NULL,
        &e));
    model = tblock_open(out, NULL, &e);
    unlink(weights);
    unlink(out); /* the mapping stays */
    context = model
        ? tblock_context_new(model, &(tblock_context_options){ .threads = 1, .isa = "scalar" }, &e)
        : NULL;
    claim(context != NULL);
}

static void use_questions(const uint8_t *bytes, size_t n)
{
    Error                 e = { 0 };
    tblock_choices_report r;
    memory_folder_put("questions.jsonl", bytes, n);
    if (said(tblock_eval_choices(context, memory_path("questions.jsonl"), NULL, &r, &e), &e))
        for (size_t i = 0; i < r.n_rows; i++) {
            const tblock_choices_row *q = &r.rows[i];
            claim(q->n > 0 && q->best >= 0 && (size_t)q->best < q->n && q->answer >= 0
                  && (size_t)q->answer < q->n);
            for (size_t k = 0; k < q->n; k++)
                claim(isfinite(r.score[q->first + k].sum) && r.score[q->first + k].sum <= 0);
        }
    else
        claim(!r.rows && !r.score);
    tblock_free(r.rows);
    tblock_free(r.score);
}

static void use_requests(const uint8_t *bytes, size_t n)
{
    for (size_t at = 0; at <= n;) {
        const uint8_t *end = n > at ? memchr(bytes + at, '\n', n - at) : NULL;
        size_t         length = end ? (size_t)(end - bytes) - at : n - at;
        Error          e = { 0 };
        char          *line = exact_copy(bytes + at, length), *answer = NULL;
        if (said(tblock_tokenize_json(model, line, length, &answer, &e), &e))
            claim(answer[0] == '{' && !strchr(answer, '\n'));
        else
            claim(!answer);
        tblock_free(answer);
        free(line);
        at += length + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    if (!model)
        open_model();
    use_questions(bytes, n);
    use_requests(bytes, n);
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "lines"); }
#endif
