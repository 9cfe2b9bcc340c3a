// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_CONFIG_CHANGES_H_
#define MPSD_SERVER_CONFIG_CHANGES_H_

#include <string>
#include <vector>

#include "server/config.h"

namespace mpsd {

// The keys whose values differ, as --help spells them without the dashes.
struct ConfigChanges {
  std::vector<std::string> live;     // take effect while mpsd runs
  std::vector<std::string> restart;  // take effect when mpsd starts
};
ConfigChanges CompareConfigs(const Config& before, const Config& after);

// Every key, and whether a new value takes effect while mpsd runs.
struct ConfigKey {
  const char* name;
  bool live;
};
std::vector<ConfigKey> ConfigKeys();

// `running`, with the values of `next` for every key that takes effect while
// mpsd runs.
Config WithLiveKeys(Config running, const Config& next);

}  // namespace mpsd

#endif  // MPSD_SERVER_CONFIG_CHANGES_H_
