/* format/pth.h: PyTorch checkpoints (.pth, .pt, pytorch_model.bin) as named tensors, executing nothing.
 *
 * torch.save has two forms. Since PyTorch 1.6: a zip archive of stored entries with one folder, ARCHIVE/data.pkl (a pickle of
 * the object), ARCHIVE/data/KEY (the bytes of each storage), ARCHIVE/byteorder. Before: five pickles in a row (a magic
 * number, protocol version 1001, facts about the machine, the object, the list of storage keys), then for each key an int64
 * number of elements and the bytes. Source: torch/serialization.py of PyTorch 2.15, _save and _legacy_save. */
#ifndef FORMAT_PTH_H
#define FORMAT_PTH_H

#include <stddef.h>
#include "format/tensors.h"

/* Whether a file that begins with these n bytes is a zip archive or a legacy checkpoint; 64 bytes are enough. */
bool pth_is(const unsigned char *bytes, size_t n);

/* Open a checkpoint whose object is a dict of tensors (a state dict), or a dict of which one of "model", "state_dict",
 * "model_state_dict", "module" is one; what stands beside that is left out. Entries that are no tensors are left out where
 * they are numbers, strings, None or dicts; anything else is an error. Tensors stand in the order of the dict; f->meta is empty. Data lies in the mapping, at
 * any alignment; tensors that are not row-major there (transposed, broadcast) are copied, offset SIZE_MAX, all copies
 * together at most PTH_COPIES_FREE bytes and the size of the file. Tensors may share bytes (tied weights).
 * Errors are INPUT and name the file and the place; SYSTEM without memory. Refused are: any global or instruction that would
 * run code (the global is named), compressed, overlapping or contradictory zip entries (zip.h), a storage of another size
 * than its entry, a view that leaves its storage, a name twice, big-endian values, TorchScript archives. Memory is bounded by
 * the file's size and PICKLE_MEMORY_MAX, time is linear in both. Close with tensor_file_close. */
bool pth_open(TensorFile *f, const char *path, Error *err);

enum { PTH_COPIES_FREE = 64 << 20, PTH_NAME_MAX = 4096 }; /* bytes */

#endif
