// SPDX-License-Identifier: Apache-2.0
#include "server/models/pushed_models.h"

#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/server/models/disk_blobs.h"
#include "tests/server/models/hub_cache.h"

namespace mpsd::models {
namespace {

TEST(ModelName, NamesOfTheHubAreNames) {
  for (const char* name :
       {"gpt2", "meta-llama/Llama-3.1-8B", "a", "0/1", "Qwen2.5_x",
        "HuggingFaceTB/SmolLM2-135M-Instruct"}) {
    EXPECT_TRUE(CheckModelName("name", name).ok()) << name;
  }
  const std::string longest(limits::kModelIdBytes, 'a');
  EXPECT_TRUE(CheckModelName("name", longest).ok());
}

// What is a path, an option, a hidden file or no text anywhere is no name.
TEST(ModelName, TricksAreNoNames) {
  for (const std::string& name :
       std::vector<std::string>{"",
                                "/",
                                "/etc",
                                "..",
                                "../x",
                                "a/..",
                                "a/../b",
                                "a//b",
                                "a/",
                                "a/b/c",
                                ".git",
                                "a/.hidden",
                                "-rf",
                                "a/-b",
                                "a b",
                                "a\\b",
                                "job:01ARZ3NDEKTSV4RRFFQ69G5FAV",
                                "a@main",
                                std::string("a\0b", 3),
                                "a\nb",
                                "\x1b[2J",
                                "caf\xc3\xa9",
                                "e\xcc\x81",
                                "\xff\xfe",
                                "~/x",
                                "a:b",
                                "a--b",
                                std::string(limits::kModelIdBytes + 1, 'a')}) {
    const absl::Status status = CheckModelName("name", name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), StartsWith("name: '"));
  }
  // The error shows no control characters and has an end.
  const std::string name = "\x1b]0;" + std::string(1 << 20, 'a');
  const std::string text(CheckModelName("name", name).message());
  EXPECT_LT(text.size(), 1000u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("NAME or ORG/NAME"));
}

TEST(ModelName, Revisions) {
  for (const char* revision : {"main", "v1.0", "refs/pr/1", "feature/x-y",
                               "0123456789abcdef0123456789abcdef01234567"}) {
    EXPECT_TRUE(CheckRevision("revision", revision).ok()) << revision;
  }
  for (const char* revision :
       {"", "..", "a/..", "a//b", "/main", "main/", ".git", "a b", "a?b=c",
        "a#b", "a%2fb", "a@b", "ma\xc3\xafn"}) {
    EXPECT_EQ(CheckRevision("revision", revision).code(),
              absl::StatusCode::kInvalidArgument)
        << revision;
  }
}

class ManifestTest : public testing::Test {
 protected:
  const fs::path folder_ = FreshFolder("manifest");
  const std::string revision_ = std::string(64, 'a');
};

// Names and revisions in it become paths.
TEST_F(ManifestTest, WhatIsNoManifest) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"),
        std::string(100'000, '['), std::string(1 << 20, ' '),
        R"({"name":"../x","owner":"a","revision":")" + revision_ + "\"}",
        std::string(R"({"name":"m","owner":"a","revision":"../.."})"),
        R"({"name":"m","owner":"","revision":")" + revision_ + "\"}",
        R"({"name":7,"owner":"a","revision":")" + revision_ + "\"}"}) {
    std::ofstream(folder_ / "model.json") << text;
    const auto read = ReadManifest(folder_);
    EXPECT_FALSE(read.ok()) << text.substr(0, 60);
    EXPECT_FALSE(absl::IsNotFound(read.status()));
  }
}

ModelFile File(const std::string& path) {
  return {path, std::string(64, 'a'), 1};
}

std::string Problem(const std::vector<ModelFile>& files) {
  const absl::Status status = CheckFileList(files);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(FileList, IsAModelsAndHasAConfig) {
  EXPECT_TRUE(CheckFileList({File("model.safetensors"), File("config.json"),
                             File("tokenizer.json")})
                  .ok());
  EXPECT_THAT(Problem({File("model.safetensors")}),
              HasSubstr("config.json is not among them"));
  EXPECT_THAT(Problem({}), HasSubstr("config.json"));
}

TEST(FileList, WhatNoModelHas) {
  for (const char* path : {"../../mpsd.db", "/etc/passwd", "a.py", "",
                           "model\n.safetensors", "caf\xc3\xa9.safetensors"}) {
    EXPECT_THAT(Problem({File("config.json"), File(path)}),
                HasSubstr("files[1].path: '"))
        << path;
  }
  EXPECT_THAT(Problem({File(std::string(1 << 20, 'a'))}),
              HasSubstr("files[0].path"));
  ModelFile file = File("config.json");
  file.sha256 = std::string(64, 'A');
  EXPECT_THAT(Problem({file}), HasSubstr("files[0].sha256"));
  file = File("config.json");
  file.size_bytes = -1;
  EXPECT_THAT(Problem({file}), HasSubstr("files[0].size_bytes"));
}

// APFS takes two names for one that differ in case. Those that differ in
// Unicode's composition have no chance: a model's files have ASCII names.
TEST(FileList, NamesThatAFileSystemTakesForOne) {
  EXPECT_THAT(Problem({File("config.json"), File("model-a.safetensors"),
                       File("model-A.safetensors")}),
              HasSubstr("'model-A.safetensors' and 'model-a.safetensors' are "
                        "one name"));
  EXPECT_THAT(Problem({File("config.json"), File("config.json")}),
              HasSubstr("files[1].path"));
}

TEST(FileList, HasABound) {
  std::vector<ModelFile> files = {File("config.json")};
  while (files.size() < limits::kFilesOfModel) {
    files.push_back(File(absl::StrCat("model-", files.size(), ".safetensors")));
  }
  EXPECT_TRUE(CheckFileList(files).ok());
  files.push_back(File("model-x.safetensors"));
  EXPECT_THAT(Problem(files), HasSubstr("at most 1000"));
}

class PushedModelsTest : public testing::Test {
 protected:
  PushedModelsTest() { Open(); }

  // As after a restart, or after kill -9.
  void Open() {
    models_.reset();
    auto opened = PushedModels::Open(
        models_dir_, [this](const std::string& line) { log_ += line + "\n"; });
    ASSERT_TRUE(opened.ok()) << opened.status();
    models_ = *std::move(opened);
  }
  PushedModels::Request Request(const std::string& name,
                                const std::string& salt = "1",
                                const std::string& user = "ada") {
    PushedModels::Request request;
    request.name = name;
    request.files = blobs_.PutModel(salt);
    request.user = user;
    return request;
  }
  PushedModels::Pushed Push(const PushedModels::Request& request) {
    auto pushed = models_->Push(request, blobs_);
    EXPECT_TRUE(pushed.ok()) << pushed.status();
    return pushed.ok() ? *std::move(pushed) : PushedModels::Pushed();
  }
  absl::Status Refused(const PushedModels::Request& request) {
    return models_->Push(request, blobs_).status();
  }
  std::string FolderOf(const std::string& name) {
    const auto found = models_->Find(name);
    return found ? found->folder : "";
  }
  std::string Tokenizer(const std::string& folder) {
    return base::ReadFile(fs::path(folder) / "tokenizer.json").value_or("?");
  }
  PushedModels::Needed NoUses() {
    return [] { return std::set<std::string>(); };
  }
  PushedModels::Needed Needs(const std::string& folder) {
    return [=] { return std::set<std::string>{folder}; };
  }

  const fs::path state_ = FreshFolder("pushed");
  const fs::path models_dir_ = state_ / "models";
  DiskBlobs blobs_{state_ / "blobs"};
  std::unique_ptr<PushedModels> models_;
  std::string log_;
};

TEST_F(PushedModelsTest, APushIsThereAlsoAfterARestart) {
  const auto pushed = Push(Request("org/m"));
  EXPECT_FALSE(pushed.existed);
  EXPECT_EQ(pushed.model.owner, "ada");
  EXPECT_EQ(pushed.model.revision.size(), 64u);
  EXPECT_GT(pushed.model.size_bytes, 0);
  for (int restart = 0; restart < 2; ++restart) {
    const std::string folder = FolderOf("org/m");
    EXPECT_EQ(folder, pushed.model.folder);
    EXPECT_EQ(Tokenizer(folder), "1");
    // The blob store sees the use.
    EXPECT_EQ(fs::hard_link_count(fs::path(folder) / "tokenizer.json"), 2u);
    const auto listed = models_->List();
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_EQ(listed[0].size_bytes, pushed.model.size_bytes);
    EXPECT_EQ(listed[0].create_time, pushed.model.create_time);
    Open();
  }
  // The same files again change nothing.
  const auto second = Push(Request("org/m"));
  EXPECT_TRUE(second.existed);
  EXPECT_EQ(second.model.folder, pushed.model.folder);
  EXPECT_EQ(second.model.create_time, pushed.model.create_time);
  EXPECT_EQ(log_, "");
}

TEST_F(PushedModelsTest, OtherFilesUnderTheNameLeaveOldJobsTheirs) {
  const std::string old = Push(Request("m", "1")).model.folder;
  const auto pushed = Push(Request("m", "2"));
  EXPECT_FALSE(pushed.existed);
  EXPECT_EQ(Tokenizer(FolderOf("m")), "2");
  EXPECT_EQ(Tokenizer(old), "1");
  EXPECT_THAT(models_->Superseded(), ElementsAre("m"));
  EXPECT_EQ(*models_->Sweep("m", Needs(old)), 0);
  EXPECT_EQ(Tokenizer(old), "1") << "a job has it";
  EXPECT_EQ(*models_->Sweep("m", NoUses()), 1);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(Tokenizer(FolderOf("m")), "2");
  EXPECT_THAT(models_->Superseded(), IsEmpty());
  // Back to the first files.
  EXPECT_EQ(Push(Request("m", "1")).model.folder, old);
  EXPECT_EQ(Tokenizer(FolderOf("m")), "1");
}

// The state folder may be named in another way than when the job came.
TEST_F(PushedModelsTest, AJobsRevisionIsKnownByItsPlace) {
  const std::string old = Push(Request("m", "1")).model.folder;
  Push(Request("m", "2"));
  const std::string elsewhere =
      "/Volumes/other/models/" +
      fs::path(old).lexically_relative(models_dir_).string();
  EXPECT_EQ(*models_->Sweep("m", Needs(elsewhere)), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      models_->Remove("m", "ada", false, Needs(elsewhere)).status()));
}

// Between the look for the model and the job's row.
TEST_F(PushedModelsTest, ASubmissionKeepsWhatItFound) {
  Push(Request("m", "1"));
  auto found = models_->Find("m");
  ASSERT_TRUE(found);
  EXPECT_THAT(
      std::string(
          models_->Remove("m", "ada", false, NoUses()).status().message()),
      HasSubstr("is being submitted"));
  Push(Request("m", "2"));
  EXPECT_EQ(*models_->Sweep("m", NoUses()), 0);
  EXPECT_EQ(Tokenizer(found->folder), "1");
  EXPECT_TRUE(absl::IsFailedPrecondition(
      models_->Remove("m", "ada", false, NoUses()).status()))
      << "of a revision that was replaced, too";
  found.reset();
  EXPECT_EQ(*models_->Sweep("m", NoUses()), 1);
  EXPECT_TRUE(models_->Remove("m", "ada", false, NoUses()).ok());
}

TEST_F(PushedModelsTest, NamesDifferByMoreThanCase) {
  Push(Request("Org/Model"));
  const absl::Status refused = Refused(Request("org/model"));
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'Org/Model'"));
  EXPECT_EQ(models_->Alike("org/MODEL"), "Org/Model");
  EXPECT_EQ(models_->Alike("Org/Model"), "");
  EXPECT_EQ(models_->Alike("Org/Modle"), "Org/Model");
  EXPECT_EQ(models_->Alike("other"), "");
  EXPECT_FALSE(models_->Find("org/model"));
}

TEST_F(PushedModelsTest, ANameIsItsPushersAndAdmins) {
  Push(Request("m", "1", "ada"));
  const absl::Status refused = Refused(Request("m", "2", "bob"));
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ada's"));
  EXPECT_TRUE(absl::IsPermissionDenied(
      models_->Remove("m", "bob", false, NoUses()).status()));
  PushedModels::Request admins = Request("m", "2", "root");
  admins.is_admin = true;
  EXPECT_EQ(Push(admins).model.owner, "ada");
  EXPECT_TRUE(models_->Remove("m", "root", true, NoUses()).ok());
}

TEST_F(PushedModelsTest, WhatIsMissingALieOrNoModelIsRefusedAndLeavesNothing) {
  PushedModels::Request request = Request("m");
  blobs_.hidden.insert(request.files[1].sha256);
  const absl::Status refused = Refused(request);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("'tokenizer.json' (SHA-256 "));
  blobs_.hidden.clear();
  // So is a lie about a size.
  request = Request("m", "2");
  request.files[0].size_bytes += 1;
  EXPECT_TRUE(absl::IsInvalidArgument(Refused(request)));
  // And what cannot be trained.
  request = Request("m", "3");
  request.files[0] = blobs_.Put(
      "config.json", R"({"architectures": ["T5Model"], "model_type": "t5"})");
  EXPECT_THAT(std::string(Refused(request).message()),
              HasSubstr("mpsd cannot train this model: "));
  request = Request("m");
  request.files.push_back(blobs_.Put("model.safetensors", "no weights"));
  EXPECT_THAT(std::string(Refused(request).message()),
              HasSubstr("model.safetensors: "));
  EXPECT_TRUE(fs::is_empty(models_dir_));
}

TEST_F(PushedModelsTest, AUserHasABoundedNumberOfNames) {
  for (size_t i = 0; i < limits::kModelsOfUser; ++i) {
    Push(Request(absl::StrCat("m", i)));
  }
  const absl::Status refused = Refused(Request("more"));
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("mpsctl model rm"));
  Push(Request("m0", "2"));
  Push(Request("more", "1", "bob"));
  ASSERT_TRUE(models_->Remove("m0", "ada", false, NoUses()).ok());
  Push(Request("m0"));
}

// Everyone's jobs would get other weights by a name that they trust.
TEST_F(PushedModelsTest, AModelOfTheCacheIsAnAdminsToReplace) {
  HubCache cache;
  cache.Put("good/model", "c0ffee", "2");
  PushedModels::Request request = Request("good/model");
  EXPECT_TRUE(absl::IsPermissionDenied(Refused(request)));
  EXPECT_FALSE(models_->Find("good/model"));
  request.is_admin = true;
  Push(request);
  // What was pushed before it was pulled is its owner's.
  Push(Request("mine"));
  cache.Put("mine", "c0ffee", "2");
  Push(Request("mine", "2"));
  // No job finds what a pull left that broke off.
  fs::create_directories(cache.path() / spec::RepositoryName("left") / "blobs");
  Push(Request("left"));
}

TEST_F(PushedModelsTest, AFullAccountLeavesTheOldFiles) {
  Push(Request("m", "1"));
  PushedModels::Request request = Request("m", "2");
  request.count = [] { return absl::ResourceExhaustedError("too many bytes"); };
  EXPECT_TRUE(absl::IsResourceExhausted(Refused(request)));
  EXPECT_EQ(Tokenizer(FolderOf("m")), "1");
  EXPECT_THAT(models_->Superseded(), IsEmpty());
}

// A file that may not grow acts as a full disk.
TEST_F(PushedModelsTest, AFullDiskLeavesTheOldFiles) {
  Push(Request("m", "1"));
  const PushedModels::Request other = Request("m", "2"), first = Request("n");
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  const absl::Status full = Refused(other), also_full = Refused(first);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(full.ok());
  EXPECT_FALSE(also_full.ok());
  EXPECT_EQ(Tokenizer(FolderOf("m")), "1");
  EXPECT_FALSE(fs::exists(models_dir_ / "models--n"));
  Open();
  EXPECT_EQ(Tokenizer(FolderOf("m")), "1");
  Push(other);
  EXPECT_EQ(Tokenizer(FolderOf("m")), "2");
}

TEST_F(PushedModelsTest, AnAbandonedPushLeavesNothing) {
  PushedModels::Request request = Request("m");
  int asked = 0;
  request.wanted = [&] {
    return ++asked > 3 ? absl::CancelledError("gone") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsCancelled(Refused(request)));
  EXPECT_TRUE(fs::is_empty(models_dir_));
}

// kill -9 at each step of a push and of a removal leaves one of these.
TEST_F(PushedModelsTest, WhatWasCutOffGoesAtTheNextStart) {
  const fs::path folder = Push(Request("whole")).model.folder;
  const fs::path staged = folder.parent_path() / ".abc.17.1.tmp";
  fs::create_directories(staged);
  std::ofstream(staged / "config.json") << "{}";
  const fs::path first = models_dir_ / "models--first" / "pushed" / "abc";
  fs::create_directories(first);
  std::ofstream(first / "config.json") << "{}";
  Push(Request("doomed"));
  fs::remove(models_dir_ / "models--doomed" / "model.json");
  fs::create_directories(models_dir_ / "notes");  // of an unknown owner
  Open();
  EXPECT_FALSE(fs::exists(staged));
  EXPECT_FALSE(fs::exists(models_dir_ / "models--first"));
  EXPECT_FALSE(fs::exists(models_dir_ / "models--doomed"));
  EXPECT_TRUE(fs::exists(models_dir_ / "notes"));
  EXPECT_EQ(FolderOf("whole"), folder);
  EXPECT_EQ(log_, "");
}

TEST_F(PushedModelsTest, ARevisionOfWhichAFileWentIsMadeAgain) {
  const fs::path folder = Push(Request("m", "1")).model.folder;
  fs::remove(folder / "tokenizer.json");
  Push(Request("m", "1"));
  EXPECT_EQ(Tokenizer(folder), "1");
}

TEST_F(PushedModelsTest, WhatCannotBeReadStaysAndIsNamed) {
  const fs::path folder = models_dir_ / "models--m";
  Push(Request("m"));
  std::ofstream(folder / "model.json") << "{";
  Push(Request("other"));
  fs::remove_all(FolderOf("other"));
  Open();
  EXPECT_THAT(log_, HasSubstr((folder / "model.json").string()));
  EXPECT_THAT(log_, HasSubstr("models--other does not match its model.json"));
  EXPECT_TRUE(fs::exists(folder));
  EXPECT_FALSE(models_->Find("m"));
  // Pushing it again mends it.
  Push(Request("other"));
  EXPECT_EQ(Tokenizer(FolderOf("other")), "1");
}

TEST_F(PushedModelsTest, ARemovalSaysWhatItFrees) {
  const auto pushed = Push(Request("m"));
  EXPECT_TRUE(absl::IsNotFound(
      models_->Remove("other", "ada", false, NoUses()).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      models_->Remove("m", "ada", false, Needs(pushed.model.folder)).status()));
  const auto unreadable = models_->Remove("m", "ada", false, [] {
    return absl::UnavailableError("the database is locked");
  });
  EXPECT_TRUE(absl::IsUnavailable(unreadable.status())) << "says nothing";
  EXPECT_EQ(FolderOf("m"), pushed.model.folder);
  const auto freed = models_->Remove("m", "ada", false, NoUses());
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, pushed.model.size_bytes);
  EXPECT_FALSE(models_->Find("m"));
  EXPECT_TRUE(fs::is_empty(models_dir_));
  Open();
  EXPECT_FALSE(models_->Find("m"));
}

TEST_F(PushedModelsTest, PushesAtOnceOfOneNameLeaveOneOfThem) {
  std::vector<PushedModels::Request> requests;
  requests.reserve(8);
  for (int i = 0; i < 8; ++i) {
    requests.push_back(Request("m", std::to_string(i % 4)));
  }
  std::vector<std::thread> threads;
  threads.reserve(requests.size());
  for (const PushedModels::Request& request : requests) {
    threads.emplace_back([&] { Push(request); });
  }
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto found = models_->Find("m");
      if (!found) continue;
      EXPECT_NE(Tokenizer(found->folder), "?");
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();
  const std::string now = FolderOf("m");
  EXPECT_TRUE(models_->Sweep("m", NoUses()).ok());
  Open();
  EXPECT_EQ(FolderOf("m"), now);
  EXPECT_NE(Tokenizer(now), "?");
}

}  // namespace
}  // namespace mpsd::models
