/* tests/unit/sandbox_try.h: whether a test can enter the sandbox here; skips it if not. */
#ifndef SANDBOX_TRY_H
#define SANDBOX_TRY_H

#include "cli/command.h"
#include "sanitized.h"
#include "test.h"

static bool can_try(void)
{
    tblock_error err = { 0 };
    if (SANITIZED)
        SKIP("sanitizers make calls of their own");
    else if (!sandbox_possible(&err))
        SKIP("%s", err.msg);
    else
        return true;
    return false;
}

#endif
