#!/usr/bin/env python3
"""tblock chat on a pseudo-terminal: editing, history, Ctrl-C, commands, a full context; and from a pipe. Prints "ok NAME",
"FAIL NAME: why" or "skip NAME: why". $TBLOCK is the program."""
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from verdicts import Skip, attempt  # noqa: E402

TBLOCK = os.environ.get("TBLOCK", str(ROOT / "build/release/tblock"))
TOOL = ROOT / os.environ.get("BUILD", "build/release") / "tests/text/chat_tool"
MODEL = str(ROOT / "models/shakespeare.bin")
PATIENCE = 300   # seconds; a busy machine is no failure
TEMP = None
EDITS = True   # is the program built with libedit? main looks


class Terminal:
    """A chat on a terminal of its own. Standard output and standard error both arrive there."""

    def __init__(self, *args, term="xterm", state=None, model=MODEL):
        env = dict(os.environ, TERM=term, XDG_STATE_HOME=str(state or TEMP / "state"), HOME=str(TEMP))
        try:
            self.pid, self.fd = pty.fork()
        except OSError:
            raise Skip("no pseudo-terminals here") from None
        if self.pid == 0:
            os.chdir(TEMP)
            os.execve(TBLOCK, [TBLOCK, "chat", model, "--chat-format", "alpaca", *args], env)
        self.seen, self.edits = "", EDITS and term != "dumb"

    def until(self, *whats):
        """What is shown up to and with `what`, or the first of several."""
        end, data = time.monotonic() + PATIENCE, self.seen.encode("utf-8", "surrogateescape")
        while not any(what.encode() in data for what in whats):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            try:
                more = os.read(self.fd, 65536) if ready else b""
            except OSError:
                more = b""
            assert more, "%r did not come; there is %r" % (whats, data[-400:])
            data += more
        text = data.decode("utf-8", "surrogateescape")
        at = min(text.index(what) + len(what) for what in whats if what in text)
        self.seen = text[at:]
        return text[:at].replace("\r\n", "\n")

    def type(self, keys):
        """At a prompt. The editor shows it before it takes the terminal over; until then the keys would be the terminal's own."""
        end = time.monotonic() + PATIENCE
        while self.edits and termios.tcgetattr(self.fd)[3] & termios.ICANON and time.monotonic() < end:
            time.sleep(0.001)
        self.interrupt(keys)

    def interrupt(self, keys="\x03"):
        os.write(self.fd, keys.encode())

    def say(self, text):
        """Type a line; what is shown until the next prompt, without the line itself."""
        self.type(text + "\n")
        shown = self.until("\n> ")
        return shown.split("\n", 1)[1][:-3] if "\n" in shown else shown

    def stops(self, begun, told):
        """Ctrl-C as soon as `begun` is shown. Is `told` what is said of it? Otherwise it came too late, and this chat is over."""
        late = self.until(begun, "\n> ").endswith("> ")
        if not late:
            self.interrupt()
            late = told not in self.until("\n> ")
        if late:
            os.close(self.fd)
            os.waitpid(self.pid, 0)
        return not late

    def end(self):
        """The exit status."""
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def chat(*args, **how):
    t = Terminal(*args, **how)
    t.until("> ")
    return t


def run(*args, text=None):
    return subprocess.run([TBLOCK, *args], input=text, capture_output=True, cwd=TEMP)


def prompt(*turns, system=None):
    """The ids that the format alpaca makes of user, assistant, user ..., as --ids takes them."""
    messages = [{"role": "system", "content": system}] if system else []
    messages += [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(turns)]
    request = json.dumps({"model": MODEL, "chat": "alpaca", "messages": messages}) + "\n"
    answer = json.loads(subprocess.run([str(TOOL)], input=request, capture_output=True, text=True).stdout)
    return ",".join(map(str, answer["ids"]))


def continued(ids, *options, model=MODEL):
    done = run("run", model, "--ids", ids, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def saved(t, name="saved.json"):
    t.say("/save " + name)
    return json.loads((TEMP / name).read_text())["messages"]


def windowed_model():
    """The model with a window of 9 positions."""
    windowed, n = re.subn(rb'(\\"window\\": ?)0', rb"\g<1>9", pathlib.Path(MODEL).read_bytes())
    assert n == 1
    (TEMP / "window.bin").write_bytes(windowed)
    return str(TEMP / "window.bin")


def contents(messages):
    return [m["content"] for m in messages]


# ---- claims ----

def answers_are_those_of_run():
    t = chat("-n", "30")
    t.say("Who art thou?")
    t.say("And why?")
    first, one, second, two = contents(saved(t))
    assert one == continued(prompt(first), "-n", "30")
    assert two == continued(prompt(first, one, second), "-n", "30")
    stats = t.say("/stats")
    assert "0 of the oldest dropped" in stats and "30 generated" in stats
    reused = int(stats.split("tokens reused")[0].split()[-1])
    assert reused > 40, "%d tokens of the first turn reused" % reused
    t.type("\x04")
    assert t.end() == 0


def drafts_change_no_answer():
    said, told = [], []
    for by in ("none", "ngram", MODEL):
        t = chat("-n", "30", "--draft", by)
        for text in ("Who art thou?", "And why?", "/regen", "Again?"):
            t.say(text)
        said.append(contents(saved(t)))
        told.append("its drafts" in t.say("/stats"))
        t.type("\x04")
        assert t.end() == 0
    assert said[0] == said[1] == said[2] and len(said[0]) == 6, said
    assert told == [False, True, True], told


def regen_samples_with_the_next_seed():
    t = chat("-n", "20", "--seed", "5")
    t.say("Speak.")
    t.say("/regen")
    t.say("/regen")
    assert contents(saved(t)) == ["Speak.", continued(prompt("Speak."), "-n", "20", "--seed", "7")]
    t.say("Again.")
    messages = contents(saved(t))
    assert messages[3] == continued(prompt(*messages[:3]), "-n", "20", "--seed", "5"), "a new turn begins with the seed given"
    t.say("/reset")
    assert "there is no answer yet" in t.say("/regen")


def lines_can_be_edited_and_called_back():
    t = chat("-n", "5")
    t.say("Good morrov")
    t.type("\x1b[A\x7fw\x01Sir: ")      # up, backspace, w, to the start of the line
    t.say("")
    t.say("caf\u00e9\x7fe")            # one backspace takes one character of two bytes
    found = contents(saved(t))[0::2]
    assert found == ["Good morrov", "Sir: Good morrow", "cafe"], found
    t.type("\x04")
    assert t.end() == 0
    lines = (TEMP / "state/tblock/history").read_text()
    assert "Sir:" in lines and oct((TEMP / "state/tblock/history").stat().st_mode)[-3:] == "600"
    again = chat("-n", "5")
    again.type("\x1b[A\x1b[A")          # over /save to cafe
    again.say("")
    assert contents(saved(again))[0] == "cafe"


def no_history_leaves_no_file():
    state = TEMP / "none"
    t = chat("-n", "5", "--no-history", state=state)
    t.say("Hello")
    t.type("\x04")
    assert t.end() == 0 and not state.exists()
    (TEMP / "file").write_text("")
    t = chat("-n", "5", state=TEMP / "file")   # the folder cannot be made: no history, no complaint
    assert "history" not in t.say("Hello")
    t.type("\x04")
    assert t.end() == 0


def ctrl_c_stops_the_answer_and_not_the_program():
    t = chat("--isa", "scalar", "--threads", "1", "--ctx", "16384")
    t.type("Tell me all.\n")
    t.until("Tell me all.")
    t.until("\n")
    t.until(continued(prompt("Tell me all."), "-n", "4").split()[0]) # some of the answer, not the line of progress
    t.interrupt()
    t.until("stopped; the conversation keeps the answer")
    t.until("> ")
    t.type("half a line\x03")
    t.until("Ctrl-D or /quit ends the program")
    t.until("> ")
    said, answer = contents(saved(t))
    assert said == "Tell me all." and answer
    t.type("/quit\n")
    assert t.end() == 0


def what_is_stopped_before_it_begins_changes_nothing():
    """A long message pushes the first turn out; stopped while it is read, it is taken back, and the turn is told again."""
    for words in (200, 300, 400, 500, 600):   # once more, with more to read, where the answer had begun before Ctrl-C came
        if stopped_while_it_reads("word " * words):
            return
    raise AssertionError("each Ctrl-C came too late")


def stopped_while_it_reads(long):
    ctx = str(prompt(long).count(",") + 111)
    t = chat("--isa", "scalar", "--threads", "1", "-n", "100", "--seed", "5", "--ctx", ctx, model=windowed_model())
    t.say("one")
    t.type(long + "\n")
    if not t.stops("oldest messages;", "the message was removed"):
        return False
    assert "0 of the oldest dropped" in t.say("/stats")
    t.say("/regen")
    assert contents(saved(t)) == ["one", continued(prompt("one"), "-n", "100", "--seed", "6", "--ctx", ctx, model=windowed_model())]
    t.say(long)
    before = saved(t)
    t.type("/regen\n")                  # the window forgot what it goes back to: all is read again
    if not t.stops("reading", "the old answer is kept"):
        return False
    assert len(before) == 4 and saved(t) == before
    return True


def a_full_context_leaves_out_the_oldest_turns():
    t = chat("--ctx", "120", "-n", "20")
    shown = [t.say("Message number %d, good sir." % i) for i in range(6)]
    notes = [i for i, s in enumerate(shown) if "the context of 120 tokens is full" in s]
    assert notes and notes[0] > 0, shown
    messages = contents(saved(t))
    assert len(messages) == 12, "what is left out is still saved"
    stats = t.say("/stats")
    left_out = int(stats.split(" of the oldest dropped")[0].split()[-1])
    assert left_out >= 2 and left_out % 2 == 0
    assert messages[-1] == continued(prompt(*messages[left_out:-1]), "-n", "20", "--ctx", "120"), "the answer is that of what is left"
    assert "the context holds 120" in t.say("word " * 200)
    assert len(saved(t)) == 12, "a message that does not fit is taken back"


def an_answer_ends_where_the_context_does():
    t = chat("--ctx", "60")
    assert "the context of 60 tokens is full; the next message" in t.say("Speak on.")


def a_window_that_forgot_is_read_again():
    """Layers with a window give up old positions: a cache that cannot go back is made anew, with the same answers."""
    model = windowed_model()
    t = chat("-n", "100", "--ctx", "512", model=model)
    t.say("Speak at length.")
    t.say("/regen")                     # back by 100 positions
    assert contents(saved(t))[1] == continued(prompt("Speak at length."), "-n", "100", "--ctx", "512", "--seed", "1", model=model)
    assert " 0 tokens reused" in t.say("/stats")
    t.say("/system Rhyme.")             # back to the beginning
    t.say("Go on.")
    messages = contents(saved(t))
    assert messages[4] == continued(prompt(*messages[1:4], system="Rhyme."), "-n", "100", "--ctx", "512", model=model)


def system_text_stays_and_is_told():
    t = chat("-n", "10", "--system", "Be brief.")
    t.say("Hello")
    t.say("/reset")
    assert "Be brief." in t.say("/system")
    t.say("/system Rhyme.")
    t.say("Hello")
    messages = saved(t)
    assert [m["role"] for m in messages] == ["system", "user", "assistant"] and messages[0]["content"] == "Rhyme."
    assert messages[2]["content"] == continued(prompt("Hello", system="Rhyme."), "-n", "10")


def a_saved_conversation_goes_on():
    t = chat("-n", "10")
    t.say("One")
    before = saved(t, "talk.json")
    t.say("/reset")
    t.say("/load talk.json")
    t.say("Two")
    messages = contents(saved(t))
    assert messages[:2] == contents(before) and messages[3] == continued(prompt(*messages[:3]), "-n", "10")
    (TEMP / "waits.json").write_text(json.dumps([{"role": "user", "content": "Reply."}]))
    t.say("/load waits.json")
    assert contents(saved(t)) == ["Reply.", continued(prompt("Reply."), "-n", "10")]


def each_answer_has_a_receipt():
    t = chat("-n", "8")
    assert "answer will be in r.json" in t.say("/receipt r.json")
    prompts = []
    for text in ("One", "Two"):
        t.say(text)
        receipt = json.loads((TEMP / "r.json").read_text())
        prompts.append(receipt["prompt"])
        assert 0 < len(receipt["drawn"]) <= 8 and re.fullmatch("[0-9a-f]{64}", receipt["chat"]["sha256"]) and receipt["chat"]["date"] is None
        done = subprocess.run([TBLOCK, "verify", MODEL, str(TEMP / "r.json")], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0 and "every token and every bit" in done.stdout, done.stderr
    assert prompts[1][:len(prompts[0])] == prompts[0] and len(prompts[1]) > len(prompts[0])
    before = (TEMP / "r.json").read_bytes()
    assert "no more receipts" in t.say("/receipt")
    t.say("Three")
    assert (TEMP / "r.json").read_bytes() == before
    assert "other than the input" in t.say("/receipt " + MODEL)
    t.say("/receipt missing/folder.json")
    assert "missing/folder.json" in t.say("Four")
    t.say("Five")


def bad_files_change_nothing():
    t = chat("-n", "5")
    t.say("One")
    before = saved(t)
    for text, word in (("{", "bad.json"), ("[1]", "expected an object"), ('[{"role": "tool", "content": ""}]', "no place for roles"),
                       ('[{"role": "user", "content": 3}]', "as one text"), ('[{"content": "x"}]', "role: expected a text, found nothing"), ('{"messages": {}}', "messages"), ("", "bad.json"),
                       ('[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]', "in front")):
        (TEMP / "bad.json").write_text(text)
        shown = t.say("/load bad.json")
        assert word in shown and "tblock: " in shown, "%r: %r" % (text, shown)
    assert "no such" in t.say("/load missing.json").lower()
    assert "expected a file name" in t.say("/load")
    assert "tblock: " in t.say("/save missing/folder.json")
    assert "other than the input" in t.say("/save " + MODEL)
    assert saved(t) == before


def a_file_is_saved_where_and_as_it_is():
    """What a name leads to is replaced: a link and a file's mode stay, and a FIFO is written to."""
    (TEMP / "real.json").write_text("old")
    (TEMP / "real.json").chmod(0o600)
    (TEMP / "link.json").symlink_to("real.json")
    os.mkfifo(TEMP / "fifo")
    t = chat("-n", "5")
    t.say("One")
    messages = saved(t, "link.json")
    assert (TEMP / "link.json").is_symlink() and oct((TEMP / "real.json").stat().st_mode)[-3:] == "600"
    reader = os.open(TEMP / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    t.say("/save fifo")
    assert json.loads(os.read(reader, 65536))["messages"] == messages
    os.close(reader)
    assert "saved" in t.say("/save /dev/null") and not os.path.isfile("/dev/null")


def the_sandbox_answers_the_same_and_opens_no_file():
    state = TEMP / "none"
    (TEMP / "old.json").write_text('[{"role": "user", "content": "a"}]')
    t = chat("-n", "20", "--sandbox", "--threads", "2", state=state)
    said = t.say("Who art thou?")
    for command in ("/save out.json", "/load old.json", "/receipt out.json"):
        assert "not available with --sandbox" in t.say(command), command
    t.type("\x04")
    assert t.end() == 0 and not state.exists() and not (TEMP / "out.json").exists()
    assert continued(prompt("Who art thou?"), "-n", "20").strip().split("\n")[0] in said, said


def commands_are_explained():
    t = chat("-n", "5")
    shown = t.say("/help")
    assert all(word in shown for word in ("/reset", "/system TEXT", "/save FILE", "/load FILE", "/receipt FILE", "/regen", "/stats", "/quit"))
    assert "did you mean /stats?" in t.say("/stat")
    assert "/help lists them" in t.say("/xyzzy")
    assert "expected nothing after it" in t.say("/reset all")
    t.say("//help is a message")
    assert contents(saved(t))[0] == "/help is a message"


def messages_may_have_several_lines():
    t = chat("-n", "5")
    t.type("one\\\n")
    t.until(". ")
    t.say("two")
    for line in ('"""', "three", "/reset", ""):
        t.type(line + "\n")
        t.until(". ")
    t.say('"""')
    assert contents(saved(t))[0::2] == ["one\ntwo", "three\n/reset\n"]


def a_dumb_terminal_is_enough():
    t = chat("-n", "5", term="dumb")
    t.say("Hello")
    assert contents(saved(t))[0] == "Hello"
    t.type("\x03")
    t.until("Ctrl-D or /quit")
    t.until("> ")
    t.type("\x04")
    assert t.end() == 0


def a_pipe_gets_the_answer_alone():
    done = run("chat", MODEL, "--chat-format", "alpaca", "-n", "25", text=b"Two\nlines\n")
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.decode() == continued(prompt("Two\nlines"), "-n", "25")
    done = run("chat", MODEL, "--chat-format", "alpaca", text=b"")
    assert done.returncode == 2 and b"expected a message to answer" in done.stderr


REASONS = ("{% for m in messages %}<|{{ m.role }}|>{{ '<think>' + m.reasoning_content + '</think>' if m.reasoning_content }}{{ m.content }}"
           "{% for c in m.tool_calls or [] %}<call>{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}</call>"
           "{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")


def reasoning_and_calls_are_told_apart():
    (TEMP / "t.jinja").write_text(REASONS)
    (TEMP / "tools.json").write_text('[{"type": "function", "function": {"name": "get"}}]')
    drawn = '<think>Hm.</think>So:<call>{"name": "get", "arguments": {"x": 5}}</call>'
    given = ["--chat-format", "t.jinja", "-q", "--regex", re.escape(drawn).replace('\\"', '"').replace("\\<", "<")]
    for more, expected in (["--tools", "tools.json"], 'So:\n{"name": "get", "arguments": {"x": 5}}'), ([], drawn.split("</think>")[1]), (["--raw"], drawn):
        done = run("chat", MODEL, *given, *more, text=b"Hi")
        assert (done.returncode, done.stdout.decode().strip()) == (0, expected), done
    t = chat(*given, "--tools", "tools.json")
    shown = t.say("Hi")
    assert "\x1b[2mHm.\x1b[0m\n\nSo:\n{" in shown, shown
    call = {"id": "call00000", "type": "function", "function": {"name": "get", "arguments": {"x": 5}}}
    assert saved(t)[1] == {"role": "assistant", "content": "So:", "reasoning_content": "Hm.", "tool_calls": [call]}
    t.type("\x04")
    assert t.end() == 0


def without_a_format_the_option_is_named():
    done = run("chat", MODEL, text=b"Hello")
    assert done.returncode == 3 and b"--chat-format" in done.stderr
    done = run("chat", MODEL, "--chat-format", "lama", text=b"Hello")
    assert done.returncode == 2 and b"alpaca, " in done.stderr
    done = run("chat", MODEL, "--chat-format", "gemma", "--system", "x", text=b"Hello")
    assert done.returncode == 2 and b"does not support one" in done.stderr


CLAIMS = [answers_are_those_of_run, drafts_change_no_answer, regen_samples_with_the_next_seed,
          lines_can_be_edited_and_called_back, no_history_leaves_no_file,
          ctrl_c_stops_the_answer_and_not_the_program, what_is_stopped_before_it_begins_changes_nothing,
          a_full_context_leaves_out_the_oldest_turns, an_answer_ends_where_the_context_does, a_window_that_forgot_is_read_again,
          system_text_stays_and_is_told, a_saved_conversation_goes_on, each_answer_has_a_receipt, bad_files_change_nothing, a_file_is_saved_where_and_as_it_is,
          the_sandbox_answers_the_same_and_opens_no_file, commands_are_explained, messages_may_have_several_lines,
          a_dumb_terminal_is_enough, a_pipe_gets_the_answer_alone,
          reasoning_and_calls_are_told_apart, without_a_format_the_option_is_named]


def has_an_editor():
    """Was the program built with libedit?"""
    return b"libedit" in subprocess.run(["ldd", TBLOCK], capture_output=True).stdout


def sandbox_is_possible():
    done = subprocess.run([TBLOCK, "run", MODEL, "--ids", "1", "-n", "0", "--sandbox"], capture_output=True)
    return done.returncode != 4


def main():
    global TEMP, EDITS
    failed = 0
    EDITS = has_an_editor()
    for claim in CLAIMS:
        if len(sys.argv) > 1 and claim.__name__ not in sys.argv[1:]:
            continue
        if claim is lines_can_be_edited_and_called_back and not EDITS:
            print("skip %s: built without libedit" % claim.__name__)
            continue
        if claim is the_sandbox_answers_the_same_and_opens_no_file and not sandbox_is_possible():
            print("skip %s: no seccomp here" % claim.__name__)
            continue
        with tempfile.TemporaryDirectory() as folder:
            TEMP = pathlib.Path(folder)
            failed += attempt(claim.__name__, claim)
    return 1 if failed else 0


sys.exit(main())
