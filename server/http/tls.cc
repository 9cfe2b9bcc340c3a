// SPDX-License-Identifier: Apache-2.0
#include "server/http/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/ssl/context.hpp>
#include <ctime>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/secret_file.h"
#include "core/base/small_file.h"

namespace mpsd::http {
namespace {

namespace ssl = boost::asio::ssl;

absl::Status Fault(const std::filesystem::path& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", what));
}

absl::StatusOr<absl::Time> ExpiryOf(SSL_CTX* context,
                                    const std::filesystem::path& path) {
  const X509* certificate = SSL_CTX_get0_certificate(context);
  std::tm expiry{};
  if (certificate == nullptr ||
      ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &expiry) != 1) {
    return Fault(path, "the certificate has no date of expiry");
  }
  return absl::FromTM(expiry, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<Tls> LoadTls(const TlsFiles& files) {
  const absl::StatusOr<std::string> certificate =
      base::ReadSmallFile(files.certificate, limits::kPemBytes);
  if (!certificate.ok()) return certificate.status();
  const absl::StatusOr<std::string> key =
      base::ReadSecretFile(files.key, limits::kPemBytes);
  if (!key.ok()) return key.status();
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* native = context->native_handle();
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  static_cast<void>(
      context->use_certificate_chain(boost::asio::buffer(*certificate), error));
  if (error) {
    return Fault(files.certificate, "expected a certificate in PEM format");
  }
  // OpenSSL would ask the terminal for a passphrase.
  static_cast<void>(context->set_password_callback(
      [](size_t, ssl::context::password_purpose) { return std::string(); },
      error));
  static_cast<void>(context->use_private_key(boost::asio::buffer(*key),
                                             ssl::context::pem, error));
  if (error) {
    return Fault(
        files.key,
        absl::StrCat("expected the key of ", files.certificate.string(),
                     " in PEM format, without a passphrase"));
  }
  if (SSL_CTX_check_private_key(native) != 1) {
    return Fault(files.key, absl::StrCat("the key is not the one of ",
                                         files.certificate.string()));
  }
  const absl::StatusOr<absl::Time> expiry = ExpiryOf(native, files.certificate);
  if (!expiry.ok()) return expiry.status();
  return Tls{std::move(context), *expiry};
}

}  // namespace mpsd::http
