// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "server/access/rules.h"
#include "server/rpc/listen_address.h"
#include "server/rpc/listener.h"
#include "server/rpc/call_report.h"
#include "server/rpc/entrances.h"
#include "server/rpc/gate.h"
#include "server/rpc/methods.h"

namespace mpsd::rpc {
namespace {

// The maximum number of concurrent calls per connection; gRPC's clients queue
// the others.
constexpr int kStreamsOfConnection = 256;
// The memory for messages that are being received or sent.
constexpr size_t kBufferBytes = 512 << 20;
constexpr char const* kServices[] = {
    "mpsd.v1.JobService",    "mpsd.v1.ArtifactService",
    "mpsd.v1.DaemonService", "mpsd.v1.AccessService",
    "mpsd.v1.ModelService",  "mpsd.v1.RunbookService",
};

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
  // default of five minutes between pings the server would close such a
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

bool IsPort(const std::string& address) {
  return listener::SocketPath(address).empty();
}

// Plain text stays within the machine: a network would expose its tokens.
absl::Status CheckAddress(const std::string& address, bool has_tls) {
  absl::Status checked = listener::CheckListenAddress(address);
  if (!checked.ok() || !IsPort(address) || has_tls ||
      listener::IsLoopback(address)) {
    return checked;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "address '", address,
      "': without a certificate a port is served on 127.0.0.1 alone"));
}

bool IsAudited(const std::string& method) {
  return std::any_of(std::begin(access::kRules), std::end(access::kRules),
                     [&](const access::Rule& rule) {
                       return rule.audited && rule.method == method;
                     });
}

// Counts and records calls that no interceptor and no gate sees, because they
// are refused before. Their callers are unknown.
std::function<void(std::string_view, const absl::Status&)> Refusals(
    jobs::ExportedCalls* calls, access::AuditLog* audit) {
  return [calls, audit, methods = ServedMethods(kServices)](
             std::string_view path, const absl::Status& why) {
    const auto found = methods.find(std::string(path));
    const jobs::CallMethod method =
        found != methods.end()
            ? found->second
            : jobs::CallMethod{CallReport::kUnknownMethod, /*is_stream=*/true};
    if (calls != nullptr) {
      calls->CallStarted(method);
      calls->CallEnded(method, why.code(), absl::ZeroDuration());
    }
    if (audit != nullptr && IsAudited(method.name)) {
      access::Request request;
      request.caller.way = access::Way::kToken;
      request.method = method.name;
      audit->Refused(request, why);
    }
  };
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
      : gate({options.identify ? options.identify
                               : MakeIdentify(options.callers),
              options.private_jobs, options.audit},
             reader),
        accounts{options.limits, options.ledger},
        hosts(options),
        backend{options,
                manager,
                reader,
                blobs,
                gate,
                accounts,
                std::move(facts),
                [this] { return CertificateExpiry(); }},
        methods(gate) {
    AddMethods(hosts, backend, methods);
  }

  std::optional<absl::Time> CertificateExpiry() const {
    if (tls == nullptr) return std::nullopt;
    return tls->expiry();
  }

  // The destructor goes upwards: the server ends before the methods and hosts
  // that its last calls use.
  Gate gate;
  UserAccounts accounts;
  Hosts hosts;
  Backend backend;
  MethodTable methods;
  absl::Mutex stopping;  // so that one thread stops the listener
  // Members are created in this order.
  std::unique_ptr<listener::Listener> listener;
  std::unique_ptr<ServerTls> tls;  // null: no port, or in plain text
  std::unique_ptr<Entrances> entrances;
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
    RETURN_IF_ERROR(CheckAddress(address, options_.tls.has_value()));
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options_, builder);
  if (options_.calls != nullptr) ReportCalls(*options_.calls, builder);
  ASSIGN_OR_RETURN(
      std::unique_ptr<listener::Listener> opened,
      listener::Listener::Open({options_.addresses, options_.max_descriptor,
                                options_.log, options_.socket_group}));
  services_->listener = std::move(opened);
  RETURN_IF_ERROR(OpenEntrances(builder));
  services_->methods.Register(builder);
  services_->server = builder.BuildAndStart();
  if (services_->server == nullptr) {
    return absl::InternalError(
        "gRPC does not start; with GRPC_VERBOSITY=ERROR in the environment its "
        "lines say why");
  }
  bound_ = services_->listener->addresses();
  // Clients wait in the sockets' backlog until the listener starts, so the
  // first health check gets SERVING.
  SetHealth(*services_->server, true);
  services_->listener->Start([this](const listener::Accepted& accepted) {
    services_->entrances->Take(accepted);
  });
  services_->idle = std::make_unique<PeriodicCall>(
      std::min(options_.upload_idle, options_.download_idle) / 4, [this] {
        const auto now = ClosableStream::Clock::now();
        services_->hosts.streams.EndIdle(now);
        services_->hosts.uploads.EndIdle(now);
        services_->hosts.downloads.EndIdle(now);
      });
  return absl::OkStatus();
}

int RpcServer::EndStreams(const std::string& credential) {
  return services_->hosts.streams.CloseOf(credential) +
         services_->hosts.uploads.CloseOf(credential) +
         services_->hosts.downloads.CloseOf(credential);
}

absl::Status RpcServer::OpenEntrances(grpc::ServerBuilder& builder) {
  Entrances::Options options;
  options.known = options_.callers;
  if (options_.log) options.log = options_.log;
  options.refused = Refusals(options_.calls, options_.audit);
  const bool has_port =
      std::any_of(options_.addresses.begin(), options_.addresses.end(), IsPort);
  if (has_port && options_.tls) {
    ASSIGN_OR_RETURN(std::unique_ptr<ServerTls> tls,
                     ServerTls::Open(*options_.tls));
    services_->tls = std::move(tls);
    options.port = services_->tls->Credentials();
  } else if (has_port) {
    options.port = grpc::experimental::LocalServerCredentials(LOCAL_TCP);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Entrances> entrances,
                   Entrances::Open(std::move(options), builder));
  services_->entrances = std::move(entrances);
  return absl::OkStatus();
}

absl::Status RpcServer::RenewTls() {
  return services_->tls ? services_->tls->Renew() : absl::OkStatus();
}

std::optional<absl::Time> RpcServer::certificate_expiry() const {
  return services_->CertificateExpiry();
}

void RpcServer::Shutdown(absl::Duration grace) {
  if (services_->server == nullptr) return;
  {
    absl::MutexLock lock(&services_->stopping);
    // The listener ends first: gRPC never closes a connection that it gets
    // after its own end.
    services_->listener->Stop();
    services_->entrances->Close();
  }
  SetHealth(*services_->server, false);
  // gRPC's Shutdown returns only when every call has ended. Watchers and
  // followers would use up the whole grace, and a Submit checks between its
  // steps whether to continue. Reads are short, and transfers may use the
  // grace.
  services_->hosts.streams.CloseAll();
  services_->hosts.changes.Close();
  services_->hosts.submits.Close();
  services_->hosts.deletions.Close();
  services_->hosts.collections.Close();
  services_->hosts.diagnoses.Close();
  services_->server->Shutdown(std::chrono::system_clock::now() +
                              absl::ToChronoMilliseconds(grace));
}

}  // namespace mpsd::rpc
