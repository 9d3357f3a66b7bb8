/* The built-in templates, for models that have none: each renders what the best-known model of its
 * family does, for conversations of plain text. */
#include "chat/chat_template.h"

#include <string.h>

#define RAISE(text) "{{ raise_exception('" text "') }}"

/* Raises an error for what none of them supports. */
#define PLAIN \
    "{%- if tools %}" RAISE("this format has no place for tools") "{% endif %}\n" \
    "{%- for m in messages %}\n" \
    "{%- if m.role not in ['system', 'user', 'assistant'] %}" \
    RAISE("this format has no place for roles other than system, user and assistant") \
    "{% endif %}\n" \
    "{%- if m.tool_calls %}" RAISE("this format has no place for tool calls") "{% endif %}\n" \
    "{%- if m.content is not string %}" RAISE("expected the content of a message as one text") \
    "{% endif %}\n{%- endfor %}\n"

/* Sets told, whether there is a system message, and turns, the messages after it. */
#define TURNS \
    "{%- set told = messages and messages[0].role == 'system' %}\n" \
    "{%- set turns = messages[1:] if told else messages %}\n" \
    "{%- for m in turns %}{% if m.role == 'system' %}" \
    RAISE("expected the system text in front of all turns") "{% endif %}{% endfor %}\n"
#define ALTERNATING TURNS \
    "{%- for m in turns %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}" \
    RAISE("roles must alternate, user and assistant, after the system text") \
    "{% endif %}{% endfor %}\n"
#define NO_SYSTEM \
    "{%- if told %}" RAISE("this format has no place for a system text") "{% endif %}\n"
#define EACH_TURN "{%- for m in turns %}\n"
#define END       "{%- endfor %}\n"
#define OPEN(text) "{%- if add_generation_prompt %}{{ '" text "' }}{% endif %}\n"

/* Gemma: before is what the first turn has before its content. */
#define GEMMA(before) \
    "{{- bos_token }}\n" EACH_TURN \
    "{{- '<start_of_turn>' ~ ('model' if m.role == 'assistant' else 'user') ~ '\\n'" before \
    " ~ m.content | trim ~ '<end_of_turn>\\n' }}\n" END OPEN("<start_of_turn>model\\n")

/* Mistral since v0.3: the system message is in the last message, if that is the user's. */
#define MISTRAL(begin, answer) \
    "{{- bos_token }}\n" EACH_TURN \
    "{%- if m.role == 'user' %}{{ '" begin "' ~ (messages[0].content ~ '\\n\\n'" \
    " if told and loop.last) ~ m.content ~ '[/INST]' }}\n" \
    "{%- else %}{{ " answer " ~ eos_token }}{% endif %}\n" END

/* In alphabetical order. */
static const struct { const char *name, *text; } builtins[] = {
    { "alpaca", PLAIN TURNS
      "{{- bos_token }}\n"
      "{%- if told %}{{ messages[0].content | trim ~ '\\n\\n' }}{% endif %}\n"
      EACH_TURN
      "{%- if m.role == 'user' %}{{ '### Instruction:\\n' ~ m.content | trim ~ '\\n\\n' }}\n"
      "{%- else %}{{ '### Response:\\n' ~ m.content | trim ~ eos_token ~ '\\n\\n' }}{% endif %}\n"
      END OPEN("### Response:\\n") },
    { "chatml", PLAIN
      "{%- for m in messages %}\n"
      "{{- '<|im_start|>' ~ m.role ~ '\\n' ~ m.content ~ '<|im_end|>\\n' }}\n"
      END OPEN("<|im_start|>assistant\\n") },
    { "gemma", PLAIN ALTERNATING NO_SYSTEM GEMMA("") },
    { "gemma3", PLAIN ALTERNATING
      GEMMA(" ~ (messages[0].content ~ '\\n\\n' if told and loop.first)") },
    { "llama2", PLAIN ALTERNATING
      EACH_TURN
      "{%- if m.role == 'user' %}{{ bos_token ~ '[INST] ' ~ ('<<SYS>>\\n' ~ messages[0].content ~"
      " '\\n<</SYS>>\\n\\n' ~ m.content if told and loop.first else m.content) | trim"
      " ~ ' [/INST]' }}\n"
      "{%- else %}{{ ' ' ~ m.content | trim ~ ' ' ~ eos_token }}{% endif %}\n" END },
    { "llama3", PLAIN
      "{{- bos_token }}\n"
      "{%- for m in messages %}\n"
      "{{- '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\\n\\n' ~ m.content | trim ~"
      " '<|eot_id|>' }}\n"
      END OPEN("<|start_header_id|>assistant<|end_header_id|>\\n\\n") },
    { "mistral", PLAIN ALTERNATING NO_SYSTEM
      "{{- bos_token }}\n" EACH_TURN
      "{{- '[INST] ' ~ m.content ~ ' [/INST]' if m.role == 'user' else m.content ~ eos_token }}\n"
      END },
    { "mistral-v3", PLAIN ALTERNATING MISTRAL("[INST] ", "' ' ~ m.content | trim") },
    { "mistral-v3-tekken", PLAIN ALTERNATING MISTRAL("[INST]", "m.content") },
    { "openchat", PLAIN
      "{{- bos_token }}\n"
      "{%- for m in messages %}\n"
      "{{- 'GPT4 Correct ' ~ m.role | title ~ ': ' ~ m.content ~ '<|end_of_turn|>' }}\n"
      END OPEN("GPT4 Correct Assistant:") },
    { "phi-3", PLAIN
      "{%- for m in messages if m.content or m.role != 'system' %}\n"
      "{{- '<|' ~ m.role ~ '|>\\n' ~ m.content ~ '<|end|>\\n' }}\n" END
      "{{- '<|assistant|>\\n' if add_generation_prompt else eos_token }}\n" },
    { "phi-4", PLAIN
      "{%- for m in messages %}\n"
      "{{- '<|im_start|>' ~ m.role ~ '<|im_sep|>' ~ m.content ~ '<|im_end|>' }}\n"
      END OPEN("<|im_start|>assistant<|im_sep|>") },
    { "vicuna", PLAIN TURNS
      "{{- bos_token }}\n"
      "{%- if told %}{{ messages[0].content ~ '\\n\\n' }}{% endif %}\n" EACH_TURN
      "{%- if m.role == 'user' %}{{ 'USER: ' ~ m.content ~ '\\n' }}\n"
      "{%- else %}{{ 'ASSISTANT: ' ~ m.content ~ eos_token ~ '\\n' }}{% endif %}\n"
      END OPEN("ASSISTANT:") },
    { "zephyr", PLAIN
      "{%- for m in messages %}\n"
      "{{- '<|' ~ m.role ~ '|>\\n' ~ m.content ~ eos_token ~ '\\n' }}\n"
      END OPEN("<|assistant|>\\n") },
};
enum { N_BUILTINS = sizeof builtins / sizeof *builtins };

const char *chat_builtin_name(size_t i) { return i < N_BUILTINS ? builtins[i].name : NULL; }

const char *chat_builtin_template(const char *name)
{
    for (size_t i = 0; i < N_BUILTINS; i++)
        if (strcmp(builtins[i].name, name) == 0)
            return builtins[i].text;
    return NULL;
}
