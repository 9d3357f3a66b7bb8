"""Conversations: how they become tokens, and how answers become messages."""
from __future__ import annotations

import json
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Mapping, Optional, Sequence

from ._c import ffi, lib
from ._core import Handle, InputError, Options, Record, UsageError, c_json, c_text, call, expect, in_thread, text_of
from .constraint import Constraint
from .context import Context
from .generation import Generation
from .model import Ids, Model, array, owned
from .options import show_as, takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import GenerateOptions

Message = Mapping[str, Any]

_PARTS = {lib.TBLOCK_ANSWER_CONTENT: "content", lib.TBLOCK_ANSWER_REASONING: "reasoning", lib.TBLOCK_ANSWER_CALL: "call",
          lib.TBLOCK_ANSWER_CALL_ID: "call_id", lib.TBLOCK_ANSWER_ARGUMENTS: "arguments",
          lib.TBLOCK_ANSWER_CALL_END: "call_end"}


@contextmanager
def _named(messages: Sequence[Message]) -> Iterator[None]:
    """Where a template fails, say which message lacks what, if one does: the template's own words point into the template."""
    try:
        yield
    except InputError:
        for i, m in enumerate(messages):
            for key in ("role", "content"):
                value = m.get(key)
                if not isinstance(value, str) and not (key == "content" and (m.get("tool_calls") or "content" in m and value is None)):
                    found = "none" if key not in m else "a list of parts" if isinstance(value, (list, tuple)) else type(value).__name__
                    raise UsageError("messages[%d]: %s: expected a text, found %s" % (i, key, found)) from None
        if not messages:
            raise UsageError("messages: expected at least one, found none") from None
        raise


class Chat(Handle):
    """How conversations of one model become tokens, by the model's own template or by format (a name that `tblock chat` knows,
    or the text of a template). tools: what the model may call, in OpenAI's form. args: more variables of the template. date:
    "YYYY-MM-DD" for templates that ask for it. Messages are dicts as in OpenAI's API; special tokens that they spell stay
    ordinary text (docs/chat.md)."""

    @takes_options
    def __init__(self, model: Model, *, format: Optional[str] = None, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                 args: Optional[Mapping[str, Any]] = None, date: Optional[str] = None) -> None:
        opt = Options("tblock_chat_options", {
            "format": format, "date": date, "tools": None if tools is None else c_json("tools", tools),
            "args": None if args is None else c_json("args", expect("args", args, Mapping))})
        super().__init__(call("tblock_chat_new", expect("model", model, Model)._c, opt.c), lib.tblock_chat_free, model)
        self.model = model
        n = ffi.new("tblock_chat_info *")
        lib.tblock_chat_describe(self._c, n)
        self.name = text_of(n.name)
        self.stop_ids = list(n.stop_ids[0:n.n_stop_ids])
        self.stop_texts = [text_of(n.stop_texts[i]) for i in range(n.n_stop_texts)]
        self.answer_prefix = text_of(n.answer_prefix) if n.answer_prefix else ""

    def _given(self, messages: Sequence[Message]) -> tuple[Any, list[Any]]:
        if isinstance(messages, (str, bytes, Mapping)):
            raise UsageError("messages: expected a list of dicts, found %s" % type(messages).__name__)
        texts = [c_text("messages", c_json("messages", expect("messages", m, Mapping))) for m in messages]
        given = ffi.new("tblock_chat_message[]", len(texts))
        for c, text in zip(given, texts):
            c.json = text
        return given, texts

    @takes_options
    def render(self, messages: Sequence[Message], *, answer: bool = True) -> Ids:
        """A conversation as ids [n]. answer: with what opens the assistant's answer."""
        given, texts = self._given(messages)
        ids, n = ffi.new("int32_t **"), ffi.new("size_t *")
        with _named(messages):
            call("tblock_chat_render", self._c, given, len(texts), bool(answer), ids, n)
        return array(owned(ids[0]), (n[0],), "i4")

    @takes_options
    def text(self, messages: Sequence[Message], *, answer: bool = True) -> str:
        """The same as text, which no longer shows which parts are special tokens."""
        given, texts = self._given(messages)
        out, n = ffi.new("char **"), ffi.new("size_t *")
        with _named(messages):
            call("tblock_chat_text", self._c, given, len(texts), bool(answer), out, n)
        try:
            return bytes(ffi.buffer(out[0], n[0])).decode("utf-8", "replace")
        finally:
            lib.tblock_free(out[0])

    @takes_options
    def answer(self, messages: Sequence[Message], *, context: Optional[Context] = None, **options: Unpack[GenerateOptions]) -> "Answer":
        """Generate the reply: an iterator of its parts. options: those of Context.generate; max_tokens None, as many as fit, is the
        default here. context: where to generate it; None: one of the model's."""
        stop, receipt = options.get("stop", ()), options.get("receipt", False)
        stops = [stop] if isinstance(stop, str) else list(stop)
        given: GenerateOptions = {"max_tokens": None, "stop_ids": self.stop_ids, "skip": self.answer_prefix or None, **options}
        given["stop"] = stops if options.get("constraint") is not None else [*stops, *self.stop_texts]
        if receipt:
            given["receipt"] = {"chat": self._c, **(receipt if isinstance(receipt, Mapping) else {})}
        where = self.model if context is None else expect("context", context, Context)
        return Answer(self, where.generate(self.render(messages), **given))


    @takes_options
    def calls(self, name: Optional[str] = None, *, several: bool = True, optional: bool = False) -> Constraint:
        """A constraint for answers that call tools, in the template's form and with arguments that fit their schemas. name: of the tool;
        None: any. several: one call or more, if the template has a place for them. optional: the answer need not call one; until it
        begins to, nothing is constrained. Raises InputError: no such tool, a template whose calls are not understood."""
        flags = (lib.TBLOCK_CALLS_SEVERAL if several else 0) | (lib.TBLOCK_CALLS_OPTIONAL if optional else 0)
        made = Constraint.__new__(Constraint)
        Handle.__init__(made, call("tblock_chat_calls", self._c, ffi.NULL if name is None else c_text("name", name), flags),
                        lib.tblock_constraint_free, self)
        return made


show_as(Model.chat, Chat)


class Answer(Handle):
    """An answer that grows: an iterator, also an asynchronous one, of parts, records of kind ("content", "reasoning", "call", "call_id", "arguments",
    "call_end"), call (its number) and text. `message` is the whole answer as a message, to append to the conversation."""

    def __init__(self, chat: Chat, generation: Generation) -> None:
        super().__init__(call("tblock_answer_new", chat._c), lib.tblock_answer_free, chat)
        self.generation = generation
        self._told = 0
        self.ended = False
        self._parts: deque[Record] = deque()  # that are known and not yet handed out

    def _put(self, data: Optional[bytes]) -> list[Record]:
        parts, n = ffi.new("tblock_answer_part **"), ffi.new("size_t *")
        call("tblock_answer_put", self._c, ffi.NULL if data is None else ffi.from_buffer(data), len(data or b""),
             ffi.cast("tblock_answer_part const **", parts), n)
        return [Record(kind=_PARTS[p.kind], call=p.call, text=bytes(ffi.buffer(p.text, p.n)).decode("utf-8", "replace"))
                for p in parts[0][0:n[0]]] if n[0] else []

    def parse(self) -> None:
        """Take what is new of the text."""
        whole = self.generation.data
        if len(whole) > self._told:
            new, self._told = whole[self._told:], len(whole)
            self._parts.extend(self._put(new))
        if not self.ended and (self.generation.end is not None or self.generation.closed):
            self.ended = True
            self._parts.extend(self._put(None))

    def _part(self) -> Optional[Record]:
        """The next part, or None at the end."""
        while not self._parts and not self.ended:
            for _ in self.generation:
                break
            self.parse()
        return self._parts.popleft() if self._parts else None

    def __iter__(self) -> Iterator[Record]:
        return self

    def __next__(self) -> Record:
        part = self._part()
        if part is None:
            raise StopIteration
        return part

    def __aiter__(self) -> AsyncIterator[Record]:
        return self

    async def __anext__(self) -> Record:
        part = await in_thread(self._part, self.generation.stop)
        if part is None:
            raise StopAsyncIteration
        return part

    @property
    def message(self) -> dict[str, Any]:
        """The answer as a message: role, content, and where it has them reasoning_content and tool_calls. Runs it to its end."""
        for _ in self:
            pass
        out = ffi.new("char **")
        call("tblock_answer_json", self._c, out)
        try:
            message: dict[str, Any] = json.loads(text_of(out[0]))
        finally:
            lib.tblock_free(out[0])
        return message
