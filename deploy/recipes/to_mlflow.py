#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a run of mpsd into MLflow (package mlflow or mlflow-skinny).

    mpsctl download ID --curves --output run
    python3 to_mlflow.py run [--experiment NAME] [--name NAME]

The folder may also be a run's own. The destination is MLflow's
MLFLOW_TRACKING_URI. Metrics have the names of TensorBoard, parameters those of
job.json. Each call creates a new run and prints its id.
"""

import argparse
import time

import run_curves
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

BATCH = 500  # metrics per call; MLflow accepts 1,000
PARAMETERS, PARAMETER_LENGTH = 100, 500  # per call, per value


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--experiment", default="mpsd")
    parser.add_argument("--name")
    args = parser.parse_args()

    manifest = run_curves.manifest(args.folder)
    client = MlflowClient()
    found = client.get_experiment_by_name(args.experiment)
    experiment = (found.experiment_id if found
                  else client.create_experiment(args.experiment))
    name = args.name or manifest["spec"].get("name") or None
    run = client.create_run(experiment, run_name=name).info.run_id

    parameters = [Param(key, str(value)[:PARAMETER_LENGTH])
                  for key, value in run_curves.flat(manifest["spec"])]
    for i in range(0, len(parameters), PARAMETERS):
        client.log_batch(run, params=parameters[i:i + PARAMETERS])
    client.log_batch(run, tags=[
        RunTag(f"mpsd.{key}", str(manifest[key])) for key in
        ("state", "mpsd_version", "torch_version", "device_description")
        if key in manifest])

    now = int(time.time() * 1000)
    metrics = [Metric(tag, value, now, step)
               for step, values in run_curves.curves(args.folder)
               for tag, value in values.items()]
    for i in range(0, len(metrics), BATCH):
        client.log_batch(run, metrics=metrics[i:i + BATCH])
    finished = manifest.get("state") == "SUCCEEDED"
    client.set_terminated(run, status="FINISHED" if finished else "KILLED")
    print(run)


if __name__ == "__main__":
    main()
