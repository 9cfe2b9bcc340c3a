// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/time/clock.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::base {
namespace {

size_t EntriesIn(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder),
                       fs::directory_iterator());
}

class FileTest : public testing::Test {
 protected:
  void Write(const fs::path& path, const std::string& text) {
    std::ofstream(path) << text;
  }
  const fs::path dir_ = FreshFolder("file_test");
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string bytes("a\0b\n", 4);
  ASSERT_TRUE(WriteFileAtomic(dir_ / "f", bytes).ok());
  EXPECT_EQ(*ReadFile(dir_ / "f"), bytes);
  EXPECT_EQ((*MappedFile::Open(dir_ / "f"))->bytes(), bytes);
  Write(dir_ / "f", "");
  auto file = MappedFile::Open(dir_ / "f").value();
  EXPECT_EQ(file->bytes().size(), 0u);
}

TEST_F(FileTest, MissingFilesAreNotFoundAndNamed) {
  for (const absl::Status& status :
       {ReadFile(dir_ / "none").status(),
        MappedFile::Open(dir_ / "none").status()}) {
    EXPECT_THAT(status, Fails(absl::StatusCode::kNotFound, "none"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(MappedFile::Open(dir_).status()));
  EXPECT_TRUE(absl::IsNotFound(WriteFileAtomic(dir_ / "no" / "f", "x")));
  EXPECT_TRUE(SyncTree(dir_).ok());
  EXPECT_FALSE(SyncTree(dir_ / "none").ok());
}

TEST_F(FileTest, AFailedReplaceLeavesTheOldFileAndNoLitter) {
  ASSERT_TRUE(WriteFileAtomic(dir_ / "f", "old").ok());
  fs::create_directory(dir_ / "folder");
  Write(dir_ / "folder" / "kept", "1");
  // A folder cannot be replaced by a file.
  EXPECT_FALSE(WriteFileAtomic(dir_ / "folder", "new").ok());
  EXPECT_EQ(*ReadFile(dir_ / "folder" / "kept"), "1");
  EXPECT_EQ(EntriesIn(dir_), 2u);
}

TEST_F(FileTest, AStagedFolderIsInvisibleUntilCommitted) {
  {
    auto staged = StagedFolder::Create(dir_ / "out").value();
    Write(staged.staging() / "f", "1");
    EXPECT_FALSE(fs::exists(dir_ / "out"));
  }
  EXPECT_EQ(EntriesIn(dir_), 0u) << "an uncommitted stage must vanish";
  auto staged = StagedFolder::Create(dir_ / "out").value();
  Write(staged.staging() / "f", "2");
  ASSERT_TRUE(staged.Commit().ok());
  EXPECT_EQ(*ReadFile(dir_ / "out" / "f"), "2");
  EXPECT_EQ(EntriesIn(dir_), 1u);
}

TEST_F(FileTest, ACommitReplacesTheFolderThatWasThere) {
  fs::create_directory(dir_ / "out");
  Write(dir_ / "out" / "old", "1");
  auto staged = StagedFolder::Create(dir_ / "out").value();
  Write(staged.staging() / "new", "2");
  ASSERT_TRUE(staged.Commit().ok());
  EXPECT_FALSE(fs::exists(dir_ / "out" / "old"));
  EXPECT_EQ(*ReadFile(dir_ / "out" / "new"), "2");
  EXPECT_EQ(EntriesIn(dir_), 1u);
}

TEST(ErrnoStatusTest, MapsCodes) {
  EXPECT_TRUE(absl::IsNotFound(ErrnoStatus(ENOENT, "x")));
  EXPECT_TRUE(absl::IsPermissionDenied(ErrnoStatus(EACCES, "x")));
  EXPECT_TRUE(absl::IsResourceExhausted(ErrnoStatus(ENOSPC, "x")));
  EXPECT_TRUE(absl::IsUnavailable(ErrnoStatus(EPIPE, "x")));
  EXPECT_EQ(ErrnoStatus(EIO, "disk").message(), "disk: Input/output error");
}

TEST(AtomicFileTest, AppearsWholeWithCommit) {
  const fs::path folder = FreshFolder("atomic");
  auto file = AtomicFile::Create(folder / "f").value();
  ASSERT_TRUE(file->Append("one, ").ok());
  ASSERT_TRUE(file->Append("").ok());
  ASSERT_TRUE(file->Append("two").ok());
  EXPECT_FALSE(fs::exists(folder / "f"));
  ASSERT_TRUE(file->Commit().ok());
  EXPECT_EQ(*ReadFile(folder / "f"), "one, two");
  file.reset();
  EXPECT_EQ(EntriesIn(folder), 1u);
}

TEST(AtomicFileTest, UncommittedLeavesWhatWasThereAndNothingElse) {
  const fs::path folder = FreshFolder("uncommitted");
  ASSERT_TRUE(WriteFileAtomic(folder / "f", "old").ok());
  {
    auto file = AtomicFile::Create(folder / "f");
    ASSERT_TRUE((*file)->Append("new").ok());
    EXPECT_EQ(EntriesIn(folder), 2u);
  }
  EXPECT_EQ(*ReadFile(folder / "f"), "old");
  EXPECT_EQ(EntriesIn(folder), 1u);
}

TEST(AtomicFileTest, FilesOfAKilledProcessAreRecognized) {
  const fs::path folder = FreshFolder("killed");
  auto file = AtomicFile::Create(folder / "f.tokens");
  const fs::path left = fs::directory_iterator(folder)->path();
  EXPECT_TRUE(IsUnfinished(left)) << left;
  EXPECT_FALSE(IsUnfinished(folder / "f.tokens"));
  EXPECT_FALSE(IsUnfinished(folder / ".hidden"));
  EXPECT_FALSE(IsUnfinished(folder / "f.tmp"));
  EXPECT_NE(TemporaryBeside(folder / "f"), TemporaryBeside(folder / "f"));
  EXPECT_TRUE(absl::IsNotFound(
      AtomicFile::Create(FreshFolder("none") / "no" / "f").status()));
}

class SmallFileTest : public testing::Test {
 protected:
  void ExpectRefused(const fs::path& path, const std::string& why) {
    const absl::Status status = ReadSmallFile(path, 8).status();
    EXPECT_THAT(status, Fails(absl::StatusCode::kInvalidArgument, why));
    EXPECT_THAT(status, Says(path.string()));
  }
  const fs::path dir_ = FreshFolder("small_file_test");
};

TEST_F(SmallFileTest, AtTheLimitAndOnePastIt) {
  std::ofstream(dir_ / "eight") << "12345678";
  EXPECT_EQ(*ReadSmallFile(dir_ / "eight", 8), "12345678");
  std::ofstream(dir_ / "nine") << "123456789";
  ExpectRefused(dir_ / "nine", "longer than 8 bytes");
  std::ofstream(dir_ / "empty");
  EXPECT_EQ(*ReadSmallFile(dir_ / "empty", 8), "");
  std::ofstream(dir_ / "sparse") << "{";
  fs::resize_file(dir_ / "sparse", uintmax_t{1} << 40);
  ExpectRefused(dir_ / "sparse", "longer than 8 bytes");
}

TEST_F(SmallFileTest, PipesFoldersAndDevicesDoNotBlock) {
  ASSERT_EQ(mkfifo((dir_ / "pipe").c_str(), 0600), 0);
  ExpectRefused(dir_ / "pipe", "not a regular file");
  fs::create_symlink(dir_ / "pipe", dir_ / "link");
  ExpectRefused(dir_ / "link", "not a regular file");
  ExpectRefused("/dev/zero", "not a regular file");
  ExpectRefused(dir_, "not a regular file");
  EXPECT_TRUE(absl::IsNotFound(ReadSmallFile(dir_ / "none", 8).status()));
}

#ifdef __linux__
// It says that it is empty, and is not.
TEST_F(SmallFileTest, AFileThatIsLongerThanItSaysIsCounted) {
  ExpectRefused("/proc/self/status", "longer than 8 bytes");
}
#endif

TEST_F(SmallFileTest, LiesWithinWhatIsGiven) {
  fs::create_directories(dir_ / "in");
  std::ofstream(dir_ / "in/file") << "x";
  std::ofstream(dir_ / "secret") << "y";
  fs::create_symlink("../secret", dir_ / "in/link");
  const ReadRoots within({dir_ / "in"});
  EXPECT_EQ(*ReadSmallFile(dir_ / "in/file", 8, &within), "x");
  for (const char* path : {"secret", "in/link", "in/../secret"}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(
        ReadSmallFile(dir_ / path, 8, &within).status()))
        << path;
  }
}

class SecretFileTest : public testing::Test {
 protected:
  absl::StatusOr<std::string> Read(mode_t mode) const {
    chmod(path_.c_str(), mode);
    return ReadSecretFile(path_, 16);
  }
  void SetUp() override { std::ofstream(path_) << "hidden"; }

  const fs::path path_ = FreshFolder("secret") / "file";
};

TEST_F(SecretFileTest, IsForItsOwnerAndGroupAlone) {
  for (mode_t mode : {0600, 0400, 0640, 0440, 0700}) {
    EXPECT_EQ(*Read(mode), "hidden");
  }
  for (mode_t mode : {0644, 0604, 0602, 0601, 0620, 0660, 0777}) {
    const absl::Status status = Read(mode).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << mode;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("chmod 600 " + path_.string()));
    EXPECT_THAT(message, Not(HasSubstr("hidden")));
  }
}

TEST_F(SecretFileTest, MayBeALinkButNoPipe) {
  chmod(path_.c_str(), 0600);
  const fs::path link = path_.parent_path() / "link";
  fs::create_symlink(path_, link);
  EXPECT_TRUE(ReadSecretFile(link, 16).ok());
  const fs::path pipe = path_.parent_path() / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecretFile(pipe, 16).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSecretFile(path_, 5).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadSecretFile("/nowhere", 16).status()));
}

// in/a.txt is inside, out/secret.txt is not.
class ReadRootsTest : public testing::Test {
 protected:
  ReadRootsTest() {
    fs::create_directories(folder_ / "in" / "deep");
    fs::create_directories(folder_ / "out");
    std::ofstream(folder_ / "in" / "a.txt") << "inside";
    std::ofstream(folder_ / "out" / "secret.txt") << "secret";
  }

  // The file's text, or the error's.
  static std::string Read(const ReadRoots& roots, const fs::path& path) {
    const auto fd = roots.Open(path);
    if (!fd.ok()) return std::string(fd.status().message());
    char text[64] = {};
    EXPECT_GE(read(*fd, text, sizeof text - 1), 0);
    close(*fd);
    return text;
  }
  std::string Outside(const fs::path& path) const {
    return path.string() +
           ": is outside the folders that jobs may read (model-root and "
           "data-root of mpsd); push the model or upload the data instead";
  }

  const fs::path folder_ = FreshFolder("read_roots");
};

TEST_F(ReadRootsTest, OpensWhatLiesBeneath) {
  const ReadRoots roots({folder_ / "in"});
  EXPECT_EQ(Read(roots, folder_ / "in/a.txt"), "inside");
  EXPECT_EQ(Read(roots, folder_ / "in/deep/../a.txt"), "inside");
  EXPECT_TRUE(roots.Contain(folder_ / "in"));
  EXPECT_TRUE(roots.Contain(folder_ / "in/deep"));
  EXPECT_TRUE(roots.Contain(folder_ / "in/none/yet"));
  EXPECT_TRUE(absl::IsNotFound(roots.Open(folder_ / "in/none").status()));
}

TEST_F(ReadRootsTest, APathOutsideFailsWithTheSameTextWhetherItExistsOrNot) {
  const ReadRoots roots({folder_ / "in"});
  for (const char* path :
       {"out/secret.txt", "out/none.txt", "out", "none", "in/../out/secret.txt",
        "in/none/../../out/secret.txt", "inside.txt", ""}) {
    const fs::path outside = folder_ / path;
    EXPECT_EQ(Read(roots, outside), Outside(outside));
    EXPECT_FALSE(roots.Contain(outside)) << outside;
  }
  EXPECT_FALSE(roots.Contain("/"));
  EXPECT_FALSE(roots.Contain(""));
  const fs::path cut = (folder_ / "in/a.txt").string() + std::string("\0x", 2);
  EXPECT_FALSE(roots.Contain(cut));
  EXPECT_FALSE(roots.Open(cut).ok());
}

TEST_F(ReadRootsTest, LinksCountByWhereTheyLead) {
  fs::create_symlink(folder_ / "out/secret.txt", folder_ / "in/file");
  fs::create_symlink("../out", folder_ / "in/folder");
  fs::create_symlink(folder_ / "out/none", folder_ / "in/dangling");
  fs::create_symlink("a.txt", folder_ / "in/here");
  fs::create_symlink("loop", folder_ / "in/loop");
  const ReadRoots roots({folder_ / "in"});
  for (const char* path : {"in/file", "in/folder/secret.txt",
                           "in/folder/none.txt", "in/dangling", "in/loop"}) {
    EXPECT_EQ(Read(roots, folder_ / path), Outside(folder_ / path));
  }
  EXPECT_EQ(Read(roots, folder_ / "in/here"), "inside");
  // A root may be a link, and is what it leads to.
  fs::create_symlink("in", folder_ / "root");
  EXPECT_EQ(Read(ReadRoots({folder_ / "root/"}), folder_ / "in/a.txt"),
            "inside");
  EXPECT_EQ(Read(roots, folder_ / "root/a.txt"), "inside");
  // A link to a file that is to come.
  fs::create_symlink("none", folder_ / "in/later");
  EXPECT_TRUE(absl::IsNotFound(roots.Open(folder_ / "in/later").status()));
}

TEST_F(ReadRootsTest, AClosedFolderIsReadWhereARootInItAllows) {
  fs::create_directories(folder_ / "out/mine");
  std::ofstream(folder_ / "out/mine/b.txt") << "mine";
  fs::create_symlink("../out/secret.txt", folder_ / "in/link");
  const ReadRoots roots({"/", folder_ / "out/mine"}, {folder_ / "out"});
  EXPECT_EQ(Read(roots, folder_ / "in/a.txt"), "inside");
  EXPECT_EQ(Read(roots, folder_ / "out/mine/b.txt"), "mine");
  for (const char* path : {"out", "out/secret.txt", "out/none", "in/link",
                           "out/mine/../secret.txt"}) {
    EXPECT_EQ(Read(roots, folder_ / path), Outside(folder_ / path));
  }
  EXPECT_EQ(Read(ReadRoots({folder_ / "out"}, {folder_ / "out"}),
                 folder_ / "out/secret.txt"),
            "secret");
  // By another name it is the same folder.
  fs::rename(folder_ / "out", folder_ / "renamed");
  EXPECT_FALSE(roots.Contain(folder_ / "renamed/secret.txt"));
}

TEST_F(ReadRootsTest, NoRootIsNoFile) {
  const ReadRoots none({});
  EXPECT_FALSE(none.Contain("/"));
  EXPECT_EQ(Read(none, folder_ / "in/a.txt"), Outside(folder_ / "in/a.txt"));
  const ReadRoots all({"/"});
  EXPECT_EQ(Read(all, folder_ / "out/secret.txt"), "secret");
}

TEST_F(ReadRootsTest, OpensNothingButFiles) {
  const ReadRoots roots({folder_ / "in"});
  ASSERT_EQ(mkfifo((folder_ / "in/pipe").c_str(), 0600), 0);
  // As the machine's fault it would hold every job.
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // The folder's own path may be longer than a socket's may.
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "in");
  std::strcpy(name.sun_path, "socket");
  ASSERT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&name), sizeof name),
            0);
  fs::current_path(before);
  close(socket_fd);
  for (const char* path : {"in/pipe", "in/deep", "in", "in/socket"}) {
    const auto opened = roots.Open(folder_ / path);
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
  }
}

// A folder that is now itself and now a link to the secret's.
TEST_F(ReadRootsTest, NoLinkSlipsInBetweenTheLookAndTheOpening) {
  const ReadRoots roots({folder_ / "in"});
  const fs::path swapped = folder_ / "in/swapped";
  fs::create_directories(folder_ / "in/real");
  std::ofstream(folder_ / "in/real/secret.txt") << "inside";
  fs::create_symlink(folder_ / "out", folder_ / "in/link");
  std::atomic<bool> stop{false};
  std::thread swapper([&] {
    std::error_code ignored;
    while (!stop) {
      fs::rename(folder_ / "in/real", swapped, ignored);
      fs::rename(swapped, folder_ / "in/real", ignored);
      fs::rename(folder_ / "in/link", swapped, ignored);
      fs::rename(swapped, folder_ / "in/link", ignored);
    }
  });
  int inside = 0;
  // If the machine delays the other thread, it continues until the folder
  // was there once.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  for (int i = 0; i < 20000 || (inside == 0 && absl::Now() < end); ++i) {
    const std::string text = Read(roots, swapped / "secret.txt");
    EXPECT_NE(text, "secret");
    if (text == "inside") ++inside;
  }
  stop = true;
  swapper.join();
  EXPECT_GT(inside, 0);
}

// In a process of its own: the limit stays.
TEST_F(ReadRootsTest, TheLimitHoldsForFoldersToo) {
  LimitReads(ReadRoots({folder_ / "in"}));
  EXPECT_TRUE(CheckMayRead(folder_ / "in/deep").ok());
  EXPECT_EQ(CheckMayRead(folder_ / "out").message(), Outside(folder_ / "out"));
  LimitReads(ReadRoots({"/"}));
  EXPECT_TRUE(CheckMayRead(folder_ / "out").ok());
}

TEST_F(ReadRootsTest, TheLimitHoldsForEveryReadOfTheProcess) {
  const auto attempt = [this] {
    LimitReads(ReadRoots({folder_ / "in"}));
    const bool inside = ReadFile(folder_ / "in/a.txt").ok() &&
                        MappedFile::Open(folder_ / "in/a.txt").ok();
    const fs::path secret = folder_ / "out/secret.txt";
    const bool outside = ReadFile(secret).ok() ||
                         MappedFile::Open(secret).ok() ||
                         ReadSmallFile(secret, 99).ok();
    _exit(inside && !outside ? 7 : 8);
  };
  EXPECT_EXIT(attempt(), testing::ExitedWithCode(7), "");
  EXPECT_TRUE(ReadFile(folder_ / "out/secret.txt").ok());
}

class SyncTest : public testing::Test {
 protected:
  // `count` files and their folder.
  std::vector<fs::path> Files(int count) {
    std::vector<fs::path> paths = {folder_};
    for (int i = 0; i < count; ++i) {
      paths.push_back(folder_ / std::to_string(i));
      std::ofstream(paths.back()) << i;
    }
    return paths;
  }

  const fs::path folder_ = FreshFolder("sync");
};

TEST_F(SyncTest, FlushesFilesAndFoldersFewAndMany) {
  EXPECT_TRUE(SyncAll({}).ok());
  for (int count : {0, 1, 7, 8, 100}) {
    const absl::Status synced = SyncAll(Files(count));
    EXPECT_TRUE(synced.ok()) << count << ": " << synced;
  }
  std::vector<fs::path> paths = Files(2);
  paths.push_back(folder_ / "gone");
  EXPECT_THAT(SyncAll(paths), Fails(absl::StatusCode::kNotFound, "gone"));
}

}  // namespace
}  // namespace mpsd::base
