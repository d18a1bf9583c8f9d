"""Jobs that are paused, resumed and cancelled, and that outlive their server."""

import os
import re
import signal
import subprocess
import unittest

from tests.integration import junit
from tests.integration import recurve

SPEC = """
model: "models/%s"
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
max_steps: %d
report_every_steps: 50
"""
STEPS = 10000
ENDLESS = 1000000000


class JobsTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        self.data_dir = os.path.join(self.folder, "data")
        recurve.write(self.folder, "text.txt", "a stitch in time saves nine. " * 400)
        self.server = self.start()

    def start(self, **options):
        return self.enterContext(recurve.Server(self.data_dir, **options))

    def spec(self, model, steps=STEPS):
        return recurve.write(self.folder, model + ".textproto", SPEC % (model, steps))

    def train(self, name, steps=STEPS, *arguments):
        return self.server.call("train", self.spec(name, steps), "--job_id", name, *arguments)

    def job(self, name):
        jobs = {job["name"]: job for job in self.server.call("jobs")["jobs"]}
        return jobs["jobs/" + name]

    def wait_for(self, name, *states):
        recurve.wait_until(lambda: self.job(name)["state"] in states, 120,
                           "%s is %s" % (name, states))

    def wait_for_step(self, name, step):
        recurve.wait_until(lambda: self.job(name)["step"] >= step, 120,
                           "%s does step %d" % (name, step))

    def sha256(self, name):
        return self.server.call("describe", name)["sha256"]

    def start_watch(self, name, *arguments):
        return subprocess.Popen(
            [recurve.CLIENT, "watch", name, *arguments, "--server", self.server.address],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_a_paused_job_gives_its_place_up_and_ends_as_if_undisturbed(self):
        self.train("calm")
        self.server.call("watch", "calm")
        self.train("paused")
        self.wait_for_step("paused", 10)
        self.assertIn(self.server.call("pause", "paused")["state"], ("PAUSING", "PAUSED"))
        self.train("next", 20)
        self.assertEqual(self.server.call("watch", "next")["state"], "SUCCEEDED")
        paused = self.job("paused")
        self.assertEqual(paused["state"], "PAUSED")
        self.assertLess(paused["step"], STEPS)
        self.assertIn("PAUSED", self.server.run("jobs").stdout)
        self.server.call("resume", "paused")
        job = self.server.call("watch", "paused")
        self.assertEqual((job["state"], job["runs"], job["step"]), ("SUCCEEDED", 2, STEPS))
        self.assertEqual(self.sha256("paused"), self.sha256("calm"))

    def test_a_job_is_cancelled_in_whatever_state(self):
        self.train("running", ENDLESS)
        waiting = self.train("waiting", ENDLESS, "--owner", "me", "--priority", "3")
        self.assertEqual((waiting["owner"], waiting["priority"]), ("me", 3))
        self.assertIn("1 job runs", waiting["cause"])
        self.train("paused", ENDLESS)
        self.server.call("pause", "paused")
        self.wait_for_step("running", 10)
        for name in ("waiting", "paused", "running"):
            self.server.call("cancel", name)
        for name in ("waiting", "paused", "running"):
            self.wait_for(name, "CANCELLED")
        refused = self.server.run("resume", "paused")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("FAILED_PRECONDITION: jobs/paused is CANCELLED", refused.stderr)

    def test_a_watch_that_is_not_to_wait_ends_with_the_server(self):
        self.train("j", ENDLESS)
        watch = self.start_watch("j", "--reconnect_for", "0s")
        self.wait_for_step("j", 10)
        self.server.terminate()
        _, errors = watch.communicate(timeout=60)
        self.assertEqual(watch.returncode, 1)
        self.assertIn("UNAVAILABLE: the server is shutting down; jobs/j goes on", errors)

    def test_ctrl_c_ends_the_watch_and_not_the_job(self):
        self.train("j", ENDLESS)
        watch = self.start_watch("j")
        self.wait_for_step("j", 10)
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=60)
        self.assertEqual(watch.returncode, -signal.SIGINT)
        self.assertTrue(re.search(r"jobs/j goes on; `recurve watch jobs/j`", errors), errors)
        self.assertEqual(self.job("j")["state"], "RUNNING")
        self.server.call("cancel", "j")


if __name__ == "__main__":
    junit.main()
