"""The relational store (the job table is the truth) and the blob store."""

from farm.store.database import Store
from farm.store.jobs import attempts_of, create_run, job, jobs_of, run_status

__all__ = ["Store", "attempts_of", "create_run", "job", "jobs_of", "run_status"]
