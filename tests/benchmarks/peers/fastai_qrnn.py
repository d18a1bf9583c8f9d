"""fastai's QRNN by itself.

The last fastai that has one, 2.3.1, wants a PyTorch that current Pythons cannot have. Its file
needs little of the rest, so it is loaded alone, with stand-ins for what it imports by star.
"""

import functools
import importlib.util
import os
import pathlib
import sys
import types

import torch


class _Module(torch.nn.Module):
    """fastcore's: subclasses need not call its __init__."""

    def __new__(cls, *_, **__):
        module = super().__new__(cls)
        torch.nn.Module.__init__(module)
        return module

    def __init__(self):  # pylint: disable=super-init-not-called
        pass


def _stand_in(name, **contents):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(contents)
    sys.modules[name] = module


def load(folder):
    """The class, from a folder with the package."""
    _stand_in("fastai")
    _stand_in("fastai.data")
    _stand_in(
        "fastai.data.all", os=os, Path=pathlib.Path, partial=functools.partial, torch=torch,
        nn=torch.nn, F=torch.nn.functional, Module=_Module,
        ifnone=lambda value, default: default if value is None else value)
    _stand_in("fastai.text")
    _stand_in("fastai.text.core")
    _stand_in("fastai.text.models")
    _stand_in("fastai.text.models.awdlstm", dropout_mask=None)
    name = "fastai.text.models.qrnn"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(folder, "fastai", "text", "models", "qrnn.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module.QRNN
