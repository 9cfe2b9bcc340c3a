// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ListTest : public ClientTest {
 protected:
  void AddBoth() {
    v1::Job& first = AddJob(kId, v1::JOB_STATE_RUNNING);
    first.mutable_progress()->set_step(3);
    first.mutable_progress()->set_total_steps(10);
    first.mutable_progress()->set_loss(2.5);
    first.set_eval_loss_after(2.25);
    first.set_cancel_requested(true);
    AddJob(kOtherId, v1::JOB_STATE_QUEUED).clear_owner();
  }
};

TEST_F(ListTest, Empty) {
  EXPECT_EQ(RunVerb({"list"}).out,
            "No jobs. Queue one with `mpsctl submit job.json`.\n");
}

TEST_F(ListTest, Table) {
  AddBoth();
  EXPECT_EQ(RunVerb({"list"}).out,
            "ID                          STATE                 STEP  LOSS    "
            "EVAL    OWNER  AGE    NAME\n"
            "01KAH0000000000000000000BB  QUEUED                -     -       "
            "-       -      3m00s  moods\n"
            "01KAH0000000000000000000AA  RUNNING (cancelling)  3/10  2.5000  "
            "2.2500  ann    3m00s  moods\n");
}

TEST_F(ListTest, SaysWhatIsHeld) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("the disk is full");
  EXPECT_NE(RunVerb({"list"}).out.find("QUEUED (held)"), std::string::npos);
}

TEST_F(ListTest, FitsTheScreen) {
  AddBoth();
  terminal_.is_tty = true;
  terminal_.columns = [] { return 20; };
  EXPECT_EQ(RunVerb({"list"}).out,
            "ID                 …\n"
            "01KAH00000000000000…\n"
            "01KAH00000000000000…\n");
}

TEST_F(ListTest, FiltersAreTheServers) {
  RunVerb({"list", "--state", "queued", "--state", "RUNNING", "--owner", "bo",
           "--label", "a=1", "--label", "b=2", "--limit", "7"});
  ASSERT_EQ(data().listed.size(), 1u);
  const v1::ListJobsRequest& request = data().listed[0];
  EXPECT_THAT(request.states(), testing::ElementsAre(v1::JOB_STATE_QUEUED,
                                                     v1::JOB_STATE_RUNNING));
  EXPECT_EQ(request.owner(), "bo");
  EXPECT_EQ(request.labels().at("a"), "1");
  EXPECT_EQ(request.labels().at("b"), "2");
  EXPECT_EQ(request.page_size(), 7);
}

TEST_F(ListTest, AsManyPagesAsItTakes) {
  AddBoth();
  data().page_size = 1;
  EXPECT_EQ(RunVerb({"list", "-q"}).out,
            "01KAH0000000000000000000BB\n"
            "01KAH0000000000000000000AA\n");
  EXPECT_EQ(RunVerb({"list", "-q", "--limit", "1"}).out,
            "01KAH0000000000000000000BB\n");
}

TEST_F(ListTest, JsonIsAJobALine) {
  AddBoth();
  std::istringstream lines(RunVerb({"list", "--json"}).out);
  std::vector<std::string> states;
  for (std::string line; std::getline(lines, line);) {
    states.push_back(nlohmann::json::parse(line)["state"]);
  }
  EXPECT_THAT(states, testing::ElementsAre("QUEUED", "RUNNING"));
}

TEST_F(ListTest, EachFilterReachesTheServer) {
  RunVerb({"list", "--text", "moods 100%", "--model", "org/tiny", "--since",
           "2d", "--until", "2026-01-01", "--ended-since", "2026-01-01 12:30",
           "--ended-until", "30m", "--held", "--pinned", "--sort",
           "-eval_loss"});
  ASSERT_EQ(data().listed.size(), 1u);
  const v1::ListJobsRequest& request = data().listed[0];
  EXPECT_EQ(request.text(), "moods 100%");
  EXPECT_EQ(request.model(), "org/tiny");
  EXPECT_EQ(request.create_time_from().seconds(),
            absl::ToUnixSeconds(kNow) - 2 * 86400);
  EXPECT_EQ(request.create_time_to().seconds(), 1767225600);
  EXPECT_EQ(request.end_time_from().seconds(), 1767225600 + 45000);
  EXPECT_EQ(request.end_time_to().seconds(), absl::ToUnixSeconds(kNow) - 1800);
  EXPECT_TRUE(request.held());
  EXPECT_TRUE(request.pinned());
  EXPECT_EQ(request.order(), v1::JOB_ORDER_EVAL_LOSS);
  EXPECT_FALSE(request.ascending());
  RunVerb({"list", "--sort", "name"});
  EXPECT_EQ(data().listed[1].order(), v1::JOB_ORDER_NAME);
  EXPECT_TRUE(data().listed[1].ascending());
  EXPECT_FALSE(data().listed[1].has_held());
  EXPECT_FALSE(data().listed[1].has_create_time_from());
}

// The daemon sorts by the first key alone.
TEST_F(ListTest, JobsOfEqualFirstKeysAreSortedHere) {
  for (int i = 0; i < 9; ++i) {
    v1::Job& job = AddJob("01KAH000000000000000000" + std::to_string(100 + i),
                          v1::JOB_STATE_QUEUED);
    job.set_priority(i / 4);  // as a daemon gives them: 2, 1 1 1 1, 0 0 0 0
    job.set_name(std::string(1, static_cast<char>('a' + i * 5 % 9)));
  }
  for (int page_size : {500, 2, 1}) {
    data().page_size = page_size;
    const auto names = [&](std::vector<std::string> more) {
      more.insert(more.begin(), {"list", "--columns", "name", "--sort",
                                 "-priority,name", "--csv"});
      std::string text = RunVerb(more).out;
      std::string letters;
      for (size_t i = text.find('\n'); i < text.size(); ++i) {
        if (islower(text[i])) letters += text[i];
      }
      return letters;
    };
    EXPECT_EQ(names({}), "ecdhiabfg");
    EXPECT_EQ(names({"--limit", "3"}), "ecd");
    EXPECT_EQ(names({"--limit", "3", "--page", "2"}), "hia");
    EXPECT_EQ(names({"--limit", "3", "--page", "4"}), "");
    EXPECT_EQ(names({"--all"}), "ecdhiabfg");
  }
}

// The daemon does not sort by metrics.
TEST_F(ListTest, TheBestOfAMetricComeFirst) {
  for (int i = 0; i < 4; ++i) {
    v1::Job& job = AddJob("01KAH000000000000000000" + std::to_string(100 + i),
                          v1::JOB_STATE_SUCCEEDED);
    if (i == 2) continue;
    (*job.mutable_metrics())["accuracy"] = i * 0.25;
    (*job.mutable_metrics())["mae"] = i;
    job.set_train_loss(3 - i);
  }
  data().page_size = 2;
  const auto ends = [&](const std::string& sort) {
    std::istringstream ids(RunVerb({"list", "-q", "--sort", sort}).out);
    std::string all;
    for (std::string id; ids >> id;) all += id.substr(25);
    return all;
  };
  EXPECT_EQ(ends("accuracy"), "3102");
  EXPECT_EQ(ends("-accuracy"), "0132");
  EXPECT_EQ(ends("metrics.mae"), "0132");
  EXPECT_EQ(ends("-mae"), "3102");
  EXPECT_EQ(ends("train_loss"), "3102");
  EXPECT_EQ(data().listed.back().order(), v1::JOB_ORDER_UNSPECIFIED);
  EXPECT_EQ(RunVerb({"list", "--sort", "accuracy", "--limit", "1", "--page",
                     "2", "-q"})
                .out,
            "01KAH000000000000000000101\n");
  const std::string table = RunVerb({"list", "--sort", "accuracy"}).out;
  EXPECT_THAT(table, testing::HasSubstr("METRICS.ACCURACY"));
  EXPECT_THAT(table, testing::HasSubstr("  0.75\n"));
}

TEST_F(ListTest, PagesGoOnWhereTheFormerEnded) {
  for (int i = 0; i < 7; ++i) {
    AddJob("01KAH000000000000000000" + std::to_string(100 + i),
           v1::JOB_STATE_QUEUED);
  }
  data().page_size = 2;
  const auto ends = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"list", "-q"});
    std::istringstream ids(RunVerb(more).out);
    std::string all;
    for (std::string id; ids >> id;) all += id.substr(25);
    return all;
  };
  EXPECT_EQ(ends({"--limit", "3"}), "654");
  EXPECT_EQ(ends({"--limit", "3", "--page", "2"}), "321");
  EXPECT_EQ(ends({"--limit", "3", "--page", "3"}), "0");
  EXPECT_EQ(ends({"--limit", "3", "--page", "4"}), "");
  EXPECT_EQ(ends({"--all"}), "6543210");
  EXPECT_EQ(RunVerb({"list", "--all", "--limit", "3"}).code, 2);
  EXPECT_EQ(RunVerb({"list", "--all", "--page", "3"}).code, 2);
  EXPECT_EQ(RunVerb({"list", "--page", "4", "--limit", "3"}).out,
            "No such jobs.\n");
}

TEST_F(ListTest, ATerminalHearsOfFurtherJobs) {
  AddBoth();
  EXPECT_EQ(RunVerb({"list", "--limit", "1"}).err, "");
  terminal_.is_tty = true;
  terminal_.columns = [] { return 80; };
  EXPECT_EQ(RunVerb({"list", "--limit", "1"}).err,
            "There are more: --page 2, --limit or --all.\n");
  EXPECT_EQ(RunVerb({"list", "--limit", "2"}).err, "");
  EXPECT_EQ(RunVerb({"list", "--limit", "1", "-q"}).err, "");
}

TEST_F(ListTest, Columns) {
  AddBoth();
  data().jobs[0].set_priority(-2);
  data().jobs[0].set_held(true);
  (*data().jobs[0].mutable_labels())["team"] = "nlp";
  (*data().jobs[1].mutable_metrics())["f1"] = 0.5;
  EXPECT_EQ(RunVerb({"list", "--columns",
                     "state, priority,labels.team,metrics.f1,held"})
                .out,
            "STATE                 PRIORITY  LABELS.TEAM  METRICS.F1  HELD\n"
            "QUEUED (held)         -2        nlp          -           yes\n"
            "RUNNING (cancelling)  0         -            0.5         no\n");
  EXPECT_EQ(RunVerb({"list", "--json", "--columns", "labels.team,loss"}).out,
            "{\"labels.team\":\"nlp\",\"loss\":null}\n"
            "{\"labels.team\":null,\"loss\":2.5}\n");
  const Result result = RunVerb({"list", "--columns", "id,lost"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, testing::HasSubstr("--columns lost: is no column; "));
  EXPECT_THAT(result.err, testing::HasSubstr("progress.step"));
}

TEST_F(ListTest, Csv) {
  AddBoth();
  data().jobs[1].set_name("=cmd|'/c calc'!A0, \"x\"");
  EXPECT_EQ(RunVerb({"list", "--csv", "--columns", "id,state,loss,name"}).out,
            "id,state,loss,name\r\n"
            "01KAH0000000000000000000BB,QUEUED,,moods\r\n"
            "01KAH0000000000000000000AA,RUNNING,2.5,"
            "\"'=cmd|'/c calc'!A0, \"\"x\"\"\"\r\n");
  EXPECT_EQ(RunVerb({"list", "--csv", "--owner", "none"}).code, 0);
  const std::string all = RunVerb({"list", "--csv"}).out;
  EXPECT_EQ(all.substr(0, all.find("\r")),
            "id,name,state,owner,priority,model,create_time,start_time,"
            "end_time,step,loss,eval_loss,device_seconds,stored_bytes");
  EXPECT_EQ(RunVerb({"list", "--csv", "--json"}).code, 2);
}

TEST_F(ListTest, Counts) {
  AddBoth();
  EXPECT_EQ(RunVerb({"list", "--count", "--text", "moods"}).out, "2\n");
  EXPECT_EQ(data().listed.back().text(), "moods");
  EXPECT_EQ(RunVerb({"list", "--count", "--json"}).out, "{\"total\":2}\n");
}

TEST_F(ListTest, NoSuchJobsIsNotNoJobs) {
  EXPECT_EQ(RunVerb({"list", "--text", "x"}).out, "No such jobs.\n");
  EXPECT_EQ(RunVerb({"list", "--sort", "name"}).out,
            "No jobs. Queue one with `mpsctl submit job.json`.\n");
}

TEST_F(ListTest, BadTimeAndSort) {
  Result result = RunVerb({"list", "--ended-since", "soon"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err,
              testing::HasSubstr("--ended-since soon: expected how long ago"));
  result = RunVerb({"list", "--sort", "name,lost"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, testing::HasSubstr(
                              "--sort lost: jobs are sorted by create_time"));
}

TEST_F(ListTest, BadLabel) {
  const Result result = RunVerb({"list", "--label", "team"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "mpsctl: --label 'team': expected NAME=VALUE\n");
}

}  // namespace
}  // namespace mpsd::client
