"""Jobs that are paused, resumed and cancelled, and that outlive their server."""

import os
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
report_every_steps: 100
"""
# Of a job that is interrupted, at least. One that ends before that is done over
# with more, so that no test depends on who is faster.
STEPS = 5000
MORE_STEPS = 4  # times as many
ENDLESS = 1000000000


class JobsTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        self.data_dir = os.path.join(self.folder, "data")
        recurve.write(self.folder, "text.txt", "a stitch in time saves nine. " * 400)
        self.server = self.start()

    def start(self, **options):
        server = recurve.Server(self.data_dir, **options).start()
        self.addCleanup(self.stop, server)
        return server

    def stop(self, server):
        if server.process.poll() is None:
            server.terminate()
            self.assertEqual(server.wait(), 0, server.log())

    def spec(self, model, steps=STEPS):
        return recurve.write(self.folder, model + ".textproto", SPEC % (model, steps))

    def train(self, name, steps=STEPS, *arguments):
        return self.server.call("train", self.spec(name, steps), "--job_id", name, *arguments)

    def job(self, name):
        jobs = {job["name"]: job for job in self.server.call("jobs")["jobs"]}
        return jobs["jobs/" + name]

    def wait_for(self, name, *states):
        recurve.wait_until(lambda: self.job(name)["state"] in states,
                           "%s is %s" % (name, states))

    def wait_for_step(self, name, step):
        recurve.wait_until(lambda: self.job(name)["step"] >= step,
                           "%s does step %d" % (name, step))

    def sha256(self, name):
        return self.server.call("describe", name)["sha256"]

    def start_watch(self, name, *arguments):
        """A watch that has shown the job's beginning; what it shows is in a file."""
        self.shown_path = os.path.join(self.folder, "shown.txt")
        with open(self.shown_path, "wb") as shown:
            watch = subprocess.Popen(
                [recurve.CLIENT, "watch", name, *arguments, "--server", self.server.address],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=shown)
        self.addCleanup(watch.kill)
        recurve.wait_until(lambda: "RUNNING" in self.shown(), "the watch shows the job")
        return watch

    def shown(self):
        with open(self.shown_path, encoding="utf-8") as shown:
            return shown.read()

    def restart(self, how):
        """Another process of the same address and folder, once `how` ended this one."""
        self.server.process.send_signal(how)
        self.server.wait()
        self.server = self.start(listen=self.server.address)

    def weights_of_a_calm_job(self, steps):
        self.train("calm", steps)
        self.server.call("watch", "calm")
        return self.sha256("calm")

    def pause_before_its_end(self, name, steps):
        """Whether that came in time."""
        self.train(name, steps)
        self.wait_for_step(name, 10)
        self.server.run("pause", name)
        self.wait_for(name, "PAUSED", "SUCCEEDED")
        return self.job(name)["state"] == "PAUSED"

    def test_a_paused_job_gives_its_place_up_and_ends_as_if_undisturbed(self):
        steps, name = STEPS, "paused"
        while not self.pause_before_its_end(name, steps):
            steps, name = MORE_STEPS * steps, name + "-again"
        self.train("next", 20)
        self.assertEqual(self.server.call("watch", "next")["state"], "SUCCEEDED")
        paused = self.job(name)
        self.assertEqual(paused["state"], "PAUSED")
        self.assertLess(paused["step"], steps)
        self.assertIn("PAUSED", self.server.run("jobs").stdout)
        self.server.call("resume", name)
        job = self.server.call("watch", name)
        self.assertEqual((job["state"], job["runs"], job["step"]), ("SUCCEEDED", 2, steps))
        self.assertEqual(self.sha256(name), self.weights_of_a_calm_job(steps))

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

    def restart_twice_before_its_end(self, name, steps):
        """Whether that came in time; `shown` is what a watch has seen of it."""
        self.train(name, steps)
        watch = self.start_watch(name)
        for runs, how in ((1, signal.SIGTERM), (2, signal.SIGKILL)):
            recurve.wait_until(
                lambda: self.shown().count(" RUNNING") == runs or watch.poll() is not None,
                "the watch shows run %d" % runs)
            self.restart(how)
        self.assertEqual(watch.wait(recurve.PATIENCE_SECONDS), 0, self.shown()[-1000:])
        return self.job(name)["runs"] == 3

    def test_restarts_change_neither_the_model_nor_what_a_watcher_sees(self):
        steps, name = 2 * STEPS, "restarted"
        while not self.restart_twice_before_its_end(name, steps):
            steps, name = MORE_STEPS * steps, name + "-again"
        self.assertEqual(self.shown().count("no connection"), 2)
        job = self.server.call("watch", name)
        self.assertEqual((job["state"], job["runs"]), ("SUCCEEDED", 3))
        self.assertEqual(self.sha256(name), self.weights_of_a_calm_job(steps))
        # The client fails on a number that is missing or comes twice; and what it
        # showed over the restarts is what a watch from the beginning shows.
        again = self.server.run("watch", name)
        shown = [line for line in self.shown().splitlines() if "onnect" not in line]
        self.assertEqual(shown, again.stderr.splitlines())

    def test_a_watch_that_is_not_to_wait_ends_with_the_server(self):
        self.train("j", ENDLESS)
        watch = self.start_watch("j", "--reconnect_for", "0s")
        self.wait_for_step("j", 10)
        self.server.terminate()
        self.assertEqual(watch.wait(recurve.PATIENCE_SECONDS), 1)
        self.assertIn("UNAVAILABLE: the server is shutting down; jobs/j goes on", self.shown())
        self.assertEqual(self.server.wait(), 0)

    def test_ctrl_c_ends_the_watch_and_not_the_job(self):
        self.train("j", ENDLESS)
        watch = self.start_watch("j")
        self.wait_for_step("j", 10)
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(recurve.PATIENCE_SECONDS), -signal.SIGINT)
        self.assertIn("jobs/j goes on; `recurve watch jobs/j`", self.shown())
        self.assertEqual(self.job("j")["state"], "RUNNING")
        self.server.call("cancel", "j")


if __name__ == "__main__":
    junit.main()
