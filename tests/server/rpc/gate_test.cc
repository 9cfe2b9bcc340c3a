// SPDX-License-Identifier: Apache-2.0
// Who may call what, what the audit records of it, and what users may have.
#include "server/rpc/gate.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

using google::protobuf::MethodDescriptor;

// Who may what, written out: a column for a viewer and another's job, a viewer
// and a job that is the viewer's own, a user likewise, and an admin. '+' may,
// '-' may not, 'o' may unless jobs are private.
struct Row {
  std::string_view method;
  std::string_view may;
};
constexpr Row kWhoMayWhat[] = {
    {"AccessService.CreateToken", "----+"},
    {"AccessService.ListAudit", "+++++"},
    {"AccessService.ListTokens", "+++++"},
    {"AccessService.RevokeToken", "+++++"},
    {"AccessService.WhoAmI", "+++++"},
    {"ArtifactService.Download", "o+o++"},
    {"ArtifactService.FindBlobs", "--+++"},
    {"ArtifactService.Upload", "--+++"},
    {"ArtifactService.UploadBatch", "--+++"},
    {"DaemonService.Collect", "----+"},
    {"DaemonService.Drain", "----+"},
    {"DaemonService.Info", "+++++"},
    {"DaemonService.PlanCollection", "+++++"},
    {"DaemonService.Undrain", "----+"},
    {"JobService.AddNote", "--+++"},
    {"JobService.Cancel", "---++"},
    {"JobService.Checkpoints", "o+o++"},
    {"JobService.Delete", "---++"},
    {"JobService.FindJobs", "+++++"},
    {"JobService.Get", "+++++"},
    {"JobService.GetRecord", "+++++"},
    {"JobService.GetSubmission", "o+o++"},
    {"JobService.Hold", "---++"},
    {"JobService.List", "+++++"},
    {"JobService.Logs", "o+o++"},
    {"JobService.Move", "---++"},
    {"JobService.Pin", "---++"},
    {"JobService.Queue", "+++++"},
    {"JobService.Release", "---++"},
    {"JobService.Retry", "---++"},
    {"JobService.Submit", "--+++"},
    {"JobService.Tag", "--+++"},
    {"JobService.Unpin", "---++"},
    {"JobService.Watch", "o+o++"},
    {"ModelService.CancelPull", "--+++"},
    {"ModelService.ListModels", "+++++"},
    {"ModelService.Pull", "--+++"},
    {"ModelService.Push", "--+++"},
    {"ModelService.RemoveModel", "--+++"},
    {"RunbookService.Diagnose", "+++++"},
    {"RunbookService.GetStudyResult", "o+o++"},
    {"RunbookService.Plan", "--+++"},
};
struct Column {
  Role role;
  const char* owner;  // of the job that the caller, ada, names
};
constexpr Column kColumns[] = {{Role::kViewer, "bob"},
                               {Role::kViewer, "ada"},
                               {Role::kUser, "bob"},
                               {Role::kUser, "ada"},
                               {Role::kAdmin, "bob"}};

// The methods of every service of this API that is compiled in.
std::map<std::string, const MethodDescriptor*> MethodsOfTheApi() {
  std::map<std::string, const MethodDescriptor*> methods;
  for (const auto* file : {v1::SubmitRequest::descriptor()->file(),
                           v1::UploadRequest::descriptor()->file(),
                           v1::InfoRequest::descriptor()->file(),
                           v1::PullModelRequest::descriptor()->file(),
                           v1::WhoAmIRequest::descriptor()->file(),
                           v1::GetStudyResultRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        const MethodDescriptor* rpc = file->service(s)->method(m);
        methods[absl::StrCat(rpc->service()->name(), ".", rpc->name())] = rpc;
      }
    }
  }
  return methods;
}

// Calls any method with a request that names the job where it names one.
absl::Status CallAny(const Api& api, const MethodDescriptor& method,
                     const std::string& job_id) {
  google::protobuf::DynamicMessageFactory factory;
  const std::unique_ptr<google::protobuf::Message> request(
      factory.GetPrototype(method.input_type())->New());
  for (const char* name : {"id", "job_id"}) {
    const auto* field = method.input_type()->FindFieldByName(name);
    if (field == nullptr) continue;
    request->GetReflection()->SetString(request.get(), field, job_id);
  }
  return CallBytes(api,
                   absl::StrCat("/", method.service()->full_name(), "/",
                                method.name()),
                   request->SerializeAsString())
      .status();
}

class GateTest : public testing::TestWithParam<bool> {
 protected:
  GateTest() {
    daemon_.puller.Refuse(absl::NotFoundError("the hub has no such model"));
  }
  // A new job that has failed.
  std::string JobOf(const std::string& owner) {
    const jobs::Job job =
        InProcessDaemon::MakeJob(++jobs_, State::kFailed, owner);
    daemon_.Put(job);
    return job.id;
  }

  int jobs_ = 0;
  InProcessDaemon daemon_{{.private_jobs = GetParam()}};
};

INSTANTIATE_TEST_SUITE_P(Jobs, GateTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Private" : "Public";
                         });

TEST(Rules, EveryMethodOfTheApiHasARowAndNoOther) {
  std::set<std::string> api, rules, written_out;
  for (const auto& [name, method] : MethodsOfTheApi()) api.insert(name);
  for (const access::Rule& rule : access::kRules) {
    const std::string_view row = rule.method;  // "Service.Method (reason)"
    rules.emplace(row.substr(0, row.find(' ')));
  }
  for (const Row& row : kWhoMayWhat) written_out.emplace(row.method);
  EXPECT_EQ(rules, api);
  EXPECT_EQ(written_out, api);
}

TEST_P(GateTest, WhoMayWhat) {
  const auto methods = MethodsOfTheApi();
  std::map<Role, access::NewToken> tokens;
  for (Role role : {Role::kViewer, Role::kUser, Role::kAdmin}) {
    tokens[role] = daemon_.MakeToken("ada", role);
  }
  const std::shared_ptr<grpc::Channel> channel = daemon_.Stranger().channel();
  for (const Row& row : kWhoMayWhat) {
    const std::string name(row.method);
    const access::Rule& rule =
        *std::find_if(std::begin(access::kRules), std::end(access::kRules),
                      [&](const access::Rule& r) { return r.method == name; });
    for (size_t i = 0; i < row.may.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, ", column ", i));
      const access::NewToken& token = tokens[kColumns[i].role];
      const absl::Status status =
          CallAny(Api(channel, token.secret), *methods.at(name),
                  JobOf(kColumns[i].owner));
      EXPECT_FALSE(absl::IsUnimplemented(status)) << status;
      EXPECT_FALSE(absl::IsUnauthenticated(status)) << status;
      const bool may = row.may[i] == '+' || (row.may[i] == 'o' && !GetParam());
      EXPECT_EQ(!absl::IsPermissionDenied(status), may) << status;
      if (!may) {
        EXPECT_THAT(std::string(status.message()),
                    testing::AllOf(HasSubstr("role "), HasSubstr("admin")));
      }
      const std::vector<access::AuditEntry> noted = daemon_.TakeAudit();
      ASSERT_EQ(noted.size(), rule.audited ? 1u : 0u);
      if (!rule.audited) continue;
      EXPECT_EQ(noted[0].request.method, name);
      EXPECT_EQ(noted[0].request.caller.user, "ada");
      EXPECT_EQ(noted[0].request.caller.credential,
                "token " + access::TokenId(token.token.sha256));
      EXPECT_EQ(noted[0].request.caller.origin, "127.0.0.1");
      EXPECT_EQ(noted[0].result, status.code());
    }
  }
}

TEST_P(GateTest, AStrangerMayNothing) {
  for (const auto& [name, method] : MethodsOfTheApi()) {
    EXPECT_THAT(CallAny(daemon_.Stranger(), *method, JobOf("")),
                Fails(StatusCode::kUnauthenticated))
        << name;
    for (const access::AuditEntry& noted : daemon_.TakeAudit()) {
      EXPECT_EQ(noted.result, StatusCode::kUnauthenticated);
      EXPECT_EQ(noted.request.caller.user, "");
    }
  }
}

TEST_P(GateTest, AJobThatIsNotThereIsNotFoundForAll) {
  const Api ada = daemon_.As("ada");
  const auto methods = MethodsOfTheApi();
  for (const access::Rule& rule : access::kRules) {
    if (rule.concerns != access::Concerns::kOwnJob &&
        rule.concerns != access::Concerns::kReadableJob) {
      continue;
    }
    EXPECT_THAT(CallAny(ada, *methods.at(rule.method),
                        InProcessDaemon::MakeJob(99, State::kFailed).id),
                Fails(StatusCode::kNotFound))
        << rule.method;
  }
}

// Whether others have a file cannot be found out by its SHA-256.
TEST_P(GateTest, BlobsOfOthersCountAsNotThereWhereJobsArePrivate) {
  const std::string bytes = "her data", sha256 = base::Sha256Hex(bytes);
  const Api ada = daemon_.As("ada"), bob = daemon_.As("bob"),
            eve = daemon_.As("eve"), root = daemon_.As("root", Role::kAdmin);
  const auto finds = [&](const Api& api) {
    v1::FindBlobsRequest request;
    request.add_sha256(sha256);
    return Ok(api.Call(&Artifacts::FindBlobs, request)).present_size() == 1;
  };
  // Whether mpsd answers without waiting for the bytes.
  const auto existed = [&](const Api& api) {
    return Ok(Upload(api, {Header(sha256, bytes.size()), Data(bytes)}))
        .existed();
  };
  // How many of a batch were new.
  const auto stored = [&](const Api& api) {
    grpc::ClientContext context;
    api.Prepare(context);
    v1::UploadBatchResponse response;
    auto writer = api.artifacts()->UploadBatch(&context, &response);
    v1::UploadBatchRequest request;
    request.add_blobs()->set_sha256(sha256);
    request.mutable_blobs(0)->set_data(bytes);
    writer->Write(request);
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    return response.stored();
  };
  EXPECT_FALSE(finds(ada));
  EXPECT_FALSE(existed(ada));
  EXPECT_TRUE(finds(ada));
  EXPECT_TRUE(existed(ada));
  EXPECT_EQ(stored(ada), 0);
  EXPECT_EQ(finds(bob), !GetParam());
  EXPECT_TRUE(finds(root));
  EXPECT_EQ(existed(bob), !GetParam());
  // Who has sent it has it.
  EXPECT_TRUE(finds(bob));
  EXPECT_EQ(stored(eve), GetParam() ? 1 : 0);
  EXPECT_TRUE(finds(eve));
}

class CredentialTest : public testing::Test {
 protected:
  // A stream that has begun: an event has come.
  std::unique_ptr<Watching> Watched(const Api& api,
                                    const std::string& job = "") {
    auto open = Watch(api, job.empty() ? job_ : job);
    v1::JobEvent event;
    EXPECT_TRUE(open->stream->Read(&event));
    return open;
  }
  Api By(const access::NewToken& token) const {
    return Api(daemon_.Stranger().channel(), token.secret);
  }
  int Revoke(const access::NewToken& token) {
    return Ok(daemon_.tokens->Revoke(access::TokenId(token.token.sha256)));
  }

  InProcessDaemon daemon_{
      {.rpc = [](Options& options) { options.max_streams_of_user = 5; }}};
  const access::NewToken token_ = daemon_.MakeToken("ada", Role::kUser);
  const std::string job_ = daemon_.Start({.owner = "ada"});
};

TEST_F(CredentialTest, StreamsEndWithTheirCredential) {
  const auto watched = Watched(By(token_)), stays = Watched(daemon_.admin());
  const auto upload = BeginUpload(By(token_));
  ASSERT_TRUE(upload->stream->Write(Header(std::string(64, 'a'), 2)));
  AwaitParts(daemon_, 1);
  EXPECT_EQ(Revoke(token_), 2);
  EXPECT_EQ(daemon_.server->EndStreams("token nobody"), 0);
  v1::JobEvent event;
  while (watched->stream->Read(&event)) {
  }
  EXPECT_THAT(ToStatus(watched->stream->Finish()),
              Fails(StatusCode::kUnauthenticated, "token "));
  EXPECT_THAT(upload->Finish(), Fails(StatusCode::kUnauthenticated));
  daemon_.Step(7);
  while (stays->stream->Read(&event) && !event.has_progress()) {
  }
  EXPECT_EQ(event.progress().step(), 7);
  stays->context.TryCancel();
  stays->stream->Finish();
  const std::vector<access::AuditEntry> noted = daemon_.TakeAudit();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].result, StatusCode::kUnauthenticated);
}

// Also one that never waits for its client.
TEST_F(CredentialTest, AnUploadUnderWayEndsWithItsCredential) {
  for (int i = 0; i < 20; ++i) {
    const std::string user = absl::StrCat("user", i);
    const access::NewToken token = daemon_.MakeToken(user, Role::kUser);
    const auto upload = BeginUpload(By(token));
    ASSERT_TRUE(upload->stream->Write(Header(std::string(64, 'a'), 64 << 20)));
    AwaitParts(daemon_, 1, user);
    std::thread client([&] {
      while (upload->stream->Write(Data("x"))) {
      }
    });
    EXPECT_EQ(Revoke(token), 1);
    client.join();
    EXPECT_THAT(upload->Finish(), Fails(StatusCode::kUnauthenticated));
  }
}

// Also one whose client reads nothing.
TEST_F(CredentialTest, AStuckStreamEndsWithItsCredential) {
  const jobs::Job job = InProcessDaemon::MakeJob(1, State::kRunning, "ada");
  std::vector<jobs::Event> events;
  for (int i = 2; i < 42; ++i) {  // far more than any window
    events.push_back(
        {job.id, i, job.create_time, jobs::Note{std::string(1 << 20, 'n')}});
  }
  daemon_.Put(job, events);
  const auto stuck = Watched(By(token_), job.id);
  EXPECT_EQ(Revoke(token_), 1);
  EXPECT_TRUE(daemon_.calls.AwaitOpen("JobService.Watch", 0));
  stuck->context.TryCancel();
  stuck->stream->Finish();
}

TEST_F(CredentialTest, AUserLeavesStreamsToOthers) {
  std::vector<std::unique_ptr<Watching>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(Watched(By(token_)));
  EXPECT_THAT(By(token_).Read(&Jobs::Watch, ById<v1::WatchRequest>(job_)),
              Fails(StatusCode::kUnavailable, "5 such streams of yours"));
  const auto others = Watched(daemon_.admin());
  EXPECT_EQ(Revoke(token_), 5);
  for (auto& open : streams) {
    v1::JobEvent event;
    while (open->stream->Read(&event)) {
    }
    EXPECT_THAT(ToStatus(open->stream->Finish()),
                Fails(StatusCode::kUnauthenticated));
  }
  others->context.TryCancel();
  others->stream->Finish();
}

TEST(AuditTest, WhatCannotBeNotedIsNotDoneUnlessItNeedsNoRoom) {
  FakeAudit audit;
  InProcessDaemon daemon(
      {.rpc = [&](Options& options) { options.audit = &audit; }});
  const std::string ended = daemon.Ended(), queued = daemon.Submit();
  audit.OnEachBegin([](const access::Request&) {
    return absl::ResourceExhaustedError("the audit's disk is full");
  });
  EXPECT_THAT(daemon.admin().Call(&Jobs::Retry, ById<v1::RetryRequest>(ended)),
              Fails(StatusCode::kResourceExhausted));
  EXPECT_THAT(
      daemon.admin().Call(&Jobs::Cancel, ById<v1::CancelRequest>(queued)),
      IsOk());
  EXPECT_THAT(std::string(audit.AwaitEnded(1)[0].result.message()),
              HasSubstr("the audit's disk is full"));
}

jobs::LimitSettings SomeLimits() {
  jobs::LimitSettings limits;
  limits.others.queued_jobs = 2;
  limits.others.upload_bytes = 10;
  limits.others.highest_priority = 5;
  limits.users["bob"];
  return limits;
}

class UserAccountsTest : public testing::Test {
 protected:
  absl::StatusOr<v1::SubmitResponse> Submit(const Api& api, int priority = 0) {
    v1::SubmitRequest request;
    request.set_spec_json(daemon_.Spec());
    request.set_priority(priority);
    return api.Call(&Jobs::Submit, request);
  }
  static absl::Status UploadTo(const Api& api, const std::string& bytes) {
    return Upload(api,
                  {Header(base::Sha256Hex(bytes), bytes.size()), Data(bytes)})
        .status();
  }
  static v1::InfoResponse Info(const Api& api, bool you) {
    v1::InfoRequest request;
    request.set_you(you);
    return Ok(api.Call(&DaemonApi::Info, request));
  }

  InProcessDaemon daemon_{{.limits = SomeLimits(), .budget_bytes = 500}};
  const Api ada_ = daemon_.As("ada"), bob_ = daemon_.As("bob");
};

TEST_F(UserAccountsTest, AJobIsSubmittedAndRetriedWithTheLimitsOfItsUser) {
  const v1::Job first = Ok(Submit(ada_)).job();
  EXPECT_EQ(first.owner(), "ada");
  EXPECT_EQ(daemon_.TakeAudit()[0].request.job_id, first.id());
  EXPECT_THAT(Submit(ada_, 6), Fails(StatusCode::kInvalidArgument, "priority"));
  EXPECT_THAT(ada_.Call(&Jobs::Cancel, ById<v1::CancelRequest>(first.id())),
              IsOk());
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Submit(ada_), IsOk());
  EXPECT_THAT(Submit(ada_), Fails(StatusCode::kResourceExhausted));
  EXPECT_THAT(ada_.Call(&Jobs::Retry, ById<v1::RetryRequest>(first.id())),
              Fails(StatusCode::kResourceExhausted));
  // Neither bob nor admins have limits.
  for (const Api& api : {bob_, daemon_.As("ada", Role::kAdmin)}) {
    for (int i = 0; i < 3; ++i) EXPECT_THAT(Submit(api, 6), IsOk());
    EXPECT_THAT(UploadTo(api, "more than ten bytes"), IsOk());
  }
}

TEST_F(UserAccountsTest, UploadsCountForTheirSender) {
  EXPECT_THAT(UploadTo(ada_, "12345678901"),
              Fails(StatusCode::kResourceExhausted, "[user.ada] upload-bytes"));
  EXPECT_THAT(UploadTo(ada_, "1234567890"), IsOk());
  EXPECT_THAT(UploadTo(bob_, "12345678901"), IsOk());
  EXPECT_EQ(Info(bob_, true).you().upload_bytes(), 11);
  EXPECT_EQ(Info(ada_, true).you().upload_bytes(), 10);
}

TEST_F(UserAccountsTest, ACallerGetsTheOwnUseAndLimits) {
  daemon_.folders->Set(700, {});
  EXPECT_FALSE(Info(ada_, false).has_you());
  EXPECT_EQ(Info(ada_, false).state_bytes(), 700);
  EXPECT_EQ(Info(ada_, false).state_budget_bytes(), 500);
  daemon_.Submit({.owner = "ada"});
  EXPECT_THAT(Info(ada_, true).you(), EqualsProto(R"pb(
                user: "ada"
                queued_jobs: 1
                max_queued_jobs: 2
                upload_bytes: 0
                max_upload_bytes: 10
                result_bytes: 0
                max_priority: 5)pb"));
  EXPECT_THAT(Info(bob_, true).you(),
              EqualsProto("user: 'bob' queued_jobs: 0 upload_bytes: 0 "
                          "result_bytes: 0"));
}

}  // namespace
}  // namespace mpsd::rpc
