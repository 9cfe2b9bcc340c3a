// SPDX-License-Identifier: Apache-2.0
#include "server/http/tls.h"

#include <openssl/ssl.h>

#include <boost/asio/ssl/context.hpp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mpsd::http {

namespace ssl = boost::asio::ssl;

absl::StatusOr<Tls> LoadTls(const TlsFiles& files) {
  const absl::StatusOr<tls::ServerPem> pem = tls::ReadServerPem(files);
  if (!pem.ok()) return pem.status();
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_3_VERSION);
  boost::system::error_code error;
  static_cast<void>(
      context->use_certificate_chain(boost::asio::buffer(pem->chain), error));
  if (!error) {
    static_cast<void>(context->use_private_key(boost::asio::buffer(pem->key),
                                               ssl::context::pem, error));
  }
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate.string(), ": ", error.message()));
  }
  return Tls{std::move(context), pem->expiry};
}

}  // namespace mpsd::http
