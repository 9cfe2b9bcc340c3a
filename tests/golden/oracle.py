# SPDX-License-Identifier: Apache-2.0
"""Golden values by Transformers and PEFT, in fp32 on the CPU.

Parameters carry the names of adapter_model.safetensors: PEFT's own,
"...q_proj.lora_A.weight" (the adapter's own name left out) for a LoRA pair,
"base_model.model.lm_head.weight" for a module trained whole.
"""

import json
import os
import pathlib
import re
import tempfile
import warnings

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
warnings.simplefilter("ignore", FutureWarning)

IGNORE = -100


def make_model(model_type, arguments, generator):
    settings = AutoConfig.for_model(model_type, **arguments)
    model = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    return randomise(model, generator)


def randomise(model, generator):
    """Random weights whose logits spread over a few units: the initialiser's
    own scale leaves them, and the gradients after them, near zero."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if name.lower().endswith("norm.weight"):
                parameter.add_(0.2 * noise)  # to 1, or 0 of Gemma
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * 1.2 / parameter.shape[1] ** 0.5)
    return model.eval()


def save_model(model, folder, case):
    """Writes the HF folder, in the layout that the case asks for."""
    stored = model
    if case.get("dtype"):
        stored = model.to(getattr(torch, case["dtype"]))
    stored.save_pretrained(
        folder, max_shard_size=case.get("max_shard_size", "5GB"))
    pathlib.Path(folder, "generation_config.json").unlink(missing_ok=True)
    path = pathlib.Path(folder, "config.json")
    values = json.loads(path.read_text())
    if case.get("legacy_config"):
        values = legacy_config(values)
    path.write_text(json.dumps(values, indent=2) + "\n")


def legacy_config(values):
    """config.json as Transformers 4 wrote it, and most models still have."""
    rope = dict(values.pop("rope_parameters", None) or {})
    values["rope_theta"] = rope.pop("rope_theta", 10000.0)
    scaled = rope.get("rope_type", "default") != "default"
    values["rope_scaling"] = rope if scaled else None
    values["torch_dtype"] = values.pop("dtype", "float32")
    values.pop("layer_types", None)
    return values


def load_model(folder):
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def lora_config(lora):
    return LoraConfig(task_type="CAUSAL_LM", **lora)


def make_adapter(folder, lora, adapter_folder, generator, spread=0.1):
    """A PEFT folder as save_pretrained writes it, B of deviation `spread`."""
    model = get_peft_model(load_model(folder), lora_config(lora))
    randomise_adapter(model, generator, spread)
    save_adapter(model, adapter_folder)


def randomise_adapter(model, generator, spread=0.1):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if "lora_A" in name:
                parameter.copy_(noise / parameter.shape[1] ** 0.5)
            elif "lora_B" in name:
                parameter.copy_(spread * noise)
            else:  # modules_to_save: near the original, not it
                parameter.add_(0.02 * noise)


def save_adapter(model, adapter_folder):
    model.peft_config["default"].base_model_name_or_path = "../model"
    model.save_pretrained(adapter_folder, save_embedding_layers=False)
    pathlib.Path(adapter_folder, "README.md").unlink(missing_ok=True)
    path = pathlib.Path(adapter_folder, "adapter_config.json")
    values = json.loads(path.read_text())
    if isinstance(values["target_modules"], list):  # PEFT keeps a set
        values["target_modules"].sort()
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")


def load_adapter(folder, adapter_folder):
    return PeftModel.from_pretrained(load_model(folder), adapter_folder,
                                     is_trainable=True)


def file_name(parameter_name):
    """The name in adapter_model.safetensors of a torch parameter."""
    name = parameter_name.replace(".modules_to_save.default", "")
    return re.sub(r"(lora_[AB])\.default", r"\1", name)


def trainable(model):
    return {file_name(name): parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad}


def gradients(model):
    return {f"grad.{name}": parameter.grad.clone()
            for name, parameter in trainable(model).items()}


def random_batch(vocab_size, lengths, generator, prompt=0.25):
    """Right-padded rows; a prompt at the left of each is not a target."""
    width = max(lengths)
    ids = torch.randint(3, vocab_size, (len(lengths), width),
                        generator=generator)
    labels = ids.clone()
    mask = torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, length:] = 0
        labels[row, length:] = IGNORE
        labels[row, :int(length * prompt)] = IGNORE
        mask[row, :length] = 1
    return dict(input_ids=ids, labels=labels, attention_mask=mask)


def forward_backward(model, batch):
    """Logits, loss and gradients of one batch."""
    model.zero_grad()
    out = model(**batch)
    out.loss.backward()
    return dict(logits=out.logits.detach(), loss=out.loss.detach().reshape(1),
                **gradients(model))


def packed(model, batch, lengths):
    """What one row of several sequences must give: each ran on its own."""
    model.zero_grad()
    logits, losses, targets = [], [], 0
    for row, length in enumerate(lengths):
        ids = batch["input_ids"][row:row + 1, :length]
        labels = batch["labels"][row:row + 1, :length]
        count = (labels[:, 1:] != IGNORE).sum()
        out = model(input_ids=ids, labels=labels)
        (out.loss * count).backward()
        logits.append(out.logits.detach())
        losses.append(out.loss.detach() * count)
        targets += count
    result = {name: grad / targets for name, grad in gradients(model).items()}
    return dict(result, **packed_inputs(batch, lengths),
                logits=torch.cat(logits, dim=1),
                loss=(sum(losses) / targets).reshape(1))


def packed_inputs(batch, lengths):
    ids, labels, positions, sequences = [], [], [], []
    for row, length in enumerate(lengths):
        ids.append(batch["input_ids"][row, :length])
        labels.append(batch["labels"][row, :length].clone())
        labels[-1][0] = IGNORE  # no token of the previous sequence predicts it
        positions.append(torch.arange(length))
        sequences.append(torch.full((length,), row))
    rows = dict(input_ids=ids, labels=labels, position_ids=positions,
                sequence_ids=sequences)
    return {name: torch.cat(row)[None] for name, row in rows.items()}


class SequentialTrainer(transformers.Trainer):
    """Transformers' Trainer, samples in the order of the data set."""

    def _get_train_sampler(self, train_dataset=None):
        return torch.utils.data.SequentialSampler(
            train_dataset or self.train_dataset)


def collate(samples):
    width = max(len(sample["input_ids"]) for sample in samples)

    def pad(name, value):
        return torch.stack([
            torch.nn.functional.pad(s[name], (0, width - len(s[name])),
                                    value=value) for s in samples])

    return dict(input_ids=pad("input_ids", 0), labels=pad("labels", IGNORE),
                attention_mask=pad("attention_mask", 0))


def training_arguments(training, folder):
    names = {k: v for k, v in training.items() if k != "max_length"}
    return transformers.TrainingArguments(
        output_dir=folder, use_cpu=True, report_to="none", logging_steps=1,
        logging_first_step=True, save_strategy="no", disable_tqdm=True,
        optim="adamw_torch", dataloader_pin_memory=False, **names)


def train(model, batch, lengths, training):
    """Trains and returns the unrounded losses, norms, rates, final weights."""
    samples = [{name: batch[name][row, :length]
                for name in ("input_ids", "labels", "attention_mask")}
               for row, length in enumerate(lengths)]
    result = run_trainer(model, samples, collate, training)
    result.update({"train.input_ids": batch["input_ids"],
                   "train.labels": batch["labels"],
                   "train.lengths": torch.tensor(lengths)})
    return result


def run_trainer(model, samples, collate, training, compute_loss=None):
    log = []

    class Record(transformers.TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            if "grad_norm" in logs:
                log.append(dict(logs))

    with tempfile.TemporaryDirectory() as folder:
        trainer = SequentialTrainer(
            model=model, args=training_arguments(training, folder),
            train_dataset=samples, data_collator=collate,
            callbacks=[Record()], compute_loss_func=compute_loss)
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    assert len(log) == training["max_steps"], len(log)
    series = {f"train.{name}": [entry[key] for entry in log] for name, key in
              (("losses", "loss"), ("grad_norms", "grad_norm"),
               ("learning_rates", "learning_rate"))}
    result = {name: torch.tensor(values, dtype=torch.float32)
              for name, values in series.items()}
    result.update({f"final.{name}": parameter.detach().clone()
                   for name, parameter in trainable(model).items()})
    return result


def save_tensors(tensors, path):
    save_file({name: t.detach().contiguous().clone()
               for name, t in tensors.items()}, path)
