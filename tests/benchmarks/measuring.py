"""What the measuring scripts of this folder share."""

import datetime
import os
import subprocess
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
PATIENCE_SECONDS = 300


class Failed(Exception):
    pass


def program(label):
    """Of what Bazel has built."""
    return os.path.join(ROOT, "bazel-bin", label)


def build(*labels):
    subprocess.run(["bazel", "build", *labels], cwd=ROOT, check=True)


class Server:
    """A process that says `listening on HOST:PORT`."""

    def __init__(self, arguments, log):
        self.log = log
        with open(log, "w", encoding="utf-8") as output:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        self.address = self._address()

    def _address(self):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with open(self.log, encoding="utf-8") as file:
                for line in file:
                    if line.startswith("listening on ") and line.endswith("\n"):
                        return line.split()[-1]
            time.sleep(0.05)
        self.stop()
        with open(self.log, encoding="utf-8") as file:
            raise Failed("it does not listen: " + file.read()[-2000:])

    def stop(self):
        self.process.terminate()
        self.process.wait()


def markdown(columns, rows):
    lines = ["| %s |" % " | ".join(columns), "|" + " --- |" * len(columns)]
    lines += ["| %s |" % " | ".join(str(cell) for cell in row) for row in rows]
    return "\n".join(lines)


def describe_machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return "%s, %d cores of %s; load of the last minute before %.2f" % (
        datetime.date.today(), os.cpu_count(), names[0] if names else "?", os.getloadavg()[0])
