// SPDX-License-Identifier: Apache-2.0
#include "server/notify/signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::notify {

std::string SignatureOf(std::string_view secret, absl::Time time,
                        std::string_view body) {
  const std::string seconds = absl::StrCat(absl::ToUnixSeconds(time));
  const std::string text =
      absl::StrCat(seconds, ".", absl::string_view(body.data(), body.size()));
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(),
           digest, &size);
  base::Check(made != nullptr, "HMAC-SHA256 takes any key and text");
  return absl::StrCat("t=", seconds, ",v1=",
                      absl::BytesToHexString(absl::string_view(
                          reinterpret_cast<const char*>(digest), size)));
}

}  // namespace mpsd::notify
