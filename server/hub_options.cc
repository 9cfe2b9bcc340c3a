// SPDX-License-Identifier: Apache-2.0
#include "server/hub_options.h"

#include <cstdlib>
#include <filesystem>

#include "server/hub/settings.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

constexpr char kEndpoint[] = "HF_ENDPOINT";

std::string DefaultHub(const Config& config) {
  const auto it = config.environment.find(kEndpoint);
  if (it != config.environment.end()) return it->second;
  const char* value = std::getenv(kEndpoint);
  return value != nullptr ? value : "";
}

}  // namespace

void DeclareHub(CLI::App& app, HubOptions& options, Config& config) {
  app.add_option("--hub", options.url,
                 "https://HOST of the Hugging Face hub, or of a mirror, from "
                 "which mpsctl model pull has mpsd fetch models, or off "
                 "[HF_ENDPOINT of the environment; without it, off]");
  app.add_option("--hub-token-file", options.token_file,
                 "File of mode 0600 with the token that the hub gets, for "
                 "gated and private models");
  app.add_option("--hub-ca-file", options.ca_file,
                 "PEM certificates that the hub's is checked against [the "
                 "system's]");
  app.add_flag("--hub-allow-private", config.hub.allow_private,
               "Follow the hub's redirects to private, link-local and "
               "loopback addresses, and use the proxy of the environment");
}

absl::Status FinishHub(const HubOptions& options, Config& config) {
  hub::Settings& hub = config.hub;
  hub.url = options.url.empty() ? DefaultHub(config) : options.url;
  if (hub.url == "off") hub.url.clear();
  if (!options.token_file.empty()) {
    hub.token_file = fs::absolute(options.token_file);
  }
  if (!options.ca_file.empty()) hub.ca_file = fs::absolute(options.ca_file);
  return hub::CheckSettings(hub);
}

}  // namespace mpsd
