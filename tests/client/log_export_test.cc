// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class LogExportTest : public ClientTest {
 protected:
  LogExportTest() {
    for (int i = 0; i < 7; ++i) {
      daemon_->logbook().records.push_back(SomeRecord(absl::StrCat("ID", i)));
    }
    daemon_->logbook().page = 3;
  }
};

TEST_F(LogExportTest, EveryRecordOverEveryPage) {
  const Result lines = RunVerb({"log", "export", "--jsonl"});
  EXPECT_EQ(lines.code, 0) << lines.err;
  EXPECT_EQ(std::count(lines.out.begin(), lines.out.end(), '\n'), 7);
  const Result csv = RunVerb({"log", "export", "--csv", "tag:x"});
  EXPECT_EQ(std::count(csv.out.begin(), csv.out.end(), '\n'), 8);
  EXPECT_EQ(daemon_->logbook().searched.back().query(), "tag:x");
  EXPECT_EQ(daemon_->logbook().searched.back().page_token(), "6");
  const Result markdown = RunVerb({"log", "export", "--markdown"});
  EXPECT_THAT(markdown.out, StartsWith("| Record | Ended |"));
}

TEST_F(LogExportTest, IntoAFile) {
  const std::string file = (folder_ / "log.csv").string();
  EXPECT_EQ(RunVerb({"log", "export", "--csv", "", file}).out, "");
  EXPECT_THAT(*base::ReadFile(file), HasSubstr("ID6"));
  const Result full = RunVerb({"log", "export", "--csv", "", "/dev/full"});
  EXPECT_NE(full.code, 0);
  EXPECT_THAT(full.err, HasSubstr("/dev/full: cannot be written"));
  EXPECT_NE(
      RunVerb({"log", "export", "--csv", "", (folder_ / "no/such").string()})
          .code,
      0);
}

TEST_F(LogExportTest, AnExportThatFailsLeavesTheEarlierFile) {
  const std::string file = Write("log.csv", "the last one");
  data().fail["SearchRecords"] =
      grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "query:1: no");
  EXPECT_EQ(RunVerb({"log", "export", "--csv", "x<", file}).code, 2);
  EXPECT_EQ(*base::ReadFile(file), "the last one");
  EXPECT_THAT(RunVerb({"log", "export", "--csv", "", folder_.string()}).err,
              HasSubstr("no regular file"));
}

// `log export --csv FILE` is a query.
TEST_F(LogExportTest, AQueryThatFindsNothingIsSaid) {
  daemon_->logbook().records.clear();
  const Result none = RunVerb({"log", "export", "--csv", "all.csv"});
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.err, HasSubstr("No record matches 'all.csv'; for all "));
  EXPECT_EQ(RunVerb({"log", "export", "--csv"}).err, "");
}

TEST_F(LogExportTest, OneFormat) {
  EXPECT_EQ(RunVerb({"log", "export"}).code, 2);
  EXPECT_EQ(RunVerb({"log", "export", "--csv", "--jsonl"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
