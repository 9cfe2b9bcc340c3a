// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_IMPORT_SHELL_WORDS_H_
#define MPSD_CLIENT_IMPORT_SHELL_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::client {

// The commands of a shell script, each as its words: quotes, backslashes,
// continued lines and comments as POSIX has them. NAME=value before a command
// and `export NAME=value` set what $NAME and ${NAME} stand for; the environment
// does not. The function runs nothing and leaves patterns as they are.
//
// InvalidArgument, with the line, for a quote that does not end, a variable
// that the text does not set, and a command within a command.
absl::StatusOr<std::vector<std::vector<std::string>>> ShellCommands(
    std::string_view text);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_IMPORT_SHELL_WORDS_H_
