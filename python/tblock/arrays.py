"""numpy arrays in and out: safetensors files, the weights of a model, and a model made of arrays."""
from __future__ import annotations

import json
import math
import os
import tempfile
import threading
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional

import numpy as np
import numpy.typing as npt

from ._c import ffi, lib
from ._core import InputError, Record, SystemFailure, UsageError, c_json, call, expect, text_of
from .model import Floats, Model, Path
from .options import takes_options
from .tools import convert

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ArraysOptions

try:
    import ml_dtypes  # type: ignore[import-not-found, unused-ignore]
    _BF16: Any = np.dtype(ml_dtypes.bfloat16)
except ImportError:
    _BF16 = np.dtype("<u2")

# The types of safetensors that numpy has, and BF16: bfloat16 where the package ml_dtypes is, else its bits as uint16
_TYPES = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": _BF16, "I64": np.dtype("<i8"),
          "I32": np.dtype("<i4"), "I16": np.dtype("<i2"), "I8": np.dtype("i1"), "U64": np.dtype("<u8"), "U32": np.dtype("<u4"),
          "U16": np.dtype("<u2"), "U8": np.dtype("u1"), "BOOL": np.dtype("?")}
_NAMES = {dtype: name for name, dtype in reversed(list(_TYPES.items())) if name != "BF16" or dtype != _TYPES["U16"]}
_MOST_HEADER = 100 << 20  # as safetensors


class Arrays(Mapping[str, npt.NDArray[Any]]):
    """The tensors of a safetensors file, read-only and mapped: {name: array}. `types` has the name that the file gives each one's
    type ("BF16"), `metadata` its texts. See load_arrays."""

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        try:
            data = np.memmap(self.path, np.uint8, "r")
        except (OSError, ValueError) as e:
            raise InputError("%s: cannot read: %s" % (self.path, e)) from None
        n = int.from_bytes(bytes(data[:8]), "little")
        if len(data) < 8 or n > min(len(data) - 8, _MOST_HEADER):
            raise InputError("%s: expected a safetensors file, found %d bytes without its header" % (self.path, len(data)))
        try:
            header = json.loads(bytes(data[8:8 + n]))
            self.metadata: dict[str, str] = dict(header.pop("__metadata__", None) or {})
            self.types = {str(name): str(t["dtype"]) for name, t in header.items()}
            self._arrays = {name: self._view(name, t, data[8 + n:]) for name, t in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            if isinstance(e, InputError):
                raise
            raise InputError("%s: header: expected that of a safetensors file: %r" % (self.path, e)) from None

    def _view(self, name: str, t: Mapping[str, Any], data: Any) -> npt.NDArray[Any]:
        dtype, shape, (begin, end) = _TYPES.get(t["dtype"]), tuple(t["shape"]), t["data_offsets"]
        if dtype is None:
            raise InputError("%s: tensor %s: expected a type of %s, found %s" % (self.path, name, ", ".join(_TYPES), t["dtype"]))
        counts = [*shape, begin, end]
        if not all(type(i) is int and i >= 0 for i in counts) or len(shape) > 32 or not begin <= end <= len(data) \
                or end - begin != math.prod(shape) * dtype.itemsize:
            raise InputError("%s: tensor %s: expected bytes for %s %s, found %s to %s of %d" % (
                self.path, name, t["dtype"], list(shape), begin, end, len(data)))
        return np.frombuffer(data[begin:end], dtype).reshape(shape)  # type: ignore[no-any-return, unused-ignore]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __repr__(self) -> str:
        return "<tblock.Arrays %r: %d tensors>" % (self.path, len(self))


def load_arrays(path: Path) -> Arrays:
    """The tensors of a safetensors file: a golden, hidden states, gradients, a model file. Arrays are read-only views of the mapped
    file. BF16 is ml_dtypes.bfloat16 where that package is installed, else the bits as uint16; `types` of the result tells.
    Raises InputError."""
    return Arrays(path)


def save_arrays(path: Path, arrays: Mapping[str, Any], *, metadata: Optional[Mapping[str, str]] = None,
                types: Optional[Mapping[str, str]] = None) -> None:
    """Write arrays as a safetensors file, whole or not at all. types: {name: "BF16"} for bits that uint16 holds.
    Raises UsageError for a type that safetensors lacks."""
    expect("arrays", arrays, Mapping), expect("types", types or {}, Mapping)
    header: dict[str, Any] = {"__metadata__": _texts(metadata)} if metadata else {}
    at, parts = 0, []
    given = {name: np.asarray(value) for name, value in arrays.items()}
    for name, a in sorted(given.items(), key=lambda item: -item[1].dtype.itemsize):  # so each is aligned
        a = np.ascontiguousarray(a, a.dtype.newbyteorder("<")).reshape(a.shape)
        kind = (types or {}).get(name) or _NAMES.get(a.dtype)
        if not isinstance(name, str) or name == "__metadata__":
            raise UsageError("arrays: expected names, found %r" % (name,))
        if kind not in _TYPES or (a.dtype != _TYPES[kind] and (kind, a.dtype) != ("BF16", np.dtype("<u2"))):
            raise UsageError("%s: expected an array of %s, found %s%s" % (name, ", ".join(sorted({str(d) for d in _TYPES.values()})),
                                                                          a.dtype, " for " + kind if kind else ""))
        header[name] = {"dtype": kind, "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at += a.nbytes
        parts.append(a)
    raw = json.dumps(header).encode()
    raw += b" " * (-(8 + len(raw)) % 64)
    _write(path, [len(raw).to_bytes(8, "little"), raw, *(a.reshape(-1).view(np.uint8) for a in parts)])


def _texts(metadata: Mapping[str, str]) -> dict[str, str]:
    for name, value in expect("metadata", metadata, Mapping).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise UsageError("metadata: expected texts, found %r: %r" % (name, value))
    return dict(metadata)


def _write(path: Path, parts: list[Any]) -> None:
    """A file beside the target, which takes its place when it is whole."""
    target = os.fspath(path)
    draft = "%s.%d-%d.tmp" % (target, os.getpid(), threading.get_ident())
    try:
        try:
            with open(draft, "wb") as f:
                for part in parts:
                    f.write(part)
                f.flush()
                os.fsync(f.fileno())
            os.replace(draft, target)
            if os.name == "posix":
                folder = os.open(os.path.dirname(target) or ".", os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except BaseException:
            if os.path.exists(draft):
                os.unlink(draft)
            raise
    except OSError as e:
        raise SystemFailure("%s: cannot write: %s" % (target, e)) from None


class Weights(Mapping[str, Floats]):
    """The weights of an open model, by the names of docs/format.md ("layers.3.wq"), each a float32 array of its own: [n], or
    [rows, k] of W in y = W x. Those of quantized types are as they are decoded, all others exact. `types` and `shapes` tell what
    the model's source has without reading it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        c = ffi.new("tblock_weight *")
        self.types: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        for i in range(lib.tblock_weight_count(expect("model", model, Model)._c)):
            call("tblock_weight_describe", model._c, i, c)
            name = text_of(c.name)
            self.types[name], self.shapes[name] = text_of(c.type), tuple(c.shape[0:c.n_dims])

    def __getitem__(self, name: str) -> Floats:
        out = np.empty(self.shapes[name], np.float32)
        call("tblock_weight_read", self.model._c, list(self.shapes).index(name), ffi.from_buffer("float[]", out))
        return out

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __repr__(self) -> str:
        return "<tblock.Weights of %r: %d tensors>" % (self.model.path, len(self))


@takes_options
def write_model(path: Path, config: Mapping[str, Any], weights: Mapping[str, Any], *, type: Optional[str] = None,
                tokenizer: Optional[Path] = None, **options: Unpack[ArraysOptions]) -> Record:
    """Make a model file of arrays. config: the keys of docs/format.md; weights: an array for each tensor that it asks for, float32,
    float16 or bfloat16, of the shapes of docs/format.md. type: of the matrices; None: as given. tokenizer: a model or a published
    tokenizer. Other options are those of convert, and so is the answer. Raises InputError for a weight that is missing, unknown or of
    another shape."""
    raw: dict[str, Any] = {}
    for name, value in expect("weights", weights, Mapping).items():
        a = np.asarray(value)
        if a.dtype not in (np.dtype("f4"), np.dtype("f2")) and a.dtype.name != "bfloat16":
            raise UsageError("%s: expected an array of float32, float16 or bfloat16, found %s" % (name, a.dtype))
        raw[name] = np.ascontiguousarray(a, np.float32) if a.ndim == 1 else a
    metadata = {"format": "tblock", "version": "1", "config": c_json("config", expect("config", config, Mapping)), "source": '[{"arrays": "Python"}]'}
    with tempfile.TemporaryDirectory(prefix=".tblock-", dir=os.path.dirname(os.path.abspath(os.fspath(path)))) as folder:
        draft = os.path.join(folder, "arrays.bin")
        if tokenizer is not None:
            convert(tokenizer, draft, tokenizer_only=True)
            own = load_arrays(draft)
            raw.update({name: a for name, a in own.items() if name.startswith("tok.")})
            metadata = {**{k: v for k, v in own.metadata.items() if k != "sha256"}, **metadata}
        save_arrays(draft, raw, metadata=metadata)
        return convert(draft, path, type=type, **options)
