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
    // It would end the same way again: less at a time is needed.
    kOutOfMemory,
    // The job asks for what this device cannot do.
    kUnsupported,
    // The job's data point beyond a table of its model.
    kBadIndex,
    // The machine's; from the last checkpoint it may well go on.
    kTransient,
  };
  Kind kind = Kind::kTransient;
  std::string advice;  // a sentence for people, without a full stop
};

// One kind of error, by words that only its text has; all must occur.
struct DeviceErrorRow {
  std::vector<std::string_view> signs;
  DeviceError::Kind kind;
  std::string_view advice;
};

// Every text that is known, the more special before the more general: of
// exceptions out of torch (MPS, CUDA, the CPU's allocator), of Metal's command
// buffers, of assertions that end the process, of the worker's own checks.
const std::vector<DeviceErrorRow>& DeviceErrorTable();

// Of an exception's text, or of the end of a worker's log; the first row that
// fits, nullopt where none does.
std::optional<DeviceError> FindDeviceError(std::string_view text);

}  // namespace mpsd::host

#endif  // MPSD_CORE_HOST_DEVICE_ERROR_H_
