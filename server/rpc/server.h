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
#include "server/jobs/exported_calls.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_reader.h"
#include "server/rpc/daemon_facts.h"

namespace mpsd::rpc {

struct Options {
  // "unix:/path/mpsd.sock" or "127.0.0.1:7433"; port 0 takes a free port. Only
  // its owner may use a unix socket (0600); a stale socket is replaced.
  std::vector<std::string> addresses;
  int max_receive_bytes = 32 << 20;  // the largest message
  int max_send_bytes = 64 << 20;
  absl::Duration keepalive = absl::Minutes(1);
  // Threads for Submit, for Cancel and Retry (which wait for the store where it
  // hangs), and for the calls that only read; and how many calls of each kind
  // may wait for a thread, where Cancel and Retry share the number of the
  // reading calls. Further calls get UNAVAILABLE.
  int submit_threads = 2;
  int change_threads = 2;
  int read_threads = 4;
  int max_waiting_submits = 64;
  int max_waiting_reads = 256;
  // The most uploads at a time, in all and from one machine; the same for
  // downloads. Further calls get UNAVAILABLE.
  int max_uploads = 64;
  int max_uploads_of_peer = 32;
  // After this time the server ends an upload that received nothing, or a
  // download of which the client read nothing.
  absl::Duration upload_idle = absl::Minutes(2);
  absl::Duration download_idle = absl::Minutes(10);
  // After this time the server closes a connection without a call; a connection
  // that speaks no HTTP/2 is closed sooner.
  absl::Duration connection_idle = absl::Minutes(10);
  absl::Duration handshake = absl::Seconds(10);
  // The first descriptor number that no connection gets; see
  // listener::Listener.
  int max_descriptor = 1 << 30;
  // Gets a line for each fault in mpsd itself; called on any thread.
  std::function<void(const std::string&)> log = {};
  // Gets every call; must outlive the server. Null: nobody counts.
  jobs::ExportedCalls* calls = nullptr;
  // How often the server looks at a log that a client follows, where nothing
  // else wakes the stream.
  absl::Duration log_poll_interval = absl::Milliseconds(500);
};

// The API over gRPC: JobService, ArtifactService, DaemonService, the standard
// health service (SERVING between Start and Shutdown) and reflection. No call
// has a thread of its own, and none of our threads waits for a thread of
// gRPC's. Thread-safe.
class RpcServer {
 public:
  // The borrowed objects must outlive the server.
  RpcServer(Options options, jobs::JobManager& manager, jobs::JobReader& reader,
            jobs::BlobUploads& blobs, DaemonFacts facts);
  ~RpcServer();  // calls Shutdown(zero)
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Listens and serves. Called once. Names the address in its errors:
  // InvalidArgument for an address that cannot work (a socket path too long for
  // the system), Unavailable for an address that is taken.
  absl::Status Start();

  // The addresses for clients, with the real ports. After Start.
  const std::vector<std::string>& addresses() const {
    base::Check(!bound_.empty(), "Start comes before addresses");
    return bound_;
  }

  // Takes no new call, ends watchers, followers and submits with UNAVAILABLE,
  // lets other calls finish for up to `grace` and then cancels them. Returns
  // once every call has ended. Harmless to repeat.
  void Shutdown(absl::Duration grace);

 private:
  struct Services;

  const Options options_;
  std::vector<std::string> bound_;
  std::unique_ptr<Services> services_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_SERVER_H_
