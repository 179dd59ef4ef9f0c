"""Who the device is: what decides whether two runs are comparable, as far as the device itself can tell.

Chip and product are what the device *says*; the fleet's own words for them stay in ``chip`` and ``model``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from agents.probes._text import Flat, Unknown, pairs, sections, words

EVERY_RUN = False

#: Only the first processor's block is read: lists of features are long. Old 32-bit kernels print theirs at the end.
SCRIPT = r"""
echo @uname; uname -r -m
echo @os
while IFS= read -r text; do
    case $text in PRETTY_NAME=*) printf '%s\n' "$text" ;; esac
done </etc/os-release
echo @cpu
block=$(sed '/^[[:space:]]*$/q' "$proc/cpuinfo")
printf '%s\n' "$block"
case $block in
*flags* | *Features* | *isa*) ;;
*) grep -E '^(Features|CPU [a-z]+|Hardware)[[:space:]]*:' "$proc/cpuinfo" | head -n 12 ;;
esac
echo @properties
if command -v getprop >/dev/null; then
    getprop | grep -E '^\[ro\.(build\.fingerprint|soc\.|board\.platform|hardware|product\.)[a-z.]*\]'
fi
echo @soc
for name in machine family soc_id revision; do
    [ -r "$sys/devices/soc0/$name" ] && value "$sys/devices/soc0/$name" && echo "$name=$got"
done
echo @compatible; [ -r "$proc/device-tree/compatible" ] && cat "$proc/device-tree/compatible" && echo
echo @model
if [ -r "$proc/device-tree/model" ]; then
    cat "$proc/device-tree/model"; echo
elif [ -r "$sys/class/dmi/id/product_name" ]; then
    value "$sys/class/dmi/id/sys_vendor"; maker=$got
    value "$sys/class/dmi/id/product_name"; echo "$maker $got"
fi
echo @drivers
for name in mali mali_kbase pvrsrvkm msm_kgsl galcore rknpu nvidia amdgpu panfrost panthor etnaviv hailo_pci apex \
    ethosu; do
    [ -d "$sys/module/$name" ] || continue
    got=loaded
    [ -r "$sys/module/$name/srcversion" ] && value "$sys/module/$name/srcversion"
    [ -r "$sys/module/$name/version" ] && value "$sys/module/$name/version"
    echo "$name $got"
done
echo @gpu
for file in "$sys/class/kgsl/kgsl-3d0/gpu_model" "$sys/class/misc/mali0/device/gpuinfo"; do
    [ -r "$file" ] && value "$file" && echo "$got"
done
if command -v dumpsys >/dev/null; then bounded dumpsys SurfaceFlinger | sed -n '/^GLES:/{p;q;}'; fi
[ -r "$proc/driver/nvidia/version" ] && sed -n 's/^NVRM version: *//p' "$proc/driver/nvidia/version"
echo @firmware
for remote in "$sys"/class/remoteproc/remoteproc*; do
    [ -r "$remote/firmware" ] || continue
    value "$remote/name"; name=$got
    value "$remote/firmware"; echo "$name $got"
done
for file in "$sys/kernel/debug/rknpu/version" "$sys/kernel/debug/gc/version"; do
    [ -r "$file" ] && value "$file" && echo "$got"
done
echo @end
"""


@dataclass(frozen=True)
class Fingerprint:
    """Facts as text; what a device does not tell is ``unknown`` (drivers, GPU and firmware: ``none``).

    ``cpu_features`` is the digest of the sorted feature list; ``soc`` and ``product`` are the device's own words for
    chip and model; ``abis`` in the device's order of preference; ``gpu`` names GPU and driver version.
    """

    cpu: str
    cpu_features: str
    kernel: str
    os_build: str
    drivers: str
    soc: str
    product: str
    abis: str
    gpu: str
    firmware: str

    def facts(self) -> dict[str, str]:
        """As it joins a run's fingerprint."""
        return asdict(self)

    def flat(self) -> Flat:
        """As JSON."""
        return {**asdict(self)}


def parse(text: str) -> Fingerprint | Unknown:
    """Read what ``SCRIPT`` printed."""
    found = sections(text, "@")
    cpu = pairs(found.get("cpu", []), ":")
    told = _properties(found.get("properties", []))
    features = next((cpu[key] for key in ("flags", "Features", "isa") if cpu.get(key)), "")
    kernel, _, machine = " ".join(found.get("uname", [])).rpartition(" ")
    os_release = pairs(found.get("os", []), "=")
    facts = {
        "cpu": cpu.get("model name") or _arm_name(cpu) or cpu.get("uarch") or cpu.get("Processor", ""),
        "kernel": kernel,
        "os_build": told.get("ro.build.fingerprint") or os_release.get("PRETTY_NAME", "").strip("\"'"),
        "soc": _soc(told, pairs(found.get("soc", []), "="), found.get("compatible", []), cpu),
        "product": _both(told, "ro.product.manufacturer", "ro.product.model") or " ".join(found.get("model", [])),
        "abis": told.get("ro.product.cpu.abilist") or machine,
    }
    extras = {
        "drivers": ", ".join(found.get("drivers", [])),
        "gpu": "; ".join(dict.fromkeys(found.get("gpu", []) + _user_drivers(told))),
        "firmware": ", ".join(found.get("firmware", [])),
    }
    return Fingerprint(
        cpu_features=_digest(features) if features else "unknown",
        **{name: words(value) or "unknown" for name, value in facts.items()},
        **{name: words(value) or "none" for name, value in extras.items()},
    )


def _properties(told: list[str]) -> dict[str, str]:
    """Android's ``[name]: [value]``; an empty value is none."""
    matches = (re.fullmatch(r"\[([^]]+)\]: \[(.+)\]", line) for line in told)
    return {match[1]: match[2] for match in matches if match}


def _soc(told: Mapping[str, str], soc: Mapping[str, str], compatible: list[str], cpu: Mapping[str, str]) -> str:
    """The chip in the device's own words; the last entry of a device tree's list is the chip, the first the board."""
    named = _both(told, "ro.soc.manufacturer", "ro.soc.model") if told.get("ro.soc.model") else ""
    bus = " ".join(soc[key] for key in ("machine", "family", "soc_id", "revision") if soc.get(key))
    board = told.get("ro.board.platform") or told.get("ro.hardware")
    return named or board or bus or (compatible[-1] if compatible else "") or cpu.get("Hardware", "")


def _both(told: Mapping[str, str], first: str, second: str) -> str:
    return " ".join(told[key] for key in (first, second) if told.get(key))


def _user_drivers(told: Mapping[str, str]) -> list[str]:
    return [f"{key.rpartition('.')[2]}={told[key]}" for key in ("ro.hardware.egl", "ro.hardware.vulkan") if key in told]


def _arm_name(cpu: Mapping[str, str]) -> str:
    """Arm kernels print numbers: MIDR implementer and part say which core it is."""
    if "CPU part" not in cpu:
        return ""
    revision = f"r{cpu.get('CPU variant', '?').removeprefix('0x')}p{cpu.get('CPU revision', '?')}"
    return f"implementer {cpu.get('CPU implementer', '?')} part {cpu['CPU part']} {revision}"


def _digest(features: str) -> str:
    """Sorted, for order is no difference; a digest, for the list is long."""
    return hashlib.sha256(" ".join(sorted(features.split())).encode()).hexdigest()[:16]
