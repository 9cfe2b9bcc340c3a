// SPDX-License-Identifier: Apache-2.0
#include "client/list_fold.h"

#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kSweep[] = "01KAH0000000000000000000SS";

class ListFoldTest : public ClientTest {
 protected:
  ListFoldTest() {
    AddJob(kId, v1::JOB_STATE_QUEUED).set_name("alone");
    v1::Job& child = AddJob(kOtherId, v1::JOB_STATE_RUNNING);
    child.set_name("tiny learning_rate=0.0003");
    child.set_sweep_id(kSweep);
    v1::Sweep sweep = SomeSweep(kSweep);
    SetTime(sweep.mutable_create_time(), absl::Minutes(3));
    daemon_->sweeps().sweeps = {sweep};
  }
};

TEST_F(ListFoldTest, ASweepIsOneRow) {
  const std::string out = RunVerb({"list"}).out;
  EXPECT_THAT(out, HasSubstr(std::string(kSweep) +
                             "  RUNNING  -     -     "
                             "0.2500  ann    3m00s  tiny (sweep: 2/3 done, "
                             "loss 0.25)\n"));
  EXPECT_THAT(out, HasSubstr("alone"));
  EXPECT_THAT(out, Not(HasSubstr(kOtherId)));
  EXPECT_TRUE(data().listed.back().fold_sweeps());
}

TEST_F(ListFoldTest, FiltersAndScriptsGetTheChildren) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"list", "--children"},
        {"list", "--state", "RUNNING"},
        {"list", "--sweep", kSweep},
        {"list", "-q"},
        {"list", "--csv"},
        {"--json", "list"}}) {
    EXPECT_THAT(RunVerb(args).out, HasSubstr(kOtherId)) << args.back();
    EXPECT_FALSE(data().listed.back().fold_sweeps()) << args.back();
  }
  RunVerb({"list", "--sweep", "01kah0000000000000000000ss"});
  EXPECT_EQ(data().listed.back().sweep_id(), kSweep);
}

TEST_F(ListFoldTest, WithoutNewsOfTheSweepItsChildStays) {
  data().fail["ListSweeps"] = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
  EXPECT_THAT(RunVerb({"list"}).out, HasSubstr(kOtherId));
  data().fail.clear();
  daemon_->sweeps().sweeps.clear();
  EXPECT_THAT(RunVerb({"list"}).out, HasSubstr(kOtherId));
}

TEST(RowOf, TheStateIsThatOfItsChildren) {
  v1::Sweep sweep;
  sweep.set_total(2);
  EXPECT_EQ(RowOf(sweep).state(), v1::JOB_STATE_CANCELLED);
  sweep.set_failed(1);
  EXPECT_EQ(RowOf(sweep).state(), v1::JOB_STATE_FAILED);
  sweep.set_succeeded(1);
  EXPECT_EQ(RowOf(sweep).state(), v1::JOB_STATE_SUCCEEDED);
  sweep.set_queued(1);
  EXPECT_EQ(RowOf(sweep).state(), v1::JOB_STATE_QUEUED);
  sweep.set_running(1);
  EXPECT_EQ(RowOf(sweep).state(), v1::JOB_STATE_RUNNING);
  sweep.set_metric("accuracy");
  sweep.set_best_metric(0.5);
  EXPECT_FALSE(RowOf(sweep).has_eval_loss_after()) << "it is no loss";
}

}  // namespace
}  // namespace mpsd::client
