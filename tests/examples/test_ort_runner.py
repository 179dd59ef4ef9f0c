import ast
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "ort-runner" / "ort_runner.py"


def test_the_example_needs_nothing_of_this_repository() -> None:
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(EXAMPLE.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime", "xxhash"}
