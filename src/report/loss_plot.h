/* report/loss_plot.h: losses against steps, as an SVG file for light and dark pages that loads nothing. */
#ifndef REPORT_LOSS_PLOT_H
#define REPORT_LOSS_PLOT_H

#include <stdint.h>

#include "base/text.h"

typedef struct LossPoint { int64_t step; float loss; } LossPoint;

/* Training losses [n] of steps 1 .. n, and losses on what is held back. Numbers that are not finite are left out. */
typedef struct LossCurve { const float *loss; int64_t n; const LossPoint *held; size_t n_held; } LossCurve;

void draw_losses(TextOut *o, const LossCurve *c);

#endif
