"""What tblock's first converter made of the inputs of some tests, as digests: the package tools/tblock_convert in Python, which
is in commit 81e3ad1 and gone since. It was written apart from the converter in C, and the two were compared on every input
here. converted.txt has a line for each: the digest of the input, and the digest of what was made or the exit status."""
import hashlib
import json
import os
import pathlib
import re

RECORDED = {}
for line in (pathlib.Path(__file__).resolve().parent / "data" / "converted.txt").read_text().splitlines():
    RECORDED.update([line.split()])


# Families that came behind it. Their logits are compared with recorded ones instead (tests/golden/golden.py).
LATER = {"apertus", "arcee", "cohere2", "deepseek_v2", "deepseek_v3", "ernie4_5", "ernie4_5_moe", "exaone4", "glm4", "glm4_moe", "gpt_oss", "granite_swa", "granitemoe",
         "granitemoeshared", "helium", "hunyuan_v1_dense", "lfm2", "lfm2_moe", "llama4", "llama4_text", "llava", "llava_next", "llava_onevision", "minimax_m2", "ministral3", "mistral3",
         "nemotron", "olmo3", "olmoe", "phi", "qwen2_5_vl", "qwen2_vl", "qwen3_5_text", "qwen3_next", "qwen3_vl", "seed_oss", "smollm3"}


LATER_ROPES = {"longrope", "dynamic"}


def is_recorded(folder):
    """Did the first converter know the family of this checkpoint, and its rotation? It knew no quantized ones."""
    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return (config["model_type"] not in LATER and not config.get("quantization_config")
            and rope.get("rope_type", rope.get("type")) not in LATER_ROPES)


def digest(*parts):
    """Of texts, bytes, and what else repr() spells."""
    h = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass") if isinstance(part, str) else repr(part).encode()
        h.update(b"%d " % len(data) + data)
    return h.hexdigest()[:12]


def contents(path):
    """A file, or the files of a folder without its goldens: names and bytes."""
    paths = [os.path.join(path, n) for n in sorted(os.listdir(path))] if os.path.isdir(path) else [path]
    files = [p for p in paths if os.path.isfile(p) and not os.path.basename(p).startswith("golden")]
    return digest(*[part for p in files for part in (os.path.basename(p), pathlib.Path(p).read_bytes())])


def without_later_entries(data):
    """A model file's bytes without the metadata that the recorded ones had not yet."""
    n = int.from_bytes(data[:8], "little")
    header = re.sub(rb', "special_tokens": "(?:[^"\\]|\\.)*"', b"", data[8:8 + n]).rstrip(b" ")
    header += b" " * (-(8 + len(header)) % 4096)
    return len(header).to_bytes(8, "little") + header + data[8 + n:]


def difference(key, status, *made):
    """Why this is not what was recorded for the key, or None. made: what a status of 0 came with."""
    expected = RECORDED.get(key, "nothing")
    found = digest(*made) if status == 0 else str(status)
    return None if found == expected else "recorded: %s, found: %s" % (expected, found)
