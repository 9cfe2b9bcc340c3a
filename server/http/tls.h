// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_TLS_H_
#define MPSD_SERVER_HTTP_TLS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tls/pem_files.h"

namespace boost::asio::ssl {
class context;
}

namespace mpsd::http {

using TlsFiles = tls::ServerFiles;

struct Tls {
  std::shared_ptr<boost::asio::ssl::context> context;  // TLS 1.3 alone
  absl::Time expiry;  // notAfter of the server's certificate
};

// The errors of tls::ReadServerPem.
absl::StatusOr<Tls> LoadTls(const TlsFiles& files);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_TLS_H_
