#!/usr/bin/env python3
"""The pages and plots that the program makes, in a browser (chromium or google-chrome); without one,
all is skipped.

    test_pages.py [--only TEXT]"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import browser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "attn"))
from test_attn import ROOT, TBLOCK, Page, attn, converted, listed  # noqa: E402
from verdicts import Skip, attempt, need, option_only  # noqa: E402

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


# What does not fit: a document wider than its window, and text of an SVG outside of it or too small to read.
FITS = """(() => {
  const bad = [], wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) bad.push('the page is ' + wide + ' wide');
  for (const text of document.querySelectorAll('svg text')) {
    const r = text.getBoundingClientRect(), box = text.closest('svg').getBoundingClientRect();
    if (r.left < box.left - 0.5 || r.right > box.right + 0.5 || r.top < box.top - 0.5 || r.bottom > box.bottom + 0.5)
      bad.push('outside: ' + text.textContent);
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    if (size < 7.5) bad.push(size.toFixed(1) + ' pixels: ' + text.textContent);
  }
  return bad.slice(0, 9).join('; ');
})()"""


def run_program(*arguments):
    p = subprocess.run([TBLOCK, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if b"OpenBLAS" in p.stderr and p.returncode:
        raise Skip("no OpenBLAS")
    need(p.returncode == 0, f"{arguments}: {p.stderr.decode(errors='replace')}")


def nothing_is_clipped(window, make, kind, folder):
    """Neither in a narrow nor in a wide window, in no colour scheme."""
    path = folder / f"page.{kind}"
    make(path)
    for width in (375, 1280):
        for dark in (False, True):
            errors = window.open(path.as_uri(), width, dark=dark)
            need(not errors, errors)
            bad = window.run(FITS)
            need(not bad, f"{width} wide: {bad}")


def pages(folder):
    """(name, how to make it, what it is) of each page and plot."""
    models, data = ROOT / "models", ROOT / "tests" / "data" / "models"
    shipped = models / "shakespeare.bin"
    for path in (models / "llama-3-8b.json", models / "llama-2-70b.json", models / "mistral-7b.json",
                 data / "gpt2", data / "qwen2-moe", data / "gemma3", shipped):
        options = ["--tensors", "--check"] if path == shipped else []
        yield f"info_{path.stem}", (lambda out, path=path, options=options:
                                    run_program("info", path, *options, "--html", out)), "html"
    for n in (1, 20, 900):
        yield f"attn_{n}", (lambda out, n=n: attn(
            converted("llama-gqa", folder)[0], "--ids", listed([1 + i % 300 for i in range(n)]),
            "--ctx", n, "--quiet", "-o", out)), "html"
    yield "bench", lambda out: run_program(
        "bench", shipped, "--prefill", "16,128", "--depth", "0,128", "--decode", "4", "--repeats", "1",
        "--threads", "1,2", "--read-mb", "8", "--quiet", "--svg", out), "svg"
    yield "train", lambda out: run_program(
        "train", folder / "trained.bin", "--text", ROOT / "README.md", "--config", models / "shakespeare.json",
        "--tokenizer", shipped, "--steps", "12", "--ctx", "16", "--batch", "2", "--eval-every", "4",
        "--quiet", "--plot", out), "svg"


def claims(window, folder):
    for name, make, kind in pages(folder):
        yield f"nothing_is_clipped_{name}", lambda case=(window, make, kind, folder): nothing_is_clipped(*case)
    for name, n, block in (("llama-gqa", 12, 1), ("mistral-window64", 200, 1), ("gemma2", 30, 1),
                           ("llama-gqa", 350, 1), ("llama-gqa", 900, 3), ("mistral-window", 1030, 2)):
        yield (f"pointing_shows_tokens_and_number_{name}_{n}", lambda case=(window, name, n, block, folder):
               pointing_shows_tokens_and_number(*case))


def main():
    only, program = option_only(__doc__).parse_args().only, browser.find()
    if not program:
        print("skip pages: no browser (chromium or google-chrome)")
        return False
    with tempfile.TemporaryDirectory() as folder, browser.Browser(program) as window:
        return sum(attempt(*c) for c in claims(window, pathlib.Path(folder)) if only in c[0]) > 0


if __name__ == "__main__":
    sys.exit(main())
