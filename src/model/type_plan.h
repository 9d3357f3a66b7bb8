/* model/type_plan.h: decides the type of each matrix when a model is quantized, into a file or
 * while it is loaded. */
#ifndef MODEL_TYPE_PLAN_H
#define MODEL_TYPE_PLAN_H

#include "model/stored_model.h"

/* The type of a matrix if the user does not say otherwise: `target`, except for the two ends of a
 * quantized model (docs/quantize.md) and for the small matrices that choose experts. */
WeightType type_plan_default(const TensorSpec *s, WeightType target);

/* The types of all tensors of the config, in order [tensor_list_count]; vectors are F32. keep:
 * "PATTERN=TYPE", a glob on the names of matrices; the first that matches counts. from: where the
 * weights come from; NULL: not known yet. name: for messages. The caller frees the array. NULL:
 * USAGE (keep is wrong or matches no matrix), INPUT (a quantized matrix would have to be quantized
 * again), SYSTEM. */
WeightType *type_plan_new(const Config *c, const StoredModel *from, const char *name, WeightType target,
                          const char *const *keep, size_t n_keep, Error *err);

#endif
