// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/submission.h"

#include <fstream>

#include "core/base/limits.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

UserLimits With(const std::string& key, const std::string& value) {
  UserLimits limits;
  const absl::Status set = SetLimit(limits, key, value);
  EXPECT_TRUE(set.ok()) << key << ": " << set;
  return limits;
}

TEST(UserLimits, ReadsCountsBytesAndRanges) {
  EXPECT_EQ(With("queued-jobs", "20").queued_jobs, 20);
  EXPECT_EQ(With("queued-jobs", "0").queued_jobs, 0);
  EXPECT_EQ(With("upload-bytes", "5000").upload_bytes, 5000);
  EXPECT_EQ(With("upload-bytes", "3KiB").upload_bytes, 3 << 10);
  EXPECT_EQ(With("result-bytes", "20 GiB").result_bytes, int64_t{20} << 30);
  EXPECT_EQ(With("result-bytes", "2TiB").result_bytes, int64_t{2} << 40);
  EXPECT_EQ(With("priority", "-10:7").lowest_priority, -10);
  EXPECT_EQ(With("priority", "-10:7").highest_priority, 7);
  for (const char* key : kLimitKeys) {
    EXPECT_EQ(With(key, "none"), UserLimits()) << key;
  }
}

TEST(UserLimits, ReadsTheRulesOfRetention) {
  EXPECT_EQ(With("keep-days", "1.5").keep.age, absl::Hours(36));
  EXPECT_EQ(With("keep-days", "0").keep.age, absl::ZeroDuration());
  EXPECT_EQ(With("keep-jobs", "7").keep.jobs, 7);
  EXPECT_EQ(With("keep-bytes", "2TiB").keep.bytes, int64_t{2} << 40);
  EXPECT_EQ(With("keep-checkpoints-days", "7").keep.checkpoint_age,
            absl::Hours(7 * 24));
  for (const char* key : kKeepKeys) {
    EXPECT_TRUE(With(key, "none").keep.KeepAll()) << key;
    EXPECT_FALSE(With(key, "3").keep.KeepAll()) << key;
    UserLimits limits;
    EXPECT_TRUE(absl::IsInvalidArgument(SetLimit(limits, key, "-3"))) << key;
    EXPECT_TRUE(absl::IsInvalidArgument(SetLimit(limits, key, "nan"))) << key;
  }
}

TEST(UserLimits, RefusesWhatIsNoLimit) {
  UserLimits limits;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, const char*>>{
           {"queued-jobs", "-1"},      {"queued-jobs", "many"},
           {"queued-jobs", ""},        {"queued-jobs", "5GiB"},
           {"upload-bytes", "-5"},     {"upload-bytes", "5GB"},
           {"upload-bytes", "GiB"},    {"upload-bytes", "9999999999TiB"},
           {"result-bytes", "1.5GiB"}, {"priority", "5"},
           {"priority", "5:1"},        {"priority", ":5"},
           {"priority", "1:2:3"},      {"priority", "1:99999999999"},
           {"job-hours", "-1"},        {"job-hours", "nan"},
           {"job-hours", "inf"},       {"job-hours", "2h"},
           {"job-hours", "1e7"},       {"disk", "5"}}) {
    EXPECT_THAT(SetLimit(limits, key, value),
                Fails(kInvalidArgument,
                      key == std::string("disk") ? "queued-jobs" : "expected"))
        << key << " = " << value;
  }
  EXPECT_EQ(limits, UserLimits());
}

TEST(UserLimits, EachLimitHoldsAtItsFigureAndNotPastIt) {
  const UserLimits limits{2, 100, 50, -1, 1};
  EXPECT_TRUE(CheckQueued("ada", limits, 1).ok());
  EXPECT_FALSE(CheckQueued("ada", limits, 2).ok());
  EXPECT_TRUE(CheckPriority("ada", limits, -1).ok());
  EXPECT_TRUE(CheckPriority("ada", limits, 1).ok());
  EXPECT_FALSE(CheckPriority("ada", limits, -2).ok());
  EXPECT_FALSE(CheckPriority("ada", limits, 2).ok());
  EXPECT_TRUE(CheckUploads("ada", limits, 40, 60).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, 40, 61).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, 40, int64_t{1} << 62).ok());
  EXPECT_FALSE(CheckUploads("ada", limits, int64_t{1} << 62, 0).ok());
  EXPECT_TRUE(CheckResults("ada", limits, 49).ok());
  EXPECT_FALSE(CheckResults("ada", limits, 50).ok());
}

// What the message says can be put into the file unchanged.
TEST(UserLimits, ATableIsSpelledAsTomlSpellsIt) {
  const UserLimits limits{0, {}, {}};
  EXPECT_THAT(
      CheckQueued("ada.l@example.org", limits, 0),
      Fails(kResourceExhausted, "[user.\"ada.l@example.org\"] queued-jobs"));
  EXPECT_THAT(CheckQueued("ada-l_2", limits, 0),
              Fails(kResourceExhausted, "[user.ada-l_2]"));
}

TEST(UserLimits, AUsersOwnLimitsCount) {
  LimitSettings settings;
  settings.others = With("queued-jobs", "5");
  settings.users["ada"] = With("queued-jobs", "50");
  EXPECT_EQ(settings.Of("ada").queued_jobs, 50);
  EXPECT_EQ(settings.Of("bob").queued_jobs, 5);
  EXPECT_EQ(settings.Of("").queued_jobs, 5);
}

spec::ModelConfig TinyViT() {
  spec::ModelConfig config = fakes::TinyModel();
  config.family = spec::Family::kVision;
  config.model_type = "vit";
  return config;
}

class SubmissionTest : public testing::Test {
 protected:
  SubmissionTest() {
    files_.models["org/tiny"] =
        JobFiles::Model{"/models/tiny", fakes::TinyModel()};
    files_.paths = {"/data/there.jsonl", "/adapters/there"};
    blobs_.present = {kSha, kOther};
    request_.spec_json = Spec(R"("train.jsonl")");
    request_.inputs = {{"train.jsonl", kSha}};
  }
  static std::string Spec(const std::string& train,
                          const std::string& more = "") {
    return R"({"model": "org/tiny", "dataset": {"train": )" + train + "}" +
           more + "}";
  }
  absl::StatusOr<Submission> Check() {
    return CheckSubmission(request_, "J", files_, blobs_);
  }
  spec::TrainSpec Checked() {
    auto submission = Check();
    EXPECT_TRUE(submission.ok()) << submission.status();
    return *spec::ParseTrainSpec(submission->spec_json, "job.json");
  }
  void ExpectError(absl::StatusCode code, const std::string& text) {
    EXPECT_THAT(Check(), Fails(code, text));
  }

  const std::string kSha = std::string(64, 'a');
  const std::string kOther = std::string(64, 'b');
  fakes::FakeJobFiles files_;
  fakes::FakeBlobs blobs_;
  SubmitRequest request_;
};

std::string Nested(int levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST_F(SubmissionTest, RefusesSpecsThatNestTooDeep) {
  for (const int levels : {limits::kJsonDepth + 1, 100'000}) {
    request_.spec_json = Nested(levels);
    EXPECT_EQ(RequestHash(request_).size(), 64);
    ExpectError(kInvalidArgument, "deeper than 64 levels");
  }
  request_.spec_json = Nested(limits::kJsonDepth);
  EXPECT_EQ(RequestHash(request_).size(), 64);
  ExpectError(kInvalidArgument, "expected an object");
}

TEST_F(SubmissionTest, AKindThatThisMpsdDoesNotHaveIsAnError) {
  request_.kind = static_cast<JobKind>(99);
  ExpectError(kInvalidArgument, "kind: ");
}

TEST_F(SubmissionTest, FilesOfADataSetHaveABound) {
  const auto files = [](size_t count) {
    std::string list = "[\"train.jsonl\"";
    for (size_t i = 1; i < count; ++i) list += ",\"train.jsonl\"";
    return list + "]";
  };
  request_.spec_json = Spec(files(limits::kDatasetFiles + 1));
  ExpectError(kInvalidArgument,
              "dataset: train, eval and predict name 50001 files");
  // Each is a path of this machine then, which is longer.
  request_.spec_json = Spec(files(limits::kDatasetFiles));
  const auto stored = Ok(Check());
  EXPECT_LE(stored.spec_json.size(), limits::kStoredSpecBytes);
  const std::string folder(30, 'f');
  request_.inputs = {{folder + "/train.jsonl", kSha}};
  std::string list = "[\"" + folder + "/train.jsonl\"";
  for (size_t i = 1; i < 33'000; ++i) {
    list += ",\"" + folder + "/train.jsonl\"";
  }
  request_.spec_json = Spec(list + "]");
  ExpectError(kInvalidArgument, "name fewer files");
}

TEST_F(SubmissionTest, RefusesFieldsThatDoNotFit) {
  for (const auto& [more, text] :
       {std::pair(R"(, "lora": {"target_modules": ["qproj"]})",
                  "did you mean \"q_proj\"?"),
        {R"(, "lora": {"modules_to_save": ["score"]})", "lora.modules_to_save"},
        {R"(, "model_id": "me/mine")", "model_id: \"me/mine\""},
        {R"(, "task": "IMAGE_CLS")", "task: "},
        {R"(, "name": "\u200b")", "name: has only spaces or invisible"},
        {R"(, "datset": {})", "dataset"}}) {
    request_.spec_json = Spec(R"("train.jsonl")", more);
    ExpectError(kInvalidArgument, text);
  }
}

TEST_F(SubmissionTest, ReplacesWhatWasUploaded) {
  auto submission = Ok(Check());
  ASSERT_EQ(submission.links.size(), 1);
  EXPECT_EQ(submission.links[0].relative, "train.jsonl");
  EXPECT_EQ(submission.links[0].target, "/state/blobs/" + kSha);
  EXPECT_EQ(Checked().dataset.train[0], "/state/jobs/J/inputs/train.jsonl");
  EXPECT_EQ(Checked().model, "/models/tiny");
  EXPECT_THAT(submission.note, HasSubstr("estimated device memory"));
}

// Results name the id, on any machine.
TEST_F(SubmissionTest, TheRequestedIdIsKeptInAdditionToTheFolder) {
  const std::string folder = "/cache/models--org--cached/snapshots/abc123";
  files_.models["org/cached"] = files_.models[folder] =
      JobFiles::Model{folder, fakes::TinyModel()};
  const auto of = [&](const std::string& model) {
    request_.spec_json =
        R"({"model": ")" + model + R"(", "dataset": {"train": "train.jsonl"}})";
    const spec::TrainSpec spec = Checked();
    EXPECT_EQ(spec.model, folder);
    return spec;
  };
  EXPECT_EQ(of("org/cached").model_id, "org/cached");
  EXPECT_EQ(of(folder).model_id, "");
  EXPECT_EQ(spec::BaseModelOf(of("org/cached"), folder),
            (spec::BaseModel{"org/cached", "abc123"}));
  // What `show` prints may be submitted again.
  request_.spec_json = Check()->spec_json;
  request_.inputs.clear();
  files_.paths.insert("/state/jobs/J/inputs/train.jsonl");
  EXPECT_EQ(Checked().model, folder);
}

TEST_F(SubmissionTest, AJobWithoutANameIsCalledAfterItsModelAndData) {
  EXPECT_EQ(Ok(Check()).name, "tiny-train");
  EXPECT_EQ(Checked().name, "");  // a run resumes by its spec
  request_.spec_json = Spec(R"("up/moods/train/")");
  request_.inputs = {{"up/moods/train/a.jsonl", kSha}};
  EXPECT_EQ(Ok(Check()).name, "tiny-moods");
  request_.inputs = {{"train.jsonl", kSha}};
  request_.spec_json = Spec(R"("train.jsonl")", R"(, "name": "mine")");
  EXPECT_EQ(Ok(Check()).name, "mine");
}

TEST_F(SubmissionTest, EveryPartOfTheDataIsPlaced) {
  request_.spec_json = Spec(R"("a/d.csv", "eval": "b/d.csv",
      "predict": "b/p.csv")",
                            R"(, "task": "SEQ_CLS")");
  request_.inputs = {{"a/d.csv", kSha}, {"b/d.csv", kOther}, {"b/p.csv", kSha}};
  const spec::DatasetSpec dataset = Checked().dataset;
  EXPECT_EQ(dataset.train[0], "/state/jobs/J/inputs/a/d.csv");
  EXPECT_EQ(dataset.eval[0], "/state/jobs/J/inputs/b/d.csv");
  EXPECT_EQ(dataset.predict[0], "/state/jobs/J/inputs/b/p.csv");
}

TEST_F(SubmissionTest, ImagesOfAFolderAndOfRowsArePlaced) {
  files_.models["org/tiny"] = JobFiles::Model{"/models/vit", TinyViT()};
  request_.spec_json = Spec(R"("cats_dogs/", "eval": "rows/e.jsonl")",
                            R"(, "task": "IMAGE_CLS")");
  request_.inputs = {{"cats_dogs/cat/1.png", kSha},
                     {"cats_dogs/dog/1.png", kOther},
                     {"rows/e.jsonl", kSha},
                     {"images/e.png", kOther}};
  EXPECT_EQ(Checked().dataset.train[0], "/state/jobs/J/inputs/cats_dogs");
  EXPECT_EQ(Checked().dataset.eval[0], "/state/jobs/J/inputs/rows/e.jsonl");
  EXPECT_EQ(Check()->links.size(), 4u);
}

TEST_F(SubmissionTest, TheEstimateKnowsTheHead) {
  const auto note = [&](const std::string& more) {
    request_.spec_json =
        Spec(R"("train.jsonl")", R"(, "task": "SEQ_CLS", "fine_tune_type":
            "head")" + more);
    auto submission = Check();
    EXPECT_TRUE(submission.ok()) << submission.status();
    return submission->note;
  };
  // "score" of a decoder has no bias: its width times the labels.
  EXPECT_THAT(note(""), HasSubstr(" 32 trainable"));
  EXPECT_THAT(note(R"(, "classification": {"label_names": ["a", "b", "c"]})"),
              HasSubstr(" 48 trainable"));
  EXPECT_THAT(note(R"(, "classification": {"problem_type": "regression"})"),
              HasSubstr(" 16 trainable"));
  EXPECT_THAT(note(R"(, "classification": {"class_weights": [1, 2, 3, 4]})"),
              HasSubstr(" 64 trainable"));
}

TEST_F(SubmissionTest, AJobBeyondTheMachineIsRefused) {
  const auto fits = [&](const std::string& more, MachineMemory memory) {
    request_.spec_json = R"({"model": "org/tiny", "dataset": {"train":
        "/data/t"})" + more +
                         "}";
    return CheckSubmission(request_, "J", files_, blobs_, memory).status();
  };
  files_.paths.insert("/data/t");
  request_.inputs.clear();
  ASSERT_TRUE(fits("", {}).ok()) << fits("", {});
  const int64_t needs =
      CheckSubmission(request_, "J", files_, blobs_)->memory_bytes;
  ASSERT_GT(needs, 0);
  EXPECT_TRUE(fits("", {needs, "", 0}).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(fits("", {needs - 1, "", 0})));
  // What the system recommends for the device counts, where it is the job's.
  EXPECT_TRUE(absl::IsFailedPrecondition(
      fits("", {int64_t{1} << 40, "mps", needs - 1})));
  EXPECT_TRUE(fits("", {1, "mps", needs}).ok());
  EXPECT_TRUE(fits(R"(, "device": "cpu")", {needs, "mps", 1}).ok());
  EXPECT_TRUE(fits(R"(, "device": "cuda")", {1, "", 0}).ok())
      << "its content is unknown";
  EXPECT_TRUE(absl::IsFailedPrecondition(
      fits(R"(, "device": "cuda")", {needs, "cuda", 1})));
  // The trainer may choose rows one by one, whose layers are computed anew.
  EXPECT_TRUE(fits(R"(, "training": {"auto_find_batch_size": true})",
                   {needs - 1, "", 0})
                  .ok());
  request_.anyway = true;
  EXPECT_TRUE(fits("", {1, "", 0}).ok());
}

TEST_F(SubmissionTest, MemoryIsEstimatedAtTheLongestRow) {
  const fs::path file = FreshFolder("rows") / "train.csv";
  files_.paths.insert(file.string());
  request_.inputs.clear();
  const auto memory = [&](const std::string& rows, const std::string& more) {
    std::ofstream(file) << rows;
    request_.spec_json =
        Spec("\"" + file.string() + "\"",
             R"(, "training": {"max_length": 4000)" + more + "}");
    return Ok(Check()).memory_bytes;
  };
  const int64_t whole = memory(std::string(5000, 'a') + "\n", "");
  const int64_t rows = memory("text\n" + std::string(300, 'a') + "\n", "");
  EXPECT_LT(rows, whole);
  // A line that ends within quotes ends no row, and packed rows are whole.
  const std::string lines = "\"" + std::string(2500, '\n') + "\"";
  EXPECT_GT(memory(lines, ""), rows);
  EXPECT_EQ(memory("text\na\n", R"(, "packing": true)"), whole);
}

TEST_F(SubmissionTest, AnAdapterIsAFolderOfInputs) {
  request_.spec_json =
      Spec(R"("train.jsonl")", R"(, "adapter": "../out/adapter/")");
  request_.inputs.push_back({"../out/adapter/adapter_config.json", kOther});
  request_.inputs.push_back({"../out/adapter/sub/weights", kOther});
  EXPECT_EQ(Checked().adapter, "/state/jobs/J/inputs/out/adapter");
  auto submission = Check();
  ASSERT_EQ(submission->links.size(), 3);
  EXPECT_EQ(submission->links[0].relative, "out/adapter/adapter_config.json");
  EXPECT_EQ(submission->links[1].relative, "out/adapter/sub/weights");
  EXPECT_EQ(submission->links[2].relative, "up/train.jsonl");
}

TEST_F(SubmissionTest, AChatTemplateIsAnInput) {
  const auto spec = [](const std::string& path) {
    return Spec(R"("train.jsonl")",
                R"(, "training": {"chat_template_path": ")" + path + "\"}");
  };
  request_.spec_json = spec("my/chat.jinja");
  ExpectError(kInvalidArgument, "training.chat_template_path");
  request_.inputs.push_back({"my/chat.jinja", kOther});
  EXPECT_EQ(Checked().training.chat_template_path,
            "/state/jobs/J/inputs/my/chat.jinja");
  request_.spec_json = spec("my");
  EXPECT_EQ(Checked().training.chat_template_path, "/state/jobs/J/inputs/my");
}

TEST_F(SubmissionTest, RefusesInputsThatMakeNoSense) {
  request_.inputs[0].sha256 = "beef";
  ExpectError(kInvalidArgument, "64");
  request_.inputs[0].sha256 = std::string(64, 'c');
  ExpectError(kFailedPrecondition, "not been uploaded");
  request_.inputs = {{"train.jsonl", kSha}, {"../../etc/passwd", kSha}};
  ExpectError(kInvalidArgument, "not named by the spec");
}

TEST_F(SubmissionTest, TheModelMustBeHereAndKnown) {
  files_.models.clear();
  ExpectError(kFailedPrecondition, "model: no model");
  files_.models["org/tiny"] = absl::UnimplementedError("T5");
  ExpectError(kInvalidArgument, "model: T5");
  files_.models["org/tiny"] = absl::InvalidArgumentError("bad config.json");
  ExpectError(kFailedPrecondition, "bad config.json");
  request_.spec_json =
      R"({"model": "./tiny", "dataset": {"train": "train.jsonl"}})";
  ExpectError(kInvalidArgument, "absolute");
}

TEST_F(SubmissionTest, TheHashIsOfTheMeaning) {
  SubmitRequest a = request_;
  a.spec_json = R"({"model": "m", "dataset": {"train": "t"}})";
  a.inputs = {{"t", kSha}, {"u", kOther}};
  SubmitRequest b = a;
  b.spec_json = "{ \"dataset\": {\"train\":\"t\"},\n\"model\": \"m\" }";
  b.inputs = {{"u", kOther}, {"t", kSha}};
  b.idempotency_key = "another";
  EXPECT_EQ(RequestHash(a), RequestHash(b));
  EXPECT_EQ(RequestHash(a).size(), 64);
  b.spec_json = R"({"$schema": "s", "model": "m", "dataset": {"train": "t"}})";
  EXPECT_EQ(RequestHash(a), RequestHash(b));
  const auto differs = [&](auto change) {
    SubmitRequest c = a;
    change(c);
    return RequestHash(c) != RequestHash(a);
  };
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.priority = 1; }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.owner = "o"; }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.held = true; }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.kind = JobKind(99); }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.after = {"A", "B"}; }));
  SubmitRequest after = a, turned = a;
  after.after = {"A", "B"};
  turned.after = {"B", "A", "B"};
  EXPECT_EQ(RequestHash(after), RequestHash(turned));
  SubmitRequest study = a;
  study.kind = JobKind::kSmoke;
  const std::string hash = RequestHash(study);
  study.study_json = "{}";
  EXPECT_NE(RequestHash(study), hash);
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.labels["k"] = "v"; }));
  EXPECT_TRUE(differs([&](SubmitRequest& r) { r.inputs[0].sha256 = kOther; }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.spec_json = "{}"; }));
  EXPECT_TRUE(differs([](SubmitRequest& r) { r.spec_json = "\xff no JSON"; }));
}

// Rows of earlier versions hold it: the same key must find the same request.
TEST(RequestHash, IsTheOneOfEarlierVersions) {
  SubmitRequest request;
  request.spec_json =
      R"({"training": {"max_steps": 5}, "model": "org/tiny", "name": "ä",
          "dataset": {"train": ["b.jsonl", "a.jsonl"]}})";
  request.inputs = {{"b.jsonl", std::string(64, 'b')},
                    {"a.jsonl", std::string(64, 'a')}};
  request.priority = 2;
  request.owner = "ana";
  request.labels = {{"team", "nlp"}};
  EXPECT_EQ(RequestHash(request),
            "0e70ab1a9a02783c92d3cfaad53a475e21160972822f84c9220cb0f072052d3a");
}

TEST_F(SubmissionTest, ABlobThatTheUserMayNotUseCountsAsNotThere) {
  request_.may_use_blob = [&](const std::string& sha256) {
    return sha256 == kOther;
  };
  auto refused = Check().status();
  blobs_.present.clear();
  EXPECT_EQ(refused, Check().status());  // in the same words
  EXPECT_THAT(refused, Fails(kFailedPrecondition, "has not been uploaded"));
  blobs_.present = {kOther};
  request_.inputs = {{"train.jsonl", kOther}};
  EXPECT_TRUE(Check().ok());
}

TEST_F(SubmissionTest, NamesNoFileOfAPrivateJob) {
  request_.may_read_job = [](const std::string& id) { return id == "MINE"; };
  files_.paths = {"/state/jobs/MINE/out/adapter",
                  "/state/jobs/HERS/out/adapter",
                  "/state/jobs/HERS/inputs/t.jsonl"};
  const auto denied = kPermissionDenied;
  const std::string train = R"("train.jsonl")";
  for (const char* path : {"/state/jobs/HERS/out/adapter",
                           "/state/jobs/HERS/out/none", "/state/jobs/NO/x"}) {
    request_.spec_json =
        Spec(train, R"(, "adapter": ")" + std::string(path) + "\"");
    ExpectError(denied, "lies in the folder of a job that is not yours");
  }
  request_.spec_json =
      Spec(R"(["train.jsonl", "/state/jobs/HERS/inputs/t.jsonl"])");
  ExpectError(denied, "dataset.train");
  request_.spec_json = R"({"model": "/state/jobs/HERS/out/model",
                           "dataset": {"train": "train.jsonl"}})";
  ExpectError(denied, "model: ");
  request_.spec_json =
      Spec(train, R"(, "adapter": "/state/jobs/MINE/out/adapter")");
  EXPECT_EQ(Checked().adapter, "/state/jobs/MINE/out/adapter");
  EXPECT_THAT(Check()->uses, testing::ElementsAre("MINE"));
  request_.may_read_job = {};  // jobs are not private
  request_.spec_json =
      Spec(train, R"(, "adapter": "/state/jobs/HERS/out/adapter")");
  EXPECT_EQ(Checked().adapter, "/state/jobs/HERS/out/adapter");
}

}  // namespace
}  // namespace mpsd::jobs
