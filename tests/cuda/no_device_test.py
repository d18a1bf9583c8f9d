"""A server with CUDA where there is no GPU: what it says, and that it serves."""

import os
import subprocess
import tempfile
import unittest

from tests.integration import junit

SERVER = "server/recurve_server"


class NoDevice(unittest.TestCase):
    def start(self, devices):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = subprocess.Popen(
            [SERVER, "--listen=127.0.0.1:0", "--data_dir=" + folder.name, "--devices=" + devices],
            # Hides the GPUs of a machine that has some.
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server

    def refusal(self, devices):
        server = self.start(devices)
        output, error = server.communicate(timeout=120)
        self.assertEqual(server.returncode, 1, output + error)
        self.assertEqual(error.count("\n"), 1, error)
        return error

    def test_on_cpu_devices_it_serves(self):
        server = self.start("cpu:1")
        self.assertIn("listening on", server.stdout.readline())
        server.terminate()
        server.communicate(timeout=120)
        self.assertEqual(server.returncode, 0)

    def test_on_a_gpu_it_ends_with_one_line(self):
        error = self.refusal("cpu:1,cuda:0")
        self.assertIn('device "cuda:0": no CUDA device: ', error)
        self.assertIn("--devices=cpu:", error)

    def test_names_that_are_no_devices_are_refused_as_everywhere(self):
        error = self.refusal("cuda:0:products=fp8")
        self.assertIn("are not fp32, tf32, bf16 or fp16", error)


if __name__ == "__main__":
    junit.main()
