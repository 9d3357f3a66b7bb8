"""Small templates of our own making, each in the style of a family of published ones: how it writes reasoning and calls of tools. What each
has: `reasoning` (the key of a message, or None), `calls` (how many one message may have), `content` beside calls, `text` (wants arguments as
text). DIALOGUE makes a template of the three pieces that differ."""


def dialogue(user, header, answer, end, prompt=None, tools="{% if tools %}[{{ tools | tojson }}]{% endif %}"):
    return (tools + "{% for m in messages %}{% if m.role == 'assistant' %}" + header + answer + end + "{% else %}" + user
            + "{% endif %}{% endfor %}{% if add_generation_prompt %}" + (header if prompt is None else prompt) + "{% endif %}")


CHATML = ("<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n", "<|im_start|>assistant\n")
HERMES = ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
          "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}")
THINK = "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
LLAMA = ("<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>", "<|start_header_id|>assistant<|end_header_id|>\n\n")
XML = ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}\n<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in "
       "c.function.arguments.items() %}<parameter={{ k }}>\n{{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}</function>\n"
       "</tool_call>{% endfor %}")
GLM = ("<think>{{ m.reasoning_content or '' }}</think>{% if m.content %}\n{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}\n"
       "<tool_call>{{ c.function.name }}\n{% for k, v in c.function.arguments.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>"
       "{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}")
DEEPSEEK = ("{{ m.content or '' }}{% if m.tool_calls %}<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}{{ '' if loop.first else '\n' }}"
            "<｜tool▁call▁begin｜>{{ c.type }}<｜tool▁sep｜>{{ c.function.name }}\n```json\n{{ c.function.arguments }}\n```"
            "<｜tool▁call▁end｜>{% endfor %}<｜tool▁calls▁end｜>{% endif %}")
MISTRAL = ("{% if m.tool_calls %}[TOOL_CALLS] [{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", \"arguments\": "
           "{{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{{ '' if loop.last else ', ' }}{% endfor %}]{% else %}"
           " {{ m.content }}{% endif %}")
MISTRAL_ARGS = ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]"
                "{{ c.function.arguments | tojson }}{% endfor %}")
PHI = "{{ m.content or '' }}{% if m.tool_calls %}<|tool_call|>[{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", " \
      "\"arguments\": {{ c.function.arguments | tojson }}}{{ '' if loop.last else ', ' }}{% endfor %}]<|/tool_call|>{% endif %}"
COHERE = ("{% if m.tool_calls %}<|START_THINKING|>{{ m.tool_plan or '' }}<|END_THINKING|><|START_ACTION|>[\n{% for c in m.tool_calls %}    "
          "{\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"{{ c.function.name }}\", \"parameters\": "
          "{{ c.function.arguments | tojson }}}{{ '' if loop.last else ',' }}\n{% endfor %}]<|END_ACTION|>{% else %}<|START_RESPONSE|>"
          "{{ m.content }}<|END_RESPONSE|>{% endif %}")
CHANNELS = ("{% if m.tool_calls %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
            "{% set f = m.tool_calls[0].function %}<|start|>assistant to=functions.{{ f.name }}<|channel|>commentary json<|message|>"
            "{{ f.arguments | tojson }}<|call|>{% else %}{% if loop.last and m.thinking %}<|start|>assistant<|channel|>analysis<|message|>"
            "{{ m.thinking }}<|end|>{% endif %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}"
            "{{ '<|return|>' if loop.last else '<|end|>' }}{% endif %}")
PYTHON = ("{% if m.tool_calls %}[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}="
          "{{ v | tojson }}{{ '' if loop.last else ', ' }}{% endfor %}){{ '' if loop.last else ', ' }}{% endfor %}]{% else %}{{ m.content }}"
          "{% endif %}")
QUOTED = ("{% macro value(v) %}{% if v is string %}<|\"|>{{ v }}<|\"|>{% elif v is mapping %}{{ '{' }}{% for k, x in v.items() %}{{ k }}:"
          "{{ value(x) }}{{ '' if loop.last else ',' }}{% endfor %}{{ '}' }}{% elif v is iterable %}[{% for x in v %}{{ value(x) }}"
          "{{ '' if loop.last else ',' }}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}{% endmacro %}")
QUOTED_ANSWER = ("{% if m.reasoning_content %}<|channel>thought\n{{ m.reasoning_content }}\n<channel|>{% endif %}{% for c in m.tool_calls or "
                 "[] %}<|tool_call>call:{{ c.function.name }}{{ '{' }}{% for k, v in c.function.arguments.items() %}{{ k }}:{{ value(v) }}"
                 "{{ '' if loop.last else ',' }}{% endfor %}{{ '}' }}<tool_call|>{% endfor %}{{ m.content or '' }}")
TYPED = ("{{ m.content or '' }}{% if m.tool_calls %}\n\n<calls>\n{% for c in m.tool_calls %}<invoke name=\"{{ c.function.name }}\">\n"
         "{% for k, v in c.function.arguments.items() %}<parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' }}\">"
         "{{ v if v is string else v | tojson }}</parameter>\n{% endfor %}</invoke>\n{% endfor %}</calls>{% endif %}")
SECTION = ("{{ m.content or '' }}{% if m.tool_calls %}<|section_begin|>{% for c in m.tool_calls %}<|call_begin|>functions."
           "{{ c.function.name }}:{{ loop.index0 }}<|args|>{{ c.function.arguments if c.function.arguments is string else "
           "c.function.arguments | tojson }}<|call_end|>{% endfor %}<|section_end|>{% endif %}")
NAMED_KEY = ("{{ m.content or '' }}{% if m.tool_calls %}<|tools|>[{% for c in m.tool_calls %}{\"{{ c.function.name }}\": "
             "{{ c.function.arguments | tojson }}}{{ '' if loop.last else ', ' }}{% endfor %}]<|/tools|>{% endif %}")
SPLIT = "{{ (m.content or '').split('</think>')[-1].lstrip('\n') }}"
OPENAI = ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}<call>{{ c | tojson }}</call>{% endfor %}")
ID_ONLY = ("{{ m.content or '' }}{% for c in m.tool_calls or [] %}<|call|>{{ c.id }}<|args|>{{ c.function.arguments | tojson }}<|done|>"
           "{% endfor %}")


def has(template, reasoning=None, calls=2, content=True, text=False):
    return {"template": template, "reasoning": reasoning, "calls": calls, "content": content, "text": text}


TEMPLATES = {
    "hermes": has(dialogue(*CHATML, HERMES, "<|im_end|>\n")),
    "qwen3": has(dialogue(*CHATML, THINK + HERMES, "<|im_end|>\n"), "reasoning_content"),
    "qwen3_prompt_thinks": has(dialogue(*CHATML, "<think>\n{{ m.reasoning_content or '' }}\n</think>\n\n" + HERMES, "<|im_end|>\n",
                                        "<|im_start|>assistant\n<think>\n"), "reasoning_content"),
    "coder": has(dialogue(*CHATML, XML, "<|im_end|>\n")),
    "llama31": has(dialogue(*LLAMA, "{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one call only') }}{% endif %}"
                            "{% set f = m.tool_calls[0].function %}{\"name\": \"{{ f.name }}\", \"parameters\": {{ f.arguments | tojson }}}"
                            "{% else %}{{ m.content }}{% endif %}", "<|eot_id|>"), calls=1, content=False),
    "llama_functions": has(dialogue(*LLAMA, "{{ m.content or '' }}{% for c in m.tool_calls or [] %}<function={{ c.function.name }}>"
                                    "{{ c.function.arguments | tojson }}</function>{% endfor %}", "<|eot_id|>")),
    "glm": has(dialogue("<|user|>\n{{ m.content }}", "<|assistant|>\n", GLM, ""), "reasoning_content"),
    "deepseek_v3": has(dialogue("<｜User｜>{{ m.content }}", "<｜Assistant｜>", DEEPSEEK, "<｜end▁of▁sentence｜>"), text=True),
    "deepseek_r1": has(dialogue("<｜User｜>{{ m.content }}", "<｜Assistant｜>", SPLIT, "<｜end▁of▁sentence｜>", "<｜Assistant｜><think>\n"), calls=0),
    "mistral_v3": has(dialogue("[INST] {{ m.content }}[/INST]", "", MISTRAL, "</s>"), content=False),
    "mistral_v11": has(dialogue("[INST]{{ m.content }}[/INST]", "", MISTRAL_ARGS, "</s>")),
    "phi4_mini": has(dialogue("<|user|>{{ m.content }}<|end|>", "<|assistant|>", PHI, "<|end|>")),
    "granite": has(dialogue("<|start_of_role|>user<|end_of_role|>{{ m.content }}<|end_of_text|>\n", "<|start_of_role|>assistant<|end_of_role|>",
                            PHI.replace("<|/tool_call|>", ""), "<|end_of_text|>\n")),
    "command_r": has(dialogue("<|USER_TOKEN|>{{ m.content }}<|END_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", COHERE, "<|END_OF_TURN_TOKEN|>"),
                     "tool_plan", content=False),
    "gpt_oss": has(dialogue("<|start|>user<|message|>{{ m.content }}<|end|>", "", CHANNELS, "", "<|start|>assistant"), "thinking", calls=1,
                   content=False),
    "gemma": has(dialogue("<start_of_turn>user\n{{ m.content }}<end_of_turn>\n", "<start_of_turn>model\n", "{{ m.content }}",
                          "<end_of_turn>\n"), calls=0),
    "quoted": has(QUOTED + dialogue("<|turn>user\n{{ m.content }}<turn|>\n", "<|turn>model\n", QUOTED_ANSWER, "<turn|>\n"),
                  "reasoning_content", content=False),
    "python": has(dialogue(*LLAMA, PYTHON, "<|eot_id|>"), content=False),
    "typed": has(dialogue(*CHATML, TYPED, "<|im_end|>\n")),
    "section": has(dialogue(*CHATML, SECTION, "<|im_end|>\n")),
    "named_key": has(dialogue(*CHATML, NAMED_KEY, "<|im_end|>\n")),
    "openai": has(dialogue(*CHATML, OPENAI, "<|im_end|>\n")),
    "id_only": has(dialogue(*CHATML, ID_ONLY, "<|im_end|>\n")),
    "plain": has(dialogue(*CHATML, "{{ m.content }}", "<|im_end|>\n"), calls=0),
    "says_nothing_of_calls": has(dialogue("USER: {{ m.content }}\n", "ASSISTANT: ", "{{ m.content or '' }}", "</s>"), calls=0),
}
