// SPDX-License-Identifier: Apache-2.0
#include "client/runbook_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

void AddFinding(google::protobuf::RepeatedPtrField<v1::Finding>* findings,
                const std::string& name, v1::Verdict verdict,
                const std::string& found) {
  v1::Finding& finding = *findings->Add();
  finding.set_name(name);
  finding.set_verdict(verdict);
  finding.set_found(found);
}

// Of a machine and a job with which nothing is wrong.
v1::Runbook Good() {
  v1::Runbook runbook;
  runbook.set_name("moods");
  runbook.set_model("org/m");
  runbook.set_server("studio:7433");
  runbook.mutable_time()->set_seconds(1767323045);
  v1::Diagnosis& doctor = *runbook.mutable_doctor();
  doctor.set_verdict(v1::VERDICT_PASS);
  AddFinding(doctor.mutable_findings(), "machine.architecture",
             v1::VERDICT_PASS, "arm64, not translated");
  AddFinding(doctor.mutable_findings(), "torch.matmul", v1::VERDICT_PASS,
             "right, on mps");
  runbook.mutable_plan()->set_verdict(v1::VERDICT_PASS);
  v1::StudyResult& sweep = *runbook.mutable_batch_sweep();
  sweep.set_job_id("01SWEEP");
  sweep.set_verdict(v1::VERDICT_PASS);
  for (const int batch : {1, 2, 4}) {
    v1::BatchPoint& point = *sweep.mutable_batch_sweep()->add_points();
    point.set_batch(batch);
    point.set_fits(true);
    point.set_tokens_per_second(1000 * batch);
    point.set_peak_bytes(batch << 30);
    point.mutable_step_seconds()->set_median(0.5);
  }
  sweep.mutable_batch_sweep()->set_knee_batch(2);
  v1::StudyResult& smoke = *runbook.mutable_smoke();
  smoke.set_job_id("01SMOKE");
  smoke.set_verdict(v1::VERDICT_PASS);
  smoke.mutable_smoke()->set_memory_from("footprint");
  for (int i = 1; i <= 10; ++i) {
    v1::SmokeEpoch& epoch = *smoke.mutable_smoke()->add_epochs();
    epoch.set_epoch(i);
    epoch.set_footprint_bytes(1 << 30);
  }
  v1::StudyResult& parity = *runbook.mutable_parity();
  parity.set_verdict(v1::VERDICT_PASS);
  parity.mutable_parity()->set_reference("cpu");
  return runbook;
}

v1::Verdict Judged(const std::function<void(v1::Runbook&)>& change) {
  v1::Runbook runbook = Good();
  change(runbook);
  JudgeRunbook(&runbook);
  EXPECT_EQ(runbook.proofs_size(), 4);
  return runbook.verdict();
}

TEST(JudgeRunbook, AllProofsAndStepsMakeAPromise) {
  EXPECT_EQ(Judged([](v1::Runbook&) {}), v1::VERDICT_PASS);
}

TEST(JudgeRunbook, NoPromiseWithoutEachProof) {
  const auto fails = [](const std::function<void(v1::Runbook&)>& change) {
    return Judged(change) == v1::VERDICT_FAIL;
  };
  EXPECT_TRUE(fails([](v1::Runbook& r) { r.clear_doctor(); }));
  EXPECT_TRUE(fails([](v1::Runbook& r) { r.clear_batch_sweep(); }));
  EXPECT_TRUE(fails([](v1::Runbook& r) { r.clear_smoke(); }));
  EXPECT_TRUE(fails([](v1::Runbook& r) {
    r.mutable_batch_sweep()
        ->mutable_batch_sweep()
        ->mutable_points()
        ->DeleteSubrange(1, 2);
  })) << "one batch is no sweep";
  EXPECT_TRUE(fails([](v1::Runbook& r) {
    r.mutable_smoke()->mutable_smoke()->mutable_epochs()->DeleteSubrange(1, 9);
  })) << "one epoch is no curve";
  EXPECT_TRUE(fails([](v1::Runbook& r) {
    r.mutable_doctor()->mutable_findings(0)->set_verdict(
        v1::VERDICT_UNSPECIFIED);
  })) << "what is not told proves nothing";
  EXPECT_TRUE(fails([](v1::Runbook& r) {
    r.mutable_doctor()->mutable_findings()->DeleteSubrange(1, 1);
  }));
}

TEST(JudgeRunbook, AStepThatSaysNoDecides) {
  for (const v1::Verdict verdict : {v1::VERDICT_WARN, v1::VERDICT_FAIL}) {
    EXPECT_EQ(
        Judged([&](v1::Runbook& r) { r.mutable_plan()->set_verdict(verdict); }),
        verdict);
    EXPECT_EQ(Judged([&](v1::Runbook& r) {
                r.mutable_smoke()->set_verdict(verdict);
              }),
              verdict);
  }
  EXPECT_EQ(Judged([](v1::Runbook& r) { r.add_not_taken("plan: away"); }),
            v1::VERDICT_FAIL);
}

TEST(RunbookPage, BothFormsSayTheSame) {
  v1::Runbook runbook = Good();
  runbook.add_not_taken("plan: left out by --skip");
  JudgeRunbook(&runbook);
  const std::string html = RunbookHtml(runbook);
  const std::string markdown = RunbookMarkdown(runbook);
  for (const char* text :
       {"Fit to promise: moods", "Not fit to promise.", "studio:7433",
        "2026-01-02 03:04:05 UTC", "The final gate", "1. The machine (doctor)",
        "arm64, not translated", "3. The sweep of batches", "01SMOKE",
        "5. Parity", "plan: left out by --skip"}) {
    EXPECT_THAT(html, HasSubstr(text));
    // Markdown's own marks are escaped.
    if (std::string(text).find_first_of("_*") == std::string::npos) {
      EXPECT_THAT(markdown, HasSubstr(text));
    }
  }
  // The sweep and the curve of memory are pictures.
  EXPECT_THAT(html, HasSubstr("<svg"));
  EXPECT_NE(html.find("<svg"), html.rfind("<svg"));
  EXPECT_THAT(markdown, HasSubstr("| ok | proof.architecture | "));
}

TEST(RunbookPage, TheSweepIsATableAndAPicture) {
  v1::Runbook runbook = Good();
  JudgeRunbook(&runbook);
  const std::string html = RunbookHtml(runbook);
  EXPECT_THAT(html, HasSubstr("<table class=\"figures\"><tr><th>batch</th>"));
  EXPECT_THAT(html, HasSubstr("<tr><td>2</td><td>0.5 s</td><td>2,000</td>"));
  EXPECT_THAT(html, HasSubstr("<td>knee</td>"));
  EXPECT_THAT(html, HasSubstr("knee 2</text>"));
  const std::string markdown = RunbookMarkdown(runbook);
  // A blank line before and behind, or the table is no table.
  EXPECT_THAT(markdown, HasSubstr("\n\n| batch | a step | tokens a second | "));
  EXPECT_THAT(markdown, HasSubstr("|\n|---|---|---|---|---|---|\n| 1 | 0.5 s"));
  EXPECT_THAT(markdown,
              HasSubstr("|\n\n![3. The sweep of batches](sweep.svg)\n\n"));
  EXPECT_THAT(markdown, Not(HasSubstr("Batch 2:")));
  const auto pictures = RunbookPictures(runbook);
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures.at("sweep.svg").substr(0, 4), "<svg");
  EXPECT_THAT(markdown, HasSubstr("](smoke.svg)"));
}

TEST(RunbookPage, HostileTextsStayTexts) {
  v1::Runbook runbook = Good();
  runbook.set_name("<script>alert(1)</script>|[x](javascript:1)\x1b[2J");
  AddFinding(runbook.mutable_doctor()->mutable_findings(), "gate",
             v1::VERDICT_WARN, "a|b\n# heading <img src=x>");
  JudgeRunbook(&runbook);
  const std::string html = RunbookHtml(runbook);
  const std::string markdown = RunbookMarkdown(runbook);
  for (const std::string& page : {html, markdown}) {
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("<img")));
    EXPECT_THAT(page, Not(HasSubstr("\x1b")));
  }
  EXPECT_THAT(markdown, Not(HasSubstr("[x](")));
  EXPECT_THAT(markdown, Not(HasSubstr("\n# heading")));
  EXPECT_THAT(markdown, HasSubstr("a\\|b"));
}

}  // namespace
}  // namespace mpsd::client
