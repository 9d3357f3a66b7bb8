#!/usr/bin/env python3
"""tools/export.py: the folder has the tokenizer of the model file, with the tokens around a text, and its chat template.

    exporting_tokenizers.py [--live] [--only TEXT]

`tblock tokenize` of the folder answers as that of the model file; so does the library tokenizers, for one text and two, where it can be
imported. --live: so does transformers' AutoTokenizer. Recorded tokenizers are those of the fixtures."""
import functools
import json
import pathlib
import shutil
import struct
import sys
import tempfile

from exporting import ROOT, TBLOCK, Failure, export, run, run_claims

sys.path.insert(0, str(ROOT / "tests"))
import testdata  # noqa: E402

FIXTURES = testdata.FIXTURES / "tokenizers"
SOURCES = tempfile.TemporaryDirectory()
# what goes around a text: ids before, ids behind
RECORDED = {"bpe-gpt2": ([], []), "bpe-llama3": ([1200], []), "bpe-qwen2": ([], []), "bpe-smollm": ([], []), "llama3-tiktoken": ([128000], []),
            "spjson-gemma": ([1], []), "spjson-legacy": ([1], []), "spjson-metaspace": ([1], [])}
SENTENCEPIECE = ("llama2-sp", "sp-bpe", "stories-sp512")
VOCABULARY = {"llama2-sp": 32000, "llama3-tiktoken": 128256}  # the others have less than 1300 tokens
TEXTS = ["", " ", "hello", " hello  world ", "Hello WORLD\n\n  12345 it's", "cafe\u0301 ﬁne ½ \u212b \U0001F600\u200d", "[a] <b>hello<b> </s>x <s>",
         "a-b-c ... d", "\u2581x \u2581\u2581y", "tail <b> ", "<s><b></s>", "hellohello xx<b>xx"]


# ---- Tokenizers made here ----

def bytes_in_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]


def special(token, i, **flags):
    return {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **flags}


def template(before, after):
    """before, after: {token: ids}"""
    around = [*({"SpecialToken": {"id": t, "type_id": 0}} for t in before), {"Sequence": {"id": "A", "type_id": 0}},
              *({"SpecialToken": {"id": t, "type_id": 0}} for t in after)]
    return {"type": "TemplateProcessing", "single": around, "pair": around,
            "special_tokens": {t: {"id": t, "ids": ids, "tokens": ["x"] * len(ids)} for t, ids in {**before, **after}.items()}}


def byte_level(**parts):
    """256 bytes, a few words, <s> 262, </s> 263, <b> 264."""
    words = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("x", "x")]
    vocab = {c: i for i, c in enumerate(bytes_in_characters() + [a + b for a, b in words])}
    model = {"type": "BPE", "vocab": vocab, "merges": [list(w) for w in words], **parts.pop("model", {})}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "added_tokens": [special("<s>", 262), special("</s>", 263), special("<b>", 264)], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level, "model": model, **parts}


def characters(**parts):
    pieces = ["<unk>", "<s>", "</s>", "\u2581", *"abcdehlortwxy<>/s[].,'", "he", "ll", "hell", "hello", "\u2581hello"]
    merges = [["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], ["\u2581", "hello"]]
    return {"version": "1.0", "added_tokens": [special(t, i) for i, t in enumerate(pieces[:3])], "normalizer": None,
            "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
            "post_processor": template({"<s>": [1]}, {"</s>": [2]}),
            "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
            "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "vocab": {p: i for i, p in enumerate(pieces)}, "merges": merges},
            **parts}


def unigram():
    return {"version": "1.0", "added_tokens": [special("<unk>", 0)], "normalizer": None, "post_processor": None,
            "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
            "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
            "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["\u2581", -2]]}}


def steps(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def split(behavior, regex, invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


NO_REGEX = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
MADE = {
    "nothing_around": (byte_level(), ([], [])),
    "begin_and_end": (byte_level(post_processor=template({"<s>": [262]}, {"</s>": [263]})), ([262], [263])),
    "many_around": (byte_level(post_processor=template({"<s>": [262], "two": [264, 262]}, {"word": [260], "</s>": [263]})),
                    ([262, 264, 262], [260, 263])),
    "nfc": (byte_level(normalizer={"type": "NFC"}), ([], [])),
    "normalizers": (byte_level(normalizer=steps(
        "normalizers", {"type": "NFKD"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False},
        {"type": "Replace", "pattern": {"String": "1"}, "content": "one"}, {"type": "Replace", "pattern": {"Regex": "o+"}, "content": "0"},
        {"type": "Prepend", "prepend": "-"})), ([], [])),
    "strip_right": (byte_level(normalizer=steps("normalizers", {"type": "NFD"}, {"type": "Strip", "strip_left": False, "strip_right": True})),
                    ([], [])),
    "splits": (byte_level(pre_tokenizer=steps(
        "pretokenizers", split("MergedWithPrevious", "-"), split("MergedWithNext", "\\["), split("Removed", "\\."), split("Contiguous", "x"),
        split("Isolated", "\\p{L}+", True), NO_REGEX)), ([], [])),
    "metaspace_before_bytes": (byte_level(pre_tokenizer=steps(
        "pretokenizers", {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}, NO_REGEX)), ([], [])),
    "space_in_front": (byte_level(pre_tokenizer={**NO_REGEX, "add_prefix_space": True, "use_regex": True}), ([], [])),
    "space_in_front_of_one_word": (byte_level(pre_tokenizer={**NO_REGEX, "add_prefix_space": True}), ([], [])),
    "flags_of_added_tokens": (byte_level(added_tokens=[
        special("<s>", 262, lstrip=True), special("</s>", 263, rstrip=True), special("<b>", 264, single_word=True),
        special("WORLD", 265, normalized=True), special("it", 266, special=False)], normalizer={"type": "Lowercase"}), ([], [])),
    "gaps_between_ids": (byte_level(added_tokens=[special("<s>", 270), special("</s>", 275), special("<b>", 299)], model={"ignore_merges": True},
                                    post_processor=template({"<s>": [270]}, {})), ([270], [])),
    "characters": (characters(), ([1], [2])),
    "characters_with_space_stripped": (characters(pre_tokenizer=None, normalizer=steps(
        "normalizers", {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}),
        decoder=steps("decoders", {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                      {"type": "Strip", "content": " ", "start": 1, "stop": 0})), ([1], [2])),
}


# ---- Comparisons ----

def metadata(model):
    with open(model, "rb") as f:
        return json.loads(f.read(int.from_bytes(f.read(8), "little")))["__metadata__"]


@functools.lru_cache(maxsize=None)
def without_tokenizer(size):
    """A Hugging Face folder of random weights, made once: nobody writes to it."""
    folder = pathlib.Path(SOURCES.name) / str(size)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 16, "vocab_size": size}))
    run(TBLOCK, "synth", folder / "config.json", "-o", folder / "weights.bin", "--quiet")
    export(folder / "weights.bin", folder / "source")
    return folder / "source"


def model_with(folder, tokenizer, size=1300):
    run(TBLOCK, "convert", without_tokenizer(size), "--tokenizer", tokenizer, "-o", folder / "m.bin", "--quiet")
    return folder / "m.bin"


def answers(model, requests, folder):
    (folder / "requests.jsonl").write_text("".join(json.dumps(r) + "\n" for r in requests))
    return [json.loads(line) for line in run(TBLOCK, "tokenize", model, "--jsonl", folder / "requests.jsonl").stdout.splitlines()]


def encode(model, texts, folder, add_special):
    return [a["ids"] for a in answers(model, [{"text": t, "mode": "special", "add_special": add_special} for t in texts], folder)]


def same_answers(model, exported, requests, folder):
    """The answers, which are the same."""
    ours, theirs = answers(model, requests, folder), answers(exported, requests, folder)
    wrong = [i for i, request in enumerate(requests) if ours[i] != theirs[i]]
    if len(ours) != len(requests) or len(theirs) != len(requests) or wrong:
        i = (wrong or [0])[0]
        raise Failure(f"{len(wrong)} of {len(requests)} differ, first {requests[i]}: expected {ours[i]}, found {theirs[i]}")
    return theirs


def stands_around(around, requests, found):
    """Two requests in turn: with the tokens around the text, and without."""
    for request, with_special, plain in zip(requests[::2], found[::2], found[1::2]):
        if with_special["ids"] != around[0] + plain["ids"] + around[1]:
            raise Failure(f"{request}: expected {plain['ids']} between {around}, found {with_special['ids']}")


def library(folder):
    """The library tokenizers as texts -> ids, None where it cannot be imported."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda *texts: tokenizer.encode(*texts).ids


def transformers(folder):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda *texts: tokenizer(*texts)["input_ids"]


def same_ids_elsewhere(others, model, folder, texts, around):
    """One text, and two: what goes around one goes around each. (A second one that is empty is none to transformers.)"""
    (before, after), second = around, "hello"
    *plain, more = encode(model, [*texts, second], folder, False)
    for text, ids in zip(texts, plain):
        for name, other in others.items():
            for asked, expected in (((text,), before + ids + after), ((text, second), before + ids + after + before + more + after)):
                if other(*asked) != expected:
                    raise Failure(f"{name}: {asked}: expected {expected}, found {other(*asked)}")


def compare(model, folder, around, live, requests=(), texts=TEXTS):
    exported = folder / "hf"
    if export(model, exported).stderr:
        raise Failure("the export warns")
    asked = [{"text": t, "mode": mode, "add_special": add} for t in texts for mode in ("special", "plain") for add in (True, False)]
    decodes = [{"ids": around[0] + ids + around[1]} for ids in encode(model, texts, folder, False)]
    found = same_answers(model, exported, [*asked, *decodes, *requests], folder)
    stands_around(around, asked, found[:len(asked)])
    if len({run(TBLOCK, "tokenize", m, "--text", "<s> hello\nworld", "--special").stdout for m in (model, exported)}) != 1:
        raise Failure("tblock tokenize --text: the folder has other ids")
    run(TBLOCK, "convert", exported, "-o", folder / "again.bin", "--quiet")
    settings = [json.loads(metadata(m)["tokenizer"]) for m in (model, folder / "again.bin")]
    if settings[0] != settings[1]:
        raise Failure(f"converted again: expected {settings[0]}, found {settings[1]}")
    others = {"tokenizers": library(exported), "transformers": transformers(exported) if live else None}
    same_ids_elsewhere({name: other for name, other in others.items() if other}, model, folder, texts, around)
    return found[len(asked) + len(decodes):]


# ---- Claims ----

def made(name, folder, live):
    tokenizer, around = MADE[name]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    compare(model_with(folder, folder / "tokenizer.json"), folder, around, live)


def recorded(name, folder, live):
    """The answers of the recorded cases are the reference's; asked for the tokens around them too, those of the model file."""
    source = next(p for p in (FIXTURES / name / "tokenizer.json", FIXTURES / name / "tokenizer.model") if p.exists())
    cases = [json.loads(line) for line in (FIXTURES / name / "cases.jsonl").read_text().splitlines()]
    asked = [c for c in cases if c["mode"] != "decode"]
    requests = [{k: c[k] for k in ("text", "bytes_hex", "mode", "add_special") if k in c} for c in asked]
    found = compare(model_with(folder, source, VOCABULARY.get(name, 1300)), folder, RECORDED[name], live,
                    [*requests, *({**r, "add_special": True} for r in requests), *({"ids": c["ids"]} for c in cases)])
    for case, answer in zip(asked, found):
        if answer["ids"] != case["ids"]:
            raise Failure(f"{case}: found {answer}")


def our_llama3_model(folder, live):
    source = ROOT / "tests" / "data" / "models" / "llama3-e2e"
    run(TBLOCK, "convert", source, "-o", folder / "m.bin", "--quiet")
    compare(folder / "m.bin", folder, ([507], []), live)
    named = json.loads((folder / "hf" / "tokenizer_config.json").read_text())
    if any(named.get(k) != json.loads((source / "tokenizer_config.json").read_text())[k] for k in ("bos_token", "eos_token")):
        raise Failure(f"bos_token, eos_token: found {named}")
    sequences = json.loads((source / "golden.json").read_text())["sequences"]
    if encode(folder / "hf", [q["prompt_text"] for q in sequences], folder, False) != [q["tokens"] for q in sequences]:
        raise Failure("the prompts have other ids than the recorded ones")


def left_out(model, folder, *says):
    """The weights are written, and one line says why there is no tokenizer."""
    said = export(model, folder / "hf").stderr.decode()
    if said.count("\n") != 1 or any(s not in said for s in (str(model), "left out", *says)):
        raise Failure(f"expected one line with {says}, found: {said}")
    if (folder / "hf" / "tokenizer.json").exists() or not (folder / "hf" / "model.safetensors").exists():
        raise Failure("expected weights and no tokenizer")


def recorded_sentencepiece_is_left_out_by_name(name, folder, live):
    left_out(model_with(folder, FIXTURES / name / "tokenizer.model", VOCABULARY.get(name, 1300)), folder, "type", "found spm (SentencePiece")


def what_no_tokenizer_json_says_is_left_out_by_name(folder, live):
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"a", b" ", b" a"]
    llama2c = struct.pack("<i", 8) + b"".join(struct.pack("<fi", -i, len(p)) + p for i, p in enumerate(pieces))
    own_split = byte_level(pre_tokenizer=steps("pretokenizers", split("Isolated", " "), NO_REGEX))
    for name, tokenizer, change, says in (
            ("spm", llama2c, {}, "found spm (SentencePiece, BPE)"), ("unigram", unigram(), {}, "found unigram (Unigram of a tokenizer.json)"),
            ("prefix", own_split, {"add_prefix_space": True}, "add_prefix_space"),
            ("charsmap", own_split, {"normalizer": [{"charsmap": True}]}, "found charsmap")):
        one = folder / name
        one.mkdir()
        (one / "tokenizer").write_bytes(tokenizer if name == "spm" else json.dumps(tokenizer).encode())
        model = model_with(one, one / "tokenizer", len(pieces) if name == "spm" else 300)
        change_metadata(model, lambda m, c=change: m.update(tokenizer=json.dumps({**json.loads(m["tokenizer"]), **c})))
        left_out(model, one, says)


# ---- Chat ----

CHAT = ("{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system text, \u00e9') }}{% endif %}{{ bos_token }}"
        "{% for m in messages %}{{ '<b>' + m['role'] + '\n' + m['content'] | trim + '</s>' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<b>assistant\n' }}{% endif %}")
ASKED = [{"role": "user", "content": " hello "}, {"role": "assistant", "content": "it's"}, {"role": "user", "content": "x"}]
RENDERED = "<s><b>user\nhello</s><b>assistant\nit's</s><b>user\nx</s><b>assistant\n"


def change_metadata(model, change):
    """The data stay where they are: the header's padding takes what is longer."""
    data = model.read_bytes()
    n = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + n])
    change(header["__metadata__"])
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 4096)
    model.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + n:])


def chat_model(folder, convert):
    source = shutil.copytree(without_tokenizer(300), folder / "source")
    (source / "tokenizer.json").write_text(json.dumps(byte_level()))
    (source / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>", "chat_template": CHAT}))
    run(*convert, source, "-o", folder / "m.bin", "--quiet")
    return folder / "m.bin"


def chat_template_round_trip(folder, live):
    """The template is the same in the folder, and in the model file that is made of it."""
    convert = [sys.executable, ROOT / "tools" / "convert.py"]
    model = chat_model(folder, convert)
    if export(model, folder / "hf").stderr:
        raise Failure("the export warns")
    found = json.loads((folder / "hf" / "tokenizer_config.json").read_text())["chat_template"]
    if found != CHAT:
        raise Failure(f"chat_template: expected {CHAT!r}, found {found!r}")
    for program in (convert, [TBLOCK, "convert"]):
        run(*program, folder / "hf", "-o", folder / "again.bin", "--quiet")
        first, again = metadata(model), metadata(folder / "again.bin")
        if again.get("chat_template") != CHAT or again["special_tokens"] != first["special_tokens"]:
            raise Failure(f"{program[0]}: another chat: {again}")
    if live:
        from transformers import AutoTokenizer
        found = AutoTokenizer.from_pretrained(folder / "hf").apply_chat_template(ASKED, tokenize=False, add_generation_prompt=True)
        if found != RENDERED:
            raise Failure(f"transformers renders {found!r}, expected {RENDERED!r}")


def chat_template_without_a_tokenizer(folder, live):
    model = chat_model(folder, [TBLOCK, "convert"])
    change_metadata(model, lambda m: m.pop("tokenizer"))
    if export(model, folder / "hf").stderr or json.loads((folder / "hf" / "tokenizer_config.json").read_text()) != {"chat_template": CHAT}:
        raise Failure("expected the chat template alone")


def chat_format_without_its_program_is_named(folder, live):
    model = chat_model(folder, [TBLOCK, "convert"])
    form = {"version": 1, "name": "plain talk", "user": "{content}", "assistant": "{content}", "open": ""}
    change_metadata(model, lambda m: (m.pop("chat_template"), m.update(chat=json.dumps(form))))
    said = export(model, folder / "hf").stderr.decode()
    if said.count("\n") != 1 or "chat entry plain talk is left out" not in said or "m.bin" not in said:
        raise Failure(f"expected one line that names the format, found: {said}")
    if "chat_template" in json.loads((folder / "hf" / "tokenizer_config.json").read_text()):
        raise Failure("a chat template from nowhere")


CLAIMS = {**{f"made_{name}": functools.partial(made, name) for name in MADE},
          **{f"recorded_{name}": functools.partial(recorded, name) for name in RECORDED},
          **{f"recorded_{name}_is_left_out": functools.partial(recorded_sentencepiece_is_left_out_by_name, name) for name in SENTENCEPIECE},
          **{f.__name__: f for f in (our_llama3_model, what_no_tokenizer_json_says_is_left_out_by_name, chat_template_round_trip,
                                    chat_template_without_a_tokenizer, chat_format_without_its_program_is_named)}}


def skipped(name):
    recorded = name.removeprefix("recorded_").removesuffix("_is_left_out")
    return f"no data ({recorded})" if name.startswith("recorded_") and not (FIXTURES / recorded).is_dir() else None


if __name__ == "__main__":
    sys.exit(run_claims(CLAIMS, skipped, __doc__))
