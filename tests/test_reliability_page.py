"""Each promise of the page on reliability names a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test_that_exists():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line != "| promise | test |"]
    named = [re.search(r"\| `(tests/[\w/]+\.py)::(test_\w+)` \|$", row) for row in rows]
    assert all(named)
    assert len(named) > 35
    for match in named:
        path, name = match.groups()
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_the_bounds_of_the_page_are_those_of_the_code():
    from counterpoint.io import cells, excel, limits, sources, text, weights

    assert limits.MOST_BYTES == 2**30
    assert limits.RATIO == 100
    assert excel._MOST_TEXT == 256 * 2**20
    assert sources._MOST_WHOLE == 256 * 2**20
    assert excel._MOST_ROWS == text._MOST_COLUMNS == 2**20
    assert sources._LONGEST_LINE == weights._LARGEST == 16 * 2**20
    assert cells._LONG == 64
    for bound in ("1 GiB, or to 100 times", "256 MiB of XML", "2^20 columns", "16 MiB", "over 64 characters"):
        assert bound in PAGE


def test_the_readme_links_the_page():
    assert "(docs/reliability.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
