#!/usr/bin/env python3
"""A model that processes of mpirun share: the same bytes as one process, errors that one line of rank 0 names, and no
process left when one of them dies, stops or hangs. $BUILD names the folder of the program and the plug-in. Needs Open MPI
(`make test-ranks` installs it). Names as arguments: only these."""
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "serve")]
from tokens_model import model_of  # noqa: E402
from verdicts import attempt_all, need  # noqa: E402

BUILD = (ROOT / os.environ.get("BUILD", "build/release")).resolve()
TBLOCK, PLUGIN = BUILD / "tblock", BUILD / "libtblock-mpi.so"
DATA = ROOT / "tests" / "data"
SHIPPED = ROOT / "models" / "shakespeare.bin"
HOST = socket.gethostname()[:63]
MOST = 120   # seconds a command may take on a busy machine
TEMP = pathlib.Path(tempfile.mkdtemp(prefix="tblock.ranks."))
# a container runs as root, and has fewer processors than there are ranks
ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "self,vader,tcp"}


SLOW = {"TBLOCK_RANKS_RATE": "0.1", "TBLOCK_RANKS_DELAY": "50"}   # a network: Gbit/s, us


def mpirun(n, *args, env=None, **options):
    return subprocess.run(["mpirun", "--quiet", "-n", str(n), *map(str, args)], env={**ENV, **(env or {})},
                          capture_output=True, timeout=MOST, cwd=TEMP, **options)


def alone(*args, **options):
    return subprocess.run([TBLOCK, *map(str, args)], capture_output=True, timeout=MOST, cwd=TEMP, **options)


def same(n, *args, env=None, **options):
    """What n ranks print is what one process prints."""
    shared, one = mpirun(n, TBLOCK, *args, env=env, **options), alone(*args, **options)
    need(one.returncode == 0, f"{args}: alone: {one.stderr.decode()}")
    need(shared.returncode == 0, f"{args}: {n} ranks: status {shared.returncode}: {shared.stderr.decode()[-500:]}")
    need(shared.stdout == one.stdout and one.stdout, f"{args}: {n} ranks print {shared.stdout[:200]}, not {one.stdout[:200]}")
    return shared


def lines_of_ours(stderr):
    return [line for line in stderr.decode().splitlines() if line.startswith("tblock:")]


def left(name):
    """Processes whose command line has that name."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and name in (entry / "cmdline").read_bytes().decode(errors="replace").split("\0"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(truth, what, seconds):
    end = time.monotonic() + seconds
    while not truth():
        need(time.monotonic() < end, f"{what} took longer than {seconds} s")
        time.sleep(0.05)


# ---- The same bits ---------------------------------------------------------------------------------------------------

def texts_are_those_of_one_process():
    for n in (1, 2, 3, 4, 7):
        for threads in (1, 2):
            same(n, "run", SHIPPED, "-p", "ROMEO:", "-n", "40", "--seed", "7", "--threads", threads)
    same(2, "run", SHIPPED, "-p", "ROMEO:", "-n", "40", "--type", "q4", "--kv-type", "q8")
    same(3, "run", SHIPPED, "-p", "ROMEO:", "-n", "40", "--draft", "ngram", "--temp", "0")
    same(2, "run", SHIPPED, "-p", "ROMEO:", "-n", "40", "--draft", SHIPPED)
    same(3, "run", DATA / "models" / "llama3-e2e", "-p", "It is ", "-n", "20", "--lora", f"{DATA / 'adapters' / 'trained'}:0.5")
    same(2, "run", SHIPPED, "-p", "It is ", "-n", "20", "--regex", "[a-z ]{5,12}!")


def logits_are_those_of_one_process():
    for isa in (None, "scalar"):
        for name, start in (("one", lambda *a: alone(*a)), ("four", lambda *a: mpirun(4, TBLOCK, *a))):
            r = start("logits", SHIPPED, "-p", "What is it that you", "-o", TEMP / f"{name}.safetensors", "--hidden",
                      *(["--isa", isa] if isa else []))
            need(r.returncode == 0, f"{name}: {r.stderr.decode()}")
        need((TEMP / "one.safetensors").read_bytes() == (TEMP / "four.safetensors").read_bytes(), f"{isa}: other bytes")
    same(2, "verify", SHIPPED, TEMP / "one.safetensors")


def eval_and_chat_are_those_of_one_process():
    same(2, "eval", SHIPPED, ROOT / "models" / "as-you-like-it.txt", "--ctx", "128", "--json")
    same(3, "chat", SHIPPED, "--chat-format", "alpaca", "-n", "12", "--temp", "0", input=b"Who are you?\nAnd now?\n")


def long_prompts_run_in_halves_on_slow_networks():
    for threads in (1, 2):
        same(2, "eval", SHIPPED, ROOT / "models" / "as-you-like-it.txt", "--ctx", "250", "--json", "--threads", threads, env=SLOW)
    calls = []
    for env in (None, SLOW):
        r = mpirun(2, TBLOCK, "bench", SHIPPED, "--prefill", "200", "--decode", "0", "--repeats", "1", "--read-mb", "4", "--profile",
                   "--json", env=env)
        need(r.returncode == 0, r.stderr.decode()[-500:])
        calls += [row["calls"] for row in json.loads(r.stdout)["rows"][0]["profile"] if row["name"] == "exchange"]
    need(len(calls) == 2 and calls[1] >= 2 * calls[0] - 8, f"exchanges of a prompt: {calls}")   # no logits of the first half


def states_and_receipts_are_those_of_one_process():
    def run(name, how, *args):
        r = how("run", SHIPPED, "-n", "30", "--seed", "7", "--save-state", TEMP / name, "--receipt", TEMP / f"{name}.json", *args)
        need(r.returncode == 0, f"{name}: {r.stderr.decode()[-500:]}")
        return r.stdout
    def same_files(a, b):
        for end in ("", ".json"):
            need((TEMP / (a + end)).read_bytes() == (TEMP / (b + end)).read_bytes(), f"{b}{end}: other bytes than {a}{end}")
    first = ("-p", "ROMEO:")
    need(run("one", alone, *first) == run("three", lambda *a: mpirun(3, TBLOCK, *a), *first), "other text")
    same_files("one", "three")
    need(run("on", alone, "--load-state", TEMP / "three") == run("on2", lambda *a: mpirun(2, TBLOCK, *a), "--load-state", TEMP / "one"),
         "other text behind a state")
    same_files("on", "on2")
    same(2, "verify", SHIPPED, TEMP / "one.json")


# latent attention with groups of experts and shared ones; a short convolution with experts; the gated delta rule
EXPERTS = {"n_experts": 8, "experts_used": 3, "expert_d_ff": 24, "shared_d_ff": 40, "dense_layers": [0]}
FAMILIES = {
    "latent": {"heads": 6, "kv_heads": 1, "head_dim": 40, "rotary_dim": 8, "kv_lora": 32, "q_lora": 48, "nope_dim": 16, "v_dim": 24,
               "router_score": "sigmoid", "choice_bias": True, "expert_groups": 4, "groups_used": 2, "renormalize": True, "mtp_layers": 1,
               **EXPERTS},
    "conv": {"heads": 4, "kv_heads": 2, "head_dim": 16, "state_layers": [0, 2], "conv_taps": 3, "qk_norm": "head", **EXPERTS},
    "delta": {"heads": 4, "kv_heads": 2, "head_dim": 16, "state_layers": [0, 1], "conv_taps": 4, "delta_heads": 6, "delta_key_heads": 3,
              "delta_key_dim": 8, "delta_value_dim": 20, "attn_gate": True, "shared_router": True, **EXPERTS},
}


def a_family_is_that_of_one_process(shape):
    folder, model = model_of(["<end>"], shape={"d_model": 48, "n_layers": 3, "d_ff": 64, "n_ctx": 256, **shape})
    out = TEMP / "family"
    with folder:
        for n in (1, 2, 3, 4, 7):
            same(n, "run", model, "-p", "Once upon a time", "-n", "24", "--seed", "7", "--threads", 1 + n % 2)
        files = {}
        for name, how in (("one", alone), ("three", lambda *a: mpirun(3, *a)), ("two", lambda *a: mpirun(2, *a))):
            program = () if how is alone else (TBLOCK,)
            r = how(*program, "run", model, "-p", "Once upon", "-n", "20", "--type", "q8", "--save-state", out, "--receipt", f"{out}.json")
            need(r.returncode == 0, f"{name}: {r.stderr.decode()[-500:]}")
            on = how(*program, "run", model, "--type", "q8", "--load-state", out, "-n", "20")
            r2 = how(*program, "logits", model, "-p", "What is it", "-o", f"{out}.safetensors", "--hidden")
            need(on.returncode == r2.returncode == 0, f"{name}: {on.stderr.decode()[-500:]}{r2.stderr.decode()[-500:]}")
            files[name] = (r.stdout, on.stdout, *((TEMP / f"family{end}").read_bytes() for end in ("", ".json", ".safetensors")))
        need(files["one"] == files["two"] == files["three"], "other bytes than one process")
        same(2, "verify", model, f"{out}.safetensors")
        same(3, "eval", model, ROOT / "models" / "as-you-like-it.txt", "--ctx", "128", "--json")
        same(2, "chat", model, "--chat-format", "alpaca", "-n", "12", "--temp", "0", input=b"Who?\nAnd now?\n")
        r = mpirun(2, TBLOCK, "bench", model, "--json")
        need(r.returncode == 0, r.stderr.decode()[-500:])
        serve_on_ranks(2, model)


def latent_attention_is_that_of_one_process():
    a_family_is_that_of_one_process(FAMILIES["latent"])


def the_layer_ahead_guesses_as_in_one_process():
    folder, model = model_of(["<end>"], shape={"d_model": 48, "n_layers": 3, "d_ff": 64, "n_ctx": 256, **FAMILIES["latent"]})
    by = ("--draft", "mtp")
    with folder:
        for n in (1, 2, 3, 4, 7):
            for how in (("--temp", "0"), ("--temp", "1.5", "--top-k", "3"), ("--type", "q8", "--kv-type", "q8", "--temp", "0.3")):
                args = ("run", model, "-p", "Once upon a time there was", "-n", "80", "--seed", "7", "--threads", 1 + n % 2, *how)
                need(same(n, *args, *by).stdout == alone(*args).stdout, f"{n} ranks: {how}: another text than without a draft")
        args = ("run", model, "-p", "Once upon a time there was a king. " * 4, "-n", "60", "--temp", "0")
        need(same(2, *args, *by, env=SLOW).stdout == alone(*args).stdout, "a long prompt: another text than without a draft")
        said = [json.loads(how(*program, "run", model, "-p", "Once upon", "-n", "80", "--temp", "0", "--json", *by).stdout)["stats"]["draft"]
                for how, program in ((alone, ()), (lambda *a: mpirun(3, *a), (TBLOCK,)))]
        need(said[0] == said[1] and said[0]["proposed"] > 2, f"other guesses: {said}")
        same(2, "chat", model, "--chat-format", "alpaca", "-n", "20", "--temp", "0", *by, input=b"Who?\nAnd now?\n")
        serve_on_ranks(3, model, *by)


def short_convolutions_are_those_of_one_process():
    a_family_is_that_of_one_process(FAMILIES["conv"])


def the_delta_rule_is_that_of_one_process():
    a_family_is_that_of_one_process(FAMILIES["delta"])


def on_rank(n, rank, setting, *args, env=None):
    """One of n ranks starts with that in front of its command."""
    return mpirun(n, "sh", "-c", f'if [ $OMPI_COMM_WORLD_RANK = {rank} ]; then {setting} exec "$@"; fi; exec "$@"', "sh", *args, env=env)


def ranks_of_other_instruction_sets_have_the_same_bits():
    args = ("run", SHIPPED, "-p", "ROMEO:", "-n", "40", "--seed", "7", "--type", "q4", "--kv-type", "q8", "--receipt")
    need(alone(*args, TEMP / "best.json").returncode == 0, "alone")
    for rank in (0, 1, 2):
        r = on_rank(3, rank, "TBLOCK_ISA=scalar", TBLOCK, *args, TEMP / "mixed.json")
        need(r.returncode == 0, r.stderr.decode()[-500:])
        need((TEMP / "mixed.json").read_bytes() == (TEMP / "best.json").read_bytes(), f"rank {rank} scalar: another receipt")
    r = on_rank(3, 2, "TBLOCK_ISA=abacus", TBLOCK, "run", SHIPPED, "-p", "a")
    found = lines_of_ours(r.stderr)
    need(len(found) == 1 and found[0].startswith(f"tblock: rank 2 on {HOST}: isa: expected one that"), r.stderr.decode()[:600])


def a_rank_of_another_version_is_named():
    version = alone("--version").stdout.split()[1]
    other = TEMP / "tblock-other"
    other.write_bytes(TBLOCK.read_bytes().replace(version, b"9" + version[1:]))
    other.chmod(0o755)
    r = on_rank(3, 1, f'shift; set -- {other} "$@";', TBLOCK, "run", SHIPPED, "-p", "a", env={"TBLOCK_MPI": str(PLUGIN)})
    line = f"tblock: rank 1: expected tblock {version.decode()} like rank 0, found 9{version.decode()[1:]}"
    need(r.returncode != 0 and not r.stdout and lines_of_ours(r.stderr) == [line], r.stderr.decode()[:600])


def serve_answers_as_one_process_does():
    serve_on_ranks(3, SHIPPED)


def serve_on_ranks(n, model, *options):
    process = subprocess.Popen(["mpirun", "--quiet", "-n", str(n), TBLOCK, "serve", model, "--port", "0", "--parallel", "4", *options],
                               env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=TEMP)
    try:
        line = process.stdout.readline().decode().strip()
        need(line.startswith("http://"), line or process.stderr.read().decode()[-500:])

        def answer(seed):
            asked = {"prompt": "ROMEO:", "max_tokens": 40, "seed": seed, "temperature": 0.8, "return_token_ids": True}
            request = urllib.request.Request(line + "/v1/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=MOST) as r:
                return json.load(r)["choices"][0]["token_ids"]

        with concurrent.futures.ThreadPoolExecutor(6) as pool:   # more than it runs at once
            texts = list(pool.map(answer, range(6)))
        for seed, ids in enumerate(texts):
            one = alone("run", model, "-p", "ROMEO:", "-n", "40", "--seed", seed, "--temp", "0.8", "--top-k", "0", "--top-p", "1",
                        "--json")
            need(ids == json.loads(one.stdout)["ids"], f"seed {seed}: {ids}, alone {one.stdout!r} {one.stderr!r}")
        for pid in left("serve"):
            try:
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                if b"OMPI_COMM_WORLD_RANK=0\0" in environ and pathlib.Path(f"/proc/{pid}/cwd").resolve() == TEMP.resolve():
                    os.kill(pid, signal.SIGTERM)   # of rank 0: it ends the others
            except OSError:   # another program's, which has ended since
                continue
        _, err = process.communicate(timeout=MOST)
        need(process.returncode == 0, f"status {process.returncode}: {err.decode()[-500:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def bench_runs():
    r = mpirun(2, TBLOCK, "bench", SHIPPED, "--json")
    need(r.returncode == 0 and b"exchange" not in r.stderr, r.stderr.decode()[-500:])


# ---- Errors ----------------------------------------------------------------------------------------------------------

def an_error_is_one_line_of_rank_0():
    for args, line in ((("run", "none.bin", "-p", "a"), "tblock: none.bin: cannot open: No such file or directory"),
                       (("train", "--text", SHIPPED, "-o", "m.bin"), "tblock: train: expected one process, found 3 ranks"),
                       (("run", SHIPPED, "-p", "a", "--sandbox"), "tblock: --sandbox: expected one process, found 3 ranks")):
        r = mpirun(3, TBLOCK, *args)
        need(r.returncode != 0 and lines_of_ours(r.stderr) == [line], f"{args}: status {r.returncode}: {r.stderr.decode()[:600]}")


def each_in_its_folder(command):
    """A shell that gives every rank a folder of its own."""
    return ["sh", "-c", f'cd rank$OMPI_COMM_WORLD_RANK && exec "$@"', "sh", *command]


def make_folders():
    for i in range(2):
        (TEMP / f"rank{i}").mkdir(exist_ok=True)
        (TEMP / f"rank{i}" / "m.bin").unlink(missing_ok=True)
    shutil.copy(SHIPPED, TEMP / "rank0" / "m.bin")


def a_rank_without_the_file_or_with_another_model_is_named():
    make_folders()
    r = mpirun(2, *each_in_its_folder([TBLOCK, "run", "m.bin", "-p", "a"]))
    need(lines_of_ours(r.stderr) == [f"tblock: rank 1 on {HOST}: m.bin: cannot open: No such file or directory"], r.stderr.decode()[:600])
    need(alone("quantize", SHIPPED, "--type", "q8", "-o", TEMP / "rank1" / "m.bin").returncode == 0, "cannot quantize")
    r = mpirun(2, *each_in_its_folder([TBLOCK, "run", "m.bin", "-p", "a"]))
    found = lines_of_ours(r.stderr)
    need(len(found) == 1 and found[0].startswith(f"tblock: rank 1 on {HOST}: expected what rank 0 has opened ("),
         r.stderr.decode()[:600])


def damage(path, first, n):
    data = bytearray(path.read_bytes())
    for i in range(first, first + n):
        data[i] ^= 1
    path.write_bytes(data)


def a_damaged_copy_is_named():
    """One rank has the right header over wrong data: no receipt, no check and no verdict says that all is well."""
    for rank in (1, 0):
        make_folders()
        shutil.copy(SHIPPED, TEMP / "rank1" / "m.bin")
        run = [TBLOCK, "run", "m.bin", "-p", "ROMEO:", "-n", "20", "--seed", "3"]
        receipt = TEMP / "damaged.json"
        need(mpirun(2, *each_in_its_folder([*run, "--receipt", receipt])).returncode == 0, "two good copies")
        damage(TEMP / f"rank{rank}" / "m.bin", 3000000, 20000)
        before = receipt.read_bytes()
        who = f"rank 1 on {HOST}: " if rank else ""
        for command in ([*run, "--check"], [*run, "--receipt", TEMP / "false.json"], [TBLOCK, "verify", "m.bin", receipt]):
            r = mpirun(2, *each_in_its_folder(command))
            found = lines_of_ours(r.stderr)
            need(r.returncode == 3 and len(found) == 1 and found[0].startswith(f"tblock: {who}m.bin: sha256 of the data: expected "),
                 f"{command}: status {r.returncode}: {r.stderr.decode()[:600]}")
        need(not (TEMP / "false.json").exists() and receipt.read_bytes() == before, "a receipt of wrong data")
    for i in range(2):  # no hash is recorded: they are compared with each other; a part that opening does not look at
        shutil.copytree(DATA / "models" / "cohere", TEMP / f"rank{i}" / "folder")
    run = [TBLOCK, "run", "folder", "--ids", "1,2", "-n", "2"]
    for wrong in (False, True):
        if wrong:
            damage(TEMP / "rank1" / "folder" / "model.safetensors", 2000 + 55296 // 16, 4)
        for more in (["--check"], ["--receipt", TEMP / "false.json"]):
            r = mpirun(2, *each_in_its_folder([*run, *more]))
            need(r.returncode == 3 and lines_of_ours(r.stderr)[0].startswith(f"tblock: rank 1 on {HOST}: expected what rank 0 has opened (")
                 if wrong else r.returncode == 0, f"{more}: status {r.returncode}: {r.stderr.decode()[:600]}")


def without_the_plugin_the_line_says_what_builds_it():
    r = mpirun(2, TBLOCK, "run", SHIPPED, "-p", "a", env={"TBLOCK_MPI": "/nonexistent/libtblock-mpi.so"})
    found = lines_of_ours(r.stderr)
    need(r.returncode != 0 and found and "make ranks" in found[0], r.stderr.decode()[:600])


def variables_that_are_no_numbers_are_refused():
    for name, value in (("TBLOCK_RANKS_TIMEOUT", "a minute"), ("TBLOCK_RANKS_DELAY", "-1"), ("TBLOCK_RANKS_RATE", "nan"),
                        ("TBLOCK_RANKS_RATE", "1e3"), ("TBLOCK_RANKS_TIMEOUT", " 5"), ("TBLOCK_RANKS_DELAY", "")):
        r = mpirun(2, TBLOCK, "run", SHIPPED, "-p", "a", env={name: value})
        line = f"tblock: {name}: expected a number, 0 or more, found {value or 'nothing'}"
        need(r.returncode == 2 and r.stdout == b"" and set(lines_of_ours(r.stderr)) == {line}, f"{r.returncode} {r.stderr.decode()[:600]}")


def without_mpirun_no_mpi_is_loaded():
    process = subprocess.Popen([TBLOCK, "run", SHIPPED, "-f", "-", "-n", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TEMP)
    maps = pathlib.Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "shakespeare.bin" in maps.read_text(), "opening the model", MOST)
    need("mpi" not in maps.read_text(), "a library of MPI is mapped")
    process.communicate(b"ROMEO:", timeout=MOST)


# ---- Faults ----------------------------------------------------------------------------------------------------------

def fault(number, rank, env, seconds, expected):
    """Sends a signal to one rank of three that are at work. All must end soon, with that line."""
    model = TEMP / f"fault{number}{rank}.bin"
    shutil.copy(SHIPPED, model)
    process = subprocess.Popen(["mpirun", "-n", "3", TBLOCK, "run", model, "-p", "ROMEO:", "-n", "1000000", "--ctx", "400000"],
                               env={**ENV, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=TEMP)
    need(process.stdout.read(1000), "no text")   # at work
    pids = [p for p in left(str(model)) if p != process.pid]
    by_rank = {}
    for pid in pids:
        for word in pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0"):
            if word.startswith("OMPI_COMM_WORLD_RANK="):
                by_rank[int(word.split("=")[1])] = pid
    need(sorted(by_rank) == [0, 1, 2], f"ranks {by_rank}")
    start = time.monotonic()
    os.kill(by_rank[rank], number)
    _, err = process.communicate(timeout=MOST)
    took = time.monotonic() - start
    need(process.returncode != 0, "status 0")
    need(expected in err.decode(), err.decode()[:800])
    need(took < seconds, f"{took:.1f} s")
    wait_until(lambda: not left(str(model)), "the end of all ranks", MOST)


def a_killed_rank_ends_all():
    for rank in (0, 1, 2):
        fault(signal.SIGKILL, rank, {}, 30, "exited on signal 9 (Killed)")


def a_rank_that_answers_no_more_ends_all():
    # longer than a busy machine holds up a rank that answers
    fault(signal.SIGSTOP, 1, {"TBLOCK_RANKS_TIMEOUT": "10"}, 50,
          "tblock: rank 0 of 3: no answer from the other ranks for 10 s")


def main():
    claims = [texts_are_those_of_one_process, logits_are_those_of_one_process, eval_and_chat_are_those_of_one_process, long_prompts_run_in_halves_on_slow_networks,
              states_and_receipts_are_those_of_one_process, latent_attention_is_that_of_one_process,
              the_layer_ahead_guesses_as_in_one_process,
              short_convolutions_are_those_of_one_process, the_delta_rule_is_that_of_one_process, ranks_of_other_instruction_sets_have_the_same_bits,
              serve_answers_as_one_process_does, a_rank_of_another_version_is_named, bench_runs,
              an_error_is_one_line_of_rank_0, a_rank_without_the_file_or_with_another_model_is_named, a_damaged_copy_is_named,
              without_the_plugin_the_line_says_what_builds_it, variables_that_are_no_numbers_are_refused,
              without_mpirun_no_mpi_is_loaded, a_killed_rank_ends_all, a_rank_that_answers_no_more_ends_all]
    wanted = sys.argv[1:]
    try:
        need(PLUGIN.exists(), f"no {PLUGIN}: make ranks")
        return attempt_all(*[c for c in claims if not wanted or c.__name__ in wanted])
    finally:
        shutil.rmtree(TEMP, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
