// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONSOLE_H_
#define MPSD_CLIENT_CONSOLE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/exit_code.h"
#include "client/terminal.h"

namespace mpsd::client {

// The daemon to ask and the streams to print to; every verb gets them.
struct Console {
  std::ostream& out;  // for results
  std::ostream& err;  // for errors and hints
  const Terminal& terminal;
  Connection& daemon;
  bool json = false;  // print results as JSON, one object a line

  // Prints `message` as one line of JSON.
  void PrintJson(const google::protobuf::Message& message) const;
  void PrintJson(const nlohmann::ordered_json& json) const;

  // Prints "mpsctl: <what>" and, unless empty, what to do next; returns `code`.
  ExitCode Fail(ExitCode code, const std::string& what,
                const std::string& next) const;
  // Reports a failed call: what the daemon said, or that no daemon can be
  // reached and how to start one. The code is ForStatus(status).
  ExitCode Fail(const grpc::Status& status) const;
  // Reports that no tunnel leads to the daemon (Connection::Connect).
  ExitCode FailToReach(const absl::Status& tunnel) const;
  // Reports a local failure, of a file or of the input.
  ExitCode Fail(ExitCode code, const absl::Status& status,
                const std::string& next) const;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONSOLE_H_
