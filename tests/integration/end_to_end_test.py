"""Checkpoints of the PyTorch libraries, imported by the command line, give the
libraries' own numbers over RPC, and survive export and import."""

import json
import os
import shutil
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve
from tests.integration import safetensors

HELD_OUT = os.path.join(recurve.CHECKPOINTS, "heldout.txt")
PROMPT = "In the beginning"
TOLERANCE = 1e-5  # nats a character, of the mean loss


def checkpoint(name):
    return os.path.join(recurve.CHECKPOINTS, name)


class EndToEndTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(recurve.Folder())
        cls.server = cls.enterClassContext(recurve.Server(
            os.path.join(cls.folder, "data"), devices="cpu:1,cpu:1"))
        for cell in ("sru", "qrnn"):
            cls.import_model(cell, checkpoint(cell + "_charlm.textproto"),
                             checkpoint(cell + "_charlm.safetensors"),
                             checkpoint("vocab.json"))

    @classmethod
    def import_model(cls, name, config, weights, vocabulary):
        return cls.server.call("import", name, "--config", config, "--weights", weights,
                               "--vocabulary", vocabulary)

    def expect_loss(self, expected, model, *options):
        result = self.server.call("evaluate", model, "--data", HELD_OUT, *options)
        self.assertEqual(result["rows"], 24000)
        self.assertEqual(result["weight"], 24000)
        self.assertAlmostEqual(result["loss"], expected, delta=TOLERANCE)

    def test_sru_loss_with_state_carried(self):
        self.expect_loss(1.2137655442, "sru", "--chunk", "1000", "--carry_state")
        self.expect_loss(1.2137655504, "sru", "--chunk", "7", "--carry_state")

    def test_qrnn_loss_with_state_carried(self):
        self.expect_loss(1.2396027173, "qrnn", "--chunk", "1000", "--carry_state")
        self.expect_loss(1.2396027194, "qrnn", "--chunk", "7", "--carry_state")

    def test_the_whole_text_at_once_is_as_carried(self):
        self.expect_loss(1.2137655551, "sru")
        self.expect_loss(1.2396027201, "qrnn")

    def test_loss_with_state_not_carried(self):
        self.expect_loss(1.2183331376, "sru", "--chunk", "1000")
        self.expect_loss(1.2448642512, "qrnn", "--chunk", "1000")
        self.expect_loss(1.3201398295, "sru", "--chunk", "50")
        self.expect_loss(1.3419726864, "qrnn", "--chunk", "50")

    def test_qrnn_that_does_not_save_its_previous_input(self):
        with open(checkpoint("qrnn_charlm.textproto"), encoding="utf-8") as file:
            config = file.read()
        self.assertIn("save_prev_x: true", config)
        config = config.replace("save_prev_x: true", "save_prev_x: false")
        self.import_model("forgetful", recurve.write(self.folder, "forgetful.textproto", config),
                          checkpoint("qrnn_charlm.safetensors"), checkpoint("vocab.json"))
        self.expect_loss(1.2683076034, "forgetful", "--chunk", "50", "--carry_state")

    def test_predict_gives_the_libraries_logits(self):
        with open(HELD_OUT, encoding="ascii") as file:
            text = file.read(64)
        for cell in ("sru", "qrnn"):
            with self.subTest(cell):
                reference = safetensors.read(checkpoint(cell + "_charlm.reference.safetensors"))
                tokens = ",".join(map(str, reference["input_ids"]))
                by_text = self.server.call("predict", cell, "--text", text)
                by_tokens = self.server.call("predict", cell, "--tokens", tokens)
                self.assertEqual(by_text["logits"], by_tokens["logits"])
                logits = [value for row in by_text["logits"] for value in row]
                expected = reference["logits_f64"]
                self.assertEqual(len(logits), len(expected))
                worst = max(abs(a - b) for a, b in zip(logits, expected))
                self.assertLessEqual(worst / max(map(abs, expected)), 1e-5)

    def test_top_k_are_the_largest_logits(self):
        logits = self.server.call("predict", "sru", "--text", "And God sai")["logits"][-1]
        top = self.server.call("predict", "sru", "--text", "And God sai", "--top_k", "3")
        order = sorted(range(len(logits)), key=lambda i: -logits[i])
        self.assertEqual(top["top_k"][-1]["classes"], order[:3])
        said = self.server.run("predict", "sru", "--text", "And God sai", "--top_k", "1")
        self.assertIn('10:  "d" 0.9', said.stdout)

    def generate(self, model, *options):
        return self.server.call("generate", model, "--prompt", PROMPT, "--length", "80",
                                *options)["text"]

    def test_generate_without_temperature_takes_the_most_probable(self):
        text = self.generate("sru", "--temperature", "0")
        self.assertEqual(len(text), 80)
        top = self.server.call("predict", "sru", "--text", PROMPT + text, "--top_k", "1")["top_k"]
        vocabulary = json.loads(recurve.read_bytes(checkpoint("vocab.json")))
        predicted = "".join(vocabulary[row["classes"][0]] for row in top)
        self.assertEqual(predicted[len(PROMPT) - 1:-1], text)

    def test_generate_is_a_function_of_the_seed(self):
        first = self.generate("qrnn", "--seed", "5")
        self.assertEqual(self.generate("qrnn", "--seed", "5"), first)
        self.assertNotEqual(self.generate("qrnn", "--seed", "6"), first)

    def test_generate_ends_before_a_stop_string(self):
        whole = self.generate("sru", "--temperature", "0")
        stop = whole[30:34]
        stopped = self.generate("sru", "--temperature", "0", "--stop", "never", "--stop", stop)
        self.assertEqual(stopped, whole[:whole.index(stop)])

    def test_samples_come_with_their_log_probabilities(self):
        result = self.server.call(
            "generate", "sru", "--prompt", PROMPT, "--length", "20", "--n", "2", "--seed", "5",
            "--top_k", "5", "--top_p", "0.9", "--repetition_penalty", "1.1", "--logprobs", "3")
        self.assertEqual(result["seed"], 5)
        self.assertEqual(result["text"], result["samples"][0]["text"])
        self.assertEqual(len(result["samples"]), 2)
        for sample in result["samples"]:
            self.assertEqual(sample["finish_reason"], "LENGTH")
            self.assertEqual(len(sample["tokens"]), 20)
            self.assertEqual(len(sample["log_probabilities"]), 20)
            self.assertEqual([len(top["tokens"]) for top in sample["top"]], [3] * 20)
        said = self.server.run("generate", "sru", "--prompt", PROMPT, "--length", "20", "--n", "2",
                               "--seed", "5")
        self.assertIn("--- 1\n" + PROMPT, said.stdout)

    def test_generate_goes_on_with_a_session(self):
        def go_on(prompt, *options):
            return self.server.call("generate", "sru", "--prompt", prompt, "--length", "10",
                                    "--temperature", "0", *options)
        first = go_on(PROMPT, "--session", "talk", "--start")
        second = go_on(" and ", "--session", "talk")
        self.assertEqual(second["text"], go_on(PROMPT + first["text"] + " and ")["text"])
        self.assertEqual(second["samples"][0]["position"], len(PROMPT) + 25)
        self.server.call("delete-session", "talk")

    def test_an_export_imports_as_the_same_bytes(self):
        for cell in ("sru", "qrnn"):
            with self.subTest(cell):
                out = os.path.join(self.folder, cell)
                files = self.server.call("export", cell, "--out", out)["files"]
                names = sorted(map(os.path.basename, files))
                self.assertEqual(
                    names, ["config.textproto", "model.safetensors", "vocabulary.json"])
                again = self.import_model(cell + "-again", *(
                    os.path.join(out, name) for name in names))
                self.assertEqual(again["sha256"], self.server.call("describe", cell)["sha256"])
                second = os.path.join(self.folder, cell + "-again")
                self.server.call("export", cell + "-again", "--out", second)
                for name in names:
                    self.assertEqual(
                        recurve.read_bytes(out, name), recurve.read_bytes(second, name), name)

    def test_an_export_has_the_checkpoints_tensors(self):
        for cell in ("sru", "qrnn"):
            with self.subTest(cell):
                out = os.path.join(self.folder, cell + "-tensors")
                self.server.call("export", cell, "--out", out)
                exported = safetensors.read(os.path.join(out, "model.safetensors"))
                original = safetensors.read(checkpoint(cell + "_charlm.safetensors"))
                self.assertEqual(exported.keys(), original.keys())
                for name, tensor in original.items():
                    self.assertEqual(exported[name], tensor, name)


class ExamplesTest(unittest.TestCase):
    """The specs of deploy/examples run."""

    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(cls.enterClassContext(recurve.Folder()), "examples")
        shutil.copytree(recurve.EXAMPLES, cls.folder)
        cls.text = os.path.join(cls.folder, "text.txt")
        subprocess.run([os.path.join(cls.folder, "make_text"), cls.text], check=True)
        cls.server = cls.enterClassContext(recurve.Server(
            os.path.join(cls.folder, "data"), devices="cpu:2"))

    def write_spec(self, name, **changes):
        """The example with other values for some of its top-level fields."""
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            lines = file.read().splitlines()
        kept = [line for line in lines if line.partition(":")[0] not in changes]
        kept += ["%s: %s" % change for change in changes.items()]
        return recurve.write(self.folder, "changed_" + name, "\n".join(kept))

    def test_each_spec_trains_a_step(self):
        specs = [name for name in os.listdir(recurve.EXAMPLES) if name.endswith(".textproto")]
        self.assertGreaterEqual(len(specs), 4)
        for name in specs:
            with self.subTest(name):
                spec = os.path.join(self.folder, name)
                result = self.server.call("step", "--spec", spec, "--steps", "1")
                self.assertEqual(result["step"], 1)
                self.assertGreater(result["rows"], 0)

    def test_the_classifier_learns(self):
        spec = os.path.join(self.folder, "classify.textproto")
        job = self.server.call("train", spec, "--watch")
        self.assertEqual(job["state"], "SUCCEEDED")
        self.assertEqual(job["step"], 80)
        data = os.path.join(self.folder, "sequences.jsonl")
        result = self.server.call("evaluate", "larger-sum", "--data", data)
        self.assertEqual(result["weight"], 128)
        self.assertGreater(result["accuracy"], 0.9)

    def test_a_text_job_reports_publishes_and_is_listed(self):
        spec = self.write_spec("char_sru.textproto", max_steps=3, report_every_steps=1)
        watched = self.server.run("train", spec, "--watch", "--job_id", "three")
        self.assertEqual(watched.returncode, 0, watched.stderr)
        self.assertEqual(watched.stderr.count("rows/s"), 3)
        self.assertIn("held-out loss", watched.stdout)
        job = self.server.call("watch", "three")
        self.assertEqual((job["state"], job["step"]), ("SUCCEEDED", 3))
        self.assertLess(job["held_out_loss"], 5)
        self.assertIn("jobs/three", [j["name"] for j in self.server.call("jobs")["jobs"]])
        version = self.server.call("describe", job["model_version"])
        self.assertEqual(version["source"], "jobs/three")
        self.assertEqual(
            version["vocabulary"], sorted(set(recurve.read_bytes(self.text).decode())))

    def test_a_cancelled_job_ends(self):
        spec = self.write_spec("char_sru.textproto", max_steps=100000)
        self.server.call("train", spec, "--job_id", "endless")
        self.server.call("cancel", "endless")
        watched = self.server.run("watch", "endless", "--json")
        self.assertEqual(watched.returncode, 1)
        self.assertIn("was cancelled", watched.stderr)
        self.assertIn('"state":"CANCELLED"', watched.stdout)


if __name__ == "__main__":
    junit.main()
