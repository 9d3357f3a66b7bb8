"""The tries of a model file (docs/format.md, section Tries)."""
import numpy as np


def build(items):
    """(nodes [n, 3] u32, labels [n] u8) of {bytes: value}. Breadth first, so that children lie together and behind."""
    root = ({}, 0)
    for key, value in items.items():
        children, node = root[0], None
        for byte in key:
            node = children.get(byte)
            if node is None:
                node = children[byte] = [{}, 0]
            children = node[0]
        if node is not None:
            node[1] = value + 1
    nodes, labels, queue = [], [0], [root]
    for children, value in queue:   # grows while it is read
        nodes.append((len(queue) if children else 0, len(children), value))
        for byte in sorted(children):
            labels.append(byte)
            queue.append(children[byte])
    return np.array(nodes, "<u4").reshape(-1, 3), np.array(labels, np.uint8)
