// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONTEXT_FIND_H_
#define MPSD_CLIENT_CONTEXT_FIND_H_

#include <CLI/CLI.hpp>
#include <vector>

#include "client/verbs.h"
#include "core/dns_sd/search.h"

namespace mpsd::client {

// Adds `find` below the verb `context`.
void AddContextFind(CLI::App& context, Action* action);

// Prints the daemons that the network tells of. Names and texts are anybody's:
// what is no address of a daemon is left out and counted.
ExitCode PrintFound(const Console& console,
                    const std::vector<dns_sd::Service>& services);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONTEXT_FIND_H_
