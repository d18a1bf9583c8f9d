"""What no implementation of a case can do without.

Floor: the longer of the time of the layers' matrix products and the time of a copy of what must be
read or written; a perfect program would do both at once and all else for nothing.
"""

from tests.benchmarks.peers import cases

FLOAT_BYTES = 4
GATES = 3  # columns of a layer's projection over its hidden size, SRU's and QRNN's


def weight_bytes(case):
    """Of all layers' projections."""
    return FLOAT_BYTES * case.layers * GATES * case.hidden ** 2


def row_bytes(case):
    """Of the rows between two layers."""
    return FLOAT_BYTES * cases.rows(case) * case.hidden


def product_flops(case):
    """In training each layer has three products, the first, whose input nobody wants the gradient
    of, two."""
    one = 2 * cases.rows(case) * GATES * case.hidden ** 2
    return one * (3 * case.layers - 1 if case.kind == "training" else case.layers)


def moved_bytes(case):
    """Read or written. Forward: all weights, each layer's rows in and out. Training besides:
    backward reads the weights, each layer's input rows and the gradients of its output's, and
    writes gradients of weights and input rows; Adam reads gradients, and reads and writes weights
    and two moments. What forward keeps for backward could be computed again, and is not counted."""
    weights, between = weight_bytes(case), row_bytes(case)
    forward = weights + 2 * case.layers * between
    if case.kind != "training":
        return forward
    backward = 2 * weights + 3 * case.layers * between
    update = 7 * weights
    return forward + backward + update


def seconds(products, copy):
    return max(products, copy)
