/* report/roofline_plot.c: the plot of bench, as SVG: speeds below the machine's roof. */
#include "report/page.h"

#include <math.h>
#include <string.h>


/* Room for text of 16 pixels, which narrow windows get; shown 760 pixels wide where there is
 * room. */
enum {
    WIDTH = 560,
    PLOT_HEIGHT = 340,
    LEFT = 66,
    RIGHT = 24,
    TITLE = 24,
    LINE_GAP = 21,
    BOTTOM = 58
};
enum {
    SHOWN_WIDTH = 760,
    COLOURS = 6,
    GAP = 9,
    MAX_BOXES = 256,
    TITLE_LINE = 56,
    LONGEST_NAME = 28
};

/* One file, readable in light and dark; colours as those of the other pages (page_style.c). */
static const char style[] =
    "<style>svg{--bg:#fff;--ink:#1c2127;--soft:#5d6775;--grid:#e6e6e1;--c0:#3a6ed0;--c1:#d9821b;--"
    "c2:#2b9a74;--c3:#8b4fc9;--c4:#1d7f93;"
    "--c5:#c62f2f}\n"
    "@media(prefers-color-scheme:dark){svg{--bg:#1a1d23;--ink:#e7e9ed;--soft:#9aa4b3;--grid:#"
    "2b3038;--c0:#6f9cf2;--c1:#eda64a;"
    "--c2:#52c29c;--c3:#b88bf0;--c4:#4fb5cb;--c5:#f07070}}\n"
    "svg{background:var(--bg);max-width:100%;height:auto}rect{fill:var(--bg)}text{fill:var(--ink);"
    "font:16px system-ui,-apple-system,\"Segoe UI\",Roboto,sans-serif}"
    ".s{fill:var(--soft)}.t{font-weight:600}.m{text-anchor:middle}.e{text-anchor:end}"
    ".grid{stroke:var(--grid);stroke-width:1;fill:none}.roof{fill:none;stroke-width:2.4;stroke-"
    "linejoin:round}"
    ".lift{stroke-width:1.2;stroke-dasharray:2 "
    "3;fill:none;opacity:.7}circle{stroke:var(--bg);stroke-width:1.5}"
    ".halo{paint-order:stroke;stroke:var(--bg);stroke-width:4px;stroke-linejoin:round}\n"
    ".l0{stroke:var(--c0)}.l1{stroke:var(--c1)}.l2{stroke:var(--c2)}.l3{stroke:var(--c3)}.l4{"
    "stroke:var(--c4)}.l5{stroke:var(--c5)}"
    ".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)"
    "}.f5{fill:var(--c5)}\n"
    "@media(min-width:600px){text{font-size:12px}}</style>\n";

/* The decades that the axes span, and where the plot starts. */
typedef struct PlotFrame { double x_low, x_high, y_low, y_high; int top, title_lines; } PlotFrame;

double roof_height(const tblock_roof *r, double operations_per_byte)
{
    double slope = r->gb_per_s * operations_per_byte;
    return r->gop_per_s > 0 && r->gop_per_s < slope ? r->gop_per_s : slope;
}

/* ---- Text that fits -------------------------------------------------------------------------- */

/* At most n bytes of text, no character of UTF-8 cut. */
static size_t cut_at(const char *text, size_t n)
{
    if (strlen(text) <= n)
        return strlen(text);
    while (n > 0 && ((unsigned char)text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

static void put_bytes(TextOut *o, const char *text, size_t n)
{
    char part[TITLE_LINE + 1] = { 0 };
    memcpy(part, text, n);
    html_text(o, part);
}

static void put_name(TextOut *o, const char *name)
{
    size_t n = cut_at(name, LONGEST_NAME);
    put_bytes(o, name, n);
    if (name[n])
        text_out(o, "&#8230;");
}

/* Draws the title in lines that fit, the first at TITLE; returns how many. o NULL: only counts. */
static int draw_title(TextOut *o, const char *title)
{
    int lines = 0;
    while (*title) {
        size_t n = cut_at(title, TITLE_LINE), at = n;
        while (title[n] && at > 0 && title[at - 1] != ' ')
            at--;
        n = at ? at : n ? n : 1;
        if (o) {
            text_out(o, "<text class=\"t\" x=\"8\" y=\"%d\">", TITLE + LINE_GAP * lines);
            put_bytes(o, title, n);
            text_out(o, "</text>\n");
        }
        title += n;
        lines++;
    }
    return lines;
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool label_overlaps(const LabelBox *a, const LabelBox *b)
{
    return a->x < b->x + b->width && b->x < a->x + a->width && fabs(a->y - b->y) < LABEL_HEIGHT;
}

static bool is_free(const LabelSpace *s, const LabelBox *box, size_t n, const LabelBox *at)
{
    if (at->x < s->left || at->x + at->width > s->right || at->y - LABEL_HEIGHT < s->top
        || at->y > s->bottom)
        return false;
    for (size_t i = 0; i < n; i++)
        if (label_overlaps(&box[i], at))
            return false;
    return true;
}

LabelBox label_place(const LabelSpace *space, const LabelBox *box, size_t n, double x, double y,
                     double width)
{
    for (int i = 0; i < 24; i++) {
        double   shift = (i + 1) / 2 * LABEL_HEIGHT * (i % 2 ? 1 : -1);
        LabelBox right = { x + GAP, y + 4 + shift, width },
                 left = { x - GAP - width, y + 4 + shift, width };
        if (is_free(space, box, n, &right))
            return right;
        if (is_free(space, box, n, &left))
            return left;
    }
    return (LabelBox){ x + GAP, y + 4, width };
}

/* ---- Axes ------------------------------------------------------------------------------------ */

static void include(double *low, double *high, double v)
{
    *low  = v < *low ? v : *low;
    *high = v > *high ? v : *high;
}

/* From half the least to twice the largest of what is shown, in whole decades: all points, and
 * where roofs bend. */
static PlotFrame find_frame(const RooflinePlot *p)
{
    double x_low = INFINITY, x_high = 0, y_low = INFINITY, y_high = 0;
    for (size_t i = 0; i < p->n_points; i++) {
        include(&x_low, &x_high, p->point[i].operations_per_byte);
        include(&y_low, &y_high, p->point[i].gop_per_s);
    }
    for (size_t i = 0; i < p->n_roofs; i++)
        include(&x_low, &x_high,
                p->roof[i].gop_per_s > 0 ? p->roof[i].gop_per_s / p->roof[i].gb_per_s : 1);
    PlotFrame f = { .x_low = floor(log10(x_low / 2)),
                .x_high = ceil(log10(2 * x_high)),
                .title_lines = draw_title(NULL, p->title) };
    f.top = TITLE + LINE_GAP * (f.title_lines + (int)p->n_roofs) + 4;
    for (size_t i = 0; i < p->n_roofs; i++) {
        include(&y_low, &y_high, roof_height(&p->roof[i], pow(10, f.x_low)));
        include(&y_low, &y_high, roof_height(&p->roof[i], pow(10, f.x_high)));
    }
    f.y_low  = floor(log10(y_low));
    f.y_high = ceil(log10(1.2 * y_high));
    return f;
}

static double x_of(const PlotFrame *f, double v)
{
    return LEFT + (log10(v) - f->x_low) / (f->x_high - f->x_low) * (WIDTH - LEFT - RIGHT);
}
static double y_of(const PlotFrame *f, double v)
{
    return f->top + PLOT_HEIGHT - (log10(v) - f->y_low) / (f->y_high - f->y_low) * PLOT_HEIGHT;
}

static void draw_axes(TextOut *o, const PlotFrame *f)
{
    int bottom = f->top + PLOT_HEIGHT;
    for (int i = 0; f->x_low + i <= f->x_high; i++) {
        double d = f->x_low + i, x = x_of(f, pow(10, d));
        text_out(o,
                 "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"s m\" x=\"%.1f\" "
                 "y=\"%d\">%g</text>",
                 x, f->top, bottom, x, bottom + 22, pow(10, d));
    }
    for (int i = 0; f->y_low + i <= f->y_high; i++) {
        double d = f->y_low + i, y = y_of(f, pow(10, d));
        text_out(o,
                 "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"s e\" x=\"%d\" "
                 "y=\"%.1f\">%g</text>",
                 LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, pow(10, d));
    }
    text_out(
        o,
        "<text class=\"s m\" x=\"%d\" y=\"%d\">operations per byte of weights and KV cache</text>",
        (LEFT + WIDTH - RIGHT) / 2, bottom + 46);
    text_out(o, "<text class=\"s\" x=\"8\" y=\"%d\">GOP/s</text>\n", f->top - 12);
}

/* ---- Roofs and points ------------------------------------------------------------------------ */

static void draw_roof(TextOut *o, const PlotFrame *f, const tblock_roof *r, size_t i)
{
    double low = pow(10, f->x_low), high = pow(10, f->x_high), bend = r->gop_per_s / r->gb_per_s;
    text_out(o, "<polyline class=\"roof l%zu\" points=\"%.1f,%.1f ", i % COLOURS, x_of(f, low),
             y_of(f, roof_height(r, low)));
    if (bend > low && bend < high)
        text_out(o, "%.1f,%.1f ", x_of(f, bend), y_of(f, r->gop_per_s));
    text_out(o, "%.1f,%.1f\"/>", x_of(f, high), y_of(f, roof_height(r, high)));
    text_out(o, "<text class=\"f%zu\" x=\"%d\" y=\"%d\">", i % COLOURS, LEFT,
             TITLE + LINE_GAP * (f->title_lines + (int)i));
    put_name(o, r->name);
    text_out(o, ": read %.1f GB/s", r->gb_per_s);
    if (r->gop_per_s > 0)
        text_out(o, ", peak %.0f GOP/s", r->gop_per_s);
    text_out(o, "</text>\n");
}

/* The point, and a dotted line up to what its roof allows. */
static void draw_point(TextOut *o, const PlotFrame *f, const RooflinePlot *p,
                       const tblock_roof_point *a)
{
    double x = x_of(f, a->operations_per_byte), y = y_of(f, a->gop_per_s),
           roof = roof_height(&p->roof[a->roof], a->operations_per_byte);
    if (roof > a->gop_per_s)
        text_out(o, "<path class=\"lift l%zu\" d=\"M%.1f %.1fV%.1f\"/>", a->roof % COLOURS, x, y,
                 y_of(f, roof));
    text_out(o, "<circle class=\"f%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>", a->roof % COLOURS,
             x, y);
    html_text(o, a->name);
    text_out(o, ": %.4g GOP/s at %.3g operations per byte, %.1f%% of the roof</title></circle>\n",
             a->gop_per_s, a->operations_per_byte, 100 * a->gop_per_s / roof);
}

static void draw_names(TextOut *o, const PlotFrame *f, const RooflinePlot *p)
{
    LabelSpace space = { LEFT, WIDTH - 2, f->top, f->top + PLOT_HEIGHT };
    LabelBox   box[MAX_BOXES];
    for (size_t i = 0; i < p->n_points && i < MAX_BOXES; i++) {
        const tblock_roof_point *a = &p->point[i];
        /* of a letter at this size, on average */
        double width = 8.5 * (double)cut_at(a->name, LONGEST_NAME);
        box[i] = label_place(&space, box, i, x_of(f, a->operations_per_byte), y_of(f, a->gop_per_s),
                             width);
        text_out(o, "<text class=\"halo\" x=\"%.1f\" y=\"%.1f\">", box[i].x, box[i].y);
        put_name(o, a->name);
        text_out(o, "</text>\n");
    }
}

void draw_roofline(TextOut *o, const RooflinePlot *p)
{
    PlotFrame f = find_frame(p);
    int   height = f.top + PLOT_HEIGHT + BOTTOM;
    text_out(o,
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
             "height=\"%d\" role=\"img\" "
             "aria-label=\"Roofline plot\">\n",
             WIDTH, height, SHOWN_WIDTH, height * SHOWN_WIDTH / WIDTH);
    text_out_bytes(o, style, sizeof style - 1);
    text_out(o, "<rect width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
    draw_title(o, p->title);
    draw_axes(o, &f);
    for (size_t i = 0; i < p->n_roofs; i++)
        draw_roof(o, &f, &p->roof[i], i);
    for (size_t i = 0; i < p->n_points; i++)
        draw_point(o, &f, p, &p->point[i]);
    draw_names(o, &f, p);
    text_out(o, "</svg>\n");
}
