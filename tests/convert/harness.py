"""What the converter's tests share: a conversion by `tblock convert`, a reader of model files by the letter of docs/format.md,
small sources made here, and the protocol: one line `ok NAME`, `FAIL NAME: why` or `skip NAME: why` for each claim.

  tests/convert/test_X.py [--list] [NAME ...]

Outputs are read back by the reader below, not by the program's own. Fixtures: tests/testdata.py."""
import contextlib
import functools
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "tests")]
sys.dont_write_bytecode = True
try:
    import numpy as np
except ImportError:
    print("skip %s: no numpy" % os.path.basename(sys.argv[0]))
    sys.exit(0)
import testdata  # noqa: E402

MODELS, TOKENIZERS, DATA = str(testdata.FIXTURES / "models"), str(testdata.FIXTURES / "tokenizers"), str(testdata.MORE)
TBLOCK = os.environ.get("TBLOCK") or os.path.join(ROOT, "build", "release", "tblock")
TEMP = None    # a folder of each test's own; see temp()
LEFT_OUT = []  # why parts of it were; see if_there()


# Two tensors of made(), by their names there.
Q = "model.layers.1.self_attn.q_proj.weight"
K = "model.layers.1.self_attn.k_proj.weight"


class Skip(Exception):
    pass


def need(*parts):
    """A path of the recorded data; what that folder lacks may be among ours."""
    path = os.path.join(*parts)
    if not os.path.exists(path):
        ours = path.replace(str(testdata.FIXTURES), str(testdata.OURS), 1)
        path = ours if os.path.exists(ours) else path
    if not os.path.exists(path):
        raise Skip("no data (%s)" % os.path.basename(path))
    return path


@contextlib.contextmanager
def if_there():
    """A part of a claim: left out where its data is not there, which the claim then says."""
    try:
        yield
    except Skip as why:
        LEFT_OUT.append(str(why))


def temp(name=""):
    """A file of this test's own folder, or the folder."""
    return os.path.join(TEMP, name) if name else TEMP


def convert(src, *options, out="out.bin"):
    """(status, stdout, stderr) of `tblock convert`."""
    done = tblock("convert", src, "-o", temp(out), *options)
    return done.returncode, done.stdout, done.stderr


def converted(src, *options, out="out.bin"):
    """The output of a conversion that has to succeed, read back."""
    status, _, err = convert(src, "--quiet", *options, out=out)
    assert status == 0, err
    return ModelFile(temp(out))


def refused(src, *expected, options=(), status=3):
    """The conversion is refused with one line that has all the expected parts, and nothing is left behind."""
    if os.path.exists(temp("refused.bin")):
        os.unlink(temp("refused.bin"))
    got, out, err = convert(src, *options, out="refused.bin")
    assert got == status, "status %d, expected %d: %s" % (got, status, err)
    assert err.startswith("tblock: ") and err.count("\n") == 1, "not one line: %r" % err
    for part in expected:
        assert part in err, "%r is not in %r" % (part, err)
    left = [n for n in os.listdir(TEMP) if "refused" in n]
    assert not left, "left behind: %s" % left


def tblock(*args):
    if not os.path.exists(TBLOCK):
        raise Skip("no program (%s)" % TBLOCK)
    return subprocess.run([TBLOCK] + [str(a) for a in args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


class ModelFile:
    """The output, by the letter of docs/format.md."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        n = struct.unpack_from("<Q", self.data)[0]
        self.start = 8 + n
        header = json.loads(self.data[8:self.start])
        self.meta = header.pop("__metadata__")
        self.header = header
        self.config = json.loads(self.meta["config"]) if "config" in self.meta else None
        self.tokenizer = json.loads(self.meta["tokenizer"]) if "tokenizer" in self.meta else None

    def bits(self, name):
        e = self.header[name]
        kind = {"U8": "<u1", "BF16": "<u2", "F16": "<u2", "F32": "<u4", "U32": "<u4", "I32": "<i4"}[e["dtype"]]
        begin, end = e["data_offsets"]
        return np.frombuffer(self.data[self.start + begin:self.start + end], kind).reshape(e["shape"])


def read_safetensors(path):
    """{name: (dtype, bits)} of a source file."""
    data = open(path, "rb").read()
    n = struct.unpack_from("<Q", data)[0]
    result = {}
    for name, e in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            b, end = e["data_offsets"]
            kind = {"F32": "<u4", "F64": "<u8", "I8": "<i1", "U8": "<u1", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F8_E4M3": "<u1",
                    "F8_E8M0": "<u1"}.get(e["dtype"], "<u2")
            result[name] = (e["dtype"], np.frombuffer(data[8 + n + b:8 + n + end], kind).reshape(e["shape"]))
    return result


def write_safetensors(path, tensors, metadata=None):
    header, at = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, bits) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(bits.shape), "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, bits in tensors.values():
            f.write(np.ascontiguousarray(bits).tobytes())


NAMES = {"attn_norm": "input_layernorm", "wq": "self_attn.q_proj", "wk": "self_attn.k_proj", "wv": "self_attn.v_proj",
         "wo": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm", "w_gate": "mlp.gate_proj",
         "w_up": "mlp.up_proj", "w_down": "mlp.down_proj"}


def hf_name(ours):
    """A second writing of the tensor names, so that the converter's table is not its own judge."""
    top = {"embed": "model.embed_tokens.weight", "final_norm": "model.norm.weight", "lm_head": "lm_head.weight"}
    if ours in top:
        return top[ours]
    _, layer, part = ours.split(".")
    bias = part.endswith("_bias")
    return "model.layers.%s.%s.%s" % (layer, NAMES[part[:-5] if bias else part], "bias" if bias else "weight")


def config_of(folder):
    return json.load(open(os.path.join(folder, "config.json")))


def source_tensors(folder):
    result = {}
    for name in sorted(os.listdir(folder)):
        if name.startswith("model") and name.endswith(".safetensors"):
            result.update(read_safetensors(os.path.join(folder, name)))
    return result


@functools.lru_cache(None)
def is_known(folder):
    """The test data may have families that we refuse still; those in the repository are known."""
    status, _, err = convert(folder, "--quiet", out="known.bin")
    assert status == 0 or not os.path.exists(os.path.join(ROOT, "tests", "data", "models", os.path.basename(folder))), err
    return status == 0


def all_models():
    names = sorted({*os.listdir(need(MODELS)), *os.listdir(str(testdata.OURS / "models"))})
    there = [n if os.path.exists(os.path.join(MODELS, n)) else os.path.join(str(testdata.OURS / "models"), n) for n in names]
    return [os.path.join(MODELS, n) for n in there if os.path.exists(os.path.join(MODELS, n, "config.json"))]


def known_models(prefixes=""):
    """Folders of models whose name begins so. Those with quantized linear layers: test_quantized_folders.py."""
    return [f for f in all_models() if os.path.basename(f).startswith(prefixes) and is_known(f)
            and (config_of(f).get("quantization_config") or {}).get("quant_method", "mxfp4") == "mxfp4"]


def fixtures():
    """The folders whose tensors hf_name can name: a Llama block, with biases or without."""
    return [f for f in known_models(("llama", "mistral", "stories")) if config_of(f)["model_type"] in ("llama", "mistral")]


def made(name="made", config=None, drop=(), tensors=None, files=None):
    """A small folder of our own: a Llama with every size different. config: changed keys; drop: keys left out; tensors: a
    function that changes the dictionary of tensors; files: {name: bytes} written beside."""
    folder = temp(name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    c = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 6, "num_key_value_heads": 2, "intermediate_size": 37, "vocab_size": 50, "torch_dtype": "float32",
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "bos_token_id": 1,
         "eos_token_id": 2, "rope_theta": 10000.0, "hidden_act": "silu"}
    c.update(config or {})
    for key in drop:
        del c[key]
    json.dump(c, open(os.path.join(folder, "config.json"), "w"))
    random = np.random.default_rng(5)
    shapes = {"model.embed_tokens.weight": (50, 24), "model.norm.weight": (24,), "lm_head.weight": (50, 24)}
    for n in range(2):
        for ours, shape in (("attn_norm", (24,)), ("wq", (24, 24)), ("wk", (8, 24)), ("wv", (8, 24)), ("wo", (24, 24)),
                            ("ffn_norm", (24,)), ("w_gate", (37, 24)), ("w_up", (37, 24)), ("w_down", (24, 37))):
            shapes[hf_name("layers.%d.%s" % (n, ours))] = shape
    t = {k: ("F32", random.standard_normal(s).astype("<f4").view("<u4")) for k, s in shapes.items()}
    if tensors:
        tensors(t)
    write_safetensors(os.path.join(folder, "model.safetensors"), t, {"format": "pt"})
    for key, value in (files or {}).items():
        with open(os.path.join(folder, key), "wb") as f:
            f.write(value if isinstance(value, bytes) else json.dumps(value).encode())
    return folder


def edited(fixture, config=None, drop=(), tensors=None):
    """A copy of a fixture's folder with other config keys and tensors {name: (dtype, bits)}."""
    source, folder = need(MODELS, fixture), temp("edited")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    c = json.load(open(os.path.join(source, "config.json")))
    c.update(config or {})
    for key in drop:
        del c[key]
    json.dump(c, open(os.path.join(folder, "config.json"), "w"))
    t = source_tensors(source)
    if tensors:
        tensors(t)
    write_safetensors(os.path.join(folder, "model.safetensors"), t)
    return folder


def sparse_folder(name, n_layers):
    """A folder whose weights are holes in a sparse file: 16 MB a layer, in the largest tensor 4 MB."""
    folder = temp(name)
    os.makedirs(folder, exist_ok=True)
    d, ff = 1024, 1024
    json.dump({"model_type": "llama", "hidden_size": d, "num_hidden_layers": n_layers, "num_attention_heads": 16,
               "num_key_value_heads": 16, "intermediate_size": ff, "vocab_size": 64, "tie_word_embeddings": True, "rope_theta": 1e4,
               "rms_norm_eps": 1e-5, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}, open(os.path.join(folder, "config.json"), "w"))
    header, at = {}, 0
    shapes = {"model.embed_tokens.weight": [64, d], "model.norm.weight": [d]}
    for n in range(n_layers):
        for ours in NAMES:
            shapes[hf_name("layers.%d.%s" % (n, ours))] = [d] if "norm" in ours else [d, d]
    for key, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + at)
    return folder, at


def need_space():
    if shutil.disk_usage(temp()).free < 600 << 20:
        raise Skip("less than 600 MB in %s" % temp())


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4(t, name):
    """A matrix of a quantized folder as floats: by the definition of the format."""
    blocks, scales = t[name + "_blocks"][1], t[name + "_scales"][1]
    values = E2M1[np.stack([blocks & 15, blocks >> 4], -1)].reshape(scales.shape + (32,)) * 2.0 ** (scales[..., None].astype(int) - 127)
    return values.reshape(scales.shape[:-1] + (-1,)).astype("<f4")


def to_f32(dtype, bits):
    return bits.view("<f4") if dtype == "F32" else bits.view("<f2").astype("<f4") if dtype == "F16" else \
        (bits.astype("<u4") << 16).view("<f4")


def by_the_table(stored, dtype, rows, k):
    """The table of docs/format.md, section Panels, element by element."""
    r, c = np.meshgrid(np.arange(rows), np.arange(k), indexing="ij")
    assert list(stored.shape) == ([-(-rows // 16), -(-k // 2), 16, 2] if dtype == "BF16" else [-(-rows // 16), k, 16])
    return stored[r // 16, c // 2, r % 16, c % 2] if dtype == "BF16" else stored[r // 16, c, r % 16]


def expect_config(m, **values):
    """None: the key is not there."""
    for key, value in values.items():
        assert m.config.get(key) == value, "%s: %r, expected %r" % (key, m.config.get(key), value)


def bpe_json(**changes):
    """A byte-level tokenizer.json with all bytes, 'ab' and 'abc'."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]   # the other bytes: from U+0100 on
    vocabulary = {chr(c): i for i, c in enumerate(plain + list(range(256, 512 - len(plain))))}
    vocabulary.update({"ab": 256, "abc": 257})
    root = {"version": "1.0", "added_tokens": [{"id": 258, "content": "<|x|>", "special": True, "lstrip": True}], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b", ["ab", "c"]]}}
    for key, value in changes.items():
        where = root
        *path, last = key.split("__")
        for p in path:
            where = where[p]
        where[last] = value
    return json.dumps(root).encode()


def token_file(data, name="tokenizer.json"):
    with open(temp(name), "wb") as f:
        f.write(data)
    return temp(name)


def main(module):
    """Run the functions test_* of a module's globals that the command line names, or all of them."""
    global TEMP
    names = sys.argv[1:]
    tests = {n[len("test_"):]: f for n, f in module.items() if n.startswith("test_")}
    if "--list" in names:
        print("\n".join(tests))
        return 0
    failed = 0
    for name in names or tests:
        with tempfile.TemporaryDirectory() as TEMP:
            try:
                LEFT_OUT.clear()
                tests[name]()
                print("ok %s" % name)
                if LEFT_OUT:
                    print("skip parts_of_%s: %s" % (name, ", ".join(sorted(set(LEFT_OUT)))))
            except Skip as e:
                print("skip %s: %s" % (name, e))
            except AssertionError as e:
                failed += 1
                line = traceback.extract_tb(e.__traceback__)[-1].lineno
                print("FAIL %s: %s (line %d)" % (name, str(e).replace("\n", " ") or "assertion", line))
            except Exception as e:
                failed += 1
                where = traceback.extract_tb(e.__traceback__)[-1]
                print("FAIL %s: %r (%s:%d)" % (name, e, os.path.basename(where.filename), where.lineno))
        sys.stdout.flush()
    return 1 if failed else 0
