# SPDX-License-Identifier: Apache-2.0
"""Golden data of image classification: small vision transformers, with LoRA and
trained whole.

A folder of a case is like those of classes.py, with `pixels` [B, C, H, W] for
texts; 20 steps go over `train.pixels`. `init.NAME` is what Transformers'
initialize_weights draws after torch.manual_seed(SEED), a few numbers of each
weight.
"""

import json
import re

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoModelForImageClassification

import classes
import oracle

SEED = classes.SEED
ROWS = 5


CASES = {
    # Two pixels are left over at the right and at the bottom.
    "vit": dict(
        config=dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
                    intermediate_size=40, image_size=14, patch_size=4,
                    hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1),
        head=dict(num_labels=4, problem_type="single_label_classification"),
        lora=dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
                  modules_to_save=["classifier"]),
        training=dict(lora=classes.training(max_grad_norm=2.0),
                      full=classes.training(max_grad_norm=4.0, learning_rate=1e-3)),
    ),
    "vit_grey": dict(
        config=dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                    intermediate_size=24, image_size=8, patch_size=4,
                    num_channels=1, qkv_bias=False, hidden_act="gelu_new",
                    layer_norm_eps=1e-6),
        head=dict(num_labels=3, problem_type="multi_label_classification"),
        lora=dict(r=2, lora_alpha=4, target_modules="all-linear",
                  modules_to_save=["classifier"]),
        training=dict(lora=classes.training(max_grad_norm=1.0),
                      full=classes.training(max_grad_norm=2.0, learning_rate=1e-3)),
    ),
}


def settings(case):
    head = case["head"]
    return AutoConfig.for_model(
        "vit", num_labels=head["num_labels"],
        problem_type=head["problem_type"], **case["config"])


def make_model(case, generator):
    model = AutoModelForImageClassification.from_config(
        settings(case), dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "layernorm" in name and name.endswith("weight"):
                parameter.copy_(1 + 0.2 * noise)
            elif parameter.dim() == 1 or parameter.shape[0] == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * 1.2 / parameter[0].numel() ** 0.5)
    return model.eval()


def load_model(folder):
    return AutoModelForImageClassification.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa").eval()


def make_adapter(folder, lora, adapter_folder, generator):
    model = get_peft_model(load_model(folder), LoraConfig(**lora))
    oracle.randomise_adapter(model, generator)
    oracle.save_adapter(model, adapter_folder)


def load_adapter(folder, adapter_folder):
    return PeftModel.from_pretrained(load_model(folder), adapter_folder,
                                     is_trainable=True)


def random_batch(case, rows, generator):
    config = case["config"]
    size = config["image_size"]
    shape = (rows, config.get("num_channels", 3), size, size)
    return dict(
        pixel_values=torch.rand(shape, generator=generator) * 2 - 1,
        labels=classes.random_labels(case["head"], rows, generator))


FILE_NAMES = [
    (r"vit\.layers\.", "vit.encoder.layer."),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"mlp\.fc1", "intermediate.dense"), (r"mlp\.fc2", "output.dense")]


def as_in_files(tensors):
    """Names that save_pretrained writes instead of those of the modules."""
    def renamed(name):
        for pattern, replacement in FILE_NAMES:
            name = re.sub(pattern, replacement, name)
        return name

    return {renamed(name): value for name, value in tensors.items()}


def collate(samples):
    return {name: torch.stack([s[name] for s in samples])
            for name in samples[0]}


def train(model, batch, training):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0
    samples = [{name: values[row] for name, values in batch.items()}
               for row in range(len(batch["labels"]))]
    return oracle.run_trainer(model, samples, collate, training)


def initial(case):
    """What Transformers' own initialisation draws, the norms and zeros left
    out: modules are made before with numbers that it overwrites."""
    model = AutoModelForImageClassification.from_config(
        settings(case), dtype=torch.float32)
    for thing in [*model.modules(), *model.parameters()]:
        thing._is_hf_initialized = False
    torch.manual_seed(SEED)
    model.initialize_weights()
    return {name: parameter.detach().flatten()[:8]
            for name, parameter in model.named_parameters()
            if parameter.dim() > 1}


def make_case(name, case, folder, generator):
    model_folder, adapter = folder / "model", folder / "adapter"
    oracle.save_model(make_model(case, generator), model_folder, case)
    make_adapter(model_folder, case["lora"], adapter, generator)
    dropout = classes.add_lora_dropout(adapter, folder / "adapter_dropout")
    head = case["head"]
    batch = random_batch(case, ROWS, generator)
    rows = random_batch(case, 14, generator)
    golden = {"pixels": batch["pixel_values"], "labels": batch["labels"],
              "train.pixels": rows["pixel_values"],
              "train.labels": rows["labels"]}
    loaders = dict(full=lambda: load_model(model_folder),
                   lora=lambda: load_adapter(model_folder, adapter).eval())
    for run, load in loaders.items():
        values = classes.forward_backward(load(), head, batch)
        values.update(train(load(), rows, case["training"][run]))
        # Keys' biases shift all scores alike: their gradients are noise.
        classes.check_usable(
            (name, run), {k: v for k, v in values.items()
                          if not k.endswith("k_proj.bias")},
            case["training"][run])
        if run == "full":
            values = as_in_files({k: v for k, v in values.items()
                                  if not k.startswith("final.")})
        golden.update(classes.prefixed(run, values))
    golden.update(classes.prefixed("full_dropout", as_in_files(
        classes.with_dropout(load_model(model_folder), head, batch))))
    golden.update(classes.prefixed("lora_dropout", classes.with_dropout(
        load_adapter(model_folder, dropout), head, batch)))
    golden.update(classes.prefixed("init", initial(case)))
    oracle.save_tensors(golden, folder / "classes.safetensors")
    (folder / "classes.json").write_text(json.dumps(
        dict(head=head, lora=case["lora"], training=case["training"],
             seed=SEED), indent=1) + "\n")
