#!/usr/bin/env python3
"""The page of tblock serve in a browser, driven by Playwright: what it shows is what the server answers to the same request, by mouse and
by keyboard, on a phone and on a desk. Prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"."""
import contextlib
import json
import math
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "serve"), str(ROOT / "tests" / "pages")]
import browser as program  # noqa: E402
from server import MODEL, TBLOCK, TOOLS, Server, run, talking  # noqa: E402
from verdicts import attempt, need, option_only  # noqa: E402

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HELLO, MARKUP = "Who art thou?", "<b id=bold>bold</b><img src=x onerror=document.title='run'>"
SECONDS = 120   # for one step, on a busy machine
ENDED = "#log li.assistant:last-child[aria-busy=false]"


class Slow:
    """The server behind a wire that carries a little at a time, so that a stream takes its time."""

    def __init__(self, server):
        self.server, self.listener = server, socket.create_server(("127.0.0.1", 0))
        self.port, self.open = self.listener.getsockname()[1], True
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = self.server.raw()
                threading.Thread(target=self.carry, args=(client, server, 1 << 16, 0), daemon=True).start()
                threading.Thread(target=self.carry, args=(server, client, 700, 0.02), daemon=True).start()

    @staticmethod
    def carry(source, to, size, pause):
        with contextlib.suppress(OSError):
            while data := source.recv(size):
                to.sendall(data)
                time.sleep(pause if b"<" not in data else 0)   # the page itself may come at once
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


class Tab:
    """A tab of its own browser profile, which must not ask for anything elsewhere, nor complain."""

    def __init__(self, chromium, port, width=1280, height=800, expected=(), **context):
        self.context = chromium.new_context(viewport={"width": width, "height": height}, **context)
        self.context.set_default_timeout(SECONDS * 1000)
        self.url, self.said, self.sent, self.expected = f"http://127.0.0.1:{port}/", [], [], expected
        self.page = self.another()

    def another(self):
        page = self.context.new_page()
        page.on("console", lambda m: m.type in ("error", "warning") and self.said.append(m.text))
        page.on("pageerror", lambda e: self.said.append(str(e)))
        page.on("request", self.note)
        page.goto(self.url)
        return page

    def note(self, request):
        if not request.url.startswith((self.url, "data:")):
            self.said.append("asked for " + request.url)
        if request.method == "POST":
            self.sent.append((request.url[len(self.url) - 1:], json.loads(request.post_data)))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.context.close()
        wrong = [s for s in self.said if not any(e in s for e in self.expected)]
        if kind is None:
            need(not wrong, wrong)

    def set(self, **fields):
        hidden = self.page.locator("#settings").is_hidden()
        if hidden:
            self.page.click("#toggle")
        for name, value in fields.items():
            self.page.fill("#" + name if name in ("more", "system") else "#set-" + name, str(value))
        if hidden:
            self.page.click("#toggle")

    def type(self, text):
        """As a person does, and to the end of the answer."""
        self.page.focus("#say")
        self.page.keyboard.type(text)
        n = self.page.locator("#log > li").count()
        self.page.keyboard.press("Enter")
        self.page.locator("#log > li").nth(n).wait_for()
        self.wait()

    def until(self, script, given=None):
        """Playwright's own way to wait is refused by the page's policy."""
        end = time.monotonic() + SECONDS
        while not self.page.evaluate(script, given):
            need(time.monotonic() < end, f"not within {SECONDS} s: {script}")
            time.sleep(0.005)

    def wait(self):
        self.page.wait_for_selector(ENDED)

    def texts(self, css="#log > li > .body"):
        return [e.text_content() for e in self.page.locator(css).all()]

    def seed(self):
        return int(re.search(r"seed (\d+)", self.texts("#log .foot")[-1]).group(1))


def talk(*texts):
    return [{"role": "assistant" if i % 2 else "user", "content": t} for i, t in enumerate(texts)]


def content(server, messages, **given):
    return server.post(CHAT, messages=messages, **given)["choices"][0]["message"]["content"]


# ---- A conversation --------------------------------------------------------------------------------------------------


def an_answer_is_that_of_the_server(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=40, seed=5, temperature=0.9, top_p=0.95, top_k=50, min_p=0.01, repetition_penalty=1.1, presence_penalty=0.1,
              frequency_penalty=0.1, system="Be brief.", more='{"stop": ["zzz"]}')
        t.type(HELLO)
        given = {"max_tokens": 40, "seed": 5, "temperature": 0.9, "top_p": 0.95, "top_k": 50, "min_p": 0.01, "repetition_penalty": 1.1,
                 "presence_penalty": 0.1, "frequency_penalty": 0.1, "stop": ["zzz"]}
        messages = [{"role": "system", "content": "Be brief."}, *talk(HELLO)]
        first = content(s, messages, **given)
        need(t.texts() == [HELLO, first], (t.texts(), first))
        foot = t.texts("#log .foot")[-1]
        usage = s.post(CHAT, messages=messages, **given)["usage"]
        need(f"{usage['prompt_tokens']} + {usage['completion_tokens']} tokens" in foot and "seed 5" in foot, foot)
        t.type("And\nthou?".replace("\n", " "))
        second = content(s, messages + talk(HELLO, first, "And thou?")[1:], **given)
        need(t.texts()[2:] == ["And thou?", second], (t.texts(), second))
        need(t.page.title().startswith("shakespeare"), t.page.title())
        defaults = s.get("/props")["default_generation_settings"]["params"]
        for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"):
            shown = t.page.get_attribute("#set-" + name, "placeholder")
            need(float(shown) == defaults[name.replace("repetition", "repeat")], (name, shown))
        t.page.click("#clear")
        need(not t.texts() and t.page.locator("#empty").is_visible(), "still there")


def a_seed_repeats_an_answer(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=60)
        t.type(HELLO)
        first, seed = t.texts()[1], t.seed()
        need(first == content(s, talk(HELLO), max_tokens=60, seed=seed), first)
        t.page.get_by_role("button", name="Regenerate").click()
        t.wait()
        need(t.seed() != seed and t.texts()[1] == content(s, talk(HELLO), max_tokens=60, seed=t.seed()), t.texts())
        again = t.texts()[1], t.seed()
        t.page.get_by_role("button", name="Keep this seed").click()
        t.page.get_by_role("button", name="Regenerate").click()
        t.wait()
        need((t.texts()[1], t.seed()) == again and again[0] != first, again)
        speed = re.search(r"(\S+) tokens/s", t.texts("#log .foot")[-1])
        need(speed is None or float(speed[1]) > 0, speed)


def an_earlier_message_can_be_edited(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=20, seed=3)
        for text in (HELLO, "Speak on.", "More."):
            t.type(text)
        one, two = t.texts()[1], t.texts()[3]
        t.page.get_by_role("button", name="Edit").nth(1).click()
        need(t.page.get_by_role("textbox", name="Edit").input_value() == "Speak on.", "another text")
        t.page.keyboard.press("Escape")
        need(len(t.texts()) == 6 and t.page.evaluate("document.activeElement.textContent") == "Edit", t.texts())
        t.page.keyboard.press("Enter")
        t.page.get_by_role("textbox", name="Edit").fill("Be")
        t.page.keyboard.press("End")
        t.page.keyboard.type(" silent.")
        t.page.keyboard.press("Shift+Enter")
        t.page.keyboard.type("Now.")
        t.page.keyboard.press("Enter")
        t.until("() => document.querySelectorAll('#log > li').length === 4")
        t.wait()
        three = content(s, talk(HELLO, one, "Be silent.\nNow."), max_tokens=20, seed=3)
        need(t.texts() == [HELLO, one, "Be silent.\nNow.", three] and three != two, t.texts())


def a_message_waits_for_the_server(chromium):
    """Enter may come before the page knows which model is there."""
    asked = []
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=5, seed=3)
        t.page.route("**/props", lambda route: asked.append(route))
        t.page.reload()
        t.until("() => document.readyState === 'complete'")
        t.page.focus("#say")
        t.page.keyboard.type(HELLO)
        t.page.keyboard.press("Enter")
        need(len(asked) == 1 and not t.texts() and not t.sent, "it was sent to nobody knows whom")
        asked[0].continue_()
        t.page.locator("#log > li").nth(1).wait_for()
        t.wait()
        need(t.texts() == [HELLO, content(s, talk(HELLO), max_tokens=5, seed=3)], t.texts())


def a_stream_grows_and_stops(chromium):
    with talking() as s, Tab(chromium, Slow(s).port) as t:
        t.set(max_tokens=200, seed=8)
        whole = content(s, talk(HELLO), max_tokens=200, seed=8)
        n_tokens = s.post(CHAT, messages=talk(HELLO), max_tokens=200, seed=8)["usage"]["completion_tokens"]
        for stop in (lambda: t.page.keyboard.press("Escape"), lambda: t.page.get_by_role("button", name="Stop").click()):
            t.page.fill("#say", HELLO)
            t.page.keyboard.press("Enter")
            t.page.wait_for_selector("#log li.running")
            seen = []
            for least in (3, 12, 30):
                t.until("n => document.querySelector('li.running > .body').textContent.length > n", max(least, *map(len, seen), 0))
                seen.append(t.texts()[-1])
            need(all(whole.startswith(text) for text in seen) and len(set(seen)) == 3, seen)
            need(t.page.get_by_role("button", name="New").is_disabled(), "a conversation that runs can be thrown away")
            stop()
            t.wait()
            last, foot = t.texts()[-1], t.texts("#log .foot")[-1]
            need(whole.startswith(last) and seen[-1] in last and len(last) < len(whole) and "stopped" in foot, (last, foot))
            need(t.page.get_by_role("button", name="Send").is_visible(), "no way to send")
            t.page.get_by_role("button", name="Go on").click()   # the rest is that of the stream that was stopped
            t.until("() => !document.getElementById('log').textContent.includes('stopped')")
            t.wait()
            need(t.texts()[-1] == whole and t.page.locator("#log [data-first]").count() == n_tokens, t.texts())
            need(t.page.get_by_role("button", name="Go on").count() == 0, "it ended")
            t.page.click("#clear")
        motion = "getComputedStyle(document.querySelector('li.running > .body'), '::after').animationName"
        for reduced in (False, True):
            t.page.emulate_media(reduced_motion="reduce" if reduced else "no-preference")
            t.page.fill("#say", HELLO)
            t.page.keyboard.press("Enter")
            t.page.wait_for_selector("#log li.running > .body")
            need((t.page.evaluate(motion) == "none") == reduced, "motion")
            t.page.keyboard.press("Escape")
            t.page.wait_for_selector("#log li.running", state="detached")
            t.page.click("#clear")


def it_survives_a_reload(chromium):
    with talking() as s, Tab(chromium, Slow(s).port) as t:
        t.set(max_tokens=12, seed=4, system="Be brief.")
        t.type(HELLO)
        t.page.fill("#say", "half a tho")
        before = t.texts(), t.texts("#log .foot")
        t.page.reload()
        t.page.wait_for_selector("#log li")
        need((t.texts(), t.texts("#log .foot")) == before, (before, t.texts()))
        need([t.page.input_value("#" + i) for i in ("say", "set-max_tokens", "set-seed", "system")] == ["half a tho", "12", "4", "Be brief."],
             "fields were lost")
        t.page.hover("[data-first] >> nth=2")
        need(t.page.locator("#tip").is_visible(), "probabilities were lost")
        t.page.click("#clear")
        t.set(max_tokens=200, system="")
        t.page.fill("#say", HELLO)
        t.page.focus("#say")
        t.page.keyboard.press("Enter")
        t.until("() => document.querySelector('li.running > .body')?.textContent.length > 9")
        t.page.reload()
        t.page.wait_for_selector(ENDED)
        whole = content(s, talk(HELLO), max_tokens=200, seed=4)
        need(whole.startswith(t.texts()[1]) and len(t.texts()[1]) > 9 and "stopped" in t.texts("#log .foot")[1], t.texts())
        t.page.get_by_role("button", name="Go on").click()
        t.until("() => !document.getElementById('log').textContent.includes('stopped')")
        t.wait()
        need(t.texts()[1] == whole, t.texts())


def two_tabs_are_independent(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=10, seed=1)
        t.type("One.")
        first, one = t.page, t.texts()
        t.page = t.another()
        need(not t.texts() and t.page.input_value("#set-seed") == "", "the second tab begins with the first one's")
        t.set(max_tokens=10, seed=2)
        t.type("Two.")
        two = t.texts()
        for page, texts, seed in ((first, one, "1"), (t.page, two, "2")):
            t.page = page
            page.reload()
            page.wait_for_selector("#log li")
            need(t.texts() == texts and page.input_value("#set-seed") == seed, (t.texts(), texts))


# ---- Tokens ----------------------------------------------------------------------------------------------------------


def visible(text):
    return text.replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥") or "∅"


def percent(log_prob):
    p = math.exp(log_prob)
    return f"{100 * p:.1f}%" if p > 0.00095 else re.sub(r"e([+-])0*", r"e\1", f"{p:.1e}")


def rows(t):
    return [(r.locator("td").nth(0).text_content(), r.locator("td").nth(1).text_content(), r.get_attribute("class") or "")
            for r in t.page.locator("#tip tr").all()]


def expected_rows(token):
    top = [(o["token"], o["logprob"]) for o in token["top_logprobs"]]
    own = (token["token"], token["logprob"])
    return [(visible(w), percent(p), "drawn" if (w, p) == own else "") for w, p in top + ([] if own in top else [own])]


def probabilities_are_those_of_the_server(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        t.set(max_tokens=30, seed=11, top_logprobs=4)
        t.type(HELLO)
        told = s.post(CHAT, messages=talk(HELLO), max_tokens=30, seed=11, logprobs=True, top_logprobs=4)["choices"][0]["logprobs"]["content"]
        spans = t.page.locator("#log [data-first]")
        need([e.text_content() for e in spans.all()] == [w["token"] for w in told], "the tokens are others")
        spans.last.scroll_into_view_if_needed()
        for i in (0, 3, 17, 29):
            t.page.mouse.move(1, 1)
            spans.nth(i).hover(position={"x": 1, "y": 8})
            need(rows(t) == expected_rows(told[i]), (i, rows(t), expected_rows(told[i])))
        t.page.mouse.move(1, 1)
        need(t.page.locator("#tip").is_hidden(), "the tip stays")
        t.page.focus("li.assistant > .body")
        for i in range(3):
            t.page.keyboard.press("ArrowRight")
            need(rows(t) == expected_rows(told[i]), (i, rows(t)))
            need(t.page.text_content("#status").startswith(f"{visible(told[i]['token'])} {percent(told[i]['logprob'])}"), "not announced")
        t.page.keyboard.press("End")
        need(rows(t) == expected_rows(told[29]), rows(t))
        t.page.keyboard.press("Escape")
        need(t.page.locator("#tip").is_hidden(), "Esc leaves the tip")
        t.page.get_by_role("button", name="Tokens", exact=True).click()
        table = [[c.text_content() for c in r.locator("td").all()] for r in t.page.locator("#tokens tbody tr").all()]
        need(table == [[visible(w["token"]), percent(w["logprob"]), "   ".join(f"{visible(o['token'])} {percent(o['logprob'])}"
                                                                               for o in w["top_logprobs"])] for w in told], table)


def the_prompt_is_shown_as_tokens(chromium):
    with talking() as s, Tab(chromium, s.port) as t, tempfile.NamedTemporaryFile("w") as file:
        t.set(max_tokens=5, seed=1, system="Be brief.")
        t.type(HELLO)
        t.page.fill("#say", "and [/] é")
        t.page.click("#prompt")
        t.page.wait_for_selector("#tokens[open]")
        messages = [{"role": "system", "content": "Be brief."}, *talk(HELLO, t.texts()[1], "and [/] é")]
        json.dump(messages, file)
        file.flush()
        done = subprocess.run([TBLOCK, "chat", MODEL, "--chat-format", s.template.name, "--show-prompt", "--messages", file.name],
                              capture_output=True, text=True)
        need(done.returncode == 0, done.stderr)
        expected = json.loads(done.stdout)
        ids = [int(n) for n in t.texts("#tokens li small")]
        need(ids == expected["ids"], (ids, expected["ids"]))
        strings = s.post("/apply-template", messages=messages, return_token_ids=True)
        need(strings["prompt"] == expected["text"] and strings["token_ids"] == ids, strings)
        need(t.texts("#tokens li") == [visible(w) + str(i) for w, i in zip(strings["token_strs"], ids)], "other texts")
        t.page.keyboard.press("Escape")
        need(t.page.locator("#tokens").is_hidden() and t.page.evaluate("document.activeElement.id") == "prompt", "where is the focus?")


def reasoning_and_calls_are_shown(chromium):
    """The model is made to say it: as ids that it had drawn before."""
    with talking() as s, Tab(chromium, s.port) as t:
        said = '<think>hm — so</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rosé"}}</tool_call>'
        ids = s.post("/tokenize", prompt=said)["tokens"]
        t.set(max_tokens=len(ids), seed=1, more=json.dumps({"tools": TOOLS, "resume_ids": ids}))
        t.type(HELLO)
        fold = t.page.locator("details")
        need(fold.get_attribute("open") is None and fold.locator(".body").is_hidden(), "reasoning is not folded")
        fold.locator("summary").click()
        need(fold.locator(".body").text_content() == "hm — so" and fold.locator(".body").is_visible(), fold.text_content())
        content = t.texts("li > .body")[1].strip()
        need(content == "Well:", content)
        need(t.texts(".call code") == ["look_up"] and json.loads(t.texts(".call pre")[0]) == {"word": "rosé"}, t.texts(".call"))
        need(t.page.get_by_role("textbox", name="Result of look_up").is_visible(), "no place for its result")
        t.set(max_tokens=5, more=json.dumps({"tools": TOOLS}))
        t.type("a flower")
        sent = t.sent[-1][1]["messages"]
        need(sent[2] == {"role": "tool", "content": "a flower", "tool_call_id": sent[1]["tool_calls"][0]["id"]}, sent)
        need(sent[1]["reasoning_content"] == "hm — so" and sent[1]["tool_calls"][0]["function"]["name"] == "look_up", sent)
        need(fold.get_attribute("open") is not None, "the fold closed itself")


def tokens_are_those_of_their_part(chromium):
    """Of reasoning, of what comes after it, and of characters that several tokens make."""
    with talking() as s, Tab(chromium, s.port) as t:
        for begun, place in (("<think>", "details .body"), ("<think>hm</think>Well:", "li > .body"), ("Well: <think>", "li > .body")):
            given = {"max_tokens": 50, "seed": 6, "resume_ids": s.post("/tokenize", prompt=begun)["tokens"]}
            t.set(seed=6, max_tokens=50, more=json.dumps(given))
            t.type(HELLO)
            told = s.post(CHAT, messages=talk(HELLO), logprobs=True, top_logprobs=5, **given)["choices"][0]
            drawn = [w for w in told["logprobs"]["content"] if w["logprob"] is not None]
            spans = t.page.locator(place + " [data-first]")
            need([e.text_content() for e in spans.all()][-9:] == [w["token"] for w in drawn][-9:] and len(drawn) > 20, told)
            t.page.locator("summary").click() if place.startswith("details") else None
            spans.last.scroll_into_view_if_needed()
            t.page.mouse.move(1, 1)
            spans.last.hover(position={"x": 1, "y": 8})
            need(rows(t) == expected_rows(drawn[-1]), (rows(t), drawn[-1]))
            t.page.click("#clear")
        placed = t.page.evaluate(r"""() => {
          const s = new Spelling([]), out = [];
          for (const w of ['<think>', 'a', 'b', '</think>', 'b', ' c', 'bytes:\\xe2\\x82', 'bytes:\\xac', 'd', 'e<', 'x']) s.add([w]);
          for (const [kind, text] of [['reasoning', 'a'], ['reasoning', 'b'], ['content', 'b c'], ['content', '\u20acd'], ['content', 'e'],
                                      ['content', 'unknown']])
            out.push(s.place(kind, text));
          return out;
        }""")
        need(placed == [[["a", 1, 1]], [["b", 2, 2]], [["b", 4, 4], [" c", 5, 5]], [["€", 6, 7], ["d", 8, 8]], [["e", 9, 9]], [["unknown"]]],
             placed)


def texts_stay_text(chromium):
    with talking() as s, Tab(chromium, s.port, expected=("Content Security Policy", "ERR_INVALID_URL")) as t:
        ids = s.post("/tokenize", prompt=MARKUP)["tokens"]
        t.set(max_tokens=len(ids), seed=1, more=json.dumps({"resume_ids": ids}))
        t.type(MARKUP)
        need(t.texts() == [MARKUP, MARKUP] and t.page.locator("#bold, #log img").count() == 0, t.texts())
        t.page.click("#prompt")
        t.page.wait_for_selector("#tokens[open]")
        need(t.page.locator("#bold, #tokens img").count() == 0, "markup of a prompt")
        t.page.evaluate("""() => {
          document.body.append(Object.assign(document.createElement('script'), {textContent: 'document.title = "run"'}));
          document.body.insertAdjacentHTML('beforeend', '<img src=data:x onerror="document.title=1">');
          return fetch('https://elsewhere.example/').then(() => 0, () => 1);
        }""")
        need(t.page.title().startswith("shakespeare"), "a foreign script ran")
    with Server() as s:
        policies = [s.ask("GET", "/")[1] for _ in range(2)]
        for headers in policies:
            policy = dict(p.split(" ", 1) for p in headers["Content-Security-Policy"].split("; "))
            need(policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'" and policy["connect-src"] == "'self'"
                 and re.fullmatch("'nonce-[0-9a-f]{32}'", policy["script-src"]) and policy["script-src"] == policy["style-src"], policy)
            need(headers["Content-Type"] == "text/html; charset=utf-8", headers)
        need(policies[0]["Content-Security-Policy"] != policies[1]["Content-Security-Policy"], "a nonce came twice")
        need(s.ask("GET", "/health")[1]["Content-Security-Policy"] is None and s.ask("GET", "/?x=1")[0] == 200, "other paths")


# ---- A text that goes on ---------------------------------------------------------------------------------------------


def without_a_template_it_goes_on_with_texts(chromium):
    with Server() as s, Tab(chromium, s.port, expected=["status of 400"]) as t:
        t.page.wait_for_selector("#empty strong")
        need(t.page.locator("#mode").is_hidden() and "no chat template" in t.page.text_content("#empty"), t.page.text_content("#empty"))
        t.set(seed=7, max_tokens=25)
        t.type("ROMEO:")
        text = run("--predict", "25", "--temp", "1", "--top-k", "0", "--top-p", "1", "--seed", "7", prompt="ROMEO:")["text"]
        need(t.texts() == ["ROMEO:", text] or "ROMEO:" + t.texts()[1] == text, (t.texts(), text))
        whole = "".join(t.texts())
        t.page.keyboard.press("Enter")
        t.until("() => document.querySelectorAll('#log > li').length === 3")
        t.wait()
        need(t.texts()[2] == s.post(TEXT, prompt=whole, seed=7, max_tokens=25)["choices"][0]["text"], t.texts())
        told = s.post(TEXT, prompt="ROMEO:", seed=7, max_tokens=25, logprobs=5)["choices"][0]["logprobs"]
        spans = t.page.locator("#log li:nth-child(2) [data-first]")
        need([e.text_content() for e in spans.all()] == told["tokens"], "the tokens are others")
        spans.nth(4).hover(position={"x": 1, "y": 8})
        drawn = [r for r in rows(t) if r[2]]
        need(drawn == [(visible(told["tokens"][4]), percent(told["token_logprobs"][4]), "drawn")], drawn)
        t.page.click("#prompt")
        t.page.wait_for_selector("#tokens[open]")
        need([int(n) for n in t.texts("#tokens li small")] == s.post("/tokenize", prompt="".join(t.texts()))["tokens"], "other tokens")
        t.page.keyboard.press("Escape")
        t.set(max_tokens="")   # what fits
        for _ in range(3):
            n = t.page.locator("#log > li").count()
            t.page.focus("#say")
            t.page.keyboard.press("Enter")
            # a refusal takes the answer away again, perhaps before anybody sees it
            t.until("n => document.querySelectorAll('#log > li').length > n || !document.querySelector('#wrong').hidden", n)
            t.wait()
            if t.page.locator("#wrong").is_visible():
                break
        asked = [body for path, body in t.sent if path == TEXT][2:]
        need(all(s.post("/tokenize", prompt=b["prompt"])["count"] + b["max_tokens"] <= 256 for b in asked[:-1]) and len(asked) > 1, asked)
    with talking() as s, Tab(chromium, s.port) as t:   # a model that chats can do it too
        t.page.select_option("#mode", "text")
        t.set(seed=7, max_tokens=25)
        t.type("ROMEO:")
        need(t.texts() == ["ROMEO:", s.post(TEXT, prompt="ROMEO:", seed=7, max_tokens=25)["choices"][0]["text"]], t.texts())
        t.page.select_option("#mode", "chat")
        need(not t.texts(), "a text is no conversation")


# ---- What goes wrong -------------------------------------------------------------------------------------------------


def errors_are_shown(chromium):
    with talking() as s, Tab(chromium, s.port, expected=["Failed to load resource"]) as t:
        alert = t.page.get_by_role("alert")
        for fields, words in (({"temperature": "warm"}, "Temperature: expected a number"), ({"temperature": "1000"}, "temperature: expected"),
                              ({"temperature": "", "more": "{"}, "more parameters: "), ({"more": "[1]"}, "expected an object"),
                              ({"more": '{"n": 2}'}, "one answer"), ({"more": '{"strange": 2}'}, "strange"),
                              ({"more": "", "seed": "-1"}, "seed: expected"), ({"seed": "", "max_tokens": "9999"}, "context holds 256")):
            t.set(**fields)
            if t.texts():
                t.page.get_by_role("button", name="Try again").click()
            else:
                t.page.fill("#say", HELLO)
                t.page.click("#go")
            t.until("words => document.getElementById('wrong').textContent.includes(words)", words)
            need(alert.is_visible() and t.texts() == [HELLO], (words, t.texts()))
        t.set(max_tokens=8, seed=2)
        t.page.get_by_role("button", name="Try again").click()
        t.wait()
        need(t.texts() == [HELLO, content(s, talk(HELLO), max_tokens=8, seed=2)] and alert.is_hidden(), t.texts())
        t.page.context.set_offline(True)
        t.page.fill("#say", "more")
        t.page.click("#go")
        alert.wait_for()
        need(len(t.texts()) == 3, t.texts())


def a_key_is_asked_for(chromium):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("a-kéy\n")
        file.flush()
        with talking("--key-file", file.name) as s, Tab(chromium, s.port, expected=["status of 401"]) as t:
            need(s.ask("GET", "/")[0] == 200 and s.ask("GET", "/props")[0] == 401, "who needs a key?")
            t.page.wait_for_selector("#key[open]")
            t.page.click("#key-cancel")
            need("key" in t.page.get_by_role("alert").text_content(), "nothing is said")
            t.page.get_by_role("button", name="Try again").click()
            t.page.wait_for_selector("#key[open]")
            need(t.page.evaluate("document.activeElement.id") == "key-text", "the focus is elsewhere")
            t.page.keyboard.type("another")
            t.page.keyboard.press("Enter")
            t.until("() => document.getElementById('key-why').textContent.includes('does not take')")
            t.page.keyboard.type("a-kéy")
            t.page.keyboard.press("Enter")
            t.page.wait_for_selector("#empty strong")
            t.set(max_tokens=8, seed=2)
            t.type(HELLO)
            _, said = s.send(CHAT, {"messages": talk(HELLO), "max_tokens": 8, "seed": 2}, Authorization="Bearer a-kéy".encode())
            need(t.texts()[1] == said["choices"][0]["message"]["content"], t.texts())
            t.page.reload()
            t.page.wait_for_selector("#log li")
            need(t.page.locator("#key").is_hidden() and "a-k" not in t.page.content() and "a-k" not in t.page.url, "where is the key?")


# ---- For everyone ----------------------------------------------------------------------------------------------------

# Each text on the screen against what is behind it (WCAG 2.2, 1.4.3), what is too small to touch (2.5.8), what is wider than the screen,
# labels that lead nowhere.
AUDIT = """(() => {
  const bad = [], canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = colour => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
    return [255, 255, 255, 255]; };
  const top = document.querySelector('dialog[open]') ?? document;
  for (const e of [...top.querySelectorAll('*')].filter(x => x.checkVisibility() && !x.closest('.away, .skip, option'))) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()), field = e.matches('input, textarea, select');
    const style = getComputedStyle(e, field && e.placeholder && !e.value ? '::placeholder' : null);
    if ((own || field) && !e.disabled) {
      const a = light(rgba(style.color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) bad.push(ratio.toFixed(2) + ': ' + (e.textContent || e.id).slice(0, 30));
    }
    const box = e.getBoundingClientRect();
    if (e.matches('button, input, select, textarea, summary') && (box.height < 24 || box.width < 24)) bad.push('small: ' + (e.id || e.textContent));
    if (box.width && box.right > innerWidth + 0.5 && !e.closest('.chips, table')) bad.push('outside: ' + e.tagName + ' ' + e.id);
    if (e.matches('[role=group]') && !e.ariaLabel) bad.push('a group without a name');
    if (e.tabIndex > 0) bad.push('tabindex: ' + e.id);
    for (const name of ['aria-labelledby', 'aria-controls', 'for'])
      if (e.hasAttribute(name) && !document.getElementById(e.getAttribute(name))) bad.push(name + ' of ' + e.id);
  }
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  if (new Set(ids).size !== ids.length) bad.push('an id stands twice');
  if (document.documentElement.scrollWidth > innerWidth) bad.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  if (!document.documentElement.lang || document.querySelectorAll('h1').length !== 1) bad.push('lang, h1');
  return bad.slice(0, 9);
})()"""
CONTROLS = {"button", "textbox", "combobox", "link", "dialog", "complementary", "region", "spinbutton", "checkbox"}


def audit(t, where):
    """That of the page, and the names that the browser gives to what assistive technology meets."""
    bad = t.page.evaluate(AUDIT)
    tree = t.context.new_cdp_session(t.page).send("Accessibility.getFullAXTree")["nodes"]
    for node in tree:
        role = node.get("role", {}).get("value")
        if role in CONTROLS and not node.get("ignored") and not node.get("name", {}).get("value", "").strip():
            properties = {p["name"]: p["value"].get("value") for p in node.get("properties", [])}
            bad.append(f"a {role} without a name {properties}")
    need(not bad, f"{where}: {bad}")


def every_width_and_colour_can_be_read(chromium):
    with talking() as s:
        said = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "' + "rose" * 9 + '"}}</tool_call>'
        ids = s.post("/tokenize", prompt=said)["tokens"]
        for width in (320, 375, 1280):
            for scheme in ("light", "dark"):
                with Tab(chromium, s.port, width, 740, expected=["status of 400"], color_scheme=scheme, has_touch=width < 600) as t:
                    where = f"{width} {scheme}"
                    t.page.wait_for_selector("#empty strong")
                    audit(t, where + " empty")
                    t.set(seed=1, max_tokens=8)
                    t.type("w" * 200)
                    t.set(max_tokens=len(ids) + 6, more=json.dumps({"tools": TOOLS, "resume_ids": ids}))
                    t.page.get_by_role("button", name="Edit").click()
                    audit(t, where + " edited")
                    t.page.get_by_role("textbox", name="Edit").fill(HELLO)
                    t.page.keyboard.press("Enter")
                    t.page.wait_for_selector(".call")
                    t.wait()
                    t.page.click("summary")
                    span = t.page.locator("[data-first]").first
                    span.scroll_into_view_if_needed()
                    t.page.mouse.move(1, 1)
                    span.tap() if width < 600 else span.hover()
                    need(t.page.locator("#tip").is_visible(), "no tip")
                    audit(t, where + " answered")
                    for name in ("Prompt", "Tokens"):
                        t.page.get_by_role("button", name=re.compile("^" + name)).first.click()
                        t.page.wait_for_selector("#tokens[open]")
                        audit(t, f"{where} {name}")
                        t.page.click("#tokens-close")
                    if width < 940:
                        need(t.page.locator("#settings").is_hidden(), "settings are open on a phone")
                        t.page.click("#toggle")
                    need(t.page.locator("#settings").is_visible(), "no settings")
                    audit(t, where + " settings")
                    t.set(max_tokens=9999, more="")
                    t.page.fill("#say", "And?")
                    t.page.click("#go")
                    t.page.get_by_role("alert").wait_for()
                    audit(t, where + " wrong")


def the_keyboard_is_enough(chromium):
    with talking() as s, Tab(chromium, s.port) as t:
        press, active = t.page.keyboard.press, lambda: t.page.evaluate("document.activeElement.id || document.activeElement.textContent")
        t.page.wait_for_selector("#empty strong")
        need(active() == "say", "the box has no focus at first")
        t.page.evaluate("document.body.tabIndex = -1, document.body.focus()")
        order = []
        for _ in range(30):
            press("Tab")
            order.append(active())
            shown = t.page.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e), p = getComputedStyle(e.parentElement);
                return s.outlineStyle !== 'none' || p.boxShadow !== 'none'; }""")
            need(shown, f"no focus can be seen at {order[-1]}")
            if order[-1] == "go":
                break
        need(order[:5] == ["Skip to the text box", "clear", "prompt", "toggle", "mode"] and order[-2:] == ["say", "go"]
             and "set-temperature" in order and len(set(order)) == len(order), order)
        t.page.focus("#set-max_tokens")
        t.page.keyboard.type("12")
        t.page.focus(".skip")
        press("Enter")
        press("Tab") if active() != "say" else None
        t.page.keyboard.type("A line")
        press("Shift+Enter")
        t.page.keyboard.type("and another")
        need(t.page.input_value("#say") == "A line\nand another" and not t.texts(), "Shift+Enter sends")
        press("Enter")
        t.wait()
        first = t.texts()
        need(first[0] == "A line\nand another" and active() == "say", (first, active()))
        back = []
        while "Regenerate" not in back and len(back) < 9:
            press("Shift+Tab")
            back.append(active())
        need(back[-1] == "Regenerate" and "Tokens" in back and "Keep this seed" in back, back)
        seed = t.seed()
        press("Enter")
        t.until("n => !document.querySelector('#log .foot:last-child').textContent.includes('seed ' + n)", seed)
        t.wait()
        need(t.texts()[0] == first[0] and active() == "say", t.texts())
        need(t.page.text_content("#status") == "Answer: " + t.texts()[1], t.page.text_content("#status"))
        t.page.focus("#toggle")
        press("Enter")
        need(t.page.get_attribute("#toggle", "aria-expanded") == "false" and t.page.locator("#settings").is_hidden(), "settings stay")


TESTS = (an_answer_is_that_of_the_server, a_seed_repeats_an_answer, an_earlier_message_can_be_edited, a_message_waits_for_the_server,
         a_stream_grows_and_stops,
         it_survives_a_reload, two_tabs_are_independent, probabilities_are_those_of_the_server, the_prompt_is_shown_as_tokens,
         reasoning_and_calls_are_shown, tokens_are_those_of_their_part, texts_stay_text, without_a_template_it_goes_on_with_texts, errors_are_shown, a_key_is_asked_for,
         every_width_and_colour_can_be_read, the_keyboard_is_enough)


def main():
    only, path = option_only(__doc__).parse_args().only, program.find()
    if not path:
        print("skip page: no browser (chromium or google-chrome)")
        return False
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("skip page: no playwright (make test-clients installs it)")
        return False
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        failed = sum(attempt(test.__name__, test, chromium) for test in TESTS if only in test.__name__)
        chromium.close()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
