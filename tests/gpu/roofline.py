#!/usr/bin/python3
"""The least time that a layer can take: bytes and operations of each kernel.

A pass cannot be faster than its bytes at the memory's bandwidth, nor than its
matrix products at the rate of the units that do them. Both are counted here
from the shapes alone: each operand read once, each result written once, nothing
kept in a cache from one kernel to the next. `roofline.py` prints the tables of
docs/cuda.md; tests/gpu/run divides what it measured by the same numbers.

Letters as in kernels/tensor.h: N rows, I input size, C = D*H channels, G gate
groups (columns of the projection are G*C).
"""
import dataclasses

# Vendors' data sheets: bytes/s, and operations/s of dense products in float32
# on the ordinary units, in tf32 and in bf16.
@dataclasses.dataclass(frozen=True)
class Chip:
    name: str
    bandwidth: float
    fp32: float
    tf32: float
    bf16: float


CHIPS = [
    Chip("H200", 4.8e12, 67e12, 494e12, 989e12),
    Chip("H100", 3.35e12, 67e12, 494e12, 989e12),
    Chip("RTX 4090", 1.008e12, 82.6e12, 82.6e12, 165e12),
]


@dataclasses.dataclass(frozen=True)
class Layer:
    """One layer of either cell. `groups` counts the columns of the projection
    in units of C: SRU 3 or, with a transformed skip, 4; QRNN 3 (fo-pooling)."""
    cell: str
    input_size: int
    hidden_size: int
    directions: int = 1
    window: int = 1  # QRNN: rows that the product sees

    @property
    def channels(self):
        return self.directions * self.hidden_size

    @property
    def groups(self):
        if self.cell == "qrnn":
            return 3
        return 3 if self.input_size == self.channels else 4

    @property
    def columns(self):
        return self.groups * self.channels

    @property
    def skips_input(self):
        return self.cell == "sru" and self.groups == 3

    @property
    def inner(self):  # rows of the weight
        return self.window * self.input_size

    @property
    def weights(self):
        return self.inner * self.columns


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one kernel over N rows: elements moved in the storage type, elements
    moved in float32 whatever the storage, and operations of products."""
    stored: float = 0
    floats: float = 0
    flops: float = 0

    def __add__(self, other):
        return Cost(self.stored + other.stored, self.floats + other.floats,
                    self.flops + other.flops)

    def bytes(self, storage=4):
        return self.stored * storage + self.floats * 4

    def seconds(self, chip_bandwidth, chip_flops, storage=4):
        return max(self.bytes(storage) / chip_bandwidth,
                   self.flops / chip_flops)


def recurrence_forward(layer, rows, training):
    """Reads u and the skip term, writes y and, for the backward pass, c."""
    c = layer.channels
    stored = layer.columns + c + (c if layer.skips_input else 0)
    return Cost(rows * stored, rows * c if training else 0)


def recurrence_backward(layer, rows):
    """Reads u, dy, the skip term and c, writes du and the skip's gradient."""
    c = layer.channels
    stored = 2 * layer.columns + c + (2 * c if layer.skips_input else 0)
    return Cost(rows * stored, rows * c)


def product(rows, inner, cols, accumulate=False):
    moved = rows * inner + inner * cols + rows * cols * (2 if accumulate else 1)
    return Cost(moved, 0, 2 * rows * inner * cols)


def window_rows(layer, rows):
    if layer.window == 1:
        return Cost()
    return Cost(rows * layer.directions * 3 * layer.input_size)


def forward(layer, rows, training=False):
    """Kernels of a layer's forward pass, by name."""
    kernels = {}
    if layer.window == 2:
        kernels["window"] = window_rows(layer, rows)
    kernels["projection"] = product(rows, layer.inner, layer.columns)
    kernels["recurrence"] = recurrence_forward(layer, rows, training)
    return kernels


def backward(layer, rows):
    """Kernels of a layer's backward pass, input gradient included."""
    kernels = {
        "recurrence": recurrence_backward(layer, rows),
        # The weights' gradient is float32 whatever the storage.
        "weight gradient": Cost(rows * (layer.inner + layer.columns),
                                layer.weights,
                                2 * rows * layer.inner * layer.columns),
        "input gradient": product(rows, layer.columns, layer.inner,
                                  accumulate=layer.skips_input),
    }
    if layer.window == 2:
        kernels["window"] = window_rows(layer, rows)
    return kernels


def total(kernels):
    return sum(kernels.values(), Cost())


def floor_seconds(kernels, bandwidth, flops, storage=4):
    """Kernels follow one another: the sum of each one's own floor."""
    return sum(k.seconds(bandwidth, flops, storage) for k in kernels.values())


def recurrence_table():
    lines = [
        "| cell | pass | float32, bytes a row | bf16, bytes a row |",
        "| --- | --- | --- | --- |",
    ]
    for name, layer in [("SRU, I = C", Layer("sru", 1, 1)),
                        ("SRU, I != C", Layer("sru", 2, 1)),
                        ("QRNN, fo-pooling", Layer("qrnn", 1, 1))]:
        for what, cost in [
                ("forward, inference", recurrence_forward(layer, 1, False)),
                ("forward, training", recurrence_forward(layer, 1, True)),
                ("backward", recurrence_backward(layer, 1))]:
            lines.append(f"| {name} | {what} | {cost.bytes(4):.0f} C "
                         f"| {cost.bytes(2):.0f} C |")
    return lines


SHAPES = [  # cell, H, B, T
    ("sru", 512, 32, 128), ("sru", 1024, 32, 128), ("sru", 2048, 32, 128),
    ("qrnn", 320, 8, 512), ("qrnn", 320, 256, 512),
    ("qrnn", 512, 32, 128), ("qrnn", 1024, 32, 128), ("qrnn", 2048, 32, 128),
]


def floors_table(chip):
    rate = {"fp32": (chip.fp32, 4), "tf32": (chip.tf32, 4),
            "bf16": (chip.bf16, 2)}
    lines = [
        f"| {chip.name} | " + " | ".join(
            f"{name} forward | {name} step" for name in rate) + " |",
        "| --- " * (1 + 2 * len(rate)) + "|",
    ]
    for cell, hidden, batch, length in SHAPES:
        layer, rows = Layer(cell, hidden, hidden), batch * length
        cells = []
        for flops, storage in rate.values():
            one_way = forward(layer, rows)
            both = list(forward(layer, rows, True).items()) + [
                ("d " + name, cost) for name, cost in backward(layer, rows).items()]
            cells += [floor_seconds(one_way, chip.bandwidth, flops, storage),
                      floor_seconds(dict(both), chip.bandwidth, flops, storage)]
        lines.append(f"| {cell.upper()} H {hidden}, B {batch}, T {length} | " +
                     " | ".join(f"{1e6 * s:.1f}" for s in cells) + " |")
    return lines


def main():
    print("\n".join(recurrence_table()))
    for chip in CHIPS:
        print()
        print("\n".join(floors_table(chip)))


if __name__ == "__main__":
    main()
