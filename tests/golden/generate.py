#!/usr/bin/env python3
"""Writes golden cases with random sizes and mixes of options.

    generate.py --library {sru,qrnn} --count N --seed S --out DIR

Outputs, states and gradients come from PyTorch's autograd: for SRU from the real
library (PyPI's `sru`, 2.6.0 or 3.0.0.dev6, whichever the interpreter imports),
for QRNN, which is not on PyPI, from the few lines of QrnnLayer below. The files
have the format of testdata/golden. Set-up, on Debian with python3-torch:

    /usr/bin/python3 -m venv --system-site-packages V
    V/bin/pip install --no-deps sru==2.6.0
    V/bin/python tests/golden/generate.py --library sru --count 200 --out /tmp/cases
    bazel run -c opt //tests/golden -- --dir=/tmp/cases
"""

import argparse
import json
import pathlib
import random
import struct

import torch
import torch.utils.cpp_extension


def write_safetensors(path, tensors, metadata):
    dtypes = {torch.float32: "F32", torch.float64: "F64", torch.uint8: "U8"}
    header, data = {"__metadata__": metadata}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": dtypes[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def add_gradients(case, module, inputs):
    for name, parameter in module.named_parameters():
        if parameter.grad is not None:
            case["grad." + name] = parameter.grad
    for name, tensor in inputs.items():
        case["grad." + name] = tensor.grad


def perturb(module, generator):
    """Biases and norms away from their initial 0 and 1."""
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dim() == 1:
            parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)


# --- SRU ---


def import_sru():
    # The library compiles CUDA and C++ kernels when imported; its Python path,
    # taken on the CPU wherever gradients are wanted, needs none of them.
    torch.utils.cpp_extension.load = lambda *args, **kwargs: None
    torch.jit.script = lambda function: function
    import sru
    return sru


class UvTransform(torch.nn.Module):
    def __init__(self, inputs, u_outputs, v_outputs):
        super().__init__()
        self.u = torch.nn.Linear(inputs, u_outputs)
        self.v = torch.nn.Linear(inputs, v_outputs, bias=False)

    def reset_parameters(self):
        self.u.reset_parameters()
        self.v.reset_parameters()

    def forward(self, x):
        return self.u(x), self.v(x)


def custom_transforms(kind, kwargs):
    directions = 2 if kwargs["bidirectional"] else 1
    out = kwargs["hidden_size"] * directions
    n = kwargs["input_size"]
    if kwargs["proj_input_to_hidden_first"]:
        n = out
    modules = []
    for _ in range(kwargs["num_layers"]):
        k = 3 if n == out or not kwargs["has_skip_term"] else 4
        modules.append(torch.nn.Linear(n, out * k) if kind == "linear"
                       else UvTransform(n, out * k, out * 2))
        n = out
    return modules


def random_sru_options(rng, third):
    kwargs = dict(
        input_size=rng.choice([1, 2, 3, 7, 16, 24, 33, 48, 65]),
        hidden_size=rng.choice([1, 2, 5, 8, 16, 17, 24, 33, 70]),
        num_layers=rng.choice([1, 2, 2, 3, 4]),
        bidirectional=rng.random() < 0.4,
        use_tanh=rng.random() < 0.4,
        highway_bias=round(rng.uniform(-3, 1), 2),
        layer_norm=rng.random() < 0.4,
        normalize_after=rng.random() < 0.5,
        rescale=rng.random() < 0.4,
        has_skip_term=rng.random() < 0.8,
        v1=rng.random() < 0.2,
        nn_rnn_compatible_return=rng.random() < 0.3,
        proj_input_to_hidden_first=rng.random() < 0.3,
    )
    if rng.random() < 0.3:
        kwargs["input_size"] = kwargs["hidden_size"] * (2 if kwargs["bidirectional"] else 1)
    # The norm of one or two features is ill-conditioned: there the library's own
    # float32 gradients differ from its float64 ones by more than the tolerance.
    out = kwargs["hidden_size"] * (2 if kwargs["bidirectional"] else 1)
    if min(kwargs["input_size"], out) < 5:
        kwargs["layer_norm"] = False
    if third:
        kwargs["projection_size"] = rng.choice(
            [0, 0, 5, [rng.randint(1, 40) for _ in range(kwargs["num_layers"])]])
    else:
        kwargs["projection_size"] = rng.choice([0, 0, 0, 1, 5, 12, 40])
    train = rng.random() < 0.4
    if train:
        kwargs["dropout"] = rng.choice([0, 0.2, 0.5])
        kwargs["rnn_dropout"] = rng.choice([0, 0.25])
    custom = None if third else rng.choice([None] * 6 + ["linear", "uv"])
    if custom:
        kwargs["projection_size"] = 0
    return kwargs, train, custom


def pad_mask(kind, length, batch, generator):
    lengths = torch.randint(0 if kind == "onefull" else 1, length + 1, (batch,),
                            generator=generator)
    steps = torch.arange(length).unsqueeze(1)
    if kind == "left":
        return steps < length - lengths
    if kind == "rand":
        return torch.rand((length, batch), generator=generator) < 0.4
    mask = steps >= lengths
    if kind == "onefull":
        mask[:, 0] = True
    return mask


def record_masks(module, case):
    """Makes the cells keep the dropout masks they draw."""
    for i, cell in enumerate(module.rnn_lst):
        draw = cell.get_dropout_mask_

        def recording(size, p, i=i, draw=draw, cell=cell):
            mask = draw(size, p)
            # m_in is drawn first, and only if rnn_dropout is on.
            wants_input = cell.rnn_dropout > 0 and f"mask_in.{i}" not in case
            case[f"mask_in.{i}" if wants_input else f"mask_c.{i}"] = mask
            return mask

        cell.get_dropout_mask_ = recording


def sru_case(sru, rng, seed):
    third = sru.__version__.startswith("3")
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    kwargs, train, custom = random_sru_options(rng, third)
    extra = {"custom_m": custom_transforms(custom, kwargs)} if custom else {}
    module = sru.SRU(**kwargs, **extra)
    module.train(train)
    perturb(module, generator)
    length, batch = rng.choice([1, 2, 9, 23, 40]), rng.choice([1, 2, 3, 6])
    mask_kind = rng.choice([None, None, "len", "left", "rand", "onefull"])
    has_c0 = rng.random() < 0.5
    out = kwargs["hidden_size"] * (2 if kwargs["bidirectional"] else 1)

    case = {"param." + k: v.clone() for k, v in module.state_dict().items()}
    inputs = {"input": torch.randn(length, batch, kwargs["input_size"], generator=generator)}
    if has_c0:
        inputs["state_in.c0"] = torch.randn(kwargs["num_layers"], batch, out,
                                            generator=generator)
    for tensor in inputs.values():
        tensor.requires_grad_()
    mask = None
    if mask_kind:
        mask = pad_mask(mask_kind, length, batch, generator)
        case["mask_pad"] = mask.to(torch.uint8)
    record_masks(module, case)
    output, state = module(inputs["input"], inputs.get("state_in.c0"), mask)
    loss_weight = torch.randn(output.shape, generator=generator)
    loss_weight_state = torch.randn(state.shape, generator=generator)
    loss = (output * loss_weight).sum() + (state * loss_weight_state).sum()
    loss.backward()
    case.update(inputs)
    case.update({"output": output, "state_out.c": state, "loss_weight": loss_weight,
                 "loss_weight_state": loss_weight_state, "loss": loss.reshape(1)})
    add_gradients(case, module, inputs)
    config = dict(module="SRU", kwargs=kwargs, train_mode=train, L=length, B=batch,
                  mask=mask_kind, has_c0=has_c0, init="perturbed", seed=seed)
    if custom:
        config["custom_m"] = custom
    return case, config, "sru " + sru.__version__


# --- QRNN ---


class QrnnLayer(torch.nn.Module):
    def __init__(self, input_size, hidden_size, window, output_gate, zoneout, save_prev_x):
        super().__init__()
        self.hidden_size, self.window, self.zoneout = hidden_size, window, zoneout
        self.output_gate, self.save_prev_x = output_gate, save_prev_x
        self.linear = torch.nn.Linear(window * input_size,
                                      (3 if output_gate else 2) * hidden_size)
        self.prev_x = None

    def forward(self, x, c, mask):
        source = x
        if self.window == 2:
            first = self.prev_x if self.prev_x is not None else torch.zeros_like(x[:1])
            source = torch.cat([x, torch.cat([first, x[:-1]])], dim=2)
            if self.save_prev_x:
                self.prev_x = x[-1:].detach()
        gates = self.linear(source).split(self.hidden_size, dim=2)
        z, i = torch.tanh(gates[0]), torch.sigmoid(gates[1])
        if self.zoneout > 0:
            i = i * (mask if mask is not None else 1 - self.zoneout)
        states = []
        for t in range(x.shape[0]):
            c = i[t] * z[t] + ((1 - i[t]) * c if c is not None else 0)
            states.append(c)
        states = torch.stack(states)
        return torch.sigmoid(gates[2]) * states if self.output_gate else states, c


def random_qrnn_options(rng):
    hidden = rng.choice([1, 3, 8, 16, 17, 33, 70])
    kwargs = dict(input_size=rng.choice([1, 2, 7, 16, 24, 33]), hidden_size=hidden,
                  num_layers=rng.choice([1, 2, 3]))
    def layer_options():
        return dict(window=rng.choice([1, 2]), output_gate=rng.random() < 0.7,
                    zoneout=rng.choice([0, 0, 0.1, 0.4]), save_prev_x=rng.random() < 0.5)
    if rng.random() < 0.5:
        kwargs.update(layer_options())
    else:
        kwargs["layers"] = [
            dict(input_size=kwargs["input_size"] if i == 0 else hidden,
                 hidden_size=hidden, **layer_options())
            for i in range(kwargs["num_layers"])]
    train = rng.random() < 0.4
    if train:
        kwargs["dropout"] = rng.choice([0, 0.3])
    return kwargs, train


class Qrnn(torch.nn.Module):
    def __init__(self, kwargs):
        super().__init__()
        names = ("window", "output_gate", "zoneout", "save_prev_x")
        options = kwargs.get("layers") or [kwargs] * kwargs["num_layers"]
        self.layers = torch.nn.ModuleList(
            QrnnLayer(kwargs["input_size"] if i == 0 else kwargs["hidden_size"],
                      kwargs["hidden_size"], *(o[n] for n in names))
            for i, o in enumerate(options))
        self.dropout = kwargs.get("dropout", 0)

    def forward(self, x, hidden, case, suffix, generator):
        states = []
        for i, layer in enumerate(self.layers):
            shape = (*x.shape[:2], layer.hidden_size)
            mask = None
            if self.training and layer.zoneout > 0:
                mask = (torch.rand(shape, generator=generator) >= layer.zoneout).float()
                case[f"zoneout_mask{suffix}.{i}"] = mask
            x, c = layer(x, None if hidden is None else hidden[i], mask)
            states.append(c)
            if self.training and self.dropout > 0 and i + 1 < len(self.layers):
                mask = (torch.rand(shape, generator=generator) >= self.dropout).float()
                case[f"dropout_mask{suffix}.{i}"] = mask = mask / (1 - self.dropout)
                x = x * mask
        return x, torch.stack(states)


def qrnn_case(rng, seed):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    kwargs, train = random_qrnn_options(rng)
    module = Qrnn(kwargs)
    module.train(train)
    perturb(module, generator)
    calls = 1 if train else rng.choice([1, 2])
    lengths = [rng.choice([1, 2, 9, 23, 40]) for _ in range(calls)]
    batch = rng.choice([1, 2, 5])
    carry, reset = rng.random() < 0.7, rng.random() < 0.3
    has_hidden = rng.random() < 0.5
    case = {"param." + k: v.clone() for k, v in module.state_dict().items()}
    inputs, loss, hidden = {}, 0, None
    if has_hidden:
        hidden = torch.randn(kwargs["num_layers"], batch, kwargs["hidden_size"],
                             generator=generator).requires_grad_()
        inputs["state_in.hidden"] = hidden
    for call, length in enumerate(lengths):
        suffix = "_2" if call else ""
        if call and reset:
            for layer in module.layers:
                layer.prev_x = None
        x = torch.randn(length, batch, kwargs["input_size"], generator=generator)
        inputs["input" + suffix] = x.requires_grad_()
        output, state = module(x, hidden, case, suffix, generator)
        weights = {"loss_weight": torch.randn(output.shape, generator=generator),
                   "loss_weight_state": torch.randn(state.shape, generator=generator)}
        loss = loss + (output * weights["loss_weight"]).sum()
        loss = loss + (state * weights["loss_weight_state"]).sum()
        case.update({k + suffix: v for k, v in weights.items()})
        case["output" + suffix] = output
        case[f"state_out{suffix}.hidden"] = state
        for i, layer in enumerate(module.layers):
            if layer.prev_x is not None:
                case[f"state_out{suffix}.prev_x.{i}"] = layer.prev_x
        hidden = state.detach() if carry else None
    loss.backward()
    case.update(inputs)
    case["loss"] = loss.reshape(1)
    add_gradients(case, module, inputs)
    config = dict(kwargs=kwargs, train_mode=train, module="QRNN", L=lengths, B=batch,
                  has_hidden=has_hidden, carry_hidden=carry, reset_between=reset, seed=seed)
    return case, config, "pytorch-qrnn, rewritten in tests/golden/generate.py"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=["sru", "qrnn"], required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    sru = import_sru() if arguments.library == "sru" else None
    folder = arguments.out / arguments.library
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        rng = random.Random(seed)
        case, config, library = sru_case(sru, rng, seed) if sru else qrnn_case(rng, seed)
        name = f"random{seed:05d}"
        metadata = {"case": name, "library": library, "torch": torch.__version__,
                    "config": json.dumps(config)}
        write_safetensors(folder / (name + ".safetensors"), case, metadata)


if __name__ == "__main__":
    main()
