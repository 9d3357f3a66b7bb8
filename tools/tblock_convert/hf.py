"""A Hugging Face folder: the config of hf_config.py, and model.safetensors or shards, bound to the tensors that the config
asks for. The traps are listed in docs/convert.md."""
import os
import re

import numpy as np

from .errors import bad, quoted, shape_text
from . import families, floats, hf_config, jsonfile, model, safetensors

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def load(folder, sources, ignored_keys=()):
    """The Checkpoint of a folder; files are opened through sources (source.Sources)."""
    file = sources.open(os.path.join(folder, "config.json"))
    reader = hf_config.ConfigReader(file.path, jsonfile.parse_object(file.read_small(), file.path), ignored_keys)
    generation = os.path.join(folder, "generation_config.json")
    more_eos = None
    if os.path.exists(generation):
        file = sources.open(generation)
        more_eos = jsonfile.parse_object(file.read_small(), file.path).get("eos_token_id")
    config = reader.config(more_eos, generation)
    tensors = read_tensors(folder, sources)
    binder = Binder(folder, reader.family, config, tensors)
    weights = binder.bind()
    return model.Checkpoint(config, weights, binder.notes + reader.dtype_notes(weights), reader.warnings + binder.warnings)


def read_tensors(folder, sources):
    """{name: safetensors.Tensor} of the whole folder."""
    single, index = os.path.join(folder, SINGLE), os.path.join(folder, INDEX)
    if os.path.exists(single):
        return safetensors.read_header(sources.open(single))[0]
    if not os.path.exists(index):
        others = sorted(n for n in os.listdir(folder) if n.endswith((".safetensors", ".bin", ".pth", ".pt", ".gguf")))
        raise bad(folder, "", "%s or %s" % (SINGLE, INDEX), ", ".join(quoted(n) for n in others[:4]) or "neither",
                  "only safetensors weights are read" if others else "")
    file = sources.open(index)
    weight_map = jsonfile.parse_object(file.read_small(), index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise bad(index, "weight_map", "an object of file names", jsonfile.kind(weight_map))
    return _read_shards(folder, index, weight_map, sources)


def _read_shards(folder, index, weight_map, sources):
    tensors = {}
    for shard in dict.fromkeys(weight_map.values()):
        if os.path.basename(shard) != shard or shard in ("", ".", ".."):
            raise bad(index, "weight_map", "plain file names", "'%s'" % quoted(shard))
        path = os.path.join(folder, shard)
        if not os.path.exists(path):
            raise bad(index, "shard %s" % quoted(shard), "a file in the same folder", "no such file")
        inside = safetensors.read_header(sources.open(path))[0]
        for name in inside:
            if weight_map.get(name) != shard:
                raise bad(path, "tensor %s" % quoted(name), "a place in %s" % INDEX,
                          "the shard %s there" % quoted(weight_map[name]) if name in weight_map else "none")
        tensors.update(inside)
    for name, shard in weight_map.items():
        if name not in tensors:
            raise bad(os.path.join(folder, shard), "tensor %s" % quoted(name), "the tensor that %s lists" % INDEX, "none")
    return tensors


class Binder:
    """Gives each tensor that the config asks for its place in the folder; nothing may be missing, extra or misshaped."""

    def __init__(self, folder, family, config, tensors):
        self.folder, self.family, self.config, self.tensors = folder, family, config, tensors
        self.notes, self.warnings = [], []

    def bind(self):
        left = dict(self.tensors)
        weights = {}
        for spec in model.tensor_specs(self.config):
            name = families.tensor_name(self.family, spec.name)
            weights[spec.name] = self._weight(spec, name, left.pop(name, None))
        self._stored_inv_freq(left)
        if self.config["tied_embeddings"]:
            self._stored_head(left, weights["embed"])
        if left:
            raise self._extra(left)
        return weights

    def _weight(self, spec, name, t):
        thing = "tensor %s" % quoted(name)
        if t is None:
            raise bad(self.folder, thing, shape_text(spec.shape), "no such tensor", self._why_missing(spec, name))
        if t.shape != spec.shape:
            raise bad(t.file.path, thing, shape_text(spec.shape), shape_text(t.shape), self._why_misshaped(spec, t))
        if t.dtype not in floats.BITS:
            raise bad(t.file.path, thing, "F32, F16 or BF16", t.dtype)
        rows, k = spec.shape if len(spec.shape) == 2 else (1, spec.shape[0])
        return model.Weight(t.file, name, t.dtype, rows, k, t.offset)

    def _why_missing(self, spec, name):
        if spec.name == "lm_head":
            return "tie_word_embeddings is false; a model without a head is a tied one"
        if name.endswith(".bias"):
            return "the config asks for this bias"
        bare = name[len("model."):] if name.startswith("model.") else name
        if bare in self.tensors and bare != name:
            return "it is there as %s: the folder holds a bare model without its head" % bare
        return ""

    def _why_misshaped(self, spec, t):
        c = self.config
        if spec.name.endswith((".wk", ".wv")) and len(t.shape) == 2 and t.shape[0] % c["head_dim"] == 0:
            return "kv_heads %d in the config; this fits %d" % (c["kv_heads"], t.shape[0] // c["head_dim"])
        if spec.name in ("embed", "lm_head") and len(t.shape) == 2 and t.shape[0] != c["vocab_size"]:
            return "vocab_size %d in the config; this fits %d" % (c["vocab_size"], t.shape[0])
        return ""

    def _extra(self, left):
        name = sorted(left)[0]
        hint = "%d tensors that the config does not ask for" % len(left) if len(left) > 1 else ""
        if name.endswith(".bias"):
            hint = "the config has no bias here" + ("; %d tensors like this" % len(left) if len(left) > 1 else "")
        layer = re.match(r"model\.layers\.(\d+)\.", name)
        if layer and int(layer.group(1)) >= self.config["n_layers"]:
            hint = "the config has %d layers" % self.config["n_layers"]
        return bad(left[name].file.path, "tensor %s" % quoted(name), "no such tensor",
                   "%s %s" % (left[name].dtype, shape_text(left[name].shape)), hint)

    def _stored_head(self, left, embed):
        """A tied model may store its head as well. Loaders disagree on a head that differs: then nobody can say which
        model this is, so it is refused."""
        name = families.tensor_name(self.family, "lm_head")
        t = left.pop(name, None)
        if t is None:
            return
        same = t.dtype == embed.dtype and t.shape == (embed.rows, embed.k) and t.n_bytes == embed.rows * embed.k * (
            floats.BITS[embed.dtype].itemsize)
        step = 1 << 22
        for at in range(0, t.n_bytes if same else 0, step):
            n = min(step, t.n_bytes - at)
            if t.file.read(t.offset + at, n) != embed.file.read(embed.offset + at, n):
                same = False
                break
        if not same:
            raise bad(t.file.path, "tensor %s" % name, "the values of %s (tie_word_embeddings is true)" % embed.origin,
                      "others", "set tie_word_embeddings to false to use this head, or remove it")
        self.notes.append("%s is stored and equals the embedding: kept once" % name)

    def _stored_inv_freq(self, left):
        c = self.config
        expected = c["theta"] ** (-np.arange(0, c["head_dim"], 2) / c["head_dim"])
        n = 0
        for name in [name for name in left if re.fullmatch(self.family.inv_freq, name)]:
            t = left.pop(name)
            n += 1
            if t.dtype in floats.BITS and t.shape == expected.shape:
                bits = np.frombuffer(t.file.read(t.offset, t.n_bytes), floats.BITS[t.dtype])
                stored = floats.to_f32(bits, t.dtype).view("<f4").astype(float)
                if np.all(np.abs(stored - expected) <= 0.02 * expected):   # it may have been rounded to 8 bits
                    continue
            self.warnings.append("%s: tensor %s: differs from rope_theta %g of the config, which is used" %
                                 (t.file.path, quoted(name), c["theta"]))
        if n:
            self.notes.append("%d stored inv_freq ignored: they follow from the config" % n)
