"""What the engine's speed on the CPU is to be, and whether it is."""

import collections

from tests.benchmarks.peers import cases

LARGE_ROWS = 1024   # where products dominate
LARGER_ROWS = 4096  # the peers' best sizes
SMALL_ROWS = 256
STREAMING = cases.Case("step", 512, 4, 1, 1)
LONE = cases.Case("inference", 512, 4, 1, 128)

# `ratios(results)` is {what: a ratio that should be `goal` or more}, of what was measured.
Target = collections.namedtuple("Target", "work goal ratios")


def _ratios(above, below, matches):
    """How many times as long `above` takes as `below`, in each case that matches."""
    def ratios(results):
        kinds = ("inference", "step", "training")
        found = {cases.name(case): results.ratio(case, above, below)
                 for kind in kinds for case in results.cases_of(kind) if matches(case)}
        return {name: ratio for name, ratio in found.items() if ratio is not None}
    return ratios


def _both(first, second):
    def ratios(results):
        return {name: ratio for label, part in (("SRU, ", first), ("QRNN, ", second))
                for name, ratio in ((label + key, value) for key, value in part(results).items())}
    return ratios


def _of_products(matches):
    return _both(_ratios("products", "recurve_sru", matches),
                 _ratios("products", "recurve_qrnn", matches))


def _large(kind, hidden):
    return lambda case: (case.kind == kind and case.hidden in hidden and
                         cases.rows(case) >= LARGE_ROWS)


def _larger(kind):
    return lambda case: case.kind == kind and cases.rows(case) >= LARGER_ROWS


def _small(kind):
    return lambda case: case.kind == kind and cases.rows(case) <= SMALL_ROWS


def _kind(kind):
    return lambda case: case.kind == kind


def _low_precision(subject, kind="inference"):
    return _ratios("recurve_sru", subject,
                   lambda case: case.kind == kind and case.hidden >= 512)


def _scaled(above, below):
    def ratios(results):
        ratio = results.ratio(cases.SCALED, above, below, "scaling")
        return {} if ratio is None else {cases.name(cases.SCALED): ratio}
    return ratios


def _rows(*pairs):
    def ratios(results):
        found = {cases.name(case): results.rows_ratio(case, other) for case, other in pairs}
        return {name: ratio for name, ratio in found.items() if ratio is not None}
    return ratios


def _memory(results):
    bytes_of = {(cases.Case(**entry["case"]), entry["subject"]): entry["bytes"]
                for entry in results.data.get("memory", [])}
    return {cases.name(case): bytes_of[case, "sru"] / size
            for (case, subject), size in bytes_of.items()
            if subject == "recurve_sru" and (case, "sru") in bytes_of}


TARGETS = [
    Target("inference, rows >= 1024, H 512, of products alone", 0.95,
           _of_products(_large("inference", (512,)))),
    Target("inference, rows >= 1024, H 1024, of products alone", 0.94,
           _of_products(_large("inference", (1024,)))),
    Target("training, rows >= 1024, H 512 and 1024, of products alone", 0.90,
           _of_products(_large("training", (512, 1024)))),
    Target("inference, B 1, T 128, L 4, H 512, of products alone", 0.90,
           _of_products(lambda case: case == LONE)),
    Target("bf16 inference against float32, H >= 512", 1.7, _low_precision("recurve_sru_bf16")),
    Target("int8 inference against float32, H >= 512", 2.8, _low_precision("recurve_sru_int8")),
    Target("bf16 training against float32, H >= 512", 1.6,
           _low_precision("recurve_sru_bf16", "training")),
    Target("sru, inference, rows >= 4096", 1.4,
           _ratios("sru", "recurve_sru", _larger("inference"))),
    Target("sru, training, rows >= 4096", 2.8, _ratios("sru", "recurve_sru", _larger("training"))),
    Target("sru, inference, rows <= 256", 3, _ratios("sru", "recurve_sru", _small("inference"))),
    Target("sru, training, rows <= 256", 8, _ratios("sru", "recurve_sru", _small("training"))),
    Target("fastai QRNN, inference, rows >= 4096", 1.4,
           _ratios("fastai_qrnn", "recurve_qrnn", _larger("inference"))),
    Target("fastai QRNN, training, rows >= 4096", 1.3,
           _ratios("fastai_qrnn", "recurve_qrnn", _larger("training"))),
    Target("fastai QRNN, inference, rows <= 256", 3,
           _ratios("fastai_qrnn", "recurve_qrnn", _small("inference"))),
    Target("fastai QRNN, training, rows <= 256", 4,
           _ratios("fastai_qrnn", "recurve_qrnn", _small("training"))),
    Target("torch LSTM, inference", 12,
           _ratios("torch_lstm", "recurve_sru", _kind("inference"))),
    Target("torch LSTM, training", 9, _ratios("torch_lstm", "recurve_sru", _kind("training"))),
    Target("sru, one step, B 1, L 4, H 512", 2,
           _ratios("sru", "recurve_sru", lambda case: case == STREAMING)),
    Target("sru, one step in bf16, B 1, L 4, H 512", 4,
           _ratios("sru", "recurve_sru_bf16", lambda case: case == STREAMING)),
    Target("two devices of one thread against one, training", 1.9,
           _scaled(cases.ONE_DEVICE, cases.TWO_DEVICES)),
    Target("rows/s at T 8192 against T 128, at B 256 against B 32", 0.95,
           _rows(cases.LONG, cases.WIDE)),
    Target("sru's peak memory of a training step over ours", 2, _memory),
]
