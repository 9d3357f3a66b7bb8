/* format/pth.h: PyTorch checkpoints (.pth, .pt, pytorch_model.bin) as named tensors. Nothing is
 * executed.
 *
 * torch.save has two forms. Since PyTorch 1.6 it writes a zip archive of stored entries in one
 * folder: ARCHIVE/data.pkl (a pickle of the object), ARCHIVE/data/KEY (the bytes of each storage),
 * ARCHIVE/byteorder. Before, it wrote five pickles in a row (a magic number, protocol version 1001,
 * facts about the machine, the object, the list of storage keys), then for each key an int64 number
 * of elements and the bytes. Source: torch/serialization.py of PyTorch 2.15, _save and
 * _legacy_save. */
#ifndef FORMAT_PTH_H
#define FORMAT_PTH_H

#include <stddef.h>
#include "format/tensors.h"

/* Is a file that begins with these n bytes (64 are enough) a zip archive or a legacy checkpoint? */
bool pth_is(const unsigned char *bytes, size_t n);

/* Open a checkpoint whose object is a dict of tensors (a state dict), or a dict with a state dict
 * under exactly one of "model", "state_dict", "model_state_dict", "module". Entries that are not
 * tensors are left out if they are numbers, strings, None or dicts; others are an error.
 *
 * Tensors are in the order of the dict, and f->meta is empty. Data is in the mapping, maybe
 * unaligned. Tensors that are not row-major there (transposed, broadcast) are copied; their offset
 * is SIZE_MAX, and all copies together may take at most PTH_COPIES_FREE bytes plus the file's size.
 * Tensors may share bytes (tied weights).
 *
 * Errors: INPUT, which names the file and the place; SYSTEM without memory. Refused are: any global
 * or instruction that would run code (the error names it); zip entries that are compressed, overlap
 * or contradict each other (zip.h); a storage with another size than its entry; a view that leaves
 * its storage; a name that comes twice; big-endian values; TorchScript archives. Memory is bounded
 * by the file's size and PICKLE_MEMORY_MAX; time is linear in both. Close with tensor_file_close.
 */
bool pth_open(TensorFile *f, const char *path, Error *err);

enum { PTH_COPIES_FREE = 64 << 20, PTH_NAME_MAX = 4096 }; /* bytes */

#endif
