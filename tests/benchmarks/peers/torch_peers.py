"""Stacks of recurrent layers in PyTorch: torch_peers.py SUBJECT, see worker.py.

Rows are [T, B, H]. Inference is in inference_mode, training with the fused Adam: the fastest that
PyTorch has of each. Where the package offers more than one way, all are tried for each case.
"""

import argparse
import os
import sys

# A CUDA compiler without a GPU makes `sru` try kernels that it cannot have.
os.environ.pop("CUDA_HOME", None)
# `sru` compiles its CPU recurrence at its first import, with the ninja of this environment.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ.setdefault("TORCH_EXTENSIONS_DIR", os.path.join(sys.prefix, "torch_extensions"))

# pylint: disable=wrong-import-position
import torch

from tests.benchmarks.peers import worker
from tests.integration import safetensors

LEARNING_RATE = 1e-4
CHECKED_BATCH = 3  # tests/integration/export_tool.cc


class TorchPeer:
    """Modules that take (rows, state or None) and return (rows, state)."""

    scriptable = False

    def __init__(self):
        self.version = "torch %s" % torch.__version__

    def module(self, hidden, layers):
        raise NotImplementedError

    def variants(self, case):
        torch.manual_seed(1)
        module = self.module(case.hidden, case.layers)
        x = torch.randn(case.length, case.batch, case.hidden)
        if case.kind == "training":
            return {"eager": training_turn(module.train(), x)}
        modules = {"eager": module.eval()}
        if self.scriptable:
            modules["scripted"] = torch.jit.freeze(torch.jit.script(module))
        turn = step_turn if case.kind == "step" else inference_turn
        return {name: turn(module, x) for name, module in modules.items()}

    def difference(self, folder, hidden, layers):
        """The largest one to the output that we have of the same weights and input."""
        tensors = {key[len("rnn."):]: values for key, values in
                   safetensors.read(os.path.join(folder, "model.safetensors")).items()}
        run = safetensors.read(os.path.join(folder, "run.safetensors"))
        module = self.module(hidden, layers).eval()
        module.load_state_dict({key: torch.tensor(tensors[key]).reshape(value.shape)
                                for key, value in module.state_dict().items()})
        with torch.inference_mode():
            output, _ = module(torch.tensor(run["input"]).reshape(-1, CHECKED_BATCH, hidden))
        return (output.flatten() - torch.tensor(run["output"])).abs().max().item()


def inference_turn(module, x):
    def turn():
        with torch.inference_mode():
            module(x)
    return turn


def step_turn(module, x):
    state = None

    def turn():
        nonlocal state
        with torch.inference_mode():
            _, state = module(x, state)
    return turn


def training_turn(module, x):
    optimizer = torch.optim.Adam(module.parameters(), lr=LEARNING_RATE, fused=True)
    target = torch.randn_like(x)

    def turn():
        output, _ = module(x)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(output, target).backward()
        optimizer.step()
    return turn


class Lstm(TorchPeer):

    def module(self, hidden, layers):
        return torch.nn.LSTM(hidden, hidden, layers)


class Gru(TorchPeer):

    def module(self, hidden, layers):
        return torch.nn.GRU(hidden, hidden, layers)


class Sru(TorchPeer):

    scriptable = True

    def __init__(self):
        super().__init__()
        import sru  # pylint: disable=import-outside-toplevel
        self.library = sru
        # Its kernel is for inference alone; with gradients it is a loop in Python.
        self.version += ", sru %s with its compiled CPU kernel (%s)" % (
            sru.__version__, torch.ops.sru_cpu.cpu_forward)

    def module(self, hidden, layers):
        return self.library.SRU(hidden, hidden, num_layers=layers)


class FastaiQrnn(TorchPeer):

    def __init__(self):
        super().__init__()
        from tests.benchmarks.peers import fastai_qrnn  # pylint: disable=import-outside-toplevel
        self.qrnn = fastai_qrnn.load(os.environ["FASTAI_FOLDER"])
        self.version += ", text/models/qrnn.py of %s" % os.environ["FASTAI_VERSION"]

    def module(self, hidden, layers):
        return self.qrnn(hidden, hidden, layers, batch_first=False, window=1)


class HasteLstm(TorchPeer):

    def __init__(self):
        super().__init__()
        import haste_pytorch  # pylint: disable=import-outside-toplevel
        self.library = haste_pytorch
        self.version += ", haste-pytorch-cpu %s" % haste_pytorch.__version__

    def module(self, hidden, layers):
        return Stack(self.library.LSTM(hidden, hidden) for _ in range(layers))


class Stack(torch.nn.Module):

    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x, states=None):
        after = []
        for i, layer in enumerate(self.layers):
            x, state = layer(x, states and states[i])
            after.append(state)
        return x, after


SUBJECTS = {
    "sru": Sru,
    "fastai_qrnn": FastaiQrnn,
    "torch_lstm": Lstm,
    "torch_gru": Gru,
    "haste_lstm": HasteLstm,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--threads", type=int, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.set_num_interop_threads(1)
    worker.answer_lines(SUBJECTS[arguments.subject])


if __name__ == "__main__":
    main()
