// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_WATCH_STREAM_H_
#define MPSD_SERVER_RPC_WATCH_STREAM_H_

#include <memory>

#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/source_stream.h"

namespace mpsd::rpc {

// Implements JobService.Watch: sends the job's events after
// request.after_sequence. The stream reads them from the board page by page, so
// that a slow client costs one page of memory.
std::unique_ptr<Source<v1::JobEvent>> MakeWatchSource(
    jobs::JobReader& reader, const v1::WatchRequest& request, Wake wake);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_WATCH_STREAM_H_
