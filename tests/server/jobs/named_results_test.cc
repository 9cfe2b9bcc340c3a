// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/base/limits.h"
#include "server/jobs/prior_jobs.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kA(limits::kWholeId, 'A'), kB(limits::kWholeId, 'B');

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
    const absl::Status status = Place(model, adapter);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
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

TEST_F(NamedResultsTest, TheResultTakesItsNamesPlace) {
  Put(kA, State::kSucceeded, OutputKind::kAdapter);
  Put(kB, State::kSucceeded, OutputKind::kModel);
  ASSERT_TRUE(Place("job:" + kB, "job:" + kA).ok());
  EXPECT_EQ(spec_.model, "/state/jobs/" + kB + "/out/model");
  EXPECT_EQ(spec_.adapter, "/state/jobs/" + kA + "/out/adapter");
  EXPECT_THAT(JobsNamedBy(spec_), IsEmpty());
  EXPECT_THAT(ResultsReadBy(spec_, files_),
              ElementsAre(spec_.model, spec_.adapter));
}

TEST_F(NamedResultsTest, WhatHasNotSucceededKeepsItsName) {
  for (const State state : kAllStates) {
    if (state == State::kSucceeded) continue;
    Put(kA, state, OutputKind::kAdapter);
    Put(kB, state, OutputKind::kModel);
    ASSERT_TRUE(Place("job:" + kB, "job:" + kA).ok());
    EXPECT_EQ(spec_.model, "job:" + kB);
    EXPECT_THAT(JobsNamedBy(spec_), ElementsAre(kB, kA));
    EXPECT_THAT(ResultsReadBy(spec_, files_), IsEmpty());
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
        "job:" + kA, "", absl::StatusCode::kInvalidArgument,
        "model: job " + kA +
            " makes an adapter and no whole model: "
            "name it as `adapter`, beside the model that the adapter is "
            "for, \"org/tiny\"; or merge the two");
    ExpectError("org/tiny", "job:" + kB, absl::StatusCode::kInvalidArgument,
                "adapter: job " + kB +
                    " makes a whole model and no adapter: "
                    "name it as `model`, \"job:" +
                    kB + "\"");
  }
}

TEST_F(NamedResultsTest, AJobThatIsNotThereIsSaid) {
  ExpectError("job:" + kA, "", absl::StatusCode::kFailedPrecondition,
              "model: there is no job " + kA);
  ExpectError("m", "job:" + kA, absl::StatusCode::kFailedPrecondition,
              "adapter: there is no job " + kA);
  spec_.model = "job:" + kA;
  EXPECT_TRUE(
      absl::IsFailedPrecondition(PlaceResults(FindJob(), files_, spec_)));
}

TEST_F(NamedResultsTest, AResultThatIsGoneIsSaid) {
  Job& job = Put(kA, State::kSucceeded, OutputKind::kAdapter);
  files_.paths.clear();
  ExpectError("m", "job:" + kA, absl::StatusCode::kFailedPrecondition,
              job.output_path + ", is not on the daemon's disk");
  job.output_path.clear();
  ExpectError("m", "job:" + kA, absl::StatusCode::kFailedPrecondition,
              "which it did not report");
}

TEST_F(NamedResultsTest, AModelToBeHasTheShapeOfTheFirst) {
  files_.models["org/tiny"] =
      JobFiles::Model{"/models/tiny", fakes::TinyModel()};
  Put(kA, State::kQueued, OutputKind::kModel);
  Put(kB, State::kQueued, OutputKind::kModel).model = "job:" + kA;
  const auto model = ModelToBe(find_, files_, "job:" + kB);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->folder, "job:" + kB);
  EXPECT_EQ(model->config.hidden_size, fakes::TinyModel().hidden_size);
  files_.models.clear();
  EXPECT_FALSE(ModelToBe(find_, files_, "job:" + kB).ok());
  // A is done meanwhile.
  const Job& done = Put(kA, State::kSucceeded, OutputKind::kModel);
  files_.models[done.output_path] =
      JobFiles::Model{done.output_path, fakes::TinyModel()};
  EXPECT_TRUE(ModelToBe(find_, files_, "job:" + kB).ok());
}

// Nobody can make one; a damaged database may have one.
TEST_F(NamedResultsTest, ACircleEndsTheWalk) {
  Put(kA, State::kQueued, OutputKind::kModel).model = "job:" + kB;
  Put(kB, State::kQueued, OutputKind::kModel).model = "job:" + kA;
  const absl::Status status = ModelToBe(find_, files_, "job:" + kA).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("more than 64 jobs"));
}

TEST_F(NamedResultsTest, AFolderBesideTheJobsIsNoResult) {
  spec_.model = "/state/jobs/../secret";
  spec_.adapter = "/state/jobsx/a";
  EXPECT_THAT(ResultsReadBy(spec_, files_), IsEmpty());
}

}  // namespace
}  // namespace mpsd::jobs
