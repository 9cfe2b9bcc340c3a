// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include <sys/un.h>

#include <chrono>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/refusal.h"
#include "client/text/json.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

constexpr char kSeeLog[] =
    "log/mpsd.log in the daemon's state folder tells more.";
constexpr size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

std::string HowToReach(const Address& address) {
  const std::string& path = address.socket_path;
  if (address.tunnel != nullptr) {
    return "ssh gets through, mpsd does not answer: see whether it runs there.";
  }
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

std::string WhatUnreachable(const Connection& daemon,
                            const grpc::Status& status) {
  const std::string& path = daemon.address().socket_path;
  std::error_code error;
  const std::string why = !path.empty() && !std::filesystem::exists(path, error)
                              ? "there is no such socket"
                              : status.error_message();
  return absl::StrCat("cannot reach mpsd at ", daemon.address().target, ": ",
                      why);
}

// Whether a daemon is there now, whatever the failed call ended with.
bool Answers(Connection& daemon) {
  daemon.Reset();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(2));
  v1::InfoResponse info;
  switch (
      daemon.daemon().Info(&context, v1::InfoRequest(), &info).error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return true;
    default:
      return false;
  }
}

// Whether the message was larger than gRPC accepts, here or at the daemon.
bool IsTooLarge(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::StrContains(status.error_message(), "larger than max");
}

// Whether the daemon ran out of disk, not of descriptors or memory.
bool IsOfDisk(const grpc::Status& status) {
  const std::string& text = status.error_message();
  return absl::StrContains(text, "disk") || absl::StrContains(text, "Disk") ||
         absl::StrContains(text, "No space");
}

std::string NextStep(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "It is busy, or waits for a slow disk. What was asked for may "
             "have happened: look before you ask again (`mpsctl list`).";
    case grpc::StatusCode::NOT_FOUND:
      return "See the jobs there are with `mpsctl list`.";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "mpsctl and mpsd differ in version: compare `mpsctl --version` "
             "with `mpsd --version`.";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (IsTooLarge(status)) {
        return "Ask for less at a time (`mpsctl list --limit 20`), or name "
               "fewer files in the job.";
      }
      // A user's limit: the message says what to do.
      if (absl::StrContains(status.error_message(), "[user.")) return "";
      if (!IsOfDisk(status)) return kSeeLog;
      return "Make room on the daemon's disk; `mpsctl info` shows what is "
             "free.";
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
      return kSeeLog;
    default:
      return "";
  }
}

std::string MessageOf(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return "mpsd did not answer in time";
  }
  if (IsTooLarge(status)) {
    return absl::StrCat("a message is larger than gRPC may carry: ",
                        status.error_message());
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("this mpsd does not know what was asked for",
                        status.error_message().empty() ? "" : ": ",
                        status.error_message());
  }
  if (!status.error_message().empty()) return status.error_message();
  return absl::StrCat("the call failed with gRPC status ",
                      static_cast<int>(status.error_code()));
}

}  // namespace

void Console::PrintJson(const google::protobuf::Message& message) const {
  PrintJson(ToJson(message));
}

void Console::PrintJson(const nlohmann::ordered_json& json) const {
  const std::string line =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // In a JSON text Printable escapes nothing but U+007F, because JSON has
  // escaped the other control characters.
  out << (terminal.is_tty ? base::Printable(line) : line) << '\n' << std::flush;
}

ExitCode Console::Fail(ExitCode code, const std::string& what,
                       const std::string& next) const {
  err << "mpsctl: " << base::Printable(what, base::Breaks::kKeep) << '\n';
  if (!next.empty()) {
    err << base::Printable(next, base::Breaks::kKeep) << '\n';
  }
  return code;
}

ExitCode Console::Fail(const grpc::Status& status) const {
  const ExitCode code = ForStatus(status);
  if (code == ExitCode::kUnreachable) {
    if (const absl::Status s = daemon.tunnel_status(); !s.ok()) {
      return FailToReach(s);
    }
    if (Answers(daemon)) {
      return Fail(
          ExitCode::kTryAgain,
          absl::StrCat("mpsd cannot do it now: ", status.error_message()),
          "Try again in a few seconds.");
    }
    if (const auto refusal = WhyUnreachable(daemon.address(), absl::Now())) {
      return Fail(refusal->code, refusal->what, refusal->next);
    }
    return Fail(code, WhatUnreachable(daemon, status),
                HowToReach(daemon.address()));
  }
  if (code == ExitCode::kNotLetIn) {
    return Fail(code, MessageOf(status),
                HowToBeLetIn(daemon.address(), status.error_code()));
  }
  return Fail(code, MessageOf(status), NextStep(status));
}

ExitCode Console::FailToReach(const absl::Status& tunnel) const {
  if (absl::IsCancelled(tunnel)) {
    return Fail(ExitCode::kDetached, "interrupted", "");
  }
  return Fail(ForTunnel(tunnel),
              absl::StrCat("cannot reach mpsd at ", daemon.address().target,
                           ": ", tunnel.message()),
              "");
}

ExitCode Console::Fail(ExitCode code, const absl::Status& status,
                       const std::string& next) const {
  return Fail(code, std::string(status.message()), next);
}

}  // namespace mpsd::client
