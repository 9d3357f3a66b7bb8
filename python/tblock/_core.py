"""Between Python and the C library: errors, handles, options, records, callbacks. Nothing here knows a model."""
from __future__ import annotations

import asyncio
import json
import operator
import os
import threading
from typing import Any, Callable, Iterator, Mapping, Optional, Sequence, TypeVar

from ._c import ffi, lib
from .peers import no_option
from .words import NAMES, in_python

_Handle = TypeVar("_Handle", bound="Handle")

# ---- Errors ----------------------------------------------------------------------------------------------------------


class Error(Exception):
    """What the library says when it refuses or fails. `status` is the exit status of the program for the same thing: 1 the
    answer is no, 2 wrong usage, 3 bad input, 4 the system failed. `message` names the thing, what was expected and what was
    found."""
    status = 0

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CheckError(Error):
    """A check found that the answer is no: data that differs from its hash, a gradient that is wrong."""
    status = 1


class UsageError(Error, ValueError):
    """An argument is out of range, of the wrong type, or does not go with another."""
    status = 2


class OptionError(UsageError, TypeError):
    """There is no option of that name."""


class InputError(Error, ValueError):
    """A file or text that is damaged or not supported."""
    status = 3


class SystemFailure(Error, OSError):
    """Memory, disk or another part of the system failed."""
    status = 4


class ClosedError(UsageError):
    """The model, context or generation is closed."""


class BusyError(UsageError):
    """Another thread uses the context at the moment, or it was made before a fork."""


_KINDS = {1: CheckError, 2: UsageError, 3: InputError, 4: SystemFailure}


def text_of(c: Any) -> str:
    """A C string."""
    return bytes(ffi.string(c)).decode("utf-8", "replace")


def new_error() -> Any:
    return ffi.new("tblock_error *")


def raise_error(err: Any) -> None:
    raise _KINDS.get(err.status, Error)(in_python(text_of(err.msg), err.status == UsageError.status))


# ---- Handles ---------------------------------------------------------------------------------------------------------

# Held while handles are tied and untied, which takes no time.
_tying = threading.RLock()


def _after_fork() -> None:
    global _tying
    _tying = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


_T = TypeVar("_T")


async def in_thread(step: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """The result of step(), which runs in another thread meanwhile. A task that is cancelled calls stop, and waits for its end."""
    running = asyncio.ensure_future(asyncio.to_thread(step))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([running])
        raise


class Handle:
    """An object of the library. It closes what was made from it before itself, so the order in which Python forgets them does
    not matter. Use it in a `with`, call close(), or let it go."""

    def __init__(self, raw: Any, free: Callable[[Any], None], *parents: "Handle", guard: Any = None) -> None:
        self._cell: _Cell = _Cell(raw, free, [p._cell for p in parents], guard)
        self._parents = parents  # they live as long

    @property
    def _c(self) -> Any:
        raw = self._cell.raw
        if raw is None:
            raise ClosedError("the %s is closed" % type(self).__name__.lower())
        return raw

    @property
    def closed(self) -> bool:
        return self._cell.raw is None

    def close(self) -> None:
        """Release it, and all that was made from it. Closing twice does nothing."""
        self._cell.close()

    def __enter__(self: _Handle) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        cell: Optional[_Cell] = self.__dict__.get("_cell")
        if cell is not None:
            try:
                cell.close()
            except BusyError:
                cell.doomed = True  # closed by the thread that computes, when it is done

    def __reduce__(self) -> Any:
        raise TypeError("a %s cannot be copied or sent to another process" % type(self).__name__)


class _Cell:
    """What a handle holds, without the handle itself: so no cycle of Python objects keeps memory."""

    def __init__(self, raw: Any, free: Callable[[Any], None], outer: Sequence["_Cell"], guard: Any) -> None:
        self.raw, self.free, self.outer = raw, free, outer
        self.guard = guard  # the lock of the context that it belongs to
        self.doomed = False
        self.inner: set[_Cell] = set()
        self.process = os.getpid()
        with _tying:
            for o in outer:
                o.inner.add(self)

    def close(self, held: Any = None) -> None:
        """held: a lock that the caller has."""
        take = self.guard is not None and self.guard is not held and self.process == os.getpid()
        if take and not self.guard.acquire(blocking=False):
            raise BusyError("expected a context that nobody uses, found one that another thread or a callback uses")
        try:
            for inner in list(self.inner):
                inner.close(self.guard or held)
            with _tying:
                for o in self.outer:
                    o.inner.discard(self)
                raw, self.raw = self.raw, None
            if raw is not None and self.process == os.getpid():  # a fork leaves the threads of a context behind
                self.free(raw)
        finally:
            if take:
                self.guard.release()

    def sweep(self) -> None:
        """Close what was let go meanwhile. The caller has the guard."""
        for inner in list(self.inner):
            if inner.doomed:
                inner.close(self.guard)


# ---- Options and records ---------------------------------------------------------------------------------------------


class Record(dict):  # type: ignore[type-arg]
    """What the library tells of something: a dict whose keys are attributes too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __dir__(self) -> Sequence[str]:
        return [*super().__dir__(), *self]


def record(c: Any) -> Record:
    """A struct as a record: its numbers, texts and structs. Other pointers are left out."""
    out = Record()
    for name, field in ffi.typeof(c).fields:
        kind, value = field.type, getattr(c, name)
        if kind.kind in ("primitive", "enum"):
            out[name] = value
        elif kind.kind == "array":
            out[name] = text_of(value) if kind.item.cname == "char" else list(value)
        elif kind.kind == "struct":
            out[name] = record(value)
        elif kind.kind == "pointer" and kind.item.cname == "char":
            out[name] = text_of(value) if value else None
    return out


def records(c: Any, n: int) -> list[Record]:
    return [record(c[i]) for i in range(n)]


def expect(name: str, value: Any, kind: Any) -> Any:
    """The value, if it is of that class."""
    if not isinstance(value, kind):
        wanted = getattr(kind, "__name__", "Mapping").lower()  # before Python 3.10, those of typing have none
        raise UsageError("%s: expected a %s, found %s" % (name, wanted, type(value).__name__))
    return value


def whole(name: str, value: Any) -> int:
    """A whole number that fits C's int."""
    try:
        n = operator.index(value)
    except TypeError:
        n = 1 << 31
    if not -1 << 31 <= n < 1 << 31:
        raise UsageError("%s: expected a whole number of 32 bits, found %r" % (name, value))
    return n


def text_bytes(name: str, value: Any) -> bytes:
    """A text as UTF-8, or bytes as they are."""
    try:
        if isinstance(value, (str, bytes, bytearray, memoryview)):
            return value.encode() if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError as e:
        raise UsageError("%s: %s" % (name, e)) from None
    raise UsageError("%s: expected a text or bytes, found %s" % (name, type(value).__name__))


def _bytes(name: str, value: Any) -> bytes:
    raw = os.fsencode(value) if isinstance(value, os.PathLike) else text_bytes(name, value)
    if b"\0" in raw:
        raise UsageError("%s: expected a text without NUL, found %r" % (name, value))
    return raw


def c_text(name: str, value: Any) -> Any:
    """A string or path for C."""
    return ffi.new("char[]", _bytes(name, value))


def c_json(name: str, value: Any) -> str:
    """A value as JSON."""
    try:
        return json.dumps(dict(value) if isinstance(value, Mapping) else list(value))
    except (TypeError, ValueError, RecursionError) as e:
        raise UsageError("%s: expected what JSON can say: %s" % (name, e)) from None


def _real(value: Any) -> Any:
    """The value. C would get the real part of numpy's complex numbers."""
    if getattr(getattr(value, "dtype", None), "kind", "") == "c":
        raise TypeError("expected a real number, found %r" % (value,))
    return value


class Options:
    """A struct of options with everything it points to. An option that the struct lacks is an error by name."""

    def __init__(self, kind: str, values: Mapping[str, Any]) -> None:
        self.c = ffi.new(kind + " *")
        self.callback: Optional[Callback] = None
        self._kept: list[Any] = []
        fields = dict(ffi.typeof(kind).fields)
        known = [f for f in fields if f not in ("user", "go_on") and not (f.startswith("n_") and f[2:] in fields)]
        for name, value in values.items():
            if name not in known:
                raise OptionError(no_option(kind[len("tblock_"):-len("_options")], name, known))
            if value is not None and name != "progress":
                self._set(name, fields[name].type, fields, value)
        if "progress" in fields:  # always, so that Ctrl-C is seen; what can stop is go_on, where there is one
            name = "go_on" if "go_on" in fields else "progress"
            given = values.get("progress")
            self._set(name, fields[name].type, fields, (lambda done: True) if given is None else given)

    def _set(self, name: str, kind: Any, fields: Mapping[str, Any], value: Any) -> None:
        try:
            if kind.kind == "function":
                if not callable(value):
                    raise TypeError("expected a function, found %r" % (value,))
                self.callback = Callback(value)
                self.c.user = self.callback.handle
                value = getattr(lib, _CALLBACKS[kind.cname])
            elif kind.kind == "pointer" and kind.item.cname == "char":
                value = self._keep(c_text(NAMES.get(name, name), value))
            elif kind.kind == "pointer" and "n_" + name in fields:
                value = self._list(name, kind, value)
            elif kind.kind == "pointer" and kind.item.kind == "struct" and isinstance(value, Options):
                value = self._keep(value).c
            setattr(self.c, name, _real(value))
        except (TypeError, OverflowError) as e:
            raise UsageError("%s: %s" % ("progress" if name == "go_on" else NAMES.get(name, name), e)) from None

    def _list(self, name: str, kind: Any, value: Any) -> Any:
        if isinstance(value, (str, bytes)):
            raise UsageError("%s: expected a list, found %r" % (NAMES.get(name, name), value))
        items = list(value)
        if kind.item.kind == "pointer":
            items = [self._keep(c_text(NAMES.get(name, name), item)) for item in items]
        items = [self._keep(item).c[0] if isinstance(item, Options) else _real(item) for item in items]
        setattr(self.c, "n_" + name, len(items))
        return self._keep(ffi.new(kind.item.cname.replace("const ", "").replace(" const", "") + "[]", items))

    def _keep(self, thing: Any) -> Any:
        self._kept.append(thing)
        return thing


def _sampling() -> Iterator[tuple[Any, Callable[[float], float]]]:
    row = lib.tblock_sampling_rows()
    while row.field != ffi.NULL:
        yield row, int if row.type == lib.TBLOCK_INT else float
        row += 1


#: The library's table of sampling options: of each its field in tblock_sampler_options, and the default of `tblock run`.
SAMPLING = {text_of(row.name): (text_of(row.field), number(row.usual)) for row, number in _sampling()}
#: By the names that they have in requests to `tblock serve`: the name here, and the default of a request.
SAMPLING_OF_REQUESTS = {text_of(row.parameter): (text_of(row.name), number(row.off)) for row, number in _sampling()}


# ---- Callbacks -------------------------------------------------------------------------------------------------------

_CALLBACKS = {
    "_Bool(*)(void *, double)": "tblock_py_go_on",
    "_Bool(*)(void *, struct tblock_train_progress *)": "tblock_py_train",
}


class Callback:
    """A Python function that C calls. What it raises is raised where the library was called; the library stops as soon as it
    can, which is at once where the callback's answer counts."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.raised: Optional[BaseException] = None
        self.handle = ffi.new_handle(self)

    def __call__(self, *given: Any) -> bool:
        if self.raised is not None:
            return False
        try:
            return self.function(*given) is not False
        except BaseException as e:  # KeyboardInterrupt too: C is between us and the caller
            self.raised = e
            return False


def _missed(kind: Any, value: BaseException, traceback: Any) -> bool:
    """An interrupt that came outside the function's own code. The stack has the callback."""
    frame = traceback.tb_frame if traceback is not None else None
    while frame is not None:
        if "user" in frame.f_locals:
            ffi.from_handle(frame.f_locals["user"]).raised = value
            break
        frame = frame.f_back
    return False


@ffi.def_extern(error=False, onerror=_missed)  # type: ignore[untyped-decorator, unused-ignore]
def tblock_py_go_on(user: Any, done: float) -> bool:
    return bool(ffi.from_handle(user)(done))


@ffi.def_extern(error=False, onerror=_missed)  # type: ignore[untyped-decorator, unused-ignore]
def tblock_py_train(user: Any, p: Any) -> bool:
    return bool(ffi.from_handle(user)(record(p[0])))


@ffi.def_extern(onerror=_missed)  # type: ignore[untyped-decorator, unused-ignore]
def tblock_py_observe(user: Any, name: Any, first: int, n: int, x: Any, stride: int) -> None:
    ffi.from_handle(user)(text_of(name), first, n, x, stride)


@ffi.def_extern(onerror=_missed)  # type: ignore[untyped-decorator, unused-ignore]
def tblock_py_token(user: Any, index: int, token: int, logits: Any) -> None:
    ffi.from_handle(user)(index, token, logits)


@ffi.def_extern(error=False, onerror=_missed)  # type: ignore[untyped-decorator, unused-ignore]
def tblock_py_put(user: Any, data: Any, n: int) -> bool:
    return bool(ffi.from_handle(user)(bytes(ffi.buffer(data, n))))


def call(function: str, *given: Any, options: Optional[Options] = None, callback: Optional[Callback] = None,
         no: bool = False) -> Any:
    """Call a function whose last argument is an error; raise that, or what a callback raised. no: TBLOCK_NO is an answer.
    The interpreter's lock is free meanwhile."""
    err = new_error()
    result = getattr(lib, function)(*given, err)
    callback = callback or (options.callback if options is not None else None)
    if callback is not None and callback.raised is not None:
        raise callback.raised
    failed = result == ffi.NULL if isinstance(result, ffi.CData) else result is False
    if failed and not (no and err.status == CheckError.status):
        raise_error(err)
    return result
