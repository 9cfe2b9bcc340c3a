// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_UPLOAD_H_
#define MPSD_CLIENT_UPLOAD_H_

#include <vector>

#include "client/console.h"
#include "client/hash_files.h"

namespace mpsd::client {

// Sends the files whose bytes the daemon does not have yet: each content once,
// small files together, large ones from where an earlier upload was
// interrupted, with a progress bar over all bytes on a terminal. Waits some
// seconds for a daemon that reports to be busy. A broken connection is retried
// for ten minutes, and longer as long as bytes get through; a connection that
// fails at the start is an error at once.
grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_UPLOAD_H_
