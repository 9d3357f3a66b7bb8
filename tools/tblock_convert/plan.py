"""From a checkpoint and a vocabulary to the list of tensors to write: type, layout, and the pieces of each one's bytes."""
import numpy as np

from .errors import bad
from . import floats, model, panels

PIECE_BYTES = 4 << 20    # of source bytes packed at a time: what bounds memory, whatever the tensor's size


class Entry:
    """A tensor of the output. pieces() yields its bytes as arrays; after that `note` says what was seen."""

    def __init__(self, name, dtype, shape, pieces):
        self.name, self.dtype, self.shape, self.pieces = name, dtype, list(shape), pieces
        self.n_bytes = int(np.prod(self.shape, dtype=object)) * {"U8": 1, "F16": 2, "BF16": 2}.get(dtype, 4)


class Seen:
    """What the weights held: values that are not finite, by tensor; conversions."""

    def __init__(self):
        self.not_finite = {}
        self.converted = {}
        self.flushed = 0    # bf16 magnitudes under 2^-50 that became 0


def entries(checkpoint, vocab, dtype, layout, seen):
    """All tensors in file order. dtype: "keep", "F32", "F16" or "BF16"; layout: "rows16" or "rows"."""
    result = []
    if checkpoint:
        for spec in model.tensor_specs(checkpoint.config):
            result.append(_weight_entry(spec, checkpoint.weights[spec.name], dtype, layout, seen))
    if vocab:
        for name, kind, array in vocab.tensors():
            result.append(Entry(name, kind, array.shape, lambda array=array: iter([array])))
    return result


def _weight_entry(spec, weight, dtype, layout, seen):
    target = "F32" if spec.role == model.VECTOR else weight.dtype if dtype == "keep" else dtype
    packed = spec.role == model.MATRIX and layout == "rows16"
    shape = panels.stored_shape(target, spec.rows, spec.k, spec.items) if packed else spec.shape

    def pieces():
        overflows = not_finite = 0
        for bits in row_pieces(weight):
            not_finite += floats.count_not_finite(bits, weight.dtype)
            bits, n = floats.convert(bits, weight.dtype, target)
            overflows += n
            if target == "BF16":
                bits, n = floats.flush_bf16(bits)
                seen.flushed += n
            yield panels.pack(bits, target) if packed else bits
        if overflows:
            raise bad(weight.file.path, "tensor %s" % weight.origin, "values that %s can hold" % target,
                      "%d too large" % overflows)
        if not_finite:
            seen.not_finite[weight.origin] = not_finite
        if target != weight.dtype and spec.role != model.VECTOR:
            seen.converted[(weight.dtype, target)] = seen.converted.get((weight.dtype, target), 0) + 1

    return Entry(spec.name, target, shape, pieces)


def row_pieces(weight):
    """The rows of a tensor in pieces of whole panels, about PIECE_BYTES each; of a stack, matrix after matrix."""
    row_bytes = weight.k * floats.BITS[weight.dtype].itemsize
    step = max(panels.ROWS, PIECE_BYTES // row_bytes // panels.ROWS * panels.ROWS)
    for item in range(weight.items):
        for begin in range(0, weight.rows, step):
            yield weight.read(item, begin, min(begin + step, weight.rows))
