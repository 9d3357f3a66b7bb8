#!/usr/bin/env python3
"""docs/examples/notebook/inside.ipynb: its cells run one after the other, what they show can be shown, and what they find is right.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import ast
import json
import os
import re
import sys

from package import ROOT, run_claims
import numpy as np

FOLDER = os.path.join(ROOT, "docs", "examples", "notebook")


def _cells():
    with open(os.path.join(FOLDER, "inside.ipynb"), encoding="utf-8") as f:
        notebook = json.load(f)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return notebook["cells"]


def _run(source, names):
    """As Jupyter does: all statements, and the value of the last one if it is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None


def _shown(cells):
    """What each code cell shows, and the names that are there at the end."""
    names, shown, here = {"__name__": "__main__"}, {}, os.getcwd()
    os.chdir(FOLDER)
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                shown[cell["id"]] = _run("".join(cell["source"]), names)
    finally:
        os.chdir(here)
    return shown, names


def _outputs(value, count):
    """As Jupyter stores it, but for dicts that are long as text and have a page too."""
    data = {"text/plain": repr(value)} if len(repr(value)) < 2000 else {}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_()
    data = {kind: text.splitlines(keepends=True) for kind, text in data.items()}
    return [{"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}] if value is not None else []


def _record():
    path = os.path.join(FOLDER, "inside.ipynb")
    with open(path, encoding="utf-8") as f:
        notebook = json.load(f)
    shown, _ = _shown(notebook["cells"])
    for count, cell in enumerate((c for c in notebook["cells"] if c["cell_type"] == "code"), 1):
        cell.update(execution_count=count, outputs=_outputs(shown[cell["id"]], count))
    with open(path, "w", encoding="utf-8") as f:
        json.dump(notebook, f, ensure_ascii=False, indent=1)
        f.write("\n")


def _same(a, b):
    """The same text but for what another BLAS computes in the last digits of a number."""
    number = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
    close = [abs(float(x) - float(y)) <= 0.02 * abs(float(y)) + 1e-4 for x, y in zip(number.findall(a), number.findall(b))]
    return re.sub(" +", " ", number.sub("#", a)) == re.sub(" +", " ", number.sub("#", b)) and all(close)


def it_is_stored_with_its_outputs():
    """Those that its cells have today; --record writes them anew."""
    cells = _cells()
    assert len({c["id"] for c in cells}) == len(cells) > 10
    shown, _ = _shown(cells)
    for cell in cells:
        assert cell["cell_type"] in ("code", "markdown") and isinstance(cell["source"], list)
        if cell["cell_type"] == "code":
            count, wanted = cell["execution_count"], _outputs(shown[cell["id"]], cell["execution_count"])
            assert count and [{**o, "data": None} for o in cell["outputs"]] == [{**o, "data": None} for o in wanted], cell["id"]
            for found, want in zip(cell["outputs"], wanted):
                assert set(found["data"]) == set(want["data"])
                assert all(_same("".join(found["data"][kind]), "".join(text)) for kind, text in want["data"].items()), cell["id"]


def its_lines_fit_beside_a_side_bar():
    long = [line for cell in _cells() for line in cell["source"] if len(line.rstrip("\n")) > 92]
    assert not long, long


def its_cells_run_and_find_what_is_right():
    shown, names = _shown(_cells())
    pages = [value._repr_html_() for value in shown.values() if hasattr(value, "_repr_html_")]
    assert len(pages) >= 8 and all("<table" in p or "<iframe" in p for p in pages) and all(repr(s) for s in shown.values())
    maps, n = names["maps"], len(names["ids"])
    assert maps.shape == (6, 6, n, n) and np.allclose(maps.sum(-1), 1, atol=1e-5) and not np.triu(maps, 1).any()
    assert names["difference"] < 1e-4, names["difference"]
    assert (names["rank"][-1] == 0).all() and names["rank"][0].mean() > names["rank"][-2].mean()
    assert names["promised"] < 0 and abs(names["found"] / names["promised"] - 1) < 0.02, (names["promised"], names["found"])
    assert set(names["grad"]) == set(names["weights"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        sys.exit(_record())
    run_claims(globals())
