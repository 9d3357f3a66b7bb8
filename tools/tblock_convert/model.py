"""A checkpoint in memory, in the words of docs/format.md: the config, the tensors a config asks for, where each one's
values come from. Sources (hf.py, llama2c.py) make a Checkpoint; writer.py stores it."""
import json

import numpy as np

from .errors import bad
from . import floats

MATRIX, VECTOR, GATHERED = "matrix", "vector", "gathered"   # panels; always F32; row-major

# Every key of the config and the value that means Llama, in the order of docs/format.md. None: has to be given.
CONFIG = {
    "family": "llama", "d_model": None, "n_layers": None, "heads": None, "kv_heads": None, "head_dim": None, "d_ff": None,
    "vocab_size": None, "theta": 10000.0, "norm_eps": 1e-6, "n_ctx": 2048, "tied_embeddings": False,
    "norm": "rms", "norm_placement": "pre", "ffn": "swiglu",
    "qkv_bias": False, "out_bias": False, "ffn_bias": False, "qk_norm": False, "window": 0, "positions": "rope",
    "rope": {"type": "default"}, "norm_bias": False, "full_layers": [], "theta_window": 0.0, "rotary_dim": None,
    "embed_scale": 1.0, "residual_scale": 1.0, "logit_scale": 1.0, "attn_scale": 0.0, "attn_softcap": 0.0, "logit_softcap": 0.0,
    "n_experts": 0, "experts_used": 0, "expert_d_ff": 0, "shared_d_ff": 0, "renormalize": False, "shared_router": False,
    "dense_layers": [], "bos": -1, "eos": [],
}
# Written only where they differ from the value above (rotary_dim: from head_dim).
SPARSE = ("norm_bias", "full_layers", "theta_window", "rotary_dim", "embed_scale", "residual_scale", "logit_scale", "attn_scale",
          "attn_softcap", "logit_softcap", "n_experts", "experts_used", "expert_d_ff", "shared_d_ff", "renormalize",
          "shared_router", "dense_layers")
# The keys of a rope object by its type, in order, with what absence means; None: left out.
ROPE = {
    "default": {}, "linear": {"factor": None},
    "llama3": {"factor": None, "low_freq_factor": None, "high_freq_factor": None, "original_n_ctx": None},
    "yarn": {"factor": None, "original_n_ctx": None, "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": None,
             "mscale": None, "mscale_all_dim": None, "truncate": True},
}
LARGEST_SIZE = 1 << 24
WIDTH_MAX, EOS_MAX = 1 << 20, 16
# What the program accepts (src/model/config.c): a file outside of these would be written in vain.
RANGES = {
    "d_model": (1, WIDTH_MAX), "n_layers": (1, 1 << 12), "heads": (1, 1 << 14), "kv_heads": (1, 1 << 14),
    "head_dim": (2, 1 << 13), "d_ff": (1, 1 << 22), "vocab_size": (1, LARGEST_SIZE), "n_ctx": (1, LARGEST_SIZE),
    "window": (0, LARGEST_SIZE), "theta": (1, 1e15), "norm_eps": (1e-30, 1), "theta_window": (0, 1e15),
    "embed_scale": (1e-30, 1e30), "residual_scale": (1e-30, 1e30), "logit_scale": (1e-30, 1e30), "attn_scale": (0, 1e30),
    "attn_softcap": (0, 1e30), "logit_softcap": (0, 1e30), "n_experts": (0, 1 << 12), "experts_used": (0, 1 << 12),
    "expert_d_ff": (0, 1 << 22), "shared_d_ff": (0, 1 << 22), "rotary_dim": (2, 1 << 13),
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
    if config["rotary_dim"] is None:
        config["rotary_dim"] = config["head_dim"]
    for prefix, values, ranges in (("", config, RANGES), ("rope.", config["rope"], ROPE_RANGES)):
        for key, (low, high) in ranges.items():
            if key in values and not low <= values[key] <= high:
                raise bad(file, prefix + key, "%.9g to %.9g" % (low, high), values[key])
    if config["heads"] % config["kv_heads"]:
        raise bad(file, "kv_heads", "a divisor of heads %d" % config["heads"], config["kv_heads"])
    if config["head_dim"] % 2 and config["positions"] == "rope" and config["rotary_dim"] == config["head_dim"]:
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
    _check_experts(file, config)
    return config


def _check_experts(file, config):
    n = config["n_experts"]
    if not n:
        return
    if config["experts_used"] > n:
        raise bad(file, "experts_used", "1 to n_experts %d" % n, config["experts_used"])
    if max(config["d_model"], config["expert_d_ff"]) > (1 << 30) // n:
        raise bad(file, "n_experts", "at most %d" % ((1 << 30) // max(config["d_model"], config["expert_d_ff"])), n)
    most = (1 << 58) // (config["d_model"] * config["n_layers"]) // config["expert_d_ff"]
    if n > most:
        raise bad(file, "n_experts", "at most %d" % most, n)


# ---- the config as the program spells it (src/model/config_json.c) ----

def config_text(config):
    """One line of JSON: every key in order, sparse ones where they are not the default, numbers in the fewest digits."""
    parts = []
    for key in CONFIG:
        value = config[key]
        if key in SPARSE and value == (config["head_dim"] if key == "rotary_dim" else CONFIG[key]):
            continue
        if key == "rope":
            words = {"type": value["type"]}
            for name, absent in ROPE[value["type"]].items():
                found = value.get(name, absent)
                if found is not None and not (name.startswith("mscale") and found == 0):
                    words[name] = found
            text = "{%s}" % ", ".join('"%s": %s' % (k, _value_text(v)) for k, v in words.items())
        else:
            text = _value_text(value)
        parts.append('"%s": %s' % (key, text))
    return "{%s}" % ", ".join(parts)


def _value_text(value):
    if not isinstance(value, float):
        return json.dumps(value)
    if value == int(value) and abs(value) < 1e15:
        return "%d" % value
    return next(t for t in ("%.*g" % (n, value) for n in range(1, 18)) if float(t) == value)


# ---- tensors ----

class Spec:
    """One tensor of the model file: name, shape (rows, k) or (n,), of a stack (items, rows, k), and role."""

    def __init__(self, name, shape, role):
        self.name, self.shape, self.role = name, tuple(shape), role
        self.items = shape[0] if len(shape) == 3 else 1
        self.rows, self.k = (shape[-2], shape[-1]) if len(shape) > 1 else (shape[0], 1)


def tensor_specs(c):
    """The tensors that a config asks for, in the order of a forward pass (src/model/tensor_list.c)."""
    d = c["d_model"]
    specs = []

    def add(name, shape, bias=False, role=MATRIX):
        specs.append(Spec(name, shape, VECTOR if len(shape) == 1 else role))
        if bias:
            specs.append(Spec(name + "_bias", shape[-2:-1] if len(shape) > 1 else shape, VECTOR))

    add("embed", (c["vocab_size"], d), role=MATRIX if c["tied_embeddings"] else GATHERED)
    if c["positions"] == "learned":
        add("pos_embed", (c["n_ctx"], d), role=GATHERED)
    for n in range(c["n_layers"]):
        _layer_specs(c, n, lambda name, *rest: add("layers.%d.%s" % (n, name), *rest))
    add("final_norm", (d,), c["norm_bias"])
    if not c["tied_embeddings"]:
        add("lm_head", (c["vocab_size"], d))
    return specs


def _layer_specs(c, n, add):
    d, q, kv = c["d_model"], c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    place, biased = c["norm_placement"], c["norm_bias"]
    before, post = place != "output", place in ("both", "output")
    if before:
        add("attn_norm", (d,), biased)
    add("wq", (q, d), c["qkv_bias"])
    add("wk", (kv, d), c["qkv_bias"])
    add("wv", (kv, d), c["qkv_bias"])
    if c["qk_norm"]:
        add("q_norm", (c["head_dim"] if c["qk_norm"] == "head" else q,))
        add("k_norm", (c["head_dim"] if c["qk_norm"] == "head" else kv,))
    add("wo", (d, q), c["out_bias"])
    if post:
        add("attn_post_norm", (d,), biased)
    if before and place != "parallel":
        add("ffn_norm", (d,), biased)
    if c["n_experts"] and n not in c["dense_layers"]:
        _expert_specs(c, add)
    else:
        if c["ffn"] in ("swiglu", "geglu", "geglu_erf"):
            add("w_gate", (c["d_ff"], d), c["ffn_bias"])
        add("w_up", (c["d_ff"], d), c["ffn_bias"])
        add("w_down", (d, c["d_ff"]), c["ffn_bias"])
    if post:
        add("ffn_post_norm", (d,), biased)


def _expert_specs(c, add):
    d, n, ff, shared = c["d_model"], c["n_experts"], c["expert_d_ff"], c["shared_d_ff"]
    add("router", (n, d))
    for name, shape in (("expert_gate", (ff, d)), ("expert_up", (ff, d)), ("expert_down", (d, ff))):
        add(name, (n,) + shape if n > 1 else shape)
    if shared:
        if c["shared_router"]:
            add("shared_router", (1, d))
        add("shared_gate", (shared, d))
        add("shared_up", (shared, d))
        add("shared_down", (d, shared))


class Place:
    """A tensor of a source: file (source.SourceFile), dtype, offset, and the matrix [rows, k] that its bytes are."""

    def __init__(self, file, dtype, offset, rows, k):
        self.file, self.dtype, self.offset, self.rows, self.k = file, dtype, offset, rows, k

    def read(self, begin, end):
        """Rows begin .. end - 1 as bits."""
        bits = np.empty((end - begin, self.k), floats.BITS[self.dtype])
        self.file.read_into(self.offset + begin * self.k * bits.itemsize, bits)
        return bits

    def read_columns(self, begin, end):
        """Columns begin .. end - 1, each as a row."""
        bits = np.empty((self.rows, end - begin), floats.BITS[self.dtype])
        for r in range(self.rows):
            self.file.read_into(self.offset + (r * self.k + begin) * bits.itemsize, bits[r])
        return np.ascontiguousarray(bits.T)


class Weight:
    """Where one tensor's values come from: `items` matrices [rows, k] (a vector is one with k 1). `origin` is its name in the
    source, for messages. Row r of matrix e is found there in these steps, each the identity where it is not asked for
    (src/model/row_source.h):
      pair      r = h * head_dim + i: of the first `pair` dimensions of a head ours are halves (i, i + pair / 2), theirs
                neighbours (2i, 2i + 1)
      unit      row base + r // unit * stride + r % unit of a fused matrix; unit 0: base + r
      item_rows row + e * item_rows of the one place of all matrices; 0: a place, or `shards` places, for each
      shards    places that hold as many rows each, one after the other"""

    def __init__(self, origin, places, rows, k, items=1, base=0, unit=0, stride=0, pair=0, head_dim=0, item_rows=0, shards=1,
                 transposed=False, plus_one=False):
        self.origin, self.places, self.rows, self.k, self.items = origin, places, rows, k, items
        self.base, self.unit, self.stride, self.pair, self.head_dim = base, unit, stride, pair, head_dim
        self.item_rows, self.shards, self.transposed, self.plus_one = item_rows, shards, transposed, plus_one
        self.dtype = "F32" if plus_one else places[0].dtype

    @property
    def file(self):
        return self.places[0].file

    def read(self, item, begin, end):
        """Rows begin .. end - 1 of one matrix as bits [end - begin, k] of self.dtype."""
        row = self._file_rows(np.arange(begin, end)) + item * self.item_rows
        first, last = int(row.min()), int(row.max()) + 1
        bits = self._read_plain(item, first, last)
        if not np.array_equal(row, np.arange(first, last)):
            bits = bits[row - first]
        if self.plus_one:
            wide = floats.to_f32(bits, self.places[0].dtype).view("<f4")
            bits = (wide + np.float32(1)).view("<u4")
        return bits

    def _file_rows(self, r):
        if self.pair:
            inside, half = r % self.head_dim, self.pair // 2
            r = r - inside + np.where(inside < self.pair, 2 * (inside % half) + inside // half, inside)
        return self.base + (r // self.unit * self.stride + r % self.unit if self.unit else r)

    def _read_plain(self, item, first, last):
        own = 0 if self.item_rows else item * self.shards
        if self.transposed:
            return self.places[own].read_columns(first, last)
        if self.shards == 1:
            return self.places[own].read(first, last)
        each = self.places[own].rows
        pieces = [self.places[own + n].read(max(0, first - n * each), min(each, last - n * each))
                  for n in range(first // each, -(-last // each))]
        return np.concatenate(pieces)


class Checkpoint:
    """config and weights {tensor name: Weight}; warnings and notes are lines for the user; tokenizer may be None."""

    def __init__(self, config, weights, notes=(), warnings=()):
        self.config, self.weights = config, weights
        self.notes, self.warnings = list(notes), list(warnings)
