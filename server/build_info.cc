// SPDX-License-Identifier: Apache-2.0
#include "server/build_info.h"

// Defines kBuildCommit; server/build_commit.cmake writes it.
#include "build_commit.inc"

namespace mpsd {

std::map<std::string, std::string> BuildInfo() {
  return {{"version", MPSD_VERSION},
          {"compiler", __VERSION__},
          {"commit", kBuildCommit},
          {"torch", MPSD_TORCH_VERSION}};
}

}  // namespace mpsd
