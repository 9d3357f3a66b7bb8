/* tests/fuzz/fuzz_lab.c: any bytes as what the laboratory reads: the config of a block, up to the
 * first NUL, and its tensors; these also as a checkpoint of training. Behind the config "ckpt"
 * stand changes of a sound checkpoint, three bytes each: place and value. A hash that no longer
 * fits does not end it there, so that what lies behind is reached. Values are read where OpenBLAS
 * is there, without which there is no training. */
#include "api/block_report.h"
#include "base/file.h"
#include "fuzz.h"
#include "memory_folder.h"
#include "tblock_tools.h"
#include "train/trainer.h"

enum { TOKENS = 40 };

static bool    open, no_training;
static Config  config;
static Params  params;
static Crew    crew;
static Trainer trainer;
static int32_t text[TOKENS];
static char   *sound; /* a checkpoint */
static size_t  n_sound;

static const StateSetting setting[] = { { "batch", "2" }, { "lr", "0.01" } };

static void keep_checkpoint(void)
{
    Error e = { 0 };
    char  path[128];
    snprintf(path, sizeof path, "%s/sound", memory_folder());
    claim(train_state_save(&trainer, path, setting, 2, NULL, &e)
          && file_read(path, 1 << 20, &sound, &n_sound, &e));
    TensorFile f;
    claim(safetensors_open(&f, path, &e) && train_state_check(&f, &e)
          && train_state_compare(&f, setting, 2, &e) && train_state_compare_config(&f, &config, &e)
          && train_state_load(&trainer, &f, &e));
    tensor_file_close(&f);
    unlink(path);
}

static void open_trainer(void)
{
    Error         e = { 0 };
    TrainSettings s = { .batch = 2,
                        .micro = 2,
                        .seq_len = 4,
                        .n_steps = 3,
                        .schedule = { .lr = 0.01, .min_lr = 0.01 },
                        .adamw = { 0.9, 0.95, 1e-8, 0.1, false },
                        .seed = 5 };
    TrainData     data = { text, TOKENS - 10, TOKENS };
    config_defaults(&config);
    config.d_model = 4, config.n_layers = 1, config.heads = config.kv_heads = 1,
    config.head_dim = config.rotary_dim = 4, config.d_ff = 4;
    config.vocab_size = 5, config.n_ctx = 8;
    for (int i = 0; i < TOKENS; i++)
        text[i] = i % 5;
    no_training = !crew_open(&crew, 1, &e);
    claim(no_training
          || (params_layout(&params, &config, &e)
              && trainer_open(&trainer, &params, &crew, &data, &s, &e)));
    if (!no_training)
        keep_checkpoint();
    open = true;
}

static void use_block(const char *path, const char *tensors)
{
    Error                e = { 0 };
    BlockInput           in = { 0 };
    BlockLab             lab = { 0 };
    tblock_block_options opt = { .tensors = tensors };
    bool small = said(block_input_open(&in, path, &opt, &e), &e) && in.config.d_model <= 64
        && in.config.d_ff <= 256 && in.n_seqs <= 16 && in.seq_len <= 16 && in.config.heads <= 16
        && in.config.head_dim <= 64;
    if (small && !no_training
        && said(lab_open(&lab, &in.config, in.causal, in.n_seqs, in.seq_len, false, 1, &e), &e))
        said(block_input_weights(&in, &lab, 0, &e) && block_input_values(&in, &lab, &e), &e);
    lab_close(&lab);
    block_input_close(&in);
}

static void use_checkpoint(const char *path)
{
    Error      e = { 0 };
    TensorFile f;
    if (!said(safetensors_open(&f, path, &e), &e))
        return;
    said(train_state_check(&f, &e), &e);
    said(train_state_compare(&f, setting, 2, &e), &e);
    if (said(train_state_compare_config(&f, &config, &e), &e) && !no_training)
        said(train_state_load(&trainer, &f, &e), &e);
    tensor_file_close(&f);
}

/* The sound checkpoint with changes. */
static void use_changed(const uint8_t *change, size_t n)
{
    char *copy = exact_copy(sound ? sound : "", n_sound);
    for (size_t i = 0; i + 3 <= n; i += 3)
        if ((size_t)(change[i] << 8 | change[i + 1]) < n_sound)
            copy[change[i] << 8 | change[i + 1]] = (char)change[i + 2];
    memory_folder_put("tensors.safetensors", copy, n_sound);
    use_checkpoint(memory_path("tensors.safetensors"));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    static const char changes[] = "ckpt"; /* with its NUL */
    if (!open)
        open_trainer();
    if (n >= sizeof changes && memcmp(bytes, changes, sizeof changes) == 0) {
        use_changed(bytes + sizeof changes, n - sizeof changes);
        return 0;
    }
    bool tensors = memory_folder_put_two("case.json", "tensors.safetensors", bytes, n);
    use_block(n && bytes[0] ? memory_path("case.json") : NULL,
              tensors ? memory_path("tensors.safetensors") : NULL);
    if (tensors)
        use_checkpoint(memory_path("tensors.safetensors"));
    return 0;
}

#ifndef FUZZER
#include "replay.h"
int main(int argc, char **argv) { return replay_main(argc, argv, "lab"); }
#endif
