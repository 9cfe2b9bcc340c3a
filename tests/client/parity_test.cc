// SPDX-License-Identifier: Apache-2.0
#include "client/parity.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class ParityTest : public ClientTest {
 protected:
  ParityTest() {
    job_ = Write("job.json",
                 R"({"model": "org/m", "dataset": {"train": "t.jsonl"},
                     "training": {"metric_for_best_model": "eval_accuracy"}})");
    Write("t.jsonl", "{\"text\": \"a\"}\n");
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddState(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = daemon_->runbook().study_result;
    result.set_verdict(v1::VERDICT_FAIL);
    v1::ParityResult& parity = *result.mutable_parity();
    parity.set_device("mps");
    parity.set_dtype("fp32");
    parity.set_reference("cpu (Apple M2)");
    parity.mutable_trace()->set_description("Apple M2 GPU");
    v1::ParityStep& step = *parity.add_steps();
    step.set_step(1);
    step.set_loss(2.5);
    step.set_reference_loss(2.25);
    step.set_loss_difference(0.1);
    step.set_grad_norm(3);
    step.set_reference_grad_norm(4);
    parity.set_tensors_compared(8);
    parity.set_tensors_equal(6);
    v1::TensorDelta& delta = *parity.add_tensors();
    delta.set_name("layers.0.q_proj.lora_A\x1b[2J");
    delta.set_role(v1::TENSOR_ROLE_GRADIENT);
    delta.set_relative_l2(0.0125);
  }

  const v1::ParityOptions& Options() {
    static const v1::ParityOptions none;
    if (data().submitted.empty()) return none;
    return data().submitted.back().study().parity();
  }

  std::string job_;
};

TEST_F(ParityTest, AgainstADevice) {
  const Result result = RunVerb(
      {"parity", job_, "--against", "cpu", "--device", "mps", "--steps", "4"});
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_EQ(Options().reference_device(), "cpu");
  EXPECT_EQ(Options().device(), "mps");
  EXPECT_EQ(Options().steps(), 4);
  EXPECT_THAT(result.out,
              HasSubstr("mps (Apple M2 GPU), fp32, against cpu (Apple M2)\n"
                        "STEP  LOSS      REFERENCE  DIFFERENCE  GRAD NORM  "
                        "REFERENCE\n"
                        "1     2.500000  2.250000   0.1         3          4\n"
                        "6 of 8 gradients and values are equal bit for bit\n"));
  EXPECT_THAT(result.out, HasSubstr("gradient, step 1"));
  EXPECT_THAT(result.out, HasSubstr("layers.0.q_proj.lora_A\\x1b[2J"));
  EXPECT_THAT(result.out, HasSubstr("Verdict: fail"));
}

TEST_F(ParityTest, AgainstAFile) {
  const std::string losses =
      Write("losses.jsonl",
            "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 2.25}\n"
            "{\"step\": 2, \"eval_accuracy\": 0.75, \"eval_loss\": 2}\n");
  EXPECT_EQ(RunVerb({"parity", job_, "--against", losses}).code, 10);
  EXPECT_EQ(Options().recorded().losses_size(), 2);
  // The metric is the one that the job is judged by.
  EXPECT_EQ(Options().recorded().metric(), "accuracy");
  EXPECT_EQ(Options().recorded().metric_value(), 0.75);
  const Result none =
      RunVerb({"parity", job_, "--against", (folder_ / "none").string()});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("Nothing was submitted"));
}

TEST_F(ParityTest, WithoutAnotherItIsATraceForLater) {
  RunVerb({"parity", job_});
  EXPECT_EQ(Options().against_case(), v1::ParityOptions::AGAINST_NOT_SET);
}

}  // namespace
}  // namespace mpsd::client
