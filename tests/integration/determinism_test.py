"""One spec gives one sha256 of weights on any number of devices and threads,
trained by a job or by Step calls."""

import hashlib
import json
import os
import random
import unittest

from tests.integration import junit
from tests.integration import recurve

CLASSES = 48
TOKENS = 90
BATCH_SIZE = 24
LONG = 4500  # rows of one sequence; a micro-batch of its own
MICRO_BATCH_ROWS = 1024

# Two epochs of eight batches: eight optimizer steps.
SPEC = """
model: "models/ragged"
config {
  input { token_embedding { vocabulary_size: %d embedding_size: 40 } dropout: 0.1 }
  blocks {
    sru { hidden_size: 48 num_layers: 2 dropout: 0.2 rnn_dropout: 0.2 layer_norm: true }
  }
  output { linear { size: %d } dropout: 0.2 }
  loss { kind: CROSS_ENTROPY }
}
data { local_file: "ragged.jsonl" }
format { json_lines {} }
loader { batch_size: %d }
trainer {
  optimizer { adamw { weight_decay: 0.01 } }
  learning_rate { peak: 0.003 warmup_cosine { warmup_steps: 2 total_steps: 8 } }
  max_gradient_norm: 0.5
  accumulation_steps: 2
  micro_batch_rows: %d
  seed: 77
}
max_epochs: 2
report_every_steps: 1
""" % (TOKENS, CLASSES, BATCH_SIZE, MICRO_BATCH_ROWS)

def write_data(folder):
    """Ragged lines of tokens with a label a step; returns their lengths."""
    draw = random.Random(5)
    lengths = [draw.randint(1, 700) for _ in range(8 * BATCH_SIZE)]
    lengths[31] = LONG
    with open(os.path.join(folder, "ragged.jsonl"), "w", encoding="utf-8") as file:
        for length in lengths:
            tokens = [draw.randrange(TOKENS) for _ in range(length)]
            labels = [(token * 7 + i) % CLASSES for i, token in enumerate(tokens)]
            json.dump({"tokens": tokens, "labels": labels}, file)
            file.write("\n")
    return lengths


def sha256_of_weights(server, version, folder):
    out = os.path.join(folder, version.replace("/", "-"))
    server.call("export", version, "--out", out)
    return hashlib.sha256(recurve.read_bytes(out, "model.safetensors")).hexdigest()


class DeterminismTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(recurve.Folder())
        cls.rows = 2 * sum(write_data(cls.folder))
        cls.spec = recurve.write(cls.folder, "ragged.textproto", SPEC)
        cls.first = {}  # what the first case gave; the others must give the same

    def train(self, server, devices):
        job = server.call("train", self.spec, "--watch")
        self.assertEqual((job["state"], job["step"]), ("SUCCEEDED", 8))
        self.expect_work(job["devices"], devices)
        return job

    def expect_work(self, times, devices):
        """Every device worked, and together they did it all."""
        self.assertEqual(len(times), devices)
        self.assertEqual(sum(time["rows"] for time in times), self.rows)
        for time in times:
            self.assertGreater(time["rows"], self.rows / devices / 3)
            self.assertGreater(time["micro_batches"], 0)
            self.assertGreater(time["compute_ms"], 0)
        # Seven micro-batches or more in each of 16 batches.
        self.assertGreaterEqual(sum(time["micro_batches"] for time in times), 16 * 7)

    def expect_same(self, what, value):
        self.assertEqual(self.first.setdefault(what, value), value)

    def check(self, devices, threads):
        folder = os.path.join(self.folder, self.id().rpartition(".")[2])
        environment = {"OMP_NUM_THREADS": threads} if threads else {}
        with recurve.Server(folder, devices, environment=environment) as server:
            job = self.train(server, devices.count(",") + 1)
            self.expect_same("weights", sha256_of_weights(server, job["model_version"], folder))
            self.expect_same("loss", job["loss"])
            stepped = server.call("step", "--spec", self.spec)
            self.assertEqual(stepped["step"], 8)
            self.expect_work(stepped["devices"], devices.count(",") + 1)
            self.assertNotEqual(stepped["model_version"], job["model_version"])
            self.expect_same(
                "weights", sha256_of_weights(server, stepped["model_version"], folder))

    def test_one_device_of_one_thread(self):
        self.check("cpu:1", "1")

    def test_one_device_of_two_threads(self):
        self.check("cpu:2", "2")

    def test_two_devices(self):
        self.check("cpu:1,cpu:1", "3")

    def test_three_devices(self):
        self.check("cpu:1,cpu:1,cpu:1", "1")

    def test_unlike_devices(self):
        self.check("cpu:3,cpu:1", None)

    def test_weights_depend_on_the_seed(self):
        other = recurve.write(self.folder, "seed.textproto", SPEC.replace("seed: 77", "seed: 78"))
        folder = os.path.join(self.folder, "seeds")
        with recurve.Server(folder, "cpu:2") as server:
            weights = {
                sha256_of_weights(
                    server,
                    server.call("step", "--spec", spec, "--steps", "1")["model_version"], folder)
                for spec in (self.spec, other)}
        self.assertEqual(len(weights), 2)


if __name__ == "__main__":
    junit.main()
