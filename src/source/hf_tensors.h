/* source/hf_tensors.h: finds our tensors among those of a Hugging Face folder. A missing,
 * additional or misshaped tensor is an error. */
#ifndef SOURCE_HF_TENSORS_H
#define SOURCE_HF_TENSORS_H

#include "source/hf_config.h"

/* Fill s->stored.tensor and s->rows from s->files. s->stored.config must be h->config already. */
bool hf_tensors_bind(Source *s, const HfConfig *h, Error *err);

#endif
