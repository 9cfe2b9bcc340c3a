# SPDX-License-Identifier: Apache-2.0
"""Preferences, from job.json to the last step, against TRL's trainers.

usage: preference_jobs.py BIN_DIR [--seed N] [--rounds N]

Golden data has one model and one draw of each loss; this draws models of every
family, losses, layouts of rows, texts and batches.
"""

import json
import string

import parity
import cases
import oracle
import preferences
import tokenizer
import torch
import worker
from families import vary


def words(chance, most):
    letters = string.ascii_lowercase + " "
    return "".join(chance.choices(letters, k=chance.randint(1, most)))


def draw(chance):
    """Rows, `preference` and `training` of a job."""
    write, preference = copy_of(preferences.CASES[chance.choice(
        sorted(preferences.CASES))])
    preference["beta"] = chance.choice([0.05, 0.1])
    write = chance.choice([preferences.strings, preferences.joined,
                           preferences.messages, preferences.whole])
    # Answers begin with letters of their own: TRL's implicit prompt then is
    # the whole prompt.
    rows = [write(words(chance, 12) + "?", "a" + words(chance, 16),
                  "b" + words(chance, 16)) for _ in range(8)]
    batch = chance.choice([1, 2, 4])
    return rows, preference, dict(
        preferences.TRAINING, per_device_train_batch_size=batch,
        gradient_accumulation_steps=4 // batch, learning_rate=3e-4)


def copy_of(case):
    write, preference = case
    return write, dict(preference)


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model_type, shape = case["config"]
    shape["vocab_size"] = 128
    case["dtype"] = None
    lora = {k: v for k, v in case["lora"].items() if k != "modules_to_save"}
    model, adapter = folder / "model", folder / "adapter"
    oracle.save_model(oracle.make_model(model_type, shape, generator), model,
                      case)
    tokenizer.save(model, 128)
    oracle.make_adapter(model, lora, adapter, generator)
    rows, preference, training = draw(chance)
    log, _ = preferences.train(model, adapter, rows, preference, training)
    data = folder / "rows.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, steps = worker.run_worker(
        program, folder, model, adapter, {},
        dict(training, train_sampling_strategy="sequential"), data=data,
        preference=preference, gradients=chance.choice(["auto", "autograd"]))
    where = f"{name} {preference}"
    report.losses(where, [step["loss"] for step in steps],
                  [step["loss"] for step in log])
    for metric in ("grad_norm", "rewards/chosen", "rewards/rejected",
                   "rewards/margins", "logps/chosen", "logps/rejected"):
        ours, theirs = (torch.tensor([step[metric] for step in series])
                        for series in (steps, log))
        report.less(f"{where} {metric}", metric,
                    parity.relative(ours, theirs), 1e-3)


# TRL refuses adapters on the head. Longrope's angles depend on the longest row
# of a batch: a reference that was computed in other batches has others.
if __name__ == "__main__":
    parity.random_models(
        {name: case for name, case in cases.CASES.items()
         if "lm_head" not in str(case["lora"])
         and "long_factor" not in str(case["config"])},
        check, vary, rounds=1, program="mpsd-worker")
