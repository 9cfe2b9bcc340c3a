# SPDX-License-Identifier: Apache-2.0
"""Every family with fresh random shapes and weights: ours against PEFT, and
trained whole against Transformers.

usage: families.py BIN_DIR [--seed N] [--rounds N]

The golden data of tests/golden holds one draw of each family; this draws more
shapes, LoRA options, dropout masks and packed rows. The seed is printed.
"""

import copy

import parity
import cases
import oracle
import torch

HEADS = [(4, 4), (4, 2), (4, 1), (6, 2), (2, 2)]
DTYPES = [None, None, "bfloat16"]


def vary(case, chance):
    """A case of the same family and options, in other sizes."""
    case = copy.deepcopy(case)
    _, shape = case["config"]
    heads, key_heads = chance.choice(HEADS)
    shape.update(num_attention_heads=heads, num_key_value_heads=key_heads,
                 hidden_size=heads * chance.choice([8, 16]),
                 intermediate_size=chance.randrange(40, 120, 8),
                 num_hidden_layers=chance.choice([2, 3]),
                 vocab_size=chance.randrange(90, 200))
    for field in ("layer_types", "no_rope_layers"):
        if field in shape:  # an entry a layer
            shape[field] = (2 * shape[field])[:shape["num_hidden_layers"]]
    rope = shape.get("rope_parameters", {})
    for field in ("short_factor", "long_factor"):
        if field in rope:  # an entry a pair of rotated dimensions
            dim = shape["hidden_size"] // heads * rope["partial_rotary_factor"]
            rope[field] = (2 * rope[field])[:int(dim) // 2]
    rank, root = chance.randint(1, 9), chance.random() < 0.5
    # A scale above two makes these tiny models chaotic within twenty steps.
    case["lora"].update(r=rank, use_rslora=root, lora_alpha=chance.randint(
        1, max(1, int(2 * (rank**0.5 if root else rank)))))
    case["training"].update(weight_decay=chance.choice([0.0, 0.01, 0.1]),
                            warmup_steps=chance.choice([0, 3, 7]))
    case["dtype"] = chance.choice(DTYPES)
    case["max_shard_size"] = chance.choice(["5GB", "30KB"])
    return case


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model_type, shape = case["config"]
    model, adapter = folder / "model", folder / "adapter"
    oracle.save_model(oracle.make_model(model_type, shape, generator), model,
                      case)
    oracle.make_adapter(model, case["lora"], adapter, generator)
    tuned = oracle.load_adapter(model, adapter).eval()
    check_batch(report, program, name, tuned, model, adapter, chance, generator)
    check_packed(report, program, name, tuned, model, adapter, chance,
                 generator)
    check_steps(report, program, name, case, tuned, model, adapter, chance,
                generator)
    whole = oracle.load_model(model)
    check_batch(report, program, f"{name} full", whole, model, None, chance,
                generator)
    gentle = dict(case, training=dict(case["training"], learning_rate=1e-3))
    check_steps(report, program, f"{name} full", gentle, whole, model, None,
                chance, generator)


def ways(adapter):
    return parity.WAYS if adapter else ("auto",)


def lengths_of(chance, count, longest):
    return [chance.randint(4, longest) for _ in range(count)]


def check_batch(report, program, name, tuned, model, adapter, chance,
                generator):
    batch = oracle.random_batch(tuned.config.vocab_size,
                                lengths_of(chance, 4, 40), generator)
    theirs = oracle.forward_backward(tuned, batch)
    mask = batch["attention_mask"].bool()
    theirs["logits"] = theirs["logits"][mask]
    for way in ways(adapter):
        ours = parity.probe(program, model, adapter, batch, gradients=way)
        # the logits of padding are not read
        ours["logits"] = ours["logits"][mask]
        report.tensors(f"{name} {way}", ours, theirs)


def check_packed(report, program, name, tuned, model, adapter, chance,
                 generator):
    lengths = lengths_of(chance, 4, 16)
    batch = oracle.random_batch(tuned.config.vocab_size, lengths, generator)
    golden = oracle.packed(tuned, batch, lengths)
    for way in ways(adapter):
        ours = parity.probe(program, model, adapter, parity.inputs(golden),
                            gradients=way)
        report.tensors(f"{name} packed {way}", ours, parity.answers(golden))


def check_steps(report, program, name, case, tuned, model, adapter, chance,
                generator):
    lengths = lengths_of(chance, 13, case["training"]["max_length"])
    rows = oracle.random_batch(tuned.config.vocab_size, lengths, generator)
    golden = oracle.train(tuned, rows, lengths, case["training"])
    inputs = parity.inputs(golden)
    for way in ways(adapter):
        ours = parity.probe(program, model, adapter, inputs,
                            training=case["training"], gradients=way)
        parity.check_training(report, f"{name} {way}", ours, golden)


if __name__ == "__main__":
    parity.random_models(cases.CASES, check, vary)
