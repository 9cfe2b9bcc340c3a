// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "server/jobs/attempt_end.h"

namespace mpsd::jobs {
namespace {

using report::FailureKind;
using report::StopReason;
using testing::HasSubstr;
using testing::Not;

constexpr int kExit1 = 1 << 8;

WorkerEnding Ending(LastWord last_word, int wait_status) {
  WorkerEnding ending;
  ending.last_word = std::move(last_word);
  ending.wait_status = wait_status;
  ending.log_tail = "THE TAIL\n";
  return ending;
}

Outcome Done(std::optional<double> train_loss, std::optional<double> before,
             std::optional<double> after) {
  Outcome outcome;
  outcome.output_path = "/adapter";
  outcome.train_loss = train_loss;
  outcome.eval_loss_before = before;
  outcome.eval_loss_after = after;
  outcome.metrics = {{"f1", 0.5}};
  return outcome;
}

report::Failure Failed(FailureKind kind) { return {kind, "why"}; }

TEST(DecideExit, DoneCarriesItsResult) {
  const auto result = DecideExit(Ending(Done(1.0, 2.0, 3.0), 0));
  EXPECT_EQ(result.reason, ExitReason::kDone);
  EXPECT_EQ(result.message, "");
  EXPECT_EQ(result.outcome.output_path, "/adapter");
  EXPECT_EQ(result.outcome.train_loss, 1);
  EXPECT_EQ(result.outcome.eval_loss_before, 2);
  EXPECT_EQ(result.outcome.eval_loss_after, 3);
  EXPECT_EQ(result.outcome.metrics, (Metrics{{"f1", 0.5}}));
}

TEST(DecideExit, AnAssertionOfMetalHasASentence) {
  WorkerEnding ending = Ending({}, SIGABRT);
  ending.log_tail = "step 3/9\n/x/MPSGraph.mm:1: failed assertion `bad axis'\n";
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("SIGABRT (a failed assertion)"));
  EXPECT_THAT(result.message, HasSubstr("Metal's graph compiler refused"));
  EXPECT_THAT(result.message, HasSubstr("bad axis"));
}

TEST(DecideExit, AnAssertionThatATensorIsTooLargeIsFinal) {
  WorkerEnding ending = Ending({}, SIGABRT);
  ending.log_tail =
      "MPSNDArray.mm: failed assertion `total bytes of NDArray > "
      "2**32'";
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, ExitReason::kOutOfMemory);
  EXPECT_THAT(result.message, HasSubstr("per_device_train_batch_size"));
}

TEST(DecideExit, AnIndexBeyondItsTableIsTheDatasFault) {
  WorkerEnding ending = Ending({}, SIGABRT);
  ending.log_tail =
      "Indexing.cu:1553: indexSelectSmallIndex: Assertion `srcIndex < "
      "srcSelectDimSize` failed.\nCUDA error: device-side assert triggered\n";
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, ExitReason::kRejected) << "never retried";
  EXPECT_THAT(result.message, HasSubstr("vocab_size"));
}

TEST(DecideExit, NumbersThatMetalLostAreNotTheUsers) {
  WorkerEnding ending = Ending(Failed(FailureKind::kNonFinite), kExit1);
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kNonFinite);
  ending.log_tail = "Error: command buffer exited with error status.";
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kCrashed);
  ending.log_tail += "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)";
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kOutOfMemory);
}

TEST(DecideExit, DoneOutlivesACrashAtTheEnd) {
  const auto result = DecideExit(Ending(Done({}, {}, {}), SIGABRT));
  EXPECT_EQ(result.reason, ExitReason::kDone);
  EXPECT_THAT(result.message, HasSubstr("SIGABRT"));
}

TEST(DecideExit, DoneWinsOverACancelThatCameTooLate) {
  WorkerEnding ending = Ending(Done({}, {}, {}), 0);
  ending.asked = Asked::kCancel;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kDone);
}

TEST(DecideExit, ReportedFailuresAreNotDressedUp) {
  const std::pair<FailureKind, ExitReason> cases[] = {
      {FailureKind::kRejected, ExitReason::kRejected},
      {FailureKind::kOutOfMemory, ExitReason::kOutOfMemory},
      {FailureKind::kNonFinite, ExitReason::kNonFinite}};
  for (const auto& [kind, reason] : cases) {
    const auto result = DecideExit(Ending(Failed(kind), kExit1));
    EXPECT_EQ(result.reason, reason);
    EXPECT_EQ(result.message, "why");
  }
}

TEST(DecideExit, AFaultOfTheMachineIsKnownByItsErrno) {
  report::Failure failure{FailureKind::kRejected, "/out: read-only", EROFS};
  WorkerEnding ending = Ending(failure, kExit1);
  ending.asked = Asked::kPreempt;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kMachine);
  EXPECT_EQ(DecideExit(ending).message, "/out: read-only");
  for (const int64_t error : {int64_t{ENOENT}, int64_t{0}}) {
    failure.error = error;
    EXPECT_EQ(DecideExit(Ending(failure, kExit1)).reason,
              ExitReason::kRejected);
  }
}

TEST(DecideExit, AnInternalErrorIsACrashWithItsLog) {
  const auto result =
      DecideExit(Ending(Failed(FailureKind::kInternal), kExit1));
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("why"));
  EXPECT_THAT(result.message, HasSubstr("THE TAIL"));
}

TEST(DecideExit, SignalsHaveNames) {
  const std::pair<int, const char*> cases[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGKILL, "SIGKILL"},
      {SIGBUS, "SIGBUS"},   {SIGTERM, "SIGTERM"}, {SIGUSR2, "signal "}};
  for (const auto& [number, name] : cases) {
    const auto result = DecideExit(Ending({}, number));
    EXPECT_EQ(result.reason, ExitReason::kCrashed);
    EXPECT_THAT(result.message, HasSubstr(name));
    EXPECT_THAT(result.message, HasSubstr("THE TAIL"));
  }
}

TEST(DecideExit, ExitZeroWithoutAResultIsACrash) {
  const auto result = DecideExit(Ending({}, 0));
  EXPECT_EQ(result.reason, ExitReason::kCrashed);
  EXPECT_THAT(result.message, HasSubstr("exited with status 0"));
}

TEST(DecideExit, HungIsNotTheSigkillThatEndedIt) {
  WorkerEnding ending = Ending({}, SIGKILL);
  ending.hung = true;
  ending.silence = absl::Seconds(600.25);
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, ExitReason::kHung);
  EXPECT_THAT(result.message, Not(HasSubstr("SIGKILL")));
  EXPECT_THAT(result.message, HasSubstr("killed after 10m0.2s without"));
  EXPECT_THAT(result.message, HasSubstr("THE TAIL"));
}

TEST(DecideExit, NonsenseBeatsEverythingButACancel) {
  WorkerEnding ending = Ending(Done({}, {}, {}), SIGKILL);
  ending.protocol_error = "no JSON";
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, ExitReason::kProtocolError);
  EXPECT_THAT(result.message, HasSubstr("no JSON"));
  ending.last_word = {};
  ending.asked = Asked::kCancel;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kCancelled);
}

TEST(DecideExit, ACancelledWorkerIsCancelledHoweverItEnds) {
  for (int status : {0, kExit1, SIGKILL, SIGSEGV}) {
    for (const LastWord& word : {LastWord(), LastWord(report::Stopped{}),
                                 LastWord(Failed(FailureKind::kInternal))}) {
      WorkerEnding ending = Ending(word, status);
      ending.asked = Asked::kCancel;
      EXPECT_EQ(DecideExit(ending).reason, ExitReason::kCancelled);
    }
  }
}

TEST(DecideExit, PreemptedHoweverItStopped) {
  WorkerEnding ending = Ending(report::Stopped{}, 0);
  ending.asked = Asked::kPreempt;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kPreempted);
  ending = Ending({}, SIGKILL);
  ending.asked = Asked::kPreempt;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kPreempted);
  EXPECT_THAT(DecideExit(ending).message, HasSubstr("SIGKILL"));
  ending.killed_after_grace = true;
  EXPECT_THAT(DecideExit(ending).message, HasSubstr("grace"));
}

TEST(DecideExit, AUserErrorFoundWhilePreemptingIsAUserError) {
  WorkerEnding ending = Ending(Failed(FailureKind::kRejected), kExit1);
  ending.asked = Asked::kPreempt;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kRejected);
}

TEST(DecideExit, StoppingUnaskedIsNonsense) {
  EXPECT_EQ(DecideExit(Ending(report::Stopped{}, 0)).reason,
            ExitReason::kProtocolError);
}

}  // namespace
}  // namespace mpsd::jobs
