"""Hugging Face families as data: config keys with their defaults, tensor names, how rows lie there. A new family is a new row
of FAMILIES; a key that is new but harmless is a new word in HARMLESS. Defaults are those of the configuration classes of
transformers 5.23 (models/NAME/configuration_NAME.py), which hold for a key that is absent. src/source/family.c holds the same
table for the program: a change here is one there (tests/convert compares what the two make of each folder)."""
import re

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
    base_model_tp_plan keys_to_ignore_at_inference _commit_hash cache_implementation _num_labels
    output_router_logits router_aux_loss_coef router_jitter_noise reorder_and_upcast_attn
    summary_activation summary_first_dropout summary_proj_to_labels summary_type summary_use_proj
    output_past custom_pipelines use_flash_attn transformers.js_config
""".split())

# Keys that other models use: with these values they ask for nothing. null is accepted for any key.
HARMLESS_VALUES = {
    "is_encoder_decoder": (False,), "is_decoder": (False, True), "add_cross_attention": (False,),
    "tie_encoder_decoder": (False,), "pruned_heads": ({},), "rope_interleaved": (False,), "use_sliding_window": (False,),
    "partial_rotary_factor": (1,), "rotary_pct": (1,), "qk_norm": (False,), "use_qk_norm": (False,), "qk_layernorm": (False,),
    "use_parallel_residual": (False,), "embedding_multiplier": (1,), "residual_multiplier": (1,), "logits_scaling": (1,),
    "logit_scale": (1,), "pad_to_multiple_of": (1,), "bias": (False,), "qkv_bias": (False,), "use_qkv_bias": (False,),
    "num_experts": (0, 1), "num_local_experts": (0, 1), "attention_bias": (False,), "mlp_bias": (False,),
    "use_bidirectional_attention": (False,), "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,),
    "use_mrope": (False,), "rotary_scaling_factor": (1,), "rope_type": ("default",),
}

# Config keys: key of config.json, or several spellings separated by "|" -> (key of our config, kind, default when absent).
# Kinds: size, number, positive, flag, and these small changes on the way: or_null (a positive number; null is 0), inverse (1 / x), inverse_root
# (1 / sqrt x), size_or_4d (null is 4 d_model).
# Keys that need more than that (heads, rope, windows, experts' layers, ids, activations, biases) are read by hf_config.py.
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


def keys(base=LLAMA_KEYS, drop=(), more=None, **defaults):
    """A table with other defaults, without some keys, with more of them."""
    result = {k: (ours, kind, defaults.pop(k, default)) for k, (ours, kind, default) in base.items() if k not in drop}
    assert not defaults, defaults
    result.update(more or {})
    return result


LAYER_NORM_EPS = {"layer_norm_eps": ("norm_eps", "number", 1e-5)}
QWEN_MOE_KEYS = {
    "num_experts|num_local_experts": ("n_experts", "size", 128),
    "num_experts_per_tok":   ("experts_used", "size", 8),
    "moe_intermediate_size": ("expert_d_ff", "size", 768),
    "norm_topk_prob":        ("renormalize", "flag", False),
}
GEMMA2_KEYS = {
    "query_pre_attn_scalar":   ("attn_scale", "inverse_root", 256),
    "attn_logit_softcapping":  ("attn_softcap", "or_null", 50.0),
    "final_logit_softcapping": ("logit_softcap", "or_null", 30.0),
}


class T:
    """Where one of our tensors is: name there ("@" is the model's prefix, {} the layer, {e} the expert, {h} the head), and how
    its rows lie, in words:
      q k v           of one matrix that holds these rows one after the other; with by_head: of each head q, k, v
      gate up         halves of the rows of one matrix
      pairs           the rows of a head rotate as neighbours (2i, 2i + 1); ours as halves
      transposed      stored [k, rows]
    Several T for one tensor are alternatives: the one that is there."""

    def __init__(self, name, *words):
        self.name, self.words = name, frozenset(words)


# Tensors: ours -> theirs. Biases: the same with .bias for .weight.
LLAMA_TENSORS = {
    "embed": T("@embed_tokens.weight"),
    "attn_norm": T("@layers.{}.input_layernorm.weight"),
    "wq": T("@layers.{}.self_attn.q_proj.weight"),
    "wk": T("@layers.{}.self_attn.k_proj.weight"),
    "wv": T("@layers.{}.self_attn.v_proj.weight"),
    "wo": T("@layers.{}.self_attn.o_proj.weight"),
    "ffn_norm": T("@layers.{}.post_attention_layernorm.weight"),
    "w_gate": T("@layers.{}.mlp.gate_proj.weight"),
    "w_up": T("@layers.{}.mlp.up_proj.weight"),
    "w_down": T("@layers.{}.mlp.down_proj.weight"),
    "final_norm": T("@norm.weight"),
    "lm_head": T("lm_head.weight"),
}
QK_NORM = {"q_norm": T("@layers.{}.self_attn.q_norm.weight"), "k_norm": T("@layers.{}.self_attn.k_norm.weight")}
POST_NORMS = {"attn_post_norm": T("@layers.{}.post_attention_layernorm.weight"),
              "ffn_post_norm": T("@layers.{}.post_feedforward_layernorm.weight")}
BOTH_NORMS = dict(POST_NORMS, ffn_norm=T("@layers.{}.pre_feedforward_layernorm.weight"))
# Experts one by one, as checkpoints have them, or as transformers 5 holds them: all in one tensor, gate and up in one matrix.
FUSED_EXPERTS = {"expert_gate": T("@layers.{}.mlp.experts.gate_up_proj", "gate"),
                 "expert_up": T("@layers.{}.mlp.experts.gate_up_proj", "up"),
                 "expert_down": T("@layers.{}.mlp.experts.down_proj")}
QWEN_EXPERTS = {
    "router": T("@layers.{}.mlp.gate.weight"),
    "expert_gate": [T("@layers.{}.mlp.experts.{e}.gate_proj.weight"), FUSED_EXPERTS["expert_gate"]],
    "expert_up": [T("@layers.{}.mlp.experts.{e}.up_proj.weight"), FUSED_EXPERTS["expert_up"]],
    "expert_down": [T("@layers.{}.mlp.experts.{e}.down_proj.weight"), FUSED_EXPERTS["expert_down"]],
}
SHARED_EXPERT = {
    "shared_router": T("@layers.{}.mlp.shared_expert_gate.weight"),
    "shared_gate": T("@layers.{}.mlp.shared_expert.gate_proj.weight"),
    "shared_up": T("@layers.{}.mlp.shared_expert.up_proj.weight"),
    "shared_down": T("@layers.{}.mlp.shared_expert.down_proj.weight"),
}
MIXTRAL_EXPERTS = {
    "router": [T("@layers.{}.block_sparse_moe.gate.weight"), T("@layers.{}.mlp.gate.weight")],
    "expert_gate": [T("@layers.{}.block_sparse_moe.experts.{e}.w1.weight"), FUSED_EXPERTS["expert_gate"]],
    "expert_up": [T("@layers.{}.block_sparse_moe.experts.{e}.w3.weight"), FUSED_EXPERTS["expert_up"]],
    "expert_down": [T("@layers.{}.block_sparse_moe.experts.{e}.w2.weight"), FUSED_EXPERTS["expert_down"]],
}
PHI3_TENSORS = dict(
    LLAMA_TENSORS,
    wq=T("@layers.{}.self_attn.qkv_proj.weight", "q"), wk=T("@layers.{}.self_attn.qkv_proj.weight", "k"),
    wv=T("@layers.{}.self_attn.qkv_proj.weight", "v"), w_gate=T("@layers.{}.mlp.gate_up_proj.weight", "gate"),
    w_up=T("@layers.{}.mlp.gate_up_proj.weight", "up"))
COHERE_TENSORS = dict(
    LLAMA_TENSORS,
    wq=T("@layers.{}.self_attn.q_proj.weight", "pairs"), wk=T("@layers.{}.self_attn.k_proj.weight", "pairs"),
    q_norm=T("@layers.{}.self_attn.q_norm.weight", "pairs"), k_norm=T("@layers.{}.self_attn.k_norm.weight", "pairs"))
STABLELM_TENSORS = dict(
    LLAMA_TENSORS, q_norm=T("@layers.{}.self_attn.q_layernorm.norms.{h}.weight"),
    k_norm=T("@layers.{}.self_attn.k_layernorm.norms.{h}.weight"))
GPT2_TENSORS = {
    "embed": T("@wte.weight"),
    "pos_embed": T("@wpe.weight"),
    "attn_norm": T("@h.{}.ln_1.weight"),
    "wq": T("@h.{}.attn.c_attn.weight", "q", "transposed"),
    "wk": T("@h.{}.attn.c_attn.weight", "k", "transposed"),
    "wv": T("@h.{}.attn.c_attn.weight", "v", "transposed"),
    "wo": T("@h.{}.attn.c_proj.weight", "transposed"),
    "ffn_norm": T("@h.{}.ln_2.weight"),
    "w_up": T("@h.{}.mlp.c_fc.weight", "transposed"),
    "w_down": T("@h.{}.mlp.c_proj.weight", "transposed"),
    "final_norm": T("@ln_f.weight"),
    "lm_head": T("lm_head.weight"),
}
NEOX_TENSORS = {
    "embed": T("@embed_in.weight"),
    "attn_norm": T("@layers.{}.input_layernorm.weight"),
    "wq": T("@layers.{}.attention.query_key_value.weight", "q", "by_head"),
    "wk": T("@layers.{}.attention.query_key_value.weight", "k", "by_head"),
    "wv": T("@layers.{}.attention.query_key_value.weight", "v", "by_head"),
    "wo": T("@layers.{}.attention.dense.weight"),
    "ffn_norm": T("@layers.{}.post_attention_layernorm.weight"),
    "w_up": T("@layers.{}.mlp.dense_h_to_4h.weight"),
    "w_down": T("@layers.{}.mlp.dense_4h_to_h.weight"),
    "final_norm": T("@final_layer_norm.weight"),
    "lm_head": [T("embed_out.weight"), T("lm_head.weight")],
}

# What a feed-forward with this activation is called here: with a gate, without one. None: not supported there.
ACTIVATIONS = {
    "silu": ("swiglu", None), "swish": ("swiglu", None), "gelu": ("geglu_erf", "gelu"),
    "gelu_new": ("geglu", "gelu_tanh"), "gelu_pytorch_tanh": ("geglu", "gelu_tanh"), "gelu_fast": ("geglu", "gelu_tanh"),
    "relu": (None, "relu"),
}


class Family:
    name, architectures = "", ()
    keys = LLAMA_KEYS
    tensors = LLAMA_TENSORS
    fixed = {}                  # keys of our config that the family alone decides
    activation = ("hidden_act", "silu")   # keys of config.json in the order in which they count, default
    gated = True
    gelu_is_tanh = False        # "gelu" is read as gelu_pytorch_tanh
    kv_heads = None             # absent num_key_value_heads; None: as many as heads; 0: the family has no such key
    head_dim = None             # absent head_dim; None: d_model / heads; 0: the family has no such key
    biases = {}                 # {key of config.json: (default, our keys)}
    switches = {}               # {key of config.json: (default, our key, its value if true, if false)}
    theta, theta_key = 10000.0, "rope_theta"
    rotary, rotary_key = None, "partial_rotary_factor"   # absent share of a head that is rotated; None: all, always
    theta_window = None         # absent theta of layers with a window, where they have their own
    rope_types = None           # None: all of ROPE_TYPES
    window = ("none",)          # none | all, default | last, default | moe, default | every, n, default: see hf_config.py
    embed_scale = False         # the embedding is times sqrt(d_model)
    plus_one = False            # norms are stored as w - 1
    bos, eos = 1, 2
    prefixes = ("model.",)      # what "@" of the tensors' names may be
    unused = ("@layers.#.self_attn.rotary_emb.inv_freq", "@rotary_emb.inv_freq")   # stored, computed by every reader; # digits
    unused_keys = ()            # harmless in this family

    def __init__(self, name, architectures, **given):
        self.name, self.architectures = name, tuple(architectures.split())
        for key, value in given.items():
            assert hasattr(Family, key), key
            setattr(self, key, value)

    def names(self, ours):
        """The alternatives (T) of one of our tensors: the part of its name after the layer, without _bias."""
        found = self.tensors[ours]
        return found if isinstance(found, list) else [found]

    def unused_pattern(self, prefix):
        return "|".join(re.escape(p).replace("@", re.escape(prefix)).replace(r"\#", r"\d+") for p in self.unused)


ATTENTION_BIAS = {"attention_bias": (False, ("qkv_bias", "out_bias"))}
LAYER_NORM = {"norm": "layer", "norm_bias": True}
QWEN = dict(kv_heads=32, bos=None, eos=None, window=("last", 4096))
GEMMA = dict(activation=("hidden_activation", "hidden_act", "gelu_pytorch_tanh"), gelu_is_tanh=True, head_dim=256,
             biases=ATTENTION_BIAS, embed_scale=True, plus_one=True, bos=2, eos=1)

FAMILIES = {f.name: f for f in (
    Family("llama", "LlamaForCausalLM LLaMAForCausalLM",
           biases=dict(ATTENTION_BIAS, mlp_bias=(False, ("ffn_bias",)))),
    Family("mistral", "MistralForCausalLM",
           keys=keys(intermediate_size=14336, max_position_embeddings=4096 * 32), kv_heads=8, window=("all", 4096)),
    Family("qwen2", "Qwen2ForCausalLM",
           keys=keys(vocab_size=151936, intermediate_size=22016, max_position_embeddings=32768),
           fixed={"qkv_bias": True}, **QWEN),
    Family("qwen3", "Qwen3ForCausalLM",
           keys=keys(vocab_size=151936, intermediate_size=22016, max_position_embeddings=32768),
           tensors=dict(LLAMA_TENSORS, **QK_NORM), fixed={"qk_norm": "head"}, head_dim=128, biases=ATTENTION_BIAS, **QWEN),
    Family("qwen2_moe", "Qwen2MoeForCausalLM",
           keys=keys(vocab_size=151936, hidden_size=2048, intermediate_size=5632, num_hidden_layers=24, num_attention_heads=16,
                     max_position_embeddings=32768,
                     more=dict(keys(QWEN_MOE_KEYS, num_experts_per_tok=4, moe_intermediate_size=1408,
                                    **{"num_experts|num_local_experts": 60}),
                               shared_expert_intermediate_size=("shared_d_ff", "size", 5632))),
           tensors=dict(LLAMA_TENSORS, **QWEN_EXPERTS, **SHARED_EXPERT), fixed={"shared_router": True},
           biases={"qkv_bias": (True, ("qkv_bias",))}, kv_heads=16, bos=None, eos=None, window=("moe", 4096)),
    Family("qwen3_moe", "Qwen3MoeForCausalLM",
           keys=keys(vocab_size=151936, hidden_size=2048, intermediate_size=6144, num_hidden_layers=24,
                     max_position_embeddings=32768, more=QWEN_MOE_KEYS),
           tensors=dict(LLAMA_TENSORS, **QK_NORM, **QWEN_EXPERTS), fixed={"qk_norm": "head"}, biases=ATTENTION_BIAS, kv_heads=4,
           bos=None, eos=None, window=("moe", 4096)),
    Family("mixtral", "MixtralForCausalLM",
           keys=keys(intermediate_size=14336, max_position_embeddings=4096 * 32, rms_norm_eps=1e-5,
                     more={"num_local_experts|num_experts": ("n_experts", "size", 8),
                           "num_experts_per_tok": ("experts_used", "size", 2)}),
           tensors=dict(LLAMA_TENSORS, **MIXTRAL_EXPERTS), fixed={"renormalize": True, "expert_d_ff": "d_ff"}, kv_heads=8,
           theta=1e6, window=("all", None)),
    Family("phi3", "Phi3ForCausalLM",
           keys=keys(vocab_size=32064, hidden_size=3072, intermediate_size=8192, max_position_embeddings=4096,
                     rms_norm_eps=1e-5),
           tensors=PHI3_TENSORS, rotary=1.0, rope_types=("default",), window=("all", None), eos=32000,
           unused_keys=("original_max_position_embeddings",)),
    Family("gemma", "GemmaForCausalLM",
           keys=keys(vocab_size=256000, hidden_size=3072, intermediate_size=24576, num_hidden_layers=28, num_attention_heads=16,
                     max_position_embeddings=8192, tie_word_embeddings=True),
           fixed={}, kv_heads=16, **GEMMA),
    Family("gemma2", "Gemma2ForCausalLM",
           keys=keys(vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
                     max_position_embeddings=8192, tie_word_embeddings=True, more=GEMMA2_KEYS),
           tensors=dict(LLAMA_TENSORS, **BOTH_NORMS), fixed={"norm_placement": "both"}, kv_heads=4,
           window=("every", 2, 4096), unused_keys=("sliding_window_size",), **GEMMA),
    Family("gemma3_text", "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
           keys=keys(vocab_size=262208, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
                     max_position_embeddings=131072, tie_word_embeddings=True,
                     more=keys(GEMMA2_KEYS, attn_logit_softcapping=None, final_logit_softcapping=None)),
           tensors=dict(LLAMA_TENSORS, **BOTH_NORMS, **QK_NORM), fixed={"norm_placement": "both", "qk_norm": "head"}, kv_heads=4,
           window=("every", 6, 4096), theta=1e6, theta_window=10000.0, rope_types=("default", "linear"),
           prefixes=("model.", "language_model.model.", "model.language_model."), **GEMMA),
    Family("olmo2", "Olmo2ForCausalLM",
           keys=keys(vocab_size=50304, rms_norm_eps=1e-5),
           tensors=dict(LLAMA_TENSORS, **QK_NORM, **POST_NORMS), fixed={"norm_placement": "output", "qk_norm": "vector"},
           biases=ATTENTION_BIAS, bos=None, eos=50279),
    Family("granite", "GraniteForCausalLM",
           keys=keys(more={"embedding_multiplier": ("embed_scale", "number", 1.0),
                           "residual_multiplier": ("residual_scale", "number", 1.0),
                           "attention_multiplier": ("attn_scale", "positive", 1.0),
                           "logits_scaling": ("logit_scale", "inverse", 1.0)}),
           biases=dict(ATTENTION_BIAS, mlp_bias=(False, ("ffn_bias",)))),
    Family("cohere", "CohereForCausalLM",
           keys=keys(drop=["rms_norm_eps"], vocab_size=256000, hidden_size=8192, intermediate_size=22528, num_hidden_layers=40,
                     num_attention_heads=64, max_position_embeddings=8192, tie_word_embeddings=True,
                     more=dict(LAYER_NORM_EPS, logit_scale=("logit_scale", "number", 0.0625))),
           tensors=COHERE_TENSORS, fixed={"norm": "layer", "norm_placement": "parallel"}, biases=ATTENTION_BIAS,
           switches={"use_qk_norm": (False, "qk_norm", "heads", False)}, theta=500000.0, bos=5, eos=255001),
    Family("stablelm", "StableLmForCausalLM",
           keys=keys(drop=["rms_norm_eps"], vocab_size=50304, hidden_size=2560, intermediate_size=6912,
                     max_position_embeddings=4096, more=LAYER_NORM_EPS),
           tensors=STABLELM_TENSORS, fixed=LAYER_NORM, biases={"use_qkv_bias": (False, ("qkv_bias",))},
           switches={"qk_layernorm": (False, "qk_norm", "heads", False),
                     "use_parallel_residual": (False, "norm_placement", "parallel", "pre")},
           kv_heads=32, head_dim=0, rotary=0.25, bos=0, eos=0),
    Family("gpt2", "GPT2LMHeadModel",
           keys={"n_embd|hidden_size": ("d_model", "size", 768), "n_layer|num_hidden_layers": ("n_layers", "size", 12),
                 "n_head|num_attention_heads": ("heads", "size", 12), "n_inner": ("d_ff", "size_or_4d", None),
                 "vocab_size": ("vocab_size", "size", 50257), "n_positions|max_position_embeddings": ("n_ctx", "size", 1024),
                 "layer_norm_epsilon": ("norm_eps", "number", 1e-5),
                 "tie_word_embeddings": ("tied_embeddings", "flag", True)},
           tensors=GPT2_TENSORS,
           fixed=dict(LAYER_NORM, positions="learned", qkv_bias=True, out_bias=True, ffn_bias=True),
           activation=("activation_function", "gelu_new"), gated=False, kv_heads=0, head_dim=0, theta_key=None,
           switches={"scale_attn_weights": (True, "attn_scale", 0.0, 1.0)}, bos=50256, eos=50256,
           prefixes=("transformer.", ""), unused=("@h.#.attn.bias", "@h.#.attn.masked_bias"), unused_keys=("n_ctx",)),
    Family("gpt_neox", "GPTNeoXForCausalLM",
           keys=keys(drop=["rms_norm_eps"], vocab_size=50432, hidden_size=6144, intermediate_size=24576, num_hidden_layers=44,
                     num_attention_heads=64, more=LAYER_NORM_EPS),
           tensors=NEOX_TENSORS, fixed=dict(LAYER_NORM, ffn_bias=True), activation=("hidden_act", "gelu"), gated=False,
           biases={"attention_bias": (True, ("qkv_bias", "out_bias"))},
           switches={"use_parallel_residual": (True, "norm_placement", "parallel2", "pre")}, kv_heads=0, head_dim=0,
           theta_key="rotary_emb_base|rope_theta", rotary=0.25, rotary_key="rotary_pct|partial_rotary_factor", bos=0, eos=2,
           prefixes=("gpt_neox.",),
           unused=("@layers.#.attention.bias", "@layers.#.attention.masked_bias", "@layers.#.attention.rotary_emb.inv_freq")),
)}

# A model of several kinds of input whose text part is one of the families: model_type -> (key of the text part's config,
# its model_type, tensors of the other parts).
WRAPPERS = {
    "gemma3": ("text_config", "gemma3_text", r"(model\.)?(vision_tower|multi_modal_projector)\..*"),
}

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
