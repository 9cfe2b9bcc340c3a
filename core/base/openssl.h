// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_OPENSSL_H_
#define MPSD_CORE_BASE_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

// OpenSSL's objects with owning pointers.
namespace mpsd::certificates {

template <auto free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    free(object);
  }
};

using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Number = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using GeneralName = std::unique_ptr<GENERAL_NAME, Freed<GENERAL_NAME_free>>;
using GeneralNames = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

}  // namespace mpsd::certificates

#endif  // MPSD_CORE_BASE_OPENSSL_H_
