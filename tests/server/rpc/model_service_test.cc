// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_service.h"

#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

class ModelServiceTest : public Served {
 protected:
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

TEST_F(ModelServiceTest, CancelPullIsAudited) {
  v1::CancelPullRequest request;
  request.set_id("org/model");
  v1::CancelPullResponse response;
  grpc::ClientContext context;
  EXPECT_TRUE(models_->CancelPull(&context, request, &response).ok());
  ASSERT_EQ(puller_.cancelled().size(), 1u);
  EXPECT_EQ(puller_.cancelled()[0].revision, "main");
  const auto noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].request.detail, "org/model");
}

TEST_F(ModelServiceTest, APushOfWhatWasNotUploadedIsAudited) {
  v1::PushModelRequest request;
  request.set_name("org/m");
  request.add_files()->set_path("config.json");
  request.mutable_files(0)->set_sha256(std::string(64, 'a'));
  v1::PushModelResponse response;
  grpc::ClientContext context;
  const grpc::Status status = models_->Push(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              testing::HasSubstr("has not been uploaded"));
  const auto noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].request.detail, "org/m, files: 1");
}

TEST_F(ModelServiceTest, ListAndRemove) {
  v1::ListModelsRequest request;
  request.set_name("no/such");
  v1::ListModelsResponse response;
  grpc::ClientContext list;
  EXPECT_TRUE(models_->ListModels(&list, request, &response).ok());
  EXPECT_EQ(response.models_size(), 0);
  v1::RemoveModelRequest remove;
  remove.set_name("no/such");
  v1::RemoveModelResponse removed;
  grpc::ClientContext context;
  EXPECT_EQ(models_->RemoveModel(&context, remove, &removed).error_code(),
            grpc::StatusCode::NOT_FOUND);
  ASSERT_EQ(audit_.Take().size(), 1u);
}

}  // namespace
}  // namespace mpsd::rpc
