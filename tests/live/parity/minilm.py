# SPDX-License-Identifier: Apache-2.0
"""MiniLM itself with a classification head: ours against Transformers and PEFT,
fp32 on the CPU, trained whole and with LoRA, single texts and pairs.

usage: minilm.py BIN_DIR MODEL_DIR

MODEL_DIR is what tests/live/text/fetch.py --minilm writes: a BERT without a
head, which both sides get from the folder that Transformers saves. That the
headless file itself is read alike is shown by the seed: the head that both draw
after it must be one and the same.
"""

import pathlib
import sys
import tempfile

import parity
import classes
import texts
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

PAIRS = [
    ("The sea was calm that morning.", "The fishermen were already out."),
    ("Water boils at 100 degrees Celsius at sea level; on a mountain it boils "
     "earlier, because the air above it weighs less.", "Why is that so?"),
    ("Once upon a time there was a king who could not sleep.",
     "Every night he walked through the empty streets of his city and counted "
     "the lamps, one after the other, until the sun rose."),
    ("Nobody expected the answer to be that short.", "No."),
    ("Train A leaves at noon and travels at 60 km/h.", "It arrives at two."),
    ("I did not like this film at all,", "but the music was wonderful!"),
]
HEADS = {
    "single": dict(num_labels=3, problem_type="single_label_classification"),
    "pairs": dict(num_labels=1, problem_type="regression"),
    "labels": dict(num_labels=4, problem_type="multi_label_classification",
                   class_weights=[1.0, 2.0, 0.5, 1.0]),
}
LORA = dict(r=8, lora_alpha=16, target_modules=["query", "value"])
SEED = 77


def batch_of(tokenizer, name, head, generator):
    pairs = PAIRS if name == "pairs" else [pair[:1] for pair in PAIRS]
    encoded = tokenizer(*map(list, zip(*pairs)), padding=True,
                        return_tensors="pt")
    batch = {key: encoded[key] for key in
             ("input_ids", "attention_mask", "token_type_ids")}
    batch["labels"] = classes.random_labels(head, len(PAIRS), generator)
    return batch


def check(report, program, base, tokenizer, name, head, folder):
    generator = torch.Generator().manual_seed(5)
    model, adapter = folder / "model", folder / "adapter"
    torch.manual_seed(SEED)
    fresh = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=head["num_labels"],
        problem_type=head["problem_type"], dtype=torch.float32).eval()
    batch = batch_of(tokenizer, name, head, generator)
    # From the headless file, the head drawn.
    ours = parity.probe(program, base, None, batch, head=head, draw_seed=SEED)
    texts.compare(report, f"{name} fresh", ours,
                  classes.forward_backward(fresh, head, batch))

    with torch.no_grad():  # a trained head's size
        fresh.classifier.weight.copy_(0.1 * torch.randn(
            fresh.classifier.weight.shape, generator=generator))
    fresh.save_pretrained(model)
    classes.make_adapter(model, LORA, adapter, generator, spread=0.01)
    case = dict(config=("bert", dict(pad_token_id=0)), head=head)
    lengths = batch["attention_mask"].sum(1).tolist()
    for run, where, rate in ((None, "full", 2e-5), (adapter, "lora", 1e-3)):
        where = f"{name} {where}"
        texts.check_batch(report, program, where, case, model, run, batch)
        texts.check_dropout(report, program, where, case, model, run, batch)
        training = classes.training(max_grad_norm=2.0, learning_rate=rate)
        training.update(per_device_train_batch_size=3, max_length=128)
        golden = classes.train(texts.open_model(model, run), case, batch,
                               lengths, training)
        ours = parity.probe(program, model, run, parity.inputs(golden),
                            head=head, training=training)
        parity.check_training(report, where, ours, golden)


def main():
    program = parity.binary(sys.argv[1], "parity_probe")
    base = pathlib.Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(base)
    reports = []
    for name, head in HEADS.items():
        report = parity.Report(f"MiniLM {name}")
        with tempfile.TemporaryDirectory() as folder:
            check(report, program, base, tokenizer, name, head,
                  pathlib.Path(folder))
        reports.append(report)
    parity.finish(reports)


if __name__ == "__main__":
    main()
