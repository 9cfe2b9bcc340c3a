// SPDX-License-Identifier: Apache-2.0
#include "server/access_options.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/access/rules.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

fs::path AbsoluteOrEmpty(const std::string& path) {
  return path.empty() ? fs::path() : fs::absolute(path);
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

absl::Status CheckNames(const char* option,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (access::IsUserName(name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(option, ": '", name,
                     "' is not a user name; expected 1 to 64 letters, digits "
                     "and \"._@+-\""));
  }
  return absl::OkStatus();
}

// Makes STATE/tls, where "mpsd tls init" writes, the default.
void TakeOwnCertificates(Config& config) {
  const fs::path folder = config.state_dir / "tls";
  if (!Exists(folder / "server.crt")) return;
  config.tls_cert = folder / "server.crt";
  config.tls_key = folder / "server.key";
}

}  // namespace

void DeclareAccess(CLI::App& app, AccessOptions& options, Config& config) {
  app.add_option("--listen", config.listen,
                 "Also serve the API on this HOST:PORT, over TLS, to clients "
                 "with a token; or on this unix:PATH; may be repeated");
  app.add_option(
      "--tls-cert", options.tls_cert,
      "The certificate of the API's ports, a PEM file with its chain; SIGHUP "
      "reads it again [STATE/tls/server.crt, which mpsd tls init makes; "
      "without any, ports are served on 127.0.0.1 only]");
  app.add_option("--tls-key", options.tls_key,
                 "The certificate's key, a PEM file without a passphrase");
  app.add_option("--socket-group", config.socket_group,
                 "Let the members of this group use the unix sockets, each "
                 "under their own name [the daemon's account and root]");
  app.add_option("--admin", config.admins,
                 "The account of this name is an admin; may be repeated "
                 " [the daemon's account and root]");
  app.add_option("--viewer", config.viewers,
                 "The account of this name may read but change nothing; may be "
                 "repeated [others are users]");
  app.add_flag(
      "--private-jobs", config.private_jobs,
      "Show the spec, log, progress and results of a job only to its owner and "
      "to admins, and leave them out of the web page and the metrics");
}

absl::Status FinishAccess(const AccessOptions& options, Config& config) {
  config.tls_cert = AbsoluteOrEmpty(options.tls_cert);
  config.tls_key = AbsoluteOrEmpty(options.tls_key);
  if (config.tls_cert.empty() && config.tls_key.empty()) {
    TakeOwnCertificates(config);
  }
  RETURN_IF_ERROR(CheckNames("--admin", config.admins));
  RETURN_IF_ERROR(CheckNames("--viewer", config.viewers));
  for (const std::string& name : config.admins) {
    if (std::count(config.viewers.begin(), config.viewers.end(), name) == 0) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "--viewer: '", name, "' is an --admin already; name it once"));
  }
  return absl::OkStatus();
}

}  // namespace mpsd
