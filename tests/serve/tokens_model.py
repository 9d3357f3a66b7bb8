"""A model for tests of forms: random weights over the 256 bytes and special tokens of the test's choice."""
import json
import pathlib
import subprocess
import tempfile

from server import TBLOCK

SHAPE = {"d_model": 16, "n_layers": 1, "heads": 2, "kv_heads": 1, "head_dim": 8, "d_ff": 16, "n_ctx": 2048}


def bytes_in_characters():
    """As GPT-2 spells them."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(c) for c in plain + list(range(256, 512 - len(plain)))]


def model_of(special, ends=(), shape=SHAPE):
    """A folder that goes with its object, and the model file in it. ends: special tokens that end every text."""
    folder = tempfile.TemporaryDirectory()
    at, pieces = pathlib.Path(folder.name), bytes_in_characters()
    (at / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [{"id": len(pieces) + i, "content": t, "special": True} for i, t in enumerate(special)],
        "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "post_processor": None,
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(pieces)}, "merges": []}}))
    (at / "tokenizer_config.json").write_text("{}")
    (at / "shape.json").write_text(json.dumps(dict(shape, vocab_size=len(pieces) + len(special), eos=[len(pieces) + special.index(t) for t in ends])))
    for args in (["synth", at / "shape.json", "-o", at / "weights.bin"],
                 ["convert", at / "weights.bin", "--tokenizer", at, "-o", at / "model.bin"]):
        done = subprocess.run([TBLOCK, *map(str, args)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder, str(at / "model.bin")
