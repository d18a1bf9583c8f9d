"""The model of a safetensors file under TorchScript, served by Triton.

    peer.py --weights model.safetensors --port PORT --expected prediction.json

`sru` under TorchScript with the weights that a Recurve server exported, behind
nvidia-pytriton with its dynamic batcher. Before it serves it checks that it
computes what that server predicted. Prints `listening on HOST:PORT`. Wants
Debian's own Python: Triton's Python backend brings an interpreter that goes with
the standard library of 3.11.2, not with that of 3.11.7.
"""

import argparse
import json
import os
import signal
import sys

# A CUDA compiler without a GPU makes `sru` try kernels that it cannot have.
os.environ.pop("CUDA_HOME", None)
# `sru` compiles its CPU recurrence at import, with the ninja of this environment.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ.setdefault("TORCH_EXTENSIONS_DIR", os.path.join(sys.prefix, "torch_extensions"))

# pylint: disable=wrong-import-position
import numpy
import sru
import torch
from pytriton import decorators
from pytriton import model_config
from pytriton import triton

TOLERANCE = 1e-4


class Tagger(torch.nn.Module):
    """Embedding, SRU, linear output; tokens are [B, T]."""

    def __init__(self, tensors):
        super().__init__()
        vocabulary, embedding = tensors["embedding.weight"].shape
        outputs, hidden = tensors["output.weight"].shape
        layers = len([name for name in tensors if name.endswith("weight_c")])
        self.embedding = torch.nn.Embedding(vocabulary, embedding)
        self.rnn = sru.SRU(embedding, hidden, num_layers=layers)
        self.output = torch.nn.Linear(hidden, outputs)
        self.load_state_dict(tensors)

    def forward(self, tokens):
        rows, _ = self.rnn(self.embedding(tokens.t()))
        return self.output(rows).transpose(0, 1)


def read_tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    return tensors


def check(model, path):
    """`path` has {"tokens": [T], "logits": [T][O]} as another server has it."""
    with open(path, encoding="utf-8") as file:
        expected = json.load(file)
    with torch.inference_mode():
        logits = model(torch.tensor([expected["tokens"]], dtype=torch.int32))[0].numpy()
    worst = numpy.abs(logits - numpy.array(expected["logits"])).max()
    if not worst <= TOLERANCE:
        sys.exit("the peer's logits differ by %g" % worst)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", required=True)
    parser.add_argument("--expected", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max_batch_size", type=int, default=64)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    model = torch.jit.freeze(torch.jit.script(Tagger(read_tensors(arguments.weights)).eval()))
    check(model, arguments.expected)

    @decorators.batch
    def infer(tokens):
        with torch.inference_mode():
            return [model(torch.from_numpy(tokens)).numpy()]

    config = triton.TritonConfig(
        http_port=arguments.port + 1, grpc_port=arguments.port, metrics_port=arguments.port + 2,
        http_address="127.0.0.1", grpc_address="127.0.0.1", metrics_address="127.0.0.1")
    with triton.Triton(config=config) as server:
        server.bind(
            model_name="benchmark",
            infer_func=infer,
            inputs=[model_config.Tensor(name="tokens", dtype=numpy.int32, shape=(-1,))],
            outputs=[model_config.Tensor(name="logits", dtype=numpy.float32, shape=(-1, -1))],
            config=model_config.ModelConfig(
                max_batch_size=arguments.max_batch_size,
                batcher=model_config.DynamicBatcher(max_queue_delay_microseconds=1000)))
        server.run()
        print("listening on 127.0.0.1:%d" % arguments.port, flush=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        while True:
            signal.pause()


if __name__ == "__main__":
    main()
