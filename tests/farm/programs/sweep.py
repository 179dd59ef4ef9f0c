"""A command that sweeps: sweep.py LOG JOBS DEVICES SECONDS [--entry NAME | --resume ID].

Prints the id of the sweep; exits 0 when all jobs have answers. No job ends while LOG.hold is there.
"""

import os
import sys
from pathlib import Path

from farm.driving import alone, driving
from farm.jobs import JobSpec, JobStatus
from farm.session import FarmSession
from farm.store import Store
from farm.sweeps import SweepRuns, begin, end, resume

log, jobs, devices, seconds, *more = sys.argv[1:]
asked = dict(zip(more[::2], more[1::2], strict=True))
state = Path(os.environ["LOCKSTEP_STATE"])
with alone(state) as place, Store() as store:
    request = {"suites": ["s"], "engines": ["e"]}
    if "--resume" in asked:
        sweep = resume(store, place, asked["--resume"])
    else:
        sweep = begin(store, place, "sweep", request, entry=asked.get("--entry"))
    print(sweep.id, flush=True)
    with driving(store, sweep), FarmSession(executor="farm_executors:record", slots=2) as farm:
        plan = []
        for i in range(int(jobs)):
            device, case = f"d{i % int(devices)}", f"c{i}"
            spec = {"log": log, "hold": f"{log}.hold", "seconds": float(seconds), "device": device, "case": case}
            plan.append(JobSpec(case=case, device=device, position=i, spec=spec, content=f"{case} on {device}"))
        runs = SweepRuns(farm.store, sweep, farm.run)
        runs.drive(plan)
        summary = runs.summary(plan)
        end(farm.store, sweep)
sys.exit(0 if [job.status for job in summary.jobs] == [JobStatus.DONE] * int(jobs) else 1)
