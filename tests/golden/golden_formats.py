#!/usr/bin/env python3
"""Goldens that other programs write: .npy pairs, safetensors of other types and shapes; and JUnit files, read by an XML parser."""
import json
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


def bf16_bits(x):
    """Rounded to nearest even; x is finite."""
    u = x.view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype(np.uint16)


def poison(path, part):
    """Make the first number of the tensor whose name contains part a NaN."""
    data = bytearray(path.read_bytes())
    n = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:n])
    name = next(k for k in header if part in k)
    at = n + header[name]["data_offsets"][0]
    data[at:at + 4] = b"\xff\x7f\xff\x7f"  # as F32 and as BF16
    path.write_bytes(data)


class Test:
    def __init__(self, folder):
        self.folder, self.failed = folder, False
        self.run("logits", MODEL, "--prompt", "ROMEO: But, soft!", "--hidden", "-o", folder / "own.safetensors")
        self.own = load_file(folder / "own.safetensors")

    def run(self, *arguments, **how):
        p = subprocess.run([TBLOCK, *map(str, arguments)], capture_output=True, text=True, **how)
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
        self.pair("npy_another_vocabulary", tokens, logits[:, :-1], 3, says="expected logits of 1024 tokens")
        self.pair("npy_float_tokens", tokens.astype(np.float32), logits, 3, says="expected I32 or I64")
        self.pair("npy_name_without_logits", tokens, logits, 3, says="expected a .npy file", stem="answer")
        self.same_words("npy_name_without_logits_in_a_sandbox", self.folder / "npy_name_without_logits" / "answer.npy")
        np.savez(self.folder / "both.npz", logits=logits, tokens=tokens)
        self.verdict("npz_says_what_to_save", self.folder / "both.npz", 3, says="both.npz: expected a safetensors file or a pair of .npy files")
        self.same_words("npz_in_a_sandbox", self.folder / "both.npz")
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

    def same_words(self, name, golden):
        """With --sandbox, where that is possible, the same line is printed."""
        no_leaks = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # its search needs calls that a sandbox refuses
        plain, boxed = self.run("verify", MODEL, golden), self.run("verify", MODEL, golden, "--sandbox", env=no_leaks)
        if "--sandbox:" in boxed[2]:
            print(f"skip {name}: {boxed[2].strip()}")
            return
        self.failed |= plain != boxed
        print(f"ok {name}" if plain == boxed else f"FAIL {name}: {plain[2]!r} and {boxed[2]!r}")

    def golden(self, name, tensors, status, *options, says="", tol=None):
        """The verdict on tensors beside the own tokens; tol: what --json says of the tolerance."""
        path = self.folder / (name + ".safetensors")
        save_file({"tokens": self.own["tokens"], **tensors}, path)
        self.verdict(name, path, status, *options, says=says)
        if tol is not None:
            found = json.loads(self.run("verify", MODEL, path, "--json", *options)[1])["tol"]
            good = found is not None and abs(found - tol) <= 1e-6 * tol
            self.failed |= not good
            print(f"ok {name}_tolerance" if good else f"FAIL {name}_tolerance: expected {tol}, found {found}")

    def masks(self):
        """A column that is masked: no tolerance comes of it, and it is compared."""
        logits, largest = self.own["logits"], float(np.abs(self.own["logits"]).max())
        zeros = np.zeros_like(logits)
        for name, mask in (("minus_infinity", -np.inf), ("lowest_number", np.finfo(np.float32).min), ("minus_1e9", -1e9), ("minus_1e4", -1e4)):
            wrong, right = zeros.copy(), logits.copy()
            wrong[:, 7] = right[:, 7] = mask
            self.golden("mask_of_" + name + "_excuses_nothing", {"logits": wrong}, 1, says="expected within 0, ")
            self.golden("mask_of_" + name + "_is_compared", {"logits": right}, 1, says="from position 0 on", tol=1e-4 * largest)
            f64 = {"logits_f64": right.astype(np.float64), "logits": right}
            self.golden("mask_of_" + name + "_in_f64", f64, 1, says="from position 0 on", tol=4e-6 * largest)
        infinite = logits.copy()
        infinite[2, 7] = -np.inf
        self.golden("infinite_is_out_of_any_tolerance", {"logits": infinite}, 1, "--tol", 1e30, says="from position 2 on")
        hidden = self.own["hidden.layer1"].copy()
        hidden[1, 5] = np.inf
        states = {"logits": logits, "hidden.layer1": hidden}
        self.golden("infinite_hidden_state_parts", states, 0, says="the runs diverge in layer 1, from position 1 on")
        changed = {"logits": wrong, "hidden.layer1": self.own["hidden.layer1"] + np.float32(1)}
        self.golden("hidden_states_beside_a_mask", changed, 1, says="the runs diverge in layer 1")

    def halves(self):
        """The model's own logits rounded to a type pass; beyond that rounding they do not."""
        logits = self.own["logits"]
        bf16 = bf16_bits(logits)
        self.golden("own_logits_as_f16", {"logits": logits.astype(np.float16)}, 0)
        self.write_bf16("own_logits_as_bf16", bf16, 0)
        self.golden("logits_as_f16_that_differ", {"logits": (logits + np.float32(0.02)).astype(np.float16)}, 1)
        self.write_bf16("logits_as_bf16_that_differ", bf16_bits(logits + np.float32(0.3)), 1)
        states = {"logits": logits, "hidden.layer1": self.own["hidden.layer1"].astype(np.float16)}
        self.golden("own_hidden_states_as_f16", states, 0, says="1 hidden states, all the same")
        both = {"logits_f64": logits.astype(np.float64), "logits": logits.astype(np.float16)}
        self.golden("f16_beside_f64_shows_no_float32_run", both, 0, tol=1e-4 * float(np.abs(logits).max()))

    def write_bf16(self, name, bits, status):
        """numpy has no bf16: written as I16, then renamed in the header, which keeps its length."""
        path = self.folder / (name + ".safetensors")
        save_file({"tokens": self.own["tokens"], "logits": bits.view(np.int16)}, path)
        data = path.read_bytes()
        n = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:n])
        header["logits"]["dtype"] = "BF16"
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[n:])
        self.verdict(name, path, status)

    def exact(self):
        """Numbers that only a double tells apart are not equal bit by bit."""
        f64 = self.own["logits"].astype(np.float64)
        self.golden("exact_against_f64", {"logits": f64}, 0, "--exact")
        self.golden("exact_sees_the_last_digits_of_f64", {"logits": f64 + 1e-13}, 1, "--exact", says="equal bit by bit")
        hidden = self.own["hidden.layer1"].astype(np.float64) * (1 + 1e-15)
        self.golden("exact_sees_them_in_hidden_states", {"logits": f64, "hidden.layer1": hidden}, 1, "--exact", says="in layer 1")

    def nan(self):
        """A model of NaN against its own golden: the same, in every column."""
        folder = self.folder / "nan"
        folder.mkdir()
        model, golden = folder / "model.bin", folder / "golden.safetensors"
        model.write_bytes(MODEL.read_bytes())
        poison(model, "final_norm")
        self.run("logits", model, "--ids", "1,2,3", "--allow-nan", "-o", golden)
        code, out, err = self.run("verify", model, golden, "--allow-nan", "--trust-hash", "--json")
        row = json.loads(out)["sequences"][0] if out else {}
        good = code == 0 and row["ok"] and row["top1"] == row["top5"] == 1 and row["mean_kl"] is None
        self.failed |= not good
        print("ok nan_against_nan_agrees_in_every_column" if good else f"FAIL nan_against_nan_agrees_in_every_column: {code}, {row}, {err}")

    def follow(self, n):
        """The n tokens that greedy decoding appends."""
        ids, out = list(self.own["tokens"]), self.folder / "step.safetensors"
        for _ in range(n):
            self.run("logits", MODEL, "--ids", ",".join(map(str, ids)), "--last", "-o", out)
            ids.append(int(load_file(out)["logits"][0].argmax()))
        return np.array(ids[-n:], np.int32)

    def greedy(self):
        """A continuation for which the context has no room is the file's fault, and named."""
        n = len(self.own["tokens"])
        greedy = {"logits": self.own["logits"], "greedy": self.follow(10)}
        self.golden("greedy_that_fits", greedy, 0, "--greedy", "--ctx", n + 9, says="10 tokens of the greedy continuation, all the same")
        self.golden("greedy_that_does_not_fit", greedy, 3, "--greedy", "--ctx", n + 8, says="tensor greedy: expected at most 9 tokens")
        self.golden("greedy_is_no_matter_unless_asked_for", greedy, 0, "--ctx", n)

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
        self.verdict("only_logits_differ_is_the_head", path, 1, says="the runs diverge in the head")

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
        self.junit_words("junit_says_what_verify_says_of_a_foreign_golden", golden, "")
        self.junit_words("junit_says_that_the_settings_are_others", self.folder / "own.safetensors",
                         "recorded with other settings: kv_type f32 (here q8)\n"
                         "the KV cache is rounded to q8: try --kv-type f32", "--kv-type", "q8")
        changed = bytearray((self.folder / "own.safetensors").read_bytes())
        changed[-2] ^= 1  # of hidden.final_norm, or of the last logit
        (self.folder / "changed.safetensors").write_bytes(changed)
        self.junit_words("junit_says_that_the_settings_are_the_same", self.folder / "changed.safetensors", "recorded with the same settings")

    def junit_words(self, name, golden, text, *options):
        out = self.folder / "words.xml"
        _, _, err = self.run("verify", MODEL, golden, "--exact", "--quiet", "--junit", out, *options)
        failure = ElementTree.parse(out).getroot().find("testsuite/testcase/failure")
        good = failure is not None and err.strip().endswith(": " + failure.get("message")) and (failure.text or "") == text
        self.failed |= not good
        print(f"ok {name}" if good else f"FAIL {name}: {err!r}, {out.read_text()[:600]!r}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        t = Test(pathlib.Path(folder))
        for part in (t.pairs, t.writers, t.masks, t.halves, t.exact, t.nan, t.greedy, t.hidden, t.junit):
            part()
    return t.failed


if __name__ == "__main__":
    sys.exit(main())
