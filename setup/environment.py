"""Makes `.venv` what `requirements.lock` says, then unpacks the Debian packages a target needs.

Standard library only; started by ``setup/bootstrap.sh`` when its stamp says that something changed.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # started with -I, so that nothing of the user's environment is imported by chance

from engine.contract.errors import LockstepError, MissingToolError  # noqa: E402
from engine.debian import fetch_package  # noqa: E402
from engine.locking import exclusive  # noqa: E402
from engine.places import cache_root  # noqa: E402

LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
REGISTRY_HINT = "is the package registry reachable (PIP_INDEX_URL, proxy, PIP_CERT)? then type: make setup"


def say(line: str) -> None:
    """Progress, apart from what a command prints on stdout."""
    print(f"setup: {line}", file=sys.stderr, flush=True)


def locked_requirement(name: str, lock: str) -> str:
    """The lines of one package in the lock file, with its hashes."""
    found = re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
    if found is None:
        raise MissingToolError(f"requirements.lock does not pin {name}", hint="type: make lock")
    return found.group()


def find_uv(cache: Path) -> Path:
    """The pinned uv in the cache; fetched with pip and checked by hash the first time."""
    requirement = locked_requirement("uv", LOCK.read_text())
    version = re.match(r"uv==([^\s\\]+)", requirement)
    program = cache / "uv" / (version.group(1) if version else "unknown") / "uv"
    if program.is_file():
        return program
    say("fetching uv, which installs the environment")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        Path(scratch, "uv.txt").write_text(requirement)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        run([*command, "--require-hashes", "-r", "uv.txt"], pip_environment(cache), Path(scratch))
        with zipfile.ZipFile(next(Path(scratch).glob("uv-*.whl"))) as wheel:
            inside = next(name for name in wheel.namelist() if name.endswith("/scripts/uv"))
            unpacked = Path(wheel.extract(inside, scratch))
        unpacked.chmod(0o755)
        unpacked.replace(program)
    return program


def pip_environment(cache: Path) -> dict[str, str]:
    """An environment in which ``python -m pip`` works: the installed one, Python's bundled wheel, or Debian's."""
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    installed = [sys.executable, "-c", "import pip"]
    if subprocess.run(installed, capture_output=True, check=False).returncode == 0:
        return environment
    spec = find_spec("ensurepip")
    folders = [Path(spec.origin).parent / "_bundled"] if spec and spec.origin else []
    folders.append(Path("/usr/share/python-wheels"))
    wheels = [wheel for folder in folders for wheel in folder.glob("pip-*.whl")]
    if not wheels:
        say("this Python has no pip: taking Debian's")
        wheels = list(fetch_package("python3-pip-whl", None, cache, say).rglob("pip-*.whl"))
    return {**environment, "PYTHONPATH": str(wheels[0])}


def run(command: list[str], environment: Mapping[str, str], folder: Path = ROOT) -> None:
    """Run a step of the set-up. Raises MissingToolError with the tail of what it said."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n    ".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-12:])
        raise MissingToolError(f"`{' '.join(command[:4])} …` failed:\n    {tail}", hint=REGISTRY_HINT)


def pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What the user told pip about indexes and certificates, files first, variables over them."""
    config = configparser.RawConfigParser()
    home = Path(environment.get("HOME", "/nonexistent"))
    base = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path("/etc/xdg/pip/pip.conf"), Path("/etc/pip.conf"), home / ".pip/pip.conf", base / "pip/pip.conf"]
    try:
        config.read([*files, Path(environment.get("PIP_CONFIG_FILE", "/nonexistent"))])
    except (configparser.Error, UnicodeDecodeError) as error:
        say(f"pip's configuration is not readable and not used: {error}")
    settings = dict(config["global"]) if config.has_section("global") else {}
    for name in ("index-url", "extra-index-url", "find-links", "no-index", "cert"):
        value = environment.get(f"PIP_{name.upper().replace('-', '_')}")
        if value is not None:
            settings[name] = value
    return settings


def uv_environment(environment: Mapping[str, str], cache: Path) -> dict[str, str]:
    """uv does not read pip's settings: hand them over, unless the user gave uv its own."""
    pip = pip_settings(environment)
    result = {"UV_PYTHON_DOWNLOADS": "never", "UV_CACHE_DIR": str(cache / "uv" / "cache"), "UV_NO_PROGRESS": "1"}
    if cache.stat().st_dev != ROOT.stat().st_dev:
        result["UV_LINK_MODE"] = "copy"
    if not any(name.startswith(("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX")) for name in environment):
        if pip.get("index-url"):
            result["UV_DEFAULT_INDEX"] = pip["index-url"]
        extra = [word for word in pip.get("extra-index-url", "").split() if is_there(word)]
        if extra:
            result["UV_INDEX"] = " ".join(extra)
            # uv would stop at the first index that knows a name. The hashes decide what is accepted, not the index.
            result["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    links = [word for word in pip.get("find-links", "").split() if is_there(word)]
    if links:
        result["UV_FIND_LINKS"] = ",".join(links)
    if pip.get("no-index", "").lower() in {"1", "true", "yes", "on"}:
        result["UV_NO_INDEX"] = "1"
    if pip.get("cert"):
        result["SSL_CERT_FILE"] = pip["cert"]
    return {**result, **environment}


def is_there(address: str) -> bool:
    """Folders that do not exist are skipped, as pip does; addresses are taken as they are."""
    path = address.removeprefix("file://")
    return "://" in path or Path(path).exists()


def make_environment(cache: Path) -> None:
    """Bring `.venv` to the state of the lock file: from the cache without any network where that is possible."""
    started = time.monotonic()
    uv, environment = find_uv(cache), uv_environment(os.environ, cache)
    environment.pop("VIRTUAL_ENV", None)
    python = VENV / "bin" / "python"
    if not has_same_version(python):
        run([str(uv), "venv", "-q", "--clear", "--python", sys.executable, str(VENV)], environment)
    sync = [str(uv), "pip", "sync", "-q", "--python", str(python), "--require-hashes", str(LOCK)]
    try:
        run([*sync, "--offline"], environment)
    except MissingToolError:
        say("installing the environment from the package registry")
        run(sync, environment)
    editable = [str(uv), "pip", "install", "-q", "--python", str(python), "--offline", "--no-deps"]
    run([*editable, "--no-build-isolation", "--editable", str(ROOT)], environment)
    say(f"environment ready in {time.monotonic() - started:.0f} s")


def has_same_version(python: Path) -> bool:
    """Whether that interpreter runs and is of this interpreter's version."""
    command = [str(python), "-IS", "-c", "import sys; print(sys.version_info[:2])"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return False
    return done.stdout.strip() == str(sys.version_info[:2])


def compile_imports() -> subprocess.Popen[bytes]:
    """Start to import all that a gate imports, so that its byte code is there whatever PYTHONDONTWRITEBYTECODE says.

    Compiling every installed file instead takes ten times as long; importing without byte code is slow every time.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    quiet = subprocess.DEVNULL
    command = [str(VENV / "bin" / "python"), str(ROOT / "setup" / "imports.py")]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=quiet, stdout=quiet, stderr=quiet)


def unpack_packages(target: str) -> str:
    """Unpack what the target needs (needs the environment: the list is YAML); returns the folders, one a line."""
    command = [str(VENV / "bin" / "python"), str(ROOT / "setup" / "system.py"), target]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def main(target: str, key: str) -> int:
    """Set up for a target; 0, or the exit code of the error whose words go to stderr.

    ``key`` changes with everything that decides what set-up does; the stamps in `.venv` keep it.
    """
    stamp = VENV / "setup-environment"
    try:
        cache = cache_root()
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(ROOT / "build" / "setup.lock", lambda: say("waiting for another set-up of this folder")):
            importing = None
            if not stamp.is_file() or stamp.read_text() != key:
                make_environment(cache)
                importing = compile_imports()
            folders = unpack_packages(target)
            if importing:
                importing.wait()
            stamp.write_text(key)
            (VENV / f"setup-{target}").write_text(f"{key}\n{folders}")
    except LockstepError as error:
        print(f"setup: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"setup: {error.strerror or error}: {error.filename}", file=sys.stderr)
        print(
            "  next: make the folder writable, free some space, or set LOCKSTEP_CACHE to another one", file=sys.stderr
        )
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
