/* tests/fuzz/answer_templates.h: templates that write reasoning and calls in different ways. */
#ifndef ANSWER_TEMPLATES_H
#define ANSWER_TEMPLATES_H

#define EACH                                                                                       \
    "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>"                   \
    "{{ m.reasoning_content }}</think>{% endif %}{{ m.content or '' }}"                            \
    "{% for c in m.tool_calls or [] %}{% set f = c.function %}"
#define LAST "{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"

static const char *const templates[] = {
    EACH "<call>{\"name\": \"{{ f.name }}\", \"arguments\": {{ f.arguments | tojson }}}</call>"
    LAST,
    EACH "[C]{{ f.name }}[A]{{ f.arguments | tojson }}" LAST,
    EACH "<f={{ f.name }}>{% for k, v in f.arguments.items() %}<p={{ k }}>\n{{ v if v is string "
    "else v | tojson }}\n</p>{% endfor %}</f>" LAST,
    EACH "<f>{{ f.name }}{ {% for k, v in f.arguments.items() %}{{ k }}:{{ '<q>' + v + '<q>' if v "
    "is string else v | tojson }}{{ '' if loop.last else ',' }}{% endfor %}}</f>" LAST,
    "{% for m in messages %}<|{{ m.role }}|>{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "{\"name\": \"{{ c.function.name }}\", \"parameters\": {{ c.function.arguments | tojson }}}"
    "{% endfor %}{% else %}{{ m.content }}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}",
    "{% for m in messages %}{% if m.role == 'user' %}<|u|>{{ m.content }}<|end|>{% else %}"
    "{% if m.thinking %}<|s|>a<|c|>think<|m|>{{ m.thinking }}<|end|>{% endif %}"
    "{% if m.tool_calls %}<|s|>a to={{ m.tool_calls[0].function.name }}<|c|>call<|m|>"
    "{{ m.tool_calls[0].function.arguments | tojson }}<|call|>{% else %}<|s|>a<|c|>say<|m|>"
    "{{ m.content }}<|end|>{% endif %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|s|>a{% endif %}",
};
enum { N_TEMPLATES = sizeof templates / sizeof *templates };

#endif
