"""What a Linux device behind a link tells of itself: one script there, its answer read here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

#: POSIX sh; prints sections that each begin with a line ``@NAME``. Only the first processor's block is read.
SCRIPT = """
echo @kernel; uname -r
echo @os; cat /etc/os-release 2>/dev/null
echo @cpu; sed '/^[[:space:]]*$/q' /proc/cpuinfo 2>/dev/null
echo @drivers
for name in mali mali_kbase pvrsrvkm msm_kgsl galcore rknpu nvidia amdgpu panfrost; do
    [ -d "/sys/module/$name" ] || continue
    version=$(cat "/sys/module/$name/version" 2>/dev/null || cat "/sys/module/$name/srcversion" 2>/dev/null)
    echo "$name ${version:-loaded}"
done
echo @end
"""

#: A device may print anything: no fact is longer.
_LONGEST = 200


def facts_of(answer: str) -> dict[str, str]:
    """Flat fingerprint facts from what ``SCRIPT`` printed; absent readings are ``unknown``."""
    sections = _sections(answer)
    os_release = dict(_pairs(sections.get("os", []), "="))
    cpu = dict(_pairs(sections.get("cpu", []), ":"))
    features = next((cpu[key] for key in ("flags", "Features", "isa") if cpu.get(key)), "")
    facts = {
        "cpu": cpu.get("model name") or _arm_name(cpu) or cpu.get("uarch") or "unknown",
        "cpu_features": _digest(features) if features else "unknown",
        "kernel": " ".join(sections.get("kernel", [])) or "unknown",
        "os_build": os_release.get("PRETTY_NAME", "").strip("\"'") or "unknown",
        "drivers": ", ".join(sections.get("drivers", [])) or "none",
    }
    return {name: value[:_LONGEST] for name, value in facts.items()}


def _sections(answer: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in answer.splitlines():
        if line.startswith("@"):
            lines = found.setdefault(line[1:], [])
        elif line.strip():
            lines.append(line.strip())
    return found


def _pairs(lines: list[str], separator: str) -> list[tuple[str, str]]:
    split = (line.partition(separator) for line in lines)
    return [(key.strip(), value.strip()) for key, _, value in split]


def _arm_name(cpu: Mapping[str, str]) -> str:
    """Arm kernels print numbers: MIDR implementer and part say which core it is."""
    if "CPU part" not in cpu:
        return ""
    revision = f"r{cpu.get('CPU variant', '?').removeprefix('0x')}p{cpu.get('CPU revision', '?')}"
    return f"implementer {cpu.get('CPU implementer', '?')} part {cpu['CPU part']} {revision}"


def _digest(features: str) -> str:
    """As the host's own probe does: the list itself is long."""
    return hashlib.sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:16]
