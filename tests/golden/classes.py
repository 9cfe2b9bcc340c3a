# SPDX-License-Identifier: Apache-2.0
"""Golden data of sequence classification: small encoders, and a decoder with a
head, with LoRA and trained whole.

A folder of a case holds `model/`, `adapter/` (as PEFT's SEQ_CLS writes it),
`classes.json` and `classes.safetensors`; README.md describes them.
"""

import json
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForSequenceClassification

import cases
import oracle

LENGTHS = [20, 13, 20, 7]
SEED = 4321


def encoder(model_type, **overrides):
    common = dict(vocab_size=80, pad_token_id=0)
    sizes = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2,
                 num_attention_heads=3, max_position_embeddings=32)
    if model_type == "distilbert":
        sizes = dict(dim=24, hidden_dim=40, n_layers=2, n_heads=3,
                     max_position_embeddings=32)
    return model_type, {**common, **sizes, **overrides}


def training(**overrides):
    """No accumulation: over it Trainer (5.23) adds up the mean losses of
    classification instead of averaging them."""
    return cases.training(per_device_train_batch_size=4,
                          gradient_accumulation_steps=1, max_length=20,
                          **overrides)


# `head` is what the job says of the labels: their number, the problem, and
# weights. `pairs`: token types of two sentences.
CASES = {
    "bert": dict(
        config=encoder("bert"), pairs=True,
        head=dict(num_labels=3, problem_type="single_label_classification"),
        lora=dict(r=4, lora_alpha=8, target_modules=["query", "value"]),
        training=dict(lora=training(max_grad_norm=1.35),
                      full=training(max_grad_norm=2.2, learning_rate=1e-3)),
    ),
    # Another activation, and unbalanced labels.
    "bert_weighted": dict(
        config=encoder("bert", hidden_act="gelu_new", num_hidden_layers=1,
                       classifier_dropout=0.3),
        head=dict(num_labels=4, problem_type="single_label_classification",
                  class_weights=[0.5, 2.0, 1.0, 3.0]),
        lora=dict(r=2, lora_alpha=4, target_modules="all-linear",
                  use_rslora=True),
        training=dict(lora=training(max_grad_norm=4.0),
                      full=training(max_grad_norm=4.4, learning_rate=1e-3)),
    ),
    "roberta": dict(
        config=encoder("roberta", pad_token_id=1, type_vocab_size=1,
                       max_position_embeddings=34, hidden_act="relu"),
        head=dict(num_labels=5, problem_type="multi_label_classification",
                  class_weights=[1.0, 2.0, 0.5, 1.5, 1.0]),
        lora=dict(r=3, lora_alpha=6, target_modules=[
            "query", "key", "output.dense"], layers_to_transform=[1]),
        training=dict(lora=training(max_grad_norm=0.9),
                      full=training(max_grad_norm=0.9, learning_rate=1e-3)),
    ),
    "distilbert": dict(
        config=encoder("distilbert", sinusoidal_pos_embds=False),
        head=dict(num_labels=1, problem_type="regression"),
        # PEFT fails over all-linear here: "pre_classifier" is then both adapted
        # and, as it ends in "classifier", saved.
        lora=dict(r=4, lora_alpha=8, target_modules=[
            "q_lin", "v_lin", "out_lin", "lin1", "lin2"]),
        training=dict(lora=training(max_grad_norm=6.0),
                      full=training(max_grad_norm=8.0, learning_rate=1e-3)),
    ),
    # Narrow embeddings.
    "electra": dict(
        config=encoder("electra", embedding_size=16), pairs=True,
        head=dict(num_labels=3, problem_type="single_label_classification"),
        lora=dict(r=4, lora_alpha=8, target_modules=[
            "embeddings_project", "query", "value", "intermediate.dense"]),
        training=dict(lora=training(max_grad_norm=1.35),
                      full=training(max_grad_norm=2.2, learning_rate=1e-3)),
    ),
    "llama_classes": dict(
        config=cases.config("llama", vocab_size=80, hidden_size=24,
                            intermediate_size=40, tie_word_embeddings=True),
        head=dict(num_labels=3, problem_type="single_label_classification"),
        lora=dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]),
        training=dict(lora=training(max_grad_norm=5.0),
                      full=training(max_grad_norm=10.0, learning_rate=1e-3)),
    ),
}


def make_model(case, generator):
    model_type, arguments = case["config"]
    head = case["head"]
    settings = AutoConfig.for_model(
        model_type, num_labels=head["num_labels"],
        problem_type=head["problem_type"], **arguments)
    model = AutoModelForSequenceClassification.from_config(
        settings, dtype=torch.float32)
    return oracle.randomise(model, generator)


def load_model(folder):
    return AutoModelForSequenceClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa").eval()


def make_adapter(folder, lora, adapter_folder, generator, spread=0.1):
    model = get_peft_model(load_model(folder),
                           LoraConfig(task_type="SEQ_CLS", **lora))
    oracle.randomise_adapter(model, generator, spread)
    oracle.save_adapter(model, adapter_folder)


def load_adapter(folder, adapter_folder):
    return PeftModel.from_pretrained(load_model(folder), adapter_folder,
                                     is_trainable=True)


def random_labels(head, rows, generator):
    if head["problem_type"] == "regression":
        return torch.randn(rows, generator=generator)
    if head["problem_type"] == "multi_label_classification":
        return torch.randint(0, 2, (rows, head["num_labels"]),
                             generator=generator).float()
    labels = torch.randint(0, head["num_labels"], (rows,),
                           generator=generator)
    labels[:2] = torch.tensor([0, head["num_labels"] - 1])
    return labels


def random_batch(case, lengths, generator):
    """Right-padded rows; token types of two sentences where it has pairs."""
    _, arguments = case["config"]
    padding = arguments["pad_token_id"]
    width = max(lengths)
    ids = torch.randint(3, arguments["vocab_size"], (len(lengths), width),
                        generator=generator)
    mask, types = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        ids[row, length:] = padding
        mask[row, :length] = 1
        types[row, length // 2:length] = 1
    batch = dict(input_ids=ids, attention_mask=mask,
                 labels=random_labels(case["head"], len(lengths), generator))
    if case.get("pairs"):
        batch["token_type_ids"] = types
    return batch


def loss_of(head, logits, labels):
    """Transformers' loss, with the weights that its models have no place
    for."""
    weights = head.get("class_weights")
    if weights:
        weights = torch.tensor(weights, dtype=logits.dtype)
    if head["problem_type"] == "regression":
        return torch.nn.MSELoss()(logits.squeeze(), labels.squeeze())
    if head["problem_type"] == "multi_label_classification":
        return torch.nn.BCEWithLogitsLoss(pos_weight=weights)(logits, labels)
    return torch.nn.CrossEntropyLoss(weight=weights)(logits, labels)


def forward_backward(model, head, batch):
    """Logits, loss and gradients; the loss by the model itself where it can."""
    model.zero_grad()
    inputs = dict(batch)
    if head.get("class_weights"):
        labels = inputs.pop("labels")
        logits = model(**inputs).logits
        loss = loss_of(head, logits, labels)
    else:
        out = model(**inputs)
        logits, loss = out.logits, out.loss
    loss.backward()
    return dict(logits=logits.detach(), loss=loss.detach().reshape(1),
                **oracle.gradients(model))


def with_dropout(model, head, batch):
    """The same in train mode, dropout drawn after a seed."""
    model.train()
    torch.manual_seed(SEED)
    result = forward_backward(model, head, batch)
    model.eval()
    return result


def collator(padding):
    def collate(samples):
        width = max(len(sample["input_ids"]) for sample in samples)

        def pad(name):
            value = padding if name == "input_ids" else 0
            return torch.stack([
                torch.nn.functional.pad(s[name], (0, width - len(s[name])),
                                        value=value) for s in samples])

        batch = {name: pad(name) for name in samples[0] if name != "labels"}
        batch["labels"] = torch.stack([s["labels"] for s in samples])
        return batch

    return collate


def train(model, case, batch, lengths, training):
    """As oracle.train, without dropout: its draws depend on Trainer's own."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    samples = []
    for row, length in enumerate(lengths):
        sample = {name: batch[name][row, :length] for name in
                  ("input_ids", "attention_mask", "token_type_ids")
                  if name in batch}
        samples.append(dict(sample, labels=batch["labels"][row]))
    compute_loss = None
    if case["head"].get("class_weights"):
        def compute_loss(outputs, labels, num_items_in_batch=None):
            return loss_of(case["head"], outputs.logits, labels)
    result = oracle.run_trainer(
        model, samples, collator(case["config"][1]["pad_token_id"]), training,
        compute_loss)
    result.update({f"train.{name}": batch[name]
                   for name in ("input_ids", "token_type_ids", "labels")
                   if name in batch})
    result["train.lengths"] = torch.tensor(lengths)
    return result


def train_batch(case, generator):
    lengths = torch.randint(5, 21, (14,), generator=generator).tolist()
    return random_batch(case, lengths, generator), lengths


def prefixed(prefix, tensors):
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


def make_case(name, case, folder, generator):
    model_folder, adapter = folder / "model", folder / "adapter"
    oracle.save_model(make_model(case, generator), model_folder, case)
    make_adapter(model_folder, case["lora"], adapter, generator)
    dropout = add_lora_dropout(adapter, folder / "adapter_dropout")
    head = case["head"]
    batch = random_batch(case, LENGTHS, generator)
    rows, lengths = train_batch(case, generator)
    loaders = dict(full=lambda: load_model(model_folder),
                   lora=lambda: load_adapter(model_folder, adapter).eval())
    golden = dict(batch)
    for run, load in loaders.items():
        values = forward_backward(load(), head, batch)
        values.update(train(load(), case, rows, lengths,
                            case["training"][run]))
        check_usable((name, run), values, case["training"][run])
        golden.update({key: values.pop(key) for key in list(values)
                       if key in TRAIN_INPUTS})
        if run == "full":  # as large as the model, and the losses show it
            values = {k: v for k, v in values.items()
                      if not k.startswith("final.")}
        golden.update(prefixed(run, values))
    golden.update(prefixed("full_dropout", with_dropout(
        load_model(model_folder), head, batch)))
    golden.update(prefixed("lora_dropout", with_dropout(
        load_adapter(model_folder, dropout), head, batch)))
    oracle.save_tensors(golden, folder / "classes.safetensors")
    (folder / "classes.json").write_text(json.dumps(
        dict(head=head, lora=case["lora"], training=case["training"],
             seed=SEED), indent=1) + "\n")


TRAIN_INPUTS = {"train.input_ids", "train.token_type_ids", "train.labels",
                "train.lengths"}


def add_lora_dropout(adapter, folder, dropout=0.1):
    shutil.copytree(adapter, folder)
    path = folder / "adapter_config.json"
    values = json.loads(path.read_text())
    values["lora_dropout"] = dropout
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    return folder


def check_usable(name, golden, training):
    """Golden values that are all but zero, or never clip, prove nothing."""
    spread = golden["logits"].std().item()
    assert 0.1 < spread < 6, (name, "logits", spread)
    quiet = [key for key, value in golden.items()
             if key.startswith("grad.") and value.norm() <= 1e-4]
    # Keys' biases shift all scores alike.
    assert all(q.endswith(("key.bias", "k_lin.bias")) for q in quiet), (name,
                                                                       quiet)
    norms, losses = golden["train.grad_norms"], golden["train.losses"]
    assert norms.max() > training["max_grad_norm"] > norms.min(), (name, norms)
    assert losses[-4:].mean() < losses[:4].mean(), (name, losses)
