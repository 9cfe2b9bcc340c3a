// SPDX-License-Identifier: Apache-2.0
#include "core/host/device_error.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mpsd::host {
namespace {

using Kind = DeviceError::Kind;

// A text as torch or macOS words it, and what it means: one at least for each
// row of the table.
struct Case {
  const char* text;
  Kind kind;
  const char* advice;  // a part of it
};
constexpr Case kCases[] = {
    {"MPS backend out of memory (MPS allocated: 5.20 GB, other allocations: "
     "1.10 GB, max allowed: 6.00 GB). Tried to allocate 1.00 GB on private "
     "pool.",
     Kind::kOutOfMemory, "gradient_checkpointing"},
    {"CUDA error: out of memory", Kind::kOutOfMemory, "max_length"},
    {"CUDA out of memory. Tried to allocate 2.00 GiB", Kind::kOutOfMemory,
     "max_length"},
    {"[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate "
     "memory: you tried to allocate 99 bytes.",
     Kind::kOutOfMemory, "max_length"},
    {"Error: command buffer exited with error status.\n\tThe Metal Performance "
     "Shaders operations encoded on it may not have completed.\n\tError: "
     "(null)\n\tInsufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Error: command buffer exited with error status.\n\tInsufficient Memory",
     Kind::kOutOfMemory, "Metal dropped the work"},
    {"Invalid buffer size: 12.00 GB", Kind::kOutOfMemory, "2^31"},
    {"MPSGaph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"MPSGraph does not support tensor dims larger than INT_MAX",
     Kind::kOutOfMemory, "2^31"},
    {"/AppleInternal/Library/BuildRoots/x/MPSNDArray.mm:850: failed assertion "
     "`[MPSNDArray initWithDevice:descriptor:isTextureBacked:] Error: total "
     "bytes of NDArray > 2**32'",
     Kind::kOutOfMemory, "4 GiB"},
    {"Execution of the command buffer was aborted due to an error during "
     "execution. Impacting Interactivity "
     "(0000000e:kIOGPUCommandBufferCallbackErrorImpactingInteractivity)",
     Kind::kTransient, "display"},
    {"aborted due to an error: Impacting Interactivity", Kind::kTransient,
     "display"},
    {"Caused GPU Timeout Error "
     "(00000002:kIOGPUCommandBufferCallbackErrorTimeout)",
     Kind::kTransient, "too long"},
    {"Caused GPU Timeout Error", Kind::kTransient, "too long"},
    {"Caused GPU Address Fault Error "
     "(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)",
     Kind::kTransient, "reset"},
    {"Ignored (for causing prior/excessive GPU errors) "
     "(00000004:kIOGPUCommandBufferCallbackErrorSubmissionsIgnored)",
     Kind::kTransient, "reset"},
    {"Error: command buffer exited with error status.", Kind::kTransient,
     "last checkpoint"},
    {"the device dropped work without an error (its canary was not written): "
     "out of memory or a GPU reset",
     Kind::kTransient, "last checkpoint"},
    {"The operator 'aten::linalg_eig' is not currently implemented for the MPS "
     "device. If you want this op to be considered for addition please comment "
     "on the tracker",
     Kind::kUnsupported, "allow_cpu_fallback"},
    {"index out of range in self", Kind::kBadIndex, "vocab_size"},
    {"[enforce fail] INDICES element is out of DATA bounds, id=9 axis_dim=8",
     Kind::kBadIndex, "vocab_size"},
    {"index 49160 is out of bounds for dimension 0 with size 49152",
     Kind::kBadIndex, "vocab_size"},
    {"cross_entropy: target 9 is out of bounds for 8 classes", Kind::kBadIndex,
     "beyond its table"},
    {"IndexKernelUtils.cu:16: vectorized_gather_kernel: block: [0,0,0], "
     "Assertion `ind >=0 && ind < ind_dim_size && \"vectorized gather kernel "
     "index out of bounds\"` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"Indexing.cu:1553: indexSelectSmallIndex: block: [1,0,0], Assertion "
     "`srcIndex < srcSelectDimSize` failed.",
     Kind::kBadIndex, "vocab_size"},
    {"CUDA error: device-side assert triggered\nCUDA kernel errors might be "
     "asynchronously reported at some other API call",
     Kind::kBadIndex, "vocab_size"},
    {"loc(\"mps_multiply\"): error: 'mps.multiply' op requires the same "
     "element type for all operands and results",
     Kind::kTransient, "assertion"},
    {"MPSGraph.mm:1: failed assertion `bad axis'", Kind::kTransient,
     "assertion"},
    {"/x/MPSCore/Types/MPSNDArray.mm:99: failed assertion `[MPSTemporaryND"
     "Array] buffer is not large enough'",
     Kind::kTransient, "assertion"},
    {"MPSNDArray.mm: error: the shape is wrong", Kind::kTransient, "assertion"},
    {"LLVM ERROR: Failed to infer result type(s). mps.matmul", Kind::kTransient,
     "assertion"},
    {"Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS shutting "
     "down?) MTLCompilerService",
     Kind::kTransient, "launchd"},
    {"the host is out of memory", Kind::kOutOfMemory, "max_length"},
};

TEST(FindDeviceError, KnowsEveryText) {
  for (const Case& c : kCases) {
    const auto found = FindDeviceError(c.text);
    ASSERT_TRUE(found.has_value()) << c.text;
    EXPECT_EQ(found->kind, c.kind) << c.text;
    EXPECT_NE(found->advice.find(c.advice), std::string::npos) << c.text << "\n"
                                                               << found->advice;
  }
}

TEST(FindDeviceError, EveryRowHasItsText) {
  std::set<const DeviceErrorRow*> met;
  for (const Case& c : kCases) {
    const std::string_view text = c.text;
    for (const DeviceErrorRow& row : DeviceErrorTable()) {
      bool fits = true;
      for (std::string_view sign : row.signs) {
        fits = fits && text.find(sign) != std::string_view::npos;
      }
      if (!fits) continue;
      met.insert(&row);
      break;  // the first is the one that counts
    }
  }
  for (const DeviceErrorRow& row : DeviceErrorTable()) {
    EXPECT_TRUE(met.contains(&row)) << row.signs[0];
  }
}

TEST(FindDeviceError, LeavesOtherTextsAlone) {
  for (const char* text :
       {"", "step 8/8  epoch 1.00  loss 0.5", "train.jsonl:3: no field",
        "jinja: list index out of range",
        "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"}) {
    EXPECT_FALSE(FindDeviceError(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace mpsd::host
