// SPDX-License-Identifier: Apache-2.0
#include "client/tls/trust.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>

#include <memory>

#include "core/certificates/pem.h"

namespace mpsd::client {
namespace {

using Store = std::unique_ptr<X509_STORE, certificates::Freed<X509_STORE_free>>;
using StoreContext =
    std::unique_ptr<X509_STORE_CTX, certificates::Freed<X509_STORE_CTX_free>>;

// Frees the stack, not the certificates.
struct FreeStack {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }
};
using Stack = std::unique_ptr<STACK_OF(X509), FreeStack>;

Trust TrustOf(int error) {
  switch (error) {
    case X509_V_OK:
      return Trust::kTrusted;
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return Trust::kExpired;
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return Trust::kNotYetValid;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return Trust::kWrongName;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
      return Trust::kOtherAuthority;
    default:
      return Trust::kBroken;
  }
}

void Name(X509_VERIFY_PARAM* parameters, const std::string& host) {
  unsigned char address[sizeof(in6_addr)];
  for (int family : {AF_INET, AF_INET6}) {
    if (inet_pton(family, host.c_str(), address) != 1) continue;
    X509_VERIFY_PARAM_set1_ip(
        parameters, address,
        family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
    return;
  }
  X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size());
  // As gRPC: the common name counts for nothing where there are names.
  X509_VERIFY_PARAM_set_hostflags(parameters,
                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
}

}  // namespace

Verdict Judge(const Chain& chain, const std::vector<X509*>& roots,
              const std::string& host, absl::Time now) {
  const Store store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  const Stack others(sk_X509_new_null());
  if (store == nullptr || context == nullptr || others == nullptr ||
      chain.empty()) {
    return {Trust::kBroken, "no certificate"};
  }
  for (X509* root : roots) X509_STORE_add_cert(store.get(), root);
  for (const certificates::Certificate& one : chain) {
    sk_X509_push(others.get(), one.get());
  }
  if (X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(),
                          others.get()) != 1) {
    return {Trust::kBroken, "it cannot be read"};
  }
  X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_flags(
      parameters, X509_V_FLAG_PARTIAL_CHAIN | X509_V_FLAG_TRUSTED_FIRST);
  X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(now));
  X509_STORE_CTX_set_purpose(context.get(), X509_PURPOSE_SSL_SERVER);
  Name(parameters, host);
  X509_verify_cert(context.get());
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  if (error == X509_V_OK) return {Trust::kTrusted};
  return {TrustOf(error), X509_verify_cert_error_string(error)};
}

Verdict Judge(const Chain& chain, const std::string& roots_pem,
              const std::string& host, absl::Time now) {
  const absl::StatusOr<Chain> roots =
      certificates::ParseCertificates(roots_pem);
  if (!roots.ok()) {
    return {Trust::kBroken, std::string(roots.status().message())};
  }
  std::vector<X509*> borrowed;
  for (const certificates::Certificate& root : *roots) {
    borrowed.push_back(root.get());
  }
  return Judge(chain, borrowed, host, now);
}

}  // namespace mpsd::client
