// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_KIND_H_
#define MPSD_SERVER_JOBS_JOB_KIND_H_

#include <string_view>

#include "core/report/report.h"

namespace mpsd::jobs {

// What a job does with the device. Every kind is queued, started, watched,
// paused, tried again and deleted alike. To add a kind, add one line or one
// case to each of these:
//
//   JobKind of proto/mpsd/v1/job.proto, with the number it has here;
//   kJobKinds below: rows hold the number, no migration is needed;
//   CheckSubmission (submission.cc), which tells what is wrong before it runs;
//   JobKind of core/wire/messages.h and WireKind of server/supervisor;
//   RunKind (core/worker/session.cc), which runs it.
//
// The numbers are stored in the database, sent to clients and never reused: 7
// was one.
enum class JobKind {
  kTraining = 1,
  // The studies, which measure.
  kProbe = 2,
  kBatchSweep = 3,
  kDeviceComparison = 4,
  kProfile = 5,
  kSmoke = 6,
};
inline constexpr report::EnumName<JobKind> kJobKinds[] = {
    {JobKind::kTraining, "training"},
    {JobKind::kProbe, "probe"},
    {JobKind::kBatchSweep, "batch_sweep"},
    {JobKind::kDeviceComparison, "device_comparison"},
    {JobKind::kProfile, "profile"},
    {JobKind::kSmoke, "smoke"}};
inline constexpr auto kAllJobKinds = report::ValuesOf(kJobKinds);
constexpr std::string_view Name(JobKind kind) {
  return report::NameIn(kJobKinds, kind);
}
constexpr bool IsStudy(JobKind kind) { return kind != JobKind::kTraining; }

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_KIND_H_
