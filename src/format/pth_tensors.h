/* format/pth_tensors.h: from a checkpoint's object to named tensors. Private to pth.c. */
#ifndef FORMAT_PTH_TENSORS_H
#define FORMAT_PTH_TENSORS_H

#include "format/pth_storages.h"

/* Fill f's tensors, names and copies from the object, as pth.h says; f->map must be open. Errors:
 * as pth_open. Close f also after a failure. */
bool pth_tensors_make(TensorFile *f, const PickleValue *object, const PthStorages *storages, Error *err);

#endif
