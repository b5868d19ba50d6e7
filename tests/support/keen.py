"""Helpers of the tests of PyKEEN: its Nations, models of many kinds, and its evaluation."""

import warnings

import pytest

import evenrank as er

with warnings.catch_warnings():
    # importing PyKEEN and its dependencies emits warnings
    warnings.simplefilter("ignore")
    _reason = "PyKEEN is not installed (extra: peers)"
    pytest.importorskip("pykeen", reason=_reason)
    torch = pytest.importorskip("torch", reason=_reason)
    from pykeen import models
    from pykeen.datasets import Nations
    from pykeen.nn import Embedding

from evenrank.integrations.pykeen import graph

DATA = {inverse: Nations(create_inverse_triples=inverse) for inverse in (False, True)}
GRAPH = graph(DATA[False])
TASK = GRAPH.task("test")


def made(name, inverse=False, **options):
    """Make a model with random parameters, including batch normalisation."""
    model = getattr(models, name)(
        triples_factory=DATA[inverse].training, random_seed=7, **{"embedding_dim": 8, **options}
    )
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return model


def composed(interaction, relations, inverse=False, dtype=None, **options):
    """Make a model from an interaction without a model class."""
    return models.ERModel(
        triples_factory=DATA[inverse].training,
        random_seed=7,
        interaction=interaction,
        interaction_kwargs=options,
        entity_representations=Embedding,
        entity_representations_kwargs={"shape": 8, "dtype": dtype},
        relation_representations=[Embedding] * relations,
        relation_representations_kwargs=[{"shape": 8, "dtype": dtype}] * relations,
    )


def error_of(call, *args, **kwargs):
    with pytest.raises(er.errors.InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def results(evaluator, model, **options):
    """Evaluate on Nations as a pipeline does."""
    data = DATA[model.use_inverse_triples]
    found = evaluator.evaluate(
        model,
        options.pop("mapped_triples", data.testing.mapped_triples),
        additional_filter_triples=[data.training.mapped_triples, data.validation.mapped_triples],
        use_tqdm=False,
        batch_size=64,
        **options,
    )
    return found.to_flat_dict()
