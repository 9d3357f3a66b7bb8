"""PyTorch with transformers in bf16, as a worker of run.py (peer_worker.py says what that is).

  peer_torch.py FOLDER --threads N [--first-token]

inference_mode, scaled dot product attention, logits of the last position only, the model called directly (generate() costs
more); with the KV cache that grows and the one of fixed size (modes `dynamic` and `static`), of which the faster counts."""
import copy
import os
import time

import peer_worker

out = peer_worker.claim_stdout()
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402


class Torch:
    def __init__(self, folder, threads):
        torch.set_num_threads(threads)
        self.model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
        self.vocab = self.model.config.vocab_size
        self.held = {}  # (mode, start) -> cache with start tokens in it
        self.version = "torch %s, transformers %s" % (torch.__version__, transformers.__version__)
        self.system = "%s, mkldnn bf16 %s" % (torch.backends.cpu.get_cpu_capability(), torch.ops.mkldnn._is_mkldnn_bf16_supported())
        self.modes = ["dynamic", "static"]

    def new_cache(self, mode, n):
        if mode == "static":
            return transformers.StaticCache(config=self.model.config, max_cache_len=n)
        return transformers.DynamicCache(config=self.model.config)

    @torch.inference_mode()
    def extend(self, cache, ids):
        return self.model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]

    def prefill(self, mode, n):
        cache, ids = self.new_cache(mode, n), peer_worker.tokens(0, n, self.vocab)
        start = time.perf_counter()
        self.extend(cache, ids)
        return time.perf_counter() - start

    def context(self, mode, start):
        if (mode, start) not in self.held:
            cache, ids = self.new_cache(mode, start + 64), peer_worker.tokens(0, start, self.vocab)
            for first in range(0, start, 512):
                self.extend(cache, ids[first:first + 512])
            self.held[mode, start] = cache
        return self.held[mode, start]

    def decode(self, mode, length, n):
        cache = copy.deepcopy(self.context(mode, length))  # a fixed cache cannot step back
        ids = peer_worker.tokens(length, n, self.vocab)
        start = time.perf_counter()
        for token in ids:
            self.extend(cache, [token])
        return time.perf_counter() - start

    def logits(self, mode, ids):
        return self.extend(self.new_cache(mode, 64), ids).float().numpy()


if __name__ == "__main__":
    peer_worker.work(Torch, "dynamic", peer_worker.options(__doc__).parse_args(), out)
