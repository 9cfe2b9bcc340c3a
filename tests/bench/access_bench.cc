// SPDX-License-Identifier: Apache-2.0
// What TLS and a token cost a unary call: AccessService.WhoAmI over the
// daemon's unix socket and over its port, in turn, each on one open connection.
#include <grpcpp/grpcpp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/file.h"
#include "mpsd/v1/access.grpc.pb.h"

namespace {

using Clock = std::chrono::steady_clock;
using Stub = mpsd::v1::AccessService::Stub;

std::unique_ptr<Stub> Connect(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return mpsd::v1::AccessService::NewStub(
      grpc::CreateCustomChannel(address, credentials, arguments));
}

// How long a call takes, in ms; negative for one that fails.
double Time(Stub& stub, const std::string& authorization) {
  grpc::ClientContext context;
  if (!authorization.empty()) {
    context.AddMetadata("authorization", authorization);
  }
  mpsd::v1::WhoAmIResponse response;
  const auto start = Clock::now();
  const grpc::Status status = stub.WhoAmI(&context, {}, &response);
  const std::chrono::duration<double, std::milli> took = Clock::now() - start;
  if (status.ok()) return took.count();
  std::fprintf(stderr, "%s\n", status.error_message().c_str());
  return -1;
}

void Print(const char* name, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<size_t>(share * (values.size() - 1))];
  };
  std::printf("%-11s median %.3f ms, p10 %.3f, p90 %.3f, p99 %.3f\n", name,
              at(0.5), at(0.1), at(0.9), at(0.99));
}

}  // namespace

int main(int argc, char** argv) {
  std::string socket, port, authority, token_file;
  int calls = 5000;
  CLI::App app("Latency of a call by the socket and by a port, paired.");
  app.add_option("--socket", socket, "unix:PATH")->required();
  app.add_option("--port", port, "HOST:PORT")->required();
  app.add_option("--ca", authority, "STATE/tls/ca.crt")->required();
  app.add_option("--token-file", token_file, "A token in a file")->required();
  app.add_option("--calls", calls, "Pairs of calls")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const auto pem = mpsd::base::ReadFile(authority);
  const auto token = mpsd::base::ReadFile(token_file);
  if (!pem.ok() || !token.ok()) {
    std::fprintf(stderr, "the authority or the token cannot be read\n");
    return 1;
  }
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = *pem;
  const auto by_socket = Connect(socket, grpc::InsecureChannelCredentials());
  const auto by_port = Connect(port, grpc::SslCredentials(tls));
  const std::string authorization =
      "Bearer " + std::string(absl::StripAsciiWhitespace(*token));
  std::vector<double> socket_times, port_times, differences;
  for (int i = -100; i < calls; ++i) {
    // Either comes first every other time.
    double a = i % 2 == 0 ? Time(*by_socket, "") : 0;
    const double b = Time(*by_port, authorization);
    if (i % 2 != 0) a = Time(*by_socket, "");
    if (a < 0 || b < 0) return 1;
    if (i < 0) continue;  // warms up
    socket_times.push_back(a);
    port_times.push_back(b);
    differences.push_back(b - a);
  }
  Print("socket", socket_times);
  Print("TLS, token", port_times);
  Print("difference", differences);
  return 0;
}
