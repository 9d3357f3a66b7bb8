"""A model's tokenizer with the names that users of transformers know."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from ._c import ffi, lib
from ._core import Record, UsageError, call, expect, text_of
from .chat import Chat, Message
from .model import Model, Text, c_ids
from .options import takes_options

_NAMED = tuple("%s_token" % name for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))


def _byte_letters() -> dict[int, str]:
    """The letter that stands for each byte in the tokens of byte-level vocabularies. Source: GPT-2, bytes_to_unicode."""
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {**{b: chr(b) for b in own}, **{b: chr(256 + i) for i, b in enumerate(others)}}


_LETTERS = _byte_letters()


class Tokenizer:
    """What transformers calls a tokenizer, of an open model: `model.tokenizer`. Methods, parameters and answers are those of
    transformers 5; a parameter that it lacks is an error. Two things differ: a special token that a message spells stays ordinary
    text in apply_chat_template, and vocab_size counts added tokens too.

    bos_token, eos_token, unk_token, pad_token, ... and their _id are None where the model has none; they can be set, as can
    padding_side and truncation_side ("right", "left")."""

    def __init__(self, model: Model) -> None:
        info = ffi.new("tblock_tokenizer_info *")
        call("tblock_tokenizer_describe", expect("model", model, Model)._c, info)
        self.model = model
        self.name_or_path = str(model.path)
        self.type = text_of(info.type)
        self.vocab_size = int(info.size)
        self.model_max_length = int(model.n_ctx) if model.has_weights else 1 << 30
        self.padding_side = self.truncation_side = "right"
        self._around = list(info.prefix[0:info.n_prefix]), list(info.suffix[0:info.n_suffix])
        templates = [("default", info.chat_template), ("tool_use", info.chat_template_tools)]
        self._templates = {name: text_of(t) for name, t in templates if t != ffi.NULL}
        self._given = {} if info.special_tokens == ffi.NULL else json.loads(text_of(info.special_tokens))
        self._unk = int(info.unk)
        self._chat: Optional[tuple[str, Chat]] = None

    def __repr__(self) -> str:
        return "<tblock.Tokenizer of %r: %s, %d tokens>" % (self.name_or_path, self.type, self.vocab_size)

    def __len__(self) -> int:
        return self.vocab_size

    # ---- Tokens and their names ----

    @property
    def _named(self) -> dict[str, Any]:
        """The special tokens that have names. They are the model's: what was set stays if this object is let go."""
        named = self.model._special_tokens
        if not named:
            own = {"bos_token": self.model.bos, "eos_token": self.model.eos[0] if self.model.eos else -1, "unk_token": self._unk}
            named.update({name: None for name in _NAMED})
            named.update({name: self.convert_ids_to_tokens(i) for name, i in own.items() if i >= 0})
            named.update({name: token for name, token in self._given.items() if token is not None})
        return named

    if TYPE_CHECKING:  # what __getattr__ has
        bos_token: Optional[str]
        eos_token: Optional[str]
        unk_token: Optional[str]
        sep_token: Optional[str]
        pad_token: Optional[str]
        cls_token: Optional[str]
        mask_token: Optional[str]
        bos_token_id: Optional[int]
        eos_token_id: Optional[int]
        unk_token_id: Optional[int]
        sep_token_id: Optional[int]
        pad_token_id: Optional[int]
        cls_token_id: Optional[int]
        mask_token_id: Optional[int]
    else:
        def __getattr__(self, name):
            token = name[:-3] if name.endswith("_id") else name
            if not token.endswith("_token") or token not in self._named:
                raise AttributeError("Tokenizer has no attribute %r" % name)
            spelled = self._named[token]
            return spelled if token == name or spelled is None else self.convert_tokens_to_ids(spelled)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _NAMED:
            if value is not None and value not in self.get_vocab():
                raise UsageError("%s: expected a token of the vocabulary, found %r" % (name, value))
            self._named[name] = value
        elif name.endswith("_token_id") and name[:-3] in _NAMED:
            self._named[name[:-3]] = None if value is None else self.convert_ids_to_tokens(value)
        elif name in ("padding_side", "truncation_side") and value not in ("left", "right"):
            raise UsageError("%s: expected left or right, found %r" % (name, value))
        else:
            object.__setattr__(self, name, value)

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *_NAMED, *(name + "_id" for name in _NAMED)]

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens that have names: {"bos_token": "<s>", ...}."""
        return {name: token for name, token in self._named.items() if token is not None}

    @property
    def all_special_ids(self) -> list[int]:
        """The ids that decode leaves out with skip_special_tokens."""
        special = lib.TBLOCK_TOKEN_CONTROL, lib.TBLOCK_TOKEN_UNKNOWN
        return [i for i, t in enumerate(self._tokens(0, self.vocab_size)) if t.type in special]

    @property
    def all_special_tokens(self) -> list[str]:
        return self.convert_ids_to_tokens(self.all_special_ids)  # type: ignore[no-any-return]

    def _tokens(self, first: int, n: int) -> Any:
        out = ffi.new("tblock_token[]", n)
        call("tblock_tokens", self.model._c, first, n, out)
        return out

    def _spell(self, token: Any) -> Optional[str]:
        """A token as its own library spells it: bytes as letters, spaces as U+2581."""
        data = bytes(ffi.buffer(token.bytes, token.n_bytes))
        if token.type == lib.TBLOCK_TOKEN_UNUSED and not data:
            return None
        if self.type == "bpe" and token.type in (lib.TBLOCK_TOKEN_NORMAL, lib.TBLOCK_TOKEN_BYTE):
            return "".join(_LETTERS[b] for b in data)
        return "<0x%02X>" % data[0] if token.type == lib.TBLOCK_TOKEN_BYTE else data.decode("utf-8", "replace")

    def convert_ids_to_tokens(self, ids: Union[int, Iterable[int]], skip_special_tokens: bool = False) -> Any:
        """Tokens as the vocabulary spells them ("\u0120the", "\u2581the", "<0x0A>"), of one id or a list; None for an id without a token."""
        if isinstance(ids, (int, np.integer)):
            return self._spell(self._tokens(c_ids([ids])[0], 1)[0])
        special = set(self.all_special_ids) if skip_special_tokens else ()
        return [self._spell(self._tokens(i, 1)[0]) for i in c_ids(ids) if i not in special]

    def get_vocab(self) -> dict[str, int]:
        """{token: id}."""
        ids = self.model._vocabulary
        if not ids:
            spelled = [self._spell(t) for t in self._tokens(0, self.vocab_size)]
            ids.update({token: i for i, token in reversed(list(enumerate(spelled))) if token is not None})
        return dict(ids)

    def convert_tokens_to_ids(self, tokens: Union[str, Iterable[str]]) -> Any:
        """The id of a token, or those of a list; that of unk_token, or None, for what is no token."""
        ids = self.model._vocabulary or self.get_vocab()
        tokens = tokens if isinstance(tokens, str) else list(tokens)
        wrong = [t for t in tokens if not isinstance(t, str)]
        if wrong:
            raise UsageError("tokens: expected texts, found %r" % wrong[0])
        unk = self._unk if self._unk >= 0 else None
        return ids.get(tokens, unk) if isinstance(tokens, str) else [ids.get(t, unk) for t in tokens]

    # ---- Texts ----

    @takes_options
    def encode(self, text: Text, *, add_special_tokens: bool = True, split_special_tokens: bool = False) -> list[int]:
        """Ids of a text. Special tokens that it spells count, as in transformers; split_special_tokens: they are ordinary text,
        which texts of strangers need."""
        ids = self.model.tokenize(text, add_special=add_special_tokens, parse_special=not split_special_tokens)
        return [int(i) for i in ids]

    @takes_options
    def tokenize(self, text: Text, *, add_special_tokens: bool = False) -> list[str]:
        """The tokens of a text."""
        return self.convert_ids_to_tokens(self.encode(text, add_special_tokens=add_special_tokens))  # type: ignore[no-any-return]

    @takes_options
    def __call__(self, text: Union[Text, Sequence[Text]], *, add_special_tokens: bool = True, padding: Union[bool, str] = False,
                 truncation: bool = False, max_length: Optional[int] = None, return_tensors: Optional[str] = None,
                 split_special_tokens: bool = False) -> Record:
        """input_ids and attention_mask of a text or of a list of texts. padding: True or "longest", "max_length". return_tensors:
        "np" or None."""
        one = isinstance(text, (str, bytes))
        if not one and not isinstance(text, (list, tuple)):
            raise UsageError("text: expected a text or a list of texts, found %s" % type(text).__name__)
        texts: Sequence[Any] = [text] if one else text  # type: ignore[list-item, unused-ignore]
        rows = [self.encode(t, add_special_tokens=False, split_special_tokens=split_special_tokens) for t in texts]
        around = self._around if add_special_tokens else ([], [])
        return self._batch(rows, one, around, padding, truncation, max_length, return_tensors)

    def _batch(self, rows: list[list[int]], one: bool, around: tuple[list[int], list[int]], padding: Union[bool, str],
               truncation: bool, max_length: Optional[int], return_tensors: Optional[str]) -> Record:
        if padding not in (False, True, "longest", "max_length", "do_not_pad"):
            raise UsageError("padding: expected True, False, longest, max_length or do_not_pad, found %r" % (padding,))
        if return_tensors not in (None, "np"):
            raise UsageError("return_tensors: expected None or np, found %r" % (return_tensors,))
        if truncation not in (False, True):
            raise UsageError("truncation: expected True or False, found %r" % (truncation,))
        most = self.model_max_length if max_length is None else max_length
        if not isinstance(most, int) or most < 0:
            raise UsageError("max_length: expected a whole number, found %r" % (max_length,))
        if truncation:
            room = max(0, most - len(around[0]) - len(around[1]))
            rows = [row[:room] if self.truncation_side == "right" else row[len(row) - min(room, len(row)):] for row in rows]
        rows = [[*around[0], *row, *around[1]] for row in rows]
        masks = [[1] * len(row) for row in rows]
        if padding not in (False, "do_not_pad"):
            rows, masks = self._padded(rows, masks, most if padding == "max_length" else max(map(len, rows), default=0))
        if return_tensors and len(set(map(len, rows))) > 1:
            raise UsageError("return_tensors: expected texts of one length, found %s; use padding" % sorted(set(map(len, rows))))
        out = Record(input_ids=rows, attention_mask=masks)
        for name, value in out.items():
            out[name] = np.array(value, np.int64) if return_tensors else value[0] if one else value
        return out

    def _padded(self, rows: list[list[int]], masks: list[list[int]], length: int) -> Any:
        pad = self.pad_token_id
        if pad is None:
            raise UsageError("padding: the tokenizer has no pad_token; set one: tokenizer.pad_token = tokenizer.eos_token")
        left = self.padding_side == "left"

        def wide(row: list[int], filler: int) -> list[int]:
            more = [filler] * (length - len(row))
            return more + row if left else row + more
        return [wide(row, pad) for row in rows], [wide(mask, 0) for mask in masks]

    @takes_options
    def decode(self, token_ids: Union[int, Iterable[int]], *, skip_special_tokens: bool = False) -> str:
        """The text of ids, with U+FFFD for bytes that are not UTF-8 where the tokenizer's own library writes it."""
        ids = c_ids([token_ids] if isinstance(token_ids, (int, np.integer)) else token_ids)
        special = set(self.all_special_ids) if skip_special_tokens else ()
        line = json.dumps({"ids": [i for i in ids if i not in special]}).encode()
        out = ffi.new("char **")
        call("tblock_tokenize_json", self.model._c, line, len(line), out)
        try:
            return str(json.loads(text_of(out[0]))["text"])
        finally:
            lib.tblock_free(out[0])

    @takes_options
    def batch_decode(self, sequences: Iterable[Iterable[int]], *, skip_special_tokens: bool = False) -> list[str]:
        """The texts of lists of ids."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in sequences]

    # ---- Conversations ----

    @property
    def chat_template(self) -> Any:
        """The model's own chat template: its text, {"default": ..., "tool_use": ...} where there are two, or None."""
        return self._templates.get("default") if set(self._templates) <= {"default"} else dict(self._templates)

    def apply_chat_template(self, conversation: Union[Sequence[Message], Sequence[Sequence[Message]]],
                            tools: Optional[Sequence[Any]] = None, documents: Optional[Sequence[Mapping[str, str]]] = None,
                            chat_template: Optional[str] = None, add_generation_prompt: bool = False,
                            continue_final_message: bool = False, tokenize: bool = True, padding: Union[bool, str] = False,
                            truncation: bool = False, max_length: Optional[int] = None, return_tensors: Optional[str] = None,
                            return_dict: bool = True, return_assistant_tokens_mask: bool = False,
                            tokenizer_kwargs: Optional[Mapping[str, Any]] = None, date: Optional[str] = None, **variables: Any) -> Any:
        """A conversation, or a list of them, as the model's template writes it, or chat_template (a name that `tblock chat` knows,
        or a template). tokenize False: its text. Otherwise input_ids and attention_mask, or without return_dict the ids alone.
        date: "YYYY-MM-DD" for templates that ask for it. Other names are variables of the template."""
        for name, value in (("continue_final_message", continue_final_message), ("tokenizer_kwargs", tokenizer_kwargs),
                            ("return_assistant_tokens_mask", return_assistant_tokens_mask)):
            if value:
                raise UsageError("%s: expected %r, which is all that there is; found %r" % (
                    name, None if name == "tokenizer_kwargs" else False, value))
        args = {**variables, **({} if documents is None else {"documents": list(documents)})}
        chat = self._conversations({"format": chat_template, "tools": tools, "args": args or None, "date": date})
        one = not conversation or isinstance(conversation[0], Mapping)
        given: Any = [conversation] if one else conversation
        if not tokenize:
            texts = [chat.text(messages, answer=add_generation_prompt) for messages in given]
            return texts[0] if one else texts
        rows = [chat.render(messages, answer=add_generation_prompt).tolist() for messages in given]
        out = self._batch(rows, one, ([], []), padding, truncation, max_length, return_tensors)
        return out if return_dict else out["input_ids"]

    def _conversations(self, options: dict[str, Any]) -> Chat:
        """The chat of these options; the last one is kept."""
        try:
            key = json.dumps(options)
        except (TypeError, ValueError) as e:
            raise UsageError("apply_chat_template: expected tools and variables that JSON knows: %s" % e) from None
        if self._chat is None or self._chat[0] != key or self._chat[1].closed:
            self._chat = key, Chat(self.model, **options)
        return self._chat[1]
