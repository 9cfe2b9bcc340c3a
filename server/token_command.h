// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_TOKEN_COMMAND_H_
#define MPSD_SERVER_TOKEN_COMMAND_H_

#include <ostream>
#include <string>
#include <vector>

namespace mpsd {

// `mpsd token create|list|revoke`: the tokens of the state folder's daemon,
// whether it runs or not. `args` come without "token". Returns the exit code:
// 0; 64 (EX_USAGE) for what the command line has wrong; 69 (EX_UNAVAILABLE) for
// everything else.
int TokenCommand(const std::vector<std::string>& args, std::ostream& out,
                 std::ostream& err);

}  // namespace mpsd

#endif  // MPSD_SERVER_TOKEN_COMMAND_H_
