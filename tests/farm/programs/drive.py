"""A command that uses the farm: drive.py EXECUTOR LOG JOBS DEVICES SECONDS. Exits 0 when every job is done."""

import sys

from farm.jobs import JobSpec, JobStatus, RunSpec
from farm.session import FarmSession
from farm.store import create_run

executor, log, jobs, devices, seconds = sys.argv[1:]
with FarmSession(executor=executor) as farm:
    plan = []
    for i in range(int(jobs)):
        device, case = f"d{i % int(devices)}", f"c{i}"
        spec = {"log": log, "seconds": float(seconds), "device": device, "case": case}
        plan.append(JobSpec(case=case, device=device, position=i, spec=spec))
    run_id = create_run(farm.store, RunSpec(suite="s", engine="e", command="drive"), plan)
    print(run_id, flush=True)
    summary = farm.run(run_id)
sys.exit(0 if all(job.status is JobStatus.DONE for job in summary.jobs) else 1)
