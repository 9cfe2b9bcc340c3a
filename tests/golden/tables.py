# SPDX-License-Identifier: Apache-2.0
"""The tables next to the cases: schedules, decay groups, initialisation."""

import dataclasses
import math
import tempfile
import typing

import torch
from peft import LoraConfig, get_peft_model
from transformers import (LlamaForCausalLM, Trainer, TrainerCallback,
                          TrainingArguments, get_scheduler)

import oracle

SCHEDULES = ["linear", "cosine", "cosine_with_restarts", "polynomial",
             "constant", "constant_with_warmup", "inverse_sqrt"]
PEAK = 1e-3


def learning_rates(kind, warmup_steps, warmup_ratio, steps):
    """The rate that each optimizer step uses.

    TrainingArguments of Transformers 5 has no warmup_ratio: a warmup_steps
    below one is the ratio. Version 4's rule, warmup_steps where positive and
    else ceil(steps * warmup_ratio), gives the same for both kinds.
    """
    arguments = TrainingArguments(
        output_dir="unused", learning_rate=PEAK, lr_scheduler_type=kind,
        warmup_steps=warmup_steps or warmup_ratio, use_cpu=True)
    warmup = arguments.get_warmup_steps(steps)
    assert warmup == (warmup_steps or math.ceil(steps * warmup_ratio))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=PEAK)
    scheduler = get_scheduler(kind, optimizer, warmup, steps)
    rates = []
    for _ in range(steps):
        rates.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return dict(lr_scheduler_type=kind, learning_rate=PEAK, steps=steps,
                warmup_steps=warmup_steps, warmup_ratio=warmup_ratio,
                learning_rates=rates)


def schedules():
    shapes = [(0, 0, 50), (10, 0, 50), (0, 0.15, 50), (0, 0.1, 33)]
    return [learning_rates(kind, *shape) for kind in SCHEDULES
            for shape in shapes]


class Rates(TrainerCallback):
    """Keeps the rate that each optimizer step uses."""

    def __init__(self):
        self.rates = []

    def on_pre_optimizer_step(self, args, state, control, optimizer, **_):
        self.rates.append(optimizer.param_groups[0]["lr"])


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        ids = torch.arange(8) + index
        return {"input_ids": ids, "labels": ids}


def trained_rates(model, folder, kind, steps, resume=None):
    rates = Rates()
    Trainer(
        model=LlamaForCausalLM.from_pretrained(model),
        args=TrainingArguments(
            output_dir=folder, max_steps=steps, save_steps=4,
            learning_rate=PEAK, lr_scheduler_type=kind, warmup_steps=0.25,
            per_device_train_batch_size=2, use_cpu=True, report_to=[],
            disable_tqdm=True, logging_strategy="no"),
        train_dataset=Rows(), callbacks=[rates],
    ).train(resume_from_checkpoint=resume)
    return rates.rates


def resumed_rates(root):
    """The rates of Trainer from step 5 on, resumed after step 4 of a run that
    was to have `before` steps, with `steps`."""
    result = []
    for kind in SCHEDULES:
        for before, steps in ((8, 12), (12, 8), (8, 8)):
            with tempfile.TemporaryDirectory() as folder:
                model = root / "smollm/model"
                trained_rates(model, folder, kind, before)
                rates = trained_rates(model, folder, kind, steps,
                                      f"{folder}/checkpoint-4")
            result.append(dict(
                lr_scheduler_type=kind, learning_rate=PEAK, warmup_ratio=0.25,
                before=before, steps=steps, learning_rates=rates))
    return result


DECAY = {
    "llama2": dict(target_modules=["q_proj", "down_proj"],
                   modules_to_save=["lm_head", "embed_tokens", "norm",
                                    "input_layernorm"]),
    "qwen2": dict(target_modules=["o_proj"], modules_to_save=["v_proj"]),
    "qwen3": dict(target_modules="all-linear",
                  modules_to_save=["q_norm", "k_norm"]),
}


def decay_groups(root):
    """Per case: the trainable parameters, and which of them decay."""
    result = {}
    for case, lora in DECAY.items():
        model = get_peft_model(oracle.load_model(root / case / "model"),
                               oracle.lora_config(dict(lora, r=2)))
        decaying = set(Trainer.get_decay_parameter_names(None, model))
        names = [n for n, p in model.named_parameters() if p.requires_grad]
        result[case] = dict(
            lora=dict(lora, r=2),
            decay=[oracle.file_name(n) for n in names if n in decaying],
            no_decay=[oracle.file_name(n) for n in names
                      if n not in decaying])
    return result


def initialisation(root):
    """What PEFT draws: A from U(-bound, bound) with bound = 1/sqrt(in), which
    is kaiming_uniform with a = sqrt(5), and B of zeros. use_rslora changes the
    scale, not the draw."""
    torch.manual_seed(7)
    result = {}
    for case in ("smollm", "llama3"):
        lora = dict(r=16, lora_alpha=16, target_modules="all-linear")
        model = get_peft_model(oracle.load_model(root / case / "model"),
                               oracle.lora_config(lora))
        result[case] = {}
        for name, parameter in oracle.trainable(model).items():
            value = parameter.detach()
            bound = 0.0
            if "lora_A" in name:
                bound = 1 / math.sqrt(value.shape[1])
            assert value.abs().max() <= bound * (1 + 1e-6)
            result[case][name] = dict(
                shape=list(value.shape), bound=bound,
                min=value.min().item(), max=value.max().item(),
                mean=value.mean().item(),
                std=value.std(unbiased=False).item())
    return result


def changes_base(init, root):
    """Whether PEFT, loading such an adapter, leaves the base model's weights
    other than they were; None where it wants more than a model for that."""
    model = oracle.load_model(root / "llama2" / "model")
    name = "model.layers.0.self_attn.q_proj.weight"
    before = model.get_parameter(name).detach().clone()
    try:
        tuned = get_peft_model(model, LoraConfig(
            r=2, target_modules=["q_proj"], init_lora_weights=init))
    except (ValueError, ImportError, AttributeError):
        return None
    after = tuned.base_model.model.get_submodule(
        name.removesuffix(".weight")).base_layer.weight
    return not torch.equal(before, after)


def lora_config(root):
    """The fields of PEFT's LoraConfig, and its initialisations."""
    annotation = typing.get_type_hints(LoraConfig)["init_lora_weights"]
    words = [word for part in typing.get_args(annotation)
             for word in typing.get_args(part)]
    inits = [True, False, *(word.replace("[number of iters]", "4")
                            for word in words)]
    return dict(fields=[f.name for f in dataclasses.fields(LoraConfig)],
                init_lora_weights=[
                    dict(value=init, changes_base=changes_base(init, root))
                    for init in inits])
