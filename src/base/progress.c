/* base/progress.c: calls the caller's function, and restores our rounding, which the callback
 * may have changed. */
#include "base/progress.h"

#include <stddef.h>

#include "base/fp_env.h"

bool progress_tell(const Progress *p, double done, double all, Error *err)
{
    if (!p || !(p->tell || p->go_on) || !(all > 0))
        return true;
    double at    = p->from + (p->to - p->from) * (done < all ? done / all : 1);
    bool   go_on = true;
    if (p->tell)
        p->tell(p->user, at);
    if (p->go_on)
        go_on = p->go_on(p->user, at);
    host_env_again();
    return go_on || fail(err, SYSTEM, "stopped by the caller");
}

Progress progress_part(const Progress *p, double from, double to)
{
    double length = p ? p->to - p->from : 0;
    return p
        ? (Progress){ p->tell, p->go_on, p->user, p->from + length * from, p->from + length * to }
        : (Progress){ 0 };
}
