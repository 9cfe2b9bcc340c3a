// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/barrier.h"

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BarrierTest : public testing::Test {
 protected:
  template <typename Exception>
  absl::Status Throw(const Exception& exception) {
    return barrier_.Run("JobService.Get",
                        [&]() -> absl::Status { throw exception; });
  }
  std::vector<std::string> log_;
  Barrier barrier_{[this](const std::string& line) { log_.push_back(line); }};
};

TEST_F(BarrierTest, PassesAStatusOn) {
  EXPECT_TRUE(barrier_.Run("R", [] { return absl::OkStatus(); }).ok());
  const absl::Status error = absl::NotFoundError("none");
  EXPECT_EQ(barrier_.Run("R", [&] { return error; }), error);
  EXPECT_THAT(log_, testing::IsEmpty());
}

TEST_F(BarrierTest, AnExceptionIsInternalAndLoggedByItsTypeAlone) {
  const absl::Status status = Throw(std::out_of_range("a password"));
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("JobService.Get"));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("password")));
  ASSERT_EQ(log_.size(), 1u);
  EXPECT_EQ(log_[0], "JobService.Get: exception std::out_of_range");
}

TEST_F(BarrierTest, MemoryThatRanOutAndWhatIsNoException) {
  EXPECT_EQ(Throw(std::bad_alloc()).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Throw(42).code(), absl::StatusCode::kInternal);
  ASSERT_EQ(log_.size(), 2u);
  EXPECT_THAT(log_[0], HasSubstr("std::bad_alloc"));
}

TEST_F(BarrierTest, ALogThatFailsTooEndsNothingElse) {
  const Barrier silent;
  const Barrier broken([](const std::string&) { throw std::bad_alloc(); });
  const auto fail = []() -> absl::Status { throw std::bad_alloc(); };
  EXPECT_EQ(silent.Run("R", fail).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(broken.Run("R", fail).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace mpsd::rpc
