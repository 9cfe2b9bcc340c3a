// SPDX-License-Identifier: Apache-2.0
#include "client/complete_words.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Through what the shells' scripts call.
class CompleteWordsTest : public ClientTest {
 protected:
  std::string Ask(std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"complete", "--", "--state-dir", folder_.string()});
    const Result result = RunBare(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result.out;
  }
};

TEST_F(CompleteWordsTest, VerbsAndOptions) {
  EXPECT_THAT(Ask({"can"}),
              AllOf(HasSubstr("words\ncancel\t"), Not(HasSubstr("list"))));
  EXPECT_THAT(Ask({""}), AllOf(HasSubstr("\nsubmit\t"), HasSubstr("\nlist\t"),
                               Not(HasSubstr("\ncomplete\t"))));
  EXPECT_THAT(Ask({"list", "--col"}), HasSubstr("words\n--columns\t"));
  EXPECT_THAT(Ask({"list", "--jso"}), HasSubstr("\n--json\tPrint JSON"));
  EXPECT_THAT(Ask({"context", "u"}), HasSubstr("words\nuse\t"));
  EXPECT_EQ(Ask({"submit", "jo"}), "files\n");
  EXPECT_EQ(Ask({"download", kId, "--output", "x"}), "files\n");
  EXPECT_EQ(Ask({"completion", ""}), "words\nbash\nzsh\nfish\n");
  EXPECT_THAT(RunBare({"complete", "--"}).out, HasSubstr("\nsubmit\t"));
  EXPECT_EQ(RunBare({"complete"}).code, 2) << "no verb for people";
}

TEST_F(CompleteWordsTest, IdsOfTheRightStates) {
  AddJob(kId, v1::JOB_STATE_RUNNING).set_name("two\nlines\x1b[2J");
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Ask({"show", "01"}),
            "words\n01KAH0000000000000000000BB\tQUEUED  moods\n"
            "01KAH0000000000000000000AA\tRUNNING  two lines\\x1b[2J\n");
  EXPECT_THAT(data().listed.back().states(), ElementsAre());
  EXPECT_EQ(Ask({"show", "01kah0000000000000000000b"}),
            "words\n01KAH0000000000000000000BB\tQUEUED  moods\n");
  EXPECT_THAT(Ask({"cancel", kOtherId, ""}), Not(HasSubstr(kOtherId)))
      << "it is there already";
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING));
  Ask({"retry", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_RUNNING, v1::JOB_STATE_SUCCEEDED,
                          v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED));
  Ask({"delete", ""});
  EXPECT_EQ(data().listed.back().states_size(), 3);
  Ask({"download", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_SUCCEEDED));
}

TEST_F(CompleteWordsTest, JobsWithAResult) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_PROBE);
  AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_SMOKE);
  AddJob("01KAH0000000000000000000ZZ", v1::JOB_STATE_SUCCEEDED);
  const std::string probes = Ask({"plan", "job.json", "--probe-of", ""});
  EXPECT_THAT(data().listed.back().states(),
              ElementsAre(v1::JOB_STATE_SUCCEEDED));
  EXPECT_THAT(probes, HasSubstr(kId));
  EXPECT_THAT(probes, Not(HasSubstr("ZZ"))) << "it trained";
  EXPECT_THAT(probes, Not(HasSubstr(kOtherId)));
  EXPECT_THAT(Ask({"profile", ""}),
              AllOf(HasSubstr("files\n"), HasSubstr(kOtherId)));
}

TEST_F(CompleteWordsTest, ModelsThatNoShellRuns) {
  daemon_->models().listed.resize(2);
  daemon_->models().listed[0].set_name("tiny");
  daemon_->models().listed[0].set_family("llama");
  daemon_->models().listed[0].set_size_bytes(2'000'000);
  daemon_->models().listed[1].set_name("$(touch ran)");
  EXPECT_EQ(Ask({"model", "rm", ""}), "words\ntiny\tllama  2.0 MB\n");
  EXPECT_EQ(Ask({"list", "--model", "t"}), "words\ntiny\tllama  2.0 MB\n");
}

TEST_F(CompleteWordsTest, FieldsAndTheirValues) {
  const std::string fields = Ask({"clone", kId, "--set", "training.learn"});
  EXPECT_EQ(fields.substr(0, fields.find('\t')),
            "parts\ntraining.learning_rate=");
  EXPECT_EQ(Ask({"clone", kId, "--set", "training.lr_scheduler_type=cosine"}),
            "words\ntraining.lr_scheduler_type=cosine\n"
            "training.lr_scheduler_type=cosine_with_restarts\n");
  EXPECT_EQ(Ask({"clone", kId, "--set=training.bf16=t"}),
            "words\n--set=training.bf16=true\n");
  EXPECT_EQ(Ask({"clone", kId, "--set", "training.none="}), "words\n");
  EXPECT_THAT(Ask({"clone", kId, "--unset", "lora.r"}),
              HasSubstr("words\nlora.r\t"));
}

TEST_F(CompleteWordsTest, ADaemonThatIsNotThereHasNone) {
  daemon_->Stop();
  EXPECT_EQ(Ask({"show", ""}), "words\n");
  daemon_->Start();
  data().fail["List"] = grpc::Status(grpc::StatusCode::INTERNAL, "no");
  EXPECT_EQ(Ask({"show", ""}), "words\n");
}

// A passphrase must not be asked for between two keys.
TEST_F(CompleteWordsTest, NeverThroughSsh) {
  const Result result =
      RunBare({"complete", "--", "--server", "ssh://nobody@host", "show", ""});
  EXPECT_EQ(result.out, "words\n");
  EXPECT_EQ(result.err, "");
}

TEST_F(CompleteWordsTest, Contexts) {
  EXPECT_THAT(Ask({"context", "use", "l"}), HasSubstr("words\nlocal\t"));
  EXPECT_THAT(Ask({"--context", "l"}), HasSubstr("words\nlocal\t"));
}

TEST_F(CompleteWordsTest, ListsGoOnBehindCommas) {
  EXPECT_EQ(Ask({"list", "--columns", "id,device_s"}),
            "parts\nid,device_seconds\n");
  EXPECT_EQ(Ask({"list", "--columns=own"}), "parts\n--columns=owner\n");
  EXPECT_EQ(Ask({"list", "--sort", "name,-eval"}), "parts\nname,-eval_loss\n");
  EXPECT_EQ(Ask({"list", "--sort", "-eval"}), "parts\n-eval_loss\n");
  EXPECT_EQ(Ask({"list", "--state", "c"}), "words\nCANCELLED\n");
}

}  // namespace
}  // namespace mpsd::client
