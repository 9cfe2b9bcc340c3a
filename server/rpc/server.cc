// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/check.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/listener/listen_address.h"
#include "server/listener/listener.h"
#include "server/rpc/artifact_service.h"
#include "server/rpc/call_report.h"
#include "server/rpc/daemon_service.h"
#include "server/rpc/job_service.h"
#include "server/rpc/stream_host.h"
#include "server/rpc/unary_call.h"

namespace mpsd::rpc {
namespace {

constexpr int kStreamThreads = 2;
// One thread removes the folders of deleted jobs, one after the other, however
// long a large folder takes.
constexpr int kDeletionThreads = 1;
constexpr int kDownloadThreads = 2;
// Most of the upload threads wait for the drive.
constexpr int kUploadThreads = 4;
// The calls that one connection may have at a time; gRPC's clients queue the
// others.
constexpr int kStreamsOfConnection = 256;
// The memory for messages that are being received or sent.
constexpr size_t kBufferBytes = 512 << 20;
constexpr char const* kServices[] = {
    "mpsd.v1.JobService", "mpsd.v1.ArtifactService", "mpsd.v1.DaemonService"};

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void Configure(const Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(options.max_send_bytes);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             Milliseconds(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // mpsctl pings every 20 s, also while a job it watches is silent. By gRPC's
  // default of five minutes between pings the server would end such a
  // connection.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kStreamsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             Milliseconds(options.connection_idle));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             Milliseconds(options.handshake));
  builder.SetResourceQuota(grpc::ResourceQuota("mpsd").Resize(kBufferBytes));
  // Only reflection is a synchronous service.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

void ReportCalls(jobs::ExportedCalls& calls, grpc::ServerBuilder& builder) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(
      std::make_unique<CallReport>(ServedMethods(kServices), calls));
  builder.experimental().SetInterceptorCreators(std::move(interceptors));
}

void SetHealth(grpc::Server& server, bool serving) {
  grpc::HealthCheckServiceInterface* health = server.GetHealthCheckService();
  health->SetServingStatus(serving);
  for (const char* service : kServices) {
    health->SetServingStatus(service, serving);
  }
}

// Calls `tick` at a fixed interval until it is destroyed.
class PeriodicCall {
 public:
  PeriodicCall(absl::Duration interval, std::function<void()> tick)
      : thread_([this, interval, tick = std::move(tick)] {
          while (!stopping_.WaitForNotificationWithTimeout(interval)) tick();
        }) {}
  ~PeriodicCall() {
    stopping_.Notify();
    thread_.join();
  }

 private:
  absl::Notification stopping_;
  std::thread thread_;
};

}  // namespace

struct RpcServer::Services {
  Services(const Options& options, jobs::JobManager& manager,
           jobs::JobReader& reader, jobs::BlobUploads& blobs, DaemonFacts facts)
      : reads(options.read_threads, options.max_waiting_reads,
              Barrier(options.log)),
        changes(options.change_threads, options.max_waiting_reads,
                Barrier(options.log)),
        submits(options.submit_threads, options.max_waiting_submits,
                Barrier(options.log)),
        deletions(kDeletionThreads, options.max_waiting_submits,
                  Barrier(options.log)),
        streams(kStreamThreads, Barrier(options.log)),
        downloads(kDownloadThreads,
                  {options.max_uploads, options.max_uploads_of_peer,
                   options.download_idle},
                  Barrier(options.log)),
        uploads(kUploadThreads,
                {options.max_uploads, options.max_uploads_of_peer,
                 options.upload_idle},
                Barrier(options.log)),
        jobs(manager, reader, {reads, changes, submits, deletions}, streams,
             options.log_poll_interval),
        artifacts(reader, blobs, reads, downloads, uploads),
        daemon(reader, reads, std::move(facts)) {}

  // The destructor goes upwards: the server ends before the services and hosts
  // that its last calls use.
  CallHost reads;
  CallHost changes;
  CallHost submits;
  CallHost deletions;
  StreamHost streams;
  StreamHost downloads;
  StreamHost uploads;
  JobService jobs;
  ArtifactService artifacts;
  DaemonService daemon;
  absl::Mutex stopping;  // so that one thread stops the listener
  // Members are created in this order.
  std::unique_ptr<listener::Listener> listener;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<PeriodicCall> idle;
};

RpcServer::RpcServer(Options options, jobs::JobManager& manager,
                     jobs::JobReader& reader, jobs::BlobUploads& blobs,
                     DaemonFacts facts)
    : options_(std::move(options)),
      services_(std::make_unique<Services>(options_, manager, reader, blobs,
                                           std::move(facts))) {}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

absl::Status RpcServer::Start() {
  base::Check(services_->server == nullptr, "Start is called once");
  for (const std::string& address : options_.addresses) {
    absl::Status checked = listener::CheckListenAddress(address);
    if (!checked.ok()) return checked;
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options_, builder);
  if (options_.calls != nullptr) ReportCalls(*options_.calls, builder);
  absl::StatusOr<std::unique_ptr<listener::Listener>> opened =
      listener::Listener::Open(
          {options_.addresses, options_.max_descriptor, options_.log});
  if (!opened.ok()) return opened.status();
  services_->listener = *std::move(opened);
  services_->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(&services_->jobs);
  builder.RegisterService(&services_->artifacts);
  builder.RegisterService(&services_->daemon);
  services_->server = builder.BuildAndStart();
  if (services_->server == nullptr) {
    return absl::InternalError("gRPC does not start; its lines say why");
  }
  bound_ = services_->listener->addresses();
  // Clients wait in the sockets' backlog until the listener starts, so the
  // first question for the health finds SERVING.
  SetHealth(*services_->server, true);
  services_->listener->Start([this](int socket, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters p;
    p.listener_fd = socket;  // newer gRPC drops a connection without one
    p.fd = fd;
    services_->acceptor->HandleNewConnection(&p);
  });
  services_->idle = std::make_unique<PeriodicCall>(
      std::min(options_.upload_idle, options_.download_idle) / 4, [this] {
        const auto now = ClosableStream::Clock::now();
        services_->uploads.EndIdle(now);
        services_->downloads.EndIdle(now);
      });
  return absl::OkStatus();
}

void RpcServer::Shutdown(absl::Duration grace) {
  if (services_->server == nullptr) return;
  {
    absl::MutexLock lock(&services_->stopping);
    // The listener ends first: gRPC never closes a connection that it gets
    // after its own end.
    services_->listener->Stop();
  }
  SetHealth(*services_->server, false);
  // gRPC's Shutdown returns only when every call has ended. Watchers and
  // followers would spend the whole grace, and a Submit asks between its steps
  // whether to go on. Reads are short, and transfers may use the grace.
  services_->streams.CloseAll();
  services_->changes.Close();
  services_->submits.Close();
  services_->deletions.Close();
  services_->server->Shutdown(std::chrono::system_clock::now() +
                              absl::ToChronoMilliseconds(grace));
}

}  // namespace mpsd::rpc
