from __future__ import annotations

from agents.probes.linux import facts_of

ARM = """motd of the login shell
@kernel
5.10.160-rockchip
@os
NAME="Debian GNU/Linux"
PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
@cpu
processor\t: 0
BogoMIPS\t: 48.00
Features\t: fp asimd evtstrm
CPU implementer\t: 0x41
CPU variant\t: 0x0
CPU part\t: 0xd03
CPU revision\t: 4
@drivers
rknpu 0.9.3
panfrost loaded
@end
"""


def test_an_arm_board_tells_core_kernel_system_and_drivers() -> None:
    facts = facts_of(ARM)
    assert facts["cpu"] == "implementer 0x41 part 0xd03 r0p4"
    assert facts["kernel"] == "5.10.160-rockchip"
    assert facts["os_build"] == "Debian GNU/Linux 12 (bookworm)"
    assert facts["drivers"] == "rknpu 0.9.3, panfrost loaded"
    assert len(facts["cpu_features"]) == 16


def test_the_order_of_features_is_no_difference() -> None:
    assert facts_of(ARM)["cpu_features"] == facts_of(ARM.replace("fp asimd", "asimd fp"))["cpu_features"]


def test_a_device_that_tells_nothing_is_unknown_not_an_error() -> None:
    unknown = {"cpu": "unknown", "cpu_features": "unknown", "kernel": "unknown", "os_build": "unknown"}
    assert facts_of("") == {**unknown, "drivers": "none"}


def test_a_device_that_tells_too_much_is_cut() -> None:
    assert len(facts_of("@kernel\n" + "x" * 10_000)["kernel"]) == 200
