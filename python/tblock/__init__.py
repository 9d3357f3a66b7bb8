"""tblock: Llama-style language models on a CPU, with the same bits everywhere.

    import tblock
    model = tblock.Model("model.bin")
    for piece in model.generate("Once upon a time", max_tokens=50, seed=7):
        print(piece, end="")
    logits = model.context().logits("To be")   # numpy, float32 [n, vocab_size]

docs/python.md is the guide. Functions fail with tblock.Error, whose message names the thing, what was expected and what was
found."""
from typing import TYPE_CHECKING

from ._c import ffi as _ffi
from ._c import lib as _lib
from ._core import (BusyError, CheckError, ClosedError, Error, InputError, OptionError, Record,
                    SystemFailure, UsageError)
from .arrays import Arrays, Weights, load_arrays, save_arrays, write_model
from .chat import Answer, Chat
from .constraint import Constraint
from .context import Attention, Context
from .generation import Generation
from .model import Info, Lora, Model
from .tokenizer import Tokenizer
from .tools import block, convert, grad, grad_check, info, info_text, measure, quantize, synth, train

__version__: str = _ffi.string(_lib.tblock_version()).decode()
NUMERICS_VERSION: int = _lib.TBLOCK_NUMERICS_VERSION

__all__ = ["Answer", "Arrays", "Attention", "BusyError", "Chat", "CheckError", "ClosedError", "Constraint", "Context",
           "Error", "Generation", "Info", "InputError", "Lora", "Model", "NUMERICS_VERSION", "OptionError", "Record", "SystemFailure",
           "Tokenizer", "UsageError", "Weights", "block", "convert", "grad", "grad_check", "info", "info_text",
           "load_arrays", "measure", "quantize", "save_arrays", "synth", "train", "write_model"]

if not TYPE_CHECKING:  # a checker shall find what does not exist
    def __getattr__(name):
        from .peers import instead
        raise AttributeError(instead("tblock", name, __all__))
