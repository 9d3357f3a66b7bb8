"""The options of functions, written out for type checkers and editors, which cannot read the library's header. tests/python/test_options.py
compares them with it."""
from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, TypedDict, TypeVar, Union

from ._core import SAMPLING, OptionError
from .peers import TAKEN, no_option

if TYPE_CHECKING:
    from ._core import Record
    from .constraint import Constraint
    from .model import Lora, Model, Path, Text

    Progress = Callable[[float], object]

_Method = TypeVar("_Method", bound=Callable[..., Any])


class SamplingOptions(TypedDict, total=False):
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    presence_penalty: float
    frequency_penalty: float
    min_tokens: int


class GenerateOptions(SamplingOptions, total=False):
    max_tokens: Optional[int]
    logit_bias: Optional[Mapping[int, float]]
    seed: int
    stop: Union[str, Sequence[str]]
    stop_ids: Optional[Sequence[int]]
    skip: Optional[str]
    constraint: Optional[Constraint]
    draft: int
    draft_match: int
    lora: Optional[Sequence[Lora]]
    receipt: Union[bool, Mapping[str, Any]]
    logprobs: Optional[int]


class CompletionOptions(TypedDict, total=False):
    """Parameters of OpenAI's chat completions; those of the last lines are ignored. format: of the chat, as of Model.chat."""

    format: Optional[str]
    model: Optional[str]
    n: Optional[int]
    seed: Optional[int]
    temperature: Optional[float]
    top_p: Optional[float]
    top_k: Optional[int]
    min_p: Optional[float]
    repetition_penalty: Optional[float]
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    min_tokens: Optional[int]
    max_tokens: Optional[int]
    max_completion_tokens: Optional[int]
    stop: Union[str, Sequence[str], None]
    logit_bias: Union[Mapping[str, float], Mapping[int, float], None]
    logprobs: Optional[bool]
    top_logprobs: Optional[int]
    tools: Optional[Sequence[Mapping[str, Any]]]
    tool_choice: Union[str, Mapping[str, Any], None]
    parallel_tool_calls: Optional[bool]
    response_format: Optional[Mapping[str, Any]]
    stream_options: Optional[Mapping[str, Any]]
    chat_template_kwargs: Optional[Mapping[str, Any]]
    reasoning_effort: Optional[str]
    return_token_ids: Optional[bool]
    receipt: Optional[bool]
    user: Any
    metadata: Any
    store: Any
    service_tier: Any
    prediction: Any
    safety_identifier: Any
    prompt_cache_key: Any
    prompt_cache_options: Any
    prompt_cache_retention: Any


class ContextOptions(TypedDict, total=False):
    n_ctx: int
    n_seqs: int
    n_batch: int
    threads: int
    isa: Optional[str]
    math: Optional[str]
    activations: Optional[str]
    kv_type: Optional[str]
    rope_length: int
    affinity: Optional[str]
    allow_nan: bool
    pages: Optional[str]
    lora: Sequence[Lora]
    drafter: Union[Model, str, None]
    recorded: Union[Path, Mapping[str, Any], Sequence[Union[str, bytes, Mapping[str, Any]]], None]


class ChatOptions(TypedDict, total=False):
    format: Optional[str]
    tools: Optional[Sequence[Mapping[str, Any]]]
    args: Optional[Mapping[str, Any]]
    date: Optional[str]


class ConstraintOptions(TypedDict, total=False):
    json_schema: Union[Mapping[str, Any], bool, str, None]
    regex: Optional[str]
    grammar: Optional[str]
    any_order: bool


class EmbedOptions(TypedDict, total=False):
    pool: Optional[str]
    raw: bool
    progress: Optional[Progress]


class RerankOptions(TypedDict, total=False):
    instruction: Optional[Text]


class EvalOptions(TypedDict, total=False):
    window: int
    stride: int
    n_bytes: int
    n_added: int
    progress: Optional[Progress]


class ChoicesOptions(TypedDict, total=False):
    delimiter: Optional[str]
    no_added: bool
    progress: Optional[Progress]


class VerifyOptions(TypedDict, total=False):
    exact: bool
    tol: Optional[float]
    greedy: bool
    tokens: Optional[Path]
    trust_hash: bool
    logits_only: bool
    progress: Optional[Progress]


class LogitsOptions(TypedDict, total=False):
    last: bool
    hidden: bool
    digest: bool
    progress: Optional[Progress]


class AttentionOptions(TypedDict, total=False):
    layers: Optional[Sequence[int]]
    heads: Optional[Sequence[int]]
    progress: Optional[Progress]


class ReportOptions(TypedDict, total=False):
    tensors: bool
    check: bool
    seq: int
    batch: int
    kv_type: Optional[str]
    type: Optional[str]
    html: Optional[Path]
    ranks: int
    bandwidth: float
    latency: float
    memory: float
    progress: Optional[Progress]


class ReportTextOptions(ReportOptions, total=False):
    json: bool
    colour: bool


class BlockOptions(TypedDict, total=False):
    tensors: Optional[Path]
    output: Optional[Path]
    layer: int
    norm: Optional[str]
    placement: Optional[str]
    ffn: Optional[str]
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    window: int
    non_causal: bool
    bias: bool
    no_rope: bool
    theta: float
    eps: float
    batch: int
    length: int
    seed: int
    stack: int
    check: int
    threads: int
    progress: Optional[Progress]


class StoreOptions(TypedDict, total=False):
    """Of functions that write a model file."""

    keep: Optional[Sequence[str]]
    threads: int
    progress: Optional[Progress]


class ArraysOptions(StoreOptions, total=False):
    row_major: bool
    chat_format: Optional[str]
    merge_lora: Optional[Sequence[Union[Path, tuple[Path, float]]]]
    pattern: Optional[str]
    no_tokenizer: bool
    tokenizer_only: bool


class ConvertOptions(ArraysOptions, total=False):
    type: Optional[str]
    tokenizer: Optional[Path]


class QuantizeOptions(StoreOptions, total=False):
    calibrate: Optional[str]
    imatrix: Optional[Path]
    requantize: bool


class SynthOptions(StoreOptions, total=False):
    type: Optional[str]
    seed: int
    sparse: bool


class AdamW(TypedDict, total=False):
    lr: float
    beta1: float
    beta2: float
    eps: float
    weight_decay: float
    decay_all: bool


class TrainOptions(TypedDict, total=False):
    text: Path
    config: Optional[Path]
    init: Optional[Path]
    tokenizer: Optional[Path]
    vocab: int
    steps: int
    batch: int
    n_ctx: int
    micro_batch: int
    adamw: Optional[AdamW]
    min_lr: float
    warmup: int
    clip: float
    dropout: float
    validation: float
    seed: int
    eval_every: int
    save_every: int
    resume: bool
    plot: Optional[Path]
    lora_rank: int
    lora_alpha: float
    lora_targets: Optional[str]
    threads: int
    progress: Optional[Callable[[Record], object]]


class GradOptions(TypedDict, total=False):
    adamw_steps: int
    adamw: Optional[AdamW]
    threads: int
    progress: Optional[Progress]


class GradCheckOptions(TypedDict, total=False):
    config: Optional[Path]
    init: Optional[Path]
    n_tokens: int
    samples: int
    lora_rank: int
    lora_alpha: float
    lora_targets: Optional[str]
    seed: int
    threads: int
    progress: Optional[Progress]


class MeasureOptions(TypedDict, total=False):
    threads: int
    isa: Optional[str]
    read_bytes: int


def _written_out(p: inspect.Parameter) -> list[inspect.Parameter]:
    """The options that `**options: Unpack[KIND]` stands for. None: the default is the library's."""
    kind = globals()[p.annotation[len("Unpack["):-1]]
    return [inspect.Parameter(name, p.KEYWORD_ONLY, default=SAMPLING.get(name, (None, None))[1], annotation=getattr(a, "__forward_arg__", a))
            for name, a in kind.__annotations__.items()]


def takes_options(method: _Method) -> _Method:
    """A function whose options are shown one by one by help(), and which has an error for others that says what to write."""
    shown, parameters = inspect.signature(method), []
    for p in shown.parameters.values():
        parameters += _written_out(p) if p.kind is p.VAR_KEYWORD else [p]
    label = method.__qualname__.replace(".__init__", "").replace(".__call__", "")
    known = frozenset(p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_POSITIONAL)
    TAKEN[label] = frozenset(name for name in known if name[0] != "_")

    @functools.wraps(method)
    def checked(*given: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise OptionError(no_option(label, name, TAKEN[label]))
        return method(*given, **options)

    setattr(checked, "__signature__", shown.replace(parameters=parameters))
    return checked  # type: ignore[return-value]


def show_as(method: Callable[..., Any], other: Callable[..., Any]) -> None:
    """A method that hands its options on: help() shows them as the other one has them, with their defaults."""
    own = inspect.signature(method)
    first = [p for p in own.parameters.values() if p.kind is not p.KEYWORD_ONLY]
    options = [p for p in inspect.signature(other).parameters.values() if p.kind is p.KEYWORD_ONLY and p.name[0] != "_"]
    setattr(method, "__signature__", own.replace(parameters=first + options))
