"""Runs a unittest program and reports each case to Bazel as JUnit XML.

Without $XML_OUTPUT_FILE it is plain unittest."""

import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class _Result(unittest.TextTestResult):
    """Remembers the outcome of each case: (kind, text) and seconds."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.cases = {}
        self._started = {}

    def startTest(self, test):
        super().startTest(test)
        self._started[test.id()] = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "passed", "")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._record(test, "error", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            broken = self.failures + self.errors
            text = "".join(text for case, text in broken if case is subtest)
            self._record(test, "failure", text)

    def _record(self, test, kind, text):
        began = self._started.get(test.id(), time.monotonic())
        _, before, _ = self.cases.get(test.id(), (kind, "", 0))
        self.cases[test.id()] = (kind, before + text, time.monotonic() - began)


def _split(test_id):
    """`__main__.Class.case` -> (Class, case); also `setUpClass (__main__.Class)`."""
    if test_id.endswith(")"):
        case, _, suite = test_id[:-1].partition(" (")
        return suite.rpartition(".")[2], case
    suite, _, case = test_id.rpartition(".")
    return suite.rpartition(".")[2], case


def _write(path, cases):
    suite = ElementTree.Element("testsuite", name=os.path.basename(sys.argv[0]))
    for test_id, (kind, text, seconds) in cases.items():
        name, case = _split(test_id)
        element = ElementTree.SubElement(
            suite, "testcase", classname=name, name=case, time="%.3f" % seconds)
        if kind != "passed":
            message = text.strip().rpartition("\n")[2]
            ElementTree.SubElement(element, kind, message=message).text = text
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main():
    """In place of unittest.main()."""
    runner = unittest.TextTestRunner(resultclass=_Result, verbosity=2)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    path = os.environ.get("XML_OUTPUT_FILE")
    if path:
        _write(path, program.result.cases)
    sys.exit(not program.result.wasSuccessful())
