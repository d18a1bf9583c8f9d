"""Starts the real server and calls the real command line."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

SERVER = os.path.abspath("server/recurve_server")
CLIENT = os.path.abspath("client/cli/recurve")
CHECKPOINTS = os.path.abspath("tests/testdata/checkpoints")
EXAMPLES = os.path.abspath("deploy/examples")

# For what is sure to come, however slow the machine.
PATIENCE_SECONDS = 240


def wait_until(condition, what):
    """The first true value of `condition`, which is asked again and again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("not within %d s: %s" % (PATIENCE_SECONDS, what))
        time.sleep(0.005)


class Folder:
    """A temporary folder; `with Folder() as path`."""

    def __enter__(self):
        self._path = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        return self._path

    def __exit__(self, *_):
        shutil.rmtree(self._path, ignore_errors=True)


class Server:
    """A recurve_server on loopback; `with Server(...) as server`.

    Its data_dir, log included, belongs to the caller and outlives it."""

    def __init__(self, data_dir, devices="cpu:1", listen="127.0.0.1:0", flags=(),
                 environment=None):
        self.address = None
        self.data_dir = data_dir
        self._log_path = data_dir.rstrip("/") + ".log"
        with open(self._log_path, "wb") as log:
            self.process = subprocess.Popen(
                [SERVER, "--listen", listen, "--data_dir", data_dir,
                 "--devices", devices, *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})})

    def log(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def start(self):
        """Waits until it listens."""

        def listening():
            for line in self.log().splitlines():
                if line.startswith("listening on "):
                    return line.split()[-1]
            if self.process.poll() is not None:
                raise AssertionError("the server did not start:\n" + self.log())
            return None

        self.address = wait_until(listening, "the server listens")
        return self

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Its exit status, negative for a signal's number."""
        return self.process.wait(PATIENCE_SECONDS)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.terminate()
        try:
            status = self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            status = "it did not end on SIGTERM"
        if kind is None and status != 0:
            raise AssertionError("server: %s\n%s" % (status, self.log()))

    # --- The command line ---

    def run(self, *arguments, **options):
        return run(*arguments, "--server", self.address, **options)

    def call(self, *arguments):
        """The JSON object that a successful command prints."""
        result = self.run("--json", *arguments)
        if result.returncode != 0:
            raise AssertionError("recurve %s\n%s\n-- the server's log:\n%s" % (
                " ".join(arguments), result.stderr, self.log()))
        return json.loads(result.stdout)


def run(*arguments, **options):
    """Runs `recurve`; its output as text."""
    return subprocess.run(
        [CLIENT, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False, **options)


def write(folder, name, text):
    """The path of a new file."""
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def read_bytes(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()
