// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace mpsd {

// What this program was built from:
//
//   version    mpsd's
//   compiler   the compiler's own words
//   commit     of the checkout, with "-dirty" if files differed from it;
//              "unknown" outside a checkout
//   torch      the version that mpsd-worker is linked with; "unknown" if the
//              package does not report it
std::map<std::string, std::string> BuildInfo();

}  // namespace mpsd
