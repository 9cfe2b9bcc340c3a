// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DOCTOR_EXAMINER_H_
#define MPSD_SERVER_DOCTOR_EXAMINER_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/doctor/facts.h"

namespace mpsd::doctor {

// Gathers the facts. Thread-safe.
class Examiner {
 public:
  virtual ~Examiner() = default;

  // Takes seconds: a worker is started to look, unless one looked a moment ago.
  // Only one caller at a time has one started; others wait and get the same
  // answer. With `deep` the disk is measured, too, and the self-test of the
  // device begins, unless a job has the device or a test runs; nobody waits for
  // its end. `wanted` is asked from time to time; where it is not OK, so is the
  // result.
  virtual absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) = 0;
};

}  // namespace mpsd::doctor

#endif  // MPSD_SERVER_DOCTOR_EXAMINER_H_
