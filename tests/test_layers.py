"""Imports point towards the mathematics: every import statement in the package is read and held."""

import ast
import sys
from pathlib import Path

import pytest

import counterpoint

PACKAGE = Path(counterpoint.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))

BASE = {"_validation", "exceptions"}
MATHEMATICS = BASE | {"theory", "outputs", "measures"}
ASSESSMENT = MATHEMATICS | {"assessment", "selection"}
ANYBODY = ASSESSMENT | {
    "_extras",
    "_files",
    "_notebook",
    "_plain",
    "plots",
    "io",
    "records",
    "report",
    "training",
    "estimators",
    "models",
    "datasets",
    "vision",
}

# unit of the package -> the units it may import besides itself
MAY_IMPORT = {
    "exceptions": set(),
    "_answers": {"_validation"},
    "_extras": set(),
    "_files": set(),
    "_notebook": {"_validation"},
    "_plain": set(),
    "_validation": {"exceptions"},
    "theory": BASE,
    "outputs": BASE,
    "measures": BASE | {"outputs"},
    "assessment": MATHEMATICS | {"_answers", "_notebook", "_plain"},
    "selection": MATHEMATICS | {"_notebook", "_plain", "assessment"},
    "datasets": {"_validation", "_extras"},
    "io": {"_answers", "_validation", "_extras", "_files", "exceptions"},
    "plots": ASSESSMENT,
    "report": ASSESSMENT | {"_files", "_plain", "plots"},
    "training": MATHEMATICS | {"_extras", "_files", "_notebook"},
    "estimators": ASSESSMENT | {"_extras", "_files", "plots", "training"},
    "models": MATHEMATICS | {"_extras", "_files", "_notebook", "_plain", "assessment", "estimators", "io"},
    "vision": MATHEMATICS | {"_extras", "training"},
    "records": {"_extras", "_files", "_plain", "_validation", *ASSESSMENT, "plots"},
    "arena": ANYBODY,
    "cli": ANYBODY | {"arena"},
    "__main__": {"cli"},
    "__init__": ANYBODY | {"arena"},
}

# unit -> the packages it may import besides the standard library; others are free
MAY_REQUIRE = {
    "exceptions": set(),
    "_extras": set(),
    "_plain": {"numpy"},
    "_validation": {"numpy"},
    "theory": {"numpy", "scipy"},
    "outputs": {"numpy"},
    "measures": {"numpy", "scipy"},
    "datasets": {"numpy", "pandas", "sklearn"},
}

# shared modules of the root that every package may use
SHARED = {"_answers", "_extras", "_files", "_notebook", "_plain", "_validation"}

# where torch may be imported with the module and not first inside a function
TORCH_AT_THE_TOP = (
    "training",
    "estimators/_",
    "estimators/diverse",
    "arena",
    "vision",
)


def unit_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(nodes):
    """Return the dotted names that the import statements under some nodes bring in."""
    names = set()
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def at_the_top(tree):
    """Return the statements that run when the module is imported, whatever block they stand in."""
    found, waiting = [], list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def units_imported(path):
    own = [name.split(".") for name in imports([ast.parse(path.read_text(encoding="utf-8"))])]
    inside = {parts[1] for parts in own if parts[0] == "counterpoint" and len(parts) > 1}
    return inside - {unit_of(path), "__version__"}


def packages_imported(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    packages = {name.partition(".")[0] for name in imports([tree])}
    return packages - set(sys.stdlib_module_names) - {"counterpoint"}


def module_files():
    """Return the file of each module of the package, by dotted name."""
    found = {}
    for path in FILES:
        parts = ("counterpoint", *path.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = module_files()


def names_listed(path):
    """Return the names in ``__all__``, or in the stub that it is read from."""
    if (stub := path.with_suffix(".pyi")).is_file():
        nodes = ast.parse(stub.read_text(encoding="utf-8")).body
        return {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            return {str(item.value) for item in ast.walk(node) if isinstance(item, ast.Constant)}
    return set()


def private_imports(tree, unit):
    """Return the imports, as dotted names, of what another unit of the package does not make public."""
    found = []
    for target in sorted(imports([tree])):
        parts = target.split(".")
        if parts[0] != "counterpoint" or len(parts) < 2 or parts[1] == unit or parts[1] in SHARED:
            continue
        home, _, name = target.rpartition(".")
        listed = target in MODULES or name in names_listed(MODULES[home]) or home == "counterpoint"
        if not listed or any(part.startswith("_") for part in parts[2:]):
            found.append(target)
    return found


def label(path):
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_module_imports_only_from_the_layers_below_it(path):
    unit = unit_of(path)
    assert unit in MAY_IMPORT, f"{unit} is new: give it a place in MAY_IMPORT"
    # A name of the front door counts as a unit of that name and so is refused inside the house.
    assert units_imported(path) <= MAY_IMPORT[unit]


@pytest.mark.parametrize("path", FILES, ids=label)
def test_a_module_imports_only_public_names_of_other_packages(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert private_imports(tree, unit_of(path)) == []


def test_a_private_import_is_an_underscore_or_a_name_outside_all():
    tree = ast.parse(
        "from counterpoint import __version__\n"
        "from counterpoint._validation import FloatArray\n"
        "from counterpoint.theory import optimality\n"
        "from counterpoint.theory.bounds import optimality, check_count\n"
        "from counterpoint.theory._jury import probit_majority\n"
        "def f():\n    from counterpoint.plots import _measured\n"
    )
    assert private_imports(tree, "plots") == [
        "counterpoint.theory._jury.probit_majority",
        "counterpoint.theory.bounds.check_count",
    ]
    assert "counterpoint.plots._measured" in private_imports(tree, "report")


@pytest.mark.parametrize("path", [p for p in FILES if unit_of(p) in MAY_REQUIRE], ids=label)
def test_a_module_requires_only_the_packages_of_its_layer(path):
    assert packages_imported(path) <= MAY_REQUIRE[unit_of(path)]


@pytest.mark.parametrize("path", [p for p in FILES if not label(p).startswith(TORCH_AT_THE_TOP)], ids=label)
def test_torch_is_imported_at_the_top_only_where_it_is_the_subject(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    packages = {name.partition(".")[0] for name in imports(at_the_top(tree))}
    assert not packages & {"torch", "torchvision", "safetensors"}


def test_the_layers_have_no_cycle():
    placed = set()
    while len(placed) < len(MAY_IMPORT):
        free = {unit for unit, below in MAY_IMPORT.items() if below <= placed} - placed
        assert free, f"a cycle among {set(MAY_IMPORT) - placed}"
        placed |= free


def test_the_reader_sees_imports_wherever_they_stand():
    tree = ast.parse(
        "import torch.nn as nn\n"
        "from counterpoint import theory\n"
        "if True:\n    import scipy\n"
        "class A:\n    import rich\n"
        "def f():\n    from sklearn.tree import DecisionTreeClassifier\n"
    )
    top = {"torch.nn", "counterpoint.theory", "scipy", "rich"}
    assert imports(at_the_top(tree)) == top
    assert imports([tree]) == top | {"sklearn.tree.DecisionTreeClassifier"}
