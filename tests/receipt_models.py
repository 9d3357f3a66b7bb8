"""The models of tests/data/receipts, which are made of what is in the tree."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "tests/data/receipts"


def make_models(tblock, recipes, folder):
    """name: path, of models that `tblock COMMAND SOURCE ...` makes, by index.json."""
    made = {}
    for name, (command, source, *options) in recipes.items():
        made[name] = str(folder / (name + ".bin"))
        subprocess.run([tblock, command, str(ROOT / source), *options, "-o", made[name], "--quiet"], check=True, stdout=subprocess.DEVNULL)
    return made
