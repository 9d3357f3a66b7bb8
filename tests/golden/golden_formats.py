#!/usr/bin/env python3
"""Goldens that other programs write: .npy pairs, safetensors of other types and shapes; and JUnit files, read by an XML parser."""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
MODEL = ROOT / "models" / "shakespeare.bin"


class Test:
    def __init__(self, folder):
        self.folder, self.failed = folder, False
        self.run("logits", MODEL, "--prompt", "ROMEO: But, soft!", "--hidden", "-o", folder / "own.safetensors")
        self.own = load_file(folder / "own.safetensors")

    def run(self, *arguments):
        p = subprocess.run([TBLOCK, *map(str, arguments)], capture_output=True, text=True)
        return p.returncode, p.stdout, p.stderr

    def verdict(self, name, golden, status, *options, says=""):
        code, out, err = self.run("verify", MODEL, golden, *options)
        good = code == status and says in out + err
        self.failed |= not good
        print(f"ok {name}" if good else f"FAIL {name}: status {code}, expected {status} and {says!r}: {err.strip()[-200:]}")

    def pair(self, name, tokens, logits, status, *options, says="", stem="logits"):
        path = self.folder / name
        path.mkdir()
        np.save(path / f"{stem.replace('logits', 'tokens')}.npy", tokens)
        np.save(path / f"{stem}.npy", logits)
        self.verdict(name, path / f"{stem}.npy", status, *options, says=says)

    def pairs(self):
        tokens, logits = self.own["tokens"], self.own["logits"]
        self.pair("npy_pair_bit_by_bit", tokens, logits, 0, "--exact")
        self.pair("npy_pair_of_a_batch_of_one", tokens[None].astype(np.int64), logits[None].astype(np.float64), 0, "--exact")
        self.pair("npy_pair_with_other_names", tokens, logits, 0, "--exact", stem="case1-logits-a")
        self.pair("npy_pair_of_f16", tokens, logits.astype(np.float16), 0, "--tol", "0.01")
        self.pair("npy_pair_of_the_last_position", tokens, logits[-1:], 0, "--exact")
        self.pair("npy_pair_that_differs", tokens, logits + np.float32(0.5) * (np.arange(len(tokens)) == 2)[:, None].astype(np.float32), 1,
                  says="from position 2 on")
        self.pair("npy_in_fortran_order", tokens, np.asfortranarray(logits), 3, says="fortran_order")
        self.pair("npy_big_endian", tokens.astype(">i4"), logits, 3, says="descr")
        self.pair("npy_another_vocabulary", tokens, logits[:, :-1], 3, says="expected F32, F64, F16 or BF16")
        self.pair("npy_float_tokens", tokens.astype(np.float32), logits, 3, says="expected I32 or I64")
        self.pair("npy_name_without_logits", tokens, logits, 3, says="expected the name", stem="answer")
        (self.folder / "alone").mkdir()
        np.save(self.folder / "alone" / "logits.npy", logits)
        self.verdict("npy_without_tokens", self.folder / "alone" / "logits.npy", 3, says="tokens.npy")

    def writers(self):
        tokens, logits = self.own["tokens"], self.own["logits"]
        cases = {"safetensors_i64_and_a_batch_of_one": ({"tokens": tokens[None].astype(np.int64), "logits": logits[None]}, 0, ("--exact",), ""),
                 "safetensors_f16_logits": ({"tokens": tokens, "logits": logits.astype(np.float16)}, 0, ("--tol", "0.01"), ""),
                 "safetensors_two_batches": ({"tokens": np.stack([tokens, tokens]), "logits": np.stack([logits, logits])}, 3, (), "tokens"),
                 "safetensors_with_prefixes": ({"a.tokens": tokens, "a.logits": logits, "b.tokens": tokens[:2], "b.logits": logits[:2]}, 0,
                                               ("--exact",), "2 of 2")}
        for name, (tensors, status, options, says) in cases.items():
            path = self.folder / (name + ".safetensors")
            save_file(tensors, path)
            self.verdict(name, path, status, *options, says=says)

    def hidden(self):
        """A golden in which one state was changed: verify names its place."""
        for key, says in (("hidden.embed", "the embedding"), ("hidden.layer2.attn", "layer 2, attention"),
                          ("hidden.layer2", "layer 2, feed-forward"), ("hidden.final_norm", "the final norm")):
            changed = {k: v.copy() for k, v in self.own.items()}
            changed[key][1, 5] += 1e-3
            path = self.folder / "changed.safetensors"
            save_file(changed, path)
            name = "hidden_change_is_named_" + key.split(".", 1)[1].replace(".", "_")
            self.verdict(name, path, 1, "--exact", says=f"position 1 on, in {says}")
        whole = {k: v for k, v in changed.items() if not k.endswith(".attn")}
        whole["hidden.layer3"] = whole["hidden.layer3"] + np.float32(1)
        save_file(whole, path)
        self.verdict("hidden_without_attention_names_the_layer", path, 1, "--exact", says="in layer 3: ")
        save_file({**self.own, "hidden.layer1": self.own["hidden.layer1"][:, :-1].copy()}, path)
        self.verdict("hidden_of_another_shape", path, 3, says="hidden.layer1: expected")
        head = {**self.own, "logits": self.own["logits"] + np.float32(1)}
        save_file(head, path)
        self.verdict("only_logits_differ_is_the_head", path, 1, says="the runs part in the head")

    def junit(self):
        name, golden, out = "junit_is_xml_whatever_the_names", self.folder / "<a> & \"b\" \x01.safetensors", self.folder / "out.xml"
        save_file({"x<&>.tokens": self.own["tokens"], "x<&>.logits": self.own["logits"] + np.float32(1)}, golden)
        code, _, _ = self.run("verify", MODEL, golden, "--junit", out)
        root = ElementTree.parse(out).getroot()
        case = root.find("testsuite/testcase")
        good = code == 1 and case.get("name") == "x<&>" and "<a> & \"b\" \ufffd" in case.get("classname") \
            and case.find("failure").get("message").startswith("logits differ") and root.get("failures") == "1"
        self.failed |= not good
        print(f"ok {name}" if good else f"FAIL {name}: status {code}, {out.read_text()[:300]!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        t = Test(pathlib.Path(folder))
        for part in (t.pairs, t.writers, t.hidden, t.junit):
            part()
    return t.failed


if __name__ == "__main__":
    sys.exit(main())
