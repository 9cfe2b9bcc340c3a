// SPDX-License-Identifier: Apache-2.0
#include "client/address.h"

#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Address OfSocket(const std::string& path) {
  std::error_code error;
  const std::string absolute = fs::absolute(path, error).lexically_normal();
  return {absl::StrCat("unix:", absolute), absolute};
}

Address OfStateDir(const std::string& state_dir) {
  return OfSocket((fs::path(state_dir) / "mpsd.sock").string());
}

Address OfServer(const std::string& server) {
  for (const char* start : {"/", "./", "../"}) {
    if (absl::StartsWith(server, start)) return OfSocket(server);
  }
  if (absl::StartsWith(server, "unix://")) return OfSocket(server.substr(7));
  if (absl::StartsWith(server, "unix:")) return OfSocket(server.substr(5));
  if (IsBehindSsh(server)) {
    return {server, "", std::make_shared<ssh::Tunnel>(server)};
  }
  return {server, ""};
}

}  // namespace

bool IsBehindSsh(const std::string& server) {
  return absl::StartsWith(server, "ssh://");
}

std::string DefaultStateDir() {
  const fs::path home = Environment("HOME");
#ifdef __APPLE__
  return (home / "Library" / "Application Support" / "mpsd").string();
#else
  return (home / ".local" / "state" / "mpsd").string();
#endif
}

Address FindAddress(const std::string& server, const std::string& state_dir) {
  if (!server.empty()) return OfServer(server);
  if (!state_dir.empty()) return OfStateDir(state_dir);
  if (std::string s = Environment("MPSD_SERVER"); !s.empty()) {
    return OfServer(s);
  }
  if (std::string s = Environment("MPSD_STATE_DIR"); !s.empty()) {
    return OfStateDir(s);
  }
  return OfStateDir(DefaultStateDir());
}

}  // namespace mpsd::client
