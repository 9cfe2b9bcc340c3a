// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"

namespace mpsd::openai {
namespace {

constexpr char kJson[] = "application/json";

struct Kind {
  absl::StatusCode status;
  int http;
  const char* type;
  const char* code;
  // OpenAI's clients try 409, 429 and 5xx again: no use where only a person can
  // change what is wrong.
  bool again;
};
constexpr Kind kKinds[] = {
    {absl::StatusCode::kInvalidArgument, 400, "invalid_request_error",
     "invalid_value", false},
    {absl::StatusCode::kOutOfRange, 400, "invalid_request_error",
     "invalid_value", false},
    {absl::StatusCode::kFailedPrecondition, 400, "invalid_request_error",
     "failed_precondition", false},
    {absl::StatusCode::kUnauthenticated, 401, "invalid_request_error",
     "invalid_api_key", false},
    {absl::StatusCode::kPermissionDenied, 403, "invalid_request_error",
     "permission_denied", false},
    {absl::StatusCode::kNotFound, 404, "invalid_request_error", "not_found",
     false},
    {absl::StatusCode::kUnimplemented, 404, "invalid_request_error",
     "unknown_url", false},
    {absl::StatusCode::kAlreadyExists, 409, "invalid_request_error",
     "already_exists", false},
    {absl::StatusCode::kResourceExhausted, 429, "insufficient_quota",
     "insufficient_quota", false},
    {absl::StatusCode::kUnavailable, 503, "server_error", "unavailable", true},
    {absl::StatusCode::kAborted, 503, "server_error", "aborted", true},
};
constexpr Kind kOther = {absl::StatusCode::kUnknown, 500, "server_error",
                         "internal_error", false};

const Kind& KindOf(absl::StatusCode code) {
  for (const Kind& kind : kKinds) {
    if (kind.status == code) return kind;
  }
  return kOther;
}

// The field that a message begins with: "method.type: expected …".
Json ParamOf(const std::string& message) {
  const size_t colon = message.find(": ");
  if (colon == std::string::npos || colon == 0) return nullptr;
  const std::string field = message.substr(0, colon);
  const bool is_field = std::all_of(field.begin(), field.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_' ||
           c == '.' || c == '[' || c == ']';
  });
  return is_field ? Json(field) : Json(nullptr);
}

http::Response Answer(int status, const Json& object) {
  // Copies of `object` are small: no value of a client nests in it.
  return {.status = status,
          .content_type = kJson,
          .body = object.dump(-1, ' ', /*ensure_ascii=*/false,
                              Json::error_handler_t::replace) +
                  "\n"};
}

http::Response Error(int status, const char* type, const char* code,
                     const std::string& message, Json param, bool again) {
  Json error = {{"message", message},
                {"type", type},
                {"param", std::move(param)},
                {"code", code}};
  http::Response response = Answer(status, {{"error", std::move(error)}});
  response.headers.emplace_back("X-Should-Retry", again ? "true" : "false");
  if (again) response.headers.emplace_back("Retry-After", "1");
  if (status == 401)
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace

http::Response JsonAnswer(const Json& object) { return Answer(200, object); }

http::Response ListAnswer(Json::array_t data, bool has_more) {
  return JsonAnswer(Json{{"object", "list"},
                         {"data", Json(std::move(data))},
                         {"has_more", has_more}});
}

http::Response ErrorAnswer(const absl::Status& status) {
  const Kind& kind = KindOf(status.code());
  const std::string message(status.message());
  return Error(kind.http, kind.type, kind.code, message, ParamOf(message),
               kind.again);
}

http::Response TooLargeAnswer() {
  return Error(
      413, "invalid_request_error", "request_too_large",
      absl::StrCat("the request's body has more than ", limits::kHttpBodyBytes,
                   " bytes; send data by /v1/files"),
      nullptr, /*again=*/false);
}

}  // namespace mpsd::openai
