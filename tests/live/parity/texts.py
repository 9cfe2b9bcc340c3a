# SPDX-License-Identifier: Apache-2.0
"""Sequence classification on fresh random models: ours against Transformers
and PEFT, trained whole and with LoRA.

usage: texts.py BIN_DIR [--seed N] [--rounds N]

As families.py; the cases are those of tests/golden/classes.py in other sizes.
"""

import copy

import parity
import classes
import oracle
import torch

LABELS = {"single_label_classification": (2, 6),
          "multi_label_classification": (2, 6), "regression": (1, 1)}


def vary(case, chance):
    case = copy.deepcopy(case)
    model_type, shape = case["config"]
    heads = chance.choice([1, 2, 4])
    width, inner = heads * chance.choice([8, 12, 16]), chance.randrange(24, 90)
    layers = chance.choice([1, 2, 3])
    if model_type == "distilbert":
        shape.update(dim=width, hidden_dim=inner, n_heads=heads,
                     n_layers=layers)
    else:
        shape.update(hidden_size=width, intermediate_size=inner,
                     num_attention_heads=heads, num_hidden_layers=layers)
    if model_type == "llama":
        shape.update(num_key_value_heads=chance.choice([1, heads]))
    else:
        key = "activation" if model_type == "distilbert" else "hidden_act"
        shape[key] = chance.choice(["gelu", "gelu_new", "relu", "silu"])
    shape["vocab_size"] = chance.randrange(60, 200)
    vary_head(case["head"], chance)
    rank = chance.randint(1, 8)
    case["lora"].update(r=rank, lora_alpha=chance.randint(1, 2 * rank),
                        use_rslora=False)
    if "layers_to_transform" in case["lora"]:
        case["lora"]["layers_to_transform"] = [layers - 1]
    for training in case["training"].values():
        training.update(weight_decay=chance.choice([0.0, 0.01, 0.1]),
                        warmup_steps=chance.choice([0, 3, 7]))
    return case


def vary_head(head, chance):
    least, most = LABELS[head["problem_type"]]
    head["num_labels"] = chance.randint(least, most)
    head.pop("class_weights", None)
    if head["num_labels"] > 1 and chance.random() < 0.5:
        head["class_weights"] = [chance.choice([0.5, 1.0, 2.0, 4.0])
                                 for _ in range(head["num_labels"])]


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model, adapter = folder / "model", folder / "adapter"
    oracle.save_model(classes.make_model(case, generator), model, case)
    classes.make_adapter(model, case["lora"], adapter, generator)
    dropped = classes.add_lora_dropout(adapter, folder / "adapter_dropout")
    batch = classes.random_batch(
        case, [chance.randint(4, 20) for _ in range(5)], generator)
    rows, lengths = classes.train_batch(case, generator)
    for run, without, with_dropout in (("full", None, None),
                                       ("lora", adapter, dropped)):
        where = f"{name} {run}"
        check_batch(report, program, where, case, model, without, batch)
        check_dropout(report, program, where, case, model, with_dropout, batch)
        golden = classes.train(open_model(model, without), case, rows, lengths,
                               case["training"][run])
        ours = parity.probe(program, model, without, parity.inputs(golden),
                            head=case["head"], training=case["training"][run])
        parity.check_training(report, where, ours, golden)


def open_model(model, adapter):
    return (classes.load_adapter(model, adapter).eval() if adapter
            else classes.load_model(model))


def check_batch(report, program, where, case, model, adapter, batch):
    theirs = classes.forward_backward(open_model(model, adapter), case["head"],
                                      batch)
    ours = parity.probe(program, model, adapter, batch, head=case["head"])
    compare(report, where, ours, theirs,
            exact=lambda: classes.forward_backward(
                open_model(model, adapter).double(), case["head"],
                parity.in_double(batch)))


def check_dropout(report, program, where, case, model, adapter, batch):
    theirs = classes.with_dropout(open_model(model, adapter), case["head"],
                                  batch)
    ours = parity.probe(program, model, adapter, batch, head=case["head"],
                        seed=classes.SEED)
    compare(report, f"{where} dropout", ours, theirs)


def compare(report, where, ours, theirs, exact=None):
    """A key's bias has the rounding of zero for a gradient: theirs is held to
    the key's weight's, among which it is rounded, where that is above 1."""
    for name in [n for n in theirs if parity.is_key_bias(n)]:
        weight = theirs[name.removesuffix("bias") + "weight"].norm().item()
        report.less(f"{where} {name}", "zero", ours.pop(name).norm().item(),
                    1e-6)
        report.less(f"{where} their {name}", "zero",
                    theirs.pop(name).norm().item() / max(1, weight), 1e-6)
    report.tensors(where, ours, theirs, exact=exact)


if __name__ == "__main__":
    parity.random_models(classes.CASES, check, vary)
