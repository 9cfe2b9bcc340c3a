// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>

#include "core/host/mounts.h"

namespace mpsd::host {

std::vector<Mount> ListMounts() {
  std::ifstream file("/proc/self/mounts");
  return ParseMounts(std::string(std::istreambuf_iterator<char>(file), {}));
}

}  // namespace mpsd::host
