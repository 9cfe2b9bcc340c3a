// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_HOST_DEVICE_ERROR_H_
#define MPSD_CORE_HOST_DEVICE_ERROR_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mpsd::host {

// What a device's error text means for the job.
struct DeviceError {
  enum class Kind {
    // Another try would end the same way: the job needs smaller batches.
    kOutOfMemory,
    // The job asks for what this device cannot do.
    kUnsupported,
    // The job's data point beyond a table of its model.
    kBadIndex,
    // The machine's fault: from the last checkpoint the job may well go on.
    kTransient,
  };
  Kind kind = Kind::kTransient;
  std::string advice;  // a sentence for people, without a full stop
};

// One kind of error, known by words that only its text contains; all must
// occur.
struct DeviceErrorRow {
  std::vector<std::string_view> signs;
  DeviceError::Kind kind;
  std::string_view advice;
};

// Every known text, special ones before general ones: texts of torch's
// exceptions (MPS, CUDA, the CPU's allocator), of Metal's command buffers, of
// assertions that end the process and of the worker's own checks.
const std::vector<DeviceErrorRow>& DeviceErrorTable();

// Classifies an exception's text, or the end of a worker's log, by the first
// row that fits; nullopt where no row does.
std::optional<DeviceError> FindDeviceError(std::string_view text);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_DEVICE_ERROR_H_
