"""Functions over files: describe, convert, quantize, make, train, differentiate. Each is a function of tblock_tools.h, and takes the
options that the header lists for it, by the same names; one that it lacks is an error by name."""
from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping, Optional

from ._c import ffi, lib
from ._core import CheckError, Options, Record, UsageError, c_text, call, new_error, raise_error, record, records, text_of
from .model import Info, Path, model_path, real
from .options import takes_options

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import (BlockOptions, ConvertOptions, GradCheckOptions, GradOptions, MeasureOptions, QuantizeOptions,
                          ReportOptions, ReportTextOptions, SynthOptions, TrainOptions)


@takes_options
def info(path: Path, **options: Unpack[ReportOptions]) -> Info:
    """What a model, or a bare JSON config, is made of and what it costs (docs/info.md). Options: tensors, check, seq, batch, kv_type,
    type, html (a page to write too), progress. With check, data that is damaged raises CheckError, which names the tensor."""
    return Info(json.loads(_report(path, {**options, "json": True})))


@takes_options
def info_text(path: Path, **options: Unpack[ReportTextOptions]) -> str:
    """The same as the text that `tblock info` prints."""
    return _report(path, options)


def _text(function: str, opt: Options, *given: Any) -> str:
    """A function that gives a text, also where it says no."""
    out, err = ffi.new("char **"), new_error()
    good = getattr(lib, function)(*given, opt.c, out, err)
    text = text_of(out[0]) if out[0] else ""
    lib.tblock_free(out[0])
    if opt.callback is not None and opt.callback.raised is not None:
        raise opt.callback.raised
    if not good:
        raise_error(err)
    return text


def _report(path: Path, options: Mapping[str, Any]) -> str:
    return _text("tblock_report", Options("tblock_report_options", options), model_path("path", path))


@takes_options
def block(path: Optional[Path] = None, **options: Unpack[BlockOptions]) -> Any:
    """Run one decoder block forward and backward and describe every step (docs/block.md): the JSON that `tblock block --json` prints.
    path: None, a config, a case or a model. Options: tensors, output, layer, norm, placement, ffn, d_model, heads, ..."""
    return json.loads(_text("tblock_block", Options("tblock_block_options", {**options, "json": True}),
                            ffi.NULL if path is None else model_path("path", path)))


def _reported(function: str, kind: str, report: str, options: Mapping[str, Any], *given: Any) -> Any:
    opt, out = Options(kind, options), ffi.new(report + " *")
    call(function, *given, opt.c, out, options=opt)
    return out[0]


def _lora_files(given: Any) -> list[Options]:
    """Paths, or pairs of a path and a scale."""
    if isinstance(given, (str, bytes, os.PathLike)) or not hasattr(given, "__iter__"):
        raise UsageError("merge_lora: expected a list of paths or (path, scale), found %s" % type(given).__name__)
    files = []
    for item in given:
        path, scale = item if isinstance(item, tuple) and len(item) == 2 else (item, 1)
        c_text("merge_lora", path)
        files.append(Options("tblock_lora_file", {"path": path, "scale": real("merge_lora", scale)}))
    return files


@takes_options
def convert(source: Path, target: Path, **options: Unpack[ConvertOptions]) -> Record:
    """Convert a folder, a .gguf, a checkpoint or a tokenizer to a model file (docs/convert.md). Options: type, keep, tokenizer,
    pattern, no_tokenizer, tokenizer_only, row_major, chat_format, merge_lora (paths of adapters, or (path, scale)), threads,
    progress."""
    adapters = options.get("merge_lora")
    given = {**options, "merge_lora": None if adapters is None else _lora_files(adapters)}
    c = _reported("tblock_convert", "tblock_convert_options", "tblock_convert_report", given, model_path("source", source),
                  c_text("target", target))
    out = record(c)
    lib.tblock_free(c.warnings)
    return out


@takes_options
def quantize(source: Path, target: Path, type: str, **options: Unpack[QuantizeOptions]) -> Record:
    """Convert to a type ("q8", "q4", "bf16", "f16", "f32") and say how far each matrix is from what it was (docs/quantize.md).
    Options: keep, calibrate (a text), imatrix (a path), requantize, threads, progress."""
    c = _reported("tblock_quantize", "tblock_quantize_options", "tblock_quantize_report", {**options, "type": type},
                  model_path("source", source), c_text("target", target))
    out = record(c)
    out["rows"] = records(c.rows, c.n_rows)
    lib.tblock_free(c.rows)
    return out


@takes_options
def synth(config: Path, target: Path, **options: Unpack[SynthOptions]) -> None:
    """Write a model file with seeded random weights for a JSON config. Options: type, keep, seed, threads, sparse, progress."""
    opt = Options("tblock_synth_options", options)
    call("tblock_synth", c_text("config", config), c_text("target", target), opt.c, options=opt)


def _adamw(options: Mapping[str, Any], decay_all: bool) -> dict[str, Any]:
    """Options in which adamw is a dict: its numbers replace the defaults."""
    out = dict(options)
    if out.get("adamw") is not None:
        given = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.1, "decay_all": decay_all}
        out["adamw"] = Options("tblock_adamw", {**given, **out["adamw"]})
    return out


@takes_options
def train(target: Path, **options: Unpack[TrainOptions]) -> Record:
    """Train a model on a text (docs/train.md). Options: text (required), config, init, tokenizer, vocab, steps, batch, n_ctx,
    micro_batch, adamw (a dict), min_lr, warmup, clip, dropout, validation, seed, eval_every, save_every, resume, plot, lora_rank,
    lora_alpha, lora_targets (an adapter is trained; the target is its folder), threads, progress (called with a record after every step; False: save a checkpoint and stop). Ctrl-C leaves a checkpoint."""
    return record(_reported("tblock_train", "tblock_train_options", "tblock_train_report", _adamw(options, False),
                            c_text("target", target)))


@takes_options
def grad(model: Path, tokens: Path, target: Path, **options: Unpack[GradOptions]) -> Record:
    """The loss of token sequences and its gradients with respect to all parameters, in safetensors files (docs/train.md). Options:
    adamw_steps, adamw (a dict), threads, progress."""
    return record(_reported("tblock_grad", "tblock_grad_options", "tblock_grad_report", _adamw(options, True),
                            model_path("model", model), c_text("tokens", tokens), c_text("target", target)))


@takes_options
def grad_check(**options: Unpack[GradCheckOptions]) -> list[Record]:
    """Compare gradients with differences of the loss. Options: config or init, n_tokens, samples, lora_rank, lora_alpha,
    lora_targets, seed, threads, progress."""
    opt, rows, n = Options("tblock_grad_check_options", options), ffi.new("tblock_grad_check_row **"), ffi.new("size_t *")
    call("tblock_grad_check", opt.c, rows, n, options=opt)
    out = records(rows[0], n[0])
    lib.tblock_free(rows[0])
    return out


@takes_options
def measure(**options: Unpack[MeasureOptions]) -> Record:
    """The limits of this machine (docs/bench.md). Options: threads, isa, read_bytes."""
    return record(_reported("tblock_measure_machine", "tblock_measure_options", "tblock_machine", options))


__all__ = ["CheckError", "block", "convert", "grad", "grad_check", "info", "info_text", "measure", "quantize", "synth", "train"]
