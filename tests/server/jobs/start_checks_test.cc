// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/start_checks.h"

#include "core/base/limits.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

constexpr int64_t kGibibyte = int64_t{1} << 30;

class StartCheckTest : public testing::Test {
 protected:
  StartCheckTest() {
    job_.id = "J";
    job_.spec_json = R"({"model": "/v/model", "adapter": "/v/adapter",
        "dataset": {"train": ["/v/a", "/v/b"], "eval": ["/v/e"]},
        "training": {"chat_template_path": "/v/t.jinja"}})";
    files_.specs["J"] = job_.spec_json;
    files_.paths = {"/v/model", "/v/adapter", "/v/a",
                    "/v/b",     "/v/e",       "/v/t.jinja"};
  }
  // Each of the paths there are, gone and back.
  void ExpectEachIsMissed() {
    EXPECT_THAT(MissingPath(job_, SpecOf(job_), files_), IsEmpty());
    const auto all = files_.paths;
    for (const std::string& path : all) {
      files_.paths.erase(path);
      EXPECT_THAT(MissingPath(job_, SpecOf(job_), files_),
                  HasSubstr("'" + path + "'"));
      files_.paths.insert(path);
    }
  }

  Job job_;
  fakes::FakeJobFiles files_;
};

TEST_F(StartCheckTest, EveryPathIsLookedAt) {
  ExpectEachIsMissed();
  job_.spec_json = R"({"model": "/v/model", "task": "SEQ_CLS",
      "dataset": {"train": "/v/a", "predict": "/v/p"}})";
  files_.paths = {"/v/model", "/v/a", "/v/p"};
  ExpectEachIsMissed();
  files_.specs.clear();
  EXPECT_THAT(MissingPath(job_, SpecOf(job_), files_),
              HasSubstr("/state/jobs/J"));
}

TEST_F(StartCheckTest, ASpecThatCannotBeReadIsTheWorkersToRefuse) {
  job_.spec_json = "{";
  EXPECT_FALSE(SpecOf(job_).allow_cpu_fallback);
  EXPECT_THAT(MissingPath(job_, SpecOf(job_), files_), IsEmpty());
}

TEST_F(StartCheckTest, RoomIsCountedAtTheLimit) {
  files_.free_bytes = 3 * kGibibyte;
  job_.checkpoint_bytes = 2 * kGibibyte;
  EXPECT_THAT(FullDisk(3 * kGibibyte, files_), IsEmpty());
  EXPECT_THAT(FullDisk(3 * kGibibyte + 1, files_), HasSubstr("3.00 GiB left"));
  EXPECT_THAT(NoRoomFor(job_, kGibibyte, files_), IsEmpty());
  ++job_.checkpoint_bytes;
  EXPECT_THAT(NoRoomFor(job_, kGibibyte, files_), HasSubstr("about 2.00 GiB"));
}

const std::string kA(limits::kWholeId, 'A'), kB(limits::kWholeId, 'B');

Job Waiting(std::vector<std::string> after) {
  Job job;
  job.id = "J";
  job.after = std::move(after);
  job.spec_json = "{}";
  return job;
}

TEST(PriorJobs, CountOnlyBeforeTheFirstStart) {
  Job job = Waiting({kA});
  EXPECT_TRUE(AwaitsPriors(job));
  job.attempt = 1;
  EXPECT_FALSE(AwaitsPriors(job));
  job.attempt = 0;
  job.state = State::kCancelled;
  EXPECT_FALSE(AwaitsPriors(job));
  EXPECT_FALSE(AwaitsPriors(Waiting({})));
}

// Every state of a prior job, and no prior job.
TEST(PriorJobs, OnlySuccessLetsAJobStart) {
  for (const State state : kAllStates) {
    const PriorStanding standing = StandingOf(Waiting({kA}), {{kA, state}});
    const bool ended = state == State::kFailed || state == State::kCancelled;
    const bool waits = state == State::kQueued || state == State::kRunning;
    EXPECT_EQ(standing.failed.empty(), !ended) << standing.failed;
    EXPECT_EQ(standing.waits.empty(), !waits) << standing.waits;
    for (const std::string& text : {standing.waits, standing.failed}) {
      if (text.empty()) continue;
      EXPECT_THAT(text, HasSubstr("job " + kA));
      EXPECT_THAT(text, HasSubstr(std::string(Name(state))));
    }
  }
  EXPECT_THAT(StandingOf(Waiting({kA}), {}).failed,
              HasSubstr("no longer exists"));
}

TEST(PriorJobs, AHoldSaysWhatToDo) {
  const PriorStates failed = {{kA, State::kFailed}};
  EXPECT_EQ(StandingOf(Waiting({kA}), failed).failed,
            "job " + kA +
                " is FAILED, and this job waits for its success; "
                "`mpsctl retry " +
                kA +
                "`, then release; released, it no longer "
                "waits for it");
  Job named = Waiting({kA});
  named.spec_json =
      R"({"model":"m","dataset":{"train":"t"},"adapter":"job:)" + kA + "\"}";
  EXPECT_EQ(StandingOf(named, failed).failed,
            "job " + kA +
                " is FAILED, and this job starts from its result; "
                "`mpsctl retry " +
                kA + "`, then release");
  for (const State state : kAllStates) {
    for (const Job& job : {Waiting({kA}), named}) {
      EXPECT_LE(StandingOf(job, {{kA, state}}).failed.size(),
                limits::kReasonBytes);
    }
  }
}

class NamedResultsTest : public testing::Test {
 protected:
  // A job whose result is an adapter, or a model.
  Job& Put(const std::string& id, State state, OutputKind kind) {
    Job& job = jobs_[id];
    job.id = id;
    job.state = state;
    job.model = "org/tiny";
    job.output_kind = kind;
    const bool adapter = kind == OutputKind::kAdapter;
    job.spec_json =
        std::string(R"({"model": "org/tiny", "dataset": {"train": "/t"}, )") +
        R"("fine_tune_type": ")" + (adapter ? "lora" : "full") + "\"}";
    if (state == State::kSucceeded) {
      job.output_path =
          "/state/jobs/" + id + (adapter ? "/out/adapter" : "/out/model");
      files_.paths.insert(job.output_path);
    }
    return job;
  }
  absl::Status Place(const std::string& model, const std::string& adapter) {
    spec_.model = model;
    spec_.adapter = adapter;
    return PlaceResults(find_, files_, spec_);
  }
  void ExpectError(const std::string& model, const std::string& adapter,
                   absl::StatusCode code, const std::string& text) {
    EXPECT_THAT(Place(model, adapter), Fails(code, text));
  }

  std::map<std::string, Job> jobs_;
  fakes::FakeJobFiles files_;
  spec::TrainSpec spec_;
  const FindJob find_ = [this](const std::string& id) -> absl::StatusOr<Job> {
    const auto found = jobs_.find(id);
    if (found == jobs_.end()) return absl::NotFoundError(id);
    return found->second;
  };
};

TEST_F(NamedResultsTest, WhatHasNotSucceededKeepsItsName) {
  for (const State state : kAllStates) {
    if (state == State::kSucceeded) continue;
    Put(kA, state, OutputKind::kAdapter);
    Put(kB, state, OutputKind::kModel);
    ASSERT_TRUE(Place("job:" + kB, "job:" + kA).ok());
    EXPECT_EQ(spec_.model, "job:" + kB);
    EXPECT_THAT(JobsNamedBy(spec_), ElementsAre(kB, kA));
  }
  ASSERT_TRUE(Place("org/tiny", "/adapters/x").ok());
  EXPECT_EQ(spec_.model, "org/tiny");
  EXPECT_EQ(spec_.adapter, "/adapters/x");
}

TEST_F(NamedResultsTest, AKindInTheWrongFieldIsSaid) {
  for (const State state : {State::kQueued, State::kSucceeded}) {
    Put(kA, state, OutputKind::kAdapter);
    Put(kB, state, OutputKind::kModel);
    ExpectError(
        "job:" + kA, "", kInvalidArgument,
        "model: job " + kA +
            " makes an adapter and no whole model: "
            "name it as `adapter`, next to the model that the adapter is "
            "for, \"org/tiny\"; or merge the two");
    ExpectError("org/tiny", "job:" + kB, kInvalidArgument,
                "adapter: job " + kB +
                    " makes a whole model and no adapter: "
                    "name it as `model`, \"job:" +
                    kB + "\"");
  }
}

// No call can make one; a damaged database may have one.
TEST_F(NamedResultsTest, ACircleEndsTheWalk) {
  Put(kA, State::kQueued, OutputKind::kModel).model = "job:" + kB;
  Put(kB, State::kQueued, OutputKind::kModel).model = "job:" + kA;
  EXPECT_THAT(ModelToBe(find_, files_, "job:" + kA),
              Fails(kFailedPrecondition, "more than 64 jobs"));
}

TEST_F(NamedResultsTest, AWorkerReadsTheJobsThatSubmitFound) {
  spec_.model = "/state/models/models--m/pushed/1";
  spec_.adapter = "/state/jobs/" + kA + "/out/adapter";
  spec_.dataset.train = {"/data/link", "/data/t", "/data/other",
                         "/state/jobs/" + kB + "/inputs/t"};
  spec_.dataset.eval = {"/state/jobs/../secret", "/state/jobsx/a"};
  files_.links_to = {{"/data/link", "/state/jobs/" + kA + "/out/t.csv"},
                     {"/data/t", "/state/blobs/aa/aa"},
                     {"/data/other", "/state/models/m"}};
  const auto read = ReadInState({kA}, spec_, files_);
  // The whole folder, once: the rows of t.csv name files next to it.
  EXPECT_THAT(read, ElementsAre("/state/jobs/" + kA, spec_.model));
  // Once the link leads to another job.
  spec_.adapter.clear();
  files_.links_to["/data/link"] = "/state/jobs/" + kB + "/out/t.csv";
  EXPECT_THAT(ReadInState({kA}, spec_, files_), ElementsAre(spec_.model));
}

}  // namespace
}  // namespace mpsd::jobs
