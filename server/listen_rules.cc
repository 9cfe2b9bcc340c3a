// SPDX-License-Identifier: Apache-2.0
#include "server/listen_rules.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/rpc/listener.h"

namespace mpsd {
namespace {

// The certificate and its key come together.
absl::Status CheckPair(const std::filesystem::path& cert,
                       const std::filesystem::path& key, const char* cert_name,
                       const char* key_name) {
  if (cert.empty() == key.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(cert.empty() ? key_name : cert_name,
                   ": the certificate and its key come together; give ",
                   cert.empty() ? cert_name : key_name, " too"));
}

absl::Status CheckListen(const Config& config) {
  RETURN_IF_ERROR(
      CheckPair(config.tls_cert, config.tls_key, "--tls-cert", "--tls-key"));
  const auto open = std::find_if(
      config.listen.begin(), config.listen.end(), [](const std::string& to) {
        return IsPort(to) && !listener::IsLoopback(to);
      });
  if (open == config.listen.end() || !config.tls_cert.empty()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--listen ", *open,
                   ": without a certificate the API is served only on this "
                   "machine (127.0.0.1, ::1, localhost); run mpsd tls init, or "
                   "give --tls-cert and --tls-key. Over ssh no port is needed: "
                   "mpsctl --server ssh://THIS-HOST"));
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
  RETURN_IF_ERROR(CheckPair(config.metrics_tls_cert, config.metrics_tls_key,
                            "--metrics-tls-cert", "--metrics-tls-key"));
  const std::string& address = config.metrics_address;
  if (config.metrics_token_file.empty() || !config.metrics_tls_cert.empty() ||
      address.empty() || !IsPort(address) || listener::IsLoopback(address)) {
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
  RETURN_IF_ERROR(CheckListen(config));
  RETURN_IF_ERROR(CheckPage(config));
  return CheckMetrics(config);
}

}  // namespace mpsd
