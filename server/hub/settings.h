// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_SETTINGS_H_
#define MPSD_SERVER_HUB_SETTINGS_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::hub {

// From where models are pulled; by default from nowhere.
struct Settings {
  std::string url;  // http or https; empty: pulls are off
  // Holds the token that the hub gets with each request; empty: none. Read at
  // the beginning of each pull, so that a new one counts at once.
  std::filesystem::path token_file;
  // PEM certificates that the hub's server, and those to which it redirects,
  // are held to in place of the system's; empty: the system's.
  std::filesystem::path ca_file;
  // Lets the hub redirect to private, link-local and loopback addresses, and a
  // proxy of the environment stand between.
  bool allow_private = false;

  bool operator==(const Settings&) const = default;
};

// InvalidArgument names the option and says what it takes. Opens no file and
// reaches no network.
absl::Status CheckSettings(const Settings& settings);

// The token in the file; "" where there is no file. InvalidArgument where it is
// not one line of printable characters, else the errors of
// base::ReadSecretFile.
absl::StatusOr<std::string> ReadToken(const std::filesystem::path& path);

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_SETTINGS_H_
