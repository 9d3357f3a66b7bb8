#!/usr/bin/env python3
"""Ctrl-C, and a progress function that raises or says stop, end whatever takes long: soon, and without a file that is half written.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import os
import select
import signal
import subprocess
import sys
import time

from package import MODEL, PACKAGE, ROOT, TEXT, raises, run_claims, tblock, temp
import numpy as np

LARGE = temp("large.bin")  # 134 million weights in a file of holes
OUT = temp("out/file.bin")


def _prepare():
    if not os.path.exists(LARGE):
        os.makedirs(os.path.dirname(OUT))
        tblock.synth(os.path.join(ROOT, "models", "smollm2-135m.json"), LARGE, sparse=True)
        tblock.save_arrays(temp("tokens"), {"tokens": (np.arange(4096, dtype=np.int32) % 1024).reshape(64, 64)})
        with tblock.Model(MODEL) as m, m.context() as c:
            c.write_logits(temp("golden"), m.tokenize(TEXT * 10)[:250])


def _all(m, c):
    """What takes long: {name: call with a progress function, or with none}."""
    text = os.path.join(ROOT, "models", "as-you-like-it.txt")
    return {"open": lambda **o: tblock.Model(LARGE, type="q8", **o).close(),
            "open and check": lambda **o: tblock.Model(MODEL, check=True, **o).close(),
            "convert": lambda **o: tblock.convert(LARGE, OUT, type="q4", threads=1, **o),
            "convert as it is": lambda **o: tblock.convert(LARGE, OUT, row_major=True, **o),
            "quantize": lambda **o: tblock.quantize(LARGE, OUT, "q8", threads=1, **o),
            "synth": lambda **o: tblock.synth(os.path.join(ROOT, "models", "smollm2-135m.json"), OUT, type="q8", threads=1, **o),
            "info": lambda **o: tblock.info(LARGE, check=True, **o),
            "block": lambda **o: tblock.block(MODEL, check=2, stack=3, **o),
            "grad": lambda **o: tblock.grad(MODEL, temp("tokens"), OUT, threads=1, adamw_steps=50, **o),
            "grad_check": lambda **o: tblock.grad_check(init=MODEL, threads=1, **o),
            "train": lambda **o: tblock.train(OUT, text=text, vocab=300, steps=100000, batch=2, n_ctx=16, eval_every=-1, **o),
            "write_logits": lambda **o: c.write_logits(OUT, m.tokenize(TEXT * 10)[:250], **o),
            "verify": lambda **o: c.verify(temp("golden"), **o),
            "attention": lambda **o: c.attention(m.tokenize(TEXT * 10)[:250], **o),
            "eval_text": lambda **o: c.eval_text([5, 6, 7] * 5000, stride=1, **o),
            "eval_against": lambda **o: c.eval_against(c.model.context(threads=1), [5, 6, 7] * 5000, stride=1, **o)}


def _left():
    """Files beside the output, but for the checkpoint of a training, which is whole."""
    found = os.listdir(os.path.dirname(OUT))
    for name in found:
        os.unlink(os.path.join(os.path.dirname(OUT), name))
    return [name for name in found if name != "file.bin.ckpt"]


def _whole(name):
    """Does the output lie there, and all of it? An interrupt may come when a call has ended."""
    try:
        return bool(tblock.load_arrays(OUT) if name in ("grad", "write_logits") else tblock.info(OUT, check=True))
    except tblock.Error:
        return False


def what_a_progress_function_raises_is_raised():
    class Mine(Exception):
        pass

    def stop(_):
        raise Mine("enough")
    _prepare()
    with tblock.Model(MODEL) as m, m.context() as c:
        for name, call in _all(m, c).items():
            raises(Mine, "enough", call, progress=stop)
            assert not _left(), name
            assert c.seq_length() >= 0 and str(m.generate("a", max_tokens=1))


def a_progress_function_can_stop():
    _prepare()
    with tblock.Model(MODEL) as m, m.context() as c:
        for name, call in _all(m, c).items():
            calls = []
            if name == "eval_against" or name == "eval_text" or name == "train":
                told = call(progress=lambda done: calls.append(done) or len(calls) < 2)
                assert (told.ours if name == "eval_against" else told).stopped and len(calls) == 2
            else:
                raises(tblock.SystemFailure, "stopped by the caller", call, progress=lambda done: calls.append(done) or False)
                assert len(calls) == 1 and 0 <= calls[0] <= 1, (name, calls)
            assert not _left(), name


def interrupts_end_it():
    """Each in a process of its own. How long the slowest took is printed; on a machine with nothing else to do it is under a second."""
    _prepare()
    code = """if True:
        import os, sys, time
        sys.path[:0] = [%r, %r]
        sys.argv[1:] = []
        import test_stopping as t
        t.LARGE, t.OUT, t.temp = %r, %r, lambda name: os.path.join(%r, name)
        m = t.tblock.Model(t.MODEL)
        c = m.context(threads=1)
        call = t._all(m, c).get(%r, lambda: str(m.generate("ROMEO:", max_tokens=200)))
        try:
            print("ready", flush=True)
            while True:
                call()
                if os.path.exists(t.OUT):   # this call has ended; the next one is made to leave nothing
                    os.remove(t.OUT)
        except KeyboardInterrupt:
            print("interrupted", str(m.generate("a", max_tokens=1)) != "", flush=True)
        """
    slowest = 0.0, ""
    for name in [*_all(None, None), "generate"]:
        p = subprocess.Popen([sys.executable, "-c", code % (os.path.dirname(os.path.abspath(__file__)), PACKAGE, LARGE, OUT, temp(""), name)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert p.stdout.readline() == b"ready\n", p.stderr.read()
        time.sleep(0.3)
        for _ in range(3):   # Python drops an interrupt that comes while a __del__ runs
            began = time.monotonic()
            p.send_signal(signal.SIGINT)
            if select.select([p.stdout], [], [], 15)[0]:
                break
        line = p.stdout.readline()
        took = time.monotonic() - began
        p.communicate(timeout=60)
        assert line == b"interrupted True\n" and p.returncode == 0, (name, line, p.returncode)
        whole = _whole(name)
        left = [n for n in _left() if n != "file.bin" or not whole]
        assert not left, (name, left)
        slowest = max(slowest, (took, name))
    print("slowest: %s, %.2f s" % slowest[::-1])
    assert slowest[0] < 30, slowest   # a busy machine is no failure


if __name__ == "__main__":
    run_claims(globals())
