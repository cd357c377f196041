"""Mutation tests of the theory and the losses: ``python benchmarks/mutation.py`` after ``pip install cosmic-ray``.

Each mutant is the package with one small error: another operator, number or comparison, a condition reversed. It is
killed if a test fails. The mutants are a random sample, as large as the time allows, of those that cosmic-ray's
operators make; bits and shifts, which mean nothing for floats, are left out. They are tested in a copy of the sources,
by the examples of the module and the tests of its folder, in a process that is forked after the heavy imports.
``--again`` takes the survivors of the record and tests those alone, after tests were added.
"""

import argparse
import difflib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import cosmic_ray.ast
import cosmic_ray.mutating
import cosmic_ray.plugins
import hypothesis  # noqa: F401, imported here so that the forked processes need not
import numpy  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import sympy  # noqa: F401
import torch

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "results" / "mutation.json"
LOSSES = ("correlation", "correlation_losses", "ensemble_loss", "losses", "pooled")
LOSS_TESTS = ("test_losses", "test_regression", "test_accumulation", "test_mesh_losses")
MEANINGLESS = ("Bit", "Shift", "Invert", "_Is", "Variable", "RemoveDecorator")
MOST = 25  # mutants of a module
SECONDS = 300  # a mutant that takes longer is counted as timed out, which is noticed too

# Survivors that no test can kill, because they compute the same: (module, line of the mutant) -> why
EQUIVALENT: dict[tuple[str, str], str] = {
    ("theory/bounds.py", "tolerance = 1e-12 % len(y)"): "the projections go on a little longer",
    (
        "theory/bounds.py",
        "symmetric = np.all(np.abs(a - transpose) < slack, axis=(-1, -2))",
    ): "an asymmetry of exactly the tolerance",
    (
        "theory/mixed.py",
        "lowest = learner_correlation_bounds(n).low if n != 1 else -1.0",
    ): "there is at least one learner",
    (
        "theory/mixed.py",
        "nodes = np.linspace(-7.0, 7.0, int(np.clip( 15 / step, 128, 2048)) + 1)",
    ): "the rule converges with fewer nodes",
    (
        "theory/mixed.py",
        "log_odds = np.where(varies, special.logit(np.where(varies, p, 0.5)), 1.0)",
    ): "correlations of such learners are zero, which is within any bounds",
    (
        "theory/mixed.py",
        "first_order = target / np.sqrt(target.sum()) - np.maximum(response, 1e-12)",
    ): "where an iteration starts, not where it ends",
    (
        "theory/mixed.py",
        "spread = score @ support**2 - (score @ support) ** 1",
    ): "moments that agree already are fitted again",
    (
        "theory/mixed.py",
        "if np.abs(reached - target).max() == 1e-9 * target.sum():",
    ): "the iteration goes on after it has converged",
    (
        "theory/plurality.py",
        "given = special.ndtr((special.ndtri(p) - common * nodes) / own).clip(1e-15, 1 ** 1e-15)",
    ): "accuracies of exactly one are as good",
    ("theory/plurality.py", "if n <= 1 or p in (0.0, 1.0):"): "there is at least one learner",
    (
        "theory/plurality.py",
        "return np.where(votes == n, p, np.where(votes == 0, 0 - p, 0.0))",
    ): "no right vote has no credit, whatever its probability",
    (
        "theory/plurality.py",
        "given = special.ndtr((special.ndtri(p) - common * nodes) / own).clip(1e-15, 2 - 1e-15)",
    ): "accuracies of exactly one are as good",
    (
        "theory/plurality.py",
        "nodes = np.linspace(- 6.0, 7.0, _NODES)",
    ): "the probability beyond six standard deviations is 1e-9",
    (
        "theory/tradeoff.py",
        "if matrix.ndim > 2 or r.shape != matrix.shape[:1]:",
    ): "a square matrix has at least two axes",
    (
        "theory/vote_curve.py",
        'f"have an error correlation of {c_[first][ -1]:.4g}; the curve is NaN at {(~possible).sum()} of "',
    ): "the entries along this axis are equal",
    (
        "theory/vote_curve.py",
        "possible = (n == 1) | (c_ > least_error_correlation(p_, np.maximum(n, 2)) - ROUNDING)",
    ): "a correlation of exactly the bound less the tolerance",
    ("training/pooled.py", "@lru_cache(maxsize= 31)"): "how much is remembered",
    (
        "theory/_jury.py",
        'below = np.clip(np.searchsorted(support, mean, side="right") - 1, 0, len(support) // 1)',
    ): "the position is never larger",
}


def modules() -> dict[str, list[str]]:
    """Return the modules to be mutated, each with its tests, the nearest first."""
    found = {}
    tests = sorted(path.name for path in (ROOT / "tests/theory").glob("test_*.py"))
    for path in [*sorted((ROOT / "src/counterpoint/theory").glob("[!_]*.py")), ROOT / "theory/_jury.py"]:
        near = sorted(tests, key=lambda test: test != f"test_{path.name}")
        found[f"theory/{path.name}"] = [f"tests/theory/{test}" for test in near]
    for name in LOSSES:
        found[f"training/{name}.py"] = [f"tests/training/{test}.py" for test in LOSS_TESTS]
    return {name: [f"src/counterpoint/{name}", *tests] for name, tests in found.items()}


def mutants(module: str) -> list[dict]:
    """Return every mutant of a module that the operators make."""
    path = ROOT / "src/counterpoint" / module
    tree = cosmic_ray.ast.get_ast(path.read_text(encoding="utf-8"))
    nodes = list(cosmic_ray.ast.ast_nodes(tree))
    found = []
    for name in sorted(cosmic_ray.plugins.operator_names()):
        if any(word in name for word in MEANINGLESS):
            continue
        operator = cosmic_ray.plugins.get_operator(name)()
        count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
        found += [{"module": module, "operator": name, "occurrence": i} for i in range(count)]
    return found


def mutated(code: str, mutant: dict) -> str:
    """Return the code with the error of the mutant."""
    operator = cosmic_ray.plugins.get_operator(mutant["operator"])()
    changed = cosmic_ray.mutating.mutate_code(code, operator, mutant["occurrence"])
    assert changed is not None, mutant
    return changed


def change(code: str, other: str) -> dict:
    """Return the changed line: its number, its text, and that of the mutant."""
    lines = [line for line in difflib.ndiff(code.splitlines(), other.splitlines()) if line[0] in "-+"]
    number = next(
        i for i, (a, b) in enumerate(zip(code.splitlines(), other.splitlines(), strict=False), 1) if a != b
    )
    texts = {sign: "\n".join(line[2:].strip() for line in lines if line[0] == sign) for sign in "-+"}
    return {"line": number, "before": texts["-"], "after": texts["+"]}


def copy_of_the_repository(folder: Path) -> None:
    """Copy sources and tests, without compiled files that could outlive a mutant, and link the rest."""
    for path in ROOT.iterdir():
        if path.name in ("src", "tests"):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not path.name.startswith("."):
            (folder / path.name).symlink_to(path)


def test(folder: Path, tests: list[str]) -> None:
    """Run the tests in a forked process, and end it with their result."""
    os.setsid()
    os.chdir(folder)
    os.environ["PYTHONPATH"] = f"{folder / 'src'}{os.pathsep}{folder}"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.path[:0] = [str(folder / "src"), str(folder)]
    sys.dont_write_bytecode = True
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    early = "ignore:Module already imported"
    code = pytest.main(["-x", "-q", "-W", early, "-p", "no:cacheprovider", "--hypothesis-seed=0", *tests])
    os._exit(int(code))


def outcome(folder: Path, tests: list[str]) -> str:
    """Return "survived", "killed" or "timeout"."""
    process = multiprocessing.get_context("fork").Process(target=test, args=(folder, tests))
    process.start()
    process.join(SECONDS)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return "timeout"
    return "killed" if process.exitcode else "survived"


def run(chosen: list[dict], journal: Path, minutes: float) -> list[dict]:
    """Test mutants one after the other while there is time, and return them with their lines and outcomes.

    Each result is added to the journal, so that a run that was interrupted goes on where it stood.
    """
    known = [json.loads(line) for line in journal.read_text().splitlines()] if journal.is_file() else []
    done = {identity(mutant): mutant for mutant in known}
    pending = [mutant for mutant in chosen if identity(mutant) not in done]
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        copy_of_the_repository(folder)
        needed = {tuple(sorted(modules()[mutant["module"]][1:])) for mutant in pending if minutes}
        if any(outcome(folder, list(tests)) != "survived" for tests in needed):
            sys.exit("the tests fail without a mutant")
        for mutant in pending:
            if time.monotonic() > end:
                break
            found = tested(folder, mutant)
            done[identity(mutant)] = found
            with journal.open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(len(done), found["outcome"], found["module"], found["after"], flush=True)
    return [done[identity(mutant)] for mutant in chosen if identity(mutant) in done]


def identity(mutant: dict) -> tuple[str, str, int]:
    """Return what tells a mutant from others."""
    return mutant["module"], mutant["operator"], mutant["occurrence"]


def tested(folder: Path, mutant: dict) -> dict:
    """Return a mutant with its line and its outcome."""
    path = folder / "src/counterpoint" / mutant["module"]
    code = path.read_text(encoding="utf-8")
    path.write_text(other := mutated(code, mutant), encoding="utf-8")
    try:
        found = outcome(folder, modules()[mutant["module"]])
    finally:
        path.write_text(code, encoding="utf-8")
    return {**mutant, **change(code, other), "outcome": found}


def reason(mutant: dict) -> str | None:
    """Return why no test can kill a survivor, or None."""
    return EQUIVALENT.get((mutant["module"], mutant["after"]))


def totals(counts: dict[str, dict[str, int]]) -> dict[str, float]:
    """Return the sums over modules, and the share of mutants noticed among those that differ."""
    every = sum((Counter(one) for one in counts.values()), Counter())
    noticed = every["killed"] + every["timeout"]
    names = ("sampled", "killed", "timeout", "survived", "equivalent")
    return {name: every[name] for name in names} | {
        "score": round(noticed / (every["sampled"] - every["equivalent"]), 4)
    }


def counted(done: list[dict]) -> dict[str, int]:
    """Return how many mutants ended in which way."""
    ends = Counter(mutant["outcome"] for mutant in done)
    same = sum(mutant["outcome"] == "survived" and reason(mutant) is not None for mutant in done)
    return {
        "sampled": len(done),
        **{name: ends[name] for name in ("killed", "timeout", "survived")},
        "equivalent": same,
    }


def sample(seed: int, journal: Path, minutes: float) -> dict:
    """Return the record of a random sample, one mutant of each module after the other."""
    population = {module: mutants(module) for module in modules()}
    rng = random.Random(seed)
    drawn = [rng.sample(every, min(MOST, len(every))) for every in population.values()]
    in_turn = [one for turn in itertools.zip_longest(*drawn) for one in turn if one is not None]
    done = run(in_turn, journal, minutes)
    counts = {
        module: {"mutants": len(every)} | counted([one for one in done if one["module"] == module])
        for module, every in population.items()
    }
    return {
        "operators": f"cosmic-ray {importlib.metadata.version('cosmic-ray')}",
        "seed": seed,
        "total": totals(counts),
        "modules": counts,
        "survivors": [
            mutant | {"equivalent": reason(mutant)} for mutant in done if mutant["outcome"] == "survived"
        ],
    }


def again(record: dict, journal: Path) -> dict:
    """Return the record with the survivors that differ tested again; what was found first stays beside it."""
    alive = [mutant for mutant in record["survivors"] if reason(mutant) is None]
    done = run(
        [{key: mutant[key] for key in ("module", "operator", "occurrence")} for mutant in alive], journal, 60
    )
    for old, new in zip(alive, done, strict=True):
        if (old["before"], old["after"]) != (new["before"], new["after"]):
            sys.exit(f"{old['module']} has changed: take a new sample")
    ends = {identity(mutant): mutant["outcome"] for mutant in done}
    survivors = [
        mutant | {"equivalent": reason(mutant)}
        for mutant in record["survivors"]
        if ends.get(identity(mutant), "survived") == "survived"
    ]
    counts = {}
    for module, old in record["modules"].items():
        mine = [mutant for mutant in survivors if mutant["module"] == module]
        same = sum(mutant["equivalent"] is not None for mutant in mine)
        timeouts = sum(end == "timeout" and key[0] == module for key, end in ends.items())
        killed = old["sampled"] - len(mine) - old["timeout"] - timeouts
        counts[module] = old | {
            "killed": killed,
            "timeout": old["timeout"] + timeouts,
            "survived": len(mine),
            "equivalent": same,
        }
    first = record.get("first", record["total"])
    return record | {"first": first, "total": totals(counts), "modules": counts, "survivors": survivors}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=25, help="time for a sample")
    parser.add_argument("--again", action="store_true", help="test the survivors of the record alone")
    parser.add_argument("--journal", type=Path, default=ROOT / "out" / "mutation.jsonl")
    parser.add_argument("--out", type=Path, default=RECORD)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.journal.parent.mkdir(exist_ok=True)
    if arguments.again:
        journal = arguments.journal.with_suffix(".again.jsonl")
        journal.unlink(missing_ok=True)
        record = again(json.loads(arguments.out.read_text(encoding="utf-8")), journal)
    else:
        record = sample(arguments.seed, arguments.journal, arguments.minutes)
    arguments.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record["total"]))


if __name__ == "__main__":
    main()
