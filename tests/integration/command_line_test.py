"""What the command line says to wrong input, and how: a message that names what
is wrong, the code, the exit status, and a server that stays up."""

import hashlib
import json
import os
import struct
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve

SUBCOMMANDS = [
    "models", "describe", "create", "import", "export", "delete", "datasets",
    "versions", "alias", "load", "unload", "delete-version",
    "delete-dataset", "predict", "evaluate", "generate", "train", "jobs", "watch", "pause",
    "resume", "cancel", "delete-job", "step", "plan", "devices", "health"]

TOKENS_CONFIG = """
input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
blocks { sru { hidden_size: 4 } }
output { linear { size: 5 } }
loss { kind: CROSS_ENTROPY }
"""
FEATURES_CONFIG = """
input { features { size: 3 } }
blocks { qrnn { hidden_size: 4 } }
output { linear { size: 2 } }
loss { kind: MEAN_SQUARED_ERROR }
"""
SPEC = """
model: "models/trained"
config { %s }
data { local_file: "abc.txt" }
format { text {} }
loader { batch_size: 1 unroll: 4 }
trainer { optimizer { sgd {} } learning_rate { peak: 0.1 } }
max_steps: 2
""" % TOKENS_CONFIG


def npy(shape, values, dtype="<f4"):
    """The bytes of a .npy file."""
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (
        dtype, ", ".join(map(str, shape)))
    header = header.replace(",)", ")") if len(shape) > 1 else header
    header = header.ljust(117) + "\n"
    code = {"<f4": "f", "<f8": "d"}[dtype]
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack("<%d%s" % (len(values), code), *values))


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


class CommandLineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(recurve.Folder())
        cls.server = cls.enterClassContext(recurve.Server(
            os.path.join(cls.folder, "data"),
            flags=["--data_root", cls.make("root/inside.txt", "abcde" * 20) and
                   os.path.join(cls.folder, "root")]))
        cls.make("abc.txt", "abcde" * 20)
        cls.vocabulary = cls.make("abc.json", json.dumps(list("abcde")))
        cls.tokens_config = cls.make("tokens.textproto", TOKENS_CONFIG)
        cls.features_config = cls.make("features.textproto", FEATURES_CONFIG)
        cls.spec = cls.make("spec.textproto", SPEC)
        cls.server.call("create", "tokens", "--config", cls.tokens_config, "--vocabulary",
                        cls.vocabulary, "--seed", "1")
        cls.server.call("create", "features", "--config", cls.features_config)

    @classmethod
    def make(cls, name, content):
        path = os.path.join(cls.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def expect_usage_error(self, *arguments):
        result = recurve.run(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        return result.stderr

    def expect_error(self, code, fragments, *arguments):
        """Exit status 1, and on stderr one line with the code and the fragments."""
        result = self.server.run(*arguments)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertIn("recurve: %s: " % code, result.stderr)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)
        self.assertIn("SERVING", self.server.run("health").stdout)

    def spec_with(self, old, new):
        self.assertIn(old, SPEC)
        return self.make("changed.textproto", SPEC.replace(old, new))

    # --- Usage ---

    def test_every_subcommand_has_help_with_an_example(self):
        for command in SUBCOMMANDS:
            with self.subTest(command):
                result = recurve.run(command, "--help")
                self.assertEqual(result.returncode, 0)
                self.assertIn("Example:\n  recurve " + command, result.stdout)

    def test_help_lists_every_subcommand(self):
        listed = recurve.run("--help").stdout
        for command in SUBCOMMANDS:
            self.assertRegex(listed, r"\n  %s +\w" % command)

    def test_wrong_usage_is_status_two(self):
        self.assertIn("frobnicate", self.expect_usage_error("frobnicate"))
        self.assertIn("subcommand", self.expect_usage_error())
        self.assertIn("--bogus", self.expect_usage_error("models", "--bogus"))
        self.assertIn("name", self.expect_usage_error("describe"))
        self.assertIn("--weights", self.expect_usage_error("import", "m", "--config", "f"))
        self.assertIn("--length", self.expect_usage_error(
            "generate", "m", "--prompt", "a", "--length", "0"))
        self.assertIn("--chunk", self.expect_usage_error(
            "evaluate", "m", "--data", "f", "--chunk", "-1"))

    def test_predict_takes_exactly_one_input(self):
        self.expect_usage_error("predict", "tokens")
        self.expect_usage_error("predict", "tokens", "--text", "a", "--tokens", "1")

    def test_an_alias_is_pointed_somewhere_or_deleted(self):
        self.expect_error("INVALID_ARGUMENT", ["--delete"], "alias", "tokens", "stable")
        self.assertIn("models/tokens/aliases/stable -> models/tokens/versions/1",
                      self.server.run("alias", "tokens", "stable", "1").stdout)
        self.assertIn("stable -> versions/1", self.server.run("models").stdout)
        described = self.server.call("describe", "tokens/aliases/stable")
        self.assertEqual(described["name"], "models/tokens/versions/1")
        self.server.call("alias", "tokens", "stable", "--delete")
        self.expect_error("NOT_FOUND", ["stable"], "describe", "tokens/aliases/stable")

    def test_a_version_is_loaded_at_a_precision_and_its_price_is_printed(self):
        self.server.call("create", "narrow", "--config", self.tokens_config, "--vocabulary",
                         self.vocabulary)
        self.assertIn("--precision", self.expect_usage_error("load", "narrow", "--precision", "fp8"))
        loaded = self.server.run("load", "narrow", "--precision", "int8",
                                 "--accuracy", os.path.join(self.folder, "abc.txt")).stdout
        self.assertIn(", loaded, int8", loaded)
        self.assertRegex(loaded, r"loss \d\.\d+, at fp32 \d\.\d+: [+-]\d+\.\d+%")
        self.assertEqual(self.server.call("describe", "narrow")["precision"], "INT8")
        self.server.call("load", "narrow", "--precision", "fp32")
        self.assertEqual(self.server.call("describe", "narrow")["precision"], "FLOAT32")
        self.server.call("delete", "narrow")

    def test_global_flags_work_before_and_after_the_subcommand(self):
        address = self.server.address
        outputs = [
            recurve.run("--server", address, "--json", "models").stdout,
            recurve.run("models", "--server", address, "--json").stdout,
            recurve.run("--json", "models", "--server", address).stdout,
            recurve.run("models", "--json",
                        env={**os.environ, "RECURVE_SERVER": address}).stdout]
        self.assertEqual(outputs, [outputs[0]] * 4)
        self.assertIn("models/tokens", outputs[0])

    def test_a_plan_needs_no_server(self):
        nowhere = {**os.environ, "RECURVE_SERVER": "127.0.0.1:1"}
        result = recurve.run("--json", "plan", self.spec, "--devices", "cpu:1,cpu:2",
                             env=nowhere)
        self.assertEqual(result.returncode, 0, result.stderr)
        plan = json.loads(result.stdout)
        self.assertEqual((plan["mode"], plan["rows"], plan["sequences"]), ("training", 4, 1))
        for device in plan["devices"]:
            self.assertEqual(device["planned_bytes"], sum(device["planned"].values()))
        refused = recurve.run("plan", self.spec, "--devices", "cpu:1:memory=1MiB", env=nowhere)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("budget of devices/0 1.0 MiB", refused.stderr)
        self.assertIn("--mode", self.expect_usage_error("plan", self.spec, "--mode", "fast"))

    def test_paths_are_relative_to_bazels_working_directory(self):
        environment = {**os.environ, "BUILD_WORKING_DIRECTORY": self.folder}
        result = self.server.run("evaluate", "tokens", "--data", "abc.txt", env=environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("99 rows", result.stdout)

    def test_json_is_one_object_on_one_line(self):
        out = os.path.join(self.folder, "out")
        uploaded = "upload-" + hashlib.sha256(b"abcde" * 20).hexdigest()[:40]
        checks = [
            ("models",), ("describe", "tokens"), ("datasets",), ("devices",), ("health",),
            ("jobs",), ("create", "other", "--config", self.tokens_config),
            ("export", "tokens", "--out", out),
            ("import", "again", "--weights", os.path.join(out, "model.safetensors"),
             "--config", os.path.join(out, "config.textproto")),
            ("import", "again", "--weights", os.path.join(out, "model.safetensors"),
             "--config", os.path.join(out, "config.textproto")),
            ("versions", "again"), ("alias", "again", "stable", "1"),
            ("alias", "again", "stable", "--delete"), ("load", "again/versions/2"),
            ("unload", "again/versions/1"), ("delete-version", "again/versions/1"),
            ("predict", "tokens", "--tokens", "1,2"),
            ("predict", "tokens", "--text", "abc", "--top_k", "2"),
            ("evaluate", "tokens", "--data", os.path.join(self.folder, "abc.txt")),
            ("generate", "tokens", "--prompt", "ab", "--length", "3"),
            ("train", self.spec, "--job_id", "json"), ("watch", "json"),
            ("train", self.spec_with("max_steps: 2", "max_steps: 1000000000"), "--job_id", "long"),
            ("pause", "long"), ("resume", "long"), ("cancel", "long"),
            ("delete-job", "json"),
            ("step", "--spec", self.spec, "--steps", "1"), ("plan", self.spec),
            ("delete", "other"), ("delete-dataset", uploaded)]
        self.assertEqual({check[0] for check in checks}, set(SUBCOMMANDS))
        for check in checks:
            with self.subTest(check[0]):
                result = self.server.run(*check, "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout.count("\n"), 1)
                self.assertIsInstance(json.loads(result.stdout), dict)

    # --- Names and connections ---

    def test_a_server_that_is_not_there(self):
        result = recurve.run("models", "--server", "127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("UNAVAILABLE", result.stderr)
        self.assertIn("127.0.0.1:1; --server or RECURVE_SERVER", result.stderr)

    def test_a_server_whose_device_can_hold_nothing_does_not_start(self):
        result = subprocess.run(
            [recurve.SERVER, "--data_dir", os.path.join(self.folder, "none"),
             "--devices", "cpu:1,cpu:1:memory=1MiB"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=recurve.PATIENCE_SECONDS, check=False)
        self.assertEqual(result.returncode, 1, result.stderr)
        for fragment in ("cpu:1:memory=1MiB", "budget is 1.0 MiB", "takes 2.3 MiB", "memory=SIZE"):
            self.assertIn(fragment, result.stderr)

    def test_datasets_are_deleted(self):
        self.server.call("train", self.spec, "--watch")
        names = [dataset["name"] for dataset in self.server.call("datasets")["datasets"]]
        self.assertNotEqual(names, [])
        for name in names:
            self.assertEqual(self.server.call("delete-dataset", name), {"deleted": name})
        self.assertEqual(self.server.call("datasets")["datasets"], [])

    def test_a_deadline_already_past(self):
        self.expect_error("DEADLINE_EXCEEDED", [], "models", "--timeout", "1e-9")

    def test_unknown_names(self):
        data = os.path.join(self.folder, "abc.txt")
        for arguments in [
                ("describe", "absent"), ("export", "absent", "--out", self.folder),
                ("delete", "absent"), ("predict", "absent", "--tokens", "1"),
                ("evaluate", "absent", "--data", data),
                ("generate", "absent", "--prompt", "a"), ("watch", "absent"),
                ("delete-dataset", "absent"), ("pause", "absent"), ("resume", "absent"), ("cancel", "absent")]:
            with self.subTest(arguments[0]):
                self.expect_error("NOT_FOUND", ["absent"], *arguments)
        self.expect_error("NOT_FOUND", ["tokens/versions/9"], "describe", "tokens/versions/9")

    def test_a_model_that_exists(self):
        self.expect_error("ALREADY_EXISTS", ["tokens"], "create", "tokens", "--config",
                          self.tokens_config)

    def test_a_name_that_is_none(self):
        self.expect_error("INVALID_ARGUMENT", ["No Name"], "create", "No Name", "--config",
                          self.tokens_config)

    def test_files_that_are_not_there(self):
        for arguments in [("create", "m", "--config", "absent.file"),
                          ("train", "absent.file"), ("step", "--spec", "absent.file"),
                          ("evaluate", "tokens", "--data", "absent.file"),
                          ("predict", "features", "--input", "absent.file")]:
            with self.subTest(arguments[0]):
                self.expect_error("NOT_FOUND", ["absent.file"], *arguments)

    # --- Configurations ---

    def expect_bad_config(self, fragments, text):
        path = self.make("bad.textproto", text)
        self.expect_error("INVALID_ARGUMENT", fragments, "create", "bad", "--config", path)

    def test_an_unknown_field(self):
        self.expect_bad_config(["bad.textproto:3", "hidden_sise"], TOKENS_CONFIG.replace(
            "hidden_size", "hidden_sise"))

    def test_an_impossible_config(self):
        self.expect_bad_config(["hidden_size"], TOKENS_CONFIG.replace(
            "hidden_size: 4", "hidden_size: 0"))
        self.expect_bad_config(["vocabulary_size"], TOKENS_CONFIG.replace(
            "vocabulary_size: 5", "vocabulary_size: -5"))
        self.expect_bad_config(["dropout", "1.5"], TOKENS_CONFIG.replace(
            "hidden_size: 4", "hidden_size: 4 dropout: 1.5"))
        self.expect_bad_config(["blocks"], "input { features { size: 3 } }")
        self.expect_bad_config(["input"], "")

    def test_a_vocabulary_that_is_none(self):
        for text in ("not json", '{"a": 1}', "[1, 2]"):
            path = self.make("bad.json", text)
            self.expect_error("INVALID_ARGUMENT", ["bad.json", "JSON array"], "create", "bad",
                              "--config", self.tokens_config, "--vocabulary", path)

    def test_a_vocabulary_of_another_size(self):
        path = self.make("four.json", json.dumps(list("abcd")))
        self.expect_error("INVALID_ARGUMENT", ["4", "5"], "create", "bad", "--config",
                          self.tokens_config, "--vocabulary", path)

    # --- Checkpoints ---

    def expect_bad_weights(self, code, fragments, content):
        path = self.make("bad.safetensors", content)
        self.expect_error(code, fragments, "import", "bad", "--config", self.tokens_config,
                          "--weights", path)
        self.expect_error("NOT_FOUND", [], "describe", "bad")

    def exported(self):
        out = os.path.join(self.folder, "weights")
        self.server.call("export", "tokens", "--out", out)
        content = recurve.read_bytes(out, "model.safetensors")
        size = struct.unpack("<Q", content[:8])[0]
        return json.loads(content[8:8 + size]), content[8 + size:]

    def test_a_checkpoint_cut_short(self):
        header, data = self.exported()
        whole = safetensors(header, data)
        self.expect_bad_weights("INVALID_ARGUMENT", [], b"")
        for length in (7, 30, len(whole) - 1):
            with self.subTest(length):
                self.expect_bad_weights(
                    "DATA_LOSS", ["DATA_LOSS: safetensors: the bytes end early"], whole[:length])

    def test_a_hostile_checkpoint(self):
        entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
        overflow = {"dtype": "F32", "shape": [2**62, 8], "data_offsets": [0, 8]}
        for content in [
                struct.pack("<Q", 2**63),
                safetensors(b"{" * 100000), safetensors({"a": entry, "b": entry}, b"\0" * 8),
                safetensors({"a": overflow}, b"\0" * 8),
                safetensors({"a": {**entry, "data_offsets": [8, 0]}}, b"\0" * 8),
                safetensors({"a": {**entry, "data_offsets": [0, 2**60]}}, b"\0" * 8),
                safetensors(b'{"a":%s,"a":%s}' % ((json.dumps(entry).encode(),) * 2),
                            b"\0" * 8)]:
            with self.subTest(content[:60]):
                self.expect_bad_weights("INVALID_ARGUMENT", [], content)

    def test_a_missing_a_surplus_and_a_misshapen_tensor(self):
        header, data = self.exported()
        name = next(key for key in header if key.endswith("weight_c"))
        renamed = {key if key != name else "stranger": value for key, value in header.items()}
        self.expect_bad_weights("INVALID_ARGUMENT", [name], safetensors(renamed, data))
        self.expect_bad_weights("INVALID_ARGUMENT", ["stranger"], safetensors(
            {**header, "stranger": {"dtype": "F32", "shape": [1], "data_offsets": [
                len(data), len(data) + 4]}}, data + b"\0" * 4))
        shape = header[name]["shape"]
        reshaped = {**header[name], "shape": [shape[0] // 2, 2]}
        self.expect_bad_weights(
            "INVALID_ARGUMENT", [name], safetensors({**header, name: reshaped}, data))

    # --- Inputs ---

    def test_tokens_out_of_range(self):
        self.expect_error("INVALID_ARGUMENT", ["7", "2"], "predict", "tokens", "--tokens",
                          "1,2,7")
        self.expect_error("INVALID_ARGUMENT", ["-1"], "predict", "tokens", "--tokens=-1")

    def test_text_outside_the_vocabulary(self):
        self.expect_error("INVALID_ARGUMENT", ["xyz", "byte 3"], "predict", "tokens", "--text",
                          "abcxyz")
        path = self.make("xyz.txt", "abcdexabc")
        self.expect_error("INVALID_ARGUMENT", ["x", "5"], "evaluate", "tokens", "--data", path)

    def test_no_steps_at_all(self):
        self.expect_error("INVALID_ARGUMENT", [], "predict", "tokens", "--text", "")
        self.expect_error("INVALID_ARGUMENT", ["--prompt"], "generate", "tokens", "--prompt", "")
        path = self.make("empty.txt", "")
        self.expect_error("INVALID_ARGUMENT", [], "evaluate", "tokens", "--data", path)

    def test_the_wrong_kind_of_input(self):
        path = self.make("good.npy", npy((2, 3), [0.5] * 6))
        self.assertEqual(self.server.run("predict", "features", "--input", path).returncode, 0)
        self.expect_error("INVALID_ARGUMENT", [], "predict", "features", "--tokens", "1")
        self.expect_error("INVALID_ARGUMENT", [], "predict", "tokens", "--input", path)
        self.expect_error("FAILED_PRECONDITION", ["language model"], "generate", "features",
                          "--prompt", "a")

    def expect_bad_features(self, fragments, content):
        path = self.make("bad.npy", content)
        self.expect_error("INVALID_ARGUMENT", fragments, "predict", "features", "--input", path)

    def test_features_that_are_wrong(self):
        self.expect_bad_features(["nan"], npy((1, 3), [1, float("nan"), 1]))
        self.expect_bad_features(["inf"], npy((1, 3), [1, 1, float("-inf")]))
        self.expect_bad_features(["3"], npy((2, 2), [1] * 4))
        self.expect_bad_features(["float32"], npy((1, 3), [1] * 3, "<f8"))
        self.expect_bad_features(["float32"], npy((3,), [1] * 3))
        self.expect_bad_features(["bytes"], npy((2, 3), [1] * 5))
        self.expect_bad_features(["float32"], b"not an array")

    # --- Training specs ---

    def expect_bad_spec(self, code, fragments, old, new):
        path = self.spec_with(old, new)
        self.expect_error(code, fragments, "train", path)

    def test_specs_that_are_wrong(self):
        self.expect_bad_spec("INVALID_ARGUMENT", ["max_steps"], "max_steps: 2", "")
        self.expect_bad_spec("INVALID_ARGUMENT", ["changed.textproto:", "lerning"],
                             "learning_rate", "lerning_rate")
        self.expect_bad_spec("INVALID_ARGUMENT", ["model"], '"models/trained"', '""')
        self.expect_bad_spec("INVALID_ARGUMENT", ["batch_size"], "batch_size: 1", "")
        self.expect_bad_spec("NOT_FOUND", ["absent.txt"], "abc.txt", "absent.txt")

    def test_a_path_outside_the_allowed_root(self):
        local = 'local_file: "abc.txt"'
        spec = self.spec_with(local, 'server_path: "inside.txt"')
        self.assertEqual(self.server.run("train", spec, "--watch").returncode, 0)
        for path in ("../abc.txt", "/etc/passwd"):
            with self.subTest(path):
                spec = self.spec_with(local, 'server_path: "%s"' % path)
                result = self.server.run("train", spec, "--watch")
                self.assertEqual(result.returncode, 1)
                self.assertIn(path, result.stderr)

    def test_a_job_that_fails_says_why(self):
        spec = self.spec_with('local_file: "abc.txt"', 'dataset: "datasets/absent"')
        result = self.server.run("train", spec, "--watch")
        self.assertEqual(result.returncode, 1)
        self.assertIn("datasets/absent", result.stderr)

    def test_the_same_request_id_is_the_same_job(self):
        first = self.server.call("train", self.spec, "--request_id", "once")
        again = self.server.call("train", self.spec, "--request_id", "once")
        self.assertEqual(first["name"], again["name"])


if __name__ == "__main__":
    junit.main()
