"""Memory of a process; case C2 of the acceptance cases."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.localshell import local_script
from agents.probes._text import Unknown
from agents.probes.memory import Memory, Watched, parse, parse_meminfo, parse_rollup
from agents.readings import Place, take
from tests.agents.shells import Shell, tree_of

Sample = Callable[[str], str]
STATUS = "Name:\trunner\nState:\tR (running)\nVmPeak:\t 90000 kB\nVmHWM:\t    5000 kB\nVmRSS:\t    4321 kB\n"


@pytest.mark.parametrize("kernel", ["5.10", "6.6"])
def test_the_parts_of_pss_are_not_added_to_it(sample: Sample, kernel: str) -> None:
    assert parse_rollup(sample(f"smaps_rollup-kernel-{kernel}.txt")) == 1000


def test_before_kernel_4_14_the_mappings_are_added_up(sample: Sample) -> None:
    assert parse_rollup(sample("smaps-kernel-4.9.txt")) == 1000


@given(
    st.lists(st.tuples(st.sampled_from(["Pss_Anon", "Pss_File", "Pss_Dirty", "Pss_Shmem", "Pss_New", "SwapPss", "Rss"]),
                       st.integers(0, 10**9)))
)  # fmt: skip
def test_no_other_line_changes_pss_whatever_a_kernel_adds(others: list[tuple[str, int]]) -> None:
    before = [f"{key}:  {value} kB" for key, value in others]
    assert parse_rollup("\n".join([*before, "Pss:   1000 kB", *before])) == 1000


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_the_sum_over_mappings_is_exact(sizes: list[int]) -> None:
    assert parse_rollup("\r\n".join(f"Pss: {size} kB\r\nSwapPss: 7 kB" for size in sizes)) == sum(sizes)


def process_tree(root: Path, files: dict[str, str]) -> Place:
    return Place("/", str(tree_of(root, {f"41/{name}": text for name, text in files.items()})), "/sys")


def test_the_roll_up_is_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    files = {"status": STATUS, "smaps_rollup": sample("smaps_rollup-kernel-6.6.txt"), "smaps": "Pss: 1 kB\n"}
    reading = take(shell.script, ["memory"], process_tree(tmp_path / "proc", files), pid=41)["memory"]
    assert reading == Memory(pss_kib=1000, rss_kib=4321, peak_rss_kib=5000)


def test_old_kernels_are_read_in_the_shells_of_devices(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    files = {"status": STATUS, "smaps": sample("smaps-kernel-4.9.txt")}
    reading = take(shell.script, ["memory"], process_tree(tmp_path / "proc", files), pid=41)["memory"]
    assert reading == Memory(pss_kib=1000, rss_kib=1400, peak_rss_kib=5000)


def test_a_process_that_is_gone_has_ended(shell: Shell, tmp_path: Path) -> None:
    reading = take(shell.script, ["memory"], Place("/", str(tmp_path), "/sys"), pid=41)["memory"]
    assert reading == Unknown("process ended")


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and is not waited for: its files are there and cannot be read."""
    with subprocess.Popen(["/bin/sh", "-c", "exit 0"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read()  # ends with the process
        while "State:\tZ" not in Path(f"/proc/{process.pid}/status").read_text():
            pass
        yield process.pid


def test_a_dying_process_gives_null_with_the_reason(zombie: int) -> None:
    reading = take(local_script, ["memory"], Place("/"), pid=zombie)["memory"]
    assert reading == Unknown("process ended")


@pytest.mark.parametrize(
    "told",
    [
        "@status\nState: R (running)\n@pss\ngrep: /proc/9/smaps_rollup: No such process\n@alive\n@end\n",
        "@status\nState: Z (zombie)\n@pss\n@alive\n@end\n",
        "@status\n@pss\ngrep: /proc/9/smaps: No such file or directory\n@ended\n@end\n",
        "@status\n@pss\n@ended\n@meminfo\nNo process found for: 9\n@end\n",
    ],
)
def test_every_way_to_die_is_told_alike(told: str) -> None:
    reading = parse(told)
    assert isinstance(reading, Unknown)
    assert reading.reason == "process ended"


def test_a_process_of_somebody_else_is_no_dead_one() -> None:
    told = "@status\nState: S\nVmRSS: 10 kB\n@pss\ngrep: /proc/1/smaps_rollup: Permission denied\n@alive\n@end\n"
    assert parse(told) == Memory(None, 10, None, "permission denied")


def test_the_last_good_sample_outlives_the_process() -> None:
    seen = Watched().add(Memory(900, 950, 950)).add(Memory(1000, 1100, 1200)).add(Memory(800, 850, 1200))
    seen = seen.add(Memory(None, None, 1300, "process ended")).add(Unknown("process ended"))
    assert seen.last == Memory(800, 850, 1200)
    assert seen.flat() == {"peak_pss_kib": 1000, "peak_rss_kib": 1300, "samples": 4, "reason": "process ended"}


def test_a_process_never_sampled_has_no_peak() -> None:
    assert Watched().flat() == {
        "peak_pss_kib": None, "peak_rss_kib": None, "samples": 0, "reason": "no sample was taken"
    }  # fmt: skip


@given(st.lists(st.builds(Memory, st.none() | st.integers(0), st.none() | st.integers(0), st.none() | st.integers(0))))
def test_peaks_are_the_largest_of_what_was_seen(samples: list[Memory]) -> None:
    seen = Watched()
    for sample in samples:
        seen = seen.add(sample)
    assert seen.peak_pss_kib == max((s.pss_kib for s in samples if s.pss_kib is not None), default=None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meminfo-android8.txt", Memory(54321, None, None)),
        ("meminfo-android11.txt", Memory(63010, 71200, None)),
        ("meminfo-android16-native.txt", Memory(20480, 48640, None)),
        ("meminfo-summary-only.txt", Memory(1234, 2345, None)),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r\r\n"])
def test_meminfo_of_every_release_is_read(sample: Sample, name: str, expected: Memory, ending: str) -> None:
    assert parse_meminfo(sample(name).replace("\n", ending)) == expected


def test_a_table_without_its_summary_is_enough(sample: Sample) -> None:
    for release, rss in (("8", None), ("11", 71200)):
        table = sample(f"meminfo-android{release}.txt").split(" App Summary")[0]
        reading = parse_meminfo(table)
        assert isinstance(reading, Memory)
        assert reading.rss_kib == rss


def test_meminfo_of_an_ended_process_says_so() -> None:
    assert parse_meminfo("Applications Memory Usage (in Kilobytes):\nNo process found for: 41\n") == Unknown(
        "process ended"
    )


def test_meminfo_stands_in_where_the_kernel_hides_pss(shell: Shell, tmp_path: Path, sample: Sample) -> None:
    (tmp_path / "told").write_text(sample("meminfo-android11.txt"))
    shell.add_command("dumpsys", f'[ "$*" = "meminfo 41" ] && cat {tmp_path}/told\n')
    place = process_tree(tmp_path / "proc", {"status": STATUS})
    reading = take(shell.script, ["memory"], place, pid=41, meminfo=True)["memory"]
    assert reading == Memory(63010, 71200, 5000)


@given(st.text())
def test_no_text_breaks_the_parsers(text: str) -> None:
    for told in (text, f"@status\n{text}\n@pss\n{text}\n@meminfo\n{text}", f"@pss\nPss: {text} kB"):
        reading = parse(told)
        assert isinstance(reading, Unknown) or (reading.pss_kib or 0) >= 0
    parse_meminfo(text)
