// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_UPLOAD_H_
#define MPSD_CLIENT_UPLOAD_H_

#include <vector>

#include "client/console.h"
#include "client/hash_files.h"

namespace mpsd::client {

// Sends the files whose bytes the daemon does not have yet: each content once,
// small files together, large ones from where an earlier upload broke off, with
// a progress bar over all bytes on a terminal. Waits some seconds for a daemon
// that answers that it is busy. A connection that breaks is made again for ten
// minutes, and longer as long as bytes get through; one that cannot be made at
// first is an error at once.
grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_UPLOAD_H_
