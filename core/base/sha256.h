// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::base {

// SHA-256 (FIPS 180-4) of a stream of bytes. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::string_view bytes);
  // 64 lower-case hexadecimal digits. The object cannot be used afterwards.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(std::string_view bytes);

// The digest of a file's bytes, read in pieces. NotFound …, naming the path;
// Cancelled once another thread has set `stop`.
absl::StatusOr<std::string> Sha256File(const std::filesystem::path& path,
                                       const std::atomic<bool>* stop = nullptr);

// The fingerprint of a certificate from its DER bytes: "SHA256:" and the digest
// as 32 colon-separated pairs of upper-case hexadecimal digits, as `openssl
// x509 -fingerprint -sha256` prints.
std::string Fingerprint(std::string_view der);

// Normalises a fingerprint that a person typed to the spelling of
// Fingerprint(): upper or lower case, with or without "SHA256:", colons and
// surrounding spaces. InvalidArgument for anything else.
absl::StatusOr<std::string> ParseFingerprint(std::string_view text);

}  // namespace mpsd::base
