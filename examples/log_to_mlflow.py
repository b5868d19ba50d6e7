"""Log an evaluation to MLflow: how it was made, every metric, and the ranks it can be made again from.

Usage: python examples/log_to_mlflow.py RANKS.parquet     (MLFLOW_TRACKING_URI says where to)
"""

import sys

import mlflow

import evenrank as er


def main(path: str) -> None:
    ranks = er.Ranks.load(path)
    result = ranks.evaluate()
    with mlflow.start_run(tags={"protocol": result.fingerprint}):
        mlflow.log_params(result.protocol)
        mlflow.log_metrics(result.to_dict(plain=True))  # plain, because MLflow refuses hits@10
        mlflow.log_metrics(ranks.by("side").evaluate("mrr", "index(mrr)").to_dict(plain=True))
        mlflow.log_artifact(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
