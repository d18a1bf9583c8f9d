"""What else happens to a server: clients that are killed in the middle of a
call, clocks that jump, data that changes while a job uses it."""

import hashlib
import os
import random
import subprocess
import time
import unittest

from tests.integration import junit
from tests.integration import recurve

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
CLIENTS = 6  # killed, of each kind
STEPS = 30
# Of a job under whose server the clock jumps, at least. One that ends before the
# last jump is done over with more, so that no test depends on who is faster.
JUMPING_STEPS = 1000
MORE_STEPS = 4  # times as many

SPEC = """
model: "models/lm"
config {
  input { token_embedding { embedding_size: 8 } dropout: 0.1 }
  blocks { sru { hidden_size: 16 } }
  output { linear {} }
  loss { kind: CROSS_ENTROPY }
}
data { %s }
format { text {} }
loader { batch_size: 8 unroll: 16 }
trainer { optimizer { adam {} } learning_rate { peak: 0.01 } seed: 3 }
max_steps: %d
report_every_steps: 1
checkpoints { every_steps: 5 }
"""
TEXT = "a stitch in time saves nine. " * 200


class SurroundingsTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        self.data_dir = os.path.join(self.folder, "data")
        recurve.write(self.folder, "text.txt", TEXT)
        seed = random.randrange(1 << 32)
        print("seed", seed)
        self.draw = random.Random(seed)

    def start(self, **options):
        return self.enterContext(recurve.Server(self.data_dir, **options))

    def spec(self, steps, data='local_file: "text.txt"'):
        return recurve.write(self.folder, "spec.textproto", SPEC % (data, steps))

    def kill_a_client(self, server, *arguments):
        """At any instant of its first 200 ms."""
        client = subprocess.Popen(
            [recurve.CLIENT, *arguments, "--server", server.address],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.draw.uniform(0, 0.2))
        client.kill()
        client.wait()

    def weights(self, server, steps=STEPS):
        """The sha256 that a job of so many steps ends with."""
        job = server.call("train", self.spec(steps), "--watch")
        self.assertEqual(job["state"], "SUCCEEDED", job)
        return self.sha256(server, job)

    def sha256(self, server, job):
        return server.call("describe", job["model_version"])["sha256"]

    def aside(self):
        """What is half written, by its name."""
        return [name for _, folders, files in os.walk(self.data_dir)
                for name in folders + files if name.startswith(".aside-")]

    # --- Clients ---

    def test_clients_killed_while_they_upload_leave_nothing(self):
        server = self.start()
        big = os.path.join(self.folder, "big.txt")
        with open(big, "wb") as file:
            file.truncate(1 << 26)
        spec = self.spec(1, 'local_file: "big.txt"')
        for _ in range(CLIENTS):
            self.kill_a_client(server, "train", spec)
        recurve.wait_until(lambda: not self.aside(), "the uploads are dropped")
        for dataset in server.call("datasets")["datasets"]:
            self.assertEqual(dataset["size_bytes"], 1 << 26)
        self.weights(server)

    def test_clients_killed_while_they_watch_change_nothing(self):
        server = self.start()
        expected = self.weights(server)
        server.call("train", self.spec(STEPS), "--job_id", "watched")
        for _ in range(CLIENTS):
            self.kill_a_client(server, "watch", "watched")
        job = server.call("watch", "watched")
        self.assertEqual(self.sha256(server, job), expected)

    def test_clients_killed_while_they_step_leave_trainers_that_go_on(self):
        server = self.start()
        expected = self.weights(server)
        spec = self.spec(STEPS)
        for _ in range(CLIENTS):
            self.kill_a_client(server, "step", "--spec", spec)
        stepped = server.call("step", "--spec", spec)
        self.assertEqual(stepped["step"], STEPS)
        self.assertEqual(self.sha256(server, stepped), expected)

    # --- Clocks ---

    def clock(self, offset):
        """What makes a server see the time `offset` from now, as "+5h"; a later
        call changes it under a server that runs."""
        path = recurve.write(self.folder, "clock.new", offset)
        os.rename(path, os.path.join(self.folder, "clock"))
        return {"LD_PRELOAD": FAKETIME,
                "FAKETIME_TIMESTAMP_FILE": os.path.join(self.folder, "clock"),
                "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}

    def expect_same_weights(self, train):
        """Of what `train` trains while the clock jumps. It is given a job's id
        and steps, and says whether all jumps came before the end."""
        steps, name = JUMPING_STEPS, "jumping"
        while not train(name, steps):
            steps, name = MORE_STEPS * steps, name + "-again"
        with recurve.Server(self.data_dir) as server:
            job = server.call("watch", name)
            self.assertEqual(job["state"], "SUCCEEDED", job)
            self.assertEqual(self.sha256(server, job), self.weights(server, steps))

    def submit_once(self, server, name, steps):
        server.call("train", self.spec(steps), "--job_id", name, "--request_id", name)

    def job(self, server, name):
        return next(job for job in server.call("jobs")["jobs"] if job["name"] == "jobs/" + name)

    def ended(self, server, name):
        return self.job(server, name)["state"] == "SUCCEEDED"

    def makes_progress(self, server, name):
        """Waits for it; false if the job ends instead."""
        before = self.job(server, name)["step"]
        recurve.wait_until(
            lambda: self.job(server, name)["step"] > before or self.ended(server, name),
            "the job goes on")
        return not self.ended(server, name)

    def test_a_clock_that_jumps_between_restarts(self):

        def train(name, steps):
            for offset in ("+20d", "-9h", "-3000d"):
                with recurve.Server(self.data_dir, environment=self.clock(offset)) as server:
                    self.submit_once(server, name, steps)
                    if not self.makes_progress(server, name):
                        return False
            with recurve.Server(self.data_dir, environment=self.clock("+5h")) as server:
                return server.call("watch", name)["runs"] == 4

        self.expect_same_weights(train)

    def test_a_clock_that_jumps_under_a_job(self):

        def train(name, steps):
            with recurve.Server(self.data_dir, environment=self.clock("+0h")) as server:
                self.submit_once(server, name, steps)
                for offset in ("+400d", "-400d", "+3h", "+0h"):
                    if not self.makes_progress(server, name):
                        return False
                    self.clock(offset)
                in_time = not self.ended(server, name)
                server.call("watch", name)
                return in_time

        self.expect_same_weights(train)

    # --- Data ---

    def test_data_that_changes_under_a_job_fails_it_with_both_checksums(self):
        root = os.path.join(self.folder, "root")
        os.mkdir(root)
        path = recurve.write(root, "text.txt", TEXT)
        spec = self.spec(100000, 'server_path: "text.txt"')
        flags = ["--data_root", root]
        with recurve.Server(self.data_dir, flags=flags) as server:
            server.call("train", spec, "--job_id", "changed")
            recurve.wait_until(lambda: server.call("jobs")["jobs"][0]["checkpoint_step"] > 0,
                               "there is a checkpoint")
            before = server.call("jobs")["jobs"][0]["data_sha256"]
        self.assertRegex(before, "^[0-9a-f]{64}$")
        recurve.write(root, "text.txt", TEXT.replace("nine", "none"))
        server = self.start(flags=flags)
        self.assertEqual(server.run("watch", "changed").returncode, 1)
        job = server.call("jobs")["jobs"][0]
        self.assertEqual(job["state"], "FAILED")
        self.assertIn(before, job["cause"])
        self.assertIn(hashlib.sha256(recurve.read_bytes(path)).hexdigest(), job["cause"])


if __name__ == "__main__":
    junit.main()
