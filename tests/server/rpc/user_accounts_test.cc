// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/user_accounts.h"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using ::testing::HasSubstr;

class Ledger : public jobs::UserLedger {
 public:
  std::unique_ptr<jobs::UploadClaim> Begin(
      const std::string& user, const jobs::UserLimits& limits) override {
    return std::make_unique<Claim>(*this, user, limits);
  }
  absl::Status Use(const std::string&, const jobs::UserLimits&,
                   const std::set<std::string>&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Holds(const std::string&, const std::string&) override {
    return true;
  }
  absl::StatusOr<jobs::UserBytes> BytesOf(const std::string& user) override {
    absl::MutexLock lock(&mutex_);
    return jobs::UserBytes{sent_[user], 7};
  }

 private:
  class Claim : public jobs::UploadClaim {
   public:
    Claim(Ledger& ledger, std::string user, const jobs::UserLimits& limits)
        : ledger_(ledger), user_(std::move(user)), limits_(limits) {}
    absl::Status Add(const std::string&, int64_t size_bytes) override {
      bytes_ += size_bytes;
      return CheckUploads(user_, limits_, 0, bytes_);
    }
    absl::Status Commit() override {
      absl::MutexLock lock(&ledger_.mutex_);
      ledger_.sent_[user_] += bytes_;
      return absl::OkStatus();
    }

   private:
    Ledger& ledger_;
    const std::string user_;
    const jobs::UserLimits limits_;
    int64_t bytes_ = 0;
  };
  absl::Mutex mutex_;
  std::map<std::string, int64_t> sent_ ABSL_GUARDED_BY(mutex_);
};

// The members that the server borrows, made before it.
struct Borrowed {
  Borrowed() {
    limits.others.queued_jobs = 2;
    limits.others.upload_bytes = 10;
    limits.others.highest_priority = 5;
    limits.users["bob"];
  }
  jobs::LimitSettings limits;
  Ledger ledger;
  access::Caller caller{"ada", access::Role::kUser, access::Way::kToken,
                        "token 1", "127.0.0.1"};
};

class UserAccountsTest : private Borrowed, public Served {
 protected:
  UserAccountsTest() : Served(With(*this)) {
    manager_.OnSubmit([this](const jobs::SubmitRequest& request)
                          -> absl::StatusOr<jobs::SubmitResult> {
      submitted_ = request;
      return jobs::SubmitResult{FakeManager::MakeJob("J", jobs::State::kQueued),
                                false};
    });
  }
  static Options With(Borrowed& borrowed) {
    Options options;
    options.limits = &borrowed.limits;
    options.ledger = &borrowed.ledger;
    options.identify = [&borrowed](const grpc::CallbackServerContext&)
        -> absl::StatusOr<access::Caller> { return borrowed.caller; };
    return options;
  }
  void As(const std::string& user, access::Role role = access::Role::kUser) {
    caller.user = user;
    caller.role = role;
  }
  void Submit() {
    grpc::ClientContext context;
    v1::SubmitRequest request;
    request.set_spec_json("{}");
    v1::SubmitResponse response;
    const grpc::Status status = jobs_->Submit(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  grpc::Status Upload(const std::string& bytes) {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    v1::UploadRequest request;
    request.mutable_header()->set_sha256(base::Sha256Hex(bytes));
    request.mutable_header()->set_size_bytes(bytes.size());
    writer->Write(request);
    request.set_data(bytes);
    writer->Write(request);
    writer->WritesDone();
    return writer->Finish();
  }
  v1::InfoResponse Info(bool you) {
    grpc::ClientContext context;
    v1::InfoRequest request;
    request.set_you(you);
    v1::InfoResponse response;
    EXPECT_TRUE(daemon_->Info(&context, request, &response).ok());
    return response;
  }

  jobs::SubmitRequest submitted_;
};

TEST_F(UserAccountsTest, AJobIsSubmittedWithTheLimitsOfItsUser) {
  Submit();
  EXPECT_EQ(submitted_.owner, "ada");
  EXPECT_EQ(submitted_.limits.queued_jobs, 2);
  As("bob");
  Submit();
  EXPECT_EQ(submitted_.limits, jobs::UserLimits());
}

TEST_F(UserAccountsTest, AdminsHaveNoLimits) {
  As("ada", access::Role::kAdmin);
  Submit();
  EXPECT_EQ(submitted_.limits, jobs::UserLimits());
  EXPECT_TRUE(Upload("more than ten bytes").ok());
}

TEST_F(UserAccountsTest, ARetryHasTheLimitsToo) {
  jobs::Job job = FakeManager::MakeJob("01ARZ3NDEKTSV4RRFFQ69G5FAV",
                                       jobs::State::kCancelled);
  job.owner = "ada";
  manager_.Put(job);
  grpc::ClientContext context;
  v1::RetryRequest request;
  request.set_id(job.id);
  v1::Job response;
  ASSERT_TRUE(jobs_->Retry(&context, request, &response).ok());
  EXPECT_EQ(manager_.last_limits().queued_jobs, 2);
}

TEST_F(UserAccountsTest, UploadsCountForTheirSender) {
  const grpc::Status refused = Upload("12345678901");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.error_message(), HasSubstr("[user.ada] upload-bytes"));
  EXPECT_TRUE(Upload("1234567890").ok());
  As("bob");
  EXPECT_TRUE(Upload("12345678901").ok());
  EXPECT_EQ(Info(true).you().upload_bytes(), 11);
  As("ada");
  EXPECT_EQ(Info(true).you().upload_bytes(), 10);
}

TEST_F(UserAccountsTest, WhoAsksIsToldWhatTheyHaveAndMayHave) {
  EXPECT_FALSE(Info(false).has_you());
  jobs::Job job = FakeManager::MakeJob("J", jobs::State::kQueued);
  job.owner = "ada";
  manager_.Put(job);
  v1::UserUsage you = Info(true).you();
  EXPECT_EQ(you.user(), "ada");
  EXPECT_EQ(you.queued_jobs(), 1);
  EXPECT_EQ(you.max_queued_jobs(), 2);
  EXPECT_EQ(you.max_upload_bytes(), 10);
  EXPECT_EQ(you.result_bytes(), 7);
  EXPECT_FALSE(you.has_max_result_bytes());
  EXPECT_FALSE(you.has_min_priority());
  EXPECT_EQ(you.max_priority(), 5);
  As("bob");
  you = Info(true).you();
  EXPECT_EQ(you.queued_jobs(), 0);
  EXPECT_FALSE(you.has_max_queued_jobs());
}

}  // namespace
}  // namespace mpsd::rpc
