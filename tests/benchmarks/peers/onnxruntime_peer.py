"""A stack of ONNX LSTM nodes in onnxruntime: onnxruntime_peer.py --threads N, see worker.py."""

import argparse

import numpy
import onnx
import onnxruntime

from tests.benchmarks.peers import worker

GATES = 4
OPSET = 17


def floats(name, shape):
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def stack(hidden, layers, batch, length):
    """Inputs x [T, B, H], h0, c0... [1, B, H]; outputs y, then each layer's next h and c."""
    random = numpy.random.default_rng(1)
    shape = [1, GATES * hidden, hidden]
    nodes, weights, rows = [], [], "x"
    inputs, outputs = [floats("x", [length, batch, hidden])], []
    for l in range(layers):
        for name in ("w%d" % l, "r%d" % l):
            values = random.uniform(-1, 1, shape) / hidden ** 0.5
            weights.append(onnx.numpy_helper.from_array(values.astype(numpy.float32), name))
        nodes.append(onnx.helper.make_node(
            "LSTM", [rows, "w%d" % l, "r%d" % l, "", "", "h%d" % l, "c%d" % l],
            ["rows%d" % l, "next_h%d" % l, "next_c%d" % l], hidden_size=hidden))
        rows = "y%d" % l
        nodes.append(onnx.helper.make_node("Squeeze", ["rows%d" % l, "direction"], [rows]))
        for name in ("h%d" % l, "c%d" % l):
            inputs.append(floats(name, [1, batch, hidden]))
            outputs.append(floats("next_" + name, [1, batch, hidden]))
    weights.append(onnx.numpy_helper.from_array(numpy.array([1]), "direction"))
    graph = onnx.helper.make_graph(
        nodes, "stack", inputs, [floats(rows, [length, batch, hidden]), *outputs], weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", OPSET)],
                                  ir_version=8)


class OnnxruntimeLstm:

    def __init__(self, threads):
        self.version = "onnxruntime %s" % onnxruntime.__version__
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1

    def variants(self, case):
        if case.kind == "training":
            raise worker.Unsupported("inference alone")
        model = stack(case.hidden, case.layers, case.batch, case.length)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), self.options, providers=["CPUExecutionProvider"])
        feeds = {info.name: numpy.zeros(info.shape, numpy.float32)
                 for info in session.get_inputs()}
        feeds["x"] = numpy.random.default_rng(2).standard_normal(
            feeds["x"].shape, dtype=numpy.float32)
        states = [name for name in feeds if name != "x"]

        def turn():
            _, *after = session.run(None, feeds)
            if case.kind == "step":
                feeds.update(zip(states, after))
        return {"session": turn}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, required=True)
    threads = parser.parse_args().threads
    worker.answer_lines(lambda: OnnxruntimeLstm(threads))


if __name__ == "__main__":
    main()
