// SPDX-License-Identifier: Apache-2.0
#include "client/study.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class StudyTest : public ClientTest {
 protected:
  StudyTest() {
    arguments_.job_file = (folder_ / "job.json").string();
    std::ofstream(arguments_.job_file)
        << R"({"model": "org/m", "dataset": {"train": "t.jsonl"}})";
    std::ofstream(folder_ / "t.jsonl") << "{\"text\": \"a\"}\n";
    study_.mutable_smoke();
    v1::StudyResult& result = daemon_->runbook().study_result;
    result.set_verdict(v1::VERDICT_WARN);
    result.mutable_smoke()->set_device("mps");
    v1::Finding& finding = *result.add_findings();
    finding.set_name("memory.growth");
    finding.set_verdict(v1::VERDICT_WARN);
    finding.set_found("31 % over ten epochs\x1b[2J");
    finding.set_advice("look for tensors that are kept");
  }

  ExitCode RunIt(bool json = false) {
    Connection connection(SocketAddress(), nullptr);
    Console console = TestConsole(connection, out_, err_);
    console.json = json;
    daemon_->Sync();
    const ExitCode code =
        RunStudy(console, arguments_, study_,
                 [](const v1::StudyResult& result, const Console& console) {
                   console.out << "on " << result.smoke().device() << '\n';
                 });
    daemon_->Sync();
    return code;
  }

  StudyArguments arguments_;
  v1::Study study_;
  std::ostringstream out_, err_;
};

TEST_F(StudyTest, FollowsTheJobAndShowsWhatItFound) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddState(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunIt(), ExitCode::kVerdictWarn) << err_.str();
  ASSERT_EQ(data().submitted.size(), 1u);
  EXPECT_TRUE(data().submitted[0].study().has_smoke());
  EXPECT_EQ(data().submitted[0].inputs_size(), 1);
  EXPECT_THAT(out_.str(),
              HasSubstr("on mps\n"
                        "VERDICT  WHAT           FOUND\n"
                        "warn     memory.growth  31 % over ten epochs"
                        "\\x1b[2J\n"
                        "memory.growth: look for tensors that are kept\n"
                        "Verdict: warn\n"));
}

TEST_F(StudyTest, ForAScriptTheResultAloneIsOnTheOutput) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddState(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunIt(/*json=*/true), ExitCode::kVerdictWarn);
  const auto json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["verdict"], "WARN");
  EXPECT_EQ(json["smoke"]["device"], "mps");
  EXPECT_THAT(err_.str(), HasSubstr("submitted"));
}

TEST_F(StudyTest, AJobThatFailsHasNoVerdict) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  AddState(kId, v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunIt(), ExitCode::kJobFailed);
  EXPECT_THAT(out_.str(), Not(HasSubstr("Verdict")));
}

TEST_F(StudyTest, Detached) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  arguments_.detach = true;
  EXPECT_EQ(RunIt(), ExitCode::kOk);
  EXPECT_THAT(out_.str(), HasSubstr("mpsctl watch"));
}

TEST_F(StudyTest, DetachedThereIsNoResultToFetch) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  arguments_.detach = true;
  data().fail["GetStudyResult"] =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "is QUEUED");
  Connection connection(SocketAddress(), nullptr);
  v1::StudyResult result;
  EXPECT_EQ(
      FindOut(TestConsole(connection, out_, err_), arguments_, study_, &result),
      ExitCode::kOk);
  EXPECT_EQ(err_.str(), "");
}

// "$FILE" of a script that has not set it is no option that was left out.
TEST_F(StudyTest, AnEmptyValueIsRefused) {
  const std::string& job = arguments_.job_file;
  const std::vector<std::vector<std::string>> all = {
      {"smoke", job, "--thresholds", ""},
      {"smoke", ""},
      {"profile", job, "--trace", ""},
      {"sweep", job, "--batch", "--csv", ""},
      {"plan", ""}};
  for (const std::vector<std::string>& args : all) {
    const Result refused = RunVerb(args);
    EXPECT_EQ(refused.code, 2) << testing::PrintToString(args);
    EXPECT_THAT(refused.err, HasSubstr("got an empty text"))
        << testing::PrintToString(args);
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(StudyTest, WhatTheDaemonRefuses) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddState(kId, v1::JOB_STATE_SUCCEEDED);
  data().fail["GetStudyResult"] =
      grpc::Status(grpc::StatusCode::DATA_LOSS, "result.json is broken");
  EXPECT_EQ(RunIt(), ExitCode::kOther);
  EXPECT_THAT(err_.str(), HasSubstr("result.json is broken"));
}

TEST_F(StudyTest, WithoutAJobFileNothingIsSubmitted) {
  arguments_.job_file += ".none";
  EXPECT_EQ(RunIt(), ExitCode::kBadInput);
  EXPECT_TRUE(data().submitted.empty());
}

class ThresholdsTest : public ClientTest {
 protected:
  absl::Status Add() { return AddThresholds(arguments_, &out_); }
  void File(const std::string& text) {
    arguments_.file = (folder_ / "t.toml").string();
    std::ofstream(arguments_.file) << text;
  }

  ThresholdArguments arguments_;
  google::protobuf::Map<std::string, double> out_;
};

TEST_F(ThresholdsTest, AFileAndValuesThatGoBeforeIt) {
  File(
      "# ours\n[compare]\nspeedup = 0.3\ngpu_utilization = 0.2\n"
      "[smoke]\nepochs = 5\n");
  arguments_.values = {"smoke.epochs=7"};
  ASSERT_TRUE(Add().ok());
  EXPECT_EQ(out_.size(), 3u);
  EXPECT_EQ(out_.at("compare.speedup"), 0.3);
  EXPECT_EQ(out_.at("compare.gpu_utilization"), 0.2);
  EXPECT_EQ(out_.at("smoke.epochs"), 7);
}

TEST_F(ThresholdsTest, WhatIsNoNumberIsNamed) {
  arguments_.values = {"smoke.epochs"};
  EXPECT_EQ(Add().code(), absl::StatusCode::kInvalidArgument);
  arguments_.values = {"smoke.epochs=many"};
  EXPECT_THAT(std::string(Add().message()),
              HasSubstr("--threshold: expected NAME=NUMBER, got "
                        "smoke.epochs=many"));
  arguments_.values = {};
  File("[smoke]\nepochs = \"many\"\n");
  EXPECT_THAT(
      std::string(Add().message()),
      HasSubstr("t.toml:2: expected NAME=NUMBER, got epochs = \"many\""));
  arguments_.file = (folder_ / "none.toml").string();
  EXPECT_EQ(Add().code(), absl::StatusCode::kNotFound);
}

// A line that is overlooked would be a threshold that does not hold.
TEST_F(ThresholdsTest, EachLineIsReadOrRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"[smoke]\nepochs = [1, 2]\n", "t.toml:2: expected NAME=NUMBER"},
      {"[smoke\nepochs = 1\n", "t.toml:1: expected [TABLE], got [smoke"},
      {"[]\n", "t.toml:1: expected [TABLE]"},
      {"[smoke]\nepochs\n", "t.toml:2: expected NAME=NUMBER, got epochs"},
      {" = 1\n", "t.toml:1: expected NAME=NUMBER"},
      {"a.b = 1\n\n[a]\nb = 2 # again\n", "t.toml:4: a.b stands twice"},
      {"\x1b[2J\n", "t.toml:1: expected NAME=NUMBER, got \\x1b[2J"},
      {std::string(100'000, '['), "t.toml:1: expected [TABLE], got [[["},
  };
  for (const auto& [text, words] : cases) {
    out_.clear();
    File(text);
    const absl::Status refused = Add();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(refused.message()), HasSubstr(words));
    EXPECT_LT(refused.message().size(), 1000u);
  }
  out_.clear();
  File("\"smoke.epochs\" = 5\r\n[ a ]\r\n  b=1e-3\t# c\r\n#[x\n");
  ASSERT_TRUE(Add().ok());
  EXPECT_EQ(out_.at("smoke.epochs"), 5);
  EXPECT_EQ(out_.at("a.b"), 1e-3);
}

TEST_F(ThresholdsTest, TooMany) {
  std::string text;
  for (int i = 0; i < 65; ++i) text += "a" + std::to_string(i) + " = 1\n";
  File(text);
  EXPECT_THAT(std::string(Add().message()), HasSubstr("at most 64"));
}

TEST(VerdictName, IsShort) {
  EXPECT_EQ(VerdictName(v1::VERDICT_PASS), "ok");
  EXPECT_EQ(VerdictName(v1::VERDICT_UNSPECIFIED), "-");
}

}  // namespace
}  // namespace mpsd::client
