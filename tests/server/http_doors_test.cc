// SPDX-License-Identifier: Apache-2.0
#include "server/http_doors.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"

namespace mpsd {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class HttpDoorsTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<http::Server>> Open(
      const std::string& address,
      std::optional<http::TlsFiles> tls = std::nullopt) {
    return OpenHttpDoor({"the test", "--test-listen", address, tls},
                        [this](const std::string& line) { log_ += line; });
  }
  std::string log_;
};

TEST_F(HttpDoorsTest, IsOffWithoutAnAddress) {
  const auto door = Open("");
  ASSERT_TRUE(door.ok()) << door.status();
  EXPECT_EQ(*door, nullptr);
  EXPECT_EQ(log_, "");
}

TEST_F(HttpDoorsTest, AnAddressThatIsTakenIsALineInTheLog) {
  const auto first = Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok() && *first != nullptr) << first.status();
  const auto second = Open((*first)->address());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(*second, nullptr);
  EXPECT_THAT(log_, StartsWith("the test is off: "));
  EXPECT_THAT(log_, HasSubstr("(choose another --test-listen)"));
}

TEST_F(HttpDoorsTest, OtherFaultsNameTheOption) {
  const absl::Status address = Open("nonsense").status();
  EXPECT_TRUE(absl::IsInvalidArgument(address)) << address;
  EXPECT_THAT(std::string(address.message()), StartsWith("--test-listen: "));
  const auto folder = testing_support::FreshFolder("http_doors");
  const absl::Status files =
      Open("127.0.0.1:0", http::TlsFiles{folder / "none", folder / "none"})
          .status();
  EXPECT_TRUE(absl::IsNotFound(files)) << files;
  EXPECT_THAT(std::string(files.message()), StartsWith("--test-listen: "));
}

}  // namespace
}  // namespace mpsd
