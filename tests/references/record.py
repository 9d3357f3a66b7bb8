#!/usr/bin/env python3
"""What PyTorch and transformers answer to what `tblock eval` is asked: the recorded answers of tests/data/references.json.

    record.py             compute all and write tests/data/references.json
    record.py --print     compute all and print them

Needs torch, transformers and sentencepiece (tests/references/live.sh makes an environment with them), and the folder
$TBLOCK_TEST_DATA with the models' Hugging Face folders and the texts. Everything is computed in float64.
"""
import hashlib
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from testdata import FIXTURES, MORE  # noqa: E402

ANSWERS = ROOT / "tests" / "data" / "references.json"
QUESTIONS = ROOT / "tests" / "data" / "questions.jsonl"
SHIPPED = ROOT / "models" / "shakespeare.bin"
FOLDERS = {"stories260K": FIXTURES / "models" / "stories260K"}

# model, text, bytes of it (cut to whole lines), context, stride
TEXTS = [
    ("shakespeare", "tinyshakespeare.txt", 20000, 256, 256), ("shakespeare", "tinyshakespeare.txt", 20000, 256, 100),
    ("shakespeare", "wikitext-2.wiki.test.raw", 12000, 200, 50), ("shakespeare", "questions.jsonl", 10000, 256, 256),
    ("stories260K", "botchan.txt", 12000, 512, 512), ("stories260K", "botchan.txt", 12000, 512, 128),
    ("stories260K", "wikitext-2.wiki.test.raw", 6000, 64, 63), ("stories260K", "wagahaiwa_nekodearu.txt", 3000, 300, 100),
]
# model, type of its matrices, text, bytes, context, stride: against the model as it is
AGAINST = [("stories260K", "bf16", "botchan.txt", 6000, 512, 256), ("stories260K", "f16", "botchan.txt", 6000, 256, 256)]
TYPED = ("embed_tokens", "_proj", "lm_head")  # what `--type` makes another type; norms stay


def text_of(name, most):
    """The first whole lines of a text, at most so many bytes."""
    data = (QUESTIONS if name == QUESTIONS.name else MORE / "text" / name).read_bytes()[:most]
    return data[:data.rindex(b"\n") + 1]


def text_exists(name):
    return name == QUESTIONS.name or (MORE / "text" / name).exists()


def questions():
    """(context, choices, answer) of every line."""
    for line in QUESTIONS.read_text(encoding="utf-8").splitlines():
        if line.strip():
            q = json.loads(line)
            yield q.get("context", q.get("question")), q["choices"], q["answer"]


def exported(folder):
    """The shipped model as a Hugging Face folder."""
    subprocess.run([sys.executable, ROOT / "tools" / "export.py", SHIPPED, "-o", folder], check=True, stdout=sys.stderr)
    return folder


class Reference:
    """A model and its tokenizer, by PyTorch."""

    def __init__(self, name, folder, rounded=None):
        import torch
        import transformers
        self.torch, self.name = torch, name
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
        if rounded:
            for key, p in self.model.named_parameters():
                if any(t in key for t in TYPED):
                    p.data = p.data.to(rounded).to(torch.float64)
        if name == "stories260K":  # its tokenizer.model without what transformers changes
            import sentencepiece
            sp = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
            self.encode = lambda text: [sp.bos_id()] + sp.encode(text)
        else:
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
            self.encode = lambda text: tokenizer.encode(text)
        self.n_added = len(self.encode(""))

    def log_probs(self, ids):
        with self.torch.no_grad():
            return self.torch.log_softmax(self.model(self.torch.tensor([ids])).logits[0].double(), -1)


def windows(n, context, stride):
    """(begin, end, how many of its tokens are targets): the loop of huggingface.co/docs/transformers/perplexity."""
    before = 0
    for begin in range(0, n, stride):
        end = min(begin + context, n)
        yield begin, end, end - before
        before = end
        if end == n:
            return


def scored(ids, context, stride, *models):
    """For every target: its id and the rows of log probabilities that predict it, one for each model; None after a window."""
    for begin, end, n_targets in windows(len(ids), context, stride):
        rows = [m.log_probs(ids[begin:end]) for m in models]
        for i in range(max(1, end - begin - n_targets), end - begin):
            yield ids[begin + i], [r[i - 1] for r in rows]
        yield None, n_targets


def mean_and_error(x):
    mean = math.fsum(x) / len(x)
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in x) / (len(x) - 1) / len(x))


def perplexity(r, text, context, stride):
    ids, nll, right, window, recipe = r.encode(text.decode()), [], 0, [], []
    for target, rows in scored(ids, context, stride, r):
        if target is None:  # the recipe: the window's mean loss, times its targets less one
            if window:
                recipe.append((math.fsum(window) / len(window) * (rows - 1), rows - 1))
            window = []
            continue
        window.append(-float(rows[0][target]))
        nll.append(window[-1])
        right += int(rows[0].argmax()) == target
    mean, error = mean_and_error(nll)
    return {"tokens": len(ids), "scored": len(nll), "ids_sha256": ids_hash(ids), "perplexity": math.exp(mean),
            "perplexity_error": math.exp(mean) * error, "nll": mean, "nll_error": error,
            "recipe_perplexity": math.exp(sum(a for a, _ in recipe) / sum(n for _, n in recipe)),
            "bits_per_byte": mean / math.log(2) * (len(ids) - r.n_added) / len(text), "accuracy": right / len(nll)}


def ids_hash(ids):
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()


def against(ours, parent, text, context, stride):
    ids, kl, ratio, squares, top1, top5 = ours.encode(text.decode()), [], [], [], 0, 0
    for target, rows in scored(ids, context, stride, ours, parent):
        if target is None:
            continue
        q, p = rows
        kl.append(float((p.exp() * (p - q)).sum()))
        ratio.append(float(p[target] - q[target]))
        squares.append(float(q[target].exp() - p[target].exp()) ** 2)
        top1 += int(p.argmax()) == int(q.argmax())
        top5 += set(p.topk(5).indices.tolist()) == set(q.topk(5).indices.tolist())
    mean, error = mean_and_error(kl)
    log_ratio, log_ratio_error = mean_and_error(ratio)
    return {"scored": len(kl), "mean_kl": mean, "mean_kl_error": error, "max_kl": max(kl), "kl_50": ours.torch.tensor(kl).double().quantile(0.5).item(),
            "kl_99": ours.torch.tensor(kl).double().quantile(0.99).item(), "top1": top1 / len(kl), "top5": top5 / len(kl),
            "log_ratio": log_ratio, "log_ratio_error": log_ratio_error, "rms_probability": math.sqrt(math.fsum(squares) / len(squares))}


def choices(r):
    """For each question the sums of log-likelihood of its choices."""
    answers = []
    for context, texts, answer in questions():
        head, scores = r.encode(context), []
        for text in texts:
            ids = r.encode(context + " " + text)
            start = next((i for i, (a, b) in enumerate(zip(head, ids)) if a != b), min(len(head), len(ids)))
            lp = r.log_probs(ids)
            scores.append({"sum": math.fsum(float(lp[i - 1][ids[i]]) for i in range(start, len(ids))), "tokens": len(ids) - start,
                           "bytes": len(text.encode())})
        answers.append({"answer": answer, "choices": scores})
    return answers


def compute(shakespeare):
    """All answers; shakespeare: the shipped model's folder."""
    import torch
    torch.set_num_threads(max(1, min(4, os.cpu_count() or 1)))
    folders = {"shakespeare": shakespeare, **FOLDERS}
    models = {name: Reference(name, folder) for name, folder in folders.items()}
    out = {"versions": {p: importlib.metadata.version(p) for p in ("torch", "transformers", "sentencepiece", "tokenizers")}, "texts": [],
           "against": [], "choices": {}}
    for name, text, most, context, stride in TEXTS:
        out["texts"].append({"model": name, "text": text, "bytes": most, "context": context, "stride": stride,
                             **perplexity(models[name], text_of(text, most), context, stride)})
    for name, kind, text, most, context, stride in AGAINST:
        ours = Reference(name, folders[name], {"bf16": torch.bfloat16, "f16": torch.float16}[kind])
        out["against"].append({"model": name, "type": kind, "text": text, "bytes": most, "context": context, "stride": stride,
                               **against(ours, models[name], text_of(text, most), context, stride)})
    for name in models:
        out["choices"][name] = choices(models[name])
    return out


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        answer = json.dumps(compute(exported(pathlib.Path(temporary) / "hf")), indent=1) + "\n"
    if "--print" in sys.argv[1:]:
        print(answer, end="")
    else:
        ANSWERS.write_text(answer)
