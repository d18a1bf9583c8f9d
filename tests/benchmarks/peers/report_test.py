import unittest

from tests.benchmarks.peers import cases, costs, floor, report, results, targets
from tests.integration import junit

INFERENCE = cases.Case("inference", 512, 2, 32, 128)
TRAINING = INFERENCE._replace(kind="training")


def cell(case, subject, seconds, section=None, **more):
    return {"section": section or case.kind, "case": case._asdict(), "subject": subject,
            "seconds": seconds, **more}


def data_of(*cells, **more):
    return {"machine": "a machine", "threads": 2, "rounds": 3, "versions": {}, "differences": {},
            "cells": list(cells), "memory": [], **more}


def target(work):
    (found,) = [each for each in targets.TARGETS if each.work == work]
    return found


class FloorTest(unittest.TestCase):

    def test_products_of_inference_are_counted_by_hand(self):
        # Two layers: [4096, 512] by [512, 1536], a multiplication and an addition each.
        self.assertEqual(floor.product_flops(INFERENCE), 2 * 2 * 4096 * 512 * 1536)

    def test_training_leaves_out_the_gradient_of_the_features(self):
        self.assertEqual(floor.product_flops(TRAINING), 5 * 2 * 4096 * 512 * 1536)

    def test_inference_moves_weights_once_and_rows_in_and_out_of_each_layer(self):
        case = cases.Case("inference", 4, 1, 2, 3)
        self.assertEqual(floor.moved_bytes(case), 4 * (4 * 12) + 4 * (2 * 6 * 4))

    def test_training_moves_ten_times_the_weights_and_five_times_the_rows(self):
        case = cases.Case("training", 4, 1, 2, 3)
        self.assertEqual(floor.moved_bytes(case), 4 * (10 * 4 * 12) + 4 * (5 * 6 * 4))

    def test_the_longer_of_both_is_the_floor(self):
        measured = results.Results(data_of(cell(INFERENCE, "products", [3, 5, 4]),
                                           cell(INFERENCE, "copy", [1, 9, 1])))
        self.assertEqual(measured.floor(INFERENCE), 4)


class RatioTest(unittest.TestCase):

    def test_rounds_are_compared_one_by_one(self):
        # The machine was twice as slow in the second round.
        self.assertEqual(results.ratio_of([3, 6, 3], [1, 2, 1]), 3)

    def test_of_what_was_run_once_it_is_of_the_medians(self):
        self.assertEqual(results.ratio_of([8], [1, 2, 9]), 4)

    def test_nothing_without_both(self):
        self.assertIsNone(results.ratio_of([], [1]))

    def test_rows_per_second_count_the_rows_of_each(self):
        long, usual = cases.LONG
        seconds = 64.0 * cases.rows(usual) / cases.rows(long)
        measured = results.Results(data_of(
            cell(long, "recurve_sru", [64.0], "scaling"),
            cell(usual, "recurve_sru", [seconds / 2], "scaling")))
        self.assertEqual(measured.rows_ratio(long, usual), 0.5)


class TargetTest(unittest.TestCase):

    def row(self, work, *cells, **more):
        return report.target_row(target(work), results.Results(data_of(*cells, **more)))

    def test_the_worst_cell_decides(self):
        wide = INFERENCE._replace(length=512)
        row = self.row("sru, inference, rows >= 4096",
                       cell(INFERENCE, "sru", [1.5]), cell(INFERENCE, "recurve_sru", [1.0]),
                       cell(wide, "sru", [1.3]), cell(wide, "recurve_sru", [1.0]))
        self.assertEqual(row[2:], ["1.3..1.5", "1 of 2", "NO: " + cases.name(wide)])

    def test_other_sizes_do_not_count(self):
        small = INFERENCE._replace(batch=1)
        row = self.row("sru, inference, rows >= 4096",
                       cell(small, "sru", [1.0]), cell(small, "recurve_sru", [1.0]),
                       cell(INFERENCE, "sru", [1.4]), cell(INFERENCE, "recurve_sru", [1.0]))
        self.assertEqual(row[3:], ["1 of 1", "yes"])

    def test_what_was_not_measured_is_not_met(self):
        self.assertEqual(self.row("torch LSTM, training")[2], "not measured")

    def test_memory_is_theirs_over_ours(self):
        row = self.row("sru's peak memory of a training step over ours", memory=[
            {"case": TRAINING._asdict(), "subject": "recurve_sru", "bytes": 100},
            {"case": TRAINING._asdict(), "subject": "sru", "bytes": 250}])
        self.assertEqual(row[2:], ["2.5..2.5", "1 of 1", "yes"])


class ReportTest(unittest.TestCase):

    def test_a_cell_is_median_and_range_in_milliseconds(self):
        self.assertEqual(report.spread({"seconds": [0.0021, 0.002, 0.0123]}), "2.1 (2..12.3)")

    def test_a_cell_says_why_it_is_empty(self):
        self.assertEqual(report.spread({"note": "> 5 s"}), "> 5 s")
        self.assertEqual(report.spread({"seconds": [7.25], "note": "once"}), "7250 (once)")

    def test_every_table_is_there(self):
        text = report.report(data_of(
            *(cell(case, subject, [1.0, 2.0]) for case in (INFERENCE, TRAINING)
              for subject in (*cases.OURS, *cases.PEERS)),
            cell(cases.SERVED[0], "served_sru", [2.0], "served"),
            cell(cases.SCALED, cases.TWO_DEVICES, [1.0], "scaling"),
            memory=[{"case": TRAINING._asdict(), "subject": "sru", "bytes": 2**20}]))
        for part in ("| inference, H 512, L 2, B 32, T 128 |", "fp32 / int8",
                     "one client's calls", "rows/s",
                     "| training, H 512, L 2, B 32, T 128 | sru | 1.0 |", "target, at least"):
            self.assertIn(part, text)

    def test_more_devices_are_predicted_by_one_and_two(self):
        parts = [cell(cases.SCALED, cases.ONE_DEVICE, [0.41], "scaling"),
                 cell(cases.SCALED, cases.TWO_DEVICES, [0.23], "scaling"),
                 cell(cases.FIXED, cases.ONE_DEVICE, [0.01], "scaling"),
                 cell(cases.FIXED, cases.TWO_DEVICES, [0.02], "scaling")]
        model = costs.measured_costs(results.Results(data_of(*parts)))
        # Micro-batches of 0.1 s; 0.01 s for each device beside them.
        self.assertAlmostEqual(model.step_seconds(1, 4), 0.41)
        self.assertAlmostEqual(model.step_seconds(2, 4), 0.22)
        self.assertAlmostEqual(model.step_seconds(8, 64), 0.88)
        self.assertIn("| 65536 | 8 | 880 |", report.report(data_of(*parts)))
        self.assertIsNone(costs.measured_costs(results.Results(data_of(*parts[:3]))))

    def test_runs_of_different_parts_are_one_report(self):
        merged = report.merged([data_of(cell(INFERENCE, "sru", [1.4])),
                                data_of(cell(INFERENCE, "recurve_sru", [1.0]))])
        self.assertEqual(results.Results(merged).ratio(INFERENCE, "sru", "recurve_sru"), 1.4)


if __name__ == "__main__":
    junit.main()
