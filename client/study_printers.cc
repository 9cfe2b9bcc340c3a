// SPDX-License-Identifier: Apache-2.0
#include "client/compare_devices.h"
#include "client/probe.h"
#include "client/profile_text.h"
#include "client/smoke.h"
#include "client/study.h"
#include "client/sweep_batch.h"

namespace mpsd::client {

// A study whose kind has no printer shows its findings alone.
void PrintAnyStudy(const v1::StudyResult& result, const Console& console) {
  switch (result.result_case()) {
    case v1::StudyResult::kProbe:
      return PrintProbe(result, console);
    case v1::StudyResult::kBatchSweep:
      return PrintBatchSweep(result, console);
    case v1::StudyResult::kDeviceComparison:
      return PrintDeviceComparison(result, console);
    case v1::StudyResult::kProfile:
      return PrintProfile(result, console);
    case v1::StudyResult::kSmoke:
      return PrintSmoke(result, console);
    default:
      return;
  }
}

}  // namespace mpsd::client
