"""Chat completions in OpenAI's form: the parameters, defaults and dicts of `tblock serve` (docs/serve.md), without a server."""
from __future__ import annotations

import json
import os
import re
import secrets
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Iterator, Mapping, Optional, Sequence, cast

from ._c import ffi, lib
from ._core import SAMPLING_OF_REQUESTS, Record, UsageError, expect, in_thread, whole
from .chat import Answer, Chat, Message
from .constraint import Constraint
from .context import Context
from .model import Ids, Model

if TYPE_CHECKING:
    from .options import GenerateOptions

_REASONS = {"length": "length", "context": "length", "interrupt": "abort", None: None}  # others: "stop"


def _text_of_parts(at: str, content: Any) -> Any:
    """The content of a message, whose parts of text become one text."""
    if not isinstance(content, (list, tuple)):
        return content
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise UsageError("%s.content[%d]: expected a part of type text, found %.80r" % (at, i, part))
    return "".join(part["text"] for part in content)


def _arguments(form: Any, call: Any) -> Any:
    """A call of an earlier message, its arguments as the template wants them: an object or a text of JSON."""
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        return call
    given = call["function"].get("arguments")
    if form.text_arguments and isinstance(given, Mapping):
        given = json.dumps(given)
    elif form.object_arguments and isinstance(given, str):
        try:
            read = json.loads(given)
        except ValueError:
            read = None
        given = read if isinstance(read, dict) else given
    else:
        return call
    return {**call, "function": {**call["function"], "arguments": given}}


def _fitted(chat: Chat, messages: Sequence[Message]) -> Sequence[Message]:
    if isinstance(messages, (str, bytes, Mapping)):
        return messages  # an error of render
    form, out = ffi.new("tblock_answer_form *"), []
    lib.tblock_chat_answers(chat._c, form)
    for i, m in enumerate(messages):
        given = dict(expect("messages[%d]" % i, m, Mapping))
        given["content"] = _text_of_parts("messages[%d]" % i, given.get("content"))
        if given["content"] is None and not given.get("tool_calls"):
            raise UsageError("messages[%d]: content: expected a text, found none" % i)
        if isinstance(given.get("tool_calls"), (list, tuple)):
            given["tool_calls"] = [_arguments(form, call) for call in given["tool_calls"]]
        out.append(given)
    return out


def _schema(given: Any) -> Any:
    """The JSON Schema that response_format asks for; None: any text."""
    kind = expect("response_format", {"type": "text"} if given is None else given, Mapping).get("type")
    named = given.get("json_schema") if kind == "json_schema" else None
    if kind == "json_object":
        return {"type": "object"}
    if isinstance(named, Mapping) and "schema" in named:
        return named["schema"]
    if kind != "text":
        raise UsageError("response_format: expected type text, json_object, or json_schema with its json_schema.schema, found %.80r" % (given,))
    return None


def _call_id(ids: Ids, seed: int, number: int) -> str:
    """Nine letters and digits, as some templates require; those of `tblock serve`: FNV-1a of the prompt and of which call it is."""
    h = 0xCBF29CE484222325
    for byte in ids.tobytes() + seed.to_bytes(8, "little") + number.to_bytes(8, "little"):
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return "".join("0123456789abcdefghijklmnopqrstuvwxyz"[h // 36 ** i % 36] for i in range(9))


def _token(t: Record, has_text: bool) -> dict[str, Any]:
    try:
        spelled = t.bytes.decode()
    except UnicodeDecodeError:
        spelled = "bytes:" + "".join("\\x%02x" % byte for byte in t.bytes)
    return {"token": spelled if has_text else "token_id:%d" % t.id, "logprob": t.logprob, "bytes": list(t.bytes)}


class _Choice:
    """One reply: what its parts are so far, and how they become deltas."""

    def __init__(self, index: int, seed: int, ids: Ids, answer: Answer) -> None:
        self.index, self._seed, self._ids, self.answer = index, seed, ids, answer
        self.message: dict[str, Any] = {"role": "assistant", "content": ""}
        self.calls: list[dict[str, Any]] = []
        self._shown: set[int] = set()  # calls whose name was in a delta
        self.n_told = 0
        self.begun = self.ended = False

    def _shows(self, number: int, arguments: str) -> dict[str, Any]:
        call = self.calls[number]
        if number in self._shown:
            return {"tool_calls": [{"index": number, "function": {"arguments": arguments}}]}
        self._shown.add(number)  # its id may come behind its name, so both wait
        call["id"] = call["id"] or _call_id(self._ids, self._seed, number)
        return {"tool_calls": [{"index": number, "id": call["id"], "type": "function",
                                "function": {"name": call["function"]["name"], "arguments": arguments}}]}

    def take(self, part: Record) -> Optional[dict[str, Any]]:
        """Add a part; the delta that it makes."""
        if part.kind in ("content", "reasoning"):
            key = "content" if part.kind == "content" else "reasoning_content"
            self.message[key] = self.message.get(key, "") + part.text
            return {key: part.text}
        if part.kind == "call":
            self.calls.append({"id": "", "type": "function", "function": {"name": part.text, "arguments": ""}})
        elif part.kind == "call_id":
            self.calls[part.call]["id"] = part.text
        elif part.kind == "arguments":
            self.calls[part.call]["function"]["arguments"] += part.text
            return self._shows(part.call, part.text)
        elif part.call not in self._shown:
            return self._shows(part.call, "")
        return None

    @property
    def reason(self) -> Optional[str]:
        reason = _REASONS.get(self.answer.generation.end, "stop")
        return "tool_calls" if reason == "stop" and self.calls else reason


class Completion:
    """A request that runs. p: its parameters."""

    def __init__(self, model: Model, messages: Sequence[Message], p: Mapping[str, Any]) -> None:
        p = {name: value for name, value in p.items() if value is not None}
        n = whole("n", p.get("n", 1))
        if not 1 <= n <= 128:
            raise UsageError("n: expected 1 to 128, found %d" % n)
        seed = p.get("seed", secrets.randbits(53))
        tools, choice = p.get("tools"), p.get("tool_choice", "auto")
        named = choice.get("function", choice).get("name") if isinstance(choice, Mapping) else None
        must = named is not None or choice == "required"
        if not must and choice not in ("auto", "none"):
            raise UsageError("tool_choice: expected auto, none, required, or a function with its name, found %.80r" % (choice,))
        args = dict(expect("chat_template_kwargs", p.get("chat_template_kwargs", {}), Mapping))
        if "reasoning_effort" in p:
            args.setdefault("reasoning_effort", p["reasoning_effort"])
        self.model, self.p = model, p
        self.chat = Chat(model, format=p.get("format"), tools=tools if tools and choice != "none" else None, args=args or None)
        self.ids = self.chat.render(_fitted(self.chat, messages))
        self._head = {"id": "chatcmpl-" + secrets.token_hex(12), "created": int(time.time()),
                      "model": p.get("model", re.sub(r"\.(bin|gguf)$", "", os.path.basename(model.path.rstrip("/")))), "seed": seed}
        options = self._options(must, named, tools if choice != "none" else None)
        self._own = Context(model, n_seqs=n) if n > 1 else None
        self.choices = []
        for i in range(n):
            own: GenerateOptions = {**options, "seed": seed + i}
            generation = (self._own or model).generate(self.ids, **own)
            self.choices.append(_Choice(i, seed + i, self.ids, Answer(self.chat, generation)))

    def _options(self, must: bool, named: Optional[str], tools: Any) -> GenerateOptions:
        p, schema = self.p, _schema(self.p.get("response_format"))
        stop = p.get("stop", ())
        stops = [stop] if isinstance(stop, str) else list(stop)
        strict = any(isinstance(t, Mapping) and isinstance(t.get("function"), Mapping) and t["function"].get("strict") for t in tools or ())
        one = p.get("parallel_tool_calls") is False
        if must and not tools:
            raise UsageError("tools: expected one beside tool_choice, found none")
        if must and schema is not None:
            raise UsageError("response_format: expected none beside tool_choice, which requires a call")
        if one and tools and not must and not strict:
            raise UsageError("parallel_tool_calls: several calls can only be ruled out where a call is required or a function is strict")
        if stops and (must or schema is not None):
            raise UsageError("stop: expected none beside %s, which says where the text ends" % ("tool_choice" if must else "response_format"))
        constraint = None
        if schema is not None:
            constraint = Constraint(self.model, json_schema=schema)
        elif must or (strict and tools):
            constraint = self.chat.calls(named, several=not one, optional=not must)
        if "top_logprobs" in p and not p.get("logprobs"):
            raise UsageError("top_logprobs: expected logprobs to be True beside it")
        bias = expect("logit_bias", p.get("logit_bias", {}), Mapping)
        try:
            biases = {int(token): value for token, value in bias.items()}
        except (TypeError, ValueError):
            raise UsageError("logit_bias: expected ids and numbers, found %.80r" % (bias,)) from None
        sampling: Any = {name: p.get(parameter, off) for parameter, (name, off) in SAMPLING_OF_REQUESTS.items()}
        if sampling["top_k"] == -1:  # vLLM's "all"
            sampling["top_k"] = 0
        receipt = {"chat": self.chat._c} if p.get("receipt") else False
        out: Any = {**sampling, "max_tokens": p.get("max_completion_tokens", p.get("max_tokens")), "logit_bias": biases,
                "stop": stops if must or schema is not None else [*stops, *self.chat.stop_texts], "stop_ids": self.chat.stop_ids,
                "skip": self.chat.answer_prefix or None, "constraint": constraint, "receipt": receipt,
                "logprobs": p.get("top_logprobs", 0) if p.get("logprobs") else None}
        return cast("GenerateOptions", out)

    def step(self) -> None:
        """One step of all that go on; parts wait in their answers."""
        running = [c.answer.generation for c in self.choices if c.answer.generation.end is None]
        if running:
            running[0].context.advance(running)
        for c in self.choices:
            c.answer.generation.check()
            c.answer.parse()

    def stop(self) -> None:
        for c in self.choices:
            c.answer.generation.stop()

    def close(self) -> None:
        for c in self.choices:
            c.answer.generation._give_back()
        if self._own is not None:
            self._own.close()

    # ---- Dicts ----

    def _of_tokens(self, c: _Choice, first: int) -> dict[str, Any]:
        """What a choice has beside its text, of its tokens from `first` on."""
        g, out = c.answer.generation, {"logprobs": None}  # type: Any, dict[str, Any]
        if self.p.get("logprobs"):
            spell = self.model.has_tokenizer
            out["logprobs"] = {"content": [{**_token(t, spell), "top_logprobs": [_token(x, spell) for x in t.top]} for t in g.logprobs[first:]]}
        if self.p.get("return_token_ids"):
            out["token_ids"] = [int(i) for i in g.ids[first:]]
        return out

    def _at_the_end(self, c: _Choice) -> dict[str, Any]:
        return {**({"receipt": c.answer.generation.receipt} if self.p.get("receipt") else {}), "finish_reason": c.reason}

    def _usage(self) -> dict[str, Any]:
        generations = [c.answer.generation for c in self.choices]
        n, cached = sum(g.n_sampled for g in generations), sum(g.n_reused for g in generations)
        return {"prompt_tokens": len(self.ids), "completion_tokens": n, "total_tokens": len(self.ids) + n,
                "prompt_tokens_details": {"cached_tokens": cached}}

    def whole(self) -> dict[str, Any]:
        try:
            while any(not c.answer.ended for c in self.choices):
                self.step()
            choices = []
            for c in self.choices:
                for part in c.answer:
                    c.take(part)
                if c.calls:
                    c.message["content"] = c.message["content"] or None
                    c.message["tool_calls"] = c.calls
                    for number, call in enumerate(c.calls):
                        call["id"] = call["id"] or _call_id(self.ids, c._seed, number)
                c.message["refusal"] = None
                choices.append({"index": c.index, "message": c.message, **self._of_tokens(c, 0), **self._at_the_end(c)})
            return {**self._head, "object": "chat.completion", "choices": choices, "usage": self._usage()}
        finally:
            self.close()

    def _deltas(self, c: _Choice) -> Iterator[dict[str, Any]]:
        """What is new of a choice."""
        n = len(c.answer.generation.ids)
        told, c.n_told = c.n_told, n
        nothing = self._of_tokens(c, n)
        if not c.begun and (n or c.answer.ended):
            c.begun = True
            yield {"index": c.index, "delta": {"role": "assistant", "content": ""}, **nothing, "finish_reason": None}
        if n > told and (self.p.get("logprobs") or self.p.get("return_token_ids")):
            yield {"index": c.index, "delta": {}, **self._of_tokens(c, told), "finish_reason": None}
        while c.answer._parts:
            delta = c.take(c.answer._parts.popleft())
            if delta is not None:
                yield {"index": c.index, "delta": delta, **nothing, "finish_reason": None}
        if c.answer.ended and not c.ended:
            c.ended = True
            yield {"index": c.index, "delta": {}, **nothing, **self._at_the_end(c)}

    def chunks(self) -> Iterator[dict[str, Any]]:
        head = {**self._head, "object": "chat.completion.chunk"}
        try:
            while any(not c.ended for c in self.choices):
                self.step()
                for c in self.choices:
                    for choice in self._deltas(c):
                        yield {**head, "choices": [choice]}
            if expect("stream_options", self.p.get("stream_options", {}), Mapping).get("include_usage"):
                yield {**head, "choices": [], "usage": self._usage()}
        finally:
            self.close()


class CompletionStream:
    """The chunks of a completion, dicts in OpenAI's form, for `for` and `async for`."""

    def __init__(self, completion: Completion) -> None:
        self._completion, self._chunks = completion, completion.chunks()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        return next(self._chunks)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        chunk = await in_thread(lambda: next(self._chunks, None), self._completion.stop)
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """End it early: what it computes in is free again."""
        self._chunks.close()  # type: ignore[attr-defined]
