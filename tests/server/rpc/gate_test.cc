// SPDX-License-Identifier: Apache-2.0
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
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/dynamic_message.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_ledger.h"
#include "tests/server/rpc/proto_text.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using access::Role;
using google::protobuf::MethodDescriptor;
using grpc::StatusCode;
using ::testing::HasSubstr;

constexpr char kJob[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

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
    {"JobService.DeleteJobs", "--+++"},
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

// The real server with the callers, the ledger and the audit of a test.
class GateTest : public Served, public testing::WithParamInterface<bool> {
 protected:
  GateTest() : Served(OptionsOf(this)) {
    puller_.Refuse(absl::NotFoundError("the hub has no such model"));
  }
  // The server's last calls use the members of this class.
  ~GateTest() override { server_.reset(); }

  static Options OptionsOf(GateTest* test) {
    Options options;
    options.identify = [test](const grpc::CallbackServerContext& context) {
      return test->callers_.Find(context);
    };
    options.private_jobs = GetParam();
    options.audit = &test->audit_;
    options.ledger = &test->ledger_;
    // A quarter of it is how often the server looks for idle streams.
    options.upload_idle = absl::Seconds(8);
    return options;
  }
  void PutJobOf(const std::string& owner,
                jobs::State state = jobs::State::kFailed) {
    manager_.Put(kJob, state, owner);
  }

  // Calls any method with a request that names kJob where it names one. The
  // answer's messages are not read.
  grpc::Status Call(const MethodDescriptor& method,
                    grpc::ClientContext& context) {
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<google::protobuf::Message> request(
        factory.GetPrototype(method.input_type())->New());
    for (const char* name : {"id", "job_id"}) {
      const auto* field = method.input_type()->FindFieldByName(name);
      if (field == nullptr) continue;
      request->GetReflection()->SetString(request.get(), field, kJob);
    }
    if (const auto* field = method.input_type()->FindFieldByName("spec_json")) {
      request->GetReflection()->SetString(request.get(), field, "{}");
    }
    return CallBytes(
        channel_, context,
        absl::StrCat("/", method.service()->full_name(), "/", method.name()),
        request->SerializeAsString());
  }
  // Calls the method by its name as the user ada.
  grpc::Status CallAsAda(const std::string& method) {
    grpc::ClientContext context;
    FakeCallers::Name(context, "ada", Role::kUser);
    return Call(*MethodsOfTheApi().at(method), context);
  }

  FakeCallers callers_;
  FakeAudit audit_;
  FakeLedger ledger_;
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
  for (const Row& row : kWhoMayWhat) {
    const std::string name(row.method);
    const MethodDescriptor& method = *methods.at(name);
    const access::Rule& rule =
        *std::find_if(std::begin(access::kRules), std::end(access::kRules),
                      [&](const access::Rule& r) { return r.method == name; });
    for (size_t i = 0; i < row.may.size(); ++i) {
      SCOPED_TRACE(absl::StrCat(name, ", column ", i));
      PutJobOf(kColumns[i].owner);
      grpc::ClientContext context;
      FakeCallers::Name(context, "ada", kColumns[i].role);
      const grpc::Status status = Call(method, context);
      EXPECT_NE(status.error_code(), StatusCode::UNIMPLEMENTED);
      EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED);
      const bool may = row.may[i] == '+' || (row.may[i] == 'o' && !GetParam());
      EXPECT_EQ(status.error_code() != StatusCode::PERMISSION_DENIED, may)
          << status.error_message();
      if (!may) {
        EXPECT_THAT(status.error_message(), HasSubstr("role "));
        EXPECT_THAT(status.error_message(), HasSubstr("admin"));
      }
      const std::vector<FakeAudit::Entry> noted = audit_.Take();
      ASSERT_EQ(noted.size(), rule.audited ? 1u : 0u);
      if (!rule.audited) continue;
      EXPECT_EQ(noted[0].request.method, name);
      EXPECT_EQ(noted[0].request.caller.user, "ada");
      EXPECT_EQ(noted[0].request.caller.credential, "token ada");
      EXPECT_EQ(noted[0].refused, !may);
      EXPECT_TRUE(noted[0].ended);
      EXPECT_EQ(static_cast<int>(noted[0].result.code()),
                static_cast<int>(status.error_code()));
    }
  }
}

TEST_P(GateTest, AStrangerMayNothing) {
  for (const auto& [name, method] : MethodsOfTheApi()) {
    SCOPED_TRACE(name);
    PutJobOf("");
    grpc::ClientContext context;
    EXPECT_EQ(Call(*method, context).error_code(), StatusCode::UNAUTHENTICATED);
    for (const FakeAudit::Entry& noted : audit_.Take()) {
      EXPECT_TRUE(noted.refused);
      EXPECT_EQ(noted.request.caller.user, "");
      EXPECT_EQ(noted.request.caller.origin, "this machine");
    }
  }
}

TEST_P(GateTest, AJobThatIsNotThereIsNotFoundForAll) {
  for (const access::Rule& rule : access::kRules) {
    if (rule.concerns != access::Concerns::kOwnJob &&
        rule.concerns != access::Concerns::kReadableJob) {
      continue;
    }
    EXPECT_EQ(CallAsAda(rule.method).error_code(), StatusCode::NOT_FOUND)
        << rule.method;
  }
}

TEST_P(GateTest, SubmitNotesTheJobThatWasMade) {
  ASSERT_TRUE(CallAsAda("JobService.Submit").ok());
  const std::vector<FakeAudit::Entry> noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].made_job_id, "a");
}

TEST_P(GateTest, WhatCannotBeNotedIsNotDoneUnlessItNeedsNoRoom) {
  PutJobOf("ada");
  audit_.FailBegin(absl::ResourceExhaustedError("the audit's disk is full"));
  EXPECT_EQ(CallAsAda("JobService.Retry").error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  audit_.Take();
  EXPECT_TRUE(CallAsAda("JobService.Cancel").ok());
  const std::vector<FakeAudit::Entry> noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_THAT(std::string(noted[0].result.message()),
              HasSubstr("the audit's disk is full"));
}

// Whether others have a file cannot be found out by its SHA-256.
TEST_P(GateTest, BlobsOfOthersCountAsNotThereWhereJobsArePrivate) {
  const std::string bytes = "her data", sha256 = base::Sha256Hex(bytes);
  ledger_.Store(sha256, bytes.size());
  const auto finds = [&](const char* user, Role role) {
    grpc::ClientContext context;
    FakeCallers::Name(context, user, role);
    v1::FindBlobsRequest request;
    request.add_sha256(sha256);
    v1::FindBlobsResponse response;
    EXPECT_TRUE(artifacts_->FindBlobs(&context, request, &response).ok());
    return response.present_size() == 1;
  };
  // Whether mpsd answers without waiting for the bytes.
  const auto existed = [&](const char* user) {
    grpc::ClientContext context;
    FakeCallers::Name(context, user, Role::kUser);
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    writer->Write(Header(sha256, bytes.size()));
    writer->Write(Data(bytes));
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    return response.existed();
  };
  // How many of a batch were new.
  const auto stored = [&](const char* user) {
    grpc::ClientContext context;
    FakeCallers::Name(context, user, Role::kUser);
    v1::UploadBatchResponse response;
    auto writer = artifacts_->UploadBatch(&context, &response);
    v1::UploadBatchRequest request;
    request.add_blobs()->set_sha256(sha256);
    request.mutable_blobs(0)->set_data(bytes);
    writer->Write(request);
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    return response.stored();
  };
  EXPECT_FALSE(finds("ada", Role::kUser));
  EXPECT_FALSE(existed("ada"));
  EXPECT_TRUE(finds("ada", Role::kUser));
  EXPECT_TRUE(existed("ada"));
  EXPECT_EQ(stored("ada"), 0);
  EXPECT_EQ(finds("bob", Role::kUser), !GetParam());
  EXPECT_TRUE(finds("root", Role::kAdmin));
  EXPECT_EQ(existed("bob"), !GetParam());
  // Who has sent it has it.
  EXPECT_TRUE(finds("bob", Role::kUser));
  EXPECT_EQ(stored("eve"), GetParam() ? 1 : 0);
  EXPECT_TRUE(finds("eve", Role::kUser));
}

// A revoked token: its streams end, those of others stay.
TEST_P(GateTest, StreamsEndWithTheirCredential) {
  PutJobOf("ada", jobs::State::kRunning);
  grpc::ClientContext of_ada, of_admin, upload_context;
  FakeCallers::Name(of_ada, "ada", Role::kUser);
  FakeCallers::Name(of_admin, "root", Role::kAdmin);
  FakeCallers::Name(upload_context, "ada", Role::kUser);
  auto watched = Watch(of_ada, kJob);
  auto stays = Watch(of_admin, kJob);
  v1::UploadResponse uploaded;
  auto upload = artifacts_->Upload(&upload_context, &uploaded);
  ASSERT_TRUE(upload->Write(Header(std::string(64, 'a'), 2)));
  ASSERT_TRUE(blobs_.AwaitWriter());
  ASSERT_TRUE(manager_.AwaitSubscribers(2));

  callers_.Forget("ada");
  EXPECT_EQ(server_->EndStreams("token ada"), 2);
  EXPECT_EQ(server_->EndStreams("token nobody"), 0);
  v1::JobEvent event;
  EXPECT_FALSE(watched->Read(&event));
  const grpc::Status ended = watched->Finish();
  EXPECT_EQ(ended.error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(ended.error_message(), HasSubstr("token ada"));
  EXPECT_EQ(upload->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(blobs_.AwaitNoWriters());
  manager_.AppendProgress(kJob, 7);
  ASSERT_TRUE(stays->Read(&event));
  EXPECT_EQ(event.progress().step(), 7);
  of_admin.TryCancel();
  stays->Finish();
  const std::vector<FakeAudit::Entry> noted = audit_.Take();
  ASSERT_EQ(noted.size(), 1u);
  EXPECT_EQ(noted[0].result.code(), absl::StatusCode::kUnauthenticated);
}

// Also one that never waits for its client.
TEST_P(GateTest, AnUploadUnderWayEndsWithItsCredential) {
  for (int i = 0; i < 20; ++i) {
    const std::string user = absl::StrCat("user", i);
    grpc::ClientContext context;
    FakeCallers::Name(context, user, Role::kUser);
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    ASSERT_TRUE(writer->Write(Header(std::string(64, 'a'), int64_t{1} << 40)));
    ASSERT_TRUE(blobs_.AwaitWriter());
    std::thread client([&] {
      while (writer->Write(Data("x"))) {
      }
    });
    callers_.Forget(user);
    EXPECT_EQ(server_->EndStreams("token " + user), 1);
    client.join();
    EXPECT_EQ(writer->Finish().error_code(), StatusCode::UNAUTHENTICATED);
    ASSERT_TRUE(blobs_.AwaitNoWriters());
  }
}

// Also one whose client reads nothing.
TEST_P(GateTest, AStuckStreamEndsWithItsCredential) {
  PutJobOf("ada", jobs::State::kRunning);
  for (int i = 0; i < 100; ++i) {  // far more than any window
    manager_.Append(kJob, jobs::Note{std::string(1 << 20, 'n')});
  }
  grpc::ClientContext context;
  FakeCallers::Name(context, "ada", Role::kUser);
  auto stuck = Watch(context, kJob);
  v1::JobEvent event;
  ASSERT_TRUE(stuck->Read(&event));
  callers_.Forget("ada");
  EXPECT_EQ(server_->EndStreams("token ada"), 1);
  EXPECT_TRUE(manager_.AwaitSubscribers(0));
  context.TryCancel();
  stuck->Finish();
}

TEST_P(GateTest, AUserLeavesStreamsToOthers) {
  PutJobOf("ada", jobs::State::kRunning);
  const auto watch = [&](const std::string& user, Role role,
                         grpc::ClientContext& context) {
    FakeCallers::Name(context, user, role);
    return Watch(context, kJob);
  };
  constexpr int kOfAUser = 256;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobEvent>>> streams;
  for (int i = 0; i < kOfAUser; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(watch("ada", Role::kUser, *contexts.back()));
  }
  ASSERT_TRUE(manager_.AwaitSubscribers(kOfAUser));
  // On a connection of its own: one has no more calls at a time.
  grpc::ChannelArguments own;
  own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  jobs_ = v1::JobService::NewStub(grpc::CreateCustomChannel(
      address(), grpc::InsecureChannelCredentials(), own));
  grpc::ClientContext too_many, admin;
  const grpc::Status refused = watch("ada", Role::kUser, too_many)->Finish();
  EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_THAT(refused.error_message(), HasSubstr("256 such streams of yours"));
  auto others = watch("root", Role::kAdmin, admin);
  manager_.AppendProgress(kJob, 7);
  v1::JobEvent event;
  EXPECT_TRUE(others->Read(&event));
  EXPECT_EQ(server_->EndStreams("token ada"), kOfAUser);
  for (auto& stream : streams) {
    while (stream->Read(&event)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  }
  admin.TryCancel();
  others->Finish();
}

// The members that the server borrows, made before it.
struct Borrowed {
  Borrowed() {
    limits.others.queued_jobs = 2;
    limits.others.upload_bytes = 10;
    limits.others.highest_priority = 5;
    limits.users["bob"];
  }
  jobs::LimitSettings limits;
  FakeLedger ledger;
  access::Caller caller{"ada", access::Role::kUser, access::Way::kToken,
                        "token 1", "127.0.0.1"};
};

class UserAccountsTest : private Borrowed, public Served {
 protected:
  using Borrowed::ledger;

  UserAccountsTest() : Served(With(*this)) {}
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
  // What the queue is asked for.
  jobs::SubmitRequest Submitted() {
    const grpc::Status status = Submit();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return manager_.last().submission;
  }
  grpc::Status Upload(const std::string& bytes) {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto writer = artifacts_->Upload(&context, &response);
    writer->Write(Header(base::Sha256Hex(bytes), bytes.size()));
    writer->Write(Data(bytes));
    writer->WritesDone();
    return writer->Finish();
  }
  v1::InfoResponse Info(bool you) {
    v1::InfoRequest request;
    request.set_you(you);
    v1::InfoResponse response;
    EXPECT_TRUE(
        Ask(daemon_, &v1::DaemonService::Stub::Info, request, response).ok());
    return response;
  }
};

TEST_F(UserAccountsTest, AJobIsSubmittedAndRetriedWithTheLimitsOfItsUser) {
  const jobs::SubmitRequest submitted = Submitted();
  EXPECT_EQ(submitted.owner, "ada");
  EXPECT_EQ(submitted.limits.queued_jobs, 2);
  manager_.Put("a", jobs::State::kCancelled, "ada");
  v1::Job job;
  ASSERT_TRUE(
      Ask(jobs_, &v1::JobService::Stub::Retry, ById<v1::RetryRequest>("a"), job)
          .ok());
  EXPECT_EQ(manager_.last().limits.queued_jobs, 2);
  As("bob");
  EXPECT_EQ(Submitted().limits, jobs::UserLimits());
  // Admins have no limits.
  As("ada", access::Role::kAdmin);
  EXPECT_EQ(Submitted().limits, jobs::UserLimits());
  EXPECT_TRUE(Upload("more than ten bytes").ok());
}

TEST_F(UserAccountsTest, UploadsCountForTheirSender) {
  ledger.Store(base::Sha256Hex("1234567890"), 10);
  ledger.Store(base::Sha256Hex("12345678901"), 11);
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
  collector_.bytes = {700, 500};
  EXPECT_EQ(Info(false).state_bytes(), 700);
  EXPECT_EQ(Info(false).state_budget_bytes(), 500);
  manager_.Put("a", jobs::State::kQueued, "ada");
  ledger.db.PutEnded(1, "ada", absl::Now(), 0);
  EXPECT_THAT(Info(true).you(), EqualsProto(R"pb(
                user: "ada"
                queued_jobs: 1
                max_queued_jobs: 2
                upload_bytes: 0
                max_upload_bytes: 10
                result_bytes: 7
                max_priority: 5)pb"));
  As("bob");
  const v1::UserUsage you = Info(true).you();
  EXPECT_EQ(you.queued_jobs(), 0);
  EXPECT_FALSE(you.has_max_queued_jobs());
}

}  // namespace
}  // namespace mpsd::rpc
