// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/jobs/attempt_end.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class VerdictTest : public testing::Test {
 protected:
  VerdictTest() {
    job_.id = "J";
    job_.spec_json =
        R"({"model": "/models/tiny", "dataset": {"train": "/data/t.jsonl"}})";
    files_.specs["J"] = job_.spec_json;
    files_.paths = {"/models/tiny", "/data/t.jsonl"};
  }
  Verdict Judge(ExitReason reason) {
    WorkerListener::Result result;
    result.reason = reason;
    result.message = "why";
    return JudgeEnd(result, job_, /*min_free_bytes=*/1000, files_);
  }

  Job job_;
  fakes::FakeJobFiles files_;
};

TEST_F(VerdictTest, AnErrorThatTheDiskDoesNotExplainStays) {
  const Verdict verdict = Judge(ExitReason::kCrashed);
  EXPECT_EQ(verdict.result.reason, ExitReason::kCrashed);
  EXPECT_EQ(verdict.result.message, "why");
  EXPECT_THAT(verdict.job_lacks, IsEmpty());
  EXPECT_THAT(verdict.disk_lacks, IsEmpty());
}

TEST_F(VerdictTest, AFileThatIsAwayIsTheMachinesFault) {
  files_.paths.erase("/data/t.jsonl");
  for (ExitReason reason :
       {ExitReason::kCrashed, ExitReason::kRejected, ExitReason::kMachine}) {
    const Verdict verdict = Judge(reason);
    EXPECT_EQ(verdict.result.reason, ExitReason::kMachine);
    EXPECT_THAT(verdict.result.message, HasSubstr("'/data/t.jsonl'"));
    EXPECT_THAT(verdict.result.message, HasSubstr("; why"));
    EXPECT_THAT(verdict.job_lacks, HasSubstr("dataset.train"));
  }
}

TEST_F(VerdictTest, AFullDiskExplainsACrashAndNoRejection) {
  files_.free_bytes = 999;
  EXPECT_EQ(Judge(ExitReason::kCrashed).result.reason, ExitReason::kMachine);
  EXPECT_THAT(Judge(ExitReason::kCrashed).disk_lacks,
              HasSubstr("--min-free-bytes"));
  EXPECT_EQ(Judge(ExitReason::kRejected).result.reason, ExitReason::kRejected);
}

TEST_F(VerdictTest, TheDiskIsNoExcuseForOtherEnds) {
  files_.paths.clear();
  files_.free_bytes = 0;
  for (ExitReason reason :
       {ExitReason::kDone, ExitReason::kHung, ExitReason::kOutOfMemory,
        ExitReason::kPreempted, ExitReason::kCancelled}) {
    EXPECT_EQ(Judge(reason).result.reason, reason);
  }
}

TEST_F(VerdictTest, AnInterruptionTellsTheMachineFromMpsd) {
  EXPECT_THAT(Interruption(job_, "boot 2").message,
              HasSubstr("mpsd or the machine"));
  job_.boot_id = "boot 2";
  EXPECT_EQ(Interruption(job_, "boot 2").message,
            "mpsd ended while the job ran");
  EXPECT_EQ(Interruption(job_, "boot 3").message,
            "the machine went down while the job ran");
  EXPECT_EQ(Interruption(job_, "").reason, ExitReason::kInterrupted);
}

}  // namespace
}  // namespace mpsd::jobs
