#!/usr/bin/env python3
"""tblock train beside PyTorch: the same model, batch and optimizer, tokens/s and memory, in turns in one run.

    train.py [--python PYTHON] [--rounds N] [--steps N] [--threads N] [--text FILE]

The model is the one that train has of its own: d_model 192, 6 layers, 6 heads (3 KV heads), SwiGLU 512, vocabulary 1024, tied head; a
batch is 24 x 256 tokens. PyTorch (of PYTHON, in a virtual environment of yours; tblock never needs it) runs the model in eager mode with
scaled_dot_product_attention, RMSNorm and AdamW as its own functions. Memory is the largest resident set of the process, once whole and
once above what the process had before the model was made (for tblock: whole). Medians over rounds; times are of steps alone.
CPU seconds tell more than tokens/s where other work shares the machine: both are printed."""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BATCH, LENGTH = 24, 256


def torch_side(steps, threads):
    """In a process of PyTorch's own: one JSON line."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    D, LAYERS, HEADS, KV, HEAD, FF, VOCAB = 192, 6, 6, 3, 32, 512, 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    angle = torch.outer(torch.arange(LENGTH), 1 / 10000 ** (torch.arange(0, HEAD, 2) / HEAD))
    cosine, sine = torch.cat([angle, angle], -1).cos(), torch.cat([angle, angle], -1).sin()

    def rotate(x):
        return x * cosine + torch.cat([-x[..., HEAD // 2:], x[..., :HEAD // 2]], -1) * sine

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.RMSNorm(D, 1e-5), nn.RMSNorm(D, 1e-5)
            self.q, self.k, self.v = (nn.Linear(D, n * HEAD, bias=False) for n in (HEADS, KV, KV))
            self.o = nn.Linear(D, D, bias=False)
            self.gate, self.up, self.down = nn.Linear(D, FF, bias=False), nn.Linear(D, FF, bias=False), nn.Linear(FF, D, bias=False)

        def forward(self, x):
            b, t, _ = x.shape
            n = self.n1(x)
            q, k, v = (w(n).view(b, t, -1, HEAD).transpose(1, 2) for w in (self.q, self.k, self.v))
            a = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
            x = x + self.o(a.transpose(1, 2).reshape(b, t, D))
            n = self.n2(x)
            return x + self.down(F.silu(self.gate(n)) * self.up(n))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(VOCAB, D), nn.RMSNorm(D, 1e-5)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return F.linear(self.norm(x), self.embed.weight)

    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95), 1e-8, 0.1, fused=True)
    text = torch.randint(0, VOCAB, (BATCH, LENGTH + 1))

    def step():
        loss = F.cross_entropy(model(text[:, :-1]).reshape(-1, VOCAB), text[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    step()
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    print(json.dumps({"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu,
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "before": before * 1024,
                      "version": torch.__version__}))


def tblock_side(tblock, text, steps, threads):
    """CPU seconds: of a run of the steps less a run of one, so that the tokenizer does not count."""
    def run(n):
        with tempfile.TemporaryDirectory() as folder:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            p = subprocess.Popen([tblock, "train", f"{folder}/m.bin", "--text", text, "--steps", str(n), "--batch", str(BATCH), "--ctx", str(LENGTH),
                                  "--validation", "0", "--threads", str(threads), "--json"], stdout=subprocess.PIPE)
            lines = p.stdout.read().splitlines()
            _, status, usage = os.wait4(p.pid, 0)
            p.returncode = status
            if status:
                raise SystemExit("tblock train failed")
            return json.loads(lines[-1]), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    _, one, _ = run(1)
    last, cpu, peak = run(steps + 1)
    return {"seconds": steps * BATCH * LENGTH / last["tok_per_s"], "cpu": cpu - one, "peak": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--text", default=str(ROOT.parent / "shared" / "data" / "text" / "tinyshakespeare.txt"))
    parser.add_argument("--tblock", default=str(ROOT / os.environ.get("BUILD", "build/release") / "tblock"))
    parser.add_argument("--torch-side", action="store_true", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.torch_side:
        torch_side(a.steps, a.threads)
        return
    rounds = []
    for _ in range(a.rounds):
        ours = tblock_side(a.tblock, a.text, a.steps, a.threads)
        p = subprocess.run([a.python, __file__, "--torch-side", "--steps", str(a.steps), "--threads", str(a.threads)], stdout=subprocess.PIPE,
                           check=True)
        rounds.append((ours, json.loads(p.stdout)))
    tokens = a.steps * BATCH * LENGTH
    print(f"{'':24} {'tokens/s':>10} {'tokens/CPU s':>13} {'peak MB':>9}")
    for i, name in enumerate(("tblock", "PyTorch " + rounds[0][1]["version"])):
        side = [r[i] for r in rounds]
        print(f"{name:24} {tokens / statistics.median(s['seconds'] for s in side):10.0f} {tokens / statistics.median(s['cpu'] for s in side):13.0f} "
              f"{max(s['peak'] for s in side) / 1e6:9.0f}")
    above = max(t["peak"] - t["before"] for _, t in rounds) / 1e6
    print(f"PyTorch above what its process had before the model was made: {above:.0f} MB")


if __name__ == "__main__":
    main()
