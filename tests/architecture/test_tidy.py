"""The house rules that a linter does not know: file and function length, docs, reachable modules."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [
    ROOT / "streamsql",
    ROOT / "server" / "streamsql_server",
    ROOT / "repl" / "streamsql_repl",
]
SOURCES = sorted(p for package in PACKAGES for p in package.rglob("*.py"))

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_file_is_short_enough_to_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= FILE_LINES_MAX, f"{relative(path)} has {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_are_short_enough_to_read(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = [
        f"{relative(path)}:{node.lineno} {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_every_module_has_a_docstring() -> None:
    bare = [
        relative(p)
        for p in SOURCES
        if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))
    ]
    assert not bare


def test_todo_names_a_reason() -> None:
    bare = [
        f"{relative(p)}:{number}"
        for p in SOURCES
        for number, line in enumerate(p.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!.*\w{4,}.*\w{4,})", line)
    ]
    assert not bare


def imports_of(path: Path, module: str) -> set[str]:
    """Absolute names of modules that `path` imports (lazy imports and importlib strings too)."""
    text = path.read_text(encoding="utf-8")
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                parts = parts[: len(parts) - node.level + 1]
                base = ".".join([*parts, base] if base else parts)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    found.update(re.findall(r"\"((?:streamsql|streamsql_server|streamsql_repl)(?:\.\w+)+)\"", text))
    return found


def test_no_module_is_unreachable_from_an_entry_point() -> None:
    modules: dict[str, Path] = {}
    for package in PACKAGES:
        for path in package.rglob("*.py"):
            parts = list(path.relative_to(package.parent).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            modules[".".join(parts)] = path
    entries = ["streamsql", "streamsql.__main__", "streamsql_server.cli", "streamsql_repl"]
    seen: set[str] = set()
    queue = [e for e in entries if e in modules]
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        parent = name.rpartition(".")[0]
        if parent in modules:
            queue.append(parent)
        queue.extend(i for i in imports_of(modules[name], name) if i in modules)
    assert sorted(set(modules) - seen) == []
