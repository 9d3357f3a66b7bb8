"""regression_test.sh as a test of pytest: are the model's logits still those that were recorded?

    pip install 'tblock[pytest]'
    pytest --tblock-model model.bin --golden-record     # once, or to record anew
    pytest --tblock-model model.bin

The recorded files lie in the folder `golden` beside this file, one for each line of prompts.txt."""
import pathlib

import pytest
import tblock

PROMPTS = pathlib.Path(__file__).with_name("prompts.txt").read_text().splitlines()


def test_the_same_bits(tblock_model, golden):
    golden.check(tblock_model, PROMPTS, "answers")


def test_the_same_bits_on_one_thread(tblock_model, golden):
    golden.check(tblock_model, PROMPTS, "answers", threads=1, isa="scalar")


def test_q8_is_near(tblock_model, golden):
    """Smaller weights are another model: hold how far they may be off, not whether they differ."""
    if golden.record:
        pytest.skip("the first test records")
    with tblock.Model(tblock_model.path, type="q8") as q8:
        golden.check(q8, PROMPTS, "answers", tol=0.5)
