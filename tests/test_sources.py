"""What the sources may not do, whoever writes them next: build shell text from values, or load what can run code."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("agents", "ci", "consistency", "engine", "farm", "reports", "setup")
SOURCES = sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))
SCRIPT_CALLS = {"_script", "local_script"}
SHELLS = {"sh", "bash", "/bin/sh", "/bin/bash", "mksh", "ash"}
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
#: Parameters that hand a script through; every caller is checked in turn.
HANDED_THROUGH = {"text", "script"}
SHELL_FUNCTIONS = {("os", "system"), ("os", "popen"), ("subprocess", "getoutput"), ("subprocess", "getstatusoutput")}
LOADERS = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def is_fixed(node):
    """True for text that no value of a device, a file or a user can be part of."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return bool(CONSTANT.fullmatch(name)) or name in HANDED_THROUGH
        case ast.Attribute(attr=name):
            return bool(CONSTANT.fullmatch(name))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return is_fixed(left) and is_fixed(right)
        case ast.JoinedStr(values=parts):
            return all(is_fixed(part.value) if isinstance(part, ast.FormattedValue) else True for part in parts)
        case ast.IfExp(body=body, orelse=other):
            return is_fixed(body) and is_fixed(other)
    return False


def dotted(node):
    """``("os", "system")`` of ``os.system``; ``("", "f")`` of ``f``."""
    if isinstance(node, ast.Attribute):
        return (node.value.id if isinstance(node.value, ast.Name) else "", node.attr)
    return ("", node.id if isinstance(node, ast.Name) else "")


def faults(text):
    """(line, what) of everything in a source that is not allowed."""
    found = []
    for node in ast.walk(ast.parse(text)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Call):
            owner, name = dotted(node.func)
            if (owner, name) in SHELL_FUNCTIONS:
                found.append((line, f"{owner}.{name} gives its text to a shell"))
            if any(word.arg == "shell" and not _is_false(word.value) for word in node.keywords):
                found.append((line, "shell=True"))
            if name in SCRIPT_CALLS and node.args and not is_fixed(node.args[0]):
                found.append((line, f"the script of {name} is built from values: hand them over as arguments"))
            if (owner, name) == ("", "eval") or (owner, name) == ("", "exec"):
                found.append((line, f"{name} runs text as code"))
            if name == "load" and any(
                word.arg == "allow_pickle" and not _is_false(word.value) for word in node.keywords
            ):
                found.append((line, "allow_pickle runs code"))
        if isinstance(node, (ast.List, ast.Tuple)):
            found += [
                (line, "the text after -c is built from values") for part in _after_dash_c(node) if not is_fixed(part)
            ]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            found += [(line, f"{name} runs code when it loads") for name in names if name.split(".")[0] in LOADERS]
    return found


def _is_false(node):
    return isinstance(node, ast.Constant) and node.value is False


def _after_dash_c(node):
    parts = node.elts
    a_shell = any(isinstance(part, ast.Constant) and part.value in SHELLS for part in parts)
    handed = any(isinstance(part, ast.Starred) for part in parts[:1]) and "shell" in ast.dump(parts[0])
    for part, text in pairwise(parts):
        if isinstance(part, ast.Constant) and part.value == "-c" and (a_shell or handed):
            yield text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_shell_text_is_built_from_values_and_nothing_is_unpickled(path):
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "os.system('ls')",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=asked)",
        "self._script(f'rm {name}', seconds=1)",
        "self._script('rm %s' % name, seconds=1)",
        "self._script('rm ' + name, seconds=1)",
        "self._script('rm {}'.format(name), seconds=1)",
        "local_script(make(name), seconds=1)",
        "subprocess.run(['sh', '-c', f'rm {name}'])",
        "Popen([*shell, '-c', 'rm ' + name])",
        "import pickle",
        "from pickle import loads",
        "numpy.load(path, allow_pickle=True)",
        "eval(answer)",
    ],
)
def test_the_check_sees_what_it_is_for(text):
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "self._script(_HASH, path, seconds=1)",
        "self._script('sha256sum \"$1\"', path, seconds=1)",
        "self._script(text, *arguments, seconds=1)",
        "self._script(f'{_LIMITS}{_HASH}', path)",
        "subprocess.run(['sh', '-c', 'exec \"$0\"', program])",
        "subprocess.run([clang, '-c', str(unit)])",
        "subprocess.run(command, shell=False)",
        "numpy.load(path, allow_pickle=False)",
    ],
)
def test_the_check_lets_fixed_text_with_arguments_pass(text):
    assert faults(text) == []
