// SPDX-License-Identifier: Apache-2.0
#include "server/listen_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/listener/listen_address.h"

namespace mpsd {
namespace {

absl::Status CheckListen(const Config& config) {
  const auto port =
      std::find_if(config.listen.begin(), config.listen.end(), IsPort);
  if (port == config.listen.end() || config.insecure_listen) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--listen ", *port,
      ": the API has neither TLS nor tokens yet; whoever reaches a port, on "
      "127.0.0.1 every account of this machine, could run jobs as this user. "
      "From another machine reach the socket by ssh instead: ssh -N -L "
      "/tmp/mpsd.sock:",
      config.SocketPath().string(),
      " HOST, and mpsctl --server unix:/tmp/mpsd.sock. If a port is meant "
      "nonetheless, give --insecure-listen too"));
}

absl::Status CheckPage(const Config& config) {
  const std::string& address = config.http_listen;
  if (address.empty() || !IsPort(address) || listener::IsLoopback(address)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--http-listen ", address,
      ": the web page has neither TLS nor tokens yet, and shows jobs with "
      "their data's paths and logs; serve it on 127.0.0.1:PORT or unix:PATH, "
      "and reach that from another machine by ssh -L"));
}

absl::Status CheckMetrics(const Config& config) {
  const bool has_cert = !config.metrics_tls_cert.empty();
  if (has_cert != !config.metrics_tls_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        has_cert ? "--metrics-tls-cert" : "--metrics-tls-key",
        ": the certificate and its key come together; give ",
        has_cert ? "--metrics-tls-key" : "--metrics-tls-cert", " too"));
  }
  const std::string& address = config.metrics_address;
  if (config.metrics_token_file.empty() || has_cert || address.empty() ||
      !IsPort(address) || listener::IsLoopback(address)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--metrics-token-file: on ", address,
      " others could read the token as it passes; give --metrics-tls-cert and "
      "--metrics-tls-key too, or serve the metrics on 127.0.0.1"));
}

}  // namespace

bool IsPort(const std::string& address) {
  return !address.starts_with("unix:");
}

absl::Status CheckAddresses(const Config& config) {
  if (absl::Status s = CheckListen(config); !s.ok()) return s;
  if (absl::Status s = CheckPage(config); !s.ok()) return s;
  return CheckMetrics(config);
}

}  // namespace mpsd
