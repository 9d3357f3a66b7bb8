"""What users of llama-cpp-python, transformers and vLLM write, and what it is called here: for errors that say what to write."""
from __future__ import annotations

import difflib
from typing import Collection, Optional

#: Options by their names elsewhere: what they are here.
_RENAMED = {
    "max_new_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "max_length": "max_tokens", "n_predict": "max_tokens",
    "num_predict": "max_tokens", "predict": "max_tokens", "min_new_tokens": "min_tokens",
    "temp": "temperature", "repetition_penalty": "repeat_penalty", "stop_strings": "stop", "stop_sequences": "stop",
    "stop_token_ids": "stop_ids", "eos_token_id": "stop_ids", "top_logprobs": "logprobs", "output_logits": "logprobs",
    "ctx_size": "n_ctx", "num_ctx": "n_ctx", "max_model_len": "n_ctx", "max_seq_len": "n_ctx", "context_length": "n_ctx",
    "n_parallel": "n_seqs", "max_num_seqs": "n_seqs", "batch_size": "n_batch", "n_ubatch": "n_batch", "num_batch": "n_batch",
    "thread": "threads", "n_threads": "threads", "num_threads": "threads", "num_thread": "threads", "n_threads_batch": "threads",
    "dtype": "type", "torch_dtype": "type", "quantization": "type", "quantization_config": "type",
    "type_k": "kv_type", "type_v": "kv_type", "kv_cache_dtype": "kv_type", "cache_implementation": "kv_type",
    "use_mlock": "mlock", "chat_format": "format", "chat_template": "format", "chat_template_kwargs": "args",
    "draft_model": "drafter", "assistant_model": "drafter", "speculative_model": "drafter", "num_draft_tokens": "draft",
    "num_speculative_tokens": "draft", "num_pred_tokens": "draft", "lora_path": "lora", "lora_request": "lora",
    "schema": "json_schema", "guided_json": "json_schema", "guided_regex": "regex", "guided_grammar": "grammar",
    "add_generation_prompt": "answer", "add_bos": "add_special", "add_special_tokens": "add_special", "special": "parse_special",
}

_CPU = "tblock runs on the CPU; leave it out"
_FIRST = "it is the first argument, without a name"
_PULLED = "a model opens from where it is; `tblock pull ORG/NAME` downloads one"
_SAMPLERS = "there is no such sampler; there are temperature, top_k, top_p, min_p and the penalties"
_ONE_EACH = "a generation is one text; generate it again with another seed"
_PIECES = "what it returns is an iterator of the pieces already; str() of it is the whole text"

#: Options that nothing here has.
_NONE = {
    "stream": _PIECES, "streamer": _PIECES,
    "do_sample": "temperature=0 takes the most probable token, any other temperature samples",
    "device": _CPU, "device_map": _CPU, "n_gpu_layers": _CPU, "num_gpu": _CPU, "main_gpu": _CPU, "tensor_split": _CPU,
    "gpu_memory_utilization": _CPU, "tensor_parallel_size": _CPU, "flash_attn": _CPU, "attn_implementation": _CPU,
    "verbose": "it prints nothing; leave it out", "trust_remote_code": "nothing of a model is executed; leave it out",
    "use_mmap": "model files and .gguf are always mapped; leave it out", "use_cache": "it always is; leave it out",
    **dict.fromkeys(("num_beams", "use_beam_search", "length_penalty", "early_stopping"), "there is no beam search; leave it out"),
    **dict.fromkeys(("typical_p", "tfs_z", "top_a", "penalty_alpha", "mirostat_mode", "mirostat_tau", "mirostat_eta", "xtc_probability",
                     "dry_multiplier"), _SAMPLERS),
    **dict.fromkeys(("n", "best_of", "num_return_sequences"), _ONE_EACH),
    **dict.fromkeys(("cache_dir", "revision", "token", "local_files_only", "force_download"), _PULLED),
    **dict.fromkeys(("model", "model_path", "repo_id", "pretrained_model_name_or_path", "inputs", "input_ids", "prompts"), _FIRST),
    "logits_processor": "there is none; there are logit_bias, constraints and context.decode for a loop of your own",
    "low_cpu_mem_usage": "model files and .gguf are always mapped; leave it out",
    "logits_all": "context.logits(prompt) has the logits after every token; leave it out",
    "embedding": "every model embeds, by model.embed(texts); leave it out",
    "filename": 'a file of a published model is "ORG/NAME:FILE", the first argument',
    "messages": "conversations go through model.chat().answer(messages) or model.create_chat_completion(messages)",
    "response_format": "write constraint=model.constraint(json_schema=...)",
}

#: Where an option belongs that another function is given: the first of these that takes it.
_OWNERS = "Model", "Model.context", "Model.generate", "Model.chat", "Model.constraint"

#: {function: its options}, as options.takes_options writes them down.
TAKEN: dict[str, Collection[str]] = {}


def no_option(function: str, name: str, known: Collection[str]) -> str:
    """What to say of an option that a function lacks. known: those that it has."""
    said, here = "%s: there is no option %r; " % (function, name), _RENAMED.get(name, name)
    if here in known:
        return said + "write %s" % here
    if name in _NONE:
        return said + _NONE[name]
    for owner in _OWNERS:
        if here in TAKEN.get(owner, ()):
            return said + "%s is an option of %s" % (here, owner)
    near = difflib.get_close_matches(name, known, 1)
    return said + ("did you mean %s?" % near[0] if near else "expected one of: %s" % ", ".join(sorted(known)) if known else "it has none")


_OPEN = 'tblock.Model("model.gguf"), or tblock.Model("ORG/NAME") for a model in the Hub\'s cache'

#: Names of modules and classes elsewhere: what to write.
_INSTEAD = {
    "tblock": {**dict.fromkeys(("LLM", "Llama", "AutoModel", "AutoModelForCausalLM", "load", "load_model", "from_pretrained"), _OPEN),
               "AutoTokenizer": "tblock.Model(path).tokenizer", "pipeline": "tblock.Model(path).generate(prompt)",
               "SamplingParams": "model.generate(prompt, temperature=..., top_p=..., max_tokens=...)",
               "LlamaGrammar": "model.constraint(grammar=...)"},
    "Model": {"from_pretrained": _OPEN, "create_completion": "model.generate(prompt)", "complete": "model.generate(prompt)",
              "generate_text": "model.generate(prompt)", "stream": "for piece in model.generate(prompt)",
              "create_embedding": "model.embed(texts)", "encode": "model.tokenize(text)", "decode": "model.detokenize(ids)",
              "eval": "context.decode(ids) of a model.context()", "n_vocab": "model.vocab_size", "config": "model.info().config",
              "to": "nothing: tblock runs on the CPU", "cuda": "nothing: tblock runs on the CPU",
              "save_pretrained": "tblock.convert(source, target)", "apply_chat_template": "model.chat().render(messages)"},
}


def instead(owner: str, name: str, known: Collection[str]) -> str:
    """What to say of a name that a module or class lacks."""
    there: Optional[str] = _INSTEAD.get(owner, {}).get(name)
    near = difflib.get_close_matches(name, [k for k in known if k[0] != "_"], 1)
    return "%s has no %s%s" % (owner, name, "; write %s" % there if there else "; did you mean %s?" % near[0] if near else "")
