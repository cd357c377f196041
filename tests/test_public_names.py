"""The public names are listed, in order, documented, and cheap to reach."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import counterpoint

PACKAGE = Path(counterpoint.__file__).parent


def public_modules():
    """Return the front door and every public unit behind it, as dotted name -> file."""
    found = {"counterpoint": PACKAGE / "__init__.py"}
    for path in sorted(PACKAGE.iterdir()):
        file = path / "__init__.py" if path.is_dir() else path
        if file.suffix == ".py" and file.is_file() and not path.name.startswith("_"):
            found[f"counterpoint.{path.stem}"] = file
    return found


def isort_order(name):
    """Constants, then classes, then the rest, as ruff orders them."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def names_of(file):
    """Return ``__all__`` as it is written, or as a stub lists it, without importing the module."""
    if (stub := file.with_suffix(".pyi")).is_file():
        nodes = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ImportFrom)]
        return sorted((alias.name for node in nodes for alias in node.names), key=isort_order)
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return ast.literal_eval(node.value)
    return None


MODULES = public_modules()
NAMES = [(module, name) for module, file in MODULES.items() for name in names_of(file) or ()]


@pytest.mark.parametrize("module", MODULES)
def test_the_public_names_are_listed_once_and_in_order(module):
    names = names_of(MODULES[module])
    assert names is not None, f"{module} must have `__all__`"
    assert list(names) == sorted(set(names), key=isort_order)


def test_the_front_door_offers_every_subpackage_and_few_names_beside_them():
    modules = {name for name in counterpoint.__all__ if inspect.ismodule(getattr(counterpoint, name))}
    assert modules == {module.partition(".")[2] for module in MODULES} - {"", "cli"}
    assert len(set(counterpoint.__all__) - modules) <= 20
    assert dir(counterpoint) == counterpoint.__all__


def test_a_name_that_the_front_door_lacks_is_an_attribute_error():
    with pytest.raises(AttributeError, match="correlation_loss"):
        counterpoint.correlation_loss  # noqa: B018, the access is the test


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_exists_and_is_documented(module, name):
    thing = getattr(import_module(module), name)
    if inspect.ismodule(thing) or inspect.isclass(thing):
        # dataclasses and named tuples without a docstring get their signature for one
        assert thing.__doc__
        assert not thing.__doc__.startswith(f"{name}(")
    if inspect.isclass(thing) or inspect.isfunction(thing):
        assert "Examples\n--------\n>>> " in inspect.cleandoc(thing.__doc__)  # its own, not that of its base


@pytest.mark.parametrize("module", sorted({module for module, _ in NAMES}))
def test_dir_shows_the_public_names(module):
    assert set(names_of(MODULES[module])) <= set(dir(import_module(module)))


@pytest.mark.parametrize("module", MODULES)
def test_a_module_has_a_docstring(module):
    assert ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8")))


LIGHT = {
    "counterpoint": {"numpy", "pandas", "scipy", "sklearn", "torch", "matplotlib"},
    "counterpoint.cli": {"numpy", "pandas", "scipy", "sklearn", "torch", "matplotlib"},
    "counterpoint.datasets": {"pandas", "scipy", "sklearn", "torch", "matplotlib"},
    "counterpoint.theory": {"pandas", "sklearn", "torch", "matplotlib"},
    "counterpoint.measures": {"pandas", "sklearn", "torch", "matplotlib"},
}


@pytest.mark.parametrize("module", [module for module in LIGHT if module in MODULES])
def test_importing_a_module_leaves_the_heavy_packages_alone(module):
    code = f"import sys, {module}; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not LIGHT[module] & set(result.stdout.split())
