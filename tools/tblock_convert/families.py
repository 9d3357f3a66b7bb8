"""Hugging Face families as data: config keys, their defaults, tensor names. A new family is a new row of FAMILIES; a key
that is new but harmless is a new word in HARMLESS. Defaults are those of the configuration classes of transformers 5.23
(configuration_llama.py, configuration_mistral.py), which hold for a key that is absent."""

# Keys that change nothing in the forward pass of an inference, whatever their value.
HARMLESS = frozenset("""
    architectures model_type transformers_version torch_dtype dtype _name_or_path name_or_path auto_map use_cache
    initializer_range attention_dropout hidden_dropout embd_pdrop resid_pdrop attn_pdrop hidden_dropout_prob
    attention_probs_dropout_prob classifier_dropout pretraining_tp pad_token_id unk_token_id sep_token_id cls_token_id
    decoder_start_token_id output_attentions output_hidden_states output_scores return_dict return_dict_in_generate
    torchscript use_bfloat16 tf_legacy_loss max_length min_length do_sample early_stopping num_beams num_beam_groups
    diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences forced_bos_token_id forced_eos_token_id
    remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens finetuning_task id2label
    label2id num_labels tokenizer_class prefix task_specific_params problem_type chunk_size_feed_forward
    max_sequence_length model_max_length tokenizer_model_max_length tokenizer_padding_side gradient_checkpointing
    use_flash_attention _flash_attn_2_enabled attn_implementation _attn_implementation _attn_implementation_autoset
    _attn_implementation_internal unsloth_version unsloth_fixed neftune_noise_alpha is_llama_config max_window_layers
    base_model_tp_plan keys_to_ignore_at_inference _commit_hash
""".split())

# Keys that other models use: with these values they ask for nothing. null is accepted for any key.
HARMLESS_VALUES = {
    "is_encoder_decoder": (False,), "is_decoder": (False, True), "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,), "pruned_heads": ({},), "rope_interleaved": (False,), "use_sliding_window": (False,),
    "partial_rotary_factor": (1,), "rotary_pct": (1,), "qk_norm": (False,), "use_qk_norm": (False,),
    "use_parallel_residual": (False,), "embedding_multiplier": (1,), "residual_multiplier": (1,), "logits_scaling": (1,),
    "logit_scale": (1,), "pad_to_multiple_of": (1,), "bias": (False,), "qkv_bias": (False,),
    "num_experts": (0, 1), "num_local_experts": (0, 1),
}

# Config keys of the Llama line: key of config.json -> (key of our config, kind, default when absent). Kinds: size,
# number, flag. Keys that need more than a copy (rope, sliding_window, ids, biases) are read by hf.py.
LLAMA_KEYS = {
    "hidden_size":             ("d_model", "size", 4096),
    "num_hidden_layers":       ("n_layers", "size", 32),
    "num_attention_heads":     ("heads", "size", 32),
    "intermediate_size":       ("d_ff", "size", 11008),
    "vocab_size":              ("vocab_size", "size", 32000),
    "max_position_embeddings": ("n_ctx", "size", 2048),
    "rms_norm_eps":            ("norm_eps", "number", 1e-6),
    "tie_word_embeddings":     ("tied_embeddings", "flag", False),
}
MISTRAL_KEYS = dict(LLAMA_KEYS, intermediate_size=("d_ff", "size", 14336),
                    max_position_embeddings=("n_ctx", "size", 4096 * 32))

# Tensor names of the Llama line: ours -> theirs, {} is the layer. Biases: the same with .bias (see tensor_name).
LLAMA_TENSORS = {
    "embed": "model.embed_tokens.weight",
    "attn_norm": "model.layers.{}.input_layernorm.weight",
    "wq": "model.layers.{}.self_attn.q_proj.weight",
    "wk": "model.layers.{}.self_attn.k_proj.weight",
    "wv": "model.layers.{}.self_attn.v_proj.weight",
    "wo": "model.layers.{}.self_attn.o_proj.weight",
    "ffn_norm": "model.layers.{}.post_attention_layernorm.weight",
    "w_gate": "model.layers.{}.mlp.gate_proj.weight",
    "w_up": "model.layers.{}.mlp.up_proj.weight",
    "w_down": "model.layers.{}.mlp.down_proj.weight",
    "final_norm": "model.norm.weight",
    "lm_head": "lm_head.weight",
}
# Stored by old versions, computed from the config by every reader: ignored, but compared with the config.
LLAMA_INV_FREQ = r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq"


class Family:
    def __init__(self, name, architecture, keys, tensors, inv_freq, kv_heads, biases, sliding_window, theta=10000.0, bos=1,
                 eos=2):
        self.name, self.architecture, self.keys, self.tensors, self.inv_freq = name, architecture, keys, tensors, inv_freq
        self.kv_heads = kv_heads               # absent num_key_value_heads; None: as many as heads
        self.biases = biases                   # {key of config.json: our keys}
        self.sliding_window = sliding_window   # absent sliding_window; None: the family has no window
        self.theta, self.bos, self.eos = theta, bos, eos


FAMILIES = {f.name: f for f in (
    Family("llama", "LlamaForCausalLM", LLAMA_KEYS, LLAMA_TENSORS, LLAMA_INV_FREQ, kv_heads=None,
           biases={"attention_bias": ("qkv_bias", "out_bias"), "mlp_bias": ("ffn_bias",)}, sliding_window=None),
    Family("mistral", "MistralForCausalLM", MISTRAL_KEYS, LLAMA_TENSORS, LLAMA_INV_FREQ, kv_heads=8,
           biases={}, sliding_window=4096),
)}

# rope_type of config.json -> {key there: (key of our rope object, needed)}. original_max_position_embeddings may be absent.
ROPE_TYPES = {
    "default": {},
    "linear": {"factor": ("factor", True)},
    "llama3": {"factor": ("factor", True), "low_freq_factor": ("low_freq_factor", True),
               "high_freq_factor": ("high_freq_factor", True), "original_max_position_embeddings": ("original_n_ctx", False)},
    "yarn": {"factor": ("factor", False), "original_max_position_embeddings": ("original_n_ctx", False),
             "beta_fast": ("beta_fast", False), "beta_slow": ("beta_slow", False),
             "attention_factor": ("attention_factor", False), "mscale": ("mscale", False),
             "mscale_all_dim": ("mscale_all_dim", False), "truncate": ("truncate", False)},
}


def tensor_name(family, ours):
    """The family's name of one of our tensors: layers.3.wq_bias -> model.layers.3.self_attn.q_proj.bias."""
    layer, _, part = ours.rpartition(".")
    bias = part.endswith("_bias")
    theirs = family.tensors[part[:-len("_bias")] if bias else part].format(layer.rpartition(".")[2])
    return theirs[:-len("weight")] + "bias" if bias else theirs
