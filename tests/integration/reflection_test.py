"""PyPI's grpcio with grpcio-reflection lists and calls the service."""

import json
import os
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve
from tests.integration import virtual_environment

REQUIREMENTS = ["grpcio==1.62.3", "grpcio-reflection==1.62.3", "protobuf==4.25.8"]
CLIENT = os.path.abspath("tests/integration/reflection_client.py")

METHODS = {
    "recurve.v1.Datasets": [
        "UploadDataset", "GetDataset", "ListDatasets", "DeleteDataset", "ReadBatches"],
    "recurve.v1.Devices": ["ListDevices"],
    "recurve.v1.Inference": ["Predict", "Evaluate"],
    "recurve.v1.Jobs": ["Train", "GetJob", "ListJobs", "WatchJob", "CancelJob"],
    "recurve.v1.Models": [
        "CreateModel", "GetModel", "ListModels", "DeleteModel", "GetModelVersion",
        "ListModelVersions", "ImportModel", "ExportModel"],
    "recurve.v1.Trainers": [
        "CreateTrainer", "GetTrainer", "ListTrainers", "DeleteTrainer", "Step",
        "PublishTrainer"],
}


class ReflectionTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        python = virtual_environment.python_with(*REQUIREMENTS)
        folder = cls.enterClassContext(recurve.Folder())
        server = cls.enterClassContext(recurve.Server(os.path.join(folder, "data")))
        checkpoint = os.path.join(recurve.CHECKPOINTS, "sru_charlm")
        server.call("import", "sru", "--config", checkpoint + ".textproto",
                    "--weights", checkpoint + ".safetensors")
        result = subprocess.run([python, CLIENT, server.address, "models/sru"],
                                capture_output=True, text=True, check=False,
                                timeout=recurve.PATIENCE_SECONDS)
        if result.returncode != 0:
            raise AssertionError(result.stderr + server.log())
        cls.seen = json.loads(result.stdout)

    def test_lists_the_services(self):
        services = set(self.seen["services"])
        self.assertGreaterEqual(services, set(METHODS))
        self.assertIn("grpc.health.v1.Health", services)
        self.assertIn("grpc.reflection.v1alpha.ServerReflection", services)

    def test_describes_their_methods(self):
        for service, methods in METHODS.items():
            with self.subTest(service):
                self.assertLessEqual(set(methods), set(self.seen["methods"][service]))

    def test_calls_list_models(self):
        self.assertEqual(self.seen["models"], ["models/sru"])

    def test_calls_predict(self):
        self.assertEqual(self.seen["columns"], 73)

    def test_a_sequence_in_two_calls_with_its_state_is_the_sequence_in_one(self):
        self.assertEqual(self.seen["split_is_whole"], [True, True])

    def test_errors_carry_code_and_name(self):
        self.assertEqual(self.seen["error"]["code"], "NOT_FOUND")
        self.assertIn("models/absent", self.seen["error"]["details"])


if __name__ == "__main__":
    junit.main()
