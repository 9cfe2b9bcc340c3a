// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_files.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <thread>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

constexpr char kLlama[] = R"({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
    "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
    "hidden_act": "silu"})";

void WriteModel(const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << kLlama;
}

class JobFilesTest : public testing::Test {
 protected:
  JobFilesTest() { std::ofstream(state_ / "blob") << "row\n"; }

  const fs::path state_ = FreshFolder("job_files");
  JobFiles files_{state_};
};

TEST_F(JobFilesTest, CreatesSpecAndInputs) {
  const std::string blob = state_ / "blob";
  ASSERT_TRUE(files_
                  .Create("J", "{}", "the request",
                          {{"train.jsonl", blob}, {"adapter/x", blob}}, {})
                  .ok());
  EXPECT_EQ(*base::ReadFile(files_.SpecPath("J")), "{}\n");
  EXPECT_EQ(*base::ReadFile(files_.InputPath("J", "train.jsonl")), "row\n");
  EXPECT_EQ(*base::ReadFile(state_ / "jobs/J/request.json"), "the request");
  fs::remove(blob);
  EXPECT_EQ(*base::ReadFile(files_.InputPath("J", "adapter/x")), "row\n");
}

TEST_F(JobFilesTest, LeavesNothingOfAJobThatIsNoLongerWanted) {
  std::vector<JobFiles::Link> links;
  for (int i = 0; i < 10; ++i) {
    links.push_back({std::to_string(i), state_ / "blob"});
  }
  absl::Status status;
  int steps = 0;
  do {
    int left = steps++;
    const Wanted wanted = [&] {
      return left-- > 0 ? absl::OkStatus() : absl::CancelledError("gone");
    };
    status = files_.Create("J", "{}", "{}", links, wanted);
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
  } while (steps < 100);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_GT(steps, 10);
  EXPECT_EQ(*base::ReadFile(files_.InputPath("J", "9")), "row\n");
}

TEST_F(JobFilesTest, ABlobThatIsGoneIsAnErrorAndNoLink) {
  EXPECT_TRUE(absl::IsNotFound(
      files_.Create("J", "{}", "{}", {{"train.jsonl", state_ / "gone"}}, {})));
  EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
}

// On a file system that knows no case the second link finds the first.
TEST_F(JobFilesTest, TwoNamesThatAreOneAreRefusedByBoth) {
  const std::string blob = state_ / "blob";
  EXPECT_THAT(
      files_.Create("J", "{}", "{}",
                    {{"other", blob}, {"d/same", blob}, {"d/same", blob}}, {}),
      Fails(absl::StatusCode::kInvalidArgument,
            "'d/same' and 'd/same' are one name"));
  EXPECT_TRUE(fs::is_empty(state_ / "jobs")) << "nothing is left";
}

// models/ and data/ are open, the rest of the machine is not.
class ReadFoldersTest : public JobFilesTest {
 protected:
  using Use = JobFiles::Use;

  ReadFoldersTest() {
    for (const char* folder : {"models", "data", "private"}) {
      fs::create_directories(state_ / folder);
    }
    std::ofstream(state_ / "data" / "t.csv") << "a\n";
    std::ofstream(state_ / "private" / "key") << "secret\n";
    WriteModel(state_ / "models" / "tiny");
    WriteModel(state_ / "private" / "model");
    fs::create_directories(state_ / "state");
  }
  ~ReadFoldersTest() override { unsetenv("HF_HUB_CACHE"); }

  std::string Refusal(const fs::path& path, Use use) {
    const absl::Status status = limited_.MayRead(path, use);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    std::string text(status.message());
    const size_t at = text.find(path.string());
    if (at != text.npos) text.replace(at, path.string().size(), "PATH");
    return text;
  }
  absl::Status Find(JobFiles& files, const fs::path& model) {
    return files.FindModel(model.string()).status();
  }

  JobFiles limited_{state_ / "state", {{state_ / "models"}, {state_ / "data"}}};
  JobFiles any_{state_ / "state"};
};

TEST_F(ReadFoldersTest, EachUseHasItsFolders) {
  const std::string data = state_ / "data" / "t.csv";
  const std::string model = state_ / "models" / "tiny";
  EXPECT_TRUE(limited_.MayRead(data, Use::kData).ok());
  EXPECT_TRUE(limited_.MayRead(data, Use::kEither).ok());
  EXPECT_TRUE(limited_.MayRead(model, Use::kModel).ok());
  EXPECT_TRUE(limited_.MayRead(model, Use::kEither).ok());
  EXPECT_THAT(Refusal(data, Use::kModel), HasSubstr("--model-root"));
  EXPECT_THAT(Refusal(model, Use::kData), HasSubstr("--data-root"));
  for (Use use : {Use::kModel, Use::kData, Use::kEither}) {
    EXPECT_TRUE(any_.MayRead(state_ / "private" / "key", use).ok());
    EXPECT_THAT(Refusal(state_ / "private" / "key", use),
                HasSubstr("'PATH' is not below a folder that jobs may read"));
  }
}

TEST_F(ReadFoldersTest, ARefusalDoesNotRevealWhatIsThere) {
  fs::create_symlink(state_ / "private" / "key", state_ / "data" / "link");
  for (Use use : {Use::kModel, Use::kData, Use::kEither}) {
    const std::string there = Refusal(state_ / "private" / "key", use);
    EXPECT_EQ(Refusal(state_ / "private" / "none", use), there);
    EXPECT_EQ(Refusal("/nowhere/at/all", use), there);
    EXPECT_EQ(Refusal("/", use), there);
    EXPECT_EQ(Refusal(state_ / "data/../private/none", use), there);
    EXPECT_EQ(Refusal(state_ / "data" / "link", use), there);
  }
  const auto text = [&](const char* model) {
    return std::string(Find(limited_, state_ / "private" / model).message())
        .substr((state_ / "private" / model).string().size() + 1);
  };
  EXPECT_EQ(text("model"), text("nones"));
}

TEST_F(ReadFoldersTest, AModelLiesInItsFoldersWithItsConfig) {
  EXPECT_TRUE(Find(limited_, state_ / "models/tiny").ok());
  EXPECT_TRUE(absl::IsNotFound(Find(limited_, state_ / "models/none")));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Find(limited_, state_ / "models/../private/model")));
  fs::create_directory_symlink(state_ / "private/model",
                               state_ / "models/link");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Find(limited_, state_ / "models/link")));
  fs::create_directories(state_ / "models/config");
  fs::create_symlink(state_ / "private/model/config.json",
                     state_ / "models/config/config.json");
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Find(limited_, state_ / "models/config")));
  EXPECT_TRUE(Find(any_, state_ / "models/config").ok());
}

// A link that leads now into the folder and now out of it: what is read is
// never what lies outside.
TEST_F(ReadFoldersTest, NoConfigSlipsInBetweenTheLookAndTheReading) {
  const fs::path model = state_ / "models/racing";
  fs::create_directories(model);
  std::ofstream(model / "inside.json") << kLlama;
  std::ofstream(state_ / "private/secret") << "a secret that is no JSON";
  fs::create_symlink("inside.json", model / "config.json");
  std::atomic<bool> done = false;
  std::thread flipper([&] {
    for (int i = 0; !done; ++i) {
      fs::create_symlink(i % 2 == 0 ? "../../private/secret" : "inside.json",
                         model / "next");
      fs::rename(model / "next", model / "config.json");
    }
  });
  for (int i = 0; i < 3000; ++i) {
    const absl::Status found = Find(limited_, model);
    EXPECT_TRUE(found.ok() || absl::IsFailedPrecondition(found)) << found;
  }
  done = true;
  flipper.join();
}

TEST_F(ReadFoldersTest, AnIdIsLookedForInTheCacheAlone) {
  const fs::path hub = state_ / "hub";
  const fs::path snapshot = hub / "models--org--tiny" / "snapshots" / "abc";
  fs::create_directories(hub / "models--org--tiny" / "blobs");
  fs::create_directories(snapshot);
  std::ofstream(hub / "models--org--tiny" / "blobs" / "1") << kLlama;
  fs::create_symlink("../../blobs/1", snapshot / "config.json");
  fs::create_directories(hub / "models--org--tiny" / "refs");
  std::ofstream(hub / "models--org--tiny" / "refs" / "main") << "abc";
  setenv("HF_HUB_CACHE", hub.c_str(), 1);
  JobFiles cached(state_ / "state", {{hub}, {}});
  const auto model = Ok(cached.FindModel("org/tiny"));
  EXPECT_EQ(model.folder, snapshot.string());
  EXPECT_TRUE(cached.FindModel(snapshot.string()).ok());
  // mpsd's working directory is no model folder.
  const fs::path before = fs::current_path();
  fs::current_path(state_ / "private");
  EXPECT_TRUE(absl::IsNotFound(any_.FindModel("model").status()));
  fs::current_path(before);
}

// Knows one pushed model, "Org/m".
class OneModel final : public ModelFinder {
 public:
  explicit OneModel(std::string folder) : folder_(std::move(folder)) {}
  std::optional<Found> Find(const std::string& name) override {
    if (name != "Org/m") return std::nullopt;
    return Found{folder_, lease_};
  }
  std::string Alike(const std::string& name) override {
    return name == "org/m" ? "Org/m" : "";
  }
  int64_t leases() const { return lease_.use_count() - 1; }

 private:
  const std::string folder_;
  const std::shared_ptr<const int> lease_ = std::make_shared<const int>(0);
};

TEST_F(ReadFoldersTest, APushedModelComesBeforeTheCache) {
  const fs::path hub = state_ / "hub";
  WriteModel(hub / "models--Org--m" / "snapshots" / "abc");
  setenv("HF_HUB_CACHE", hub.c_str(), 1);
  const fs::path pushed =
      state_ / "state" / "models" / "models--Org--m" / "pushed" / "1";
  WriteModel(pushed);
  OneModel models(pushed);
  JobFiles files(state_ / "state", {{hub}, {}}, &models);
  {
    const auto model = Ok(files.FindModel("Org/m"));
    EXPECT_EQ(model.folder, pushed.string());
    EXPECT_EQ(model.config.hidden_size, 16);
    EXPECT_EQ(models.leases(), 1) << "kept while the job is being submitted";
  }
  EXPECT_EQ(models.leases(), 0);
  // Its path alone leases nothing.
  EXPECT_TRUE(absl::IsFailedPrecondition(Find(files, pushed)));
}

TEST_F(ReadFoldersTest, AMissingModelSaysHowToGetIt) {
  setenv("HF_HUB_CACHE", (state_ / "hub").c_str(), 1);
  OneModel models("/nowhere");
  bool has_hub = true;
  JobFiles files(state_ / "state", {{"/"}, {"/"}}, &models,
                 [&](const std::string&) { return has_hub; });
  const auto error_of = [&](const std::string& model) {
    const absl::Status status = files.FindModel(model).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error_of("org/none"), HasSubstr("`mpsctl model pull org/none`"));
  EXPECT_THAT(error_of("org/none"),
              HasSubstr("`mpsctl model push FOLDER --name org/none`, or name "
                        "one of `mpsctl model list`"));
  EXPECT_THAT(error_of("org/m"), HasSubstr("did you mean 'Org/m'? Else fetch"));
  has_hub = false;
  EXPECT_THAT(
      error_of("org/none"),
      HasSubstr("mpsd has no model 'org/none': send a folder of yours"));
  EXPECT_THAT(error_of("/models/none"),
              HasSubstr("`mpsctl model push FOLDER`"));
  EXPECT_THAT(error_of((state_ / "data").string()),
              HasSubstr("no config.json"));
  // What is no id is no part of a command that people copy.
  EXPECT_THAT(error_of("x; rm -rf ~"), HasSubstr("neither"));
  EXPECT_THAT(error_of("a\x1b[2J"), testing::Not(HasSubstr("\x1b")));
}

TEST_F(ReadFoldersTest, WhatIsOfAJobIsNoModelUnlessNamed) {
  const fs::path result = state_ / "state/jobs/J/out/model";
  WriteModel(result);
  EXPECT_THAT(std::string(Find(any_, result).message()),
              HasSubstr("belongs to a job and is not a model"));
  fs::create_directory_symlink(result, state_ / "models/result");
  EXPECT_TRUE(absl::IsFailedPrecondition(Find(any_, state_ / "models/result")));
  // Data and adapters of the same owner are.
  EXPECT_TRUE(any_.MayRead(result, Use::kEither).ok());
  for (const fs::path& root : {state_ / "state/jobs", result}) {
    JobFiles named(state_ / "state", {{"/", root}, {}});
    EXPECT_TRUE(Find(named, result).ok()) << root;
  }
}

// The database, tokens' hashes, keys and all users' uploads.
TEST_F(ReadFoldersTest, JobsDoNotReadTheDaemonsOwnFolder) {
  const fs::path state = state_ / "state";
  fs::create_directories(state / "tls");
  std::ofstream(state / "tls" / "server.key") << "secret\n";
  fs::create_directories(state / "blobs" / "ab");
  fs::create_directory_symlink(state / "tls", state_ / "data" / "link");
  const auto refusal = [&](const fs::path& path, Use use) {
    const absl::Status status = any_.MayRead(path, use);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << path << " " << status;
    return std::string(status.message());
  };
  for (Use use : {Use::kModel, Use::kData, Use::kEither}) {
    for (const char* path :
         {"state", "state/jobs", "state/mpsd.db", "state/tls/server.key",
          "state/blobs/ab", "data/link/server.key", "state/jobs/../tls/none"}) {
      EXPECT_THAT(refusal(state_ / path, use), HasSubstr("mpsd's own folder"));
    }
  }
  EXPECT_TRUE(any_.MayRead(state / "jobs/J/out/t.csv", Use::kData).ok());
  // Nor does a link reveal what is there, to Submit or to a start.
  std::ofstream(state / "blobs/ab/there") << "a\n";
  const fs::path link = state_ / "data" / "blob";
  std::set<std::string> said;
  for (const char* name : {"there", "none"}) {
    fs::remove(link);
    fs::create_symlink(state / "blobs/ab" / name, link);
    said.insert(Refusal(link, Use::kData));
    said.insert(refusal(link, Use::kData));
    EXPECT_TRUE(any_.Exists(link));
  }
  EXPECT_EQ(said.size(), 2u);  // by each of the two
  // Unless the roots that mpsd is started with name it.
  JobFiles named(state, {{}, {state / "tls"}});
  EXPECT_TRUE(named.MayRead(state / "tls/server.key", Use::kData).ok());
  EXPECT_FALSE(named.MayRead(state / "mpsd.db", Use::kData).ok());
}

TEST_F(ReadFoldersTest, APathIdentifiesItsJob) {
  const fs::path jobs = state_ / "state/jobs";
  fs::create_directories(jobs / "J" / "out");
  fs::create_directory_symlink(jobs / "J", state_ / "data" / "link");
  EXPECT_EQ(any_.JobAt(jobs / "J"), "J");
  EXPECT_EQ(any_.JobAt(jobs / "J/out/none/at all"), "J");
  EXPECT_EQ(any_.JobAt(jobs / "J/../K/t.csv"), "K");
  EXPECT_EQ(any_.JobAt(state_ / "data/link/t.csv"), "J");
  EXPECT_EQ(any_.JobAt(state_ / "data/link"), "J");
  EXPECT_EQ(any_.JobAt(jobs), ".");
  EXPECT_EQ(any_.JobAt(state_ / "data/t.csv"), "");
  EXPECT_EQ(any_.JobAt(state_ / "state/mpsd.db"), "");
}

TEST_F(ReadFoldersTest, AStampChangesWithTheFilesThatAreRead) {
  const fs::path model = state_ / "models/tiny";
  const std::string before = any_.StampOf(model);
  std::ofstream(model / "README.md") << "to read";
  EXPECT_EQ(any_.StampOf(model), before);
  std::ofstream(model / "model.safetensors") << "weights";
  const std::string after = any_.StampOf(model);
  EXPECT_NE(after, before);
  fs::last_write_time(model / "model.safetensors",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_NE(any_.StampOf(model), after);
  const fs::path data = state_ / "data/t.csv";
  const std::string rows = any_.StampOf(data);
  std::ofstream(data, std::ios::app) << "b\n";
  EXPECT_NE(any_.StampOf(data), rows);
  EXPECT_EQ(any_.StampOf(state_ / "state/jobs/J/inputs/t"), "");
}

TEST_F(ReadFoldersTest, AFolderThatComesLaterCounts) {
  JobFiles later(state_ / "state", {{}, {state_ / "volume"}});
  EXPECT_FALSE(later.MayRead(state_ / "data/t.csv", Use::kData).ok());
  fs::create_directory_symlink(state_ / "data", state_ / "volume");
  EXPECT_TRUE(later.MayRead(state_ / "volume/t.csv", Use::kData).ok());
}

TEST_F(JobFilesTest, ReplacesASpecWhole) {
  ASSERT_TRUE(files_.Create("J", "{}", "{}", {}, {}).ok());
  ASSERT_TRUE(files_.ReplaceSpec("J", R"({"model":"m"})").ok());
  EXPECT_EQ(*base::ReadFile(files_.SpecPath("J")), "{\"model\":\"m\"}\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(files_.Folder("J")), {}), 2);
  EXPECT_FALSE(files_.ReplaceSpec("gone", "{}").ok());
}

TEST_F(JobFilesTest, AResultIsAModelThoughItsPathIsNoModelPath) {
  const fs::path result = state_ / "jobs/J/out/model";
  const fs::path given = state_ / "model";
  WriteModel(result);
  WriteModel(given);
  EXPECT_FALSE(files_.FindModel(result).ok());
  const auto model = Ok(files_.ReadResult(result));
  EXPECT_EQ(model.folder, result.string());
  EXPECT_EQ(model.config.hidden_size, 16);
  for (const fs::path& no :
       {given, state_ / "jobs/../model", state_ / "jobs/none/out/model"}) {
    EXPECT_FALSE(files_.ReadResult(no).ok()) << no;
  }
  // A file that leads out of the result.
  fs::remove(result / "config.json");
  fs::create_symlink(given / "config.json", result / "config.json");
  EXPECT_FALSE(files_.ReadResult(result).ok());
}

TEST_F(JobFilesTest, ARunIsRemovedAndNothingNextToIt) {
  const fs::path job = state_ / "jobs/J";
  const fs::path neighbor = state_ / "neighbor";
  fs::create_directories(job / "out/checkpoints/5");
  fs::create_directories(neighbor);
  std::ofstream(job / "out/checkpoints/5/model") << "weights";
  std::ofstream(job / "log") << "lines";
  std::ofstream(neighbor / "kept") << "kept";
  fs::create_directory_symlink(neighbor, job / "out/link");
  EXPECT_TRUE(files_.RemoveRun("J").ok());
  EXPECT_FALSE(fs::exists(job / "out"));
  EXPECT_TRUE(fs::exists(job / "log"));
  EXPECT_TRUE(fs::exists(neighbor / "kept"));
  EXPECT_TRUE(files_.RemoveRun("J").ok()) << "again";
  // A link in the folder's place leads nowhere.
  fs::create_directory_symlink(neighbor, job / "out");
  EXPECT_TRUE(files_.RemoveRun("J").ok());
  EXPECT_FALSE(fs::exists(fs::symlink_status(job / "out")));
  EXPECT_TRUE(fs::exists(neighbor / "kept"));
}

class RequestFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) {
    std::ofstream(folder_ / RequestFile::kFile, std::ios::binary) << text;
  }
  absl::StatusOr<SubmitRequest> Again(const SubmitRequest& request) {
    Write(RequestFile::Encode(request));
    return RequestFile::Read(folder_);
  }

  const fs::path folder_ = FreshFolder("J");
};

TEST_F(RequestFileTest, KeepsWhatMakesTheJob) {
  SubmitRequest request;
  request.spec_json = "{\"a\": \"\\u0041\u00e9\n\"}";
  request.inputs = {{"a/b \"c\".jsonl", std::string(64, 'a')},
                    {"../z", std::string(64, 'b')}};
  request.priority = -3;
  request.labels = {{"team", "nlp"}, {"", "x"}};
  request.anyway = request.held = true;
  request.after = {"B", "A"};
  request.kind = JobKind::kProfile;
  request.study_json = "{\"steps\": 3}";
  request.round_trip_seconds = 0.0625;
  request.owner = "ada";
  request.idempotency_key = "key";
  const auto read = Ok(Again(request));
  EXPECT_EQ(read.spec_json, request.spec_json);
  ASSERT_EQ(read.inputs.size(), 2u);
  for (const InputFile& input : read.inputs) {
    EXPECT_EQ(input.sha256, std::string(64, input.path == "../z" ? 'b' : 'a'));
  }
  EXPECT_EQ(read.priority, -3);
  EXPECT_EQ(read.labels, request.labels);
  EXPECT_TRUE(read.anyway);
  EXPECT_TRUE(read.held);
  EXPECT_EQ(read.after, request.after);
  EXPECT_EQ(read.kind, JobKind::kProfile);
  EXPECT_EQ(read.study_json, request.study_json);
  EXPECT_EQ(read.round_trip_seconds, 0.0625);
  EXPECT_EQ(read.owner, "");
  EXPECT_EQ(read.idempotency_key, "");
}

TEST_F(RequestFileTest, AJobOfAnEarlierReleaseHasNone) {
  EXPECT_THAT(
      RequestFile::Read(folder_),
      Fails(absl::StatusCode::kFailedPrecondition, "`mpsctl --json show J`"));
}

TEST_F(RequestFileTest, WhatMakesNoSenseIsSaid) {
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(100'000, '['),
        std::string(R"({"spec_json": "{}", "inputs": {"a": 1}})"),
        std::string(R"({"spec_json": "{}", "labels": {"a": []}})"),
        std::string(R"({"spec_json": "{}", "after": [1]})"),
        std::string(R"({"spec_json": 5})")}) {
    Write(bad);
    EXPECT_TRUE(absl::IsDataLoss(RequestFile::Read(folder_).status()))
        << bad.substr(0, 60);
  }
}

class InputNamesTest : public testing::Test {
 protected:
  InputNames Names(const std::vector<JobFiles::Link>& links) {
    const std::string text = InputNames::Encode(links);
    if (!text.empty()) std::ofstream(folder_ / InputNames::kFile) << text;
    return InputNames(folder_);
  }
  std::string In(const std::string& place) {
    return (folder_ / "inputs" / place).string();
  }

  const fs::path folder_ = FreshFolder("names");
};

TEST_F(InputNamesTest, OthersAsJobJsonSpellsThem) {
  const InputNames names = Names({{"up/e2.csv", "", "./e2.csv"},
                                  {"images/1.png", "", "../images/1.png"},
                                  {"images/1", "", "../images/1"},
                                  {"root/data/t.csv", "", "/data/t.csv"}});
  EXPECT_EQ(names.Respelled("bad: " + In("up/e2.csv") + ":2, " +
                            In("images/1.png") + ", " + In("images/1") +
                            " and '" + In("root/data/t.csv") + "'."),
            "bad: ./e2.csv:2, ../images/1.png, ../images/1 and "
            "'/data/t.csv'.");
}

TEST_F(InputNamesTest, OtherJobsAndBrokenListsAreLeftAlone) {
  std::ofstream(folder_ / InputNames::kFile) << "{\"a\": 1, \"b\": \"/b\"";
  const InputNames names(folder_);
  EXPECT_EQ(names.Respelled(In("b") + ":1"), "b:1");
  EXPECT_EQ(names.Respelled("/state/jobs/other/inputs/b"),
            "/state/jobs/other/inputs/b");
}

TEST_F(InputNamesTest, ATextFullOfPathsEnds) {
  const InputNames names = Names({{std::string(4000, 'x'), "", "y"}});
  std::string text;
  for (int i = 0; i < 100; ++i) text += In("z") + "\n";
  EXPECT_EQ(names.Respelled(text).substr(0, 32),
            "z\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\n");
}

class InputsTest : public testing::Test {
 protected:
  InputsTest() { blobs_.present = {kSha, kOther}; }

  Inputs Of(const std::vector<std::string>& paths) {
    std::vector<InputFile>& files = given_.emplace_back();
    for (const std::string& path : paths) files.push_back({path, kSha});
    auto inputs = Inputs::Create(files, kJob, files_, blobs_);
    EXPECT_TRUE(inputs.ok()) << inputs.status();
    return *std::move(inputs);
  }
  std::string Error(const std::vector<InputFile>& files) {
    return std::string(
        Inputs::Create(files, kJob, files_, blobs_).status().message());
  }
  static std::vector<std::string> Places(const Inputs& inputs) {
    std::vector<std::string> places;
    for (const JobFiles::Link& link : inputs.Links()) {
      places.push_back(link.relative);
    }
    return places;
  }

  const std::string kJob = "J", kBelow = "/state/jobs/J/inputs/";
  const std::string kSha = std::string(64, 'a');
  const std::string kOther = std::string(64, 'b');
  fakes::FakeJobFiles files_;
  fakes::FakeBlobs blobs_;
  std::deque<std::vector<InputFile>> given_;  // an Inputs refers to its files
};

TEST_F(InputsTest, FilesKeepTheirPlacesRelativeToEachOther) {
  EXPECT_THAT(Places(Of({"t.jsonl", "img/1.png"})),
              ElementsAre("img/1.png", "t.jsonl"));
  EXPECT_THAT(Places(Of({"t.jsonl", "../img/1.png", "../../x"})),
              ElementsAre("x", "up/img/1.png", "up/up/t.jsonl"));
  EXPECT_THAT(Places(Of({"/data/t.csv", "e.csv"})),
              ElementsAre("root/data/t.csv", "e.csv"));
}

TEST_F(InputsTest, NothingCollidesWithTheNamesItMakes) {
  EXPECT_THAT(Places(Of({"t", "../up/t"})), ElementsAre("up/t", "up_/t"));
  EXPECT_THAT(Places(Of({"/t", "root/t"})), ElementsAre("root_/t", "root/t"));
}

TEST_F(InputsTest, NothingEscapes) {
  for (const std::string& place :
       Places(Of({"a/../../../e", "../../../f", "./x/../g", "/../../h"}))) {
    EXPECT_EQ(place.find(".."), std::string::npos) << place;
    EXPECT_NE(place[0], '/');
  }
}

TEST_F(InputsTest, SpellingsOfAPathAreOne) {
  Inputs inputs = Of({"./data//t.jsonl"});
  EXPECT_EQ(*inputs.Resolve("f", "data/t.jsonl"), kBelow + "data/t.jsonl");
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
  EXPECT_TRUE(
      Inputs::Create({{"t", kSha}, {"./t", kSha}}, kJob, files_, blobs_).ok());
  EXPECT_THAT(Error({{"t", kSha}, {"./t", kOther}}), HasSubstr("twice"));
  EXPECT_THAT(Error({{"t", kSha}, {"t", kSha}}), HasSubstr("twice"));
}

TEST_F(InputsTest, AFolderNeedsAName) {
  Inputs inputs = Of({"cat/1.png"});
  EXPECT_THAT(inputs.Resolve("f", "."),
              Fails(absl::StatusCode::kInvalidArgument,
                    "f: '.' has no name of its own"));
}

TEST_F(InputsTest, WhatWasNotUploadedMayBeHere) {
  files_.paths = {"/data/t.csv"};
  Inputs inputs = Of({});
  EXPECT_EQ(*inputs.Resolve("f", "/data/t.csv"), "/data/t.csv");
  EXPECT_EQ(inputs.Resolve("f", "/data/u.csv").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(inputs.Resolve("f", "t.csv").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(InputsTest, WhatJobsMayNotReadIsNeverLookedFor) {
  Inputs inputs = Of({"t"});
  files_.closed = {"/secret"};
  for (const bool exists : {false, true}) {
    if (exists) files_.paths = {"/secret"};
    const absl::Status status = inputs.Resolve("f", "/secret").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_EQ(status.message(), "f: '/secret' is closed");
  }
  EXPECT_EQ(files_.uses["/secret"], JobFiles::Use::kData);
  files_.paths = {"/a"};
  EXPECT_TRUE(inputs.Resolve("f", "/a", JobFiles::Use::kEither).ok());
  EXPECT_EQ(files_.uses["/a"], JobFiles::Use::kEither);
  // What was uploaded is not this machine's.
  files_.closed.insert("t");
  EXPECT_TRUE(inputs.Resolve("f", "t").ok());
}

TEST_F(InputsTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Error({{"..", kSha}}), HasSubstr("path of no file"));
  EXPECT_THAT(Error({{"/", kSha}}), HasSubstr("path of no file"));
  EXPECT_THAT(Error({{"a", kSha}, {"a/b/c", kSha}}),
              HasSubstr("'a/b/c' lies below another input"));
}

TEST_F(InputsTest, WhatSortsBetweenAFolderAndItsFilesHidesNothing) {
  EXPECT_THAT(Error({{"a", kSha}, {"a!", kSha}, {"a-b", kSha}, {"a/b", kSha}}),
              HasSubstr("'a/b' lies below another input"));
  EXPECT_THAT(Error({{"/a", kSha}, {"/a/b/c", kSha}}), HasSubstr("lies below"));
  EXPECT_THAT(Error({{"../a/b", kSha}, {"../a", kSha}}),
              HasSubstr("'../a/b' lies below another input"));
  EXPECT_THAT(Places(Of({"a", "a!/b", "a-b", "ab/c"})),
              ElementsAre("a", "a!/b", "a-b", "ab/c"));
}

TEST_F(InputsTest, FoldersEndAtASlash) {
  Inputs inputs = Of({"a/1", "a!/2", "a-b/3", "../a/4", "/a/5"});
  EXPECT_EQ(*inputs.Resolve("f", "a"), kBelow + "up/a");
  EXPECT_THAT(std::string(inputs.CheckAllUsed().message()),
              HasSubstr("is not named"));
  EXPECT_EQ(*inputs.Resolve("f", "a!"), kBelow + "up/a!");
  EXPECT_EQ(*inputs.Resolve("f", "a-b/3"), kBelow + "up/a-b/3");
  EXPECT_EQ(*inputs.Resolve("f", "/a"), kBelow + "root/a");
  EXPECT_FALSE(inputs.CheckAllUsed().ok());
  EXPECT_EQ(*inputs.Resolve("f", "../a"), kBelow + "a");
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
}

// The same places as by std::filesystem, of every short path of these.
TEST_F(InputsTest, PathsAreNormalAsTheFileSystemHasThem) {
  const std::string letters = "./a";
  int compared = 0;
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    std::string path;
    for (int i = 0, rest = code; i < 7; ++i, rest /= 3) {
      path += letters[rest % 3];
    }
    auto normal = fs::path(path).lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    const std::string text = normal.generic_string();
    if (text.find("..") != std::string::npos || text == "." || text == "/" ||
        text.empty()) {
      continue;
    }
    EXPECT_THAT(Places(Of({path})),
                ElementsAre(text[0] == '/' ? "root" + text : text))
        << path;
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

// As many as a request may have, as deep and as long: each step of theirs is
// looked at a few times, not once for each step around it.
TEST_F(InputsTest, AsManyPathsAsThereMayBe) {
  std::vector<InputFile> files;
  std::string deep;
  for (int i = 0; i < 61; ++i) deep += "d/";
  for (int i = 0; i < 118'000; ++i) {
    files.push_back(
        {deep + std::to_string(i % 100) + "/" + std::to_string(i), kSha});
  }
  const std::string step(60, 's');
  std::string longest;
  for (int i = 0; i < 62; ++i) longest += step + "/";
  for (int i = 0; i < 2000; ++i) {
    files.push_back({longest + std::to_string(i), kSha});
  }
  auto inputs = Ok(Inputs::Create(files, kJob, files_, blobs_));
  for (int i = 0; i < 118'000; ++i) {
    EXPECT_TRUE(inputs.Resolve("f", deep + std::to_string(i % 100)).ok());
    EXPECT_TRUE(inputs.Resolve("f", "d/d").ok());
  }
  EXPECT_FALSE(inputs.CheckAllUsed().ok());
  EXPECT_TRUE(inputs.Resolve("f", longest).ok());
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
  EXPECT_EQ(inputs.Links().size(), files.size());
}

}  // namespace
}  // namespace mpsd::jobs
