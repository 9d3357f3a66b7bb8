"""pytest fixtures: `tblock_model`, and `golden`, which records logits once and compares them afterwards (docs/regression-tests.md).

    def test_answers(tblock_model, golden):
        golden.check(tblock_model, ["Once upon a time", "To be"], "two prompts")

`pytest --golden-record` records. The files lie in the folder `golden` beside the test file, or in that of `golden_dir` in pytest's
settings; they are those of `tblock logits`, and `tblock verify` reads them too."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Iterator, Optional, Sequence

import numpy as np
import pytest

from . import Context, Error, Model, Record, load_arrays
from .model import Prompt
from .options import takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ContextOptions


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tblock")
    group.addoption("--tblock-model", metavar="PATH", help="the model of the fixture tblock_model")
    group.addoption("--golden-record", action="store_true", help="record golden logits in place of comparing with them")
    parser.addini("tblock_model", "the model of the fixture tblock_model; a path beside the settings")
    parser.addini("golden_dir", "where golden logits lie; default: the folder `golden` beside the test file")


def _path(config: pytest.Config, value: str) -> str:
    return os.path.join(str(config.rootpath), value)


@pytest.fixture(scope="session")
def tblock_model(request: pytest.FixtureRequest) -> Iterator[Model]:
    """The model of --tblock-model, or of tblock_model in pytest's settings."""
    config = request.config
    option, setting = config.getoption("--tblock-model"), config.getini("tblock_model")
    if not option and not setting:
        pytest.fail("tblock_model: expected --tblock-model PATH, or tblock_model in pytest's settings, found neither", pytrace=False)
    # a path of the command line is one of where that was typed
    with Model(os.path.join(str(config.invocation_params.dir), option) if option else _path(config, setting)) as model:
        yield model


def _explain(prompt: Prompt, report: Record, row: Record) -> str:
    """What diverged: prompt, position, place in the model, settings."""
    lines = ["prompt %r: %s" % (prompt, row.why)]
    if row.first_diff >= 0:
        lines.append("position: %d of %d tokens" % (row.first_diff, row.n_tokens))
    if row.parted:
        lines.append("first place that differs: %s%s" % (row.parted, ", position %d, by %g" % (row.parted_pos, row.parted_abs)
                                                         if row.parted_pos >= 0 else ""))
    if report.settings:
        lines.append("settings that differ: %s" % report.settings)
    elif report.recorded and not report.cause:
        lines.append("settings: all that change bits are the same")
    if report.advice:
        lines.append(report.advice)
    return "\n  ".join(lines)


class Golden:
    """See check."""

    def __init__(self, folder: str, record: bool) -> None:
        self.folder, self.record = folder, record

    @takes_options
    def check(self, model: Model, prompts: Sequence[Prompt], name: str, *, tol: Optional[float] = None, hidden: bool = True,
              **context: Unpack[ContextOptions]) -> None:
        """Compare the logits after every token of prompts (texts or ids) with those recorded under name: their bits, or with tol
        the largest difference. hidden: record the residual stream too, so that a failure names the layer; it takes d_model numbers
        for each token and place. context: options of Context. Fails the test with all that diverged; with --golden-record, records."""
        if isinstance(prompts, (str, bytes)) or not len(prompts):
            raise ValueError("prompts: expected a list of at least one, found %r" % (prompts,))
        with model.context(**context) as c:
            wrong = [text for i, prompt in enumerate(prompts) for text in self._one(c, prompt, self._file(name, i), tol, hidden)]
        if wrong:
            pytest.fail("golden %r:\n%s" % (name, "\n".join(wrong)), pytrace=False)

    def _file(self, name: str, i: int) -> str:
        return os.path.join(self.folder, "%s-%d.safetensors" % (re.sub(r"[^\w.-]+", "-", name), i))

    def _one(self, c: Context, prompt: Prompt, path: str, tol: Optional[float], hidden: bool) -> Iterator[str]:
        ids = c.model.prompt(prompt)
        if self.record:
            os.makedirs(self.folder, exist_ok=True)
            c.write_logits(path, ids, hidden=hidden)
            return
        if not os.path.exists(path):
            yield "prompt %r: %s is not there; pytest --golden-record records it" % (prompt, path)
            return
        try:
            recorded = load_arrays(path)["tokens"]
            if not np.array_equal(recorded, ids):
                yield "prompt %r: its tokens are %s, but %s has %s" % (prompt, _short(ids), path, _short(recorded))
                return
            report = c.verify(path, exact=tol is None, tol=tol)
        except (Error, KeyError) as e:
            yield "prompt %r: %s" % (prompt, e)
            return
        for row in report.rows:
            if not row.ok:
                yield _explain(prompt, report, row)


def _short(ids: Any) -> str:
    return "[%s%s]" % (", ".join(str(i) for i in ids[:8]), ", ..." if len(ids) > 8 else "")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Golden logits of this test file."""
    config = request.config
    folder = config.getini("golden_dir")
    return Golden(_path(config, folder) if folder else os.path.join(os.path.dirname(str(request.path)), "golden"),
                  bool(config.getoption("--golden-record")))
