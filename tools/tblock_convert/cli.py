"""The command: options, what SRC is, progress, summary, exit status."""
import argparse
import json
import os
import signal
import sys
import time

from . import bytelevel, hf, llama2c, model, plan, sentencepiece, tiktoken, tokenizers, writer
from .errors import INTERRUPTED, SYSTEM, USAGE, ConvertError, Interrupted, bad
from .source import Sources

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DTYPES = {"keep": "keep", "f32": "F32", "f16": "F16", "bf16": "BF16"}
HELP = """\
Convert published weights and tokenizers to a tblock model file.

SRC is one of
  a Hugging Face folder (docs/convert.md lists the families): config.json, model.safetensors or shards with
      model.safetensors.index.json; tokenizer.json or tokenizer.model where there is one
  a llama2.c checkpoint .bin (legacy or version 1); its tokenizer comes with --tokenizer
  a tokenizer alone: tokenizer.json (BPE or Unigram), tokenizer.model (SentencePiece or tiktoken
      ranks), vocab.json with merges.txt beside it, tokenizer.bin of llama2.c, or a folder of these

exit status: 0 done, 2 wrong usage, 3 bad or unsupported input, 4 the system failed, 130 interrupted"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ConvertError(USAGE, "%s (--help lists the options)" % message)


def parser():
    p = Parser(prog="convert.py", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    p.add_argument("src", metavar="SRC", help="folder or file to convert")
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="model file to write; an old file is replaced only when the new one is complete")
    p.add_argument("--dtype", choices=list(DTYPES), default="keep",
                   help="type of the matrices; keep: each stays as it is stored (default: %(default)s)")
    p.add_argument("--layout", choices=("rows16", "rows"), default="rows16",
                   help="panels of 16 rows, which are used directly, or row-major (default: %(default)s)")
    p.add_argument("--tokenizer", metavar="FILE", help="tokenizer file to use instead of the one of SRC")
    p.add_argument("--pattern", choices=sorted(bytelevel.PATTERNS), metavar="NAME",
                   help="how the tokenizer splits text, if its files do not say (unknown tiktoken ranks, vocab.json): %(choices)s")
    p.add_argument("--ignore-key", metavar="NAME", action="append", default=[],
                   help="ignore an unknown key of config.json; repeatable")
    p.add_argument("--quiet", action="store_true", help="print no summary and no progress, only warnings")
    return p


def main(argv):
    """Run; prints the one error line and returns the exit status."""
    for name in SIGNALS:
        signal.signal(name, interrupt)
    try:
        convert(parser().parse_args(argv))
        sys.stdout.flush()
        return 0
    except ConvertError as e:
        return complain(e, e.status)
    except Interrupted:
        return complain("interrupted, nothing written", INTERRUPTED)
    except MemoryError:
        return complain("out of memory", SYSTEM)
    except BrokenPipeError:   # nobody reads the summary; the model file is written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as e:
        return complain("%s%s" % (e.filename + ": " if isinstance(e.filename, str) else "", e.strerror or e), SYSTEM)


def complain(text, status):
    print("convert.py: %s" % text, file=sys.stderr)
    return status


def interrupt(number, frame):
    """Unwind, so that the temporary file goes; a second signal must not cut that short."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    raise Interrupted()


def check_output(args, sources):
    """Replace no source: no file that was read, and none of the folder that another reader would read."""
    paths = [f.path for f in sources.files]
    if os.path.isdir(args.src):
        paths += [os.path.join(args.src, n) for n in os.listdir(args.src) if n.startswith("pytorch_model") or
                  n.endswith((".safetensors", ".json", ".jinja", ".model", ".pth", ".gguf", ".txt"))]
    if os.path.exists(args.output) and any(os.path.exists(p) and os.path.samefile(p, args.output) for p in paths):
        raise ConvertError(USAGE, "-o %s: expected a new file, found one of the sources" % args.output)


def convert(args):
    started = time.monotonic()
    sources = Sources()
    try:
        checkpoint, vocab = load(args, sources)
        check_size(checkpoint, vocab)
        talk = None
        check_output(args, sources)
        seen = plan.Seen()
        entries = plan.entries(checkpoint, vocab, DTYPES[args.dtype], args.layout, seen)
        sources.start_hashing()
        progress = Progress(sum(e.n_bytes for e in entries)) if sys.stderr.isatty() and not args.quiet else None
        try:
            n_bytes, digest = writer.write(args.output, entries, lambda sha: metadata(checkpoint, vocab, talk, entries, sources, sha),
                                           progress and progress.add)
        finally:
            if progress:
                progress.clear()
    finally:
        sources.close()
    for line in (checkpoint.warnings if checkpoint else []) + (vocab.warnings if vocab else []) + \
            (talk.warnings() if talk else []) + \
            ["tensor %s: %d values are NaN or infinite: kept" % item for item in seen.not_finite.items()]:
        print("convert.py: warning: %s" % line, file=sys.stderr)
    if not args.quiet:
        summary(args.output, checkpoint, vocab, talk, entries, seen, n_bytes, digest, time.monotonic() - started)


def load(args, sources):
    """(Checkpoint or None, Vocab or None) of the source."""
    vocab = None
    if args.tokenizer:
        vocab = tokenizers.from_file(args.tokenizer, sources, args.pattern)
        if vocab is None:
            raise bad(args.tokenizer, "", "tokenizer.json, tokenizer.model, vocab.json or tokenizer.bin", "none of these")
    if os.path.isdir(args.src) and not os.path.exists(os.path.join(args.src, "config.json")) and not args.tokenizer:
        vocab = tokenizers.from_file(args.src, sources, args.pattern)
        if vocab:
            return None, vocab
    if os.path.isdir(args.src):
        checkpoint = hf.load(args.src, sources, args.ignore_key)
        if not args.tokenizer:
            vocab = tokenizers.from_folder(args.src, sources, (checkpoint.config["bos"], checkpoint.config["eos"]), args.pattern)
            if not vocab:
                checkpoint.warnings += tokenizers.not_read(args.src)
        return checkpoint, vocab
    if args.ignore_key:
        raise ConvertError(USAGE, "--ignore-key: expected a Hugging Face folder, found %s" % args.src)
    file = sources.open(args.src)
    head = file.read(0, min(file.size, 256))
    if llama2c.looks_like(head) and not sentencepiece.looks_like(head) and not tiktoken.looks_like(head):
        return llama2c.load(file), vocab
    if not vocab:
        vocab = tokenizers.from_file(args.src, sources, args.pattern)
        if vocab:
            return None, vocab
    raise unknown(args.src, head)


def unknown(path, head):
    """Name what the file is, if we know it."""
    hint = ""
    if head[:4] == b"GGUF":
        hint = "this is a GGUF file"
    elif head[:2] == b"PK":
        hint = "this looks like a PyTorch file; only safetensors weights are read"
    elif head[8:9] == b"{":
        hint = "this looks like a safetensors file: give its folder, with config.json"
    return bad(path, "", "a Hugging Face folder, a llama2.c checkpoint or a tokenizer file", "none of these", hint)


def metadata(checkpoint, vocab, talk, entries, sources, sha256):
    """The __metadata__ of the model file; with sha256 None, placeholders of the right length."""
    result = {"format": "tblock", "version": "1"}
    if checkpoint:
        result["config"] = model.config_text(checkpoint.config)
    result["source"] = json.dumps(sources.listed(sha256 is not None))
    result["sha256"] = sha256 or "0" * 64
    if vocab:
        result["tokenizer"] = vocab.metadata()
    if talk:
        result.update(talk.metadata())
    if any(e.dtype == "BF16" for e in entries):
        result["bf16_min"] = "2^-50"
    return result


def check_size(checkpoint, vocab):
    """A tokenizer may be smaller than the embedding (padded tables are common); ids past its end would have no row."""
    if checkpoint and vocab and vocab.size() > checkpoint.config["vocab_size"]:
        raise bad(vocab.file, "tokenizer", "at most vocab_size %d tokens" % checkpoint.config["vocab_size"], str(vocab.size()))


# ---- what the user sees ----

class Progress:
    """A bar on stderr, redrawn ten times a second. Called by the writing thread."""

    def __init__(self, total):
        self.total, self.done, self.drawn, self.started = max(1, total), 0, 0.0, time.monotonic()

    def add(self, n):
        self.done += n
        now = time.monotonic()
        if now - self.drawn < 0.1:
            return
        self.drawn = now
        share = min(1.0, self.done / self.total)
        rate = self.done / max(1e-3, now - self.started)
        sys.stderr.write("\r%s %3d%%  %s of %s  %s/s  %d s left \033[K" % (
            "[" + "=" * int(share * 30) + " " * (30 - int(share * 30)) + "]", share * 100, size_text(self.done),
            size_text(self.total), size_text(rate), max(0, self.total - self.done) / max(1.0, rate)))
        sys.stderr.flush()

    def clear(self):
        if self.drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def size_text(n):
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return "%d B" % n if unit == "B" else "%.3g %s" % (n, unit) if n < 1000 else "%.0f %s" % (n, unit)
        n /= 1000.0


def summary(path, checkpoint, vocab, talk, entries, seen, n_bytes, digest, seconds):
    """The table at the end, on stdout."""
    rows = []
    if checkpoint:
        c = checkpoint.config
        rows.append(("model", "%s: %d layers, d_model %d, %d heads, %d kv heads of %d, d_ff %d, vocabulary %d, context %d" % (
            c["family"], c["n_layers"], c["d_model"], c["heads"], c["kv_heads"], c["head_dim"], c["d_ff"], c["vocab_size"],
            c["n_ctx"])))
        parts = [name for name in ("qkv_bias", "out_bias", "ffn_bias") if c[name]]
        parts += ["tied embeddings"] if c["tied_embeddings"] else []
        parts += ["window %d" % c["window"]] if c["window"] else []
        parts += ["rope %s" % c["rope"]["type"]] if c["rope"]["type"] != "default" else []
        if parts:
            rows.append(("", ", ".join(parts)))
        rows.append(("parameters", "{:,}".format(sum(w.items * w.rows * w.k for w in checkpoint.weights.values()))))
        for dtype in ("F32", "F16", "BF16"):
            of = [e for e in entries if e.dtype == dtype and not e.name.startswith("tok.")]
            if of:
                rows.append((dtype.lower(), "%d tensors, %s" % (len(of), size_text(sum(e.n_bytes for e in of)))))
        rows += [("converted", "%d matrices from %s to %s" % (n, a.lower(), b.lower())) for (a, b), n in seen.converted.items()]
        if seen.flushed:
            rows.append(("too small", "%d bf16 values under 2^-50 became 0" % seen.flushed))
        rows += [("note", line) for line in checkpoint.notes]
    if vocab:
        kind = {"spm": "SentencePiece BPE", "spm_unigram": "SentencePiece unigram", "bpe": "byte-level BPE",
                "bpe_char": "BPE of characters", "unigram": "unigram"}[vocab.type]
        kind += ", %d merges" % len(vocab.merges) if vocab.merges else ""
        rows.append(("tokenizer", "%s, %d ids, %d special" % (kind, vocab.size(), len(vocab.special))))
    else:
        rows.append(("tokenizer", "none: commands that need text will say so"))
    if talk and talk.format:
        rows.append(("chat", "format %s" % talk.format["name"]))
        rows += [("note", line) for line in talk.notes]
    rows.append(("sha256", digest))
    rows.append(("written", "%s: %s (%d bytes) in %.1f s" % (path, size_text(n_bytes), n_bytes, seconds)))
    for name, text in rows:
        print("%-12s%s" % (name, text))
