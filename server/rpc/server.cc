// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/rpc/artifact_service.h"
#include "server/rpc/daemon_service.h"
#include "server/rpc/job_service.h"
#include "server/rpc/listen_address.h"
#include "server/rpc/stream_host.h"

namespace mpsd::rpc {
namespace {

constexpr int kStreamThreads = 2;
constexpr int kFileThreads = 2;
constexpr char const* kServices[] = {
    "mpsd.v1.JobService", "mpsd.v1.ArtifactService", "mpsd.v1.DaemonService"};

// A socket is created with the umask's mode; between its creation and chmod
// nobody else may connect. 077 and not 177: another thread may be creating a
// folder.
class PrivateUmask {
 public:
  PrivateUmask() : before_(umask(077)) {}
  ~PrivateUmask() { umask(before_); }

 private:
  const mode_t before_;
};

void Configure(const Options& options, grpc::ServerBuilder& builder) {
  const int keepalive_ms =
      static_cast<int>(absl::ToInt64Milliseconds(options.keepalive));
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(options.max_send_bytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // A second daemon on the same port must fail, not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Reflection alone is a synchronous service.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

void SetHealth(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const char* service : kServices) {
    health->SetServingStatus(service, serving);
  }
}

absl::Status MakePrivate(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty() || chmod(path.c_str(), 0600) == 0) return absl::OkStatus();
  return base::ErrnoStatus(errno, path);
}

}  // namespace

struct RpcServer::Parts {
  Parts(const Options& options, jobs::JobManager& manager,
        jobs::BlobUploads& blobs, DaemonFacts facts)
      : jobs(manager, streams, options.log_poll_interval),
        artifacts(manager, blobs, files),
        daemon(manager, std::move(facts)) {}

  StreamHost streams{kStreamThreads};
  StreamHost files{kFileThreads};
  JobService jobs;
  ArtifactService artifacts;
  DaemonService daemon;
  std::unique_ptr<grpc::Server> server;  // last: destroyed first
};

RpcServer::RpcServer(Options options, jobs::JobManager& manager,
                     jobs::BlobUploads& blobs, DaemonFacts facts)
    : options_(std::move(options)),
      parts_(std::make_unique<Parts>(options_, manager, blobs,
                                     std::move(facts))) {}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

absl::Status RpcServer::Start() {
  for (const std::string& address : options_.addresses) {
    absl::Status checked = CheckListenAddress(address);
    if (!checked.ok()) return checked;
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options_, builder);
  std::vector<int> ports(options_.addresses.size(), 0);
  for (size_t i = 0; i < ports.size(); ++i) {
    builder.AddListeningPort(options_.addresses[i],
                             grpc::InsecureServerCredentials(), &ports[i]);
  }
  builder.RegisterService(&parts_->jobs);
  builder.RegisterService(&parts_->artifacts);
  builder.RegisterService(&parts_->daemon);
  {
    PrivateUmask umask;
    parts_->server = builder.BuildAndStart();
  }
  if (parts_->server == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", absl::StrJoin(options_.addresses, ", "),
        "; is another program using the address?"));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    absl::Status made = MakePrivate(options_.addresses[i]);
    if (!made.ok()) return made;
    bound_.push_back(BoundAddress(options_.addresses[i], ports[i]));
  }
  SetHealth(*parts_->server, true);
  return absl::OkStatus();
}

void RpcServer::Shutdown(absl::Duration grace) {
  if (parts_->server == nullptr) return;
  SetHealth(*parts_->server, false);
  parts_->streams.CloseAll();
  parts_->server->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoMilliseconds(grace));
}

}  // namespace mpsd::rpc
