"""What ptxas says of every kernel: registers, shared memory, spills.

    ptxas_table.py REPORT...                 prints docs/cuda_kernels.md
    ptxas_table.py --check TABLE [--may_spill=KERNEL] REPORT...
                                             fails for a kernel that spills or
                                             that TABLE does not have

A REPORT is what nvcc -Xptxas=-v printed (cuda_library's NAME_ptxas).
tests/cuda/ptxas_table makes the table anew.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from typing import NamedTuple

HEADER = """# Kernels of the CUDA backend

What ptxas says of each (`tests/cuda/ptxas_table` writes this page): registers a
thread, bytes of shared memory a block, bytes spilled. `//tests/cuda:spills_test`
fails where a kernel spills for the target of the ordinary CUDA build, but for
the ones it excepts.
"""


class Use(NamedTuple):
    registers: int
    shared_bytes: int
    spilled_bytes: int


def number(pattern, text):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else 0


def parse(report):
    """Yields (mangled name, target, Use) of every kernel."""
    for entry in report.split("Compiling entry function ")[1:]:
        name, target = re.match(r"'(\S+)' for 'sm_(\w+)'", entry).groups()
        spills = [int(n) for n in re.findall(r"(\d+) bytes spill", entry)]
        yield name, target, Use(
            registers=number(r"Used (\d+) registers", entry),
            shared_bytes=number(r"(\d+) bytes smem", entry),
            spilled_bytes=sum(spills),
        )


def demangle(names):
    """Short names: without namespaces, parameters and return type."""
    done = subprocess.run(
        ["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True
    )
    return dict(zip(names, (short_name(line) for line in done.stdout.splitlines())))


def short_name(demangled):
    name = re.sub(r"^void ", "", demangled)
    name = re.sub(r"\((anonymous namespace)\)::", "", name)
    name = re.sub(r"\(.*", "", name)
    return re.sub(r"\b(?:recurve|cuda)::", "", name)


def read(paths):
    """{kernel: {target: Use}}"""
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            found += parse(file.read())
    names = demangle(sorted({name for name, _, _ in found}))
    kernels = defaultdict(dict)
    for name, target, use in found:
        kernels[names[name]][target] = use
    return kernels


def table(kernels):
    targets = sorted({t for uses in kernels.values() for t in uses}, key=int)
    lines = [HEADER, "| kernel | " + " | ".join("sm_" + t for t in targets) + " |"]
    lines.append("|---" * (len(targets) + 1) + "|")
    for kernel in sorted(kernels):
        cells = []
        for target in targets:
            use = kernels[kernel].get(target)
            cells.append("%d, %d, %d" % use if use else "")
        lines.append("| `%s` | %s |" % (kernel, " | ".join(cells)))
    return "\n".join(lines) + "\n"


def complaints(kernels, text, may_spill=()):
    listed = set(re.findall(r"^\| `(.*?)` \|", text, re.MULTILINE))
    for kernel in sorted(set(kernels) - listed):
        yield "%s is not in the table; run tests/cuda/ptxas_table" % kernel
    for kernel in sorted(listed - set(kernels)):
        yield "%s is in the table alone; run tests/cuda/ptxas_table" % kernel
    for kernel, uses in sorted(kernels.items()):
        for target, use in uses.items():
            if use.spilled_bytes and kernel.partition("<")[0] not in may_spill:
                yield "%s spills %d bytes on sm_%s" % (kernel, use.spilled_bytes, target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", metavar="TABLE")
    parser.add_argument("--may_spill", metavar="KERNEL", action="append", default=[])
    parser.add_argument("reports", nargs="+")
    arguments = parser.parse_args()
    kernels = read(arguments.reports)
    if not arguments.check:
        sys.stdout.write(table(kernels))
        return
    with open(arguments.check, encoding="utf-8") as file:
        found = list(complaints(kernels, file.read(), arguments.may_spill))
    print("%d kernels" % len(kernels))
    if found or not kernels:
        sys.exit("\n".join(found) or "no kernel in the reports")


if __name__ == "__main__":
    main()
