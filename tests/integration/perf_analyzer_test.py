"""Triton's perf_analyzer, unchanged, measures the real server.

Its wheels since 2.52 need a newer glibc than Debian 12's, so this is the last one
before; it has the CUDA runtime for its name alone and looks for libb64."""

import csv
import json
import os
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve
from tests.integration import virtual_environment

WHEEL = "tritonclient==2.51.0"
CUDA_RUNTIME = "nvidia-cuda-runtime-cu12==12.6.77"

MODELS = {
    "tokens": """
input { token_embedding { vocabulary_size: 50 embedding_size: 8 } }
blocks { sru { hidden_size: 8 } }
output { linear { size: 50 } }
loss { kind: CROSS_ENTROPY }
""",
    "features": """
input { features { size: 4 } }
blocks { qrnn { hidden_size: 8 } }
output { linear { size: 3 } }
loss { kind: CROSS_ENTROPY }
""",
}
SEQUENCE = {"tokens": [[3], [1], [4], [1], [5], [9]],
            "features": [[0.5, 1.0, 2.0, -1.0], [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]}


def find_program():
    """(path, environment) of perf_analyzer. SkipTest where it cannot run."""
    program = os.path.join(virtual_environment.folder_of(WHEEL), "bin", "perf_analyzer")
    runtime = os.path.join(virtual_environment.folder_of(CUDA_RUNTIME),
                           "nvidia", "cuda_runtime", "lib")
    environment = {**os.environ, "LD_LIBRARY_PATH": runtime}
    result = subprocess.run([program, "--version"], env=environment, capture_output=True,
                            text=True, check=False, timeout=recurve.PATIENCE_SECONDS)
    if result.returncode != 0:
        raise unittest.SkipTest("perf_analyzer does not run here: " + result.stderr.strip())
    return program, environment


def input_data(folder, model):
    """A file with a sequence of one-row steps."""
    name, shape = {"tokens": ("tokens", [1]), "features": ("features", [1, 4])}[model]
    steps = [{name: {"content": step, "shape": shape}} for step in SEQUENCE[model]]
    return recurve.write(folder, model + ".json", json.dumps({"data": [steps]}))


class PerfAnalyzerTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.program, cls.environment = find_program()
        cls.folder = cls.enterClassContext(recurve.Folder())
        cls.server = cls.enterClassContext(
            recurve.Server(os.path.join(cls.folder, "data")))
        for name, config in MODELS.items():
            cls.server.call("create", name, "--config",
                            recurve.write(cls.folder, name + ".textproto", config))

    def measure(self, model, *options):
        """The rows of its report."""
        report = os.path.join(self.folder, "report.csv")
        result = subprocess.run(
            [self.program, "-m", model, "-u", self.server.address, "-i", "grpc",
             "--input-data", input_data(self.folder, model), "-f", report,
             "--verbose-csv", "--concurrency-range", "4", "--request-count", "200",
             *options],
            env=self.environment, capture_output=True, text=True, check=False,
            timeout=recurve.PATIENCE_SECONDS)
        said = result.stdout + result.stderr + self.server.log()
        self.assertEqual(result.returncode, 0, said)
        with open(report, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertGreater(float(rows[0]["Inferences/Second"]), 0, said)
        # What the server says of its own times.
        self.assertGreater(float(rows[0]["Server Compute Infer"]), 0, said)
        return result.stdout

    def plain(self, model, *options):
        return self.measure(model, "-H", "recurve-scheduling:dynamic", *options)

    def test_plain_mode_of_a_token_model(self):
        self.assertNotIn("Sequence count", self.plain("tokens"))

    def test_plain_mode_of_a_feature_model(self):
        self.plain("features")

    def test_plain_mode_with_async_calls(self):
        self.plain("tokens", "--async")

    def test_plain_mode_through_a_stream(self):
        self.plain("features", "--async", "--streaming")

    # At its end perf_analyzer sends the last request of each sequence without
    # waiting for the one before; only in a stream do they stay in order.

    def sequences(self, model):
        return self.measure(model, "--sequence-length", "6", "--async", "--streaming")

    def test_sequence_mode_of_a_token_model(self):
        self.assertIn("Sequence count", self.sequences("tokens"))

    def test_sequence_mode_of_a_feature_model(self):
        self.assertIn("Sequence count", self.sequences("features"))


if __name__ == "__main__":
    junit.main()
