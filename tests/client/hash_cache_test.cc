// SPDX-License-Identifier: Apache-2.0
#include "client/hash_cache.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/sha256.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

const absl::Time kNow = absl::FromUnixSeconds(1767323045);
const std::string kHash = base::Sha256Hex("x");

FileMark Mark(int64_t age_ms) {
  const int64_t then = absl::ToUnixNanos(kNow - absl::Milliseconds(age_ms));
  return {1, 2, 3, then, then};
}

class HashCacheTest : public testing::Test {
 protected:
  HashCacheTest() {
    std::string name = testing::TempDir() + "mpsctlXXXXXX";
    folder_ = mkdtemp(name.data());
    file_ = folder_ / "cache/mpsctl/hashes";
  }
  ~HashCacheTest() override { fs::remove_all(folder_); }

  void Fill(const std::vector<std::string>& paths,
            HashCache::Bounds bounds = {}) {
    HashCache cache = HashCache::Load(file_, bounds);
    for (size_t i = 0; i < paths.size(); ++i) {
      cache.Keep(paths[i], Mark(5000), kHash, kNow + absl::Seconds(i));
    }
    const absl::Status saved = cache.Save();
    EXPECT_TRUE(saved.ok()) << saved;
  }
  bool Has(const std::string& path) {
    return HashCache::Load(file_).Find(path, Mark(5000), kNow) == kHash;
  }
  std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(file_, std::ios::binary).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
  }

  fs::path folder_, file_;
};

TEST_F(HashCacheTest, WhatWasKeptIsFound) {
  const std::vector<std::string> paths = {
      "/plain",         "/two words  ", "/line\nbreak",
      "/\xff no UTF-8", "/über",        "/" + std::string(4000, 'l')};
  Fill(paths);
  for (const std::string& path : paths) EXPECT_TRUE(Has(path)) << path;
  EXPECT_FALSE(Has("/other"));
}

TEST_F(HashCacheTest, AnyOtherMarkIsAnotherFile) {
  Fill({"/a"});
  HashCache cache = HashCache::Load(file_);
  const FileMark same = Mark(5000);
  EXPECT_EQ(cache.Find("/a", same, kNow), kHash);
  for (int member = 0; member < 5; ++member) {
    FileMark other = same;
    if (member == 0) ++other.device;
    if (member == 1) ++other.inode;
    if (member == 2) ++other.size_bytes;
    if (member == 3) --other.modified_ns;
    if (member == 4) ++other.changed_ns;
    EXPECT_FALSE(cache.Find("/a", other, kNow).has_value()) << member;
  }
}

TEST_F(HashCacheTest, AMarkThatIsYoungOrOfTheFutureIsNotSettled) {
  EXPECT_FALSE(IsSettled(Mark(0), kNow));
  EXPECT_FALSE(IsSettled(Mark(1999), kNow));
  EXPECT_TRUE(IsSettled(Mark(2001), kNow));
  EXPECT_FALSE(IsSettled(Mark(-3'600'000), kNow)) << "a clock that went back";
  FileMark set_back = Mark(3'600'000);
  set_back.changed_ns = Mark(0).changed_ns;
  EXPECT_FALSE(IsSettled(set_back, kNow)) << "touch -d, just now";
}

TEST_F(HashCacheTest, OnlyItsOwnerReadsIt) {
  Fill({"/a"});
  struct stat info;
  ASSERT_EQ(stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(file_.parent_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  chmod(file_.c_str(), 0666);
  EXPECT_FALSE(Has("/a")) << "others might have written it";
}

TEST_F(HashCacheTest, ABrokenCacheIsNone) {
  Fill({"/a"});
  const std::string whole = Text();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] ^= 1;
    Write(broken);
    EXPECT_FALSE(Has("/a")) << "byte " << at;
    Write(whole.substr(0, at));
    EXPECT_FALSE(Has("/a")) << "cut at " << at;
  }
  Write(whole);
  EXPECT_TRUE(Has("/a"));
  Write("");
  Fill({"/c"});
  EXPECT_TRUE(Has("/c")) << "it is made anew";
}

TEST_F(HashCacheTest, ALineThatIsNoneBreaksIt) {
  Fill({"/a"});
  for (const char* line : {"nonsense\n", "\n", "/a\n", "0 1 2 3 4 5 6 /a\n"}) {
    Write(std::string("mpsctl hashes 1\n") + line + "all " +
          base::Sha256Hex(line) + "\n");
    EXPECT_FALSE(Has("/a"));
  }
}

TEST_F(HashCacheTest, ALinkIsNoCache) {
  Fill({"/a"});
  const fs::path other = folder_ / "other";
  fs::rename(file_, other);
  fs::create_symlink(other, file_);
  EXPECT_FALSE(Has("/a"));
  Fill({"/b"});
  EXPECT_TRUE(Has("/b"));
  EXPECT_FALSE(fs::is_symlink(file_));
  EXPECT_NE(Text(), "") << "the link is replaced, what it led to stays";
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(HashCacheTest, BeyondTheBoundsTheOldestGo) {
  HashCache::Bounds bounds;
  bounds.entries = 2;
  Fill({"/oldest", "/old", "/new"}, bounds);
  EXPECT_FALSE(Has("/oldest"));
  EXPECT_TRUE(Has("/old"));
  EXPECT_TRUE(Has("/new"));
  bounds.bytes = 350;
  Fill({"/old", "/old", "/new", "/newest"}, bounds);
  EXPECT_LE(Text().size(), 350u);
  EXPECT_TRUE(Has("/newest"));
  EXPECT_FALSE(Has("/new"));
  bounds.bytes = static_cast<int64_t>(Text().size()) - 1;
  EXPECT_FALSE(HashCache::Load(file_, bounds)
                   .Find("/newest", Mark(5000), kNow)
                   .has_value())
      << "a longer file is not read";
}

TEST_F(HashCacheTest, WithoutAnythingNewItIsNotWritten) {
  Fill({"/a"});
  fs::permissions(file_.parent_path(), fs::perms::owner_all);
  const fs::file_time_type before = fs::last_write_time(file_);
  HashCache cache = HashCache::Load(file_);
  EXPECT_TRUE(cache.Find("/a", Mark(5000), kNow).has_value());
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_EQ(fs::last_write_time(file_), before);
  // A use after a day counts.
  cache.Find("/a", Mark(5000), kNow + absl::Hours(25));
  const std::string old = Text();
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_NE(Text(), old);
}

TEST_F(HashCacheTest, WhatKilledProcessesLeftGoes) {
  Fill({"/a"});
  const fs::path left = file_.parent_path() / ".hashes.1.2.tmp";
  std::ofstream(left) << "half";
  Fill({"/b"});
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(HashCacheTest, WithoutAPlaceNothingIsKept) {
  HashCache cache = HashCache::Load("");
  cache.Keep("/a", Mark(5000), kHash, kNow);
  EXPECT_TRUE(cache.Save().ok());
  EXPECT_FALSE(cache.Find("/a", Mark(5000), kNow).has_value());
}

TEST(HashCachePath, IsBelowTheUsersCaches) {
  setenv("HOME", "/srv/ann", 1);
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(HashCachePath(), "/srv/ann/.cache/mpsctl/hashes");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(HashCachePath(), "/caches/mpsctl/hashes");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(HashCachePath(), "/srv/ann/.cache/mpsctl/hashes");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "", 1);
  EXPECT_EQ(HashCachePath(), "");
}

}  // namespace
}  // namespace mpsd::client
