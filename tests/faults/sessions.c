/* Many thousand short sessions in one process: memory does not grow. Contexts opened and closed,
 * sequences emptied, conversations rendered, models opened and closed, text scored, models trained,
 * each over and over; private memory after a quarter and at the end is compared. --quick: fewer. */
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "format/tensors.h"
#include "tblock_tools.h"
#include "../unit/openblas.h"
#include "../unit/sanitized.h"
#include "../unit/test.h"
#include "../unit/temp_folder.h"

/* Bytes. Of blocks the C library counts what it keeps in hand too: a leak of 16 bytes a session
 * would be four times as much. Private memory also has what was freed and not given back, which
 * depends on which thread took it; a page a session would be four times as much. */
enum { ALLOWED = 2 << 20, ALLOWED_BLOCKS = 64 << 10 };

static long          sessions = 20000;
static char          path[128];
static tblock_model *model;

static size_t private_bytes(void)
{
    static const char key[] = "\nAnonymous:";
    char    text[4096];
    int     fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *found = strstr(text, key);
    return found ? (size_t)strtoull(found + sizeof key - 1, NULL, 10) * 1024 : 0;
}

/* One after the other; both memory and allocated blocks are compared. */
static void repeat(bool (*session)(tblock_error *), long n)
{
    tblock_error err = { 0 };
    size_t       before = 0, blocks = 0;
    if (SANITIZED || private_bytes() == 0) {
        SKIP(SANITIZED ? "sanitizers keep freed memory back" : "no /proc/self/smaps_rollup");
        return;
    }
    for (long i = 0; i < n; i++) {
        bool good = session(&err);
        CHECK(good, "session %ld: %s", i, err.msg);
        if (!good)
            return;
        if (i == n / 4) {
            before = private_bytes();
            blocks = mallinfo2().uordblks + mallinfo2().hblkhd;
        }
    }
    size_t after = private_bytes(), left = mallinfo2().uordblks + mallinfo2().hblkhd;
    CHECK(left <= blocks + ALLOWED_BLOCKS, "%zu bytes allocated after %ld sessions, %zu after %ld",
          left, n, blocks, n / 4);
    CHECK(after <= before + ALLOWED, "%zu bytes private after %ld sessions, %zu after %ld", after,
          n, before, n / 4);
}

static bool say(tblock_context *c, int seq, int n, tblock_error *err)
{
    tblock_item item[80];
    for (int i = 0; i < n; i++)
        item[i] = (tblock_item){ seq, i, i % 60, i + 1 == n };
    return tblock_decode(c, item, (size_t)n, err) && tblock_logits(c, (size_t)n - 1);
}

static bool context_session(tblock_error *err)
{
    tblock_context *c = tblock_context_new(
        model, &(tblock_context_options){ .threads = 1 + (rand() & 1), .n_seqs = 2 }, err);
    bool            good = c && say(c, 1, 1 + rand() % 70, err);
    tblock_context_free(c);
    return good;
}

static tblock_context *kept;
static bool sequence_session(tblock_error *err)
{
    int seq = rand() % 4;
    return tblock_seq_rewind(kept, seq, 0, err) && say(kept, seq, 1 + rand() % 70, err)
           && tblock_seq_copy(kept, seq, (seq + 1) % 4, 1, err);
}

static bool generation_session(tblock_error *err)
{
    static const int32_t ids[] = { 5, 6, 7, 5, 6, 7, 5, 6 };
    tblock_generation_options o = { .ids = ids,
                                    .n_ids = 1 + (size_t)rand() % 8,
                                    .max_tokens = 1 + rand() % 9,
                                    .draft = rand() % 5,
                                    .sampling = { .temp = 5, .seed = (uint64_t)rand() },
                                    .stop_texts = (const char *const[]){ "e" },
                                    .n_stop_texts = 1 };
    tblock_generation *g = tblock_generation_open(kept, &o, err);
    bool               good = g != NULL;
    for (int step = rand() % 12; good && step > 0; step--)
        good = tblock_advance(kept, &g, 1, 3, err);
    tblock_generation_close(g);
    return good;
}

static bool model_session(tblock_error *err)
{
    tblock_model *m =
        tblock_open(path, &(tblock_open_options){ .type = rand() & 1 ? "q8" : NULL }, err);
    tblock_close(m);
    return m != NULL;
}

static bool failing_session(tblock_error *err)
{
    static const tblock_item wrong = { 0, 0, 1 << 20, true };
    tblock_error why;
    bool none =
        !tblock_open("tests/data/README.md", NULL, &why) && !tblock_decode(kept, &wrong, 1, &why);
    (void)err;
    return none;
}

static bool text_session(tblock_error *err)
{
    static const tblock_chat_message turn[] = { { .role = "user",
                                                  .text = "Who <|im_end|> are you?",
                                                  .n_bytes = 23 } };
    int32_t *ids = NULL;
    char    *text = NULL;
    size_t   n, n_text;
    tblock_chat   *chat = tblock_chat_new(model, &(tblock_chat_options){ .format = "chatml" }, err);
    tblock_stream *s = chat ? tblock_stream_new(model, false, err) : NULL;
    bool good = s && tblock_chat_render(chat, turn, 1, true, &ids, &n, err)
        && tblock_detokenize(model, ids, n, &text, &n_text, err);
    for (size_t i = 0; good && i < n; i++)
        tblock_stream_put(s, ids[i], &n_text);
    tblock_stream_free(s);
    tblock_chat_free(chat);
    tblock_free(ids);
    tblock_free(text);
    return good;
}

static bool eval_session(tblock_error *err)
{
    static const int32_t ids[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    tblock_eval_report r;
    return tblock_eval_text(kept, ids, 9, &(tblock_eval_options){ .window = 4, .stride = 2 }, &r,
                            err);
}

/* A tokenizer, two steps, a checkpoint, a model file, a plot; every third goes on from a
 * checkpoint. */
static bool training_session(tblock_error *err)
{
    tblock_train_options o = { .text = "tests/faults/sessions.c",
                               .config = in_folder("config.json"),
                               .vocab = 262,
                               .steps = 2,
                               .batch = 2,
                               .n_ctx = 8,
                               .dropout = 0.1,
                               .plot = in_folder("loss.svg"),
                               .threads = 1 + (rand() & 1) };
    const char *out = in_folder("trained.bin");
    if (rand() % 3 == 0) {
        o.resume = true;
        return tblock_train(out, &o, NULL, err);
    }
    remove(in_folder("trained.bin.ckpt"));
    return tblock_train(out, &o, NULL, err);
}

static bool write_tokens(tblock_error *err)
{
    static const int32_t id[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    TensorWriter *w = tensor_writer_new(in_folder("tokens"), 64, err);
    if (w && tensor_writer_declare(w, "tokens", DT_I32, 2, (int64_t[]){ 2, 3 }, err)
        && tensor_writer_begin(w, err) && tensor_writer_put(w, 0, 0, id, sizeof id, err))
        return tensor_writer_end(w, err);
    tensor_writer_abort(w);
    return false;
}

static bool gradient_session(tblock_error *err)
{
    char                  *text   = NULL;
    tblock_grad_check_row *rows   = NULL;
    size_t                 n;
    bool good = tblock_grad("tests/data/models/llama3-e2e", in_folder("tokens"), in_folder("grads"),
                            &(tblock_grad_options){ .threads = 1 + (rand() & 1) }, NULL, err)
        && tblock_grad_check(&(tblock_grad_check_options){ .config = in_folder("config.json"),
                                                           .n_tokens = 4,
                                                           .samples = 1 },
                             &rows, &n, err)
        && tblock_block(NULL, &(tblock_block_options){ .check = 1, .stack = 2, .threads = 1 },
                        &text, err);
    tblock_free(rows);
    tblock_free(text);
    return good;
}

static void contexts_leave_nothing(void) { repeat(context_session, sessions); }
static void sequences_reuse_memory(void) { repeat(sequence_session, sessions); }
static void generations_leave_nothing(void) { repeat(generation_session, sessions); }
static void models_leave_nothing(void) { repeat(model_session, sessions / 10); }
static void failures_leave_nothing(void) { repeat(failing_session, sessions); }
static void texts_leave_nothing(void) { repeat(text_session, sessions); }
static void scoring_leaves_nothing(void) { repeat(eval_session, sessions / 4); }
static void training_leaves_nothing(void) { repeat(training_session, sessions / 40); }
static void gradients_leave_nothing(void) { repeat(gradient_session, sessions / 10); }

int main(int argc, char **argv)
{
    tblock_error err = { 0 };
    mallopt(M_ARENA_MAX, 1); /* else memory that the threads of a session freed is spread over
                              * arenas, and the C library keeps some of each */
    if (argc > 1 && strcmp(argv[1], "--quick") == 0) {
        sessions = 2000;
        argv[1] = argv[0];
        argc--, argv++;
    }
    TEST_MAIN_ARGS(argc, argv);
    bool made = make_folder();
    snprintf(path, sizeof path, "%s", in_folder("model.bin"));
    made = made
        && write_config("{\"d_model\": 8, \"n_layers\": 2, \"heads\": 2, \"d_ff\": 12, "
                        "\"vocab_size\": 262, \"n_ctx\": 8}")
        && write_tokens(&err)
        && tblock_convert("tests/data/models/llama3-e2e", path, NULL, NULL, &err);
    model = made ? tblock_open(path, NULL, &err) : NULL;
    kept = model
        ? tblock_context_new(model, &(tblock_context_options){ .threads = 2, .n_seqs = 4 }, &err)
        : NULL;
    if (!kept) {
        printf("FAIL prepare: %s\n", err.msg);
        return 1;
    }
    TEST(contexts_leave_nothing);
    TEST(sequences_reuse_memory);
    TEST(generations_leave_nothing);
    TEST(models_leave_nothing);
    TEST(failures_leave_nothing);
    TEST(texts_leave_nothing);
    TEST(scoring_leaves_nothing);
    TEST_TRAINING(training_leaves_nothing);
    TEST_TRAINING(gradients_leave_nothing);
    tblock_context_free(kept);
    tblock_close(model);
    const char *const files[] = { "model.bin", "config.json", "trained.bin", "trained.bin.ckpt",
                                  "loss.svg",  "tokens",      "grads" };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(in_folder(files[i]));
    rmdir(folder);
    return TEST_END();
}
