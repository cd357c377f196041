"""The suites of the arena: named tables, where each comes from, and under which terms."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from counterpoint._extras import import_extra
from counterpoint.arena.tables import Table, make_table
from counterpoint.datasets import COMPUTED, DATASETS, compute, load
from counterpoint.records import Grid

__all__ = ["SUITES", "TABLES", "TableSource", "list_suite", "read_available", "read_suite"]


class TableSource(NamedTuple):
    """A table of a suite.

    Attributes
    ----------
    rows : int
        Number of rows.
    source : {"counterpoint", "data folder", "scikit-learn", "statsmodels", "computed"}
        Where it comes from: this package, a folder of files (or OpenML), another package, or a rule.
    title : str
        What it is.
    terms : str
        Its licence.

    Examples
    --------
    >>> from counterpoint.arena import TABLES
    >>> TABLES["iris"].rows, TABLES["iris"].source
    (150, 'counterpoint')
    """

    rows: int
    source: str
    title: str
    terms: str


# Rows of the tables of the DECORATE study.
_UCI15 = {
    "labor": 57, "lymph": 148, "iris": 150, "hepatitis": 155, "autos": 205, "glass": 214, "audiology": 226,
    "heart-c": 303, "colic": 368, "soybean": 683, "credit-a": 690, "breast-w": 699, "anneal": 898, "segment": 2310,
    "splice": 3190,
}  # fmt: skip
_CC_BY, _NONE = "CC BY 4.0", "none: a rule defines it"


def _tables() -> dict[str, TableSource]:
    found = {
        name: TableSource(
            rows,
            "counterpoint" if DATASETS[name].embedded else "data folder",
            f"{DATASETS[name].title} (UCI)",
            _CC_BY,
        )
        for name, rows in _UCI15.items()
    }
    found |= {
        "wine": TableSource(178, "scikit-learn", "Wine (UCI)", _CC_BY),
        "wdbc": TableSource(569, "scikit-learn", "Breast Cancer Wisconsin, diagnostic (UCI)", _CC_BY),
        "digits": TableSource(1797, "scikit-learn", "Optical digits, test part (UCI)", _CC_BY),
        "anes96": TableSource(
            944, "statsmodels", "Votes of 1996 (American National Election Studies)", "public domain"
        ),
        "fair": TableSource(
            6366, "statsmodels", "Affairs: any or none (Fair 1978)", "by permission of the author"
        ),
        "randhie": TableSource(
            20_190, "statsmodels", "Health insurance: any visit or none (RAND)", "public domain"
        ),
    }
    found |= {name: TableSource(one.rows, "computed", one.title, _NONE) for name, one in COMPUTED.items()}
    # Small ones first, so that an interrupted run has finished as many as possible.
    return dict(sorted(found.items(), key=lambda item: item[1].rows))


TABLES: Mapping[str, TableSource] = MappingProxyType(_tables())

SUITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "uci15": tuple(_UCI15),
        "real": tuple(name for name, one in TABLES.items() if one.source != "computed"),
        "all": tuple(TABLES),
    }
)


def read_suite(names: Sequence[str], data_dir: str | Path | None = None) -> list[Table]:
    """Return tables of the suites, small ones first.

    Parameters
    ----------
    names : sequence of str
        Keys of ``TABLES``.
    data_dir : path, optional
        Folder of the tables that no package holds; by default the one that ``COUNTERPOINT_DATA`` names.

    Returns
    -------
    list of Table

    Raises
    ------
    ImportError, OSError
        If a table cannot be had; the message says what to install or where to put it.

    Examples
    --------
    >>> [(table.name, len(table.y)) for table in read_suite(["wine", "iris", "labor"])]
    [('labor', 57), ('iris', 150), ('wine', 178)]
    """
    return [_read(name, data_dir) for name in _checked(names)]


def read_available(
    names: Sequence[str], data_dir: str | Path | None = None
) -> tuple[list[Table], dict[str, str]]:
    """Return the tables that can be had, and for each of the others a sentence that says what is missing.

    Parameters
    ----------
    names, data_dir
        As for :func:`read_suite`.

    Returns
    -------
    tables : list of Table
        Small ones first.
    missing : dict of str to str
        Why a table is left out, by name.

    Examples
    --------
    >>> tables, missing = read_available(["iris", "monks-2"])
    >>> [table.name for table in tables], missing
    (['iris', 'monks-2'], {})
    """
    tables, missing = [], {}
    for name in _checked(names):
        try:
            tables.append(_read(name, data_dir))
        except (ImportError, OSError) as error:
            missing[name] = str(error)
    return tables, missing


def list_suite(name: str) -> Grid:
    """Return the tables of a suite with their rows, sources, titles and terms.

    Examples
    --------
    >>> grid = list_suite("uci15")
    >>> grid.headings, grid.rows[0]
    (['table', 'source', 'title', 'terms', 'rows'],
     ['labor', 'counterpoint', 'Labor Relations (UCI)', 'CC BY 4.0', '57'])
    """
    rows = [[table, *TABLES[table][1:], f"{TABLES[table].rows}"] for table in SUITES[name]]
    return Grid(f"The tables of the suite {name}", ["table", "source", "title", "terms", "rows"], rows, 4)


def _checked(names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in TABLES:
            raise ValueError(f"`sets` must be among {', '.join(TABLES)}; got {name!r}.")
    return [name for name in TABLES if name in names]


def _read(name: str, data_dir: str | Path | None) -> Table:
    source = TABLES[name].source
    if source == "computed":
        return make_table(name, *compute(name))
    if source == "scikit-learn":
        return make_table(name, *_from_sklearn(name))
    if source == "statsmodels":
        import_extra("statsmodels", "arena")
        return make_table(name, *_STATSMODELS[name](_from_statsmodels(name)))
    data = load(name, data_dir)
    return make_table(name, data.X, data.y)


def _from_sklearn(name: str) -> tuple[Any, Any]:
    from sklearn import datasets

    read = {"wine": datasets.load_wine, "wdbc": datasets.load_breast_cancer, "digits": datasets.load_digits}[
        name
    ]
    found = read(as_frame=True)
    return found.data.astype("float64"), found.target_names[found.target].astype(str)


def _from_statsmodels(name: str) -> Any:
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data.astype("float64")


def _anes96(frame: Any) -> tuple[Any, Any]:
    votes = frame["vote"].map({0: "Clinton", 1: "Dole"}).to_numpy(dtype=str)
    return frame.drop(columns=["vote", "logpopul"]), votes


def _fair(frame: Any) -> tuple[Any, Any]:
    nominal = dict.fromkeys(("occupation", "occupation_husb"), "category")
    X = frame.drop(columns="affairs").astype(nominal)
    return X, frame["affairs"].gt(0).map({False: "none", True: "some"}).to_numpy(dtype=str)


def _randhie(frame: Any) -> tuple[Any, Any]:
    return frame.drop(columns="mdvis"), frame["mdvis"].gt(0).map({False: "none", True: "some"}).to_numpy(
        dtype=str
    )


_STATSMODELS: Mapping[str, Callable[[Any], tuple[Any, Any]]] = MappingProxyType(
    {"anes96": _anes96, "fair": _fair, "randhie": _randhie}
)
