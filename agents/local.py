"""The host itself as a device."""

from __future__ import annotations

from dataclasses import dataclass

from agents.host import HostAgent


@dataclass
class LocalAgent(HostAgent):
    """Runs programs natively; its chip is the host's own."""
