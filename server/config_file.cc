// SPDX-License-Identifier: Apache-2.0
#include "server/config_file.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/user_limit_options.h"

namespace mpsd {

std::vector<CLI::ConfigItem> ConfigFile::from_config(
    std::istream& input) const {
  std::vector<CLI::ConfigItem> items;
  CLI::ConfigItem environment{{}, "environment", {}};
  CLI::ConfigItem users{{}, "user-limit", {}};
  for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(input)) {
    if (TakeUserTable(item, users)) continue;
    if (item.parents != std::vector<std::string>{"environment"}) {
      items.push_back(std::move(item));
    } else if (item.name != "++" && item.name != "--") {
      for (const std::string& value : item.inputs) {
        environment.inputs.push_back(absl::StrCat(item.name, "=", value));
      }
    }
  }
  if (!environment.inputs.empty()) items.push_back(environment);
  if (!users.inputs.empty()) items.push_back(users);
  return items;
}

}  // namespace mpsd
