/* report/loss_plot.c: the plot of training losses, as SVG. */
#include "report/page.h"

#include <inttypes.h>
#include <math.h>

/* Room for text of 16 pixels, which narrow windows get; shown 760 pixels wide where there is
 * room. */
enum {
    WIDTH = 560,
    HEIGHT = 400,
    LEFT = 64,
    RIGHT = 20,
    TOP = 72,
    BOTTOM = 56,
    POINTS = 400,
    TICKS = 6
};
enum { SHOWN_WIDTH = 760, SHOWN_HEIGHT = HEIGHT * SHOWN_WIDTH / WIDTH };

/* Colours as those of the other pages (page_style.c). */
static const char style[] =
    "<style>svg{--bg:#fff;--ink:#1c2127;--soft:#5d6775;--grid:#e6e6e1;--c0:#3a6ed0;--c1:#d9821b}\n"
    "@media(prefers-color-scheme:dark){svg{--bg:#1a1d23;--ink:#e7e9ed;--soft:#9aa4b3;--grid:#"
    "2b3038;--c0:#6f9cf2;--c1:#eda64a}}\n"
    "svg{background:var(--bg);max-width:100%;height:auto}rect{fill:var(--bg)}text{fill:var(--soft);"
    "font:16px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}.m{text-anchor:middle}"
    ".e{text-anchor:end}.grid{stroke:var(--grid);fill:none}.line{fill:none;stroke-width:2;stroke-"
    "linejoin:round}"
    ".l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.f0{fill:var(--c0)}.f1{fill:var(--c1)}\n"
    "@media(min-width:600px){text{font-size:12px}}</style>\n";

typedef struct Axes { double steps, low, high; } Axes;

static double x_of(const Axes *a, double step)
{
    return LEFT + step / a->steps * (WIDTH - LEFT - RIGHT);
}
static double y_of(const Axes *a, double loss)
{
    return HEIGHT - BOTTOM - (loss - a->low) / (a->high - a->low) * (HEIGHT - TOP - BOTTOM);
}

static void include(Axes *a, float loss)
{
    if (!isfinite(loss))
        return;
    a->low  = fmin(a->low, (double)loss);
    a->high = fmax(a->high, (double)loss);
}

/* 1, 2 or 5 times a power of ten, so that there are about TICKS of them. */
static double tick_size(double span)
{
    double rough = span / TICKS, ten = pow(10, floor(log10(rough)));
    return rough < 1.5 * ten ? ten
        : rough < 3.5 * ten  ? 2 * ten
        : rough < 7.5 * ten  ? 5 * ten
                             : 10 * ten;
}

static Axes find_axes(const LossCurve *c)
{
    Axes a = { .steps = c->n > 0 ? (double)c->n : 1, .low = INFINITY, .high = -INFINITY };
    for (int64_t i = 0; i < c->n; i++)
        include(&a, c->loss[i]);
    for (size_t i = 0; i < c->n_held; i++)
        include(&a, c->held[i].loss);
    if (!(a.low < a.high))
        a = (Axes){ a.steps, isfinite(a.low) ? a.low - 1 : 0, isfinite(a.low) ? a.low + 1 : 1 };
    double tick = tick_size(a.high - a.low);
    a.low  = floor(a.low / tick) * tick;
    a.high = ceil(a.high / tick) * tick;
    return a;
}

static void draw_axes(TextOut *o, const Axes *a)
{
    double y_tick = tick_size(a->high - a->low), x_tick = fmax(1, tick_size(a->steps));
    for (int i = 0; a->low + i * y_tick <= a->high + y_tick / 2; i++) {
        double v = a->low + i * y_tick;
        text_out(o,
                 "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"e\" x=\"%d\" "
                 "y=\"%.1f\">%.4g</text>",
                 LEFT, y_of(a, v), WIDTH - RIGHT, LEFT - 8, y_of(a, v) + 4, v);
    }
    for (int i = 0; i * x_tick <= a->steps * 1.0001; i++)
        text_out(o, "<text class=\"m\" x=\"%.1f\" y=\"%d\">%.6g</text>", x_of(a, i * x_tick),
                 HEIGHT - BOTTOM + 22, i * x_tick);
    text_out(o, "<text class=\"m\" x=\"%d\" y=\"%d\">steps</text>\n", (LEFT + WIDTH - RIGHT) / 2,
             HEIGHT - 10);
    text_out(o, "<text x=\"8\" y=\"54\">loss (nats per token)</text>\n");
}

/* Means over neighbouring steps, so that the line is readable. */
static void draw_training(TextOut *o, const Axes *a, const LossCurve *c)
{
    int64_t each = c->n / POINTS + 1;
    text_out(o, "<polyline class=\"line l0\" points=\"");
    for (int64_t i = 0; i < c->n; i += each) {
        double  sum = 0;
        int64_t n = 0;
        for (int64_t j = i; j < c->n && j < i + each; j++)
            if (isfinite(c->loss[j])) {
                sum += (double)c->loss[j];
                n++;
            }
        if (n > 0)
            text_out(o, "%.1f,%.1f ", x_of(a, (double)i + 0.5 * (double)each),
                     y_of(a, sum / (double)n));
    }
    text_out(o, "\"/>\n");
}

static void draw_held(TextOut *o, const Axes *a, const LossCurve *c)
{
    text_out(o, "<polyline class=\"line l1\" points=\"");
    for (size_t i = 0; i < c->n_held; i++)
        if (isfinite(c->held[i].loss))
            text_out(o, "%.1f,%.1f ", x_of(a, (double)c->held[i].step),
                     y_of(a, (double)c->held[i].loss));
    text_out(o, "\"/>\n");
    for (size_t i = 0; i < c->n_held; i++)
        if (isfinite(c->held[i].loss))
            text_out(o,
                     "<circle class=\"f1\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>step %" PRId64
                     ": %.4f</title></circle>\n",
                     x_of(a, (double)c->held[i].step), y_of(a, (double)c->held[i].loss),
                     c->held[i].step, (double)c->held[i].loss);
}

void draw_losses(TextOut *o, const LossCurve *c)
{
    Axes a = find_axes(c);
    text_out(o,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\" "
             "aria-label=\"Loss against steps\">\n",
             WIDTH, HEIGHT, SHOWN_WIDTH, SHOWN_HEIGHT);
    text_out_bytes(o, style, sizeof style - 1);
    text_out(o, "<rect width=\"%d\" height=\"%d\"/><text class=\"f0\" x=\"%d\" y=\"26\">training "
                "loss</text>", WIDTH, HEIGHT, LEFT);
    if (c->n_held > 0)
        text_out(o, "<text class=\"f1\" x=\"%d\" y=\"26\">validation loss: %.4f</text>", LEFT + 140,
                 (double)c->held[c->n_held - 1].loss);
    text_out(o, "\n");
    draw_axes(o, &a);
    draw_training(o, &a, c);
    draw_held(o, &a, c);
    text_out(o, "</svg>\n");
}
