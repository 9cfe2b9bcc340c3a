// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using nlohmann::json;

class ReportTest : public ClientTest {
 protected:
  ReportTest() {
    AddRun(kId);
    data().logs[kId] = "step 1\nstep 2\n";
    data().manifest = {FileHead("run.json", 12), FileData("{\"seed\": 42}")};
  }

  void AddRun(const std::string& id) {
    v1::Job& job = AddJob(id, v1::JOB_STATE_SUCCEEDED);
    job.set_spec_json(R"({"training": {"seed": 42}})");
    AddState(id, v1::JOB_STATE_RUNNING);
    AddProgress(id, 1, 2);
    AddProgress(id, 2, 2);
    AddState(id, v1::JOB_STATE_SUCCEEDED);
  }

  std::string Page() const { return folder_ / "report.html"; }

  Result Report(Args more = {}) {
    Args args = {"report", kId, "-o", Page()};
    args.insert(args.end(), more.begin(), more.end());
    return RunVerb(args);
  }

  // The document in a page.
  static json Document(const std::string& path) {
    const std::string page = Read(path);
    const std::string begin = "id=\"run-document\">";
    const size_t at = page.find(begin) + begin.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }
};

TEST_F(ReportTest, WritesAPageOfTheRun) {
  EXPECT_THAT(Report(), Prints(AllOf(HasSubstr("1 run, "), HasSubstr(Page()))));
  const json run = Document(Page())["runs"][0];
  EXPECT_EQ(run["job"]["id"], kId);
  EXPECT_EQ(run["job"]["state"], "JOB_STATE_SUCCEEDED");
  EXPECT_EQ(run["events"].size(), 4u);
  EXPECT_EQ(run["log"], "step 1\nstep 2\n");
  EXPECT_EQ(run["files"]["run.json"], "{\"seed\": 42}");
  const Result result = Report({"--json", "--force"});
  const json object = json::parse(result.out);
  EXPECT_EQ(object["job_ids"], json({kId}));
  EXPECT_EQ(object["output"], Page());
  EXPECT_EQ(object["size_bytes"], Read(Page()).size());
}

TEST_F(ReportTest, ComparesRuns) {
  AddRun(kOtherId);
  EXPECT_THAT(RunVerb({"report", kId, kOtherId, "-o", Page()}),
              Prints(HasSubstr("2 runs, ")));
  const json document = Document(Page());
  ASSERT_EQ(document["runs"].size(), 2u);
  EXPECT_EQ(document["runs"][1]["job"]["id"], kOtherId);
  std::filesystem::remove(Page());
  EXPECT_THAT(RunVerb({"report", "--label", "sweep=ranks", "-o", Page()}),
              Prints());
  EXPECT_EQ(Document(Page())["runs"].size(), 2u);
  EXPECT_EQ(data().listed[0].labels().at("sweep"), "ranks");
  EXPECT_EQ(data().listed[0].owner(), "") << "others' may be read, too";
}

TEST_F(ReportTest, ARunningJobUpToNow) {
  v1::Job& job = data().jobs[0];
  job.set_state(v1::JOB_STATE_RUNNING);
  *job.mutable_progress() = data().events[kId][1].progress();
  data().on_idle = [] {};
  EXPECT_EQ(Report().code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["events"].size(), 2u);
  data().jobs[0].set_state(v1::JOB_STATE_QUEUED);
  data().events.clear();
  data().manifest.clear();
  EXPECT_EQ(Report({"--force"}).code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["events"].size(), 0u);
}

TEST_F(ReportTest, ReplacesAReportOnlyWhenAsked) {
  ASSERT_EQ(Report().code, 0);
  EXPECT_THAT(Report(), Fails(2, HasSubstr("--force")));
  data().jobs[0].set_owner("bob");
  EXPECT_EQ(Report({"--force"}).code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["job"]["owner"], "bob");
}

TEST_F(ReportTest, ForceReplacesNothingElse) {
  for (const std::string text :
       {"<!DOCTYPE html>\n<title>thesis</title>", "", "x"}) {
    Write("report.html", text);
    EXPECT_THAT(Report({"--force"}), Fails(2, HasSubstr("is not a report")));
    EXPECT_EQ(Read(Page()), text);
  }
  std::filesystem::remove(Page());
  std::filesystem::create_directory(Page());
  EXPECT_EQ(Report({"--force"}).code, 2);
  std::filesystem::remove(Page());
  Write("target", "kept");
  std::filesystem::create_symlink(folder_ / "target", Page());
  EXPECT_EQ(Report({"--force"}).code, 2);
  EXPECT_EQ(Read(folder_ / "target"), "kept");
}

TEST_F(ReportTest, WhatFailsWritesNothing) {
  EXPECT_THAT(RunVerb({"report", kId, "-o", folder_ / "none/report.html"}),
              Fails(6, HasSubstr("none")));
  EXPECT_THAT(RunVerb({"report", kId, kOtherId, "-o", Page()}), Fails(4));
  Fail("Watch", StatusCode::DATA_LOSS, "broken");
  EXPECT_EQ(Report().code, 6);
  data().on_idle = [this] { interrupt_.Raise(); };
  EXPECT_EQ(Report().code, 130);
  EXPECT_FALSE(std::filesystem::exists(Page()));
}

TEST_F(ReportTest, OnlySoManyJobsAreCompared) {
  Args args(21, kId);
  args.insert(args.begin(), "report");
  EXPECT_THAT(RunVerb(args), Fails(2, HasSubstr("at most 20")));
}

TEST_F(ReportTest, HostileTextsStayText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>";
  data().jobs[0].set_name(hostile);
  (*data().jobs[0].mutable_labels())[hostile] = hostile;
  data().logs[kId] = hostile + "\xff\x1b[31m\n";
  (*AddEvent(kId).mutable_evaluated()->mutable_metrics())[hostile] =
      std::numeric_limits<double>::quiet_NaN();
  ASSERT_EQ(Report().code, 0);
  EXPECT_EQ(Read(Page()).find("<img"), std::string::npos);
  const json run = Document(Page())["runs"][0];
  EXPECT_EQ(run["job"]["name"], hostile);
  EXPECT_EQ(run["events"][4]["evaluated"]["metrics"][hostile], "NaN");
  EXPECT_EQ(run["log"], hostile + "\xEF\xBF\xBD\x1b[31m\n");
}

}  // namespace
}  // namespace mpsd::client
