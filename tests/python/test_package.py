#!/usr/bin/env python3
"""The Python package: its answers are those of the program, by bits; its memory, threads, signals and errors are what docs/python.md
says. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import asyncio
import gc
import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import time

from package import MODEL, PACKAGE, PROGRAM, ROOT, TEXT, program, raises, run_claims, tblock, temp
from rope_model import rotating
import numpy as np
from safetensors.numpy import load_file, save_file


# ---- The program's answers ----


def a_drafter_changes_no_text():
    small = temp("small.bin")
    tblock.quantize(MODEL, small, type="q4")
    with tblock.Model(MODEL) as m, tblock.Model(small) as s:
        alone = [m.generate(TEXT, seed=i, max_tokens=40).run() for i in range(3)]
        with m.context(n_seqs=4, drafter=s) as c:
            found = [c.generate(TEXT, seed=i, max_tokens=40, draft=5) for i in range(3)]
            while any(g.end is None for g in found):
                c.advance(found)
            one = c.generate(TEXT, seed=0, max_tokens=40, draft=5).run()
            for a, b in zip([*alone, alone[0]], [*found, one]):
                assert a.text == b.text and list(a.ids) == list(b.ids) and a.end == b.end
            assert 0 < one.n_accepted <= one.n_proposed
        raises(tblock.UsageError, "drafter: expected a model", lambda: m.context(drafter=small))
        c = m.context(drafter=s)
        s.close()
        assert c.closed and not m.closed
    config = temp("other.json")
    with open(config, "w") as f:
        json.dump({"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64}, f)
    tblock.synth(config, temp("other.bin"))
    with tblock.Model(MODEL) as m, tblock.Model(temp("other.bin")) as other:
        raises(tblock.InputError, "draft: expected a tokenizer as", lambda: m.context(drafter=other))
        raises(tblock.InputError, "draft mtp: expected a layer", lambda: m.context(drafter="mtp"))
    with open(config, "w") as f:
        json.dump({"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 4, "n_ctx": 64, "mtp_layers": 1}, f)
    tblock.synth(config, temp("ahead.bin"))
    with tblock.Model(temp("ahead.bin")) as m, m.context(drafter="mtp") as c:
        found = [(m.generate([1, 2], seed=i, max_tokens=50).run(), c.generate([1, 2], seed=i, max_tokens=50, draft=3).run()) for i in range(5)]
        assert all(list(a.ids) == list(b.ids) and a.end == b.end for a, b in found)
        assert 0 < sum(b.n_accepted for _, b in found)


def ids_are_those_of_tokenize():
    with tblock.Model(MODEL) as m:
        for text in ("", TEXT, "naïve 🙂 \u0000 x", b"\xff\xfe raw"):
            line = {"bytes_hex": text.hex()} if isinstance(text, bytes) else {"text": text}
            answer = json.loads(program("tokenize", MODEL, "--jsonl", "-", given=json.dumps({**line, "add_special": True}).encode()))
            ids = m.tokenize(text)
            assert ids.dtype == np.int32 and not ids.flags.writeable and list(ids) == answer["ids"]
            assert m.token_bytes(ids) == (text if isinstance(text, bytes) else text.encode())


def texts_are_those_of_run():
    with tblock.Model(MODEL) as m:
        for options, given in (({}, []), ({"seed": 7}, ["--seed", "7"]), ({"temperature": 0}, ["--temp", "0"]),
                               ({"top_k": 5, "top_p": 0.7, "min_p": 0.02, "repeat_penalty": 1.2, "seed": 3},
                                ["--top-k", "5", "--top-p", "0.7", "--min-p", "0.02", "--repeat-penalty", "1.2", "--seed", "3"]),
                               ({"stop": "light"}, ["--stop", "light"]), ({"stop": ["the", "I"]}, ["--stop", "the", "--stop", "I"]),
                               ({"draft": 7, "temperature": 0}, ["--temp", "0", "--draft", "ngram"]),
                               ({"presence_penalty": 0.5, "frequency_penalty": 0.25}, ["--presence-penalty", "0.5",
                                                                                       "--frequency-penalty", "0.25"]),
                               ({"logit_bias": {10: -100.0, 44: 2.0}}, ["--logit-bias", "10=-100", "--logit-bias", "44=2"])):
            answer = json.loads(program("run", MODEL, "--prompt", TEXT, "-n", "40", "--json", *given))
            g = m.generate(TEXT, max_tokens=40, **options)
            assert "".join(g) == answer["text"] and g.text == answer["text"], options
            assert list(g.ids)[:len(answer["ids"])] == answer["ids"][-len(g.ids):] and g.end == answer["stop_reason"], options


def no_end_token_comes_before_min_tokens():
    with tblock.Model(MODEL) as m, m.context() as c:
        free = c.generate(TEXT, max_tokens=40, seed=3).run().ids
        ends = [int(free[5])]
        assert len(c.generate(TEXT, max_tokens=40, seed=3, stop_ids=ends).run().ids) < 6
        g = c.generate(TEXT, max_tokens=40, seed=3, stop_ids=ends, min_tokens=20, receipt=True).run()
        assert list(g.ids[:5]) == list(free[:5]) and len(g.ids) >= 20 and ends[0] not in g.ids
        receipt = g.receipt
        assert receipt["constraint"]["stop_ids"] == ends and [r.verdict for r in c.verify_receipts([receipt])] == ["holds"]
        other = {**receipt, "sampling": {**receipt["sampling"], "min_tokens": 1}}
        assert [r.verdict for r in c.verify_receipts([other])] == ["changed"]
        raises(tblock.UsageError, "min_tokens: expected", c.generate, TEXT, min_tokens=-1)


def a_rope_length_is_that_of_run():
    model, texts = rotating(temp("rotating.bin"), type="dynamic", factor=8, original_n_ctx=32), set()
    with tblock.Model(model) as m:
        for length, given in ((0, []), (32, ["--rope-length", "32"]), (100, ["--rope-length", "100"])):
            answer = json.loads(program("run", model, "--prompt", TEXT, "-n", "60", "--temp", "0", "--json", *given))
            with m.context(rope_length=length) as c:
                assert c.info().rope_length == answer["stats"]["rope_length"] == (length or m.n_ctx), c.info()
                text = "".join(c.generate(TEXT, max_tokens=60, temperature=0))
            assert text == answer["text"], (length, text, answer)
            texts.add(text)
        with m.context(rope_length=32) as c, m.context(rope_length=100) as other:
            c.decode(m.tokenize(TEXT))
            c.save_state(temp("rotating.state"), m.tokenize(TEXT))
            raises(tblock.InputError, "rope_length", other.load_state, temp("rotating.state"))
    assert len(texts) == 3, texts
    with tblock.Model(MODEL) as m:
        raises(tblock.UsageError, "rope_length", m.context, rope_length=32)


def _adapter(model, name, seed, rank=3, dtype=np.float32):
    """A folder as peft writes it, for q and v of every layer of a model."""
    folder = temp(name)
    os.makedirs(folder, exist_ok=True)
    parts, draw = {}, np.random.default_rng(seed)
    for layer in range(model.n_layers):
        for part, rows in (("q", model.heads), ("v", model.kv_heads)):
            at = "base_model.model.model.layers.%d.self_attn.%s_proj.lora_" % (layer, part)
            parts[at + "A.weight"] = draw.normal(0, 1 / model.d_model ** 0.5, (rank, model.d_model)).astype(dtype)
            parts[at + "B.weight"] = draw.normal(0, 0.3, (rows * model.head_dim, rank)).astype(dtype)
    save_file(parts, os.path.join(folder, "adapter_model.safetensors"))
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as f:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": ["q_proj", "v_proj"], "bias": "none"}, f)
    return folder


def adapters_are_those_of_run():
    def said(*lora):
        given = [a for text in lora for a in ("--lora", text)]
        return json.loads(program("run", MODEL, "--prompt", TEXT, "-n", "20", "--seed", "3", "--json", *given))["text"]
    with tblock.Model(MODEL) as m, tblock.Model(MODEL) as other:
        one, two = _adapter(m, "one", 1), _adapter(m, "two", 2)
        a, b = m.load_lora(one), m.load_lora(two, scale=0.5)
        options = {"max_tokens": 20, "seed": 3}
        texts = {(): said(), (a,): said(one), (b,): said(two + ":0.5"), (a, b): said(one, two + ":0.5"), (a.scaled(-2),): said(one + ":-2")}
        assert len(set(texts.values())) == len(texts), texts
        for lora, text in texts.items():
            assert str(m.generate(TEXT, lora=lora, **options)) == text, lora
        assert str(m.generate(TEXT, **options)) == texts[()]
        with m.context(n_seqs=4, lora=[a]) as c:  # many at once; the context's own stays what it is
            running = [(c.generate(TEXT, lora=x, **options), y) for x, y in ((None, (a,)), ([b], (b,)), ([], ()), ([a, b], (a, b)))]
            while any(g.end is None for g, _ in running):
                c.advance([g for g, _ in running if g.end is None])
            assert all(g.text == texts[y] for g, y in running), [g.text for g, _ in running]
            for g, _ in running:
                g.close()
            assert str(c.generate(TEXT, **options)) == texts[(a,)]
            own = c.generate(TEXT, receipt=True, **options).run().receipt
            plain = c.generate(TEXT, receipt=True, lora=[], **options).run().receipt
            assert a.hash in json.dumps(own) and a.hash not in json.dumps(plain)
            assert [r.verdict for r in c.verify_receipts([own, plain])] == ["holds", "other"]
            raises(tblock.UsageError, "that this model loaded", c.generate, TEXT, lora=[other.load_lora(one)])
            raises(tblock.UsageError, "finite", c.generate, TEXT, lora=[a.scaled(float("inf"))])
            raises(tblock.UsageError, "at most 16", c.generate, TEXT, lora=[a] * 17)
            raises(tblock.UsageError, "a list of adapters", c.generate, TEXT, lora=a)
            assert str(c.generate(TEXT, **options)) == texts[(a,)]  # a refusal changes nothing
        with m.context(lora=[a]) as c:
            assert not np.array_equal(c.logits(TEXT), m.context().logits(TEXT))
        raises(tblock.InputError, "cannot open", m.load_lora, temp("nothing"))
        merged = temp("merged.bin")
        assert tblock.convert(MODEL, merged, merge_lora=[one, (two, 0.5)]).n_params == m.n_params
        program("convert", MODEL, "-o", temp("same.bin"), "--merge-lora", one, "--merge-lora", two + ":0.5", "--quiet")
        with open(merged, "rb") as f, open(temp("same.bin"), "rb") as g:
            assert f.read() == g.read()
        raises(tblock.UsageError, "merge_lora", tblock.convert, MODEL, merged, merge_lora=one)
        raises(tblock.UsageError, "merge_lora", tblock.convert, MODEL, merged, merge_lora=[(one, "x")])


def receipts_are_those_of_run():
    with tblock.Model(MODEL) as m, m.context(n_seqs=2) as c:
        file = temp("receipt.json")
        program("run", MODEL, "--prompt", TEXT, "-n", "20", "--seed", "5", "--receipt", file, "--receipt-every", "4")
        with open(file, encoding="utf-8") as f:
            text = f.read()
        g = c.generate(TEXT, max_tokens=20, seed=5, receipt={"every": 4}).run()
        assert g.receipt == json.loads(text) and m.generate(TEXT, max_tokens=1).receipt is None
        changed = json.loads(text)
        changed["drawn"][7] ^= 1
        changed["text_sha256"] = hashlib.sha256(m.token_bytes(changed["drawn"])).hexdigest()
        rows = c.verify_receipts([text, text.encode(), g.receipt, changed])
        assert [r.verdict for r in rows] == ["holds"] * 3 + ["logits"] and rows[0].why == "" and rows[3].n_drawn == 20, rows
        assert rows[3].position == rows[3].n_given + 7 and rows[3].found == changed["drawn"][7], rows[3]
        changed["text_sha256"] = "0" * 64
        assert [r.verdict for r in c.verify_receipts([changed, text], block=0)] == ["text", "holds"]
        answer = m.chat(format="chatml").answer([{"role": "user", "content": "Who?"}], max_tokens=9, context=c, receipt=True)
        assert list(answer) is not None and len(answer.generation.receipt["chat"]["sha256"]) == 64
        assert c.verify_receipts([answer.generation.receipt])[0].verdict == "holds"
        raises(tblock.InputError, "receipt 1: receipt: unknown field", c.verify_receipts, [text, {"more": 1}])
        raises(TypeError, "every", c.generate, TEXT, receipt={"many": 1})


def a_record_brings_its_own_context():
    """A golden file, a state and receipts of a longer context than the model's own; docs/verify.md says the same of the program."""
    with tblock.Model(MODEL) as m:
        assert m.n_ctx == 256 and m.context(recorded=None).n_ctx == 256
        ids = np.resize(m.tokenize(TEXT), 290)
        with m.context(n_ctx=400) as c:
            c.write_logits(temp("long.safetensors"), ids)
            long = c.generate(ids, max_tokens=5, seed=1, receipt=True).run().receipt
            c.rewind()
            c.decode(ids, want="none")
            c.save_state(temp("long.state"), ids)
        with m.context() as c:
            short = c.generate(TEXT, max_tokens=5, seed=1, receipt=True).run().receipt
            raises(tblock.InputError, "context", c.verify, temp("long.safetensors"))
        with m.context(recorded=temp("long.safetensors")) as c:
            assert c.n_ctx >= 290 and c.verify(temp("long.safetensors"), exact=True).ok
        with m.context(recorded=temp("long.state")) as c:
            assert len(c.load_state(temp("long.state"))) == 290
        for given in (long, [short, json.dumps(long)], [long, short]):
            with m.context(recorded=given) as c:
                assert [r.verdict for r in c.verify_receipts([long, short])] == ["holds"] * 2 and c.n_ctx >= 295
        assert m.context(recorded=long, n_ctx=300).n_ctx == 300 and m.context(recorded=[]).n_ctx == 256
        raises(tblock.UsageError, "recorded: expected a path, a receipt or a list of receipts, found int", m.context, recorded=5)
        raises(tblock.InputError, "cannot open", m.context, recorded=temp("nothing"))
        raises(tblock.InputError, "receipt 0", m.context, recorded={"no": 1})
    rotated = rotating(temp("rotated.bin"), type="dynamic", factor=8, original_n_ctx=32)
    with tblock.Model(rotated) as m:
        made = []
        for length in (32, 100):
            with m.context(rope_length=length) as c:
                made.append(c.generate(TEXT, max_tokens=5, receipt=True).run().receipt)
            with m.context(recorded=made[-1]) as c:
                assert c.info().rope_length == length and c.verify_receipts(made[-1:])[0].verdict == "holds"
        raises(tblock.UsageError, "receipts of one rope_length, found 32 and 100", m.context, recorded=made)


def tokens_bring_their_log_probabilities():
    """Those of the distribution that the model has, from logits that are computed anew, whatever was sampled how."""
    with tblock.Model(MODEL) as m, m.context(n_seqs=3) as c:
        for options in ({}, {"temperature": 0, "draft": 4}, {"top_k": 5, "repeat_penalty": 1.3, "receipt": True}, {"stop": "the"}):
            g = c.generate(TEXT, max_tokens=30, seed=3, logprobs=4, **options).run()
            plain = c.generate(TEXT, max_tokens=30, seed=3, **{**options, "receipt": False}).run()
            assert g.text == plain.text and list(g.ids) == list(plain.ids) and plain.logprobs is None
            given = [*m.tokenize(TEXT), *g.ids]
            rows = c.logits(given)[len(given) - len(g.ids) - 1:-1].astype(np.float64)
            expected = rows - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) - rows.max(1, keepdims=True)
            assert len(g.logprobs) == len(g.ids) > 0
            for t, row, id in zip(g.logprobs, expected, g.ids):
                assert t.id == id and abs(t.logprob - row[id]) < 1e-12 and t.text == t.bytes.decode("utf-8", "replace")
                best = np.argsort(-row, kind="stable")[:4]
                assert [x.id for x in t.top] == list(best) and np.allclose([x.logprob for x in t.top], row[best], rtol=0, atol=1e-12)
            if "stop" not in options:
                assert b"".join(t.bytes for t in g.logprobs).decode() == g.text
            if options.get("receipt"):
                assert c.verify_receipts([g.receipt])[0].verdict == "holds"
            g.close(), plain.close()
        many = [c.generate(TEXT, max_tokens=9, seed=s, logprobs=s) for s in range(3)]
        while any(g.end is None for g in many):
            c.advance(many)
        alone = [m.generate(TEXT, max_tokens=9, seed=s, logprobs=s).run().logprobs for s in range(3)]
        assert [g.logprobs for g in many] == alone and [len(x.top) for a in alone for x in a] == [0] * 9 + [1] * 9 + [2] * 9
        raises(tblock.UsageError, "logprobs: expected 0 to 1024, found 1025", m.generate, TEXT, logprobs=1025)
        raises(tblock.UsageError, "logprobs", m.generate, TEXT, logprobs="4")
    no_words = temp("no-words.bin")
    with open(temp("tiny.json"), "w") as f:
        json.dump({"d_model": 16, "n_layers": 1, "heads": 2, "d_ff": 32, "vocab_size": 40, "n_ctx": 64}, f)
    tblock.synth(temp("tiny.json"), no_words)
    with tblock.Model(no_words) as m:
        g = m.generate([1, 2], max_tokens=3, logprobs=1, stop_ids=[]).run()
        assert [(t.id, t.bytes) for t in g.logprobs] == [(i, b"") for i in g.ids] and len(g.ids) == 3


def an_answer_is_an_asynchronous_iterator_too():
    say = [{"role": "user", "content": "Who art thou?"}]
    with tblock.Model(MODEL) as m, m.chat(format="chatml") as chat:
        want = list(chat.answer(say, max_tokens=12, seed=4))

        async def one():
            return [part async for part in chat.answer(say, max_tokens=12, seed=4)]

        async def both():
            return await asyncio.gather(one(), one())

        async def cancelled():
            answer = chat.answer(say)
            task = asyncio.ensure_future(answer.__anext__())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled(), answer
        first, second = asyncio.run(both())
        assert first == want == second and want
        stopped, answer = asyncio.run(cancelled())
        assert stopped and list(answer) is not None and answer.generation.end == "interrupt"
        half = chat.answer(say, max_tokens=12, seed=4)  # what was not taken is not lost
        assert [next(half), *half] == want and half.message["role"] == "assistant"


def audits_are_those_of_the_program():
    with tblock.Model(MODEL) as m, m.context(n_seqs=3) as c:
        drawn = c.generate(TEXT, max_tokens=60, seed=5, top_k=0, top_p=1, logit_bias={10: -3}, receipt=True).run().receipt
        lines = [{"prompt": drawn["prompt"], "drawn": drawn["drawn"], "sampling": {"temp": 1e9}}, {"prompt": [1], "drawn": list(range(60))},
                 {"prompt": [1], "drawn": []}, {"prompt": [1], "drawn": [5000]}]
        with open(temp("log.jsonl"), "w") as f:
            f.write("".join(json.dumps(line) + "\n" for line in lines))
        for options, named in (({"top_k": 0, "top_p": 1, "logit_bias": {10: -3}, "seed": 5, "shared_seed": True},
                                ["--top-k", "0", "--top-p", "1", "--logit-bias", "10=-3", "--seed", "5", "--shared-seed"]), ({"temperature": 0}, ["--temp", "0"]),
                               ({"claims_from_log": True}, ["--claims-from-log"])):
            said = json.loads(subprocess.run([PROGRAM, "audit", MODEL, "--tokens", temp("log.jsonl"), "--json", "--each", "--quiet", *named],
                                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
            rows = c.audit([json.dumps(lines[0]), json.dumps(lines[1]).encode(), *lines[2:]], each=True, **options)
            for row, want in zip(rows, said["texts"]):
                assert all(row[key] == want[key] for key in ("verdict", "blind", "surprise", "rarest", "difference") if key in want), (row, want)
                assert row.why == want.get("why", "") and row.n_drawn == want["drawn"], (row, want)
            assert [(t.id, t.rank, t.prob) for r in rows for t in r.tokens] == [(t["id"], t["rank"], t["prob"]) for t in said["tokens"]]
            assert [r.verdict for r in rows[2:]] == ["no power", "failed"], rows
        assert [r.verdict for r in c.audit(lines[:2], top_k=0, top_p=1, logit_bias={10: -3})] == ["fits", "differs"]
        assert [r.sampling.temp for r in c.audit(lines[:2], temperature=0.5)] == [0.5, 0.5] and c.audit(lines[:1], claims_from_log=True)[0].sampling.temp == 1e9
        assert "1e+09" in c.audit(lines[1:2], temperature=1e9)[0].why and c.audit([]) == []
        raises(tblock.InputError, "line 2: drawn: expected an array", c.audit, [lines[0], {"prompt": [1]}])
        raises(tblock.UsageError, "logit_bias", c.audit, lines, logit_bias=7)


def defaults_are_those_of_run():
    said = dict(re.findall(r"--(temp|top-k|top-p|min-p|repeat-penalty|seed|predict) [^\[]*\[([^;\]]*)",
                           program("help", "run").decode().replace("\n", " ")))
    import inspect
    ours = {k: p.default for k, p in inspect.signature(tblock.Context.generate).parameters.items()}
    assert all(ours[k] == p.default for k, p in inspect.signature(tblock.Context.audit).parameters.items() if k in ours and k != "logit_bias")
    names = {"temp": "temperature", "top-k": "top_k", "top-p": "top_p", "min-p": "min_p", "repeat-penalty": "repeat_penalty",
             "seed": "seed", "predict": "max_tokens"}
    assert set(said) == set(names), said
    for theirs, mine in names.items():
        assert float(said[theirs]) == float(ours[mine]), theirs


def a_constraint_is_kept_as_in_run():
    schema = {"type": "object", "properties": {"name": {"enum": ["Romeo", "Juliet"]}}, "required": ["name"],
              "additionalProperties": False}
    with open(temp("schema.json"), "w") as f:
        json.dump(schema, f)
    with tblock.Model(MODEL) as m:
        with m.constraint(json_schema=schema) as k:
            text = str(m.generate("Who? ", constraint=k, seed=2))
            assert text.encode() == program("run", MODEL, "--prompt", "Who? ", "--seed", "2", "--json-schema", temp("schema.json"))
            assert json.loads(text)["name"] in ("Romeo", "Juliet") and k.accepts(text) and not k.accepts("{}")
        raises(tblock.UsageError, "expected one of json_schema, regex and grammar", m.constraint)
        raises(tblock.InputError, "regex", m.constraint, regex="(")


def conversations_are_those_of_chat():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who art thou?"}]
    with open(temp("messages.json"), "w") as f:
        json.dump({"messages": messages}, f)
    shown = program("chat", MODEL, "--chat-format", "chatml", "--messages", temp("messages.json"), "--show-prompt").decode()
    with tblock.Model(MODEL) as m, m.chat(format="chatml") as chat:
        assert chat.text(messages) == json.loads(shown)["text"] and list(chat.render(messages)) == json.loads(shown)["ids"]
        assert chat.name == "chatml" and len(chat.stop_texts) == 1
        answer = chat.answer(messages, max_tokens=12, seed=4)
        parts = "".join(p.text for p in answer if p.kind == "content")
        assert parts == answer.message["content"] and answer.message["role"] == "assistant"
        alone = m.generate(chat.render(messages), max_tokens=12, seed=4, stop=chat.stop_texts)
        assert str(alone) == parts
        raises(tblock.UsageError, "expected a list of dicts", chat.render, "Who?")


def logits_and_states_are_those_of_the_program():
    program("logits", MODEL, "--prompt", TEXT, "--hidden", "-o", temp("golden.safetensors"))
    golden = load_file(temp("golden.safetensors"))
    with tblock.Model(MODEL) as m, m.context() as c:
        ours = c.logits(TEXT)
        assert ours.dtype == np.float32 and not ours.flags.writeable
        assert ours.tobytes() == golden["logits"].tobytes()
        assert c.logits(TEXT, last=True).tobytes() == golden["logits"][-1:].tobytes()
        found, best = c.log_probs(TEXT, first=3)
        rows = golden["logits"][2:-1].astype(np.float64)
        expected = rows - np.log(np.exp(rows - rows.max(1, keepdims=True)).sum(1, keepdims=True)) - rows.max(1, keepdims=True)
        expected = expected[range(len(rows)), golden["tokens"][3:]]
        assert np.allclose(found, expected, rtol=1e-12, atol=1e-12) and list(best) == list(rows.argmax(1) == golden["tokens"][3:])
        assert len(c.log_probs(TEXT, first=len(golden["tokens"]))[0]) == 0
        raises(tblock.UsageError, "first: expected 1 to", c.log_probs, TEXT, first=0)
        for name, x in c.hidden(TEXT).items():
            assert x.tobytes() == golden["hidden." + name].tobytes(), name
        assert list(c.hidden(TEXT, ["final_norm"])) == ["final_norm"]
        raises(tblock.UsageError, "names: expected places", c.hidden, TEXT, ["layer99"])
        report = c.verify(temp("golden.safetensors"), exact=True)
        assert report.ok and len(report.rows) == 1 and report.rows[0].n_tokens == len(golden["tokens"])
        c.write_logits(temp("ours.safetensors"), TEXT, hidden=True)
        with open(temp("ours.safetensors"), "rb") as a, open(temp("golden.safetensors"), "rb") as b:
            assert a.read() == b.read()


def tokens_may_be_put_in_any_pieces():
    with tblock.Model(MODEL) as m, m.context(n_seqs=2) as c:
        ids, whole = m.tokenize(TEXT), c.logits(TEXT)
        c.rewind()
        pieces = [c.decode(ids[:3], want="all"), c.decode(ids[3:4], want="all"), c.decode(ids[4:], want="all")]
        assert np.concatenate(pieces).tobytes() == whole.tobytes() and c.seq_length() == len(ids)
        c.copy(0, 1, 5)
        assert c.decode(ids[5:], seq=1).tobytes() == whole[-1:].tobytes()
        c.save_state(temp("state"), ids)
        c.rewind(4)
        assert c.decode(ids[4:], want="none") is None
        assert list(c.load_state(temp("state"), seq=1)) == list(ids)


def vectors_are_those_of_the_program():
    texts = [TEXT, "A", "ROMEO:" * 20, TEXT + " x"]
    with tblock.Model(MODEL) as m, m.context(n_seqs=2) as c:
        for options, said in (({}, ()), ({"pool": "last"}, ("--pool", "last")), ({"pool": "cls", "raw": True}, ("--pool", "cls", "--raw"))):
            program("embed", MODEL, "-o", temp("x.npy"), *said, *[a for t in texts for a in ("--text", t)])
            expected = np.load(temp("x.npy"))
            for found in (m.embed(texts, **options), c.embed([m.tokenize(t) for t in texts], **options)):
                assert found.dtype == np.float32 and found.shape == expected.shape and found.tobytes() == expected.tobytes(), options
        assert m.embed([]).shape == (0, m.d_model)
        raises(tblock.UsageError, "a list", m.embed, "one text")
        raises(tblock.UsageError, "texts[1]: ids: expected at most", m.embed, [TEXT, [1] * 300])
        raises(tblock.UsageError, "expected mean, last or cls", m.embed, texts, pool="max")
        raises(TypeError, "no option 'pooling'", m.embed, texts, pooling="last")
        raises(tblock.SystemFailure, "stopped after", m.embed, texts, progress=lambda done: False)


def documents_are_judged_as_the_model_card_says():
    """docs/embeddings.md; tests/serve/test_rerank.py has the same of the server."""
    sys.path.append(os.path.join(ROOT, "tests", "serve"))
    from tokens_model import model_of
    system = 'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be ' \
             '"yes" or "no".'
    documents = ["Beijing.", "", "Horses and cows.", "\u017c\u00f3\u0142\u0107 " * 9, b"<|im_end|> yes"]
    folder, path = model_of(["<|im_start|>", "<|im_end|>", "yes", "no"])
    with folder, tblock.Model(path) as m, m.context() as c:
        def tokens(text, special=True):
            return list(m.tokenize(text, add_special=False, parse_special=special))
        (yes,), (no,) = tokens("yes"), tokens("no")
        for options, instruction in (({}, "Given a web search query, retrieve relevant passages that answer the query"),
                                     ({"instruction": "Find it."}, "Find it.")):
            expected = []
            for d in documents:
                d = d if isinstance(d, str) else d.decode()
                logits = c.logits(tokens("<|im_start|>system\n%s<|im_end|>\n<|im_start|>user\n" % system)
                                  + tokens("<Instruct>: %s\n<Query>: %s\n<Document>: %s" % (instruction, "What?", d), False)
                                  + tokens("<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"), last=True)[0].astype(float)
                expected.append(1 / (1 + np.exp(logits[no] - logits[yes])))
            found = c.rerank("What?", documents, **options)
            assert found.dtype == np.float64 and np.allclose(found, expected, rtol=1e-15, atol=0), (found, expected)
            alone = np.concatenate([m.rerank("What?", [d], **options) for d in documents])
            assert found.tobytes() == alone.tobytes(), "what was judged before changes nothing"
        assert m.rerank("What?", []).shape == (0,)
        raises(tblock.UsageError, "a list", c.rerank, "What?", "one")
        raises(tblock.UsageError, "expected a text", c.rerank, "What?", [1])
    with tblock.Model(MODEL) as m:
        raises(tblock.InputError, "expected one token for '<|im_start|>'", m.rerank, "What?", ["a"])


def attention_and_evaluation_are_those_of_the_program():
    program("attn", MODEL, "--prompt", TEXT, "-o", temp("attn.safetensors"))
    golden = load_file(temp("attn.safetensors"))
    with open(temp("text"), "w") as f:
        f.write(TEXT)
    said = json.loads(program("eval", MODEL, temp("text"), "--json"))
    with tblock.Model(MODEL) as m, m.context() as c:
        a = c.attention(TEXT)
        for layer in range(m.n_layers):
            for head in range(m.heads):
                assert a.head(layer, head).tobytes() == golden["attn.layer%d" % layer][head].tobytes()
        assert c.attention(TEXT, layers=[0], heads=[1])._repr_html_().startswith("<iframe")
        raises(tblock.UsageError, "a layer and head that were kept", a.head, 99, 0)
        r = c.eval_text(TEXT)
        assert r.nll == said["nll"] and r.perplexity == said["perplexity"] and r["bits_per_byte"] == said["bits_per_byte"]
        with m.context(threads=1) as other:
            assert c.eval_against(other, TEXT).mean_kl == 0
        with open(temp("choices"), "w") as f:
            f.write(json.dumps({"question": "ROMEO:", "choices": ["I am", "zzz"], "answer": 0}) + "\n")
        r = c.eval_choices(temp("choices"))
        assert r.rows[0].best == 0 and r.accuracy == 1 and len(r.rows[0].score) == 2


def files_are_those_of_the_program():
    program("quantize", MODEL, "--type", "q8", "-o", temp("a.bin"))
    seen = []
    report = tblock.quantize(MODEL, temp("b.bin"), "q8", progress=seen.append)
    with open(temp("a.bin"), "rb") as a, open(temp("b.bin"), "rb") as b:
        assert a.read() == b.read()
    assert seen[-1] == 1 and report.rows[0].type == "q8" and 0 < report.error < 0.02
    said = json.loads(program("info", MODEL, "--json"))
    with tblock.Model(MODEL) as m:
        assert m.info() == said and m.info().config["d_model"] == m.d_model
        assert "parameters" in m.info()._repr_html_() and "2,632,128" in repr(m)
    assert json.loads(program("info", MODEL, "--json", "--check")) == tblock.info(MODEL, check=True)
    assert tblock.info_text(MODEL).encode() == program("info", MODEL)
    raises(tblock.UsageError, "same", tblock.quantize, MODEL, MODEL, "q8")
    raises(tblock.OptionError, "there is no option 'treads'", tblock.quantize, MODEL, temp("b.bin"), "q8", treads=1)


def training_is_that_of_the_program():
    text = os.path.join(ROOT, "models", "as-you-like-it.txt")
    given = ["--vocab", "300", "--steps", "3", "--batch", "2", "--ctx", "16", "--lr", "0.002", "--quiet"]
    program("train", "-o", temp("theirs.bin"), "--text", text, *given)
    seen = []
    report = tblock.train(temp("ours.bin"), text=text, vocab=300, steps=3, batch=2, n_ctx=16, adamw={"lr": 0.002},
                          progress=lambda p: seen.append(p.step))
    with open(temp("ours.bin"), "rb") as a, open(temp("theirs.bin"), "rb") as b:
        assert a.read() == b.read()
    assert seen == [1, 2, 3] and report.step == 3 and report.loss > 0
    report = tblock.train(temp("stopped.bin"), text=text, vocab=300, steps=3, batch=2, n_ctx=16, progress=lambda p: p.step < 2)
    assert report.stopped and not os.path.exists(temp("stopped.bin"))
    save_file({"tokens": np.arange(16, dtype=np.int32).reshape(2, 8)}, temp("tokens.safetensors"))
    r = tblock.grad(temp("ours.bin"), temp("tokens.safetensors"), temp("grads.safetensors"), adamw_steps=1, adamw={"lr": 0.01})
    loss = load_file(temp("grads.safetensors"))["loss"].ravel()[0]
    assert r.loss_after < r.loss and loss == loss.dtype.type(r.loss), (r, loss)
    raises(tblock.UsageError, "text", tblock.train, temp("none.bin"), steps=1)


def an_adapter_is_trained_and_read():
    text = os.path.join(ROOT, "models", "as-you-like-it.txt")
    given = ["--lora", "2", "--lora-alpha", "4", "--lora-targets", "q,down", "--steps", "2", "--batch", "2", "--ctx", "16", "--quiet"]
    program("train", "-o", temp("theirs"), "--init", MODEL, "--text", text, *given)
    tblock.train(temp("ours"), init=MODEL, text=text, lora_rank=2, lora_alpha=4, lora_targets="q,down", steps=2, batch=2, n_ctx=16)
    for name in ("adapter_model.safetensors", "adapter_config.json"):
        with open(os.path.join(temp("theirs"), name), "rb") as theirs, open(os.path.join(temp("ours"), name), "rb") as ours:
            assert theirs.read() == ours.read(), name
    with tblock.Model(MODEL) as m:
        m.load_lora(temp("ours"))
    raises(tblock.UsageError, "lora targets", tblock.train, temp("none"), init=MODEL, text=text, lora_rank=2, lora_targets="x")


# ---- Side by side ----


def threads_share_a_model():
    with tblock.Model(MODEL) as m:
        alone = [str(m.generate(TEXT, max_tokens=30, seed=s)) for s in range(4)]
        found = [None] * 4

        def draw(s):
            found[s] = str(m.generate(TEXT, max_tokens=30, seed=s))
        threads = [threading.Thread(target=draw, args=(s,)) for s in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert found == alone

        async def both():
            async def one(s):
                return "".join([piece async for piece in m.generate(TEXT, max_tokens=30, seed=s)])
            return await asyncio.gather(*(one(s) for s in range(4)))
        assert asyncio.run(both()) == alone
        with m.context(n_seqs=4) as c:
            together = [c.generate(TEXT, max_tokens=30, seed=s) for s in range(4)]
            while any(g.end is None for g in together):
                c.advance(together)
            assert [g.text for g in together] == alone


def a_context_is_for_one_thread():
    with tblock.Model(MODEL) as m, m.context() as c:
        ids, found, over = np.resize(m.tokenize(TEXT), 250), [], threading.Event()

        def other():
            while not over.is_set():
                try:
                    c.seq_length()
                except tblock.BusyError as e:
                    found.append(str(e))
                time.sleep(0.001)  # or it would have the context itself nearly always
        t = threading.Thread(target=other)
        t.start()
        end = time.monotonic() + 60
        while not found and time.monotonic() < end:
            try:
                c.logits(ids)
            except tblock.BusyError:
                pass
        over.set()
        t.join()
        assert found and "one thread at a time" in found[0]

        def from_callback(done):
            c.seq_length()
        raises(tblock.BusyError, "a callback uses", c.eval_text, TEXT, progress=from_callback)


def other_threads_run_meanwhile():
    with tblock.Model(MODEL) as m, m.context(threads=1) as c:
        ids, counted, over = np.resize(m.tokenize(TEXT), 250), [0], threading.Event()

        def count():
            while not over.is_set():
                counted[0] += 1
        t = threading.Thread(target=count)
        t.start()
        c.logits(ids)
        n, end = 0, time.monotonic() + 60
        while n <= 1000 and time.monotonic() < end:  # a busy machine may give the other thread no time at all for a while
            before = counted[0]
            for _ in range(5):
                c.logits(ids)
            n = counted[0] - before
        over.set()
        t.join()
        assert n > 1000, n


def a_fork_leaves_contexts_behind():
    with tblock.Model(MODEL) as m, m.context(threads=2) as c:
        text = str(m.generate(TEXT, max_tokens=10))
        c.logits(TEXT)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                raises(tblock.BusyError, "before a fork", c.logits, TEXT)
                status = 0 if str(m.generate(TEXT, max_tokens=10)) == text else 2
                c.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert str(m.generate(TEXT, max_tokens=10)) == text


def a_cancelled_task_ends_its_text():
    async def go(m):
        async def draw():
            async for _ in m.generate(TEXT, max_tokens=None):
                pass
        task = asyncio.ensure_future(draw())
        await asyncio.sleep(0.02)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
    with tblock.Model(MODEL) as m:
        assert asyncio.run(go(m))
        assert str(m.generate(TEXT, max_tokens=5))


# ---- Lives ----


def arrays_outlive_what_made_them():
    m = tblock.Model(MODEL)
    c = m.context()
    logits, head, ids = c.logits(TEXT), c.attention(TEXT).head(0, 0), m.tokenize(TEXT)
    copies = [logits.copy(), head.copy(), ids.copy()]
    c.logits("another text")
    g = c.generate(TEXT, max_tokens=3, temperature=0)
    drawn = str(g), list(g.ids), g.end
    m.close()
    del m, c
    gc.collect()
    junk = [bytearray(1 << 20) for _ in range(20)]
    assert all(np.array_equal(a, b) for a, b in zip((logits, head, ids), copies)) and junk
    assert (g.text, list(g.ids), g.end) == drawn
    try:
        logits[0, 0] = 1
        raise AssertionError("the array can be written")
    except ValueError:
        pass


def what_is_closed_says_so():
    m = tblock.Model(MODEL)
    c, k, chat = m.context(), m.constraint(regex="a+"), m.chat(format="alpaca")
    g = c.generate(TEXT, max_tokens=5)
    next(g)
    m.close()
    m.close()
    for thing, function in (("model", lambda: m.tokenize("x")), ("context", lambda: c.logits([1])), ("chat", lambda: chat.text([])),
                            ("constraint", lambda: k.accepts("a")), ("model", lambda: m.generate("x"))):
        raises(tblock.ClosedError, "the %s is closed" % thing, function)
    assert g.closed and g.text and list(g) == []
    raises(TypeError, "cannot be copied", pickle.dumps, m)
    assert "closed" in repr(m)


def a_constraint_goes_before_its_texts():
    with tblock.Model(MODEL) as m:
        k = m.constraint(regex="[a-z ]+")
        g = m.generate(TEXT, constraint=k, max_tokens=8)
        first = next(g)
        k.close()
        assert g.closed and g.text == first


def memory_is_given_back():
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def once():
        with tblock.Model(MODEL) as m:
            c = m.context()
            for _ in range(3):
                c.logits(np.resize(m.tokenize(TEXT), 200))
                c.attention(TEXT).head(0, 0)
                c.hidden(TEXT)
            str(m.generate(TEXT, max_tokens=3, stop=["zq"]))
            m.info()
    for _ in range(10):
        once()
    gc.collect()
    before = resident()
    for _ in range(40):
        once()
    gc.collect()
    # the allocator keeps some; one array of logits a round would be 32 MB, one context 47
    assert resident() - before < 28 << 20, resident() - before


# ---- Errors ----


def errors_carry_status_and_message():
    e = raises(tblock.InputError, "cannot open", tblock.Model, "/nowhere")
    assert e.status == 3 and isinstance(e, ValueError) and e.message == str(e)
    with tblock.Model(MODEL) as m, m.context() as c:
        for words, function in (("expected a list of integers, found float64", lambda: c.logits([1.5])),
                                ("of shape (1, 2)", lambda: c.logits([[1, 2]])),
                                ("expected 0 to 1023, found 1024", lambda: c.logits([1024])),
                                ("found -1", lambda: c.logits([-1])),
                                ("found 4294967296", lambda: c.logits([1 << 32])),
                                ("expected at least one token", lambda: c.logits("")),
                                ("context", lambda: c.logits([1] * 1000)),
                                ("seed", lambda: m.generate("x", seed=1.5)),
                                ("seed", lambda: m.generate("x", seed=-1)),
                                ("temperature: expected", lambda: m.generate("x", temperature=-1)),
                                ("top_k", lambda: m.generate("x", top_k=1 << 40)),
                                ("stop: expected a text or bytes, found int", lambda: m.generate("x", stop=[5])),
                                ("stop[0]: expected a text", lambda: m.generate("x", stop="")),
                                ("kv_type: expected auto", lambda: m.context(kv_type="q2")),
                                ("top_p: expected a number from 0 to 1", lambda: m.generate("x", top_p=7)),
                                ("format: found 'lama3'", lambda: m.chat(format="lama3")),
                                ("NUL", lambda: m.generate("x", stop="a\0b")),
                                ("want", lambda: c.decode([1], want="some")),
                                ("seq", lambda: c.seq_length(7)),
                                ("threads", lambda: m.context(threads=5000)),
                                ("isa", lambda: m.context(isa="abacus"))):
            e = raises(tblock.UsageError, words, function)
            assert e.status == 2
        raises(tblock.InputError, "cannot open", c.verify, "/nowhere.safetensors")
    with open(temp("broken.bin"), "wb") as f, open(MODEL, "rb") as g:
        f.write(g.read(100000))
    raises(tblock.InputError, "broken.bin", tblock.Model, temp("broken.bin"))
    raises(tblock.InputError, "broken.bin", tblock.info, temp("broken.bin"))


def errors_have_words_of_python():
    """No message of the library names an option of the program: each that one does, in its sources, is turned into what to write here."""
    from tblock.words import in_python
    found = 0
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names if os.path.basename(folder) not in ("cli", "serve", "report", "src") else ():
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
            for literals in re.findall(r'(?:"(?:[^"\\\n]|\\.)*"\s*)+', text):
                said = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literals))
                if re.search(r"(?<![\w-])--[a-z]{2,}", said):
                    found += 1
                    assert "--" not in in_python(said), (name, said, in_python(said))
    assert found > 15, found
    assert in_python("a: try --math f32 --kv-type f16, or --activations 16") == 'a: try math="f32" kv_type="f16", or activations=16'
    assert in_python("x: enough for --ctx 512, or more with --kv-type q8") == 'x: enough for n_ctx=512, or more with kv_type="q8"'
    assert in_python("my--type.bin: cannot open") == "my--type.bin: cannot open" and in_python("temp: cannot open") == "temp: cannot open"
    with tblock.Model(MODEL) as m, m.chat(format="chatml") as chat:
        raises(tblock.InputError, "choose one with format=NAME or the text of a template; names: ", m.chat)
        say = {"role": "user", "content": "x"}
        for words, messages in (("messages[1]: content: expected a text, found none", [say, {"role": "user"}]),
                                ("messages[0]: role: expected a text, found none", [{"content": "x"}]),
                                ("messages[0]: content: expected a text, found a list of parts", [{"role": "user", "content": [{"type": "text"}]}]),
                                ("messages: expected at least one, found none", [])):
            raises(tblock.UsageError, words, chat.text, messages)
            raises(tblock.UsageError, words, chat.render, messages)
        with m.context() as c:
            c.write_logits(temp("plain.safetensors"), TEXT)
        with m.context(kv_type="q8") as c:
            report = c.verify(temp("plain.safetensors"), exact=True)
            assert not report.ok and "kv_type=" in report.advice and "--" not in report.advice, report.advice


def the_module_is_the_program():
    env = {**os.environ, "PYTHONPATH": PACKAGE}
    for args in (["--version"], ["run", MODEL, "--prompt", TEXT, "-n", "5"], ["run"], ["info", "/nowhere"]):
        a = subprocess.run([sys.executable, "-m", "tblock", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        b = subprocess.run([PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert (a.returncode, a.stdout, a.stderr) == (b.returncode, b.stdout, b.stderr), args
    assert tblock.__version__ in program("--version").decode()


def the_guide_is_right():
    """The blocks of docs/python.md, one after the other, as a reader would type them."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.M | re.S)
    assert len(blocks) >= 4
    os.makedirs(temp("guide"))
    os.symlink(os.path.join(ROOT, "models"), temp("guide/models"))
    said = subprocess.run([sys.executable, "-c", "\n".join(blocks)], cwd=temp("guide"), check=True, stdout=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": PACKAGE}, universal_newlines=True).stdout.splitlines()
    promised = re.findall(r"^ *print\(.*\) +# (\{.*\}|holds|fits)$", "\n".join(blocks), re.M)
    assert len(promised) == 3 and all(line in said for line in promised), (promised, said)


if __name__ == "__main__":
    run_claims(globals())
