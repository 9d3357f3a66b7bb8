#!/usr/bin/env python3
"""Conversations through a model's own chat template, as text and as ids, against transformers' apply_chat_template: fifty conversations
(tests/text/jinja_conversations.py) for each template of $TBLOCK_TEST_DATA.

    live_chat.py [FOLDER]     FOLDER: for each *.jinja in it; prints "ok NAME", "FAIL NAME: why" or "skip NAME: why"

Each template gets a tokenizer that has its special tokens. Ids are compared where no message spells one: there transformers reads
the token, and tblock does not. A template that asks for the date gets the same one on both sides. Needs transformers and jinja2 (without
torch). $BUILD/tests/text/chat_tool answers."""
import datetime
import json
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "text")]
import test_chat_templates as chats  # noqa: E402
from jinja_conversations import CONVERSATIONS  # noqa: E402
from test_jinja import templates  # noqa: E402
from verdicts import Skip, attempt, need  # noqa: E402

import transformers  # noqa: E402
from transformers import tokenization_utils_base  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402

DATE = datetime.datetime(2026, 2, 3)


class FixedDate(datetime.datetime):
    """transformers defines strftime_now by datetime.now(). The date alone is fixed: tblock has no time of day."""
    @classmethod
    def now(cls, tz=None):
        return DATE


def special_tokens(template):
    """What looks like one in a template."""
    found = re.findall(r"<\|[^|<>]+\|>|<[a-z_]+_of_[a-z]+>|\[/?[A-Z_]+\]|<\uff5c[^\uff5c]+\uff5c>|</?(?:think|tool_call)>", template)
    return ["<s>", "</s>"] + sorted(set(found))


def given_of(conversation):
    """(the messages, the tools, whether to open an answer, more variables)"""
    more = dict(conversation)
    messages, tools = more.pop("messages"), more.pop("tools", None)
    return messages, tools, more.pop("add_generation_prompt", False), more


# As this version does, and as versions up to 5.22 did, which left keys with null as they are.
NORMALIZED = (chat_template_utils._normalize_chat_messages, chat_template_utils._message_objects_to_dicts)


def theirs(tokenizer, conversation):
    """(text, ids); None where the template fails."""
    messages, tools, opening, more = given_of(conversation)
    for normalized in NORMALIZED:
        tokenization_utils_base._normalize_chat_messages = normalized
        try:
            return [tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=opening, tokenize=tokenize, return_dict=False, **more)
                    for tokenize in (False, True)]
        except Exception:  # noqa: BLE001: whatever a template raises
            pass
    return None


def ours(model, conversation):
    messages, tools, opening, more = given_of(conversation)
    request = {"open": opening, "date": "%s" % DATE.date()}
    request.update({"args": json.dumps(more)} if more else {})
    request.update({"tools": json.dumps(tools)} if tools is not None else {})
    return chats.TOOL.ask(model, messages, **request)


def tokenizer_of(model):
    """The same tokenizer in transformers, whose reader wants each key."""
    path = model / "tokenizer.json"
    root = json.loads(path.read_text())
    for t in root["added_tokens"]:
        t.update({"single_word": False, "lstrip": False, "rstrip": False, "normalized": False})
    for part in (root["pre_tokenizer"], root["decoder"]):
        part.update({"add_prefix_space": False, "trim_offsets": True, "use_regex": True})
    root["model"]["merges"] = [m.split(" ") if isinstance(m, str) else m for m in root["model"]["merges"]]
    path.write_text(json.dumps(root))
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(path), bos_token="<s>", eos_token="</s>",
                                                clean_up_tokenization_spaces=False)


def compare(name, template, counts):
    chats.SPECIAL = special_tokens(template)
    model = chats.folder_of("model%d" % len(os.listdir(chats.TEMP)), template)
    tokenizer = tokenizer_of(model)
    tokenizer.chat_template = template
    for conversation in CONVERSATIONS:
        if not conversation.get("messages"):
            continue
        expected, answer = theirs(tokenizer, conversation), ours(model, conversation)
        need(answer.get("text") == (expected and expected[0]), "%s: %s: expected %r, found %s" % (name, conversation, expected, answer))
        counts["refused"] += expected is None
        if expected is None:
            continue
        counts["alike"] += 1
        data = json.dumps([conversation["messages"], conversation.get("tools")], ensure_ascii=False)
        if not any(t in data for t in chats.SPECIAL):
            counts["ids"] += 1
            need(answer["ids"] == expected[1], "%s: %s: %r: ids: expected %s, found %s" % (
                name, conversation, expected[0], expected[1], answer["ids"]))


def conversations_are_those_of_transformers(folder):
    rows = [(p.name, open(p, newline="").read()) for p in sorted(pathlib.Path(folder).glob("*.jinja"))] if folder else list(templates())
    if not rows:
        raise Skip("no data")
    counts = {"alike": 0, "ids": 0, "refused": 0}
    chat_template_utils.datetime = FixedDate
    with tempfile.TemporaryDirectory() as temp:
        chats.TEMP = pathlib.Path(temp)
        for name, template in rows:
            compare(name, template, counts)
    print("%d templates: %d alike, %d of them with the same ids, %d refused by both" % (len(rows), *counts.values()), file=sys.stderr)


sys.exit(attempt("conversations_are_those_of_transformers", conversations_are_those_of_transformers, (sys.argv[1:] or [None])[0]))
