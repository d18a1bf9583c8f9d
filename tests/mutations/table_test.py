"""table.py is about the kernels as they are, and about all of them."""
import pathlib
import re
import unittest

from tests.integration import junit
from tests.mutations.table import MUTATIONS

SOURCES = {
    path.name: path.read_text()
    for path in pathlib.Path("kernels/cuda").iterdir()
    if path.suffix in (".cu", ".cuh")
}
KERNEL = re.compile(r"__global__[^{;]*?(\w+)\(\s*const .*?\n}\n", re.DOTALL)


def kernels():
    """(name, file, source with body) of each __global__ function."""
    for name, source in SOURCES.items():
        for match in KERNEL.finditer(source):
            yield match.group(1), name, match.group(0)


class TableTest(unittest.TestCase):

    def test_every_text_is_in_its_file_once(self):
        for mutation in MUTATIONS:
            with self.subTest(mutation.mistake):
                source = SOURCES[mutation.file]
                self.assertNotEqual(mutation.apply(source), source)

    def test_every_kernel_is_found(self):
        keywords = sum(len(re.findall(r"^__global__", source, re.MULTILINE))
                       for source in SOURCES.values())
        self.assertGreater(keywords, 20)
        self.assertEqual(len(list(kernels())), keywords)

    def test_every_kernel_has_a_mutation_in_its_body(self):
        for kernel, file, body in kernels():
            with self.subTest(kernel):
                self.assertTrue(any(m.file == file and m.text in body for m in MUTATIONS))

    def test_every_file_has_two(self):
        for name in SOURCES:
            if name.endswith(".cu"):
                with self.subTest(name):
                    self.assertGreaterEqual(sum(m.file == name for m in MUTATIONS), 2)


if __name__ == "__main__":
    junit.main()
