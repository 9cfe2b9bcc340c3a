// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include <sys/un.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/json.h"

namespace mpsd::client {
namespace {

constexpr size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

std::string HowToReach(const Address& address) {
  const std::string& path = address.socket_path;
  if (path.empty()) {
    return absl::StrCat("Check that mpsd runs and listens on ", address.target,
                        ", or name another with --server ADDRESS or "
                        "MPSD_SERVER.");
  }
  const std::string dir = std::filesystem::path(path).parent_path().string();
  if (path.size() > kLongestSocketPath) {
    return absl::StrCat("The socket's path has ", path.size(),
                        " characters, the system allows ", kLongestSocketPath,
                        ": choose a shorter --state-dir.");
  }
  return absl::StrCat("Start it with `mpsd --state-dir ", dir,
                      "`, or name another with --server ADDRESS, MPSD_SERVER "
                      "or --state-dir DIR.");
}

std::string WhyUnreachable(const Connection& daemon,
                           const grpc::Status& status) {
  const std::string& path = daemon.address().socket_path;
  std::error_code error;
  const std::string why = !path.empty() && !std::filesystem::exists(path, error)
                              ? "there is no such socket"
                              : status.error_message();
  return absl::StrCat("cannot reach mpsd at ", daemon.address().target, ": ",
                      why);
}

std::string NextStep(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::NOT_FOUND:
      return "See the jobs there are with `mpsctl list`.";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "mpsctl and mpsd differ in version: compare `mpsctl --version` "
             "with `mpsd --version`.";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "Make room on the daemon's disk; `mpsctl info` shows what is "
             "free.";
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
      return "log/mpsd.log in the daemon's state folder tells more.";
    default:
      return "";
  }
}

}  // namespace

void Console::PrintJson(const google::protobuf::Message& message) const {
  out << ToJson(message).dump(-1, ' ', false,
                              nlohmann::json::error_handler_t::replace)
      << '\n'
      << std::flush;
}

ExitCode Console::Fail(ExitCode code, const std::string& what,
                       const std::string& next) const {
  err << "mpsctl: " << what << '\n';
  if (!next.empty()) err << next << '\n';
  return code;
}

ExitCode Console::Fail(const grpc::Status& status) const {
  const ExitCode code = ForStatus(status);
  if (code == ExitCode::kUnreachable) {
    return Fail(code, WhyUnreachable(daemon, status),
                HowToReach(daemon.address()));
  }
  const std::string what =
      status.error_message().empty()
          ? absl::StrCat("the call failed with gRPC status ",
                         static_cast<int>(status.error_code()))
          : status.error_message();
  return Fail(code, what, NextStep(status.error_code()));
}

ExitCode Console::Fail(ExitCode code, const absl::Status& status,
                       const std::string& next) const {
  return Fail(code, std::string(status.message()), next);
}

}  // namespace mpsd::client
