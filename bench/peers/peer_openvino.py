"""OpenVINO as a worker of run.py (peer_worker.py says what that is).

  peer_openvino.py FOLDER --threads N [--first-token]
  peer_openvino.py --export HF_FOLDER OUT bf16|int8|int4

Two ways of running, of which the faster counts: `infer` calls the exported model with its KV cache as a state, as optimum-intel
does; `genai` is OpenVINO GenAI's LLMPipeline (paged attention), timed by its own metrics. Everything else stays as OpenVINO
chooses: bf16 arithmetic where the processor has it, 8-bit activations in groups for int8 and int4 weights, KV cache u8."""
import os
import pathlib
import time

import peer_worker

out = peer_worker.claim_stdout()
os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import openvino as ov  # noqa: E402

BITS = {"int8": 8, "int4": 4}


class OpenVINO:
    def __init__(self, folder, threads):
        self.folder = pathlib.Path(folder)
        self.settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
        compiled = ov.Core().compile_model(self.folder / "openvino_model.xml", "CPU", self.settings)
        self.request = compiled.create_infer_request()
        self.vocab = compiled.output("logits").partial_shape[-1].get_length()
        self.held = {}  # start -> the states after start tokens
        self.pipeline = None
        self.version = "openvino " + ov.__version__.split("-")[0]
        self.system = "%s arithmetic, KV cache %s" % (
            compiled.get_property("INFERENCE_PRECISION_HINT").to_string(), compiled.get_property("KV_CACHE_PRECISION").to_string())
        self.modes = ["infer", "genai"]

    # ---- infer: the state grows with each call -----------------------------------------------------------------------

    def reset(self):
        self.request.reset_state()
        self.length = 0

    def extend(self, ids):
        n = len(ids)
        self.request.infer({
            "input_ids": np.array([ids], np.int64), "attention_mask": np.ones((1, self.length + n), np.int64),
            "position_ids": np.arange(self.length, self.length + n, dtype=np.int64)[None], "beam_idx": np.zeros(1, np.int32)})
        self.length += n
        return self.request.get_tensor("logits").data[0, -1]

    # ---- genai -------------------------------------------------------------------------------------------------------

    def generate(self, n_prompt, n_new):
        """(seconds to the first token, seconds of the others) of n_new tokens after a prompt."""
        import openvino_genai as genai
        if not self.pipeline:
            scheduler = genai.SchedulerConfig()
            scheduler.enable_prefix_caching = False  # the same prompt is timed again and again
            self.pipeline = genai.LLMPipeline(str(self.folder), "CPU", scheduler_config=scheduler, **self.settings)
        ids = np.array([peer_worker.tokens(0, n_prompt, self.vocab)], np.int64)
        inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
        config = genai.GenerationConfig(max_new_tokens=n_new, min_new_tokens=n_new, ignore_eos=True, do_sample=False)
        start = time.perf_counter()
        metrics = self.pipeline.generate(inputs, config).perf_metrics
        wall, first = time.perf_counter() - start, metrics.get_ttft().mean * 1e-3
        return first, wall - first

    # ---- commands ----------------------------------------------------------------------------------------------------

    def prefill(self, mode, n):
        if mode == "genai":
            return self.generate(n, 1)[0]
        self.reset()
        ids = peer_worker.tokens(0, n, self.vocab)
        start = time.perf_counter()
        self.extend(ids)
        return time.perf_counter() - start

    def context(self, mode, start):
        if mode == "genai":
            return
        self.reset()
        if start not in self.held:
            for first in range(0, start, 512):
                self.extend(peer_worker.tokens(first, min(512, start - first), self.vocab))
            self.held[start] = [np.copy(s.state.data) for s in self.request.query_state()]
        else:
            for state, saved in zip(self.request.query_state(), self.held[start]):
                state.state = ov.Tensor(saved)
        self.length = start

    def decode(self, mode, length, n):
        if mode == "genai":
            return self.generate(length, n + 1)[1]
        self.context(mode, length)
        start = time.perf_counter()
        for token in peer_worker.tokens(length, n, self.vocab):
            self.extend([token])
        return time.perf_counter() - start

    def logits(self, mode, ids):
        self.reset()
        return np.copy(self.extend(ids)).astype(np.float32)


def export(source, target, kind):
    """An OpenVINO model of a Hugging Face folder, by optimum-intel and nncf without calibration data."""
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    quantization = OVWeightQuantizationConfig(bits=BITS[kind], sym=kind == "int4", group_size=128 if kind == "int4" else -1) if kind in BITS else None
    model = OVModelForCausalLM.from_pretrained(source, export=True, compile=False, load_in_8bit=False, quantization_config=quantization)
    model.save_pretrained(target)


def main():
    parser = peer_worker.options(__doc__)
    parser.add_argument("--export", nargs=3, metavar=("HF", "OUT", "TYPE"))
    args = parser.parse_args()
    if args.export:
        export(*args.export)
    else:
        peer_worker.work(OpenVINO, "infer", args, out)


if __name__ == "__main__":
    main()
