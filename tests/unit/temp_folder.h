/* tests/unit/temp_folder.h: a folder of a test's own, under TMPDIR or /tmp. */
#ifndef TEMP_FOLDER_H
#define TEMP_FOLDER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[64];

static inline bool make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.40s/tblock.XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    return mkdtemp(folder) != NULL;
}

/* FOLDER/name; four answers are good at a time. */
static inline const char *in_folder(const char *name)
{
    static char path[4][128];
    static int  at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

static inline bool write_config(const char *json)
{
    FILE *f  = fopen(in_folder("config.json"), "w");
    bool  ok = f && fputs(json, f) >= 0;
    return f && fclose(f) == 0 && ok;
}

#endif
