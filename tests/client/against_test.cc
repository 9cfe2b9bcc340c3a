// SPDX-License-Identifier: Apache-2.0
#include "client/against.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/limits.h"
#include "mpsd/v1/study.pb.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class AgainstTest : public testing::Test {
 protected:
  AgainstTest() {
    std::string name = testing::TempDir() + "againstXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~AgainstTest() override { fs::remove_all(folder_); }

  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  // The options for --against `text`; ASSERTs nothing, so look at `status_`.
  v1::ParityOptions Set(const std::string& text, int steps = 0,
                        const std::string& metric = "") {
    v1::ParityOptions options;
    options.set_steps(steps);
    status_ = SetAgainst(text, metric, &options);
    return options;
  }
  std::string Refusal(const std::string& text, int steps = 0) {
    Set(text, steps);
    EXPECT_EQ(status_.code(), absl::StatusCode::kInvalidArgument) << text;
    return std::string(status_.message());
  }

  fs::path folder_;
  absl::Status status_;
};

TEST_F(AgainstTest, ADevice) {
  EXPECT_EQ(Set("mps").reference_device(), "mps");
  EXPECT_TRUE(status_.ok());
}

TEST_F(AgainstTest, MetricsOfMpsd) {
  const auto options = Set(Write(
      "metrics.jsonl",
      R"({"step":1,"loss":2.123456789012,"grad_norm":1.5,"label_tokens":7})"
      "\n"
      R"({"step":2,"loss":2.0,"grad_norm":1.25,"label_tokens":8})"
      "\n"));
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(options.name(), "metrics.jsonl");
  EXPECT_EQ(options.steps(), 10);
  const v1::RecordedRun& run = options.recorded();
  EXPECT_THAT(run.steps(), ElementsAre(1, 2));
  EXPECT_THAT(run.losses(), ElementsAre(2.12345679, 2.0));
  EXPECT_THAT(run.grad_norms(), ElementsAre(1.5, 1.25));
  EXPECT_THAT(run.label_tokens(), ElementsAre(7, 8));
  EXPECT_EQ(run.metric_step(), 0);
}

TEST_F(AgainstTest, EvaluationsLieBesideTheMetrics) {
  Write("eval.jsonl",
        R"({"step":0,"eval_loss":9})"
        "\n"
        R"({"step":4,"eval_loss":2.5,"metrics":{"accuracy":0.5}})"
        "\n"
        R"({"step":8,"eval_loss":1.5,"metrics":{"accuracy":0.75}})"
        "\n");
  const std::string path =
      Write("metrics.jsonl", R"({"step":1,"loss":2,"grad_norm":1})");
  v1::RecordedRun run = Set(path, 8).recorded();
  EXPECT_EQ(run.metric(), "loss");
  EXPECT_EQ(run.metric_value(), 1.5);
  EXPECT_EQ(run.metric_step(), 8);
  run = Set(path, 7, "eval_accuracy").recorded();
  EXPECT_EQ(run.metric(), "accuracy");
  EXPECT_EQ(run.metric_value(), 0.5);
  EXPECT_EQ(run.metric_step(), 4);
  EXPECT_EQ(Set(path, 8, "f1").recorded().metric_step(), 0);
}

TEST_F(AgainstTest, TrainerState) {
  const std::string text = R"({
    "global_step": 4, "log_history": [
      {"epoch": 0.5, "grad_norm": 1.5, "learning_rate": 0.1, "loss": 2.5,
       "step": 2},
      {"epoch": 1.0, "eval_accuracy": 0.5, "eval_loss": 2.25, "step": 2},
      {"epoch": 1.0, "loss": 2.1234, "step": 4},
      {"step": 4, "train_loss": 2.3, "train_runtime": 1.0}]})";
  auto options = Set(Write("trainer_state.json", text), 0, "accuracy");
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(options.recorded().steps(), ElementsAre(2, 4));
  EXPECT_THAT(options.recorded().losses(), ElementsAre(2.5, 2.1234));
  // One of the lines has none.
  EXPECT_EQ(options.recorded().grad_norms_size(), 0);
  EXPECT_EQ(options.recorded().label_tokens_size(), 0);
  EXPECT_EQ(options.recorded().metric_value(), 0.5);
  // The history alone.
  options = Set(Write("history.json", R"([{"loss": 3, "step": 1}])"));
  EXPECT_THAT(options.recorded().losses(), ElementsAre(3));
}

// A log of every 50 steps says nothing of the first 10.
TEST_F(AgainstTest, AsManyStepsAsTheFirstLossStandsFor) {
  const std::string path =
      Write("l.jsonl", "{\"step\":50,\"loss\":2}\n{\"step\":100,\"loss\":1}\n");
  const auto options = Set(path);
  EXPECT_EQ(options.steps(), 50);
  EXPECT_THAT(options.recorded().steps(), ElementsAre(50));
  EXPECT_THAT(Refusal(path, 49), HasSubstr("step 50"));
}

TEST_F(AgainstTest, ARunThatWasResumedHasItsLastWord) {
  const auto options =
      Set(Write("l.jsonl",
                "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":9}\n"
                "{\"step\":2,\"loss\":2}\n\n{\"step\":3,\"lo"));
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_THAT(options.recorded().losses(), ElementsAre(3, 2));
}

v1::StudyResult Result(int tensors, int steps) {
  v1::StudyResult result;
  result.set_verdict(v1::VERDICT_FAIL);
  result.add_findings()->set_name("parity.loss");
  v1::ParityTrace& trace = *result.mutable_parity()->mutable_trace();
  trace.set_device("cuda");
  trace.set_dtype("bf16");
  for (int i = 0; i < steps; ++i) {
    trace.add_losses(2.123456789012345);
    trace.add_grad_norms(1.123456789012345);
    trace.add_batches("0123456789abcdef");
  }
  for (int i = 0; i < tensors; ++i) {
    v1::TensorTrace& tensor = *trace.add_tensors();
    tensor.set_name(std::string(80, 'n'));
    for (auto* summary : {tensor.mutable_gradient(), tensor.mutable_first(),
                          tensor.mutable_last()}) {
      summary->set_sha256("0123456789abcdef");
      for (int p = 0; p < 4; ++p) summary->add_probes(0.1234567f);
    }
  }
  return result;
}

std::string Json(const v1::StudyResult& result, bool lines) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = lines;
  options.preserve_proto_field_names = lines;
  std::string json;
  EXPECT_TRUE(MessageToJsonString(result, &json, options).ok());
  return json;
}

TEST_F(AgainstTest, AResultOfAnotherMachine) {
  for (const bool lines : {false, true}) {
    const auto options = Set(Write("r.json", Json(Result(2, 6), lines)));
    ASSERT_TRUE(status_.ok()) << status_;
    EXPECT_EQ(options.trace().device(), "cuda");
    EXPECT_EQ(options.trace().tensors_size(), 2);
    EXPECT_TRUE(options.trace().tensors(0).has_first());
    EXPECT_EQ(options.steps(), 6);
    EXPECT_EQ(options.name(), "r.json");
  }
  EXPECT_EQ(Set(Write("r.json", Json(Result(2, 6), true)), 3).steps(), 3);
}

// What is sent fits, whatever the other machine wrote.
TEST_F(AgainstTest, WhatHasNoRoomIsLeftOut) {
  for (const v1::StudyResult& result :
       {Result(1000, 10), Result(0, 5000), Result(1000, 5000)}) {
    const auto options = Set(Write("r.json", Json(result, true)));
    ASSERT_TRUE(status_.ok()) << status_;
    v1::StudyResult holder;
    *holder.mutable_parity()->mutable_trace() = options.trace();
    EXPECT_LE(Json(holder, false).size(), limits::kStudyBytes);
    EXPECT_EQ(options.trace().losses_size(),
              result.parity().trace().losses_size());
  }
  EXPECT_GT(
      Set(Write("r.json", Json(Result(1000, 10), true))).trace().tensors_size(),
      200);
  std::string lines;
  for (int step = 1; step <= 6000; ++step) {
    lines += "{\"step\":" + std::to_string(step) +
             ",\"loss\":2.12345678901,\"grad_norm\":1.12345678901}\n";
  }
  const auto options = Set(Write("metrics.jsonl", lines), 5000);
  ASSERT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(options.recorded().losses_size(), 5000);
}

TEST_F(AgainstTest, AnyOtherFileIsRefusedWithItsName) {
  EXPECT_THAT(Refusal(Write("a.txt", "losses\n1\n")), HasSubstr("a.txt:1: "));
  EXPECT_THAT(Refusal(Write("a.json", "{}")), HasSubstr("a.json: expected"));
  EXPECT_THAT(Refusal(Write("a.json", "")), HasSubstr("a.json: expected"));
  EXPECT_THAT(Refusal(Write("a.json", "[1, \"x\", {\"step\": \"1\"}]")),
              HasSubstr("a.json: expected"));
  EXPECT_THAT(Refusal(Write("a.json", R"({"step": -1, "loss": 1})")),
              HasSubstr("a.json: expected"));
  EXPECT_THAT(Refusal(Write("a.json", R"({"step": 1.5, "loss": 1})")),
              HasSubstr("a.json: expected"));
  EXPECT_THAT(Refusal(Write("a.json", R"({"findings": [], "smoke": {}})")),
              HasSubstr("mpsctl parity --json"));
  EXPECT_THAT(Refusal(Write("a.json", std::string(100'000, '['))),
              HasSubstr("a.json"));
  fs::create_symlink("/dev/zero", folder_ / "zero");
  EXPECT_THAT(Refusal((folder_ / "zero").string()), HasSubstr("zero"));
  Set((folder_ / "none").string());
  EXPECT_EQ(status_.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd::client
