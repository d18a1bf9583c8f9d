"""Where the peers come from: pinned packages of PyPI, in environments kept from run to run."""

import os

from tests.benchmarks.measuring import ROOT
from tests.integration import virtual_environment

HERE = "tests/benchmarks/peers"
TORCH = ("torch==2.15.0", "sru==2.6.0", "ninja==1.13.0", "numpy==2.3.5", "setuptools==80.9.0")
ONNXRUNTIME = ("onnxruntime==1.32.0", "onnx==1.20.0", "numpy==2.3.5")
FASTAI = "fastai==2.3.1"  # the last that has a QRNN
HASTE = "haste-pytorch-cpu==0.5.5"
# For older OpenBLAS; torch and numpy of today are slower by them.
UNWANTED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def _environment(threads, path=(), **more):
    kept = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    return {**kept, "PYTHONPATH": os.pathsep.join([ROOT, *path]),
            "OMP_NUM_THREADS": str(threads), **more}


def start_of(subject, threads):
    """(command, environment) of a peer's worker. Installs what is missing: SkipTest where PyPI
    cannot be reached, AssertionError with pip's words where it does not install."""
    if subject == "onnxruntime_lstm":
        python = virtual_environment.python_with(*ONNXRUNTIME)
        return ([python, HERE + "/onnxruntime_peer.py", "--threads=%d" % threads],
                _environment(threads))
    python = virtual_environment.python_with(*TORCH)
    environment = _environment(threads)
    if subject == "fastai_qrnn":
        environment = _environment(
            threads, FASTAI_FOLDER=virtual_environment.folder_of(FASTAI), FASTAI_VERSION=FASTAI)
    if subject == "haste_lstm":
        environment = _environment(
            threads, [virtual_environment.folder_of(HASTE, built_with=python)])
    return [python, HERE + "/torch_peers.py", subject, "--threads=%d" % threads], environment
