"""Trainers that clients drive: kills in between, weights in training."""

import os
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve

SPEC = """
model: "models/%s"
config {
  input { token_embedding { embedding_size: 16 } }
  blocks { sru { hidden_size: 24 num_layers: 2 dropout: 0.1 } }
  output { linear {} }
  loss { kind: CROSS_ENTROPY }
}
data { local_file: "text.txt" }
format { text {} }
loader { batch_size: 4 unroll: 8 }
trainer { optimizer { adam {} } learning_rate { peak: 0.01 } accumulation_steps: 2 }
max_steps: 150
"""
CALLS = 300


class TrainersTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        self.data_dir = os.path.join(self.folder, "data")
        recurve.write(self.folder, "text.txt", "a stitch in time saves nine. " * 400)

    def start(self, *flags, **options):
        return recurve.Server(self.data_dir, flags=flags, **options).start()

    def spec(self, model):
        return recurve.write(self.folder, model + ".textproto", SPEC % model)

    def finish(self, server):
        """Ends the server as a context would."""
        server.__exit__(None)

    def trainer(self, server, name):
        found = [trainer for trainer in server.call("trainers")["trainers"]
                 if trainer["name"] == "trainers/" + name]
        return found[0] if found else None

    def start_steps(self, server, model, *options):
        return subprocess.Popen(
            [recurve.CLIENT, "--json", "step", "--spec", self.spec(model), *options,
             "--server", server.address],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill_at(self, server, name, number):
        """Kills the server in the middle of calls; what was on disk before."""
        trainer = recurve.wait_until(
            lambda: (lambda t: t and t["saved_number"] >= number and t)(
                self.trainer(server, name)), "call %d" % number)
        server.process.kill()
        server.wait()
        return trainer

    def run_with_kills(self, model, *options):
        """The sha256 of a training whose server is killed again and again, and
        what had been saved before each kill, with what was there after it."""
        server = self.start()
        client = self.start_steps(server, model, "--trainer", model, *options)
        saved = []
        for number in (CALLS // 10, CALLS // 3, CALLS // 2):
            before = self.kill_at(server, model, number)
            server = self.start(listen=server.address)
            saved.append((before["saved_number"], self.trainer(server, model)["last_number"]))
        output, errors = client.communicate(timeout=recurve.PATIENCE_SECONDS)
        self.assertEqual(client.returncode, 0, errors)
        self.assertEqual(self.trainer(server, model)["last_number"], CALLS)
        sha256 = server.call("describe", model)["sha256"]
        self.finish(server)
        return sha256, saved

    def undisturbed(self, model):
        server = self.start()
        server.call("step", "--spec", self.spec(model))
        sha256 = server.call("describe", model)["sha256"]
        self.finish(server)
        return sha256

    def test_killed_again_and_again_it_ends_with_the_same_weights(self):
        expected = self.undisturbed("undisturbed")
        sha256, saved = self.run_with_kills("each", "--save_every_calls", "1")
        self.assertEqual(sha256, expected)
        for before, after in saved:
            self.assertGreaterEqual(after, before, "an acknowledged call was lost")

    def test_saved_now_and_then_it_ends_with_the_same_weights_too(self):
        expected = self.undisturbed("undisturbed")
        sha256, _ = self.run_with_kills("seventh", "--save_every_calls", "7")
        self.assertEqual(sha256, expected)

    def test_a_stop_loses_nothing(self):
        server = self.start()
        client = self.start_steps(server, "lm", "--trainer", "t")
        recurve.wait_until(
            lambda: (self.trainer(server, "t") or {}).get("last_number", 0) >= 20, "20 calls")
        client.kill()
        client.communicate()
        before = self.trainer(server, "t")
        self.finish(server)
        server = self.start()
        after = self.trainer(server, "t")
        self.assertGreaterEqual(after["last_number"], before["last_number"])
        self.assertEqual(after["last_number"], after["saved_number"])
        self.assertFalse(after["loaded"])
        self.finish(server)

    def test_the_weights_in_training_serve(self):
        with recurve.Server(self.data_dir) as server:
            result = server.call("step", "--spec", self.spec("lm"), "--trainer", "t")
            for model in ("trainers/t", result["model_version"]):
                predicted = server.call("predict", model, "--text", "a stitch")
                self.assertEqual(predicted["model_version"], model)
                text = server.call("generate", model, "--prompt", "a st", "--length", "30",
                                   "--temperature", "0")["text"]
                loss = server.call("evaluate", model, "--data",
                                   os.path.join(self.folder, "text.txt"))["loss"]
                if model == "trainers/t":
                    expected = (predicted["logits"], text, loss)
            self.assertEqual((predicted["logits"], text, loss), expected)

    def test_checkpoints_come_and_go(self):
        with recurve.Server(self.data_dir) as server:
            spec = self.spec("lm")
            server.call("step", "--spec", spec, "--steps", "10", "--trainer", "t")
            kept = server.call("save-trainer", "t", "--checkpoint", "ten")
            self.assertEqual(kept["name"], "trainers/t/checkpoints/ten")
            self.assertEqual((kept["step"], kept["last_number"]), (10, 20))
            before = server.call("describe", "lm")
            more = server.call("step", "--spec", spec, "--steps", "15", "--trainer", "t")
            self.assertEqual((more["step"], more["model_version"]), (15, "models/lm/versions/2"))
            self.assertEqual(server.call("checkpoints", "t")["checkpoints"], [kept])
            self.assertEqual(server.call("load-trainer", "t", "ten")["step"], 10)
            again = server.call("publish", "t", "--request_id", "once")["model_version"]
            self.assertEqual(again, server.call("publish", "t", "--request_id", "once")
                             ["model_version"])
            self.assertEqual(server.call("describe", again)["sha256"], before["sha256"])
            server.call("delete-trainer", "t")
            self.assertEqual(server.call("trainers")["trainers"], [])
            self.assertEqual(os.listdir(os.path.join(self.data_dir, "trainers")), [])

    def test_steps_that_a_trainer_has_had_are_not_published_again(self):
        with recurve.Server(self.data_dir) as server:
            spec = self.spec("lm")
            server.call("step", "--spec", spec, "--steps", "5", "--trainer", "t")
            for steps in ("4", "5"):
                refused = server.run("step", "--spec", spec, "--steps", steps, "--trainer", "t")
                self.assertEqual(refused.returncode, 1)
                self.assertIn("FAILED_PRECONDITION: trainers/t has had all", refused.stderr)
            other = server.run("step", "--spec", self.spec("other"), "--trainer", "t")
            self.assertIn("trains models/lm, not the spec's models/other", other.stderr)
            self.assertEqual([model["name"] for model in server.call("models")["models"]],
                             ["models/lm"])
            self.assertEqual(server.call("describe", "lm")["name"], "models/lm/versions/1")

    def test_idle_trainers_leave_memory_and_come_back(self):
        server = self.start("--trainer_idle_timeout=200ms")
        server.call("step", "--spec", self.spec("lm"), "--steps", "3", "--trainer", "t")
        recurve.wait_until(lambda: not self.trainer(server, "t")["loaded"], "it is idle")
        self.assertEqual(self.trainer(server, "t")["saved_step"], 3)
        result = server.call("step", "--spec", self.spec("lm"), "--steps", "5", "--trainer", "t")
        self.assertEqual(result["step"], 5)
        self.finish(server)


if __name__ == "__main__":
    junit.main()
