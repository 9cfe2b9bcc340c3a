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
  absl::StatusOr<PreparedJob> Prepare(const std::string& body) {
    return PrepareJob(Job(body));
  }
  // The files that a job sends.
  std::vector<std::string> Sent(const std::string& body) {
    const auto job = Prepare(body);
    EXPECT_TRUE(job.ok()) << job.status();
    std::vector<std::string> paths;
    if (!job.ok()) return paths;
    for (const LocalFile& file : job->files) {
      paths.push_back(file.path);
      EXPECT_EQ(file.sha256, *base::Sha256File(file.local));
      EXPECT_EQ(static_cast<uint64_t>(file.size_bytes),
                fs::file_size(file.local));
    }
    return paths;
  }
  std::string Error(const std::string& body) {
    return std::string(Prepare(body).status().message());
  }
};

TEST_F(InputsTest, DataAndAdapterRelativeToTheJob) {
  Write("data/train.jsonl", "row");
  Write("eval.jsonl", "other");
  Write("start/adapter_config.json", "{}");
  Write("start/adapter_model.safetensors", "weights");
  Write("start/.DS_Store", "not this");
  EXPECT_THAT(
      Sent(R"("model": "org/id", "adapter": "start",
      "dataset": {"train": ["data/train.jsonl"], "eval": ["eval.jsonl"]})"),
      ElementsAre("data/train.jsonl", "eval.jsonl", "start/adapter_config.json",
                  "start/adapter_model.safetensors"));
  Write("p.csv", "b");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "SEQ_CLS",
      "dataset": {"train": "eval.jsonl", "predict": "p.csv"})"),
              ElementsAre("eval.jsonl", "p.csv"));
  // A file that is named twice is sent once.
  EXPECT_THAT(Sent(R"("model": "org/id",
      "dataset": {"train": ["eval.jsonl"], "eval": ["eval.jsonl"]})"),
              ElementsAre("eval.jsonl"));
  // Absolute paths may be the daemon's.
  EXPECT_THAT(Sent(R"("model": "/absent/model", "adapter": "/absent/adapter",
      "dataset": {"train": ["/absent/train.jsonl"]})"),
              IsEmpty());
}

TEST_F(InputsTest, AChatTemplateIsSentToo) {
  Write("t.jsonl", "row");
  Write("my/chat.jinja", "{{ x }}");
  Write("qwen/tokenizer_config.json", "{}");
  Write("qwen/chat_template.jinja", "y");
  Write("qwen/model.safetensors", "weights");
  Write("bare/model.safetensors", "weights");
  const auto job = [&](const std::string& path) {
    return R"("model": "org/id", "dataset": {"train": "t.jsonl"},
        "training": {"chat_template_path": ")" +
           path + "\"}";
  };
  EXPECT_THAT(Sent(job("my/chat.jinja")),
              ElementsAre("t.jsonl", "my/chat.jinja"));
  EXPECT_THAT(Sent(job("qwen/")),
              ElementsAre("t.jsonl", "qwen/chat_template.jinja",
                          "qwen/tokenizer_config.json"));
  EXPECT_THAT(Sent(job("/absent/chat.jinja")), ElementsAre("t.jsonl"));
  EXPECT_THAT(Error(job("absent.jinja")),
              HasSubstr("training.chat_template_path"));
  EXPECT_THAT(Error(job("bare")),
              HasSubstr("has neither chat_template.jinja nor"));
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
  const auto job =
      Prepare(R"("model": "models/tiny", "dataset": {"train": ["t.jsonl"]})");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto spec = ParseJson(job->spec_json);
  EXPECT_EQ(spec["model"], (folder_ / "models/tiny").string());
  EXPECT_EQ(spec["dataset"]["train"][0], "t.jsonl");
}

TEST_F(InputsTest, MissingFilesAreNamed) {
  EXPECT_EQ(
      Error(R"("model": "org/id", "dataset": {"train": ["absent.jsonl"]})"),
      "dataset.train names 'absent.jsonl', and there is no file " +
          (folder_ / "absent.jsonl").string() +
          ". Relative paths are resolved from the folder of job.json.");
  Write("data/t.jsonl", "row");
  const std::string data = R"("dataset": {"train": ["data/t.jsonl"]})";
  EXPECT_THAT(Error(data + R"(, "model": "./absent")"), StartsWith("model"));
  EXPECT_THAT(Error(data + R"(, "model": "org/id", "adapter": "./absent")"),
              StartsWith("adapter"));
  // A folder is no data.
  EXPECT_NE(Error(R"("model": "org/id", "dataset": {"train": ["data"]})"), "");
  EXPECT_THAT(
      std::string(PrepareJob(folder_ / "absent.json").status().message()),
      HasSubstr("absent.json"));
}

TEST_F(InputsTest, AFolderWithAFolderForEachClass) {
  Write("pets/cat/1.png", "c");
  Write("pets/dog/2.png", "d");
  Write("pets/dog/.DS_Store", "not this");
  Write("e.safetensors", "{\"image\": 1}");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "pets/", "eval": "e.safetensors"})"),
              ElementsAre("pets/cat/1.png", "pets/dog/2.png", "e.safetensors"));
}

TEST_F(InputsTest, RowsNameTheirImages) {
  Write("data/rows.jsonl",
        R"({"picture": "1.png", "label": 0}
{"picture": "../more/2.png"}
{"picture": "1.png"}
{"picture": "/on/the/daemon.png"}
not JSON
)");
  Write("data/1.png", "x");
  Write("more/2.png", "y");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "./data/rows.jsonl", "image_column": "picture"})"),
              ElementsAre("./data/rows.jsonl", "data/1.png", "more/2.png"));
}

TEST_F(InputsTest, AMissingImageIsNamedWithItsRow) {
  Write("rows.jsonl", "{\"image\": \"a.png\"}\n{\"image\": \"b.png\"}\n");
  Write("a.png", "x");
  EXPECT_THAT(Error(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "rows.jsonl"})"),
              HasSubstr("rows.jsonl:2: there is no image"));
}

TEST_F(InputsTest, AFileOfTwoGigabytesIsNotRead) {
  const fs::path job = Job("");
  fs::resize_file(job, 2LL << 30);
  const absl::Status status = PrepareJob(job).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  // Its size is named, not what its text is no JSON for.
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than"));
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

}  // namespace
}  // namespace mpsd::client
