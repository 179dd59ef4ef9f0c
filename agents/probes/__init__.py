"""One file per reading of a device: a constant shell script, and a pure parser of what it prints.

A probe ``NAME.py`` has

* ``SCRIPT``: POSIX sh, understood by dash, busybox and mksh with toybox. It finds the variables ``$proc`` and ``$sys``
  (the roots of these file systems), ``$folder`` (the device's folder) and the functions ``bounded COMMAND …`` (ends a
  command that hangs), ``value FILE`` (sets ``$got`` to the first line of a file, or to ``!reason``) and ``now``. Its
  standard error is dropped. It neither exits nor sets ``$mark``; other variables it may use as it likes.
* ``EVERY_RUN``: whether it is read before and after each run.
* ``parse(text)``: the reading as a frozen dataclass with ``flat()``, or ``Unknown`` with the reason. It never raises.

Probes are found by their file names; names with a leading underscore are helpers. ``agents/readings.py`` joins several
probes into one round trip.
"""
