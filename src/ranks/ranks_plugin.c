/* ranks/ranks_plugin.c: finds out whether mpirun has started this process, and loads the plug-in
 * that talks to the others. Without mpirun it only reads one environment variable. */
#include "ranks/ranks.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN "libtblock-mpi.so"
#define NAME_OF(function) NAME(function)
#define NAME(function) #function

bool ranks_started(void)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");
    return size && atoi(size) > 1;
}

#if defined(STATIC_PROGRAM)
static void *load(Error *err)
{
    fail(err, SYSTEM, "mpirun needs the plug-in " PLUGIN ", which a static program cannot load: "
                      "expected the program that make builds");
    return NULL;
}
#else
/* Tries $TBLOCK_MPI, the program's folder, that of make install, and the system's path. */
static void *load(Error *err)
{
    static const char *const beside[] = { "/" PLUGIN, "/../lib/tblock/" PLUGIN };
    const char *given = getenv("TBLOCK_MPI"), *why;
    char        program[PATH_MAX], path[PATH_MAX + 64];
    ssize_t     n     = readlink("/proc/self/exe", program, sizeof program - 1);
    void       *found = given ? dlopen(given, RTLD_NOW | RTLD_GLOBAL) : NULL;
    program[n > 0 ? n : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; !given && slash && !found && i < sizeof beside / sizeof *beside; i++) {
        snprintf(path, sizeof path, "%s%s", program, beside[i]);
        if (access(path, R_OK) == 0)
            found = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    if (!given && !found)
        found = dlopen(PLUGIN, RTLD_NOW | RTLD_GLOBAL);
    if (!found && (why = dlerror()))
        fail(err, SYSTEM, "mpirun: expected the plug-in " PLUGIN " (make ranks builds it), found: "
                          "%s", why);
    return found;
}
#endif

/* Must be equal on all ranks; `slow` may differ. */
typedef struct Hello { char version[52]; int32_t slow, numerics, order_bytes; } Hello;

static bool check_versions(Ranks *r, Error *err)
{
    size_t at[RANKS_MOST + 1];
    Hello *all = calloc((size_t)r->size, sizeof *all);
    if (!all)
        return no_memory("ranks", err);
    for (int i = 0; i <= r->size; i++)
        at[i] = (size_t)i * sizeof *all;
    all[r->rank] = (Hello){ TBLOCK_VERSION, r->slow, TBLOCK_NUMERICS_VERSION, sizeof(Hello) };
    bool ok = ranks_gather(r, all, at, true, true)
        || fail(err, r->error.status, "%s", r->error.msg);
    for (int i = 0; ok && i < r->size; i++) {
        r->slow |= all[i].slow != 0;
        all[i].slow = 0;
    }
    for (int i = 0; ok && i < r->size; i++)
        if (memcmp(&all[i], &all[0], sizeof *all) != 0)
            ok = fail(err, SYSTEM, "rank %d: expected tblock %.51s like rank 0, found %.51s", i,
                      all[0].version, all[i].version);
    free(all);
    r->count = (RanksCount){ 0 };
    if (!ok && !r->error.status) { /* rank 0 reports it, and ends the others, which wait */
        if (r->rank == 0)
            ranks_stop(r, err->msg);
        ranks_broadcast(r, &(char){ 0 }, 1, true);
    }
    return ok;
}

bool ranks_join(Ranks *r, Error *err)
{
    RanksCarrier c = { 0 };
    void        *plugin = load(err);
    if (!plugin)
        return false;
    RanksConnect connect;
    *(void **)&connect = dlsym(plugin, NAME_OF(RANKS_CONNECT));
    if (!connect)
        return fail(err, SYSTEM, PLUGIN ": expected the function " NAME_OF(RANKS_CONNECT) ", found "
                                        "none: it is of another version");
    if (!connect(&c, err))
        return false;
    if (c.size > RANKS_MOST) {
        c.calls->leave(c.carrier);
        return check_range("ranks", c.size, 1, RANKS_MOST, err);
    }
    ranks_init(r, &c);
    if (check_versions(r, err))
        return true;
    ranks_free(r);
    return false;
}
