"""F32, F16 and BF16 as arrays of unsigned integers: conversion (nearest even) and the count of values that are not finite.

Weights stay bits (uint32 or uint16) until a conversion is asked for, so `keep` cannot change one, not even a NaN; only bf16
magnitudes under 2^-50 become 0 in every file (docs/numerics.md, "--math bf16")."""
import numpy as np

BITS = {"F32": np.dtype("<u4"), "F16": np.dtype("<u2"), "BF16": np.dtype("<u2")}
INFINITY = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}
MAGNITUDE = {"F32": 0x7FFFFFFF, "F16": 0x7FFF, "BF16": 0x7FFF}


def count_not_finite(bits, dtype):
    """How many elements are NaN or infinite. Two maxima decide for the usual case, none at all."""
    signed = bits.view("<i%d" % bits.itemsize)
    infinity, sign = INFINITY[dtype], MAGNITUDE[dtype] + 1
    if bits.size == 0 or (int(signed.max()) < infinity and int(bits.max()) < infinity + sign):
        return 0
    return int(np.count_nonzero((bits & BITS[dtype].type(MAGNITUDE[dtype])) >= infinity))


def to_f32(bits, dtype):
    """Bits of any of the three types to f32 bits: exact."""
    if dtype == "F32":
        return bits
    if dtype == "BF16":
        return bits.astype("<u4") << np.uint32(16)
    return bits.view("<f2").astype("<f4").view("<u4")


def f32_to_bf16(bits):
    """Nearest even; overflow gives infinity; a NaN stays one (its top bits, made quiet)."""
    rounded = ((bits + (((bits >> np.uint32(16)) & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)).astype("<u2")
    nan = (bits & np.uint32(0x7FFFFFFF)) > 0x7F800000
    if nan.any():
        rounded[nan] = (bits[nan] >> np.uint32(16)).astype("<u2") | np.uint16(0x40)
    return rounded


def f32_to_f16(bits):
    """Nearest even, subnormals kept; overflow gives infinity."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bits.view("<f4").astype("<f2").view("<u2")


BF16_MIN = (127 - 50) << 7   # the bits of 2^-50


def flush_bf16(bits):
    """bf16 bits with magnitudes under 2^-50 as 0, and how many there were."""
    magnitude = bits & np.uint16(0x7FFF)
    small = (magnitude < BF16_MIN) & (magnitude > 0)
    n = int(np.count_nonzero(small))
    return (np.where(small, np.uint16(0), bits).astype("<u2") if n else bits), n


def convert(bits, source, target):
    """Bits of type source to bits of type target. Also returns how many finite values became infinite."""
    if source == target:
        return bits, 0
    wide = to_f32(bits, source)
    if target == "F32":
        return wide, 0
    narrow = f32_to_bf16(wide) if target == "BF16" else f32_to_f16(wide)
    narrow[(narrow == MAGNITUDE[target] + 1) & (wide << np.uint32(1) != 0)] = 0   # what becomes 0 is +0, as in the program
    overflows = count_not_finite(narrow, target)
    return narrow, overflows - count_not_finite(wide, "F32") if overflows else 0
