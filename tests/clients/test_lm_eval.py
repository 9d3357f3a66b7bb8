#!/usr/bin/env python3
"""lm-evaluation-harness, unchanged and without a network, scores the model behind tblock serve, and by the class of the Python
package: its log-likelihoods are those of tblock eval --choices as doubles, and its texts those of tblock run. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why"."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from server import MODEL, TBLOCK, Server, run  # noqa: E402
from verdicts import Skip, attempt_all  # noqa: E402

PACKAGE = os.path.join(os.path.dirname(TBLOCK), "python")

QUESTIONS = [
    {"context": "ROMEO:\nI love", "choices": [" thee", " you", " the king", "."], "answer": 0},
    {"context": "To be, or not to", "choices": [" be", " die, to sleep, no more; and by a sleep to say we end the heart-ache"], "answer": 0},
    {"context": "First Citizen:\nBefore we proceed any further,", "choices": [" hear me speak.", " I", "\n\nAll:\nSpeak, speak."], "answer": 0},
    {"context": "KING RICHARD III:\nNow is the winter of our", "choices": [" discontent", " content", " disc", "żółć"], "answer": 0},
]
PROMPTS = [{"prompt": text, "answer": "x"} for text in ("ROMEO:", "JULIET:\nO Romeo, Romeo", "First Citizen:\nBefore we proceed", "A")]
UNTIL = ["\n", "I"]
TASKS = {
    "verse_choices": {"output_type": "multiple_choice", "doc_to_text": "context", "doc_to_choice": "choices", "doc_to_target": "answer",
                      "target_delimiter": "", "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}]},
    "verse_until": {"output_type": "generate_until", "doc_to_text": "prompt", "doc_to_target": "answer", "target_delimiter": "",
                    "generation_kwargs": {"until": UNTIL, "max_gen_toks": 24, "temperature": 0}, "metric_list": [{"metric": "exact_match"}]},
}
DOCUMENTS = {"verse_choices": QUESTIONS, "verse_until": PROMPTS}


def served(server, *options, **arguments):
    return evaluated("lm_eval", "local-completions", *options, model="shakespeare", max_length=256, max_retries=1,
                     base_url="http://%s:%d/v1/completions" % (server.host, server.port), **arguments)


def evaluated(module, kind, *options, **arguments):
    """The samples of both tasks, as lm_eval --log_samples writes them, in the order of the documents; and its results."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for task, how in TASKS.items():
            (folder / (task + ".jsonl")).write_text("".join(json.dumps(d) + "\n" for d in DOCUMENTS[task]))
            data = {"task": task, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / (task + ".jsonl"))}},
                    "test_split": "test"}
            (folder / (task + ".yaml")).write_text(json.dumps({**data, **how}))   # JSON is YAML
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": name, "NO_PROXY": "*", "no_proxy": "*"}
        done = subprocess.run([sys.executable, "-m", module, "--model", kind, "--tasks", ",".join(TASKS), "--include_path", name,
                               "--model_args", ",".join("%s=%s" % pair for pair in arguments.items()), "--log_samples", "--output_path",
                               name + "/out", *options], env={**os.environ, **offline, "PYTHONPATH": PACKAGE}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        samples = {}
        for task in TASKS:
            file, = folder.glob("out/**/samples_%s_*.jsonl" % task)
            samples[task] = sorted(map(json.loads, file.read_text().splitlines()), key=lambda s: s["doc_id"])
        results, = folder.glob("out/**/results_*.json")
        return samples, json.loads(results.read_text())["results"]


def scores_of_eval():
    done = subprocess.run([TBLOCK, "eval", MODEL, "--choices", "-", "--delimiter", "", "--no-bos", "--json", "--each"], text=True,
                          capture_output=True, input="\n".join(map(json.dumps, QUESTIONS)))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def compare(samples, results):
    expected = scores_of_eval()
    assert len(samples["verse_choices"]) == len(QUESTIONS) and len(samples["verse_until"]) == len(PROMPTS)
    for sample, row, question in zip(samples["verse_choices"], expected["each"], QUESTIONS):
        found = [float(answer[0][0]) for answer in sample["resps"]]
        sums = [c["sum"] for c in row["choices"]]
        if sys.version_info < (3, 12):   # from then on sum() of Python rounds in another way
            assert found == sums, (question["context"], found, sums)
        else:
            assert all(abs(a - b) <= 2.0**-45 * abs(b) for a, b in zip(found, sums)), (found, sums)
    assert results["verse_choices"]["acc,none"] == expected["accuracy"], (results, expected)
    for sample, given in zip(samples["verse_until"], PROMPTS):
        stops = [word for text in UNTIL for word in ("--stop", text)]
        expected = run("--predict", "24", "--temp", "0", *stops, prompt=given["prompt"])["text"]
        assert sample["resps"][0][0] == expected, (given, sample["resps"], expected)


def remote_tokenizer_and_token_arrays():
    with Server() as s:
        compare(*served(s, tokenizer_backend="remote"))


def what_it_finds_by_itself_many_at_once():
    """Without tokenizer_backend it asks whether the server has one."""
    with Server("--parallel", "4") as s:
        compare(*served(s, num_concurrent=8))


def the_class_of_the_python_package():
    """Without a server: `python -m tblock.lm_eval` knows the model class tblock."""
    need_package()
    compare(*evaluated("tblock.lm_eval", "tblock", "--batch_size", "3", pretrained=MODEL))


def need_package():
    if not os.path.exists(os.path.join(PACKAGE, "tblock", "lm_eval.py")):
        raise Skip("the Python package is not built")


def batches_of_texts():
    with Server() as s:
        compare(*served(s, "--batch_size", "3", tokenizer_backend="remote", tokenized_requests=False))


sys.exit(attempt_all(remote_tokenizer_and_token_arrays, what_it_finds_by_itself_many_at_once, batches_of_texts,
                     the_class_of_the_python_package))
