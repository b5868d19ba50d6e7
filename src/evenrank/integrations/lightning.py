"""A Lightning callback that ranks in full after every epoch: sampling is not needed to be quick."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.metrics.adjusted import Expression
from evenrank.metrics.grammar import parse
from evenrank.ranking import rank
from evenrank.ranking.scorer import Factoring, Scorer
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

need("lightning")  # before it is imported: says what to install

import torch  # noqa: E402
from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402

__all__ = ["RankingCallback"]

DEFAULT = ("mrr", "index(mrr)", "hits@1", "hits@10", "mr", "index(mr)")


class RankingCallback(Callback):  # type: ignore[misc]  # untyped where Lightning is absent
    """Ranks tasks with the module that is being trained, and logs metrics to monitor.

    `valid` is ranked at the end of every validation (of every epoch of training, where there is no
    validation), `test` at the end of a test; metrics are logged as `valid/index_mrr`, `test/hits_at_10`
    and so on, for checkpoints, early stopping and loggers. `scorer` makes of the module what `er.rank`
    takes (`lambda module: er.models.ComplEx(module.entity, module.relation)`); without it, the module
    itself is ranked. `ranks` holds the last ranks. Among several processes the first one ranks. How
    often to validate, the trainer says (`check_val_every_n_epoch`), to all that monitor alike.
    """

    def __init__(
        self,
        *metrics: str | Expression,
        valid: Task | None = None,
        test: Task | None = None,
        scorer: Callable[[Any], Any] | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        """Take the tasks, what stands before the names logged, and further options of `er.rank`."""
        if valid is None and test is None:
            raise InputError("nothing to rank", do="give valid=graph.task('valid'), test=, or both")
        self.metrics = [*map(parse, metrics or DEFAULT)]  # here, so that a misspelt one costs no epoch
        tasks = {"valid": valid, "test": test}
        self.tasks = {f"{prefix}{split}/": task for split, task in tasks.items() if task is not None}
        self.prefix = prefix
        self.scorer = scorer
        self.options = {"progress": False, **options}
        self.ranks: Ranks | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Refuse what cannot be ranked, and names that another one logs too: they would get the mean."""
        if self.scorer is None and not isinstance(pl_module, Scorer | Factoring):
            raise InputError(
                "the module has no method score(queries, candidates) to rank it by",
                got=type(pl_module).__name__,
                do="give it one, or say what to rank: scorer=lambda module: er.models.ComplEx(...)",
            )
        alike = [callback for callback in trainer.callbacks if isinstance(callback, RankingCallback)]
        ((name, times),) = Counter(name for callback in alike for name in callback.tasks).most_common(1)
        if times > 1:
            raise InputError(
                "two callbacks would log the same names", got=f"{name}...", do="give one a prefix="
            )

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rank where checkpoints and early stopping look for what they monitor."""
        if not trainer.sanity_checking:
            self._rank("valid", trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rank here where there is no validation."""
        if not trainer.enable_validation:
            self._rank("valid", trainer, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rank the test task."""
        self._rank("test", trainer, pl_module)

    def _rank(self, split: str, trainer: Trainer, module: LightningModule) -> None:
        name = f"{self.prefix}{split}/"
        task = self.tasks.get(name)
        if task is None:
            return
        values = None
        if trainer.is_global_zero:
            with _evaluating(module):
                self.ranks = rank(self.scorer(module) if self.scorer else module, task, **self.options)
            values = self.ranks.evaluate(*self.metrics).to_dict(name, plain=True)
        values = trainer.strategy.broadcast(values)
        # as tensors, because Lightning takes a number for float32
        module.log_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in values.items()})


@contextmanager
def _evaluating(module: LightningModule) -> Iterator[None]:
    """Switch dropout and the like off, and then each part of the module back to what it was."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes:
            part.training = training
