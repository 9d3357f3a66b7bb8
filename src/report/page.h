/* report/page.h: pages of HTML, and the plots on them. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include <stdint.h>
#include "base/text.h"
#include "report/info.h"
#include "tblock_tools.h"

/* ---- page ------------------------------------------------------------------------------------ */

/* The parts of the report of `tblock info`. Private to this room. */

/* ---- The rows, in the order of text and JSON (info_rows.c) ----------------------------------- */

void info_config(Rows *r, const Config *c);
void info_block_params(Rows *r, const Info *info);
void info_model_params(Rows *r, const Info *info);
void info_flops(Rows *r, const Info *info);
void info_kv(Rows *r, const Info *info);
void info_memory(Rows *r, const Info *info);
void info_ranks(Rows *r, const Info *info); /* info_ranks.c */
void info_file(Rows *r, const Info *info);
void info_check(Rows *r, const DataCheck *d);
void info_tensors(Rows *r, const SourceContents *c);

/* ---- The page around them -------------------------------------------------------------------- */

void info_page(Rows *r, const Info *info, bool tensors);
const char *part_colour(const CountPart *p);

/* A run of coloured pieces, each as wide as its share, with a legend under it. Colours are classes
 * of page_style. */
typedef struct PagePiece { const char *name, *colour; double value; const char *text; } PagePiece;
void page_bar(TextOut *o, const PagePiece *piece, int n);

extern const char *const group_colours[GROUP_COUNT];
extern const char *const page_style[]; /* the style sheet in pieces; NULL ends it */

void draw_block_diagram(TextOut *o, const Info *info);  /* SVG: the block as data flow, with
                                                         * shapes */

/* Can the diagram show this block: norms before, rotary positions, a gate, no experts? Else the
 * page has its formulas. */
bool diagram_shows(const Config *c);
void draw_block_formulas(TextOut *o, const Config *c);
void draw_flops_plot(TextOut *o, const Info *info);     /* SVG: FLOP for each token against
                                                         * length */
void draw_kv_plot(TextOut *o, const Info *info);        /* SVG: bytes of the KV cache against
                                                         * length */

/* ---- loss_plot.c ----------------------------------------------------------------------------- */

/* Losses against steps, as an SVG file for light and dark pages that loads nothing. */

typedef struct LossPoint { int64_t step; float loss; } LossPoint;

/* Training losses [n] of steps 1 .. n, and losses on held-out data. Numbers that are not finite are
 * left out. */
typedef struct LossCurve {
    const float *loss; int64_t n; const LossPoint *held; size_t n_held;
} LossCurve;

void draw_losses(TextOut *o, const LossCurve *c);

/* ---- roofline_plot.c ------------------------------------------------------------------------- */

/* A roofline plot as an SVG file of its own. */

/* As tblock_roofline_plot has checked it. */
typedef struct RooflinePlot {
    const char              *title;
    const tblock_roof       *roof;
    const tblock_roof_point *point;
    size_t                   n_roofs, n_points;
} RooflinePlot;

/* What a roof allows at these operations per byte: the bandwidth times them, at most the peak. */
double roof_height(const tblock_roof *r, double operations_per_byte);

void draw_roofline(TextOut *o, const RooflinePlot *p);

/* Labels of points that do not overlap. A box is the space of a label: its left end, its baseline,
 * its width. */
typedef struct LabelBox { double x, y, width; } LabelBox;
typedef struct LabelSpace { double left, right, top, bottom; } LabelSpace;

enum { LABEL_HEIGHT = 18 };
bool label_overlaps(const LabelBox *a, const LabelBox *b);

/* Find room in space for the label of a point at (x, y): right or left of it, else ever further
 * below and above; box [n] are the labels placed before. If nothing is free: right of it. */
LabelBox label_place(const LabelSpace *space, const LabelBox *box, size_t n, double x, double y,
                     double width);

#endif
