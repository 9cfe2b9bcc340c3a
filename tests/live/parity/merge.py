# SPDX-License-Identifier: Apache-2.0
"""mpsd-worker --merge against PEFT's merge_and_unload, tensor for tensor.

usage: merge.py BIN_DIR [--seed N]

Both add to the same random models, in float32, bfloat16 and float16, in one
file and in shards; what we write must hold the bytes that save_pretrained
writes, and load in Transformers without a missing or unexpected weight.
"""

import json
import os
import subprocess

import parity
import cases
import families
import oracle
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM


def tensors_of(folder):
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        found |= parity.load_file(path)
    return found


def by_peft(model, adapter, out, shard):
    base = AutoModelForCausalLM.from_pretrained(model, dtype="auto")
    merged = PeftModel.from_pretrained(base, adapter).merge_and_unload()
    merged.save_pretrained(out, max_shard_size=shard)


def by_us(program, model, adapter, out, shard):
    return subprocess.run(
        [str(program), "--merge", "--model", str(model), "--adapter",
         str(adapter), "--out", str(out), "--max-shard-size", shard],
        capture_output=True, text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1"))


def check_index(report, where, ours, theirs):
    name = "model.safetensors.index.json"
    report.same(f"{where} has an index", (ours / name).exists(),
                (theirs / name).exists())
    if not (theirs / name).exists():
        return
    pair = [json.loads((f / name).read_text()) for f in (ours, theirs)]
    report.same(f"{where} size", pair[0]["metadata"]["total_size"],
                pair[1]["metadata"]["total_size"])
    report.same(f"{where} names", sorted(pair[0]["weight_map"]),
                sorted(pair[1]["weight_map"]))


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model, adapter = folder / "model", folder / "adapter"
    model_type, shape = case["config"]
    oracle.save_model(oracle.make_model(model_type, shape, generator), model,
                      case)
    oracle.make_adapter(model, case["lora"], adapter, generator)
    shard = chance.choice(["5GB", "30KB"])
    where = f"{name} {shard}"
    theirs, ours = folder / "theirs", folder / "ours"
    by_peft(model, adapter, theirs, shard)
    run = by_us(program, model, adapter, ours, shard)
    report.same(f"{where} exit code", (run.returncode, run.stderr), (0, ""))
    if run.returncode != 0:
        return
    expected, found = tensors_of(theirs), tensors_of(ours)
    report.same(f"{where} names", sorted(found), sorted(expected))
    for key in expected.keys() & found.keys():
        report.same(f"{where} {key} dtype", found[key].dtype,
                    expected[key].dtype)
        report.less(f"{where} {key}", "tensor", float(
            not torch.equal(found[key], expected[key])), 0)
    check_index(report, where, ours, theirs)
    loaded, info = AutoModelForCausalLM.from_pretrained(
        ours, dtype="auto", output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        report.same(f"{where} {kind}", sorted(info[kind]), [])
    report.same(f"{where} dtype", loaded.dtype,
                AutoModelForCausalLM.from_pretrained(
                    theirs, dtype="auto").dtype)


CASES = {f"merge {name} {dtype}": dict(case, dtype=dtype)
         for name, case in cases.CASES.items()
         for dtype in (None, "bfloat16", "float16")}


def vary(case, chance):
    return dict(families.vary(case, chance), dtype=case["dtype"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    parity.random_models(CASES, check, vary, rounds=1, program="mpsd-worker")
