"""A matrix as panels of 16 rows (docs/format.md, section Panels), and back. Elements are bits (floats.py)."""
import numpy as np

ROWS = 16


def stored_shape(dtype, rows, k, items=1):
    """Of a stack each matrix has panels of its own."""
    panels = items * -(-rows // ROWS)
    return [panels, -(-k // 2), ROWS, 2] if dtype == "BF16" else [panels, k, ROWS]


def pack(bits, dtype):
    """Row-major [rows, k] to panels of stored_shape; rows past the last and the half of an odd pair are 0."""
    rows, k = bits.shape
    pair = 2 if dtype == "BF16" else 1
    panels, columns = -(-rows // ROWS), -(-k // pair)
    if rows % ROWS or k % pair:
        padded = np.zeros((panels * ROWS, columns * pair), bits.dtype)
        padded[:rows, :k] = bits
        bits = padded
    if pair == 2:   # a pair of halves moves as one 32-bit element
        bits = np.ascontiguousarray(bits).view("<u4")
    packed = np.ascontiguousarray(bits.reshape(panels, ROWS, columns).transpose(0, 2, 1))
    return packed.view("<u2").reshape(panels, columns, ROWS, 2) if pair == 2 else packed


def unpack(packed, dtype, rows, k):
    """The reverse of pack."""
    if dtype == "BF16":
        wide = np.ascontiguousarray(packed).view("<u4")[..., 0].transpose(0, 2, 1)
        return np.ascontiguousarray(wide).view("<u2").reshape(-1, packed.shape[1] * 2)[:rows, :k]
    return packed.transpose(0, 2, 1).reshape(-1, packed.shape[1])[:rows, :k]
