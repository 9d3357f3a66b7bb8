#!/usr/bin/env python3
"""The pages and plots that the program makes, in a browser (chromium or google-chrome); without one,
all is skipped.

    test_pages.py [--only TEXT]"""
import pathlib
import sys
import tempfile

import numpy as np

import browser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attn"))
from test_attn import Page, attn, chosen, converted, listed, need, run_claims  # noqa: E402

# Points at cells (row, column): the lines that appear beside the pointer, and the cell's colour.
POINT = """CELLS.map(([q, k]) => {
  const box = $('cells').getBoundingClientRect(), c = $('cells').getContext('2d');
  const x = place.left + (k + 0.5) * place.cell, y = place.top + (q + 0.5) * place.cell;
  const at = {clientX: box.left + x, clientY: box.top + y};
  $('map').dispatchEvent(new PointerEvent('pointermove', at));
  const pixel = c.getImageData(Math.floor(x), Math.floor(y), 1, 1).data;
  return [[...$('tip').querySelectorAll('tr')].map(r => r.textContent), [...pixel].slice(0, 3)];
})"""


def pointing_shows_tokens_and_number(window, name, n, block, folder):
    """Pointing at a cell shows its tokens and its number; its colour grows with the number."""
    model, _ = converted(name, folder)
    path = folder / f"{name}.{n}.html"
    ids = listed([1 + i % 300 for i in range(n)])
    attn(model, "--ids", ids, "--ctx", n, "--quiet", "-o", path)
    page = Page(path)
    need(page.block == block, f"cells of {page.block}")
    step = max(1, page.side // 8)
    cells = [[q, k] for q in range(0, page.side, step) for k in range(0, page.side, step)]
    cells += [[q, q - 1] for q in range(1, page.side, step)]
    errors = window.open(path.as_uri(), 1280)
    need(not errors, errors)
    seen = []
    for (q, k), (rows, pixel) in zip(cells, window.run(POINT.replace("CELLS", str(cells))), strict=True):
        check_cell(page, q, k, rows)
        if not np.isnan(page.heads[0, 0][q, k]):
            seen.append((page.heads[0, 0][q, k], -sum(pixel)))
    seen.sort()
    in_order = all(a[1] <= b[1] for a, b in zip(seen, seen[1:]))
    need(len(seen) > 10 and in_order, f"colours are not in the order of the numbers: {seen}")


def check_cell(page, q, k, rows):
    """Rows are the three lines beside the pointer at a cell of the first head."""
    def span(i):
        first, last = i * page.block, min(page.n, (i + 1) * page.block) - 1
        return f"{first}\u2013{last}" if last > first else str(first)
    where, p = f"{q}, {k}: {rows}", page.heads[0, 0][q, k]
    need(rows[0].startswith(f"query{span(q)} ") and rows[1].startswith(f"key{span(k)} "), where)
    if np.isnan(p):
        outside = f"outside the window of {page.about['windows'][0]}"
        need(rows[2] == "masked" + ("the key comes later" if k > q else outside), where)
    else:
        value = rows[2].removeprefix("largest " if page.block > 1 else "").removeprefix("probability")
        good = p < 1e-4 if value == "under 0.0001" else abs(float(value) - p) <= p * (0.006 if page.exact else 0.06)
        need(good, f"{where}, expected {p}")


def claims(window, folder):
    for name, n, block in (("llama-gqa", 12, 1), ("mistral-window64", 200, 1), ("gemma2", 30, 1),
                           ("llama-gqa", 350, 1), ("llama-gqa", 900, 3), ("mistral-window", 1030, 2)):
        yield (f"pointing_shows_tokens_and_number_{name}_{n}", lambda case=(window, name, n, block, folder):
               pointing_shows_tokens_and_number(*case))


def main():
    only, program = chosen(__doc__), browser.find()
    if not program:
        print("skip pages: no browser (chromium or google-chrome)")
        return False
    with tempfile.TemporaryDirectory() as folder, browser.Browser(program) as window:
        return run_claims(c for c in claims(window, pathlib.Path(folder)) if only in c[0])


if __name__ == "__main__":
    sys.exit(main())
