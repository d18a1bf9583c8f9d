#!/usr/bin/python3
"""One report of all measurements: report.py LINES... [--json=FILE]

LINES are files of JSON objects, one a line, by benchmark and lstm.py. Prints
Markdown tables; --json keeps the lines with what was computed from them.
"""
import argparse
import json

import roofline

# Aims (docs/cuda.md).
RECURRENCE_SHARE = 0.85   # of copy bandwidth, from this many bytes on
RECURRENCE_BYTES = 100e6
LAYER_OVER_FLOOR = 1.25
PUBLISHED_MARGIN = 2.0
SRU_STEP_OVER_LSTM = 16.0

# Bradbury et al. 2016, "Quasi-Recurrent Neural Networks", figure 4: how many
# times faster than cuDNN's LSTM one layer of 320 units is, forward.
PUBLISHED_LENGTHS = [32, 64, 128, 256, 512]
PUBLISHED = {
    8: [5.5, 8.8, 11.0, 12.4, 16.9],
    16: [5.5, 6.7, 7.8, 8.3, 10.8],
    32: [4.2, 4.5, 4.9, 4.9, 6.4],
    64: [3.0, 3.0, 3.0, 3.0, 3.7],
    128: [2.1, 1.9, 2.0, 2.0, 2.4],
    256: [1.4, 1.4, 1.3, 1.3, 1.3],
}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |"
              for row in rows]
    return "\n".join(lines)


def mark(met):
    return "yes" if met else "NO"


class Report:
    def __init__(self, lines):
        self.lines = lines
        copy = self.only("copy")
        self.bandwidth = copy["bytes"] / (copy["us"] * 1e-6)
        self.rates = {line["products"]: line["flops"] / (line["us"] * 1e-6)
                      for line in self.of("product")}

    def of(self, what, **fields):
        return [line for line in self.lines if line["what"] == what and
                all(line[key] == value for key, value in fields.items())]

    def only(self, what, **fields):
        (line,) = self.of(what, **fields)
        return line

    def ceilings(self):
        rows = [["copy, read and written", f"{self.bandwidth / 1e9:.0f} GB/s"]]
        rows += [[f"product 8192^3, {name}", f"{rate / 1e12:.1f} TFLOP/s"]
                 for name, rate in self.rates.items()]
        return table(["ceiling", "measured"], rows)

    def recurrences(self):
        rows = []
        for line in self.of("recurrence"):
            layer = roofline.Layer(line["cell"], line["hidden_size"],
                                   line["hidden_size"])
            n = line["batch"] * line["length"]
            storage = {"fp32": 4, "bf16": 2}[line["storage"]]
            if line["pass"] == "backward":
                cost = roofline.recurrence_backward(layer, n)
            else:
                cost = roofline.recurrence_forward(
                    layer, n, line["pass"] == "forward, training")
            line["bytes"] = cost.bytes(storage)
            line["share"] = line["bytes"] / (line["us"] * 1e-6) / self.bandwidth
            large = line["bytes"] >= RECURRENCE_BYTES and line["batch"] > 8
            aim = mark(line["share"] >= RECURRENCE_SHARE) if large else "-"
            rows.append([self.name(line), line["pass"], line["storage"],
                         f"{line['us']:.1f}", f"{line['bytes'] / 1e6:.0f}",
                         f"{line['share']:.2f}", aim])
        return table(["recurrence", "pass", "storage", "us", "MB",
                      "share of copy", f">= {RECURRENCE_SHARE}"], rows)

    def layers(self):
        rows = []
        for line in self.of("layer"):
            if line["hidden_size"] == 320:
                continue
            layer = roofline.Layer(line["cell"], line["hidden_size"],
                                   line["hidden_size"])
            n = line["batch"] * line["length"]
            step = line["pass"] == "step"
            cost = roofline.total(roofline.forward(layer, n, training=step))
            if step:
                cost += roofline.total(roofline.backward(layer, n))
            floor = cost.seconds(self.bandwidth, self.rates[line["products"]])
            line["over_floor"] = line["us"] * 1e-6 / floor
            aim = "-" if step else mark(line["over_floor"] <= LAYER_OVER_FLOOR)
            rows.append([self.name(line), line["pass"], line["products"],
                         f"{line['us']:.1f}", f"{floor * 1e6:.1f}",
                         f"{line['over_floor']:.2f}", aim])
        return table(["layer", "pass", "products", "us", "floor, us",
                      "over floor", f"<= {LAYER_OVER_FLOOR}"], rows)

    def against_lstm(self):
        rows = []
        for lstm in self.of("lstm"):
            if lstm["hidden_size"] == 320:
                continue
            shape = {key: lstm[key] for key in ["hidden_size", "batch", "length",
                                                "pass", "products"]}
            for cell in ["sru", "qrnn"]:
                ours = self.only("layer", cell=cell, **shape)
                ours["over_lstm"] = lstm["us"] / ours["us"]
                aimed = (cell, shape["hidden_size"], shape["pass"]) == (
                    "sru", 512, "step")
                aim = (mark(ours["over_lstm"] >= SRU_STEP_OVER_LSTM)
                       if aimed else "-")
                rows.append([self.name(ours), shape["pass"], shape["products"],
                             f"{ours['us']:.1f}", f"{lstm['us']:.1f}",
                             f"{ours['over_lstm']:.1f}", aim])
        return table(["layer", "pass", "products", "us", "cuDNN LSTM, us",
                      "times faster", f">= {SRU_STEP_OVER_LSTM:.0f}"], rows)

    def published(self, products):
        rows, met, cells = [], 0, 0
        for batch, published in PUBLISHED.items():
            row = [batch]
            for length, factor in zip(PUBLISHED_LENGTHS, published):
                shape = {"hidden_size": 320, "batch": batch, "length": length,
                         "pass": "forward", "products": products}
                if not self.of("lstm", **shape):
                    return f"Not measured with {products} (--quick)."
                ours = self.only("layer", cell="qrnn", **shape)
                times = self.only("lstm", **shape)["us"] / ours["us"]
                ours["over_lstm"] = times
                cells += 1
                met += times >= PUBLISHED_MARGIN * factor
                row.append(f"{times:.1f} ({factor})")
            rows.append(row)
        return (table(["batch"] + [f"T {t}" for t in PUBLISHED_LENGTHS], rows) +
                f"\n\nTwice the published factor or more in {met} of {cells} "
                "cells.")

    @staticmethod
    def name(line):
        return (f"{line['cell'].upper()} H {line['hidden_size']}, "
                f"B {line['batch']}, T {line['length']}")

    def text(self):
        (torch,) = self.of("torch")
        parts = [
            f"{torch['gpu']}; PyTorch {torch['version']}, cuDNN "
            f"{torch['cudnn']}; medians.",
            "## Ceilings", self.ceilings(),
            "## Recurrences alone", self.recurrences(),
            "## Layers", self.layers(),
            "## Against cuDNN's LSTM", self.against_lstm(),
        ]
        for products in ["fp32", "tf32"]:
            parts += [f"## QRNN of 320 units, times faster than cuDNN's LSTM, "
                      f"{products} (published)", self.published(products)]
        return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--json")
    args = parser.parse_args()
    lines = []
    for name in args.files:
        with open(name) as file:
            lines += [json.loads(line) for line in file if line.strip()]
    report = Report(lines)
    print(report.text())
    if args.json:
        with open(args.json, "w") as file:
            json.dump(report.lines, file, indent=1)


if __name__ == "__main__":
    main()
