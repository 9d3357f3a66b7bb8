#!/usr/bin/env python3
"""Folders and files that people give as MODEL: caches, stores, downloads that failed, other programs' forms. Each opens, or one line says
what it is and what to type. A model opens as well as its own path: the tokens are the same."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/format")]
import make_gguf  # noqa: E402
from make_gguf import STRING  # noqa: E402
from verdicts import Skip, attempt_all, need, option_only  # noqa: E402

TBLOCK = ROOT / os.environ.get("BUILD", "build/release") / "tblock"
DATA = ROOT / "tests/data"
FOLDER, SHARDED, ADAPTER = DATA / "models/llama-gqa", DATA / "models/llama-sharded", DATA / "adapters/trained"
GGUF = DATA / "gguf/llama-kquants/model.gguf"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PAGE = b"\n<!DOCTYPE HTML><html><title>Log in</title>"


class Place:
    """A folder that is the home and the place of work."""

    def __enter__(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="tblock-layouts-"))
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "OLLAMA_", "HUGGING", "XDG_CACHE"))}
        self.env["HOME"] = str(self.home)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)

    def put(self, path, data=b""):
        """A file of these bytes, of this text, or a copy."""
        to = self.home / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data.read_bytes() if isinstance(data, pathlib.Path) else data if isinstance(data, bytes) else data.encode())
        return to

    def copy(self, folder, to, *but):
        for file in folder.iterdir():
            if "golden" not in file.name and file.name not in but:
                self.put(f"{to}/{file.name}", file)

    def run(self, *args, user=None):
        more = dict(user=user, group=user, extra_groups=[]) if user else {}
        return subprocess.run([TBLOCK, *args], env=self.env, cwd=self.home, capture_output=True, text=True, errors="replace", timeout=120, **more)

    def tokens(self, path, *options):
        done = self.run("run", path, "--ids", "1,2,3", "-n", "4", "--temp", "0", "-q", *options)
        need(done.returncode == 0, f"{path}: status {done.returncode}: {done.stderr}")
        return done.stdout

    def opens(self, path, as_this):
        for options in ((), ("--sandbox",)):
            found = self.tokens(path, *options)
            need(found == self.tokens(str(as_this)), f"{path}: other tokens than those of {as_this}: {found}")

    def refused(self, path, *words, command=None, status=3):
        """The same line from what runs, shows and converts it."""
        for args in [command] if command else (["run", path, "-p", "x"], ["run", "--sandbox", path, "-p", "x"], ["info", path], ["convert", path, "-o", "x.bin"]):
            done = self.run(*args)
            if "--sandbox" in args and "kernel" in done.stderr:
                continue
            need(done.returncode == status and done.stderr.count("\n") == 1, f"{args}: status {done.returncode}: {done.stderr}")
            for word in words:
                need(word in done.stderr, f"{args}: expected '{word}', found {done.stderr}")


def a_folder_of_the_hubs_cache_opens():
    with Place() as at:
        cache = "hub/models--org--name"
        at.copy(FOLDER, f"{cache}/blobs")
        snapshot = at.home / cache / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        for blob in (at.home / cache / "blobs").iterdir():
            os.symlink(f"../../blobs/{blob.name}", snapshot / blob.name)
        for path in (cache, cache + "/", cache + "/snapshots", cache + "/snapshots/", f"{cache}/snapshots/{COMMIT}"):
            at.opens(path, FOLDER)
        at.env["HF_HUB_CACHE"] = str(at.home / "hub")
        at.opens("org/name", FOLDER)
        at.run("convert", "org/name", "-o", "converted.bin", "-q")
        at.opens("converted.bin", FOLDER)
        other = snapshot.parent / ("f" * 40)
        other.mkdir()
        at.refused(cache, "found snapshots:", "no snapshot or several", "give one of the folders in it")
        at.put(f"{cache}/refs/main", COMMIT)
        at.opens(cache, FOLDER)
        at.refused("hub", "found models--org--name: this is the cache of the Hugging Face Hub", "tblock list")
        shutil.rmtree(at.home / cache / "blobs")
        at.refused(cache, "does not exist", command=["run", cache, "-p", "x"])


def the_only_gguf_of_a_folder_opens():
    with Place() as at:
        at.put("one/m.gguf", GGUF)
        at.put("one/mmproj-F16.gguf", b"GGUF")
        at.put("one/README.md", "words")
        at.opens("one", GGUF)
        for name in ("config.json", "generation_config.json"):  # as repositories of GGUF files have them
            at.put(f"one/{name}", FOLDER / name)
        at.opens("one", GGUF)
        at.put("models/org/name/m.gguf", GGUF)  # LM Studio
        at.opens("models/org/name", GGUF)
        snapshot = f"hub/models--org--name/snapshots/{COMMIT}"
        at.put(f"{snapshot}/m-Q4_K_M.gguf", GGUF)
        at.opens("hub/models--org--name", GGUF)
        at.put("one/m-Q8_0.gguf", GGUF)
        at.put("one/model-Q4_K_M.gguf", GGUF)
        at.refused("one", "found 3", "as in one/m-Q8_0.gguf: m-Q8_0.gguf, m.gguf, model-Q4_K_M.gguf")
        at.copy(FOLDER, "one")
        at.opens("one", FOLDER)
        (at.home / "odd/x.gguf").mkdir(parents=True)
        at.refused("odd", "none of these")


def ollamas_manifest_opens():
    with Place() as at:
        digest = hashlib.sha256(GGUF.read_bytes()).hexdigest()
        text = json.dumps({"schemaVersion": 2, "layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}]})
        blob = at.put(f"store/blobs/sha256-{digest}", GGUF)
        manifest = at.put("store/manifests/registry.ollama.ai/library/tiny/1b", text)
        at.opens(str(manifest.relative_to(at.home)), GGUF)
        os.symlink(manifest, at.home / "link")
        at.opens("link", GGUF)
        at.put("elsewhere", text)
        at.put("store/manifests/m.gguf", GGUF)  # a model, not a manifest
        at.opens("store/manifests/m.gguf", GGUF)
        at.refused("elsewhere", "ollama's manifest", "NAME:TAG")
        for path in ("store", "store/blobs"):
            at.refused(path, "the store of ollama", "NAME:TAG", "tblock list")
        blob.unlink()
        at.refused(str(manifest), "tiny:1b", "which is missing", "ollama pull tiny:1b")


def shards_without_their_index_are_named():
    with Place() as at:
        at.copy(SHARDED, "parts")
        at.opens("parts", SHARDED)
        index = at.home / "parts/model.safetensors.index.json"
        at.refused(str(index), "the index of the shards", "give the folder")
        index.unlink()
        at.refused("parts", "found model-00001-of-00002.safetensors", "model.safetensors.index.json, the index of the shards, is missing", "tblock pull")
        at.put("bin/config.json", FOLDER / "config.json")
        at.put("bin/pytorch_model-00001-of-00003.bin", b"PK\3\4")
        at.refused("bin", "found pytorch_model-00001-of-00003.bin", "pytorch_model.bin.index.json, the index")


def mistrals_own_form_is_named():
    with Place() as at:
        params = '{"dim": 64, "n_layers": 2, "n_heads": 8}'
        at.put("m/consolidated.safetensors", FOLDER / "model.safetensors")
        at.put("m/params.json", params)
        words = "Mistral's own form", "tblock pull ORG/NAME"
        at.refused("m", *words)
        at.refused("m", *words, command=["run", "m/consolidated.safetensors", "-p", "x"])
        at.refused("m/params.json", "give the folder that it is in")
        at.put("m/tokenizer.model", DATA / "tokenizers/sp-bpe/tokenizer.model")
        at.refused("m", *words, command=["run", "m", "-p", "x"])
        at.put("m/config.json", FOLDER / "config.json")
        at.refused("m", *words, command=["run", "m", "-p", "x"])
        at.put("m/model.safetensors", FOLDER / "model.safetensors")
        (at.home / "m/tokenizer.model").unlink()
        at.opens("m", FOLDER)


def metas_tokenizer_lies_above():
    try:
        import numpy as np
    except ImportError:
        raise Skip("no numpy") from None
    import make_pth
    with Place() as at:
        random = np.random.default_rng(1)

        class Raw(make_pth.Storage):
            def __init__(self, key, array):
                super().__init__(key, "F32", array.ravel())
                self.bytes = array.astype("<f4").tobytes()

            def data(self):
                return self.bytes

        def folder(name, vocab):
            d, shapes = 32, {"norm.weight": (32,)}
            shapes.update({"tok_embeddings.weight": (vocab, d), "output.weight": (vocab, d)})
            for part, *shape in (("attention_norm", d), ("attention.wq", d, d), ("attention.wk", d, d), ("attention.wv", d, d), ("attention.wo", d, d),
                                 ("ffn_norm", d), ("feed_forward.w1", 48, d), ("feed_forward.w2", d, 48), ("feed_forward.w3", 48, d)):
                shapes[f"layers.0.{part}.weight"] = tuple(shape)
            tensors = {}
            for n, (key, shape) in enumerate(shapes.items()):
                t = (random.standard_normal(shape) * 0.2).astype("<f4")
                tensors[key] = make_pth.Tensor(Raw(str(n), t), 0, t.shape, tuple(s // 4 for s in t.strides))
            at.put(f"{name}/params.json", json.dumps({"dim": d, "n_layers": 1, "n_heads": 4, "norm_eps": 1e-5, "vocab_size": -1}))
            make_pth.write_zip(at.home / name / "consolidated.00.pth", tensors, 2)
        folder("llama/llama-2-7b", 800)
        folder("llama/other", 801)
        at.refused("", "put its tokenizer.model into it", command=["run", "llama/llama-2-7b", "-p", "x"])
        model = at.put("llama/tokenizer.model", DATA / "tokenizers/sp-bpe/tokenizer.model")
        ids = at.run("tokenize", str(model), "--text", "a test", "--no-bos").stdout
        for options in ((), ("--sandbox",)):
            done = at.run("tokenize", "llama/llama-2-7b", "--text", "a test", "--no-bos", *options)
            need(done.returncode == 0 and done.stdout == ids and "../tokenizer.model" in done.stderr, f"found {done.stdout}{done.stderr}")
        at.run("convert", "llama/llama-2-7b", "-o", "meta.bin", "-q")
        need(at.run("tokenize", "meta.bin", "--text", "a test", "--no-bos").stdout == ids, "the converted file has another tokenizer")
        at.refused("", "expected the 801 tokens of the model, found 800", command=["run", "llama/other", "-p", "x"])
        at.refused("", "same file", command=["convert", "llama/llama-2-7b", "-o", "llama/tokenizer.model"], status=2)


def adapters_are_named():
    with Place() as at:
        at.copy(ADAPTER, "lora")
        words = "found adapter_config.json: this is a LoRA adapter", "--lora"
        at.refused("lora", *words)
        at.refused("lora", *words, command=["run", "lora/adapter_model.safetensors", "-p", "x"])
        at.refused("lora/adapter_config.json", "LoRA adapter", "--lora")
        at.put("lora/tokenizer.json", DATA / "tokenizers/bpe-smollm/tokenizer.json")
        at.refused("lora", *words, command=["run", "lora", "-p", "x"])
        for kind, words in ({"general.type": "adapter", "adapter.type": "lora"}, "--lora"), ({"general.type": "mmproj"}, "picture encoder"), \
                ({"general.type": "imatrix"}, "--imatrix"), ({"general.architecture": "clip"}, "picture encoder"):
            keys = {"general.architecture": (STRING, "llama"), **{key: (STRING, value) for key, value in kind.items()}}
            make_gguf.write(at.home / "other.gguf", keys, {"blk.0.attn_q.weight": ((4, 32), 0, bytes(512))})
            at.refused("other.gguf", words)


def other_forms_are_named():
    with Place() as at:
        at.put("model.onnx", b"\x08\x08\x12\x07pytorch\x1a\x052.1.0:\xe8\x07" + b"\x00\x81" * 400)
        at.refused("model.onnx", "an ONNX model")
        at.put("web/onnx/model.onnx", at.home / "model.onnx")
        at.put("web/config.json", FOLDER / "config.json")
        at.refused("web", "found onnx: tblock reads no ONNX", "tblock pull")
        for name, mode in (("m.tar", "w"), ("m.tar.gz", "w:gz"), ("m.tar.bz2", "w:bz2"), ("m.tar.xz", "w:xz")):
            with tarfile.open(at.home / name, mode) as tar:
                tar.add(FOLDER / "config.json", "config.json")
            at.refused(name, " archive: unpack it")
        with zipfile.ZipFile(at.home / "m.zip", "w") as archive:
            archive.writestr("config.json", "{}")
        at.refused("m.zip", "a zip archive", "unpack it")


def failed_downloads_are_named():
    with Place() as at:
        for name in ("m.gguf", "m.safetensors"):
            for data, words in (PAGE, "a web page"), (b"<HTML>", "a web page"), (b'<?xml version="1.0"?><Error/>', "answer of a server"), (b"", "an empty file"), \
                    (b'{"error":"Invalid credentials"}', "answer of a server"), (bytes(100000), "zeros"):
                at.put(name, data)
                at.refused(name, words, "download")
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            for data, words in (PAGE, "a web page"), (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"):
                at.copy(FOLDER, "model")
                at.put(f"model/{name}", data)
                at.refused("model", f"model/{name}", words)
                (at.home / "model" / name).unlink()


def half_a_download_is_not_ok():
    """The file has its whole size from the start, and zeros from its middle on."""
    with Place() as at:
        whole = GGUF.read_bytes()
        at.put("half.gguf", whole[:len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
        at.copy(FOLDER, "half")
        whole = (FOLDER / "model.safetensors").read_bytes()
        at.put("half/model.safetensors", whole[:len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
        for path in ("half.gguf", "half"):
            done = at.run("info", "--check", path)
            need(done.returncode == 1 and "holds only zeros" in done.stderr and "more tensors)" in done.stdout,
                 f"{path}: status {done.returncode}: {done.stdout[-300:]}{done.stderr}")
        for path in (GGUF, FOLDER, ROOT / "models/shakespeare.bin"):
            done = at.run("info", "--check", path)
            need(done.returncode == 0 and "ok: all finite" in done.stdout, f"{path}: {done.stderr}")


def folders_without_rights_are_named():
    if os.getuid() != 0:
        raise Skip("needs root")
    with Place() as at:
        at.copy(FOLDER, "model")
        os.chmod(at.home, 0o755)
        for mode in (0o000, 0o700, 0o744):  # the last may be listed, and no more
            os.chmod(at.home / "model", mode)
            for args in (["run", "model", "-p", "x"], ["info", "model"]):
                done = at.run(*args, user=65534)
                need(done.returncode == 4 and done.stderr == "tblock: model: cannot open: Permission denied\n", f"{mode:o}: status {done.returncode}: {done.stderr}")
        os.chmod(at.home / "model", 0o711)
        done = at.run("info", "model", user=65534)
        need(done.returncode == 0, f"a folder that may be searched: {done.stderr}")


if __name__ == "__main__":
    only = option_only(__doc__).parse_args().only
    sys.exit(attempt_all(a_folder_of_the_hubs_cache_opens, the_only_gguf_of_a_folder_opens, ollamas_manifest_opens, shards_without_their_index_are_named,
                         mistrals_own_form_is_named, metas_tokenizer_lies_above, adapters_are_named, other_forms_are_named, failed_downloads_are_named,
                         half_a_download_is_not_ok, folders_without_rights_are_named, only=only))
