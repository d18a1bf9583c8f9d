"""PyPI's tritonclient[grpc], unchanged, against the real server.

What the client saw is asserted here; tritonclient_client.py has the calls."""

import json
import os
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve
from tests.integration import virtual_environment

REQUIREMENTS = ["tritonclient[grpc]==2.73.0", "grpcio==1.82.3", "grpcio-reflection==1.76.0",
                "protobuf==6.33.6", "numpy==2.4.6"]
CLIENT = os.path.abspath("tests/integration/tritonclient_client.py")

FEATURES = """
input { features { size: 4 } }
blocks { qrnn { hidden_size: 8 window: 2 save_prev_x: true } }
output { linear { size: 3 } }
loss { kind: CROSS_ENTROPY }
"""
TOKENS = """
input { token_embedding { vocabulary_size: 73 embedding_size: 8 } }
blocks { sru { hidden_size: 8 %s } }
output { linear { size: 73 } }
loss { kind: CROSS_ENTROPY }
"""


class TritonClientTest(unittest.TestCase):

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        python = virtual_environment.python_with(*REQUIREMENTS)
        folder = cls.enterClassContext(recurve.Folder())
        server = cls.enterClassContext(
            recurve.Server(os.path.join(folder, "data"), devices="cpu:1,cpu:1"))
        checkpoint = os.path.join(recurve.CHECKPOINTS, "sru_charlm")
        for _ in range(2):  # versions 1 and 2
            server.call("import", "lm", "--config", checkpoint + ".textproto",
                        "--weights", checkpoint + ".safetensors",
                        "--vocabulary", os.path.join(recurve.CHECKPOINTS, "vocab.json"))
        for name, config in (("features", FEATURES), ("spare", TOKENS % ""),
                             ("tagger", TOKENS % "bidirectional: true")):
            server.call("create", name, "--config",
                        recurve.write(folder, name + ".textproto", config))
        with open(os.path.join(recurve.CHECKPOINTS, "vocab.json"), encoding="utf-8") as file:
            cls.vocabulary = json.load(file)
        result = subprocess.run([python, CLIENT, server.address],
                                capture_output=True, text=True, check=False,
                                timeout=recurve.PATIENCE_SECONDS)
        if result.returncode != 0:
            raise AssertionError(result.stderr + server.log())
        cls.seen = json.loads(result.stdout)

    def assert_error(self, error, code, *words):
        """`error` is [code, message] as the client has it."""
        self.assertIsNotNone(error)
        self.assertEqual(error[0], "StatusCode." + code, error)
        for word in words:
            self.assertIn(word, error[1])

    # --- What there is ---

    def test_lives_and_is_ready(self):
        seen = self.seen["server"]
        self.assertTrue(seen["live"] and seen["ready"])
        self.assertEqual(seen["name"], "recurve")
        self.assertLessEqual({"sequence", "statistics", "model_repository",
                              "system_shared_memory"}, set(seen["extensions"]))

    def test_messages_have_the_clients_numbers_and_types(self):
        seen = self.seen["contract"]
        self.assertEqual(seen["different"], [])
        self.assertEqual(seen["methods"], seen["their_methods"])
        self.assertGreater(seen["messages"], 40)

    def test_models_say_what_they_take_and_give(self):
        seen = self.seen["models"]
        self.assertEqual(seen["ready"], [True, True, False, False])
        self.assertEqual(seen["metadata"], {
            "name": "lm", "versions": ["1", "2"], "platform": "recurve",
            "inputs": [
                {"name": "tokens", "datatype": "INT32", "shape": ["-1", "-1"]},
                {"name": "lengths", "datatype": "INT32", "shape": ["-1", "1"]}],
            "outputs": [
                {"name": "logits", "datatype": "FP32", "shape": ["-1", "-1", "73"]},
                {"name": "probabilities", "datatype": "FP32", "shape": ["-1", "-1", "73"]},
                {"name": "classes", "datatype": "INT32", "shape": ["-1", "-1"]}]})
        self.assertEqual(seen["feature_metadata"]["inputs"][0],
                         {"name": "features", "datatype": "FP32", "shape": ["-1", "-1", "4"]})
        self.assert_error(seen["unknown"], "NOT_FOUND", "absent")

    def test_the_configuration_chooses_the_mode_of_load_generators(self):
        config = self.seen["models"]["config"]
        self.assertIn("sequence_batching", config)
        self.assertGreater(config["max_batch_size"], 0)
        self.assertEqual([tensor["name"] for tensor in config["input"]], ["tokens", "lengths"])
        self.assertTrue(config["input"][1]["optional"])
        self.assertIn("dynamic_batching", self.seen["models"]["plain_config"])

    # --- Inference ---

    def test_infers_what_predict_predicts(self):
        seen = self.seen["infer"]
        self.assertEqual(seen["id"], "r")
        self.assertEqual(seen["shapes"], [[2, 9, 73], [2, 9]])
        for fact in ("as_predict", "padding_is_zero", "classes_are_largest", "int64_as_int32"):
            self.assertTrue(seen[fact], fact)
        self.assertAlmostEqual(seen["probabilities"], 1, delta=1e-5)

    def test_infers_features(self):
        self.assertEqual(self.seen["feature_infer"],
                         {"shape": [3, 7, 3], "half_as_full": True})

    def test_further_outputs_come_by_name(self):
        seen = self.seen["further_outputs"]
        self.assertEqual(seen["hidden"], [1, 4, 192])
        self.assertEqual(seen["top"], [4, 3])
        self.assertTrue(seen["top_are_largest"])
        self.assert_error(seen["needs_top_k"], "INVALID_ARGUMENT", "top_k")

    def test_classification_has_the_vocabularys_words(self):
        seen = self.seen["classification"]
        self.assertEqual(seen["shape"], [2, 3, 2])
        self.assertTrue(seen["largest"] and seen["value"])
        self.assertEqual(seen["label"], self.vocabulary[seen["index"]])
        self.assertEqual(seen["padding"], "")

    def test_versions_by_number_and_alias(self):
        seen = self.seen["versions"]
        self.assertEqual(seen["answered"], ["2", "1", "2", "1"])
        for error in seen["unknown"]:
            self.assert_error(error, "NOT_FOUND")

    def test_async_calls(self):
        self.assertEqual(self.seen["async"], {"equal": True, "count": 32})
        self.assertEqual(self.seen["aio"], {
            "steps": list(range(1, 17)), "streamed": [3, 1, 2], "live": True})

    def test_messages_beyond_the_default_limit_of_clients(self):
        seen = self.seen["large_messages"]
        self.assertGreater(seen["bytes"], 8 << 20)
        self.assertTrue(seen["compressed_request_as_plain"])

    def test_errors_say_what_is_wrong(self):
        errors = self.seen["errors"]
        for name, code, words in (
                ("unknown_model", "NOT_FOUND", ["absent"]),
                ("unknown_input", "INVALID_ARGUMENT", ["ids", "tokens INT32 or INT64 [B, T]"]),
                ("token_out_of_range", "INVALID_ARGUMENT", ["73", "step 1"]),
                ("wrong_type", "INVALID_ARGUMENT", ["FP32"]),
                ("wrong_rank", "INVALID_ARGUMENT", ["[1]"]),
                ("length_too_long", "INVALID_ARGUMENT", ["lengths", "3"]),
                ("unknown_output", "INVALID_ARGUMENT", ["scores", "logits"]),
                ("too_late", "DEADLINE_EXCEEDED", [])):
            with self.subTest(name):
                self.assert_error(errors[name], code, *words)

    # --- Streams and sequences ---

    def test_a_stream_answers_in_order_and_goes_on_after_errors(self):
        seen = self.seen["stream"]
        numbers = [number for number in range(100) if number % 10 != 3]
        self.assertEqual(seen["ids"], [str(number) for number in numbers])
        self.assertEqual(seen["steps"], [number + 1 for number in numbers])
        self.assertEqual(len(seen["errors"]), 10)
        self.assertIn("absent", seen["errors"][0])
        self.assertEqual(seen["final"], ["7"])

    def test_an_error_ends_a_stream_that_asks_for_it(self):
        self.assertEqual(self.seen["stream_with_grpc_errors"],
                         {"first": True, "then": "StatusCode.NOT_FOUND"})

    def test_interleaved_sequences_have_the_bits_of_offline_runs(self):
        self.assertEqual(self.seen["sequences"], {
            "tokens": "equal", "string_ids": "equal", "features": "equal"})

    def test_sequences_start_and_end(self):
        seen = self.seen["sequence_rules"]
        for fact in ("starts_from_zeros", "goes_on", "start_begins_anew", "one_request"):
            self.assertTrue(seen[fact], fact)
        for name in ("ended", "without_start"):
            self.assert_error(seen[name], "INVALID_ARGUMENT", "sequence_start")
        self.assert_error(seen["batch_of_two"], "INVALID_ARGUMENT", "batch of 1")
        self.assert_error(seen["bidirectional"], "FAILED_PRECONDITION", "bidirectional")

    # --- Model control, statistics, settings ---

    def test_models_are_unloaded_and_loaded(self):
        seen = self.seen["model_control"]
        self.assertEqual(seen["index"], [
            [name, version, "READY"] for name, version in
            (("features", "1"), ("lm", "1"), ("lm", "2"), ("spare", "1"), ("tagger", "1"))])
        self.assertNotEqual(seen["unloaded"], "READY")
        self.assert_error(seen["refused"], "FAILED_PRECONDITION", "spare")
        self.assertEqual(seen["ready"], [False, True])
        self.assertEqual(seen["answered"], 1)
        self.assert_error(seen["override"], "UNIMPLEMENTED", "config")

    def test_statistics_count(self):
        seen = self.seen["statistics"]
        self.assertEqual(seen["succeeded"], 5)
        self.assertEqual(seen["inferences"], 10)  # sequences
        self.assertGreaterEqual(seen["passes"], 5)
        self.assertTrue(seen["time"] and seen["compute_time"])
        self.assertLessEqual({"lm", "features"}, set(seen["all"]))
        self.assert_error(seen["unknown"], "NOT_FOUND", "absent")

    def test_settings_say_what_is(self):
        seen = self.seen["settings"]
        self.assertEqual(seen["trace"]["trace_level"], {"value": ["OFF"]})
        self.assertIn("log_error", seen["log"])
        self.assert_error(seen["trace_set"], "UNIMPLEMENTED", "trace_level")
        self.assert_error(seen["log_set"], "UNIMPLEMENTED", "log_verbose_level")

    # --- Shared memory ---

    def test_tensors_in_shared_memory(self):
        seen = self.seen["shared_memory"]
        region = seen["status"]["region"]
        self.assertEqual((region["key"], region["byte_size"]),
                         ("/recurve_tritonclient_test", str(64 + 6 * 73 * 4)))
        self.assertTrue(seen["equal"])
        self.assert_error(seen["outside"], "INVALID_ARGUMENT", "region")
        self.assert_error(seen["after"], "NOT_FOUND", "region")
        self.assertEqual(seen["regions_left"], {})

    def test_shared_memory_that_cannot_be(self):
        seen = self.seen["shared_memory"]
        self.assert_error(seen["absent_key"], "NOT_FOUND", "absent")
        self.assert_error(seen["path"], "INVALID_ARGUMENT", "key")
        self.assertEqual(seen["cuda"], {})
        self.assert_error(seen["cuda_register"], "UNIMPLEMENTED", "CUDA")


if __name__ == "__main__":
    junit.main()
