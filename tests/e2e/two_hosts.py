"""Two device hosts, broker and store on three sides of a network: run inside a network namespace of its own.

``unshare --net … python -m tests.e2e.two_hosts FOLDER`` builds it, runs one gate over it and leaves ``found.json``.
Each worker has its own network namespace, and a mount namespace in which the cache of the gate is empty and only that
can be written which its systemd unit in ``docs/hosts.md`` allows: it shares with the gate broker, store and blobs.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from engine.places import cache_root
from farm.store import Store
from farm.store.workers import present
from tests.e2e.bench import HOST, LOCKSTEP, REPOSITORY, Bench
from tests.farm.postgres import running_postgres
from tests.farm.redis_tls import running_redis

HUB = "10.77.0.1"
CASE = "vad-noise"
NAMES = ("lab1", "lab2")


def ip(*words: str, inside: int | None = None) -> None:
    """``ip WORDS``, in the namespace of the process ``inside`` when given."""
    prefix = [] if inside is None else ["nsenter", "--net", "--target", str(inside)]
    subprocess.run([*prefix, "ip", *words], check=True)


def units() -> list[configparser.ConfigParser]:
    """The systemd units of the page."""
    found = []
    page = (REPOSITORY / "docs" / "hosts.md").read_text()
    for text in re.findall(r"^```ini\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL):
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str  # type: ignore[assignment,method-assign]
        unit.read_string(text)
        found.append(unit)
    return found


@contextmanager
def namespace(number: int, place: Path, blobs: Path) -> Iterator[int]:
    """A device host: a process that holds its namespaces, wired to the hub."""
    service = units()[0]["Service"]
    # State and cache of the service, and the mounted share with the blobs; the page has them under other paths
    assert (service["StateDirectory"], service["CacheDirectory"]) == ("lockstep", "lockstep")
    assert service["ReadWritePaths"] == "-/srv/lockstep/blobs"
    for name in ("empty", "state", "cache"):
        (place / name).mkdir(parents=True)
    unit = {
        **service,
        "empty": str(place / "empty"),
        "cache": str(cache_root()),
        "writable": [str(place / "state"), str(place / "cache"), str(blobs)],
        "needed": [str(REPOSITORY), str(place.parent)],
    }
    (place / "unit.json").write_text(json.dumps(unit))
    command = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.e2e.sandbox", str(place / "unit.json")]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        ip("link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        ip("addr", "add", f"10.77.{number}.1/30", "dev", f"v{number}")
        ip("link", "set", f"v{number}", "up")
        ip("addr", "add", f"10.77.{number}.2/30", "dev", "eth0", inside=holder.pid)
        ip("link", "set", "eth0", "up", inside=holder.pid)
        ip("route", "add", "default", "via", f"10.77.{number}.1", inside=holder.pid)
        yield holder.pid
        assert holder.stdin is not None
        holder.stdin.close()


@contextmanager
def worker(name: str, holder: int, folder: Path, shared: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """``lockstep worker --name NAME`` in the namespaces of ``holder``."""
    own = {"LOCKSTEP_CACHE": str(folder / "cache"), "LOCKSTEP_STATE": str(folder / "state")}
    inherited = {variable: value for variable, value in os.environ.items() if variable != "TMPDIR"}
    command = ["nsenter", "--net", "--mount", "--target", str(holder)]
    command += [*LOCKSTEP, "worker", "--name", name, "--slots", "1"]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=inherited | shared | own, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def write_secret(path: Path, text: str) -> str:
    """A file only its owner can read."""
    path.touch(mode=0o600)
    path.write_text(text + "\n")
    return str(path)


def one_case(folder: Path) -> str:
    """The smoke suite with one case."""
    document = yaml.safe_load((REPOSITORY / "suites" / "smoke.yaml").read_text())
    document["cases"] = [case for case in document["cases"] if case["id"] == CASE]
    path = folder / "one.yaml"
    path.write_text(json.dumps(document))
    return str(path)


def arguments_of_all() -> str:
    """Every process's arguments, as ``ps`` shows them."""
    texts = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(texts)


def main(folder: Path) -> None:
    """Build, run, write what was found."""
    ip("link", "set", "lo", "up")
    ip("addr", "add", f"{HUB}/32", "dev", "lo")
    with ExitStack() as stack:
        database = stack.enter_context(running_postgres(HUB))
        broker = stack.enter_context(running_redis(folder / "redis", HUB))
        url = database.url(migrated=False)
        shared = {
            "LOCKSTEP_BROKER_URL_FILE": write_secret(folder / "broker-url", broker.url),
            "LOCKSTEP_STORE_URL_FILE": write_secret(folder / "store-url", url),
            "LOCKSTEP_BLOBS_URL": (folder / "blobs").as_uri(),
        }
        (folder / "blobs").mkdir()
        store = stack.enter_context(Store(url))
        for number, name in enumerate(NAMES, start=1):
            place = folder / name
            holder = stack.enter_context(namespace(number, place, folder / "blobs"))
            stack.enter_context(worker(name, holder, place, shared))
        end = time.monotonic() + 60
        while sum(worker.slots > 0 for worker in present(store)) < len(NAMES):
            assert time.monotonic() < end, [(folder / name / "worker.log").read_text() for name in NAMES]
            time.sleep(0.05)
        found = run_gate(Bench(folder, shared), folder)
        found["arguments"] = arguments_of_all()
        with store.read() as session:
            tables = {name: session.connection().exec_driver_sql(f"SELECT * FROM {name}") for name in TABLES}
            found["store"] = {name: [list(map(str, row)) for row in rows] for name, rows in tables.items()}
        found["secrets"] = [database.password, broker.password]
    (folder / "found.json").write_text(json.dumps(found))


TABLES = ("runs", "jobs", "attempts", "leases", "workers", "devices", "device_events")


def run_gate(bench: Bench, folder: Path) -> dict[str, Any]:
    """One gate on a device of each host; the passwords' readers are looked at while the workers live."""
    devices = [{**HOST, "name": f"board-{name}", "at": name} for name in NAMES]
    done = bench.gate("--devices", bench.fleet(*devices), "--suite", one_case(folder), "--priority", "pull-request")
    return {"exit_code": done.exit_code, "text": done.text}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
