"""Compare methods on the same folds of a table, each with the same budget for tuning, and report the results.

A job is one method on one table in one repeat of all folds. Each finished job is a record in a store, and the report
is made from the records alone.
"""

from counterpoint.arena.diagram import RankDisplay, ScoreDisplay
from counterpoint.arena.jobs import read_records
from counterpoint.arena.methods import METHODS, SMOKE, USUAL, Method, Settings
from counterpoint.arena.overview import overview
from counterpoint.arena.page import fill_document, write_report
from counterpoint.arena.run import arena
from counterpoint.arena.suite import SUITES, TABLES, TableSource, list_suite, read_available, read_suite
from counterpoint.arena.summary import summarise
from counterpoint.arena.tables import Table, read_table

__all__ = [
    "METHODS",
    "SMOKE",
    "SUITES",
    "TABLES",
    "USUAL",
    "Method",
    "RankDisplay",
    "ScoreDisplay",
    "Settings",
    "Table",
    "TableSource",
    "arena",
    "fill_document",
    "list_suite",
    "overview",
    "read_available",
    "read_records",
    "read_suite",
    "read_table",
    "summarise",
    "write_report",
]
