// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_MACHINE_FAULT_H_
#define MPSD_CORE_BASE_MACHINE_FAULT_H_

#include "absl/status/status.h"

namespace mpsd::base {

// The errno from which ErrnoStatus (file.h) made `status`, also when the status
// was copied or returned on since; 0 for a status made otherwise, or for a new
// status that quotes its text.
int ErrnoOf(const absl::Status& status);

// `status` with `error` attached, where ErrnoOf finds it.
absl::Status WithErrno(absl::Status status, int error);

// Whether the same call may succeed later although the caller changes nothing:
// a full disk or quota, no descriptor left, a device that fails or is gone, a
// volume that went read-only. Lack of memory does not count: the caller's own
// use may cause it.
bool IsMachineFault(int error);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_MACHINE_FAULT_H_
