// SPDX-License-Identifier: Apache-2.0
#include "server/openai/file_calls.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FileCallsTest : public DoorFixture {
 protected:
  // The bytes that a client gets.
  static std::string BytesOf(const http::Response& response) {
    if (response.content == nullptr) return response.body;
    std::string bytes;
    while (static_cast<int64_t>(bytes.size()) <
           response.content->size_bytes()) {
      bytes += *response.content->Read(3);
    }
    return bytes;
  }
  // A job of ada's with a result of two files.
  jobs::Job PutResult() {
    jobs::Job job = JobOf(7, jobs::State::kSucceeded);
    const fs::path output =
        fs::path(manager_.JobFolder(job.id)) / "out/adapter";
    fs::create_directories(output / "sub");
    std::ofstream(output / "adapter_config.json") << "{}";
    std::ofstream(output / "sub/weights") << "12345";
    job.output_path = output;
    job.end_time = absl::FromUnixSeconds(500);
    manager_.Put(job);
    return job;
  }
};

TEST_F(FileCallsTest, ShowsAUsersOwnFiles) {
  const std::string id = PutFile("hello");
  EXPECT_EQ(JsonOf(Get("/v1/files/" + id))["bytes"], 5);
  EXPECT_EQ(BytesOf(Get("/v1/files/" + id + "/content")), "hello");
  for (const char* user : {"bob", "root"}) {
    EXPECT_EQ(Get("/v1/files/" + id, user).status, 404) << user;
    EXPECT_EQ(Get("/v1/files/" + id + "/content", user).status, 404);
    EXPECT_EQ(Ask(RequestOf("DELETE", "/v1/files/" + id, user)).status, 404);
    EXPECT_THAT(JsonOf(Get("/v1/files", user))["data"], IsEmpty());
  }
  EXPECT_EQ(Get("/v1/files/" + id).status, 200);
}

TEST_F(FileCallsTest, ListsPageByPage) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(PutFile("f" + std::to_string(i)));
  auto page = JsonOf(Get("/v1/files?limit=3"));
  EXPECT_EQ(page["object"], "list");
  EXPECT_EQ(page["has_more"], true);
  ASSERT_EQ(page["data"].size(), 3u);
  EXPECT_EQ(page["data"][0]["id"], ids[4]);
  page = JsonOf(Get("/v1/files?limit=3&after=" + ids[2]));
  EXPECT_EQ(page["has_more"], false);
  ASSERT_EQ(page["data"].size(), 2u);
  EXPECT_EQ(page["data"][1]["id"], ids[0]);
  EXPECT_EQ(JsonOf(Get("/v1/files?order=asc&limit=1"))["data"][0]["id"],
            ids[0]);
  EXPECT_EQ(JsonOf(Get("/v1/files?purpose=fine-tune"))["data"].size(), 5u);
  EXPECT_THAT(JsonOf(Get("/v1/files?purpose=batch"))["data"], IsEmpty());
  EXPECT_EQ(Get("/v1/files?limit=0").status, 400);
}

TEST_F(FileCallsTest, AFileIsDeletedOnce) {
  const std::string id = PutFile("hello");
  audit_.Take();
  EXPECT_EQ(Ask(RequestOf("DELETE", "/v1/files/" + id)).body,
            "{\"id\":\"" + id + "\",\"object\":\"file\",\"deleted\":true}\n");
  EXPECT_EQ(Ask(RequestOf("DELETE", "/v1/files/" + id)).status, 404);
  EXPECT_EQ(Get("/v1/files/" + id).status, 404);
  const auto entries = audit_.Take();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].request.method, "ArtifactService.Upload");
  EXPECT_EQ(entries[0].request.detail, "deletes " + id);
}

TEST_F(FileCallsTest, ADeletionMakesRoomOnAFullDisk) {
  const std::string id = PutFile("hello");
  const absl::Status full = absl::ResourceExhaustedError("the disk is full");
  files_.refuse_removal = full;
  EXPECT_EQ(MessageOf(Ask(RequestOf("DELETE", "/v1/files/" + id))),
            "the disk is full");
  // The audit cannot be written either; the row goes when room is made.
  files_.refuse_removal = full;
  has_ballast_ = true;
  audit_.FailBegin(full);
  EXPECT_EQ(Ask(RequestOf("DELETE", "/v1/files/" + id)).status, 200);
  audit_.FailBegin(absl::OkStatus());
  EXPECT_EQ(Get("/v1/files/" + id).status, 404);
}

TEST_F(FileCallsTest, AResultIsReadFileByFile) {
  const jobs::Job job = PutResult();
  v1::Job shown;
  shown.set_id(job.id);
  EXPECT_THAT(ResultFileIds(Desk(MakeBackend()), shown), IsEmpty());
  shown.set_output_path(job.output_path);
  EXPECT_THAT(ResultFileIds(Desk(MakeBackend()), shown),
              ElementsAre("file-" + job.id + "-adapter_config.json",
                          "file-" + job.id + "-sub/weights"));
  const std::string name = "/v1/files/file-" + job.id + "-";
  const auto file = JsonOf(Get(name + "sub%2Fweights"));
  EXPECT_EQ(file["bytes"], 5);
  EXPECT_EQ(file["filename"], "sub/weights");
  EXPECT_EQ(file["purpose"], "fine-tune-results");
  EXPECT_EQ(file["created_at"], 500);
  EXPECT_EQ(BytesOf(Get(name + "sub%2Fweights/content")), "12345");
  EXPECT_EQ(Ask(RequestOf("DELETE", name + "adapter_config.json")).status, 400);
}

TEST_F(FileCallsTest, AResultOpensNothingElse) {
  const jobs::Job job = PutResult();
  const fs::path output = job.output_path;
  std::ofstream(folder_ / "secret") << "secret";
  fs::create_symlink(folder_ / "secret", output / "link");
  const std::string name = "/v1/files/file-" + job.id + "-";
  for (const char* path :
       {"link", "..%2Fadapter%2Fsub%2Fweights", "..%2F..%2F..%2F..%2Fsecret",
        "sub", "", "%2Fetc%2Fpasswd", "sub%2F%2Fweights",
        "sub%2F.%2Fweights"}) {
    const http::Response response = Get(name + path + "/content");
    EXPECT_EQ(response.status, 404) << path;
    EXPECT_THAT(response.body, Not(HasSubstr("secret")));
  }
  // A path that a worker made up.
  jobs::Job lying = JobOf(8, jobs::State::kSucceeded);
  lying.output_path = folder_;
  manager_.Put(lying);
  EXPECT_EQ(Get("/v1/files/file-" + lying.id + "-secret/content").status, 500);
  const jobs::Job running = JobOf(9, jobs::State::kRunning);
  manager_.Put(running);
  EXPECT_EQ(Get("/v1/files/file-" + running.id + "-a").status, 404);
  EXPECT_EQ(Get("/v1/files/file-" + IdOf(99) + "-a").status, 404);
}

TEST_F(FileCallsTest, APrivateResultIsItsOwners) {
  const jobs::Job job = PutResult();
  const std::string name =
      "/v1/files/file-" + job.id + "-adapter_config.json/content";
  EXPECT_EQ(Get(name, "bob").status, 200);
  EXPECT_EQ(Get(name, "eve").status, 200);
  door_.emplace(MakeBackend(/*private_jobs=*/true));
  EXPECT_EQ(Get(name, "bob").status, 403);
  EXPECT_EQ(Get(name, "eve").status, 403);
  EXPECT_EQ(Get(name).status, 200);
  EXPECT_EQ(Get(name, "root").status, 200);
}

}  // namespace
}  // namespace mpsd::openai
