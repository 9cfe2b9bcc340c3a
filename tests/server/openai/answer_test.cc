// SPDX-License-Identifier: Apache-2.0
#include "server/openai/answer.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::openai {
namespace {

std::string HeaderOf(const http::Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

TEST(Answer, IsJson) {
  const http::Response response = JsonAnswer({{"id", "x\xff"}});
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_EQ(response.body, "{\"id\":\"x\xef\xbf\xbd\"}\n");
  EXPECT_EQ(ListAnswer({Json{{"id", 1}}}, true).body,
            "{\"object\":\"list\",\"data\":[{\"id\":1}],\"has_more\":true}\n");
  EXPECT_EQ(ListAnswer({}, false).body,
            "{\"object\":\"list\",\"data\":[],\"has_more\":false}\n");
}

TEST(Answer, AnErrorHasOpenAisShape) {
  const Json error =
      Json::parse(ErrorAnswer(absl::InvalidArgumentError(
                                  "method.type: expected \"supervised\""))
                      .body)["error"];
  EXPECT_EQ(error["message"], "method.type: expected \"supervised\"");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "method.type");
  EXPECT_EQ(error["code"], "invalid_value");
}

TEST(Answer, AParamIsAFieldAlone) {
  for (const char* message : {"no field here", "job X: gone", ": x", "A: b",
                              "two words: x", "https://x"}) {
    const Json error =
        Json::parse(ErrorAnswer(absl::NotFoundError(message)).body)["error"];
    EXPECT_TRUE(error["param"].is_null()) << message;
  }
}

// OpenAI's clients choose their exception, and whether they try again, by
// these.
TEST(Answer, EachStatusHasItsNumber) {
  const std::map<absl::StatusCode, std::pair<int, std::string>> wanted = {
      {absl::StatusCode::kInvalidArgument, {400, "false"}},
      {absl::StatusCode::kFailedPrecondition, {400, "false"}},
      {absl::StatusCode::kUnauthenticated, {401, "false"}},
      {absl::StatusCode::kPermissionDenied, {403, "false"}},
      {absl::StatusCode::kNotFound, {404, "false"}},
      {absl::StatusCode::kAlreadyExists, {409, "false"}},
      {absl::StatusCode::kResourceExhausted, {429, "false"}},
      {absl::StatusCode::kUnavailable, {503, "true"}},
      {absl::StatusCode::kAborted, {503, "true"}},
      {absl::StatusCode::kInternal, {500, "false"}},
      {absl::StatusCode::kDataLoss, {500, "false"}},
      {absl::StatusCode::kUnknown, {500, "false"}}};
  for (const auto& [code, answer] : wanted) {
    const http::Response response = ErrorAnswer(absl::Status(code, "x"));
    EXPECT_EQ(response.status, answer.first) << static_cast<int>(code);
    EXPECT_EQ(HeaderOf(response, "X-Should-Retry"), answer.second);
    EXPECT_EQ(HeaderOf(response, "Retry-After"),
              answer.second == "true" ? "1" : "");
  }
  EXPECT_EQ(HeaderOf(ErrorAnswer(absl::UnauthenticatedError("x")),
                     "WWW-Authenticate"),
            "Bearer");
  EXPECT_EQ(TooLargeAnswer().status, 413);
}

}  // namespace
}  // namespace mpsd::openai
