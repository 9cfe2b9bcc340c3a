// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_calls.h"

#include <filesystem>
#include <memory>
#include <string>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/seen_blobs.h"
#include "tests/server/models/disk_blobs.h"
#include "tests/server/models/fake_uses.h"
#include "tests/server/models/hub_cache.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using access::Role;
using models::ModelFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Call CallOf(const std::string& user, Role role = Role::kUser,
            bool private_jobs = false) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return {access::Rights(caller, private_jobs), {}, ""};
}

class ModelCallsTest : public testing::Test {
 protected:
  ModelCallsTest()
      : state_(fs::path(testing::TempDir()) /
               testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(state_);
    manager_ = std::make_unique<FakeManager>(state_ / "jobs");
    blobs_ = std::make_unique<models::DiskBlobs>(state_ / "blobs");
    pushed_ = *models::PushedModels::Open(state_ / "models",
                                          [](const std::string&) {});
    book_ = std::make_unique<models::ModelBook>(*pushed_, uses_, nullptr);
  }
  ~ModelCallsTest() override { fs::remove_all(state_); }

  v1::PushModelRequest Request(const std::string& name) {
    v1::PushModelRequest request;
    request.set_name(name);
    for (const ModelFile& file : blobs_->PutModel("1")) {
      v1::PushModelRequest::File* added = request.add_files();
      added->set_path(file.path);
      added->set_sha256(file.sha256);
      added->set_size_bytes(file.size_bytes);
    }
    return request;
  }
  absl::Status Push(const v1::PushModelRequest& request, const Call& call,
                    v1::PushModelResponse& response) {
    return PushModel(*book_, *manager_, *blobs_, {nullptr, &ledger_}, request,
                     call, response);
  }
  v1::ListModelsResponse List(const access::Rights& rights) {
    v1::ListModelsResponse response;
    EXPECT_TRUE(
        ListModels(*book_, *manager_, rights, v1::ListModelsRequest(), response)
            .ok());
    return response;
  }

  const fs::path state_;
  models::HubCache cache_;
  models::FakeUses uses_;
  FakeLedger ledger_;
  std::unique_ptr<FakeManager> manager_;
  std::unique_ptr<models::DiskBlobs> blobs_;
  std::unique_ptr<models::PushedModels> pushed_;
  std::unique_ptr<models::ModelBook> book_;
};

TEST_F(ModelCallsTest, APushAnswersWithTheModelAndCountsItsBytes) {
  const v1::PushModelRequest request = Request("org/m");
  v1::PushModelResponse response;
  ASSERT_TRUE(Push(request, CallOf("ada"), response).ok());
  EXPECT_FALSE(response.existed());
  const v1::Model& model = response.model();
  EXPECT_EQ(model.name(), "org/m");
  EXPECT_EQ(model.owner(), "ada");
  EXPECT_EQ(model.family(), "llama");
  EXPECT_THAT(model.tasks(), ElementsAre("CAUSAL_LM", "SEQ_CLS"));
  EXPECT_GT(model.least_memory_bytes(), 0);
  EXPECT_TRUE(model.fits());
  EXPECT_GT(model.create_time().seconds(), 0);
  EXPECT_TRUE(*ledger_.Holds("ada", request.files(0).sha256()));
  ASSERT_TRUE(Push(request, CallOf("ada"), response).ok());
  EXPECT_TRUE(response.existed());
}

TEST_F(ModelCallsTest, EachFieldIsChecked) {
  v1::PushModelResponse response;
  const auto problem = [&](const v1::PushModelRequest& request) {
    const absl::Status status = Push(request, CallOf("ada"), response);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(problem(Request("../m")), HasSubstr("name: "));
  v1::PushModelRequest request = Request("m");
  request.mutable_files(0)->set_path("../../tokens");
  EXPECT_THAT(problem(request), HasSubstr("files[0].path"));
  request = Request("m");
  while (request.files_size() <= static_cast<int>(limits::kFilesOfModel)) {
    request.add_files();
  }
  EXPECT_THAT(problem(request), HasSubstr("files: has 1001 entries"));
  v1::ListModelsRequest list;
  list.set_name("..");
  v1::ListModelsResponse listed;
  EXPECT_TRUE(absl::IsInvalidArgument(
      ListModels(*book_, *manager_, CallOf("ada").rights, list, listed)));
  v1::RemoveModelRequest remove;
  v1::RemoveModelResponse removed;
  EXPECT_TRUE(absl::IsInvalidArgument(
      RemoveModel(*book_, CallOf("ada").rights, remove, removed)));
}

TEST_F(ModelCallsTest, BeyondTheLimitOfUploadsNothingIsPushed) {
  class Full final : public FakeLedger {
   public:
    absl::Status Use(const std::string&, const jobs::UserLimits&,
                     const std::set<std::string>&) override {
      return absl::ResourceExhaustedError("uploads: too many");
    }
  } full;
  v1::PushModelResponse response;
  EXPECT_TRUE(absl::IsResourceExhausted(
      PushModel(*book_, *manager_, *blobs_, {nullptr, &full}, Request("m"),
                CallOf("ada"), response)));
  EXPECT_EQ(List(CallOf("ada").rights).models_size(), 0);
}

TEST_F(ModelCallsTest, HowMuchOthersUseAModelIsPrivateWhereJobsAre) {
  v1::PushModelResponse response;
  ASSERT_TRUE(Push(Request("m"), CallOf("ada"), response).ok());
  uses_.all["m"] = {absl::FromUnixSeconds(5), 3};
  const v1::Model open = List(CallOf("bob").rights).models(0);
  EXPECT_EQ(open.unfinished_jobs(), 3);
  EXPECT_EQ(open.last_use_time().seconds(), 5);
  const v1::Model hidden =
      List(CallOf("bob", Role::kUser, /*private_jobs=*/true).rights).models(0);
  EXPECT_EQ(hidden.name(), "m");
  EXPECT_EQ(hidden.unfinished_jobs(), 0);
  EXPECT_FALSE(hidden.has_last_use_time());
  EXPECT_EQ(List(CallOf("root", Role::kAdmin, true).rights)
                .models(0)
                .unfinished_jobs(),
            3);
}

TEST_F(ModelCallsTest, RemoveSaysWhatItFreed) {
  v1::PushModelResponse pushed;
  ASSERT_TRUE(Push(Request("m"), CallOf("ada"), pushed).ok());
  v1::RemoveModelRequest request;
  request.set_name("m");
  v1::RemoveModelResponse response;
  EXPECT_TRUE(absl::IsPermissionDenied(
      RemoveModel(*book_, CallOf("bob").rights, request, response)));
  ASSERT_TRUE(
      RemoveModel(*book_, CallOf("ada").rights, request, response).ok());
  EXPECT_EQ(response.freed_bytes(), pushed.model().size_bytes());
  EXPECT_TRUE(absl::IsNotFound(
      RemoveModel(*book_, CallOf("ada").rights, request, response)));
}

TEST_F(ModelCallsTest, APulledModelIsDescribed) {
  cache_.Put("org/p", "c0ffee", "x");
  v1::Model model;
  FillModel(*book_, *manager_, CallOf("ada").rights, "org/p", model);
  EXPECT_TRUE(model.pulled());
  EXPECT_EQ(model.revision(), "c0ffee");
  v1::Model none;
  FillModel(*book_, *manager_, CallOf("ada").rights, "org/none", none);
  EXPECT_EQ(none.name(), "");
}

}  // namespace
}  // namespace mpsd::rpc
