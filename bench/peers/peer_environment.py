"""The throw-away environment of bench/peers: a Python venv with gguf, torch, transformers, openvino and llama-cpp-python built here."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

PLAIN = ["numpy", "gguf", "torch", "transformers", "openvino", "openvino-genai", "optimum-intel", "nncf"]
# What a build for this machine says by itself; another instruction set is named.
LLAMA_FLAGS = {
    "native": "-DGGML_NATIVE=ON",
    "avx2": "-DGGML_NATIVE=OFF -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON",
}


def say(text):
    print("peers: " + text, file=sys.stderr, flush=True)


def cpu_flags():
    try:
        return set(re.search(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M).group(1).split())
    except (OSError, AttributeError):
        return set()


def version_of(compiler):
    done = subprocess.run([compiler, "--version"], capture_output=True, text=True)
    return done.stdout.splitlines()[0]


def compilers(wanted):
    """(C, C++, why). gcc before 13 drops the stores of an AMX tile configuration, so ggml's first tile faults."""
    if wanted:
        return wanted, {"gcc": "g++", "clang": "clang++"}.get(wanted, wanted.replace("gcc", "g++").replace("clang", "clang++")), "asked for"
    gcc = shutil.which("gcc")
    major = int(subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]) if gcc else 0
    if "amx_tile" in cpu_flags() and major < 13:
        if shutil.which("clang++"):
            return "clang", "clang++", "gcc %d miscompiles ggml's AMX tiles" % major
        say("gcc %d miscompiles ggml's AMX tiles and there is no clang: llama.cpp may fault" % major)
    if gcc:
        return "gcc", "g++", "the system's"
    return "clang", "clang++", "there is no gcc"


def run(command, log, env=None):
    with open(log, "w") as f:
        return subprocess.run(command, stdout=f, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}).returncode == 0


def pip(python, log, *arguments, env=None):
    command = ["nice", "-n", "19", str(python), "-m", "pip", "install", "--no-cache-dir", "--no-input", "--retries", "2", *arguments]
    if run(command, log, env):
        return
    text = log.read_text(errors="replace")
    offline = re.search(r"NewConnectionError|Temporary failure in name resolution|Could not find a version|Max retries", text)
    why = "PyPI cannot be reached (a mirror can be named in PIP_INDEX_URL)" if offline else "its last line: " + text.strip().splitlines()[-1]
    say("pip install %s failed: %s; %s" % (arguments[-1], why, log))
    raise SystemExit(4)


def stamp_matches(stamp, wanted):
    return stamp.is_file() and stamp.read_text() == wanted


def make_venv(folder):
    python = folder / "bin" / "python"
    if not python.exists():
        say("making %s" % folder)
        if not run([sys.executable, "-m", "venv", "--clear", str(folder)], folder.parent / "venv.log"):
            say("python3 cannot make a virtual environment (python3-venv?): %s" % (folder.parent / "venv.log"))
            raise SystemExit(4)
    return python


def build_llama(folder, python, isa, compiler, jobs):
    """llama-cpp-python from its PyPI source. What it was built with is kept beside it."""
    c, cxx, why = compilers(compiler)
    built = {"compiler": version_of(c), "why": why, "flags": LLAMA_FLAGS[isa]}
    stamp, wanted = folder / "llama.json", json.dumps(built)
    if not stamp_matches(stamp, wanted):
        say("building llama-cpp-python: %s, %s (%s); this takes minutes: %s" % (c, LLAMA_FLAGS[isa], why, folder / "llama.log"))
        pip(python, folder / "llama.log", "--verbose", "--force-reinstall", "--no-binary", "llama-cpp-python", "llama-cpp-python",
            env={"CC": c, "CXX": cxx, "CMAKE_ARGS": LLAMA_FLAGS[isa] + " -DCMAKE_BUILD_TYPE=Release", "CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)})
        stamp.write_text(wanted)
    log = (folder / "llama.log").read_text(errors="replace") if (folder / "llama.log").exists() else ""
    options = re.search(r"(-O3 [^\n]*?) -MD [^\n]*ggml-cpu\.c\.o", log)
    built["options"] = " ".join(o for o in options.group(1).split() if o.startswith(("-O", "-m", "-f"))) if options else ""
    return built


def found(python):
    """The same as prepare, of an environment that is somebody else's."""
    return python, {"compiler": "found in %s" % python, "flags": "unknown flags", "options": "", "why": "--python"}


def prepare(folder, isa, compiler, jobs, torch_index):
    """Returns (python, what llama.cpp was built with); installs what is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    python = make_venv(folder / "venv")
    stamp = folder / "venv" / "plain.txt"
    if not stamp_matches(stamp, " ".join(PLAIN)):
        say("installing %s (torch brings gigabytes)" % ", ".join(PLAIN))
        if torch_index:
            pip(python, folder / "torch.log", "--index-url", torch_index, "torch")
        pip(python, folder / "plain.log", *PLAIN)
        stamp.write_text(" ".join(PLAIN))
    if isa == "native":
        return python, build_llama(folder / "venv", python, isa, compiler, jobs)
    other = make_venv(folder / ("venv-" + isa))
    return python, {**build_llama(folder / ("venv-" + isa), other, isa, compiler, jobs), "python": str(other)}
