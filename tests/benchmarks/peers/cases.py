"""What is measured: the cases, and who is timed in them."""

import collections
import itertools

# A stack of `layers` of `hidden` channels on `batch` sequences of `length` rows. Kinds: inference
# of whole sequences from zero states; step, the next row of each sequence (length 1); training:
# forward, squared error, backward, Adam's update.
Case = collections.namedtuple("Case", "kind hidden layers batch length")

# By engine_timing: {name: (its subject, its precision)}.
OURS = {"recurve_sru": ("sru", "fp32"), "recurve_qrnn": ("qrnn", "fp32"),
        "recurve_sru_bf16": ("sru", "bf16"), "recurve_sru_int8": ("sru", "int8"),
        "products": ("products", "fp32"), "copy": ("copy", "fp32")}
FLOORS = ("products", "copy")
# What the peers' tables call them.
PEERS = {
    "sru": "sru",
    "fastai_qrnn": "fastai QRNN",
    "torch_lstm": "torch LSTM",
    "torch_gru": "torch GRU",
    "onnxruntime_lstm": "onnxruntime LSTM",
    "haste_lstm": "haste LSTM",
}

HIDDEN = (256, 512, 1024)
LAYERS = (1, 2, 4)
BATCHES = (1, 8, 32)
LENGTHS = (32, 128, 512)
# A few that show most: hidden, layers, batch, length.
QUICK = ((512, 2, 32, 128), (512, 4, 1, 128), (1024, 2, 32, 128))
QUICK_STEP = (512, 4, 1, 1)
# For rows/s at other sizes than usual: the first beside the second.
LONG = (Case("inference", 512, 2, 1, 8192), Case("inference", 512, 2, 1, 128))
WIDE = (Case("inference", 512, 2, 256, 128), Case("inference", 512, 2, 32, 128))
SERVED = (Case("inference", 512, 2, 32, 128), Case("inference", 512, 4, 1, 128),
          Case("step", 512, 4, 1, 1))
# Training on one device and on two.
SCALED = Case("training", 512, 2, 32, 128)
ONE_DEVICE, TWO_DEVICES = "cpu:1", "cpu:1,cpu:1"
# So few rows that a step is sum, exchange and update alone.
FIXED = SCALED._replace(batch=2, length=1)
MICRO_BATCH_ROWS = 1024  # TrainerConfig's default
PEAK_MEMORY = (Case("training", 512, 2, 32, 128), Case("training", 512, 4, 1, 128))
TINY = Case("training", 16, 1, 1, 2)


def does(subject, kind):
    """Nothing trains at int8."""
    return not (subject == "recurve_sru_int8" and kind == "training")


def rows(case):
    return case.batch * case.length


def name(case):
    shape = "H %d, L %d, B %d" % (case.hidden, case.layers, case.batch)
    return "%s, %s%s" % (case.kind, shape, "" if case.kind == "step" else ", T %d" % case.length)


def of_kind(kind, quick):
    """The cases of a kind; of equal stacks the shorter lengths first."""
    if quick:
        return [Case(kind, *shape) for shape in ((QUICK_STEP,) if kind == "step" else QUICK)]
    lengths = (1,) if kind == "step" else LENGTHS
    return [Case(kind, *shape) for shape in itertools.product(HIDDEN, LAYERS, BATCHES, lengths)]
