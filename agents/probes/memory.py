"""Memory of one process: PSS, RSS and the highest RSS so far, from the kernel or from Android's ``dumpsys meminfo``.

PSS is the line ``Pss:`` and nothing else: newer kernels print parts of it (``Pss_Anon``, ``Pss_File`` …) and
``SwapPss`` beside it, which must not be added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agents.probes._text import Flat, Unknown, lines, refusal, sections, whole

EVERY_RUN = False

# `pid` is set by who asks. smaps_rollup came with kernel 4.14; before, the mappings are added up by who reads this.
SCRIPT = r"""
echo @status; grep -E '^(State|VmHWM|VmRSS):' "$proc/$pid/status"
echo @pss
if [ -e "$proc/$pid/smaps_rollup" ]; then file=smaps_rollup; else file=smaps; fi
grep -E '^(Pss|Rss):' "$proc/$pid/$file" 2>&1
if [ -d "$proc/$pid" ]; then echo @alive; else echo @ended; fi
if [ -n "$meminfo" ] && command -v dumpsys >/dev/null; then
    echo @meminfo; bounded dumpsys meminfo "$pid" 2>&1 | head -n 120
fi
echo @end
"""


@dataclass(frozen=True)
class Memory:
    """KiB; ``peak_rss_kib`` is the kernel's own high-water mark; what cannot be read is None, with the ``reason``."""

    pss_kib: int | None
    rss_kib: int | None
    peak_rss_kib: int | None
    reason: str = ""

    def flat(self) -> Flat:
        """As JSON."""
        told: Flat = {"pss_kib": self.pss_kib, "rss_kib": self.rss_kib, "peak_rss_kib": self.peak_rss_kib}
        return {**told, "memory_reason": self.reason} if self.reason else told


def parse(text: str) -> Memory | Unknown:
    """Read what ``SCRIPT`` printed; ``Unknown`` when nothing at all can be told of the process."""
    found = sections(text, "@")
    status = {key: _kib(value) for key, value in _fields(found.get("status", []))}
    pss, rss = _mappings(found.get("pss", []))
    android = parse_meminfo("\n".join(found.get("meminfo", [])))
    if isinstance(android, Memory):
        pss, rss = (pss if pss is not None else android.pss_kib), (rss if rss is not None else android.rss_kib)
    rss = rss if rss is not None else status.get("VmRSS")
    peak = status.get("VmHWM")
    reason = "" if pss is not None else _why(found)
    if pss is None and rss is None and peak is None:
        return Unknown(reason)
    return Memory(pss, rss, peak, reason)


def parse_rollup(text: str) -> int | None:
    """PSS in KiB of the text of ``smaps_rollup``, or the sum over the mappings of ``smaps``; None without any."""
    return _mappings(lines(text))[0]


def _mappings(told: Sequence[str]) -> tuple[int | None, int | None]:
    sums: dict[str, int] = {}
    for key, value in _fields(told):
        size = _kib(value)
        if key in ("Pss", "Rss") and size is not None:
            sums[key] = sums.get(key, 0) + size
    return sums.get("Pss"), sums.get("Rss")


def _fields(told: Sequence[str]) -> list[tuple[str, str]]:
    split = (line.partition(":") for line in told)
    return [(key.strip(), value.strip()) for key, _, value in split]


def _kib(value: str) -> int | None:
    size = whole(re.sub(r"\s*kB$", "", value))
    return size if size is not None and size >= 0 else None


def _why(found: dict[str, list[str]]) -> str:
    state = dict(_fields(found.get("status", []))).get("State", "")
    if "ended" in found or state[:1] in ("Z", "X") or "No such process" in " ".join(found.get("pss", [])):
        return "process ended"
    return refusal(" ".join(found.get("pss", []))) or "the kernel shows no PSS"


# -- dumpsys meminfo -------------------------------------------------------------------------------

# Android 10 and newer end their App Summary so; the spacing differs, and 8 and 9 have no RSS there
_SUMMARY = re.compile(r"TOTAL(?: PSS)?:\s*(\d{1,12})(?:\s+TOTAL RSS:\s*(\d{1,12}))?")
# every release: the row below Dalvik Heap; from 11 on there is a column "Rss Total" or "Rss"
_TABLE = re.compile(r"TOTAL\s+(\d{1,12}(?:\s+\d{1,12})*)")


def parse_meminfo(text: str) -> Memory | Unknown:
    """PSS (and RSS from Android 10 on) of ``dumpsys meminfo PID``, Android 8 to 16, in KiB."""
    told = lines(text)
    if any(line.startswith("No process found for") for line in told):
        return Unknown("process ended")
    row = next((match for line in told if (match := _TABLE.fullmatch(line))), None)
    summary = next((match for line in told if (match := _SUMMARY.match(line))), None)
    if row is None and summary is None:
        return Unknown(refusal(text) or "dumpsys meminfo tells no total")
    columns = [int(value) for value in row[1].split()] if row else []
    rss = int(summary[2]) if summary and summary[2] else _rss_column(told, columns)
    pss = columns[0] if columns else int(summary[1]) if summary else None
    return Memory(pss, rss, None)


def _rss_column(told: Sequence[str], columns: Sequence[int]) -> int | None:
    """The column of RSS, by the two lines of the table's head: words stand above one another."""
    head = next((index for index, line in enumerate(told) if line.startswith("Pss ")), None)
    if head is None:
        return None
    names = told[head].split()
    return columns[names.index("Rss")] if "Rss" in names and len(columns) > names.index("Rss") else None


# -- a process over time -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Watched:
    """What was seen of a process so far: peaks and the last good sample, which survives the end of the process."""

    samples: int = 0
    peak_pss_kib: int | None = None
    peak_rss_kib: int | None = None
    last: Memory | None = field(default=None)
    reason: str = "no sample was taken"

    def add(self, sample: Memory | Unknown) -> Watched:
        """With one sample more; a sample without PSS changes no peak of PSS and replaces no good one."""
        if isinstance(sample, Unknown):
            return replace(self, reason=sample.reason)
        rss = _larger(sample.peak_rss_kib, sample.rss_kib)
        return Watched(
            self.samples + 1,
            _larger(self.peak_pss_kib, sample.pss_kib),
            _larger(self.peak_rss_kib, rss),
            sample if sample.pss_kib is not None or self.last is None else self.last,
            sample.reason,
        )

    def flat(self) -> Flat:
        """As JSON."""
        return {
            "peak_pss_kib": self.peak_pss_kib,
            "peak_rss_kib": self.peak_rss_kib,
            "samples": self.samples,
            **({"reason": self.reason} if self.reason else {}),
        }


def _larger(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
