// SPDX-License-Identifier: Apache-2.0
#include "client/inputs.h"

#include <sys/stat.h>

#include <thread>

#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

class InputsTest : public ClientTest {
 protected:
  std::string Job(const std::string& body) {
    return Write("job.json", "{" + body + "}");
  }
};

TEST_F(InputsTest, DataAndAdapterRelativeToTheJob) {
  Write("data/train.jsonl", "row");
  Write("eval.jsonl", "other");
  Write("start/adapter_config.json", "{}");
  Write("start/adapter_model.safetensors", "weights");
  Write("start/.DS_Store", "not this");
  const auto job = PrepareJob(Job(R"("model": "org/id", "adapter": "start",
      "dataset": {"train": ["data/train.jsonl"], "eval": ["eval.jsonl"]})"));
  ASSERT_TRUE(job.ok()) << job.status();
  std::vector<std::string> paths;
  for (const LocalFile& file : job->files) {
    paths.push_back(file.path);
    EXPECT_EQ(file.sha256, *base::Sha256File(file.local));
  }
  EXPECT_THAT(paths, testing::ElementsAre("data/train.jsonl", "eval.jsonl",
                                          "start/adapter_config.json",
                                          "start/adapter_model.safetensors"));
  EXPECT_EQ(job->files[0].size_bytes, 3);
}

TEST_F(InputsTest, AChatTemplateIsSentToo) {
  Write("t.jsonl", "row");
  Write("my/chat.jinja", "{{ x }}");
  Write("qwen/tokenizer_config.json", "{}");
  Write("qwen/chat_template.jinja", "y");
  Write("qwen/model.safetensors", "weights");
  Write("bare/model.safetensors", "weights");
  const auto prepare = [&](const std::string& path) {
    return PrepareJob(Job(R"("model": "org/id", "dataset": {"train": "t.jsonl"},
        "training": {"chat_template_path": ")" +
                          path + "\"}"));
  };
  const auto paths = [&](const std::string& path) {
    std::vector<std::string> paths;
    const auto job = prepare(path);
    EXPECT_TRUE(job.ok()) << job.status();
    for (const LocalFile& file : job->files) paths.push_back(file.path);
    return paths;
  };
  EXPECT_THAT(paths("my/chat.jinja"),
              testing::ElementsAre("t.jsonl", "my/chat.jinja"));
  EXPECT_THAT(paths("qwen/"),
              testing::ElementsAre("t.jsonl", "qwen/chat_template.jinja",
                                   "qwen/tokenizer_config.json"));
  EXPECT_THAT(paths("/absent/chat.jinja"), testing::ElementsAre("t.jsonl"));
  EXPECT_THAT(std::string(prepare("absent.jinja").status().message()),
              testing::HasSubstr("training.chat_template_path"));
  EXPECT_THAT(std::string(prepare("bare").status().message()),
              testing::HasSubstr("has neither chat_template.jinja nor"));
}

TEST_F(InputsTest, TheTextIsSentAsItIs) {
  Write("t.jsonl", "row");
  const std::string path =
      Job(R"( "model" : "org/id", "dataset": {"train": ["t.jsonl"]})");
  EXPECT_EQ(PrepareJob(path)->spec_json, Read(path));
}

TEST_F(InputsTest, AModelFolderHereBecomesAbsolute) {
  Write("t.jsonl", "row");
  Write("models/tiny/config.json", "{}");
  const auto job = PrepareJob(
      Job(R"("model": "models/tiny", "dataset": {"train": ["t.jsonl"]})"));
  ASSERT_TRUE(job.ok()) << job.status();
  const auto spec = nlohmann::json::parse(job->spec_json);
  EXPECT_EQ(spec["model"], (folder_ / "models/tiny").string());
  EXPECT_EQ(spec["dataset"]["train"][0], "t.jsonl");
}

TEST_F(InputsTest, AFileNamedTwiceIsSentOnce) {
  Write("t.jsonl", "row");
  const auto job = PrepareJob(Job(R"("model": "org/id",
      "dataset": {"train": ["t.jsonl"], "eval": ["t.jsonl"]})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->files.size(), 1u);
}

TEST_F(InputsTest, AbsolutePathsMayBeTheDaemons) {
  const auto job = PrepareJob(Job(R"("model": "/absent/model",
      "adapter": "/absent/adapter",
      "dataset": {"train": ["/absent/train.jsonl"]})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE(job->files.empty());
}

TEST_F(InputsTest, MissingFilesAreNamed) {
  const auto data = PrepareJob(
      Job(R"("model": "org/id", "dataset": {"train": ["absent.jsonl"]})"));
  EXPECT_EQ(data.status().message(),
            "dataset.train names 'absent.jsonl', and there is no file " +
                (folder_ / "absent.jsonl").string() +
                ". Relative paths count from the folder of job.json.");
  Write("t.jsonl", "row");
  for (const char* field : {"adapter", "model"}) {
    std::string body = R"("dataset": {"train": ["t.jsonl"]})";
    body += field == std::string("model")
                ? R"(, "model": "./absent")"
                : R"(, "model": "org/id", "adapter": "./absent")";
    const auto job = PrepareJob(Job(body));
    EXPECT_EQ(std::string(job.status().message()).find(field), 0u)
        << job.status();
  }
}

class ImageInputsTest : public InputsTest {
 protected:
  static std::vector<std::string> Paths(const PreparedJob& job) {
    std::vector<std::string> paths;
    for (const LocalFile& file : job.files) paths.push_back(file.path);
    return paths;
  }
};

TEST_F(InputsTest, WhatIsToBePredictedIsSentToo) {
  Write("t.csv", "a");
  Write("p.csv", "b");
  const auto job = PrepareJob(Job(R"("model": "org/id", "task": "SEQ_CLS",
      "dataset": {"train": "t.csv", "predict": "p.csv"})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->files[1].path, "p.csv");
}

TEST_F(ImageInputsTest, AFolderWithAFolderForEachClass) {
  Write("pets/cat/1.png", "c");
  Write("pets/dog/2.png", "d");
  Write("pets/dog/.DS_Store", "not this");
  Write("e.safetensors", "{\"image\": 1}");
  const auto job = PrepareJob(Job(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "pets/", "eval": "e.safetensors"})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(Paths(*job),
              testing::ElementsAre("pets/cat/1.png", "pets/dog/2.png",
                                   "e.safetensors"));
}

TEST_F(ImageInputsTest, RowsNameTheirImages) {
  Write("data/rows.jsonl",
        R"({"picture": "1.png", "label": 0}
{"picture": "../more/2.png"}
{"picture": "1.png"}
{"picture": "/on/the/daemon.png"}
not JSON
)");
  Write("data/1.png", "x");
  Write("more/2.png", "y");
  const auto job = PrepareJob(Job(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "./data/rows.jsonl", "image_column": "picture"})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(Paths(*job), testing::ElementsAre("./data/rows.jsonl",
                                                "data/1.png", "more/2.png"));
}

TEST_F(ImageInputsTest, AMissingImageIsNamedWithItsRow) {
  Write("rows.jsonl", "{\"image\": \"a.png\"}\n{\"image\": \"b.png\"}\n");
  Write("a.png", "x");
  const auto job = PrepareJob(Job(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "rows.jsonl"})"));
  EXPECT_THAT(std::string(job.status().message()),
              testing::HasSubstr("rows.jsonl:2: there is no image"));
}

TEST_F(InputsTest, AFolderIsNoData) {
  Write("data/t.jsonl", "row");
  const auto job =
      PrepareJob(Job(R"("model": "org/id", "dataset": {"train": ["data"]})"));
  EXPECT_FALSE(job.ok());
}

TEST_F(InputsTest, AFileOfTwoGigabytesIsNotRead) {
  const fs::path job = Job("");
  fs::resize_file(job, 2LL << 30);
  const absl::Status status = PrepareJob(job).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  // Its size is named, not what its text is no JSON for.
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("longer than"));
}

TEST_F(InputsTest, APipeIsAJobFileToo) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream(pipe) << R"({"model": "m", "dataset": {"train": "/t.txt"}})";
  });
  const auto job = PrepareJob(pipe);
  writer.join();
  EXPECT_TRUE(job.ok()) << job.status();
}

TEST_F(InputsTest, NoJobFile) {
  const auto job = PrepareJob(folder_ / "absent.json");
  EXPECT_NE(std::string(job.status().message()).find("absent.json"),
            std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
