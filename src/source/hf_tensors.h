/* source/hf_tensors.h: the tensors of a Hugging Face checkpoint as ours. Nothing may be missing,
 * extra or misshaped. */
#ifndef SOURCE_HF_TENSORS_H
#define SOURCE_HF_TENSORS_H

#include "source/hf_config.h"

/* Fill s->stored.tensor and s->rows from s->files; s->stored.config is h->config. */
bool hf_tensors_bind(Source *s, const HfConfig *h, Error *err);

#endif
