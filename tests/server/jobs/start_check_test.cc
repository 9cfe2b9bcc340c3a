// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/jobs/prior_jobs.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

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

TEST_F(StartCheckTest, ADiskThatTellsNothingHoldsNothing) {
  files_.free_bytes.reset();
  job_.checkpoint_bytes = kGibibyte;
  EXPECT_THAT(FullDisk(kGibibyte, files_), IsEmpty());
  EXPECT_THAT(NoRoomFor(job_, kGibibyte, files_), IsEmpty());
}

}  // namespace
}  // namespace mpsd::jobs
