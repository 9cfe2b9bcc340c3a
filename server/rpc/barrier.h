// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_BARRIER_H_
#define MPSD_SERVER_RPC_BARRIER_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace mpsd::rpc {

// Catches the exceptions of handlers, so that an exception ends only one call;
// gRPC would answer UNIMPLEMENTED or end the process. Thread-safe.
class Barrier {
 public:
  // `log` gets one line per exception: the RPC and the exception's type, never
  // its text, which may quote a user's data.
  explicit Barrier(std::function<void(const std::string&)> log = {})
      : log_(std::move(log)) {}

  // Returns the result of `work`; INTERNAL if `work` throws.
  absl::Status Run(const char* rpc,
                   absl::FunctionRef<absl::Status()> work) const;

 private:
  absl::Status ReportException(const char* rpc, const char* type) const;

  std::function<void(const std::string&)> log_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_BARRIER_H_
