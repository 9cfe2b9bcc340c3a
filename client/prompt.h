// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_PROMPT_H_
#define MPSD_CLIENT_PROMPT_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::client {

enum class Echo {
  kOn,
  kOff,  // for secrets: what is typed is not shown
};

// Asks a person for one line on the terminal `device`, as standard input and
// output may be files. The line lacks its end. Without echo the terminal is as
// it was before on every way out: Ctrl-C, SIGTERM and SIGHUP too.
// FailedPrecondition where there is no terminal; Cancelled for Ctrl-C without
// echo, and where the input ends.
absl::StatusOr<std::string> Ask(const std::string& question, Echo echo,
                                const char* device = "/dev/tty");

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_PROMPT_H_
