"""The chat template of a folder as a chat format (docs/format.md, section Chat): the template, a Jinja program, is run on
conversations of marked contents, the text around the marks becomes the forms, and the forms are checked on others."""
import json
import os
import subprocess
import sys

from handover import HandOver

CONFIG, SPECIAL, ALONE, PROCESSOR = "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json"
MOST_TEMPLATE = 1 << 18    # bytes; the largest published ones are under 30 KB
SECONDS = 20
CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "chat_child.py")


class Inexpressible(Exception):
    """The forms cannot say what the template does."""


def of_folder(folder, special):
    """(the format or None, lines for the user); None without a template. special: the tokenizer's special tokens."""
    template, notes = find(folder), []
    if template is None:
        return None, []
    try:
        return derive(Program(template, variables_of(folder), notes), special), notes
    except Inexpressible as e:
        return None, ["chat template: %s: only the template itself is stored" % e]


# ---- finding the template ----

def read(folder, name):
    """An object; empty where there is no such file."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            found = json.load(f)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        raise HandOver(name)
    return found if isinstance(found, dict) else {}


def variables_of(folder):
    """What the template may use: names of special tokens."""
    names = dict(read(folder, SPECIAL), **read(folder, CONFIG))   # null in CONFIG says that the model has no such token
    variables = {"bos_token": "", "eos_token": ""}
    for key in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = names.get(key)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            variables[key] = value
    more = names.get("additional_special_tokens")
    if isinstance(more, list):
        variables["additional_special_tokens"] = [t for t in more if isinstance(t, str)]
    return variables


def find(folder):
    """A file of its own first, as transformers does; of several templates the one that is called default."""
    path = os.path.join(folder, ALONE)
    if os.path.exists(path):
        with open(path, "rb") as f:
            found = f.read(MOST_TEMPLATE + 1).decode("utf-8", "replace")
    else:
        found = read(folder, CONFIG).get("chat_template")
        found = read(folder, PROCESSOR).get("chat_template") if found is None else found
    if isinstance(found, list):
        named = {e.get("name"): e.get("template") for e in found if isinstance(e, dict)}
        found = named.get("default", next(iter(named.values()), None))
    if found is not None and (not isinstance(found, str) or len(found.encode("utf-8", "replace")) > MOST_TEMPLATE):
        raise HandOver("chat_template")
    return found


def quoted(text):
    """Made safe for one line of a terminal."""
    text = "".join(c if c.isprintable() else "\\x%02x" % ord(c) for c in str(text))
    return text if len(text) <= 120 else text[:117] + "..."


# ---- running it ----

class Program:
    """A template; run() gives the texts of conversations, None where it refuses one."""

    def __init__(self, template, variables, notes):
        self.template, self.variables, self.dated = template, variables, False
        self.answers = {}   # of all conversations that derive() will ask for, made at once: a process takes longer than they do
        tasks = BASE + trim_tasks() + thinking_tasks() + check_tasks(["uu"])
        answers = self.ask(tasks)
        if "text" not in answers[0] and "strftime_now" in answers[0]["error"]:
            self.dated = True
            notes.append("the chat template asks for today's date: 26 July 2024 is stored in its place")
            answers = self.ask(tasks)
        if "text" not in answers[0]:
            raise Inexpressible("it fails for a single message: %s" % quoted(answers[0]["error"]))
        self.answers = {json.dumps(t): a for t, a in zip(tasks, answers)}

    def ask(self, tasks):
        task = {"template": self.template, "variables": self.variables, "dated": self.dated,
                "conversations": [{"messages": m, "open": o} for m, o in tasks]}
        try:
            done = subprocess.run([sys.executable, "-B", CHILD], input=json.dumps(task).encode(), stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=SECONDS)
            answer = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError):
            raise Inexpressible("it takes more than %d seconds or too much memory" % SECONDS)
        if isinstance(answer, dict) and "missing" in answer:
            raise Inexpressible("the Python package %s is needed to run it (tools/requirements.txt)" % answer["missing"])
        if isinstance(answer, dict):
            raise Inexpressible("it is not a Jinja template: %s" % quoted(answer.get("broken")))
        return answer

    def run(self, tasks):
        return [(self.answers.get(json.dumps(t)) or self.ask([t])[0]).get("text") for t in tasks]


def conversation(roles, pad="", number=0):
    """Marked messages of roles 's', 'u', 'a'. pad: white space around the contents."""
    names = {"s": "system", "u": "user", "a": "assistant"}
    return [{"role": names[r], "content": pad + mark(r, i + number) + pad} for i, r in enumerate(roles)]


def mark(role, i):
    return "Qz%s%dzQ" % (role, i)


def cut(text, messages):
    """The text around the marks, in pieces."""
    pieces = []
    for m in messages:
        before, found, text = text.partition(m["content"].strip())
        if not found:
            raise Inexpressible("a message's content is missing, changed or out of order")
        pieces.append(before)
    return pieces + [text]


def common(a, b):
    """What both begin with, not cut inside a token such as <|user|>."""
    both = os.path.commonprefix([a, b])
    at = both.rfind("<")
    return both[:at] if at > both.rfind(">") and both != a and both != b else both


def literal(text):
    return text.replace("{", "{{").replace("}", "}}")


# ---- deriving the forms ----

TURNS = [("u", True), ("u", False), ("uau", True), ("uauau", True), ("ua", False), ("uu", True), ("su", True), ("suau", True)]
BASE = [(conversation(roles), open_) for roles, open_ in TURNS]


def derive(program, special):
    """The format object of a template."""
    texts = dict(zip(TURNS, program.run(BASE)))
    for task in TURNS[:5]:
        if texts[task] is None:
            raise Inexpressible("it refuses a conversation of %d messages" % len(task[0]))
    parts = Parts(texts)
    trims = find_trims(program, texts[("su", True)] is not None)
    f = {"version": 1, "name": name_of(program.template)}
    system = System(parts, texts, program)
    put(f, "begin", literal(system.begin))
    f.update(system.forms(trims))
    f["user"] = literal(parts.user_prefix) + content(trims["u"]) + literal(parts.user_suffix)
    if system.user_first is not None:
        f["user_first"] = literal(system.user_first) + content(trims["u"]) + literal(parts.user_suffix)
    f["assistant"] = literal(parts.answer_prefix) + content(trims["a"]) + literal(parts.answer_suffix)
    f["open"] = literal(parts.open)
    put(f, "close", literal(parts.close))
    f.update(thinking(program))
    if texts[("uu", True)] is None:
        f["alternate"] = True
    elif rendered(f, conversation("uu"), True) != texts[("uu", True)]:
        f["alternate"] = True   # two messages in a row are something of their own there: refused, rather than wrong
    put(f, "stop", stops(parts, special))
    check(program, f, ["uu"] if texts[("uu", True)] is None or "alternate" not in f else [])
    return f


def put(f, key, value):
    if value:
        f[key] = value


def content(trimmed):
    return "{trim}{content}{/trim}" if trimmed == "both" else "{content}"


class Parts:
    """Prefixes and suffixes of the turns, from conversations without system text."""

    def __init__(self, texts):
        one, closed = (cut(texts[("u", o)], conversation("u")) for o in (True, False))
        two = cut(texts[("uau", True)], conversation("uau"))
        answered = cut(texts[("ua", False)], conversation("ua"))
        self.start = one[0]                       # begin, default system text, user_prefix
        joint, end = two[1], two[3]               # user_suffix + answer_prefix; user_suffix + open
        self.user_suffix = common(common(joint, end), closed[1])
        self.close = closed[1][len(self.user_suffix):]
        self.open, self.answer_prefix = end[len(self.user_suffix):], joint[len(self.user_suffix):]
        self.answer_suffix = answered[2][:len(answered[2]) - len(self.close)] if answered[2].endswith(self.close) else answered[2]
        if not two[2].startswith(self.answer_suffix):
            self.always_closed(answered[2], two[2], end)
        self.user_prefix = two[2][len(self.answer_suffix):]

    def always_closed(self, answered, between, end):
        """After the last answer stands something else than between turns: an opening that comes in any case, or an end."""
        self.answer_suffix = common(answered, between)
        rest = answered[len(self.answer_suffix):]
        if not self.close and rest and end.endswith(rest) and self.open == "":
            self.open = self.close = rest
            joint = self.user_suffix + self.answer_prefix
            self.user_suffix = end[:len(end) - len(rest)]
            self.answer_prefix = joint[len(self.user_suffix):]


class System:
    """Where the system text goes, what stands in front of all, and the text that is told where there is none."""

    def __init__(self, parts, texts, program):
        self.parts, self.user_first, self.default, self.kind = parts, None, None, "none"
        self.begin = self.shared(parts.start, parts.user_prefix)
        one, later = texts[("su", True)], texts[("suau", True)]
        if one is not None and later is not None:
            self.place(one, later, program.variables["bos_token"])
        elif not self.whole_start(parts.start):
            self.begin, self.user_first = "", parts.start

    def shared(self, start, prefix):
        return start[:len(start) - len(prefix)] if start.endswith(prefix) else ""

    def whole_start(self, start):
        return start == self.begin + self.parts.user_prefix

    def place(self, one, later, bos):
        s, u = (m["content"] for m in conversation("su"))
        if s not in one:
            self.kind = "ignored"
            return
        before, after = one.split(s, 1)
        between = after.split(u, 1)[0]
        self.find_default(before, between, bos)
        if later.index(s) > later.index(mark("a", 2)):
            self.kind, self.before, self.between = "last", before[len(self.begin):], between
            if not before.startswith(self.begin):
                raise Inexpressible("the system text changes what the conversation begins with")
        elif between.endswith(self.parts.user_prefix) and self.default is not None or between == self.parts.user_prefix or \
                (between.endswith(self.parts.user_prefix) and before.startswith(self.begin)):
            self.kind, self.before = "turn", before[len(self.begin):]
            self.between = between[:len(between) - len(self.parts.user_prefix)]
        else:
            self.in_turn(before, between)
        if self.default is None and not self.whole_start(self.parts.start):
            self.first_form(before, between)

    def find_default(self, before, between, bos):
        """Without a system text, the start may be that of one with a text of the template's own."""
        start, plain = self.parts.start, self.begin + self.parts.user_prefix
        fits = start.startswith(before) and start.endswith(between) and len(start) >= len(before) + len(between)
        if fits and (start != before + between or before + between != plain):
            self.default = start[len(before):len(start) - len(between)]
        if self.default is not None:
            self.begin = bos if bos and before.startswith(bos) else ""

    def in_turn(self, before, between):
        if not before.startswith(self.begin):
            self.begin = common(self.begin, before)
        self.kind, self.before, self.between = "first", before[len(self.begin):], between

    def first_form(self, before, between):
        """The first user's turn differs from later ones, with a system text in front of it or not."""
        self.begin = common(self.begin, self.parts.start)
        self.user_first = self.parts.start[len(self.begin):]
        if self.kind == "turn" or between.endswith(self.user_first):
            self.kind, self.before = "turn", before[len(self.begin):]
            self.between = between[:len(between) - len(self.user_first)]

    def forms(self, trims):
        f = {}
        system = "{trim}{system}{/trim}" if trims["s"] == "both" else "{system}"
        if self.kind == "ignored":
            f["system"] = ""
        if self.kind == "turn":
            f["system"] = literal(self.before) + system + literal(self.between)
        if self.kind in ("first", "last"):
            f["user_system"] = self.with_user(trims, system)
            put(f, "user_system_at", "last" if self.kind == "last" else "")
        if self.default is not None:
            f["default_system"] = self.default
        return f

    def with_user(self, trims, system):
        """The user's turn that holds the system text: trimmed as a whole, content alone, or not."""
        prefix = self.parts.user_prefix
        opened = self.before.startswith(prefix)
        before = self.before[len(prefix):] if opened else self.before
        end = "{content}{/trim}" if trims["su"] == "right" else content(trims["su"])
        lead = literal(prefix) if opened else ""
        if trims["su"] == "right" and system == "{system}":
            return lead + "{trim}" + literal(before) + system + literal(self.between) + end + literal(self.parts.user_suffix)
        if trims["su"] == "right":   # no pair inside another: the group begins after the system text's own
            blank = len(self.between) - len(self.between.lstrip())
            return lead + literal(before) + system + literal(self.between[:blank]) + "{trim}" + literal(self.between[blank:]) + end + \
                literal(self.parts.user_suffix)
        return lead + literal(before) + system + literal(self.between) + end + literal(self.parts.user_suffix)


def trim_tasks():
    """With a system text and without."""
    return [(conversation(roles, " \n "), True) for roles in ("suauau", "uauau")]


def find_trims(program, has_system):
    """How white space around the contents fares: of 's', 'u' (a later turn), 'a', and 'su' (a user's turn after a system text)."""
    roles = "suauau" if has_system else "uauau"
    text = program.run(trim_tasks())[0 if has_system else 1]
    if text is None:
        raise Inexpressible("it refuses white space around contents")
    at = {"s": 0, "su": 1, "a": len(roles) - 2, "u": 2 if not has_system else 3} if has_system else {"a": 1, "u": 0}
    found = {"s": "none", "su": "none"}
    for key, i in at.items():
        m = mark(roles[i], i)
        if m not in text:
            found[key] = "none"
            continue
        left, right = text.split(m, 1)
        kept = left.endswith(" \n "), right.startswith(" \n ")
        found[key] = {(True, True): "none", (False, False): "both", (True, False): "right", (False, True): "left"}[kept]
    if "left" in found.values() or "right" in (found["s"], found["u"], found["a"]):
        raise Inexpressible("it trims contents at one end")
    return found


def thinking_tasks():
    """An answer with thoughts, and the same without."""
    messages = conversation("uau")
    messages[1]["content"] = "<think>\nQztzQ\n</think>\n\n" + mark("a", 1)
    return [(messages, True), (conversation("uau"), True)]


def thinking(program):
    text, plain = program.run(thinking_tasks())
    if text is None or "QztzQ" in text or mark("a", 1) not in text:
        return {}
    return {"thinking_end": "</think>", "thinking_strip": True} if text == plain else {"thinking_end": "</think>"}


def stops(parts, special):
    """What ends an answer: the first special token after it, or else the text there."""
    after = parts.answer_suffix + parts.user_prefix
    found = [(after.index(s), -len(s), s) for s in special if s and s in after]
    if found:
        return [min(found)[2]]
    text = parts.answer_suffix.strip() or parts.user_prefix.strip()
    return [text[:128]] if text else []


def name_of(template):
    """A name for people; the forms say what holds."""
    for name, words in (("chatml", ["<|im_start|>"]), ("llama3", ["<|start_header_id|>"]), ("llama2", ["[INST]", "<<SYS>>"]),
                        ("mistral", ["[INST]"]), ("phi-3", ["<|assistant|>", "<|end|>"]), ("gemma", ["<start_of_turn>"]),
                        ("command-r", ["<|START_OF_TURN_TOKEN|>"]), ("granite", ["<|start_of_role|>"]), ("zephyr", ["<|assistant|>"]),
                        ("vicuna", ["USER:", "ASSISTANT:"]), ("alpaca", ["### Instruction:"]), ("deepseek", ["<｜Assistant｜>"])):
        if all(w in template for w in words):
            return name
    return "custom"


# ---- checking them ----

def rendered(f, messages, open_):
    """What src/text/chat_render.c makes of a format."""
    system, turns = f.get("default_system"), messages
    if messages[0]["role"] == "system":
        system, turns = messages[0]["content"], messages[1:]
        if "system" not in f and "user_system" not in f:
            return None
    roles = [m["role"] for m in turns]
    if f.get("alternate") and roles != ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2):
        return None
    text = fill(f.get("begin", ""), "", "")
    if system is not None:
        text += fill(f.get("system", ""), "", system)
    first = True
    for i, m in enumerate(turns):
        body, form = m["content"], "assistant"
        if m["role"] == "user":
            here = i + 1 == len(turns) if f.get("user_system_at") == "last" else first
            form = "user_system" if here and system is not None and "user_system" in f else \
                "user_first" if first and "user_first" in f else "user"
            first = False
        elif "thinking_end" in f and f["thinking_end"] in body:
            body = body.split(f["thinking_end"])[-1]
            body = body.lstrip("\n") if f.get("thinking_strip") else body
        text += fill(f[form], body, system)
    return text + fill(f["open"] if open_ else f.get("close", ""), "", "")


def fill(form, body, system):
    out, start, i = "", 0, 0
    while i < len(form):
        word = next((w for w in ("{{", "}}", "{content}", "{system}", "{trim}", "{/trim}") if form.startswith(w, i)), form[i])
        i += len(word)
        if word == "{trim}":
            start = len(out)
        elif word == "{/trim}":
            out = out[:start] + out[start:].strip()
        else:
            out += {"{{": "{", "}}": "}", "{content}": body, "{system}": system}.get(word, word)
    return out


def check_tasks(more):
    """Conversations that the forms are not made from, in all of which the user has the last word."""
    tasks = []
    for roles in ["u", "uau", "uauau", "su", "suau", "suauau"] + more:
        for pad in ("", " ", "\n\n"):
            tasks += [(conversation(roles, pad, 3), open_) for open_ in (True, False)]
    for words in (("Hi", "Well, {x} {{ y }}", "2+2?\nshow \"it\""), ("caf\u00e9 \U0001f600", "a\n\nb", "<b>&amp;</b>")):
        turns = [{"role": r, "content": w} for r, w in zip(("user", "assistant", "user"), words)]
        tasks += [(turns, True), ([{"role": "system", "content": "Be brief."}] + turns, True)]
    return tasks


def check(program, f, more):
    tasks = check_tasks(more)
    for (messages, open_), text in zip(tasks, program.run(tasks)):
        if rendered(f, messages, open_) != text:
            raise Inexpressible("the forms found do not say what it does with %d messages%s" % (
                len(messages), " and a system text" if messages[0]["role"] == "system" else ""))
