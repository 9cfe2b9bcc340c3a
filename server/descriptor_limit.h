// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DESCRIPTOR_LIMIT_H_
#define MPSD_SERVER_DESCRIPTOR_LIMIT_H_

namespace mpsd {

// Raises the number of files and connections that this process may have open,
// as far as the system allows and to at most 65,536; shells start programs with
// as few as 256. Returns the limit in effect.
int RaiseDescriptorLimit();

// The first descriptor number that no connection gets when `limit` descriptors
// may be open. The numbers from this one on are reserved for the database,
// uploads and workers.
int FirstReservedDescriptor(int limit);

}  // namespace mpsd

#endif  // MPSD_SERVER_DESCRIPTOR_LIMIT_H_
