// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_BARRIER_H_
#define MPSD_SERVER_RPC_BARRIER_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace mpsd::rpc {

// Where an exception of a handler ends, one call with it and nothing else.
// gRPC would answer UNIMPLEMENTED, or end the process. Thread-safe.
class Barrier {
 public:
  // `log` gets a line per exception: the RPC and the exception's type, never
  // its text, in which may stand what a user sent.
  explicit Barrier(std::function<void(const std::string&)> log = {})
      : log_(std::move(log)) {}

  // What `work` returns; INTERNAL where it throws.
  absl::Status Run(const char* rpc,
                   absl::FunctionRef<absl::Status()> work) const;

 private:
  absl::Status Caught(const char* rpc, const char* type) const;

  std::function<void(const std::string&)> log_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_BARRIER_H_
