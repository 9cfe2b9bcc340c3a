# SPDX-License-Identifier: Apache-2.0
"""What a classification job leaves, read by Transformers and PEFT; and
an adapter of PEFT's, read by mpsd-worker.

usage: results.py BIN_DIR

For every family: a random model is trained for some steps in full, by its head
and by LoRA; the result is loaded with from_pretrained (PeftModel's for an
adapter) and must give the scores that the worker predicted. Then an adapter
that PEFT wrote is given to the worker, whose loss before the first step must be
Transformers'.
"""

import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import parity
import tokenizer
import torch
import transformers as hf
from huggingface_hub import ModelCard
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

TEXTS = [("the sky is blue", "so is the sea"), ("two and two", "are four"),
         ("a red door", "opens slowly"), ("it rains", "bring a coat"),
         ("no", "a much longer answer than that"), ("go left", "then right"),
         ("what is it?", "a test"), ("last one", "done")]
LABELS = ["no", "yes"]
DROPOUT = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
SHAPE = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
             num_attention_heads=4)
FAMILIES = {
    "bert": (hf.BertConfig(vocab_size=128, max_position_embeddings=64, **SHAPE,
                           **DROPOUT), ["query", "value"]),
    "roberta": (hf.RobertaConfig(vocab_size=128, max_position_embeddings=66,
                                 pad_token_id=0, type_vocab_size=1, **SHAPE,
                                 **DROPOUT), "all-linear"),
    "xlm-roberta": (hf.XLMRobertaConfig(
        vocab_size=128, max_position_embeddings=66, pad_token_id=0,
        type_vocab_size=1, **SHAPE, **DROPOUT), "all-linear"),
    "electra": (hf.ElectraConfig(
        vocab_size=128, max_position_embeddings=64, embedding_size=16, **SHAPE,
        **DROPOUT), ["embeddings_project", "query", "value"]),
    "distilbert": (hf.DistilBertConfig(
        vocab_size=128, max_position_embeddings=64, dim=32, hidden_dim=64,
        n_layers=2, n_heads=4, dropout=0.0, attention_dropout=0.0,
        seq_classif_dropout=0.0), "all-linear"),
    "llama": (hf.LlamaConfig(vocab_size=128, max_position_embeddings=64,
                             num_key_value_heads=2, pad_token_id=0, **SHAPE),
              "all-linear"),
    "qwen3": (hf.Qwen3Config(vocab_size=128, max_position_embeddings=64,
                             num_key_value_heads=2, head_dim=8, pad_token_id=0,
                             **SHAPE), ["q_proj", "v_proj"]),
    "vit": (hf.ViTConfig(image_size=32, patch_size=8, num_channels=3, **SHAPE),
            ["q_proj", "v_proj"]),
}
TOLERANCE = 1e-5


class Family:
    def __init__(self, name, folder):
        config, self.targets = FAMILIES[name]
        self.name, self.folder = name, folder
        self.image = name == "vit"
        self.auto = (hf.AutoModelForImageClassification if self.image
                     else hf.AutoModelForSequenceClassification)
        self.model = folder / "model"
        config.id2label = dict(enumerate(LABELS))
        config.label2id = {label: i for i, label in enumerate(LABELS)}
        torch.manual_seed(7)
        model = self.auto.from_config(config)
        for parameter in model.parameters():  # biases and norms too
            parameter.data.add_(torch.randn_like(parameter) * 0.05)
        model.save_pretrained(self.model)
        if self.image:
            self.write_images()
        else:
            tokenizer.save(self.model, 128)
            self.write_texts()

    def write_texts(self):
        self.data = self.folder / "data.tsv"
        with open(self.data, "w", newline="") as file:
            writer = csv.writer(file, delimiter="\t")
            writer.writerow(["sentence1", "sentence2", "label"])
            for i, (first, second) in enumerate(TEXTS):
                writer.writerow([first, second, LABELS[i % 2]])

    def write_images(self):
        (self.model / "preprocessor_config.json").write_text(json.dumps(dict(
            image_processor_type="ViTImageProcessor", do_resize=False,
            size=dict(height=32, width=32))))
        self.data = self.folder / "data.safetensors"
        self.pixels = torch.randint(0, 256, (len(TEXTS), 3, 32, 32),
                                    dtype=torch.uint8)
        save_file(dict(images=self.pixels,
                       labels=torch.arange(len(TEXTS)) % 2), self.data)

    def inputs(self):
        if self.image:
            return dict(pixel_values=(self.pixels.float() / 255 - 0.5) / 0.5)
        encoder = hf.AutoTokenizer.from_pretrained(self.model)
        encoded = encoder([a for a, _ in TEXTS], [b for _, b in TEXTS],
                          padding=True, truncation=True, max_length=64,
                          return_token_type_ids=self.name == "bert",
                          return_tensors="pt")
        return dict(encoded)

    def scores(self, model):
        with torch.no_grad():
            return model.eval()(**self.inputs()).logits.softmax(-1)

    def loss(self, model):
        labels = torch.arange(len(TEXTS)) % 2
        with torch.no_grad():
            logits = model.eval()(**self.inputs()).logits
        return torch.nn.functional.cross_entropy(logits, labels).item()

    def lora(self):
        return dict(r=4, lora_alpha=8, target_modules=self.targets)

    def peft_config(self):
        """As a user of PEFT writes it; images have no task type there. (PEFT's
        own "all-linear" cannot save heads of several linears.)"""
        targets = {"roberta": ["query", "key"],
                   "xlm-roberta": ["query", "key"],
                   "distilbert": ["q_lin", "lin1"]}
        lora = dict(self.lora(),
                    target_modules=targets.get(self.name, self.targets))
        if self.image:
            return LoraConfig(modules_to_save=["classifier"], **lora)
        return LoraConfig(task_type="SEQ_CLS", **lora)

    def run(self, program, out, tuning, **more):
        data = str(self.data)
        job = dict(model=str(self.model), device="cpu", fine_tune_type=tuning,
                   task="IMAGE_CLS" if self.image else "SEQ_CLS",
                   dataset=dict(train=data, eval=data, predict=data),
                   classification=dict(label_names=LABELS),
                   training=dict(max_steps=6, learning_rate=1e-2,
                                 per_device_train_batch_size=4,
                                 max_length=64), **more)
        if self.image:
            job["classification"] = {}
            job["augmentation"] = dict(random_resized_crop=False)
        (self.folder / "job.json").write_text(json.dumps(job))
        done = subprocess.run([program, "--job", self.folder / "job.json",
                               "--out", out], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{self.name} {tuning}: {done.stdout}{done.stderr}")

    def predicted(self, out):
        rows = [json.loads(line) for line in
                (out / "predictions.jsonl").read_text().splitlines()]
        return torch.tensor([list(row["scores"].values()) for row in rows])


def from_card(folder, library):
    """The model that the code in the result's card loads."""
    card = ModelCard.load(folder / "README.md")
    assert card.data.library_name == library, card.data
    assert card.data.pipeline_tag.endswith("-classification"), card.data
    code = re.search(r"```python\n(.*?)```", card.content, re.S)[1]
    names = {}
    exec(code.replace('"."', repr(str(folder))), names)
    return names["model"]


def check_results(report, family, program):
    for tuning in ("full", "head", "lora"):
        out = family.folder / tuning
        more = dict(lora=family.lora()) if tuning == "lora" else {}
        family.run(program, out, tuning, **more)
        if tuning == "lora":
            model = from_card(out / "adapter", "peft")
        else:
            model = from_card(out / "model", "transformers")
            _, info = family.auto.from_pretrained(
                out / "model", output_loading_info=True)
            missing = [k for k in ("missing_keys", "unexpected_keys",
                                   "mismatched_keys") if info[k]]
            report.less(f"{family.name} {tuning} keys {missing}", "keys",
                        len(missing), 0.5)
        report.less(f"{family.name} {tuning} scores", "scores",
                    parity.relative(family.predicted(out),
                                    family.scores(model)), TOLERANCE)
        before = json.loads((out / "eval.jsonl").read_text().splitlines()[0])
        untrained = family.loss(family.auto.from_pretrained(family.model))
        report.less(f"{family.name} {tuning} loss before", "loss",
                    abs(before["eval_loss"] - untrained) / untrained, TOLERANCE)


def check_theirs(report, family, program):
    torch.manual_seed(11)
    model = get_peft_model(family.auto.from_pretrained(family.model),
                           family.peft_config())
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
    theirs, out = family.folder / "theirs", family.folder / "from_theirs"
    model.save_pretrained(theirs)
    family.run(program, out, "lora", adapter=str(theirs))
    before = json.loads((out / "eval.jsonl").read_text().splitlines()[0])
    loss = family.loss(model)
    report.less(f"{family.name} PEFT's adapter in ours", "loss",
                abs(before["eval_loss"] - loss) / loss, TOLERANCE)


def check_causal(report, folder, program, tied):
    """A language model trained in full: Transformers loads it and has the
    worker's last evaluation loss."""
    config = hf.LlamaConfig(vocab_size=128, max_position_embeddings=64,
                            num_key_value_heads=2, pad_token_id=0,
                            tie_word_embeddings=tied, **SHAPE)
    model, data = folder / "model", folder / "data.jsonl"
    torch.manual_seed(5)
    hf.LlamaForCausalLM(config).save_pretrained(model)
    tokenizer.save(model, 128)
    data.write_text("".join(json.dumps(dict(text=a + b)) + "\n"
                            for a, b in TEXTS))
    job = dict(model=str(model), fine_tune_type="full", device="cpu",
               dataset=dict(train=str(data), eval=str(data)),
               training=dict(max_steps=6, learning_rate=1e-2, max_length=64))
    (folder / "job.json").write_text(json.dumps(job))
    subprocess.run([program, "--job", folder / "job.json", "--out",
                    folder / "out"], check=True, capture_output=True)
    trained = hf.AutoModelForCausalLM.from_pretrained(
        folder / "out" / "model").eval()
    encoder = hf.AutoTokenizer.from_pretrained(folder / "out" / "model")
    total = count = 0
    for a, b in TEXTS:
        ids = torch.tensor([encoder(a + b)["input_ids"] +
                            [encoder.eos_token_id]])
        with torch.no_grad():
            loss = trained(input_ids=ids, labels=ids).loss.item()
        total += loss * (ids.shape[1] - 1)
        count += ids.shape[1] - 1
    last = json.loads(
        (folder / "out" / "eval.jsonl").read_text().splitlines()[-1])
    report.less(f"causal tied={tied} loss", "loss",
                abs(last["eval_loss"] - total / count) / last["eval_loss"],
                TOLERANCE)


def main():
    hf.logging.set_verbosity_error()
    program = pathlib.Path(parity.binary(sys.argv[1], "mpsd-worker"))
    reports = []
    for name in FAMILIES:
        report = parity.Report(f"results {name}")
        with tempfile.TemporaryDirectory() as folder:
            family = Family(name, pathlib.Path(folder))
            check_results(report, family, program)
            check_theirs(report, family, program)
        reports.append(report)
    report = parity.Report("results causal")
    for tied in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            check_causal(report, pathlib.Path(folder), program, tied)
    reports.append(report)
    parity.finish(reports)


if __name__ == "__main__":
    main()
