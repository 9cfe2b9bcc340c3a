// SPDX-License-Identifier: Apache-2.0
#include "client/probe.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class ProbeTest : public ClientTest {
 protected:
  ProbeTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_PROBE);
    v1::StudyResult& result = daemon_->runbook().study_result;
    result.set_verdict(v1::VERDICT_PASS);
    v1::ProbeResult& probe = *result.mutable_probe();
    probe.set_device("mps");
    probe.set_device_description("Apple M2\x1b[2J");
    probe.set_steps(8);
    probe.set_step_rows(16);
    probe.set_micro_batch_rows(4);
    probe.set_longest_row_tokens(1024);
    probe.mutable_step_seconds()->set_median(0.25);
    probe.set_tokens_per_second(12345);
    probe.set_peak_bytes(3'000'000'000);
    probe.set_peak_from("allocated");
    probe.mutable_estimate()->set_total_bytes(3'100'000'000);
  }
};

TEST_F(ProbeTest, ShowsRowsStepAndMemory) {
  const Result shown = RunVerb({"show", kId});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("16 a step, 4 at a time"));
  EXPECT_THAT(shown.out, HasSubstr("0.25 s"));
  EXPECT_THAT(shown.out, HasSubstr("12,345 tokens/s"));
  EXPECT_THAT(shown.out, HasSubstr("3.0 GB by the allocated"));
  EXPECT_THAT(shown.out, Not(HasSubstr("\x1b")));
}

TEST_F(ProbeTest, WithoutAStepThereIsNoTime) {
  daemon_->runbook().study_result.mutable_probe()->set_steps(0);
  EXPECT_THAT(RunVerb({"show", kId}).out, Not(HasSubstr("tokens/s")));
}

}  // namespace
}  // namespace mpsd::client
