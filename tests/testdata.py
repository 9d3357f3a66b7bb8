"""Where recorded data lies. FIXTURES: those of the folder that $TBLOCK_TEST_DATA names, else our
own in tests/data. MORE: what else that folder has (tests/data/README.md); without it, a folder that
does not exist. The line on stderr lets tests/run.sh list who looked for the data in vain."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEST_DATA = ROOT / (os.environ.get("TBLOCK_TEST_DATA") or "/nonexistent")
OURS = ROOT / "tests" / "data"
FIXTURES = TEST_DATA / "fixtures"
MORE = TEST_DATA / "data"
if not FIXTURES.is_dir():
    FIXTURES = OURS
    print("without test data", file=sys.stderr)
