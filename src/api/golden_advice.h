/* api/golden_advice.h: what to try where a run differs from its golden. */
#ifndef API_GOLDEN_ADVICE_H
#define API_GOLDEN_ADVICE_H

#include "api/api.h"
#include "api/golden_case.h"
#include "tblock_tools.h"

/* Fill out->advice: which settings of this run round where the golden's run did not (a golden of another program: where f32 would not), and the
 * options that change them. "" where there are none. */
void golden_advise(const GoldenFile *g, const tblock_context *c, tblock_verify_report *out);

#endif
