#!/usr/bin/env python3
"""Record what the layer that predicts the token after the next answers, in float64: tests/data/mtp.json.

    record_mtp.py

The models are those of tests/golden/mtp_models.py. The block of the layer is transformers' decoder layer of the family; what stands around it is
written here, by its definition (DeepSeek-V3 technical report, section 2.2; the order of the two halves and the norms are those of the published
weights, as README_WEIGHTS.md of DeepSeek-V3, SGLang and vLLM have them): the state of the model behind its last norm, and the next token's
embedding, each normed, the embedding first. A longer guess goes on from the layer's own state, behind its norm. Embedding and head are the
model's. Tolerance: 8 times what torch's own float32 loses, at least 4e-6 of the largest logit. Needs torch and transformers (live.sh makes an environment with them)."""
import hashlib
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import torch
import transformers
from torch.nn.functional import linear, rms_norm

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "golden"))
import mtp_models  # noqa: E402

N_TOKENS, N_GUESSES = 12, 3


def answers(family, folder, ids, dtype):
    """Rows of logits, and the most likely tokens that the last of them go on from."""
    c, t = mtp_models.CONFIGS[family], mtp_models.weights(family)
    n, eps, mtp = c["num_hidden_layers"], c["rms_norm_eps"], f"model.layers.{c['num_hidden_layers']}."
    mtp_models.write(folder, family, t, num_hidden_layers=n + 1)   # transformers leaves out what its layers do not have
    m = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager",
                                                          experts_implementation="eager").eval()
    own = {name[len(mtp):]: torch.tensor(t[name], dtype=dtype) for name in t if name.startswith(mtp)}

    def block(layer, x):
        at = torch.arange(x.shape[1])[None]
        hidden = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=dtype).triu(1)[None, None]
        return m.model.layers[layer](x, attention_mask=hidden, position_ids=at, position_embeddings=m.model.rotary_emb(x, at))

    def norm(x, name):
        return rms_norm(x, (x.shape[-1],), own[name], eps)

    x = m.model.embed_tokens(torch.tensor([ids]))
    for layer in range(n):
        x = block(layer, x)
    states, logits, guesses = m.model.norm(x)[:, :-1], [], []
    for i in range(N_GUESSES):
        e = m.model.embed_tokens(torch.tensor([(ids + guesses)[1:]]))
        x = linear(torch.cat([norm(e, "enorm.weight"), norm(states, "hnorm.weight")], -1), own["eh_proj.weight"])
        s = norm(block(n, x), "shared_head.norm.weight")
        answer = m.lm_head(s)[0]
        logits += answer if i == 0 else answer[-1:]
        guesses.append(int(answer[-1].argmax()))
        states = torch.cat([states, s[:, -1:]], 1)
    return torch.stack(logits), guesses[:-1]


def recorded(family, folder):
    digest = hashlib.shake_256(b"tokens of " + family.encode()).digest(N_TOKENS)
    ids = [b % mtp_models.CONFIGS[family]["vocab_size"] for b in digest]
    logits, guesses = answers(family, folder, ids, torch.float64)
    narrow, same = answers(family, folder, ids, torch.float32)
    assert same == guesses
    lost = float((narrow.double() - logits).abs().max() / logits.abs().max())
    return {"ids": ids, "guesses": guesses, "tolerance": float("%.2g" % max(8 * lost, 4e-6)),
            "logits": [[float("%.7g" % v) for v in row] for row in logits]}


def main():
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        out = {"made by": "tests/references/record_mtp.py", "torch": importlib.metadata.version("torch"), "transformers": transformers.__version__,
               **{family: recorded(family, pathlib.Path(folder) / family) for family in mtp_models.CONFIGS}}
    path = HERE.parents[1] / "data" / "mtp.json"
    path.write_text(json.dumps(out) + "\n")
    print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    sys.exit(main())
