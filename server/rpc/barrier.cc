// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/barrier.h"

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <typeinfo>

#include "absl/strings/str_cat.h"

namespace mpsd::rpc {

absl::Status Barrier::Run(const char* rpc,
                          absl::FunctionRef<absl::Status()> work) const {
  try {
    return work();
  } catch (const std::exception& e) {
    return ReportException(rpc, typeid(e).name());
  } catch (...) {
    return ReportException(rpc, "of a type of its own");
  }
}

// Memory may have run out, so a log line that cannot be made is dropped.
absl::Status Barrier::ReportException(const char* rpc, const char* type) const
    try {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(type, nullptr, nullptr, &failed), &std::free);
  if (log_) {
    log_(
        absl::StrCat(rpc, ": exception ", failed == 0 ? readable.get() : type));
  }
  return absl::InternalError(absl::StrCat(
      rpc,
      " failed with an internal error of mpsd; its log names the exception"));
} catch (...) {
  return absl::Status(absl::StatusCode::kInternal, "");
}

}  // namespace mpsd::rpc
