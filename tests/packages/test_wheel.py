#!/usr/bin/env python3
"""The Python package as users install it: an sdist that builds by itself, a wheel that auditwheel accepts, in a clean virtual
environment of each Python from 3.9 on that is here; type hints; the plug-in of pytest. Prints "ok NAME", "FAIL NAME: why" or
"skip NAME: why"."""
import glob
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from artefacts import DIST, ENV, MODEL, ROOT, make, run, same_logits, x86_sets
from hardened import hardened
from verdicts import Skip, attempt

TEMP = tempfile.mkdtemp(prefix="tblock-wheel-")


def venv(name, python=sys.executable, packages=()):
    """A clean environment; returns its Python."""
    path = os.path.join(TEMP, name)
    inside = os.path.join(path, "bin", "python")
    if not os.path.exists(inside):
        run(python, "-m", "venv", path)
        run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade", "pip")
    if packages:
        run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return inside


def only(pattern):
    found = glob.glob(os.path.join(TEMP, pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


def pythons():
    """Each Python from 3.9 on in PATH, and those that pyenv keeps: {version: path}."""
    found = {}
    for minor in range(9, 20):
        name = "python3.%d" % minor
        for path in [shutil.which(name)] + glob.glob(os.path.expanduser("~/.pyenv/versions/3.%d.*/bin/%s" % (minor, name))):
            if path and subprocess.call([path, "-c", "import venv, ensurepip"], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL) == 0:
                found["3.%d" % minor] = path
    return found


# ---- Making it ----


def an_sdist_builds_by_itself():
    """As pip builds it, in a folder that has nothing else."""
    make("wheel")
    shutil.copy(*glob.glob(os.path.join(DIST, "python", "*.tar.gz")), TEMP)
    run(venv("tools"), "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", TEMP, only("tblock-*.tar.gz"), cwd=TEMP)
    assert re.search(r"tblock-[\d.]+-cp39-abi3-linux_\w+\.whl$", only("tblock-*.whl"))


def auditwheel_accepts_the_wheel():
    os.mkdir(os.path.join(TEMP, "repaired"))
    _accept(shutil.copy(*glob.glob(os.path.join(DIST, "python", "*_%s.whl" % platform.machine())), os.path.join(TEMP, "repaired")))


def _accept(wheel):
    """For systems with glibc 2.28, and with the licences of what is in it."""
    said = " ".join(run(os.path.join(ROOT, ".venv-release", "bin", "python"), "-m", "auditwheel", "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "manylinux_2_(\d+)_', said)
    assert found and int(found.group(1)) <= 28 and "manylinux_2_%s_" % found.group(1) in os.path.basename(wheel), (wheel, said)
    print(os.path.basename(wheel))
    assert os.path.getsize(wheel) < 16 << 20, os.path.getsize(wheel)
    with zipfile.ZipFile(wheel) as z:
        for name in "tblock/tblock-program", "tblock/_c.abi3.so":
            hardened(z.extract(name, os.path.join(TEMP, "extracted")), checks="_x86_64" in os.path.basename(wheel))
        assert {"cjson", "libpcre2-dev", "nettle-dev", "libmicrohttpd"} <= {os.path.basename(n) for n in z.namelist() if "/licences/" in n}


def one_for_aarch64_is_made_here():
    """The bits of its program under qemu, with a C library of that processor. The extension is not loaded, only looked at."""
    if platform.machine() != "x86_64":
        raise Skip("this is another processor")
    make("wheel", "ARCH=aarch64")
    wheel, = glob.glob(os.path.join(DIST, "python", "*_aarch64.whl"))
    _accept(wheel)
    folder = os.path.join(TEMP, "aarch64")
    with zipfile.ZipFile(wheel) as z:
        z.extractall(folder)
    program, extension = (os.path.join(folder, "tblock", name) for name in ("tblock-program", "_c.abi3.so"))
    for path in program, extension:
        said = run("readelf", "-hd", path)
        assert re.search("Machine: +AArch64", said), said
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", said))
        assert needed <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-aarch64.so.1"}, needed
    assert "PyInit__c" in run("readelf", "--dyn-syms", extension)
    os.chmod(program, 0o755)
    place = os.path.join(TEMP, "logits")
    same_logits(lambda *arguments: run("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", program, *arguments), MODEL,
                (place, place), ["scalar", "neon", "auto"], TEMP)


# ---- Using it ----


def it_works_in_every_python():
    found = pythons()
    assert found
    for version, python in found.items():
        inside = venv("python" + version, python, [only("repaired/*.whl"), "safetensors", "ml_dtypes"])
        place = run(inside, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))").strip()
        program = os.path.join(os.path.dirname(inside), "tblock")
        said = "".join(run(inside, test, cwd=TEMP, env={**ENV, "TBLOCK_PACKAGE": place, "TBLOCK": program})
                       for test in sorted(glob.glob(os.path.join(ROOT, "tests", "python", "test_*.py"))))
        assert len(re.findall("^ok ", said, re.M)) >= 30 and "skip" not in said, said
        print("Python %s: %d claims" % (version, len(re.findall("^ok ", said, re.M))))


def the_notebook_runs_in_jupyter():
    inside = venv("jupyter", packages=[only("repaired/*.whl"), "nbclient", "ipykernel"])
    code = """if True:
        import nbformat, nbclient
        notebook = nbformat.read("inside.ipynb", 4)
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
        outputs = [o for c in notebook.cells for o in c.get("outputs", [])]
        assert sum("text/html" in o.get("data", {}) for o in outputs) >= 8 and all(o.output_type != "error" for o in outputs)
        """
    run(inside, "-c", code, cwd=os.path.join(ROOT, "docs", "examples", "notebook"))


def its_bits_are_those_of_every_build():
    """Another compiler made it."""
    inside = venv("python%d.%d" % sys.version_info[:2])
    place = os.path.join(TEMP, "logits")
    same_logits(lambda *arguments: run(inside, "-m", "tblock", *arguments, cwd=TEMP), MODEL, (place, place),
                x86_sets() if platform.machine() == "x86_64" else ["scalar", "auto"], TEMP)


def convert_py_finds_the_installed_program():
    inside = venv("python%d.%d" % sys.version_info[:2])
    copy = os.path.join(TEMP, "scripts")
    os.makedirs(copy, exist_ok=True)
    for name in ("convert.py", "handover.py"):
        shutil.copy(os.path.join(ROOT, "tools", name), copy)
    out = os.path.join(TEMP, "converted.bin")
    run(inside, os.path.join(copy, "convert.py"), MODEL, "-o", out, "--type", "q8", env={**ENV, "PATH": "/usr/bin:/bin"})
    assert os.path.getsize(out) < os.path.getsize(MODEL)


def types_are_checked():
    inside = venv("mypy", packages=["mypy", "numpy", "pytest", "types-cffi"])
    assert "Success" in run(inside, "-m", "mypy", cwd=ROOT)
    _finds_what_is_wrong(inside, "-m", "mypy", "--config-file=", "typed_use.py")
    _finds_what_is_wrong(inside, "-m", "mypy", "--config-file=", "--strict", "typed_use.py")


TYPED = os.path.join(ROOT, "tests", "packages", "typed_use.py")


def _finds_what_is_wrong(*checker):
    """It reports the lines of a user's program that are wrong, and no others."""
    with open(shutil.copy(TYPED, TEMP), encoding="utf-8") as f:
        wrong = {i for i, line in enumerate(f, 1) if line.endswith("# wrong\n")}
    said = run(*checker, cwd=TEMP, env={**ENV, "MYPYPATH": os.path.join(ROOT, "python")}, status=1)
    assert len(wrong) > 15 and {int(n) for n in re.findall(r"typed_use\.py:(\d+)[:\d]* (?:- )?error", said)} == wrong, said


def pyright_finds_what_is_wrong():
    inside = venv("mypy", packages=["pyright", "numpy", "types-cffi"])
    if subprocess.call([inside, "-m", "pyright", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        raise Skip("pyright cannot be fetched from npm")
    config = os.path.join(TEMP, "pyrightconfig.json")
    with open(config, "w", encoding="utf-8") as f:
        json.dump({"include": ["typed_use.py"], "extraPaths": [os.path.join(ROOT, "python")]}, f)
    _finds_what_is_wrong(inside, "-m", "pyright", "-p", config, "--pythonpath", inside)


TEST = """
def test_two(tblock_model, golden):
    golden.check(tblock_model, ["To be, or not", "ROMEO:"], "two prompts"%s)
"""


def pytest_records_and_compares():
    inside = venv("pytest", packages=[only("repaired/*.whl"), "pytest", "pytest-xdist"])
    folder = os.path.join(TEMP, "project")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "pytest.ini"), "w") as f:
        f.write("[pytest]\ntblock_model = %s\n" % MODEL)

    def test(more="", *options, status=0):
        with open(os.path.join(folder, "test_it.py"), "w") as f:
            f.write(TEST % more)
        return run(inside, "-m", "pytest", "-p", "no:cacheprovider", *options, cwd=folder, status=status)

    assert "pytest --golden-record records it" in test(status=1)
    test("", "--golden-record")
    assert sorted(os.listdir(os.path.join(folder, "golden"))) == ["two-prompts-0.safetensors", "two-prompts-1.safetensors"]
    test("", "--junitxml", "out.xml", "-n", "2")
    assert 'tests="1"' in open(os.path.join(folder, "out.xml")).read()
    test(", threads=1, isa='scalar'")
    # another arithmetic: which setting, which position, which place
    wrong = test(", kv_type='q8'", status=1)
    for words in ("prompt 'To be, or not'", "position: ", "layer 0, attention", "KV"):
        assert words in wrong, (words, wrong)
    test(", kv_type='q8', tol=5.0")
    with open(os.path.join(folder, "test_it.py"), "w") as f:
        f.write((TEST % "").replace("ROMEO:", "JULIET:"))
    wrong = run(inside, "-m", "pytest", "-p", "no:cacheprovider", cwd=folder, status=1)
    assert "prompt 'JULIET:': its tokens are" in wrong, wrong
    assert "expected --tblock-model PATH" in run(inside, "-m", "pytest", "-p", "no:cacheprovider", "-o", "tblock_model=", cwd=folder,
                                                 status=1)


def the_example_of_the_guide_names_what_changed():
    """docs/examples/regression with pytest: it passes on the model that it recorded, and names a layer that was changed."""
    inside = venv("pytest")
    folder, cut = os.path.join(TEMP, "regression"), os.path.join(TEMP, "cut.bin")
    shutil.copytree(os.path.join(ROOT, "docs", "examples", "regression"), folder)
    pytest = inside, "-m", "pytest", "-p", "no:cacheprovider", "--tblock-model"
    run(*pytest, MODEL, "--golden-record", cwd=folder)
    assert len(os.listdir(os.path.join(folder, "golden"))) == 3
    assert "3 passed" in run(*pytest, MODEL, cwd=folder)
    run(inside, "-c", """if True:
        import sys, tblock
        model = tblock.Model(sys.argv[1])
        weights = dict(model.weights)
        weights["layers.3.w_down"] *= 1.01
        tblock.write_model(sys.argv[2], model.info().config, weights, type="bf16", tokenizer=model.path)
        """, MODEL, cut)
    wrong = run(*pytest, os.path.relpath(cut, folder), "--junitxml", "out.xml", cwd=folder, status=1)
    for words in ("prompt 'ROMEO:'", "position: 0 of 2 tokens", "first place that differs: layer 3, feed-forward, position 0",
                  "settings that differ: model_sha256"):
        assert words in wrong, (words, wrong)
    assert "1 passed" in wrong and "layer 3, feed-forward" in open(os.path.join(folder, "out.xml")).read()  # q8 may be off that far


if __name__ == "__main__":
    if subprocess.call([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", TEMP, "pycparser"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        def no_registry():
            raise Skip("no PyPI")
        claims = [no_registry]
    else:
        claims = [an_sdist_builds_by_itself, auditwheel_accepts_the_wheel, one_for_aarch64_is_made_here, it_works_in_every_python,
                  its_bits_are_those_of_every_build, the_notebook_runs_in_jupyter, convert_py_finds_the_installed_program,
                  types_are_checked, pyright_finds_what_is_wrong, pytest_records_and_compares, the_example_of_the_guide_names_what_changed]
    status = max([attempt(f.__name__, f) for f in claims])
    shutil.rmtree(TEMP)
    sys.exit(status)
