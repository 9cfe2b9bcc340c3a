// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_SERVER_OPENAI_FIXTURE_H_
#define MPSD_TESTS_SERVER_OPENAI_FIXTURE_H_

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/openai/door.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_calls.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/fake_tokens.h"

namespace mpsd::openai {

// Blobs in a folder, each a file of its hash.
class FolderBlobs final : public jobs::BlobStore, public jobs::UnnamedBlobs {
 public:
  explicit FolderBlobs(std::filesystem::path folder)
      : folder_(std::move(folder)) {}
  bool Has(const std::string& sha256) override {
    return std::filesystem::exists(PathOf(sha256));
  }
  std::string PathOf(const std::string& sha256) const override {
    return folder_ / sha256;
  }
  absl::StatusOr<std::unique_ptr<jobs::UnnamedBlob>> BeginUnnamed(
      int64_t expected_bytes) override {
    announced = expected_bytes;
    if (!refuse.ok()) return refuse;
    ++open;
    return std::make_unique<Blob>(*this);
  }

  int64_t announced = -1;  // by the last upload
  int open = 0;
  absl::Status refuse;

 private:
  class Blob final : public jobs::UnnamedBlob {
   public:
    explicit Blob(FolderBlobs& blobs) : blobs_(blobs) {}
    ~Blob() override { --blobs_.open; }
    absl::Status Append(std::string_view bytes) override {
      bytes_.append(bytes);
      return absl::OkStatus();
    }
    int64_t size_bytes() const override {
      return static_cast<int64_t>(bytes_.size());
    }
    absl::StatusOr<std::string> Commit() override {
      const std::string sha256 = base::Sha256Hex(bytes_);
      std::ofstream(blobs_.PathOf(sha256)) << bytes_;
      return sha256;
    }

   private:
    FolderBlobs& blobs_;
    std::string bytes_;
  };
  const std::filesystem::path folder_;
};

// Named files in memory.
class MemoryFiles final : public jobs::NamedFiles {
 public:
  absl::Status Insert(const jobs::NamedFile& file) override {
    if (!refuse.ok()) return refuse;
    files_[file.id] = file;
    return absl::OkStatus();
  }
  absl::StatusOr<jobs::NamedFile> Get(const std::string& owner,
                                      const std::string& id) override {
    const auto file = files_.find(id);
    if (file == files_.end() || file->second.owner != owner) {
      return absl::NotFoundError("there is no such file");
    }
    return file->second;
  }
  absl::StatusOr<std::vector<jobs::NamedFile>> List(const std::string& owner,
                                                    const Page& page) override {
    std::vector<jobs::NamedFile> listed;
    const auto add = [&](const jobs::NamedFile& file) {
      const bool behind =
          page.after.empty() ||
          (page.oldest_first ? file.id > page.after : file.id < page.after);
      if (file.owner == owner && behind &&
          listed.size() < static_cast<size_t>(page.limit)) {
        listed.push_back(file);
      }
    };
    if (page.oldest_first) {
      for (const auto& [id, file] : files_) add(file);
    } else {
      for (auto it = files_.rbegin(); it != files_.rend(); ++it)
        add(it->second);
    }
    return listed;
  }
  absl::Status Remove(const std::string& owner,
                      const std::string& id) override {
    if (!refuse_removal.ok()) return refuse_removal;
    const absl::Status found = Get(owner, id).status();
    if (found.ok()) files_.erase(id);
    return found;
  }

  absl::Status refuse, refuse_removal;

 private:
  std::map<std::string, jobs::NamedFile> files_;
};

// A door before a queue that the tests move by hand; ada and bob are users, eve
// is a viewer, root an admin.
class DoorFixture : public testing::Test {
 protected:
  DoorFixture() {
    std::filesystem::create_directories(folder_ / "blobs");
    for (const char* user : {"ada", "bob"}) tokens_.Put(user, user);
    tokens_.Put("eve", "eve", access::Role::kViewer);
    tokens_.Put("root", "root", access::Role::kAdmin);
    manager_.OnSubmit([this](const jobs::SubmitRequest& request) {
      submitted_.push_back(request);
      jobs::Job job = JobOf(100 + static_cast<int>(submitted_.size()));
      job.owner = request.owner;
      job.labels = request.labels;
      job.spec_json = request.spec_json;
      job.create_time = absl::Now();
      manager_.Put(job);
      return absl::StatusOr<jobs::SubmitResult>({job, false});
    });
  }

  static std::string IdOf(int number) {
    return absl::StrFormat("01J%023d", number);
  }
  static jobs::Job JobOf(int number, jobs::State state = jobs::State::kQueued) {
    jobs::Job job = rpc::FakeManager::MakeJob(IdOf(number), state);
    job.owner = "ada";
    job.model = "org/base";
    return job;
  }

  Backend MakeBackend(bool private_jobs = false) {
    Backend backend{manager_, manager_, blobs_, blobs_, files_};
    backend.callers.tokens = &tokens_;
    backend.accounts.ledger = &ledger_;
    backend.audit = &audit_;
    backend.calls = &calls_;
    backend.private_jobs = private_jobs;
    backend.make_room = [this] {
      files_.refuse_removal = absl::OkStatus();
      return has_ballast_;
    };
    backend.log = [this](const std::string& line) { log_ += line; };
    backend.list_models = [](const access::Rights&,
                             const v1::ListModelsRequest& request,
                             v1::ListModelsResponse& response) {
      for (const char* name : {"org/base", "mine"}) {
        if (!request.name().empty() && request.name() != name) continue;
        v1::Model& model = *response.add_models();
        model.set_name(name);
        model.mutable_create_time()->set_seconds(7);
        if (std::string(name) == "mine") model.set_owner("ada");
      }
      return absl::OkStatus();
    };
    return backend;
  }

  static http::Request RequestOf(const std::string& method,
                                 const std::string& target,
                                 const std::string& user = "ada") {
    http::Request request;
    request.method = method;
    request.target = target;
    request.peer = "10.0.0.1";
    if (!user.empty()) request.authorization = "Bearer " + user;
    return request;
  }
  // The answer, with `body` given in pieces.
  http::Response Ask(http::Request request, const std::string& body = "",
                     size_t piece = 1000) {
    request.has_body = !body.empty();
    http::Begun begun = door_->Begin(request);
    if (auto* response = std::get_if<http::Response>(&begun)) return *response;
    const auto taker = std::get<std::shared_ptr<http::Body>>(begun);
    for (size_t at = 0; at < body.size(); at += piece) {
      if (auto answer = taker->Take(body.substr(at, piece))) return *answer;
    }
    return taker->End();
  }
  http::Response Get(const std::string& target,
                     const std::string& user = "ada") {
    return Ask(RequestOf("GET", target, user));
  }
  http::Response Upload(const std::string& bytes,
                        const std::string& user = "ada",
                        const std::string& name = "train.jsonl") {
    http::Request request = RequestOf("POST", "/v1/files", user);
    request.content_type = "multipart/form-data; boundary=B";
    return Ask(request, Form(bytes, name));
  }
  static std::string Form(const std::string& bytes, const std::string& name,
                          const std::string& purpose = "fine-tune") {
    return "--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n" +
           purpose +
           "\r\n--B\r\nContent-Disposition: form-data; name=\"file\"; "
           "filename=\"" +
           name + "\"\r\n\r\n" + bytes + "\r\n--B--\r\n";
  }
  static nlohmann::json JsonOf(const http::Response& response) {
    return nlohmann::json::parse(response.body);
  }
  static std::string MessageOf(const http::Response& response) {
    return JsonOf(response)["error"]["message"];
  }
  std::string PutFile(const std::string& bytes,
                      const std::string& user = "ada") {
    return JsonOf(Upload(bytes, user))["id"];
  }

  const std::filesystem::path folder_ = testing_support::FreshFolder("openai");
  rpc::FakeManager manager_{folder_ / "jobs"};
  rpc::FakeTokens tokens_;
  rpc::FakeAudit audit_;
  rpc::FakeCalls calls_;
  rpc::FakeLedger ledger_;
  FolderBlobs blobs_{folder_ / "blobs"};
  bool has_ballast_ = false;  // on a full disk
  MemoryFiles files_;
  std::string log_;
  std::vector<jobs::SubmitRequest> submitted_;
  std::optional<Door> door_{std::in_place, MakeBackend()};
};

}  // namespace mpsd::openai

#endif  // MPSD_TESTS_SERVER_OPENAI_FIXTURE_H_
