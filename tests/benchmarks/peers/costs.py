"""What a training step costs on any number of devices, by what it costs on one and on two.

A step of M micro-batches on D devices takes ceil(M / D) micro-batches one after another, and then
what does not depend on rows: the sum of squares and the update, which each device does for itself,
and the exchange, of which each further device moves as many bytes again. Devices on one machine
share its memory, so these are taken to come one after another.
"""

import collections
import math

from tests.benchmarks.peers import cases


class Costs(collections.namedtuple("Costs", "micro_batch fixed further")):
    """Seconds: of a micro-batch; of the rest on one device; more of it for each further one."""

    def step_seconds(self, devices, micro_batches):
        return (math.ceil(micro_batches / devices) * self.micro_batch + self.fixed
                + self.further * (devices - 1))

    def __str__(self):
        return "%.3g ms a micro-batch, %.3g ms the rest, %.3g ms for each further device" % tuple(
            1e3 * seconds for seconds in self)


def measured_costs(measured):
    """None where the section scaling was not measured."""
    fixed, both, whole = (measured.median(case, devices, "scaling") for case, devices in (
        (cases.FIXED, cases.ONE_DEVICE), (cases.FIXED, cases.TWO_DEVICES),
        (cases.SCALED, cases.ONE_DEVICE)))
    if None in (fixed, both, whole):
        return None
    count = cases.rows(cases.SCALED) // cases.MICRO_BATCH_ROWS
    return Costs((whole - fixed) / count, fixed, max(0, both - fixed))
