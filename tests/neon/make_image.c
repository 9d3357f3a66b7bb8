/* make_image MODEL IMAGE: write a model and the logits that this machine computes for it, for
 * check_image to compare with. */
#include <stdio.h>

#include "image.h"

static bool write_image(FILE *out, const TensorFile *file, const Model *m)
{
    static const char zeros[64];
    ImageHead head = { .magic = IMAGE_MAGIC,
                       .config_bytes = sizeof(Config),
                       .n_tensors = file->n_tensors,
                       .vocab_size = m->cfg.vocab_size,
                       .config = m->cfg };
    bool good = fwrite(&head, sizeof head, 1, out) == 1;
    for (int i = 0; i < file->n_tensors; i++) {
        char          key[80];
        const Tensor *t = &file->tensors[i];
        ImageTensor   it = { .dtype = (int32_t)t->dtype,
                             .rank = t->rank,
                             .n_elements = t->n_elements,
                             .n_bytes = t->n_bytes };
        snprintf(it.name, sizeof it.name, "%s", t->name);
        snprintf(key, sizeof key, "type.%s", t->name);
        const char *type = tensor_meta(file, key);
        snprintf(it.type, sizeof it.type, "%s", type ? type : "");
        memcpy(it.shape, t->shape, sizeof it.shape);
        good &= fwrite(&it, sizeof it, 1, out) == 1;
    }
    size_t n = IMAGE_TOKENS * (size_t)m->cfg.vocab_size;
    float *logits = calloc(n, sizeof *logits);
    for (int i = 0; good && logits && i < IMAGE_MODES; i++) {
        Error           none = { 0 };
        Numerics        numerics;
        const ImageMode mode = image_modes[i];
        if (numerics_choose(&numerics, m, mode.math, mode.activations, &none))
            image_run(m, kernels_select(NULL, NULL), numerics, mode.kv, IMAGE_TOKENS, logits);
        good &= fwrite(logits, sizeof *logits, n, out) == n;
    }
    free(logits);
    for (int i = 0; i < file->n_tensors; i++) {
        const Tensor *t = &file->tensors[i];
        long          at = ftell(out);
        good &= fwrite(zeros, 1, image_padded((size_t)at) - (size_t)at, out)
            == image_padded((size_t)at) - (size_t)at;
        good &= fwrite(t->data, 1, t->n_bytes, out) == t->n_bytes;
    }
    return good && logits;
}

int main(int argc, char **argv)
{
    TensorFile file = { 0 };
    Model      m = { 0 };
    Config     config;
    Error      err = { 0 };
    if (argc != 3) {
        fprintf(stderr, "usage: make_image MODEL IMAGE\n");
        return USAGE;
    }
    bool good = safetensors_open(&file, argv[1], &err);
    const char *json = good ? tensor_meta(&file, "config") : NULL;
    good = good && (json || fail(&err, INPUT, "%s: no config", argv[1]))
        && config_parse(&config, json, strlen(json), argv[1], &err)
        && model_bind_file(&m, &config, &file, &err);
    FILE *out = good ? fopen(argv[2], "wb") : NULL;
    if (good && (!out || !write_image(out, &file, &m) || fclose(out)))
        good = fail(&err, SYSTEM, "%s: cannot write", argv[2]);
    if (!good)
        fprintf(stderr, "make_image: %s\n", err.msg);
    model_free(&m);
    tensor_file_close(&file);
    return good ? 0 : err.status;
}
