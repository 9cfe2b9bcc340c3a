// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace mpsd {

// `mpsd tls init|renew|issue|show`: the certificates in STATE/tls. `args` come
// without "tls". Returns the exit code: 0; 64 (EX_USAGE) for an error on the
// command line; 69 (EX_UNAVAILABLE) for everything else. A daemon may run
// meanwhile, and reads new files on SIGHUP.
int TlsCommand(const std::vector<std::string>& args, std::ostream& out,
               std::ostream& err);

}  // namespace mpsd
