"""``python -m counterpoint.experiments.arena STORE DOCUMENT`` writes the tables of a store into a document again."""

import sys
from pathlib import Path

from counterpoint.experiments.arena.page import fill_document

if __name__ == "__main__":
    store, document = map(Path, sys.argv[1:])
    fill_document(store, document)
