// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ImportTest : public ClientTest {
 protected:
  ImportTest() {
    daemon_->Stop();  // nobody is asked
    arguments_ = Write("run_glue.args",
                       "--model_name_or_path m --task_name cola --do_train "
                       "--max_seq_length 64 --fp16 --do_eval\n");
  }
  std::string arguments_;
};

TEST_F(ImportTest, WritesAJobAndListsTheRest) {
  const std::string output = (folder_ / "job.json").string();
  const Result result = RunBare({"import", arguments_, "--output", output});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "Submit it with `mpsctl submit " + output + "`.\n");
  const std::string head =
      "What job.json does not say as " + arguments_ + " does:\n  --task_name: ";
  EXPECT_EQ(result.err.substr(0, head.size()), head);
  EXPECT_NE(result.err.find("\n  --fp16: "), std::string::npos);
  const auto job = nlohmann::json::parse(Read(output));
  EXPECT_EQ(job["dataset"]["task_name"], "cola");
  EXPECT_EQ(job["training"]["max_length"], 64);
}

TEST_F(ImportTest, PrintsItWithoutOutput) {
  const Result result = RunBare({"import", arguments_});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(nlohmann::json::parse(result.out)["model"], "m");
}

TEST_F(ImportTest, Json) {
  const auto json =
      nlohmann::json::parse(RunBare({"import", arguments_, "--json"}).out);
  EXPECT_EQ(json["job"]["model"], "m");
  EXPECT_EQ(json["notes"][1]["subject"], "--fp16");
}

TEST_F(ImportTest, PathsFollowTheJob) {
  Write("run_glue.args",
        "--model_name_or_path m --train_file t.csv --do_train\n");
  const std::string output = (folder_ / "job.json").string();
  EXPECT_EQ(RunBare({"import", arguments_, "-o", output}).code, 0);
  const std::string train =
      nlohmann::json::parse(Read(output))["dataset"]["train"];
  EXPECT_EQ(std::filesystem::weakly_canonical(folder_ / train),
            std::filesystem::absolute("t.csv"));
  EXPECT_EQ(nlohmann::json::parse(
                RunBare({"import", arguments_}).out)["dataset"]["train"],
            "t.csv");
}

TEST_F(ImportTest, NothingIsOverwritten) {
  const std::string output = Write("job.json", "mine");
  EXPECT_EQ(RunBare({"import", arguments_, "-o", output}).code, 2);
  EXPECT_EQ(Read(output), "mine");
  EXPECT_EQ(RunBare({"import", arguments_, "-o", output, "--force"}).code, 0);
  EXPECT_NE(Read(output), "mine");
}

TEST_F(ImportTest, BadInput) {
  const std::string bad = Write("bad.args", "--model_name_or_path 'm");
  const Result result = RunBare({"import", bad});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "mpsctl: " + bad +
                            ": line 1: the quote ' does not end\n"
                            "Nothing was written.\n");
  EXPECT_EQ(RunBare({"import", "/absent.args"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
