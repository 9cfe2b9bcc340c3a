// SPDX-License-Identifier: Apache-2.0
#include "client/tls/system_roots.h"

#include <openssl/x509.h>

#include <cstdlib>
#include <filesystem>

#include "absl/status/status.h"
#include "core/base/small_file.h"

namespace mpsd::client {
namespace {

constexpr size_t kMostBytes = 8 << 20;

}  // namespace

absl::StatusOr<std::string> SystemRoots() {
  if (const char* file = std::getenv(X509_get_default_cert_file_env());
      file != nullptr && *file != 0) {
    return base::ReadSmallFile(file, kMostBytes);
  }
  for (const char* file :
       {X509_get_default_cert_file(), "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}) {
    std::error_code error;
    if (std::filesystem::file_size(file, error) == 0 || error) continue;
    return base::ReadSmallFile(file, kMostBytes);
  }
  return absl::NotFoundError(
      "this machine has no file of certificates that it trusts; install "
      "ca-certificates, or name one by SSL_CERT_FILE");
}

}  // namespace mpsd::client
