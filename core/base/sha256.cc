// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>

#include "absl/strings/escaping.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"

namespace mpsd::base {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr);
}

Sha256::~Sha256() = default;

void Sha256::Update(std::string_view bytes) {
  EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size());
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_->evp, digest, &size);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.FinishHex();
}

absl::StatusOr<std::string> Sha256File(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  constexpr size_t kPiece = 8 << 20;
  std::string_view bytes = file->bytes();
  Sha256 hash;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    hash.Update(bytes.substr(at, kPiece));
    file->DropPages(at, std::min(kPiece, bytes.size() - at));
    CountWork();
  }
  return hash.FinishHex();
}

}  // namespace mpsd::base
