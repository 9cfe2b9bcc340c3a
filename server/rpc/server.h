// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/monitor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/grpcpp.h"
#include "server/access/audit_trail.h"
#include "server/access/token_book.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/user_limits.h"
#include "server/models/model_book.h"
#include "server/planner/doctor.h"
#include "server/planner/plan_maker.h"
#include "server/rpc/daemon_calls.h"
#include "server/rpc/gate.h"
#include "server/rpc/listener.h"
#include "server/rpc/pki.h"
#include "server/rpc/records.h"
#include "server/store/blob_store.h"

namespace mpsd::rpc {

struct TlsOptions {
  tls::ServerFiles files;
  // The server's own folder (0700), created if missing. gRPC watches the files
  // in it, and refuses every connection while one of them is broken: the user's
  // files are read, checked and then copied there.
  std::filesystem::path served;
};

// Ensures that TLS older than 1.3 finds no cipher in this process, for which
// gRPC 1.51 has no setting. Sets an environment variable: call it before any
// thread is started.
void RefuseOldTls();

inline constexpr char kUnknownMethod[] = "unknown";

struct Options {
  // "unix:/path/mpsd.sock" or "127.0.0.1:7433"; port 0 takes a free port. Only
  // its owner may use a unix socket (0600); a stale socket is replaced.
  std::vector<std::string> addresses;
  // The group whose members may use the unix sockets, too (0660).
  std::optional<gid_t> socket_group = {};
  KnownCallers callers = {};
  // Certificates of the ports. Without them a port is served only on loopback,
  // in plain text.
  std::optional<TlsOptions> tls = {};
  int max_receive_bytes = 32 << 20;  // the largest message
  int max_send_bytes = 64 << 20;
  absl::Duration keepalive = absl::Minutes(1);
  // Threads for Submit, for Cancel and the like (which wait for a store that
  // hangs), and for the calls that only read; and how many calls of each kind
  // may wait for a thread, where Cancel and the like share the number of the
  // reading calls. Further calls get UNAVAILABLE. One user gets all threads but
  // one, and three quarters of what may wait.
  int submit_threads = 3;
  int change_threads = 3;
  int read_threads = 4;
  int max_waiting_submits = 64;
  int max_waiting_reads = 256;
  // The maximum number of concurrent watchers and followers of logs of one
  // user, of 1,024 in all. Further calls get UNAVAILABLE.
  int max_streams_of_user = 256;
  // The maximum number of concurrent uploads, in all and of one user; the same
  // for downloads. Further calls get UNAVAILABLE.
  int max_uploads = 64;
  int max_uploads_of_user = 32;
  // After this time the server ends an upload that received nothing, or a
  // download or an answer of which the client read nothing.
  absl::Duration upload_idle = absl::Minutes(2);
  absl::Duration download_idle = absl::Minutes(10);
  // After this time the server closes a connection without a call; a connection
  // that speaks no HTTP/2 is closed sooner.
  absl::Duration connection_idle = absl::Minutes(10);
  absl::Duration handshake = absl::Seconds(10);
  // After this time it closes a connection to a port on which no call came with
  // a token that it knows; see listener::Listener. A call counts before its
  // request has come.
  absl::Duration stranger_age = absl::Seconds(10);
  // The first descriptor number that no connection gets; see
  // listener::Listener.
  int max_descriptor = 1 << 30;
  // Hides the spec, log, results … of a job from all but the job's owner and
  // admins (access::Rights::MayRead).
  bool private_jobs = false;
  // What the API works on; each must outlive the server.
  jobs::UserLedger* ledger = nullptr;
  jobs::Collector* collector = nullptr;
  const jobs::LimitSettings* limits = nullptr;
  access::AuditLog* audit = nullptr;
  access::TokenBook* tokens = nullptr;
  access::AuditStore* audit_entries = nullptr;
  models::ModelBook* models = nullptr;
  records::JobRecords* records = nullptr;
  models::Puller* puller = nullptr;
  planner::Planner* planner = nullptr;
  doctor::Examiner* examiner = nullptr;
  // Gets every call, those of methods that do not exist as kUnknownMethod.
  jobs::ExportedCalls* calls = nullptr;
  // Gets a line for each fault in mpsd itself; called on any thread.
  std::function<void(const std::string&)> log = {};
  // How often the server polls a log that a client follows, if nothing else
  // wakes the stream.
  absl::Duration log_poll_interval = absl::Milliseconds(500);
};

// The API over gRPC: JobService, ArtifactService, DaemonService, AccessService,
// ModelService, RunbookService, the standard health service (SERVING between
// Start and Shutdown) and reflection. No call has a thread of its own, and none
// of our threads waits for a gRPC thread. Thread-safe.
class RpcServer {
 public:
  // The dependencies must outlive the server.
  RpcServer(Options options, jobs::Scheduler& scheduler,
            jobs::JobReader& reader, store::BlobStore& blobs,
            DaemonFacts facts);
  ~RpcServer();  // calls Shutdown(zero)
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // Takes the addresses of `options`, of which it reads only what a listener
  // needs; clients wait until Start. Its errors name the address:
  // InvalidArgument for an address that cannot work (a socket path too long for
  // the system, a port beyond loopback without certificates), Unavailable for
  // an address that is taken.
  static absl::StatusOr<std::unique_ptr<listener::Listener>> Listen(
      const Options& options);

  // Serves on `listener`, or on that of Listen if it is null. Called once. The
  // errors of Listen; those of tls::ReadServerPem; those of
  // base::WriteFileAtomic for TlsOptions::served.
  absl::Status Start(std::unique_ptr<listener::Listener> listener = nullptr);

  // The addresses for clients, with the real ports. After Start.
  const std::vector<std::string>& addresses() const {
    base::Check(!bound_.empty(), "Start comes before addresses");
    return bound_;
  }

  // Ends the streams that were opened by `credential`
  // (access::Caller::credential) with UNAUTHENTICATED, and returns how many;
  // its connections are strangers' again (Options::stranger_age). Call it once
  // Options::callers no longer knows the credential.
  int EndStreams(const std::string& credential);

  // Reads the certificates again. New connections get the new certificate
  // within two seconds; open ones continue. If a file cannot be read nothing
  // changes; the errors are those of Start. OK if no port is served over TLS.
  // After Start.
  absl::Status RenewTls();
  // When the certificate of the ports expires; nullopt if none is served.
  std::optional<absl::Time> certificate_expiry() const;

  // Accepts no new call, ends watchers, followers and submits with UNAVAILABLE,
  // lets other calls finish for up to `grace` and then cancels them. Returns
  // once every call has ended. May be repeated.
  void Shutdown(absl::Duration grace);

 private:
  struct Services;

  // The entrances for the addresses, with certificates if ports need them.
  absl::Status OpenEntrances(grpc::ServerBuilder& builder);

  const Options options_;
  std::vector<std::string> bound_;
  std::unique_ptr<Services> services_;
};

// Checks a server's health, each time over a new connection as any client
// would, and reports when the server no longer answers: to a service scheduler,
// a process that does not serve looks alive. A busy disk or queue does not
// delay the answer, because the server answers health without either.
class Watchdog {
 public:
  struct Options {
    std::string address;  // one of RpcServer::addresses()
    absl::Duration interval = absl::Seconds(40);  // between checks
    absl::Duration patience = absl::Seconds(40);  // for one answer
    int tries = 3;                                // unanswered checks in a row
    // Called with the reason, once, on the watchdog's thread.
    std::function<void(const std::string& why)> deaf;
  };

  explicit Watchdog(Options options);
  // Cancels a check in progress.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Run();
  // Waits for the next check; false when the watchdog ends.
  bool Sleep();
  absl::Status Ask();

  const Options options_;
  base::Monitor mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* asking_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::thread thread_;
};

// OK when the server at `address` answers within `patience`, whatever health it
// reports.
absl::Status AskHealth(const std::string& address, absl::Duration patience,
                       grpc::ClientContext& context);

}  // namespace mpsd::rpc
