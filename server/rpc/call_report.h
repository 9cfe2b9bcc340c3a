// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_CALL_REPORT_H_
#define MPSD_SERVER_RPC_CALL_REPORT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/jobs/exported_metrics.h"

namespace mpsd::rpc {

// The methods of a server by their paths ("/mpsd.v1.JobService/Submit"): those
// of `services`, by full name, and of gRPC's health service and reflection.
// `services` are compiled into the program.
std::map<std::string, jobs::CallMethod> ServedMethods(
    absl::Span<const char* const> services);

// Reports the calls of a server, including calls that no handler of ours sees:
// of gRPC's own services, of methods that do not exist (as kUnknownMethod), and
// with messages that cannot be read. A unary call whose message is over the
// limit ends within gRPC, before any interceptor, and is not reported.
class CallReport final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  static constexpr const char* kUnknownMethod = "unknown";

  // `calls` must outlive the server.
  CallReport(std::map<std::string, jobs::CallMethod> methods,
             jobs::ExportedCalls& calls);

  // The interceptor lives as long as the call.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* info) override;

 private:
  const std::map<std::string, jobs::CallMethod> methods_;
  const jobs::CallMethod unknown_{kUnknownMethod, /*is_stream=*/true};
  jobs::ExportedCalls& calls_;
};

}  // namespace mpsd::rpc

#endif  // MPSD_SERVER_RPC_CALL_REPORT_H_
