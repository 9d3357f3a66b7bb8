"""What the tests of clients share: a model that says what it is told to, so that there are calls to understand."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from server import HELLO  # noqa: E402

NAME, CHAT = "shakespeare", "/v1/chat/completions"
SAID = '<think>hm</think>Well: <tool_call>{"name": "look_up", "arguments": {"word": "rose"}}</tool_call>'


def plain(given):
    """The same as a body."""
    return {**{k: v for k, v in given.items() if k != "extra_body"}, **given["extra_body"]}


def made_to_say(s, text, **given):
    """What makes the model say this and no more: the ids of the text as drawn before, then a stop text as the most probable one."""
    ids = s.post("/tokenize", prompt=text, add_special_tokens=False)["tokens"]
    stop = s.post("/tokenize", prompt="@", add_special_tokens=False)["tokens"]
    return dict(messages=HELLO, max_tokens=len(ids) + 9, logit_bias={str(stop[-1]): 1000}, stop="@", seed=1,
                extra_body={"resume_ids": ids}, **given)
