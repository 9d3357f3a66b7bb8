#!/usr/bin/env python3
"""Every part that a config can ask for, in a server: under load, with shared beginnings and where texts give way, each draws the ids
of `tblock run` alone. The models are those of tests/golden/shapes.py. Prints "ok NAME" or "FAIL NAME: why"."""
import concurrent.futures
import pathlib
import random
import sys
import tempfile

from server import ROOT, Server, run
from verdicts import attempt

sys.path.insert(0, str(ROOT / "tests/golden"))
import shapes  # noqa: E402

SAMPLED = 24


def prompts(config):
    """Beginnings of one text around the ends of tiles, windows and chunks, each with an end of its own."""
    choose, vocab = random.Random(5), config["vocab_size"]
    text = [choose.randrange(vocab) for _ in range(150)]
    return [text[:cut] + [choose.randrange(vocab) for _ in range(choose.randrange(1, 20))]
            for cut in (5, 30, 64, 64, 65, 72, 73, 128, 130, 144, 150, 5)]


def same_as_alone(name, folder):
    config, path = shapes.config_of(name), str(pathlib.Path(folder, name + ".bin"))
    shapes.write_model(path, config, shapes.make(name))
    asked = prompts(config)
    expected = [run("-n", str(SAMPLED), "--temp", "0.9", "--top-k", "0", "--top-p", "1", "--seed", str(i), prompt=p, model=path)["ids"] for i, p in enumerate(asked)]
    with Server("--parallel", "4", "--kv-memory", "1", model=path) as s:
        def ask(i):
            return s.post("/v1/completions", prompt=asked[i], max_tokens=SAMPLED, temperature=0.9, seed=i,
                          return_token_ids=True)["choices"][0]["token_ids"]
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            found = list(pool.map(ask, range(len(asked))))
    for i, ids in enumerate(found):
        assert ids == expected[i], (len(asked[i]), ids, expected[i])


failed = False
with tempfile.TemporaryDirectory() as temp:
    for shape in shapes.SHAPES:
        failed |= attempt(shape, same_as_alone, shape, temp)
sys.exit(failed)
