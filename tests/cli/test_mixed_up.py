#!/usr/bin/env python3
"""Errors that say what a user mixed up: each names what was given and what belongs there. $TBLOCK is the program."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import terminal  # noqa: E402
from verdicts import attempt_all, need  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
MODEL = str(ROOT / "models/shakespeare.bin")
TEMP = None


def tblock(*args, status=0):
    done = subprocess.run([TBLOCK, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    need(done.returncode == status, "%s: status %d, expected %d: %s" % (" ".join(map(str, args)), done.returncode, status, done.stderr))
    return done


def says(words, *args, status):
    found = tblock(*args, status=status).stderr
    need(words in found and found.count("\n") == 1, "expected %s, found %s" % (words, found))


def records():
    golden, state, receipt = TEMP / "golden.safetensors", TEMP / "a.state", TEMP / "receipt.json"
    tblock("logits", MODEL, "--prompt", "ROMEO:", "--quiet", "-o", golden)
    tblock("run", MODEL, "--prompt", "ROMEO:", "-n", 4, "--quiet", "--save-state", state, "--receipt", receipt)
    return golden, state, receipt


def other_model():
    config, out = TEMP / "other.json", TEMP / "other.bin"
    config.write_text(json.dumps({"d_model": 16, "n_layers": 2, "heads": 2, "d_ff": 32, "vocab_size": 1400, "n_ctx": 64}))
    tblock("synth", config, "-o", out, "--quiet")
    return out


def swapped_arguments_of_verify_are_named():
    golden, _, receipt = records()
    says("expected the model first and then its records, found recorded tokens in %s" % golden, "verify", golden, MODEL, status=2)
    says("expected the model first and then its records, found a JSON text in %s" % receipt, "verify", receipt, MODEL, status=2)
    says("cannot open", "verify", TEMP / "none.bin", golden, status=3)


def another_models_records_are_named():
    golden, state, _ = records()
    other = other_model()
    says("recorded with another model: expected logits of 1400 tokens, this model's vocabulary, found 1024, hash ", "verify", other, golden, status=3)
    says("a.state: saved with another model: metadata model_sha256: expected ", "run", other, "--ids", "1", "--load-state", state, status=3)


def a_text_where_a_record_belongs_is_called_a_text():
    says("README.md: expected a safetensors file, found a text", "verify", MODEL, ROOT / "README.md", status=3)
    says("README.md: expected a safetensors file, found a text", "run", MODEL, "--prompt", "x", "--load-state", ROOT / "README.md", status=3)


def quantize_writes_no_gguf():
    for out in (["-o", TEMP / "x.gguf"], [TEMP / "x.gguf"]):
        says("quantize writes a model file of tblock (docs/format.md), not GGUF", "quantize", MODEL, *out, "--type", "q8", status=2)
    need(not (TEMP / "x.gguf").exists(), "it was written")


def types_of_llama_cpp_name_the_near_one():
    for name, near in (("Q4_K_M", "q4"), ("q8_0", "q8"), ("Q6_K", "q8"), ("MXFP4", "q4")):
        says("found '%s', which llama.cpp's tools make: convert a .gguf, or take %s, the nearest here" % (name, near),
             "quantize", MODEL, "-o", TEMP / "y.bin", "--type", name, status=2)


def chat_expects_json():
    readme = ROOT / "README.md"
    says("expected JSON such as {\"enable_thinking\": false}", "chat", MODEL, "--chat-format", "chatml", "--template-args", "a=b", status=2)
    says("expected a JSON array of tools", "chat", MODEL, "--chat-format", "chatml", "--tools", readme, status=2)


def rerank_asks_for_a_question():
    says("--query: expected the question that the documents are ranked by, found none", "rerank", MODEL, "a", status=2)


def eval_ends_at_the_first_interrupt():
    """While it waits for its text."""
    with subprocess.Popen([TBLOCK, "eval", MODEL], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
        for _ in range(1000): # until it waits for a pipe
            time.sleep(0.02)
            if "pipe_read" in pathlib.Path("/proc/%d/wchan" % run.pid).read_text() or _ > 100:
                break
        run.send_signal(signal.SIGINT)
        try:
            need(run.wait(10) in (-signal.SIGINT, 130), "status %d" % run.returncode)
        finally:
            run.kill()


def who_types_is_told_how_to_end():
    """Every command that reads a text waits for it on a terminal."""
    if not terminal.possible():
        return
    for args in (["tokenize", MODEL], ["tokenize", MODEL, "-f", "-"], ["run", MODEL, "-n", "2"], ["eval", MODEL]):
        shown = terminal.run([TBLOCK, *args], until="then press Ctrl-D on a new line", then="ROMEO:\n\x04")
        need("type the text, then press Ctrl-D on a new line" in shown.data, "%s: %s" % (args, shown.data))
        need(shown.status in (0, 1), "%s: status %d: %s" % (args, shown.status, shown.data))


def notes_begin_a_line_of_a_file_that_has_text_too():
    args = [TBLOCK, "run", MODEL, "-p", "ROMEO:", "-n", "300", "--temp", "0"]
    both = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", check=True).stdout
    apart = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=True)
    note = "tblock: stopped: the context of 256 tokens is full\n"
    need(both == apart.stdout + "\n" + note and apart.stderr == note and not apart.stdout.endswith("\n"), both[-120:])


def main():
    global TEMP
    with tempfile.TemporaryDirectory() as folder:
        TEMP = pathlib.Path(folder)
        sys.exit(attempt_all(swapped_arguments_of_verify_are_named, another_models_records_are_named, a_text_where_a_record_belongs_is_called_a_text,
                             quantize_writes_no_gguf, types_of_llama_cpp_name_the_near_one, chat_expects_json, rerank_asks_for_a_question,
                             eval_ends_at_the_first_interrupt, who_types_is_told_how_to_end,
                             notes_begin_a_line_of_a_file_that_has_text_too))


if __name__ == "__main__":
    main()
