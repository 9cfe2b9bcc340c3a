// SPDX-License-Identifier: Apache-2.0
#include "client/log_verbs.h"
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class LogSearchTest : public ClientTest {};

TEST_F(LogSearchTest, WordsOfTheShellBecomeOneQuery) {
  EXPECT_EQ(JoinQuery({"model~qwen eval_loss<1"}), "model~qwen eval_loss<1");
  EXPECT_EQ(JoinQuery({"model~qwen", "tag:x"}), "model~qwen tag:x");
  EXPECT_EQ(JoinQuery({"tag:x", "free text"}), "tag:x \"free text\"");
  EXPECT_EQ(JoinQuery({"tag:x", "name=\"a b\""}), "tag:x name=\"a b\"");
}

TEST_F(LogSearchTest, ARowForEachRecord) {
  daemon_->logbook().records = {SomeRecord(kId),
                                SomeEntry(kOtherId, "two\nlines\x1b[2J")};
  const Result result = RunVerb({"log", "search", "tag:x", "too hot"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(daemon_->logbook().searched.back().query(), "tag:x \"too hot\"");
  EXPECT_THAT(result.out,
              HasSubstr("training  SUCCEEDED  -        1.2500     0.2s"));
  EXPECT_THAT(result.out, HasSubstr("two lines\\x1b[2J"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  const Result json = RunVerb({"--json", "log", "search", "steps>1"});
  const auto first =
      nlohmann::json::parse(json.out.substr(0, json.out.find('\n')));
  EXPECT_EQ(first["id"], kId);
  EXPECT_EQ(first["memory"]["peak_allocated_bytes"], 4'000'000'000);
  EXPECT_TRUE(first["durations"]["round_trip_seconds"].is_null());
}

TEST_F(LogSearchTest, PagesUntilTheLimit) {
  for (int i = 0; i < 7; ++i) {
    daemon_->logbook().records.push_back(SomeRecord(absl::StrCat("ID", i)));
  }
  daemon_->logbook().page = 3;
  const Result five = RunVerb({"log", "search", "x=1", "--limit", "5"});
  EXPECT_THAT(five.out, HasSubstr("ID4"));
  EXPECT_THAT(five.out, Not(HasSubstr("ID5")));
  EXPECT_THAT(RunVerb({"log", "search", "x=1"}).out, HasSubstr("ID6"));
}

TEST_F(LogSearchTest, NothingAndFaults) {
  EXPECT_EQ(RunVerb({"log", "search", "tag:x"}).out, "No record matches.\n");
  EXPECT_EQ(RunVerb({"log", "search"}).code, 2);
  data().fail["SearchRecords"] = {grpc::StatusCode::INVALID_ARGUMENT,
                                  "query:7: expected a number"};
  const Result bad = RunVerb({"log", "search", "steps>x"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("query:7: expected a number"));
}

}  // namespace
}  // namespace mpsd::client
