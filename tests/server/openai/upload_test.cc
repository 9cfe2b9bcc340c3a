// SPDX-License-Identifier: Apache-2.0
#include "server/openai/upload.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/server/openai/fixture.h"

namespace mpsd::openai {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class UploadTest : public DoorFixture {
 protected:
  http::Request FormRequest(const std::string& user = "ada") {
    http::Request request = RequestOf("POST", "/v1/files", user);
    request.content_type = "multipart/form-data; boundary=B";
    return request;
  }
  std::string FaultOf(const std::string& body) {
    const http::Response response = Ask(FormRequest(), body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(blobs_.open, 0);
    return MessageOf(response);
  }
};

TEST_F(UploadTest, StoresTheFileForItsOwner) {
  http::Request request = FormRequest();
  request.content_length = 500;
  const http::Response response = Ask(request, Form("{}\n", "a b.jsonl"), 1);
  ASSERT_EQ(response.status, 200) << response.body;
  const auto file = JsonOf(response);
  EXPECT_EQ(file["object"], "file");
  EXPECT_EQ(file["bytes"], 3);
  EXPECT_EQ(file["filename"], "a b.jsonl");
  EXPECT_EQ(file["purpose"], "fine-tune");
  EXPECT_EQ(file["status"], "processed");
  EXPECT_EQ(blobs_.announced, 500);
  const std::string sha256 = base::Sha256Hex("{}\n");
  EXPECT_EQ(files_.Get("ada", file["id"])->sha256, sha256);
  EXPECT_TRUE(jobs::IsNamedFileId(std::string(file["id"])));
  EXPECT_TRUE(*ledger_.Holds("ada", sha256));
  EXPECT_FALSE(*ledger_.Holds("bob", sha256));
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_EQ(entries[0].request.method, "ArtifactService.Upload");
  EXPECT_TRUE(entries[0].result.ok());
}

TEST_F(UploadTest, FieldsComeInAnyOrder) {
  const std::string form =
      "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n"
      "\r\nhello\r\n--B\r\nContent-Disposition: form-data; name=\"purpose\"\r\n"
      "\r\nfine-tune\r\n--B--";
  EXPECT_EQ(Ask(FormRequest(), form).status, 200);
}

TEST_F(UploadTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(FaultOf(Form("x", "a", "assistants")), HasSubstr("purpose: "));
  EXPECT_THAT(FaultOf(Form("x", "a", std::string(300, 'p'))),
              HasSubstr("purpose: is too long"));
  EXPECT_THAT(FaultOf(Form("", "a")), HasSubstr("file: is empty"));
  EXPECT_THAT(FaultOf(Form("x", "a").substr(0, 120)),
              HasSubstr("ends before its last boundary"));
  EXPECT_THAT(FaultOf("--B--"), HasSubstr("file: is missing"));
  const auto part = [](const std::string& name) {
    return "--B\r\nContent-Disposition: form-data; name=\"" + name +
           "\"; filename=\"a\"\r\n\r\nfine-tune\r\n";
  };
  EXPECT_THAT(FaultOf(part("file") + "--B--"),
              HasSubstr("purpose: is missing"));
  EXPECT_THAT(FaultOf(part("purpose") + part("purpose") + "--B--"),
              HasSubstr("purpose: comes twice"));
  EXPECT_THAT(FaultOf(part("file") + part("file") + "--B--"),
              HasSubstr("file: comes twice"));
  EXPECT_THAT(FaultOf(part("expires_after[seconds]") + "--B--"),
              HasSubstr("expires_after: files stay"));
  EXPECT_THAT(FaultOf(part("x") + "--B--"), HasSubstr("'x' is no field"));
  http::Request plain = FormRequest();
  plain.content_type = "application/json";
  EXPECT_THAT(MessageOf(Ask(plain, "{}")), HasSubstr("Content-Type: "));
  EXPECT_THAT(*files_.List("ada", {}), IsEmpty());
}

TEST_F(UploadTest, ANameIsOneFilesAndNoPath) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."),
        std::string("../../etc/passwd"), std::string("/etc/passwd"),
        std::string("a/b"), std::string("a\nb"), std::string("a\x1b[2J"),
        std::string("a\0b", 3), std::string("\xff"),
        std::string("a\xe2\x80\xae"), std::string(256, 'a')}) {
    const std::string fault = FaultOf(Form("x", name));
    EXPECT_THAT(fault, HasSubstr("file: '"));
    EXPECT_THAT(fault, Not(HasSubstr("\x1b")));
  }
  EXPECT_EQ(Upload("x", "ada", std::string(255, 'a')).status, 200);
  EXPECT_EQ(Upload("x", "ada", "t\xc3\xa4st %2F.jsonl").status, 200);
}

TEST_F(UploadTest, StrangersAndViewersSendNothing) {
  for (const auto& [user, status] :
       {std::pair{"", 401}, std::pair{"mallory", 401}, std::pair{"eve", 403}}) {
    const http::Begun begun = door_->Begin(FormRequest(user));
    ASSERT_TRUE(std::holds_alternative<http::Response>(begun)) << user;
    EXPECT_EQ(std::get<http::Response>(begun).status, status);
  }
  EXPECT_EQ(blobs_.announced, -1);
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(3));
  for (const auto& entry : entries) EXPECT_TRUE(entry.refused);
}

TEST_F(UploadTest, ATokenThatIsRevokedEndsItsUpload) {
  const std::string form = Form("hello", "a");
  const auto body =
      std::get<std::shared_ptr<http::Body>>(door_->Begin(FormRequest()));
  EXPECT_FALSE(body->Take(form.substr(0, 120)).has_value());
  tokens_.Revoke("ada");
  const auto answer = body->Take(form.substr(120));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 401);
  EXPECT_THAT(*files_.List("ada", {}), IsEmpty());
}

TEST_F(UploadTest, OneThatBreaksOffIsNotedAndLeavesNothing) {
  {
    const auto body =
        std::get<std::shared_ptr<http::Body>>(door_->Begin(FormRequest()));
    EXPECT_FALSE(body->Take(Form("hello", "a").substr(0, 150)).has_value());
    EXPECT_EQ(blobs_.open, 1);
  }
  EXPECT_EQ(blobs_.open, 0);
  const auto entries = audit_.Take();
  ASSERT_THAT(entries, SizeIs(1));
  EXPECT_TRUE(absl::IsCancelled(entries[0].result));
}

TEST_F(UploadTest, AUserHasSoManyAtATime) {
  std::vector<http::Begun> bodies;
  for (int i = 0; i < Uploads::kOfAUser; ++i) {
    bodies.push_back(door_->Begin(FormRequest()));
    ASSERT_FALSE(std::holds_alternative<http::Response>(bodies.back()));
  }
  const http::Begun further = door_->Begin(FormRequest());
  ASSERT_TRUE(std::holds_alternative<http::Response>(further));
  EXPECT_EQ(std::get<http::Response>(further).status, 503);
  EXPECT_FALSE(
      std::holds_alternative<http::Response>(door_->Begin(FormRequest("bob"))));
  bodies.pop_back();
  EXPECT_FALSE(
      std::holds_alternative<http::Response>(door_->Begin(FormRequest())));
}

TEST_F(UploadTest, AFullDiskIsTold) {
  blobs_.refuse = absl::ResourceExhaustedError("the disk is full");
  const http::Response refused = Upload("hello");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(MessageOf(refused), "the disk is full");
  blobs_.refuse = absl::OkStatus();
  files_.refuse = absl::ResourceExhaustedError("too many files");
  EXPECT_EQ(MessageOf(Upload("hello")), "too many files");
  audit_.FailBegin(absl::UnavailableError("no room for the audit"));
  EXPECT_EQ(Upload("hello").status, 503);
}

// A ledger that lets a user have so many bytes.
class SmallLedger final : public rpc::FakeLedger {
 public:
  std::unique_ptr<jobs::UploadClaim> Begin(const std::string&,
                                           const jobs::UserLimits&) override {
    return std::make_unique<Claim>(*this);
  }
  absl::Status Use(const std::string& user, const jobs::UserLimits& limits,
                   const std::set<std::string>& blobs) override {
    EXPECT_EQ(claimed, 0) << "what was held for the upload counts twice";
    return rpc::FakeLedger::Use(user, limits, blobs);
  }
  int64_t claimed = 0;

 private:
  class Claim final : public jobs::UploadClaim {
   public:
    explicit Claim(SmallLedger& ledger) : ledger_(ledger) {}
    ~Claim() override { ledger_.claimed -= mine_; }
    absl::Status Add(const std::string&, int64_t bytes) override {
      if (ledger_.claimed + bytes > (40 << 20)) {
        return absl::ResourceExhaustedError("the limit");
      }
      ledger_.claimed += bytes;
      mine_ += bytes;
      return absl::OkStatus();
    }
    absl::Status Commit() override { return absl::OkStatus(); }

   private:
    SmallLedger& ledger_;
    int64_t mine_ = 0;
  };
};

TEST_F(UploadTest, TheUsersLimitHoldsAlsoWhereNoLengthIsAnnounced) {
  SmallLedger ledger;
  Backend backend = MakeBackend();
  backend.accounts.ledger = &ledger;
  door_.emplace(std::move(backend));
  http::Request announced = FormRequest();
  announced.content_length = 50 << 20;
  EXPECT_EQ(Ask(announced, Form("x", "a")).status, 429);
  const std::string large(50 << 20, 'x');
  EXPECT_EQ(Ask(FormRequest(), Form(large, "a"), 1 << 20).status, 429);
  EXPECT_EQ(
      Ask(FormRequest(), Form(large.substr(0, 20 << 20), "a"), 1 << 20).status,
      200);
  EXPECT_EQ(ledger.claimed, 0);
}

}  // namespace
}  // namespace mpsd::openai
