// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

// Facts about the devices that torch computes on. This room does not use torch,
// so that the daemon's estimates can use it; core/device opens the devices.
namespace mpsd::backend {

// job.json's "device".
enum class Choice { kAuto, kMps, kCuda, kCpu };

inline constexpr std::pair<std::string_view, Choice> kChoices[] = {
    {"auto", Choice::kAuto},
    {"mps", Choice::kMps},
    {"cuda", Choice::kCuda},
    {"cpu", Choice::kCpu}};

std::string_view NameOf(Choice choice);
// nullopt for an unknown word.
std::optional<Choice> ChoiceOf(std::string_view name);

// Attention as one operator whose backward an explicit step can call.
enum class FusedAttention {
  kNone,     // MPS: its backward is missing (pytorch#179294), and its math path
             // holds length × length numbers
  kByRow,    // at::_scaled_dot_product_flash_attention_for_cpu: every dtype; no
             // window; a packed row takes one call per segment
  kByToken,  // at::_flash_attention_forward and cuDNN's: bf16 and fp16, windows
             // and segments, heads of some widths
};

// at::_fused_rms_norm.
enum class FusedNorm {
  kNone,          // CPU: composed of plain calls, which are as fast
  kForward,       // MPS: its kernel keeps no statistics, and no release has the
                  // backward (pytorch#192080)
  kWithBackward,  // statistics and backward
};

// Where the device's tensors are stored.
enum class MemoryPlace {
  kHost,    // in the host's memory, without a second copy
  kShared,  // in the host's memory, in addition to the host's copy: unified
            // memory (MPS: torch 2.12, pytorch#175818)
  kOwn,     // in the device's own memory
};

// What a device does, gets wrong or makes expensive. Code elsewhere branches on
// these reasons, never on the device's kind. The defaults are those of the CPU,
// whose numbers are the reference.
struct Traits {
  // --- What kernels get wrong. ---

  // The most products that a sum of a GEMM may have; absent: unlimited. Above
  // this bound MPS's kernels read beyond the matrices (pytorch#177116 until
  // 2.14, #195163 open). A weight's gradient sums over the tokens of a
  // micro-batch, so the bound also applies to a micro-batch's tokens.
  std::optional<int64_t> max_sum;
  // fp32 GEMMs whose left operand is a transposed view are exact. MPS's results
  // are wrong by up to 30 % (pytorch#193487, torch 2.7 to 2.13; 2.14 masks the
  // fault).
  bool transposed_left = true;
  // Kernels can write results into non-contiguous tensors. Some MPS kernels
  // left such tensors unchanged (pytorch#118115, #165267).
  bool strided_targets = true;
  // A softmax can overwrite its operand. The graph that MPS compiles would
  // overwrite values that it still has to read.
  bool softmax_in_place = true;
  // The backward of softmax sums in fp32 for all dtypes. MPS sums and subtracts
  // in bf16, which loses the small differences that make up the gradients of
  // keys (core/selftest compares).
  bool exact_softmax_backward = true;
  // Kernels take operands and results of different dtypes. Some MPS kernels
  // returned garbage or aborted (layer_norm: pytorch#190054, #190055).
  bool mixes_dtypes = true;
  // Some operators have no kernel and may run on the CPU instead (torch's
  // MPSFallback.mm; PYTORCH_ENABLE_MPS_FALLBACK).
  bool lacks_operators = false;
  // Out of memory may yield stale numbers instead of an error: up to torch
  // 2.14.0 no code reads the state of Metal's command buffers (pytorch#193571,
  // fixed by #198883). An evaluation therefore takes at most as many tokens at
  // a time as a training micro-batch, which is known to fit.
  bool silent_out_of_memory = false;

  // --- Which kernels the device has. ---

  FusedAttention fused_attention = FusedAttention::kByRow;
  FusedNorm fused_norm = FusedNorm::kNone;
  // Products of half-precision matrices may have an fp32 result (out_dtype of
  // mm and addmm): only on CUDA.
  bool wide_products = false;
  // The device has oneDNN's fp32 inner product, which is faster than a GEMM;
  // core/model/products.h says where it is exact enough, with
  // measurements.
  bool inner_products = true;

  // --- What is expensive. ---

  // The backward of fused attention in fp32 is slower than blocks of products
  // (ATen's flash attention on the CPU).
  bool slow_attention_backward = true;
  // BLAS (MKL) distributes a product of few rows, or of many outputs, badly
  // among its threads: splitting the product is faster.
  bool splits_products = true;
  // A GEMM that adds a summand (MKL's addmm) rounds each partial sum to the
  // summand's magnitude, which is visible in a real model's gradients: callers
  // add the summand afterwards.
  bool rounds_to_summand = true;
  // A call is cheap and memory expensive: work is divided into pieces that fit
  // in a cache, and one more GEMM is cheaper than fragmenting the heap. GPUs
  // are faster with few calls.
  bool cached_pieces = true;
  // A pass over memory costs as much as arithmetic: an adapter in fp32 is part
  // of its linear's autograd node (core/model/layers.h).
  bool one_node_layers = true;
  // Arithmetic, even on zeros, is cheaper than a second pass over memory.
  bool cheap_products = false;
  // A product adds a mask in the same kernel if the mask has a contiguous row
  // for each query; any other mask takes another kernel (MPS).
  bool masks_for_products = false;
  // Rows are padded to multiples of eight, the shapes of tensor cores.
  bool lengths_by_eight = false;
  // The device compiles a graph for each operator, dtype and shape and keeps it
  // until the process ends (MPSGraph; emptyCache drops the graphs since torch
  // 2.13, pytorch#181485): lengths and counts are rounded so that few shapes
  // occur.
  bool compiles_each_shape = false;
  // Calls are only encoded; the device starts them at a commit or a wait.
  bool encodes_lazily = false;

  // --- What it is. ---

  MemoryPlace memory = MemoryPlace::kHost;
  // The device has its own random number generator in addition to the CPU's.
  bool own_generator = false;
  // Random numbers are drawn in sequence, so that a mask drawn in parts equals
  // the whole mask that Transformers draws.
  bool draws_in_order = true;
  // Other devices' numbers are compared with this device's.
  bool is_reference = true;

  bool attends_fused() const {
    return fused_attention != FusedAttention::kNone;
  }
};

// kAuto counts as MPS, the device that mpsd is made for.
const Traits& TraitsOf(Choice choice);

}  // namespace mpsd::backend
