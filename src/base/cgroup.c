/* base/cgroup.c: the control groups of this process, whose limits a container has. */
#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool file_of_system_text(const char *path, char *text, size_t n)
{
    FILE *f = file_of_system(path);
    if (!f)
        return false;
    size_t got = fread(text, 1, n - 1, f);
    fclose(f);
    text[got] = 0;
    return got > 0;
}

/* In a container the path may be one of the host, which is not visible here. Then only the mount
 * itself is found: the container's own group. */
static void walk_up(const char *mount, const char *group, CgroupLimit *limit, void *out)
{
    char   folder[PATH_MAX];
    size_t n_mount = strlen(mount), n_group = strlen(group);
    if (n_mount + n_group >= sizeof folder)
        return;
    memcpy(folder, mount, n_mount);
    memcpy(folder + n_mount, group, n_group + 1);
    for (;;) {
        limit(out, folder);
        char *slash = strrchr(folder + n_mount, '/');
        if (!slash)
            return;
        *slash = 0;
    }
}

/* Is "cpu" one of the names in "cpu,cpuacct"? */
static bool has_controller(const char *controllers, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = controllers; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (strncmp(p, name, n) == 0 && (p[n] == ',' || p[n] == 0))
            return true;
    return false;
}

void cgroup_walk(const char *root, const char *controller, CgroupLimit *v2, CgroupLimit *v1,
                 void *out)
{
    char path[PATH_MAX], mount[PATH_MAX], text[8192];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!file_of_system_text(path, text, sizeof text))
        return;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        if (!*controllers) { /* "0::/path" */
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
            walk_up(mount, group, v2, out);
        } else if (has_controller(controllers, controller)) { /* "4:cpu,cpuacct:/path" */
            snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, controller);
            walk_up(mount, group, v1, out);
        }
    }
}
