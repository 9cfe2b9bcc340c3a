# SPDX-License-Identifier: Apache-2.0
"""What bitsandbytes makes of weights: quant.safetensors.

For each weight W and each KIND of nf4, nf4_double and int8 what its file would
hold, named as Transformers saves it, and KIND.dense.DTYPE, the weight that its
linear layer computes with. By bitsandbytes' reference kernels, which every
device falls back to: of its C kernels for the CPU (0.50.2) the one for scales
takes some neighbour of the nearest code, and the one for values mixes up the
scales of rows that are no whole number of blocks.
"""
import importlib.util
import unittest.mock

import bitsandbytes.backends.default.ops
import bitsandbytes.functional as bnb
import torch

KINDS = {"nf4": False, "nf4_double": True}


def weights():
    generator = torch.Generator().manual_seed(11)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    blocks = normal(20, 96)
    blocks[3, :64] = 0  # a block without a scale
    blocks[7, 5] = 40  # and one with a single large value
    return {
        "plain": normal(16, 128) * 0.02,
        "uneven": blocks,  # of scales
        "rest": normal(7, 30),  # 210 values: three blocks and a rest
        "many": normal(130, 128) * 0.05,  # 260 scales: two nested blocks
    }


def reference_kernels():
    """By name; calling an operator would take those of the CPU."""
    kernels = {}

    def collect(name, _):
        return lambda kernel: kernels.setdefault(name.split("::")[1], kernel)

    origin = bitsandbytes.backends.default.ops.__spec__.origin
    spec = importlib.util.spec_from_file_location(
        "bitsandbytes.backends.default.reference", origin)
    module = importlib.util.module_from_spec(spec)
    with unittest.mock.patch("bitsandbytes._ops.register_kernel", collect):
        spec.loader.exec_module(module)
    return kernels


KERNELS = reference_kernels()


def four_bits(weight, double):
    """bnb.quantize_4bit and bnb.dequantize_4bit."""
    codes, absmax = KERNELS["quantize_4bit"](weight, 64, "nf4", torch.uint8)
    state = bnb.QuantState(
        absmax=absmax, shape=weight.shape, dtype=weight.dtype, blocksize=64,
        code=bnb.get_4bit_type("nf4", device="cpu"), quant_type="nf4")
    if double:
        map = bnb.create_dynamic_map()
        state.offset = absmax.mean()
        state.absmax, scales = KERNELS["quantize_blockwise"](
            absmax - state.offset, map, 256)
        state.state2 = bnb.QuantState(
            absmax=scales, code=map, blocksize=256, dtype=torch.float32)
        state.nested = True
        absmax = state.offset + KERNELS["dequantize_blockwise"](
            state.absmax, scales, map, 256, torch.float32)
    dense = KERNELS["dequantize_4bit"](
        codes, absmax, 64, "nf4", weight.shape, weight.dtype)
    parts = {"weight": codes}
    for key, value in state.as_dict(packed=True).items():
        parts[f"weight.{key}"] = value
    return parts, dense


def eight_bits(weight):
    codes, scales, _ = bnb.int8_vectorwise_quant(weight.half())
    dense = bnb.int8_vectorwise_dequant(codes, scales)
    return {"weight": codes, "SCB": scales}, dense


def make():
    tensors = {}
    for name, weight in weights().items():
        for dtype in (torch.float32, torch.bfloat16):
            case = f"{name}.{str(dtype).removeprefix('torch.')}"
            w = weight.to(dtype)
            tensors[f"{case}.source"] = w
            for kind, double in KINDS.items():
                parts, dense = four_bits(w, double)
                tensors |= {f"{case}.{kind}.{k}": v for k, v in parts.items()}
                tensors[f"{case}.{kind}.dense"] = dense
        parts, dense = eight_bits(weight)
        tensors[f"{name}.half.source"] = weight.half()
        tensors |= {f"{name}.half.int8.{k}": v for k, v in parts.items()}
        tensors[f"{name}.half.int8.dense"] = dense
    return {k: v.contiguous().clone() for k, v in tensors.items()}
