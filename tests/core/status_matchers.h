// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd {
inline namespace testing_support {

// What most tests are written with.
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;
using testing::StartsWith;

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const T& value) {
  return value.status();
}

// The value, which must be there.
template <typename T>
T Ok(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

// Of a Status, or of what has one.
MATCHER(IsOk, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).ok();
}

// An error whose message contains a text, or matches a matcher.
MATCHER_P(Says, message, "") {
  const absl::Status status = StatusOf(arg);
  *result_listener << status;
  if constexpr (std::is_convertible_v<decltype(message), std::string>) {
    return !status.ok() &&
           std::string(status.message()).find(message) != std::string::npos;
  } else {
    return !status.ok() &&
           testing::Matches(message)(std::string(status.message()));
  }
}

// The same, of a code.
MATCHER_P2(Fails, code, message, "") {
  return StatusOf(arg).code() == code &&
         testing::ExplainMatchResult(Says(message), arg, result_listener);
}

// An error of this code, with any message.
MATCHER_P(Fails, code, "") {
  *result_listener << StatusOf(arg);
  return StatusOf(arg).code() == code;
}

}  // namespace testing_support
}  // namespace mpsd
