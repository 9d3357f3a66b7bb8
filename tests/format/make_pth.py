#!/usr/bin/env python3
"""Write the PyTorch checkpoints of tests/data/pth and, beside each, NAME.txt: a line "name dtype shape bytes" for each tensor
(values in row-major order, in hex), which tests/unit/test_pth.c compares with what the reader finds.

    make_pth.py [FOLDER]            by hand, from the standard library alone
    make_pth.py --torch [FOLDER]    recorded from PyTorch itself; the files in tests/data are from PyTorch 2.15.0"""
import argparse
import collections
import io
import pickle
import struct
import sys
import types
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent / "data" / "pth"
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
FORMATS = {"F32": "f", "F64": "d", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U8": "B", "BOOL": "?"}
TYPES = {"F32": "FloatStorage", "F64": "DoubleStorage", "F16": "HalfStorage", "I64": "LongStorage", "I32": "IntStorage",
         "I16": "ShortStorage", "I8": "CharStorage", "U8": "ByteStorage", "BOOL": "BoolStorage"}


# ---- Stand-ins: what pickles under the names of torch without torch ---------------------------------------------------

def stand_in(module, name):
    """A class that pickles as MODULE.NAME."""
    for part in (module.partition(".")[0], module):
        sys.modules.setdefault(part, types.ModuleType(part))
    there = sys.modules[module]
    if not hasattr(there, name):
        setattr(there, name, type(name, (), {"__module__": module, "__qualname__": name}))
    return getattr(there, name)


class Storage:
    def __init__(self, key, dtype, values, view=None):
        self.key, self.dtype, self.values, self.view = key, dtype, list(values), view

    def data(self):
        return struct.pack("<%d%s" % (len(self.values), FORMATS[self.dtype]), *self.values)


class Tensor:
    """A view of a storage: offset, shape and stride in elements."""

    def __init__(self, storage, offset, shape, stride, function="_rebuild_tensor_v2"):
        self.storage, self.offset, self.shape, self.stride, self.function = storage, offset, shape, stride, function

    def data(self):
        """The values in row-major order, found index by index."""
        s, out = self.storage, b""
        start = self.offset + (s.view[1] if s.view else 0)
        total = 1
        for n in self.shape:
            total *= n
        for i in range(total):
            at = start
            for n, step in zip(reversed(self.shape), reversed(self.stride)):
                at += i % n * step
                i //= n
            out += struct.pack("<" + FORMATS[s.dtype], s.values[at])
        return out

    def __reduce__(self):
        args = (self.storage, self.offset, self.shape, self.stride)
        if self.function == "_rebuild_tensor_v2":
            args += (False, collections.OrderedDict())
        return stand_in("torch._utils", self.function), args


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return stand_in("torch._utils", "_rebuild_parameter"), (self.tensor, True, collections.OrderedDict())


def dumps(obj, protocol, storages, legacy=False):
    """The pickle of an object; storages collects what its persistent ids name."""
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if not isinstance(value, Storage):
                return None
            storages[value.key] = value
            kind = stand_in("torch", TYPES[value.dtype])
            name = ("storage", kind, value.key, "cpu", len(value.values))
            return name + (value.view,) if legacy else name

    out = io.BytesIO()
    Pickler(out, protocol).dump(obj)
    return out.getvalue()


# ---- The two forms ------------------------------------------------------------------------------------------------------

def write_zip(path, obj, protocol, zip64=False):
    storages = {}
    data = dumps(obj, protocol, storages)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        def put(name, content):
            info = zipfile.ZipInfo("archive/" + name, (1980, 1, 1, 0, 0, 0))
            with z.open(info, "w", force_zip64=zip64) as f:
                f.write(content)
        put("data.pkl", data)
        put("byteorder", b"little")
        for key in sorted(storages, key=int):
            put("data/" + key, storages[key].data())
        put("version", b"3\n")


def write_legacy(path, obj, protocol):
    storages = {}
    sizes = {"short": 2, "int": 4, "long": 4}
    machine = {"protocol_version": PROTOCOL, "little_endian": True, "type_sizes": sizes}
    parts = [pickle.dumps(MAGIC, protocol), pickle.dumps(PROTOCOL, protocol), pickle.dumps(machine, protocol),
             dumps(obj, protocol, storages, legacy=True)]
    keys = sorted(storages)
    parts.append(pickle.dumps(keys, protocol))
    for key in keys:
        parts += [struct.pack("<q", len(storages[key].values)), storages[key].data()]
    Path(path).write_bytes(b"".join(parts))


def line(name, dtype, shape, data):
    return "%s %s %s %s\n" % (name, dtype, ",".join(map(str, shape)) or "-", data.hex() or "-")


def write_expected(path, tensors):
    lines = ""
    for name, t in tensors.items():
        t = t.tensor if isinstance(t, Parameter) else t
        if isinstance(t, Tensor):
            lines += line(name, t.storage.dtype, t.shape, t.data())
    Path(path).with_suffix(".txt").write_text(lines)


# ---- By hand --------------------------------------------------------------------------------------------------------------

def views():
    """Tensors of every kind of view and type."""
    floats = Storage("0", "F32", [i * 0.5 - 3 for i in range(24)])
    out = collections.OrderedDict()
    out["embed.weight"] = Tensor(floats, 0, (6, 4), (4, 1))
    out["tied.weight"] = Tensor(floats, 0, (6, 4), (4, 1))
    out["rows"] = Tensor(floats, 8, (2, 4), (4, 1))
    out["transposed"] = Tensor(floats, 0, (4, 6), (1, 4))
    out["every_second"] = Tensor(floats, 1, (3, 2), (8, 2))
    out["broadcast"] = Tensor(floats, 5, (3, 2), (0, 1))
    out["one_row_any_stride"] = Tensor(floats, 4, (1, 4), (999, 1))
    out["cube"] = Tensor(floats, 0, (2, 3, 4), (1, 2, 6))
    out["parameter"] = Parameter(Tensor(Storage("1", "F16", [1.5, -2, 65504]), 0, (3,), (1,)))
    out["scalar"] = Tensor(Storage("2", "I64", [-(1 << 40)]), 0, (), ())
    out["empty"] = Tensor(Storage("3", "F32", []), 0, (0, 5), (5, 1))
    for key, dtype, values in (("4", "F64", [0.1, -1e300]), ("5", "I32", [-7, 1 << 30]), ("6", "I16", [-300]),
                               ("7", "I8", [-128, 127]), ("8", "U8", [255, 0]), ("9", "BOOL", [True, False, True])):
        out["type." + dtype] = Tensor(Storage(key, dtype, values), 0, (len(values),), (1,), "_rebuild_tensor")
    return out


def by_hand(folder):
    tensors = views()
    tensors._metadata = collections.OrderedDict([("", {"version": 1})])
    mixed = collections.OrderedDict(tensors, version=3, lr=0.5, note="plain", nothing=None, big=1 << 200, options={"a": [1, 2]})
    mixed._metadata = tensors._metadata
    write_zip(folder / "hand-zip-2.pth", mixed, 2)
    write_zip(folder / "hand-zip64-2.pth", tensors, 2, zip64=True)
    nested = {"epoch": 3, "optimizer": {"state": [1, 2]}, "model": dict(tensors)}
    write_zip(folder / "hand-zip-4.pth", nested, 4)
    write_legacy(folder / "hand-legacy-4.pth", {"state_dict": tensors}, 4)
    old = Storage("77", "F32", range(10), view=("78", 2, 6))
    viewed = collections.OrderedDict(tensors, view=Tensor(old, 1, (2, 2), (2, 1)))
    write_legacy(folder / "hand-legacy-2.pth", viewed, 2)
    for name in ("hand-zip-2", "hand-zip64-2", "hand-zip-4", "hand-legacy-4"):
        write_expected(folder / name, tensors)
    write_expected(folder / "hand-legacy-2", viewed)


# ---- From PyTorch -----------------------------------------------------------------------------------------------------------

def from_torch(folder):
    import torch
    print("PyTorch", torch.__version__)
    torch.manual_seed(1)
    names = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.float64: "F64", torch.int64: "I64",
             torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
             torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64"}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(8, 6)
            self.up = torch.nn.Linear(6, 5).to(torch.bfloat16)
            self.norm = torch.nn.BatchNorm1d(5).half()
            self.head = torch.nn.Linear(6, 8, bias=False)
            self.head.weight = self.embed.weight

    def save(name, obj, tensors, **options):
        torch.save(obj, folder / (name + ".pth"), **options)
        lines = ""
        for key, t in tensors.items():
            if isinstance(t, torch.Tensor):
                data = bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
                lines += line(key, names[t.dtype], t.shape, data)
        (folder / (name + ".txt")).write_text(lines)

    state = Model().state_dict()
    whole = torch.arange(60, dtype=torch.float64).reshape(3, 4, 5)
    kinds = {str(t)[6:]: (torch.arange(5) * 3).to(t) for t in names if "uint" not in str(t) or t == torch.uint8}
    kinds.update(turned=whole.permute(2, 0, 1), part=whole[1:, 2], wide=torch.ones(1).expand(4, 3), scalar=torch.tensor(2.5),
                 empty=torch.empty(0, 3), parameter=torch.nn.Parameter(torch.randn(2, 3)))
    unsigned = {str(t)[6:]: torch.tensor([1, 40000]).to(t) for t in (torch.uint16, torch.uint32, torch.uint64)}
    for form, new in (("zip", True), ("legacy", False)):
        save("torch-%s-state" % form, state, state, _use_new_zipfile_serialization=new)
        save("torch-%s-kinds" % form, {"model": kinds, "step": 5}, kinds, _use_new_zipfile_serialization=new)
        save("torch-%s-4" % form, kinds, kinds, _use_new_zipfile_serialization=new, pickle_protocol=4)
    save("torch-zip-unsigned", unsigned, unsigned)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("folder", nargs="?", type=Path, default=HERE)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    (from_torch if options.torch else by_hand)(options.folder)


if __name__ == "__main__":
    main()
