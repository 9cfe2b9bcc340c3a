// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/runbook_service.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/rpc/fake_audit.h"
#include "tests/server/rpc/fake_callers.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

using RunbookServiceTest = Served;

TEST_F(RunbookServiceTest, AResultOverTheWire) {
  jobs::Job job;
  job.id = "a";
  job.kind = jobs::JobKind::kProbe;
  job.state = jobs::State::kSucceeded;
  job.output_path = scratch_.path().string();
  manager_.Put(job);
  std::ofstream(scratch_.path() / "result.json")
      << R"({"verdict": "VERDICT_PASS", "probe": {"device": "cpu"}})";
  v1::GetStudyResultRequest request;
  request.set_id("a");
  grpc::ClientContext context;
  v1::StudyResult result;
  const grpc::Status status =
      runbook_->GetStudyResult(&context, request, &result);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(result.probe().device(), "cpu");
  EXPECT_EQ(result.verdict(), v1::VERDICT_PASS);
}

// Callers with roles, and an audit.
class AuditedRunbookTest : public Served {
 protected:
  AuditedRunbookTest() : Served(OptionsOf(this)) {}
  // The server's last calls use the members of this class.
  ~AuditedRunbookTest() override { server_.reset(); }

  static Options OptionsOf(AuditedRunbookTest* test) {
    Options options;
    options.identify = [test](const grpc::CallbackServerContext& context) {
      return test->callers_.Find(context);
    };
    options.audit = &test->audit_;
    return options;
  }

  FakeCallers callers_;
  FakeAudit audit_;
};

// A viewer may look at the machine. The self-test keeps jobs from starting: it
// is noted, and no viewer's.
TEST_F(AuditedRunbookTest, ADeepDiagnosisIsNotedAndNoViewers) {
  v1::DiagnoseRequest request;
  for (const auto role :
       {access::Role::kViewer, access::Role::kUser, access::Role::kAdmin}) {
    for (const bool deep : {false, true}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(role), deep));
      request.set_deep(deep);
      grpc::ClientContext context;
      FakeCallers::Name(context, "ada", role);
      v1::Diagnosis diagnosis;
      const grpc::Status status =
          runbook_->Diagnose(&context, request, &diagnosis);
      const bool may = !deep || role != access::Role::kViewer;
      EXPECT_EQ(status.error_code() != grpc::StatusCode::PERMISSION_DENIED,
                may);
      const std::vector<FakeAudit::Entry> noted = audit_.Take();
      ASSERT_EQ(noted.size(), deep ? 1u : 0u);
      if (!deep) continue;
      EXPECT_EQ(noted[0].request.method, "RunbookService.Diagnose (deep)");
      EXPECT_EQ(noted[0].request.detail,
                "measures the disk, runs the self-test");
      EXPECT_EQ(noted[0].refused, !may);
      if (may) continue;
      EXPECT_EQ(status.error_message(),
                "RunbookService.Diagnose (deep) needs the role user, and you "
                "(ada) are a viewer: ask an admin");
    }
  }
}

}  // namespace
}  // namespace mpsd::rpc
