"""A context: the forward pass over sequences with their KV caches, and what is measured with it."""
from __future__ import annotations

import json
import os
import tempfile
import threading
import weakref
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._c import ffi, lib
from ._core import (BusyError, Callback, Error, Handle, Options, Record, UsageError, c_text, call, expect, record,
                    records, text_bytes, text_of, whole)
from .options import show_as, takes_options
from .model import Floats, Ids, Lora, Model, Path, Prompt, Text, array, c_ids, c_loras, owned

from .words import in_python

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .constraint import Constraint
    from .generation import Generation
    from .options import AttentionOptions, ChoicesOptions, EmbedOptions, EvalOptions, LogitsOptions, SamplingOptions, VerifyOptions


# tblock_receipt_verdict, in the words of `tblock verify --json`
VERDICTS = {lib.TBLOCK_RECEIPT_HOLDS: "holds", lib.TBLOCK_RECEIPT_OTHER: "other", lib.TBLOCK_RECEIPT_CHANGED: "changed",
            lib.TBLOCK_RECEIPT_TOKEN: "token", lib.TBLOCK_RECEIPT_LOGITS: "logits", lib.TBLOCK_RECEIPT_FAILED: "failed",
            lib.TBLOCK_RECEIPT_NOTHING: "nothing", lib.TBLOCK_RECEIPT_TEXT: "text"}


# tblock_audit_verdict, in the words of `tblock audit --json`
AUDIT_VERDICTS = {lib.TBLOCK_AUDIT_FITS: "fits", lib.TBLOCK_AUDIT_DIFFERS: "differs", lib.TBLOCK_AUDIT_FAILED: "failed",
                  lib.TBLOCK_AUDIT_NO_POWER: "no power"}


def _receipts(given: Iterable[Union[str, bytes, Mapping[str, Any]]]) -> list[Any]:
    """Receipts, JSON or what it says, for C."""
    texts = [r.encode() if isinstance(r, str) else r if isinstance(r, bytes) else json.dumps(r).encode() for r in given]
    return [ffi.gc(call("tblock_receipt_read", text, len(text), b"receipt %d" % i), lib.tblock_receipt_free)
            for i, text in enumerate(texts)]


def _recorded(given: Any) -> Any:
    """What records say of the context that they were made in: the longest one's length, as `tblock verify` does."""
    out = ffi.new("tblock_recorded *")
    if isinstance(given, (str, os.PathLike)):
        call("tblock_recorded_read", c_text("recorded", given), True, out)
        return out
    if isinstance(given, (bytes, bytearray)) or not hasattr(given, "__iter__"):
        raise UsageError("recorded: expected a path, a receipt or a list of receipts, found %s" % type(given).__name__)
    for i, receipt in enumerate(_receipts([given] if isinstance(given, Mapping) else given)):
        n_ctx, rope_length = out.n_ctx, out.rope_length
        call("tblock_receipt_recorded", receipt, out)
        if i and out.rope_length != rope_length:
            raise UsageError("recorded: expected receipts of one rope_length, found %d and %d" % (rope_length, out.rope_length))
        out.n_ctx = max(out.n_ctx, n_ctx)
    return out


class Context(Handle):
    """KV caches, activations and threads of one run. One thread at a time may use it: another one gets a BusyError, and so does
    a process that was forked. While it computes, other Python threads run.

    n_ctx: longest sequence, 0: the model's own. n_seqs: sequences 0 to n_seqs - 1. n_batch: most tokens computed at once.
    threads: 0: one for each physical core. isa, math, activations, kv_type, rope_length, affinity, pages: as the options of
    `tblock run`. lora: adapters, applied in this order (Model.load_lora). drafter: a smaller model with the same tokens, which
    guesses for the generations with `draft` (docs/drafts.md); closing it closes the context. "mtp": the model's own layer for that.
    recorded: a file of golden logits or a state, a receipt, or a list of receipts: where n_ctx and rope_length are 0, they are those that
    it was recorded with. allow_nan: logits may be NaN. No result depends on n_seqs, n_batch, threads, isa, affinity or pages."""

    @takes_options
    def __init__(self, model: Model, *, n_ctx: int = 0, n_seqs: int = 1, n_batch: int = 0, threads: int = 0,
                 isa: Optional[str] = None, math: Optional[str] = None, activations: Optional[str] = None,
                 kv_type: Optional[str] = None, rope_length: int = 0, affinity: Optional[str] = None, allow_nan: bool = False,
                 pages: Optional[str] = None, lora: Sequence[Lora] = (), drafter: Union[Model, str, None] = None,
                 recorded: Union[Path, Mapping[str, Any], Sequence[Union[str, bytes, Mapping[str, Any]]], None] = None, _pool: "Optional[list[Context]]" = None) -> None:
        opt = Options("tblock_context_options", {
            "n_ctx": n_ctx, "n_seqs": n_seqs, "n_batch": n_batch, "threads": threads, "isa": isa, "math": math,
            "activations": activations, "kv_type": kv_type, "rope_length": rope_length, "affinity": affinity, "allow_nan": allow_nan, "pages": pages})
        known = ffi.NULL if recorded is None else _recorded(recorded)
        opt.c.recorded = known
        self._guard = threading.Lock()
        chosen = c_loras(expect("model", model, Model), lora)
        if isinstance(drafter, str) and drafter != "mtp":
            raise UsageError("drafter: expected a model or 'mtp', found '%s'" % drafter)
        guesses = [] if drafter is None or isinstance(drafter, str) else [Context(
            expect("drafter", drafter, Model), n_ctx=min(n_ctx or model.n_ctx, drafter.n_ctx), n_seqs=n_seqs, n_batch=n_batch,
            threads=threads, isa=isa, affinity=affinity, pages=pages)]
        super().__init__(call("tblock_context_new", expect("model", model, Model)._c, opt.c), lib.tblock_context_free, model, *guesses,
                         guard=self._guard)
        self._pool = _pool
        if _pool is not None:
            self._parents = ()  # the pool is the model's: it would keep itself alive
        self._model = weakref.ref(model)
        with self._use() as c:
            described = ffi.new("tblock_context_info *")
            lib.tblock_context_describe(c, described)
            self.n_ctx, self.n_seqs = int(described.n_ctx), int(described.n_seqs)
            self._lora = chosen
            if len(chosen):
                self._choose(c, chosen)
            for by in [other._c for other in guesses] or [c] * (drafter is not None):
                call("tblock_draft_by", c, by)

    def _choose(self, c: Any, adapters: Any) -> None:
        """What begins from now on uses these."""
        with self.model._loading:
            call("tblock_lora_choose", c, -1, adapters, len(adapters))

    @contextmanager
    def _using(self, c: Any, adapters: Any) -> Iterator[None]:
        """What begins inside uses these. None: the context's own."""
        if adapters is not None:
            self._choose(c, adapters)
        try:
            yield
        finally:
            if adapters is not None:
                self._choose(c, self._lora)

    @property
    def model(self) -> Model:
        model = self._model()
        assert model is not None  # a generation keeps both
        return model

    @property
    def usable(self) -> bool:
        """Is it open, and this process's own?"""
        return not self.closed and self._cell.process == os.getpid()

    @contextmanager
    def _use(self) -> Iterator[Any]:
        """The context for C, for this thread alone."""
        if self._cell.process != os.getpid():
            raise BusyError("the context was made before a fork, which leaves its threads behind; make a new one")
        if not self._guard.acquire(blocking=False):
            raise BusyError("another thread or a callback uses the context; expected one thread at a time")
        try:
            yield self._c
        finally:
            self._cell.sweep()
            self._guard.release()

    def info(self) -> Record:
        """n_ctx, n_seqs, n_batch, threads, rope_length, isa, math, activations, kv_type, kv_bytes, activation_bytes."""
        with self._use() as c:
            described = ffi.new("tblock_context_info *")
            lib.tblock_context_describe(c, described)
            return record(described[0])

    # ---- Tokens in, logits out ----

    @takes_options
    def decode(self, ids: Iterable[int], *, seq: int = 0, want: str = "last") -> Optional[Floats]:
        """Put tokens behind those that sequence seq holds. want: "last" gives the logits [1, vocab_size] after the last token,
        "all" those [n, vocab_size] after each, "none" None. The array is read-only and belongs to you, without a copy. Any way to
        cut the same tokens into calls gives the same bits."""
        if want not in ("last", "all", "none"):
            raise UsageError("want: expected last, all or none, found %r" % (want,))
        given = c_ids(ids)
        with self._use() as c:
            return self._decode(c, given, seq, want)

    def _decode(self, c: Any, ids: Any, seq: int, want: str) -> Optional[Floats]:
        at, n = lib.tblock_seq_length(c, whole("seq", seq)), len(ids)
        if not n:
            return np.empty((0, self.model.vocab_size), np.float32) if want != "none" else None
        items = np.zeros(n, dtype=[("seq", "i4"), ("pos", "i4"), ("token", "i4"), ("want_logits", "?"), ("pad", "V3")])
        items["seq"], items["token"] = seq, np.frombuffer(ffi.buffer(ids), "i4")
        items["pos"] = np.arange(at, at + n)
        if want != "none":
            items["want_logits"][-1 if want == "last" else slice(None)] = True
        call("tblock_decode", c, ffi.from_buffer("tblock_item[]", items), n)
        return self._take(c) if want != "none" else None

    def _take(self, c: Any) -> Floats:
        n, stride = ffi.new("size_t *"), ffi.new("size_t *")
        rows = lib.tblock_logits_take(c, n, stride)
        shape, vocab = (int(n[0]), int(stride[0])), self.model.vocab_size
        if rows == ffi.NULL:
            return np.empty((0, vocab), np.float32)
        whole: Floats = array(ffi.gc(rows, lib.tblock_free, shape[0] * shape[1] * 4), shape, "f4")
        return whole[:, :vocab]

    @takes_options
    def logits(self, prompt: Prompt, *, last: bool = False) -> Floats:
        """Logits [n, vocab_size] after each token of a prompt (ids, or a text with BOS) computed from scratch, or [1, vocab_size]
        after the last. Read-only and yours, without a copy. Runs in sequence 0, which then holds the prompt."""
        ids = c_ids(self.model.prompt(prompt))
        with self._use() as c:
            call("tblock_seq_rewind", c, 0, 0)
            result = self._decode(c, ids, 0, "last" if last else "all")
        assert result is not None
        return result

    @takes_options
    def log_probs(self, prompt: Prompt, *, first: int = 1) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """ln of the probability that the model gives to tokens first, first + 1, ... of a prompt that is computed from scratch in
        sequence 0: float64 [n - first], the numbers that evaluation sums; and of each whether it was the most probable one."""
        ids = self.model.prompt(prompt)
        if not 1 <= whole("first", first) <= len(ids):
            raise UsageError("first: expected 1 to %d, found %d" % (len(ids), first))
        found, best = np.empty(len(ids) - first), np.empty(len(ids) - first, np.bool_)
        one, top, top_p = ffi.new("double *"), ffi.new("int32_t *"), ffi.new("double *")
        with self._use() as c:
            call("tblock_seq_rewind", c, 0, 0)
            self._decode(c, c_ids(ids[:first - 1]), 0, "none")
            rows = self._decode(c, c_ids(ids[first - 1:-1]), 0, "all")
        assert rows is not None
        for i, row in enumerate(rows):
            token = int(ids[first + i])
            call("tblock_log_probs", ffi.from_buffer("float[]", row), self.model.vocab_size, token, one, top, top_p, 1)
            found[i], best[i] = one[0], top[0] == token
        return found, best

    @takes_options
    def hidden(self, prompt: Prompt, names: Optional[Sequence[str]] = None) -> dict[str, Floats]:
        """The residual stream [n, d_model] at each place of a prompt that is computed from scratch in sequence 0: "embed"; for
        each layer "layer0.attn" (after attention) and "layer0" (after the feed-forward network); "final_norm". names: only these.
        The arrays are yours: the library's own memory is used again for every layer, so here it is copied once."""
        ids = c_ids(self.model.prompt(prompt))
        d, n = self.model.d_model, len(ids)
        found: dict[str, Floats] = {}

        def observe(name: str, first: int, n_tok: int, x: Any, stride: int) -> None:
            if names is not None and name not in names:
                return
            if name not in found:
                found[name] = np.empty((n, d), np.float32)
            rows = np.frombuffer(ffi.buffer(x, n_tok * stride * 4), np.float32).reshape(n_tok, stride)
            found[name][first:first + n_tok] = rows[:, :d]

        with self._use() as c:
            self._observed(c, ids, Callback(observe))
        missing = [name for name in names or () if name not in found]
        if missing:
            raise UsageError("names: expected places of the model (%s layers), found %r" % (self.model.n_layers, missing[0]))
        return found

    def _observed(self, c: Any, ids: Any, callback: Callback) -> None:
        call("tblock_seq_rewind", c, 0, 0)
        lib.tblock_observe(c, lib.tblock_py_observe, callback.handle)
        try:
            self._decode(c, ids, 0, "none")
        finally:
            lib.tblock_observe(c, ffi.NULL, ffi.NULL)
        if callback.raised is not None:
            raise callback.raised

    # ---- Sequences ----

    def seq_length(self, seq: int = 0) -> int:
        """Tokens that sequence seq holds."""
        with self._use() as c:
            n = int(lib.tblock_seq_length(c, whole("seq", seq)))
        if n < 0:
            raise UsageError("seq: expected 0 to %d, found %d" % (self.n_seqs - 1, seq))
        return n

    @takes_options
    def rewind(self, length: int = 0, *, seq: int = 0) -> None:
        """Forget all but the first tokens of a sequence."""
        with self._use() as c:
            call("tblock_seq_rewind", c, whole("seq", seq), whole("length", length))

    def copy(self, source: int, target: int, length: int) -> None:
        """Make sequence `target` the first tokens of sequence `source`; KV memory is shared until one goes on."""
        with self._use() as c:
            call("tblock_seq_copy", c, whole("source", source), whole("target", target), whole("length", length))

    @takes_options
    def save_state(self, path: Path, ids: Iterable[int], *, seq: int = 0) -> None:
        """Write sequence seq, which holds ids, to a file (docs/format.md, "State")."""
        given = c_ids(ids)
        with self._use() as c:
            call("tblock_state_save", c, whole("seq", seq), given, len(given), c_text("path", path))

    @takes_options
    def load_state(self, path: Path, *, seq: int = 0) -> Ids:
        """Make sequence seq that of a file. Returns its ids [n]."""
        ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
        with self._use() as c:
            call("tblock_state_load", c, whole("seq", seq), c_text("path", path), ids, n)
        return array(owned(ids[0]), (n[0],), "i4")

    # ---- Generating ----

    @takes_options
    def generate(self, prompt: Prompt, *, max_tokens: Optional[int] = 256, logit_bias: Optional[Mapping[int, float]] = None, seed: int = 0,
                 stop: Union[str, Sequence[str]] = (), stop_ids: Optional[Sequence[int]] = None, skip: Optional[str] = None,
                 constraint: Optional[Constraint] = None, draft: int = 0, draft_match: int = 2,
                 lora: Optional[Sequence[Lora]] = None, receipt: Union[bool, Mapping[str, Any]] = False,
                 logprobs: Optional[int] = None, **sampling: Unpack[SamplingOptions]) -> "Generation":
        """Continue a prompt (ids, or a text, which gets BOS). The options are those of `tblock run`, with its defaults: the same
        ones give the same text, to the bit. temperature 0: greedy. max_tokens: None: until the context is full. stop: texts that end it. stop_ids: tokens
        that end it; None: the model's own. skip: dropped from the start. constraint: what the text must fit (Model.constraint).
        draft: most tokens to guess ahead, from the text so far or by the context's drafter. lora: adapters (Model.load_lora), applied in this order; None: those of the context, []:
        none. receipt: the generation has a `receipt`; a dict with `every` keeps links of its chain,
        with `trust_hash` the model's data are not read for it. logprobs: the generation has `logprobs`, of each sampled token and of so
        many most probable ones; None: not. Returns an iterator of the pieces of the text."""
        from .generation import Generation
        return Generation(self, prompt, {
            "max_tokens": 0 if max_tokens is None else max_tokens or -1, "stop_ids": stop_ids, "stop_texts": [stop] if isinstance(stop, str) else stop,
            "skip": skip, "draft": draft, "draft_match": draft_match}, sampling, seed, logit_bias, constraint,
            None if receipt is False else {} if receipt is True else receipt, None if lora is None else c_loras(self.model, lora), logprobs)

    def advance(self, generations: "Sequence[Generation]", prompt_tokens: int = 0) -> None:
        """Take generations of this context one step on, in one batch. Each samples what it would sample alone, to the bit.
        prompt_tokens: most tokens of prompts in this step; 0: n_batch."""
        from .generation import Generation
        given = [expect("generations", g, Generation)._c for g in generations]
        if whole("prompt_tokens", prompt_tokens) < 0:
            raise UsageError("prompt_tokens: expected at least 0, found %d" % prompt_tokens)
        with self._use() as c:
            call("tblock_advance", c, ffi.new("tblock_generation *[]", given), len(given), prompt_tokens)
            for g in generations:
                g._describe()

    # ---- Measuring ----

    def _tool(self, function: str, kind: str, out: str, options: Mapping[str, Any], *given: Any, no: bool = False) -> Any:
        """Call a function of tblock_tools.h: (context, given..., options, out, error)."""
        opt, report = Options(kind, options), ffi.new(out + " *")
        with self._use() as c:
            call(function, c, *given, opt.c, report, options=opt, no=no)
        return report[0]

    @takes_options
    def embed(self, texts: Sequence[Prompt], **options: Unpack[EmbedOptions]) -> Floats:
        """Texts (with BOS) or ids as vectors [n, width], float32, as many at once as there are sequences (docs/embeddings.md).
        Options: pool ("auto", "mean", "last", "cls"), raw (not of length 1), progress."""
        if isinstance(texts, (str, bytes)):
            raise UsageError("texts: expected a list, found %r" % (texts,))
        ids = [c_ids(self.model.prompt(text)) for text in texts]
        opt = Options("tblock_embed_options", options)
        given = ffi.new("tblock_embed_text[]", [(i, len(i)) for i in ids])
        kind = ffi.new("int *")
        call("tblock_pool_choose", self.model._c, opt.c.pool, kind)
        out: Floats = np.empty((len(ids), int(lib.tblock_pool_width(self.model._c, kind[0]))), np.float32)
        failed = ffi.new("size_t *", len(ids))
        with self._use() as c:
            try:
                call("tblock_embed", c, given, len(ids), opt.c, ffi.from_buffer("float[]", out), failed, options=opt)
            except Error as e:
                if failed[0] < len(ids):
                    raise type(e)("texts[%d]: %s" % (failed[0], e.message)) from None
                raise
        return out

    @takes_options
    def rerank(self, query: Text, documents: Sequence[Text], *, instruction: Optional[Text] = None) -> npt.NDArray[np.float64]:
        """How well each document meets the query, 0 to 1, float64 [n], by a model in the form of Qwen3-Reranker
        (docs/embeddings.md). instruction: None: that of the model card. As many are computed at once as there are sequences."""
        if isinstance(documents, (str, bytes)):
            raise UsageError("documents: expected a list, found %r" % (documents,))
        texts, kept = ffi.new("tblock_rerank_texts[]", len(documents)), []
        common = {name: value for name, value in (("query", query), ("instruction", instruction)) if value is not None}
        for i, document in enumerate(documents):
            for name, value in {**common, "document": document}.items():
                raw = text_bytes(name, value)
                kept.append(ffi.new("char[]", raw))
                setattr(texts[i], name, kept[-1])
                setattr(texts[i], "n_" + name, len(raw))
        scores, failed = np.empty(len(documents)), ffi.new("size_t *", len(documents))
        with self._use() as c:
            try:
                call("tblock_rerank", c, texts, len(documents), ffi.from_buffer("double[]", scores), failed)
            except Error as e:
                if failed[0] < len(documents):
                    raise type(e)("documents[%d]: %s" % (failed[0], e.message)) from None
                raise
        return scores

    @takes_options
    def eval_text(self, prompt: Prompt, **options: Unpack[EvalOptions]) -> Record:
        """Perplexity of a text (with BOS) or of ids: nll, perplexity, bits_per_byte, accuracy and their errors (docs/eval.md).
        Options: window, stride, progress."""
        return record(self._tool("tblock_eval_text", "tblock_eval_options", "tblock_eval_report",
                                 self._sized(prompt, options), *self._ids(prompt)))

    @takes_options
    def eval_against(self, parent: "Context", prompt: Prompt, **options: Unpack[EvalOptions]) -> Record:
        """How far this context's distributions are from those of parent, over the same tokens: mean_kl, top1, log_ratio, ...
        Options: window, stride, progress."""
        with expect("parent", parent, Context)._use() as other:
            return record(self._tool("tblock_eval_against", "tblock_eval_options", "tblock_against_report",
                                     self._sized(prompt, options), other, *self._ids(prompt)))

    def _ids(self, prompt: Prompt) -> tuple[Any, int]:
        ids = c_ids(self.model.prompt(prompt))
        return ids, len(ids)

    def _sized(self, prompt: Prompt, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """For bits per byte of a text: its bytes, and the tokens that are not part of it."""
        if not isinstance(prompt, (str, bytes)):
            return options
        added = len(self.model.prompt(prompt)) - len(self.model.tokenize(prompt, add_special=False))
        return {"n_bytes": len(prompt.encode() if isinstance(prompt, str) else prompt), "n_added": added, **options}

    @takes_options
    def eval_choices(self, path: Path, **options: Unpack[ChoicesOptions]) -> Record:
        """Multiple choice over a JSONL file (docs/eval.md): accuracy, accuracy_norm, and rows with the score of each choice.
        Options: delimiter, no_added, progress."""
        report = self._tool("tblock_eval_choices", "tblock_choices_options", "tblock_choices_report", options,
                            c_text("path", path))
        out, rows = record(report), records(report.rows, report.n_rows)
        n = max((r.first + r.n for r in rows), default=0)
        scores = records(report.score, n)
        lib.tblock_free(report.rows)
        lib.tblock_free(report.score)
        for r in rows:
            r["score"] = scores[r.first:r.first + r.n]
        out["rows"] = rows
        return out

    @takes_options
    def verify(self, golden: Union[Path, Mapping[str, Any]], **options: Unpack[VerifyOptions]) -> Record:
        """Compare with golden logits, a file (docs/verify.md) or its arrays, {"tokens": [n], "logits": [n, vocab_size], ...}: ok, tol, cause, settings, advice, and rows with max_abs, mean_kl,
        first_diff, parted, ... and `why` for a row that is not ok. Options: exact, tol, logits_only, greedy, tokens, trust_hash, progress."""
        if isinstance(golden, Mapping):
            with tempfile.TemporaryDirectory(prefix="tblock-") as folder:
                path = os.path.join(folder, "golden.safetensors")
                from .arrays import save_arrays
                save_arrays(path, {name: np.asarray(a, np.int32) if "tokens" in name else a for name, a in golden.items()})
                return self.verify(path, **options)
        given = {**options, "has_tol": options.get("tol") is not None}
        report = self._tool("tblock_verify", "tblock_verify_options", "tblock_verify_report", given, c_text("golden", golden))
        out, rows = record(report), records(report.rows, report.n_rows)
        out["advice"] = in_python(out.advice)
        why = ffi.new("char[]", 1024)
        for i, row in enumerate(rows):
            row["why"] = ""
            if not row.ok:
                lib.tblock_verify_explain(ffi.addressof(report), report.rows + i, why, 1024)
                row["why"] = text_of(why)
        lib.tblock_free(report.rows)
        out["rows"] = rows
        return out

    @takes_options
    def verify_receipts(self, receipts: Iterable[Union[str, bytes, Mapping[str, Any]]], *,
                        block: Optional[int] = None, trust_hash: bool = False, progress: Optional[Callable[[float], Any]] = None) -> list[Record]:
        """Compute receipts again (docs/receipts.md), JSON or what it says. Of each: verdict ("holds", "other", "changed", "token",
        "logits", "failed", "nothing", "text"), version, n_given, n_drawn, position, found, expected, first, last, why. As many at a time as there are
        sequences. block: only this one of 64 sampled tokens, from 0. The model's data must have the hash that its file records, unless
        trust_hash."""
        read = _receipts(receipts)
        rows = ffi.new("tblock_receipt_row[]", len(read))
        opt = Options("tblock_receipt_verify_options", {"trust_hash": trust_hash, "progress": progress, "one_block": block is not None,
                                                         "block": block or 0})
        with self._use() as c:
            call("tblock_receipt_verify", c, ffi.new("tblock_receipt *[]", read), len(read), opt.c, rows, options=opt)
        out = records(rows, len(read))
        for row in out:
            row["verdict"] = VERDICTS[row.verdict]
        return out

    @takes_options
    def audit(self, log: Iterable[Union[str, bytes, Mapping[str, Any]]], *, logit_bias: Optional[Mapping[int, float]] = None,
              seed: int = 0, shared_seed: bool = False, claims_from_log: bool = False, each: bool = False,
              progress: Optional[Callable[[float], Any]] = None, **sampling: Unpack[SamplingOptions]) -> list[Record]:
        """Could this model have generated these texts with these options (docs/audit.md)? log: its lines, JSON or what it says. Of each text: verdict
        ("fits", "differs", "failed", "no power"), n_given, n_drawn, n_other, n_ruled_out, difference, surprise, likelihood, rarest, blind, why, sampling (what it was judged by);
        with each, tokens: for each sampled one id, expected, rank, prob, margin, miss, tail, entropy. The options are the claim;
        claims_from_log: what a line says of itself counts instead, whoever wrote it. shared_seed: tblock's sampler sampled them, with seed."""
        from .generation import sampler_options
        claimed = sampler_options(sampling, seed, logit_bias)
        flags = (lib.TBLOCK_AUDIT_SHARED_SEED if shared_seed else 0) | (lib.TBLOCK_AUDIT_CLAIMS_FROM_LOG if claims_from_log else 0)
        opt = Options("tblock_audit_options", {"progress": progress})
        with self._use() as c:
            texts = ffi.gc(call("tblock_audit_log_new", self.model._c, claimed.c, flags), lib.tblock_audit_log_free)
            for i, line in enumerate(log):
                line = line.encode() if isinstance(line, str) else line if isinstance(line, bytes) else json.dumps(line).encode()
                call("tblock_audit_log_add", texts, line, len(line), b"line %d" % (i + 1))
            size = ffi.new("size_t *")
            text = lib.tblock_audit_log_texts(texts, size)
            rows = ffi.new("tblock_audit_row[]", size[0])
            call("tblock_audit", c, text, size[0], opt.c, rows, options=opt)
        out = records(rows, size[0])
        for i, (row, raw) in enumerate(zip(out, rows)):
            row["verdict"], row["sampling"] = AUDIT_VERDICTS[row.verdict], record(text[i].sampling)
            if each:
                row["tokens"] = records(raw.tokens, raw.n_drawn if raw.tokens else 0)
            lib.tblock_free(raw.tokens)
        return out

    @takes_options
    def write_logits(self, path: Path, prompt: Prompt, **options: Unpack[LogitsOptions]) -> None:
        """Record golden logits in a safetensors file, with everything that changes bits. Options: last, hidden, digest, progress."""
        opt = Options("tblock_logits_options", options)
        ids, n = self._ids(prompt)
        with self._use() as c:
            call("tblock_logits_write", c, ids, n, c_text("path", path), opt.c, options=opt)

    @takes_options
    def attention(self, prompt: Prompt, **options: Unpack[AttentionOptions]) -> "Attention":
        """Attention probabilities of a prompt. Options: layers, heads (lists; default all), progress."""
        opt = Options("tblock_attention_options", options)
        ids, n = self._ids(prompt)
        with self._use() as c:
            return Attention(self.model, call("tblock_attention_new", c, ids, n, opt.c, options=opt), n)


show_as(Model.context, Context)
show_as(Model.generate, Context.generate)
show_as(Model.rerank, Context.rerank)


class Attention:
    """The attention probabilities of one run (docs/attn.md). Its memory lives as long as this or an array of it does."""

    def __init__(self, model: Model, raw: Any, n: int) -> None:
        self.model, self._n = model, n
        self._c = ffi.gc(raw, lib.tblock_attention_free, 4 * n * n)

    def __repr__(self) -> str:
        return "<tblock.Attention: %d tokens>" % self._n

    def head(self, layer: int, head: int) -> Floats:
        """Probabilities [n, n] (query, key) of one query head: read-only and without a copy."""
        p = lib.tblock_attention_head(self._c, whole("layer", layer), whole("head", head))
        if p == ffi.NULL:
            raise UsageError("expected a layer and head that were kept, found layer %d, head %d" % (layer, head))
        run = self._c
        return array(ffi.gc(ffi.cast("float *", p), lambda _: run), (self._n, self._n), "f4")

    def write(self, path: Path, format: str = "html") -> None:
        """Write "html", "json" or "safetensors"."""
        assert self.model._c  # it spells the tokens; an error where it is closed
        call("tblock_attention_write", self._c, c_text("path", path), c_text("format", format))

    def _repr_html_(self) -> str:
        assert self.model._c
        parts: list[bytes] = []
        callback = Callback(parts.append)
        call("tblock_attention_print", self._c, c_text("format", "html"), lib.tblock_py_put, callback.handle, callback=callback)
        return '<iframe srcdoc="%s" width="100%%" height="600"></iframe>' % escape(b"".join(parts).decode())
