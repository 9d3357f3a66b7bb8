#!/usr/bin/env bash
# Make an environment with PyTorch and transformers in BUILD/references/venv (gigabytes from PyPI; remove it as you like), compute the
# answers anew and compare: evaluations (record.py), logits of every fixture (live_logits.py), also with changed configs
# (live_changed.py), of models made here (live_text_parts.py) and with adapters trained here (live_lora.py), folders that
# tools/export.py wrote (exporting*.py), templates (record_jinja.py, live_chat.py), constraints
# (live_schemas.py, live_masks.py, live_drawn.py).
#   tests/references/live.sh          TORCH_INDEX: an index to take torch from, such as https://download.pytorch.org/whl/cpu (smaller)
#                                     TORCH_PYTHON: a Python that has all of it already; then nothing is installed
set -u
cd "$(dirname "$0")/../.." || exit 4
export BUILD=${BUILD:-build/release} TBLOCK=${TBLOCK:-$PWD/${BUILD:-build/release}/tblock}
export PYTHONDONTWRITEBYTECODE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 TQDM_DISABLE=1
out=$BUILD/references
wanted="torch transformers peft jinja2 llguidance jsonschema sentencepiece safetensors numpy"
mkdir -p "$out"
[ -d "${TBLOCK_TEST_DATA:-}/fixtures" ] || { echo "skip references: no data (TBLOCK_TEST_DATA)"; exit 0; }

python=${TORCH_PYTHON:-$out/venv/bin/python}
if [ -z "${TORCH_PYTHON:-}" ] && [ "$(cat "$out/venv/installed" 2> /dev/null)" != "$wanted" ]; then
    echo "references: installing $wanted into $out/venv: minutes; $out/pip.log" >&2
    pip() { nice -n 19 "$python" -m pip install --no-cache-dir --no-input --disable-pip-version-check --retries 2 "$@" >> "$out/pip.log" 2>&1; }
    : > "$out/pip.log"
    if ! python3 -m venv --clear "$out/venv" || { [ -n "${TORCH_INDEX:-}" ] && ! pip --index-url "$TORCH_INDEX" torch; } || ! pip $wanted; then
        echo "references: pip could not install them (is there a network, or a mirror in pip's configuration?):" >&2
        tail -n 3 "$out/pip.log" >&2
        exit 4
    fi
    echo "$wanted" > "$out/venv/installed"
fi

status=0
nice -n 10 "$python" tests/references/record.py --print > "$out/live.json" || exit 4
"$python" tests/references/eval_answers.py "$out/live.json" || status=1
nice -n 10 "$python" tests/references/live_logits.py || status=1
nice -n 10 "$python" tests/references/live_changed.py || status=1
nice -n 10 "$python" tests/references/live_text_parts.py || status=1
nice -n 10 "$python" -W ignore tests/references/live_lora.py || status=1
nice -n 10 "$python" tests/train/exporting.py --live || status=1
nice -n 10 "$python" tests/train/exporting_families.py --live || status=1
nice -n 10 "$python" tests/train/exporting_tokenizers.py --live || status=1
nice -n 10 "$python" -W ignore tests/references/record_jinja.py --random 3000 || status=1
nice -n 10 "$python" tests/references/record_jinja.py --templates "$TBLOCK_TEST_DATA/data/chat/jinja" || status=1
nice -n 10 "$python" tests/references/live_chat.py || status=1
"$python" tests/references/live_schemas.py || status=1
"$python" tests/references/live_masks.py || status=1
"$python" tests/references/live_drawn.py || status=1
exit $status
