"""torchqrnn's QRNN, which PyPI does not have, after its formulas: the same
parameter names, so that a checkpoint for the one loads into the other. Layers
may also be bidirectional, which torchqrnn's cannot: the second direction's
parameters end in `_reverse`, and its previous row is the one that follows.

Inference from zero states."""

import torch
from torch import nn


class QRNNLayer(nn.Module):

    def __init__(self, input_size, hidden_size, window=1, output_gate=True,
                 zoneout=0, bidirectional=False):
        super().__init__()
        self.window, self.output_gate, self.zoneout = window, output_gate, zoneout
        rows = (3 if output_gate else 2) * hidden_size
        self.linear = nn.Linear(window * input_size, rows)
        if bidirectional:
            self.linear.weight_reverse = nn.Parameter(
                torch.empty(rows, window * input_size))
            self.linear.bias_reverse = nn.Parameter(torch.empty(rows))
        self.directions = ["", "_reverse"] if bidirectional else [""]

    def forward(self, x):
        outputs = []
        for suffix in self.directions:
            ordered = x.flip(0) if suffix else x
            h = self.one_direction(ordered, getattr(self.linear, "weight" + suffix),
                                   getattr(self.linear, "bias" + suffix))
            outputs.append(h.flip(0) if suffix else h)
        return torch.cat(outputs, dim=2)

    def one_direction(self, x, weight, bias):
        if self.window == 2:
            previous = torch.cat([torch.zeros_like(x[:1]), x[:-1]])
            x = torch.cat([x, previous], dim=2)
        gates = (x @ weight.T + bias).chunk(3 if self.output_gate else 2, dim=2)
        z = torch.tanh(gates[0])
        f = torch.sigmoid(gates[1]) * (1 - self.zoneout)
        c = torch.zeros_like(z[0])
        states = []
        for t in range(len(x)):
            c = f[t] * z[t] + (1 - f[t]) * c
            states.append(c)
        states = torch.stack(states)
        return torch.sigmoid(gates[2]) * states if self.output_gate else states


class QRNN(nn.Module):

    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
