/* check_image IMAGE: run the model of an image on this processor, with every instruction set it has, and compare all logits
 * with those of the machine that wrote the image, bit by bit. */
#include <stdio.h>

#include "image.h"

static int by_name(const void *a, const void *b) { return strcmp((*(const Tensor *const *)a)->name, (*(const Tensor *const *)b)->name); }

/* The tensors of an image as if a file had been opened. Releases nothing: the program ends soon. */
static void open_image(TensorFile *f, const char *image, const ImageTensor *it, int n, size_t at)
{
    f->tensors = calloc((size_t)n, sizeof *f->tensors);
    f->by_name = calloc((size_t)n, sizeof *f->by_name);
    f->n_tensors = n;
    f->map.path = "image";
    for (int i = 0; i < n; i++) {
        at = image_padded(at);
        f->tensors[i] = (Tensor){ .name = it[i].name, .dtype = (DType)it[i].dtype, .rank = it[i].rank, .n_elements = it[i].n_elements,
                                  .n_bytes = it[i].n_bytes, .offset = at, .data = image + at };
        memcpy(f->tensors[i].shape, it[i].shape, sizeof it[i].shape);
        f->by_name[i] = &f->tensors[i];
        at += it[i].n_bytes;
    }
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

int main(int argc, char **argv)
{
    static const char *const kv_names[KV_COUNT] = { [KV_F32] = "f32", [KV_F16] = "f16", [KV_Q8] = "q8" };
    static const int pieces[] = { IMAGE_TOKENS, 3 };
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
    size_t       at = sizeof *head + (size_t)head->n_tensors * sizeof *it, n = IMAGE_TOKENS * (size_t)head->vocab_size;
    const float *expected = (const float *)(image + at);
    open_image(&file, image, it, head->n_tensors, at + KV_COUNT * n * sizeof *expected);
    if (!model_bind(&m, &head->config, &file, &err)) {
        printf("FAIL image: %s\n", err.msg);
        return err.status;
    }

    int    failures = 0;
    float *logits = malloc(n * sizeof *logits);
    for (int k = 0; logits && kernels_table(k); k++)
        for (int kv = 0; kv < KV_COUNT; kv++)
            for (int p = 0; p < 2; p++) {
                if (k == 0 && (kv != KV_F32 || p != 0)) /* scalar is slow under an emulator: once */
                    continue;
                size_t i = 0;
                image_run(&m, kernels_table(k), (KvType)kv, pieces[p], logits);
                while (i < n && !memcmp(&logits[i], &expected[kv * (ptrdiff_t)n + (ptrdiff_t)i], sizeof *logits))
                    i++;
                printf("%s neon_model_%s_kv_%s_pieces_of_%d", i == n ? "ok" : "FAIL", kernels_table(k)->isa, kv_names[kv], pieces[p]);
                if (i < n)
                    printf(": logit %zu: expected %a, found %a", i, (double)expected[(size_t)kv * n + i], (double)logits[i]);
                printf("\n");
                failures += i < n;
            }
    free(logits);
    model_free(&m);
    return failures ? NO : 0;
}
