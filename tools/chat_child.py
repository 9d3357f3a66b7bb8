"""Runs a chat template for chat.py, in a process of its own: {"template", "variables", "conversations": [{"messages", "open"}]} as
JSON on stdin, [{"text"} or {"error"}] on stdout. Jinja is set as transformers sets it (utils/chat_template_utils.py), in its
sandbox; what a sandbox does not bound is bounded here: memory and time by the system, the text by counting."""
import datetime
import json
import resource
import sys

MOST_TEXT = 1 << 20        # bytes of one conversation
MEMORY, SECONDS = 1 << 30, 5
FIXED_DAY = datetime.datetime(2024, 7, 26)   # for templates that do not work without a date: the same file each time


def environment(dated):
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %} marks an answer for training; its text is as without."""
        tags = {"generation"}

        def parse(self, parser):
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    if dated:
        env.globals["strftime_now"] = FIXED_DAY.strftime
    return env


def render(template, variables, conversation):
    parts, n = [], 0
    try:
        for part in template.generate(messages=conversation["messages"], add_generation_prompt=conversation["open"], tools=None,
                                      documents=None, **variables):
            n += len(part)
            if n > MOST_TEXT:
                return {"error": "a text over %d bytes" % MOST_TEXT}
            parts.append(part)
    except Exception as e:   # whatever the program does wrong is the answer
        return {"error": "%s: %s" % (type(e).__name__, str(e)[:200])}
    return {"text": "".join(parts)}


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    task = json.load(sys.stdin)
    try:
        template = environment(task["dated"]).from_string(task["template"])
    except ImportError:
        return json.dump({"missing": "jinja2"}, sys.stdout)
    except Exception as e:
        return json.dump({"broken": "%s: %s" % (type(e).__name__, str(e)[:200])}, sys.stdout)
    json.dump([render(template, task["variables"], c) for c in task["conversations"]], sys.stdout)


if __name__ == "__main__":
    main()
