"""What may go and what never does."""

import json
import os

import pytest

from farm.jobs import JobError, JobSpec, RunSpec
from farm.retention import AGES, DAY, FAILING_FACTOR, PLACES, Rules, find_items, remove, tree_size
from farm.store import attempts_of, create_run, jobs_of
from farm.store.evidence import delete_run, read_evidence
from farm.store.jobs import finish_run
from farm.store.models import DeviceEventRow
from farm.store.runs import find_run, list_runs, note_run
from farm.store.transitions import claim, fail, finish
from farm.sweeps import begin, end, resume

HOUR = DAY / 24


@pytest.fixture
def places(tmp_path, store, clock):
    clock.now = 1.8e9  # files of a year before 1970 are no help

    class Places:
        out, state, cache = tmp_path / "out", tmp_path / "state", tmp_path / "cache"

        def file(self, path, age, size=10):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * size)
            os.utime(path, (store.clock() - age,) * 2)
            os.utime(path.parent, (store.clock() - age,) * 2)
            return path

        def report(self, name, age, exit_code=0, run="r"):
            path = self.out / name / "verdict.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"exit_code": exit_code, "run": {"id": run}}))
            os.utime(path, (store.clock() - age,) * 2)

        def found(self, kinds=AGES, cache=True, **rules):
            rules = Rules({kind: AGES[kind] for kind in kinds}, **{"keep_runs": 0, **rules})
            where = {"out": self.out, "state": self.state, "cache": self.cache if cache else None}
            return list(find_items(rules, store, read_evidence(store), **where))

        def names(self, *kinds, **rules):
            return sorted(item.name for item in self.found(kinds, **rules))

    return Places()


def ended(store, clock, *, age, spec=None, result=None, error=None, case="c", **facts):
    """A run whose one job ended ``age`` seconds ago."""
    now, clock.now = clock.now, clock.now - age
    job = JobSpec(case=case, device=case, spec=spec or {})
    run_id = create_run(store, RunSpec(suite="s", engine="e", command="c", **facts), [job])
    taken = claim(store, jobs_of(store, run_id)[0].id, "w", 10)
    if error:
        fail(store, taken, error, retry=False)
    else:
        finish(store, taken, result or {})
    finish_run(store, run_id, "done")
    clock.now = now
    return run_id


def test_every_kind_of_the_cache_has_its_own_age(places):
    for kind, patterns in PLACES.items():
        for pattern in patterns:
            for name, age in (("old", AGES[kind] + HOUR), ("new", AGES[kind] - HOUR)):
                places.file(places.cache / pattern.replace("*", name), age)
    found = places.found(PLACES)
    assert sorted(item.kind for item in found) == sorted(kind for kind in PLACES for _ in PLACES[kind])
    assert all("old" in item.name for item in found)
    for item in found:
        item.remove()
    assert places.found(PLACES) == []
    assert all("new" in str(path.relative_to(places.cache)) for path in places.cache.rglob("*") if path.is_file())


def test_nothing_of_a_cache_in_use_is_looked_at(places):
    places.file(places.cache / "mutants" / "old", 99 * DAY)
    assert places.names("mutants", cache=False) == []


def test_use_by_a_job_counts_and_not_only_the_age_of_the_file(places, store, clock):
    used = places.file(places.cache / "references" / "golden" / "used" / "trace.json", 300 * DAY).parent
    places.file(places.cache / "references" / "golden" / "idle" / "trace.json", 300 * DAY)
    ended(store, clock, age=DAY, spec={"golden": str(used), "deep": [{"path": "/elsewhere"}]})
    assert places.names("references") == ["golden/idle"]
    clock.now += AGES["references"]
    assert places.names("references") == ["golden/idle", "golden/used"]


def test_what_a_run_that_is_not_over_uses_stays_for_ever(places, store, clock):
    model = places.file(places.cache / "exports" / "m.refrt", 900 * DAY)
    spec = {"bundle": {"files": {"a": {"path": str(places.file(places.cache / "builds" / "b" / "refrt", 900 * DAY))}}}}
    sweep = begin(store, "lab1/a", "c", {"suites": ["s"], "engines": ["e"]})
    ended(store, clock, age=0, spec={"model": {"path": str(model)}, **spec}, sweep=sweep.id)
    clock.now += 365 * DAY
    assert places.names("exports", "bundles", "jobs") == []
    end(store, sweep)
    clock.now += 365 * DAY
    assert len(places.names("exports", "bundles", "jobs")) == 4


def test_tensors_of_results_that_stay_stay(places, store, clock):
    digest = "ab" + 62 * "0"
    places.file(places.cache / "blobs" / "ab" / digest, 80 * DAY)
    run = ended(store, clock, age=80 * DAY, result={"outputs": [{"blob": digest}, {"blob": None}, 3]})
    assert places.names("tensors", "jobs") == []
    clock.now += 11 * DAY
    assert places.names("tensors", "jobs") == sorted([run, digest])


def test_failing_runs_stay_three_times_as_long(places, store, clock):
    old = (AGES["jobs"] + HOUR, AGES["jobs"] * FAILING_FACTOR + HOUR)
    crash = JobError(type="RunnerCrashed", message="x", status="crashed")
    crashed, forgotten = (ended(store, clock, age=age, error=crash, case=f"d{age}") for age in old)
    red = ended(store, clock, age=old[0], case="red")
    note_run(store, red, exit_code=1)
    green = ended(store, clock, age=old[0], case="green")
    assert places.names("jobs") == sorted([green, forgotten])
    assert {run.id for run in list_runs(store)} == {crashed, forgotten, red, green}


def test_a_sweep_that_only_builds_uses_the_cache(places, store, clock):
    begin(store, "lab1/a", "c", {"suites": ["s"], "engines": ["e"]})
    assert read_evidence(store).anyone_active
    clock.now += 60
    assert not read_evidence(store).anyone_active, "nothing was heard of what drove it"


def test_a_sweep_goes_as_a_whole(places, store, clock):
    sweep = begin(store, "lab1/a", "c", {"suites": ["s"], "engines": ["e"]})
    part = ended(store, clock, age=0, sweep=sweep.id)
    end(store, sweep)
    clock.now += AGES["jobs"] - HOUR
    late = ended(store, clock, age=0, sweep=sweep.id, case="late")
    clock.now += 2 * HOUR
    assert places.names("jobs") == []
    clock.now += AGES["jobs"]
    assert places.names("jobs") == sorted([sweep.id, part, late])


def test_a_run_goes_with_what_confirms_it_and_not_before(places, store, clock):
    red = ended(store, clock, age=AGES["jobs"] + HOUR)
    note_run(store, red, exit_code=1)
    again = ended(store, clock, age=AGES["jobs"] + HOUR, case="again")
    note_run(store, again, confirms=red)
    assert places.names("jobs") == []
    assert places.names("jobs", accepted=frozenset({red})) == []
    clock.now += AGES["jobs"] * FAILING_FACTOR
    assert places.names("jobs", accepted=frozenset({again})) == []
    assert places.names("jobs") == sorted([red, again])


def test_a_run_is_deleted_with_its_jobs_and_attempts_unless_it_lives(store, clock):
    run = ended(store, clock, age=0)
    (job,) = jobs_of(store, run)
    delete_run(store, run)
    assert list_runs(store) == []
    assert jobs_of(store, run) == ()
    assert attempts_of(store, job.id) == ()
    living = create_run(store, RunSpec(suite="s", engine="e", command="c"), [JobSpec(case="c", device="d")])
    delete_run(store, living)
    assert len(jobs_of(store, living)) == 1


def test_reports_go_by_age_failing_ones_later_and_what_is_no_report_never(places, store):
    places.report("green", 31 * DAY)
    places.report("red", 31 * DAY, exit_code=1)
    places.report("long-red", 91 * DAY, exit_code=1)
    places.report("accepted", 900 * DAY, run="basis")
    places.report("latest-one", 900 * DAY)
    (places.out / "latest").symlink_to("latest-one")
    (places.out / "broken").mkdir()
    (places.out / "broken" / "verdict.json").write_text("{")
    os.utime(places.out / "broken" / "verdict.json", (store.clock() - 31 * DAY,) * 2)
    places.file(places.out / "mine" / "notes.txt", 900 * DAY)
    (places.out / "link").symlink_to(places.out / "green")
    assert places.names("reports", accepted=frozenset({"basis"})) == ["green", "long-red"]
    assert places.names("reports", accepted=frozenset({"basis"}), keep_runs=2) == ["long-red"]


def test_the_newest_runs_and_the_accepted_ones_stay_whatever_their_age(places, store, clock):
    runs = [ended(store, clock, age=(900 - i) * DAY, case=f"c{i}") for i in range(4)]
    assert places.names("jobs", keep_runs=2, accepted=frozenset({runs[0]})) == [runs[1]]


def test_logs_and_events_have_ages_too(places, store, clock):
    places.file(places.state / "logs" / "a.log", 15 * DAY)
    places.file(places.state / "logs" / "b.log", 13 * DAY)
    facts = {"device": "d", "kind": "state", "before": "ready", "after": "offline", "actor": "farm"}
    with store.write() as session:
        for age in (181, 179):
            session.add(DeviceEventRow(at=clock.now - age * DAY, reason="x", **facts))
    assert places.names("logs", "events") == ["1 events of devices", "a.log"]
    for item in places.found(["logs", "events"]):
        item.remove()
    assert places.names("logs", "events") == []


def test_what_a_killed_prune_began_to_remove_goes_at_once(places):
    places.file(places.cache / "exports" / ".pruned-1" / "x", 0)
    assert places.names("exports") == [".pruned-1"]


def test_a_folder_loses_its_name_before_its_files(tmp_path, monkeypatch):
    folder = tmp_path / "golden"
    (folder / "tensors").mkdir(parents=True)
    seen = []
    monkeypatch.setattr("shutil.rmtree", lambda path: seen.append((path, folder.exists())))
    remove(folder)
    assert seen[0][0].name.startswith(".pruned-")
    assert seen[0][1] is False


def test_sizes_do_not_follow_links(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 5000)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "big")
    (tmp_path / "folder" / "file").write_bytes(b"x" * 7)
    assert 7 < tree_size(tmp_path / "folder") < 5000


def test_a_sweep_of_a_night_long_past_blocks_nothing(store, clock):
    old = begin(store, "lab1/a", "c", {"suites": ["s"], "engines": ["e"]})
    clock.now += DAY
    new = begin(store, "lab1/a", "c", {"suites": ["s"], "engines": ["e"]})
    assert find_run(store, old.id).status == "abandoned"
    assert resume(store, "lab1/a", None).id == new.id
