// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_OPTIONS_H_
#define MPSD_SERVER_ACCESS_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "server/config.h"

namespace mpsd {

// The options of the addresses and of access to them, as CLI11 fills them in;
// others go directly into the Config.
struct AccessOptions {
  std::string tls_cert, tls_key;
};

// `options` and `config` must outlive the parse.
void DeclareAccess(CLI::App& app, AccessOptions& options, Config& config);

// Fills in the certificates: the given ones, else those that "mpsd tls init"
// made in STATE/tls, if they exist. config.state_dir is set. InvalidArgument
// names the option.
absl::Status FinishAccess(const AccessOptions& options, Config& config);

}  // namespace mpsd

#endif  // MPSD_SERVER_ACCESS_OPTIONS_H_
