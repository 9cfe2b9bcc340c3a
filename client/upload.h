// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_UPLOAD_H_
#define MPSD_CLIENT_UPLOAD_H_

#include <vector>

#include "client/console.h"
#include "client/inputs.h"

namespace mpsd::client {

// Sends the files whose bytes the daemon does not have yet: each content once,
// small files together, with a progress bar over all bytes on a terminal. Waits
// some seconds for a daemon that answers that it is busy.
grpc::Status Upload(const Console& console,
                    const std::vector<LocalFile>& files);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_UPLOAD_H_
