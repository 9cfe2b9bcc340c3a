// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_COMPLETION_H_
#define MPSD_CLIENT_COMPLETION_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mpsd::client {

// The shells that CompletionScript knows.
std::vector<std::string> CompletionShells();

// The completion script of `app` for one of CompletionShells(), made from its
// verbs and options. The script completes verbs, options, files and, where a
// verb takes kJobIdName, the ids that `mpsctl list --quiet` prints.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_COMPLETION_H_
