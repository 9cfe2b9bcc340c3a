// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/hold.h"

namespace mpsd::jobs {

std::string_view Name(HoldReason reason) {
  switch (reason) {
    case HoldReason::kStorage:
      return "storage";
    case HoldReason::kDisk:
      return "disk";
    case HoldReason::kMachine:
      return "machine";
    case HoldReason::kDevice:
      return "device";
  }
  return "unknown";
}

}  // namespace mpsd::jobs
