"""What the tests of PyKEEN share: Nations as it has it, models of many kinds, its way to evaluate."""

import warnings

import pytest

import evenrank as er

with warnings.catch_warnings():
    # what PyKEEN and its dependencies warn of while they load is theirs to mend
    warnings.simplefilter("ignore")
    _reason = "PyKEEN is not installed (the extra `peers` brings it)"
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
    """Make a model whose parameters are all over the place, batch normalisation too."""
    model = getattr(models, name)(
        triples_factory=DATA[inverse].training, random_seed=7, **{"embedding_dim": 8, **options}
    )
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    return model


def composed(interaction, relations, inverse=False, dtype=None, **options):
    """Make a model of an interaction that has no class of its own."""
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


def refused(call, *args, **kwargs):
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
