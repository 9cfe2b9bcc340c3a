// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_APP_H_
#define MPSD_CLIENT_APP_H_

#include <ostream>
#include <string>
#include <vector>

#include "client/console.h"

namespace mpsd::client {

// Runs mpsctl; `args` excludes the program's name. Returns the exit code
// (console.h), which also reports a failed write to `out`. Reads MPSD_SERVER,
// MPSD_STATE_DIR, HOME and USER.
int Run(const std::vector<std::string>& args, std::ostream& out,
        std::ostream& err, const Terminal& terminal);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_APP_H_
