// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_SERVER_H_
#define MPSD_SERVER_RPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/daemon_facts.h"

namespace mpsd::rpc {

struct Options {
  // "unix:/path/mpsd.sock" or "127.0.0.1:7433"; port 0 takes a free one. A
  // unix socket is for its owner alone (0600), and a stale one is replaced.
  std::vector<std::string> addresses;
  int max_receive_bytes = 32 << 20;  // of one message
  int max_send_bytes = 64 << 20;
  absl::Duration keepalive = absl::Minutes(1);
  // Threads of Submit, of Cancel and Retry (which wait for the store
  // where it hangs), and of the calls that only look; and how many of each kind
  // may wait for one, of the second as many as of the last. A call beyond that
  // gets UNAVAILABLE.
  int submit_threads = 2;
  int change_threads = 2;
  int read_threads = 4;
  int max_waiting_submits = 64;
  int max_waiting_reads = 256;
  // Uploads at a time, in all and of one machine; downloads as well. Those
  // beyond get UNAVAILABLE.
  int max_uploads = 64;
  int max_uploads_of_peer = 32;
  // An upload of which nothing comes, or a download of which nothing is taken,
  // ends after so long.
  absl::Duration upload_idle = absl::Minutes(2);
  absl::Duration download_idle = absl::Minutes(10);
  // A connection without a call is closed after so long, one that speaks no
  // HTTP/2 sooner.
  absl::Duration connection_idle = absl::Minutes(10);
  absl::Duration handshake = absl::Seconds(10);
  // The first descriptor that no connection gets, as Listener has it.
  int max_descriptor = 1 << 30;
  // Gets a line for what went wrong in mpsd itself; any thread.
  std::function<void(const std::string&)> log = {};
  // How often a followed log is looked at where nothing woke the stream.
  absl::Duration log_poll_interval = absl::Milliseconds(500);
};

// The API over gRPC: JobService, ArtifactService, DaemonService, the standard
// health service (SERVING between Start and Shutdown) and reflection. No thread
// per call, and none of ours waits on a thread of gRPC's. Thread-safe.
class RpcServer {
 public:
  // The borrowed objects must outlive the server.
  RpcServer(Options options, jobs::JobManager& manager, jobs::JobReader& reader,
            jobs::BlobUploads& blobs, DaemonFacts facts);
  ~RpcServer();  // Shutdown(zero)
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Listens and serves; once. InvalidArgument for an address that cannot be
  // (a socket path too long for the system), Unavailable for one that is taken,
  // naming it.
  absl::Status Start();

  // What clients connect to, ports filled in. After Start.
  const std::vector<std::string>& addresses() const {
    base::Check(!bound_.empty(), "Start comes before addresses");
    return bound_;
  }

  // Takes no new call, ends watchers, followers and submits with UNAVAILABLE,
  // lets other calls finish for up to `grace` and then cancels them. Returns
  // once no call is left. Harmless to repeat.
  void Shutdown(absl::Duration grace);

 private:
  struct Parts;

  const Options options_;
  std::vector<std::string> bound_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SERVER_H_
