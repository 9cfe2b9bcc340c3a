// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {

// JobService.Watch: sends the job's events after
// request.after_sequence. The stream reads them from the board page by page, so
// that a slow client costs one page of memory.
std::unique_ptr<Source<v1::JobEvent>> MakeWatchSource(
    jobs::JobReader& reader, const v1::WatchRequest& request, Wake wake);

// JobService.Logs: sends the job's log file from
// request.offset_bytes on, in chunks of at most 64 KiB. The worker writes the
// file without notifying the daemon, so a stream that follows the log polls the
// file every `poll_interval`. A missing file counts as empty.
std::unique_ptr<Source<v1::LogChunk>> MakeLogSource(
    jobs::JobReader& reader, const v1::LogsRequest& request,
    absl::Duration poll_interval, Wake wake);

}  // namespace mpsd::rpc
