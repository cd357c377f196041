"""The size and the shape of the house: ``python benchmarks/house.py``.

Lines and modules by package, which package imports which, private names that cross a package, names at the front door.
A private crossing is an import, from another package, of a module or a name that begins with an underscore, or of a
name that its module does not list in ``__all__``.
"""

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = {"counterpoint": ROOT / "src" / "counterpoint", "paper": ROOT / "paper"}


def modules() -> dict[str, Path]:
    """Return the file of each module of the trees, by dotted name."""
    found = {}
    for name, folder in TREES.items():
        for path in sorted(folder.rglob("*.py")) if folder.is_dir() else []:
            parts = (name, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def package_of(module: str) -> str:
    """Return the package of a module: the first name below counterpoint, or paper."""
    head, _, rest = module.partition(".")
    return rest.partition(".")[0] or head if head == "counterpoint" else head


def imports(path: Path, files: dict[str, Path]) -> list[tuple[str, str | None]]:
    """Return the (module, name) pairs of the house that a module imports, wherever the statements stand."""
    found: list[tuple[str, str | None]] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, None) for alias in node.names if alias.name.partition(".")[0] in TREES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in TREES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.append((inner, None) if inner in files else (str(node.module), alias.name))
    return found


def listed(path: Path) -> set[str]:
    """Return the names in ``__all__``, or in the stub that it is read from."""
    if (stub := path.with_suffix(".pyi")).is_file():
        nodes = [n for n in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(n, ast.ImportFrom)]
        return {alias.name for node in nodes if node.module for alias in node.names}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            return {str(item.value) for item in ast.walk(node) if isinstance(item, ast.Constant)}
    return set()


def is_private(target: str, name: str | None, files: dict[str, Path]) -> bool:
    """Return True if an import reaches behind the door of another package."""
    inside = target.split(".")[2:] if target.startswith("counterpoint.") else target.split(".")[1:]
    deep = any(part.startswith("_") for part in (*inside, name or ""))
    return deep or (name is not None and name not in listed(files[target]))


def main() -> None:
    """Print the figures."""
    files = modules()
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    edges: defaultdict[str, set[str]] = defaultdict(set)
    crossings: Counter[tuple[str, str]] = Counter()
    for module, path in files.items():
        package = package_of(module)
        lines[package] += len(path.read_text(encoding="utf-8").splitlines())
        counts[package] += 1
        for target, name in imports(path, files):
            other = package_of(target)
            # shared foundations of one file, such as _validation, belong to everybody
            if target not in files or other in (package, "counterpoint") or other.startswith("_"):
                continue
            edges[package].add(other)
            crossings[package, other] += is_private(target, name, files)
    print(f"{sum(lines.values()):,} lines in {sum(counts.values())} modules")
    for package, n in lines.most_common():
        print(
            f"  {package:12} {n:6,} lines {counts[package]:4} modules -> {', '.join(sorted(edges[package]))}"
        )
    print(f"{len(listed(files['counterpoint']))} names at the front door")
    print(f"{sum(crossings.values())} private crossings")
    for (package, other), n in crossings.most_common():
        if n:
            print(f"  {package} -> {other}: {n}")


if __name__ == "__main__":
    main()
