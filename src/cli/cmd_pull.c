/* tblock pull: downloads a model of the Hugging Face Hub into its cache. */
#include "frame.h"

#include "base/text.h"
#include "tblock_tools.h"

typedef struct PullArgs {
    const char    *name, *revision;
    bool           dry_run, json;
    GeneralOptions general;
} PullArgs;

typedef struct Shown { Rows rows; const Table *table; bool dry_run; } Shown;

static const Column columns[] = {
    { "file", "file", -1, 0, UNIT_NONE, NULL },
    { "bytes", "size", 9, 1, UNIT_BYTES, NULL },
    { "there", "", -1, 1, UNIT_NONE, NULL },
};

static void show_file(void *user, const char *path, uint64_t bytes, bool there)
{
    Shown *s = user;
    char   name[CLI_SHOWN];
    progress_end();
    rows_row(&s->rows, s->table,
             (Cell[]){ v_shown(v_text(path), cli_shown(name, path)), v_count(bytes),
                       v_shown(v_flag(there), there ? "in the cache" : "") },
             NULL);
    if (s->rows.face == FACE_TEXT && !s->dry_run) { /* each line as its file begins */
        output_write(s->rows.out.text, s->rows.out.n);
        s->rows.out.n = 0;
        output_flush(NULL);
    }
    if (!there && !s->dry_run)
        progress_show("downloading", -1);
}

static bool pull(Frame *f, tblock_error *err)
{
    const PullArgs *a     = f->args;
    const Table     table = TABLE_OF(columns);
    Shown           shown = { OUTPUT_ROWS(a->json, 10), &table, a->dry_run };
    tblock_pulled   pulled;
    Rows           *r = &shown.rows;
    progress_show("asking the Hub", -1);
    rows_open(r, NULL, '{');
    rows_table(r, "files", &table);
    const bool good = tblock_pull(a->name,
                                  &(tblock_pull_options){ .revision = a->revision,
                                                          .dry_run = a->dry_run, .file = show_file,
                                                          .progress = progress_advance,
                                                          .user = &shown },
                                  &pulled, err);
    progress_end();
    rows_table_end(r, "files");
    if (good) {
        rows_value(r, "revision", "revision", v_text(pulled.commit), UNIT_NONE);
        rows_value(r, "bytes", "size", v_count(pulled.bytes), UNIT_BYTES);
        rows_value(r, "fetched", a->dry_run ? "to fetch" : "fetched", v_count(pulled.fetched),
                   UNIT_BYTES);
        rows_value(r, "path", "path", v_text(pulled.path), UNIT_NONE);
    }
    rows_close(r, '}');
    if (!good) {
        text_out_free(&r->out);
        return false;
    }
    return output_rows(r, err);
}

#define AT(field) offsetof(PullArgs, field)
static const Option options[] = {
    { "revision", 0, "NAME", OPT_TEXT, AT(revision), 0, 0, NULL,
      "a branch, a tag or a commit; default: main" },
    { "dry-run", 0, NULL, OPT_FLAG, AT(dry_run), 0, 0, NULL,
      "print the files and their sizes, and download none" },
    OPTION_JSON(AT(json), "print one JSON object"),
    { 0 },
};
const Command cmd_pull = {
    { "pull",
      OPERANDS({ "NAME", AT(name), false,
                 "ORG/NAME of a repository of the Hub, with :FILE or :QUANTIZATION for one GGUF "
                 "model of it" }),
      GROUPS({ "Options", options, 0 }, GROUP_GENERAL(AT(general))) },
    "download a model of the Hugging Face Hub",
    "Downloads the files that tblock reads into the Hub's cache, which Python shares: the "
    "safetensors of a repository, else its pytorch_model.bin, else one GGUF model (Q4_K_M of "
    "several). Every file is compared with its hash, and what was cut off is continued. Every "
    "command then takes the same name as its MODEL.\nThe environment: HF_ENDPOINT (another host), "
    "HF_TOKEN (for gated and private models), HF_HUB_CACHE, HF_HOME. pull is the only command that "
    "opens a connection; it loads libcurl. docs/pull.md says what is trusted.",
    EXAMPLES({ "tblock pull HuggingFaceTB/SmolLM2-135M-Instruct", "a folder with safetensors" },
             { "tblock pull bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0", "one GGUF file" },
             { "tblock run HuggingFaceTB/SmolLM2-135M-Instruct --prompt 'Hello'",
               "run what was pulled" }),
    .args_size = sizeof(PullArgs), .run = pull,
};
