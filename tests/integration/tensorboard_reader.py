"""Prints the scalars that the real tensorboard reads in a folder, as JSON."""

import json
import sys

from tensorboard.backend.event_processing import event_accumulator

reader = event_accumulator.EventAccumulator(
    sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
reader.Reload()
json.dump({tag: [[event.step, event.wall_time, event.value] for event in reader.Scalars(tag)]
           for tag in reader.Tags()["scalars"]}, sys.stdout)
