"""Templates with their data: autoescaped HTML, and Markdown whose names are no markup."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from counterpoint._validation import printable
from counterpoint.report._words import shorten

# Words in Hebrew, Arabic and other scripts, which would draw a number after them to their side.
_LETTERS = "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+"
_FROM_THE_RIGHT = re.compile(f"{_LETTERS}( +{_LETTERS})*")

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["rendered", "resource"]


def rendered(template: str, data: dict[str, Any], *, script: str = "", style: str = "") -> str:
    """Return a template with its data; ``script`` and ``style`` are put in as they are."""
    from markupsafe import Markup

    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Only this script may run, even if a name should ever slip through the escaping.
    return (
        _templates()
        .get_template(template)
        .render(data, script=Markup(script), style=Markup(style), script_hash=f"sha256-{digest}")
    )


def resource(name: str) -> str:
    """Return the text of a file beside the templates."""
    return files("counterpoint.report").joinpath("templates", name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("counterpoint.report"),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    environment.filters |= {
        "cell": _markdown_cell,
        "printable": printable,
        "sentence": _markdown_sentence,
        "shorten": shorten,
        "symbols": _symbols,
    }
    return environment


def _visible(value: Any) -> Any:
    """Return what a template puts in, with escapes in place of marks that change the direction of a line."""
    if not isinstance(value, str):
        return value
    return type(value)(printable(value))  # markup stays markup


def _symbols(text: str) -> str:
    """Return escaped text with the two correlations set as symbols, and words from right to left by themselves."""
    from markupsafe import Markup, escape

    marked = _FROM_THE_RIGHT.sub(r"<bdi>\g<0></bdi>", str(escape(text)))
    for index in ("TL", "LL"):
        marked = marked.replace(f"r_{index}", f"<var>r<sub>{index}</sub></var>")
    return Markup(marked)


def _markdown_cell(text: str) -> str:
    """Return text escaped for the cell of a Markdown table."""
    return _markdown_text(" ".join(str(text).split()))


def _markdown_sentence(parts: Sequence[tuple[str, bool]]) -> str:
    """Return a sentence in Markdown, from its parts; the strong ones are bold."""
    return "".join(
        f"**{_markdown_text(text)}**" if strong else _markdown_text(text) for text, strong in parts
    )


def _markdown_text(text: str) -> str:
    # An underscore inside a word, as in r_TL, is no markup.
    marked = re.sub(r"[\\`*\[\]|~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\\g<0>", text)
    return escape(marked, quote=False)
