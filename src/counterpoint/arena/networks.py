"""The batched methods: all folds, candidates and methods of a table train as a few programs of networks.

The networks of a fold start from the same weights and see the same batches whatever their loss, so that the methods
are paired. The single network is the first of the independent ones, and bagged networks start from the same weights. A
method predicts with the vote of its loss; networks that train alone average their probabilities.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from counterpoint._validation import FloatArray, IntArray
from counterpoint.arena.encoding import for_networks
from counterpoint.arena.methods import (
    CORRELATIONS,
    SEARCHES,
    TRIED_DIVERSITIES,
    Recipe,
    Settings,
    correlation,
    diversity,
    recipes,
)
from counterpoint.arena.scores import fold_scores
from counterpoint.arena.tables import OuterFold, Split, Table
from counterpoint.estimators import choose_diversity
from counterpoint.training import (
    CorrelationLoss,
    DiversityLoss,
    EnsembleLoss,
    Fold,
    Group,
    IndependentLoss,
    JointLoss,
    NegativeCorrelationLoss,
    Schedule,
    fit_groups,
    mlp,
    seeded,
)

__all__ = ["run_networks"]

# Largest number of values that a program may hold; on a GPU, a share of the free memory.
_NUMBERS_ON_CPU = 2**27
_SHARE_OF_GPU = 0.2

ALONE = ("one-net", "bagged")  # trained as groups of one network


class Part(NamedTuple):
    """A split as tensors."""

    x: Tensor  # (n, n_features)
    y: Tensor
    test_x: Tensor
    test_y: IntArray
    seeds: tuple[int, int, int]  # of the weights, the batches and the bootstrap


class Trained(NamedTuple):
    """Predictions for a part by networks that a recipe trained."""

    place: int
    recipe: Recipe
    vote: FloatArray  # (n_test, n_classes)
    proba: FloatArray  # (n_learners, n_test, n_classes); no learners unless they are asked for
    seconds: float


class Choice(NamedTuple):
    """The recipe that a method chose in a fold, the accuracies behind the choice, and the seconds that it took."""

    recipe: Recipe
    accuracies: FloatArray  # (n_recipes,), means over the inner folds
    seconds: float


def run_networks(
    table: Table,
    folds: Sequence[OuterFold],
    methods: Sequence[str],
    settings: Settings,
    *,
    repeat: int,
    device: torch.device,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each method on each outer fold.

    Parameters
    ----------
    table : Table
        The data.
    folds : sequence of OuterFold
        The folds of this repeat.
    methods : sequence of str
        Batched methods.
    settings : Settings
        How to train.
    repeat : int
        Number of the repeat, which seeds the random draws.
    device : torch.device
        Where to train.
    report : callable, optional
        Called with a line of text before each program.

    Notes
    -----
    The seconds of a program are divided among its recipes by their number of networks. A recipe that several methods
    share is counted for each of them.
    """
    splits = [split for fold in folds for split in fold.inner] + [fold.outer for fold in folds]
    parts = _parts(table, splits, repeat, device)
    trainer = _Trainer(table, settings, report)
    choices = _choices(trainer, parts, folds, methods)
    first = len(parts) - len(folds)  # the outer folds come last
    wanted = sorted({(first + k, choice.recipe) for (_, k), choice in choices.items()})
    refit = {(one.place - first, one.recipe): one for one in trainer.train(parts, wanted, learners=True)}
    results: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
    for (method, k), choice in choices.items():
        one = refit[k, choice.recipe]
        results[method].append(
            {
                "n_test": len(folds[k].outer.test),
                **fold_scores(parts[first + k].test_y, one.vote, one.proba),
                "chosen": choice.recipe._asdict(),
                "inner_accuracies": choice.accuracies.round(6),
                "seconds": round(choice.seconds + one.seconds, 3),
            }
        )
    return results


def _choices(
    trainer: "_Trainer", parts: Sequence[Part], folds: Sequence[OuterFold], methods: Sequence[str]
) -> dict[tuple[str, int], Choice]:
    """Return the choice of each method on the inner folds of each outer fold; a recipe is trained once for all."""
    n_inner = len(folds[0].inner)
    tried = {recipe for method in methods for recipe in recipes(method)}
    wanted = [(place, recipe) for place in range(len(folds) * n_inner) for recipe in tried]
    right: dict[tuple[int, Recipe], float] = {}
    seconds: dict[tuple[int, Recipe], float] = {}
    for one in trainer.train(parts, wanted):
        right[one.place, one.recipe] = float(np.mean(one.vote.argmax(axis=1) == parts[one.place].test_y))
        seconds[one.place, one.recipe] = one.seconds
    choices = {}
    for method in methods:
        choice, own = _search if method in SEARCHES else _best, recipes(method)
        for k, fold in enumerate(folds):
            places = range(k * n_inner, (k + 1) * n_inner)
            accuracies = np.array([[right[place, recipe] for place in places] for recipe in own])
            spent = sum(seconds[place, recipe] for place in places for recipe in own)
            chosen = own[choice(accuracies, fold.inner)]
            choices[method, k] = Choice(chosen, accuracies.mean(axis=1), spent)
    return choices


class _Trainer:
    """Train recipes on parts, in programs that fit into memory."""

    def __init__(self, table: Table, settings: Settings, report: Callable[[str], None]) -> None:
        self.table, self.settings, self.report = table, settings, report
        self.n_classes = len(table.classes)
        self.losses: dict[str, EnsembleLoss] = {
            "joint": JointLoss(),
            "joint-logits": JointLoss(pool="logits"),
            "ncl": NegativeCorrelationLoss(),
            "diversity": DiversityLoss(),
            **{diversity(dial): DiversityLoss(dial) for dial in (0.0, *TRIED_DIVERSITIES)},
            **{correlation(dial): CorrelationLoss(dial) for dial in CORRELATIONS},
        }
        self.independent = IndependentLoss()

    def train(
        self, parts: Sequence[Part], wanted: Sequence[tuple[int, Recipe]], *, learners: bool = False
    ) -> Iterator[Trained]:
        """Yield the predictions of each recipe for its part, with those of the learners if asked."""
        together = [(place, recipe) for place, recipe in wanted if recipe.training not in ALONE]
        alone = [(place, recipe) for place, recipe in wanted if recipe.training in ALONE]
        for some in (together, alone):
            if not some:
                continue
            # groups of one loss are neighbours, so that a slice selects them without a copy
            some = sorted(some, key=lambda pair: (pair[1].training, pair[1].weight_decay, pair[0]))
            rows = max(len(parts[place].y) for place, _ in wanted)
            schedule = Schedule(
                epochs=self.settings.epochs,
                n_batches=math.ceil(rows / self.settings.batch_size(len(self.table.y))),
                learning_rate=self.settings.learning_rate,
                weight_decay=0.0,
            )
            yield from self._in_chunks(parts, some, schedule, learners)

    def _in_chunks(
        self, parts: Sequence[Part], wanted: list[tuple[int, Recipe]], schedule: Schedule, learners: bool
    ) -> Iterator[Trained]:
        """Yield from one program after another; a program that does not fit into memory is cut in half."""
        most = max(1, _capacity(parts[0].x.device) // self._numbers(parts, wanted, schedule))
        waiting = [wanted[start : start + most] for start in range(0, len(wanted), most)]
        while waiting:
            some = waiting.pop(0)
            self.report(f"{self.table.name}: {len(some)} ensembles, {len(waiting)} more programs")
            try:
                found = self._program(parts, some, schedule, learners)
            except torch.cuda.OutOfMemoryError:
                if len(some) == 1:
                    raise
                found, half = [], len(some) // 2
                waiting[:0] = [some[:half], some[half:]]
            yield from found

    def _program(
        self, parts: Sequence[Part], wanted: list[tuple[int, Recipe]], schedule: Schedule, learners: bool
    ) -> list[Trained]:
        start = time.perf_counter()
        groups: list[Group] = []
        owners: list[tuple[int, Recipe]] = []
        folds: dict[tuple[int, str], list[Fold]] = {}
        networks: dict[int, list[nn.Module]] = {}
        for place, recipe in wanted:
            kind = recipe.training if recipe.training in ALONE else "together"
            if place not in networks:
                networks[place] = self._networks(parts[place])
            if (place, kind) not in folds:
                folds[place, kind] = _folds(parts[place], networks[place], kind)
            loss = self.losses.get(recipe.training, self.independent)
            for fold in folds[place, kind]:
                groups.append(Group(fold, loss, weight_decay=recipe.weight_decay))
                owners.append((place, recipe))
        program = fit_groups(groups, schedule)
        xs = [parts[place].test_x for place, _ in owners]
        votes = _arrays(program.votes(xs))
        proba = _arrays(program.proba(xs)) if learners else [vote[None][:0] for vote in votes]
        each = (time.perf_counter() - start) / len(groups)
        found: dict[tuple[int, Recipe], list[int]] = defaultdict(list)
        for g, owner in enumerate(owners):
            found[owner].append(g)
        return [
            Trained(
                *owner,
                np.mean([votes[g] for g in some], axis=0),
                np.concatenate([proba[g] for g in some]),
                each * len(some),
            )
            for owner, some in found.items()
        ]

    def _networks(self, part: Part) -> list[nn.Module]:
        sizes = [part.x.shape[1], self.settings.hidden, self.n_classes]
        with seeded(torch.device("cpu"), part.seeds[0]):
            return [mlp(sizes) for _ in range(self.settings.n_learners)]

    def _numbers(
        self, parts: Sequence[Part], wanted: Sequence[tuple[int, Recipe]], schedule: Schedule
    ) -> int:
        """Return an estimate of the number of values that the training of one recipe holds."""
        n = max(len(parts[place].y) for place, _ in wanted)
        batch, width, hidden = n // (schedule.n_batches or 1) + 1, parts[0].x.shape[1], self.settings.hidden
        weights = hidden * (width + self.n_classes + 2)
        step = batch * (2 * width + 6 * hidden + 10 * self.n_classes)
        return self.settings.n_learners * (8 * weights + step + 3 * n * self.n_classes) + n * width


def _parts(table: Table, splits: Sequence[Split], repeat: int, device: torch.device) -> list[Part]:
    """Return the splits as tensors, each with its own encoding, all of one width."""
    encoded = []
    for split in splits:
        encoder = for_networks()
        train = encoder.fit_transform(table.X.iloc[split.train])
        encoded.append((train, encoder.transform(table.X.iloc[split.test])))
    width = max(train.shape[1] for train, _ in encoded)
    parts = []
    for place, (split, (train, test)) in enumerate(zip(splits, encoded, strict=True)):
        drawn = np.random.SeedSequence([repeat, place, 1]).generate_state(3) >> 1
        x, test_x = (_wide(rows, width, device) for rows in (train, test))
        y = torch.as_tensor(table.y[split.train], device=device)
        a, b, c = drawn.tolist()
        parts.append(Part(x, y, test_x, table.y[split.test], (a, b, c)))
    return parts


def _wide(rows: FloatArray, width: int, device: torch.device) -> Tensor:
    """Return rows padded with columns of zeros, which have no effect on the outputs."""
    padded = np.zeros((len(rows), width), dtype=np.float32)
    padded[:, : rows.shape[1]] = rows
    return torch.from_numpy(padded).to(device)


def _folds(part: Part, networks: list[nn.Module], kind: str) -> list[Fold]:
    """Return all networks on the same rows, the first one alone, or each on its own bootstrap sample."""
    _, order, bootstrap = part.seeds
    if kind == "together":
        return [Fold(part.x, part.y, None, networks, order)]
    if kind == "one-net":
        return [Fold(part.x, part.y, None, networks[:1], order)]
    n, rng = len(part.y), np.random.default_rng(bootstrap)
    drawn = [torch.as_tensor(rng.integers(n, size=n), device=part.x.device) for _ in networks]
    return [
        Fold(part.x[rows], part.y[rows], None, [network], order + i)
        for i, (network, rows) in enumerate(zip(networks, drawn, strict=True))
    ]


def _arrays(found: Sequence[Tensor]) -> list[FloatArray]:
    return [one.cpu().double().numpy() for one in found]


def _best(votes: FloatArray, _: Sequence[Split]) -> int:
    """Return the recipe with the best mean accuracy over the inner folds."""
    return int(votes.mean(axis=1).round(12).argmax())


def _search(votes: FloatArray, inner: Sequence[Split]) -> int:
    """Return the diversity that DiverseEnsembleClassifierCV would choose by these accuracies."""
    share = float(np.mean([len(split.test) / len(split.train) for split in inner]))
    return choose_diversity(votes, share).chosen


def _capacity(device: torch.device) -> int:
    if device.type != "cuda":
        return _NUMBERS_ON_CPU
    return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0] / 4)
