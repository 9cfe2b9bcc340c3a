// SPDX-License-Identifier: Apache-2.0
#include "client/profile.h"

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"
#include "tests/client/profile_samples.h"

namespace mpsd::client {
namespace {

// --- profile text ------------------------------------------------------------

using testing::HasSubstr;
using testing::Not;

class ProfileTextTest : public ClientTest {
 protected:
  std::string Printed(const v1::StudyResult& result) {
    Connection connection(SocketAddress(), nullptr);
    std::ostringstream out, err;
    PrintProfile(result, TestConsole(connection, out, err));
    return out.str();
  }
};

TEST_F(ProfileTextTest, TellsStepsBlocksOperatorsAndWaits) {
  const std::string text = Printed(ProfileSample());
  for (const char* line :
       {"mps, gradients: explicit; 10 steps of warm-up, 20 plain, 50 under the "
        "profiler, which makes a step 10.0% longer\n",
        "the first       2500 ms", "steady          100 ms",
        "waits for data for 25.0%", "data alone      30 ms",
        "forward alone   20 ms", "attention  backward  4      75 ms",
        "aten::op0   10     1 ms      5.0%   4 ms",
        "Between operators: 4 ms a step (4.0%); the longest 1 ms, in 'mlp'\n",
        "The host waits in aten::_local_scalar_dense: 2 a step, 10 ms; in "
        "'mlp'\n",
        "The host waits in read back: 1 a step, 20 ms; the one that ends a "
        "step\n",
        "Memory at its peak: driver 12.0 MB, process 34.0 MB\n",
        "Not told: the device's own times\n",
        "Trace: trace.json.gz, 1.2 MB, the last 5 steps"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(ProfileTextTest, LeavesOutWhatIsNextToNothing) {
  const std::string text = Printed(ProfileSample());
  EXPECT_THAT(text, Not(HasSubstr("upload")));
  EXPECT_THAT(text, HasSubstr("aten::op11"));
  EXPECT_THAT(text, Not(HasSubstr("aten::op12")));
}

TEST_F(ProfileTextTest, AWorkersNamesMoveNoCursor) {
  const std::string text = Printed(ProfileSample());
  EXPECT_THAT(text, HasSubstr("On the CPU: aten::unique"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(ProfileTextTest, AnEmptyResultIsPrintedToo) {
  v1::StudyResult result;
  result.mutable_profile();
  EXPECT_THAT(Printed(result), Not(HasSubstr("nan")));
}

// --- profile -----------------------------------------------------------------

namespace fs = std::filesystem;

using testing::HasSubstr;
using testing::Not;

class ProfileVerbTest : public ClientTest {
 protected:
  ProfileVerbTest() {
    AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);  // what Submit answers with
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::SubmitRequest& kept = data().requests[kOtherId];
    kept.set_kind(v1::JOB_KIND_TRAINING);
    kept.set_spec_json(R"({"model": "org/id",
        "dataset": {"train": "t.jsonl"}})");
    v1::InputFile* input = kept.add_inputs();
    input->set_path("t.jsonl");
    input->set_sha256(std::string(64, 'a'));
    kept.set_priority(3);
    kept.set_held(true);
    kept.add_after("01KAH0000000000000000000CC");
    daemon_->runbook().study_result = ProfileSample();
    std::ofstream(folder_ / "t.jsonl") << "{\"text\": \"a\"}\n";
    std::ofstream(folder_ / "job.json")
        << R"({"model": "org/id", "dataset": {"train": "t.jsonl"}})";
  }
  Result Profile(std::vector<std::string> options) {
    options.insert(options.begin(), "profile");
    return RunVerb(options);
  }
  std::string Job() const { return (folder_ / "job.json").string(); }

  void AddTrace(const std::string& bytes) {
    v1::DownloadResponse head =
        FileHead("trace.json.gz", static_cast<int64_t>(bytes.size()));
    head.mutable_file()->set_sha256(base::Sha256Hex(bytes));
    data().download.push_back(head);
    data().download.push_back(FileData(bytes));
  }
};

TEST_F(ProfileVerbTest, QueuesAStudyOfAJobFileAndShowsWhatItFound) {
  const Result result =
      Profile({Job(), "--steps", "20", "--warm-up", "4", "--threshold",
               "profile.data_share=0.3", "--label", "why=slow"});
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_THAT(result.out, HasSubstr("attention  backward"));
  EXPECT_THAT(result.out, HasSubstr("profile.blocking: report it\n"));
  EXPECT_THAT(result.out, HasSubstr("Verdict: warn\n"));
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::SubmitRequest& request = data().submitted[0];
  const v1::ProfileOptions& options = request.study().profile();
  EXPECT_EQ(options.steps(), 20);
  EXPECT_EQ(options.warm_up_steps(), 4);
  EXPECT_EQ(options.thresholds().at("profile.data_share"), 0.3);
  EXPECT_EQ(request.labels().at("why"), "slow");
  EXPECT_EQ(request.inputs_size(), 1);
}

TEST_F(ProfileVerbTest, AJobIsProfiledAgainWithItsInputs) {
  const Result result = Profile({kOtherId});
  EXPECT_EQ(result.code, 11) << result.err;
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::SubmitRequest& request = data().submitted[0];
  EXPECT_TRUE(request.study().has_profile());
  EXPECT_FALSE(request.study().profile().has_steps());
  EXPECT_EQ(request.kind(), v1::JOB_KIND_UNSPECIFIED);
  EXPECT_EQ(request.inputs(0).sha256(), std::string(64, 'a'));
  EXPECT_EQ(request.priority(), 0);
  EXPECT_FALSE(request.held());
  EXPECT_EQ(request.after_size(), 0);
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(ProfileVerbTest, AStudyIsProfiledAsTheTrainingThatItLooksAt) {
  data().requests[kOtherId].mutable_study()->mutable_smoke();
  EXPECT_EQ(Profile({kOtherId, "--detach"}).code, 0);
  EXPECT_TRUE(data().submitted.at(0).study().has_profile());
}

TEST_F(ProfileVerbTest, AJobThatIsNotThere) {
  EXPECT_EQ(Profile({"01NONE"}).code, 4);
  EXPECT_EQ(Profile({"none.json"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(ProfileVerbTest, TheTraceIsSavedAndTheVerdictKept) {
  AddTrace("packed");
  const fs::path file = folder_ / "slow.json.gz";
  const Result result = Profile({kOtherId, "--trace", file.string()});
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_EQ(*base::ReadFile(file), "packed");
  EXPECT_THAT(result.err, HasSubstr("chrome://tracing"));
}

TEST_F(ProfileVerbTest, ATraceThatIsNotThereIsSaid) {
  const fs::path file = folder_ / "slow.json.gz";
  const Result result = Profile({kOtherId, "--trace", file.string()});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.out, HasSubstr("Verdict: warn\n"));
  EXPECT_FALSE(fs::exists(file));
}

TEST_F(ProfileVerbTest, APlaceForTheTraceIsLookedAtFirst) {
  for (const char* name :
       {"trace.json", "job.json", "there.json.gz", "none/t.json.gz"}) {
    std::ofstream(folder_ / "there.json.gz") << "mine";
    const Result result =
        Profile({Job(), "--trace", (folder_ / name).string()});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err, HasSubstr("--trace: "));
  }
  EXPECT_EQ(*base::ReadFile(folder_ / "there.json.gz"), "mine");
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(ProfileVerbTest, WithJsonTheResultAloneGoesToStdout) {
  AddTrace("packed");
  const Result result = Profile(
      {kOtherId, "--json", "--trace", (folder_ / "t.json.gz").string()});
  EXPECT_EQ(result.code, 11);
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["profile"]["device"], "mps");
  EXPECT_EQ(json["profile"]["steps"]["plain"], 20);
  EXPECT_THAT(result.err, HasSubstr(" submitted: "));
}

TEST_F(ProfileVerbTest, WithDetachNothingIsFollowed) {
  const Result result = Profile({kOtherId, "--detach"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("mpsctl watch"));
  const Result json = Profile({kOtherId, "--detach", "--json"});
  EXPECT_EQ(nlohmann::json::parse(json.out)["id"], kId);
}

TEST_F(ProfileVerbTest, AProfileThatWasCancelledHasNoVerdict) {
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  data().events[kId].clear();
  AddState(kId, v1::JOB_STATE_CANCELLED);
  const Result result = Profile({kOtherId});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.out, Not(HasSubstr("Verdict")));
}

TEST_F(ProfileVerbTest, NumbersOutOfTheirBoundsAreUsageErrors) {
  for (const char* steps : {"0", "1001", "-1", "many"}) {
    EXPECT_EQ(Profile({kOtherId, "--steps", steps}).code, 2) << steps;
  }
  EXPECT_EQ(Profile({kOtherId, "--warm-up", "0"}).code, 2);
  EXPECT_EQ(Profile({kOtherId, "--threshold", "none"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

}  // namespace
}  // namespace mpsd::client
