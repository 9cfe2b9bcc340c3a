// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_MACHINE_FAULT_H_
#define MPSD_CORE_BASE_MACHINE_FAULT_H_

#include "absl/status/status.h"

namespace mpsd::base {

// The errno that ErrnoStatus (file.h) made `status` of, however it was handed
// on since; 0 for a status of another making, or whose text was put in another.
int ErrnoOf(const absl::Status& status);

// `status`, to be known by ErrnoOf.
absl::Status WithErrno(absl::Status status, int error);

// Whether who met `error` may fare better later with nothing of their own
// changed: a full disk or quota, no descriptor left, a device that fails or is
// gone, a volume that went read-only. Want of memory is none of them: that may
// well be the asker's own.
bool IsMachineFault(int error);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_MACHINE_FAULT_H_
