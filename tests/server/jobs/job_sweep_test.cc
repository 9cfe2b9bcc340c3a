// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <set>
#include <string>

#include "core/base/atomic_file.h"
#include "server/jobs/job_deletion.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kKept[] = "01KAH0000000000000000000AA";
constexpr char kGone[] = "01KAH0000000000000000000BB";

class JobSweepTest : public testing::Test {
 protected:
  JobSweepTest() {
    std::string name = testing::TempDir() + "sweepXXXXXX";
    jobs_ = mkdtemp(name.data());
    Job job;
    job.id = kKept;
    EXPECT_TRUE(store_.Insert(job, {kKept, 1, {}, StateChanged{}}).ok());
    Make(kKept, "out/model");
    Make(kKept, "job.json");
  }
  ~JobSweepTest() override { fs::remove_all(jobs_); }

  void Make(const std::string& folder, const std::string& file) {
    const fs::path path = jobs_ / folder / file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
  }
  Leftovers Sweep(absl::Duration grace = absl::ZeroDuration()) {
    absl::StatusOr<Leftovers> found = FindLeftovers(jobs_, store_, grace);
    EXPECT_TRUE(found.ok()) << found.status();
    RemoveLeftovers(found->garbage);
    EXPECT_TRUE(fs::exists(jobs_ / kKept / "out/model"));
    return *found;
  }
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(jobs_)) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  fs::path jobs_;
  fakes::FakeJobStore store_;
};

TEST_F(JobSweepTest, WhatHasARowStays) {
  EXPECT_THAT(Sweep().garbage, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, WithoutAFolderThereIsNothing) {
  absl::StatusOr<Leftovers> found =
      FindLeftovers(jobs_ / "none", store_, absl::ZeroDuration());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->garbage, IsEmpty());
}

TEST_F(JobSweepTest, StagedFoldersGo) {
  const fs::path staged = base::TemporaryBeside(jobs_ / kGone);
  Make(staged.filename().string(), "inputs/train.jsonl");
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage, ElementsAre(staged));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ASubmissionThatWasCutOffGoesAfterItsGrace) {
  Make(kGone, "job.json");
  Make(kGone, "inputs/train.jsonl");
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage, IsEmpty());
  EXPECT_THAT(Sweep().garbage, ElementsAre(jobs_ / kGone));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

// As after a database that was restored from an older copy.
TEST_F(JobSweepTest, ResultsWithoutARowAreNamedAndStay) {
  Make(kGone, "job.json");
  Make(kGone, "out/model");
  const Leftovers found = Sweep();
  EXPECT_THAT(found.garbage, IsEmpty());
  EXPECT_THAT(found.unknown, ElementsAre(kGone));
  EXPECT_TRUE(fs::exists(jobs_ / kGone / "out/model"));
}

TEST_F(JobSweepTest, WhatIsNoJobIsLeftAlone) {
  Make("lost+found", "x");
  Make(".DS_Store", "x");
  EXPECT_THAT(Sweep().garbage, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre(".DS_Store", kKept, "lost+found"));
}

// A kill after each step of job_deletion.h.
TEST_F(JobSweepTest, ADeletionWhoseRowStayedIsForgotten) {
  ASSERT_TRUE(MarkForDeletion(jobs_ / kKept).ok());
  EXPECT_THAT(Sweep().garbage, IsEmpty());
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ADeletionWhoseRowIsGoneIsFinished) {
  Make(kGone, "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  EXPECT_THAT(Sweep(absl::Hours(1)).garbage,
              ElementsAre(jobs_ / kGone, DeletionMark(jobs_ / kGone)));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, ADeletionWhoseFolderWasMovedAsideIsFinished) {
  const fs::path aside = base::TemporaryBeside(jobs_ / kGone);
  Make(aside.filename().string(), "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  Sweep(absl::Hours(1));
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

TEST_F(JobSweepTest, AMarkOutlivesAFolderThatCannotBeRemoved) {
  Make(kGone, "out/model");
  ASSERT_TRUE(MarkForDeletion(jobs_ / kGone).ok());
  RemoveLeftovers({DeletionMark(jobs_ / kGone)});
  EXPECT_THAT(Names(), ElementsAre(DeletionMark(jobs_ / kGone).filename(),
                                   kKept, kGone));
  RemoveLeftovers({jobs_ / kGone, DeletionMark(jobs_ / kGone)});
  EXPECT_THAT(Names(), ElementsAre(kKept));
}

}  // namespace
}  // namespace mpsd::jobs
