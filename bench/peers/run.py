#!/usr/bin/env python3
"""tblock beside llama.cpp, OpenVINO and PyTorch: the same model, the same machine, taking turns; a table of ratios.

  bench/peers/run.py [options]        or `make bench-peers`; everything it makes lies in build/peers and is found again

README.md here says what is measured and how to read the table."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))
import peer_environment as environment  # noqa: E402
import peer_table as table  # noqa: E402
from peer_worker import FIRST  # noqa: E402

say = environment.say

# Programs that take turns: (program, type). A group's models are there together, so a group fits into memory and on the disk.
# "W x M": weights W, multiplied as --math M.
GROUPS = {
    "f32": [("tblock", "f32")],
    "f16": [("tblock", "f16"), ("llama.cpp", "F16")],
    "bf16": [("tblock", "bf16"), ("tblock", "bf16 x bf16"), ("llama.cpp", "BF16"), ("OpenVINO", "bf16"), ("PyTorch", "bf16")],
    # the same GGUF file in both programs, here and below
    "q8": [("tblock", "q8"), ("tblock", "Q8_0"), ("llama.cpp", "Q8_0"), ("OpenVINO", "int8")],
    "q4": [("tblock", "q4"), ("tblock", "Q4_0"), ("llama.cpp", "Q4_0"), ("tblock", "Q4_K_M"), ("llama.cpp", "Q4_K_M"), ("OpenVINO", "int4")],
    **{kind: [("tblock", kind), ("llama.cpp", kind)] for kind in ("Q2_K", "Q3_K_M", "Q5_K_M", "Q6_K", "MXFP4", *table.SHAPES)},
}
DECODE_AFTER, DECODE_N, LONG_N = 16, 64, 24
# A run in which a thread waited longer for a processor is repeated. Linux itself takes 5% from real-time processes.
MAX_WAITED, MAX_TRIES = 0.08, 3
PROMPT = [(i * 7919 + 1) % 1000 for i in range(12)]  # of the comparison of logits


class Absent(Exception):
    """A type that this build does not know, or a model that is not there."""


# ---- Models --------------------------------------------------------------------------------------------------------

class Models:
    """Model files in build/peers/models, made when first asked for."""

    def __init__(self, args, python):
        self.config, self.build, self.python, self.threads = args.config, args.build, python, args.threads
        self.folder = args.folder / "models" / args.config.stem
        self.folder.mkdir(parents=True, exist_ok=True)

    def need_disk(self, name):
        """Twice f32 covers a file and the parent it is made from."""
        parameters = json.loads(subprocess.run([str(self.build / "tblock"), "info", str(self.config), "--json"], capture_output=True,
                                               text=True, check=True).stdout)["parameters"]["total"]
        wanted, free = 8 * parameters, shutil.disk_usage(self.folder).free
        if free < wanted:
            raise SystemExit("peers: %s: expected %.0f GB of free disk to make %s, found %.0f" % (self.folder, wanted / 1e9, name, free / 1e9))

    def make(self, target, command, part=None):
        if target.exists():
            return target
        self.need_disk(target.name)
        say("making " + target.name)
        done = subprocess.run(["nice", "-n", "19", *map(str, command)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            shutil.rmtree(target, ignore_errors=True)
            raise SystemExit("peers: cannot make %s: %s" % (target.name, done.stderr.strip()[-600:]))
        if part:
            os.replace(part, target)
        return target

    def knows(self, kind):
        text = subprocess.run([str(self.build / "tblock"), "synth", "--help"], capture_output=True, text=True, check=True).stdout
        choices = next(line.split()[1] for line in text.splitlines() if line.strip().startswith("--type"))
        return kind in choices.split("|")

    def tblock(self, kind):
        if not self.knows(kind):
            raise Absent("tblock synth has no --type %s in this build" % kind)
        target = self.folder / (kind + ".bin")
        if kind in ("q8", "q4"):  # synth's would be random codes: the same speed, other numbers than the peers'
            return self.make(target, [self.build / "tblock", "quantize", self.tblock("f16"), target, "--type", kind, "--quiet", "--threads", self.threads])
        return self.make(target, [self.build / "tblock", "synth", self.config, "--type", kind, "-o", target, "--quiet", "--threads", self.threads])

    def gguf(self, kind):
        target = self.folder / (kind + ".gguf")
        if target.exists():
            return target
        if kind == table.REAL:
            if not (ROOT / "models/smollm2.gguf").exists():
                raise Absent("models/smollm2.gguf: `make real` fetches it")
            return ROOT / "models/smollm2.gguf"
        if kind in table.SHAPES:
            return self.make(target, [self.python, HERE / "peer_shapes.py", kind, target])
        if kind in ("F16", "BF16"):
            return self.make(target, [self.python, HERE / "peer_models.py", self.tblock(kind.lower()), "gguf", target])
        if kind == "MXFP4":  # llama.cpp's own quantizer makes it of experts alone
            return self.make(target, [self.python, HERE / "peer_models.py", self.tblock("f16"), "mxfp4", target])
        part = target.with_suffix(".part")
        return self.make(target, [self.python, HERE / "peer_llama.py", "--quantize", self.gguf("F16"), part, kind, "--threads", self.threads], part)

    def folder_of_hf(self):
        target = self.folder / "hf"
        if (target / "config.json").exists():
            return target
        return self.make(target, [self.python, HERE / "peer_models.py", self.tblock("bf16"), "hf", target])

    def openvino(self, kind):
        target = self.folder / ("openvino-" + kind)
        if (target / "openvino_model.xml").exists():
            return target
        return self.make(target, [self.python, HERE / "peer_openvino.py", "--export", self.folder_of_hf(), target, kind])

    def path(self, program, kind):
        kind = kind.partition(" x ")[0]
        if kind in (*table.GGUF_KINDS, *table.SHAPES):
            return self.gguf(kind)
        return {"tblock": self.tblock, "llama.cpp": self.gguf, "OpenVINO": self.openvino, "PyTorch": lambda _: self.folder_of_hf()}[program](kind)

    def clean(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def bytes_of(path):
    return sum(f.stat().st_size for f in path.iterdir()) if path.is_dir() else path.stat().st_size


# ---- Workers -------------------------------------------------------------------------------------------------------

def commands_of(args, python, built, key, path, first_token):
    """The command line of a worker, or of one token as a whole process."""
    program, math = key[0], key[1].partition(" x ")[2]
    llama = built.get("python", str(python))
    own = ["--threads", str(args.threads), *(["--isa", args.isa] if args.isa != "native" else []), *(["--math", math] if math else [])]
    if program == "tblock" and first_token:
        return [str(args.build / "tblock"), "run", str(path), "--ids", ",".join(map(str, FIRST)), "-n", "1", "--temp", "0", "--quiet", *own]
    if program == "tblock":
        return [str(args.build / "bench/peers/bench_peer"), str(path), *own]
    script = {"llama.cpp": [llama, HERE / "peer_llama.py"], "OpenVINO": [python, HERE / "peer_openvino.py"],
              "PyTorch": [python, HERE / "peer_torch.py"]}[program]
    return [*map(str, script), str(path), "--threads", str(args.threads), *(["--first-token"] if first_token else [])]


def worker_env(args):
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    if args.isa == "avx2":
        env.update(ATEN_CPU_CAPABILITY="avx2", ONEDNN_MAX_CPU_ISA="AVX2")
    return env


def rest(priority, seconds):
    """After real-time work the others get the machine for as long as it took."""
    if priority:
        time.sleep(seconds)


class Worker:
    def __init__(self, args, name, command):
        self.name, self.priority, self.verbose, self.disturbed = name, args.priority, args.verbose, 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=worker_env(args))
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("peers: %s ended with status %d" % (self.name, self.process.wait()))
        return json.loads(line)

    def schedule(self, policy, priority):
        for task in pathlib.Path("/proc/%d/task" % self.process.pid).iterdir():
            try:
                os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))
            except ProcessLookupError:
                pass

    def send(self, words):
        self.process.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.process.stdin.flush()
        return self.read()

    def waited(self):
        """Seconds that each thread was ready and had no processor."""
        out = {}
        for task in pathlib.Path("/proc/%d/task" % self.process.pid).iterdir():
            try:
                out[task.name] = int((task / "schedstat").read_text().split()[1]) * 1e-9
            except OSError:
                pass
        return out

    def once(self, words):
        """(share of the time that a thread waited for a processor, answer). Only commands get the priority, not the start."""
        if self.priority:
            self.schedule(os.SCHED_FIFO, self.priority)
        try:
            before, start = self.waited(), time.perf_counter()
            answer = self.send(words)
            wall, after = time.perf_counter() - start, self.waited()
        finally:
            if self.priority:
                self.schedule(os.SCHED_OTHER, 0)
        share = max([0, *(s - before.get(task, 0) for task, s in after.items())]) / wall
        rest(self.priority, wall)
        if self.verbose:
            say("%s: %s: %.3f s, waited %.1f%% of it" % (self.name, " ".join(map(str, words[:4])), wall, 100 * share))
        return share, answer

    def ask(self, *words):
        return self.once(words)[1]

    def timed(self, *words):
        """The answer, of a run that other processes did not disturb: else of the least disturbed of a few."""
        tries = []
        for _ in range(MAX_TRIES):
            tries.append(self.once(words))
            if tries[-1][0] <= MAX_WAITED:
                break
        share, answer = min(tries, key=lambda t: t[0])
        self.disturbed = max(self.disturbed, share)
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def metrics_of(args):
    """name -> (tokens, words of the command that times them with a mode)."""
    return {
        "prefill": (args.prefill, lambda mode: ("prefill", mode, args.prefill)),
        "decode": (DECODE_N, lambda mode: ("decode", mode, DECODE_AFTER, DECODE_N)),
        "decode_long": (LONG_N, lambda mode: ("decode", mode, args.long, LONG_N)),
    }


def choose_modes(args, worker):
    """Warm up, and for each metric keep the mode that was faster."""
    best = {}
    for mode in worker.about["modes"]:
        worker.ask("context", mode, DECODE_AFTER)
        worker.ask("context", mode, args.long)
        for metric, (_, words) in metrics_of(args).items():
            worker.ask(*words(mode)) if metric == "prefill" else None  # the first pass touches pages and buffers
            seconds = worker.ask(*words(mode))["seconds"]
            if metric not in best or seconds < best[metric][0]:
                best[metric] = (seconds, mode)
    return {metric: mode for metric, (_, mode) in best.items()}


def first_token(args, program, command):
    """Seconds to the first token of a short prompt, and peak memory in MB. tblock is charged from the start of the process to the
    first byte of text, a peer in Python from the end of its imports to the logits."""
    command = ["chrt", "-f", str(args.priority), *command] if args.priority else command
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=worker_env(args))
    out = process.stdout.read(1)  # a byte: the text of a token need not be whole characters
    first = time.perf_counter() - started
    out += process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    rest(args.priority, wall)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit("peers: status %d of: %s" % (process.returncode, " ".join(command)))
    if program == "tblock":
        return first, usage.ru_maxrss / 1024
    said = json.loads(out)
    return said["seconds"], said["peak_mb"] - said["peak_mb_before"]


# ---- One group -----------------------------------------------------------------------------------------------------

def compare_logits(folder, workers):
    """The last logits of one prompt, each program against the first; printed, so that a wrong conversion shows."""
    import array
    found = {}
    for key, w in workers.items():
        path = folder / "logits.f32"
        w.ask("logits", w.about["modes"][0], path, *PROMPT)
        values = array.array("f")
        values.frombytes(path.read_bytes())
        path.unlink()
        found[key] = values
    (reference, a), *others = found.items()
    deviation = statistics.pstdev(a)
    top = max(range(len(a)), key=a.__getitem__)
    for key, b in others:
        largest = max(abs(x - y) for x, y in zip(a, b))
        same = top == max(range(len(b)), key=b.__getitem__)
        print("logits of %d tokens, %s %s against %s %s: largest difference %.4f of a deviation of %.3f, %s largest logit"
              % (len(PROMPT), *key, *reference, largest, deviation, "the same" if same else "ANOTHER"), flush=True)


def open_group(args, models, python, built, members):
    """(path of each model, worker of each), without those that this build cannot make."""
    paths, workers = {}, {}
    for key in members:
        try:
            paths[key] = models.path(*key)
        except Absent as why:
            say("absent: %s %s: %s" % (*key, why))
    for key, path in paths.items():
        workers[key] = Worker(args, "%s %s" % key, commands_of(args, python, built, key, path, False))
        print("%-9s %-11s %s; %s" % (*key, workers[key].about["version"], workers[key].about["system"].strip()), flush=True)
    return paths, workers


def measure_group(args, models, python, built, group):
    """Rows of the CSV, one for each member that is there."""
    members = GROUPS[group]
    paths, workers = open_group(args, models, python, built, members)
    machine = Worker(args, "bandwidth", [str(args.build / "bench/peers/bench_peer"), "-", "--threads", str(args.threads)])
    if len(workers) > 1:
        compare_logits(models.folder, workers)
    modes = {key: choose_modes(args, w) for key, w in workers.items()}
    for w in workers.values():
        w.disturbed = 0  # what choosing met does not count
    timed = {key: {m: [] for m in [*metrics_of(args), "first", "peak"]} for key in workers}
    bandwidth = []
    commands = {key: commands_of(args, python, built, key, paths[key], True) for key in workers}
    for key in workers:
        first_token(args, key[0], commands[key])  # not counted: it reads the file into the page cache
    for turn in range(args.repeats):
        say("turn %d of %d" % (turn + 1, args.repeats))
        bandwidth.append(machine.timed("bandwidth")["gb_per_s"])
        for metric, (n, words) in metrics_of(args).items():
            for key, w in workers.items():
                timed[key][metric].append(n / w.timed(*words(modes[key][metric]))["seconds"])
        for key in workers:
            seconds, peak = first_token(args, key[0], commands[key])
            timed[key]["first"].append(seconds)
            timed[key]["peak"].append(peak)
    for w in [*workers.values(), machine]:
        w.close()
    return [row_of(args, group, key, w, modes[key], timed[key], statistics.median(bandwidth), bytes_of(paths[key])) for key, w in workers.items()]


def row_of(args, group, key, worker, modes, timed, bandwidth, file_bytes):
    median = {m: statistics.median(values) for m, values in timed.items()}
    spread = max((max(timed[m]) - min(timed[m])) / median[m] for m in metrics_of(args))
    chosen = sorted(set(modes.values()))
    return {
        "date": args.date, "cpu": table.cpu_name(), "isa": args.isa, "threads": args.threads,
        "model": group if group in table.SHAPES else args.config.stem, "group": group,
        "program": key[0], "type": key[1], "version": worker.about["version"], "system": worker.about["system"].strip(),
        "mode": chosen[0] if len(chosen) == 1 else " ".join("%s=%s" % item for item in modes.items()),
        "read_gb_per_s": "%.1f" % bandwidth, "bytes_per_token": worker.about.get("bytes_per_token", ""), "file_mb": "%.0f" % (file_bytes / 1e6),
        "prefill_tokens": args.prefill, "prefill_tok_per_s": "%.2f" % median["prefill"], "decode_tok_per_s": "%.2f" % median["decode"],
        "long": args.long, "decode_long_tok_per_s": "%.2f" % median["decode_long"], "first_token_s": "%.4f" % median["first"],
        "peak_mb": "%.0f" % (median["peak"] * 1.048576), "spread": "%.2f" % spread, "disturbed": "%.3f" % worker.disturbed,
    }


# ---- The command ---------------------------------------------------------------------------------------------------

def read_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "models/llama-3.2-1b.json", help="JSON config of the model's shape (default: llama-3.2-1b)")
    parser.add_argument("--groups", default=",".join(GROUPS), help="of %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="computing threads of every program (default: %(default)s)")
    parser.add_argument("--cpus", help="processors that may be used, such as 0,1 (default: all)")
    parser.add_argument("--repeats", type=int, default=5, help="turns, of which the median counts (default: %(default)s)")
    parser.add_argument("--prefill", type=int, default=512, help="tokens of the prompt (default: %(default)s)")
    parser.add_argument("--long", type=int, default=2048, help="positions of the long context (default: %(default)s)")
    parser.add_argument("--isa", choices=list(environment.LLAMA_FLAGS), default="native", help="instruction set of all programs; another than native builds llama.cpp again")
    parser.add_argument("--priority", type=int, default=0, help="real-time priority (chrt -f) while something is timed; 0: none (default)")
    parser.add_argument("--compiler", help="C compiler for llama.cpp (default: gcc; clang where gcc 12 miscompiles AMX)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compiler jobs (default: %(default)s)")
    parser.add_argument("--torch-index", default=os.environ.get("TORCH_INDEX"), help="package index for torch, such as the one with CPU wheels (default: PyPI)")
    parser.add_argument("--python", type=pathlib.Path, help="a Python that has numpy, gguf and llama_cpp already: no environment is made (groups with OpenVINO or PyTorch need these too)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where tblock was built (default: build/release)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/peers", help="environment and models (default: build/peers)")
    parser.add_argument("--table", action="store_true", help="measure nothing: print the table of the newest results in bench/results")
    parser.add_argument("--verbose", action="store_true", help="a line for each measurement")
    parser.add_argument("--clean", action="store_true", help="remove the model files at the end")
    args = parser.parse_args()
    args.groups = args.groups.split(",")
    for name in args.groups:
        if name not in GROUPS:
            parser.error("--groups: expected some of %s, found '%s'" % (",".join(GROUPS), name))
    if min(args.threads, args.repeats, args.prefill, args.jobs) < 1 or args.long <= 256:
        parser.error("threads, repeats, prefill and jobs are at least 1, --long is over 256")
    args.build, args.folder, args.config = args.build.resolve(), args.folder.resolve(), args.config.resolve()
    args.date = datetime.date.today().isoformat()
    return args


def main():
    args = read_args()
    csv = ROOT / "bench/results" / ("peers-%s.csv" % table.cpu_file_name())
    if args.table:
        table.show(csv, args)
        return
    if not (args.build / "bench/peers/bench_peer").exists():
        raise SystemExit("peers: %s: expected tblock and bench/peers/bench_peer there (make bench-peers builds them)" % args.build)
    python, built = environment.found(args.python) if args.python else environment.prepare(args.folder, args.isa, args.compiler, args.jobs, args.torch_index)
    if args.cpus:
        os.sched_setaffinity(0, {int(n) for n in args.cpus.split(",")})
    print("%s, %d threads, medians of %d, %s" % (table.cpu_name(), args.threads, args.repeats, args.date))
    print("llama.cpp: %s, %s, %s (%s)" % (built["compiler"], built["flags"], built["options"], built["why"]), flush=True)
    models = Models(args, python)
    for name in args.groups:
        table.append(csv, measure_group(args, models, python, built, name))
    table.show(csv, args)
    if args.clean:
        models.clean()


if __name__ == "__main__":
    main()
