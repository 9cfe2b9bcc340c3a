// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_SERVICE_FILE_H_
#define MPSD_SERVER_DOCTOR_SERVICE_FILE_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/host/environment.h"
#include "server/doctor/facts.h"

namespace mpsd::doctor {

// What a unit of systemd says of the process: Environment=, LimitNOFILE=,
// TimeoutStopSec=. `texts`: the unit and its drop-ins, in their order; what
// comes later wins, and an empty assignment takes back what came before.
Service ParseUnit(const std::vector<std::string>& texts);

// The same of launchd's property list, in XML: EnvironmentVariables,
// ProcessType, SoftResourceLimits, ExitTimeOut. Without any of them where the
// text is no such list, a binary one say.
Service ParsePlist(const std::string& text);

// Where deploy/install.sh puts the file, the machine's before a user's.
struct ServicePlaces {
  std::filesystem::path root = "/";  // of the machine
  std::filesystem::path home;        // of mpsd's user
  bool launchd = false;
};

// Reads the file that starts mpsd. `daemon` and `cgroup`, the text of
// /proc/self/cgroup ("" on a Mac), tell whether the running daemon is that
// service. Service::file is empty where there is none.
Service FindService(const ServicePlaces& places,
                    const host::Environment& daemon, std::string_view cgroup);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_SERVICE_FILE_H_
