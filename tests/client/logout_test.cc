// SPDX-License-Identifier: Apache-2.0
#include "tests/client/port_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class LogoutTest : public PortClientTest {};

TEST_F(LogoutTest, ForgetsTheCurrentContextAndItsToken) {
  ASSERT_EQ(Login().code, 0);
  const std::string file = Contexts().FileOf("127.0.0.1").string();
  ASSERT_TRUE(std::filesystem::exists(file));
  const Result result = RunBare({"logout"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Removed the context 127.0.0.1"));
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(Contexts().Current().value(), "");
  const Result again = RunBare({"logout"});
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("no context is the current one"));
}

TEST_F(LogoutTest, ByName) {
  ASSERT_EQ(Login({"--name", "a"}).code, 0);
  ASSERT_EQ(Login({"--name", "b"}).code, 0);
  EXPECT_EQ(RunBare({"logout", "a"}).code, 0);
  EXPECT_EQ(Contexts().Current().value(), "b");
  EXPECT_EQ(RunBare({"logout", "a"}).code, 4);
  EXPECT_EQ(RunBare({"logout", "../b"}).code, 2);
}

TEST_F(LogoutTest, ABrokenFile) {
  ASSERT_EQ(Login().code, 0);
  std::ofstream(Contexts().FileOf("127.0.0.1")) << "{";
  const Result broken = RunBare({"info"});
  EXPECT_EQ(broken.code, 2);
  EXPECT_THAT(broken.err, HasSubstr("`mpsctl logout 127.0.0.1` removes it"));
  EXPECT_EQ(RunBare({"logout", "127.0.0.1"}).code, 0);
  EXPECT_THAT(Contexts().Names().value(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::client
