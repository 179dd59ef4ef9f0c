"""Faults × moments × links: whatever dies in the middle, every job ends exactly once, with the truth about why."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chaos import checks, table
from tests.chaos.boards import Phones
from tests.chaos.scenario import Combination, chosen, faults, share
from tests.chaos.world import Evidence, World

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.services,
    pytest.mark.ssh,
    pytest.mark.adb,
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="session")
def phones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phones]:
    with Phones(tmp_path_factory.mktemp("phones")) as started:
        yield started


@pytest.fixture(scope="session")
def undisturbed(phones: Phones) -> Callable[[str], Evidence]:
    """What a run over a link gives when nothing goes wrong; run once for each link."""
    known: dict[str, Evidence] = {}

    def run(link: str) -> Evidence:
        if link not in known:
            with World(link, phones) as world:
                known[link] = world.calm()
                nothing_is_proved(world, known[link])
            checks.every_job_ends_once(known[link])
            checks.nothing_is_confused(known[link], "pass")
        return known[link]

    return run


def nothing_is_proved(world: World, evidence: Evidence) -> None:
    """Of a run in which no fault struck, no fault's proof holds."""
    for name, fault in faults().items():
        if world.link in fault.links:
            try:
                fault.proof(world, evidence)
            except AssertionError:
                continue
            pytest.fail(f"{name} is proved, and nothing struck")


def survive(entry: Combination, undisturbed: Callable[[str], Evidence], phones: Phones) -> None:
    print(f"again: make chaos ARGS=\"-k '{entry.id}'\"")
    table.forget(entry)
    fault = faults()[entry.fault]
    calm = undisturbed(entry.link)
    with World(entry.link, phones, fault.seconds, fault.small_disk) as world:
        evidence = world.run(fault, entry.moment)
        fault.proof(world, evidence)
        checks.every_job_ends_once(evidence)
        checks.no_late_write(evidence)
        checks.recovers_in_time(evidence)
        seconds = checks.recovery_seconds(evidence)
        if fault.controller:
            assert {checks.verdict(job, evidence) for job in evidence.jobs} <= {"pass", "fail", "cancelled"}
            checks.same_results(evidence, calm)
            evidence = world.run_again(evidence)
            checks.every_job_ends_once(evidence)
            checks.no_late_write(evidence)
            done = {job.case for job in evidence.jobs}
            assert {checks.verdict(job, evidence) for job in evidence.jobs if job.case != "regressed"} == {"pass"}, done
        else:
            checks.nothing_is_confused(evidence, fault.ending(entry.moment), fault.ends == "infra")
    checks.same_results(evidence, calm)
    checks.never_two_holders(evidence)
    if fault.ending(entry.moment) == "pass":
        checks.nothing_is_left_on_the_device(evidence)
    table.record(entry, fault.ending(entry.moment), seconds)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "some" in metafunc.fixturenames:
        picked = chosen(20, metafunc.config.getoption("--chaos-seed"))
        metafunc.parametrize("some", picked, ids=[entry.id for entry in picked])
    if "each" in metafunc.fixturenames:
        number, parts = map(int, metafunc.config.getoption("--chaos-part").split("/"))
        every = share(number, parts)
        metafunc.parametrize("each", every, ids=[entry.id for entry in every])


def test_a_handful(some: Combination, undisturbed: Callable[[str], Evidence], phones: Phones) -> None:
    survive(some, undisturbed, phones)


@pytest.mark.long
def test_all(each: Combination, undisturbed: Callable[[str], Evidence], phones: Phones) -> None:
    survive(each, undisturbed, phones)
