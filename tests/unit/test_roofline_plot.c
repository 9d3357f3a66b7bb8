#include "report/page.h"

#include <math.h>
#include <unistd.h>

#include "test.h"

#include "tblock_tools.h"
#include "temp_folder.h"

static char *drawn(const tblock_roof *roof, size_t n_roofs, const tblock_roof_point *point,
                   size_t n_points)
{
    TextOut o = { 0 };
    draw_roofline(&o,
                  &(RooflinePlot){ .title = "a <b> & c",
                                   .roof = roof,
                                   .n_roofs = n_roofs,
                                   .point = point,
                                   .n_points = n_points });
    return text_out_take(&o, NULL);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *s = text; (s = strstr(s, what)) != NULL; s++)
        n++;
    return n;
}

static void a_roof_is_slope_then_top(void)
{
    tblock_roof r = { "", 50, 200 }, open = { "", 50, 0 };
    CHECK(roof_height(&r, 1) == 50 && roof_height(&r, 4) == 200 && roof_height(&r, 100) == 200,
          "%g %g %g", roof_height(&r, 1),
          roof_height(&r, 4), roof_height(&r, 100));
    CHECK(roof_height(&open, 100) == 5000, "without a top: %g", roof_height(&open, 100));
}

/* A point where the roof bends is drawn on its corner, one at half of it straight below, one at
 * half the bandwidth's bytes on the slope. */
static void points_lie_where_they_belong(void)
{
    tblock_roof       roof    = { "2 threads", 50, 200 };
    tblock_roof_point point[] = { { "bend", 0, 4, 200 },
                                  { "half", 0, 4, 100 },
                                  { "slope", 0, 0.5, 25 } };
    double            x[3], y[3], low_x, low_y, bend_x, bend_y, top_x, top_y;
    char             *svg = drawn(&roof, 1, point, 3), *s = strstr(svg, "<polyline");
    CHECK(s && sscanf(strstr(s, "points="), "points=\"%lf,%lf %lf,%lf %lf,%lf\"", &low_x, &low_y,
                      &bend_x, &bend_y, &top_x, &top_y) == 6,
          "no roof of three points");
    s = svg;
    for (int i = 0; i < 3; i++) {
        s = strstr(s + 1, "<circle");
        CHECK(s && sscanf(strstr(s, "cx="), "cx=\"%lf\" cy=\"%lf\"", &x[i], &y[i]) == 2,
              "no point %d", i);
    }
    CHECK(fabs(x[0] - bend_x) < 0.11 && fabs(y[0] - bend_y) < 0.11,
          "(%g, %g), the roof bends at (%g, %g)", x[0], y[0], bend_x, bend_y);
    CHECK(x[1] == x[0] && y[1] > y[0], "half is at (%g, %g)", x[1], y[1]);
    double on_slope = low_y + (bend_y - low_y) * (x[2] - low_x) / (bend_x - low_x);
    CHECK(fabs(y[2] - on_slope) < 0.3, "%g, the slope is at %g", y[2], on_slope);
    CHECK(top_y == bend_y && top_x > bend_x, "the top is not level");
    CHECK(count(svg, "class=\"lift") == 1, "only what lies below its roof has a line up to it");
    free(svg);
}

static void it_is_one_file_with_names_escaped(void)
{
    tblock_roof       roof[]  = { { "1 <thread>", 30, 100 }, { "2", 60, 0 } };
    tblock_roof_point point[] = { { "p&q", 1, 1e-3, 1e-4 }, { "far", 0, 1e5, 90 } };
    char             *svg = drawn(roof, 2, point, 2);
    CHECK(strncmp(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\"", 39) == 0 && count(svg,
        "</svg>") == 1, "begins %.40s", svg);
    CHECK(count(svg, "<circle") == 2 && count(svg, "<polyline") == 2, "%d points, %d roofs",
          count(svg, "<circle"), count(svg, "<polyline"));
    CHECK(strstr(svg, "a &lt;b&gt; &amp; c") && strstr(svg, "1 &lt;thread&gt;") && strstr(svg,
        "p&amp;q"), "a name is not escaped");
    CHECK(!strstr(svg, "nan") && !strstr(svg, "inf") && strstr(svg, "prefers-color-scheme:dark"),
          "a number or the style is wrong");
    CHECK(count(svg, "http") == 1, "it loads something");
    free(svg);
}

static void names_do_not_overlap(void)
{
    LabelSpace space = { 0, 700, 0, 400 };
    LabelBox   box[12];
    for (size_t i = 0; i < 12; i++) {
        box[i] = label_place(&space, box, i, 350, 200, 90);
        CHECK(box[i].x >= 0 && box[i].x + 90 <= 700 && box[i].y <= 400, "name %zu at (%g, %g)", i,
              box[i].x, box[i].y);
        for (size_t k = 0; k < i; k++)
            CHECK(!label_overlaps(&box[i], &box[k]), "%zu and %zu", i, k);
    }
    LabelBox edge = label_place(&space, NULL, 0, 690, 200, 90);
    CHECK(edge.x + 90 < 690, "at the edge: left of the point, found %g", edge.x);
}

static void wrong_numbers_are_refused_and_leave_the_old_file(void)
{
    tblock_roof       good = { "r", 50, 200 };
    tblock_roof_point point = { "p", 0, 1, 10 };
    tblock_error      err;
    CHECK(make_folder(), "no folder");
    const char *path = in_folder("plot.svg");
    CHECK(tblock_roofline_plot(path, "t", &good, 1, &point, 1, &err), "%s", err.msg);
    const tblock_roof       bad_roof[]  = { { "r", 0, 1 },
                                            { "r", -1, 1 },
                                            { "r", NAN, 1 },
                                            { "r", INFINITY, 1 },
                                            { "r", 1, -1 },
                                            { "r", 1, NAN },
                                            /* whose products have no logarithm */
                                            { "r", 1e-200, 1 },
                                            { "r", 1, 1e300 } };
    const tblock_roof_point bad_point[] = { { "p", 1, 1, 1 }, { "p", 0, 0, 1 },
                                            { "p", 0, 1, 0 },        { "p", 0, NAN, 1 },
                                            { "p", 0, 1, INFINITY }, { "p", 0, 1e-200, 1 } };
    for (size_t i = 0; i < sizeof bad_roof / sizeof *bad_roof; i++)
        CHECK(!tblock_roofline_plot(path, "t", &bad_roof[i], 1, &point, 1,
                                    &err) && err.status == TBLOCK_USAGE, "roof %zu", i);
    for (size_t i = 0; i < sizeof bad_point / sizeof *bad_point; i++)
        CHECK(!tblock_roofline_plot(path, "t", &good, 1, &bad_point[i], 1,
                                    &err) && err.status == TBLOCK_USAGE, "point %zu", i);
    const tblock_roof       far[] = { { "r", 1e-90, 1e90 }, { "s", 1e90, 1e-90 } };
    const tblock_roof_point point_far[] = { { "p", 0, 1e-90, 1e-90 }, { "q", 1, 1e90, 1e90 } };
    CHECK(tblock_roofline_plot(path, "t", far, 2, point_far, 2, &err), "far apart: %s", err.msg);
    CHECK(!tblock_roofline_plot(path, "t", &good, 0, NULL, 0, &err) && err.status == TBLOCK_USAGE,
          "no roof");
    CHECK(access(path, R_OK) == 0, "the old file is gone");
    unlink(path);
    rmdir(folder);
}

static void a_machine_is_measured(void)
{
    tblock_machine m;
    tblock_error   err = { 0 };
    CHECK(tblock_measure_machine(&(tblock_measure_options){ .threads = 1, .read_bytes = 1 << 20 },
                                 &m, &err), "%s", err.msg);
    CHECK(m.threads == 1 && m.cpu[0] && m.read_gb_per_s > 0 && m.f32_gflop_per_s > 0
              && m.int8_gop_per_s >= 0 && m.weights_gb_per_s == 0 && m.huge_share < 0,
          "%s: %g GB/s, %g GFLOP/s", m.cpu, m.read_gb_per_s, m.f32_gflop_per_s);
    CHECK(!tblock_measure_machine(&(tblock_measure_options){ .threads = 1025 }, &m,
                                  &err) && err.status == TBLOCK_USAGE, "1025 threads");
    CHECK(!tblock_measure_machine(&(tblock_measure_options){ .isa = "sse" }, &m,
                                  &err) && err.status == TBLOCK_USAGE, "isa sse");
}

int main(int argc, char **argv)
{
    TEST_MAIN_ARGS(argc, argv);
    TEST(a_roof_is_slope_then_top);
    TEST(points_lie_where_they_belong);
    TEST(it_is_one_file_with_names_escaped);
    TEST(names_do_not_overlap);
    TEST(wrong_numbers_are_refused_and_leave_the_old_file);
    TEST(a_machine_is_measured);
    return TEST_END();
}
