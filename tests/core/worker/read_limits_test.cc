// SPDX-License-Identifier: Apache-2.0
#include "core/worker/read_limits.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/file.h"
#include "core/base/read_roots.h"
#include "core/data/shown.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;

class ReadLimitsTest : public testing::Test {
 protected:
  ReadLimitsTest() {
    fs::create_directories(job_ / "inputs");
    std::ofstream(folder_ / "secret") << "x";
  }
  // What it sets is the process': lifted for the next test.
  ~ReadLimitsTest() override {
    base::LimitReads(base::ReadRoots({"/"}));
    data::ShowContents(true);
  }

  bool ShownWith(const fs::path& train, const fs::path& eval) {
    std::ofstream(job_ / "job.json")
        << R"({"model": "m", "dataset": {"train": [")" << train.string()
        << R"("], "eval": [")" << eval.string() << R"("]}})";
    LimitToStart({"J", job_ / "job.json", job_ / "out"});
    return data::ContentsShown();
  }

  const fs::path folder_ = testing_support::FreshFolder("read_limits");
  const fs::path job_ = folder_ / "job";
};

TEST_F(ReadLimitsTest, ContentsOfUploadsAloneAreShown) {
  const fs::path upload = job_ / "inputs/t.jsonl";
  EXPECT_TRUE(ShownWith(upload, job_ / "inputs/up/e.jsonl"));
  EXPECT_FALSE(ShownWith(folder_ / "secret", upload));
  EXPECT_FALSE(ShownWith(upload, folder_ / "secret"));
  EXPECT_FALSE(ShownWith(upload, job_ / "inputs/../../secret"));
  EXPECT_FALSE(ShownWith(upload, job_ / "inputs.csv"));
}

TEST_F(ReadLimitsTest, WithoutRootsEveryFileIsOpened) {
  LimitToStart({"J", job_ / "job.json", job_ / "out"});
  EXPECT_TRUE(base::ReadFile(folder_ / "secret").ok());
  LimitToStart({"J", job_ / "job.json", job_ / "out", {job_.string()}});
  EXPECT_FALSE(base::ReadFile(folder_ / "secret").ok());
}

// A job that may read any file reads files alone: this test would hang.
TEST_F(ReadLimitsTest, WhatIsNoFileIsNotRead) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "zero");
  LimitToStart({"J", job_ / "job.json", job_ / "out"});
  for (const fs::path& path :
       {folder_ / "pipe", folder_ / "zero", fs::path("/dev/zero"),
        fs::path("/dev/fd/0"), folder_}) {
    EXPECT_FALSE(base::ReadFile(path).ok()) << path;
    EXPECT_FALSE(base::MappedFile::Open(path).ok()) << path;
  }
}

}  // namespace
}  // namespace mpsd::worker
