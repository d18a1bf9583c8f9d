"""A job's event file as PyPI's tensorboard reads it: the numbers of metrics.csv."""

import csv
import datetime
import json
import os
import struct
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve
from tests.integration import virtual_environment

REQUIREMENTS = ["tensorboard==2.17.1", "numpy==1.26.4", "protobuf==4.25.8",
                "setuptools==69.5.1"]
READER = os.path.abspath("tests/integration/tensorboard_reader.py")

SPEC = """
model: "models/m"
config {
  input { token_embedding { embedding_size: 16 } }
  blocks { sru { hidden_size: 32 num_layers: 2 dropout: 0.2 } }
  output { linear {} }
  loss { kind: CROSS_ENTROPY }
}
data { local_file: "text.txt" }
format { text {} }
loader { batch_size: 8 unroll: 16 }
trainer { optimizer { adam {} } learning_rate { peak: 0.01 } seed: 3 }
max_steps: 3000
report_every_steps: 50
validation { fraction: 0.1 every_steps: 100 }
checkpoints { every_steps: 70 }
"""
TAGS = {
    "train/loss": "loss",
    "train/gradient_norm": "gradient_norm",
    "train/learning_rate": "learning_rate",
    "train/rows_per_second": "rows_per_second",
    "train/epoch": "epoch",
    "validation/loss": "validation_loss",
    "validation/accuracy": "validation_accuracy",
}


def float32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def seconds(time):
    return datetime.datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()


class TensorBoardTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        python = virtual_environment.python_with(*REQUIREMENTS)
        folder = cls.enterClassContext(recurve.Folder())
        data_dir = os.path.join(folder, "data")
        recurve.write(folder, "text.txt", "a stitch in time saves nine. " * 400)
        spec = recurve.write(folder, "m.textproto", SPEC)
        server = cls.enterClassContext(recurve.Server(data_dir))
        server.call("train", spec, "--job_id", "j")
        server.call("watch", "j")
        cls.job_folder = os.path.join(data_dir, "jobs", "j")
        with open(os.path.join(cls.job_folder, "metrics.csv"), encoding="utf-8") as file:
            cls.rows = list(csv.DictReader(file))
        result = subprocess.run([python, READER, cls.job_folder],
                                capture_output=True, text=True, check=False,
                                timeout=recurve.PATIENCE_SECONDS)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.scalars = json.loads(result.stdout)

    def test_has_a_row_a_report_and_a_row_an_evaluation(self):
        steps = [int(row["step"]) for row in self.rows if row["loss"]]
        self.assertEqual(steps, list(range(50, 3001, 50)))
        steps = [int(row["step"]) for row in self.rows if row["validation_loss"]]
        self.assertEqual(steps, list(range(100, 3001, 100)))
        numbers = [int(row["event"]) for row in self.rows]
        self.assertEqual(numbers, sorted(set(numbers)))

    def test_tensorboard_reads_the_numbers_of_the_csv(self):
        self.assertEqual(set(self.scalars), set(TAGS))
        for tag, column in TAGS.items():
            with self.subTest(tag):
                rows = [row for row in self.rows if row[column]]
                self.assertEqual(
                    [[int(row["step"]), float32(float(row[column]))] for row in rows],
                    [[step, value] for step, _, value in self.scalars[tag]])
                for row, (_, wall_time, _) in zip(rows, self.scalars[tag]):
                    self.assertAlmostEqual(seconds(row["time"]), wall_time, delta=1e-3)

    def test_keeps_the_newest_checkpoint(self):
        names = os.listdir(os.path.join(self.job_folder, "checkpoints"))
        self.assertEqual([name.split("-")[2] for name in names], ["3000.safetensors"])


if __name__ == "__main__":
    junit.main()
