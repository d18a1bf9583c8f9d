"""The program has machine code for exactly the targets that it was built for."""

import struct
import sys
import unittest

from tests.integration import junit

CUDA_MACHINE = 190  # EM_CUDA


def targets_of(data):
    """The sm numbers of the ELF images for GPUs within a program."""
    found = set()
    at = data.find(b"\x7fELF\x02")
    while at >= 0 and at + 64 <= len(data):
        (machine,) = struct.unpack_from("<H", data, at + 18)
        if machine == CUDA_MACHINE:
            found.add(data[at + 49])  # byte 1 of e_flags
        at = data.find(b"\x7fELF\x02", at + 1)
    return found


class Targets(unittest.TestCase):
    def test_has_machine_code_for_each_target(self):
        with open(PROGRAM, "rb") as file:
            self.assertEqual(sorted(targets_of(file.read())), sorted(EXPECTED))


if __name__ == "__main__":
    PROGRAM, EXPECTED = sys.argv[1], [int(target) for target in sys.argv[2:]]
    del sys.argv[1:]
    junit.main()
