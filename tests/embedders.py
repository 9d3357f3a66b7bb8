"""The recorded models that make vectors or scores (tests/references/record_embedders.py) as folders."""
import json
import pathlib

from safetensors import safe_open

DATA = pathlib.Path(__file__).resolve().parent / "data/embedders"
NAMES = ("gemma-both", "qwen2-both", "llama-bidirec", "qwen3-score", "llama-labels")


def write_safetensors(path, tensors):
    """Of raw bytes with their types, which numpy has no name for (bf16)."""
    at, header = 0, {"__metadata__": {"format": "pt"}}
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(t[2] for t in tensors.values()))


def raw_tensors(path):
    data = path.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]) for name, t in header.items()}


def unpack(name, folder):
    """Writes the folder; returns its answers {"seq0.tokens": ...}."""
    for path, value in json.loads((DATA / f"{name}.json").read_text()).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(json.dumps(value))
    parts = {}
    for tensor, raw in raw_tensors(DATA / f"{name}.safetensors").items():
        if not tensor.startswith("answers/"):
            path, _, own = tensor.rpartition(".safetensors/")
            parts.setdefault(path + ".safetensors", {})[own] = raw
    for path, tensors in parts.items():
        write_safetensors(folder / path, tensors)
    with safe_open(DATA / f"{name}.safetensors", "numpy") as f:
        return {key[len("answers/"):]: f.get_tensor(key) for key in f.keys() if key.startswith("answers/")}
