"""A checkpoint in memory, in the words of docs/format.md: the config, the tensors a config asks for, where each one's
values come from. Sources (hf.py, llama2c.py) make a Checkpoint; writer.py stores it."""
import numpy as np

from .errors import bad
from . import floats

MATRIX, VECTOR, GATHERED = "matrix", "vector", "gathered"   # panels; always F32; row-major

# Every key of the config and the value that means Llama, in the order of docs/format.md. None: has to be given.
CONFIG = {
    "family": "llama", "d_model": None, "n_layers": None, "heads": None, "d_ff": None, "vocab_size": None,
    "kv_heads": None, "head_dim": None, "theta": 10000.0, "norm_eps": 1e-6, "n_ctx": 2048, "tied_embeddings": False,
    "norm": "rms", "norm_placement": "pre", "ffn": "swiglu",
    "qkv_bias": False, "out_bias": False, "ffn_bias": False, "qk_norm": False, "window": 0, "positions": "rope",
    "rope": {"type": "default"}, "bos": -1, "eos": [],
}
LARGEST_SIZE = 1 << 24
WIDTH_MAX, EOS_MAX = 1 << 20, 16
# What the program accepts (src/model/config.c): a file outside of these would be written in vain.
RANGES = {
    "d_model": (1, WIDTH_MAX), "n_layers": (1, 1 << 12), "heads": (1, 1 << 14), "kv_heads": (1, 1 << 14),
    "head_dim": (2, 1 << 13), "d_ff": (1, 1 << 22), "vocab_size": (1, LARGEST_SIZE), "n_ctx": (1, LARGEST_SIZE),
    "window": (0, LARGEST_SIZE), "theta": (1, 1e15), "norm_eps": (1e-30, 1),
}
ROPE_RANGES = {
    "factor": (1, 1e6), "low_freq_factor": (1e-6, 1e6), "high_freq_factor": (1e-6, 1e6), "original_n_ctx": (1, LARGEST_SIZE),
    "beta_fast": (1e-6, 1e6), "beta_slow": (1e-6, 1e6), "attention_factor": (1e-6, 1e6), "mscale": (0, 1e6),
    "mscale_all_dim": (0, 1e6),
}


def make_config(file, **given):
    """A whole config: what is given over the Llama values, checked for contradictions (file is for messages)."""
    config = dict(CONFIG)
    config.update(given)
    for prefix, values, ranges in (("", config, RANGES), ("rope.", config["rope"], ROPE_RANGES)):
        for key, (low, high) in ranges.items():
            if key in values and not low <= values[key] <= high:
                raise bad(file, prefix + key, "%.9g to %.9g" % (low, high), values[key])
    if config["heads"] % config["kv_heads"]:
        raise bad(file, "kv_heads", "a divisor of heads %d" % config["heads"], config["kv_heads"])
    if config["head_dim"] % 2:
        raise bad(file, "head_dim", "an even number", config["head_dim"])
    if config["heads"] * config["head_dim"] > WIDTH_MAX:
        raise bad(file, "heads * head_dim", "at most %d" % WIDTH_MAX, config["heads"] * config["head_dim"])
    rope = config["rope"]
    if rope["type"] == "llama3" and rope["low_freq_factor"] >= rope["high_freq_factor"]:
        raise bad(file, "rope.high_freq_factor", "more than low_freq_factor %g" % rope["low_freq_factor"],
                  "%g" % rope["high_freq_factor"])
    if rope["type"] == "yarn" and config["theta"] < 1.001:
        raise bad(file, "theta", "at least 1.001 with rope type yarn", config["theta"])
    if len(config["eos"]) > EOS_MAX:
        raise bad(file, "eos", "at most %d ids" % EOS_MAX, len(config["eos"]))
    for key, ids in (("bos", [config["bos"]]), ("eos", config["eos"])):
        for i in ids:
            if not -1 <= i < config["vocab_size"]:
                raise bad(file, key, "an id below vocab_size %d" % config["vocab_size"], i)
    return config


class Spec:
    """One tensor of the model file: name, shape (rows, k) or (n,), and role."""

    def __init__(self, name, shape, role):
        self.name, self.shape, self.role = name, shape, role


def tensor_specs(c):
    """The tensors that a config asks for, in the order of a forward pass."""
    d, q, kv, ff = c["d_model"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], c["d_ff"]
    specs = [Spec("embed", (c["vocab_size"], d), MATRIX if c["tied_embeddings"] else GATHERED)]
    layer = [("attn_norm", (d,), None), ("wq", (q, d), "qkv_bias"), ("wk", (kv, d), "qkv_bias"),
             ("wv", (kv, d), "qkv_bias"), ("wo", (d, q), "out_bias"), ("ffn_norm", (d,), None),
             ("w_gate", (ff, d), "ffn_bias"), ("w_up", (ff, d), "ffn_bias"), ("w_down", (d, ff), "ffn_bias")]
    for n in range(c["n_layers"]):
        for name, shape, bias in layer:
            specs.append(Spec("layers.%d.%s" % (n, name), shape, MATRIX if bias else VECTOR))
            if bias and c[bias]:
                specs.append(Spec("layers.%d.%s_bias" % (n, name), shape[:1], VECTOR))
    specs.append(Spec("final_norm", (d,), VECTOR))
    if not c["tied_embeddings"]:
        specs.append(Spec("lm_head", (c["vocab_size"], d), MATRIX))
    return specs


class Weight:
    """Where one tensor's values come from. A vector is one row. `origin` is its name in the source, for messages."""

    def __init__(self, file, origin, dtype, rows, k, offset, half_split_heads=0):
        self.file, self.origin, self.dtype, self.rows, self.k, self.offset = file, origin, dtype, rows, k, offset
        self.half_split_heads = half_split_heads   # heads whose rows are neighbour pairs here, to be halves; 0: as they are

    def read(self, begin, end):
        """Rows begin .. end - 1 as bits [end - begin, k]."""
        if self.half_split_heads:
            return self._read_half_split(begin, end)
        bits = np.empty((end - begin, self.k), floats.BITS[self.dtype])
        self.file.read_into(self.offset + begin * self.k * bits.itemsize, bits)
        return bits

    def _read_half_split(self, begin, end):
        """Row i + j * half of a head comes from row 2 * i + j: pairs (2i, 2i + 1) become pairs (i, i + half)."""
        head_dim = self.rows // self.half_split_heads
        first, last = begin // head_dim * head_dim, -(-end // head_dim) * head_dim
        bits = np.empty((last - first, self.k), floats.BITS[self.dtype])
        self.file.read_into(self.offset + first * self.k * bits.itemsize, bits)
        row = np.arange(begin, end)
        inside, half = row % head_dim, head_dim // 2
        return bits[row - inside - first + 2 * (inside % half) + inside // half]


class Checkpoint:
    """config and weights {tensor name: Weight}; warnings and notes are lines for the user; tokenizer may be None."""

    def __init__(self, config, weights, notes=(), warnings=()):
        self.config, self.weights = config, weights
        self.notes, self.warnings = list(notes), list(warnings)
