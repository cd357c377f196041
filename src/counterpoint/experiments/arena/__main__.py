"""``python -m counterpoint.experiments.arena STORE DOCUMENT`` writes the tables of a store into a document again."""

from counterpoint.experiments._document import given_paths
from counterpoint.experiments.arena.page import fill_document

if __name__ == "__main__":
    fill_document(*given_paths("arena", "store", "document"))
