// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_SERVICE_FILE_H_
#define MPSD_SERVER_PLANNER_SERVICE_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/environment.h"
#include "server/planner/doctor_facts.h"

namespace mpsd::doctor {

// The process settings of a systemd unit: Environment=, LimitNOFILE=,
// TimeoutStopSec=. `texts`: the unit and its drop-ins, in their order; later
// ones override, and an empty assignment resets.
Service ParseUnit(const std::vector<std::string>& texts);

// The same for launchd's property list, in XML: EnvironmentVariables,
// ProcessType, SoftResourceLimits, ExitTimeOut. All absent if the text is not
// such a list, for example a binary one.
Service ParsePlist(const std::string& text);

// Where deploy/install.sh puts the file, the machine's before a user's.
struct ServicePlaces {
  std::filesystem::path root = "/";  // of the machine
  std::filesystem::path home;        // of mpsd's user
  bool launchd = false;
};

// Reads the file that starts mpsd. `daemon` and `cgroup`, the text of
// /proc/self/cgroup ("" on a Mac), show whether the running daemon is that
// service. Service::file is empty if there is none.
Service FindService(const ServicePlaces& places,
                    const host::Environment& daemon, std::string_view cgroup);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_PLANNER_SERVICE_FILE_H_
