// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BACKEND_TRAITS_H_
#define MPSD_CORE_BACKEND_TRAITS_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

// What is known of the devices that torch computes on, without torch: for the
// daemon's estimates too. core/device opens them.
namespace mpsd::backend {

// job.json's "device".
enum class Choice { kAuto, kMps, kCuda, kCpu };

inline constexpr std::pair<std::string_view, Choice> kChoices[] = {
    {"auto", Choice::kAuto},
    {"mps", Choice::kMps},
    {"cuda", Choice::kCuda},
    {"cpu", Choice::kCpu}};

std::string_view NameOf(Choice choice);
// Nothing for a word that is none of them.
std::optional<Choice> ChoiceOf(std::string_view name);

// Attention as one operator with a backward that an explicit step can call.
enum class FusedAttention {
  kNone,     // MPS: its backward is missing (pytorch#179294), and its math path
             // holds length × length numbers
  kByRow,    // at::_scaled_dot_product_flash_attention_for_cpu: every dtype; no
             // window; a packed row takes a call a segment
  kByToken,  // at::_flash_attention_forward and cuDNN's: bf16 and fp16, windows
             // and segments, heads of some widths
};

// at::_fused_rms_norm.
enum class FusedNorm {
  kNone,          // the CPU composes it: plain calls are as fast
  kForward,       // MPS: its kernel keeps no statistics, and no release has the
                  // backward (pytorch#192080)
  kWithBackward,  // statistics and backward
};

// Where tensors of the device lie.
enum class MemoryPlace {
  kHost,    // in the host's memory, of which there is no second copy
  kShared,  // in the host's memory, beside the host's own copy: unified memory
            // (MPS: torch 2.12, pytorch#175818)
  kOwn,     // in the device's own
};

// What a device does, gets wrong or makes dear, by which the code elsewhere
// branches: it asks for the reason, never for the device. The defaults are the
// CPU's, whose numbers are the reference.
struct Traits {
  // --- What kernels get wrong. ---

  // The most products that a sum of a GEMM may have; absent: any number. Above
  // it MPS' kernels read beyond the matrices (pytorch#177116 until 2.14,
  // #195163 open). The gradient of a weight sums over the tokens of a
  // micro-batch, so that these have the same bound.
  std::optional<int64_t> max_sum;
  // fp32 GEMMs with a transposed view at their left. MPS' are wrong by up to
  // 30 % (pytorch#193487, torch 2.7 to 2.13; 2.14 masks it).
  bool transposed_left = true;
  // Results written into tensors that are not contiguous. Kernels of MPS have
  // left them as they were (pytorch#118115, #165267).
  bool strided_targets = true;
  // A softmax in its operand's place. The graph that MPS compiles would write
  // into what it still reads.
  bool softmax_in_place = true;
  // The backward of softmax sums in fp32 whatever its arguments are. MPS' sums
  // and subtracts in bf16, which loses what tells gradients of keys apart
  // (core/selftest compares).
  bool exact_softmax_backward = true;
  // Calls whose operands differ in dtype, or whose result does. Kernels of MPS
  // have returned garbage or aborted (layer_norm: pytorch#190054, #190055).
  bool mixes_dtypes = true;
  // Operators without a kernel, which may run on the CPU instead (torch's
  // MPSFallback.mm; PYTORCH_ENABLE_MPS_FALLBACK).
  bool lacks_operators = false;
  // Out of memory may come without an error, as stale numbers: up to torch
  // 2.14.0 nobody reads the state of Metal's command buffers (pytorch#193571,
  // mended by #198883). Evaluations keep to the tokens of a training
  // micro-batch, which has been tried.
  bool silent_out_of_memory = false;

  // --- Which kernels there are. ---

  FusedAttention fused_attention = FusedAttention::kByRow;
  FusedNorm fused_norm = FusedNorm::kNone;
  // Products of half-precision matrices with an fp32 result (out_dtype of mm
  // and addmm): CUDA alone has them.
  bool wide_products = false;
  // oneDNN's fp32 inner product, which is faster than a GEMM where it is exact
  // enough: core/model/inner_product.h has the measurements.
  bool inner_products = true;

  // --- What costs what. ---

  // The backward of fused attention in fp32 is slower than blocks of products
  // (ATen's flash attention of the CPU).
  bool slow_attention_backward = true;
  // BLAS shares a product of few rows, or of many outputs, badly among its
  // threads: pieces are faster (MKL).
  bool splits_products = true;
  // A GEMM that begins with a summand rounds to its size at every block of the
  // sum, which gradients of a real model show: it is added afterwards (MKL).
  bool rounds_to_summand = true;
  // A call costs little and memory much: work goes in pieces whose numbers stay
  // in a cache, and a GEMM more is cheaper than a hole in the heap. GPUs want
  // few calls.
  bool cached_pieces = true;
  // A pass over memory costs as much as arithmetic: a layer is one node of
  // autograd (core/model/cpu_nodes.h).
  bool one_node_layers = true;
  // Arithmetic costs less than a second pass over memory, even with zeros.
  bool cheap_products = false;
  // A product adds a mask on its way where that has a contiguous row for each
  // query; others take a pass, which is a kernel more (MPS).
  bool masks_for_products = false;
  // Rows are padded to multiples of eight, the shapes of tensor cores.
  bool lengths_by_eight = false;
  // A graph for each operator, dtype and shape is compiled and kept for the
  // process' life (MPSGraph; emptyCache drops them since torch 2.13,
  // pytorch#181485): lengths and counts are rounded so that few shapes occur.
  bool compiles_each_shape = false;
  // Calls are encoded, and begin only when what is encoded is committed or
  // waited for.
  bool encodes_lazily = false;

  // --- What it is. ---

  MemoryPlace memory = MemoryPlace::kHost;
  // It has a generator of random numbers beside the CPU's.
  bool own_generator = false;
  // Random numbers are drawn one behind the other, so that a part of a mask is
  // that of the whole one, as Transformers draws it.
  bool draws_in_order = true;
  // Its numbers are what other devices are compared with.
  bool is_reference = true;

  bool attends_fused() const {
    return fused_attention != FusedAttention::kNone;
  }
};

// kAuto is taken for MPS, what mpsd is for.
const Traits& TraitsOf(Choice choice);

}  // namespace mpsd::backend

#endif  // MPSD_CORE_BACKEND_TRAITS_H_
