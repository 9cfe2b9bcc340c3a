// SPDX-License-Identifier: Apache-2.0
// A daemon killed in the middle of its writes loses nothing that it answered.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "server/store/blob_store.h"
#include "server/store/token_store.h"
#include "tests/server/store/scratch.h"

extern char** environ;

namespace mpsd::store {
namespace {

constexpr char kFolderVariable[] = "MPSD_CRASH_TEST_FOLDER";

std::string BlobOf(int number) { return absl::StrCat("blob ", number); }

access::Token TokenOf(int number) {
  access::Token token;
  token.sha256 = base::Sha256Hex(absl::StrCat("token ", number));
  token.user = "ann";
  return token;
}

// Writes jobs until it is killed. Prints a job's number once it is stored with
// a state change, a progress event, a checkpoint, a blob and a token.
[[noreturn]] void WriteForever(const std::filesystem::path& folder) {
  std::unique_ptr<Database> database = OpenOrDie(folder / "mpsd.db");
  jobs::JobStore store(*database);
  auto blobs = BlobStore::Open(*database, folder / "blobs");
  int number = static_cast<int>(*store.CountListed({}));
  while (true) {
    jobs::Job job = jobs::QueuedJob(++number);
    bool ok = store.Insert(job, jobs::StateEvent(job, 1)).ok();
    job.state = jobs::State::kRunning;
    ok = ok && store.Update(job, {jobs::StateEvent(job, 2)}).ok();
    ok = ok && store.Update(job, {jobs::ProgressEvent(job, 3)}).ok();
    ok = ok && store.AddCheckpoint(job.id, {{3, "/c/3", 1, 1}, {}}).ok();
    const std::string bytes = BlobOf(number);
    auto writer = (*blobs)->Begin(base::Sha256Hex(bytes), bytes.size());
    ok = ok && writer.ok() && (*writer)->Append(bytes).ok() &&
         (*writer)->Commit().ok();
    ok = ok && access::Tokens(*database).Insert(TokenOf(number)).ok();
    const std::string line = absl::StrCat(ok ? number : -1, "\n");
    if (write(STDOUT_FILENO, line.data(), line.size()) < 0) abort();
  }
}

// The child: the same program, running this test alone.
TEST(CrashChild, DISABLED_WritesUntilKilled) {
  const char* folder = getenv(kFolderVariable);
  ASSERT_NE(folder, nullptr);
  WriteForever(folder);
}

pid_t SpawnChild(const std::filesystem::path& folder, int output) {
  std::string program = testing::internal::GetArgvs()[0];
  std::string filter = "--gtest_filter=CrashChild.*";
  std::string disabled = "--gtest_also_run_disabled_tests";
  std::string quiet = "--gtest_brief=1";
  char* argv[] = {program.data(), filter.data(), disabled.data(), quiet.data(),
                  nullptr};
  setenv(kFolderVariable, folder.c_str(), 1);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  pid_t pid = -1;
  EXPECT_EQ(
      posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

// Lets the child write until it has answered `count` times, kills it, and
// returns the numbers it had answered by then.
std::vector<int> RunAndKill(const std::filesystem::path& folder, int count) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  const pid_t pid = SpawnChild(folder, ends[1]);
  close(ends[1]);
  FILE* lines = fdopen(ends[0], "r");
  std::vector<int> answered;
  char line[256];
  while (fgets(line, sizeof(line), lines) != nullptr) {
    int number = 0;
    if (sscanf(line, "%d", &number) != 1) continue;  // GoogleTest's own words
    answered.push_back(number);
    if (static_cast<int>(answered.size()) == count) kill(pid, SIGKILL);
  }
  fclose(lines);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself";
  return answered;
}

void ExpectWhole(const std::filesystem::path& folder,
                 const std::vector<int>& answered) {
  std::unique_ptr<Database> database = OpenOrDie(folder / "mpsd.db");
  {
    absl::MutexLock lock(&database->writer().mutex());
    Query check(database->writer(), "PRAGMA integrity_check");
    ASSERT_TRUE(check.Next());
    EXPECT_EQ(check.Text(), "ok");
    Query orphans(database->writer(), "PRAGMA foreign_key_check");
    EXPECT_FALSE(orphans.Next());
  }
  jobs::JobStore store(*database);
  auto blobs = BlobStore::Open(*database, folder / "blobs");
  ASSERT_TRUE(blobs.ok()) << blobs.status();
  auto tokens = access::Tokens(*database).All();
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  for (int number : answered) {
    ASSERT_GT(number, 0) << "the child met an error";
    const std::string id = jobs::QueuedJob(number).id;
    auto job = store.Get(id);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->state, jobs::State::kRunning);
    EXPECT_EQ(store.Events(id, 0, 10)->size(), 3u);
    EXPECT_EQ(store.Checkpoints(id)->size(), 1u);
    EXPECT_TRUE((*blobs)->Has(base::Sha256Hex(BlobOf(number))));
    EXPECT_THAT(*tokens, testing::Contains(TokenOf(number)));
  }
}

TEST(Crash, NothingThatWasAnsweredIsLost) {
  Scratch scratch;
  std::mt19937 random(7);
  std::vector<int> answered;
  for (int round = 0; round < 6; ++round) {
    const std::vector<int> more =
        RunAndKill(scratch.path(), 1 + static_cast<int>(random() % 25));
    ASSERT_FALSE(more.empty());
    answered.insert(answered.end(), more.begin(), more.end());
    ExpectWhole(scratch.path(), answered);
  }
}

}  // namespace
}  // namespace mpsd::store
