"""What a text must fit."""
from __future__ import annotations

import json
from typing import Any, Mapping, Optional, Union

from ._c import ffi, lib
from ._core import Handle, Record, UsageError, c_json, c_text, call, expect, record, text_bytes, text_of
from .model import Model
from .options import show_as, takes_options


class Constraint(Handle):
    """What a text must fit: one of json_schema (a dict or JSON text), regex (of ECMA-262) or grammar (GBNF, with a `root`). See
    docs/constraints.md. any_order: properties of a schema in any order. One generation after the other may use it, or those of
    one context together.

    Raises InputError where it cannot be kept, with the place."""

    @takes_options
    def __init__(self, model: Model, *, json_schema: Union[Mapping[str, Any], bool, str, None] = None, regex: Optional[str] = None, grammar: Optional[str] = None,
                 any_order: bool = False) -> None:
        if json_schema is not None and not isinstance(json_schema, str):
            json_schema = c_json("json_schema", expect("json_schema", json_schema, Mapping)) if not isinstance(json_schema, bool) \
                else json.dumps(json_schema)
        given = [("json_schema", lib.TBLOCK_JSON_SCHEMA_ANY_ORDER if any_order else lib.TBLOCK_JSON_SCHEMA, json_schema),
                 ("regex", lib.TBLOCK_REGEX, regex), ("grammar", lib.TBLOCK_GRAMMAR, grammar)]
        given = [g for g in given if g[2] is not None]
        if len(given) != 1:
            raise UsageError("expected one of json_schema, regex and grammar, found %d" % len(given))
        name, kind, text = given[0]
        raw = text_bytes(name, text)
        super().__init__(call("tblock_constraint_new", expect("model", model, Model)._c, kind, raw, len(raw), c_text("name", name)),
                         lib.tblock_constraint_free, model)

    @property
    def unknown_formats(self) -> str:
        """Names in a schema's `format` that nobody knows, which ask nothing of a text."""
        return text_of(lib.tblock_constraint_unknown_formats(self._c))

    def accepts(self, text: str) -> bool:
        """Does the whole text fit?"""
        raw, fits = text_bytes("text", text), ffi.new("bool *")
        call("tblock_constraint_accepts", self._c, raw, len(raw), fits)
        return bool(fits[0])

    def times(self) -> Record:
        """Seconds: compile_s, and of masks n_masks, first_s, mean_s, p99_s, max_s."""
        out = ffi.new("tblock_constraint_times *")
        lib.tblock_constraint_measure(self._c, out)
        return record(out[0])


show_as(Model.constraint, Constraint)
