// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/daemons/context_store.h"
#include "client/daemons/tunnel.h"
#include "core/report/runbook.h"
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

using JobStub = v1::JobService::Stub;
using ArtifactStub = v1::ArtifactService::Stub;
using DaemonStub = v1::DaemonService::Stub;
using AccessStub = v1::AccessService::Stub;
using ModelStub = v1::ModelService::Stub;
using RunbookStub = v1::RunbookService::Stub;

class Interrupt;

constexpr absl::Duration kCallPatience = absl::Seconds(30);
void SetDeadline(grpc::ClientContext& context,
                 absl::Duration patience = kCallPatience);

// How mpsctl and a daemon on a port authenticate each other. A socket needs
// none of this: the kernel names the account.
struct Credentials {
  bool tls = false;  // else only this machine's loopback is used
  // PEM; the daemon's certificate must chain up to one of these.
  std::string roots_pem = {};
  std::string token = {};    // empty: none
  std::string context = {};  // its contents' context; empty: no context
};

// Where mpsctl finds `mpsd`.
struct Address {
  std::string target;       // in gRPC's form: "unix:/…/mpsd.sock", "host:1"
  std::string socket_path;  // the path of a unix socket, else empty
  // The tunnel to an ssh://… target, shared by all its connections; else null.
  std::shared_ptr<ssh::Tunnel> tunnel = nullptr;
  Credentials credentials = {};
};

// Finds the daemon. The first that is given counts: `server` (--server),
// `state_dir` (--state-dir), MPSD_SERVER, MPSD_STATE_DIR, the default folder;
// of a folder, its socket. An empty argument counts as not given. A `server`
// that begins with "/", "./" or "../" is the path of a socket, one that begins
// with "ssh://" the URL of a daemon reached by ssh (client/daemons/tunnel.h);
// Connection::Connect reports a wrong one.
Address FindAddress(const std::string& server, const std::string& state_dir);

// Whether `server` is meant to be ssh://[USER@]HOST[:PORT][/PATH].
bool IsBehindSsh(const std::string& server);

// The findings of `mpsctl doctor` about the way to the daemon. `why`: empty if
// the daemon answered.
v1::Finding ReachableGate(const std::string& target, const std::string& why);

// Compares mpsctl's release with the daemon's.
v1::Finding VersionGate(const std::string& mpsctl,
                        const v1::InfoResponse& info);

// The median time of a small call; `times` is not empty.
v1::Finding RoundTripGate(std::vector<absl::Duration> times,
                          const runbook::Thresholds& thresholds);

// The offset of the daemon's clock from this one: `daemon` was read just before
// the answer left, which arrived at `arrived` after half a round trip.
v1::Finding ClockGate(absl::Time daemon, absl::Time arrived,
                      absl::Duration round_trip,
                      const runbook::Thresholds& thresholds);

// nullopt if the daemon has no certificate, as without ports.
std::optional<v1::Finding> CertificateGate(
    const v1::WhoAmIResponse& who, absl::Time now,
    const runbook::Thresholds& thresholds);

absl::Duration Median(std::vector<absl::Duration> times);

// The command line's choice of the daemon; empty: none.
struct DaemonChoice {
  std::string server;     // --server
  std::string context;    // --context
  std::string state_dir;  // --state-dir
};

// The order of precedence, as `mpsctl --help` prints it.
std::string DaemonChoiceHelp();

// The daemon that a verb calls, with its credentials: --server, else --context,
// --state-dir, MPSD_SERVER, MPSD_CONTEXT, MPSD_STATE_DIR, the current context,
// the socket in the default state folder. HOST:PORT uses the credentials of the
// context that is logged in there, of several the current one; without a
// context, the token is MPSD_TOKEN, another machine is reached over TLS with
// the authorities that the system trusts, and this machine's loopback without
// TLS.
// InvalidArgument for an invalid address; NotFound, InvalidArgument,
// FailedPrecondition for a context that is missing or broken, or whose files
// are.
absl::StatusOr<Address> ChooseDaemon(const DaemonChoice& choice,
                                     const ContextStore& contexts);

// The address of `context` and its credentials.
absl::StatusOr<Address> AddressOf(const Context& context);

// The services of one daemon. The first call connects; a call fails at once
// with UNAVAILABLE if no daemon listens. Every call of every stub carries the
// address' token, which is sent only over TLS or to this machine's loopback.
// Used by one thread.
class Connection {
 public:
  // `interrupt` aborts the waits of Connect and Reset; it may be null.
  explicit Connection(Address address, Interrupt* interrupt = nullptr);

  // Opens the tunnel of an ssh address; OK at once for any other. Errors are
  // ssh::Tunnel::Open's.
  absl::Status Connect();
  // The result of the last attempt to open the tunnel.
  absl::Status tunnel_status() const;

  // Makes a unary call, Call(&JobStub::Hold, request, &job).
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    const std::type_identity_t<Request>& request,
                    Response* response,
                    absl::Duration patience = kCallPatience) {
    grpc::ClientContext context;
    SetDeadline(context, patience);
    return (stub<Stub>().*method)(&context, request, response);
  }
  // The same for what may take long: Ctrl-C aborts the call and sets
  // *interrupted.
  template <typename Stub, typename Request, typename Response>
  grpc::Status CallLong(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                     const Request&, Response*),
                        const std::type_identity_t<Request>& request,
                        Response* response, bool* interrupted,
                        absl::Duration patience = absl::InfiniteDuration()) {
    grpc::ClientContext context;
    SetDeadline(context, patience);
    return Interruptibly(context, interrupted, [&] {
      return (stub<Stub>().*method)(&context, request, response);
    });
  }
  // Reads a stream until take(message) returns false, which ends it with OK.
  // Ctrl-C aborts it and sets *interrupted; null: it ends mpsctl.
  template <typename Stub, typename Request, typename Message, typename Take>
  grpc::Status Read(std::unique_ptr<grpc::ClientReader<Message>> (
                        Stub::*method)(grpc::ClientContext*, const Request&),
                    const std::type_identity_t<Request>& request,
                    bool* interrupted, const Take& take,
                    absl::Duration patience = absl::InfiniteDuration()) {
    grpc::ClientContext context;
    SetDeadline(context, patience);
    return Interruptibly(context, interrupted, [&] {
      const auto reader = (stub<Stub>().*method)(&context, request);
      Message message;
      bool wanted = true;
      while (wanted && reader->Read(&message)) wanted = take(message);
      if (!wanted) context.TryCancel();
      const grpc::Status status = reader->Finish();
      return wanted ? status : grpc::Status::OK;
    });
  }
  template <typename Stub>
  Stub& stub() {
    return *std::get<std::unique_ptr<Stub>>(stubs_);
  }
  JobStub& jobs() { return stub<JobStub>(); }
  ArtifactStub& artifacts() { return stub<ArtifactStub>(); }
  const Address& address() const { return address_; }

  // Drops the connection and its back-off; the next call connects afresh,
  // through a new tunnel if the old one has broken. No call may be in progress.
  void Reset();

 private:
  void MakeChannel();
  // Runs `call`, which Ctrl-C aborts unless `interrupted` is null.
  grpc::Status Interruptibly(grpc::ClientContext& context, bool* interrupted,
                             const std::function<grpc::Status()>& call);

  const Address address_;
  Interrupt* const interrupt_;
  std::tuple<std::unique_ptr<JobStub>, std::unique_ptr<ArtifactStub>,
             std::unique_ptr<DaemonStub>, std::unique_ptr<AccessStub>,
             std::unique_ptr<ModelStub>, std::unique_ptr<RunbookStub>>
      stubs_;
};

}  // namespace mpsd::client
