/* report/info.h: what a model is made of, as text and as JSON. Draws the numbers of model/count.c, computes none. */
#ifndef REPORT_INFO_H
#define REPORT_INFO_H

#include "base/json.h"
#include "model/count.h"

/* What there is to draw. Everything belongs to the caller. */
typedef struct Info {
    const char       *path;
    const TensorFile *file;        /* NULL: a bare config                                             */
    const Config     *cfg;         /* NULL: the file holds only a tokenizer                           */
    const Count      *count;       /* of the file; of a bare config [WT_COUNT], one for each type     */
    const Json       *tokenizer;   /* metadata entries, parsed; NULL: absent                          */
    const Json       *source;
    const char       *sha256;      /* as recorded in the file; NULL: absent                           */
} Info;

/* Both allocate *text, NUL-terminated; they fail only without memory. Text keeps within 80 columns. */
bool info_text(const Info *info, const tblock_report_options *opt, char **text, Error *err);
bool info_json(const Info *info, const tblock_report_options *opt, char **text, Error *err);

/* Shared by both: "rows16", "rows" or "mixed"; and a size as [rows, k] or [rows]. */
const char *info_layout(const Count *n);
const char *info_shape(const CountPart *p, char *buf, size_t n);

#endif
