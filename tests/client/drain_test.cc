// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class DrainTest : public ClientTest {};

TEST_F(DrainTest, WithAReason) {
  const Result result = RunVerb({"drain", "--reason", "a new disk"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "mpsd starts no further job until `mpsctl undrain`, after a "
            "restart either. A running job goes on.\n");
  ASSERT_EQ(data().drained.size(), 1u);
  EXPECT_EQ(data().drained[0].reason(), "a new disk");
}

TEST_F(DrainTest, JsonIsAnObject) {
  EXPECT_EQ(RunVerb({"drain", "--json"}).out, "{}\n");
}

TEST_F(DrainTest, WhoIsNoAdminIsNotLetIn) {
  data().fail["Drain"] = {grpc::StatusCode::PERMISSION_DENIED, "role user"};
  EXPECT_EQ(RunVerb({"drain"}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
