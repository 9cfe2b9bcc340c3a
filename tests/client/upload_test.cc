// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdint>

#include "absl/time/clock.h"
#include "client/submit.h"
#include "tests/client/client_fixture.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::client {
namespace {

class UploadTest : public ClientTest {
 protected:
  LocalFile File(const std::string& name, const std::string& bytes) {
    return {name, Write(name, bytes), base::Sha256Hex(bytes),
            static_cast<int64_t>(bytes.size())};
  }
  static std::string Large() { return std::string(3'000'000, 'x'); }
  grpc::Status Send(const std::vector<LocalFile>& files) {
    Connection connection({"unix:" + socket_.string(), socket_.string()});
    return Upload({out_, out_, terminal_, connection, false}, files);
  }

  std::ostringstream out_;
};

TEST_F(UploadTest, WhatIsMissing) {
  const LocalFile there = File("a", "there");
  const LocalFile missing = File("b", "missing");
  data().blobs[there.sha256] = "there";
  ASSERT_TRUE(Send({there, missing}).ok());
  EXPECT_EQ(data().uploads, 1);
  EXPECT_EQ(data().blobs[missing.sha256], "missing");
  ASSERT_TRUE(Send({there, missing}).ok());
  EXPECT_EQ(data().uploads, 1) << "nothing is sent twice";
  ASSERT_TRUE(Send({File("a", "same"), File("b", "same")}).ok());
  EXPECT_EQ(data().uploads, 2);
}

TEST_F(UploadTest, MoreFilesThanOneQuestionMayHold) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 1500; ++i) {
    const std::string bytes = std::to_string(i);
    files.push_back({bytes, socket_, base::Sha256Hex(bytes), 1});
    data().blobs[files.back().sha256] = bytes;
  }
  EXPECT_TRUE(Send(files).ok());
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(UploadTest, ContinuesWithWhatTheDaemonKept) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = bytes.substr(0, 2'000'000);
  terminal_.is_tty = true;
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_EQ(data().blobs[file.sha256], bytes);
  EXPECT_THAT(data().offsets, ElementsAre(2'000'000));
  // The bar counts what is there, and ends at the whole.
  EXPECT_NE(out_.str().find("2.4 MiB/2.9 MiB"), std::string::npos)
      << out_.str();
  EXPECT_NE(out_.str().find("2.9 MiB/2.9 MiB"), std::string::npos);
}

TEST_F(UploadTest, ABrokenConnectionIsMadeAgain) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().break_offs = {600'000, 600'000, 600'000};
  const grpc::Status sent = Send({file});
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().blobs[file.sha256], bytes);
  ASSERT_EQ(data().offsets.size(), 4u);
  EXPECT_EQ(data().offsets[0], 0);
  EXPECT_GE(data().offsets[1], 600'000);
  EXPECT_GT(data().offsets[3], data().offsets[2]);
  EXPECT_NE(out_.str().find("lost the connection"), std::string::npos);
}

TEST_F(UploadTest, OneThatBringsNothingEnds) {
  Fail("Upload", StatusCode::UNAVAILABLE, "Socket closed");
  EXPECT_EQ(Send({File("large", Large())}).error_code(),
            StatusCode::UNAVAILABLE);
  EXPECT_GT(sleeps_, 100) << "ten minutes of two seconds";
  EXPECT_LT(sleeps_, 400);
}

TEST_F(UploadTest, AWrongPartIsSentAnew) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = std::string(1'000'000, '?');
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_THAT(data().offsets, ElementsAre(1'000'000, 0));
  EXPECT_EQ(data().blobs[file.sha256], bytes);
}

TEST_F(UploadTest, APartThatIsLongerThanTheFileIsNotContinued) {
  const std::string bytes = Large();
  const LocalFile file = File("large", bytes);
  data().parts[file.sha256] = bytes + "more";
  ASSERT_TRUE(Send({file}).ok());
  EXPECT_THAT(data().offsets, ElementsAre(0));
}

TEST_F(UploadTest, AnotherOffsetIsAskedForAgain) {
  const LocalFile file = File("large", Large());
  Fail("Upload", StatusCode::OUT_OF_RANGE, "ask FindBlobs again");
  EXPECT_EQ(Send({file}).error_code(), StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(sleeps_, 0);
}

// The daemon finds out; mpsctl does not hash twice.
TEST_F(UploadTest, AWrongHashSaysWhatToDo) {
  LocalFile file = File("large", Large());
  Write("large", std::string(Large().size(), 'y'));
  const grpc::Status status = Send({file});
  EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("--rehash"));
  EXPECT_EQ(data().offsets.size(), 1u);
  file = File("small", "before");
  Write("small", "after!");
  EXPECT_EQ(Send({file}).error_code(), StatusCode::INVALID_ARGUMENT);
}

TEST_F(UploadTest, AFileThatIsCutShortMeanwhile) {
  LocalFile large = File("large", Large()), small = File("small", "12345");
  Write("large", "short");
  Write("small", "1");
  EXPECT_THAT(Send({large}).error_message(),
              HasSubstr("large changed while it was sent"));
  EXPECT_THAT(Send({small}).error_message(),
              HasSubstr("small changed while it was sent"));
  Write("small", "123456");
  EXPECT_THAT(Send({small}).error_message(),
              HasSubstr("small changed while it was sent"));
  fs::remove(small.local);
  EXPECT_THAT(Send({small}).error_message(), HasSubstr("small"));
  EXPECT_TRUE(data().blobs.empty());
}

TEST_F(UploadTest, NoFilesNoCall) {
  daemon_->Stop();
  EXPECT_TRUE(Send({}).ok());
}

TEST_F(UploadTest, TheDaemonsErrorComesBack) {
  data().fail["Upload"] = data().fail["UploadBatch"] =
      grpc::Status(StatusCode::RESOURCE_EXHAUSTED, "disk full");
  EXPECT_EQ(Send({File("a", "x")}).error_message(), "disk full");
  EXPECT_EQ(Send({File("b", std::string(2 << 20, 'x'))}).error_message(),
            "disk full");
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(UploadTest, SmallFilesTogetherAndLargeOnesAlone) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 2500; ++i) {
    files.push_back(File("small/" + std::to_string(i), std::to_string(i)));
  }
  files.push_back(File("empty", ""));
  files.push_back(File("limit", std::string(1 << 20, 'l')));
  files.push_back(File("large", std::string((1 << 20) + 1, 'l')));
  const grpc::Status sent = Send(files);
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().batches, 1);
  EXPECT_EQ(data().uploads, 2503);
  for (const LocalFile& file : files) {
    EXPECT_EQ(data().blobs[file.sha256], Read(file.local)) << file.path;
  }
}

TEST_F(UploadTest, ManyParcelsOverManyStreams) {
  std::vector<LocalFile> files;
  for (int i = 0; i < 100; ++i) {
    files.push_back(File(std::to_string(i),
                         std::string(1'000'000, 'a') + std::to_string(i)));
  }
  const grpc::Status sent = Send(files);
  ASSERT_TRUE(sent.ok()) << sent.error_message();
  EXPECT_EQ(data().batches, 4);
  EXPECT_EQ(data().uploads, 100);
}

TEST_F(UploadTest, ABusyDaemonIsWaitedFor) {
  Fail("UploadBatch", StatusCode::UNAVAILABLE, "64 such transfers: try again");
  terminal_.sleep = [this](absl::Duration) {
    daemon_->Sync();
    if (++sleeps_ == 3) data().fail.clear();
  };
  EXPECT_TRUE(Send({File("a", "x")}).ok());
  EXPECT_EQ(sleeps_, 3);
  EXPECT_EQ(data().uploads, 1);
  Fail("UploadBatch", StatusCode::UNAVAILABLE, "64 such transfers: try again");
  EXPECT_EQ(Send({File("b", "y")}).error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(sleeps_, 9) << "six more";
}

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
                fs::file_size(file.local));
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

TEST_F(HashFilesTest, TheTimeOfModificationAloneIsNotTrusted) {
  const std::string path = Write("a", "one");
  const auto time = fs::last_write_time(path);
  Hash({path});
  Write("a", "two");
  fs::last_write_time(path, time);
  EXPECT_EQ(Hash({path})[0], base::Sha256Hex("two"));
}

TEST_F(HashFilesTest, OnePathManySpellings) {
  Hash({Write("folder/a", "one")});
  Hash({(folder_ / "folder/../folder/./a").string()});
  EXPECT_EQ(total_, 0);
}

TEST_F(HashFilesTest, WithoutACacheFilesAreReadAllTheSame) {
  const std::string path = Write("a", "one");
  for (const fs::path& cache : {fs::path(), fs::path("/proc/none/hashes")}) {
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
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent"));
  files = {{"", folder_, "", 0}};
  EXPECT_FALSE(HashFiles(files, options_).ok());
}

const std::string kHash = base::Sha256Hex("x");

FileMark Mark(int64_t age_ms) {
  const int64_t then = absl::ToUnixNanos(kNow - absl::Milliseconds(age_ms));
  return {1, 2, 3, then, then};
}

class HashCacheTest : public testing::Test {
 protected:
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
  std::string Text() const { return *base::ReadFile(file_); }
  void Write(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
  }

  const fs::path folder_ = FreshFolder("hashes");
  const fs::path file_ = folder_ / "cache/mpsctl/hashes";
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
  for (const char* line : {"nonsense\n", "\n", "/a\n", "0 1 2 3 4 5 6 /a\n"}) {
    Write(std::string("mpsctl hashes 1\n") + line + "all " +
          base::Sha256Hex(line) + "\n");
    EXPECT_FALSE(Has("/a"));
  }
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

TEST_F(HashCacheTest, WhatKilledProcessesLeftGoes) {
  Fill({"/a"});
  const fs::path left = file_.parent_path() / ".hashes.1.2.tmp";
  std::ofstream(left) << "half";
  Fill({"/b"});
  EXPECT_FALSE(fs::exists(left));
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
