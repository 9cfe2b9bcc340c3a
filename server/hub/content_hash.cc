// SPDX-License-Identifier: Apache-2.0
#include "server/hub/content_hash.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "server/hub/hub_id.h"

namespace mpsd::hub {

struct ContentHash::Context {
  EVP_MD_CTX* const md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

ContentHash::ContentHash(const HubFile& file)
    : context_(std::make_unique<Context>()) {
  const bool large = IsSha256(file.hash);
  base::Check(EVP_DigestInit_ex(context_->md, large ? EVP_sha256() : EVP_sha1(),
                                nullptr) == 1,
              "OpenSSL has SHA-256 and SHA-1");
  if (large) return;
  Update(base::Cat("blob ", file.size));
  Update(std::string_view("\0", 1));
}

ContentHash::~ContentHash() = default;

void ContentHash::Update(std::string_view bytes) {
  base::Check(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()) == 1,
              "a digest takes bytes");
}

std::string ContentHash::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  base::Check(EVP_DigestFinal_ex(context_->md, digest, &size) == 1,
              "a digest ends");
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace mpsd::hub
