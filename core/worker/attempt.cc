// SPDX-License-Identifier: Apache-2.0
#include "core/worker/attempt.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <optional>
#include <string>

#include "core/host/device_error.h"

namespace mpsd::worker {
namespace {

bool IsOutOfMemory(const std::string& text) {
  const std::optional<host::DeviceError> error = host::FindDeviceError(text);
  return error && error->kind == host::DeviceError::Kind::kOutOfMemory;
}

}  // namespace

absl::Status Attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (!IsOutOfMemory(text)) throw;
    return absl::ResourceExhaustedError(text);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host is out of memory");
  } catch (const std::exception& e) {
    const std::string text = e.what();
    if (!IsOutOfMemory(text)) throw;
    return absl::ResourceExhaustedError(text);
  }
  return absl::OkStatus();
}

}  // namespace mpsd::worker
