// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_KIND_H_
#define MPSD_SERVER_JOBS_JOB_KIND_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace mpsd::jobs {

// What a job does with the device. Every kind is queued, started, watched,
// paused, tried again and deleted alike. To add a kind, add one line or one
// case to each of these:
//
//   JobKind of proto/mpsd/v1/jobs.proto, with the number it has here;
//   kAllJobKinds and Name below: rows hold the number, no migration is needed;
//   CheckSubmission (submission.cc), which tells what is wrong before it runs;
//   JobKind of core/wire/messages.h and WireKind of server/supervisor;
//   RunKind (core/worker/session.cc), which runs it.
//
// The numbers are stored in the database, sent to clients and never reused.
enum class JobKind {
  kTraining = 1,
};
inline constexpr JobKind kAllJobKinds[] = {JobKind::kTraining};

std::string_view Name(JobKind kind);  // "training"
// nullopt for a number that no kind of this mpsd has.
std::optional<JobKind> JobKindNumbered(int64_t number);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_KIND_H_
