"""The most memory that a runner was seen to use: written on the device beside the run, read when it is over.

Whoever starts runners samples them: ``agents/watching.py`` on this host, ``SAMPLER`` in the script that supervises
them on other devices. RSS is the kernel's own high-water mark as of the last sample (once a second); PSS costs the
runner a walk of its page tables and so is read at samples 1, 2, 4, 8 and then every eighth.
"""

from __future__ import annotations

from dataclasses import dataclass

from agents.probes._text import Flat, Unknown, lines, whole

EVERY_RUN = True

#: In the device's folder: peak RSS and peak PSS in KiB (0: not read), number of samples.
RECORD = "memory.seen"

#: Read once: what lies there before a run belongs to nobody.
SCRIPT = f"""
if [ -r "$folder/{RECORD}" ]; then value "$folder/{RECORD}"; echo "$got"; rm -f "$folder/{RECORD}"; fi
"""

# For a script that has started $program; $1 is the record. Shell builtins and one sleep a second, no more. Of several
# runs the peaks are joined. Ends with the program.
SAMPLER = r"""
watch_memory() {
    top=0 most=0 seen=0 taken=0
    [ -r "$1" ] && read -r top most seen <"$1"
    while sleep 1 && [ -r "/proc/$program/status" ]; do
        taken=$((taken + 1))
        while read -r key size unit; do
            case $key in VmHWM:) [ "$size" -gt "$top" ] && top=$size; seen=$((seen + 1)) ;; esac
        done <"/proc/$program/status"
        if [ $((taken & (taken - 1))) -eq 0 ] || [ $((taken % 8)) -eq 0 ]; then
            while read -r key size unit; do
                case $key in Pss:) [ "$size" -gt "$most" ] && most=$size ;; esac
            done <"/proc/$program/smaps_rollup"
        fi
        echo "$top $most $seen" >"$1"
    done
}
"""


@dataclass(frozen=True)
class Peak:
    """Peaks in KiB; PSS is None where the kernel shows none (before 4.14, or not allowed)."""

    rss_kib: int
    pss_kib: int | None
    samples: int

    def flat(self) -> Flat:
        """As JSON."""
        return {"peak_rss_kib": self.rss_kib, "peak_pss_kib": self.pss_kib, "memory_samples": self.samples}


def parse(text: str) -> Peak | Unknown:
    """Read the record."""
    told = lines(text)
    numbers = [whole(word) for word in told[-1].split()] if told else []
    if len(numbers) != 3 or not all(number is not None and number >= 0 for number in numbers) or not numbers[0]:
        return Unknown("the runner ended before its memory was read")
    rss, pss, samples = (number or 0 for number in numbers)
    return Peak(rss, pss or None, samples)
