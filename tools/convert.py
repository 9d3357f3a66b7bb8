#!/usr/bin/env python3
"""Published weights as a model file of tblock: tools/convert.py SRC -o model.bin (docs/convert.md).

A Llama folder of Hugging Face is written here, with numpy: this is docs/format.md as a program.
`tblock convert` writes the same bytes (tests/convert/test_script.py), so each checks the other. It
takes over what is not known here (handover.py): other families, formats and types of weights,
anything unusual, tokenizers; and it tells what is wrong with a source."""
import collections
import hashlib
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True
import handover  # noqa: E402
from handover import expect  # noqa: E402
try:
    import numpy as np
except ImportError:
    np = handover.no_numpy()


def read(path, begin=0, n=-1, kind="u1"):
    expect(os.path.isfile(path), path)
    return np.fromfile(path, kind, n, offset=begin)


def read_json(path, begin=0, n=-1):
    """An object. What readers of JSON disagree about is not known here: a key twice, NaN, numbers
    beyond a double, half a surrogate pair, deep nesting."""
    def once(items):
        expect(len(dict(items)) == len(items), path)
        return dict(items)

    def finite(kind):
        return lambda text: expect(abs(float(text)) < float("inf"), path) or kind(text)

    def depth(value):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0) if isinstance(value, (dict, list)) else 0
    result = json.loads(read(path, begin, n).tobytes().decode("utf-8"), object_pairs_hook=once,
                        parse_constant=lambda name: expect(False, path),
                        parse_int=finite(int), parse_float=finite(float))
    expect(isinstance(result, dict) and depth(result) < 60, path)
    expect(b"\\u0000" not in json.dumps(result, ensure_ascii=False).encode("utf-8"), path)
    return result


# ---- The config: config.json in the words of docs/format.md, section Config ----

ROPE = {"default": {}, "linear": {"factor": "factor"}, "llama3": {
    "factor": "factor", "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor", "original_max_position_embeddings": "original_n_ctx"}}
# Keys that change nothing in a model that is run, and keys that change nothing with this value.
HARMLESS = """architectures model_type transformers_version torch_dtype dtype _name_or_path
    use_cache initializer_range attention_dropout pretraining_tp pad_token_id""".split()
USUAL = {"hidden_act": '"silu"', "attention_bias": "false", "mlp_bias": "false"}


def take(keys, key, kind=int, least=1, most=1 << 20):
    """A number, taken out of the keys; published models lie in these ranges. A whole one becomes an
    int, so that json.dumps spells every number as docs/format.md wants it."""
    value = keys.pop(key, None)
    expect(type(value) in (int, kind) and least <= value <= most, key)
    return int(value) if value == int(value) else value


def take_ids(keys, key, vocab_size):
    expect(key in keys, key)
    ids = keys.pop(key)
    ids = ids if isinstance(ids, list) else [] if ids is None else [ids]
    expect(all(type(i) is int and 0 <= i < vocab_size for i in ids), key)
    return ids


def take_rope(keys):
    """theta, and the object `rope`. rope_parameters is how newer configs write both."""
    both = ("rope_parameters", "rope_scaling")
    given = [keys.pop(key) for key in both if keys.get(key) is not None]
    expect(len(given) < 2 and isinstance((given + [{}])[0], dict), "rope_scaling")
    given = dict((given + [{}])[0])
    places = [k for k in (keys, given) if k.get("rope_theta") is not None]
    expect(len(places) == 1, "rope_theta")
    theta = take(places[0], "rope_theta", float, 1, 1e12)
    kinds = [given.pop(key) for key in ("rope_type", "type") if given.get(key) is not None]
    kind = (kinds + ["default"])[0]
    expect(len(kinds) < 2 and kind in ROPE, "rope_type")
    rope = {ours: take(given, key, float) for key, ours in ROPE[kind].items()}
    expect(not given and rope.get("low_freq_factor", 0) < rope.get("high_freq_factor", 1), kind)
    return theta, dict({"type": kind}, **rope)


def make_config(keys, generation):
    """In the order in which it is written. A key of config.json that is left over at the end may
    change what the model computes, unless it is known as harmless."""
    expect(keys.get("model_type") == "llama", "model_type")
    expect(keys.get("architectures") in (None, ["LlamaForCausalLM"]), "architectures")
    d_model, heads = take(keys, "hidden_size"), take(keys, "num_attention_heads", most=1 << 14)
    keys["head_dim"] = d_model / heads if keys.get("head_dim") is None else keys["head_dim"]
    head_dim = take(keys, "head_dim", float, 2, 1 << 13)
    vocab_size, tied = take(keys, "vocab_size"), keys.pop("tie_word_embeddings", False)
    theta, rope = take_rope(keys)
    bos = take_ids(keys, "bos_token_id", vocab_size) or [-1]
    eos = take_ids(keys, "eos_token_id", vocab_size)
    eos += take_ids(dict({"eos_token_id": []}, **generation), "eos_token_id", vocab_size)
    config = {
        "family": "llama", "d_model": d_model,
        "n_layers": take(keys, "num_hidden_layers", most=1 << 12), "heads": heads,
        "kv_heads": take(keys, "num_key_value_heads"), "head_dim": head_dim,
        "d_ff": take(keys, "intermediate_size"), "vocab_size": vocab_size, "theta": theta,
        "norm_eps": take(keys, "rms_norm_eps", float, 1e-30, 1),
        "n_ctx": take(keys, "max_position_embeddings"), "tied_embeddings": tied,
        "norm": "rms", "norm_placement": "pre", "ffn": "swiglu", "qkv_bias": False,
        "out_bias": False, "ffn_bias": False, "qk_norm": False, "window": 0,
        "positions": "rope", "rope": rope, "bos": bos[0], "eos": list(dict.fromkeys(eos))}
    expect(head_dim % 2 == 0 and head_dim * heads <= 1 << 20, "head_dim")
    expect(heads % config["kv_heads"] == 0 and type(tied) is bool, "num_key_value_heads")
    expect(len(bos) == 1 and len(config["eos"]) <= 16, "eos_token_id")
    for key, value in keys.items():
        expect(json.dumps(value) == USUAL[key] if key in USUAL else
               value is None or key in HARMLESS, key)
    return config


# ---- The source: tensors in safetensors files ----

SIZE = {"F32": 4, "F16": 2, "BF16": 2}   # weights are read as integers of this size: no bit changes
Stored = collections.namedtuple("Stored", "path dtype shape begin n_bytes")


def read_safetensors(path):
    """({name: Stored}, metadata) of a file: a length, a JSON header, data without holes."""
    def counts(list_):
        expect(type(list_) is list and all(type(i) is int and i >= 0 for i in list_), path)
        return list_
    size, n = os.path.getsize(path), int.from_bytes(read(path, 0, 8).tobytes(), "little")
    expect(8 <= size and n <= min(size - 8, 100_000_000) and read(path, 8, 1) == ord("{"), path)
    header, at, tensors = read_json(path, 8, n), 8 + n, {}
    metadata = header.pop("__metadata__", {})
    expect(type(metadata) is dict and all(type(t) is str for t in metadata.values()), path)
    for name, e in sorted(header.items(), key=lambda item: counts(item[1]["data_offsets"])):
        begin, end = e["data_offsets"]
        expect(8 + n + begin == at and begin <= end and len(e) == 3, name)
        tensors[name] = Stored(path, e["dtype"], tuple(counts(e["shape"])), at, end - begin)
        at += end - begin
    expect(at == size, path)
    return tensors, metadata


def read_folder(folder, files):
    """The tensors of model.safetensors, or of the shards in its index; files gets what was read."""
    files.append(os.path.join(folder, "model.safetensors"))
    if os.path.exists(files[-1]):
        return read_safetensors(files[-1])[0]
    files[-1] += ".index.json"
    shard_of, tensors = read_json(files[-1])["weight_map"], {}
    expect(isinstance(shard_of, dict), files[-1])
    for shard in dict.fromkeys(shard_of.values()):
        expect(shard == os.path.basename(shard), shard)
        files.append(os.path.join(folder, shard))
        tensors.update(read_safetensors(files[-1])[0])
    expect({name: os.path.basename(t.path) for name, t in tensors.items()} == shard_of, folder)
    return tensors


# ---- Weights (docs/format.md, sections Tensors and Panels) ----

LAYER = {"attn_norm": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj",
         "wv": "self_attn.v_proj", "wo": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
         "w_gate": "mlp.gate_proj", "w_up": "mlp.up_proj", "w_down": "mlp.down_proj"}
Entry = collections.namedtuple("Entry", "name dtype shape n_bytes pieces")   # of the model file


def tensor_list(c):
    """[(our name, their name, shape)] in the order of a forward pass."""
    d, ff, vocab = c["d_model"], c["d_ff"], c["vocab_size"]
    q, kv = c["heads"] * c["head_dim"], c["kv_heads"] * c["head_dim"]
    shapes = ((d,), (q, d), (kv, d), (kv, d), (d, q), (d,), (ff, d), (ff, d), (d, ff))
    names = [("embed", "model.embed_tokens.weight", (vocab, d))]
    for n in range(c["n_layers"]):
        names += [("layers.%d.%s" % (n, ours), "model.layers.%d.%s.weight" % (n, theirs), shape)
                  for (ours, theirs), shape in zip(LAYER.items(), shapes)]
    names.append(("final_norm", "model.norm.weight", (d,)))
    return names if c["tied_embeddings"] else names + [("lm_head", "lm_head.weight", (vocab, d))]


def panels(bits, pair):
    """[rows, k] as panels of 16 rows, column by column (bf16: pairs of columns). The rest is 0."""
    bits = np.pad(bits, ((0, -bits.shape[0] % 16), (0, -bits.shape[1] % pair)))
    return bits.reshape(len(bits) // 16, 16, -1, pair).transpose(0, 2, 1, 3)


def pieces(t, packed):
    """The bytes of a tensor, some 4 MB of rows at a time. A vector is one row and becomes F32."""
    size, (rows, k) = SIZE[t.dtype], t.shape if len(t.shape) == 2 else (1, t.shape[0])
    step = max(16, (4 << 20) // (k * size) // 16 * 16)
    for row in range(0, rows, step):
        n = min(step, rows - row)
        bits = read(t.path, t.begin + row * k * size, n * k, "<u%d" % size).reshape(n, k)
        if len(t.shape) == 1:
            bits = bits.astype("<u4") << np.uint32(16) if t.dtype == "BF16" else \
                bits.view("<f%d" % size).astype("<f4")
        elif t.dtype == "BF16":   # under 2^-50, 0x2680, becomes 0 (docs/numerics.md, "--math bf16")
            bits[(bits << np.uint16(1) > 0) & (bits & np.uint16(0x7FFF) < 0x2680)] = 0
        yield panels(bits, 2 if t.dtype == "BF16" else 1) if packed else bits


def weights(config, tensors, layout):
    """Matrices keep their type. An embedding that is only gathered from stays row-major."""
    for ours, theirs, shape in tensor_list(config):
        t = tensors.pop(theirs, None)
        expect(t and t.shape == shape and t.dtype in SIZE, theirs)
        expect(t.n_bytes == np.prod(shape) * SIZE[t.dtype], theirs)
        dtype, matrix = t.dtype if len(shape) == 2 else "F32", len(shape) == 2
        packed = matrix and layout == "rows16" and (ours != "embed" or config["tied_embeddings"])
        if packed:
            n, k = -(-shape[0] // 16), shape[1]
            shape = (n, -(-k // 2), 16, 2) if dtype == "BF16" else (n, k, 16)
        yield Entry(ours, dtype, shape, int(np.prod(shape)) * SIZE[dtype], pieces(t, packed))
    expect(not tensors, "more tensors than the config asks for")


# ---- The model file (docs/format.md, its first section and Metadata) ----

def aligned(entries):
    """With tensors pad.N between, so that each begins on 64 bytes and there are no holes."""
    at = n = 0
    for e in entries:
        gap = -at % 64
        if gap:
            yield Entry("pad.%d" % n, "U8", (gap,), gap, [np.zeros(gap, "u1")])
        at, n = at + gap + e.n_bytes, n + (gap > 0)
        yield e


def header(metadata, entries):
    lines, at = ['"__metadata__": %s' % json.dumps(metadata)], 0
    for e in entries:
        place = {"dtype": e.dtype, "shape": e.shape, "data_offsets": [at, at + e.n_bytes]}
        lines.append("%s: %s" % (json.dumps(e.name), json.dumps(place)))
        at += e.n_bytes
    text = ("{%s}" % ",\n".join(lines)).encode()
    text += b" " * (-(8 + len(text)) % 4096)
    return len(text).to_bytes(8, "little") + text


def sync_folder(path):
    """What was renamed in it stays so after a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(path, metadata, entries):
    """Under a temporary name, which becomes the file's at the end; synced before and after. The hash is filled in last."""
    name = ".%s.%d.tmp" % (os.path.basename(path), os.getpid())
    temporary, digest = os.path.join(os.path.dirname(path), name), hashlib.sha256()
    try:
        with open(temporary, "xb") as f:
            f.write(header(metadata, entries))
            for piece in (np.ascontiguousarray(p) for e in entries for p in e.pieces):
                digest.update(piece)
                f.write(piece)
            f.seek(0)
            f.write(header(dict(metadata, sha256=digest.hexdigest()), entries))
            f.flush()
            os.fsync(f.fileno())
        if os.path.exists(path):
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path) or ".")
    except FileExistsError:   # another process writes there
        raise
    except BaseException:     # Ctrl-C may come as soon as the file is there, before open has returned
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def sha256(path):
    digest = hashlib.sha256()
    for at in range(0, os.path.getsize(path), 4 << 20):
        digest.update(read(path, at, 4 << 20))
    return digest.hexdigest()


def may_write(out, src):
    """A new file, or one that may be replaced: no link, no device, no file of the folder, which may
    have another name there."""
    return not os.path.lexists(out) or (
        os.path.isfile(out) and not os.path.islink(out) and os.access(out, os.W_OK)
        and not any(os.path.samefile(out, os.path.join(src, name)) for name in os.listdir(src)))


def convert(src, out, layout, tokenizer):
    """Write the model file of a folder, which is then described. tokenizer: a model file with the
    folder's tokenizer, or None."""
    expect(np is not None, "no numpy")
    tensors, made = read_safetensors(tokenizer) if tokenizer else ({}, {})
    files = [os.path.join(src, name) for name in ("config.json", "generation_config.json")]
    files = [path for path in files if os.path.exists(path)]
    expect(files and files[0].endswith("/config.json"), "no config.json")
    expect(may_write(out, src), out)
    config = make_config(*([read_json(path) for path in files] + [{}])[:2])
    entries = list(weights(config, read_folder(src, files), layout))
    n_params = sum(np.prod(shape) for _, _, shape in tensor_list(config))
    n_bytes = sum(e.n_bytes for e in entries)
    entries += [Entry(name, t.dtype, t.shape, t.n_bytes, [read(t.path, t.begin, t.n_bytes)])
                for name, t in tensors.items() if name.startswith("tok.")]
    sources = [{"file": os.path.basename(path), "sha256": sha256(path)} for path in files]
    sources += json.loads(made.get("source", "[]"))
    metadata = {"format": "tblock", "version": "1", "config": json.dumps(config),
                "source": json.dumps(sources), "sha256": "0" * 64}
    for key in ("tokenizer", "chat_template", "chat_template_tools", "special_tokens"):
        metadata.update({key: made[key]} if key in made else {})
    metadata.update({"bf16_min": "2^-50"} if any(e.dtype == "BF16" for e in entries) else {})
    write(out, metadata, list(aligned(entries)))
    return "%s: Hugging Face folder, %d parameters, %d bytes of weights\n" % (
        out, n_params, n_bytes)


if __name__ == "__main__":
    sys.exit(handover.command(sys.argv[1:], convert))
