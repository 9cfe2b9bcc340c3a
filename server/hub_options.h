// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_OPTIONS_H_
#define MPSD_SERVER_HUB_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "server/config.h"

namespace mpsd {

// The options of pulls as CLI11 fills them in.
struct HubOptions {
  std::string url, token_file, ca_file;
};

// Fills in `options` and the flags of config.hub.
void DeclareHub(CLI::App& app, HubOptions& options, Config& config);

// Completes config.hub; config.environment is complete. Without --hub the hub
// is the one that huggingface_hub would ask, HF_ENDPOINT; "off" is none.
// InvalidArgument names the option.
absl::Status FinishHub(const HubOptions& options, Config& config);

}  // namespace mpsd

#endif  // MPSD_SERVER_HUB_OPTIONS_H_
