// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_TLS_H_
#define MPSD_SERVER_HTTP_TLS_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace boost::asio::ssl {
class context;
}

namespace mpsd::http {

// A server's certificate and its key, both PEM. The certificate's file may hold
// the certificates between it and its authority, in that order.
struct TlsFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;  // readable by its owner and group alone
};

struct Tls {
  std::shared_ptr<boost::asio::ssl::context> context;  // TLS 1.3 alone
  absl::Time expiry;  // notAfter of the server's certificate
};

// InvalidArgument for files that are no PEM, for a key with a passphrase and
// for a key of another certificate; else the errors of ReadSecretFile and
// base::ReadSmallFile. A certificate that has expired is loaded: a client's
// error says more than a connection that is refused.
absl::StatusOr<Tls> LoadTls(const TlsFiles& files);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_TLS_H_
