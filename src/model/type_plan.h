/* model/type_plan.h: which type each matrix gets when a model is quantized, into a file or while it
 * is loaded. */
#ifndef MODEL_TYPE_PLAN_H
#define MODEL_TYPE_PLAN_H

#include "model/stored_model.h"

/* The type that a matrix gets where nobody says otherwise: `target`, but for the two ends of a
 * model that is quantized (docs/quantize.md), and the small matrices that choose experts. */
WeightType type_plan_default(const TensorSpec *s, WeightType target);

/* The types of all tensors of the config, in order [tensor_list_count]; those of vectors are F32.
 * keep: "PATTERN=TYPE", a glob on the names of matrices; the first that matches decides. from:
 * where the weights come from, NULL: from nowhere yet; name: for messages. Returns an array for
 * free(), or NULL: USAGE where keep is wrong or matches no matrix, INPUT where a matrix that is
 * quantized already would have to be quantized again. */
WeightType *type_plan_new(const Config *c, const StoredModel *from, const char *name, WeightType target,
                          const char *const *keep, size_t n_keep, Error *err);

#endif
