// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/call_report.h"

#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"

namespace mpsd::rpc {
namespace {

using Clock = std::chrono::steady_clock;
using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using grpc::experimental::InterceptionHookPoints;

// gRPC reads the messages of its health service without a descriptor.
constexpr std::pair<const char*, bool> kHealthMethods[] = {{"Check", false},
                                                           {"Watch", true}};
// The services of reflection: gRPC 1.51 has the first.
constexpr const char* kReflection[] = {
    "grpc.reflection.v1alpha.ServerReflection",
    "grpc.reflection.v1.ServerReflection"};

using Methods = std::map<std::string, jobs::CallMethod>;

void AddMethods(const ServiceDescriptor& service, Methods& methods) {
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    methods[absl::StrCat("/", service.full_name(), "/", method.name())] = {
        absl::StrCat(service.name(), ".", method.name()),
        method.client_streaming() || method.server_streaming()};
  }
}

// gRPC may call Intercept on two threads at once, and orders its calls and the
// destructor in ways that ThreadSanitizer cannot see; hence the atomics.
class ReportedCall final : public grpc::experimental::Interceptor {
 public:
  ReportedCall(const jobs::CallMethod& method, jobs::ExportedCalls& calls,
               grpc::ServerContextBase* context)
      : method_(method),
        calls_(calls),
        // A synchronous method's context cannot report whether the client waits
        // before the handler has ended.
        context_(dynamic_cast<grpc::CallbackServerContext*>(context)) {
    calls_.CallStarted(method_);
  }
  ~ReportedCall() override {
    absl::StatusCode code = given_up_;
    if (code == absl::StatusCode::kOk) code = answered_;
    calls_.CallEnded(method_, code, absl::FromChrono(Clock::now() - started_));
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
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
  const jobs::CallMethod& method_;
  jobs::ExportedCalls& calls_;
  grpc::CallbackServerContext* const context_;  // null: synchronous
  const Clock::time_point started_ = Clock::now();
  // The handler's status; a call that ends without one was cancelled.
  std::atomic<absl::StatusCode> answered_ = absl::StatusCode::kCancelled;
  // kOk if the client waited for the response.
  std::atomic<absl::StatusCode> given_up_ = absl::StatusCode::kOk;
};

}  // namespace

Methods ServedMethods(absl::Span<const char* const> services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  Methods methods;
  for (const char* name : services) {
    const ServiceDescriptor* service = pool.FindServiceByName(name);
    base::Check(service != nullptr, "a served service is compiled in");
    AddMethods(*service, methods);
  }
  for (const char* name : kReflection) {
    const ServiceDescriptor* service = pool.FindServiceByName(name);
    if (service != nullptr) AddMethods(*service, methods);
  }
  for (const auto& [name, is_stream] : kHealthMethods) {
    methods[absl::StrCat("/grpc.health.v1.Health/", name)] = {
        absl::StrCat("Health.", name), is_stream};
  }
  return methods;
}

CallReport::CallReport(Methods methods, jobs::ExportedCalls& calls)
    : methods_(std::move(methods)), calls_(calls) {
  for (const auto& [path, method] : methods_) calls_.MethodServed(method);
  calls_.MethodServed(unknown_);
}

grpc::experimental::Interceptor* CallReport::CreateServerInterceptor(
    grpc::experimental::ServerRpcInfo* info) {
  const auto found = methods_.find(info->method());
  return new ReportedCall(found == methods_.end() ? unknown_ : found->second,
                          calls_, info->server_context());
}

}  // namespace mpsd::rpc
