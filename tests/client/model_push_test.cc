// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"
#include "tests/client/model_folder.h"

namespace mpsd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ModelPushTest : public ClientTest {
 protected:
  ModelPushTest() { WriteModelFolder(model_); }

  const std::filesystem::path model_ = folder_ / "tiny";
};

TEST_F(ModelPushTest, SendsTheFilesAndNamesTheModel) {
  const Result result = RunVerb({"model", "push", model_.string()});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_THAT(daemon_->models().pushed, SizeIs(1));
  const v1::PushModelRequest& request = daemon_->models().pushed[0];
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
  EXPECT_THAT(result.err,
              HasSubstr("left out, as mpsd reads no such files: README.md\n"));
}

TEST_F(ModelPushTest, SendsNothingTwice) {
  ASSERT_EQ(RunVerb({"model", "push", model_.string()}).code, 0);
  const int uploads = data().uploads;
  ASSERT_EQ(RunVerb({"model", "push", model_.string(), "--name", "org/t"}).code,
            0);
  EXPECT_EQ(data().uploads, uploads);
  EXPECT_EQ(daemon_->models().pushed.back().name(), "org/t");
}

TEST_F(ModelPushTest, AWrongNameIsSaidBeforeAnythingIsSent) {
  const Result result =
      RunVerb({"model", "push", model_.string(), "--name", "my model"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("Choose a name with --name"));
  EXPECT_THAT(data().blobs, IsEmpty());
}

TEST_F(ModelPushTest, ABrokenFolderIsSaidBeforeMpsdIsAsked) {
  WriteText(model_ / "model.safetensors", "version https://git-lfs\n");
  daemon_->Stop();
  const Result result = RunVerb({"model", "push", model_.string()});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("git lfs pull"));
  EXPECT_THAT(result.err, HasSubstr("Nothing was sent."));
  daemon_->Start();
}

TEST_F(ModelPushTest, GoesOnAfterADaemonThatWasAway) {
  data().fail["Push"] =
      grpc::Status(grpc::StatusCode::UNAVAILABLE, "mpsd is stopping");
  const Result result = RunVerb({"model", "push", model_.string()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(daemon_->models().pushed, SizeIs(2));
}

TEST_F(ModelPushTest, WhatMpsdRefusesIsToldOnce) {
  data().fail["Push"] =
      grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                   "name: the model tiny is bob's: choose another name");
  const Result result = RunVerb({"model", "push", model_.string()});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("bob's"));
  EXPECT_THAT(daemon_->models().pushed, SizeIs(1));
}

TEST_F(ModelPushTest, Json) {
  const Result result = RunVerb({"--json", "model", "push", model_.string()});
  EXPECT_EQ(nlohmann::json::parse(result.out)["model"]["name"], "tiny");
}

}  // namespace
}  // namespace mpsd::client
