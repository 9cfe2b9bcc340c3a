// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_kind.h"

namespace mpsd::jobs {

std::string_view Name(JobKind kind) {
  switch (kind) {
    case JobKind::kTraining:
      return "training";
  }
  return "unknown";
}

std::optional<JobKind> JobKindNumbered(int64_t number) {
  for (JobKind kind : kAllJobKinds) {
    if (static_cast<int64_t>(kind) == number) return kind;
  }
  return std::nullopt;
}

}  // namespace mpsd::jobs
