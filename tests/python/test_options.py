#!/usr/bin/env python3
"""The options that type checkers and editors see are those of the library; a wrong one is answered with what to write, in the words of
llama-cpp-python, transformers and vLLM too. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import inspect
import os
import shutil

from package import MODEL, raises, run_claims, tblock, temp
import numpy as np
from tblock import options
from tblock._c import ffi

# {kind: the struct; what Python fills in itself}
STRUCTS = {"EmbedOptions": ("embed", ()), "EvalOptions": ("eval", ()), "ChoicesOptions": ("choices", ()), "VerifyOptions": ("verify", ["has_tol"]),
           "LogitsOptions": ("logits", ()), "AttentionOptions": ("attention", ()), "ReportTextOptions": ("report", ()),
           "ReportOptions": ("report", ["json", "colour"]), "BlockOptions": ("block", ["json", "colour"]), "ConvertOptions": ("convert", ()),
           "QuantizeOptions": ("quantize", ["type", "calibrate_bytes"]), "SynthOptions": ("synth", ()), "TrainOptions": ("train", ()),
           "GradOptions": ("grad", ()), "GradCheckOptions": ("grad_check", ()), "MeasureOptions": ("measure", ["model"])}


def _kinds(kind):
    return {name: getattr(a, "__forward_arg__", a) for name, a in getattr(options, kind).__annotations__.items()}


def _keywords(function):
    return {p.name: p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name[0] != "_"}


def what_checkers_see_is_what_the_library_has():
    python = {"_Bool": "bool", "double": "float", "char *": "str", "function": "Progress", "*": "Sequence"}
    for kind, (struct, own) in STRUCTS.items():
        fields = dict(ffi.typeof("tblock_%s_options" % struct).fields)
        names = {f for f in fields if f not in ("user", "go_on", *own) and not (f[:2] == "n_" and f[2:] in fields)}
        written = _kinds(kind)
        assert set(written) == names, (kind, set(written) ^ names)
        for name, a in written.items():
            c = fields[name].type
            if c.kind == "primitive":
                wanted = python.get(c.cname, "int")
                assert a in (wanted, "Optional[%s]" % wanted), (kind, name, a, wanted)
            else:
                assert "Optional" in a or (kind, name) == ("TrainOptions", "text"), (kind, name, a)
    assert set(_kinds("AdamW")) == {name for name, _ in ffi.typeof("tblock_adamw").fields}
    sampling = {name: type(usual).__name__ for name, (_, usual) in tblock._core.SAMPLING.items()}
    assert _kinds("SamplingOptions") == sampling


def what_is_handed_on_is_what_the_other_takes():
    for kind, method, other in (("ContextOptions", tblock.Model.context, tblock.Context), ("ChatOptions", tblock.Model.chat, tblock.Chat),
                                ("ConstraintOptions", tblock.Model.constraint, tblock.Constraint),
                                ("GenerateOptions", tblock.Model.generate, tblock.Context.generate), ("RerankOptions", tblock.Model.rerank, tblock.Context.rerank)):
        theirs, written = _keywords(other), _kinds(kind)
        assert set(written) == set(theirs), (kind, set(written) ^ set(theirs))
        shown = _keywords(method)  # what help() shows
        assert {n: p.default for n, p in shown.items()} == {n: p.default for n, p in theirs.items()}, kind
        for name, p in theirs.items():
            assert p.annotation == written[name], (kind, name, p.annotation, written[name])
    assert "threads: 'int' = None" in str(inspect.signature(tblock.convert))


def a_wrong_option_says_what_to_write():
    with tblock.Model(MODEL) as m, m.context() as c, m.chat(format="chatml") as chat:
        say = [{"role": "user", "content": "x"}]
        for words, function, given in (
                ("Model.generate: there is no option 'max_new_tokens'; write max_tokens", m.generate, {"prompt": "x", "max_new_tokens": 5}),
                ("Model.generate: there is no option 'stream'; what it returns is an iterator", m.generate, {"prompt": "x", "stream": True}),
                ("'do_sample'; temperature=0 takes the most probable token", m.generate, {"prompt": "x", "do_sample": True}),
                ("'temp'; write temperature", m.generate, {"prompt": "x", "temp": 0}),
                ("Context.generate: there is no option 'top_kk'; did you mean top_k?", c.generate, {"prompt": "x", "top_kk": 0}),
                ("'n_ctx'; n_ctx is an option of Model.context", m.generate, {"prompt": "x", "n_ctx": 64}),
                ("Model: there is no option 'n_ctx'; n_ctx is an option of Model.context", tblock.Model, {"path": MODEL, "n_ctx": 64}),
                ("Model: there is no option 'device'; tblock runs on the CPU; leave it out", tblock.Model, {"path": MODEL, "device": "cpu"}),
                ("Model: there is no option 'dtype'; write type", tblock.Model, {"path": MODEL, "dtype": "q8"}),
                ("Model: there is no option 'model'; it is the first argument, without a name", tblock.Model, {"model": MODEL}),
                ("Model: there is no option 'temperature'; temperature is an option of Model.generate", tblock.Model, {"path": MODEL, "temperature": 1}),
                ("Model: there is no option 'cache_dir'; a model opens from where it is; `tblock pull", tblock.Model, {"path": MODEL, "cache_dir": "x"}),
                ("Model.generate: there is no option 'input_ids'; it is the first argument", m.generate, {"input_ids": [1]}),
                ("Model.generate: there is no option 'typical_p'; there is no such sampler", m.generate, {"prompt": "x", "typical_p": 1}),
                ("Model.generate: there is no option 'grammar'; grammar is an option of Model.constraint", m.generate, {"prompt": "x", "grammar": "x"}),
                ("Model.context: there is no option 'thread'; write threads", m.context, {"thread": 2}),
                ("Context: there is no option 'n_threads'; write threads", tblock.Context, {"model": m, "n_threads": 2}),
                ("Model.chat: there is no option 'chat_format'; write format", m.chat, {"chat_format": "chatml"}),
                ("Chat.answer: there is no option 'max_new_tokens'; write max_tokens", chat.answer, {"messages": say, "max_new_tokens": 5}),
                ("Model.constraint: there is no option 'schema'; write json_schema", m.constraint, {"schema": {}}),
                ("Model.embed: there is no option 'pooling'; did you mean pool?", m.embed, {"texts": ["x"], "pooling": "last"}),
                ("Context.verify: there is no option 'exat'; did you mean exact?", c.verify, {"golden": "x", "exat": True}),
                ("convert: there is no option 'dtype'; write type", tblock.convert, {"source": MODEL, "target": temp("x"), "dtype": "q8"}),
                ("quantize: there is no option 'treads'; did you mean threads?", tblock.quantize, {"source": MODEL, "target": "x", "type": "q8", "treads": 1}),
                ("Tokenizer.encode: there is no option 'add_special'; did you mean add_special_tokens?", m.tokenizer.encode, {"text": "x", "add_special": True}),
                ("Tokenizer: there is no option 'paddin'; did you mean padding?", m.tokenizer, {"text": "x", "paddin": True}),
                ("measure: there is no option 'zzz'; expected one of: isa, read_bytes, threads", tblock.measure, {"zzz": 1})):
            e = raises(tblock.OptionError, words, function, **given)
            assert isinstance(e, TypeError) and isinstance(e, tblock.Error) and e.status == 2 and "\n" not in str(e) and "__init__" not in str(e)


def names_of_the_peers_end_in_one_line():
    with tblock.Model(MODEL) as m:
        for words, function in (('tblock has no LLM; write tblock.Model("model.gguf")', lambda: tblock.LLM("x")),
                                ("tblock has no Llama; write tblock.Model", lambda: tblock.Llama), ("tblock has no modle", lambda: tblock.modle),
                                ("tblock has no Contextt; did you mean Context?", lambda: tblock.Contextt),
                                ('Model has no from_pretrained; write tblock.Model("model.gguf"), or tblock.Model("ORG/NAME")',
                                 lambda: tblock.Model.from_pretrained("x")),
                                ("Model has no from_pretrained; write", lambda: m.from_pretrained("x")),
                                ("Model has no create_completion; write model.generate(prompt)", lambda: m.create_completion("x")),
                                ("Model has no vocabsize; did you mean vocab_size?", lambda: m.vocabsize)):
            e = raises(AttributeError, words, function)
            assert "\n" not in str(e)
        raises(tblock.UsageError, 'write model.generate("text")', m, "text")
        assert not hasattr(m, "from_pretrained") and not hasattr(tblock, "LLM")


def a_model_of_the_cache_opens_by_its_name():
    home, saved = temp("home"), {name: os.environ.get(name) for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME")}
    snapshot = os.path.join(home, "hub", "models--some--tiny", "snapshots", "0" * 40)
    os.makedirs(snapshot)
    os.makedirs(os.path.join(home, "hub", "models--some--tiny", "refs"))
    with open(os.path.join(home, "hub", "models--some--tiny", "refs", "main"), "w") as f:
        f.write("0" * 40)
    shutil.copy(MODEL, os.path.join(snapshot, "model.bin"))
    with open(os.path.join(snapshot, "extra.txt"), "w") as f:
        f.write("x")
    for name in saved:
        os.environ.pop(name, None)
    os.environ["HF_HOME"] = home
    try:
        with tblock.Model("some/tiny:model.bin") as m, tblock.Model(MODEL) as same:
            assert m.hash == same.hash and m.path == os.path.join(snapshot, "model.bin") and m.info().config == same.info().config
            assert np.array_equal(m.weights["final_norm"], same.weights["final_norm"])
        assert tblock.info("some/tiny:model.bin").config["d_model"] == 192
        tblock.quantize("some/tiny:model.bin", temp("tiny.bin"), "q8")
        raises(tblock.InputError, "some/other", tblock.Model, "some/other")
    finally:
        for name, value in saved.items():
            os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


if __name__ == "__main__":
    run_claims(globals())
