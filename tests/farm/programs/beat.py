"""A beat: beat.py SECONDS COMMAND… starts COMMAND every so many seconds, until SIGTERM.

Looks each second for what was cut off.
"""

import logging
import os
import sys
from pathlib import Path

from farm.beat import Entry, Schedule, run_beat

logging.basicConfig(level=logging.INFO, format="%(message)s")
schedule = Schedule(sweeps=(Entry(name="often", every=int(sys.argv[1])),))
run_beat(schedule, sys.argv[2:], Path(os.environ["LOCKSTEP_STATE"]), look=1)
