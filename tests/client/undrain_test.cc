// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class UndrainTest : public ClientTest {};

TEST_F(UndrainTest, SaysSo) {
  const Result result = RunVerb({"undrain"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "mpsd starts jobs.\n");
  EXPECT_EQ(data().undrained, 1);
}

TEST_F(UndrainTest, WhoIsNoAdminIsNotLetIn) {
  data().fail["Undrain"] = {grpc::StatusCode::PERMISSION_DENIED, "role user"};
  EXPECT_EQ(RunVerb({"undrain"}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
