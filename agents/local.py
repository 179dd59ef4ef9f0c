"""The host itself as a device."""

from __future__ import annotations

from dataclasses import dataclass

from agents.base import AgentSpec
from agents.host import HostAgent


@dataclass
class LocalAgent(HostAgent):
    """Runs programs natively; its chip is the host's own."""


def make(spec: AgentSpec) -> LocalAgent:
    """The agent of a ``local`` link."""
    return LocalAgent(spec.name, spec.abi, root=spec.root)
