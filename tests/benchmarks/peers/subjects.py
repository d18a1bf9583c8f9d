"""Processes that are asked for times of their work."""

import json
import os
import subprocess

from tests.benchmarks.measuring import Failed, ROOT, program
from tests.benchmarks.peers import cases, floor

ENGINE_TIMING = "tests/benchmarks/peers/engine_timing"
# As the server has it (server/process.cc): the engine is timed as it serves.
ENGINE_ENVIRONMENT = {**os.environ, "GOMP_SPINCOUNT": "1000"}


class Worker:
    """A process that answers engine_timing's requests."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1)

    def ask(self, **request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Failed("%s ended" % " ".join(self.process.args))
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def prepare(self, case):
        return self.ask(prepare={**case._asdict(), "moved_bytes": floor.moved_bytes(case)})

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def engine_worker(subject, devices, *flags):
    """`devices`: without options."""
    name, precision = cases.OURS[subject]
    if precision == "bf16":  # trainings are as their devices multiply
        devices = ",".join(device + ":products=bf16" for device in devices.split(","))
    return Worker([program(ENGINE_TIMING), "--subject=" + name, "--precision=" + precision,
                   "--devices=" + devices, *flags], ENGINE_ENVIRONMENT)
