"""config.json of a Hugging Face folder to our config: both dialects, absent keys, and the refusal of what is not known.
The families' keys and defaults are tables in families.py."""
import math

from .errors import bad, quoted
from . import families, jsonfile, model

SLIDING, FULL = "sliding_attention", "full_attention"
LARGEST_ID = 2**31 - 1


def same(a, b):
    """Equal as JSON: true is not 1, 1.0 is."""
    return isinstance(a, bool) == isinstance(b, bool) and a == b


def wrapped(path, keys):
    """The keys of the text part of a model of several kinds of input, and the pattern of the other parts' tensors; keys and
    None for any other."""
    wrapper = families.WRAPPERS.get(keys.get("model_type")) if isinstance(keys.get("model_type"), str) else None
    if not wrapper:
        return keys, None
    key, name, others = wrapper
    inner = dict(jsonfile.member(keys, key, dict, path))
    if inner.setdefault("model_type", name) != name:
        raise bad(path, key + ".model_type", "'%s'" % name, jsonfile.kind(inner["model_type"]))
    for outer in ("architectures", "bos_token_id", "eos_token_id", "tie_word_embeddings", "torch_dtype", "dtype",
                  "quantization_config"):
        if outer in keys and keys[outer] is not None:
            inner[outer] = keys[outer]
    return inner, others


class ConfigReader:
    """Takes keys out of config.json one by one; what is left over at the end has to be harmless."""

    def __init__(self, path, keys, ignored_keys=()):
        self.path, self.ignored = path, set(ignored_keys)
        for name in self.ignored - set(keys):
            raise bad(path, "--ignore-key", "a key of this config", "'%s'" % quoted(name))
        self.keys, self.others = wrapped(path, keys)
        self.left = set(self.keys)
        self.warnings = []
        self.family = self._family()

    def error(self, key, expected, found, hint=""):
        return bad(self.path, key, expected, found, hint)

    def take(self, key, default=None):
        """The value of a key, default when it is absent."""
        self.left.discard(key)
        return self.keys.get(key, default)

    def take_any(self, spellings, default=None):
        """The same for a key of several spellings, which have to agree; and the spelling that was found."""
        found = [k for k in spellings.split("|") if self.keys.get(k) is not None] or spellings.split("|")[:1]
        for other in found[1:]:
            if not same(self.keys[other], self.keys[found[0]]):
                raise self.error(other, "the same as %s, %s" % (found[0], jsonfile.kind(self.keys[found[0]])),
                                 jsonfile.kind(self.keys[other]))
        for key in spellings.split("|"):
            self.left.discard(key)
        return self.keys.get(found[0], default), found[0]

    def _family(self):
        known = ", ".join(list(families.FAMILIES) + list(families.WRAPPERS))
        name = self.keys.get("model_type")
        architectures = jsonfile.member(self.keys, "architectures", list, self.path)
        if name is None:   # very old folders have the architecture alone
            name = next((f.name for f in families.FAMILIES.values() if f.architectures[0] in architectures), None)
        if not isinstance(name, str) or name not in families.FAMILIES:
            raise self.error("model_type", "one of " + known, jsonfile.kind(self.keys.get("model_type")))
        family = families.FAMILIES[name]
        if architectures and (len(architectures) != 1 or architectures[0] not in family.architectures):
            raise self.error("architectures", "[%s]" % " or ".join(family.architectures), quoted(architectures))
        return family

    # ---- kinds of values ----

    def size(self, key, value):
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= model.LARGEST_SIZE:
            raise self.error(key, "a whole number from 1 to %d" % model.LARGEST_SIZE, jsonfile.kind(value))
        return value

    def size_or_4d(self, key, value):
        return None if value is None else self.size(key, value)   # config() knows d_model

    def number(self, key, value):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(key, "a number", jsonfile.kind(value))
        return float(value)

    def positive(self, key, value):
        if self.number(key, value) <= 0:
            raise self.error(key, "a number above 0", jsonfile.kind(value))
        return float(value)

    def or_null(self, key, value):
        return 0.0 if value is None else self.positive(key, value)

    def inverse(self, key, value):
        return 1.0 / self.positive(key, value)

    def inverse_root(self, key, value):
        return 1.0 / math.sqrt(self.positive(key, value))

    def flag(self, key, value):
        if not isinstance(value, bool):
            raise self.error(key, "true or false", jsonfile.kind(value))
        return value

    # ---- the config ----

    def config(self, more_eos=None, more_eos_file=""):
        """The whole config in our words. more_eos: eos_token_id of generation_config.json, which also ends a text."""
        if self.keys.get("quantization_config") is not None:
            raise self.error("quantization_config", "weights that are not quantized",
                             jsonfile.kind(self.keys["quantization_config"].get("quant_method", "one")
                                           if isinstance(self.keys["quantization_config"], dict) else "one"))
        c = {"family": self.family.name}
        for key, (ours, kind, default) in self.family.keys.items():
            value, key = self.take_any(key, default)
            c[ours] = getattr(self, kind)(key, value)
        if c["d_ff"] is None:
            c["d_ff"] = self.size("n_inner", 4 * c["d_model"])
        for ours, value in self.family.fixed.items():
            c[ours] = c[value] if value in c else value
        if self.family.embed_scale:
            c["embed_scale"] = math.sqrt(c["d_model"])
        self._activation(c)
        self._heads(c)
        for key, (default, names) in self.family.biases.items():
            on = self.flag(key, self.take(key, default))
            c.update((name, on) for name in names)
        for key, (default, ours, if_true, if_false) in self.family.switches.items():
            c[ours] = if_true if self.flag(key, self.take(key, default)) else if_false
        self._rope(c)
        self._window(c)
        self._experts(c)
        bos = self._ids("bos_token_id", self.take("bos_token_id", self.family.bos), self.path, c)
        c["bos"] = bos[0] if bos else -1
        c["eos"] = self._ids("eos_token_id", self.take("eos_token_id", self.family.eos), self.path, c)
        c["eos"] += [i for i in self._ids("eos_token_id", more_eos, more_eos_file, c) if i not in c["eos"]]
        self._leftovers()
        return model.make_config(self.path, **c)

    def _activation(self, c):
        *names, default = self.family.activation
        key = next((k for k in names if self.keys.get(k) is not None), names[0])
        word = self.keys.get(key)
        word = default if word is None else word
        for k in names:
            self.left.discard(k)
        given = word
        if word == "gelu" and self.family.gelu_is_tanh:
            word = "gelu_pytorch_tanh"
        which = 0 if self.family.gated else 1
        known = {name: kinds[which] for name, kinds in families.ACTIVATIONS.items() if kinds[which]}
        if not isinstance(word, str) or word not in known:
            raise self.error(key, "one of " + ", ".join(known), jsonfile.kind(given))
        c["ffn"] = known[word]

    def _heads(self, c):
        kv_heads = c["heads"]
        if self.family.kv_heads != 0:
            given = self.take("num_key_value_heads", self.family.kv_heads)
            kv_heads = kv_heads if given is None else self.size("num_key_value_heads", given)
        c["kv_heads"] = kv_heads
        head_dim = self.take("head_dim", self.family.head_dim) if self.family.head_dim != 0 else None
        if head_dim is None and c["d_model"] % c["heads"]:
            raise self.error("hidden_size", "a multiple of num_attention_heads %d%s" % (
                c["heads"], ", or a head_dim" if self.family.head_dim != 0 else ""), c["d_model"])
        c["head_dim"] = c["d_model"] // c["heads"] if head_dim is None else self.size("head_dim", head_dim)

    def _ids(self, key, value, file, c):
        """Ids of the vocabulary; those outside of it (a family's default in a smaller model) never occur and are left out."""
        ids = [] if value is None else value if isinstance(value, list) else [value]
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, (int, float)) or i != int(i) or not 0 <= i <= LARGEST_ID:
                raise bad(file, key, "an id, a list of ids or null", jsonfile.kind(i))
            if i >= c["vocab_size"] and (key in self.keys or file != self.path):
                self.warnings.append("%s: %s: %d is outside of vocab_size %d: left out" % (file, key, i, c["vocab_size"]))
        return [int(i) for i in dict.fromkeys(ids) if i < c["vocab_size"]]

    # ---- rope ----

    def _rope(self, c):
        """rope_parameters (v5) holds theta and scaling; rope_theta and rope_scaling (v4) are two keys. Both must agree."""
        family = self.family
        c["rotary_dim"], c["rope"] = c["head_dim"], {"type": "default"}
        if family.theta_key is None:   # no rope at all
            return
        old, new = self.take("rope_scaling"), self.take("rope_parameters")
        theta, theta_key = self.take_any(family.theta_key)
        local = self.take("rope_local_base_freq") if family.theta_window else None
        share = self.take_any(family.rotary_key)[0] if family.rotary else None
        for key, value in (("rope_scaling", old), ("rope_parameters", new)):
            if value is not None and not isinstance(value, dict):
                raise self.error(key, "an object or null", jsonfile.kind(value))
        where = "rope_parameters" if new else "rope_scaling"
        if new and family.theta_window and any(k in new for k in (SLIDING, FULL)):
            for key, value in new.items():
                if value is not None and not isinstance(value, dict):
                    raise self.error("%s.%s" % (where, key), "an object", jsonfile.kind(value))
            local = self._local_theta(new, local)
            where += "." + FULL
            new = self._nested(new, FULL, where)
        rope = dict(new or old or {})
        theta_inside, share_inside = rope.pop("rope_theta", None), rope.pop("partial_rotary_factor", None)
        if theta is not None and theta_inside is not None and not same(theta, theta_inside):
            raise self.error(theta_key, "what %s says, %s" % (where, jsonfile.kind(theta_inside)), jsonfile.kind(theta))
        if new and old and self._without_theta(old) != self._without_theta(new):
            raise self.error("rope_scaling", "the same as rope_parameters", "other values")
        theta = theta_inside if theta is None else theta
        c["theta"] = family.theta if theta is None else self.number(theta_key, theta)
        if family.theta_window:
            c["theta_window"] = family.theta_window if local is None else self.number("rope_local_base_freq", local)
        self._rotary(c, share, share_inside)
        c["rope"] = self._rope_object(where, self._rope_words(rope), c)

    def _nested(self, rope, key, where):
        value = rope.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.error(where, "an object", jsonfile.kind(value))
        return value or {}

    def _local_theta(self, rope, local):
        """theta of rope_parameters.sliding_attention, which is never scaled."""
        where = "rope_parameters." + SLIDING
        inside = self._rope_words(self._nested(rope, SLIDING, where))
        if inside.get("rope_type", "default") not in ("default", None):
            raise self.error(where + ".rope_type", "'default'", jsonfile.kind(inside["rope_type"]))
        theta = inside.get("rope_theta")
        if local is not None and theta is not None and not same(local, theta):
            raise self.error("rope_local_base_freq", "what %s says, %s" % (where, jsonfile.kind(theta)), jsonfile.kind(local))
        return theta if local is None else local

    def _rotary(self, c, share, inside):
        """The share of each head that is rotated, in whole dimensions."""
        if share is not None and inside is not None and not same(share, inside):
            raise self.error("partial_rotary_factor", "the same as in rope_parameters, %s" % jsonfile.kind(inside),
                             jsonfile.kind(share))
        share = inside if share is None else share
        if not self.family.rotary:
            if share is not None and not same(share, 1):
                raise self.error("partial_rotary_factor", "1", jsonfile.kind(share))
            return
        share = self.family.rotary if share is None else self.number("partial_rotary_factor", share)
        c["rotary_dim"] = int(c["head_dim"] * share) if 0 < share <= 1 else 0
        if c["rotary_dim"] < 2 or c["rotary_dim"] % 2:
            raise self.error("partial_rotary_factor", "an even number of dimensions of head_dim %d" % c["head_dim"],
                             "%.9g of them" % share)

    def _rope_words(self, rope):
        """'type' is the older spelling of 'rope_type'."""
        rope = dict(rope)
        old = rope.pop("type", None)
        if old is not None and rope.setdefault("rope_type", old) != old:
            raise self.error("rope type", jsonfile.kind(rope["rope_type"]), jsonfile.kind(old), "rope_type and type")
        return rope

    def _without_theta(self, rope):
        return {k: v for k, v in self._rope_words(rope).items() if k not in ("rope_theta", "partial_rotary_factor")}

    def _rope_object(self, where, rope, c):
        kind = rope.pop("rope_type", None)
        kind = "default" if kind is None else kind
        if rope and all(isinstance(v, dict) for v in rope.values()):
            raise self.error(where, "one set of values", "one for each of " + ", ".join(quoted(k) for k in rope))
        known = self.family.rope_types or tuple(families.ROPE_TYPES)
        if not isinstance(kind, str) or kind not in known:
            raise self.error("%s.rope_type" % where, "one of " + ", ".join(known), jsonfile.kind(kind))
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

    # ---- windows ----

    def _window(self, c):
        """sliding_window null: no window; absent: the family's default. Which layers have it is the family's rule:
          all      every layer
          last     where use_sliding_window is true, from layer max_window_layers on
          moe      the same, in the layers that layer_types names: versions of transformers disagree without it
          every n  all but each n-th layer"""
        rule, *values = self.family.window
        if rule == "none":
            window, full = None, set()
        else:
            absent = values[-1]
            if rule in ("last", "moe") and not self.flag("use_sliding_window", self.take("use_sliding_window", False)):
                self.left.discard("sliding_window")
                window = None
            else:
                window = self.take("sliding_window", absent)
            full = self._full_layers(rule, values, c["n_layers"], window)
        c["window"] = 0 if window is None else self.size("sliding_window", window)
        types = self.take("layer_types")
        if types is not None:
            full = self._layer_types(types, c, rule)
        if not c["window"] or len(full) == c["n_layers"]:   # nothing has a window
            c["window"], full = 0, set()
            c["theta_window"] = 0.0
        c["full_layers"] = sorted(full)

    def _full_layers(self, rule, values, n_layers, window):
        if rule == "last":
            first = self.take("max_window_layers")
            first = 28 if first is None else first
            if isinstance(first, bool) or not isinstance(first, (int, float)) or first != int(first) or not 0 <= first < 2**31:
                raise self.error("max_window_layers", "a number of layers", jsonfile.kind(first))
            return set(range(min(int(first), n_layers)))
        if rule == "every":
            every, _ = self.take_any("sliding_window_pattern|_sliding_window_pattern", values[0])
            every = self.size("sliding_window_pattern", values[0] if every is None else every)
            return {n for n in range(n_layers) if (n + 1) % every == 0}
        if rule == "moe" and window is not None and self.keys.get("layer_types") is None:
            raise self.error("layer_types", "the layers with a window, as use_sliding_window is true", "no such key")
        return set()

    def _layer_types(self, types, c, rule):
        """The layers without a window. Families with the same window everywhere must agree with it."""
        if not isinstance(types, list) or len(types) != c["n_layers"]:
            raise self.error("layer_types", "%d entries" % c["n_layers"], "%d" % len(types) if isinstance(types, list)
                             else jsonfile.kind(types))
        allowed = (SLIDING,) if c["window"] else (FULL,)
        if c["window"] and rule not in ("none", "all"):
            allowed = (SLIDING, FULL)
        for n, name in enumerate(types):
            if not isinstance(name, str) or name not in allowed:
                raise self.error("layer_types[%d]" % n, " or ".join("'%s'" % a for a in allowed), jsonfile.kind(name),
                                 "sliding_window %d" % c["window"] if c["window"] else "no sliding_window")
        return {n for n, name in enumerate(types) if name == FULL} if c["window"] else set()

    # ---- experts ----

    def _experts(self, c):
        """Which layers have experts: all but mlp_only_layers and those that decoder_sparse_step passes over."""
        if "n_experts" not in c:
            return
        dense = self.take("mlp_only_layers")
        dense = [] if dense is None else dense
        if not isinstance(dense, list) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in dense):
            raise self.error("mlp_only_layers", "an array of layers", jsonfile.kind(dense))
        step = self.size("decoder_sparse_step", self.take("decoder_sparse_step", 1))
        c["dense_layers"] = [n for n in range(c["n_layers"]) if n in dense or (n + 1) % step]
        if len(c["dense_layers"]) == c["n_layers"]:
            for key in ("n_experts", "experts_used", "expert_d_ff", "shared_d_ff", "renormalize", "shared_router",
                        "dense_layers"):
                c.pop(key, None)

    # ---- the rest ----

    def _leftovers(self):
        for key in sorted(self.left - self.ignored):
            value = self.keys[key]
            if value is None or key in families.HARMLESS or key in self.family.unused_keys:
                continue
            allowed = families.HARMLESS_VALUES.get(key)
            if allowed is None:
                raise self.error("key '%s'" % quoted(key), "", "unknown, and may change the result",
                                 "--ignore-key %s takes it as unneeded" % quoted(key))
            if not any(same(value, a) for a in allowed):
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
