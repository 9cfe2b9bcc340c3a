# SPDX-License-Identifier: Apache-2.0
"""Makes the golden data of tests/golden with Transformers and PEFT.

usage: build/oracle/bin/python tests/golden/make_golden.py [CASE...]

Without names, everything, from fixed seeds. README.md describes the files.
"""

import json
import pathlib
import shutil
import sys

import torch

sys.dont_write_bytecode = True
import cases
import classes
import generation
import headers
import heads
import images
import oracle
import preferences
import quant
import tables
import tokenizer
import vit

HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = [24, 15, 9]


def seeded(name):
    """A generator of the case's own, so that cases do not shift each other."""
    return torch.Generator().manual_seed(sum(map(ord, name)) * 7919)


def check_usable(name, golden, max_grad_norm):
    """Golden values that are all but zero, or never clip, prove nothing."""
    spread = golden["logits"].std().item()
    assert 0.3 < spread < 6, (name, "logits", spread)
    for key, value in golden.items():
        if key.startswith("grad."):
            assert value.norm() > 1e-4, (name, key, value.norm())
    norms = golden["train.grad_norms"]
    assert norms.max() > max_grad_norm > norms.min(), (name, norms)
    losses = golden["train.losses"]
    assert losses[-4:].mean() < losses[:4].mean(), (name, losses)


def train_batch(case, generator, vocab_size):
    count = case.get("samples", 16)
    longest = case["training"]["max_length"]
    lengths = torch.randint(6, longest + 1, (count,),
                            generator=generator).tolist()
    lengths[1] = longest
    return oracle.random_batch(vocab_size, lengths, generator), lengths


def write_json(path, values):
    path.write_text(json.dumps(values, indent=1) + "\n")


def make_case(name, case, folder):
    generator = seeded(name)
    model_type, arguments = case["config"]
    model_folder, adapter = folder / "model", folder / "adapter"
    model = oracle.make_model(model_type, arguments, generator)
    oracle.save_model(model, model_folder, case)
    oracle.make_adapter(model_folder, case["lora"], adapter, generator)
    if case.get("tokenizer"):
        tokenizer.save(model_folder, arguments["vocab_size"])

    vocab_size = arguments["vocab_size"]
    batch = oracle.random_batch(vocab_size, LENGTHS, generator)
    tuned = oracle.load_adapter(model_folder, adapter).eval()
    golden = dict(batch, **oracle.forward_backward(tuned, batch))
    rows, lengths = train_batch(case, generator, vocab_size)
    golden.update(oracle.train(tuned, rows, lengths, case["training"]))
    check_usable(name, golden, case["training"]["max_grad_norm"])
    oracle.save_tensors(golden, folder / "golden.safetensors")
    write_json(folder / "golden.json", dict(
        model="model", adapter="adapter", golden="golden.safetensors",
        lora=case["lora"], training=case["training"]))
    if case.get("dropout"):
        make_dropout(case, batch, folder)
    if case.get("full"):
        make_full(name, case, batch, rows, lengths, folder)


def make_full(name, case, batch, rows, lengths, folder):
    """The model trained whole, on the same texts."""
    model = oracle.load_model(folder / "model")
    golden = dict(batch, **oracle.forward_backward(model, batch))
    golden.update(oracle.train(model, rows, lengths, case["full"]))
    check_usable(f"{name} full", golden, case["full"]["max_grad_norm"])
    oracle.save_tensors({key: value for key, value in golden.items()
                         if not key.startswith("final.")},
                        folder / "full.safetensors")
    write_json(folder / "full.json", dict(
        model="model", golden="full.safetensors", training=case["full"]))


def make_dropout(case, batch, folder):
    """One forward and backward in train mode, dropout drawn after a seed."""
    lora = dict(case["lora"], lora_dropout=case["dropout"])
    adapter = classes.add_lora_dropout(
        folder / "adapter", folder / "adapter_dropout", case["dropout"])
    tuned = oracle.load_adapter(folder / "model", adapter).train()
    seed = 1234
    torch.manual_seed(seed)
    golden = dict(batch, **oracle.forward_backward(tuned, batch))
    oracle.save_tensors(golden, folder / "dropout.safetensors")
    write_json(folder / "dropout.json", dict(
        model="model", adapter="adapter_dropout", golden="dropout.safetensors",
        lora=lora, seed=seed))


def make_sharded(spec, folder):
    source = HERE / spec["of"]
    model = oracle.load_model(source / "model")
    case = dict(cases.CASES[spec["of"]], max_shard_size=spec["max_shard_size"])
    oracle.save_model(model, folder / "model", case)
    values = json.loads((source / "golden.json").read_text())
    values.update(adapter=f"../{spec['of']}/adapter",
                  golden=f"../{spec['of']}/golden.safetensors")
    write_json(folder / "golden.json", values)


def make_packing():
    tensors = {}
    for name, lengths in cases.PACKED.items():
        folder = HERE / name
        model = oracle.load_adapter(folder / "model",
                                    folder / "adapter").eval()
        batch = oracle.random_batch(model.config.vocab_size, lengths,
                                    seeded("packing" + name))
        golden = oracle.packed(model, batch, lengths)
        tensors.update({f"{name}.{k}": v for k, v in golden.items()})
    oracle.save_tensors(tensors, HERE / "packing.safetensors")
    write_json(HERE / "packing.json", dict(
        golden="packing.safetensors",
        cases={name: dict(model=f"{name}/model", adapter=f"{name}/adapter",
                          lengths=lengths)
               for name, lengths in cases.PACKED.items()}))


def replace_folder(folder, make):
    """Makes the folder anew: leftovers of an earlier run would stay."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    make(folder)


def main():
    torch.set_num_threads(1)  # sums in one order, on any machine
    chosen = sys.argv[1:] or [*cases.CASES, cases.SHARDED["name"],
                              *classes.CASES, *vit.CASES]
    for name in chosen:
        print("case", name, flush=True)
        if name in vit.CASES:
            replace_folder(HERE / name, lambda f: vit.make_case(
                name, vit.CASES[name], f, seeded(name)))
        elif name in classes.CASES:
            replace_folder(HERE / name, lambda f: classes.make_case(
                name, classes.CASES[name], f, seeded(name)))
        elif name == cases.SHARDED["name"]:
            replace_folder(HERE / name,
                           lambda f: make_sharded(cases.SHARDED, f))
        else:
            replace_folder(HERE / name,
                           lambda f: make_case(name, cases.CASES[name], f))
    make_packing()
    oracle.save_tensors(images.make(), HERE / "images.safetensors")
    oracle.save_tensors(quant.make(), HERE / "quant.safetensors")
    preferences.write(HERE)
    write_json(HERE / "generation.json",
               generation.make(HERE, list(cases.CASES), seeded))
    write_json(HERE / "headers.json", headers.make())
    write_json(HERE / "heads.json", heads.make(HERE))
    write_json(HERE / "schedules.json", tables.schedules())
    write_json(HERE / "resumed_rates.json", tables.resumed_rates(HERE))
    write_json(HERE / "decay_groups.json", tables.decay_groups(HERE))
    write_json(HERE / "init.json", tables.initialisation(HERE))
    write_json(HERE / "lora_config.json", tables.lora_config(HERE))


if __name__ == "__main__":
    main()
