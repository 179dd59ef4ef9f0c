from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.dispatch import Board, outstanding
from farm.jobs import JobStatus, JobView, Role

NOW = 1000.0


def choose(jobs, busy, now, room):
    return Board(jobs).choose(busy, now, room)


def lost_messages(jobs, now, slots):
    return Board(jobs).lost_messages(now, slots)


def job(number, device, *, status=JobStatus.QUEUED, dispatched=None, cost=1.0, not_before=0.0, started=None):
    return JobView(
        id=f"{number:04d}", run_id="r", case=f"c{number}", device=device, role=Role.HEAD, position=number, cost=cost,
        timeout=60, status=status, attempts=0, not_before=not_before, dispatched=dispatched, created=0.0,
        started=started, finished=None,
    )  # fmt: skip


def test_the_device_with_most_work_left_goes_first():
    jobs = [job(0, "short"), job(1, "long"), job(2, "long", cost=5), job(3, "middle", cost=3)]
    assert [j.id for j in choose(jobs, (), NOW, 2)] == ["0001", "0003"]


def test_positions_decide_and_not_the_order_of_rows():
    assert [j.id for j in choose([job(2, "d"), job(1, "d"), job(3, "d")], (), NOW, 5)] == ["0001"]


def test_a_job_that_waits_for_its_retry_holds_up_those_behind_it():
    jobs = [job(0, "d", not_before=NOW + 1), job(1, "d")]
    assert choose(jobs, (), NOW, 5) == []
    assert [j.id for j in choose(jobs, (), NOW + 1, 5)] == ["0000"]


def test_a_busy_device_gets_nothing():
    assert [j.device for j in choose([job(0, "a"), job(1, "b")], {"a"}, NOW, 5)] == ["b"]


anyjob = st.builds(
    job,
    st.integers(0, 9999),
    st.sampled_from("abcde"),
    status=st.sampled_from(JobStatus),
    dispatched=st.none() | st.just(NOW),
    cost=st.floats(0, 100),
    not_before=st.sampled_from([0.0, NOW + 1]),
)


@given(st.lists(anyjob, max_size=20), st.sets(st.sampled_from("abcde")), st.integers(-1, 5))
def test_at_most_one_job_a_device_and_never_out_of_turn(jobs, busy, room):
    chosen = choose(jobs, busy, NOW, room)
    devices = [j.device for j in chosen]
    assert len(devices) == len(set(devices)) <= max(room, 0)
    for j in chosen:
        assert j.device not in busy
        mine = [other for other in jobs if other.device == j.device]
        assert not any(outstanding(other) for other in mine)
        assert all(j.position <= other.position for other in mine if other.status is JobStatus.QUEUED)


@given(st.lists(st.lists(anyjob, max_size=8), max_size=6), st.sets(st.sampled_from("abcde")), st.integers(-1, 5))
def test_a_board_that_was_told_of_changes_decides_like_a_new_one(rounds, busy, room):
    board, known = Board(), {}
    for changes in rounds:
        for changed in changes:
            known[changed.id] = changed
            board.put(changed)
        board.choose(busy, NOW, room)  # a decision changes nothing
        fresh = Board(known.values())
        old, new = board.choose(busy, NOW, room), fresh.choose(busy, NOW, room)
        assert sorted(j.id for j in old) == sorted(j.id for j in new) or len({j.cost for j in known.values()}) > 1
        assert len(old) == len(new)
        assert {j.device for j in board.choose((), NOW, 99)} == {j.device for j in fresh.choose((), NOW, 99)}
        assert board.away == fresh.away == sum(map(outstanding, known.values()))
        assert sorted(j.id for j in board.lost_messages(NOW + 99, None)) == sorted(
            j.id for j in fresh.lost_messages(NOW + 99, None)
        )


@pytest.mark.parametrize("sent", [None, NOW])
def test_a_job_that_goes_on_elsewhere_makes_way_for_the_next_of_its_device(sent):
    board = Board([job(0, "a", dispatched=sent), job(1, "a")])
    board.put(job(0, "b"))
    assert [j.device for j in board.choose((), NOW, 9)] == ["a", "b"]


def test_a_message_is_lost_when_a_free_slot_does_not_take_it():
    sent = job(0, "a", dispatched=NOW)
    ran = job(1, "b", status=JobStatus.DONE, started=NOW)
    running = replace(ran, status=JobStatus.RUNNING)
    assert lost_messages([sent, ran], NOW + 4.9, 1) == []
    assert lost_messages([sent, ran], NOW + 5.0, 1) == [sent]
    assert lost_messages([sent, running], NOW + 99, 1) == []
    assert lost_messages([sent, running], NOW + 5.0, 2) == [sent]


def test_workers_that_are_not_known_to_be_up_get_more_time():
    sent = job(0, "a", dispatched=NOW)
    assert lost_messages([sent], NOW + 9.9, 1) == lost_messages([sent], NOW + 29, None) == []
    assert lost_messages([sent], NOW + 10, 1) == lost_messages([sent], NOW + 30, None) == [sent]


def test_patience_begins_anew_when_a_slot_becomes_free():
    waited_for_a_slot = job(0, "a", dispatched=NOW)
    ended_late = replace(job(1, "b", status=JobStatus.DONE, started=NOW), finished=NOW + 60)
    assert lost_messages([waited_for_a_slot, ended_late], NOW + 64, 1) == []
    assert lost_messages([waited_for_a_slot, ended_late], NOW + 65, 1) == [waited_for_a_slot]


def test_of_long_jobs_one_more_than_slots_waits_for_each_slot():
    board = Board([job(number, f"d{number}") for number in range(9)])
    assert board.room(2) == 4
    for number in range(4):
        board.put(job(number, f"d{number}", dispatched=NOW))
    assert board.room(2) == 0
    board.put(job(0, "d0", status=JobStatus.DONE, dispatched=NOW, started=NOW))
    assert board.room(2) == 1, "as before, whatever ended"


def test_where_many_jobs_end_between_two_looks_more_are_sent():
    board = Board([job(number, f"d{number}", dispatched=NOW) for number in range(4)])
    for number in range(4):
        board.put(job(number, f"d{number}", status=JobStatus.DONE, dispatched=NOW, started=NOW))
    assert board.room(2) == 2 + 2 * 4
    assert board.room(2) == 4, "counted once"


def test_a_message_that_is_taken_back_is_no_job_that_ended():
    board = Board([job(number, f"d{number}", dispatched=NOW) for number in range(4)])
    for number in range(4):
        board.put(job(number, f"d{number}"))
    assert board.room(2) == 4
