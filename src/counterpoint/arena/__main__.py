"""``python -m counterpoint.arena STORE DOCUMENT`` writes the tables of a folder of results into a document."""

from counterpoint.arena.page import fill_document
from counterpoint.records import given_paths

if __name__ == "__main__":
    fill_document(*given_paths("counterpoint.arena", "store", "document"))
