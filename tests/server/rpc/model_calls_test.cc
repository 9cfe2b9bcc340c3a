// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_calls.h"

#include <memory>
#include <set>
#include <string>
#include <thread>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/models/disk_blobs.h"
#include "tests/server/models/hub_cache.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using models::ModelFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelCallsTest : public testing::Test {
 protected:
  v1::PushModelRequest Request(const std::string& name) {
    v1::PushModelRequest request;
    request.set_name(name);
    for (const ModelFile& file : blobs_.PutModel("1")) {
      v1::PushModelRequest::File* added = request.add_files();
      added->set_path(file.path);
      added->set_sha256(file.sha256);
      added->set_size_bytes(file.size_bytes);
    }
    return request;
  }
  absl::Status Push(const v1::PushModelRequest& request, const Call& call,
                    v1::PushModelResponse& response) {
    return PushModel(book_, manager_, blobs_, {nullptr, &ledger_}, request,
                     call, response);
  }
  v1::ListModelsResponse List(const access::Rights& rights) {
    v1::ListModelsResponse response;
    EXPECT_TRUE(
        ListModels(book_, manager_, rights, v1::ListModelsRequest(), response)
            .ok());
    return response;
  }

  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
  models::HubCache cache_;
  FakeLedger ledger_;
  models::ModelUses uses_{ledger_.db.database()};
  FakeManager manager_{scratch_ / "jobs"};
  models::DiskBlobs blobs_{scratch_ / "blobs"};
  std::unique_ptr<models::PushedModels> pushed_ = *models::PushedModels::Open(
      scratch_ / "models", [](const std::string&) {});
  models::ModelBook book_{*pushed_, uses_, nullptr};
};

TEST_F(ModelCallsTest, APushAnswersWithTheModelAndCountsItsBytes) {
  const v1::PushModelRequest request = Request("org/m");
  ledger_.Store(request.files(0).sha256());
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
      ListModels(book_, manager_, RightsOf("ada"), list, listed)));
  list.set_name("no/such");
  EXPECT_TRUE(ListModels(book_, manager_, RightsOf("ada"), list, listed).ok());
  EXPECT_EQ(listed.models_size(), 0);
  v1::RemoveModelRequest remove;
  v1::RemoveModelResponse removed;
  EXPECT_TRUE(absl::IsInvalidArgument(
      RemoveModel(book_, RightsOf("ada"), remove, removed)));
}

TEST_F(ModelCallsTest, BeyondTheLimitOfUploadsNothingIsPushed) {
  const v1::PushModelRequest request = Request("m");
  ledger_.Store(request.files(0).sha256(), 2);
  jobs::LimitSettings limits;
  limits.others.upload_bytes = 1;
  v1::PushModelResponse response;
  EXPECT_TRUE(absl::IsResourceExhausted(PushModel(book_, manager_, blobs_,
                                                  {&limits, &ledger_}, request,
                                                  CallOf("ada"), response)));
  EXPECT_EQ(List(RightsOf("ada")).models_size(), 0);
}

TEST_F(ModelCallsTest, HowMuchOthersUseAModelIsPrivateWhereJobsAre) {
  v1::PushModelResponse response;
  ASSERT_TRUE(Push(Request("m"), CallOf("ada"), response).ok());
  for (int i = 0; i < 3; ++i) ledger_.db.PutJobOf("m", "");
  ledger_.db.Execute("INSERT INTO model_starts VALUES ('m', 5000000)");
  const v1::Model open = List(RightsOf("bob")).models(0);
  EXPECT_EQ(open.unfinished_jobs(), 3);
  EXPECT_EQ(open.last_use_time().seconds(), 5);
  const v1::Model hidden =
      List(RightsOf("bob", /*private_jobs=*/true)).models(0);
  EXPECT_EQ(hidden.name(), "m");
  EXPECT_EQ(hidden.unfinished_jobs(), 0);
  EXPECT_FALSE(hidden.has_last_use_time());
  EXPECT_EQ(List(RightsOf("root", true, access::Role::kAdmin))
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
      RemoveModel(book_, RightsOf("bob"), request, response)));
  ASSERT_TRUE(RemoveModel(book_, RightsOf("ada"), request, response).ok());
  EXPECT_EQ(response.freed_bytes(), pushed.model().size_bytes());
  EXPECT_TRUE(
      absl::IsNotFound(RemoveModel(book_, RightsOf("ada"), request, response)));
}

TEST_F(ModelCallsTest, APulledModelIsDescribed) {
  cache_.Put("org/p", "c0ffee", "x");
  v1::Model model;
  FillModel(book_, manager_, RightsOf("ada"), "org/p", model);
  EXPECT_TRUE(model.pulled());
  EXPECT_EQ(model.revision(), "c0ffee");
  v1::Model none;
  FillModel(book_, manager_, RightsOf("ada"), "org/none", none);
  EXPECT_EQ(none.name(), "");
}

class PullStreamTest : public testing::Test {
 protected:
  PullStreamTest() {
    limits_.upload_bytes = 7;
    request_.set_id("org/model");
  }
  std::unique_ptr<Source<v1::PullModelProgress>> Make() {
    return MakePullSource(
        &puller_, RightsOf("ada"), limits_, request_,
        [](const std::string& id, v1::Model& model) { model.set_name(id); },
        [this] { ++woken_; });
  }

  FakePuller puller_;
  jobs::UserLimits limits_;
  v1::PullModelRequest request_;
  v1::PullModelProgress message_;
  int woken_ = 0;
};

TEST_F(PullStreamTest, ReportsTheNewsUntilItsEnd) {
  const auto source = Make();
  EXPECT_TRUE(puller_.requests().empty()) << "before the gate let it begin";
  EXPECT_EQ(*source->Next(message_), Pull::kWait);
  ASSERT_EQ(puller_.requests().size(), 1u);
  EXPECT_EQ(puller_.requests()[0].id, "org/model");
  EXPECT_EQ(puller_.requests()[0].revision, "main");
  EXPECT_EQ(puller_.requests()[0].user, "ada");
  EXPECT_FALSE(puller_.requests()[0].is_admin);
  EXPECT_EQ(puller_.requests()[0].limits.upload_bytes, 7);

  puller_.Tell(models::PullNews{5, "model.safetensors: 50%"});
  EXPECT_EQ(woken_, 1);
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.received_bytes(), 5);
  EXPECT_EQ(message_.note(), "model.safetensors: 50%");
  EXPECT_FALSE(message_.has_model()) << "before the model is there";
  EXPECT_EQ(*source->Next(message_), Pull::kWait);

  puller_.Tell(models::PullNews{10, "", /*done=*/true});
  message_.Clear();
  EXPECT_EQ(*source->Next(message_), Pull::kMessage);
  EXPECT_EQ(message_.model().name(), "org/model");
  EXPECT_EQ(*source->Next(message_), Pull::kEnd);
  EXPECT_EQ(puller_.requests().size(), 1u) << "a pull begins once";

  const auto fails = Make();
  EXPECT_EQ(*fails->Next(message_), Pull::kWait);
  puller_.Tell(absl::DataLossError("another hash"));
  EXPECT_EQ(fails->Next(message_).status(),
            absl::DataLossError("another hash"));
}

TEST_F(PullStreamTest, WhatIsNoIdReachesNoHub) {
  request_.set_id("../../etc");
  EXPECT_EQ(Make()->Next(message_).status().code(),
            absl::StatusCode::kInvalidArgument);
  request_.set_id("org/model");
  request_.set_revision("main?x=1");
  EXPECT_THAT(std::string(Make()->Next(message_).status().message()),
              HasSubstr("revision: 'main?x=1'"));
  EXPECT_TRUE(puller_.requests().empty());
}

TEST_F(PullStreamTest, WithoutAHubPullsAreOff) {
  const absl::Status off =
      MakePullSource(nullptr, RightsOf("ada"), {}, request_, {}, [] {})
          ->Next(message_)
          .status();
  EXPECT_EQ(off.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(off.message()), HasSubstr("mpsctl model push"));
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  EXPECT_EQ(CancelPull(nullptr, RightsOf("ada"), cancel), off);
}

TEST_F(PullStreamTest, CancelSaysWhoAsks) {
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  cancel.set_revision("v1");
  EXPECT_TRUE(CancelPull(&puller_,
                         RightsOf("root", false, access::Role::kAdmin), cancel)
                  .ok());
  ASSERT_EQ(puller_.cancelled().size(), 1u);
  EXPECT_EQ(puller_.cancelled()[0].revision, "v1");
  EXPECT_EQ(puller_.cancelled()[0].user, "root");
  EXPECT_TRUE(puller_.cancelled()[0].is_admin);
  puller_.Refuse(absl::NotFoundError("no such pull"));
  EXPECT_TRUE(absl::IsNotFound(CancelPull(&puller_, RightsOf("ada"), cancel)));
  cancel.set_id("..");
  EXPECT_TRUE(
      absl::IsInvalidArgument(CancelPull(&puller_, RightsOf("ada"), cancel)));
}

class ModelServiceTest : public Served {
 protected:
  using Stub = v1::ModelService::Stub;

  ModelServiceTest() : Served(OptionsOf(this)) {}
  ~ModelServiceTest() override { server_.reset(); }

  static Options OptionsOf(ModelServiceTest* test) {
    Options options;
    options.audit = &test->audit_;
    return options;
  }

  FakeAudit audit_;
};

TEST_F(ModelServiceTest, APullStreamsAndIsAuditedToItsEnd) {
  std::thread hub([&] {
    puller_.Tell(models::PullNews{1, ""});
    puller_.Tell(models::PullNews{2, "", /*done=*/true});
  });
  v1::PullModelRequest request;
  request.set_id("org/model");
  request.set_revision("v1");
  grpc::ClientContext context;
  const auto reader = models_->Pull(&context, request);
  v1::PullModelProgress progress;
  ASSERT_TRUE(reader->Read(&progress));
  EXPECT_EQ(progress.received_bytes(), 1);
  ASSERT_TRUE(reader->Read(&progress));
  EXPECT_EQ(progress.received_bytes(), 2);
  EXPECT_FALSE(reader->Read(&progress));
  EXPECT_TRUE(reader->Finish().ok());
  hub.join();
  server_->Shutdown(absl::Seconds(5));
  server_.reset();  // its last tasks note the end
  const auto noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].request.method, "ModelService.Pull");
  EXPECT_EQ(noted[0].request.detail, "org/model@v1");
  EXPECT_TRUE(noted[0].ended);
  EXPECT_TRUE(noted[0].result.ok());
}

TEST_F(ModelServiceTest, APullThatCannotBeNotedDoesNotBegin) {
  audit_.FailBegin(absl::ResourceExhaustedError("the audit's disk is full"));
  v1::PullModelRequest request;
  request.set_id("org/model");
  grpc::ClientContext context;
  v1::PullModelProgress progress;
  const auto reader = models_->Pull(&context, request);
  EXPECT_FALSE(reader->Read(&progress));
  EXPECT_EQ(reader->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(puller_.requests().empty());
}

TEST_F(ModelServiceTest, ChangesAreAudited) {
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  v1::CancelPullResponse cancelled;
  EXPECT_TRUE(Ask(models_, &Stub::CancelPull, cancel, cancelled).ok());
  ASSERT_EQ(puller_.cancelled().size(), 1u);
  EXPECT_EQ(puller_.cancelled()[0].revision, "main");
  v1::PushModelRequest push;
  push.set_name("org/m");
  push.add_files()->set_path("config.json");
  push.mutable_files(0)->set_sha256(std::string(64, 'a'));
  v1::PushModelResponse pushed;
  const grpc::Status status = Ask(models_, &Stub::Push, push, pushed);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("has not been uploaded"));
  const auto noted = audit_.Take();
  ASSERT_EQ(noted.size(), 2u);
  EXPECT_EQ(noted[0].request.detail, "org/model");
  EXPECT_EQ(noted[1].request.detail, "org/m, files: 1");
}

}  // namespace
}  // namespace mpsd::rpc
