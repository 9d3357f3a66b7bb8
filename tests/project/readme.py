#!/usr/bin/env python3
"""What README.md says is true: its commands run as copied, its output is what they print, its figures are computed again.

  tests/project/readme.py [--picture]     --picture: write docs/block.svg anew and do nothing else

A fenced block "sh" runs with bash in a fresh copy of the project, of its own, with the program at build/release/tblock. A
block "text" right behind it is its standard output, where a line "..." matches any lines (tests/cli/matches.bash). Of a
block "sh no-test", and of commands between backquotes, the names are checked: commands and options of tblock against its
help, targets and variables of make against the Makefile. The other pages, docs/ among them, are held to their links, widths and
to the names of commands, options, files and functions that they mention. $TBLOCK is the program."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Failure, Skip, attempt, need  # noqa: E402

BUILD = os.environ.get("BUILD", "build/release")
TBLOCK = str(pathlib.Path(os.environ.get("TBLOCK", ROOT / BUILD / "tblock")).absolute())
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "models/README.md", "bench/peers/README.md", "bench/serve/README.md",
         "tests/data/README.md", *sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("docs/*.md")))
PICTURE = ROOT / "docs/block.svg"
LIMIT = 900  # seconds for the commands of a block, most of them for a busy machine

# other programs that a reader may be told to type
OTHERS = {"apt", "cc", "curl", "echo", "export", "git", "hf", "jq", "mpirun", "pip", "podman", "printf", "pytest", "sed", "source", "fuzz_json",
          "regression_test.sh"}
# and options that pages name of them, or of tblock's scripts
OPTIONS = {"--batch_size", "--cflags", "--clean", "--first-seed", "--golden-record", "--hostfile", "--ignore-missing", "--interleave", "--junitxml",
           "--libs", "--list", "--local-dir", "--mca", "--model", "--model_args", "--mxfp4", "--oversubscribe", "--part", "--priority", "--product",
           "--python", "--build", "--target", "--no-binary", "--no-deps", "--record", "--run", "--static", "--table",
           "--tasks", "--tblock-model", "--torch-index"}
# what other programs have and tblock answers with a hint (docs/commands.md)
OPTIONS |= {"--api-key", "--flash-attn", "--model-url", "--no-mmap", "--stream"}
# before a command, and what stands between two
BEFORE, BETWEEN = {"sudo"}, {"|", "||", "&&", ";", "&", "(", ")", "<(", "$("}


def tblock(*arguments):
    return subprocess.run([TBLOCK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, encoding="utf-8", check=True).stdout


# ---- The parts of the page ----

def blocks():
    """(line number, words behind the fence, text, the block of text right behind it or None)"""
    found = [(README[:m.start()].count("\n") + 1, m.group(1).split(), m.group(2), m.end())
             for m in re.finditer(r"^```(.*)\n((?:.*\n)*?)```$", README, re.M)]
    for i, (line, words, text, end) in enumerate(found):
        behind = found[i + 1] if i + 1 < len(found) else None
        shown = behind and behind[1] == ["text"] and README.find("```", end) == README.find("```text", end) \
            and not README[end:README.find("```", end)].strip()
        yield line, words, text, behind[2] if shown else None


def prose():
    return re.sub(r"^```.*\n(?:.*\n)*?```$", "", README, flags=re.M)


# ---- Commands run ----

def too_large(folder, names):
    skip = {".git", ".venv", ".venv-clients", "build", "__pycache__"} & set(names) if pathlib.Path(folder) == ROOT else set()
    return skip | {n for n in names if os.path.isfile(os.path.join(folder, n)) and os.path.getsize(os.path.join(folder, n)) > 20 << 20}


def runs_as_copied(text, shown):
    if re.search(r"(san|coverage)$", BUILD):
        raise Skip("takes minutes in this build")
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "tblock"
        shutil.copytree(ROOT, clone, ignore=too_large, symlinks=True)
        (clone / "build/release").mkdir(parents=True)
        (clone / "build/release/tblock").symlink_to(TBLOCK)
        try:
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=clone, timeout=LIMIT, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
        except subprocess.TimeoutExpired:
            raise Failure(f"took longer than {LIMIT} s")
        if "libopenblas.so.0 cannot be loaded" in done.stderr:
            raise Skip("no libopenblas.so.0")
        need(done.returncode == 0, f"status {done.returncode}: {done.stderr[-400:]}")
        if shown is None:
            return
        expected, actual = pathlib.Path(folder) / "expected", pathlib.Path(folder) / "actual"
        expected.write_text(shown, encoding="utf-8")
        actual.write_text(done.stdout, encoding="utf-8")
        same = subprocess.run(["bash", "-c", '. tests/cli/matches.bash; matches "$1" "$2"', "matches", expected, actual], cwd=ROOT)
        need(same.returncode == 0, f"it prints: {done.stdout}")


# ---- Commands named ----

HELP = {}


def options_of(command):
    if command not in HELP:
        HELP[command] = set()
        for letter, name in re.findall(r"^ +(?:(-\w), )?(--[\w-]+)", tblock("help", command), re.M):
            HELP[command] |= {letter, name}
    return HELP[command]


def check_tblock(words):
    if not words or words[0].startswith("-"):
        known = {"--version", "-V", "--help", "-h"}
        need(not words or words[0] in known, f"tblock {words[0]}: no such option")
        return
    commands = set(re.findall(r"^  (\w+) ", tblock("help").split("Commands:")[1].split("\n\n")[0], re.M))
    need(words[0] in commands, f"tblock {words[0]}: no such command")
    for word in words[1:]:
        if re.match(r"--?[a-zA-Z]", word):
            need(word.split("=")[0] in options_of(words[0]), f"tblock {words[0]} {word}: no such option")


def check_make(words):
    makefile = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "packaging/package.mk"))
    for word in words:
        name, is_variable, _ = word.partition("=")
        pattern = rf"^(ifeq .*|ifneq .*|.*[^\w]|){name}\b" if is_variable else rf"^{re.escape(name)}:"
        need(word.startswith("-") or re.search(pattern, makefile, re.M), f"make {word}: not in the Makefile")


def check_command(words):
    while words and words[0] in BEFORE:
        words = words[1:]
    if not words:
        return
    name, rest = words[0].rsplit("/", 1)[-1], words[1:]
    if name == "tblock":
        check_tblock(rest)
    elif name == "make":
        check_make(rest)
    else:
        need(name in OTHERS or (ROOT / words[0]).is_file(), f"{words[0]}: a program that tests/project/readme.py does not know")


def check_line(line):
    words, command, skip = shlex.shlex(line, posix=True, punctuation_chars="();<>|&"), [], False
    words.whitespace_split = True
    for word in words:
        if word in BETWEEN or set(word) <= set("();|&"):
            check_command(command)
            command = []
        elif set(word) <= set("<>&"):
            skip = True  # what follows is a file
        elif word.startswith("$"):
            continue
        elif skip:
            skip = False
        else:
            command.append(word)
    check_command(command)


def names_exist(text):
    for line in text.replace("\\\n", " ").splitlines():
        line = re.sub(r"\$\(([^)]*)\)", "", line)
        check_line(line)


def commands_in_prose_exist():
    spans = [s for s in re.findall(r"`([^`]+)`", prose()) if re.match(r"(build/release/)?tblock |make |source ", s)]
    need(len(spans) > 5, f"only {len(spans)} found")
    for span in spans:
        names_exist(span)


def other_pages():
    """(name, text) of the pages that say what is so now. A changelog also names what is gone."""
    return [(page, (ROOT / page).read_text(encoding="utf-8")) for page in PAGES if page not in ("README.md", "CHANGELOG.md")]


def commands_of_other_pages_exist():
    blocks = [(page, b) for page, text in other_pages() for b in re.findall(r"^```sh$(.*?)^```$", text, re.M | re.S)]
    need(len(blocks) > 10, f"only {len(blocks)} found")
    for page, block in blocks:
        try:
            names_exist(block)
        except Failure as e:
            raise Failure(f"{page}: {e}")


def options_of_other_pages_exist():
    commands = re.findall(r"^  (\w+) ", tblock("help").split("Commands:")[1].split("\n\n")[0], re.M)
    known = OPTIONS.union(*(options_of(c) for c in commands))
    for command in commands:  # and the names of other programs
        known.update(re.findall(r"--[a-z-]+", tblock("help", command).partition("\nAlso read:")[2]))
    def beside(page):
        scripts = "".join(f.read_text(encoding="utf-8") for f in (ROOT / page).parent.glob("*.py"))
        return set(re.findall(r'add_argument\("(--[\w-]+)', scripts))
    gone = [f"{page}: {o}" for page, text in other_pages() for o in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)
            if not {o, o.replace("_", "-")} & known and o not in beside(page)]
    need(not gone, f"no such option: {gone}")


def files_and_functions_of_all_pages_exist():
    names = set(re.findall(r"\b\w+", "".join((ROOT / "src" / h).read_text(encoding="utf-8") for h in ("tblock.h", "tblock_tools.h"))))
    names |= {"TBLOCK_TEST_DATA", "TBLOCK_MPI", "TBLOCK_RANKS_TIMEOUT", "TBLOCK_RANKS_DELAY", "TBLOCK_RANKS_RATE",
              "TBLOCK_ISA"}  # of the environment
    for page, text in [("README.md", README), *other_pages()]:
        for path in re.findall(r"`((?:src|tests|tools|docs|bench)/[a-z0-9_./-]+)`", text):
            need((ROOT / path).exists(), f"{page}: {path}: no such file")
        for name in re.findall(r"\b(?:tblock|TBLOCK)_\w+", text):
            need(name in names, f"{page}: {name}: not in the public headers")


# ---- Links, widths, figures ----

def anchors(path):
    heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", h.replace("`", "")).strip().lower().replace(" ", "-") for h in heads}


def links_lead_somewhere():
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)]+)\)", text) + re.findall(r'src(?:set)?="([^"]+)"', text):
            if re.match(r"https?:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (ROOT / page).parent / path if path else ROOT / page
            need(file.exists(), f"{page}: {target}: no such file")
            need(not anchor or anchor in anchors(file), f"{page}: {target}: no such heading")


def every_document_is_linked():
    missing = [p.name for p in sorted((ROOT / "docs").glob("*.md")) if f"(docs/{p.name})" not in README]
    need(not missing, f"no link to {missing}")


def prose_is_at_most_100_columns():
    for page in PAGES:
        for i, line in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1):
            need(len(line) <= 100 or line.lstrip().startswith("|"), f"{page}:{i}: {len(line)} columns")


def gb(n_bytes):
    return f"{n_bytes / 1e9:.2f} GB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"


def memory_is_what_info_says():
    rows = re.findall(r"^\| \[[^]]*\]\((models/[\w.-]+\.json)\) \|(.*)\|$", README, re.M)
    need(len(rows) >= 5, f"only {len(rows)} rows found")
    for config, figures in rows:
        expected = []
        for weights, kv_type in (("bf16", "f32"), ("q8", "f16"), ("q4", "f16")):
            info = json.loads(tblock("info", config, "--type", weights, "--json"))
            cache = info["kv_bytes_per_token"][kv_type] * min(4096, info["config"]["n_ctx"])
            expected.append(gb(info["memory"]["total"] - info["memory"]["kv_cache"] + cache))
        expected.append(gb(cache))
        found = [f.strip() for f in figures.split("|")]
        need(found == expected, f"{config}: README says {found}, tblock info {expected}")


def files_to_read_are_as_long_as_the_page_says():
    for pattern in (r"\]\((src/runtime/forward\.c)\), (\d+) lines", r"\]\((docs/examples/one_file\.c)\)[^.]*: (\d+) lines",
                    r"\]\((docs/examples/one_file_train\.c)\)[^.]*: (\d+) lines"):
        path, lines = re.search(pattern, README).groups()
        found = (ROOT / path).read_text(encoding="utf-8").count("\n")
        need(found == int(lines), f"README says {lines} lines, {path} has {found}")


def changelog_begins_with_this_version():
    version = re.search(r'^#define TBLOCK_VERSION "(.*)"', (ROOT / "src/tblock.h").read_text(), re.M).group(1)
    first = re.search(r"^## \[?([\d.]+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M).group(1)
    need(version == first, f"TBLOCK_VERSION is {version}, the changelog begins with {first}")


# ---- The picture ----

def drawing():
    """The drawing of a block on the page of info, as a file of its own: its colours, a card behind it."""
    with tempfile.TemporaryDirectory() as folder:
        tblock("info", "models/llama-3-8b.json", "--html", f"{folder}/page.html")
        page = pathlib.Path(folder, "page.html").read_text(encoding="utf-8")
    svg = re.search(r'<svg class="flow-svg" viewBox="0 0 (\d+) (\d+)".*?</svg>', page, re.S)
    style = page[page.index("<style>") + 7:page.index("</style>")]
    rules = re.findall(r"^:root.*|^@media\(prefers-color-scheme:dark\).*|(?<![-\w.])svg [^{}]*\{[^}]*\}", style, re.M)
    rules = [r for r in rules if not re.match(r"svg (text\.c|\.line|\.dash|\.mark|\.halo|\.grid|\.axis)", r)]
    width, height = int(svg.group(1)), int(svg.group(2))
    inner = svg.group(0).split(">", 1)[1]
    used = set(re.findall(r"var\((--\w+)\)", inner + "".join(rules))) | {"--card"}
    rules = [re.sub(r"(--\w+):[^;}]*;?", lambda m: m.group(0) if m.group(1) in used else "", r) for r in rules]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -14 {width} {height + 28}" width="{width}" height="{height + 28}">\n'
            "<title>One block of Llama 3 8B, drawn by tblock info --html</title>\n<style>\n" + "\n".join(rules) + "\n"
            f'</style>\n<rect y="-14" width="{width}" height="{height + 28}" rx="12" fill="var(--card)"/>\n' + inner + "\n")


def picture_is_what_the_program_draws():
    need(PICTURE.read_text(encoding="utf-8") == drawing(), "docs/block.svg differs: tests/project/readme.py --picture, and look at it")


def claims():
    for line, words, text, shown in blocks():
        if words == ["sh"]:
            yield f"runs_as_copied_line_{line}", lambda text=text, shown=shown: runs_as_copied(text, shown)
        if words[:1] == ["sh"]:
            yield f"names_exist_line_{line}", lambda text=text: names_exist(text)
        need(words in (["sh"], ["sh", "no-test"], ["text"]), f"line {line}: a block of another kind: {words}")
    for claim in (commands_in_prose_exist, commands_of_other_pages_exist, options_of_other_pages_exist,
                  files_and_functions_of_all_pages_exist, links_lead_somewhere, every_document_is_linked, prose_is_at_most_100_columns,
                  memory_is_what_info_says, files_to_read_are_as_long_as_the_page_says, changelog_begins_with_this_version,
                  picture_is_what_the_program_draws):
        yield claim.__name__, claim


def main():
    if sys.argv[1:] == ["--picture"]:
        PICTURE.write_text(drawing(), encoding="utf-8")
        return 0
    return sum(attempt("readme_" + name, claim) for name, claim in claims()) > 0


if __name__ == "__main__":
    sys.exit(main())
