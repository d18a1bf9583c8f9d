"""A server's start and end, and clients that go away."""

import os
import pty
import signal
import subprocess
import time
import unittest

from tests.integration import junit
from tests.integration import recurve

CONFIG = """
input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
blocks { sru { hidden_size: 4 } }
output { linear { size: 5 } }
loss { kind: CROSS_ENTROPY }
"""
SPEC = """
model: "models/bar"
config {
  input { token_embedding { embedding_size: 16 } }
  blocks { sru { hidden_size: 32 } }
  output { linear {} }
  loss { kind: CROSS_ENTROPY }
}
data { local_file: "text.txt" }
format { text {} }
loader { batch_size: 8 unroll: 16 }
trainer { optimizer { adam {} } learning_rate { peak: 0.01 } }
max_steps: %d
report_every_steps: 10
"""


def start_client(server, *arguments):
    return subprocess.Popen(
        [recurve.CLIENT, *arguments, "--server", server.address], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tree_bytes(folder):
    """Bytes of all files below a folder that is being written to."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(path, name))
            except FileNotFoundError:
                pass
    return total


class LifecycleTest(unittest.TestCase):

    def setUp(self):
        self.folder = self.enterContext(recurve.Folder())
        self.data_dir = os.path.join(self.folder, "data")

    def start(self, **options):
        return self.enterContext(recurve.Server(self.data_dir, **options))

    def create_model(self, server):
        config = recurve.write(self.folder, "config.textproto", CONFIG)
        vocabulary = recurve.write(self.folder, "vocabulary.json", '["a", "b", "c", "d", "e"]')
        server.call("create", "lm", "--config", config, "--vocabulary", vocabulary)

    def write_spec(self, steps):
        recurve.write(self.folder, "text.txt", "a stitch in time saves nine. " * 400)
        return recurve.write(self.folder, "spec.textproto", SPEC % steps)

    def expect_refusal(self, fragment, **options):
        """A second server says why it does not start, and ends with status 1."""
        second = recurve.Server(os.path.join(self.folder, "second"), **options)
        self.addCleanup(second.process.kill)
        self.assertEqual(second.wait(), 1)
        self.assertIn(fragment, second.log())
        self.assertNotIn("listening on", second.log())

    def test_the_process_has_the_programs_name(self):
        server = self.start()
        with open("/proc/%d/comm" % server.process.pid) as file:
            self.assertEqual(file.read(), "recurve_server\n")

    def test_a_port_in_use(self):
        server = self.start()
        self.expect_refusal("in use", listen=server.address)
        self.assertIn("SERVING", server.run("health").stdout)

    def test_a_data_dir_in_use(self):
        server = self.start()
        self.expect_refusal(self.data_dir, flags=["--data_dir", self.data_dir])
        self.assertIn("SERVING", server.run("health").stdout)

    def test_flags_that_are_wrong(self):
        self.expect_refusal("--listen", listen="nowhere")
        self.expect_refusal("tpu:1", devices="tpu:1")
        self.expect_refusal("frobnicate", flags=["--frobnicate"])

    def test_a_restart_keeps_models_and_datasets(self):
        with recurve.Server(self.data_dir) as server:
            self.create_model(server)
            self.upload(server)
            kept = (server.call("models"), server.call("datasets"),
                    server.call("describe", "lm"),
                    server.call("predict", "lm", "--tokens", "1,2,3"))
        self.assertEqual(len(kept[1]["datasets"]), 1)
        server = self.start(devices="cpu:1,cpu:1")
        self.assertEqual(kept, (
            server.call("models"), server.call("datasets"), server.call("describe", "lm"),
            server.call("predict", "lm", "--tokens", "1,2,3")))

    def test_killed_it_keeps_what_it_acknowledged(self):
        server = recurve.Server(self.data_dir).start()
        self.create_model(server)
        before = server.call("describe", "lm")
        server.process.kill()
        server.wait()
        self.assertEqual(self.start().call("describe", "lm"), before)

    def upload(self, server):
        """A dataset that stays: what a training spec names."""
        server.call("train", self.write_spec(1), "--watch")

    def test_sigterm_finishes_calls_and_refuses_new_ones(self):
        server = self.start(flags=["--drain_timeout=1h"])
        self.create_model(server)
        text = recurve.write(self.folder, "long.txt", "abcde" * 200000)
        evaluate = start_client(server, "evaluate", "lm", "--data", text, "--chunk", "5")
        recurve.wait_until(lambda: server.call("devices")["devices"][0]["rows"] > 0,
                           "the evaluation runs")
        server.terminate()
        output, errors = evaluate.communicate(timeout=recurve.PATIENCE_SECONDS)
        self.assertEqual(evaluate.returncode, 0, errors)
        self.assertIn("999999 rows", output)
        self.assertEqual(server.wait(), 0)
        self.assertEqual(server.run("models").returncode, 1)

    def test_sigterm_puts_a_job_back_into_the_queue_and_tells_its_watcher(self):
        server = self.start()
        watch = start_client(server, "train", self.write_spec(1000000), "--watch",
                             "--reconnect_for", "0s")
        recurve.wait_until(lambda: server.call("devices")["devices"][0]["rows"] > 0,
                           "the job runs")
        server.terminate()
        _, errors = watch.communicate(timeout=recurve.PATIENCE_SECONDS)
        self.assertEqual(watch.returncode, 1)
        self.assertIn("QUEUED: the server shut down", errors)
        self.assertIn("UNAVAILABLE", errors)
        self.assertEqual(server.wait(), 0)

    def test_a_client_killed_while_it_uploads_leaves_nothing(self):
        server = self.start()
        self.create_model(server)
        huge = os.path.join(self.folder, "huge.txt")
        with open(huge, "wb") as file:
            file.truncate(1 << 29)
        before = tree_bytes(self.data_dir)
        client = start_client(server, "evaluate", "lm", "--data", huge)
        recurve.wait_until(lambda: tree_bytes(self.data_dir) > before + (1 << 20),
                           "the upload is under way")
        client.kill()
        client.communicate()
        recurve.wait_until(lambda: tree_bytes(self.data_dir) <= before + (1 << 16),
                           "the server has dropped the upload")
        self.assertEqual(server.call("datasets")["datasets"], [])

    def test_a_client_killed_while_it_watches_does_not_end_the_job(self):
        server = self.start()
        client = start_client(server, "train", self.write_spec(300), "--watch", "--job_id", "on")
        recurve.wait_until(lambda: server.call("devices")["devices"][0]["rows"] > 0,
                           "the job runs")
        client.kill()
        client.communicate()
        self.assertEqual(server.call("watch", "on")["state"], "SUCCEEDED")

    def test_a_client_that_freezes_loses_its_connection_and_its_session(self):
        server = self.start(flags=["--keepalive_time=1s", "--keepalive_timeout=1s"])
        self.create_model(server)
        on_session = ["predict", "lm", "--session", "s", "--tokens"]
        self.assertIn("is at 2", server.run(*on_session, "1,2", "--start").stdout)
        client = start_client(server, "generate", "lm", "--prompt", "abc", "--session", "s",
                              "--length", "1000000")
        self.addCleanup(client.kill)
        client.stdout.read(10)  # the generation runs, and has the session
        client.send_signal(signal.SIGSTOP)
        # Waits for the session, which the generation leaves as it was. With its position it
        # may be made again: on a busy machine this client, too, may be slow to answer a ping.
        recurve.wait_until(
            lambda: "is at 3" in server.run(*on_session, "3", "--position", "2").stdout,
            "the session is free")
        client.send_signal(signal.SIGCONT)
        _, errors = client.communicate(timeout=recurve.PATIENCE_SECONDS)
        self.assertEqual(client.returncode, 1)
        self.assertIn("UNAVAILABLE", errors)

    def test_a_terminal_sees_a_progress_bar(self):
        server = self.start()
        spec = self.write_spec(100)
        main, terminal = pty.openpty()
        with subprocess.Popen(
                [recurve.CLIENT, "train", spec, "--watch", "--server", server.address],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal) as client:
            os.close(terminal)
            output = client.stdout.read().decode()
            seen = read_terminal(main)
        self.assertEqual(client.returncode, 0, seen)
        self.assertIn("SUCCEEDED", output)
        drawn = seen.split("\r\x1b[K")[1:]
        self.assertEqual(len(drawn), 10)  # one a report, over each other
        self.assertRegex(drawn[4], r"^\[#{12}\.{12}\]  50%  step 50  loss \d\.\d{4}  \S+ rows/s "
                                   r" \d+:\d\d left$")
        self.assertRegex(drawn[9], r"^\[#{24}\] 100%")


def read_terminal(main):
    """All that was written to a pseudo-terminal whose writers have gone."""
    pieces = []
    while True:
        try:
            pieces.append(os.read(main, 65536))
        except OSError:
            break
        if not pieces[-1]:
            break
    os.close(main)
    return b"".join(pieces).decode()


if __name__ == "__main__":
    junit.main()
