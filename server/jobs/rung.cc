// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/rung.h"

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {

std::string DescribeRung(const Job& job) {
  return absl::StrCat(
      "waits for its rung: the other jobs of its sweep reach "
      "step ",
      job.until_step, " first");
}

}  // namespace mpsd::jobs
