// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_DESCRIPTOR_LIMIT_H_
#define MPSD_SERVER_DESCRIPTOR_LIMIT_H_

namespace mpsd {

// Raises how many files and connections this process may have open, as far as
// the system lets it and no further than 65,536; shells start programs with as
// few as 256. Returns the limit that holds now.
int RaiseDescriptorLimit();

// The number of the first descriptor that no connection gets, where `limit`
// may be open: those above are for the database, uploads and workers.
int FirstReservedDescriptor(int limit);

}  // namespace mpsd

#endif  // MPSD_SERVER_DESCRIPTOR_LIMIT_H_
