// SPDX-License-Identifier: Apache-2.0
#include "core/host/device_error.h"

#include <algorithm>

namespace mpsd::host {
namespace {

using Kind = DeviceError::Kind;

constexpr std::string_view kLess =
    "lower training.per_device_train_batch_size or max_length, or set "
    "gradient_checkpointing";
constexpr std::string_view kGpuFull =
    "the GPU's memory was full and Metal dropped the work: lower "
    "training.per_device_train_batch_size or max_length, set "
    "gradient_checkpointing, or close other programs that use the GPU";
constexpr std::string_view kTooLarge =
    "one tensor would be larger than Metal can hold (2^31 elements or 4 GiB): "
    "lower training.per_device_train_batch_size or max_length";
constexpr std::string_view kWatchdog =
    "macOS ended GPU work that took too long while the display was in use: a "
    "smaller training.per_device_train_batch_size makes the pieces shorter";
constexpr std::string_view kReset =
    "the GPU was reset, by a fault or by another program: the job resumes from "
    "its last checkpoint";
constexpr std::string_view kMissing =
    "an operator has no Metal kernel: \"allow_cpu_fallback\": true in job.json "
    "lets it run on the CPU, which is slow; please report its name";
constexpr std::string_view kTypes =
    "Metal's graph compiler rejected an operation (an assertion that ends the "
    "process): please report the line of the log that begins with mps or MPS; "
    "\"device\": \"cpu\" trains without it";

constexpr std::string_view kBeyond =
    "a token, type or position of the data is beyond its table in the model: "
    "the tokenizer and the model do not match; compare vocab_size in "
    "config.json with the tokenizer";

}  // namespace

// Texts: torch/aten (MPSAllocator.mm, MPSFallback.mm, OperationUtils.mm),
// IOGPU's callback errors as Metal prints them, MPSGraph's and MPSNDArray's
// assertions.
const std::vector<DeviceErrorRow>& DeviceErrorTable() {
  static const auto& table = *new std::vector<DeviceErrorRow>{
      {{"MPS backend out of memory"}, Kind::kOutOfMemory, kLess},
      {{"CUDA error: out of memory"}, Kind::kOutOfMemory, kLess},
      {{"CUDA out of memory"}, Kind::kOutOfMemory, kLess},
      {{"can't allocate memory"}, Kind::kOutOfMemory, kLess},
      {{"kIOGPUCommandBufferCallbackErrorOutOfMemory"},
       Kind::kOutOfMemory,
       kGpuFull},
      {{"Insufficient Memory"}, Kind::kOutOfMemory, kGpuFull},
      {{"Invalid buffer size"}, Kind::kOutOfMemory, kTooLarge},
      {{"does not support tensor dims larger than INT_MAX"},
       Kind::kOutOfMemory,
       kTooLarge},
      {{"total bytes of NDArray > 2**32"}, Kind::kOutOfMemory, kTooLarge},
      {{"kIOGPUCommandBufferCallbackErrorImpactingInteractivity"},
       Kind::kTransient,
       kWatchdog},
      {{"Impacting Interactivity"}, Kind::kTransient, kWatchdog},
      {{"kIOGPUCommandBufferCallbackErrorTimeout"},
       Kind::kTransient,
       kWatchdog},
      {{"Caused GPU Timeout Error"}, Kind::kTransient, kWatchdog},
      {{"kIOGPUCommandBufferCallbackError"}, Kind::kTransient, kReset},
      {{"command buffer exited with error status"}, Kind::kTransient, kReset},
      {{"the device dropped work without an error"}, Kind::kTransient, kReset},
      {{"not currently implemented for the MPS device"},
       Kind::kUnsupported,
       kMissing},
      {{"index out of range in self"}, Kind::kBadIndex, kBeyond},
      {{"INDICES element is out of DATA bounds"}, Kind::kBadIndex, kBeyond},
      {{"is out of bounds for dimension"}, Kind::kBadIndex, kBeyond},
      {{"is out of bounds for", "classes"}, Kind::kBadIndex, kBeyond},
      {{"index out of bounds"}, Kind::kBadIndex, kBeyond},
      {{"srcIndex < srcSelectDimSize"}, Kind::kBadIndex, kBeyond},
      {{"device-side assert triggered"}, Kind::kBadIndex, kBeyond},
      {{"op requires the same element type"}, Kind::kTransient, kTypes},
      {{"MPSGraph", "assert"}, Kind::kTransient, kTypes},
      {{"MPSNDArray", "assert"}, Kind::kTransient, kTypes},
      {{"MPSNDArray", "error: "}, Kind::kTransient, kTypes},
      {{"LLVM ERROR", "mps"}, Kind::kTransient, kTypes},
      {{"MTLCompilerService"},
       Kind::kTransient,
       "Metal's compiler service cannot be reached: mpsd was started in a "
       "login session that has ended; start it through launchd"},
      {{"out of memory"}, Kind::kOutOfMemory, kLess},
  };
  return table;
}

std::optional<DeviceError> FindDeviceError(std::string_view text) {
  for (const DeviceErrorRow& row : DeviceErrorTable()) {
    const bool fits = std::all_of(
        row.signs.begin(), row.signs.end(), [&](std::string_view sign) {
          return text.find(sign) != std::string_view::npos;
        });
    if (fits) return DeviceError{row.kind, std::string(row.advice)};
  }
  return std::nullopt;
}

}  // namespace mpsd::host
