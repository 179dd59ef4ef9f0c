"""What the kernel of a device would show under /sys: plain files that a test can change."""

from __future__ import annotations

import os
from pathlib import Path

#: Kind and temperature (m°C) of each thermal zone.
ZONES = (("cpu-0-0", 36500), ("gpuss-0", 34000), ("battery", 27100), ("skin-therm", 31200))


def make_sys(sys: Path, battery: bool) -> None:
    """Thermal zones, frequencies, battery, in the units the kernel uses (m°C, kHz, 0.1 °C)."""
    files: dict[str, object] = {}
    for number, (kind, temperature) in enumerate(ZONES if battery else ZONES[:1]):
        zone = f"class/thermal/thermal_zone{number}"
        files |= {f"{zone}/type": kind, f"{zone}/temp": temperature, f"{zone}/mode": "enabled"}
    cores = os.cpu_count() or 1
    every = "0" if cores == 1 else f"0-{cores - 1}"
    files |= {f"devices/system/cpu/{name}": every for name in ("online", "possible", "present")}
    for core in range(cores):
        clock = f"devices/system/cpu/cpu{core}/cpufreq"
        files |= {f"{clock}/{name}": 1_800_000 for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq")}
        files |= {f"{clock}/{name}": 300_000 for name in ("scaling_min_freq", "cpuinfo_min_freq")}
        files |= {f"{clock}/scaling_governor": "schedutil", f"devices/system/cpu/cpu{core}/online": 1}
    if battery:
        supply = "class/power_supply/battery"
        files |= {f"{supply}/capacity": 87, f"{supply}/temp": 271, f"{supply}/status": "Charging"}
    for name, value in files.items():
        path = sys / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
