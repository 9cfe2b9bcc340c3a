// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_CONFIG_FILE_H_
#define MPSD_SERVER_CONFIG_FILE_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <vector>

namespace mpsd {

// The TOML file that --config names. Reads the table [environment] as the
// option of that name, one NAME=VALUE per key, and the tables [user.NAME] as
// --user-limit.
class ConfigFile : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_CONFIG_FILE_H_
