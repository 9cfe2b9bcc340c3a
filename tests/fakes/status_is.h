// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_FAKES_STATUS_IS_H_
#define MPSD_TESTS_FAKES_STATUS_IS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mpsd::fakes {

inline const absl::Status& StatusIn(const absl::Status& s) { return s; }
template <typename T>
const absl::Status& StatusIn(const absl::StatusOr<T>& s) {
  return s.status();
}

// The value, which must be there.
template <typename T>
T Ok(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return *std::move(value);
}

// A Status or StatusOr of this code, whose message fits the matcher, or has the
// text in it.
MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = StatusIn(arg);
  *result_listener << status;
  const std::string text(status.message());
  if (status.code() != code) return false;
  if constexpr (std::is_convertible_v<message_type, std::string>) {
    return text.find(message) != std::string::npos;
  } else {
    return testing::ExplainMatchResult(message, text, result_listener);
  }
}
MATCHER_P(StatusIs, code, "") {
  *result_listener << StatusIn(arg);
  return StatusIn(arg).code() == code;
}

}  // namespace mpsd::fakes

#endif  // MPSD_TESTS_FAKES_STATUS_IS_H_
