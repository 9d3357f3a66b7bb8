#include "source/source.h"

#include <stdlib.h>
#include <string.h>

#include "source/model_file.h"

bool source_open(Source *s, const char *path, Error *err)
{
    *s = (Source){ .kind = SOURCE_MODEL_FILE, .path = strdup(path) };
    bool ok = s->path ? model_file_open(s, err) : fail(err, SYSTEM, "%s: out of memory", path);
    if (!ok)
        source_close(s);
    return ok;
}

void source_close(Source *s)
{
    checkpoint_free(&s->checkpoint);
    tensor_file_close(&s->file);
    free(s->path);
    *s = (Source){ 0 };
}

const char *source_meta(const Source *s, const char *key) { return tensor_meta(&s->file, key); }
