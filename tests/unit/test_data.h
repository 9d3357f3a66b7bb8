/* tests/unit/test_data.h: where recorded data lies, as in tests/testdata.py. */
#ifndef TEST_DATA_H
#define TEST_DATA_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Sets path to NAME in the folder that $TBLOCK_TEST_DATA names. Without that folder, a NAME that
 * begins with fixtures/ is our own, in tests/data. Returns whether it is there. The line on stderr
 * lets tests/run.sh list who looked for the data in vain. */
static inline bool test_data(char path[512], const char *name)
{
    static const char fixtures[] = "fixtures/";
    const char       *folder = getenv("TBLOCK_TEST_DATA");
    snprintf(path, 512, "%s/fixtures", folder && *folder ? folder : "/nonexistent");
    if (access(path, R_OK) == 0) {
        snprintf(path, 512, "%s/%s", folder, name);
    } else {
        bool ours = strncmp(name, fixtures, sizeof fixtures - 1) == 0;
        fprintf(stderr, "without test data\n");
        snprintf(path, 512, "%s/%s", ours ? "tests/data" : "/nonexistent",
                 ours ? name + sizeof fixtures - 1 : name);
    }
    return access(path, R_OK) == 0;
}

#endif
