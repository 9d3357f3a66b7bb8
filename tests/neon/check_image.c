/* check_image IMAGE: run the model of an image on this processor, with every instruction set it
 * has, and compare all logits with those of the machine that wrote the image, bit by bit. */
#include <stdio.h>

#include "image.h"

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const MetaEntry *)a)->key, ((const MetaEntry *)b)->key);
}

static void add_type(TensorFile *f, const ImageTensor *it)
{
    char *key = malloc(sizeof it->name + 8);
    if (it->type[0] == '\0' || !key) {
        free(key);
        return;
    }
    sprintf(key, "type.%s", it->name);
    f->meta[f->n_meta++] =
        (MetaEntry){ .key = key, .value = it->type, .value_bytes = strlen(it->type) };
}

/* The tensors of an image as if a file had been opened. Releases nothing: the program ends soon. */
static void open_image(TensorFile *f, const char *image, const ImageTensor *it, int n, size_t at)
{
    f->tensors = calloc((size_t)n, sizeof *f->tensors);
    f->by_name = calloc((size_t)n, sizeof *f->by_name);
    f->meta = calloc((size_t)n, sizeof *f->meta);
    f->n_tensors = n;
    f->map.path = "image";
    for (int i = 0; i < n; i++) {
        at = image_padded(at);
        f->tensors[i] = (Tensor){ .name = it[i].name,
                                  .dtype = (DType)it[i].dtype,
                                  .rank = it[i].rank,
                                  .n_elements = it[i].n_elements,
                                  .n_bytes = it[i].n_bytes,
                                  .offset = at,
                                  .data = image + at };
        memcpy(f->tensors[i].shape, it[i].shape, sizeof it[i].shape);
        f->by_name[i] = &f->tensors[i];
        at += it[i].n_bytes;
        add_type(f, &it[i]);
    }
    qsort(f->meta, (size_t)f->n_meta, sizeof *f->meta, by_key);
    qsort(f->by_name, (size_t)n, sizeof *f->by_name, by_name);
}

static char *read_whole(const char *path)
{
    FILE *in = fopen(path, "rb");
    char *data = NULL;
    if (in && !fseek(in, 0, SEEK_END)) {
        long n = ftell(in);
        rewind(in);
        data = n > 0 ? aligned_alloc(64, image_padded((size_t)n)) : NULL;
        if (data && fread(data, 1, (size_t)n, in) != (size_t)n)
            data = NULL;
    }
    if (in)
        fclose(in);
    return data;
}

/* All that instruction sets, modes and cuts of the prompt make of it; the number of those that
 * differ. */
static int check_model(const Model *m, const float *expected, size_t n)
{
    static const int pieces[] = { IMAGE_TOKENS, 3 };
    int    failures = 0;
    float *logits = malloc(n * sizeof *logits);
    for (int k = 0; logits && kernels_table(k); k++)
        for (int mode = 0; mode < IMAGE_MODES; mode++)
            for (int p = 0; p < 2; p++) {
                const ImageMode *how = &image_modes[mode];
                const float     *want = expected + (size_t)mode * n;
                Numerics         numerics;
                Error            none = { 0 };
                size_t           i = 0;
                if (k == 0 && (mode != 0 || p != 0)) /* scalar is slow under an emulator: once */
                    continue;
                if (!numerics_choose(&numerics, m, how->math, how->activations, &none))
                    continue;
                image_run(m, kernels_table(k), numerics, how->kv, pieces[p], logits);
                while (i < n && !memcmp(&logits[i], &want[i], sizeof *logits))
                    i++;
                printf("%s neon_model_%s_%s_pieces_of_%d", i == n ? "ok" : "FAIL",
                       kernels_table(k)->isa, how->name, pieces[p]);
                if (i < n)
                    printf(": logit %zu: expected %a, found %a", i, (double)want[i],
                           (double)logits[i]);
                printf("\n");
                failures += i < n;
            }
    free(logits);
    return failures;
}

int main(int argc, char **argv)
{
    TensorFile file = { 0 };
    Model      m = { 0 };
    Error      err = { 0 };
    char      *image = argc == 2 ? read_whole(argv[1]) : NULL;
    if (!image) {
        printf("FAIL image: cannot read it\n");
        return SYSTEM;
    }
    const ImageHead *head = (const ImageHead *)image;
    if (head->magic != IMAGE_MAGIC || head->config_bytes != sizeof(Config)) {
        printf("FAIL image: the machines disagree on the layout of a struct\n");
        return INPUT;
    }
    const ImageTensor *it = (const ImageTensor *)(image + sizeof *head);
    size_t       at = sizeof *head + (size_t)head->n_tensors * sizeof *it,
           n = IMAGE_TOKENS * (size_t)head->vocab_size;
    const float *expected = (const float *)(image + at);
    open_image(&file, image, it, head->n_tensors, at + IMAGE_MODES * n * sizeof *expected);
    if (!model_bind_file(&m, &head->config, &file, &err)) {
        printf("FAIL image: %s\n", err.msg);
        return err.status;
    }
    int failures = check_model(&m, expected, n);
    model_free(&m);
    return failures ? NO : 0;
}
