// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_calls.h"

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "tests/server/models/hub_cache.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

class ModelCallsTest : public testing::Test {
 protected:
  static InProcessDaemon::Options Limits(bool private_jobs) {
    InProcessDaemon::Options options;
    options.private_jobs = private_jobs;
    options.limits.users["eve"].upload_bytes = 10;
    return options;
  }
  explicit ModelCallsTest(bool private_jobs = false)
      : daemon_(Limits(private_jobs)) {}

  v1::PushModelRequest Request(const std::string& name) {
    v1::PushModelRequest request;
    request.set_name(name);
    for (const auto& [path, bytes] : {std::pair<std::string, std::string>{
                                          "config.json", models::kTinyConfig},
                                      {"tokenizer.json", "{}"}}) {
      v1::PushModelRequest::File& file = *request.add_files();
      file.set_path(path);
      file.set_sha256(daemon_.PutBlob(bytes, "root"));
      file.set_size_bytes(static_cast<int64_t>(bytes.size()));
    }
    return request;
  }
  static v1::ListModelsResponse List(const Api& by) {
    return Ok(by.Call(&Models::ListModels));
  }
  static absl::StatusOr<v1::RemoveModelResponse> Remove(
      const Api& by, const std::string& name) {
    v1::RemoveModelRequest request;
    request.set_name(name);
    return by.Call(&Models::RemoveModel, request);
  }

  InProcessDaemon daemon_;
  const Api ada_ = daemon_.As("ada"), bob_ = daemon_.As("bob"),
            root_ = daemon_.As("root", Role::kAdmin);
};

TEST_F(ModelCallsTest, APushAnswersWithTheModelAndCountsItsBytes) {
  const v1::PushModelRequest request = Request("org/m");
  const v1::PushModelResponse pushed = Ok(ada_.Call(&Models::Push, request));
  EXPECT_FALSE(pushed.existed());
  const v1::Model& model = pushed.model();
  EXPECT_EQ(model.name(), "org/m");
  EXPECT_EQ(model.owner(), "ada");
  EXPECT_EQ(model.family(), "llama");
  EXPECT_THAT(model.tasks(), ElementsAre("CAUSAL_LM", "SEQ_CLS"));
  EXPECT_GT(model.least_memory_bytes(), 0);
  EXPECT_TRUE(model.fits());
  EXPECT_GT(model.create_time().seconds(), 0);
  EXPECT_TRUE(Ok(daemon_.ledger->Holds("ada", request.files(0).sha256())));
  EXPECT_TRUE(Ok(ada_.Call(&Models::Push, request)).existed());
  EXPECT_THAT(Remove(bob_, "org/m"), Fails(StatusCode::kPermissionDenied));
  EXPECT_EQ(Ok(Remove(ada_, "org/m")).freed_bytes(), model.size_bytes());
  EXPECT_THAT(Remove(ada_, "org/m"), Fails(StatusCode::kNotFound));
  std::vector<std::string> details;
  for (const access::AuditEntry& entry : daemon_.TakeAudit()) {
    details.push_back(entry.request.detail);
  }
  EXPECT_THAT(details, ElementsAre("org/m, files: 2", "org/m, files: 2",
                                   HasSubstr("org/m"), HasSubstr("org/m"),
                                   HasSubstr("org/m")));
}

TEST_F(ModelCallsTest, WhatCannotBePushedListedOrRemovedIsRefused) {
  const auto push = [&](const Api& by, const v1::PushModelRequest& request) {
    return by.Call(&Models::Push, request);
  };
  v1::PushModelRequest request = Request("m");
  EXPECT_THAT(push(daemon_.As("eve"), request),
              Fails(StatusCode::kResourceExhausted));  // of her limit
  EXPECT_THAT(List(ada_).models(), IsEmpty());
  EXPECT_THAT(push(ada_, Request("../m")),
              Fails(StatusCode::kInvalidArgument, "name: "));
  request.mutable_files(0)->set_path("../../tokens");
  EXPECT_THAT(push(ada_, request),
              Fails(StatusCode::kInvalidArgument, "files[0].path"));
  request = Request("m");
  request.mutable_files(0)->set_sha256(std::string(64, 'a'));
  EXPECT_THAT(push(ada_, request),
              Fails(StatusCode::kFailedPrecondition, "has not been uploaded"));
  while (request.files_size() <= static_cast<int>(limits::kFilesOfModel)) {
    request.add_files();
  }
  EXPECT_THAT(push(ada_, request),
              Fails(StatusCode::kInvalidArgument, "files: has 1001 entries"));
  v1::ListModelsRequest list;
  list.set_name("..");
  EXPECT_THAT(ada_.Call(&Models::ListModels, list),
              Fails(StatusCode::kInvalidArgument));
  list.set_name("no/such");
  EXPECT_THAT(Ok(ada_.Call(&Models::ListModels, list)).models(), IsEmpty());
  EXPECT_THAT(Remove(ada_, ""), Fails(StatusCode::kInvalidArgument));
}

TEST_F(ModelCallsTest, AJobSaysThatItsModelHasOtherFilesThanTheLast) {
  const auto note = [&](const std::string& owner) {
    jobs::SubmitRequest job;
    job.owner = owner;
    job.spec_json = absl::StrCat(R"({"model": "org/m", "dataset": {"train": ")",
                                 daemon_.data().string(), "\"}}");
    const auto events =
        Ok(daemon_.job_store->Events(daemon_.Enqueue(job), 0, 1));
    return std::get<jobs::StateChanged>(events.at(0).body).message;
  };
  // Where jobs may read.
  models::HubCache cache(daemon_.data().parent_path() / "hub");
  cache.Put("org/m", "c0ffee", "x");
  note("ada");
  EXPECT_THAT(note("ada"), Not(HasSubstr("last job")));
  EXPECT_THAT(bob_.Call(&Models::Push, Request("org/m")),
              Fails(StatusCode::kPermissionDenied, "role admin"));
  const auto pushed = Ok(root_.Call(&Models::Push, Request("org/m"))).model();
  const std::string revision = pushed.revision().substr(0, 12);
  // Other users' jobs do not make it known to her.
  EXPECT_THAT(note("bob"), Not(HasSubstr("last job")));
  EXPECT_THAT(note("ada"),
              HasSubstr(absl::StrCat(
                  "; the files of org/m are not those of your last job with "
                  "it: the pushed ",
                  revision, ", before the Hugging Face cache's c0ffee")));
  EXPECT_THAT(note("ada"), Not(HasSubstr("last job")));
}

class PrivateModelsTest : public ModelCallsTest {
 protected:
  PrivateModelsTest() : ModelCallsTest(/*private_jobs=*/true) {}
};

TEST_F(PrivateModelsTest, HowMuchOthersUseAModelIsPrivateWhereJobsAre) {
  EXPECT_THAT(root_.Call(&Models::Push, Request("m")), IsOk());
  jobs::SubmitRequest job;
  job.owner = "ada";
  job.spec_json = absl::StrCat(R"({"model": "m", "dataset": {"train": ")",
                               daemon_.data().string(), "\"}}");
  daemon_.Enqueue(job);
  daemon_.Tick();
  const v1::Model hidden = List(bob_).models(0);
  EXPECT_EQ(hidden.name(), "m");
  EXPECT_EQ(hidden.unfinished_jobs(), 0);
  EXPECT_FALSE(hidden.has_last_use_time());
  const v1::Model whole = List(root_).models(0);
  EXPECT_EQ(whole.unfinished_jobs(), 1);
  EXPECT_TRUE(whole.has_last_use_time());
}

class PullTest : public ModelCallsTest {
 protected:
  PullTest() { request_.set_id("org/model"); }
  fakes::FakePuller& puller_ = daemon_.puller;
  v1::PullModelRequest request_;
};

TEST_F(PullTest, ReportsTheNewsUntilTheModelIsThere) {
  models::HubCache cache;
  cache.Put("org/model", "c0ffee", "x");
  puller_.Report(models::PullNews{5, "model.safetensors: 50%"});
  puller_.Report(models::PullNews{10, "", /*done=*/true});
  const Api eve = daemon_.As("eve");
  const auto pulled = eve.Read(&Models::Pull, request_);
  EXPECT_THAT(pulled, IsOk());
  ASSERT_THAT(pulled.messages, SizeIs(2));
  EXPECT_EQ(pulled.messages[0].received_bytes(), 5);
  EXPECT_EQ(pulled.messages[0].note(), "model.safetensors: 50%");
  EXPECT_FALSE(pulled.messages[0].has_model()) << "before the model is there";
  EXPECT_EQ(pulled.messages[1].model().name(), "org/model");
  EXPECT_TRUE(pulled.messages[1].model().pulled());
  EXPECT_EQ(pulled.messages[1].model().revision(), "c0ffee");
  ASSERT_THAT(puller_.requests(), SizeIs(1)) << "a pull begins once";
  const models::PullRequest asked = puller_.requests()[0];
  EXPECT_EQ(asked.id, "org/model");
  EXPECT_EQ(asked.revision, "main");
  EXPECT_EQ(asked.user, "eve");
  EXPECT_FALSE(asked.is_admin);
  EXPECT_EQ(asked.limits.upload_bytes, 10);

  request_.set_revision("v1");
  puller_.Report(absl::DataLossError("another hash"));
  EXPECT_EQ(ada_.Read(&Models::Pull, request_).end,
            absl::DataLossError("another hash"));
  const std::vector<access::AuditEntry> noted = daemon_.TakeAudit();
  ASSERT_THAT(noted, SizeIs(2));
  EXPECT_EQ(noted[1].request.method, "ModelService.Pull");
  EXPECT_EQ(noted[1].request.detail, "org/model@v1");
  EXPECT_EQ(noted[1].result, StatusCode::kDataLoss) << "to its end";
}

TEST_F(PullTest, APullThatAPushedModelWouldHideIsRefused) {
  EXPECT_THAT(bob_.Call(&Models::Push, Request("org/model")), IsOk());
  EXPECT_THAT(ada_.Read(&Models::Pull, request_),
              Fails(StatusCode::kFailedPrecondition, "org/model@main"));
  EXPECT_THAT(puller_.requests(), IsEmpty());
  request_.set_revision("main");
  puller_.Report(models::PullNews{2, "", /*done=*/true});
  EXPECT_THAT(ada_.Read(&Models::Pull, request_), IsOk());
}

TEST_F(PullTest, NewsThatComeLaterWakeTheStream) {
  std::thread hub([&] {
    while (puller_.requests().empty()) absl::SleepFor(absl::Milliseconds(1));
    absl::SleepFor(absl::Milliseconds(50));
    puller_.Report(models::PullNews{2, "", /*done=*/true});
  });
  EXPECT_THAT(ada_.Read(&Models::Pull, request_).messages, SizeIs(1));
  hub.join();
}

TEST_F(PullTest, WhatIsNoIdOrCannotBeNotedReachesNoHub) {
  request_.set_id("../../etc");
  EXPECT_THAT(ada_.Read(&Models::Pull, request_),
              Fails(StatusCode::kInvalidArgument));
  request_.set_id("org/model");
  request_.set_revision("main?x=1");
  EXPECT_THAT(ada_.Read(&Models::Pull, request_),
              Fails(StatusCode::kInvalidArgument, "revision: 'main?x=1'"));
  request_.clear_revision();
  daemon_.Execute(
      "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, "
      "'no room'); END");
  EXPECT_FALSE(ada_.Read(&Models::Pull, request_).end.ok());
  EXPECT_THAT(puller_.requests(), IsEmpty());
}

TEST_F(PullTest, CancelSaysWhoAsks) {
  v1::CancelPullRequest cancel;
  cancel.set_id("org/model");
  EXPECT_THAT(ada_.Call(&Models::CancelPull, cancel), IsOk());
  cancel.set_revision("v1");
  EXPECT_THAT(root_.Call(&Models::CancelPull, cancel), IsOk());
  ASSERT_THAT(puller_.cancelled(), SizeIs(2));
  EXPECT_EQ(puller_.cancelled()[0].revision, "main");
  EXPECT_FALSE(puller_.cancelled()[0].is_admin);
  EXPECT_EQ(puller_.cancelled()[1].revision, "v1");
  EXPECT_EQ(puller_.cancelled()[1].user, "root");
  EXPECT_TRUE(puller_.cancelled()[1].is_admin);
  puller_.Refuse(absl::NotFoundError("no such pull"));
  EXPECT_THAT(ada_.Call(&Models::CancelPull, cancel),
              Fails(StatusCode::kNotFound));
  cancel.set_id("..");
  EXPECT_THAT(ada_.Call(&Models::CancelPull, cancel),
              Fails(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace mpsd::rpc
