#!/usr/bin/python3
"""Tables of what run has measured: report.py FILE.json..."""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", "..")))
# pylint: disable=wrong-import-position
from tests.benchmarks.measuring import markdown
from tests.benchmarks.peers import cases, costs, floor, results, targets

NOTHING = "-"
OURS = {"recurve_sru": "Recurve SRU", "recurve_qrnn": "Recurve QRNN"}
LOWER = {"recurve_sru_bf16": "bf16", "recurve_sru_int8": "int8"}
# Whose cell does the same work, for the ratio: LSTM and GRU beside SRU.
BESIDE = {subject: "recurve_qrnn" if subject == "fastai_qrnn" else "recurve_sru"
          for subject in cases.PEERS}


def number(value):
    """To three digits."""
    if value is None:
        return NOTHING
    return "%.0f" % value if value >= 100 else "%.3g" % value


def spread(cell):
    """Median and range of the rounds in milliseconds."""
    milliseconds = sorted(1e3 * seconds for seconds in cell.get("seconds", []))
    if not milliseconds:
        return cell.get("note", NOTHING)
    middle = number(statistics.median(milliseconds))
    if "note" in cell:
        return "%s (%s)" % (middle, cell["note"])
    return "%s (%s..%s)" % (middle, number(milliseconds[0]), number(milliseconds[-1]))


def measured_cases(measured):
    return [case for kind in ("inference", "step", "training")
            for case in measured.cases_of(kind)]


def times(measured):
    subjects = {"products": "products alone", "copy": "copy", **OURS, **cases.PEERS}
    rows = []
    for case in measured_cases(measured):
        least = measured.floor(case)
        cells = [spread(measured.cell(case, subject)) for subject in subjects]
        cells.insert(2, number(least and 1e3 * least))
        rows.append([cases.name(case), *cells])
    names = list(subjects.values())
    names.insert(2, "floor")
    return markdown(["ms: median (min..max)", *names], rows)


def product_speed(measured, case):
    seconds = measured.median(case, "products")
    return number(seconds and floor.product_flops(case) / seconds / 1e9)


def ratios(measured):
    rows = [[cases.name(case), product_speed(measured, case),
             *(number(measured.ratio(case, "products", ours)) for ours in OURS),
             *(number(measured.ratio(case, peer, ours)) for peer, ours in BESIDE.items())]
            for case in measured_cases(measured)]
    return markdown(["", "products, GFLOP/s", *("products / " + name for name in OURS.values()),
                     *("%s / %s" % (cases.PEERS[peer], OURS[ours])
                       for peer, ours in BESIDE.items())], rows)


def precisions(measured):
    rows = [[cases.name(case), spread(measured.cell(case, "recurve_sru")),
             *(spread(measured.cell(case, subject)) for subject in LOWER),
             *(number(measured.ratio(case, "recurve_sru", subject)) for subject in LOWER)]
            for case in measured_cases(measured)]
    return markdown(["Recurve SRU, ms", "fp32", *LOWER.values(),
                     *("fp32 / " + name for name in LOWER.values())], rows)


def served(measured):
    rows = [[cases.name(case), spread(measured.cell(case, "recurve_sru", "served")),
             spread(measured.cell(case, "served_sru", "served")),
             number(measured.ratio(case, "served_sru", "recurve_sru", "served"))]
            for case in measured.cases_of("served")]
    return markdown(["Recurve SRU, ms", "engine", "one client's calls", "ratio"], rows)


def scaling(measured):
    devices = {"recurve_sru": "cpu:%d" % measured.data["threads"],
               cases.ONE_DEVICE: cases.ONE_DEVICE, cases.TWO_DEVICES: cases.TWO_DEVICES}
    rows = [[cases.name(case), name, spread(cell),
             number(cases.rows(case) / measured.median(case, subject, "scaling"))]
            for case in measured.cases_of("scaling") for subject, name in devices.items()
            for cell in [measured.cell(case, subject, "scaling")] if cell.get("seconds")]
    return markdown(["Recurve SRU", "devices", "ms", "rows/s"], rows)


def predictions(measured):
    """Of a training step on more devices, each with as fast a core, that share the memory."""
    model = costs.measured_costs(measured)
    if model is None:
        return ""
    usual = cases.rows(cases.SCALED) // cases.MICRO_BATCH_ROWS
    rows = []
    for count in (usual, 16 * usual):
        for devices in (1, 2, 4, 8):
            step = model.step_seconds(devices, count)
            rows.append(["%d" % (count * cases.MICRO_BATCH_ROWS), "%d" % devices,
                         number(1e3 * step), number(model.step_seconds(1, count) / step)])
    known = measured.median(cases.SCALED, cases.TWO_DEVICES, "scaling")
    return (markdown(["rows of a step", "devices", "predicted, ms", "times one device"], rows)
            + "\n\n%s; measured on two devices: %s ms" % (model, number(1e3 * known)))


def memory(measured):
    rows = [[cases.name(cases.Case(**entry["case"])), entry["subject"],
             "%.1f" % (entry["bytes"] / 2**20)] for entry in measured.data.get("memory", [])]
    return markdown(["peak memory of training steps, least of some processes", "", "MiB"], rows)


def target_row(target, measured):
    found = target.ratios(measured)
    if not found:
        return [target.work, number(target.goal), "not measured", "", ""]
    met = [name for name, ratio in found.items() if ratio >= target.goal]
    worst = min(found, key=found.get)
    return [target.work, number(target.goal),
            "%s..%s" % (number(found[worst]), number(max(found.values()))),
            "%d of %d" % (len(met), len(found)),
            "yes" if len(met) == len(found) else "NO: " + worst]


def target_table(measured):
    return markdown(["work", "target, at least", "measured", "cells that meet it", "met"],
                    [target_row(target, measured) for target in targets.TARGETS])


def versions(data):
    lines = ["- %s: %s" % entry for entry in sorted(data["versions"].items())]
    lines += ["- %s: its output is ours within %.1e" % entry
              for entry in sorted(data["differences"].items())]
    return "\n".join(lines)


def variants(data):
    """Where a peer has several ways: how often each was the fastest."""
    counts = {}
    for cell in data["cells"]:
        if cell["subject"] in cases.PEERS and cell.get("variant"):
            count = counts.setdefault(cell["subject"], {})
            count[cell["variant"]] = count.get(cell["variant"], 0) + 1
    return "\n".join(
        "- %s: the fastest was %s" % (subject, ", ".join(
            "%s in %d cases" % pair for pair in count.items()))
        for subject, count in counts.items() if len(count) > 1)


def report(data):
    measured = results.Results(data)
    parts = [data["machine"] + "; %d threads, %d rounds" % (data["threads"], data["rounds"]),
             versions(data), variants(data)]
    if measured_cases(measured):
        parts += [times(measured), ratios(measured), precisions(measured)]
    for section, tables in (("served", [served]), ("scaling", [scaling, predictions])):
        if measured.cases_of(section):
            parts += [table(measured) for table in tables]
    if data.get("memory"):
        parts.append(memory(measured))
    parts.append(target_table(measured))
    return "\n\n".join(part for part in parts if part)


def merged(parts):
    """One of several runs of the same machine: later cells are added to the first's."""
    first, *others = parts
    for other in others:
        for field in ("cells", "memory"):
            first[field] += other[field]
        for field in ("versions", "differences"):
            first[field].update(other[field])
    return first


def main():
    parts = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            parts.append(json.load(file))
    if not parts:
        sys.exit(__doc__)
    print(report(merged(parts)))


if __name__ == "__main__":
    main()
