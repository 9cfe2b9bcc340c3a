// SPDX-License-Identifier: Apache-2.0
#include "core/tensorboard/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/tensorboard/crc32c.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::tensorboard {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// The events of a file; checks length and both sums of each. What is cut short
// at the end is left out.
std::vector<std::string> EventsIn(std::string_view bytes) {
  std::vector<std::string> events;
  while (bytes.size() >= 12) {
    uint64_t length = 0;
    uint32_t crc = 0;
    std::memcpy(&length, bytes.data(), 8);
    std::memcpy(&crc, bytes.data() + 8, 4);
    EXPECT_EQ(crc, MaskedCrc32c(bytes.substr(0, 8)));
    if (bytes.size() < 16 + length) break;
    const std::string_view event = bytes.substr(12, length);
    std::memcpy(&crc, bytes.data() + 12 + length, 4);
    EXPECT_EQ(crc, MaskedCrc32c(event));
    events.emplace_back(event);
    bytes.remove_prefix(16 + length);
  }
  return events;
}

class EventFileTest : public testing::Test {
 protected:
  EventFileTest()
      : folder_(fs::path(testing::TempDir()) /
                ("events-" + std::to_string(getpid())) / "runs") {
    fs::remove_all(folder_.parent_path());
  }
  ~EventFileTest() override { fs::remove_all(folder_.parent_path()); }

  std::unique_ptr<EventFile> Create(int64_t next_step) {
    auto file = EventFile::Create(folder_, next_step, clock_);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> EventsOf(const fs::path& path) const {
    return EventsIn(*base::ReadFile(path));
  }

  const fs::path folder_;
  fakes::FakeClock clock_;
};

TEST_F(EventFileTest, AFirstAttemptHasItsValuesAndNoRestart) {
  auto file = Create(0);
  file->Add(1, {{"train/loss", 0.5}});
  EXPECT_THAT(Names(), ElementsAre("events.out.tfevents.1767225600.mpsd"));
  // Readable while the attempt goes on.
  EXPECT_THAT(
      EventsOf(file->path()),
      ElementsAre(VersionEvent(clock_.Now()),
                  ScalarsEvent(clock_.Now(), 1, {{"train/loss", 0.5}})));
}

TEST_F(EventFileTest, ALaterAttemptHasAFileBehindAndTakesStepsBack) {
  const fs::path first = Create(0)->path();
  const std::string before = *base::ReadFile(first);
  // Within the same second, and with a clock that was set back.
  const fs::path second = Create(5)->path();
  clock_.SetBack(absl::Hours(10));
  const fs::path third = Create(9)->path();
  EXPECT_THAT(Names(), ElementsAre(first.filename(), second.filename(),
                                   third.filename()));
  EXPECT_EQ(*base::ReadFile(first), before);
  EXPECT_THAT(EventsOf(third), ElementsAre(VersionEvent(clock_.Now()),
                                           RestartEvent(clock_.Now(), 9)));
}

// Neither other files nor names that only look alike count.
TEST_F(EventFileTest, OtherFilesInTheFolderStay) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "events.out.tfevents.99999999999999999999.mpsd");
  std::ofstream(folder_ / "events.out.tfevents.1999999999.other-host");
  std::ofstream(folder_ / "notes.txt");
  const fs::path path = Create(3)->path();
  EXPECT_EQ(path.filename(), "events.out.tfevents.1767225600.mpsd");
  EXPECT_THAT(EventsOf(path), SizeIs(1));
}

TEST_F(EventFileTest, AFolderThatCannotBeMadeIsAnError) {
  fs::create_directories(folder_.parent_path());
  std::ofstream(folder_) << "a file";
  EXPECT_FALSE(EventFile::Create(folder_, 0, clock_).ok());
}

// As on a full disk: a write takes a part of a record, and then none.
TEST_F(EventFileTest, AfterAFullDiskTheFileIsWholeAgain) {
  auto file = Create(0);
  const auto size = static_cast<rlim_t>(fs::file_size(file->path()));
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = size + 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  for (int64_t step = 1; step <= 5000; ++step) {
    file->Add(step, {{"train/loss", 0.5}});
  }
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(fs::file_size(file->path()), size + 20);
  file->Add(5001, {{"train/loss", 0.5}});
  const auto events = EventsOf(file->path());
  // What waited comes first; steps beyond what may wait are left out.
  EXPECT_EQ(events[1], ScalarsEvent(clock_.Now(), 1, {{"train/loss", 0.5}}));
  EXPECT_GT(events.size(), 500u);
  EXPECT_LT(events.size(), 5000u);
  file->Add(5002, {{"train/loss", 0.25}});
  EXPECT_EQ(EventsOf(file->path()).back(),
            ScalarsEvent(clock_.Now(), 5002, {{"train/loss", 0.25}}));
}

}  // namespace
}  // namespace mpsd::tensorboard
