# SPDX-License-Identifier: Apache-2.0
"""Image classification on fresh random vision transformers: ours against
Transformers and PEFT, trained whole and with LoRA.

usage: random_models.py BIN_DIR [--seed N] [--rounds N]

The cases are those of tests/golden/vit.py in other sizes.
"""

import copy
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import parity
import classes
import oracle
import torch
import vit

TARGETS = ["all-linear", ["q_proj", "v_proj"], ["fc1", "fc2", "o_proj"],
           r".*layers\.0\..*_proj"]


def vary(case, chance):
    case = copy.deepcopy(case)
    heads, patch = chance.choice([1, 2, 4]), chance.choice([2, 4, 7])
    case["config"].update(
        hidden_size=heads * chance.choice([8, 12, 16]),
        intermediate_size=chance.randrange(24, 90),
        num_attention_heads=heads, num_hidden_layers=chance.choice([1, 2, 3]),
        patch_size=patch, image_size=chance.randrange(2 * patch, 4 * patch + 2),
        num_channels=chance.choice([1, 3]),
        qkv_bias=chance.choice([True, False]),
        hidden_act=chance.choice(["gelu", "gelu_new", "relu", "silu"]),
        hidden_dropout_prob=chance.choice([0.0, 0.2]),
        attention_probs_dropout_prob=chance.choice([0.0, 0.1]))
    case["head"]["num_labels"] = chance.randint(2, 6)
    rank = chance.randint(1, 8)
    case["lora"].update(r=rank, lora_alpha=chance.randint(1, 2 * rank),
                        target_modules=chance.choice(TARGETS))
    for training in case["training"].values():
        training.update(weight_decay=chance.choice([0.0, 0.01, 0.1]),
                        warmup_steps=chance.choice([0, 3, 7]))
    return case


def inputs(batch, prefix=""):
    return {f"{prefix}pixels": batch["pixel_values"],
            f"{prefix}labels": batch["labels"]}


def open_model(model, adapter):
    return (vit.load_adapter(model, adapter).eval() if adapter
            else vit.load_model(model))


def named(values, adapter):
    return values if adapter else vit.as_in_files(values)


def compare(report, where, ours, theirs, exact=None):
    """The gradients of keys' biases are the rounding of zero."""
    for values in (ours, theirs):
        for name in [n for n in values if n.endswith(".key.bias")]:
            report.less(f"{where} {name}", "zero",
                        values.pop(name).norm().item(), 1e-6)
    report.tensors(where, ours, theirs, exact=exact)


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model, adapter = folder / "model", folder / "adapter"
    oracle.save_model(vit.make_model(case, generator), model, case)
    vit.make_adapter(model, case["lora"], adapter, generator)
    dropped = classes.add_lora_dropout(adapter, folder / "adapter_dropout")
    head = case["head"]
    batch = vit.random_batch(case, 5, generator)
    rows = vit.random_batch(case, 14, generator)
    for run, without, with_dropout in (("full", None, None),
                                       ("lora", adapter, dropped)):
        where = f"{name} {run}"
        theirs = classes.forward_backward(open_model(model, without), head,
                                          batch)
        ours = parity.probe(program, model, without, inputs(batch), head=head)
        compare(report, where, ours, named(theirs, without),
                lambda: named(classes.forward_backward(
                    open_model(model, without).double(), head,
                    parity.in_double(batch)), without))
        theirs = classes.with_dropout(open_model(model, with_dropout), head,
                                      batch)
        ours = parity.probe(program, model, with_dropout, inputs(batch),
                            head=head, seed=classes.SEED)
        compare(report, f"{where} dropout", ours, named(theirs, without))
        golden = vit.train(open_model(model, without), rows,
                           case["training"][run])
        ours = parity.probe(program, model, without, inputs(rows, "train."),
                            head=head, training=case["training"][run])
        report.losses(where, ours["train.losses"].tolist(),
                      golden["train.losses"].tolist())


if __name__ == "__main__":
    parity.random_models(vit.CASES, check, vary, rounds=4)
