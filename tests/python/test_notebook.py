#!/usr/bin/env python3
"""docs/examples/notebook/inside.ipynb: its cells run one after the other, what they show can be shown, and what they find is right.
Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import ast
import json
import os

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


def it_is_stored_without_outputs():
    cells = _cells()
    assert len({c["id"] for c in cells}) == len(cells) > 10
    for cell in cells:
        assert cell["cell_type"] in ("code", "markdown") and isinstance(cell["source"], list)
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None


def its_cells_run_and_find_what_is_right():
    names, shown, here = {"__name__": "__main__"}, [], os.getcwd()
    os.chdir(FOLDER)
    try:
        for cell in _cells():
            if cell["cell_type"] == "code":
                shown.append(_run("".join(cell["source"]), names))
    finally:
        os.chdir(here)
    pages = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert len(pages) >= 8 and all("<table" in p or "<iframe" in p for p in pages) and all(repr(s) for s in shown)
    maps, n = names["maps"], len(names["ids"])
    assert maps.shape == (6, 6, n, n) and np.allclose(maps.sum(-1), 1, atol=1e-5) and not np.triu(maps, 1).any()
    assert names["difference"] < 1e-4, names["difference"]
    assert (names["rank"][-1] == 0).all() and names["rank"][0].mean() > names["rank"][-2].mean()
    assert names["promised"] < 0 and abs(names["found"] / names["promised"] - 1) < 0.02, (names["promised"], names["found"])
    assert set(names["grad"]) == set(names["weights"])


if __name__ == "__main__":
    run_claims(globals())
