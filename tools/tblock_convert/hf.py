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
    reader = hf_config.ConfigReader(file.path, jsonfile.parse_config(file.read_small(), file.path), ignored_keys)
    generation = os.path.join(folder, "generation_config.json")
    more_eos = None
    if os.path.exists(generation):
        file = sources.open(generation)
        more_eos = jsonfile.parse_config(file.read_small(), file.path).get("eos_token_id")
    config = reader.config(more_eos, generation)
    tensors = read_tensors(folder, sources)
    binder = Binder(folder, reader.family, config, tensors, reader.others)
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
    weight_map = jsonfile.parse_config(file.read_small(), index).get("weight_map")
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

    def __init__(self, folder, family, config, tensors, others=None):
        self.folder, self.family, self.config, self.tensors, self.others = folder, family, config, tensors, others
        self.notes, self.warnings = [], []
        self.used = set()
        first = family.names("embed")[0].name
        self.prefix = next((p for p in family.prefixes if first.replace("@", p) in tensors), family.prefixes[0])

    def bind(self):
        weights = {spec.name: self._weight(spec) for spec in model.tensor_specs(self.config)}
        left = {name: t for name, t in self.tensors.items() if name not in self.used}
        self._unused(left)
        if self.config["tied_embeddings"]:
            self._stored_head(left, weights["embed"])
        if left:
            raise self._extra(left)
        return weights

    # ---- names ----

    def _names(self, spec):
        """[(T, names there)]: the alternatives for one tensor, each with all the tensors that it is made of."""
        layer, _, part = spec.name.rpartition(".")
        bias = part.endswith("_bias")
        part = part[:-len("_bias")] if bias else part
        heads = self.config["heads" if part in ("wq", "q_norm") else "kv_heads"]
        result = []
        for there in self.family.names(part):
            name = there.name.replace("@", self.prefix).replace("{}", layer.rpartition(".")[2])
            name = name[:-len("weight")] + "bias" if bias else name
            for slot, n in (("{e}", self.config["n_experts"]), ("{h}", heads)):
                if slot in name:
                    result.append((there, [name.replace(slot, str(i)) for i in range(n)]))
                    break
            else:
                result.append((there, [name]))
        return result

    # ---- shapes ----

    def _weight(self, spec):
        names = self._names(spec)
        there, all_names = next((n for n in names if n[1][0] in self.tensors), names[0])
        steps, stored = self._steps(spec, there, len(all_names))
        places = [self._place(spec, name, stored, steps) for name in all_names]
        if any(p.dtype != places[0].dtype for p in places):
            odd = next(i for i, p in enumerate(places) if p.dtype != places[0].dtype)
            raise bad(places[odd].file.path, "tensor %s" % quoted(all_names[odd]), "%s, as %s" % (places[0].dtype, all_names[0]),
                      places[odd].dtype)
        if self.family.plus_one and "norm" in spec.name and not spec.name.endswith("_bias"):
            steps["plus_one"] = True
        return model.Weight(all_names[0], places, spec.rows, spec.k, spec.items, **steps)

    def _steps(self, spec, there, n_names):
        """The steps of model.Weight, and the shape [rows, k] (a vector: [rows]) of each tensor it is made of."""
        c, words, steps = self.config, there.words, {}
        rows = spec.rows
        if "pairs" in words:
            steps.update(pair=c["rotary_dim"], head_dim=c["head_dim"])
        if words & {"q", "k", "v"}:
            q, kv, d = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"], c["head_dim"]
            which = "q" if "q" in words else "k" if "k" in words else "v"
            rows = q + 2 * kv
            if "by_head" in words:
                steps.update(base={"q": 0, "k": d, "v": 2 * d}[which], unit=d, stride=3 * d)
            else:
                steps.update(base={"q": 0, "k": q, "v": q + kv}[which])
        if words & {"gate", "up"}:
            steps["base"] = rows if "up" in words else 0
            rows *= 2
        if "{h}" in there.name:
            steps["shards"] = n_names
            rows //= n_names
        stored = (rows,) if len(spec.shape) == 1 else (rows, spec.k)
        if spec.items > 1 and n_names == 1:
            steps["item_rows"] = rows
            stored = (spec.items,) + stored
        if "transposed" in words and len(stored) == 2:
            steps["transposed"] = True
            stored = stored[::-1]
        return steps, stored

    def _place(self, spec, name, stored, steps):
        thing, t = "tensor %s" % quoted(name), self.tensors.get(name)
        if t is None:
            raise bad(self.folder, thing, shape_text(stored), "no such tensor", self._why_missing(spec, name))
        self.used.add(name)
        by_head = (stored[0] // self.config["head_dim"], self.config["head_dim"])   # a norm of each head of its own
        if t.shape != stored and not (self.config["qk_norm"] == "heads" and spec.name.endswith(("q_norm", "k_norm"))
                                      and t.shape == by_head):
            raise bad(t.file.path, thing, shape_text(stored), shape_text(t.shape), self._why_misshaped(spec, t, stored))
        if t.dtype not in floats.BITS:
            raise bad(t.file.path, thing, "F32, F16 or BF16", t.dtype)
        if len(spec.shape) == 1:
            return model.Place(t.file, t.dtype, t.offset, stored[0], 1)
        rows = stored[0] * stored[1] if len(stored) == 3 else stored[0]
        return model.Place(t.file, t.dtype, t.offset, rows, stored[-1])

    # ---- messages ----

    def _why_missing(self, spec, name):
        if spec.name == "lm_head":
            return "tie_word_embeddings is false; a model without a head is a tied one"
        if name.endswith(".bias"):
            return "the config asks for this bias"
        bare = name[len(self.prefix):] if name.startswith(self.prefix) else name
        if bare in self.tensors and bare != name:
            return "it is there as %s: the folder holds a bare model without its head" % bare
        return ""

    def _why_misshaped(self, spec, t, stored):
        c, part = self.config, spec.name.rpartition(".")[2]
        if part in ("wk", "wv") and stored == spec.shape and len(t.shape) == 2 and t.shape[0] % c["head_dim"] == 0:
            return "kv_heads %d in the config; this fits %d" % (c["kv_heads"], t.shape[0] // c["head_dim"])
        if part in ("embed", "lm_head") and len(t.shape) == 2 and t.shape[0] != c["vocab_size"]:
            return "vocab_size %d in the config; this fits %d" % (c["vocab_size"], t.shape[0])
        if len(t.shape) == 3 and len(stored) == 3 and t.shape[0] != stored[0] and t.shape[1:] == stored[1:]:
            return "n_experts %d in the config; this fits %d" % (stored[0], t.shape[0])
        return ""

    def _extra(self, left):
        name = sorted(left)[0]
        hint = "%d tensors that the config does not ask for" % len(left) if len(left) > 1 else ""
        if name.endswith(".bias"):
            hint = "the config has no bias here" + ("; %d tensors like this" % len(left) if len(left) > 1 else "")
        layer = re.search(r"(?:layers|h)\.(\d+)\.", name)
        expert = re.search(r"\.experts\.(\d+)\.", name)
        if layer and int(layer.group(1)) >= self.config["n_layers"]:
            hint = "the config has %d layers" % self.config["n_layers"]
        elif expert and int(expert.group(1)) >= self.config["n_experts"]:
            hint = "the config has %d experts" % self.config["n_experts"]
        return bad(left[name].file.path, "tensor %s" % quoted(name), "no such tensor",
                   "%s %s" % (left[name].dtype, shape_text(left[name].shape)), hint)

    # ---- tensors that are there and not needed ----

    def _stored_head(self, left, embed):
        """A tied model may store its head as well. Loaders disagree on a head that differs: then nobody can say which
        model this is, so it is refused."""
        name = next((n.name for n in self.family.names("lm_head") if n.name in left), None)
        if name is None:
            return
        t, place = left.pop(name), embed.places[0]
        same = t.dtype == place.dtype and t.shape == (place.rows, place.k)
        step = 1 << 22
        for at in range(0, t.n_bytes if same else 0, step):
            n = min(step, t.n_bytes - at)
            if t.file.read(t.offset + at, n) != place.file.read(place.offset + at, n):
                same = False
                break
        if not same:
            raise bad(t.file.path, "tensor %s" % name, "the values of %s (tie_word_embeddings is true)" % embed.origin,
                      "others", "set tie_word_embeddings to false to use this head, or remove it")
        self.notes.append("%s is stored and equals the embedding: kept once" % name)

    def _unused(self, left):
        """Buffers that every reader computes; of a model of several kinds of input, the other parts."""
        pattern, n, n_others = self.family.unused_pattern(self.prefix), 0, 0
        for name in list(left):
            if re.fullmatch(pattern, name):
                t = left.pop(name)
                n += 1
                if name.endswith("inv_freq"):
                    self._check_inv_freq(name, t)
            elif self.others and re.fullmatch(self.others, name):
                del left[name]
                n_others += 1
        if n:
            self.notes.append("%d stored buffers ignored: they follow from the config" % n)
        if n_others:
            self.notes.append("%d tensors of other parts than the text model left out" % n_others)

    def _check_inv_freq(self, name, t):
        c = self.config
        expected = c["theta"] ** (-np.arange(0, c["rotary_dim"], 2) / c["rotary_dim"])
        if t.dtype in floats.BITS and t.shape == expected.shape:
            bits = np.frombuffer(t.file.read(t.offset, t.n_bytes), floats.BITS[t.dtype])
            stored = floats.to_f32(bits, t.dtype).view("<f4").astype(float)
            if np.all(np.abs(stored - expected) <= 0.02 * expected):   # it may have been rounded to 8 bits
                return
        self.warnings.append("%s: tensor %s: differs from rope_theta %g of the config, which is used" %
                             (t.file.path, quoted(name), c["theta"]))
