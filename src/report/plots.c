/* report/plots.c: FLOP and KV cache against length, both axes logarithmic, as SVG. */
#include "report/page.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Room for text of 14 pixels, which page_style.c takes on a phone. */
enum { WIDTH = 440, HEIGHT = 320, LEFT = 66, RIGHT = 104, TOP = 48, BOTTOM = 48 };
enum { MAX_SERIES = 6, LINE_GAP = 17, MAX_DECADES = 5 };

typedef struct Series {
    const char *label, *colour;
    bool        dashed;
    size_t      at;          /* offset of a double in InfoPoint; or             */
    double      constant;    /* a line at this height, if over 0                */
} Series;

typedef struct Plot {
    const Info   *info;
    const char   *y_name;
    const Series *series;
    int           n_series;
    double        low, high; /* decades that the y axis spans */
    const char *(*form)(double v, char *buf, size_t n);
} Plot;

static double value(const Series *s, const InfoPoint *p)
{
    return s->constant > 0 ? s->constant : *(const double *)(const void *)((const char *)p + s->at);
}

static double x_of(const Plot *p, double length)
{
    const Info *i     = p->info;
    double      first = log2(i->curve[0].seq), last = log2(i->curve[i->n_curve - 1].seq);
    double      share = last > first ? (log2(length) - first) / (last - first) : 0;
    return LEFT + share * (WIDTH - LEFT - RIGHT);
}

static double y_of(const Plot *p, double v)
{
    double share = (log10(v) - p->low) / (p->high - p->low);
    return HEIGHT - BOTTOM - (share < 0 ? 0 : share > 1 ? 1 : share) * (HEIGHT - TOP - BOTTOM);
}

static void find_range(Plot *p)
{
    double low = INFINITY, high = 1;
    for (int s = 0; s < p->n_series; s++)
        for (int i = 0; i < p->info->n_curve; i++) {
            double v = value(&p->series[s], &p->info->curve[i]);
            low  = v < low ? v : low;
            high = v > high ? v : high;
        }
    p->low  = floor(log10(low));
    p->high = ceil(log10(high) + 1e-9);
    if (p->high - p->low > MAX_DECADES + 2)
        p->low = p->high - MAX_DECADES - 2;
}

/* 2048 as "2k": lengths are powers of two. */
static const char *length_text(int length, char *buf, size_t n)
{
    if (length >= 1 << 20)
        snprintf(buf, n, "%dM", length >> 20);
    else if (length >= 1 << 10)
        snprintf(buf, n, "%dk", length >> 10);
    else
        snprintf(buf, n, "%d", length);
    return buf;
}

/* 1e9 as "1 G", not "1.000 G". */
static const char *decade_text(const Plot *p, double decade, char *buf, size_t n)
{
    p->form(pow(10, decade), buf, n);
    char *point = strchr(buf, '.'), *unit = strchr(buf, ' ');
    if (point)
        memmove(point, unit ? unit : buf + strlen(buf), strlen(unit ? unit : "") + 1);
    return buf;
}

static void draw_axes(TextOut *o, const Plot *p)
{
    const Info *info  = p->info;
    int         first = info->curve[0].seq, last = info->curve[info->n_curve - 1].seq, octaves = 0;
    char        word[32];
    while (first << octaves < last)
        octaves++;
    int step = octaves > 14 ? 3 : octaves > 7 ? 2 : 1;
    for (int i = 0; i <= octaves; i += step) {
        double x = x_of(p, first << i);
        if (first << i > last)
            break;
        text_out(o,
                 "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"s m\" x=\"%.1f\" "
                 "y=\"%d\">%s</text>",
                 x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18,
                 length_text(first << i, word, sizeof word));
    }
    for (int i = 0; p->low + i <= p->high; i++) {
        double decade = p->low + i, y = y_of(p, pow(10, decade));
        text_out(o,
                 "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"s e\" x=\"%d\" "
                 "y=\"%.1f\">%s</text>",
                 LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4,
                 decade_text(p, decade, word, sizeof word));
    }
    text_out(o,
             "<text class=\"s m\" x=\"%d\" y=\"%d\">length in tokens</text>"
             "<text class=\"s\" x=\"4\" y=\"14\">%s</text>",
             (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, p->y_name);
}

static void draw_line(TextOut *o, const Plot *p, const Series *s)
{
    text_out(o, "<polyline class=\"line %s%s\" points=\"", s->colour, s->dashed ? " dash" : "");
    for (int i = 0; i < p->info->n_curve; i++)
        text_out(o, "%.1f,%.1f ", x_of(p, p->info->curve[i].seq),
                 y_of(p, value(s, &p->info->curve[i])));
    text_out(o, "\"/>");
}

/* Names are at the ends of the lines, from the highest down, pushed apart if they would touch. */
static void draw_names(TextOut *o, const Plot *p)
{
    const InfoPoint *end = &p->info->curve[p->info->n_curve - 1];
    bool             done[MAX_SERIES] = { false };
    double           free_from = TOP;
    for (int i = 0; i < p->n_series; i++) {
        int best = -1;
        for (int s = 0; s < p->n_series; s++)
            if (!done[s] && (best < 0 || value(&p->series[s], end) > value(&p->series[best], end)))
                best = s;
        double y  = y_of(p, value(&p->series[best], end)) + 4;
        y         = y < free_from ? free_from : y;
        free_from = y + LINE_GAP;
        done[best] = true;
        text_out(o, "<text class=\"t c%s\" x=\"%d\" y=\"%.1f\">%s</text>", p->series[best].colour,
                 WIDTH - RIGHT + 8, y, p->series[best].label);
    }
}

/* A dotted line at a length, named above the plot. */
static void draw_mark(TextOut *o, const Plot *p, int length, const char *what)
{
    char   number[32];
    double x = x_of(p, length);
    if (length < p->info->curve[0].seq || length > p->info->curve[p->info->n_curve - 1].seq)
        return;
    const char *side = x > WIDTH - RIGHT - 90 ? " e" : x < LEFT + 90 ? "" : " m";
    text_out(o,
             "<path class=\"mark\" d=\"M%.1f %dV%d\"/><text class=\"s halo%s\" x=\"%.1f\" "
             "y=\"%d\">%s %s</text>",
             x, TOP, HEIGHT - BOTTOM, side, x, TOP - 10, what,
             form_count((uint64_t)length, number, sizeof number));
}

static void open_plot(TextOut *o, Plot *p, const char *title)
{
    find_range(p);
    text_out(o, "<svg class=\"plot\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", WIDTH,
             HEIGHT, title);
    draw_axes(o, p);
}

static void close_plot(TextOut *o, const Plot *p)
{
    for (int i = 0; i < p->n_series; i++)
        draw_line(o, p, &p->series[i]);
    draw_names(o, p);
    text_out(o, "</svg>\n");
}

void draw_flops_plot(TextOut *o, const Info *info)
{
    static const Series series[] = {
        { "FFN", "ffn", false, offsetof(InfoPoint, ffn), 0 },
        { "full square", "proj", true, offsetof(InfoPoint, attention_full), 0 },
        { "attention", "proj", false, offsetof(InfoPoint, attention), 0 },
        { "QK<tspan dy=\"-4\" font-size=\"9\">T</tspan><tspan dy=\"4\"> and AV</tspan>", "scores",
          false, offsetof(InfoPoint, scores), 0 },
    };
    Plot p = {
        .info = info, .y_name = "FLOP per token", .series = series, .n_series = 4, .form = form_si
    };
    open_plot(o, &p, "FLOP of one block for each token, against length");
    if (info->crossover.full)
        draw_mark(o, &p, info->crossover.full, "square = FFN at");
    close_plot(o, &p);
}

void draw_kv_plot(TextOut *o, const Info *info)
{
    Series series[] = {
        { "f32", "embed", false, offsetof(InfoPoint, kv[0]), 0 },
        { "f16", "head", false, offsetof(InfoPoint, kv[1]), 0 },
        { "q8", "proj", false, offsetof(InfoPoint, kv[2]), 0 },
        { "weights", "other", true, 0, (double)info->count->bytes },
        { "MHA", "scores", true, offsetof(InfoPoint, kv_mha), 0 },
    };
    bool grouped = info->cfg->kv_heads < info->cfg->heads;
    Plot p = { .info = info,
               .y_name = "bytes",
               .series = series,
               .n_series = grouped ? 5 : 4,
               .form = form_bytes };
    open_plot(o, &p, "Bytes of the KV cache, against length");
    draw_mark(o, &p, info->cfg->n_ctx, "context");
    close_plot(o, &p);
}
