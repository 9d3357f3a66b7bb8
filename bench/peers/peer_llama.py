"""llama.cpp through the low-level bindings of llama-cpp-python, as a worker of run.py (peer_worker.py says what that is).

  peer_llama.py MODEL.gguf --threads N [--first-token]
  peer_llama.py --quantize F16.gguf OUT.gguf Q8_0|Q4_0|Q2_K|Q3_K_M|Q4_K_M|Q5_K_M|Q6_K --threads N

As llama.cpp's own llama-bench runs it: mapped, batches of 512, KV cache f16, one thread count for prefill and decode; with
and without flash attention (modes `fa` and `no-fa`), of which the faster counts."""
import ctypes
import sys
import time

import peer_worker

out = peer_worker.claim_stdout()

import llama_cpp  # noqa: E402
import numpy as np  # noqa: E402

BATCH = 512
DISABLED, ENABLED = 0, 1  # enum llama_flash_attn_type
FILE_TYPES = {kind: "LLAMA_FTYPE_MOSTLY_" + kind for kind in ("Q8_0", "Q4_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K")}


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def quiet(level, text, user):
    if level == 4:  # error
        sys.stderr.write(text.decode(errors="replace"))


class Llama:
    def __init__(self, path, threads):
        self.threads = threads
        llama_cpp.llama_log_set(quiet, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(path + ": llama.cpp cannot load it")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.contexts = {}  # (mode, n_ctx) -> [context, tokens in it]
        self.batch = llama_cpp.llama_batch_init(BATCH, 0, 1)
        self.version = "llama-cpp-python " + llama_cpp.__version__
        self.system = llama_cpp.llama_print_system_info().decode()
        self.modes = ["fa", "no-fa"]

    def open(self, mode, n_ctx):
        if (mode, n_ctx) not in self.contexts:
            p = llama_cpp.llama_context_default_params()
            p.n_ctx, p.n_batch, p.n_ubatch = n_ctx, BATCH, BATCH
            p.n_threads = p.n_threads_batch = self.threads
            p.flash_attn_type = ENABLED if mode == "fa" else DISABLED
            context = llama_cpp.llama_init_from_model(self.model, p)
            if not context:
                raise SystemExit("llama.cpp cannot make a context")
            self.contexts[mode, n_ctx] = [context, 0]
        return self.contexts[mode, n_ctx]

    def extend(self, held, ids):
        """Append tokens; the logits after the last are there when this returns."""
        context, start = held
        b = self.batch
        for first in range(0, len(ids), BATCH):
            piece = ids[first:first + BATCH]
            b.n_tokens = len(piece)
            for i, token in enumerate(piece):
                b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, start + first + i, 1, False
                b.seq_id[i][0] = 0
            b.logits[len(piece) - 1] = first + len(piece) == len(ids)
            if llama_cpp.llama_decode(context, b) != 0:
                raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(context)
        held[1] += len(ids)

    def rewind(self, held, length):
        if held[1] > length:
            llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(held[0]), 0, length, -1)
            held[1] = length

    def prefill(self, mode, n):
        held = self.open(mode, 1024 if n <= 1024 else n)
        self.rewind(held, 0)
        ids = peer_worker.tokens(0, n, self.vocab)
        start = time.perf_counter()
        self.extend(held, ids)
        return time.perf_counter() - start

    def context(self, mode, start):
        held = self.open(mode, 1024 if start <= peer_worker.SHORT else start + 256)
        self.rewind(held, start)
        if held[1] < start:
            self.extend(held, peer_worker.tokens(held[1], start - held[1], self.vocab))
        return held

    def decode(self, mode, length, n):
        held = self.context(mode, length)
        ids = peer_worker.tokens(length, n, self.vocab)
        start = time.perf_counter()
        for token in ids:
            self.extend(held, [token])
        return time.perf_counter() - start

    def logits(self, mode, ids):
        held = self.open(mode, 1024)
        self.rewind(held, 0)
        self.extend(held, ids)
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(held[0], -1), (self.vocab,)).copy()


def quantize(source, target, kind, threads):
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    p = llama_cpp.llama_model_quantize_default_params()
    p.nthread, p.ftype = threads, getattr(llama_cpp, FILE_TYPES[kind])
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(p)) != 0:
        raise SystemExit("%s: llama.cpp cannot quantize it to %s" % (source, kind))


def main():
    parser = peer_worker.options(__doc__)
    parser.add_argument("--quantize", nargs=3, metavar=("F16", "OUT", "TYPE"))
    args = parser.parse_args()
    if args.quantize:
        quantize(*args.quantize, args.threads)
    else:
        peer_worker.work(Llama, "fa", args, out)


if __name__ == "__main__":
    main()
