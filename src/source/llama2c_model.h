/* source/llama2c_model.h: opens a model file of karpathy/llama2.c (format/llama2c.h). */
#ifndef SOURCE_LLAMA2C_MODEL_H
#define SOURCE_LLAMA2C_MODEL_H

#include "source/source.h"

bool llama2c_model_open(Source *s, Error *err);

#endif
