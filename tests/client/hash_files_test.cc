// SPDX-License-Identifier: Apache-2.0
#include "client/hash_files.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "client/hash_cache.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// An hour after every file of the tests was written.
class LaterClock final : public base::Clock {
 public:
  absl::Time Now() const override { return absl::Now() + absl::Hours(1); }
  absl::Duration Monotonic() const override { return absl::ZeroDuration(); }
};

// Stands still at the moment at which a file was written.
class ClockOfFile final : public base::Clock {
 public:
  explicit ClockOfFile(const std::string& path) {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    now_ = absl::FromTimeT(info.st_mtime);
  }
  absl::Time Now() const override { return now_; }
  absl::Duration Monotonic() const override { return absl::ZeroDuration(); }

 private:
  absl::Time now_;
};

class HashFilesTest : public ClientTest {
 protected:
  HashFilesTest() {
    options_.cache = folder_ / "cache/mpsctl/hashes";
    options_.clock = &later_;
    options_.progress = [this](int64_t done, int64_t total) {
      read_ = done;
      total_ = total;
    };
  }
  // The hashes; `read_` then counts the bytes that were read.
  std::vector<std::string> Hash(const std::vector<std::string>& paths) {
    std::vector<LocalFile> files;
    for (const std::string& path : paths) files.push_back({"", path, "", 0});
    read_ = total_ = 0;
    const absl::Status hashed = HashFiles(files, options_);
    EXPECT_TRUE(hashed.ok()) << hashed;
    std::vector<std::string> hashes;
    for (const LocalFile& file : files) {
      EXPECT_EQ(static_cast<uint64_t>(file.size_bytes),
                std::filesystem::file_size(file.local));
      hashes.push_back(file.sha256);
    }
    return hashes;
  }

  LaterClock later_;
  HashOptions options_;
  int64_t read_ = 0, total_ = 0;
};

TEST_F(HashFilesTest, EachFileHasItsHash) {
  std::vector<std::string> paths, expected;
  for (int i = 0; i < 300; ++i) {
    const std::string bytes(static_cast<size_t>(i) * 797, 'a' + i % 26);
    paths.push_back(Write("f" + std::to_string(i), bytes));
    expected.push_back(base::Sha256Hex(bytes));
  }
  EXPECT_EQ(Hash(paths), expected);
  EXPECT_EQ(read_, total_);
  EXPECT_EQ(total_, int64_t{797} * 299 * 300 / 2);
}

TEST_F(HashFilesTest, WhatDidNotChangeIsNotReadAgain) {
  const std::vector<std::string> paths = {Write("a", "one"), Write("b", "two")};
  const std::vector<std::string> hashes = Hash(paths);
  EXPECT_EQ(total_, 6);
  EXPECT_EQ(Hash(paths), hashes);
  EXPECT_EQ(total_, 0);
  Write("b", "2nd");
  EXPECT_EQ(Hash(paths)[1], base::Sha256Hex("2nd"));
  EXPECT_EQ(total_, 3) << "the one that changed";
}

TEST_F(HashFilesTest, RehashReadsEverything) {
  const std::string path = Write("a", "one");
  struct stat info;
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  HashCache cache = HashCache::Load(options_.cache);
  const std::string wrong = base::Sha256Hex("wrong");
  cache.Keep(path, MarkOf(info), wrong, later_.Now());
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_EQ(Hash({path})[0], wrong) << "the cache is believed";
  options_.rehash = true;
  EXPECT_EQ(Hash({path})[0], base::Sha256Hex("one"));
  options_.rehash = false;
  EXPECT_EQ(Hash({path})[0], base::Sha256Hex("one")) << "and is right again";
  EXPECT_EQ(total_, 0);
}

// A program that changes a file at once after mpsctl read it may leave the
// size and, by the steps of the file system's time, the mark.
TEST_F(HashFilesTest, AFileThatIsYoungIsReadAgain) {
  const std::string path = Write("a", "one");
  const ClockOfFile clock(path);
  options_.clock = &clock;
  Hash({path});
  Hash({path});
  EXPECT_EQ(total_, 3);
  options_.clock = &later_;
  Hash({path});
  Hash({path});
  EXPECT_EQ(total_, 0) << "an hour later it is known";
}

TEST_F(HashFilesTest, TheTimeOfModificationAloneDeceivesNobody) {
  const std::string path = Write("a", "one");
  const auto time = std::filesystem::last_write_time(path);
  Hash({path});
  Write("a", "two");
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(Hash({path})[0], base::Sha256Hex("two"));
}

TEST_F(HashFilesTest, OnePathManySpellings) {
  const std::string path = Write("folder/a", "one");
  Hash({path});
  Hash({(folder_ / "folder/../folder/./a").string()});
  EXPECT_EQ(total_, 0);
}

TEST_F(HashFilesTest, WithoutACacheFilesAreReadAllTheSame) {
  const std::string path = Write("a", "one");
  for (const std::filesystem::path& cache :
       {std::filesystem::path(), std::filesystem::path("/proc/none/hashes")}) {
    options_.cache = cache;
    EXPECT_EQ(Hash({path})[0], base::Sha256Hex("one"));
    EXPECT_EQ(Hash({path})[0], base::Sha256Hex("one"));
    EXPECT_EQ(total_, 3);
  }
}

TEST_F(HashFilesTest, TheFirstThatCannotBeReadIsNamed) {
  std::vector<LocalFile> files;
  for (const char* name : {"a", "absent", "b", "gone"}) {
    const std::string path = (folder_ / name).string();
    if (name[1] == '\0') Write(name, "x");
    files.push_back({"", path, "", 0});
  }
  const absl::Status status = HashFiles(files, options_);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("absent"));
}

TEST_F(HashFilesTest, AFolderIsNoFile) {
  std::vector<LocalFile> files = {{"", folder_, "", 0}};
  EXPECT_FALSE(HashFiles(files, options_).ok());
}

TEST_F(HashFilesTest, VerbsShowABarOnATerminal) {
  terminal_.is_tty = true;
  Connection connection({"unix:" + socket_.string(), socket_.string()});
  std::ostringstream out;
  const Console console{out, out, terminal_, connection, false};
  const HashOptions options = Hashing(console, true);
  EXPECT_TRUE(options.rehash);
  EXPECT_EQ(options.cache, folder_ / ".cache/mpsctl/hashes");
  options.progress(1, 2);
  EXPECT_NE(out.str().find("reading  1 B/2 B"), std::string::npos);
  out.str("");
  options.progress(2, 2);
  EXPECT_EQ(out.str(), "\r\x1b[K");
}

}  // namespace
}  // namespace mpsd::client
