# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M itself: ours against Transformers and PEFT, fp32 on the CPU.

usage: smollm2.py BIN_DIR MODEL_DIR

MODEL_DIR is what deploy/demo/make_model.py writes.

Both run on one thread unless OMP_NUM_THREADS says otherwise. Each library
shares a sum among threads in its own way, which moves some gradients of a real
model by 1e-5 (on a Xeon with AVX-512 two of 868 comparisons differ by 1.3e-5
on two threads and none by more than 7.5e-6 on one), while the distance to fp64
is the same for both libraries.
"""

import copy
import os
import pathlib
import statistics
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")

import parity
import cases
import oracle
import torch
from transformers import AutoTokenizer

TEXTS = [
    "The sea was calm that morning, and the fishermen were already out.",
    "Water boils at 100 degrees Celsius at sea level; on a mountain it boils "
    "earlier, because the air above it weighs less.",
    "def add(a, b):\n    return a + b\n",
    "Once upon a time there was a king who could not sleep, so every night he "
    "walked through the empty streets of his city and counted the lamps.",
    "Nobody expected the answer to be that short.",
    "Train A leaves at noon and travels at 60 km/h.",
]
LORA = dict(r=8, lora_alpha=16, target_modules="all-linear")
TRAINING = cases.training(per_device_train_batch_size=1, learning_rate=1e-3,
                          lr_scheduler_type="cosine", max_grad_norm=2.0,
                          max_length=64)


def batch_of(tokenizer):
    rows = [tokenizer(text)["input_ids"] for text in TEXTS]
    lengths = [len(row) for row in rows]
    shape = (len(rows), max(lengths))
    batch = dict(input_ids=torch.zeros(shape, dtype=torch.long),
                 labels=torch.full(shape, oracle.IGNORE),
                 attention_mask=torch.zeros(shape, dtype=torch.long))
    for i, row in enumerate(rows):
        batch["input_ids"][i, :len(row)] = torch.tensor(row)
        batch["labels"][i, :len(row)] = torch.tensor(row)
        batch["attention_mask"][i, :len(row)] = 1
    return batch, lengths


def check_against_fp64(report, tuned, batch, ours, theirs):
    """fp32 leaves some gradients of a real model 1e-5 and more from their fp64
    values, with either library: ours may be no farther than Transformers'."""
    exact = oracle.forward_backward(copy.deepcopy(tuned).double(), batch)
    names = [name for name in exact if name.startswith("grad.")]

    def distances(values):
        far = [parity.relative(values[n].double(), exact[n]) for n in names]
        return max(far), statistics.median(far)

    for kind, mine, other in zip(("worst", "median"), distances(ours),
                                 distances(theirs)):
        print(f"{kind} gradient's distance to fp64: ours {mine:.1e}, "
              f"Transformers' {other:.1e}")
        report.less(f"{kind} distance to fp64 over theirs", "fp64",
                    mine / other, 1.25)


def main():
    program = parity.binary(sys.argv[1], "parity_probe")
    model = pathlib.Path(sys.argv[2])
    if not (model / "config.json").is_file():
        sys.exit(f"smollm2: no model in {model}: make it with "
                 "deploy/demo/make_model.py")
    report = parity.Report("SmolLM2-135M")
    generator = torch.Generator().manual_seed(11)
    with tempfile.TemporaryDirectory() as folder:
        adapter = pathlib.Path(folder, "adapter")
        # As large as a trained one: at ten times that, fp32 itself leaves
        # Transformers 2e-5 away from its own fp64 gradients.
        oracle.make_adapter(model, LORA, adapter, generator, spread=0.01)
        tuned = oracle.load_adapter(model, adapter).eval()
        batch, lengths = batch_of(AutoTokenizer.from_pretrained(model))

        theirs = oracle.forward_backward(tuned, batch)
        ours = parity.probe(program, model, adapter, batch)
        real = batch["attention_mask"].bool()
        for values in (ours, theirs):
            values["logits"] = values["logits"][real]
        report.tensors("batch", ours, theirs)
        check_against_fp64(report, tuned, batch, ours, theirs)

        golden = oracle.train(tuned, batch, lengths, TRAINING)
        inputs = parity.inputs(golden)
        ours = parity.probe(program, model, adapter, inputs, training=TRAINING)
        parity.check_training(report, "training", ours, golden)
    parity.finish([report])


if __name__ == "__main__":
    main()
