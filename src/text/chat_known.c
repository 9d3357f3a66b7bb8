/* The table of known chat formats, and how a row becomes the JSON of a format. */
#include "text/chat_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

#define TRIMMED "{trim}{content}{/trim}"

/* Each row gives what the chat template of the best-known model with this format renders. If models
 * differ, the row is the simplest variant. */
static const ChatKnown known[] = {
    { .name = "alpaca",
      .begin = "{bos}",
      .system = "{trim}{system}{/trim}\n\n",
      .user = "### Instruction:\n" TRIMMED "\n\n",
      .assistant = "### Response:\n" TRIMMED "{eos}\n\n",
      .open = "### Response:\n",
      .stop = { "### Instruction:" } },
    { .name = "chatglm3",
      .begin = "[gMASK]sop",
      .system = "<|system|>\n {system}",
      .user = "<|user|>\n {content}",
      .assistant = "<|assistant|>\n {content}",
      .open = "<|assistant|>",
      .stop = { "<|user|>" } },
    { .name = "chatglm4",
      .begin = "[gMASK]<sop>",
      .system = "<|system|>\n{system}",
      .user = "<|user|>\n{content}",
      .assistant = "<|assistant|>\n{content}",
      .open = "<|assistant|>",
      .stop = { "<|user|>" } },
    { .name = "chatml",
      .system = "<|im_start|>system\n{system}<|im_end|>\n",
      .user = "<|im_start|>user\n{content}<|im_end|>\n",
      .assistant = "<|im_start|>assistant\n{content}<|im_end|>\n",
      .open = "<|im_start|>assistant\n",
      .stop = { "<|im_end|>" } },
    { .name = "command-r",
      .begin = "{bos}",
      .system = "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{system}<|END_OF_TURN_TOKEN|>",
      .user = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
      .assistant = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>" TRIMMED "<|END_OF_TURN_TOKEN|>",
      .open = "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
      .stop = { "<|END_OF_TURN_TOKEN|>" } },
    { .name = "deepseek",
      .begin = "{bos}",
      .system = "{system}",
      .user = "### Instruction:\n{content}\n",
      .assistant = "### Response:\n{content}\n<|EOT|>\n",
      .open = "### Response:\n",
      .stop = { "<|EOT|>" } },
    { .name = "deepseek2",
      .begin = "{bos}",
      .system = "{system}\n\n",
      .user = "User: {content}\n\n",
      .assistant = "Assistant: {content}{eos}",
      .open = "Assistant:",
      .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "deepseek3",
      .begin = "{bos}",
      .system = "{system}",
      .user = "<｜User｜>{content}",
      .assistant = "<｜Assistant｜>{content}<｜end▁of▁sentence｜>",
      .open = "<｜Assistant｜>",
      .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "deepseek-r1",
      .begin = "{bos}",
      .system = "{system}",
      .user = "<｜User｜>{content}",
      .assistant = "<｜Assistant｜>{content}<｜end▁of▁sentence｜>",
      .open = "<｜Assistant｜><think>\n",
      .thinking_end = "</think>",
      .stop = { "<｜end▁of▁sentence｜>" } },
    { .name = "gemma",
      .begin = "{bos}",
      .user = "<start_of_turn>user\n" TRIMMED "<end_of_turn>\n",
      .assistant = "<start_of_turn>model\n" TRIMMED "<end_of_turn>\n",
      .open = "<start_of_turn>model\n",
      .alternate = true,
      .stop = { "<end_of_turn>" } },
    { .name = "gemma3",
      .begin = "{bos}",
      .user = "<start_of_turn>user\n" TRIMMED "<end_of_turn>\n",
      .user_system = "<start_of_turn>user\n{system}\n\n" TRIMMED "<end_of_turn>\n",
      .assistant = "<start_of_turn>model\n" TRIMMED "<end_of_turn>\n",
      .open = "<start_of_turn>model\n",
      .alternate = true,
      .stop = { "<end_of_turn>" } },
    { .name = "granite",
      .system = "<|start_of_role|>system<|end_of_role|>{system}<|end_of_text|>\n",
      .user = "<|start_of_role|>user<|end_of_role|>{content}<|end_of_text|>\n",
      .assistant = "<|start_of_role|>assistant<|end_of_role|>{content}<|end_of_text|>\n",
      .open = "<|start_of_role|>assistant<|end_of_role|>",
      .stop = { "<|end_of_text|>" } },
    { .name = "llama2",
      .user = "{bos}[INST] " TRIMMED " [/INST]",
      .alternate = true,
      .user_system = "{bos}[INST] {trim}<<SYS>>\n{system}\n<</SYS>>\n\n{content}{/trim} [/INST]",
      .assistant = " " TRIMMED " {eos}",
      .open = "" },
    { .name = "llama3",
      .begin = "{bos}",
      .system = "<|start_header_id|>system<|end_header_id|>\n\n{trim}{system}{/trim}<|eot_id|>",
      .user = "<|start_header_id|>user<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
      .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
      .open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .stop = { "<|eot_id|>", "<|eom_id|>" } },
    { .name = "llama3.1",
      .begin = "{bos}",
      .default_system = "",
      .system = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
                "2023\nToday Date: 26 Jul 2024\n\n"
                "{trim}{system}{/trim}<|eot_id|>",
      .user = "<|start_header_id|>user<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
      .assistant = "<|start_header_id|>assistant<|end_header_id|>\n\n" TRIMMED "<|eot_id|>",
      .open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
      .stop = { "<|eot_id|>", "<|eom_id|>" } },
    { .name = "minicpm",
      .system = "{trim}{system}{/trim}",
      .user = "<用户>" TRIMMED "<AI>",
      .assistant = TRIMMED,
      .open = "",
      .stop = { "<用户>" } },
    { .name = "mistral",
      .begin = "{bos}",
      .user = "[INST] {content} [/INST]",
      .assistant = "{content}{eos}",
      .open = "",
      .alternate = true },
    { .name = "mistral-v1",
      .begin = "{bos}",
      .user = " [INST] {content} [/INST]",
      .user_system = " [INST] {system}\n\n{content} [/INST]",
      .assistant = " {content}{eos}",
      .open = "",
      .alternate = true },
    { .name = "mistral-v3",
      .begin = "{bos}",
      .user = "[INST] {content}[/INST]",
      .system_at_last = true,
      .user_system = "[INST] {system}\n\n{content}[/INST]",
      .assistant = " " TRIMMED "{eos}",
      .open = "",
      .alternate = true },
    { .name = "mistral-v3-tekken",
      .begin = "{bos}",
      .user = "[INST]{content}[/INST]",
      .system_at_last = true,
      .user_system = "[INST]{system}\n\n{content}[/INST]",
      .assistant = "{content}{eos}",
      .open = "",
      .alternate = true },
    { .name = "mistral-v7",
      .begin = "{bos}",
      .system = "[SYSTEM_PROMPT] {system}[/SYSTEM_PROMPT]",
      .user = "[INST] {content}[/INST]",
      .assistant = " {content}{eos}",
      .open = "" },
    { .name = "mistral-v7-tekken",
      .begin = "{bos}",
      .system = "[SYSTEM_PROMPT]{system}[/SYSTEM_PROMPT]",
      .user = "[INST]{content}[/INST]",
      .assistant = "{content}{eos}",
      .open = "" },
    { .name = "monarch",
      .system = "{bos}system\n{system}{eos}\n",
      .user = "{bos}user\n{content}{eos}\n",
      .assistant = "{bos}assistant\n{content}{eos}\n",
      .open = "{bos}assistant\n" },
    { .name = "openchat",
      .begin = "{bos}",
      .system = "GPT4 Correct System: {system}<|end_of_turn|>",
      .user = "GPT4 Correct User: {content}<|end_of_turn|>",
      .assistant = "GPT4 Correct Assistant: {content}<|end_of_turn|>",
      .open = "GPT4 Correct Assistant:",
      .stop = { "<|end_of_turn|>" } },
    { .name = "orion",
      .begin = "{bos}",
      .system = "",
      .user = "Human: {content}\n\nAssistant: {eos}",
      .assistant = "{content}{eos}",
      .open = "" },
    { .name = "phi-3",
      .system = "<|system|>\n{system}<|end|>\n",
      .user = "<|user|>\n{content}<|end|>\n",
      .assistant = "<|assistant|>\n{content}<|end|>\n",
      .open = "<|assistant|>\n",
      .stop = { "<|end|>" } },
    { .name = "phi-4",
      .system = "<|im_start|>system<|im_sep|>{system}<|im_end|>",
      .user = "<|im_start|>user<|im_sep|>{content}<|im_end|>",
      .assistant = "<|im_start|>assistant<|im_sep|>{content}<|im_end|>",
      .open = "<|im_start|>assistant<|im_sep|>",
      .stop = { "<|im_end|>" } },
    { .name = "qwen3",
      .system = "<|im_start|>system\n{system}<|im_end|>\n",
      .user = "<|im_start|>user\n{content}<|im_end|>\n",
      .assistant = "<|im_start|>assistant\n{content}<|im_end|>\n",
      .open = "<|im_start|>assistant\n",
      .thinking_end = "</think>",
      .thinking_strip = true,
      .stop = { "<|im_end|>" } },
    { .name = "seed-oss",
      .system = "{bos}system\n{system}{eos}",
      .user = "{bos}user\n{content}{eos}",
      .assistant = "{bos}assistant\n" TRIMMED "{eos}",
      .open = "{bos}assistant\n" },
    { .name = "vicuna",
      .begin = "{bos}",
      .system = "{system}\n\n",
      .user = "USER: {content}\n",
      .assistant = "ASSISTANT: {content}{eos}\n",
      .open = "ASSISTANT:",
      .stop = { "\nUSER:" } },
    { .name = "vicuna-orca",
      .begin = "{bos}",
      .system = "SYSTEM: {system}\n",
      .user = "USER: {content}\n",
      .assistant = "ASSISTANT: {content}{eos}\n",
      .open = "ASSISTANT:",
      .stop = { "\nUSER:" } },
    { .name = "yandex",
      .begin = "<s>",
      .system = "",
      .user = " Пользователь: {content}\n\n",
      .assistant = " Ассистент: {content}\n\n",
      .open = " Ассистент:[SEP]",
      .stop = { "\n\n" } },
    { .name = "zephyr",
      .system = "<|system|>\n{system}{eos}\n",
      .user = "<|user|>\n{content}{eos}\n",
      .assistant = "<|assistant|>\n{content}{eos}\n",
      .open = "<|assistant|>\n" },
};
enum { N_KNOWN = sizeof known / sizeof *known };

const ChatKnown *chat_known_find(const char *name)
{
    for (size_t i = 0; i < N_KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

const char *chat_format_known(size_t i) { return i < N_KNOWN ? known[i].name : NULL; }

static void add_text(TextOut *o, const char *key, const char *text)
{
    if (!text)
        return;
    text_out(o, ", \"%s\": ", key);
    json_out_string(o, text, strlen(text));
}

char *chat_known_json(const ChatKnown *k, Error *err)
{
    TextOut o = { 0 };
    text_out(&o, "{\"version\": 1");
    add_text(&o, "name", k->name);
    add_text(&o, "begin", k->begin && *k->begin ? k->begin : NULL);
    add_text(&o, "system", k->system);
    add_text(&o, "user", k->user);
    add_text(&o, "user_first", k->user_first);
    add_text(&o, "user_system", k->user_system);
    if (k->system_at_last)
        add_text(&o, "user_system_at", "last");
    add_text(&o, "assistant", k->assistant);
    add_text(&o, "open", k->open);
    add_text(&o, "close", k->close);
    add_text(&o, "default_system", k->default_system);
    add_text(&o, "thinking_end", k->thinking_end);
    if (k->thinking_strip)
        text_out(&o, ", \"thinking_strip\": true");
    if (k->alternate)
        text_out(&o, ", \"alternate\": true");
    for (int i = 0; i < CHAT_KNOWN_STOPS && k->stop[i]; i++) {
        text_out(&o, i ? ", " : ", \"stop\": [");
        json_out_string(&o, k->stop[i], strlen(k->stop[i]));
    }
    text_out(&o, k->stop[0] ? "]}" : "}");
    return text_out_take(&o, err);
}

char *chat_format_names(Error *err)
{
    TextOut o = { 0 };
    for (size_t i = 0; i < N_KNOWN; i++)
        text_out(&o, "%s%s", i ? ", " : "", known[i].name);
    return text_out_take(&o, err);
}

ChatFormat *chat_format_named(const char *name, Error *err)
{
    const ChatKnown *k = chat_known_find(name);
    if (k) {
        char       *json = chat_known_json(k, err);
        ChatFormat *f = json ? chat_format_parse(json, strlen(json), k->name, err) : NULL;
        free(json);
        return f;
    }
    char *names = chat_format_names(err);
    if (names)
        fail(err, USAGE, "chat format: found '%.40s', expected one of %s", name, names);
    free(names);
    return NULL;
}
