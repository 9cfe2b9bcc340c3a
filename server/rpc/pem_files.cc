// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pem_files.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/secret_file.h"
#include "core/base/small_file.h"
#include "core/base/status_macros.h"
#include "core/base/certificate_facts.h"
#include "core/base/openssl.h"
#include "core/base/pem.h"

namespace mpsd::tls {
namespace {

namespace fs = std::filesystem;
using certificates::Certificate;
using certificates::Key;
using Context = std::unique_ptr<SSL_CTX, certificates::Freed<SSL_CTX_free>>;

absl::Status Fault(const fs::path& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", what));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(
    const fs::path& path) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSmallFile(path, limits::kPemBytes));
  absl::StatusOr<std::vector<Certificate>> certificates =
      certificates::ParseCertificates(pem);
  if (!certificates.ok()) {
    return Fault(path, std::string(certificates.status().message()));
  }
  return certificates;
}

absl::StatusOr<Key> ReadKey(const ServerFiles& files) {
  ASSIGN_OR_RETURN(const std::string pem,
                   base::ReadSecretFile(files.key, limits::kPemBytes));
  absl::StatusOr<Key> key = certificates::ParseKey(pem);
  if (!key.ok()) return Fault(files.key, std::string(key.status().message()));
  return key;
}

absl::StatusOr<std::string> Encode(
    const std::vector<Certificate>& certificates) {
  std::string text;
  for (const Certificate& certificate : certificates) {
    ASSIGN_OR_RETURN(const std::string pem,
                     certificates::CertificatePem(*certificate));
    text += pem;
  }
  return text;
}

// Loads both as a server does.
absl::Status CheckServes(const ServerFiles& files,
                         const std::vector<Certificate>& chain,
                         const Key& key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  bool serves = context != nullptr &&
                SSL_CTX_use_certificate(context.get(), chain[0].get()) == 1;
  for (size_t i = 1; serves && i < chain.size(); ++i) {
    serves = SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  }
  serves = serves && SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1;
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  if (serves) return absl::OkStatus();
  return Fault(files.certificate, absl::StrCat("OpenSSL does not serve this "
                                               "certificate: ",
                                               reason ? reason : "no reason"));
}

}  // namespace

absl::StatusOr<ServerPem> ReadServerPem(const ServerFiles& files) {
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain,
                   ReadCertificates(files.certificate));
  ASSIGN_OR_RETURN(const Key key, ReadKey(files));
  const bool is_pair = X509_check_private_key(chain[0].get(), key.get());
  ERR_clear_error();
  if (!is_pair) {
    return Fault(files.key, absl::StrCat("the key is not the one of ",
                                         files.certificate.string()));
  }
  RETURN_IF_ERROR(CheckServes(files, chain, key));
  const absl::StatusOr<certificates::CertificateFacts> facts =
      certificates::FactsOf(*chain[0]);
  if (!facts.ok()) {
    return Fault(files.certificate, std::string(facts.status().message()));
  }
  ASSIGN_OR_RETURN(const std::string chain_pem, Encode(chain));
  ASSIGN_OR_RETURN(const std::string key_pem, certificates::KeyPem(*key));
  return ServerPem{chain_pem, key_pem, facts->expiry};
}

}  // namespace mpsd::tls
