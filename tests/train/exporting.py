#!/usr/bin/env python3
"""tools/export.py: a model file, exported and read back as a Hugging Face folder, computes the same bits and has the same tokenizer.

    exporting.py [--live] [--only TEXT]

--live: also transformers' own classes compute the logits (where torch and transformers can be imported)."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "faults")]
import export as exporter  # noqa: E402
from faults import lacks_openblas  # noqa: E402
from ref import read_safetensors  # noqa: E402
from verdicts import Failure, attempt, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
SMALL = {"d_model": 40, "n_layers": 2, "heads": 5, "d_ff": 52, "vocab_size": 300, "n_ctx": 64}
CONFIGS = {
    "plain": SMALL,
    "biases_and_scaled_rope": {**SMALL, "kv_heads": 1, "qkv_bias": True, "out_bias": True, "ffn_bias": True, "tied_embeddings": True,
                               "theta": 500000, "rope": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                                                         "original_n_ctx": 32}},
    "odd_width": {**SMALL, "d_model": 39, "heads": 3, "head_dim": 14, "vocab_size": 301},
    "smollm3": {**SMALL, "n_layers": 4, "kv_heads": 1, "no_rope_layers": [1, 3], "tied_embeddings": True, "qkv_bias": True, "out_bias": True},
    "ministral3": {**SMALL, "query_scale": 0.3, "query_scale_length": 5, "rope": {"type": "yarn", "factor": 4, "original_n_ctx": 5,
                                                                                 "beta_fast": 0.5, "beta_slow": 0.05}},
}
IDS = ",".join(str(i * 7 % 290) for i in range(20))


def run(*command, status=0):
    p = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if p.returncode != status:
        raise Failure(f"{' '.join(map(str, command))}: status {p.returncode}: {p.stderr.decode(errors='replace').strip()[-300:]}")
    return p


def export(model, folder, status=0):
    return run(sys.executable, ROOT / "tools" / "export.py", model, "-o", folder, status=status)


def logits(model, folder):
    out = folder / "logits.safetensors"
    run(TBLOCK, "logits", model, "--ids", IDS, "-o", out, "--quiet")
    return read_safetensors(out)["logits"]


def round_trip(folder, live, config, kind):
    (folder / "config.json").write_text(json.dumps(config))
    model, exported = folder / "m.bin", folder / "hf"
    run(TBLOCK, "synth", folder / "config.json", "-o", model, "--type", kind, "--quiet")
    export(model, exported)
    if logits(model, folder).tobytes() != logits(exported, folder).tobytes():
        raise Failure("the folder computes other bits")
    if live:
        compare_live(model, exported, folder)


def compare_live(model, exported, folder):
    import torch
    from transformers import AutoModelForCausalLM
    net = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32).eval()
    with torch.no_grad():
        theirs = net(torch.tensor([[int(i) for i in IDS.split(",")]])).logits[0].numpy()
    difference = np.abs(theirs - logits(model, folder)).max()
    if not difference <= 1e-4:
        raise Failure(f"transformers' logits differ by {difference:.3g}")


def trained_model_with_its_tokenizer(folder, live):
    text = ("It was the best of times, it was the worst of times; 1859, naïve ünïcode \u2014 \U0001F600 don't\n" * 60).encode()
    (folder / "t.txt").write_bytes(text)
    (folder / "config.json").write_text(json.dumps({**SMALL, "vocab_size": 280}))
    model, exported = folder / "m.bin", folder / "hf"
    run(TBLOCK, "train", model, "--text", folder / "t.txt", "--config", folder / "config.json", "--steps", 2, "--batch", 2, "--quiet")
    export(model, exported)
    weights = (exported / "model.safetensors").read_bytes()
    for command in (["logits", exported, "--ids", "1,2", "-o", exported / "model.safetensors"],
                    ["train", exported / "config.json", "--text", folder / "t.txt", "--init", exported],
                    ["train", folder / "n.bin", "--text", folder / "t.txt", "--tokenizer", exported / "tokenizer.json",
                     "--plot", exported / "tokenizer.json"],
                    ["block", exported, "-o", exported / "model.safetensors"], ["quantize", exported, exported / "model.safetensors", "--type", "q8"]):
        if b"expected an output file other than the input" not in run(TBLOCK, *command, status=2).stderr:
            raise Failure(f"{command[0]}: a file of the folder may be replaced")
    if (exported / "model.safetensors").read_bytes() != weights:
        raise Failure("weights were replaced")
    run(TBLOCK, "train", folder / "n.bin", "--text", folder / "t.txt", "--tokenizer", exported / "tokenizer.json", "--config",
        folder / "config.json", "--steps", 1, "--batch", 1, "--quiet")
    request = folder / "request.jsonl"
    request.write_text("".join(json.dumps({"text": s}) + "\n" for s in ("It was 1859", " don't  \n\n naïve \U0001F600", "")))
    ours = run(TBLOCK, "tokenize", model, "--jsonl", request).stdout
    if ours != run(TBLOCK, "tokenize", exported, "--jsonl", request).stdout:
        raise Failure("the folder has another tokenizer")
    if ours != run(TBLOCK, "tokenize", folder / "n.bin", "--jsonl", request).stdout:
        raise Failure("a model trained with the folder's tokenizer has another one")
    if live:
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(exported)
        for line, answer in zip(request.read_text().splitlines(), ours.splitlines()):
            if tokenizer(json.loads(line)["text"], add_special_tokens=False)["input_ids"] != json.loads(answer)["ids"]:
                raise Failure(f"transformers' tokenizer gives other ids for {line}")


def shipped_model(folder, live):
    exported = folder / "hf"
    export(ROOT / "models" / "shakespeare.bin", exported)
    if logits(ROOT / "models" / "shakespeare.bin", folder).tobytes() != logits(exported, folder).tobytes():
        raise Failure("the folder computes other bits")
    if live:
        compare_live(ROOT / "models" / "shakespeare.bin", exported, folder)


def what_llama_lacks_is_refused(folder, live):
    for part, says in (({"window": 8}, "window"), ({"ffn": "gelu"}, "ffn"), ({"qkv_bias": True}, "qkv_bias"), ({"rotary_dim": 4}, "rotary_dim")):
        (folder / "config.json").write_text(json.dumps({**SMALL, **part}))
        run(TBLOCK, "synth", folder / "config.json", "-o", folder / "m.bin", "--quiet")
        if says not in export(folder / "m.bin", folder / "hf", status=3).stderr.decode() or (folder / "hf").exists():
            raise Failure(f"{part}: not named, or a folder was written")
    (folder / "config.json").write_text(json.dumps({**SMALL, "d_model": 64, "heads": 4}))
    run(TBLOCK, "synth", folder / "config.json", "-o", folder / "m.bin", "--type", "q8", "--quiet")
    if "widens" not in export(folder / "m.bin", folder / "hf", status=3).stderr.decode():
        raise Failure("q8: no word about how to widen it")


def every_key_is_written_or_refused(folder, live):
    """Those of docs/format.md, and one that nobody knows yet; what no class computes is named with the key."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "format.md").read_text().split("| `family`")[1].join(["| `family`", ""]), re.M)
    documented = []
    for row in rows:
        documented += re.findall(r"`(\w+)`", row)
        if documented[-1] == "eos":
            break
    if set(documented) != {*exporter.WRITTEN, *exporter.FIXED} or len(documented) < 80:
        raise Failure(f"docs/format.md and the tables differ: {set(documented) ^ {*exporter.WRITTEN, *exporter.FIXED}}, {len(documented)} keys")

    class Model:
        path = "m.bin"
    for part in [{key: 7 if isinstance(value, (int, list)) and value is not False else "x" if isinstance(value, str) else True}
                 for key, value in exporter.FIXED.items()] + [
            {"new_key": False}, {"rope": {"type": "linear", "factor": 2, "new_key": 1}}, {"rope": {"type": "dynamic", "factor": 2}},
            {"query_scale": 0.1, "query_scale_length": 8}, {**CONFIGS["ministral3"], "query_scale_length": 6},
            {**CONFIGS["ministral3"], "no_rope_layers": [0]}, {**CONFIGS["ministral3"], "ffn_bias": True}]:
        Model.config = {**SMALL, **part}
        try:
            exporter.chosen_class(Model)
        except exporter.Refused as why:
            if not any(key in str(why) for key in part):
                raise Failure(f"{part}: not named in: {why}") from None
        else:
            raise Failure(f"{part}: not refused")


def a_tensor_without_a_place_is_refused(folder, live):
    (folder / "config.json").write_text(json.dumps({**SMALL, "qkv_bias": True}))
    run(TBLOCK, "synth", folder / "config.json", "-o", folder / "m.bin", "--quiet")
    data = (folder / "m.bin").read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    header["layers.0.new_part"] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header["__metadata__"]["config"] = json.dumps({**SMALL, "out_bias": False})
    text = json.dumps(header).encode()
    (folder / "m.bin").write_bytes(len(text).to_bytes(8, "little") + text + data[8 + n:])
    if "tensor layers.0.new_part: expected no such tensor" not in export(folder / "m.bin", folder / "hf", status=3).stderr.decode():
        raise Failure("the tensor is not named")


def damaged_files_are_refused(folder, live):
    """A header whose parts are of another kind, a config without its keys, a file cut short: status 3, one line, no folder."""
    (folder / "config.json").write_text(json.dumps(SMALL))
    run(TBLOCK, "synth", folder / "config.json", "-o", folder / "m.bin", "--quiet")
    data = (folder / "m.bin").read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    config = json.loads(header["__metadata__"]["config"])

    def with_header(**changes):
        text = json.dumps({**header, **changes}).encode()
        return len(text).to_bytes(8, "little") + text + data[8 + n:]

    def with_config(text):
        return with_header(__metadata__={**header["__metadata__"], "config": text})

    for what, content in {
            "empty": b"", "no header": data[:4], "cut short": data[:-100], "a list": b"\2\0\0\0\0\0\0\0[]", "a number": b"\1\0\0\0\0\0\0\0" + b"1",
            "no metadata": with_header(__metadata__=7), "config: no JSON": with_config("{"), "config: a list": with_config("[]"),
            "config: no width": with_config("{}"), "config: no heads": with_config(json.dumps({**config, "heads": 0})),
            "config: rope": with_config(json.dumps({**config, "rope": 3})), "no offsets": with_header(embed={"dtype": "F32", "shape": [1]}),
            "offsets": with_header(embed={"dtype": "F32", "shape": [1], "data_offsets": [0, "x"]})}.items():
        (folder / "bad.bin").write_bytes(content)
        said = export(folder / "bad.bin", folder / "hf", status=3).stderr.decode()
        if said.count("\n") != 1 or "bad.bin" not in said or (folder / "hf").exists():
            raise Failure(f"{what}: expected one line that names the file, and no folder, found: {said}")


def files_and_folders_are_named_with_their_status(folder, live):
    """The names are those that were given, never the temporary one; nothing stays behind."""
    (folder / "config.json").write_text(json.dumps(SMALL))
    model, pipe, blocked = folder / "m.bin", folder / "pipe", folder / "blocked"
    run(TBLOCK, "synth", folder / "config.json", "-o", model, "--quiet")
    os.mkfifo(pipe)
    blocked.symlink_to(folder / "nowhere")
    before = sorted(folder.iterdir())
    for asked, output, status, says in (
            (model, "", 2, "-o: expected a folder name, found an empty one"),
            (model, "nodir/x", 4, "nodir/x: cannot be written: no folder nodir"),
            (model, model / "x", 4, f"{model}/x: cannot be written: no folder {model}"),
            (model, folder, 3, f"{folder}: expected a new folder"), (model, blocked, 3, f"{blocked}: expected a new folder"),
            (folder / "missing", folder / "hf", 3, "missing: cannot open: No such file or directory"),
            (model / "x", folder / "hf", 3, "m.bin/x: cannot open: Not a directory"), ("", folder / "hf", 3, "cannot open: No such file"),
            (folder, folder / "hf", 3, f"{folder}: expected a model file, found a folder"), (pipe, folder / "hf", 3, "found something that is no")):
        said = export(asked, output, status).stderr.decode()
        if says not in said or ".export-" in said or "Errno" in said or sorted(folder.iterdir()) != before:
            raise Failure(f"{asked} -o {output}: expected '{says}' and nothing written, found: {said}")
        if status == 3 and asked != model:
            run(TBLOCK, "info", asked, status=status)  # as the program has it
    command = f"ulimit -f 8; exec '{sys.executable}' '{ROOT}/tools/export.py' '{model}' -o '{folder}/hf'"
    said = run("bash", "-c", command, status=4).stderr.decode()
    if f"{folder}/hf: cannot be written: File too large" not in said or sorted(folder.iterdir()) != before:
        raise Failure(f"no room: {said}")


def a_tokenizer_without_weights_is_refused(folder, live):
    (folder / "m.bin").write_bytes(b"\x40\0\0\0\0\0\0\0" + json.dumps({"__metadata__": {"format": "tblock"}}).ljust(64).encode())
    if "metadata config: expected one" not in export(folder / "m.bin", folder / "hf", status=3).stderr.decode():
        raise Failure("the config is not named")


CLAIMS = {**{f"round_trip_{name}_{kind}": lambda f, live, c=c, kind=kind: round_trip(f, live, c, kind)
             for name, c in CONFIGS.items() for kind in ("f32", "bf16", "f16")},
          **{f.__name__: f for f in (trained_model_with_its_tokenizer, shipped_model, what_llama_lacks_is_refused,
                                    every_key_is_written_or_refused, a_tensor_without_a_place_is_refused, damaged_files_are_refused, files_and_folders_are_named_with_their_status,
                                    a_tokenizer_without_weights_is_refused)}}


def skipped(name):
    return "no OpenBLAS" if CLAIMS[name] is trained_model_with_its_tokenizer and lacks_openblas() else None


def run_claims(claims, why_skipped, about):
    """claims: {name: function of a folder and --live}; why_skipped: of a name, None where it runs."""
    parser = option_only(about)
    parser.add_argument("--live", action="store_true")
    a = parser.parse_args()
    failed = 0
    for name, check in claims.items():
        if a.only not in name:
            continue
        why = why_skipped(name)
        if why:
            print(f"skip {name}: {why}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed |= attempt(name, check, pathlib.Path(folder), a.live)
    return failed


if __name__ == "__main__":
    sys.exit(run_claims(CLAIMS, skipped, __doc__))
