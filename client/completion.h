// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_COMPLETION_H_
#define MPSD_CLIENT_COMPLETION_H_

#include <string>
#include <vector>

namespace mpsd::client {

// The shells that CompletionScript knows.
std::vector<std::string> CompletionShells();

// The completion script for one of CompletionShells(). It hands the words of
// the command line to `mpsctl complete`, which knows all the rest.
std::string CompletionScript(const std::string& shell);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_COMPLETION_H_
