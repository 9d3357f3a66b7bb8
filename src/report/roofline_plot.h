/* report/roofline_plot.h: a roofline plot as an SVG file of its own. */
#ifndef REPORT_ROOFLINE_PLOT_H
#define REPORT_ROOFLINE_PLOT_H

#include "base/text.h"
#include "tblock_tools.h"

/* As tblock_roofline_plot has checked it. */
typedef struct RooflinePlot {
    const char              *title;
    const tblock_roof       *roof;
    const tblock_roof_point *point;
    size_t                   n_roofs, n_points;
} RooflinePlot;

/* What a roof allows at so many operations per byte: the bandwidth times them, at most the peak. */
double roof_height(const tblock_roof *r, double operations_per_byte);

void draw_roofline(TextOut *o, const RooflinePlot *p);

/* Names of points beside each other. A box is where a text stands: its left end, its baseline, its width. */
typedef struct LabelBox { double x, y, width; } LabelBox;
typedef struct LabelSpace { double left, right, top, bottom; } LabelSpace;

enum { LABEL_HEIGHT = 18 };
bool label_overlaps(const LabelBox *a, const LabelBox *b);

/* Find room in space for the name of a point at (x, y): right of it or left, else ever further below and above; box [n] are
 * the names that stand already. Where nothing is free, right of it. */
LabelBox label_place(const LabelSpace *space, const LabelBox *box, size_t n, double x, double y, double width);

#endif
