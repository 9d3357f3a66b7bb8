"""GGUF files of random weights in shapes that the model of run.py has not: experts, sinks, latent attention.

  peer_shapes.py NAME OUT.gguf        NAME: gpt-oss, DeepSeek-V2-Lite, DeepSeek-V3

Widths, heads and experts are those of the published models, layers (and for DeepSeek V3 experts) fewer, so that a file has one to
two GB. Each matrix has the type that llama.cpp's own quantizer gives it: MXFP4_MOE of gpt-oss, Q4_K_M of the others (Q5_0 or Q8_0
where a row is no multiple of 256). Its blocks are random bits under a scale that keeps activations in range."""
import math
import os
import pathlib
import sys

import gguf
import numpy as np

F32, Q5_0, Q8_0, Q4_K, Q6_K, MXFP4 = (getattr(gguf.GGMLQuantizationType, n) for n in ("F32", "Q5_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4"))
# Where a block has its f16 scales, and the deviation of its codes times sub-scales, by which a scale is divided.
SCALES = {Q5_0: ((0,), 9.2), Q8_0: ((0,), 74), Q4_K: ((0, 2), 170), Q6_K: ((208,), 1370)}


def rows_of(kind, shape, rng):
    """Random blocks: a matrix's weights have a deviation of about 1 / sqrt(k)."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    n = math.prod(shape) // block
    out = np.frombuffer(rng.bytes(n * size), dtype=np.uint8).reshape(n, size).copy()
    scale = 1 / math.sqrt(shape[-1])
    if kind == MXFP4:
        out[:, 0] = 127 + round(math.log2(scale / 3))
    else:
        at, deviation = SCALES[kind]
        for i in at:
            # The codes of Q4_K are 0 to 15: its second scale takes their mean away.
            value = np.float16(scale / deviation * (7.5 if i else 1) if kind == Q4_K else scale / deviation)
            out[:, i:i + 2] = np.frombuffer(value.tobytes(), dtype=np.uint8)
    return out.reshape(*shape[:-1], -1)


class Shape:
    def __init__(self, path, arch, layers, d_model, vocab, heads, kv_heads, d_ff, experts, used, expert_d_ff):
        self.w = gguf.GGUFWriter(path, arch)
        self.rng, self.listed, self.d_model, self.d_ff, self.heads = np.random.default_rng(1), [], d_model, d_ff, heads
        self.experts, self.expert_d_ff, self.layers, self.vocab = experts, expert_d_ff, layers, vocab
        w = self.w
        w.add_context_length(8192)
        w.add_embedding_length(d_model)
        w.add_block_count(layers)
        w.add_feed_forward_length(d_ff)
        w.add_head_count(heads)
        w.add_head_count_kv(kv_heads)
        w.add_layer_norm_rms_eps(1e-6)
        w.add_expert_count(experts)
        w.add_expert_used_count(used)
        w.add_expert_feed_forward_length(expert_d_ff)
        w.add_vocab_size(vocab)
        w.add_tokenizer_model("no_vocab")

    def put(self, name, shape, kind=F32, mean=0.0):
        self.listed.append((name, shape, kind, mean))

    def write(self):
        for name, shape, kind, _ in self.listed:
            block, size = gguf.GGML_QUANT_SIZES[kind]
            stored = shape if kind == F32 else (*shape[:-1], shape[-1] // block * size)
            self.w.add_tensor_info(name, stored, np.dtype("float32" if kind == F32 else "uint8"), math.prod(shape) // block * size,
                                   raw_dtype=None if kind == F32 else kind)
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_ti_data_to_file()
        for _, shape, kind, mean in self.listed:
            if kind == F32:
                spread = 1 / math.sqrt(shape[-1]) if len(shape) > 1 else 0.1
                self.w.write_tensor_data((mean + spread * self.rng.standard_normal(shape)).astype(np.float32))
            else:
                self.w.write_tensor_data(rows_of(kind, shape, self.rng))
        self.w.close()

    def ends(self, embed, head):
        self.put("token_embd.weight", (self.vocab, self.d_model), embed)
        self.put("output_norm.weight", (self.d_model,), mean=1.0)
        self.put("output.weight", (self.vocab, self.d_model), head)

    def network(self, layer, suffix, stack, width, gate, down):
        for name, rows, k, kind in (("gate", width, self.d_model, gate), ("up", width, self.d_model, gate), ("down", self.d_model, width, down)):
            self.put("blk.%d.ffn_%s%s.weight" % (layer, name, suffix), (*stack, rows, k), kind)


def gpt_oss(path):
    head = 64
    s = Shape(path, "gpt-oss", 4, 2880, 32768, 64, 8, 2880, 32, 4, 2880)
    s.w.add_key_length(head)
    s.w.add_value_length(head)
    s.w.add_sliding_window(128)
    s.w.add_rope_freq_base(150000.0)
    s.w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    s.w.add_rope_scaling_factor(32.0)
    s.w.add_rope_scaling_orig_ctx_len(4096)
    s.ends(Q8_0, Q8_0)
    for layer in range(s.layers):
        own = "blk.%d." % layer
        for name, rows, k in (("attn_q", s.heads * head, s.d_model), ("attn_k", 8 * head, s.d_model), ("attn_v", 8 * head, s.d_model),
                              ("attn_output", s.d_model, s.heads * head)):
            s.put(own + name + ".weight", (rows, k), Q8_0)
            s.put(own + name + ".bias", (rows,))
        s.put(own + "attn_norm.weight", (s.d_model,), mean=1.0)
        s.put(own + "post_attention_norm.weight", (s.d_model,), mean=1.0)
        s.put(own + "attn_sinks.weight", (s.heads,))
        s.put(own + "ffn_gate_inp.weight", (s.experts, s.d_model))
        s.put(own + "ffn_gate_inp.bias", (s.experts,))
        s.network(layer, "_exps", (s.experts,), s.expert_d_ff, MXFP4, MXFP4)
        for name, width in (("gate", s.expert_d_ff), ("up", s.expert_d_ff), ("down", s.d_model)):
            s.put(own + "ffn_%s_exps.bias" % name, (s.experts, width))
    s.write()


def deepseek(path, layers, d_model, heads, d_ff, experts, used, expert_d_ff, shared, q_lora, sigmoid):
    latent, rotated, nope, value = 512, 64, 128, 128
    s = Shape(path, "deepseek2", layers, d_model, 32768, heads, 1, d_ff, experts, used, expert_d_ff)
    s.w.add_key_length(latent + rotated)
    s.w.add_value_length(latent)
    s.w.add_key_length_mla(nope + rotated)
    s.w.add_value_length_mla(value)
    s.w.add_kv_lora_rank(latent)
    s.w.add_q_lora_rank(q_lora)
    s.w.add_rope_dimension_count(rotated)
    s.w.add_rope_freq_base(10000.0)
    s.w.add_leading_dense_block_count(1)
    s.w.add_expert_shared_count(shared)
    s.w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID if sigmoid else gguf.ExpertGatingFuncType.SOFTMAX)
    s.w.add_expert_weights_scale(2.5 if sigmoid else 1.0)
    s.w.add_expert_weights_norm(sigmoid)
    s.ends(Q4_K, Q6_K)
    for layer in range(s.layers):
        own = "blk.%d." % layer
        queries = heads * (nope + rotated)
        if q_lora:
            s.put(own + "attn_q_a.weight", (q_lora, d_model), Q4_K)
            s.put(own + "attn_q_a_norm.weight", (q_lora,), mean=1.0)
            s.put(own + "attn_q_b.weight", (queries, q_lora), Q4_K)
        else:
            s.put(own + "attn_q.weight", (queries, d_model), Q4_K)
        s.put(own + "attn_kv_a_mqa.weight", (latent + rotated, d_model), Q4_K)
        s.put(own + "attn_kv_a_norm.weight", (latent,), mean=1.0)
        s.put(own + "attn_k_b.weight", (heads, latent, nope), Q5_0)
        s.put(own + "attn_v_b.weight", (heads, value, latent), Q4_K)
        s.put(own + "attn_output.weight", (d_model, heads * value), Q4_K)
        s.put(own + "attn_norm.weight", (d_model,), mean=1.0)
        s.put(own + "ffn_norm.weight", (d_model,), mean=1.0)
        if layer == 0:
            s.network(layer, "", (), d_ff, Q4_K, Q4_K if d_ff % 256 == 0 else Q5_0)
            continue
        s.put(own + "ffn_gate_inp.weight", (experts, d_model))
        if sigmoid:
            s.put(own + "exp_probs_b.bias", (experts,))
        s.network(layer, "_exps", (experts,), expert_d_ff, Q4_K, Q6_K if expert_d_ff % 256 == 0 else Q8_0)
        s.network(layer, "_shexp", (), shared * expert_d_ff, Q4_K, Q6_K)
    s.write()


SHAPES = {
    "gpt-oss": gpt_oss,
    "DeepSeek-V2-Lite": lambda path: deepseek(path, 4, 2048, 16, 10944, 64, 6, 1408, 2, 0, False),
    "DeepSeek-V3": lambda path: deepseek(path, 2, 7168, 128, 18432, 16, 8, 2048, 1, 1536, True),
}


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        raise SystemExit(__doc__)
    target = pathlib.Path(sys.argv[2])
    part = target.with_suffix(".part")
    SHAPES[sys.argv[1]](part)
    os.replace(part, target)


if __name__ == "__main__":
    main()
