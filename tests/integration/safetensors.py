"""Reads float32, float64 and int64 tensors of a .safetensors file as flat arrays."""

import array
import json

_CODES = {"F32": "f", "F64": "d", "I64": "q"}


def read(path):
    """{name: array.array}, rows one after another."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = array.array(_CODES[entry["dtype"]], data[begin:end])
    return tensors
