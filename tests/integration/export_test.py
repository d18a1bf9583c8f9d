"""Exports load into the PyTorch libraries' modules and give the same numbers.

The SRU modules are the real ones, sru 2.6.0 and 3.0.0.dev6 from PyPI; on the
CPU they are run with gradients enabled, where they compute in Python. QRNN is
not on PyPI; qrnn_module.py stands in for it."""

import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy
import torch
from torch import nn

from tests.integration import junit
from tests.integration import qrnn_module
from tests.integration import virtual_environment

TOOL = "tests/integration/export_tool"
TOLERANCE = 1e-5


def read_safetensors(path):
    types_by_name = {"F32": "<f4", "I32": "<i4"}
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = numpy.frombuffer(data[begin:end], types_by_name[entry["dtype"]])
        tensors[name] = torch.from_numpy(array.reshape(entry["shape"]).copy())
    return tensors


@functools.lru_cache(maxsize=None)
def load_sru(path):
    """The module `sru` from a folder. At import it compiles kernels, which
    inference with gradients enabled does not use: that is left out."""
    extension = types.SimpleNamespace(load=lambda **_: None)
    with mock.patch.dict(sys.modules, {"torch.utils.cpp_extension": extension}), \
         mock.patch.object(torch.utils, "cpp_extension", extension, create=True), \
         mock.patch.object(torch.jit, "script", lambda function: function), \
         mock.patch.object(sys, "path", [path] + sys.path):
        return importlib.import_module("sru")  # and out of sys.modules again


class CustomUV(nn.Module):
    """A custom transform that gives U and per-step coefficients."""

    def __init__(self, inputs, outputs, coefficients):
        super().__init__()
        self.u = nn.Linear(inputs, outputs)
        self.v = nn.Linear(inputs, coefficients, bias=False)

    def forward(self, x):
        return self.u(x), self.v(x)


class LanguageModel(nn.Module):

    def __init__(self, vocabulary, embedding, rnn, channels, tied=False):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.rnn = rnn
        self.output = nn.Linear(channels, vocabulary)
        if tied:
            self.output.weight = self.embedding.weight

    def forward(self, tokens):
        rows = self.rnn(self.embedding(tokens))
        return self.output(rows[0] if isinstance(rows, tuple) else rows)


class ExportTest(unittest.TestCase):

    # Only the cases that need PyPI are skipped without it.
    @property
    def sru_2(self):
        return load_sru(virtual_environment.folder_of("sru==2.6.0"))

    @property
    def sru_3(self):
        return load_sru(virtual_environment.folder_of("sru==3.0.0.dev6"))

    def export(self, config):
        """The exported tensors of a random model, and one run of it."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.textproto")
            with open(path, "w") as file:
                file.write(config)
            subprocess.run([TOOL, path, folder], check=True)
            return (read_safetensors(os.path.join(folder, "model.safetensors")),
                    read_safetensors(os.path.join(folder, "run.safetensors")))

    def assert_close(self, theirs, ours):
        self.assertEqual(theirs.shape, ours.shape)
        error = ((theirs.double() - ours.double()).abs().max()
                 / max(1.0, theirs.abs().max().item())).item()
        self.assertLessEqual(error, TOLERANCE)
        # Outputs that say nothing would agree with anything.
        self.assertGreater(ours.std().item(), 0.01)

    def check_block(self, block, module, inputs=6):
        """A module that is one block between features and hidden rows."""
        tensors, run = self.export(
            f"input {{ features {{ size: {inputs} }} }} blocks {{ {block} }}")
        module.load_state_dict(
            {key[len("rnn."):]: value for key, value in tensors.items()})
        output = module.eval()(run["input"])
        if not isinstance(output, tuple):
            return self.assert_close(output.detach(), run["output"])
        self.assert_close(output[0].detach(), run["output"])
        layers, batch, _ = output[1].shape
        state = run["state"].reshape(batch, layers, -1).transpose(0, 1)
        self.assert_close(output[1].detach(), state)

    def test_sru(self):
        for options, arguments in [
            ("", {}),
            ("num_layers: 1", dict(num_layers=1)),
            ("num_layers: 3 bidirectional: true",
             dict(num_layers=3, bidirectional=True)),
            ("use_tanh: true layer_norm: true", dict(use_tanh=True, layer_norm=True)),
            ("layer_norm: true normalize_after: true bidirectional: true",
             dict(layer_norm=True, normalize_after=True, bidirectional=True)),
            ("projection_size: 3", dict(projection_size=3)),
            ("projection_size: 6 bidirectional: true",
             dict(projection_size=6, bidirectional=True)),
            ("rescale: true highway_bias: -1", dict(rescale=True, highway_bias=-1)),
            ("has_skip_term: false", dict(has_skip_term=False)),
            ("v1: true", dict(v1=True)),
            ("proj_input_to_hidden_first: true",
             dict(proj_input_to_hidden_first=True)),
        ]:
            with self.subTest(options):
                self.check_block(f"sru {{ hidden_size: 8 {options} }}",
                                 self.sru_2.SRU(6, 8, **arguments))

    def test_sru_without_skip_transform(self):
        for inputs, options, arguments in [
            (8, "", {}), (16, "bidirectional: true", dict(bidirectional=True))]:
            with self.subTest(options):
                self.check_block(f"sru {{ hidden_size: 8 {options} }}",
                                 self.sru_2.SRU(inputs, 8, **arguments), inputs)

    def test_sru_with_custom_transforms(self):
        for options, arguments, channels in [
            ("", {}, 8), ("bidirectional: true", dict(bidirectional=True), 16)]:
            linear = [nn.Linear(6, 4 * channels), nn.Linear(channels, 3 * channels)]
            uv = [CustomUV(6, 4 * channels, 2 * channels),
                  CustomUV(channels, 3 * channels, 2 * channels)]
            for kind, modules in [("LINEAR", linear), ("UV", uv)]:
                with self.subTest(options + kind):
                    self.check_block(
                        f"sru {{ hidden_size: 8 custom_m: CUSTOM_TRANSFORM_{kind}"
                        f" {options} }}",
                        self.sru_2.SRU(6, 8, custom_m=modules, **arguments))

    def test_sru_3_dev(self):
        for options, arguments in [
            ("", {}),
            ("bidirectional: true layer_norm: true",
             dict(bidirectional=True, layer_norm=True)),
            ("projection_size: 4", dict(projection_size=4)),
            ("projection_size: 9 projection_size: 3 rescale: true highway_bias: -1",
             dict(projection_size=[9, 3], rescale=True, highway_bias=-1)),
        ]:
            with self.subTest(options):
                self.check_block(
                    f"sru {{ library: SRU_3_DEV hidden_size: 8 {options} }}",
                    self.sru_3.SRU(6, 8, **arguments))

    def test_qrnn(self):
        for block, layers in [
            ("", [(6, 5, {})]),
            ("num_layers: 2 window: 2",
             [(6, 5, dict(window=2)), (5, 5, dict(window=2))]),
            ("output_gate: false zoneout: 0.2",
             [(6, 5, dict(output_gate=False, zoneout=0.2))]),
            ("layers { window: 2 hidden_size: 7 } layers { zoneout: 0.1 }",
             [(6, 7, dict(window=2)), (7, 5, dict(zoneout=0.1))]),
            ("num_layers: 2 window: 2 bidirectional: true",
             [(6, 5, dict(window=2, bidirectional=True)),
              (10, 5, dict(window=2, bidirectional=True))]),
        ]:
            with self.subTest(block):
                module = qrnn_module.QRNN(
                    [qrnn_module.QRNNLayer(i, h, **arguments)
                     for i, h, arguments in layers])
                self.check_block(f"qrnn {{ hidden_size: 5 {block} }}", module)

    def check_language_model(self, config, module):
        tensors, run = self.export(config)
        module.load_state_dict(tensors)
        logits = module.eval()(run["tokens"].long())
        self.assert_close(logits.detach(), run["output"])

    def test_language_models(self):
        config = ("input { token_embedding { vocabulary_size: 11 embedding_size: 8 } }"
                  " blocks { %s } output { linear { size: 11 %s } }")
        self.check_language_model(
            config % ("sru { hidden_size: 8 }", ""),
            LanguageModel(11, 8, self.sru_2.SRU(8, 8), 8))
        self.check_language_model(
            config % ("sru { hidden_size: 8 }", "tied: true"),
            LanguageModel(11, 8, self.sru_2.SRU(8, 8), 8, tied=True))
        self.check_language_model(
            config % ("qrnn { hidden_size: 8 }", ""),
            LanguageModel(11, 8, qrnn_module.QRNN([qrnn_module.QRNNLayer(8, 8)]), 8))


if __name__ == "__main__":
    torch.manual_seed(0)
    junit.main()
