// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class ModelPullTest : public ClientTest {
 protected:
  static v1::PullModelProgress News(int64_t received, const std::string& note) {
    v1::PullModelProgress news;
    news.set_received_bytes(received);
    news.set_note(note);
    return news;
  }
  static v1::PullModelProgress Done() {
    v1::PullModelProgress news = News(100, "");
    news.mutable_model()->set_name("org/m");
    news.mutable_model()->set_size_bytes(100);
    news.mutable_model()->set_family("llama");
    return news;
  }
  FakeModels& models() { return daemon_->models(); }
};

TEST_F(ModelPullTest, TellsHowItGoesAndWhatToWriteIntoJobJson) {
  models().pulls = {{News(10, "model.safetensors: 11%"),
                     News(60, "model.safetensors: 60%"), Done()}};
  const Result result = RunVerb({"model", "pull", "org/m"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("model.safetensors: 11%\n"));
  EXPECT_THAT(result.out, Not(HasSubstr("60%"))) << "a line in ten seconds";
  EXPECT_THAT(result.out, HasSubstr("Model org/m is there: "));
  EXPECT_THAT(result.out, HasSubstr("\"model\": \"org/m\""));
  ASSERT_THAT(models().pull_requests, SizeIs(1));
  EXPECT_EQ(models().pull_requests[0].id(), "org/m");
  EXPECT_EQ(models().pull_requests[0].revision(), "");
}

TEST_F(ModelPullTest, TheRevisionFollowsTheAt) {
  models().pulls = {{Done()}};
  ASSERT_EQ(RunVerb({"model", "pull", "org/m@refs/pr/1"}).code, 0);
  EXPECT_EQ(models().pull_requests[0].id(), "org/m");
  EXPECT_EQ(models().pull_requests[0].revision(), "refs/pr/1");
  const Result result = RunVerb({"model", "pull", "org/m@"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("no revision"));
}

TEST_F(ModelPullTest, DetachLeavesOnceThePullHasBegun) {
  models().pulls = {{News(0, "hf download runs")}};
  models().pulls_wait = true;
  const Result result = RunVerb({"model", "pull", "--detach", "org/m"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("mpsd pulls org/m.\n"));
  EXPECT_THAT(result.out, HasSubstr("mpsctl model pull --cancel org/m"));
}

TEST_F(ModelPullTest, ShowsWhatHfSaidOfItsFailure) {
  data().fail["Pull"] = grpc::Status(
      grpc::StatusCode::FAILED_PRECONDITION,
      "hf download failed (exit status 1): Error: Repository not found");
  for (const char* detach : {"--detach", "--patience=9"}) {
    models().pull_requests.clear();
    models().pulls = {{}};
    const Result result = RunVerb({"model", "pull", detach, "org/m"});
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr("Error: Repository not found"));
    data().fail["Pull"] = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                       "Error: Repository not found");
  }
}

TEST_F(ModelPullTest, CancelNamesThePull) {
  const Result result = RunVerb({"model", "pull", "--cancel", "org/m@v2"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_THAT(models().cancelled, SizeIs(1));
  EXPECT_EQ(models().cancelled[0].revision(), "v2");
  EXPECT_THAT(result.out, HasSubstr("what came stays"));
  EXPECT_THAT(models().pull_requests, IsEmpty());
  EXPECT_EQ(RunVerb({"model", "pull", "--cancel", "--detach", "org/m"}).code,
            2);
}

TEST_F(ModelPullTest, PullsAgainAfterARestartOfTheDaemon) {
  models().pulls = {{News(10, "first")}, {News(20, "second"), Done()}};
  data().fail["Pull"] =
      grpc::Status(grpc::StatusCode::UNAVAILABLE,
                   "mpsd stops: pull again, what came is in the cache");
  const Result result = RunVerb({"model", "pull", "org/m"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(models().pull_requests, SizeIs(2));
  EXPECT_THAT(result.err, HasSubstr("lost the connection"));
}

// What the daemon says of hf, or of a cancel, is the end: no other pull
// begins.
TEST_F(ModelPullTest, TheEndOfThePullIsTheEnd) {
  const std::vector<grpc::Status> ends = {
      {grpc::StatusCode::UNAVAILABLE,
       "the pull of org/m@main is just ending: pull again"},
      {grpc::StatusCode::CANCELLED, "root cancelled the pull of org/m@main"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "the pull took longer than 24h"}};
  for (const grpc::Status& end : ends) {
    models().pull_requests.clear();
    models().pulls = {{News(10, "first")}, {Done()}};
    data().fail["Pull"] = end;
    const Result result = RunVerb({"model", "pull", "org/m"});
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.err, HasSubstr(end.error_message()));
    EXPECT_THAT(models().pull_requests, SizeIs(1));
  }
}

TEST_F(ModelPullTest, JsonIsAnObjectALine) {
  models().pulls = {{News(10, "first"), Done()}};
  const Result result = RunVerb({"--json", "model", "pull", "org/m"});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<std::string> lines =
      absl::StrSplit(result.out, '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(nlohmann::json::parse(lines[0])["note"], "first");
  EXPECT_EQ(nlohmann::json::parse(lines[1])["model"]["name"], "org/m");
}

TEST_F(ModelPullTest, WordsOfTheHubMoveNoCursor) {
  models().pulls = {{News(10, "\x1b[2J\nFORGED"), Done()}};
  const Result result = RunVerb({"model", "pull", "org/m"});
  EXPECT_THAT(result.out, HasSubstr("\\x1b[2J FORGED"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b[2J")));
}

}  // namespace
}  // namespace mpsd::client
