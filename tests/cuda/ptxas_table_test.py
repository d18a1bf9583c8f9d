"""The table is what the reports say, and spills are seen."""

import unittest

from tests.cuda import ptxas_table
from tests.integration import junit

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7recurve4cuda6KernelIfLi4EEEvf' for 'sm_80'
ptxas info    : Function properties for _ZN7recurve4cuda6KernelIfLi4EEEvf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 4224 bytes smem, 364 bytes cmem[0]
ptxas info    : Compile time = 2.242 ms
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN7recurve4cuda6KernelIfLi4EEEvf' for 'sm_100'
ptxas info    : Function properties for _ZN7recurve4cuda6KernelIfLi4EEEvf
    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers
"""


class PtxasTable(unittest.TestCase):
    def kernels(self):
        names = {"_ZN7recurve4cuda6KernelIfLi4EEEvf": "Kernel<float, 4>"}
        kernels = {}
        for name, target, use in ptxas_table.parse(REPORT):
            kernels.setdefault(names[name], {})[target] = use
        return kernels

    def test_names_are_short(self):
        name = "_ZN7recurve4cuda6KernelIfLi4EEEvf"
        self.assertEqual(ptxas_table.demangle([name]), {name: "Kernel<float, 4>"})

    def test_has_a_column_for_each_target(self):
        text = ptxas_table.table(self.kernels())
        self.assertIn("| kernel | sm_80 | sm_100 |", text)
        self.assertIn("| `Kernel<float, 4>` | 40, 4224, 0 | 255, 0, 32 |", text)

    def test_complains_of_spills_and_of_what_only_one_has(self):
        kernels = self.kernels()
        text = ptxas_table.table(kernels)
        self.assertEqual(
            list(ptxas_table.complaints(kernels, text)),
            ["Kernel<float, 4> spills 32 bytes on sm_100"],
        )
        self.assertEqual(list(ptxas_table.complaints(kernels, text, ["Kernel"])), [])
        del kernels["Kernel<float, 4>"]["100"]
        self.assertEqual(list(ptxas_table.complaints(kernels, text)), [])
        self.assertEqual(len(list(ptxas_table.complaints(kernels, ""))), 1)
        self.assertEqual(len(list(ptxas_table.complaints({}, text))), 1)


if __name__ == "__main__":
    junit.main()
