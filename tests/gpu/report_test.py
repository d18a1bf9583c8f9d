#!/usr/bin/python3
"""The report's arithmetic on made-up measurements."""
import unittest

import report
import roofline


def lines(lstm_us=1000.0):
    made = [
        {"what": "copy", "bytes": 2 * 2**30, "us": 500.0},
        {"what": "torch", "version": "x", "cudnn": 1, "gpu": "made up"},
    ]
    for products in ["fp32", "tf32"]:
        made.append({"what": "product", "products": products, "flops": 5e13,
                     "us": 1e6})
    # 20 bytes a channel and row, exactly at half the copy's bandwidth.
    made.append({"what": "recurrence", "cell": "sru", "hidden_size": 1024,
                 "batch": 64, "length": 256, "pass": "forward",
                 "storage": "fp32",
                 "us": 20 * 1024 * 64 * 256 / (2**31 / 500.0) * 2})
    for cell in ["sru", "qrnn"]:
        for name in ["forward", "step"]:
            made.append({"what": "layer", "cell": cell, "hidden_size": 512,
                         "batch": 32, "length": 128, "pass": name,
                         "products": "fp32", "us": 250.0})
    for name in ["forward", "step"]:
        made.append({"what": "lstm", "hidden_size": 512, "batch": 32,
                     "length": 128, "pass": name, "products": "fp32",
                     "us": lstm_us})
    return made


class ReportTest(unittest.TestCase):
    def test_shares_are_of_the_measured_ceilings(self):
        made = report.Report(lines())
        self.assertAlmostEqual(made.bandwidth, 2**31 / 500e-6)
        self.assertIn("| 0.50 | NO |", made.recurrences())

    def test_a_layers_floor_is_its_products_at_the_measured_rate(self):
        made = report.Report(lines())
        flops = 2 * 32 * 128 * 512 * 3 * 512
        floor_us = flops / 5e13 * 1e6
        self.assertIn(f"| 250.0 | {floor_us:.1f} | {250 / floor_us:.2f} |",
                      made.layers())

    def test_aims_are_marked(self):
        self.assertIn("| 4.0 | NO |", report.Report(lines()).against_lstm())
        self.assertIn("| 16.0 | yes |",
                      report.Report(lines(4000.0)).against_lstm())

    def test_the_published_table_says_when_it_was_not_measured(self):
        self.assertIn("Not measured", report.Report(lines()).published("fp32"))

    def test_the_whole_report_has_every_part(self):
        text = report.Report(lines()).text()
        for part in ["Ceilings", "Recurrences", "Layers", "LSTM", "QRNN"]:
            self.assertIn(part, text)


class RooflineTest(unittest.TestCase):
    def test_bytes_of_a_recurrence_count_each_array_once(self):
        # u [N, 3C], x, y and c [N, C] in float32.
        layer = roofline.Layer("sru", 8, 8)
        self.assertEqual(
            roofline.recurrence_forward(layer, 10, True).bytes(),
            4 * 10 * 8 * (3 + 1 + 1 + 1))

    def test_products_of_a_step_are_three_times_those_of_a_forward_pass(self):
        layer = roofline.Layer("qrnn", 320, 320)
        forward = roofline.total(roofline.forward(layer, 7)).flops
        backward = roofline.total(roofline.backward(layer, 7)).flops
        self.assertEqual(forward, 2 * 7 * 320 * 960)
        self.assertEqual(backward, 2 * forward)


if __name__ == "__main__":
    unittest.main()
