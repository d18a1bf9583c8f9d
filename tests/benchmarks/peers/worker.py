"""A peer's side of the measurement: answers requests as engine_timing.cc does, a line of JSON for
each line of standard input.

A peer has `version`, a text; `variants(case)`, {name: a function that does all of the case once},
which raises Unsupported; where the engine has the same cell, `difference(folder, hidden, layers)`
between the outputs of export_tool's files in a folder and its own.
"""

import json
import os
import sys
import time

from tests.benchmarks.peers import cases


class Unsupported(Exception):
    pass


def status_bytes(key):
    with open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(key + ":"):
                return 1024 * int(line.split()[1])
    return 0


def seconds_of(turn, turns):
    begin = time.perf_counter()
    for _ in range(turns):
        turn()
    return time.perf_counter() - begin


def fastest(variants):
    """The name of it; compilers at run time take the first turns to warm up."""
    if len(variants) == 1:
        return next(iter(variants))
    for turn in variants.values():
        seconds_of(turn, 2)
    return min(variants, key=lambda name: min(seconds_of(variants[name], 1) for _ in range(3)))


class Timer:

    def __init__(self, peer):
        self.peer = peer
        self.turn = None
        self.watched_from_bytes = 0
        self.watch_memory()

    def watch_memory(self):
        with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")  # VmHWM starts anew
        self.watched_from_bytes = status_bytes("VmRSS")

    def answer(self, request):
        (what, value), = request.items()
        return getattr(self, what)(value)

    def describe(self, _):
        return {"version": self.peer.version}

    def check(self, arguments):
        return {"difference": self.peer.difference(**arguments)}

    def prepare(self, case):
        self.turn = None  # its memory goes first
        variants = self.peer.variants(cases.Case(*(case[field] for field in cases.Case._fields)))
        name = fastest(variants)
        self.turn = variants[name]
        return {"variant": name}

    def time(self, turns):
        return {"seconds": seconds_of(self.turn, turns)}

    def memory(self, _):
        growth = status_bytes("VmHWM") - self.watched_from_bytes
        self.watch_memory()
        return {"bytes": growth}


def answer_lines(make_peer):
    # Libraries print what they like, but not into the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    timer = Timer(make_peer())
    for line in sys.stdin:
        try:
            answer = timer.answer(json.loads(line))
        except Unsupported as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers)
