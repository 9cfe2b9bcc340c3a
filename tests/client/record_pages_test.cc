// SPDX-License-Identifier: Apache-2.0
#include "client/record_pages.h"

#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

class RecordPagesTest : public ClientTest {
 protected:
  // How many records a visitor gets who ends after `wanted`.
  int Visit(int64_t most, int wanted) {
    Connection connection({"unix:" + socket_.string(), socket_.string()});
    std::ostringstream out, err;
    const Console console = TestConsole(connection, out, err);
    int seen = 0;
    status_ = ForEachRecord(console, "", most,
                            [&](const v1::Record&) { return ++seen < wanted; });
    return seen;
  }
  grpc::Status status_;
};

TEST_F(RecordPagesTest, GoesOnUntilSomebodyHasEnough) {
  for (int i = 0; i < 9; ++i) {
    daemon_->logbook().records.push_back(SomeRecord(absl::StrCat("ID", i)));
  }
  daemon_->logbook().page = 2;
  EXPECT_EQ(Visit(INT64_MAX, 100), 9);
  EXPECT_EQ(Visit(5, 100), 5);
  EXPECT_EQ(Visit(INT64_MAX, 3), 3);
  EXPECT_TRUE(status_.ok());
  data().fail["SearchRecords"] = {grpc::StatusCode::UNAVAILABLE, "away"};
  EXPECT_EQ(Visit(INT64_MAX, 100), 0);
  EXPECT_FALSE(status_.ok());
}

}  // namespace
}  // namespace mpsd::client
