"""Write the pages of the API reference: one for each public package, one for each name in its ``__all__``.

``docs/conf.py`` calls :func:`write_pages` before Sphinx reads the sources. A name that the front door offers has its
page there, and the page of its package links to it. Nothing here needs Sphinx, so a test can compare pages and names.
"""

import inspect
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import counterpoint

FRONT = "counterpoint"


def public_names() -> dict[str, list[str]]:
    """Return the names in ``__all__`` that are not modules, by package, the front door first."""
    modules = [name for name in counterpoint.__all__ if _is_module(FRONT, name)]
    packages = [FRONT, *(f"{FRONT}.{name}" for name in sorted([*modules, "cli"]))]
    return {
        package: [name for name in import_module(package).__all__ if not _is_module(package, name)]
        for package in packages
    }


def _is_module(package: str, name: str) -> bool:
    return inspect.ismodule(getattr(import_module(package), name))


def homes(names: dict[str, list[str]]) -> dict[str, str]:
    """Return where each dotted name is documented: the name in the first package that has the object."""
    found: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}
    for package, listed in names.items():
        for name in listed:
            thing, dotted = getattr(import_module(package), name), f"{package}.{name}"
            described = inspect.isclass(thing) or inspect.isfunction(thing)
            origin = (thing.__module__, thing.__qualname__) if described else (package, name)
            found[dotted] = first.setdefault(origin, dotted)
    return found


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    names = public_names()
    home = homes(names)
    written = {"index.rst": _index(list(names))}
    for package, listed in names.items():
        written[f"{package}.rst"] = _package(package, [home[f"{package}.{name}"] for name in listed])
    # The suffix keeps apart `arena`, the package, and `arena`, its function, where file names ignore case.
    return written | {_file(dotted): _name(dotted) for dotted in sorted(set(home.values()))}


def write_pages(folder: Path) -> None:
    """Write the pages that have changed, and remove those of names that are gone."""
    folder.mkdir(exist_ok=True)
    written = pages()
    for path in folder.glob("*.rst"):
        if path.name not in written:
            path.unlink()
    for name, text in written.items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _file(dotted: str) -> str:
    thing = _thing(dotted)
    kind = "class" if inspect.isclass(thing) else "function" if inspect.isfunction(thing) else "data"
    return f"{dotted}-{kind}.rst"


def _thing(dotted: str) -> object:
    package, _, name = dotted.rpartition(".")
    return getattr(import_module(package), name)


def _index(packages: list[str]) -> str:
    lines = [
        *_heading("API"),
        "Every public name has a page. Its example runs in the tests.",
        "Most users need only the names of ``counterpoint`` itself.",
        "",
        ".. list-table::",
        "   :widths: auto",
        "",
    ]
    for package in packages:
        lines += [f"   * - :doc:`{package} <{package}>`", f"     - {_summary(import_module(package))}"]
    return _text([*lines, "", ".. toctree::", "   :hidden:", "", *(f"   {package}" for package in packages)])


def _package(package: str, dotted: list[str]) -> str:
    own = [name for name in dotted if name.rpartition(".")[0] == package]
    lines = [*_heading(package), f".. automodule:: {package}", ""]
    kinds = (
        ("Functions", [name for name in dotted if inspect.isfunction(_thing(name))]),
        ("Classes", [name for name in dotted if inspect.isclass(_thing(name))]),
    )
    rest = [name for name in dotted if not any(name in listed for _, listed in kinds)]
    for title, listed in (*kinds, ("Data", rest)):
        if listed:
            lines += [*_heading(title, "-"), *_table(listed)]
    toctree = [
        ".. toctree::",
        "   :hidden:",
        "",
        *(f"   {name.rpartition('.')[2]} <{_file(name)[:-4]}>" for name in own),
    ]
    return _text([*lines, *toctree])


def _table(listed: list[str]) -> list[str]:
    lines = [".. list-table::", "   :widths: auto", ""]
    for dotted in listed:
        lines += [
            f"   * - :doc:`{dotted.rpartition('.')[2]} <{_file(dotted)[:-4]}>`",
            f"     - {_summary(_thing(dotted))}",
        ]
    return [*lines, ""]


def _name(dotted: str) -> str:
    thing = _thing(dotted)
    package, _, name = dotted.rpartition(".")
    lines = [*_heading(dotted), f".. currentmodule:: {package}", ""]
    if inspect.isclass(thing):
        members = ", ".join(_members(thing))
        lines += [f".. autoclass:: {name}", *([f"   :members: {members}"] if members else [])]
    elif inspect.isfunction(thing):
        lines += [f".. autofunction:: {name}"]
    else:
        lines += [f".. py:data:: {name}", "", f"   {_summary(thing)}"]
    return _text(
        [*lines, "", f".. minigallery:: {dotted}", "   :add-heading: Pictures", "   :heading-level: -"]
    )


def _members(cls: type) -> list[str]:
    """Return the public methods and properties that this library defines and describes."""
    found: list[str] = []
    for owner in cls.__mro__:
        if owner.__module__.partition(".")[0] == FRONT:
            found += [name for name in vars(owner) if not name.startswith("_") and name not in found]
    return [name for name in found if _is_described(cls, name)]


def _is_described(cls: type, name: str) -> bool:
    thing = inspect.getattr_static(cls, name)
    functions = (staticmethod, classmethod, property)
    return (inspect.isfunction(thing) or isinstance(thing, functions)) and bool(thing.__doc__)


def _summary(thing: object) -> str:
    """Return the first paragraph of a docstring on one line, or what a constant holds."""
    if inspect.ismodule(thing) or inspect.isclass(thing) or inspect.isfunction(thing):
        return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
    if isinstance(thing, Mapping | tuple | list | frozenset):
        kind = "A mapping with the keys" if isinstance(thing, Mapping) else f"A {type(thing).__name__} of"
        return f"{kind} {', '.join(f'``{item}``' for item in thing)}."
    return f"``{thing!r}``" if isinstance(thing, int | float | str) else f"A ``{type(thing).__name__}``."


def _heading(title: str, line: str = "=") -> list[str]:
    return [title, line * len(title), ""]


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
