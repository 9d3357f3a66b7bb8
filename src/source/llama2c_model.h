/* source/llama2c_model.h: a checkpoint of karpathy/llama2.c (format/llama2c.h) as a source. */
#ifndef SOURCE_LLAMA2C_MODEL_H
#define SOURCE_LLAMA2C_MODEL_H

#include "source/source.h"

bool llama2c_model_open(Source *s, Error *err);

#endif
