// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HTTP_TOKEN_H_
#define MPSD_SERVER_HTTP_TOKEN_H_

#include <filesystem>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::http {

// The bearer token in a file: one line of limits::kLeastTokenBytes to
// limits::kTokenBytes, of the characters that RFC 6750 allows. InvalidArgument
// for other content, without quoting it; else the errors of ReadSecretFile.
absl::StatusOr<std::string> ReadTokenFile(const std::filesystem::path& path);

// Whether the header Authorization is "Bearer TOKEN". Takes the same time for
// every wrong token of the same length.
bool HasToken(std::string_view authorization, std::string_view token);

}  // namespace mpsd::http

#endif  // MPSD_SERVER_HTTP_TOKEN_H_
