# SPDX-License-Identifier: Apache-2.0
"""LoRA on weights in four bits against Transformers, PEFT and bitsandbytes.

usage: quantized.py BIN_DIR [--seed N]

Transformers quantises a random model with BitsAndBytesConfig and saves it; we
read what it saved. Logits, loss, the adapter's gradients and twenty steps must
be those of PEFT on the quantised model.
"""

import copy

import parity
import cases
import families
import oracle
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, BitsAndBytesConfig


def sized(case, _):
    """In whole blocks of 64: bitsandbytes' CPU kernel mixes up the scales of
    other rows (see tests/golden/quant.py)."""
    case = copy.deepcopy(case)
    case["config"][1].update(
        hidden_size=64, intermediate_size=128, num_attention_heads=4,
        num_key_value_heads=4, head_dim=16)
    case["dtype"] = None
    return case


def quantise(model, folder, double):
    quantised = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, device_map="cpu",
        attn_implementation="eager",
        quantization_config=BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=double,
            bnb_4bit_compute_dtype=torch.float32))
    quantised.save_pretrained(folder)
    for module in quantised.modules():  # else: bfloat16 where the CPU has it
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    return quantised.eval()


def check(report, program, name, case, chance, folder):
    generator = torch.Generator().manual_seed(chance.randrange(2**31))
    model_type, shape = case["config"]
    dense, model = folder / "dense", folder / "model"
    adapter = folder / "adapter"
    oracle.save_model(oracle.make_model(model_type, shape, generator), dense,
                      case)
    oracle.make_adapter(dense, case["lora"], adapter, generator)
    base = quantise(dense, model, case["double"])
    tuned = PeftModel.from_pretrained(base, adapter, is_trainable=True)
    tuned.eval()
    families.check_batch(report, program, name, tuned, model, adapter, chance,
                         generator)
    families.check_steps(report, program, name, case, tuned, model, adapter,
                         chance, generator)


CASES = {f"{name} {kind}": dict(cases.CASES[name], double=kind == "double")
         for name in ("llama2", "mistral", "qwen2", "qwen3")
         for kind in ("single", "double")}


if __name__ == "__main__":
    parity.random_models(CASES, check, sized, rounds=1)
