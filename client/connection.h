// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CONNECTION_H_
#define MPSD_CLIENT_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/contexts/context_store.h"
#include "client/ssh/tunnel.h"
#include "core/runbook/thresholds.h"
#include "mpsd/v1/access.grpc.pb.h"
#include "mpsd/v1/access.pb.h"
#include "mpsd/v1/artifacts.grpc.pb.h"
#include "mpsd/v1/daemon.grpc.pb.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/finding.pb.h"
#include "mpsd/v1/jobs.grpc.pb.h"
#include "mpsd/v1/models.grpc.pb.h"
#include "mpsd/v1/runbook.grpc.pb.h"

namespace mpsd::client {

class Interrupt;

// How mpsctl and a daemon behind a port come to trust each other. A socket
// needs none of this: there the kernel names the account.
struct Credentials {
  bool tls = false;  // else only this machine's loopback is spoken to
  // PEM; the daemon's certificate leads to one of these.
  std::string roots_pem = {};
  std::string token = {};    // empty: none
  std::string context = {};  // whose these are; empty: no context's
};

// Where mpsctl looks for `mpsd`.
struct Address {
  std::string target;       // in gRPC's form: "unix:/…/mpsd.sock", "host:1"
  std::string socket_path;  // the path of a unix socket, else empty
  // The way to an ssh://… target, which all connections to it share; else null.
  std::shared_ptr<ssh::Tunnel> tunnel = nullptr;
  Credentials credentials = {};
};

// Finds the daemon. `server` (--server) wins over MPSD_SERVER, which wins over
// the socket in `state_dir` (--state-dir), in MPSD_STATE_DIR and in the default
// folder, in this order; but a --state-dir on the command line wins over the
// environment. An empty argument was not given. A `server` that begins with
// "/", "./" or "../" is the path of a socket, one that begins with "ssh://" the
// URL of a daemon behind ssh (client/ssh/tunnel.h); a wrong one is what
// Connection::Connect answers.
Address FindAddress(const std::string& server, const std::string& state_dir);

// Whether `server` is meant to be ssh://[USER@]HOST[:PORT][/PATH].
bool IsBehindSsh(const std::string& server);

// ~/.local/state/mpsd on Linux, ~/Library/Application Support/mpsd on a Mac.
std::string DefaultStateDir();

// The gates of `mpsctl doctor` between this machine and the daemon's.
// `why`: empty where the daemon answered.
v1::Finding ReachableGate(const std::string& target, const std::string& why);

// mpsctl's release against the daemon's.
v1::Finding VersionGate(const std::string& mpsctl,
                        const v1::InfoResponse& info);

// The median of the times that a small call took; `times` is not empty.
v1::Finding RoundTripGate(std::vector<absl::Duration> times,
                          const runbook::Thresholds& thresholds);

// By how much the daemon's clock differs from this one: `daemon` was read just
// before the answer left, which arrived at `arrived` after half a round trip.
v1::Finding ClockGate(absl::Time daemon, absl::Time arrived,
                      absl::Duration round_trip,
                      const runbook::Thresholds& thresholds);

// nullopt where the daemon has no certificate, as without ports.
std::optional<v1::Finding> CertificateGate(
    const v1::WhoAmIResponse& who, absl::Time now,
    const runbook::Thresholds& thresholds);

absl::Duration Median(std::vector<absl::Duration> times);

// What the command line says about the daemon; empty: nothing.
struct DaemonChoice {
  std::string server;     // --server
  std::string context;    // --context
  std::string state_dir;  // --state-dir
};

// The order of precedence, as `mpsctl --help` prints it.
std::string DaemonChoiceHelp();

// The daemon that a verb talks to, with the credentials for it: --server, else
// --context, --state-dir, MPSD_SERVER, MPSD_CONTEXT, MPSD_STATE_DIR, the
// current context, the socket in the default state folder. HOST:PORT takes the
// credentials of the context that was logged in there, of several the current
// one; where there is none, the token is MPSD_TOKEN, another machine is spoken
// to by TLS with the authorities that the system trusts, and this machine's
// loopback without TLS.
// InvalidArgument for an address that is none; NotFound, InvalidArgument,
// FailedPrecondition for a context that is not there or broken, or whose files
// are.
absl::StatusOr<Address> ChooseDaemon(const DaemonChoice& choice,
                                     const ContextStore& contexts);

// The address of `context` and what it takes to be let in there.
absl::StatusOr<Address> AddressOf(const Context& context);

// The services of one daemon. The first call connects; a call fails at once
// with UNAVAILABLE where no daemon listens. Every call of every stub carries
// the address' token, which is sent over TLS or to this machine's loopback and
// nowhere else. Used by one thread.
class Connection {
 public:
  // `interrupt` breaks off what Connect and Reset wait for; it may be null.
  explicit Connection(Address address, Interrupt* interrupt = nullptr);

  // Opens the tunnel of an address behind ssh; OK at once for any other. Errors
  // are ssh::Tunnel::Open's.
  absl::Status Connect();
  // How the last attempt to open the tunnel went.
  absl::Status tunnel_status() const;

  v1::JobService::Stub& jobs() { return *jobs_; }
  v1::ArtifactService::Stub& artifacts() { return *artifacts_; }
  v1::DaemonService::Stub& daemon() { return *daemon_; }
  v1::AccessService::Stub& access() { return *access_; }
  v1::ModelService::Stub& models() { return *models_; }
  v1::RunbookService::Stub& runbook() { return *runbook_; }
  const Address& address() const { return address_; }

  // Forgets the connection and its back-off; the next call connects afresh,
  // through a new tunnel where the old one has broken. Calls in progress must
  // have ended.
  void Reset();

 private:
  void MakeChannel();

  const Address address_;
  Interrupt* const interrupt_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::ArtifactService::Stub> artifacts_;
  std::unique_ptr<v1::DaemonService::Stub> daemon_;
  std::unique_ptr<v1::AccessService::Stub> access_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::RunbookService::Stub> runbook_;
};

// Gives a unary call 30 s to answer.
void SetDeadline(grpc::ClientContext& context);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CONNECTION_H_
