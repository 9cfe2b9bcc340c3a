// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpsd::host {

// What a device's error text means for the job.
struct DeviceError {
  enum class Kind {
    // Another attempt would fail the same way: the job needs smaller batches.
    kOutOfMemory,
    // The job needs something that this device does not support.
    kUnsupported,
    // The job's data index beyond a table of its model.
    kBadIndex,
    // The machine's fault: the job may well resume from its last checkpoint.
    kTransient,
  };
  Kind kind = Kind::kTransient;
  std::string advice;  // a human-readable sentence, without a full stop
};

// One kind of error and the words that identify it; all must occur in the text.
struct DeviceErrorRow {
  std::vector<std::string_view> signs;
  DeviceError::Kind kind;
  std::string_view advice;
};

// All known errors, specific ones before general ones: torch's exceptions (MPS,
// CUDA, the CPU's allocator), Metal's command buffers, assertions that end the
// process and the worker's own checks.
const std::vector<DeviceErrorRow>& DeviceErrorTable();

// Classifies an exception's text, or the end of a worker's log, by the first
// matching row; nullopt if no row matches.
std::optional<DeviceError> FindDeviceError(std::string_view text);

}  // namespace mpsd::host
