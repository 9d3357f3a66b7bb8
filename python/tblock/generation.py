"""A generation: a sequence that samples its own next tokens."""
from __future__ import annotations

import json
from typing import Any, AsyncIterator, Iterator, Mapping, Optional

import numpy as np

from ._c import ffi, lib
from ._core import SAMPLING, BusyError, Callback, Handle, Options, Record, UsageError, call, expect, in_thread, raise_error, whole
from .constraint import Constraint
from .context import Context
from .model import Floats, Ids, Model, Prompt, c_ids

# tblock_end, in the words of `tblock run --json`
ENDS = {lib.TBLOCK_END_TOKEN: "eos", lib.TBLOCK_END_TEXT: "stop", lib.TBLOCK_END_LENGTH: "length",
        lib.TBLOCK_END_CONTEXT: "context", lib.TBLOCK_END_STOPPED: "interrupt", lib.TBLOCK_END_FITS: "fits",
        lib.TBLOCK_END_FAILED: "failed"}


def sampler_options(sampling: Mapping[str, Any], seed: int, logit_bias: Optional[Mapping[int, float]]) -> Options:
    """The struct of sampling options, with its bias. sampling: by the names of SAMPLING."""
    out = Options("tblock_sampler_options", {"seed": seed, **{field: sampling.get(name, usual) for name, (field, usual) in SAMPLING.items()}})
    expect("logit_bias", logit_bias or {}, Mapping)
    ids, bias = c_ids(list(logit_bias or ())), ffi.new("float[]", list((logit_bias or {}).values()))
    out.c.bias_ids, out.c.bias, out.c.n_bias = out._keep(ids), out._keep(bias), len(bias)
    return out


class _Probable:
    """Log-probabilities of each token as it is sampled, with those of the n most probable ones."""

    def __init__(self, model: Model, n: int) -> None:
        if not 0 <= whole("logprobs", n) <= model.vocab_size:
            raise UsageError("logprobs: expected 0 to %d, found %d" % (model.vocab_size, n))
        self._n, self._vocab_size = whole("logprobs", n), model.vocab_size
        self._stream = ffi.gc(call("tblock_stream_new", model._c, True), lib.tblock_stream_free) if model.has_tokenizer else None
        self._own, self._top, self._top_p = ffi.new("double *"), ffi.new("int32_t[]", self._n + 1), ffi.new("double[]", self._n + 1)
        self.rows: list[Record] = []
        self.receipt: Any = None
        self.callback = Callback(self._token)

    def _token(self, index: int, token: int, logits: Any) -> None:
        if self.receipt is not None:
            lib.tblock_receipt_token(self.receipt, index, token, logits)
        call("tblock_log_probs", logits, self._vocab_size, token, self._own, self._top, self._top_p, self._n)
        self.rows.append(Record(self._named(token, self._own[0]),
                                top=[self._named(self._top[i], self._top_p[i]) for i in range(self._n)]))

    def _named(self, token: int, logprob: float) -> Record:
        data, n = b"", ffi.new("size_t *")
        if self._stream is not None:
            text = lib.tblock_stream_alone(self._stream, token, n)
            data = bytes(ffi.buffer(text, n[0]))
        return Record(id=token, text=data.decode("utf-8", "replace"), bytes=data, logprob=logprob)


class Generation(Handle):
    """A text that grows. Iterate over it (`for` or `async for`) for its pieces, which are whole characters; str() runs it to its
    end. Its attributes say what there is so far, while it runs and afterwards.

    Made by Model.generate and Context.generate. Several of one context go on together with Context.advance."""

    def __init__(self, context: Context, prompt: Prompt, options: Mapping[str, Any], sampling: Mapping[str, Any],
                 seed: int, logit_bias: Optional[Mapping[int, float]], constraint: Optional[Constraint],
                 receipt: Optional[Mapping[str, Any]] = None, adapters: Any = None, logprobs: Optional[int] = None) -> None:
        self.model, self.context = context.model, context
        ids = c_ids(self.model.prompt(prompt))
        sampler, opt = sampler_options(sampling, seed, logit_bias), Options("tblock_generation_options", options)
        opt.c.ids, opt.c.n_ids, opt.c.sampling = ids, len(ids), sampler.c[0]
        if constraint is not None:
            opt.c.constraint = expect("constraint", constraint, Constraint)._c
        self._receipt: Any = None  # lives as long as this
        self._probable = None if logprobs is None else _Probable(self.model, logprobs)
        with context._use() as c, context._using(c, adapters):
            if receipt is not None:
                how = Options("tblock_receipt_options", expect("receipt", receipt, Mapping))
                self._receipt = ffi.gc(call("tblock_receipt_new", c, opt.c, how.c), lib.tblock_receipt_free)
                opt.c.on_token, opt.c.user = ffi.addressof(lib, "tblock_receipt_token"), self._receipt
            if self._probable is not None:
                self._probable.receipt = self._receipt
                opt.c.on_token, opt.c.user = lib.tblock_py_token, self._probable.callback.handle
            raw = call("tblock_generation_open", c, opt.c)
            super().__init__(raw, lib.tblock_generation_close, self.model, context, *([constraint] if constraint else []),
                             guard=context._guard)
            self._told = 0
            self._data, self._sampled = bytearray(), []  # type: bytearray, list[int]
            self._note = ffi.new("tblock_generation_info *")
            self._describe()

    def _describe(self) -> None:
        """Take over what is new, which other threads may read then. The caller uses the context."""
        lib.tblock_generation_describe(self._c, self._note)
        n = self._note
        self._data += bytes(ffi.buffer(n.text + len(self._data), n.n_bytes - len(self._data)))
        self._sampled.extend(n.ids[n.n_given + len(self._sampled):n.n_ids])
        self._last: dict[str, Any] = {"n_prompt": int(n.n_given), "n_reused": int(n.n_reused), "end": ENDS.get(n.end), "n_steps": int(n.n_steps),
                      "n_proposed": int(n.n_proposed), "n_accepted": int(n.n_accepted)}

        if self._probable is not None and self._probable.callback.raised is not None:  # an interrupt, as a rule
            raised, self._probable.callback.raised = self._probable.callback.raised, None
            lib.tblock_generation_stop(self._c)
            raise raised

    def _step(self) -> None:
        self.context.advance([self])
        self.check()

    def check(self) -> None:
        """Raise what it failed with, if it has."""
        if not self.closed and self._note.end == lib.TBLOCK_END_FAILED:
            raise_error(self._note.error)

    # ---- What there is so far ----

    @property
    def data(self) -> bytes:
        """The text so far, to the byte: models may write what is not UTF-8."""
        return bytes(self._data)

    @property
    def text(self) -> str:
        """The text so far."""
        return self.data.decode("utf-8", "replace")

    @property
    def ids(self) -> Ids:
        """The tokens sampled so far [n], but for the one that ended it."""
        return np.array(self._sampled, np.int32)

    @property
    def end(self) -> Optional[str]:
        """Why it ended: "eos", "stop", "length", "context", "fits", "interrupt", "failed"; None while it goes on."""
        end: Optional[str] = self._last["end"]
        return end

    @property
    def n_prompt(self) -> int:
        """Tokens of the prompt."""
        return int(self._last["n_prompt"])

    @property
    def n_sampled(self) -> int:
        """Tokens that were sampled, with one that ended it."""
        return len(self._sampled) + (self.end == "eos")

    @property
    def n_reused(self) -> int:
        """Tokens of the prompt that an earlier generation had computed."""
        return int(self._last["n_reused"])

    @property
    def n_proposed(self) -> int:
        """Tokens that were guessed ahead, by drafts or by what the constraint makes sure."""
        return int(self._last["n_proposed"])

    @property
    def n_accepted(self) -> int:
        """How many of these were right."""
        return int(self._last["n_accepted"])

    @property
    def logits(self) -> Optional[Floats]:
        """A copy of the logits [vocab_size] that the last token was sampled from; None before it, and where the context has
        computed something else since."""
        with self.context._use():
            lib.tblock_generation_describe(self._c, self._note)
            if self._note.logits == ffi.NULL:
                return None
            return np.frombuffer(ffi.buffer(self._note.logits, 4 * self.model.vocab_size), np.float32).copy()

    @property
    def logprobs(self) -> Optional[list[Record]]:
        """With the option logprobs: for each of `ids` a record of id, text, bytes (those of the token alone) and logprob (ln of its
        probability, as the model has it before any option of sampling), and top, records of the most probable tokens. Else None."""
        return None if self._probable is None else self._probable.rows[:len(self._sampled)]

    @property
    def receipt(self) -> Optional[dict[str, Any]]:
        """The receipt of what is sampled so far (docs/receipts.md), for json.dump and Context.verify_receipts; None where none was
        asked for."""
        if self._receipt is None:
            return None
        out = ffi.new("char **")
        with self.context._use():
            call("tblock_receipt_json", self._receipt, out)
        try:
            receipt: dict[str, Any] = json.loads(ffi.string(out[0]))
            return receipt
        finally:
            lib.tblock_free(out[0])

    # ---- Going on ----

    def _piece(self) -> Optional[str]:
        """The next piece, or None at the end."""
        while True:
            piece = bytes(self._data[self._told:])
            if piece:
                self._told += len(piece)
                return piece.decode("utf-8", "replace")
            if self.end is not None or self.closed:
                self._give_back()
                return None
            self._step()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        piece = self._piece()
        if piece is None:
            raise StopIteration
        return piece

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        piece = await in_thread(self._piece, self.stop)
        if piece is None:
            raise StopAsyncIteration
        return piece

    def tokens(self) -> Iterator[int]:
        """Run it token by token, for models without a tokenizer too."""
        n = 0
        while True:
            yield from self._sampled[n:]
            n = len(self._sampled)
            if self.end is not None or self.closed:
                self._give_back()
                return
            self._step()

    def run(self) -> "Generation":
        """Run it to its end."""
        for _ in self.tokens():
            pass
        return self

    def __str__(self) -> str:
        return self.run().text

    def __repr__(self) -> str:
        return "<tblock.Generation: %d tokens, %s>" % (len(self._sampled), self.end or "goes on")

    def stop(self) -> None:
        """End it at its next step. Another thread may call this."""
        raw = self._cell.raw
        if raw is not None:
            lib.tblock_generation_stop(raw)

    def close(self) -> None:
        """Give its sequence back; what it has sampled stays readable. The end of an iteration does this."""
        super().close()

    def _give_back(self) -> None:
        if self.closed:
            return
        self.close()
        pool = self.context._pool
        if pool is not None and self.context.usable:
            pool.append(self.context)

    def __del__(self) -> None:
        if hasattr(self, "_cell") and not self.closed:
            try:
                self._give_back()
            except BusyError:
                pass
        super().__del__()

