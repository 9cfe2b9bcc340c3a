// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_MACHINE_FAULT_H_
#define MPSD_CORE_BASE_MACHINE_FAULT_H_

#include "absl/status/status.h"

namespace mpsd::base {

// The errno from which ErrnoStatus (file.h) made `status`, also after the
// status was copied or returned; 0 for any other status, including a new one
// that quotes its text.
int ErrnoOf(const absl::Status& status);

// `status` with `error` attached for ErrnoOf.
absl::Status WithErrno(absl::Status status, int error);

// Whether the same call may succeed later without any change by the caller: a
// full disk or quota, no free descriptor, a device that fails or is gone, a
// volume that became read-only. Out of memory does not count: the caller itself
// may cause it.
bool IsMachineFault(int error);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_MACHINE_FAULT_H_
