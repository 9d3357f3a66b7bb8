"""Vectors of texts as docs/numerics.md defines them, from hidden states."""
import math

import numpy as np


def pooled(x, pooling, normalize):
    """x [n, d_model] float32. In Python, whose floats are doubles and whose order is as written."""
    x = {"mean": x, "last": x[-1:], "cls": x[:1]}[pooling]
    m = []
    for column in x.T.astype(np.float64).tolist():
        s = 0.0
        for value in column:
            s += value
        m.append(s / len(x))
    t = 0.0
    for value in m:
        t += value * value
    length = math.sqrt(t) if normalize and t > 0 else 1.0
    return np.array([value / length for value in m]).astype(np.float32)
