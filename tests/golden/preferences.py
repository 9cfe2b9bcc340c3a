# SPDX-License-Identifier: Apache-2.0
"""Golden values of TRL's trainers of preferences, on the "smollm" model and its
adapter: per step the loss, the norm of the gradients and the metrics, and the
first step's gradients. Each case also has another layout of the rows."""

import copy
import json
import tempfile

import oracle
import torch
import transformers
from datasets import Dataset
from trl import DPOConfig, DPOTrainer

PAIRS = [("say a", "a is a letter", "no"), ("2+2?", "4", "22 or so"),
         ("is it cold?", "yes, it is", "yes?"), ("who?", "me", "him or her"),
         ("name a color", "blue", "seven"), ("bye", "see you", "see nobody"),
         ("up or down?", "down it goes", "do"), ("hi", "hello there", "go")]
TRAINING = dict(max_steps=20, per_device_train_batch_size=2,
                gradient_accumulation_steps=2, learning_rate=1e-3,
                lr_scheduler_type="constant", max_grad_norm=1000.0)


def says(role, text):
    return [dict(role=role, content=text)]


def strings(prompt, chosen, rejected):
    return dict(prompt=prompt + " ", chosen=chosen, rejected=rejected)


def joined(prompt, chosen, rejected):
    return dict(chosen=f"{prompt} {chosen}", rejected=f"{prompt} {rejected}")


def messages(prompt, chosen, rejected):
    return dict(prompt=says("user", prompt), chosen=says("assistant", chosen),
                rejected=says("assistant", rejected))


def whole(prompt, chosen, rejected):
    row = messages(prompt, chosen, rejected)
    return {name: row["prompt"] + row[name] for name in ("chosen", "rejected")}


# Name: how the rows are written, and job.json's `preference`.
CASES = {
    "sigmoid": (strings, dict(trainer="dpo", beta=0.5)),
    "hinge": (joined, dict(trainer="dpo", loss_type="hinge", beta=0.05)),
    "ipo": (messages, dict(trainer="dpo", loss_type="ipo", beta=0.2)),
    "robust": (whole, dict(trainer="dpo", loss_type="robust", beta=0.1,
                           label_smoothing=0.1)),
}
TRAINERS = {"dpo": (DPOTrainer, DPOConfig)}


class Record(transformers.TrainerCallback):
    def __init__(self):
        self.log, self.gradients = [], {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        if not self.gradients:
            self.gradients = oracle.gradients(model)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "grad_norm" in logs:
            self.log.append(dict(logs))


def train(model_folder, adapter_folder, rows, preference, training):
    """Trains; returns the log of each step and the first step's gradients."""
    make_trainer, make_config = TRAINERS[preference["trainer"]]
    options = {k: v for k, v in preference.items() if k != "trainer"}
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        config = make_config(
            output_dir=folder, use_cpu=True, report_to="none", logging_steps=1,
            save_strategy="no", disable_tqdm=True, optim="adamw_torch",
            dataloader_pin_memory=False, bf16=False,
            gradient_checkpointing=False,
            train_sampling_strategy="sequential", **options, **training)
        trainer = make_trainer(
            model=oracle.load_adapter(model_folder, adapter_folder),
            args=config, train_dataset=Dataset.from_list(copy.deepcopy(rows)),
            processing_class=transformers.AutoTokenizer.from_pretrained(
                model_folder), callbacks=[record])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    assert len(record.log) == training["max_steps"], len(record.log)
    return record.log, {
        name.replace(".ref.", "."): value
        for name, value in record.gradients.items()}


def make(here):
    """(values for preferences.json, tensors for preferences.safetensors)"""
    cases, tensors = {}, {}
    for name, (write, preference) in CASES.items():
        print("preferences", name, flush=True)
        rows = [write(*pair) for pair in PAIRS]
        log, gradients = train(here / "smollm/model", here / "smollm/adapter",
                               rows, preference, TRAINING)
        tensors.update({f"{name}.{k}": v for k, v in gradients.items()})
        keep = {"loss", "grad_norm"} | {
            key for key in log[0] if key.startswith(("rewards/", "logps/"))}
        cases[name] = dict(rows=rows, preference=preference, steps=[
            {key: step[key] for key in sorted(keep)} for step in log])
    return dict(training=TRAINING, cases=cases), tensors


def write(here):
    values, tensors = make(here)
    (here / "preferences.json").write_text(
        json.dumps(values, separators=(",", ":")).replace('{"loss"', '\n{"loss"')
        + "\n")
    oracle.save_tensors(tensors, here / "preferences.safetensors")


if __name__ == "__main__":
    import pathlib
    torch.set_num_threads(1)
    write(pathlib.Path(__file__).resolve().parent)
