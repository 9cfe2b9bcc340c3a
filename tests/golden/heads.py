# SPDX-License-Identifier: Apache-2.0
"""What Transformers makes of files whose tensors are not those that config.json
speaks of: heads tied or not, tensors that no model asks for, or that are gone; and
of positions that scale only beyond what the batch has."""

import json
import tempfile
import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

import oracle

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
LAYER = "model.layers.0.self_attn."
# Of the model of a case: `config` set, then tensors copied (new name → old),
# made of zeros (name → shape), dropped.
CASES = {
    "alike": dict(of="llama3", copy={HEAD: EMBEDDING}),
    "differ": dict(of="llama2", config={"tie_word_embeddings": True}),
    "head_only": dict(of="llama3", copy={HEAD: EMBEDDING}, drop=[EMBEDDING]),
    "embedding_only": dict(of="llama3"),
    "untied": dict(of="llama2"),
    "dynamic": dict(of="llama2", config={
        "max_position_embeddings": 24,
        "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "more": dict(of="llama2", zeros={
        LAYER + "q_proj.bias": [32], LAYER + "rotary_emb.inv_freq": [4],
        "model.position_ids": [1, 8]}),
    "texts": dict(of="bert", drop=["classifier.weight", "classifier.bias"], zeros={
        "cls.predictions.bias": [48], "bert.embeddings.position_ids": [1, 8]}),
}


def write(root, case, folder):
    model = root / case["of"] / "model"
    config = json.loads((model / "config.json").read_text())
    config.update(case.get("config", {}))
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(model / "model.safetensors")
    for new, old in case.get("copy", {}).items():
        tensors[new] = tensors[old].clone()
    for name, shape in case.get("zeros", {}).items():
        tensors[name] = torch.zeros(shape)
    for name in case.get("drop", []):
        del tensors[name]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def numbers(root, case, model):
    golden = load_file(root / case["of"] / "golden.safetensors")
    loss = model(input_ids=golden["input_ids"], labels=golden["labels"],
                 attention_mask=golden["attention_mask"]).loss
    loss.backward()
    return dict(loss=loss.item(),
                tied=model.lm_head.weight is model.model.embed_tokens.weight,
                gradient_norms={name: parameter.grad.norm().item()
                                for name, parameter in model.named_parameters()})


def make(root):
    made = {}
    for name, case in CASES.items():
        texts = case["of"] == "bert"
        loader = AutoModelForSequenceClassification if texts else AutoModelForCausalLM
        with tempfile.TemporaryDirectory() as scratch:
            write(root, case, pathlib.Path(scratch))
            model, loading = loader.from_pretrained(
                scratch, dtype=torch.float32, attn_implementation="eager",
                output_loading_info=True)
        made[name] = dict(case, unexpected=sorted(loading["unexpected_keys"]),
                          missing=sorted(loading["missing_keys"]))
        if not texts:
            made[name].update(numbers(root, case, model.eval()))
    return made
