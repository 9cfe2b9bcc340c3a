// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_ENVIRONMENT_TABLE_H_
#define MPSD_SERVER_DOCTOR_ENVIRONMENT_TABLE_H_

#include <optional>
#include <string>
#include <vector>

#include "server/doctor/facts.h"

namespace mpsd::doctor {

// One variable that matters, where it was looked for; absent where that place
// has none. A value that may be a secret is "set". Texts are as Foreign.
struct Variable {
  std::string name;
  // `service`: of mpsd.toml where that names the variable, too.
  std::optional<std::string> service, daemon, expected, worker;
  // What drifted, for people; empty: nothing did.
  std::string drift;
};

// The variables that matter of the service's file (and mpsd.toml's
// [environment], which goes before it), the daemon and the worker,
// by name, at most 100: those that drifted are never left out for others. A
// variable drifted
//
//   - where mpsd is the service, and has another value than the file, or has
//     one that the file does not name (the locale's and the time zone's, which
//     the service manager itself may set, are no drift);
//   - where the worker told its own, and has another value than mpsd gives it.
std::vector<Variable> CompareEnvironments(const Facts& facts);

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_ENVIRONMENT_TABLE_H_
