"""safetensors: bytes to named tensors. Every offset is checked before use; nothing is known of models."""
from .errors import bad, quoted, shape_text
from . import jsonfile

# The largest header the format's own reader accepts.
HEADER_MAX = 100_000_000
ELEMENT_BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
                 "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8}


class Tensor:
    """name, dtype (the format's spelling), shape, and where the bytes lie: file (SourceFile), offset, n_bytes."""

    def __init__(self, name, dtype, shape, file, offset, n_bytes):
        self.name, self.dtype, self.shape = name, dtype, tuple(shape)
        self.file, self.offset, self.n_bytes = file, offset, n_bytes


def read_header(file):
    """All tensors of one file (source.SourceFile) as {name: Tensor}, and the metadata. ConvertError names what is wrong."""
    path = file.path
    if file.size < 8:
        raise bad(path, "header", "at least 8 bytes", "%d" % file.size, "not a safetensors file, or cut short")
    n_header = int.from_bytes(file.read(0, 8), "little")
    if n_header > HEADER_MAX or n_header > file.size - 8:
        raise bad(path, "header length", "at most %d" % min(HEADER_MAX, file.size - 8), "%d" % n_header,
                  "not a safetensors file, or cut short")
    header = jsonfile.parse_object(file.read(8, n_header), path, "header")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise bad(path, "__metadata__", "an object of strings", "other values")
    data_offset = 8 + n_header
    tensors = {name: _tensor(file, name, entry, data_offset) for name, entry in header.items()}
    _check_cover(file, tensors, data_offset)
    return tensors, metadata


def _tensor(file, name, entry, data_offset):
    thing = "tensor %s" % quoted(name)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise bad(file.path, thing, "dtype, shape and data_offsets", jsonfile.kind(entry) if not isinstance(entry, dict)
                  else "keys " + ", ".join(quoted(k) for k in sorted(entry)))
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ELEMENT_BYTES:
        raise bad(file.path, thing, "a dtype of safetensors", jsonfile.kind(dtype))
    if not _sizes(shape) or len(shape) > 8:
        raise bad(file.path, thing, "a shape of at most 8 sizes", str(shape)[:80])
    if not _sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise bad(file.path, thing, "data_offsets [begin, end]", str(offsets)[:80])
    n_bytes = ELEMENT_BYTES[dtype]
    for n in shape:
        n_bytes *= n
    if n_bytes != offsets[1] - offsets[0]:
        raise bad(file.path, thing, "%d bytes for %s %s" % (n_bytes, dtype, shape_text(shape)),
                  "%d" % (offsets[1] - offsets[0]))
    return Tensor(name, dtype, shape, file, data_offset + offsets[0], n_bytes)


def _sizes(value):
    return isinstance(value, list) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)


def _check_cover(file, tensors, data_offset):
    """No hole, no overlap, nothing after the last tensor, nothing past the end of the file."""
    at, before = data_offset, "the header"
    for t in sorted(tensors.values(), key=lambda t: (t.offset, t.n_bytes)):
        if t.offset != at:
            raise bad(file.path, "tensor %s" % quoted(t.name), "data at %d, where %s ends" % (at, quoted(before)),
                      "%d" % t.offset, "a hole" if t.offset > at else "an overlap")
        at, before = t.offset + t.n_bytes, t.name
    if at != file.size:
        raise bad(file.path, "data", "a file of %d bytes" % at, "%d" % file.size,
                  "cut short" if file.size < at else "bytes after the last tensor")
