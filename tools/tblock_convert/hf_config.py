"""config.json of a Hugging Face folder to our config: both dialects, absent keys, and the refusal of what is not known.
The families' keys and defaults are tables in families.py."""
from .errors import bad, quoted
from . import families, jsonfile, model


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
        architectures = jsonfile.member(self.keys, "architectures", list, self.path)
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
