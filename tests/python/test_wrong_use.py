#!/usr/bin/env python3
"""Wrong use of the Python package: wrong types, shapes and sizes for every parameter of every public function, things that are closed,
iterators left half-read, many threads, forks. Each raises a clear exception or works; none ends the interpreter, and memory stays
where it was. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import asyncio
import functools
import gc
import inspect
import math
import os
import resource
import subprocess
import sys
import threading
import time

from package import MODEL, PACKAGE, TEXT, raises, run_claims, tblock, temp
import numpy as np
from tblock._c import ffi

CLEAR = tblock.Error, TypeError, ValueError, KeyError  # with words of ours or of Python's own argument checks
def _no(*_):
    return False


WRONG = [None, True, -1, 0, 1 << 31, 1 << 63, 1 << 70, -(1 << 70), 1.5, math.nan, math.inf, "", "x\0y", "\udc80", "~none~", b"\xff", [], [None],
         [[1]], [1.5], [1 << 40], [-1], {}, {"a": []}, object(), _no, np.zeros((2, 2)), np.zeros(3, complex), np.zeros(0, np.int32),
         np.array(5), np.array(["a"]), {1: 2}, ({},), [{}], [{"role": 5}], range(3), iter([1, 2]), ...]
# What fills a parameter that is not under test.
GOOD = {"path": "good.bin", "source": MODEL, "target": "good.bin", "model": MODEL, "tokens": "tokens", "type": "q8", "prompt": [5, 6], "ids": [5, 6],
        "text": "a", "texts": ["a"], "messages": [{"role": "user", "content": "x"}], "conversation": [{"role": "user", "content": "x"}],
        "names": ["embed"], "golden": "golden", "arrays": {"x": np.ones(2)}, "config": {}, "weights": {}, "seq": 0, "length": 0, "target_seq": 0,
        "generations": [], "layer": 0, "head": 0, "regex": "a", "token_ids": [5], "sequences": [[5]], "ids_": [5], "errors": "replace", "scale": 1.0}
OPTIONS = {"info": "report", "info_text": "report", "block": "block", "convert": "convert", "quantize": "quantize", "synth": "synth",
           "train": "train", "grad": "grad", "grad_check": "grad_check", "measure": "measure", "eval_text": "eval", "eval_against": "eval",
           "eval_choices": "choices", "verify": "verify", "write_logits": "logits", "attention": "attention"}
SLOW = {"steps", "vocab", "read_bytes", "batch", "length", "stack", "samples", "n_tokens", "check", "d_model", "d_ff"}  # right numbers take long


def _parameters(name, function):
    """Names of what it takes, and what stands for those that are required."""
    taken = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "_pool")]
    names = [p.name for p in taken if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    needed = {p.name: GOOD.get(p.name, 0) for p in taken if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    if name in OPTIONS:
        fields = dict(ffi.typeof("tblock_%s_options" % OPTIONS[name]).fields)
        names += [f for f in fields if f not in ("user", "go_on") and f not in names and not (f[:2] == "n_" and f[2:] in fields)]
    return names, needed


def _try(name, function, stop, report):
    names, needed = _parameters(name, function)
    n = 0
    for parameter in names:
        for wrong in WRONG:
            if (parameter in SLOW or name == "grad_check") and name in OPTIONS and isinstance(wrong, (int, np.ndarray, type(None))):
                continue
            began = time.monotonic()
            given = {**needed, **stop(name, names), parameter: wrong}
            try:
                result = function(**given)
                if isinstance(result, tblock.Generation):
                    result.close()
            except CLEAR as e:
                if not str(e):
                    report("%s(%s=%.60r): %s without a message" % (name, parameter, wrong, type(e).__name__))
            except BaseException as e:
                report("%s(%s=%.60r): %s: %.100s" % (name, parameter, wrong, type(e).__name__, e))
            n += 1
            if os.environ.get("SLOWER") and time.monotonic() - began > 0.3:
                print("SLOW %.2f %s %s=%.50r" % (time.monotonic() - began, name, parameter, wrong), flush=True)
    return n


def _stop(name, names):
    """What is started after all ends at its first step."""
    if name == "generate":
        return {"max_tokens": 2}
    return {"progress": lambda done: False} if "progress" in names else {}


def _wrong_everywhere():
    os.chdir(temp(""))
    found = []
    tblock.save_arrays("tokens", {"tokens": np.arange(8, dtype=np.int32).reshape(2, 4)})
    for name in ("info", "info_text", "block", "convert", "quantize", "synth", "train", "grad", "grad_check", "load_arrays", "save_arrays",
                 "write_model", "Model"):
        _try(name, getattr(tblock, name), _stop, found.append)
    count = 0
    with tblock.Model(MODEL) as m, m.context(n_seqs=2) as c:
        c.write_logits("golden", [5, 6])
        attention, chat, constraint = c.attention([5, 6]), m.chat(format="chatml"), m.constraint(regex="a+")
        GOOD["parent"] = m.context()
        answer = chat.answer([{"role": "user", "content": "x"}], max_tokens=2)
        for thing in (m, c, chat, constraint, m.tokenizer, attention, m.weights, tblock.load_arrays("golden"), answer, m.generate("a", max_tokens=2)):
            kind = type(thing)
            for name, _ in inspect.getmembers(kind, inspect.isfunction):
                if name[0] != "_" and name not in ("close", "run", "values", "items", "keys") or name in ("__getitem__", "__call__"):
                    count += _try(name, getattr(thing, name), _stop, found.append)
        for kind in (tblock.Chat, tblock.Constraint, tblock.Context):
            count += _try(kind.__name__, functools.partial(kind, m), _stop, found.append)
        for kind in (tblock.Chat, tblock.Constraint, tblock.Tokenizer, tblock.Weights, tblock.Context):
            for wrong in WRONG:
                try:
                    kind(wrong)
                    found.append("%s(%r) works" % (kind.__name__, wrong))
                except CLEAR:
                    pass
                except BaseException as e:
                    found.append("%s(%.60r): %s: %s" % (kind.__name__, wrong, type(e).__name__, e))
        assert str(m.generate("a", max_tokens=2)) and c.logits([5]).shape == (1, m.vocab_size)
    print("%d calls, %d wrong" % (count, len(found)))
    for line in found:
        print(line)


def every_wrong_argument_is_a_clear_error():
    """In a process of its own: an abort would end it."""
    code = "import sys; sys.path[:0] = [%r, %r]; sys.argv[1:] = []; import test_wrong_use as t; t._wrong_everywhere()"
    done = subprocess.run([sys.executable, "-c", code % (os.path.dirname(os.path.abspath(__file__)), PACKAGE)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    assert done.returncode == 0, (done.returncode, done.stdout[-300:], done.stderr[-800:])
    first, *found = done.stdout.strip().split("\n")
    print(first)
    assert not found and int(first.split()[0]) > 2000, "\n".join(found)[:3000]


def complex_numbers_are_refused_wherever_a_number_goes():
    """numpy would leave the imaginary part out with a warning, which nobody reads."""
    with tblock.Model(MODEL) as m, m.context() as c:
        raises(tblock.UsageError, "stop_ids: expected a real number, found ", m.generate, "a", stop_ids=np.zeros(2, complex))
        raises(tblock.UsageError, "stop_ids: expected a real number, found ", m.generate, "a", stop_ids=[np.complex64(5)])
        raises(tblock.UsageError, "max_tokens: expected a real number, found ", m.generate, "a", max_tokens=np.complex128(3))
        raises(tblock.UsageError, "temperature: expected a real number, found ", m.generate, "a", temperature=np.array(1j))
        raises(tblock.UsageError, "layers: expected a real number, found ", c.attention, [5, 6], layers=np.zeros(1, complex))


def iterators_may_be_left_half_read():
    with tblock.Model(MODEL) as m:
        for _ in range(20):
            for piece in m.generate(TEXT, max_tokens=50):
                break
            next(iter(m.generate(TEXT, max_tokens=50).tokens()))
            with m.chat(format="chatml") as chat:
                next(iter(chat.answer([{"role": "user", "content": "x"}], max_tokens=9)), None)

        async def leave():
            async for _ in m.generate(TEXT, max_tokens=50):
                break
        for _ in range(5):
            asyncio.run(leave())
        gc.collect()
        with m.context(n_seqs=1) as c:
            g = c.generate(TEXT, max_tokens=50)
            next(g)
            raises(tblock.UsageError, "", c.generate, TEXT)  # its only sequence is taken
            del g
            assert str(c.generate(TEXT, max_tokens=3))
        assert str(m.generate(TEXT, max_tokens=3))


def a_hundred_threads_get_their_answers():
    with tblock.Model(MODEL) as m, m.context() as shared:
        expected, wrong, busy = str(m.generate(TEXT, max_tokens=4, seed=1)), [], []

        def work(i):
            try:
                if i % 2:
                    if str(m.generate(TEXT, max_tokens=4, seed=1)) != expected:
                        wrong.append(i)
                else:
                    shared.logits([5, 6, 7])
            except tblock.BusyError:
                busy.append(i)
            except BaseException as e:
                wrong.append((i, e))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not wrong and all(i % 2 == 0 for i in busy), wrong[:3]


def closing_while_another_thread_computes_is_refused():
    m = tblock.Model(MODEL)
    c = m.context(threads=1)
    ids, raised, done = np.resize(m.tokenize(TEXT), 250), [], threading.Event()

    def work():
        for _ in range(20):
            try:
                c.logits(ids)
            except tblock.Error as e:
                raised.append(e)
        done.set()
    t = threading.Thread(target=work)
    t.start()
    refused = 0
    while not done.is_set():
        try:
            m.close()
            break
        except tblock.BusyError:
            refused += 1
    t.join()
    assert all(isinstance(e, (tblock.ClosedError, tblock.BusyError)) for e in raised), raised
    m.close()
    raises(tblock.ClosedError, "closed", c.logits, ids)


def forks_leave_an_open_model_usable():
    with tblock.Model(MODEL) as m, m.context() as c:
        text, g = str(m.generate(TEXT, max_tokens=5)), c.generate(TEXT, max_tokens=20)
        next(g)
        children = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    raises(tblock.BusyError, "fork", lambda: list(g))
                    good = str(m.generate(TEXT, max_tokens=5)) == text and str(tblock.Model(MODEL).generate(TEXT, max_tokens=5)) == text
                    m.close()
                    status = 0 if good else 2
                finally:
                    os._exit(status)
            children.append(child)
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 5
        assert "".join(g) is not None and g.end


def memory_stays_over_a_thousand_models():
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * resource.getpagesize()

    def once():
        with tblock.Model(MODEL) as m:
            str(m.generate("a", max_tokens=1, temperature=0))
            m.tokenizer.encode("To be")
    for _ in range(50):
        once()
    gc.collect()
    before = resident()
    for _ in range(1000):
        once()
    gc.collect()
    grown = resident() - before
    print("%d bytes more after 1,000 models" % grown)
    assert grown < 4 << 20, grown  # four kilobytes a model


if __name__ == "__main__":
    run_claims(globals())
