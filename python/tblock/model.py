"""A model: weights, tokenizer, and what is made from them."""
from __future__ import annotations

import os
import threading
from html import escape
from typing import TYPE_CHECKING, Any, Callable, Iterable, Literal, Optional, Sequence, Union, overload

import numpy as np
import numpy.typing as npt

from ._c import ffi, lib
from ._core import Handle, InputError, Options, Record, UsageError, c_text, call, expect, record, text_bytes, text_of
from .options import takes_options
from .peers import instead

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .arrays import Weights
    from .chat import Chat, Message
    from .completion import CompletionStream
    from .constraint import Constraint
    from .context import Context
    from .generation import Generation
    from .options import (ChatOptions, CompletionOptions, ConstraintOptions, ContextOptions, EmbedOptions, GenerateOptions, ReportOptions,
                          RerankOptions)
    from .tokenizer import Tokenizer

Path = Union[str, "os.PathLike[str]"]
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]
Text = Union[str, bytes]
Prompt = Union[str, bytes, Sequence[int], Ids]


def array(pointer: Any, shape: tuple[int, ...], kind: str, owner: Any = None) -> npt.NDArray[Any]:
    """A read-only array over memory of the library, without a copy. It keeps `pointer` alive, which frees the memory."""
    n = int(np.prod(shape)) * np.dtype(kind).itemsize
    flat = np.frombuffer(ffi.buffer(pointer, n) if n else b"", dtype=kind)
    flat.flags.writeable = False
    return flat.reshape(shape)


def owned(pointer: Any) -> Any:
    """Memory that the library gave to us: freed with the last thing that refers to it."""
    return ffi.gc(pointer, lib.tblock_free)


def c_ids(ids: Iterable[int]) -> Any:
    """Token ids for C, without a copy where they are int32 already. Returns what keeps them and the pointer in one."""
    given = np.asarray(ids)
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise UsageError("ids: expected a list of integers, found %s of shape %s" % (given.dtype, given.shape))
    if given.size and (given.min() < 0 or given.max() > 0x7FFFFFFF):
        raise UsageError("ids: expected numbers from 0 to 2147483647, found %d" % (given.min() if given.min() < 0 else given.max()))
    return ffi.from_buffer("int32_t[]", np.ascontiguousarray(given, dtype=np.int32))


class Lora:
    """A LoRA adapter of a model (docs/lora.md), made by Model.load_lora. It lives as long as the model. `lora=[...]` of a context
    or a generation applies it, times `scale`; `hash` names everything in it that changes bits."""

    def __init__(self, model: "Model", path: str, number: int, scale: float) -> None:
        self._model, self._number = model, number
        self.path, self.scale = path, scale
        self.hash = text_of(lib.tblock_lora_hash(model._c, number))

    def __repr__(self) -> str:
        return "<tblock.Lora %r: %s, scale %r>" % (self.path, self.hash[:12], self.scale)

    def scaled(self, scale: float) -> "Lora":
        """The same adapter with another scale; 1 is as trained."""
        return Lora(self._model, self.path, self._number, real("scale", scale))


def real(name: str, value: Any) -> float:
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise UsageError("%s: expected a number, found %r" % (name, value)) from None


def c_loras(model: "Model", adapters: "Iterable[Lora]") -> Any:
    """Adapters for C. Each must be one of this model."""
    if isinstance(adapters, (str, bytes, Lora)) or not hasattr(adapters, "__iter__"):
        raise UsageError("lora: expected a list of adapters, found %s" % type(adapters).__name__)
    given = [expect("lora", a, Lora) for a in adapters]
    for a in given:
        if a._model is not model:
            raise UsageError("lora: %s: expected an adapter that this model loaded, found one of %s" % (a.path, a._model.path))
    return ffi.new("tblock_lora[]", [(a._number, a.scale) for a in given])


class Info(Record):
    """What a model is made of, what it costs and how much memory it needs: the keys of `tblock info --json` (docs/info.md). In a
    notebook it is shown as tables."""

    def _repr_html_(self) -> str:
        def cell(value: Any) -> str:
            return escape("{:,}".format(value) if isinstance(value, int) and not isinstance(value, bool) else str(value))
        rows = "".join("<tr><th>%s</th><td>%s</td></tr>" % (escape(k), cell(v)) for k, v in self["config"].items() if v is not None)
        parts = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % cell(p.get(k)) for k in ("name", "shape", "tensors", "parameters"))
                        for p in self["parts"])
        return ("<table><caption>%s</caption>%s</table><table><tr><th>part</th><th>shape</th><th>tensors</th><th>parameters</th>"
                "</tr>%s</table>" % (escape(str(self["path"])), rows, parts))


def model_path(name: str, path: Path) -> Any:
    """The path of a model for C, which may be given as the name of a published one that is in a cache here."""
    return ffi.gc(call("tblock_model_path", c_text(name, path)), lib.tblock_free)


class _Elsewhere:
    """A name that others have: asking the class for it says what to write here, as Model.__getattr__ does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        raise AttributeError(instead(owner.__name__, self.name, ()))


class Model(Handle):
    """A model, opened: a model file, a Hugging Face or Meta folder, a .gguf or a llama2.c checkpoint (docs/sources.md), or "ORG/NAME",
    "ORG/NAME:FILE" in the Hub's cache on this machine (docs/pull.md) and "NAME:TAG" in ollama's store.

    Any number of threads may share one. type: of the matrices ("f32", "f16", "bf16", "q8", "q4"), made while loading; None: as
    stored; keep: "PATTERN=TYPE" for matrices of another type. check: read and check all data first. populate: read a model file
    whole now. mlock: lock the weights into memory. progress: called with 0 to 1.

    Raises InputError (not a model, damaged data), UsageError (type, keep) and SystemFailure."""

    d_model: int
    n_layers: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    n_ctx: int
    window: int
    tied_embeddings: bool
    has_weights: bool
    has_tokenizer: bool
    family: str
    hash: str
    weight_types: str
    file_bytes: int
    n_params: int
    bytes_per_token: int
    made_bytes: int
    bos: int
    n_eos: int
    eos: list[int]
    tokenizer_note: Optional[str]
    left_bytes: int
    memory_bytes: int

    @takes_options
    def __init__(self, path: Path, *, type: Optional[str] = None, keep: Sequence[str] = (), check: bool = False,
                 populate: bool = False, mlock: bool = False, progress: Optional[Callable[[float], object]] = None) -> None:
        opt = Options("tblock_open_options", {"type": type, "keep": keep, "check": check, "populate": populate, "mlock": mlock,
                                              "progress": progress})
        found = model_path("path", path)
        super().__init__(call("tblock_open", found, opt.c, options=opt), lib.tblock_close)
        self.path: str = os.fsdecode(ffi.string(found))
        self._idle: list[Context] = []
        self._loading = threading.Lock()  # while an adapter is loaded, nobody may choose some
        self._vocabulary: dict[str, int] = {}  # of its tokenizers
        self._special_tokens: dict[str, Any] = {}
        described = ffi.new("tblock_model_info *")
        lib.tblock_model_describe(self._c, described)
        self._described = record(described[0])
        self._described["eos"] = list(described.eos[0:described.n_eos])

    def __repr__(self) -> str:
        if self.closed:
            return "<tblock.Model %r, closed>" % self.path
        return "<tblock.Model %r: %s, {:,} parameters, %s>".format(self.n_params) % (self.path, self.family, self.weight_types)

    if not TYPE_CHECKING:  # checkers shall find what does not exist
        from_pretrained = _Elsewhere()

        def __getattr__(self, name):
            described = self.__dict__.get("_described", {})
            if name not in described:
                raise AttributeError(instead("Model", name, [*super().__dir__(), *described]))
            return described[name]

        def __call__(self, *_, **__):
            raise UsageError('a model is not called; write model.generate("text") for an iterator of pieces, or str(model.generate("text"))')

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *self._described]

    @takes_options
    def info(self, **options: Unpack[ReportOptions]) -> Info:
        """What the model is made of and what it costs. Options: those of tblock.info."""
        from .tools import info
        return info(self.path, **options)

    # ---- Text ----

    @takes_options
    def tokenize(self, text: Text, *, add_special: bool = True, parse_special: bool = False) -> Ids:
        """Token ids [n], int32, of a text or of bytes that need not be UTF-8. add_special: with what the tokenizer's template
        adds (BOS). parse_special: special tokens that the text spells become their ids, which text of strangers must not."""
        raw = text_bytes("text", text)
        ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
        flags = (lib.TBLOCK_ADD_SPECIAL if add_special else 0) | (lib.TBLOCK_PARSE_SPECIAL if parse_special else 0)
        call("tblock_tokenize", self._c, ffi.from_buffer(raw), len(raw), flags, ids, n)
        return array(owned(ids[0]), (n[0],), "i4")

    def token_bytes(self, ids: Iterable[int]) -> bytes:
        """The exact bytes of token ids, special tokens too. They need not be UTF-8."""
        given, text, n = c_ids(ids), ffi.new("char **"), ffi.new("size_t *")
        call("tblock_detokenize", self._c, given, len(given), text, n)
        try:
            return bytes(ffi.buffer(text[0], n[0]))
        finally:
            lib.tblock_free(text[0])

    def detokenize(self, ids: Iterable[int], errors: str = "replace") -> str:
        """The text of token ids. errors: what to do with bytes that are not UTF-8, as in bytes.decode."""
        return self.token_bytes(ids).decode("utf-8", errors)

    def prompt(self, prompt: Prompt) -> Ids:
        """A prompt as ids: ids as they are, text tokenized with BOS. Raises UsageError for an empty one."""
        if isinstance(prompt, (str, bytes)):
            if not self.has_tokenizer:
                raise InputError("%s: the model has no tokenizer; expected ids, found a text" % self.path)
            ids = self.tokenize(prompt)
        else:
            ids = np.asarray(prompt)
        if not len(ids):
            raise UsageError("prompt: expected at least one token, found none")
        return ids

    @property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer with the names that transformers gives its methods. See Tokenizer."""
        from .tokenizer import Tokenizer
        return Tokenizer(self)

    @property
    def weights(self) -> "Weights":
        """The weights as arrays: {"layers.3.wq": float32 [rows, k], ...}, each read when it is asked for. See Weights."""
        from .arrays import Weights
        return Weights(self)

    # ---- What is made from it ----

    @takes_options
    def context(self, **options: Unpack[ContextOptions]) -> "Context":
        """A context: KV caches and threads of one run. See Context."""
        from .context import Context
        return Context(self, **options)

    @takes_options
    def generate(self, prompt: Prompt, **options: Unpack[GenerateOptions]) -> "Generation":
        """Continue a text: an iterator, also an asynchronous one, of the pieces of the new text. See Context.generate for the
        options, whose defaults are those of `tblock run`. Generations of one model may run side by side, each in a context of
        its own, which is kept for the next one: a beginning that was computed is not computed again."""
        from .context import Context
        context = None
        while context is None or not context.usable:
            try:
                context = self._idle.pop()
            except IndexError:
                context = Context(self, _pool=self._idle)
        return context.generate(prompt, **options)

    @takes_options
    def load_lora(self, path: Path, scale: float = 1) -> Lora:
        """A LoRA adapter of this model: a folder of peft, or a .gguf (docs/lora.md). `lora=[...]` of `context` and `generate`
        applies it, times scale. Raises InputError: not an adapter, one of another model, or of a kind that is not kept."""
        number, times = ffi.new("int *"), real("scale", scale)
        with self._loading:
            call("tblock_lora_load", self._c, c_text("path", path), number)
        return Lora(self, os.fspath(path), int(number[0]), times)

    @takes_options
    def embed(self, texts: Sequence[Prompt], **options: Unpack[EmbedOptions]) -> Floats:
        """Texts as vectors [n, d_model], in a context of its own. See Context.embed for the options."""
        with self.context(n_seqs=16) as context:
            found: Floats = context.embed(texts, **options)
            return found

    @takes_options
    def rerank(self, query: Text, documents: Sequence[Text], **options: Unpack[RerankOptions]) -> npt.NDArray[np.float64]:
        """How well each document meets the query, 0 to 1, in a context of its own. See Context.rerank."""
        with self.context() as context:
            found: npt.NDArray[np.float64] = context.rerank(query, documents, **options)
            return found

    @takes_options
    def chat(self, **options: Unpack[ChatOptions]) -> "Chat":
        """How conversations become tokens, and answers become messages. See Chat."""
        from .chat import Chat
        return Chat(self, **options)

    @overload
    def create_chat_completion(self, messages: Sequence[Message], *, stream: Literal[False] = False,
                               **parameters: Unpack[CompletionOptions]) -> dict[str, Any]: ...

    @overload
    def create_chat_completion(self, messages: Sequence[Message], *, stream: Literal[True],
                               **parameters: Unpack[CompletionOptions]) -> CompletionStream: ...

    @overload
    def create_chat_completion(self, messages: Sequence[Message], *, stream: bool,
                               **parameters: Unpack[CompletionOptions]) -> Union[dict[str, Any], CompletionStream]: ...

    @takes_options
    def create_chat_completion(self, messages: Sequence[Message], *, stream: bool = False,
                               **parameters: Unpack[CompletionOptions]) -> Union[dict[str, Any], CompletionStream]:
        """Reply to a conversation in OpenAI's form: the parameters, defaults and members of /v1/chat/completions of `tblock serve`
        (docs/serve.md), with the same reply for the same seed. Returns the dict of a chat.completion. stream: an iterator, also an
        asynchronous one, of the dicts of its chunks."""
        from .completion import Completion, CompletionStream
        completion = Completion(self, messages, parameters)
        return CompletionStream(completion) if stream else completion.whole()

    @takes_options
    def constraint(self, **kind: Unpack[ConstraintOptions]) -> "Constraint":
        """What a text must fit: json_schema=, regex= or grammar=. See Constraint."""
        from .constraint import Constraint
        return Constraint(self, **kind)

    def close(self) -> None:
        """Release it, and all contexts, chats and constraints that were made from it. Closing twice does nothing."""
        self._idle.clear()
        super().close()

