"""Emulated devices that speak the real protocols: adbd and sshd in namespaces of their own, on loopback.

``units`` starts, finds and ends them; a ``supervisor`` process per device holds its loopback port and relays it; the
``inside`` process is the device's pid 1. ``android`` and ``linux`` say what is in each kind.
"""
