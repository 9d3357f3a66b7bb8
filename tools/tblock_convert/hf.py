"""A Hugging Face folder: config.json in both dialects, model.safetensors or shards. Absent keys mean the family's default;
what is not known is refused by name. The traps are listed in docs/convert.md."""
import os
import re

import numpy as np

from .errors import bad, quoted, shape_text
from . import families, floats, jsonfile, model, safetensors

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def load(folder, sources, ignored_keys=()):
    """The Checkpoint of a folder; files are opened through sources (source.Sources)."""
    file = sources.open(os.path.join(folder, "config.json"))
    reader = ConfigReader(file.path, jsonfile.parse_object(file.read_small(), file.path), ignored_keys)
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


# ---- config.json ----

class ConfigReader:
    """Takes keys out of config.json one by one; what is left over at the end has to be harmless."""

    def __init__(self, path, keys, ignored_keys=()):
        self.path, self.keys, self.left, self.ignored = path, keys, set(keys), set(ignored_keys)
        self.warnings = []
        for name in self.ignored - set(keys):
            raise bad(path, "--ignore-key", "a key of this config", "'%s'" % quoted(name))
        self.family = self._family()

    def error(self, key, expected, found, hint=""):
        return bad(self.path, key, expected, found, hint)

    def take(self, key, default=None):
        """The value of a key, default when it is absent."""
        self.left.discard(key)
        return self.keys.get(key, default)

    def _family(self):
        known = ", ".join(families.FAMILIES)
        name = self.keys.get("model_type")
        architectures = self.keys.get("architectures") or []
        if name is None:   # very old folders have the architecture alone
            name = next((f.name for f in families.FAMILIES.values() if f.architecture in architectures), None)
        if not isinstance(name, str) or name not in families.FAMILIES:
            raise self.error("model_type", "one of " + known, jsonfile.kind(self.keys.get("model_type")))
        family = families.FAMILIES[name]
        if architectures and architectures != [family.architecture]:
            raise self.error("architectures", "[%s]" % family.architecture, quoted(architectures))
        return family

    def size(self, key, value):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= model.LARGEST_SIZE:
            raise self.error(key, "a whole number from 1 to %d" % model.LARGEST_SIZE, jsonfile.kind(value))
        return value

    def number(self, key, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, "a number", jsonfile.kind(value))
        return float(value)

    def flag(self, key, value):
        if not isinstance(value, bool):
            raise self.error(key, "true or false", jsonfile.kind(value))
        return value

    def config(self, more_eos=None, more_eos_file=""):
        """The whole config in our words. more_eos: eos_token_id of generation_config.json, which also ends a text."""
        if self.keys.get("quantization_config") is not None:
            raise self.error("quantization_config", "weights that are not quantized",
                             jsonfile.kind(self.keys["quantization_config"].get("quant_method", "one")
                                           if isinstance(self.keys["quantization_config"], dict) else "one"))
        c = {"family": self.family.name}
        for key, (ours, kind, default) in self.family.keys.items():
            c[ours] = getattr(self, kind)(key, self.take(key, default))
        act = self.take("hidden_act", "silu")
        if act not in ("silu", "swish"):
            raise self.error("hidden_act", "'silu'", jsonfile.kind(act))
        self._heads(c)
        for key, ours in self.family.biases.items():
            on = self.flag(key, self.take(key, False))
            c.update((name, on) for name in ours)
        for key in ("attention_bias", "mlp_bias"):   # a family without the key: only "no" agrees with its tensors
            if key in self.left and self.keys[key] is False:
                self.left.discard(key)
        self._rope(c)
        self._window(c)
        c["bos"] = self._ids("bos_token_id", self.take("bos_token_id", self.family.bos), self.path)[:1]
        c["bos"] = c["bos"][0] if c["bos"] else -1
        c["eos"] = self._ids("eos_token_id", self.take("eos_token_id", self.family.eos), self.path)
        c["eos"] += [i for i in self._ids("eos_token_id", more_eos, more_eos_file) if i not in c["eos"]]
        self._leftovers()
        return model.make_config(self.path, **c)

    def _heads(self, c):
        kv_heads = self.take("num_key_value_heads", self.family.kv_heads)
        c["kv_heads"] = c["heads"] if kv_heads is None else self.size("num_key_value_heads", kv_heads)
        head_dim = self.take("head_dim")
        if head_dim is None and c["d_model"] % c["heads"]:
            raise self.error("hidden_size", "a multiple of num_attention_heads %d, or a head_dim" % c["heads"], c["d_model"])
        c["head_dim"] = c["d_model"] // c["heads"] if head_dim is None else self.size("head_dim", head_dim)

    def _ids(self, key, value, file):
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, int) or i < 0:
                raise bad(file, key, "an id, a list of ids or null", jsonfile.kind(i))
        return list(dict.fromkeys(ids))

    def _rope(self, c):
        """rope_parameters (v5) holds theta and scaling; rope_theta and rope_scaling (v4) are two keys. Both must agree."""
        old, new = self.take("rope_scaling"), self.take("rope_parameters")
        theta = self.take("rope_theta")
        for key, value in (("rope_scaling", old), ("rope_parameters", new)):
            if value is not None and not isinstance(value, dict):
                raise self.error(key, "an object or null", jsonfile.kind(value))
        where = "rope_parameters" if new else "rope_scaling"
        rope = dict(new or old or {})
        theta_inside = rope.pop("rope_theta", None)
        if theta is not None and theta_inside is not None and theta != theta_inside:
            raise self.error("rope_theta", "what %s says, %s" % (where, jsonfile.kind(theta_inside)), jsonfile.kind(theta))
        if new and old and {k: v for k, v in self._rope_words(old).items() if k != "rope_theta"} != \
                {k: v for k, v in self._rope_words(new).items() if k != "rope_theta"}:
            raise self.error("rope_scaling", "the same as rope_parameters", "other values")
        theta = theta_inside if theta is None else theta
        c["theta"] = self.family.theta if theta is None else self.number("rope_theta", theta)
        c["rope"] = self._rope_object(where, self._rope_words(rope), c)

    def _rope_words(self, rope):
        """'type' is the older spelling of 'rope_type'."""
        rope = dict(rope)
        old = rope.pop("type", None)
        if old is not None and rope.setdefault("rope_type", old) != old:
            raise self.error("rope type", jsonfile.kind(rope["rope_type"]), jsonfile.kind(old), "rope_type and type")
        return rope

    def _rope_object(self, where, rope, c):
        kind = rope.pop("rope_type", None) or "default"
        if rope and all(isinstance(v, dict) for v in rope.values()):
            raise self.error(where, "one set of values", "one for each of " + ", ".join(quoted(k) for k in rope))
        if not isinstance(kind, str) or kind not in families.ROPE_TYPES:
            raise self.error("%s.rope_type" % where, "one of " + ", ".join(families.ROPE_TYPES), jsonfile.kind(kind))
        rotated = rope.pop("partial_rotary_factor", None)
        if rotated not in (None, 1):
            raise self.error("partial_rotary_factor", "1", jsonfile.kind(rotated))
        words = families.ROPE_TYPES[kind]
        result = {"type": kind}
        for key, (ours, needed) in words.items():
            value = rope.pop(key, None)
            if value is None and needed:
                raise self.error("%s.%s" % (where, key), "a number", "no such key")
            if value is not None:
                result[ours] = self.flag(key, value) if ours == "truncate" else self.number("%s.%s" % (where, key), value)
        for key in rope:
            if rope[key] is not None and kind != "default" and key not in self.ignored:
                raise self.error("%s.%s" % (where, quoted(key)), "", "unknown key for rope type %s" % kind)
        if "original_max_position_embeddings" in words:   # absent: the context of the config (transformers' rule)
            result.setdefault("original_n_ctx", float(c["n_ctx"]))
        if kind == "yarn":
            result.setdefault("factor", c["n_ctx"] / max(1.0, result["original_n_ctx"]))
        return result

    def _window(self, c):
        """sliding_window null: no window; absent: the family's default. layer_types has to be one kind throughout."""
        absent = self.family.sliding_window
        window = self.take("sliding_window", absent) if absent is not None else None
        c["window"] = 0 if window is None else self.size("sliding_window", window)
        types = self.take("layer_types")
        if types is None:
            return
        if not isinstance(types, list) or len(types) != c["n_layers"]:
            raise self.error("layer_types", "%d entries" % c["n_layers"], "%d" % len(types) if isinstance(types, list)
                             else jsonfile.kind(types))
        expected = "sliding_attention" if c["window"] else "full_attention"
        for n, name in enumerate(types):
            if name != expected:
                raise self.error("layer_types[%d]" % n, "'%s'" % expected, jsonfile.kind(name),
                                 "sliding_window %d" % c["window"] if c["window"] else "no sliding_window")

    def _leftovers(self):
        for key in sorted(self.left - self.ignored):
            value = self.keys[key]
            if value is None or key in families.HARMLESS:
                continue
            allowed = families.HARMLESS_VALUES.get(key)
            if allowed is None:
                raise self.error("key '%s'" % quoted(key), "", "unknown, and may change the result",
                                 "--ignore-key %s takes it as unneeded" % quoted(key))
            if value not in allowed:
                raise self.error(key, " or ".join(jsonfile.kind(v) for v in allowed), jsonfile.kind(value))
        for key in sorted(self.ignored):
            self.warnings.append("%s: key '%s' ignored as asked" % (self.path, quoted(key)))

    def dtype_notes(self, weights):
        """torch_dtype only says what a loader should make of the weights: the tensors decide."""
        said = self.keys.get("torch_dtype", self.keys.get("dtype"))
        names = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
        if not isinstance(said, str) or said.replace("torch.", "") not in names:
            return []
        said = said.replace("torch.", "")
        others = sorted({w.dtype for w in weights.values()} - {names[said]})
        return ["config says %s; tensors stored as %s are taken as they are" % (said, ", ".join(others))] if others else []


# ---- tensors ----

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
