"""A Lightning callback that ranks against all candidates after every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from evenrank._internal.checks import check_type
from evenrank._internal.optional import need
from evenrank.errors import InputError
from evenrank.metrics.grammar import Metrics, listed, parse
from evenrank.ranking import adapted, evaluating, rank
from evenrank.ranks.ranks import Ranks
from evenrank.ranks.task import Task

need("lightning")  # before it is imported: says what to install

import torch  # noqa: E402
from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402

__all__ = ["RankingCallback"]

DEFAULT = ("mrr", "index(mrr)", "hits@1", "hits@10", "mr", "index(mr)")


class RankingCallback(Callback):  # type: ignore[misc]  # untyped where Lightning is absent
    """Rank tasks with the module in training, and log metrics.

    Metrics are logged as ``valid/index_mrr``, ``test/hits_at_10`` and so on, for checkpoints, early
    stopping and loggers. Of several processes, the first one ranks. The trainer's
    ``check_val_every_n_epoch`` sets how often. The attribute `ranks` holds the last ranks.

    Parameters
    ----------
    *metrics : str, Metric or list of these
        The metrics; by default MRR, hits@1, hits@10, MR, and the adjusted index of MRR and MR.
    valid : Task, optional
        Ranked at the end of every validation, or of every training epoch if there is no validation.
    test : Task, optional
        Ranked at the end of a test.
    scorer : callable, optional
        Converts the module to a scorer, such as
        ``lambda module: er.models.ComplEx(module.entity, module.relation)``; by default the module
        itself is the scorer.
    prefix : str, default ""
        Prefix of the logged names.
    **options
        Options of `evenrank.rank`.

    Raises
    ------
    InputError
        If there is no task.
    """

    def __init__(
        self,
        *metrics: Metrics,
        valid: Task | None = None,
        test: Task | None = None,
        scorer: Callable[[Any], Any] | None = None,
        prefix: str = "",
        **options: Any,
    ) -> None:
        if valid is None and test is None:
            raise InputError("nothing to rank", do="set valid=graph.task('valid'), test=, or both")
        self.metrics = [
            *map(parse, listed(metrics) or DEFAULT)
        ]  # here, so that a misspelt one costs no epoch
        tasks = {"valid": valid, "test": test}
        for split, task in tasks.items():
            check_type(task, Task | None, f"{split} must be a Task", do="graph.task(...)")
        if scorer is not None and not callable(scorer):
            raise InputError("scorer must be callable", got=type(scorer).__name__)
        self.tasks = {f"{prefix}{split}/": task for split, task in tasks.items() if task is not None}
        self.prefix = prefix
        self.scorer = scorer
        self.options = {"progress": False, **options}
        self.ranks: Ranks | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002
        """Check that the module can be ranked, and that no other callback logs the same names."""
        if self.scorer is None:
            try:
                adapted(pl_module)
            except InputError:
                raise InputError(
                    "the module has no forward(h, r, t) or score(queries, candidates) to rank by",
                    got=type(pl_module).__name__,
                    do="add one, or set scorer=lambda module: er.models.ComplEx(...)",
                ) from None
        alike = [callback for callback in trainer.callbacks if isinstance(callback, RankingCallback)]
        ((name, times),) = Counter(name for callback in alike for name in callback.tasks).most_common(1)
        if times > 1:
            raise InputError(
                "two callbacks log the same names", got=f"{name}...", do="set the prefix= of one"
            )

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rank the validation task."""
        if not trainer.sanity_checking:
            self._rank("valid", trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rank the validation task if the trainer does not validate."""
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
            with evaluating(module):
                self.ranks = rank(self.scorer(module) if self.scorer else module, task, **self.options)
            values = self.ranks.evaluate(*self.metrics).to_dict(name, plain=True)
        values = trainer.strategy.broadcast(values)
        # as tensors, because Lightning converts numbers to float32
        module.log_dict({name: torch.tensor(v, dtype=torch.float64) for name, v in values.items()})
