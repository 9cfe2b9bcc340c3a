#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies a run of mpsd into Weights & Biases (package wandb).

    mpsctl download ID --curves --output run
    python3 to_wandb.py run [--project NAME] [--name NAME]

The folder may also be a run's own. WANDB_MODE=offline writes it below ./wandb,
for `wandb sync`. Metrics have the names of TensorBoard, the configuration those
of job.json. Each call creates a new run and prints its id.
"""

import argparse

import run_curves
import wandb


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--project", default="mpsd")
    parser.add_argument("--name")
    args = parser.parse_args()

    manifest = run_curves.manifest(args.folder)
    facts = {key: manifest[key] for key in
             ("mpsd_version", "torch_version", "device_description")
             if key in manifest}
    run = wandb.init(
        project=args.project, job_type="fine-tuning",
        name=args.name or manifest["spec"].get("name") or None,
        config={**manifest["spec"], "mpsd": facts})
    for step, values in run_curves.curves(args.folder):
        run.log(values, step=step)
    run.finish(exit_code=0 if manifest.get("state") == "SUCCEEDED" else 1)
    print(run.id)


if __name__ == "__main__":
    main()
