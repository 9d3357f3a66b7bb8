#include "base/progress.h"

#include <stddef.h>

#include "base/host_env.h"

static double end_of(const Progress *p) { return p->to > 0 ? p->to : 1; }

void progress_tell(const Progress *p, double done, double all)
{
    if (!p || !p->tell || !(all > 0))
        return;
    p->tell(p->user, p->from + (end_of(p) - p->from) * (done < all ? done / all : 1));
    host_env_again();
}

Progress progress_part(const Progress *p, double from, double to)
{
    double length = p ? end_of(p) - p->from : 0;
    return p ? (Progress){ p->tell, p->user, p->from + length * from, p->from + length * to } : (Progress){ 0 };
}
