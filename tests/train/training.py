#!/usr/bin/env python3
"""`tblock train`: what it writes runs, resuming changes no byte, faults leave the last checkpoint, vocabularies are those of tokenizers.

    training.py [--only TEXT]"""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.dom.minidom

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "faults")]
from faults import lacks_openblas  # noqa: E402
from testdata import FIXTURES  # noqa: E402
from verdicts import Skip, attempt, need, option_only  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
CONFIG = {"d_model": 32, "n_layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 48, "vocab_size": 300, "n_ctx": 32, "tied_embeddings": True}
SETTINGS = ["--steps", "12", "--batch", "5", "--micro-batch", "2", "--dropout", "0.1", "--lr", "0.01", "--eval-every", "3", "--save-every",
            "2", "--seed", "7"]


def text_of(n, seed=1):
    """Sentences from a few hundred words, so that there is something to learn."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("etaoinshrdlu") for _ in range(draw.randint(1, 7))) for _ in range(300)]
    return " ".join(draw.choice(words) + draw.choice(["", "", "", ",", ".", "\n", " ümläut"]) for _ in range(n)).encode()


class Case:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.text, self.config = self.folder / "text.txt", self.folder / "config.json"
        self.text.write_bytes(text_of(4000))
        self.config.write_text(json.dumps(CONFIG))

    def out(self, name):
        return self.folder / f"{name}.bin"

    def command(self, name, *more, settings=SETTINGS, text=None, config=True):
        begin = ["--config", str(self.config)] if config else []
        return [TBLOCK, "train", str(self.out(name)), "--text", str(text or self.text), *begin, *settings, *map(str, more)]

    def train(self, name, *more, status=0, says="", **options):
        keep = {k: options.pop(k) for k in ("preexec_fn",) if k in options}
        p = subprocess.run(self.command(name, *more, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, restore_signals=not keep, **keep)
        error = p.stderr.decode(errors="replace")
        need(p.returncode == status, f"{name}: status {p.returncode}, expected {status}: {error.strip()[-300:]}")
        need(says in error, f"{name}: expected '{says}' in: {error.strip()[-300:]}")
        return p.stdout.decode()

    def files(self, name):
        return self.out(name).read_bytes(), pathlib.Path(f"{self.out(name)}.ckpt").read_bytes()

    def stop_at(self, name, step, *more, **options):
        """Ctrl-C as soon as that step is told; once more where the training ended before it came."""
        for attempt in range(20):
            p = subprocess.Popen(self.command(name, "--json", *more, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for line in p.stdout:
                if json.loads(line).get("step", 0) >= step:
                    p.send_signal(signal.SIGINT)
                    break
            p.stdout.read()
            self.said = p.stderr.read().decode()
            if p.wait() != 0:
                break
            self.out(name).unlink()
            pathlib.Path(f"{self.out(name)}.ckpt").unlink()
        return p.returncode


def resume_changes_no_byte(c):
    c.train("whole", "--threads", 1)
    status = c.stop_at("parts", 3, "--threads", 2)
    need(status == 130 and not c.out("parts").exists(), f"after Ctrl-C: status {status}")
    c.train("parts", "--resume", "--threads", 2)
    need(c.files("whole") == c.files("parts"), "stopped and resumed: other bytes")


def resume_after_a_kill(c):
    c.train("whole")
    p = subprocess.Popen(c.command("killed", "--json"), stdout=subprocess.PIPE)
    for line in p.stdout:
        if json.loads(line).get("step", 0) >= 5:
            p.kill()
            break
    p.wait()
    c.train("killed", "--resume")
    need(c.files("whole") == c.files("killed"), "killed and resumed: other bytes")


def model_runs_and_has_learned(c):
    lines = [json.loads(x) for x in c.train("m", "--json", settings=["--steps", "60", "--batch", "8", "--lr", "0.01"]).splitlines()]
    need(lines[-2]["val_loss"] < lines[0]["loss"] - 1, f"loss went from {lines[0]['loss']} to {lines[-2]['val_loss']}")
    p = subprocess.run([TBLOCK, "run", c.out("m"), "--prompt", "the", "-n", "5", "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 0 and len(p.stdout) > 3, f"run: status {p.returncode}: {p.stdout} {p.stderr.decode()}")
    p = subprocess.run([TBLOCK, "info", c.out("m"), "--check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 0, p.stderr.decode())
    c.config.unlink()
    p = subprocess.run([TBLOCK, "train", c.out("more"), "--text", c.text, "--init", c.out("m"), "--steps", "2", "--json"], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    need(p.returncode == 0, p.stderr.decode())
    need(abs(json.loads(p.stdout.splitlines()[0])["loss"] - lines[-2]["val_loss"]) < 0.5, "--init does not begin where the model was")


def plot_is_an_image(c):
    plot = c.folder / "loss.svg"
    c.train("m", "--plot", plot)
    document = xml.dom.minidom.parse(str(plot))
    need(len(document.getElementsByTagName("polyline")) == 2, "not two lines")


def tokenizer_is_that_of_tokenizers(c):
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise Skip("no tokenizers library")
    from tokenizers import Regex
    vocab = 900
    c.config.write_text(json.dumps({**CONFIG, "vocab_size": vocab}))
    c.train("m", settings=["--steps", "1", "--batch", "1"])
    reference = Tokenizer(models.BPE())
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    trainer = trainers.BpeTrainer(vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    reference.train([str(c.text)], trainer)
    sample = text_of(300, seed=2).decode()
    p = subprocess.run([TBLOCK, "tokenize", c.out("m"), "--jsonl", "-"], input=json.dumps({"text": sample}).encode() + b"\n", stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    ours = json.loads(p.stdout)["ids"]
    theirs = reference.encode(sample).ids
    need(len(ours) == len(theirs), f"{len(ours)} tokens, tokenizers has {len(theirs)}")
    pieces = [json.loads(x)["text"] for x in subprocess.run(
        [TBLOCK, "tokenize", c.out("m"), "--jsonl", "-"], input=b"".join(json.dumps({"ids": [i]}).encode() + b"\n" for i in ours[:400]),
        stdout=subprocess.PIPE).stdout.splitlines()]
    from tokenizers import decoders
    reference.decoder = decoders.ByteLevel()
    need(pieces == [reference.decode([i]) for i in theirs[:400]], "other pieces")


def faults_are_named(c):
    empty, short = c.folder / "empty.txt", c.folder / "short.txt"
    empty.write_bytes(b"")
    short.write_bytes(text_of(30))
    c.train("m", text=empty, status=3, says="empty file")
    c.train("m", text=c.folder / "none.txt", status=3, says="none.txt")
    c.train("m", "--vocab", 256, text=short, status=3, says="expected")
    c.train("m", "--vocab", 200000, status=3, says="choose a smaller vocabulary")
    c.train("m", "--ctx", 100, status=2, says="ctx: expected at most 32")
    c.train("m", "--betas", "0.9", status=2, says="--betas")
    c.config.write_text(json.dumps({**CONFIG, "norm_placement": "parallel"}))
    c.train("m", status=3, says="norm_placement")
    c.config.write_text(json.dumps({**CONFIG, "d_model": 16384, "d_ff": 65536, "n_layers": 200, "kv_heads": 4}))
    c.train("m", status=4, says="this machine has")
    c.config.write_text(json.dumps({**CONFIG, "vocab_size": 5000, "bos": 4000, "eos": [4001]}))
    c.train("bos", "--vocab", 300)
    c.config.write_text(json.dumps(CONFIG))
    c.train("m", "--resume", status=3, says="m.bin.ckpt")
    need(not c.out("m").exists(), "a model file after a fault")


def checkpoint_survives(c):
    """NaN, a full disk, other settings, a file cut short: an error that says so, and the last checkpoint as it was."""
    c.stop_at("m", 4)
    checkpoint = pathlib.Path(f"{c.out('m')}.ckpt")
    good = checkpoint.read_bytes()

    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    c.train("m", "--resume", status=4, says="m.bin.ckpt", preexec_fn=full)
    need(checkpoint.read_bytes() == good, "the checkpoint changed when the disk was full")
    c.train("m", "--resume", "--lr", "0.5", status=3, says="lr: the checkpoint was made with")
    c.train("m", "--resume", "--batch", "6", status=3, says="batch: the checkpoint was made with 5, found 6")
    c.text.write_bytes(c.text.read_bytes() + b"x")
    c.train("m", "--resume", status=3, says="text_sha256")
    c.text.write_bytes(c.text.read_bytes()[:-1])
    need(checkpoint.read_bytes() == good, "the checkpoint changed")
    checkpoint.write_bytes(good[:-100])
    c.train("m", "--resume", status=3, says="m.bin.ckpt")
    need(checkpoint.read_bytes() == good[:-100], "a checkpoint cut short was replaced")
    checkpoint.write_bytes(good)
    c.train("m", "--resume")
    before = checkpoint.read_bytes()
    c.train("m", settings=["--steps", "50", "--lr", "1000", "--clip", "0", "--warmup", "0", "--batch", "2", "--save-every", "1000"], status=1,
            says="the loss is not finite")
    need(checkpoint.read_bytes() == before, "a NaN loss replaced the checkpoint")


def outputs_are_looked_at_before_the_first_step(c):
    """What cannot be written, or would replace what is read, is said at once; a checkpoint that is needed is not replaced."""
    c.train("none/m", status=4, says="none/m.bin: cannot write")
    c.train("m", "--plot", c.folder / "none" / "p.svg", status=4, says="p.svg: cannot write")
    c.train("m", "--plot", c.out("m"), status=2, says="expected a file other than the model")
    c.train("m", "--plot", f"{c.out('m')}.ckpt", status=2, says="expected a file other than the checkpoint")
    need(sorted(x.name for x in c.folder.iterdir()) == ["config.json", "text.txt"], f"files after faults: {sorted(c.folder.iterdir())}")
    c.stop_at("m", 3)
    checkpoint = pathlib.Path(f"{c.out('m')}.ckpt")
    stopped = checkpoint.read_bytes()
    c.train("m", status=2, says="--resume to continue")
    need(checkpoint.read_bytes() == stopped, "a training that was stopped was replaced")
    c.train("m", "--resume")
    c.train("m")
    for mine in (b"my notes", c.out("m").read_bytes()):
        checkpoint.write_bytes(mine)
        c.train("m", status=2, says="training would overwrite it")
        need(checkpoint.read_bytes() == mine, "a file that is no checkpoint was replaced")


def rate_ends_where_it_should(c):
    for options, last in (((), 0.01 / 10), (("--min-lr", "0"), 0), (("--min-lr", "0.004"), 0.004)):
        lines = c.train("m", "--json", *options, settings=["--steps", "200", "--batch", "1", "--ctx", "2", "--lr", "0.01"]).splitlines()
        lr = json.loads(lines[-2])["lr"]
        need(abs(lr - last) < 1e-5, f"{options}: the last rate is {lr}, expected {last}")
    c.train("m", "--min-lr", "0.02", status=2, says="min_lr: expected at most lr")
    c.train("m", "--min-lr", "0.001", "--schedule", "constant", status=2, says="--min-lr: expected none with --schedule constant")


def tokenizer_of_another_model(c):
    """--tokenizer: the text is read by it, vocab_size is its size, resuming wants the same one."""
    c.train("a", settings=["--steps", "1", "--batch", "1"])
    c.train("whole", "--tokenizer", c.out("a"))
    info = json.loads(subprocess.run([TBLOCK, "info", c.out("whole"), "--json"], stdout=subprocess.PIPE, check=True).stdout)
    need(info["config"]["vocab_size"] == CONFIG["vocab_size"], f"vocab_size {info['config']['vocab_size']}")
    for name in ("a", "whole"):
        p = subprocess.run([TBLOCK, "tokenize", c.out(name), "--file", c.text], stdout=subprocess.PIPE, check=True)
        need(name == "a" or p.stdout == ids, "other ids than the tokenizer's")
        ids = p.stdout
    c.stop_at("parts", 3, "--tokenizer", c.out("a"))
    c.train("b", "--vocab", 280, settings=["--steps", "1", "--batch", "1"])
    c.config.write_text(json.dumps({**CONFIG, "vocab_size": 777}))
    c.train("parts", "--tokenizer", c.out("b"), "--resume", status=3, says="parts.bin.ckpt: config: vocab_size")
    c.text.write_bytes(text_of(4000, seed=3))
    c.train("other", settings=["--steps", "1", "--batch", "1", "--vocab", "300"])
    c.text.write_bytes(text_of(4000))
    c.train("parts", "--tokenizer", c.out("other"), "--resume", status=3, says="parts.bin.ckpt: tokenizer_hash")
    c.train("parts", "--tokenizer", c.out("a"), "--resume")
    need(c.files("whole") == c.files("parts"), "stopped and resumed: other bytes")
    c.train("x", "--tokenizer", c.out("a"), "--vocab", "300", status=2, says="vocab: expected none, since the tokenizer file has its own")
    c.train("x", "--tokenizer", c.config, status=3, says="config.json")


def chat_format_stays(c):
    """A folder's template and a model file's; stopped or not."""
    template = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
    folder = c.folder / "folder"
    shutil.copytree(ROOT / "tests" / "data" / "models" / "llama3-e2e", folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template}))
    subprocess.run([sys.executable, ROOT / "tools" / "convert.py", folder, "-o", c.out("converted")], check=True, capture_output=True)
    for i, init in enumerate((folder, c.out("converted"))):
        c.train(f"whole{i}", "--init", init, config=False)
        c.stop_at(f"parts{i}", 3, "--init", init, config=False)
        c.train(f"parts{i}", "--init", init, "--resume", config=False)
        need(c.files(f"whole{i}") == c.files(f"parts{i}"), f"{init}: stopped and resumed: other bytes")
        need(meta_of(c.out(f"parts{i}")).get("chat_template") == template, f"{init}: the template is lost")
    need(meta_of(c.out("parts1"))["special_tokens"] == meta_of(c.out("converted"))["special_tokens"], "the special tokens are lost")
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": template + " "}))
    c.train("parts0", "--init", folder, "--resume", config=False, status=3, says="tokenizer_hash")


def meta_of(path):
    with open(path, "rb") as f:
        return json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]


def finished_training_is_resumed(c):
    """Nothing is left to do: the model and the plot are made of the checkpoint."""
    c.train("m")
    before, plot = c.files("m"), c.folder / "late.svg"
    c.out("m").unlink()
    need("all 12 steps were already done" in c.train("m", "--resume", "--plot", plot), "not said that nothing was left to do")
    need(c.files("m") == before and plot.read_bytes().startswith(b"<svg"), "another model, or no plot")


def parameters_without_a_loss_are_not_kept(c):
    """The loss of a step is that before it: a last step that ruins everything is seen all the same."""
    ruin = ["--batch", "2", "--save-every", "1", "--warmup", "0", "--schedule", "constant", "--validation", "0", "--lr", "1000",
            "--weight-decay", "1000"]
    c.train("m", settings=[*ruin, "--steps", "40"], status=1, says="the loss after this step is not finite")
    last = meta_of(f"{c.out('m')}.ckpt")["step"]
    need(int(last) < 40 and not c.out("m").exists(), f"a checkpoint of step {last}, or a model")
    c.train("m", "--resume", settings=[*ruin, "--steps", "40"], status=1, says=f"step {int(last) + 1}: the loss after this step")
    need(meta_of(f"{c.out('m')}.ckpt")["step"] == last, "the checkpoint was replaced")


def random_seed_is_told_for_resuming(c):
    c.stop_at("m", 3, "--seed", "random")
    seed = c.said.split("--seed ")[-1].split()[0]
    c.train("m", "--seed", seed, "--resume")


def gradient_check_has_an_exit_status(c):
    p = subprocess.run([TBLOCK, "train", "--grad-check", "--config", c.config], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 0 and b"layers.1.w_down" in p.stdout, p.stderr.decode())
    p = subprocess.run([TBLOCK, "train", "--grad-check", "--config", c.config, "--limit", "1e-12"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 1 and b"gradient check: expected" in p.stderr, f"status {p.returncode}")
    p = subprocess.run(c.command("m", "--grad-check"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 2 and b"--grad-check: expected no --output" in p.stderr, f"status {p.returncode}")


DATA, SHIPPED = ROOT / "tests" / "data" / "models", ROOT / "models" / "shakespeare.bin"
ADAPTER = ["--lora", "4", "--lora-alpha", "6", "--lora-targets", "q,v,o,down", *SETTINGS]


def adapter_files(c, name):
    return [(c.out(name) / f).read_bytes() for f in ("adapter_model.safetensors", "adapter_config.json")] + [pathlib.Path(f"{c.out(name)}.ckpt").read_bytes()]


def bytes_tokenizer(out):
    """tokenizer.json with an id for each byte, for any model with 256: GPT-2's characters for bytes, in their order, and no merges."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    out.write_text(json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": level, "post_processor": None,
                               "decoder": level, "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(letters)}, "merges": []}}))
    return out


def tblock(*command):
    p = subprocess.run([TBLOCK, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(p.returncode == 0, f"{command[0]}: {p.stderr.decode(errors='replace').strip()[-300:]}")
    return p.stdout.decode()


def quantized(c):
    """The shipped model in q4."""
    q4 = c.folder / "q4.bin"
    tblock("convert", SHIPPED, "-o", q4, "--type", "q4", "--quiet")
    return q4


def adapter_is_learned_on_quantized_weights(c):
    q4 = quantized(c)
    kept = q4.read_bytes()
    c.train("a", "--init", q4, config=False, settings=["--lora", "8", "--steps", "40", "--batch", "4", "--ctx", "64", "--lr", "0.01", "--seed", "3"])

    def bits(*more):
        return json.loads(tblock("eval", q4, c.text, "--json", "--math", "f32", *more))["bits_per_byte"]
    plain, adapted = bits(), bits("--lora", c.out("a"))
    need(adapted < plain - 0.3, f"bits per byte: {plain} without it, {adapted} with it")
    need(q4.read_bytes() == kept, "the model was changed")
    said = json.loads((c.out("a") / "adapter_config.json").read_text())
    need(said["r"] == 8 and said["lora_alpha"] == 8 and said["target_modules"] == ["q_proj", "v_proj"], str(said))


def adapter_begins_where_the_model_is(c):
    """B is 0: the first step has the loss of the model, to the bit."""
    def first(name, *more):
        return json.loads(c.train(name, "--init", SHIPPED, "--json", *more, config=False).splitlines()[0])["loss"]
    need(first("a", "--lora", "3") == first("m"), "another loss before the first step")


def same_loss(c, model, targets, n=65, name="a"):
    """One window of the text is held back: the loss that training tells of it is the one that eval computes with the folder."""
    ids = [int(i) for i in tblock("tokenize", model, "--no-bos", "--file", c.text).split()]
    said = c.train(name, "--init", model, "--lora", "3", "--lora-alpha", "-5", "--lora-targets", targets, "--steps", "4", "--batch", "4",
                   "--ctx", str(n - 1), "--validation", repr((n + 0.5) / len(ids)), "--lr", "0.02", "--warmup", "-1", "--json", config=False, settings=[])
    said = json.loads(said.splitlines()[-1])
    need(said["held_tokens"] == n, str(said))

    def loss(*more):
        given = ",".join(map(str, ids[-n:]))
        return json.loads(tblock("eval", model, "--ids", given, "--ctx", n, "--math", "f32", "--json", *more))["nll"]
    adapted, plain = loss("--lora", c.out(name)), loss()
    need(abs(adapted - said["val_loss"]) < 1e-5 * plain and abs(adapted - plain) > 0.1, f"{said['val_loss']} in training, {adapted} after it, {plain} without")


def adapter_has_the_loss_of_its_training(c):
    same_loss(c, SHIPPED, "down,gate,k,o,q,up,v")


def adapter_of_rows_in_another_order_has_the_loss_of_its_training(c):
    """Where the family rotates neighbours: B's rows of q and k lie as in its folders."""
    if not (FIXTURES / "models" / "helium").exists():
        raise Skip("no data (helium, ernie45, glm4)")
    for name, targets in (("helium", "q,k,v,o,gate,up,down"), ("ernie45", "q,k,v,o,gate,up,down"), ("glm4", "q,k,v,o,down")):
        model = c.out(f"{name}-model")
        tblock("convert", FIXTURES / "models" / name, "-o", model, "--tokenizer", bytes_tokenizer(c.folder / "tokenizer.json"), "--quiet")
        same_loss(c, model, targets, n=33, name=name)


def resumed_adapter_changes_no_byte(c):
    q4 = quantized(c)
    c.train("whole", "--init", q4, "--threads", 1, config=False, settings=ADAPTER)
    c.train("threads", "--init", q4, "--threads", 3, config=False, settings=ADAPTER)
    need(adapter_files(c, "whole") == adapter_files(c, "threads"), "three threads: other bytes")
    for attempt in range(20):   # once more where the training ended before it was killed
        p = subprocess.Popen(c.command("parts", "--init", q4, "--json", config=False, settings=ADAPTER), stdout=subprocess.PIPE)
        for line in p.stdout:
            if json.loads(line).get("step", 0) >= 5:
                p.kill()
                break
        p.wait()
        if not any(c.out("parts").iterdir()):
            break
        shutil.rmtree(c.out("parts"))
        pathlib.Path(f"{c.out('parts')}.ckpt").unlink()
    for more, says in ((["--lora", "5"], "lora_rank"), (["--lora-alpha", "5"], "lora_alpha"), (["--lora-targets", "q,v,o"], "lora_targets"),
                       (["--init", SHIPPED], "model_sha256")):
        c.train("parts", "--init", q4, "--resume", *more, config=False, settings=ADAPTER, status=3, says=says)
    c.out("parts").rmdir()  # nothing was written into it
    c.train("parts", "--init", q4, "--resume", config=False, status=3, says="lora_rank: the checkpoint was made with 4")
    turned = [",".join(reversed(a.split(","))) if a == "q,v,o,down" else a for a in ADAPTER]
    c.train("parts", "--init", q4, "--resume", config=False, settings=turned)
    need(adapter_files(c, "whole") == adapter_files(c, "parts"), "killed and resumed: other bytes")


def adapters_are_refused_by_name(c):
    def refused(status, says, *more, name="x", out=None):
        c.train(name, *more, status=status, says=says, config=False)
        need(out or not c.out(name).exists(), f"{more}: a folder is left")
    refused(2, "expected a model to adapt", "--lora", "2")
    refused(2, "found 'z'", "--init", SHIPPED, "--lora", "2", "--lora-targets", "q,z")
    refused(2, "found ''", "--init", SHIPPED, "--lora", "2", "--lora-targets", "q,")
    refused(2, "without a rank", "--init", SHIPPED, "--lora-targets", "q")
    refused(2, "--lora", "--init", SHIPPED, "--lora", "-1")
    gateless, phi3 = c.out("gateless"), c.out("phi3")
    c.config.write_text(json.dumps({**CONFIG, "ffn": "gelu"}))
    c.train("gateless", settings=["--steps", "1", "--batch", "1"])
    tblock("convert", DATA / "phi3", "-o", phi3, "--tokenizer", bytes_tokenizer(c.folder / "tokenizer.json"), "--quiet")
    refused(3, "w_gate: expected a matrix of the model's blocks", "--init", gateless, "--lora", "2", "--lora-targets", "gate")
    refused(3, "n_experts: expected 0", "--init", DATA / "qwen2-moe", "--lora", "2")
    refused(3, "stores alone", "--init", phi3, "--lora", "2")
    c.out("file").write_bytes(b"x")
    refused(2, "expected a folder", "--init", SHIPPED, "--lora", "2", name="file", out=True)
    c.out("text").mkdir()
    c.text.rename(c.out("text") / "adapter_config.json")
    c.train("text", "--init", SHIPPED, "--lora", "2", config=False, text=c.out("text") / "adapter_config.json", status=2, says="same file")


def recipe_of_the_shipped_model_runs(c):
    """One step of it, on another text: a model in bf16, and a verdict."""
    recipe, out = str(ROOT / "models" / "shakespeare.sh"), c.folder / "new" / "model.bin"
    c.text.write_bytes(b"".join(p.read_bytes() for p in sorted((ROOT / "docs").glob("*.md"))))
    p = subprocess.run([recipe, c.text, out], capture_output=True, text=True, env=dict(os.environ, TBLOCK=TBLOCK, STEPS="1"))
    losses = {line.split(" model")[0]: float(line.split()[2]) for line in p.stdout.splitlines() if " model " in line}
    need(sorted(losses) == ["new", "shipped"] and "not the text" in p.stderr, f"status {p.returncode}: {p.stderr}")
    worse = losses["new"] > 1.01 * losses["shipped"]
    need(p.returncode == worse and ("is worse" in p.stderr) == worse, f"status {p.returncode}: {p.stdout}")
    info = subprocess.run([TBLOCK, "info", out, "--json"], capture_output=True, text=True)
    shipped = subprocess.run([TBLOCK, "info", ROOT / "models" / "shakespeare.bin", "--json"], capture_output=True, text=True)
    need(json.loads(info.stdout)["config"] == json.loads(shipped.stdout)["config"], "another config than that of the model that ships")
    p = subprocess.run([recipe, c.folder / "none"], capture_output=True, text=True)
    need(p.returncode == 2 and "expected a text file, found" in p.stderr, f"no text: status {p.returncode}")


CLAIMS = [chat_format_stays, finished_training_is_resumed, parameters_without_a_loss_are_not_kept, random_seed_is_told_for_resuming,
          resume_changes_no_byte, resume_after_a_kill, model_runs_and_has_learned, plot_is_an_image, tokenizer_is_that_of_tokenizers,
          faults_are_named, checkpoint_survives, outputs_are_looked_at_before_the_first_step, rate_ends_where_it_should, tokenizer_of_another_model,
          gradient_check_has_an_exit_status, adapter_is_learned_on_quantized_weights, adapter_begins_where_the_model_is, adapter_has_the_loss_of_its_training,
          adapter_of_rows_in_another_order_has_the_loss_of_its_training,
          resumed_adapter_changes_no_byte,
          adapters_are_refused_by_name, recipe_of_the_shipped_model_runs]


def main():
    only = option_only(__doc__).parse_args().only
    failed, lacking = 0, lacks_openblas()
    for check in CLAIMS:
        if only not in check.__name__:
            continue
        if lacking:
            print(f"skip {check.__name__}: no OpenBLAS", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            failed += attempt(check.__name__, check, Case(folder))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
