// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/server_tls.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;

constexpr unsigned int kWatchSeconds = 1;

// gRPC 1.51 has no such setting. A template, so that it is compiled for what
// the options have.
template <typename TlsOptionsOfGrpc>
void AskForTls13(TlsOptionsOfGrpc& options) {
  if constexpr (requires { options.set_min_tls_version(TLS1_3); }) {
    options.set_min_tls_version(TLS1_3);
  }
}

template <typename TlsOptionsOfGrpc>
constexpr bool HasLeastVersion() {
  return requires(TlsOptionsOfGrpc & o) { o.set_min_tls_version(TLS1_3); };
}

}  // namespace

void RefuseOldTls() {
  if constexpr (HasLeastVersion<
                    grpc::experimental::TlsServerCredentialsOptions>()) {
    return;
  }
  // A TLS 1.2 suite that needs a pre-shared key, which gRPC never has. The
  // suites of TLS 1.3 are a separate list.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", /*overwrite=*/1);
}

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Open(TlsOptions options) {
  const char* const folder = options.served.c_str();
  if ((mkdir(folder, 0700) != 0 && errno != EEXIST) ||
      chmod(folder, 0700) != 0) {
    return base::ErrnoStatus(errno, options.served.string());
  }
  auto tls = absl::WrapUnique(new ServerTls(std::move(options)));
  RETURN_IF_ERROR(tls->Renew());
  return tls;
}

// One file for both, so that gRPC never finds the key of another certificate.
fs::path ServerTls::IdentityFile() const {
  return options_.served / "server.pem";
}

absl::Status ServerTls::Renew() {
  ASSIGN_OR_RETURN(const tls::ServerPem pem,
                   tls::ReadServerPem(options_.files));
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(
      base::WriteFileAtomic(IdentityFile(), absl::StrCat(pem.key, pem.chain)));
  expiry_ = pem.expiry;
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> ServerTls::Credentials() const {
  namespace grpc_tls = grpc::experimental;
  const std::string identity = IdentityFile().string();
  grpc_tls::TlsServerCredentialsOptions options(
      std::make_shared<grpc_tls::FileWatcherCertificateProvider>(
          identity, identity, std::string(), kWatchSeconds));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  AskForTls13(options);
  return grpc_tls::TlsServerCredentials(options);
}

}  // namespace mpsd::rpc
