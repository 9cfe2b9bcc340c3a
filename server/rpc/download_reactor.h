// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_DOWNLOAD_REACTOR_H_
#define MPSD_SERVER_RPC_DOWNLOAD_REACTOR_H_

#include <memory>

#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/job_manager.h"
#include "server/rpc/source_stream.h"

namespace mpsd::rpc {

// Implements ArtifactService.Download: sends the requested regular files,
// sorted by name, each as a header with the SHA-256 and then its bytes in
// chunks of 1 MiB. Reads only folders inside the job's own and follows no
// symbolic link. A file that disappears or changes meanwhile ends the stream
// with ABORTED.
std::unique_ptr<Source<v1::DownloadResponse>> MakeDownloadSource(
    jobs::JobReader& reader, const v1::DownloadRequest& request);

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_DOWNLOAD_REACTOR_H_
