// SPDX-License-Identifier: Apache-2.0
#include "client/model.h"

#include "absl/strings/str_split.h"
#include "tests/client/client_fixture.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::client {
namespace {

void WriteText(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A safetensors file with one tensor of `data` bytes.
std::string Weights(size_t data) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[)" +
                             std::to_string(data) + R"(],"data_offsets":[0,)" +
                             std::to_string(data) + "]}}";
  std::string bytes;
  for (uint64_t n = header.size(), i = 0; i < 8; ++i, n >>= 8) {
    bytes.push_back(static_cast<char>(n & 0xff));
  }
  return bytes + header + std::string(data, 'w');
}

// A small model of 100 bytes of weights, and a README.
void WriteModelFolder(const fs::path& folder) {
  WriteText(folder / "config.json", R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "vocab_size": 32, "hidden_size": 16, "intermediate_size": 32,
      "num_hidden_layers": 1, "num_attention_heads": 2,
      "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
      "hidden_act": "silu"})");
  WriteText(folder / "tokenizer.json", "{}");
  WriteText(folder / "model.safetensors", Weights(100));
  WriteText(folder / "README.md", "to read");
}

class LocalModelTest : public testing::Test {
 protected:
  LocalModelTest() { WriteModelFolder(folder_); }

  std::vector<std::string> Paths() {
    const auto model = ReadLocalModel(folder_);
    EXPECT_TRUE(model.ok()) << model.status();
    std::vector<std::string> paths;
    if (!model.ok()) return paths;
    for (const LocalFile& file : model->files) paths.push_back(file.path);
    left_out_ = model->left_out;
    return paths;
  }

  const fs::path folder_ = FreshFolder("model");
  std::vector<std::string> left_out_;
};

TEST_F(LocalModelTest, TakesWhatMpsdReadsAndSaysWhatItLeavesOut) {
  WriteText(folder_ / "pytorch_model.bin", "x");
  WriteText(folder_ / "onnx/model.onnx", "x");
  WriteText(folder_ / ".gitattributes", "x");
  WriteText(folder_ / "additional_chat_templates/tool.jinja", "x");
  WriteText(folder_ / "additional_chat_templates/notes.txt", "x");
  EXPECT_THAT(Paths(),
              ElementsAre("additional_chat_templates/tool.jinja", "config.json",
                          "model.safetensors", "tokenizer.json"));
  EXPECT_THAT(left_out_, ElementsAre(".gitattributes", "README.md",
                                     "additional_chat_templates/notes.txt",
                                     "onnx", "pytorch_model.bin"));
}

// Gigabytes that no job would read.
TEST_F(LocalModelTest, TakesTheWeightsOnce) {
  WriteText(folder_ / "model-00001-of-00001.safetensors", Weights(5));
  WriteText(folder_ / "model.fp16.safetensors", Weights(5));
  WriteText(folder_ / "model.safetensors.index.json",
            R"({"weight_map": {"a": "model-00001-of-00001.safetensors"}})");
  EXPECT_THAT(Paths(), ElementsAre("config.json", "model.safetensors",
                                   "tokenizer.json"));
  fs::remove(folder_ / "model.safetensors");
  EXPECT_THAT(Paths(),
              ElementsAre("config.json", "model-00001-of-00001.safetensors",
                          "model.safetensors.index.json", "tokenizer.json"));
}

TEST_F(LocalModelTest, FollowsLinksAsASnapshotHasThem) {
  const fs::path blob = folder_.string() + "-blob";
  WriteText(blob, Weights(7));
  fs::remove(folder_ / "model.safetensors");
  fs::create_symlink(blob, folder_ / "model.safetensors");
  EXPECT_THAT(Paths(), ElementsAre("config.json", "model.safetensors",
                                   "tokenizer.json"));
  fs::remove(blob);
}

TEST_F(LocalModelTest, WhatMpsdWouldRefuseIsSaidHere) {
  WriteText(folder_ / "model.safetensors", Weights(100).substr(0, 90));
  const auto cut = ReadLocalModel(folder_);
  EXPECT_THAT(std::string(cut.status().message()),
              HasSubstr("model.safetensors: "));
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr(folder_.string()));
  WriteText(folder_ / "model.safetensors", Weights(100));
  fs::rename(folder_ / "tokenizer.json", folder_ / "vocab.txt");
  EXPECT_THAT(std::string(ReadLocalModel(folder_).status().message()),
              HasSubstr("has no tokenizer.json"));
  fs::remove(folder_ / "config.json");
  EXPECT_TRUE(absl::IsNotFound(ReadLocalModel(folder_).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadLocalModel(folder_ / "none").status()));
}

class ModelAdviceTest : public ClientTest {
 protected:
  static grpc::Status NoModel() {
    return grpc::Status(StatusCode::FAILED_PRECONDITION,
                        "model: there is no model folder there");
  }
  static std::string Spec(const std::string& model) {
    return nlohmann::json({{"model", model}}).dump();
  }
};

TEST_F(ModelAdviceTest, AFolderOfThisMachineIsToBeSent) {
  const std::string folder = folder_ / "tiny";
  WriteModelFolder(folder);
  EXPECT_EQ(ModelAdvice(Spec(folder), NoModel()),
            "The folder is on this machine: send it with `mpsctl model push " +
                folder + "`, and write \"model\": \"tiny\" into job.json.");
}

TEST_F(ModelAdviceTest, OtherErrorsAndModelsGetNone) {
  const std::string folder = folder_ / "tiny";
  EXPECT_EQ(ModelAdvice(Spec(folder), NoModel()), "") << "no folder here";
  WriteModelFolder(folder);
  EXPECT_EQ(ModelAdvice(Spec("org/m"), NoModel()), "");
  for (const std::string& spec :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"model": 7})"), std::string(100'000, '[')}) {
    EXPECT_EQ(ModelAdvice(spec, NoModel()), "") << spec.substr(0, 20);
  }
  EXPECT_EQ(
      ModelAdvice(Spec(folder), grpc::Status(StatusCode::FAILED_PRECONDITION,
                                             "the job needs about 80 GiB")),
      "");
  EXPECT_EQ(ModelAdvice(Spec(folder), grpc::Status(StatusCode::INVALID_ARGUMENT,
                                                   "model: of type t5")),
            "");
}

TEST_F(ModelAdviceTest, TheNameOfAFolder) {
  EXPECT_EQ(ModelNameOf(folder_ / "tiny"), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "tiny/"), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "a" / ".." / "tiny" / "."), "tiny");
  EXPECT_EQ(ModelNameOf(folder_ / "models--org--m" / "snapshots" / "c0ffee"),
            "org/m");
}

class ModelListTest : public ClientTest {
 protected:
  v1::Model& Add(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    model.set_size_bytes(270'000'000);
    model.set_family("llama");
    model.set_parameters(134'515'008);
    model.add_tasks("CAUSAL_LM");
    model.set_least_memory_bytes(1'200'000'000);
    model.set_fits(true);
    model.set_owner("ann");
    SetTime(model.mutable_last_use_time(), absl::Minutes(3));
    return models().listed.emplace_back(model);
  }
};

TEST_F(ModelListTest, ATable) {
  Add("tiny");
  v1::Model& pulled = Add("org/big");
  pulled.set_pulled(true);
  pulled.clear_owner();
  pulled.set_fits(false);
  pulled.clear_last_use_time();
  pulled.set_unfinished_jobs(2);
  EXPECT_THAT(
      RunVerb({"model", "list"}),
      Prints(
          "NAME     SIZE       FAMILY  PARAMETERS   TASKS      MEMORY    FITS  "
          "USED       FROM\n"
          "tiny     257.5 MiB  llama   134,515,008  CAUSAL_LM  1.12 GiB  yes   "
          "3m00s ago  ann\n"
          "org/big  257.5 MiB  llama   134,515,008  CAUSAL_LM  1.12 GiB  no    "
          "2 jobs     the hub\n"));
}

TEST_F(ModelListTest, WhatIsNotKnownAndWhatIsWrong) {
  v1::Model model;
  model.set_name("odd");
  model.set_problem("an architecture\x1b[2J that mpsd does not have");
  models().listed.push_back(model);
  EXPECT_THAT(RunVerb({"model", "list"}).out,
              AllOf(HasSubstr("odd   0 B   -       -           -      -"),
                    HasSubstr("odd: an architecture"), Not(HasSubstr("\x1b"))));
}

TEST_F(ModelListTest, OneOrNone) {
  EXPECT_THAT(RunVerb({"model", "list"}).out, HasSubstr("mpsctl model push"));
  Add("tiny");
  Add("other");
  EXPECT_THAT(RunVerb({"model", "list", "tiny"}).out, Not(HasSubstr("other")));
  EXPECT_THAT(RunVerb({"model", "list", "none"}),
              Fails(4, HasSubstr("mpsd has no model none\n")));
  EXPECT_THAT(RunVerb({"model", "list", "tiyn"}),
              Fails(4, HasSubstr("no model tiyn; did you mean tiny?\n")));
  EXPECT_EQ(ParseJson(Out({"model", "list", "tiny", "--json"}))["size_bytes"],
            270000000);
  Fail("ListModels", StatusCode::UNIMPLEMENTED, "");
  EXPECT_EQ(RunVerb({"model", "list"}).code, 6);
}

class ModelPushTest : public ClientTest {
 protected:
  ModelPushTest() { WriteModelFolder(model_); }

  const fs::path model_ = folder_ / "tiny";
};

TEST_F(ModelPushTest, SendsTheFilesAndNamesTheModel) {
  const Result result = RunVerb({"model", "push", model_.string()});
  EXPECT_EQ(result.code, 0) << result.err;
  const v1::PushModelRequest& request = Only(models().pushed);
  EXPECT_EQ(request.name(), "tiny");
  ASSERT_EQ(request.files_size(), 3);
  EXPECT_EQ(request.files(1).path(), "model.safetensors");
  EXPECT_EQ(request.files(1).sha256(), base::Sha256Hex(Weights(100)));
  EXPECT_EQ(request.files(1).size_bytes(),
            static_cast<int64_t>(Weights(100).size()));
  EXPECT_THAT(data().blobs, SizeIs(3));
  EXPECT_THAT(result.out, HasSubstr("Model tiny is there: "));
  EXPECT_THAT(result.out, HasSubstr("Name it in job.json: \"model\": "
                                    "\"tiny\""));
  EXPECT_THAT(
      result.err,
      HasSubstr("left out, as mpsd does not read such files: README.md\n"));
}

TEST_F(ModelPushTest, SendsNothingTwice) {
  ASSERT_EQ(RunVerb({"model", "push", model_.string()}).code, 0);
  const int uploads = data().uploads;
  ASSERT_EQ(RunVerb({"model", "push", model_.string(), "--name", "org/t"}).code,
            0);
  EXPECT_EQ(data().uploads, uploads);
  EXPECT_EQ(models().pushed.back().name(), "org/t");
  const std::string json = Out({"--json", "model", "push", model_.string()});
  EXPECT_EQ(ParseJson(json)["model"]["name"], "tiny");
}

TEST_F(ModelPushTest, AWrongNameIsSaidBeforeAnythingIsSent) {
  EXPECT_THAT(RunVerb({"model", "push", model_.string(), "--name", "my model"}),
              Fails(2, HasSubstr("Choose a name with --name")));
  EXPECT_THAT(data().blobs, IsEmpty());
  WriteText(model_ / "model.safetensors", "version https://git-lfs\n");
  daemon_->Stop();
  EXPECT_THAT(RunVerb({"model", "push", model_.string()}),
              Fails(2, AllOf(HasSubstr("git lfs pull"),
                             HasSubstr("Nothing was sent."))));
  daemon_->Start();
}

TEST_F(ModelPushTest, ContinuesAfterADaemonThatWasAway) {
  Fail("Push", StatusCode::UNAVAILABLE, "mpsd is stopping");
  EXPECT_THAT(RunVerb({"model", "push", model_.string()}), Prints());
  EXPECT_THAT(models().pushed, SizeIs(2));
}

TEST_F(ModelPushTest, WhatMpsdRefusesIsReportedOnce) {
  Fail("Push", StatusCode::PERMISSION_DENIED,
       "name: the model tiny is bob's: choose another name");
  EXPECT_THAT(RunVerb({"model", "push", model_.string()}),
              Fails(8, HasSubstr("bob's")));
  EXPECT_THAT(models().pushed, SizeIs(1));
}

class ModelPullTest : public ClientTest {
 protected:
  static v1::PullModelProgress News(int64_t received, const std::string& note) {
    v1::PullModelProgress news;
    news.set_received_bytes(received);
    news.set_note(note);
    return news;
  }
  static v1::PullModelProgress Done() {
    v1::PullModelProgress news = News(100, "");
    news.mutable_model()->set_name("org/m");
    news.mutable_model()->set_size_bytes(100);
    news.mutable_model()->set_family("llama");
    return news;
  }
};

TEST_F(ModelPullTest, ShowsHowItGoesAndWhatToWriteIntoJobJson) {
  models().pulls = {{News(10, "model.safetensors: 11%"),
                     News(60, "model.safetensors: 60%"), Done()}};
  EXPECT_THAT(
      RunVerb({"model", "pull", "org/m"}),
      Prints(AllOf(HasSubstr("model.safetensors: 11%\n"), Not(HasSubstr("60%")),
                   HasSubstr("Model org/m is there: "),
                   HasSubstr("\"model\": \"org/m\""))))
      << "a line in ten seconds";
  EXPECT_EQ(Only(models().pull_requests).id(), "org/m");
  EXPECT_EQ(models().pull_requests[0].revision(), "");
}

TEST_F(ModelPullTest, TheRevisionFollowsTheAt) {
  models().pulls = {{Done()}};
  ASSERT_EQ(RunVerb({"model", "pull", "org/m@refs/pr/1"}).code, 0);
  EXPECT_EQ(models().pull_requests[0].id(), "org/m");
  EXPECT_EQ(models().pull_requests[0].revision(), "refs/pr/1");
  EXPECT_THAT(RunVerb({"model", "pull", "org/m@"}),
              Fails(2, HasSubstr("no revision")));
}

TEST_F(ModelPullTest, DetachLeavesOnceThePullHasBegun) {
  models().pulls = {{News(0, "hf download runs")}};
  models().pulls_wait = true;
  EXPECT_THAT(RunVerb({"model", "pull", "--detach", "org/m"}),
              Prints(AllOf(HasSubstr("mpsd pulls org/m.\n"),
                           HasSubstr("mpsctl model pull --cancel org/m"))));
}

TEST_F(ModelPullTest, ShowsWhatHfSaidOfItsFailure) {
  Fail("Pull", StatusCode::FAILED_PRECONDITION,
       "hf download failed (exit status 1): Error: Repository not found");
  for (const char* detach : {"--detach", "--patience=9"}) {
    models().pull_requests.clear();
    models().pulls = {{}};
    EXPECT_THAT(
        RunVerb({"model", "pull", detach, "org/m"}),
        Fails(testing::Ne(0), HasSubstr("Error: Repository not found")));
    Fail("Pull", StatusCode::FAILED_PRECONDITION,
         "Error: Repository not found");
  }
}

TEST_F(ModelPullTest, CancelNamesThePull) {
  const std::string out = Out({"model", "pull", "--cancel", "org/m@v2"});
  EXPECT_EQ(Only(models().cancelled).revision(), "v2");
  EXPECT_THAT(out, HasSubstr("what arrived stays"));
  EXPECT_THAT(models().pull_requests, IsEmpty());
  EXPECT_EQ(RunVerb({"model", "pull", "--cancel", "--detach", "org/m"}).code,
            2);
}

TEST_F(ModelPullTest, PullsAgainAfterARestartOfTheDaemon) {
  models().pulls = {{News(10, "first")}, {News(20, "second"), Done()}};
  Fail("Pull", StatusCode::UNAVAILABLE,
       "mpsd stops: pull again, what arrived is in the cache");
  const Result result = RunVerb({"model", "pull", "org/m"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(models().pull_requests, SizeIs(2));
  EXPECT_THAT(result.err, HasSubstr("lost the connection"));
}

// What the daemon says of hf, or of a cancel, is the end: no other pull
// begins.
TEST_F(ModelPullTest, TheEndOfThePullIsTheEnd) {
  const std::vector<grpc::Status> ends = {
      {StatusCode::UNAVAILABLE,
       "the pull of org/m@main is just ending: pull again"},
      {StatusCode::CANCELLED, "root cancelled the pull of org/m@main"},
      {StatusCode::RESOURCE_EXHAUSTED, "the pull took longer than 24h"}};
  for (const grpc::Status& end : ends) {
    models().pull_requests.clear();
    models().pulls = {{News(10, "first")}, {Done()}};
    data().fail["Pull"] = end;
    EXPECT_THAT(RunVerb({"model", "pull", "org/m"}),
                Fails(testing::Ne(0), HasSubstr(end.error_message())));
    EXPECT_THAT(models().pull_requests, SizeIs(1));
  }
}

TEST_F(ModelPullTest, JsonIsAnObjectALine) {
  models().pulls = {{News(10, "first"), Done()}};
  const std::vector<std::string> lines = absl::StrSplit(
      Out({"--json", "model", "pull", "org/m"}), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(ParseJson(lines[0])["note"], "first");
  EXPECT_EQ(ParseJson(lines[1])["model"]["name"], "org/m");
}

TEST_F(ModelPullTest, WordsOfTheHubMoveNoCursor) {
  models().pulls = {{News(10, "\x1b[2J\nFORGED"), Done()}};
  EXPECT_THAT(RunVerb({"model", "pull", "org/m"}).out,
              AllOf(HasSubstr("\\x1b[2J FORGED"), Not(HasSubstr("\x1b[2J"))));
}

class ModelRemoveTest : public ClientTest {
 protected:
  v1::Model& Add(const std::string& name) {
    v1::Model model;
    model.set_name(name);
    model.set_size_bytes(2'000'000);
    return models().listed.emplace_back(model);
  }
};

TEST_F(ModelRemoveTest, RemovesEachAndSaysWhatComesBack) {
  Add("a");
  Add("org/b").set_pulled(true);
  const std::string out = Out({"model", "rm", "a", "org/b"});
  EXPECT_THAT(models().removed, ElementsAre("a", "org/b"));
  EXPECT_THAT(
      out, HasSubstr("Model a is removed, 1.9 MiB will be freed once uploads"));
  EXPECT_THAT(out, HasSubstr("Model org/b is removed, 1.9 MiB freed.\n"));
}

TEST_F(ModelRemoveTest, ContinuesAfterOneThatIsNotThere) {
  Add("b");
  EXPECT_THAT(RunVerb({"model", "rm", "none", "b"}),
              Fails(4, HasSubstr("mpsd has no model none")));
  EXPECT_THAT(models().removed, ElementsAre("b"));
  Add("a");
  EXPECT_EQ(RunVerb({"model", "rm", "a", "--json"}).out,
            "{\"name\":\"a\",\"freed_bytes\":2000000}\n");
  Fail("RemoveModel", StatusCode::FAILED_PRECONDITION,
       "a job that has not ended needs the model a");
  EXPECT_THAT(RunVerb({"model", "rm", "a"}),
              Fails(2, HasSubstr("needs the model a")));
}

}  // namespace
}  // namespace mpsd::client
