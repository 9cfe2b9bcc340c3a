// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONSOLE_H_
#define MPSD_CLIENT_CONSOLE_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/connection.h"
#include "client/exit_code.h"
#include "client/terminal.h"

namespace mpsd::client {

// What every verb gets: whom to ask and where to print.
struct Console {
  std::ostream& out;  // results
  std::ostream& err;  // errors and hints
  const Terminal& terminal;
  Connection& daemon;
  bool json = false;  // results are JSON, one object a line

  // Prints `message` as one line of JSON.
  void PrintJson(const google::protobuf::Message& message) const;

  // Prints "mpsctl: <what>" and, unless empty, what to do next; returns `code`.
  ExitCode Fail(ExitCode code, const std::string& what,
                const std::string& next) const;
  // A failed call: what the daemon said, or that it cannot be reached and how
  // to start it. The code is ForStatus(status).
  ExitCode Fail(const grpc::Status& status) const;
  // A local failure, of a file or of the input.
  ExitCode Fail(ExitCode code, const absl::Status& status,
                const std::string& next) const;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONSOLE_H_
