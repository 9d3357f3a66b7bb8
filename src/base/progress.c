/* base/progress.c: calls the caller's function, and restores our rounding, which the callback
 * may have changed. */
#include "base/progress.h"

#include <stddef.h>

#include "base/fp_env.h"

void progress_tell(const Progress *p, double done, double all)
{
    if (!p || !p->tell || !(all > 0))
        return;
    p->tell(p->user, p->from + (p->to - p->from) * (done < all ? done / all : 1));
    host_env_again();
}

Progress progress_part(const Progress *p, double from, double to)
{
    double length = p ? p->to - p->from : 0;
    return p ? (Progress){ p->tell, p->user, p->from + length * from, p->from + length * to }
             : (Progress){ 0 };
}
