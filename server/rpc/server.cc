// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>
#include <string_view>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/access/rules.h"
#include "server/rpc/entrances.h"
#include "server/rpc/listener.h"
#include "server/rpc/methods.h"

namespace mpsd::rpc {
namespace {

// --- metrics of calls

constexpr char const* kServices[] = {
    "mpsd.v1.JobService",    "mpsd.v1.ArtifactService",
    "mpsd.v1.DaemonService", "mpsd.v1.AccessService",
    "mpsd.v1.ModelService",  "mpsd.v1.RunbookService",
};

using Clock = std::chrono::steady_clock;
using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using grpc::experimental::InterceptionHookPoints;
using Info = grpc::experimental::ServerRpcInfo;

constexpr char kHealthWatch[] = "/grpc.health.v1.Health/Watch";
// The services of reflection: gRPC 1.51 has the first.
constexpr const char* kReflection[] = {
    "grpc.reflection.v1alpha.ServerReflection",
    "grpc.reflection.v1.ServerReflection"};

using Methods = std::map<std::string, jobs::CallMethod>;

void AddMethodsOf(const ServiceDescriptor& service, Methods& methods) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    methods[absl::StrCat("/", service.full_name(), "/", method.name())] = {
        absl::StrCat(service.name(), ".", method.name()),
        method.client_streaming() || method.server_streaming()};
  }
}

// Gets each call before its handler does; waits for its messages.
using CallBegins = std::function<std::unique_ptr<listener::Listener::Wait>(
    grpc::ServerContextBase&)>;

// gRPC may call Intercept on two threads at once, and orders its calls and the
// destructor in ways that ThreadSanitizer cannot see; hence the atomics.
class ReportedCall final : public grpc::experimental::Interceptor {
 public:
  ReportedCall(const jobs::CallMethod& method, jobs::ExportedCalls& calls,
               const CallBegins& begins, Info& info)
      : method_(method),
        calls_(calls),
        begins_(begins),
        any_context_(*info.server_context()),
        // A synchronous method's context cannot report whether the client waits
        // before the handler has ended.
        context_(
            dynamic_cast<grpc::CallbackServerContext*>(info.server_context())),
        takes_many_(info.type() == Info::Type::CLIENT_STREAMING ||
                    context_ == nullptr) {
    calls_.CallStarted(method_);
  }
  ~ReportedCall() override {
    absl::StatusCode code = given_up_;
    if (code == absl::StatusCode::kOk) code = answered_;
    calls_.CallEnded(method_, code, absl::FromChrono(Clock::now() - started_));
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    // The first batch; only now has the context of a synchronous call its peer.
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      auto wait = begins_(any_context_);
      absl::MutexLock lock(&mutex_);
      wait_ = std::move(wait);
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_MESSAGE)) {
      Got(batch->GetRecvMessage());
    }
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      answered_ =
          static_cast<absl::StatusCode>(batch->GetSendStatus().error_code());
    }
    // The call is over for the client. A handler may still answer a client that
    // no longer waits, or may have done so.
    if (batch->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_CLOSE) &&
        context_ != nullptr && context_->IsCancelled()) {
      given_up_ = context_->deadline() <= std::chrono::system_clock::now()
                      ? absl::StatusCode::kDeadlineExceeded
                      : absl::StatusCode::kCancelled;
    }
    batch->Proceed();
  }

 private:
  // `message`: null if none came.
  void Got(const void* message) {
    absl::MutexLock lock(&mutex_);
    if (wait_ == nullptr) return;
    // Only reflection, which is synchronous, takes messages other than bytes.
    const bool is_bytes = message != nullptr && context_ != nullptr;
    const auto* bytes = static_cast<const grpc::ByteBuffer*>(message);
    wait_->Came(is_bytes ? bytes->Length() : 0);
    if (!takes_many_) wait_.reset();
  }

  const jobs::CallMethod& method_;
  jobs::ExportedCalls& calls_;
  const CallBegins& begins_;
  grpc::ServerContextBase& any_context_;
  grpc::CallbackServerContext* const context_;  // null: synchronous
  const bool takes_many_;  // messages; MethodTable has a type for them
  const Clock::time_point started_ = Clock::now();
  absl::Mutex mutex_;
  std::unique_ptr<listener::Listener::Wait> wait_ ABSL_GUARDED_BY(mutex_);
  // The handler's status; a call that ends without one was cancelled.
  std::atomic<absl::StatusCode> answered_ = absl::StatusCode::kCancelled;
  // kOk if the client waited for the response.
  std::atomic<absl::StatusCode> given_up_ = absl::StatusCode::kOk;
};

// The methods of the server by their paths ("/mpsd.v1.JobService/Submit"), with
// those of gRPC's health service and reflection.
Methods ServedMethods() {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Methods methods;
  for (const char* name : kServices) {
    const ServiceDescriptor* service = pool.FindServiceByName(name);
    base::Check(service != nullptr, "a served service is compiled in");
    AddMethodsOf(*service, methods);
  }
  for (const char* name : kReflection) {
    const ServiceDescriptor* service = pool.FindServiceByName(name);
    if (service != nullptr) AddMethodsOf(*service, methods);
  }
  methods[kHealthCheck] = {"Health.Check", /*is_stream=*/false};
  methods[kHealthWatch] = {"Health.Watch", /*is_stream=*/true};
  return methods;
}

// Reports the calls of a server, including calls that no handler of ours sees:
// of gRPC's own services, of methods that do not exist, and with messages that
// cannot be read.
class CallReport final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // `calls` and what `begins` works on must outlive the server.
  CallReport(jobs::ExportedCalls& calls, CallBegins begins)
      : calls_(calls), begins_(std::move(begins)) {
    for (const auto& [path, method] : methods_) calls_.MethodServed(method);
    calls_.MethodServed(unknown_);
  }

  // The interceptor lives as long as the call.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override {
    const auto found = methods_.find(info->method());
    return new ReportedCall(found == methods_.end() ? unknown_ : found->second,
                            calls_, begins_, *info);
  }

 private:
  const Methods methods_ = ServedMethods();
  const jobs::CallMethod unknown_{kUnknownMethod, /*is_stream=*/true};
  jobs::ExportedCalls& calls_;
  const CallBegins begins_;
};

// --- certificates

constexpr unsigned int kWatchSeconds = 1;

// gRPC 1.51 has no such setting. A template, so that it is compiled for what
// the options have.
template <typename TlsOptionsOfGrpc>
void AskForTls13(TlsOptionsOfGrpc& options) {
  if constexpr (requires { options.set_min_tls_version(TLS1_3); }) {
    options.set_min_tls_version(TLS1_3);
  }
}

template <typename TlsOptionsOfGrpc>
constexpr bool HasLeastVersion() {
  return requires(TlsOptionsOfGrpc & o) { o.set_min_tls_version(TLS1_3); };
}

// The certificates of the API's ports. Thread-safe.
class ServerTls {
 public:
  // The errors of tls::ReadServerPem; those of base::WriteFileAtomic for the
  // served folder.
  static absl::StatusOr<std::unique_ptr<ServerTls>> Open(
      const TlsOptions& options) {
    const char* const folder = options.served.c_str();
    if ((mkdir(folder, 0700) != 0 && errno != EEXIST) ||
        chmod(folder, 0700) != 0) {
      return base::ErrnoStatus(errno, options.served.string());
    }
    auto tls = absl::WrapUnique(new ServerTls(options));
    RETURN_IF_ERROR(tls->Renew());
    return tls;
  }

  // TLS 1.3 only.
  std::shared_ptr<grpc::ServerCredentials> Credentials() const {
    namespace grpc_tls = grpc::experimental;
    grpc_tls::TlsServerCredentialsOptions options(
        std::make_shared<grpc_tls::FileWatcherCertificateProvider>(
            identity_, identity_, std::string(), kWatchSeconds));
    options.watch_identity_key_cert_pairs();
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    AskForTls13(options);
    return grpc_tls::TlsServerCredentials(options);
  }

  absl::Status Renew() {
    ASSIGN_OR_RETURN(const tls::ServerPem pem, tls::ReadServerPem(files_));
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(
        base::WriteFileAtomic(identity_, absl::StrCat(pem.key, pem.chain)));
    expiry_ = pem.expiry;
    return absl::OkStatus();
  }

  absl::Time expiry() const {  // of the server's certificate
    absl::MutexLock lock(&mutex_);
    return expiry_;
  }

 private:
  explicit ServerTls(const TlsOptions& options)
      : files_(options.files),
        identity_((options.served / "server.pem").string()) {}

  const tls::ServerFiles files_;
  // One file for both, so that gRPC never finds the key of another certificate.
  const std::string identity_;
  mutable absl::Mutex mutex_;
  absl::Time expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// --- the server

// The maximum number of concurrent calls per connection; gRPC's clients queue
// the others.
constexpr int kStreamsOfConnection = 256;
// The memory for messages that are being received or sent. Beyond it gRPC ends
// any call, so it exceeds what the limits admit: Options::max_uploads messages
// of an upload, and several of Options::max_receive_bytes.
constexpr size_t kBufferBytes = 512 << 20;

int PollMilliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

void Configure(const Options& options, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(options.max_receive_bytes);
  builder.SetMaxSendMessageSize(options.max_send_bytes);
  // gRPC would inflate a message before any bound or role is checked: 3 MB of
  // gzip are 3 GB. Compressed calls are refused as UNIMPLEMENTED.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS,
                             PollMilliseconds(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // mpsctl pings every 20 s, also while a job it watches is silent. By gRPC's
  // default of five minutes between pings the server would close such a
  // connection.
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  // Fixed windows: gRPC would take several MiB of each stream ahead.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kStreamsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             PollMilliseconds(options.connection_idle));
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             PollMilliseconds(options.handshake));
  builder.SetResourceQuota(grpc::ResourceQuota("mpsd").Resize(kBufferBytes));
  // Only reflection is a synchronous service.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

void ReportCalls(jobs::ExportedCalls& calls, CallBegins begins,
                 grpc::ServerBuilder& builder) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      interceptors;
  interceptors.push_back(
      std::make_unique<CallReport>(calls, std::move(begins)));
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
  return [calls, audit, methods = ServedMethods()](std::string_view path,
                                                   const absl::Status& why) {
    const auto found = methods.find(std::string(path));
    const jobs::CallMethod method =
        found != methods.end()
            ? found->second
            : jobs::CallMethod{kUnknownMethod, /*is_stream=*/true};
    calls->CallStarted(method);
    calls->CallEnded(method, why.code(), absl::ZeroDuration());
    if (IsAudited(method.name)) {
      access::Request request;
      request.caller.way = access::Way::kToken;
      request.method = method.name;
      audit->Refused(request, why);
    }
  };
}

// The standard health service. gRPC's own takes a message of any length, from
// anybody, before an interceptor sees the call. A Watch gets one answer: the
// health changes only when all calls end.
class Health final : public grpc::Service {
 public:
  Health() {
    for (const char* path : {kHealthCheck, kHealthWatch}) {
      AddMethod(new grpc::internal::RpcServiceMethod(
          path, grpc::internal::RpcMethod::BIDI_STREAMING, nullptr));
      MarkMethodCallback(
          path == kHealthWatch,
          new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer,
                                                  grpc::ByteBuffer>(
              [=, this](grpc::CallbackServerContext*) {
                return new Call(serving, path == kHealthWatch);
              }));
    }
  }

  std::atomic<bool> serving = false;

 private:
  class Call final
      : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    Call(const std::atomic<bool>& serving, bool watches)
        : serving_(serving), watches_(watches) {
      StartRead(&request_);
    }

   private:
    void OnReadDone(bool ok) override {
      if (!ok) return End(NoRequest());
      const bool known = IsKnown();
      if (!known && !watches_)
        return End(absl::NotFoundError("no such service"));
      // Field 1: SERVING, NOT_SERVING or SERVICE_UNKNOWN.
      const char bytes[] = {'\x08', !known     ? '\x03'
                                    : serving_ ? '\x01'
                                               : '\x02'};
      const grpc::Slice slice(bytes, sizeof(bytes));
      answer_ = grpc::ByteBuffer(&slice, 1);
      {
        absl::MutexLock lock(&mutex_);
        if (std::exchange(ended_, ended_ || !watches_)) return;
        if (watches_) return StartWrite(&answer_);
      }
      StartWriteAndFinish(&answer_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnCancel() override { End(absl::CancelledError("the client went")); }
    void OnDone() override { delete this; }

    void End(const absl::Status& status) {
      {
        absl::MutexLock lock(&mutex_);
        if (std::exchange(ended_, true)) return;
      }
      Finish(ToGrpc(status));
    }

    // Whether the request names no service, or one in field 1.
    bool IsKnown() const {
      constexpr size_t kLongest = 256;
      grpc::Slice slice;
      if (request_.Length() == 0) return true;
      if (request_.Length() > kLongest ||
          !request_.DumpToSingleSlice(&slice).ok() || slice.size() < 2) {
        return false;
      }
      const std::string_view name(
          reinterpret_cast<const char*>(slice.begin()) + 2, slice.size() - 2);
      return std::find(std::begin(kServices), std::end(kServices), name) !=
             std::end(kServices);
    }

    const std::atomic<bool>& serving_;
    const bool watches_;
    grpc::ByteBuffer request_, answer_;
    absl::Mutex mutex_;
    bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  };
};

}  // namespace

void RefuseOldTls() {
  if constexpr (HasLeastVersion<
                    grpc::experimental::TlsServerCredentialsOptions>()) {
    return;
  }
  // A TLS 1.2 suite that needs a pre-shared key, which gRPC never has. The
  // suites of TLS 1.3 are a separate list.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", /*overwrite=*/1);
}

struct RpcServer::Services {
  Services(const Options& options, jobs::Scheduler& scheduler,
           jobs::JobReader& reader, store::BlobStore& blobs, DaemonFacts facts)
      : gate({MakeIdentify(options.callers), options.private_jobs,
              options.audit},
             reader),
        accounts{options.limits, options.ledger},
        hosts(options),
        backend{options,
                scheduler,
                reader,
                blobs,
                gate,
                accounts,
                std::move(facts),
                [this] { return CertificateExpiry(); }},
        methods(gate) {
    AddMethods(hosts, backend, methods);
  }

  // Tells the listener of a call, and over a port whether its token is known.
  std::unique_ptr<listener::Listener::Wait> Begins(
      grpc::ServerContextBase& context) {
    // The peer as gRPC names it: "ipv4:10.0.0.1:50123".
    const std::string peer = context.peer();
    const absl::StatusOr<access::Caller> caller =
        CallerOf(*context.auth_context(), context.client_metadata(),
                 backend.options.callers);
    if (!peer.starts_with("ip")) {
      grpc_call_ref(context.c_call());
      return listener->AwaitLocal(caller.ok() ? caller->user : "",
                                  [call = std::shared_ptr<grpc_call>(
                                       context.c_call(), grpc_call_unref)] {
                                    grpc_call_cancel(call.get(), nullptr);
                                  });
    }
    const std::string host = Origin(peer);
    const std::string port = peer.substr(peer.rfind(':') + 1);
    if (caller.ok()) {
      listener->Known(host, port, caller->user, caller->credential);
    }
    return listener->Await(host, port);
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
  Health health;
  absl::Mutex stopping;  // so that one thread stops the listener
  // Members are created in this order.
  std::unique_ptr<listener::Listener> listener;
  std::unique_ptr<ServerTls> tls;  // null: no port, or in plain text
  std::unique_ptr<Entrances> entrances;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<base::PeriodicCall> idle;
};

RpcServer::RpcServer(Options options, jobs::Scheduler& scheduler,
                     jobs::JobReader& reader, store::BlobStore& blobs,
                     DaemonFacts facts)
    : options_(std::move(options)),
      services_(std::make_unique<Services>(options_, scheduler, reader, blobs,
                                           std::move(facts))) {}

RpcServer::~RpcServer() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<listener::Listener>> RpcServer::Listen(
    const Options& options) {
  for (const std::string& address : options.addresses) {
    RETURN_IF_ERROR(CheckAddress(address, options.tls.has_value()));
  }
  return listener::Listener::Open({options.addresses, options.max_descriptor,
                                   options.log, options.socket_group,
                                   options.stranger_age});
}

absl::Status RpcServer::Start(std::unique_ptr<listener::Listener> listener) {
  base::Check(services_->server == nullptr, "Start is called once");
  if (listener == nullptr) {
    ASSIGN_OR_RETURN(listener, Listen(options_));
  }
  services_->listener = std::move(listener);
  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(options_, builder);
  ReportCalls(
      *options_.calls,
      [services = services_.get()](grpc::ServerContextBase& context) {
        return services->Begins(context);
      },
      builder);
  RETURN_IF_ERROR(OpenEntrances(builder));
  services_->methods.Register(builder);
  builder.RegisterService(&services_->health);
  services_->server = builder.BuildAndStart();
  if (services_->server == nullptr) {
    return absl::InternalError(
        "gRPC does not start; with GRPC_VERBOSITY=ERROR in the environment its "
        "lines say why");
  }
  bound_ = services_->listener->addresses();
  // Clients wait in the sockets' backlog until the listener starts, so the
  // first health check gets SERVING.
  services_->health.serving = true;
  services_->listener->Start([this](const listener::Accepted& accepted) {
    services_->entrances->Take(accepted);
  });
  services_->idle = std::make_unique<base::PeriodicCall>(
      std::min(options_.upload_idle, options_.download_idle) / 4, [this] {
        const auto now = ClosableStream::Clock::now();
        services_->hosts.streams.EndIdle(now);
        services_->hosts.uploads.EndIdle(now);
        services_->hosts.downloads.EndIdle(now);
        services_->methods.unread().EndIdle(
            now - absl::ToChronoMilliseconds(options_.download_idle));
        return true;
      });
  return absl::OkStatus();
}

int RpcServer::EndStreams(const std::string& credential) {
  if (services_->listener != nullptr) services_->listener->Forget(credential);
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
  services_->health.serving = false;
  // gRPC's Shutdown returns only when every call has ended. Watchers and
  // followers would use up the whole grace, and a Submit checks between its
  // steps whether to continue. Reads are short, and transfers may use the
  // grace.
  services_->hosts.streams.CloseAll();
  services_->hosts.changes.Close();
  services_->hosts.submits.Close();
  services_->hosts.deletions.Close();
  services_->hosts.models.Close();
  services_->hosts.collections.Close();
  services_->hosts.diagnoses.Close();
  services_->server->Shutdown(std::chrono::system_clock::now() +
                              absl::ToChronoMilliseconds(grace));
}

namespace {

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A new connection for each check: gRPC would otherwise reuse a connection
  // that was accepted while the server could still accept.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

absl::Status AskHealth(const std::string& address, absl::Duration patience,
                       grpc::ClientContext& context) {
  grpc::GenericStub stub(Connect(address));
  // Within the patience a refused connection is tried again: a backlog that is
  // full for a moment does not count as unresponsive.
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(patience));
  const grpc::ByteBuffer question(nullptr, 0);
  grpc::ByteBuffer answer;
  absl::Status status;
  absl::Notification answered;
  stub.UnaryCall(&context, kHealthCheck, grpc::StubOptions(), &question,
                 &answer, [&](const grpc::Status& ended) {
                   status = absl::Status(
                       static_cast<absl::StatusCode>(ended.error_code()),
                       ended.error_message());
                   answered.Notify();
                 });
  answered.WaitForNotification();
  return status;
}

Watchdog::Watchdog(Options options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    base::MonitorLock lock(&mutex_);
    stopping_ = true;
    if (asking_ != nullptr) asking_->TryCancel();
  }
  thread_.join();
}

void Watchdog::Run() {
  int unanswered = 0;
  while (Sleep()) {
    const auto asked = Clock::now();
    const absl::Status health = Ask();
    const absl::Duration took = absl::FromChrono(Clock::now() - asked);
    if (health.ok()) unanswered = 0;
    // Does not count a check during which the process was stopped or the
    // machine slept: the watchdog itself slept through the answer.
    if (health.ok() || took > 2 * options_.patience) continue;
    if (++unanswered < options_.tries) continue;
    const std::string path = listener::SocketPath(options_.address);
    std::error_code ignored;
    const bool gone = !path.empty() && !std::filesystem::exists(path, ignored);
    return options_.deaf(absl::StrCat(
        "mpsd does not answer at ", options_.address, ", tried ", unanswered,
        " times in a row: ",
        gone ? "the file of its socket was removed" : health.message()));
  }
}

absl::Status Watchdog::Ask() {
  grpc::ClientContext context;
  {
    base::MonitorLock lock(&mutex_);
    asking_ = &context;
    // A destructor that came before this lock found no check to cancel.
    if (stopping_) context.TryCancel();
  }
  const absl::Status health =
      AskHealth(options_.address, options_.patience, context);
  base::MonitorLock lock(&mutex_);
  asking_ = nullptr;
  // The watchdog's own end cancelled the check.
  return stopping_ ? absl::OkStatus() : health;
}

bool Watchdog::Sleep() {
  base::MonitorLock lock(&mutex_);
  return !mutex_.AwaitFor(
      options_.interval,
      [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; });
}

}  // namespace mpsd::rpc
