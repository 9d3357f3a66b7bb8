"""The results of bench/peers: a CSV for each processor, and the table of ratios against the targets."""
import csv
import pathlib
import re

COLUMNS = ["date", "cpu", "isa", "threads", "model", "group", "program", "type", "version", "system", "mode", "read_gb_per_s", "bytes_per_token", "file_mb",
           "prefill_tokens", "prefill_tok_per_s", "decode_tok_per_s", "long", "decode_long_tok_per_s", "first_token_s", "peak_mb", "spread", "disturbed"]

# (metric, ours, theirs, target, stretch, instruction set it holds for: "" any). A ratio of tokens/s unless the peer is "read"
# (GB/s of weights against the read bandwidth).
PREFILL, DECODE, LONG = "prefill_tok_per_s", "decode_tok_per_s", "decode_long_tok_per_s"
READ = ("read", "")
GGUF_KINDS = ("Q8_0", "Q4_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "MXFP4")  # llama.cpp's names of files whose types have kernels here
REAL = "SmolLM2"  # the published model of `make real`
SHAPES = ("gpt-oss", "DeepSeek-V2-Lite", "DeepSeek-V3", REAL)  # models of their own: of peer_shapes.py, and the real one
TARGETS = [
    (DECODE, "f32", READ, 0.90, 0.95, ""), (DECODE, "f16", READ, 0.90, 0.95, ""), (DECODE, "bf16", READ, 0.90, 0.95, ""),
    (DECODE, "q8", READ, 0.90, 0.95, ""), (DECODE, "q4", READ, 0.85, 0.92, ""),
    (DECODE, "f16", ("llama.cpp", "F16"), None, None, ""),
    (DECODE, "bf16", ("llama.cpp", "BF16"), 1.7, None, ""), (DECODE, "bf16", ("PyTorch", "bf16"), None, None, ""),
    (DECODE, "q8", ("llama.cpp", "Q8_0"), 1.25, 1.35, ""), (DECODE, "q4", ("llama.cpp", "Q4_0"), 1.7, None, ""),
    (DECODE, "q4", ("llama.cpp", "Q4_K_M"), 2.7, None, ""),
    *((metric, ours, ("OpenVINO", theirs), None, None, "") for ours, theirs in (("bf16", "bf16"), ("q8", "int8"), ("q4", "int4"))
      for metric in (PREFILL, DECODE, LONG)),
    (LONG, "f16", ("llama.cpp", "F16"), None, None, ""), (LONG, "bf16", ("llama.cpp", "BF16"), None, None, ""),
    (LONG, "bf16", ("PyTorch", "bf16"), None, None, ""), (LONG, "q8", ("llama.cpp", "Q8_0"), 2.0, None, ""),
    (LONG, "q4", ("llama.cpp", "Q4_0"), None, None, ""), (LONG, "q4", ("llama.cpp", "Q4_K_M"), None, None, ""),
    (PREFILL, "f16", ("llama.cpp", "F16"), 1.3, None, "vnni avx2"), (PREFILL, "bf16", ("llama.cpp", "BF16"), None, None, ""),
    (PREFILL, "bf16", ("PyTorch", "bf16"), None, None, "vnni avx2"), (PREFILL, "bf16", ("PyTorch", "bf16"), 1.2, None, "amx"),
    *((metric, "bf16 x bf16", peer, 1.05 if metric == PREFILL else None, None, "")
      for metric in (PREFILL, DECODE, LONG) for peer in (("llama.cpp", "BF16"), ("OpenVINO", "bf16"), ("PyTorch", "bf16"))),
    (PREFILL, "q8", ("llama.cpp", "Q8_0"), 2.7, 3.5, "amx"), (PREFILL, "q8", ("llama.cpp", "Q8_0"), 2.0, None, "vnni"),
    (PREFILL, "q8", ("llama.cpp", "Q8_0"), 1.2, None, "avx2"), (PREFILL, "q4", ("llama.cpp", "Q4_0"), None, None, ""),
    (PREFILL, "q4", ("llama.cpp", "Q4_K_M"), 4.0, 6.0, "amx"), (PREFILL, "q4", ("llama.cpp", "Q4_K_M"), 2.0, None, "vnni"),
    (PREFILL, "q4", ("llama.cpp", "Q4_K_M"), 1.2, None, "avx2"),
    *((metric, kind, ("llama.cpp", kind), 1.0, None, "") for kind in GGUF_KINDS for metric in (PREFILL, DECODE, LONG)),
    *((metric, kind, ("llama.cpp", kind), 1.5 if metric == PREFILL else 1.2, None, "") for kind in SHAPES for metric in (PREFILL, DECODE, LONG)),
]


def cpu_name():
    found = re.search(r"^model name\s*: *(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else "unknown"


def cpu_file_name():
    return re.sub(r"[^A-Za-z0-9.]+", "-", cpu_name())


def kind_of_machine(isa):
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    if isa == "native" and "amx_int8" in flags:
        return "amx"
    return "vnni" if isa == "native" and "avx512_vnni" in flags else "avx2"


def append(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="") as f:
        writer = csv.DictWriter(f, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerows(rows)


def newest(path, args):
    """Of each group the rows that were measured last, in turns: {group: {(program, type): row}}."""
    wanted = {"isa": args.isa, "threads": str(args.threads), "prefill_tokens": str(args.prefill), "long": str(args.long)}
    groups = {}
    with open(path, newline="") as f:
        for row in csv.DictReader(f):
            if all(row[k] == v for k, v in wanted.items()) and row["model"] in (args.config.stem, *SHAPES):
                group = groups.setdefault(row["group"], {})
                if (row["program"], row["type"]) in group:
                    group.clear()  # a later run begins
                group[row["program"], row["type"]] = row
    return groups


def show_rows(groups):
    print("\n%-10s %-11s %9s %9s %9s %9s %8s %8s %6s  %s" % ("program", "type", "prefill", "decode", "decode", "first", "peak", "file", "spread", "mode"))
    print("%-10s %-11s %9s %9s %9s %9s %8s %8s" % ("", "", "tok/s", "tok/s", "long", "token s", "MB", "MB"))
    for group in groups.values():
        for (program, kind), r in group.items():
            print("%-10s %-11s %9s %9s %9s %9s %8s %8s %6s  %s" % (program, kind, r[PREFILL], r[DECODE], r["decode_long_tok_per_s"], r["first_token_s"],
                                                            r["peak_mb"], r["file_mb"], r["spread"], r["mode"]))


def judged(value, target, stretch):
    if target is None:
        return "", ""
    wanted = "%.2f" % target + (" [%.2f]" % stretch if stretch else "")
    return wanted, "stretch" if stretch and value >= stretch else "met" if value >= target else "missed"


def show_ratios(groups, isa, long):
    names = {PREFILL: "prefill", DECODE: "decode", LONG: "decode after %s" % long}
    print("\n%-20s %-28s %7s  %-14s %s" % ("ratio of", "ours / theirs", "ratio", "target", ""))
    for metric, kind, peer, target, stretch, where in TARGETS:
        group = groups.get(kind) or next((g for g in groups.values() if ("tblock", kind) in g), {})
        ours, theirs = group.get(("tblock", kind)), group.get(peer)
        if not ours or (where and kind_of_machine(isa) not in where.split()) or (peer != READ and not theirs):
            continue
        if peer == READ:
            value = float(ours[DECODE]) * float(ours["bytes_per_token"]) * 1e-9 / float(ours["read_gb_per_s"])
            name = "%s / read at %s GB/s" % (kind, ours["read_gb_per_s"])
        else:
            value = float(ours[metric]) / float(theirs[metric])
            name = "%s / %s %s" % (kind, *peer)
        print("%-20s %-32s %7.2f  %-14s %s" % (names[metric], name, value, *judged(value, target, stretch)))
    for kind, group in groups.items():
        ours = group.get(("tblock", kind))
        if ours:
            seconds, memory = float(ours["first_token_s"]), float(ours["peak_mb"]) / float(ours["file_mb"])
            wanted = ("0.05 s, 1.1", "met" if seconds <= 0.05 and memory <= 1.1 else "missed") if kind == "q4" else ("", "")
            print("%-20s %-32s %7s  %-14s %s" % ("first token", "%s: %.3f s, memory / file" % (kind, seconds), "%.2f" % memory, *wanted))


def show(path, args):
    if not path.exists():
        raise SystemExit("peers: %s: no results of this processor yet" % path)
    groups = newest(path, args)
    if not groups:
        raise SystemExit("peers: %s: no results for these options yet" % path)
    show_rows(groups)
    show_ratios(groups, args.isa, args.long)
