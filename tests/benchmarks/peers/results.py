"""What was measured, for tables: times of (section, case, subject), see run."""

import statistics

from tests.benchmarks.peers import cases, floor


class Results:

    def __init__(self, data):
        self.data = data
        self._cells = {
            (cell["section"], cases.Case(**cell["case"]), cell["subject"]): cell
            for cell in data["cells"]}

    def cases_of(self, section):
        """In the order of measurement."""
        return list(dict.fromkeys(case for part, case, _ in self._cells if part == section))

    def cell(self, case, subject, section=None):
        return self._cells.get((section or case.kind, case, subject), {})

    def seconds(self, case, subject, section=None):
        """Of each round; empty where it was not measured."""
        return self.cell(case, subject, section).get("seconds", [])

    def median(self, case, subject, section=None):
        seconds = self.seconds(case, subject, section)
        return statistics.median(seconds) if seconds else None

    def floor(self, case):
        products, copy = (self.median(case, subject) for subject in cases.FLOORS)
        return None if products is None or copy is None else floor.seconds(products, copy)

    def ratio(self, case, above, below, section=None):
        """How many times as long as `below` `above` takes, None where one was not measured."""
        return ratio_of(self.seconds(case, above, section), self.seconds(case, below, section))

    def rows_ratio(self, case, other):
        """Of rows/s of the first case over the second's, by recurve_sru in the section scaling."""
        seconds = (self.seconds(each, "recurve_sru", "scaling") for each in (other, case))
        ratio = ratio_of(*seconds)
        return ratio and ratio * cases.rows(case) / cases.rows(other)


def ratio_of(above, below):
    """Median over rounds that both have; else of the medians."""
    if not above or not below:
        return None
    if len(above) == len(below):
        return statistics.median(a / b for a, b in zip(above, below))
    return statistics.median(above) / statistics.median(below)
