/* api/measure_api.c: measures the limits of the machine, and plots results against them. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/file.h"
#include "base/fp_env.h"
#include "base/memory.h"
#include "base/threads.h"
#include "kernels/kernels.h"
#include "kernels/roofline.h"
#include "report/page.h"
#include "tblock_tools.h"

enum { READ_ROUNDS = 3, MAX_ROOFS = 16, MAX_POINTS = 256 };

static const size_t usual_bytes = (size_t)3 << 29, least_bytes = 1 << 16;

static size_t bytes_to_read(size_t n_bytes)
{
    return (n_bytes ? n_bytes > least_bytes ? n_bytes : least_bytes : usual_bytes) & ~(size_t)4095;
}

/* Uses its own memory in huge pages, so that neither the page cache nor page walks matter. */
static bool measure_reading(double *gb_per_s, size_t n_bytes, int threads, Error *err)
{
    char *data = pages_map(n_bytes);
    if (!data)
        return fail(err, SYSTEM, "out of memory: %zu MB to measure the read bandwidth",
                    n_bytes >> 20);
    roofline_touch(data, n_bytes, threads);
    *gb_per_s = roofline_read(data, n_bytes, threads, READ_ROUNDS);
    pages_unmap(data, n_bytes);
    return true;
}

/* The weights in memory: those made at load, else the file. Returns their bytes; 0 if they will be
 * packed later. */
static size_t weights_at(const tblock_model *m, const char **data)
{
    const TensorFile *f = &m->source.file;
    *data               = m->weights.region.data;
    if (m->weights.late && late_weights_packed(m->weights.late) == 0)
        return 0;
    if (m->weights.late || m->source.kind != SOURCE_MODEL_FILE
        || f->data_bytes <= m->weights.region.used)
        return m->weights.region.used;
    *data = (const char *)f->map.data + f->data_offset;
    return f->data_bytes;
}

double tblock_huge_share(const tblock_model *m)
{
    NEED(-1, NULL, m);
    const char *data;
    size_t      n = weights_at(m, &data);
    return n > 0 ? pages_huge_share(data, n) : -1;
}

static void measure_weights(tblock_machine *out, const tblock_model *m, size_t n_bytes)
{
    const char *data;
    size_t      all = weights_at(m, &data),
           n        = (all < n_bytes ? all : n_bytes) & ~(size_t)4095;
    if (n < least_bytes)
        return;
    out->weights_gb_per_s = roofline_read(data, n, out->threads, READ_ROUNDS);
    out->huge_share       = tblock_huge_share(m);
}

bool tblock_measure_machine(const tblock_measure_options *opt, tblock_machine *out,
                            tblock_error *err)
{
    NEED(false, err, out);
    static const tblock_measure_options defaults = { 0 };
    const tblock_measure_options       *o        = opt ? opt : &defaults;
    const Kernels *k =
        check_range("threads", o->threads, 0, 1024, err) ? kernels_select(o->isa, err) : NULL;
    if (!k)
        return false;
    int threads = o->threads ? o->threads : threads_default();
    *out        = (tblock_machine){ .isa = k->isa, .threads = threads, .huge_share = -1 };
    machine_name(out->cpu, sizeof out->cpu);
    size_t n_bytes = bytes_to_read(o->read_bytes);
    if (!measure_reading(&out->read_gb_per_s, n_bytes, threads, err))
        return false;
    if (o->model)
        measure_weights(out, o->model, n_bytes);
    out->f32_gflop_per_s  = roofline_peak(k->id, PEAK_F32, threads);
    out->bf16_gflop_per_s = roofline_peak(k->id, PEAK_BF16, threads);
    out->int8_gop_per_s   = roofline_peak(k->id, PEAK_INT8, threads);
    out->int16_gop_per_s  = roofline_peak(k->id, PEAK_INT16, threads);
    return true;
}

/* Products and ratios of such numbers, and the decades around them, are finite and not 0. */
static bool drawable(double x) { return x >= 1e-90 && x <= 1e90; }

static bool check_plot(const tblock_roof *roof, size_t n_roofs, const tblock_roof_point *point,
                       size_t n_points, Error *err)
{
    if (n_roofs < 1 || n_roofs > MAX_ROOFS || n_points > MAX_POINTS)
        return fail(err, USAGE,
                    "plot: expected 1 to %d roofs and at most %d points, found %zu and %zu",
                    MAX_ROOFS, MAX_POINTS, n_roofs, n_points);
    for (size_t i = 0; i < n_roofs; i++)
        if (!drawable(roof[i].gb_per_s) || (roof[i].gop_per_s != 0 && !drawable(roof[i].gop_per_s)))
            return fail(
                err, USAGE,
                "plot: roof %s: expected numbers from 1e-90 to 1e90, found %g GB/s and %g GOP/s",
                roof[i].name, roof[i].gb_per_s, roof[i].gop_per_s);
    for (size_t i = 0; i < n_points; i++) {
        const tblock_roof_point *p = &point[i];
        if (!drawable(p->operations_per_byte) || !drawable(p->gop_per_s))
            return fail(err, USAGE,
                        "plot: point %s: expected numbers from 1e-90 to 1e90, found %g operations "
                        "per byte and %g GOP/s",
                        p->name, p->operations_per_byte, p->gop_per_s);
        if (p->roof >= n_roofs)
            return fail(err, USAGE, "plot: point %s: expected a roof from 0 to %zu, found %zu",
                        p->name, n_roofs - 1, p->roof);
    }
    return true;
}

FP_ENV_WORK
static bool plot(const char *path, const char *title, const tblock_roof *roof, size_t n_roofs,
                 const tblock_roof_point *point, size_t n_points, tblock_error *err)
{
    TextOut svg = { 0 };
    if (!check_plot(roof, n_roofs, point, n_points, err))
        return false;
    draw_roofline(&svg,
                  &(RooflinePlot){ .title = title,
                                   .roof = roof,
                                   .n_roofs = n_roofs,
                                   .point = point,
                                   .n_points = n_points });
    char *text = text_out_take(&svg, err);
    bool  ok   = text && file_write(path, text, strlen(text), err);
    free(text);
    return ok;
}

bool tblock_roofline_plot(const char *path, const char *title, const tblock_roof *roof,
                          size_t n_roofs, const tblock_roof_point *point, size_t n_points,
                          tblock_error *err)
{
    NEED(false, err, path, title, roof || !n_roofs, point || !n_points);
    HOST_ENV_RETURN(bool, plot(path, title, roof, n_roofs, point, n_points, err));
}
