"""Log an evaluation to Weights & Biases: protocol, metrics, a table by relation and ranks.

Usage: python examples/log_to_wandb.py RANKS.parquet     (WANDB_MODE=offline to log locally only)
"""

import sys

import wandb

import evenrank as er


def main(path: str) -> None:
    ranks = er.Ranks.load(path)
    result = ranks.evaluate()
    with wandb.init(project="evenrank", config=result.protocol.to_dict()) as run:
        by_side = ranks.by("side").evaluate("mrr", "index(mrr)")
        relations = wandb.Table(dataframe=ranks.by("relation").evaluate().to_pandas())
        run.log({**result.to_dict(plain=True), **by_side.to_dict(plain=True), "relations": relations})
        run.log_artifact(path, type="ranks")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
