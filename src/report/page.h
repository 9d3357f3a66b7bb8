/* report/page.h: the parts of the report of `tblock info`. Private to this room. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/info.h"

/* ---- The rows, in the order of text and JSON (info_rows.c) ---- */

void info_config(Rows *r, const Config *c);
void info_block_params(Rows *r, const Info *info);
void info_model_params(Rows *r, const Info *info);
void info_flops(Rows *r, const Info *info);
void info_kv(Rows *r, const Info *info);
void info_memory(Rows *r, const Info *info);
void info_file(Rows *r, const Info *info);
void info_check(Rows *r, const DataCheck *d);
void info_tensors(Rows *r, const SourceContents *c);

/* ---- The page around them ---- */

void info_page(Rows *r, const Info *info, bool tensors);
const char *part_colour(const CountPart *p);

/* A run of coloured pieces, each as wide as its share, with a legend under it. Colours are classes of page_style. */
typedef struct PagePiece { const char *name, *colour; double value; const char *text; } PagePiece;
void page_bar(TextOut *o, const PagePiece *piece, int n);

extern const char *const group_colours[GROUP_COUNT];
extern const char *const page_style[]; /* the style sheet in pieces; NULL ends it */

void draw_block_diagram(TextOut *o, const Info *info);  /* SVG: the block as data flow, with shapes  */

/* Is the block one that the drawing shows: norms before, rotary positions, a gate, no experts? Else its formulas stand there. */
bool diagram_shows(const Config *c);
void draw_block_formulas(TextOut *o, const Config *c);
void draw_flops_plot(TextOut *o, const Info *info);     /* SVG: FLOP for each token against length   */
void draw_kv_plot(TextOut *o, const Info *info);        /* SVG: bytes of the KV cache against length */

#endif
