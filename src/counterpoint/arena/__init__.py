"""Compare methods on the same folds of a table, each with the same budget for tuning, and report the results.

A job is one method on one table in one repeat of all folds. Each finished job is a record in a store, and the report
is made from the records alone.
"""

from counterpoint.arena.diagram import RankDisplay
from counterpoint.arena.jobs import read_records
from counterpoint.arena.methods import METHODS, SMOKE, Method, Settings
from counterpoint.arena.page import fill_document, overview, write_report
from counterpoint.arena.run import arena
from counterpoint.arena.summary import summarise
from counterpoint.arena.tables import UCI15, Table, read_suite, read_table

__all__ = [
    "METHODS",
    "SMOKE",
    "UCI15",
    "Method",
    "RankDisplay",
    "Settings",
    "Table",
    "arena",
    "fill_document",
    "overview",
    "read_records",
    "read_suite",
    "read_table",
    "summarise",
    "write_report",
]
