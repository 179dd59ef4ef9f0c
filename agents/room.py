"""Room on a device: how much of it is ours, how much stays free, and what is said when something does not fit."""

from __future__ import annotations

from agents.deployment import Order, Stock
from engine.contract.errors import StorageFull

#: How much blobs and bundles may take on a device unless its entry says otherwise.
CAP_BYTES = 8 * 1024**3
#: Room that must stay free on the device after a transfer.
RESERVE_BYTES = 64 * 1024 * 1024


def check_free(device: str, free: int, reserve: int) -> None:
    """StorageFull when less than ``reserve`` bytes are ``free``, after all that could go is gone."""
    if free < reserve:
        raise StorageFull(
            f"{device}: {_mib(free)} MiB free where bundles live; {_mib(reserve)} are needed",
            hint="free room on the device: what it kept for other jobs is gone already",
            device=device,
        )


def check_fits(device: str, order: Order, stock: Stock, cap_bytes: int, reserve: int) -> None:
    """StorageFull when what ``stock`` lacks of ``order`` goes beyond the cap, or leaves less than ``reserve`` bytes."""
    sizes = order.sizes()
    need, whole = sum(sizes[name] for name in stock.missing), sum(sizes.values())
    if stock.kept + need > cap_bytes and whole > cap_bytes:
        raise StorageFull(
            f"{device}: the job needs {_mib(whole)} MiB, its folder may hold {_mib(cap_bytes)}",
            hint="raise `cache_mb` of the device, or use a smaller model",
            device=device,
        )
    if stock.free < need + reserve:
        raise StorageFull(
            f"{device}: {_mib(need)} MiB do not fit: {_mib(stock.free)} MiB are free, {_mib(reserve)} must stay free",
            hint="free room on the device",
            device=device,
        )


def _mib(size: int) -> int:
    return size // 2**20
