/* tests/msan/json_memory.c: linked into the programs of config=msan. cJSON is not instrumented, so
 * nothing that it writes would count as written; memory that begins as zeros does. */
#include <cJSON.h>
#include <stdlib.h>

static void *zeroed(size_t n) { return calloc(1, n); }

__attribute__((constructor)) static void give_cjson_zeroed_memory(void)
{
    cJSON_Hooks hooks = { zeroed, free };
    cJSON_InitHooks(&hooks);
}
