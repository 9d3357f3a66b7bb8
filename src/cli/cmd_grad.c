/* tblock grad: writes the loss of given tokens and its gradients to a file. */
#include "frame.h"
#include "tblock_tools.h"
#include "train_options.h"

#include <inttypes.h>

typedef struct GradArgs {
    const char      *model, *tokens, *out;
    int              steps, threads;
    OptimizerArgs optimizer;
    bool             json;
    GeneralOptions   general;
} GradArgs;

static bool print(const GradArgs *a, const tblock_grad_report *g, tblock_error *err)
{
    Rows r = OUTPUT_ROWS(a->json, 0);
    bool stepped = a->steps > 0;
    rows_object(&r, NULL, { "loss", v_real(g->loss) },
                { "loss_after", stepped ? v_real(g->loss_after) : v_none() },
                { "grad_norm", v_real(g->grad_norm) }, { "parameters", v_count(g->n_params) },
                { "tensors", v_int(g->n_tensors) });
    rows_text(&r, "loss %.6f, gradient norm %.6g, %" PRIu64 " parameters in %d tensors\n", g->loss,
              g->grad_norm, g->n_params, g->n_tensors);
    if (stepped)
        rows_text(&r, "loss %.6f after %d AdamW step%s\n", g->loss_after, a->steps,
                  a->steps == 1 ? "" : "s");
    return output_rows(&r, err);
}

static bool grad(Frame *f, tblock_error *err)
{
    const GradArgs    *a = f->args;
    tblock_adamw       adamw;
    tblock_grad_report report;
    if (!optimizer_read(&a->optimizer, &adamw, err))
        return false;
    blas_without_threads();
    tblock_grad_options o = { .adamw_steps = a->steps,
                              .adamw = &adamw,
                              .threads = a->threads,
                              .progress = progress_advance };
    progress_show("computing gradients", -1);
    bool good = tblock_grad(a->model, a->tokens, a->out, &o, &report, err);
    progress_end();
    return good && ((a->general.quiet && !a->json) || print(a, &report, err));
}

#define AT(field) offsetof(GradArgs, field)
static const Option options[] = {
    { "tokens",  0,  "FILE", OPT_TEXT, AT(tokens), 0, 0, OPT_REQUIRED,
      "a safetensors file with tokens, I32 [B, T]" },
    OPTION_OUTPUT(AT(out), OPT_REQUIRED, "the safetensors file to write"),
    { "adamw-steps", 0, "N", OPT_INT, AT(steps), 0, 1 << 20, "0",
      "AdamW steps to take on this batch" },
    OPTION_JSON(AT(json), "print one JSON object instead of the text"),
    OPTION_THREADS(AT(threads), ""),
    { 0 },
};
static const Option optimizer[] = {
    OPTIMIZER_OPTIONS("all"),
    { 0 },
};
const Command cmd_grad = {
    { "grad", OPERANDS({ "MODEL", AT(model), false, "a model" }),
      GROUPS({ "Options", options, 0 },
             { "Steps: constant rate, no clipping", optimizer, AT(optimizer) },
             GROUP_GENERAL(AT(general))) },
    "write the loss and the gradients of all parameters for given tokens",
    "The loss is the mean cross-entropy of token t+1 predicted at position t. The file has loss "
    "and, for every parameter, grad.NAME, f32, row-major [out, in]. With steps it also has losses "
    "and afterN.NAME, the parameters after the last of N steps. For a Hugging Face folder, NAME is "
    "the checkpoint's name of the tensor, otherwise tblock's. Needs OpenBLAS (Debian: "
    "libopenblas0). docs/train.md has the formulas.",
    EXAMPLES({ "tblock grad model.bin --tokens tokens.safetensors -o grads.safetensors",
               "write the loss and the gradients of all parameters" },
             { "tblock grad model.bin --tokens tokens.safetensors -o grads.safetensors "
               "--adamw-steps 3",
               "also the parameters after three steps" }),
    .args_size = sizeof(GradArgs), .run = grad,
};
