"""Log an evaluation to MLflow: protocol, metrics and ranks.

Usage: python examples/log_to_mlflow.py RANKS.parquet     (set MLFLOW_TRACKING_URI)
"""

import sys

import mlflow

import evenrank as er


def main(path: str) -> None:
    ranks = er.Ranks.load(path)
    result = ranks.evaluate()
    with mlflow.start_run(tags={"protocol": result.fingerprint}):
        mlflow.log_params(result.protocol.to_dict())
        mlflow.log_metrics(result.to_dict(plain=True))  # plain, because MLflow does not allow hits@10
        mlflow.log_metrics(ranks.by("side").evaluate("mrr", "index(mrr)").to_dict(plain=True))
        mlflow.log_artifact(path)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
