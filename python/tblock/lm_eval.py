"""A model class for lm-evaluation-harness (`lm_eval` on PyPI), which scores with the log-likelihoods of `tblock eval`, as doubles.

    python -m tblock.lm_eval --model tblock --model_args pretrained=model.bin --tasks my_task

is its command with this class known to it; `import tblock.lm_eval` does the same for lm_eval.simple_evaluate(model="tblock")."""
from __future__ import annotations

from typing import Any, Iterable, Mapping, Optional, Sequence

from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from . import Generation, Model, UsageError
from ._core import SAMPLING


@register_model("tblock")
class TblockLM(TemplateLM):  # type: ignore[misc, unused-ignore]
    """model_args: pretrained (the model's path), type (of the weights, as in tblock.Model), max_length, threads, kv_type, math,
    activations, rope_length, batch_size (texts that are generated at once), add_bos_token (false: no BOS), chat_format."""

    def __init__(self, pretrained: str, type: Optional[str] = None, max_length: Optional[int] = None, threads: int = 0,
                 batch_size: Any = 1, add_bos_token: bool = True, chat_format: Optional[str] = None, max_batch_size: Any = None,
                 device: Any = None, **context: Any) -> None:
        super().__init__()
        self.model = Model(pretrained, type=type)
        self.batch = 8 if str(batch_size).startswith("auto") else int(batch_size)
        self.context = self.model.context(threads=int(threads), n_seqs=self.batch,
                                          n_ctx=int(max_length or self.model.n_ctx), **context)
        self.tokenizer = self.model.tokenizer
        self.max_length, self.add_bos, self.chat_format = self.context.n_ctx, add_bos_token, chat_format

    # ---- Tokens ----

    @property
    def eot_token_id(self) -> int:
        return int(self.model.eos[0] if self.model.eos else self.prefix_token_id)

    @property
    def prefix_token_id(self) -> int:
        """What stands before a text without context."""
        if self.model.bos < 0 and not self.model.eos:
            raise UsageError("the model has neither BOS nor an end token to stand before a text; give the task a context")
        return int(self.model.bos if self.model.bos >= 0 else self.model.eos[0])

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> list[int]:
        """A text that begins with BOS, as those of a chat template, gets no second one."""
        begins = self.tokenizer.bos_token is not None and string.startswith(self.tokenizer.bos_token)
        add = self.add_bos and not begins if add_special_tokens is None else add_special_tokens
        return self.tokenizer.encode(string, add_special_tokens=add, split_special_tokens=not begins)

    # ---- Scores ----

    def _loglikelihood_tokens(self, requests: Iterable[tuple[Any, Sequence[int], Sequence[int]]], **_: Any) -> list[tuple[float, bool]]:
        answers = []
        for key, context, continuation in requests:
            ids = [*context, *continuation][-self.max_length - 1:]
            found, best = self.context.log_probs(ids, first=max(1, len(ids) - len(continuation)))
            total = 0.0
            for p in found:  # in order: the bits of `tblock eval --choices`
                total += float(p)
            answers.append((total, bool(best.all())))
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answers[-1])
        return answers

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        answers = []
        for (text,) in (r.args for r in requests):
            windows = get_rolling_token_windows(token_list=self.tok_encode(text, add_special_tokens=False),
                                                prefix_token=self.prefix_token_id, max_seq_len=self.max_length, context_len=1)
            scores = self._loglikelihood_tokens((None, *make_disjoint_window(w)) for w in windows)
            answers.append(sum(p for p, _ in scores))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), answers[-1])
        return answers

    # ---- Texts ----

    def _options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """gen_kwargs as options of Context.generate; greedy unless do_sample asks for more."""
        known = {"until", "max_gen_toks", "max_new_tokens", "max_tokens", "do_sample", "seed", *SAMPLING}
        unknown = sorted(set(given) - known)
        if unknown:
            raise UsageError("gen_kwargs: expected some of %s, found %s" % (", ".join(sorted(known)), unknown[0]))
        until = given.get("until") or []
        out = {"stop": [until] if isinstance(until, str) else list(until), "temperature": 0.0, "top_k": 0, "top_p": 1.0,
               "max_tokens": int(given.get("max_gen_toks") or given.get("max_new_tokens") or given.get("max_tokens") or 256)}
        if given.get("do_sample", given.get("temperature", 0) > 0):
            out.update({k: given[k] for k in ("seed", *SAMPLING) if k in given})
            out.setdefault("temperature", 1.0)
        return out

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        answers = []
        for begin in range(0, len(requests), self.batch):
            some = [r.args for r in requests[begin:begin + self.batch]]
            texts = [self._generate(context, self._options(given)) for context, given in some]
            while any(t.end is None for t in texts):
                self.context.advance(texts)
            for text, (context, given) in zip(texts, some):
                answers.append(text.text)
                text.close()
                self.cache_hook.add_partial("generate_until", (context, given), answers[-1])
        return answers

    def _generate(self, context: str, options: Mapping[str, Any]) -> Generation:
        most = self.max_length - min(options["max_tokens"], self.max_length - 1)
        return self.context.generate(self.tok_encode(context)[-most:], **options)

    # ---- Chat ----

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return str(self.tokenizer.apply_chat_template(chat_history, chat_template=self.chat_format, tokenize=False,
                                                      add_generation_prompt=add_generation_prompt))

    def chat_template(self, chat_template: Any = False) -> Optional[str]:
        """What tells one template from another in lm_eval's caches. A name is for models with several."""
        if isinstance(chat_template, str) and chat_template != self.chat_format:
            raise UsageError("apply_chat_template: expected no name, found %r; model_args: chat_format" % chat_template)
        return str(self.chat_format or self.tokenizer.chat_template) if chat_template else ""

    @property
    def tokenizer_name(self) -> str:
        return str(self.model.path).replace("/", "__")


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate
    cli_evaluate()
