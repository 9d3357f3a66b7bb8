"""tokenizer.model: a SentencePiece model, BPE or unigram. Field numbers are those of sentencepiece_model.proto (sentencepiece 0.2)."""
import math
import re

from .errors import bad, quoted
from . import charsmap, protobuf, vocab

# ModelProto
PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
PIECE, SCORE, TYPE = 1, 2, 3
# TrainerSpec
MODEL_TYPE, WHITESPACE_SUFFIX, BYTE_FALLBACK, UNK_SURFACE, BOS_PIECE, EOS_PIECE = 3, 24, 35, 44, 46, 47
UNK_SURFACE_DEFAULT = " \u2047 ".encode()
MODEL_TYPES = {1: "unigram", 2: "BPE", 3: "word", 4: "char"}
TYPES = {1: "spm_unigram", 2: "spm"}   # in the model file
# NormalizerSpec
CHARSMAP = 2
NORMALIZER_FLAGS = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}   # all true when absent


def looks_like(head):
    """The first field of every model is a piece: tag 0x0A, a length, then tag 0x0A of its text."""
    return len(head) > 4 and head[0] == 0x0A and head[2] == 0x0A


def load(file):
    """The Vocab of a file (source.SourceFile)."""
    data, path = file.read_small(), file.path
    v = vocab.Vocab(path, "spm")
    trainer, normalizer, denormalizer = {}, {}, {}
    specs = {TRAINER: trainer, NORMALIZER: normalizer, DENORMALIZER: denormalizer}
    for number, value in protobuf.fields(data, path):
        if number == PIECES and isinstance(value, bytes):
            _piece(v, value)
        elif number in specs and isinstance(value, bytes):
            specs[number].update(protobuf.message(value, path))
    if not v.pieces:
        raise bad(path, "", "a SentencePiece model", "no pieces")
    model_type = trainer.get(MODEL_TYPE, 1)
    if model_type not in TYPES:
        raise bad(path, "model type", "BPE or unigram", MODEL_TYPES.get(model_type, model_type))
    v.type = TYPES[model_type]
    if trainer.get(WHITESPACE_SUFFIX):
        raise bad(path, "treat_whitespace_as_suffix", "false", "true")
    if denormalizer.get(CHARSMAP):
        raise bad(path, "denormalizer", "none", "a character map of %d bytes" % len(denormalizer[CHARSMAP]))
    v.settings = {name: bool(normalizer.get(number, 1)) for number, name in NORMALIZER_FLAGS.items()}
    v.settings["byte_fallback"] = bool(trainer.get(BYTE_FALLBACK, 0))
    surface = trainer.get(UNK_SURFACE, UNK_SURFACE_DEFAULT)
    if isinstance(surface, bytes) and surface != UNK_SURFACE_DEFAULT:
        v.settings["unk_surface"] = surface.decode("utf-8", "replace")
    if normalizer.get(CHARSMAP):
        if not isinstance(normalizer[CHARSMAP], bytes):
            raise bad(path, "precompiled_charsmap", "bytes", "a number")
        v.charsmap = charsmap.rules(normalizer[CHARSMAP], path, "precompiled_charsmap")
        v.settings["charsmap"] = True
    _ids(v, trainer)
    return v


def _piece(v, data):
    piece = protobuf.message(data, v.file)
    text, i = piece.get(PIECE, b""), v.size()
    type_ = piece.get(TYPE, vocab.NORMAL)
    score = protobuf.float32(piece[SCORE]) if isinstance(piece.get(SCORE), bytes) and len(piece[SCORE]) == 4 else 0.0
    if not isinstance(text, bytes) or not text or type_ not in (1, 2, 3, 4, 5, 6) or math.isnan(score):
        raise bad(v.file, "piece %d" % i, "a text, a type from 1 to 6 and a score", "other values")
    if type_ == vocab.BYTE:
        text = byte_of(text)
        if text is None:
            raise bad(v.file, "piece %d" % i, "a byte piece spelled <0xNN>", quoted(piece[PIECE]))
    v.add(i, text, type_)
    v.scores[i] = score
    if type_ in (vocab.NORMAL, vocab.USER_DEFINED, vocab.UNUSED):
        v.indexed.append(i)


def byte_of(piece):
    """b'<0x0A>' -> b'\\n'; None for another text."""
    match = re.fullmatch(rb"<0x([0-9A-Fa-f]{2})>", piece)
    return bytes.fromhex(match.group(1).decode()) if match else None


def _ids(v, trainer):
    """The library finds bos and eos by their piece, and takes them only if they are control pieces."""
    control = {p: i for i, p in enumerate(v.pieces) if v.types[i] == vocab.CONTROL}
    v.bos = control.get(trainer.get(BOS_PIECE, b"<s>"), -1)
    v.eos = control.get(trainer.get(EOS_PIECE, b"</s>"), -1)
    unknown = [i for i, t in enumerate(v.types) if t == vocab.UNKNOWN]
    if len(unknown) != 1:
        raise bad(v.file, "pieces", "one of type unknown", len(unknown))
    v.unk = unknown[0]
    v.prefix = [v.bos] if v.bos >= 0 else []
    for i in control.values():
        v.add_special(i)
