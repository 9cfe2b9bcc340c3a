// SPDX-License-Identifier: Apache-2.0
#include "client/show.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

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
  v1::Job& AddNumbered(int number) {
    return AddJob("01KAH000000000000000000" + std::to_string(100 + number),
                  v1::JOB_STATE_QUEUED);
  }
  // The last letters of the ids that are listed.
  std::string IdEnds(Args more) {
    more.insert(more.begin(), {"list", "-q"});
    std::istringstream ids(RunVerb(more).out);
    std::string all;
    for (std::string id; ids >> id;) all += id.substr(25);
    return all;
  }
};

TEST_F(ListTest, Table) {
  AddBoth();
  EXPECT_EQ(
      RunVerb({"list"}).out,
      "ID        STATE                 STEP  LOSS    EVAL    OWNER  AGE    "
      "NAME\n"
      "000000BB  QUEUED                -     -       -       -      3m00s  "
      "moods\n"
      "000000AA  RUNNING (cancelling)  3/10  2.5000  2.2500  ann    3m00s  "
      "moods\n");
}

TEST_F(ListTest, MineAreTheCallers) {
  data().who.set_user("ann");
  EXPECT_EQ(RunVerb({"list", "--mine", "-n", "7"}).code, 0);
  EXPECT_EQ(Only(data().listed).owner(), "ann");
  EXPECT_EQ(data().listed[0].page_size(), 7);
  EXPECT_EQ(RunVerb({"list", "--mine", "--owner", "bob"}).code, 2);
}

TEST_F(ListTest, APausedJobSaysWhy) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  EXPECT_THAT(RunVerb({"list"}).out, HasSubstr("RUNNING  ")) << "not yet";
  job.mutable_pause()->set_held(true);
  EXPECT_THAT(RunVerb({"list"}).out, HasSubstr("PAUSED (quiet hours)  "));
  job.set_state(v1::JOB_STATE_QUEUED);
  EXPECT_THAT(RunVerb({"list"}).out, HasSubstr("QUEUED  "));
}

TEST_F(ListTest, FiltersAreTheServers) {
  RunVerb({"list", "--state", "queued", "--state", "RUNNING", "--owner", "bo",
           "--label", "a=1", "--label", "b=2", "--limit", "7"});
  const v1::ListJobsRequest& request = Only(data().listed);
  EXPECT_THAT(request.states(),
              ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(request.owner(), "bo");
  EXPECT_EQ(request.labels().at("a"), "1");
  EXPECT_EQ(request.labels().at("b"), "2");
  EXPECT_EQ(request.page_size(), 7);
}

TEST_F(ListTest, EachFilterReachesTheServer) {
  RunVerb({"list", "--text", "moods 100%", "--model", "org/tiny", "--since",
           "2d", "--until", "2026-01-01", "--ended-since", "2026-01-01 12:30",
           "--ended-until", "30m", "--held", "--pinned", "--sort",
           "-eval_loss"});
  const v1::ListJobsRequest& request = Only(data().listed);
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
    v1::Job& job = AddNumbered(i);
    job.set_priority(i / 4);  // as a daemon gives them: 2, 1 1 1 1, 0 0 0 0
    job.set_name(std::string(1, static_cast<char>('a' + i * 5 % 9)));
  }
  for (int page_size : {500, 2, 1}) {
    data().page_size = page_size;
    const auto names = [&](Args more) {
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
    v1::Job& job = AddNumbered(i);
    if (i == 2) continue;
    (*job.mutable_metrics())["accuracy"] = i * 0.25;
    (*job.mutable_metrics())["mae"] = i;
    job.set_train_loss(3 - i);
  }
  data().page_size = 2;
  EXPECT_EQ(IdEnds({"--sort", "accuracy"}), "3102");
  EXPECT_EQ(IdEnds({"--sort", "-accuracy"}), "0132");
  EXPECT_EQ(IdEnds({"--sort", "metrics.mae"}), "0132");
  EXPECT_EQ(IdEnds({"--sort", "-mae"}), "3102");
  EXPECT_EQ(IdEnds({"--sort", "train_loss"}), "3102");
  EXPECT_EQ(data().listed.back().order(), v1::JOB_ORDER_UNSPECIFIED);
  EXPECT_EQ(IdEnds({"--sort", "accuracy", "--limit", "1", "--page", "2"}), "1");
  const std::string table = RunVerb({"list", "--sort", "accuracy"}).out;
  EXPECT_THAT(table, HasSubstr("METRICS.ACCURACY"));
  EXPECT_THAT(table, HasSubstr("  0.75\n"));
}

TEST_F(ListTest, PagesContinueWhereTheFormerEnded) {
  for (int i = 0; i < 7; ++i) AddNumbered(i);
  data().page_size = 2;
  EXPECT_EQ(IdEnds({"--limit", "3"}), "654");
  EXPECT_EQ(IdEnds({"--limit", "3", "--page", "2"}), "321");
  EXPECT_EQ(IdEnds({"--limit", "3", "--page", "3"}), "0");
  EXPECT_EQ(IdEnds({"--limit", "3", "--page", "4"}), "");
  EXPECT_EQ(IdEnds({"--all"}), "6543210");
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
  data().jobs[0].set_held(false);
  data().jobs[0].set_hold("its model is away");
  EXPECT_EQ(RunVerb({"list", "--columns", "state"}).out,
            "STATE\nQUEUED (waits)\nRUNNING (cancelling)\n");
  EXPECT_EQ(RunVerb({"list", "--json", "--columns", "labels.team,loss"}).out,
            "{\"labels.team\":\"nlp\",\"loss\":null}\n"
            "{\"labels.team\":null,\"loss\":2.5}\n");
  EXPECT_THAT(RunVerb({"list", "--columns", "id,lost"}),
              Fails(2, HasSubstr("no column lost; did you mean loss?")));
  EXPECT_THAT(RunVerb({"list", "--columns", "memory"}),
              Fails(2, HasSubstr("progress.step")));
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
  // Nothing filters unless it is asked for.
  v1::ListJobsRequest request = data().listed.back();
  request.clear_page_size();
  request.clear_order();
  request.clear_ascending();
  EXPECT_EQ(request.ByteSizeLong(), 0u) << request.ShortDebugString();
}

TEST_F(ListTest, WhatMakesNoSenseIsNamed) {
  for (const auto& [args, why] : std::vector<std::pair<Args, std::string>>{
           {{"--ended-since", "soon"},
            "--ended-since soon: expected how long ago"},
           {{"--since", "soon"}, "--since soon: expected how long ago"},
           {{"--sort", "name,lost"},
            "--sort lost: jobs are sorted by create_time"},
           {{"--state", "DONE"}, "--state"},
           {{"--label", "team"},
            "mpsctl: --label 'team': expected NAME=VALUE\n"}}) {
    EXPECT_THAT(RunVerb({"list", args[0], args[1]}), Fails(2, HasSubstr(why)));
  }
}

TEST(ParseSort, NamesWhatIsNoKey) {
  for (const char* bad : {"", "-", "metrics.", "colour", "name,", "--name",
                          "unspecified", "x\x1b"}) {
    const auto keys = ParseSort(bad);
    EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_EQ(keys.status().message().find('\x1b'), std::string::npos);
  }
}

// Each order, both ways, with a job that has no value and with equal ones.
TEST(SortBy, FollowsEachKey) {
  std::vector<v1::Job> jobs(4);
  for (int i = 0; i < 4; ++i) {
    v1::Job& job = jobs[i];
    const int value = i == 2 ? 0 : i;  // 0 1 0 and 3
    job.set_id(std::to_string(i));
    job.mutable_create_time()->set_nanos(value * 1000);
    if (i != 1) job.mutable_end_time()->set_seconds(value);
    job.set_name(
        std::string(1, static_cast<char>((i % 2 ? 'A' : 'a') + value)));
    job.set_owner(std::to_string(value));
    job.set_state(static_cast<v1::JobState>(value + 1));
    job.set_priority(value - 1);
    job.set_eval_loss_after(i == 1 ? std::numeric_limits<double>::quiet_NaN()
                                   : value);
    job.set_device_seconds(value * 0.5);
    job.set_stored_bytes(value);
  }
  std::vector<std::string> names = SortNames();
  // Those of metrics have no values here.
  names.erase(std::find(names.begin(), names.end(), "train_loss"), names.end());
  for (const std::string& name : names) {
    for (const char* way : {"", "-"}) {
      std::vector<v1::Job> sorted = jobs;
      SortBy(*ParseSort(way + name), sorted);
      std::string ids;
      for (const v1::Job& job : sorted) ids += job.id();
      const bool without = name == "end_time" || name == "eval_loss";
      EXPECT_EQ(ids, *way == '-' ? (without ? "3021" : "3102")
                     : without   ? "0231"
                                 : "0213")
          << way << name;
    }
    const SortKey key = (*ParseSort(name))[0];
    EXPECT_TRUE(AreEqual(jobs[0], jobs[2], key)) << name;
    EXPECT_FALSE(AreEqual(jobs[0], jobs[3], key)) << name;
  }
}

using ::testing::Contains;

v1::Job Example() {
  v1::Job job;
  job.set_id("01J");
  job.set_name("moods");
  job.set_state(v1::JOB_STATE_RUNNING);
  job.mutable_create_time()->set_seconds(1767323045 - 90);
  job.mutable_progress()->set_step(3);
  job.mutable_progress()->set_total_steps(10);
  job.mutable_progress()->set_loss(0.25);
  job.mutable_progress()->mutable_memory()->set_footprint_bytes(2'000'000);
  job.set_stored_bytes(3'500'000);
  job.set_device_seconds(75);
  job.set_pinned(true);
  job.add_after("01A");
  job.add_after("01B");
  (*job.mutable_labels())["a.b"] = "x";
  (*job.mutable_labels())["team"] = "nlp";
  (*job.mutable_metrics())["f1"] = 0.5;
  return job;
}

std::string Cell(const std::string& name, const v1::Job& job) {
  const auto column = ListColumn::Parse(name);
  EXPECT_TRUE(column.ok()) << column.status();
  return column->Cell(ListRow(job, kNow), absl::UTCTimeZone());
}

TEST(ListColumn, ShowsPeopleEachKindOfValue) {
  const v1::Job job = Example();
  EXPECT_EQ(Cell("id", job), "01J");
  EXPECT_EQ(Cell("state", job), "RUNNING");
  EXPECT_EQ(Cell("age", job), "1m30s");
  EXPECT_EQ(Cell("create_time", job), "2026-01-02 03:02:35");
  EXPECT_EQ(Cell("end_time", job), "-");
  EXPECT_EQ(Cell("step", job), "3/10");
  EXPECT_EQ(Cell("progress.step", job), "3");
  EXPECT_EQ(Cell("loss", job), "0.2500");
  EXPECT_EQ(Cell("eval_loss", job), "-");
  EXPECT_EQ(Cell("stored_bytes", job), "3.3 MiB");
  EXPECT_EQ(Cell("progress.memory.footprint_bytes", job), "1.9 MiB");
  EXPECT_EQ(Cell("device_seconds", job), "1m15s");
  EXPECT_EQ(Cell("pinned", job), "yes");
  EXPECT_EQ(Cell("after", job), "01A, 01B");
  EXPECT_EQ(Cell("labels", job), "a.b=x, team=nlp");
  EXPECT_EQ(Cell("labels.a.b", job), "x");
  EXPECT_EQ(Cell("labels.none", job), "-");
  EXPECT_EQ(Cell("metrics.f1", job), "0.5");
  EXPECT_EQ(Cell("owner", job), "-");
}

TEST(ListColumn, AStudyIsNamedByItsKind) {
  v1::Job job = Example();
  job.set_kind(v1::JOB_KIND_SMOKE);
  EXPECT_EQ(Cell("name", job), "moods (smoke)");
  job.clear_name();
  EXPECT_EQ(Cell("name", job), "(smoke)");
}

TEST(ListColumn, KnowsItsNames) {
  const std::vector<std::string> names = ListColumn::Names();
  EXPECT_THAT(names, AllOf(Contains("id"), Contains("age"),
                           Contains("progress.memory.footprint_bytes"),
                           Contains("best_evaluation.eval_loss"),
                           Contains("hold"), Contains("model")));
  EXPECT_THAT(names,
              AllOf(Not(Contains("spec_json")), Not(Contains("warnings")),
                    Not(Contains("create_time.seconds"))));
  for (const std::string& name : names) {
    EXPECT_NE(Cell(name, v1::Job()), "?") << name;
  }
  for (const char* bad : {"", "idd", "labels.", "progress", "id.x", "spec",
                          "progress.steps", "\x1b[2J"}) {
    const auto column = ListColumn::Parse(bad);
    EXPECT_EQ(column.status().code(), absl::StatusCode::kInvalidArgument)
        << bad;
    EXPECT_THAT(std::string(column.status().message()),
                AllOf(HasSubstr("no column "), Not(HasSubstr("\x1b"))));
  }
}

using ShowTest = ClientTest;

TEST_F(ShowTest, Running) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  (*job.mutable_labels())["team"] = "nlp";
  job.set_attempt(2);
  job.set_message("worker crashed with signal 9");
  job.set_exit_reason("Crashed");
  SetTime(job.mutable_start_time(), absl::Minutes(2));
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(5);
  progress.set_total_steps(20);
  progress.set_epoch(0.25);
  progress.set_loss(2.5);
  progress.set_learning_rate(5e-5);
  progress.set_grad_norm(1.25);
  progress.set_step_seconds(0.5);
  progress.set_tokens_per_second(1234);
  progress.set_eta_seconds(80);
  progress.set_device_utilization_ratio(0.934);
  progress.mutable_memory()->set_current_allocated_bytes(3'000'000'000);
  progress.mutable_memory()->set_footprint_bytes(4'000'000'000);
  job.set_eval_loss_before(2.75);
  job.set_eval_loss_after(2.25);
  // As submitted, and where mpsd has it.
  v1::JobRecord& record = data().records[kId];
  record.set_spec_json(R"({"model": "org/tiny", "dataset":
      {"train": "train.jsonl", "eval": "eval.jsonl"},
      "quantization_config": {"load_in_4bit": true},
      "lora": {"r": 16, "lora_alpha": 32},
      "training": {"learning_rate": 2e-4, "lr_scheduler_type": "cosine",
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 8,
        "max_length": 512, "bf16": true, "seed": 0}})");
  record.mutable_data()->set_rows(7473);
  record.mutable_data()->set_train_sha256(std::string(64, 'a'));
  job.set_spec_json(R"({"model": "/state/tiny"})");
  record.mutable_shape()->set_max_length(256);  // the model's positions
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Prints(StartsWith(
          "Job 01KAH0000000000000000000AA\n"
          "  name          moods\n"
          "  model         org/tiny\n"
          "  data          train.jsonl, 7473 rows, SHA-256 aaaaaaaaaaaa, "
          "evaluated on eval.jsonl\n"
          "  task          CAUSAL_LM\n"
          "  method        lora, rank 16, alpha 32, base in 4 bits\n"
          "  learning rate 0.0002, cosine\n"
          "  batch         4 rows, gradient accumulation 8\n"
          "  length        3 epochs, at most 256 tokens\n"
          "  dtype         bf16\n"
          "  seed          0\n"
          "  owner         ann\n"
          "  labels        team=nlp\n"
          "  state         RUNNING\n"
          "  step          5/20 (25%), epoch 0.25, ETA 1m20s\n"
          "  loss          2.5000, grad norm 1.25, learning rate 5e-05\n"
          "  speed         0.5s a step, 1,234 tok/s, device 93 % busy\n"
          "  memory        2.79 GiB current, 3.73 GiB footprint\n"
          "  eval loss     2.7500 before, 2.2500 latest\n"
          "  created       2026-01-02 03:01:05\n"
          "  started       2026-01-02 03:02:05, attempt 2\n"
          "  last exit     Crashed\n"
          "  message       worker crashed with signal 9\n"
          "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n")));
}

TEST_F(ShowTest, PausedAndOnTheCpu) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  v1::Progress& progress = *job.mutable_progress();
  progress.set_total_steps(20);
  progress.mutable_memory()->set_peak_allocated_bytes(5'000'000'000);
  (*progress.mutable_cpu_fallback_ops())["aten::linalg_eig"] = 3;
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  job.mutable_pause()->set_held(true);
  SetTime(job.mutable_pause()->mutable_since(), absl::Minutes(2));
  const std::string out = RunVerb({"show", kId}).out;
  for (const char* line :
       {"  state         PAUSED for 2m00s: on battery or in Low Power Mode\n",
        "  memory        4.66 GiB peak\n",
        "  on the CPU    aten::linalg_eig 3 times\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
  const auto json = ParseJson(Out({"show", kId, "--json"}));
  EXPECT_EQ(json["pause"]["reasons"], nlohmann::json::array({"BATTERY"}));
}

TEST_F(ShowTest, TheFirstAndTheLastSampleAreShown) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  const auto add = [&](int64_t step, const std::string& text) {
    v1::Sampled& sampled = *AddEvent(kId).mutable_sampled();
    sampled.set_step(step);
    sampled.add_completions(text);
    sampled.add_completions("two\nlines" + text);
  };
  for (const int64_t step : {0, 2, 0, 2, 4}) add(step, std::to_string(step));
  EXPECT_THAT(RunVerb({"show", kId}).out, Not(HasSubstr("TRAINING")));
  job.set_spec_json(R"({"model": "m", "dataset": {"train": "t"}, "training":
      {"sample_prompts": ["Sky?", {"messages": [
          {"role": "system", "content": "no"},
          {"role": "user", "content": "Sea?"}]}]}})");
  EXPECT_THAT(RunVerb({"show", kId}), Prints(HasSubstr("BEFORE TRAINING\n"
                                                       "  prompt        Sky?\n"
                                                       "  answer        0\n"
                                                       "  prompt        Sea?\n"
                                                       "  answer        two\n"
                                                       "    lines0\n"
                                                       "AT STEP 4\n"
                                                       "  prompt        Sky?\n"
                                                       "  answer        4\n")));
  const auto json = ParseJson(Out({"show", kId, "--json"}));
  EXPECT_EQ(json["samples"], nlohmann::json::parse(R"([
      {"step": 0, "completions": ["0", "two\nlines0"]},
      {"step": 4, "completions": ["4", "two\nlines4"]}])"));
}

TEST_F(ShowTest, WarningsAreListed) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.add_warnings("memory grows\x1b[2J");
  job.add_warnings("in 3 rows\nthe prompt");
  const std::string out = RunVerb({"show", kId}).out;
  EXPECT_THAT(out, HasSubstr("  warning       memory grows\\x1b[2J\n"
                             "  warning       in 3 rows the prompt\n"));
  const auto json = ParseJson(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["warnings"], nlohmann::json::array({"memory grows\x1b[2J",
                                                     "in 3 rows\nthe prompt"}));
}

TEST_F(ShowTest, QueuedHeldAndTriedBefore) {
  v1::Job& waiting = AddJob(kId, v1::JOB_STATE_QUEUED);
  waiting.set_queue_position(2);
  SetTime(waiting.mutable_not_before(), -absl::Seconds(10));
  data().filters_states = true;
  EXPECT_THAT(Out({"show", kId}),
              HasSubstr("  state         QUEUED, 2 ahead of it, not before "
                        "2026-01-02 03:04:15\n"));
  v1::Job& running = AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  running.mutable_progress()->set_eta_seconds(80);
  v1::Job& job = JobOf(kId);
  EXPECT_THAT(Out({"show", kId}),
              HasSubstr(", the running job ends in about 1m20s\n"));
  job.set_queue_position(0);
  EXPECT_THAT(Out({"show", kId}), HasSubstr("  state         QUEUED, next, "));
  EXPECT_THAT(Out({"show", kId}), HasSubstr(", starts in about 1m20s\n"));
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  EXPECT_THAT(Out({"show", kId}), HasSubstr(", paused: quiet hours"));
  job.set_hold("model: '/volumes/m' is away");
  job.set_exit_reason("Interrupted");
  job.set_failures(1);
  job.set_interruptions(2);
  const std::string out = RunVerb({"show", kId}).out;
  for (const char* line :
       {", model: '/volumes/m' is away\n",
        "  last exit     Interrupted, 1 failures in a row, 2 interruptions in "
        "a row\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
}

TEST_F(ShowTest, NamesTheTimeOfAllAttemptsAndOfTheLast) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_FAILED);
  SetTime(job.mutable_start_time(), absl::Seconds(100));
  SetTime(job.mutable_end_time(), absl::Seconds(20));
  job.set_device_seconds(95);
  EXPECT_THAT(Out({"show", kId}),
              HasSubstr("  took          2m40s in total, 1m35s on the "
                        "device\n"));
  job.set_attempt(4);
  EXPECT_THAT(Out({"show", kId}),
              AllOf(HasSubstr(" in total, 1m20s in the last of 4 attempts, "),
                    HasSubstr("mpsctl retry")));
  job.set_exit_reason("Rejected");
  EXPECT_THAT(Out({"show", kId}), Not(HasSubstr("mpsctl retry")));
}

TEST_F(ShowTest, AClassifier) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  (*job.mutable_metrics())["accuracy"] = 0.75;
  job.set_output_path("/state/model");
  job.set_output_kind(v1::OUTPUT_KIND_MODEL);
  job.set_confusion_matrix_json(R"({"labels": ["no"], "matrix": [[3]]})");
  job.set_spec_json(R"({"model": "m", "task": "SEQ_CLS", "dataset":
      {"train": "t.csv", "predict": "p.csv"}})");
  EXPECT_THAT(
      Out({"show", kId}),
      EndsWith(
          "  output        /state/model\n"
          "  metric     final\n"
          "  accuracy  0.7500\n"
          "  true \\ predicted  no\n"
          "  no                 3\n"
          "Fetch the model with `mpsctl download 01KAH0000000000000000000AA "
          "--output DIR`, its predictions with `mpsctl download "
          "01KAH0000000000000000000AA --predictions --output DIR`.\n"));
}

TEST_F(ShowTest, AStudySaysItsKindAndWhatItFound) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  job.set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  job.set_output_path("/state/out");
  job.set_output_kind(v1::OUTPUT_KIND_STUDY);
  v1::StudyResult& result = runbook().study_result;
  result.set_verdict(v1::VERDICT_FAIL);
  result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  result.add_findings()->set_name("memory.growth");
  const std::string out = Out({"show", kId});
  for (const char* line :
       {"  kind          device comparison\n", "  output        /state/out\n",
        "Decision: stay on ", "memory.growth", "Verdict: fail\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
  const auto json = ParseJson(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["result"]["verdict"], "FAIL");
  EXPECT_EQ(json["result"]["device_comparison"]["decision"], "STAY_ON_CPU");
}

TEST_F(ShowTest, AStudyIsShownWithoutAResultThatCannotBeRead) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_SMOKE);
  Fail("GetStudyResult", StatusCode::PERMISSION_DENIED, "ann's job\x1b[2J");
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Ends(0, AllOf(HasSubstr("SUCCEEDED"), Not(HasSubstr("Verdict"))),
           "mpsctl: the study's result cannot be read: ann's job\\x1b[2J\n"));
  const Result shown = RunVerb({"show", kId, "--json"});
  EXPECT_FALSE(ParseJson(shown.out).contains("result"));
  EXPECT_NE(shown.err, "");
}

TEST_F(ShowTest, JsonIsOneObject) {
  AddJob(kId, v1::JOB_STATE_FAILED).set_spec_json(R"({"model": "m"})");
  const std::string out = RunVerb({"show", kId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = ParseJson(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "FAILED");
  EXPECT_EQ(json["spec"]["model"], "m");
  data().jobs[0].set_spec_json("{\n  \"model\": \"m\"\n}");
  EXPECT_EQ(RunVerb({"show", kId, "--spec"}).out, "{\n  \"model\": \"m\"\n}\n");
  data().jobs[0].set_spec_json(R"({"model":"m","dataset":{"train":"t"}})");
  EXPECT_THAT(RunVerb({"show", kId, "--spec"}).out,
              AllOf(StartsWith("{\n"), HasSubstr("\n    \"seed\": 42")));
}

// What users and workers wrote comes out as text, whoever looks.
TEST_F(ShowTest, NothingOfAJobSteersTheTerminal) {
  constexpr char kEvil[] = "x\x1b[2J\x07\u009b31m\u202e\ny";
  v1::Job& job = AddJob(kId, v1::JOB_STATE_FAILED);
  job.set_name(kEvil);
  job.set_owner(kEvil);
  job.set_message(kEvil);
  job.set_exit_reason(kEvil);
  job.set_output_path(kEvil);
  job.add_warnings(kEvil);
  job.set_spec_json("x\x1b[2J\u202e");
  (*job.mutable_labels())["team"] = kEvil;
  (*job.mutable_metrics())[kEvil] = 1;
  AddEvent(kId).set_note(kEvil);
  AddEvent(kId).set_warning(kEvil);
  v1::StateChanged& state = *AddEvent(kId).mutable_state();
  state.set_state(v1::JOB_STATE_FAILED);
  state.set_message(kEvil);
  v1::Checkpoint checkpoint;
  checkpoint.set_path(kEvil);
  data().checkpoints[kId] = {checkpoint};
  data().info.set_hold(kEvil);
  terminal_.is_tty = true;
  for (const Args& args : {Args{"show", kId},
                           {"show", kId, "--spec"},
                           {"show", kId, "--json"},
                           {"list"},
                           {"list", "--json"},
                           {"watch", kId},
                           {"watch", kId, "--json"},
                           {"download", kId, "--checkpoints"},
                           {"info"},
                           {"cancel", "01KAH0"}}) {
    const Result result = RunVerb(args);
    // Its own redrawing of the last line.
    std::string text = result.out + result.err;
    for (size_t at; (at = text.find("\x1b[K")) != std::string::npos;) {
      text.erase(at, 3);
    }
    for (const char* steering : {"\x1b", "\x07", "\u009b", "\u202e"}) {
      EXPECT_THAT(text, Not(HasSubstr(steering)))
          << args[0] << " " << args.back();
    }
    // The line would be forged, but for mpsctl's own "you".
    for (size_t at; (at = text.find("\nyou ")) != std::string::npos;) {
      text.erase(at, 5);
    }
    EXPECT_EQ(text.find("\ny"), std::string::npos) << args[0];
  }
  Fail("GetRecord", StatusCode::INTERNAL, "a\x1b[2J");
  EXPECT_EQ(RunVerb({"show", kId}).err.find('\x1b'), std::string::npos);
}

std::string Metrics(const v1::Job& job) {
  std::ostringstream out;
  PrintMetrics(job, out);
  return out.str();
}

std::string Matrix(const std::string& json) {
  std::ostringstream out;
  PrintConfusionMatrix(json, out);
  return out.str();
}

TEST(Metrics, InALine) {
  MetricMap metrics;
  EXPECT_EQ(MetricsText(metrics), "");
  metrics["pearson"] = std::nan("");
  metrics["accuracy"] = 0.875;
  EXPECT_EQ(MetricsText(metrics), "accuracy 0.8750, pearson nan");
}

TEST(Metrics, NextToThoseOfTheBestEvaluation) {
  v1::Job job;
  EXPECT_EQ(Metrics(job), "");
  job.set_state(v1::JOB_STATE_RUNNING);
  (*job.mutable_metrics())["f1"] = 0.5;
  (*job.mutable_metrics())["accuracy"] = 0.25;
  EXPECT_EQ(Metrics(job),
            "  metric    latest\n"
            "  accuracy  0.2500\n"
            "  f1        0.5000\n");
  job.mutable_best_evaluation()->set_step(40);
  (*job.mutable_best_evaluation()->mutable_metrics())["f1"] = 0.75;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Metrics(job),
            "  metric     final  best, at step 40\n"
            "  accuracy  0.2500                 -\n"
            "  f1        0.5000            0.7500\n");
}

TEST(ConfusionMatrix, TrueDownPredictedAcross) {
  EXPECT_EQ(Matrix(R"({"labels": ["négatif", "positif"],
                       "matrix": [[120, 3], [4, 5]]})"),
            "  true \\ predicted  négatif  positif\n"
            "  négatif               120        3\n"
            "  positif                 4        5\n");
  const std::string text =
      Matrix(R"({"labels": ["\u001b[2J"], "matrix": [[1]]})");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("[2J"), std::string::npos);
  for (const char* json : {"", "x", "[]", R"({"labels": [], "matrix": []})",
                           R"({"labels": ["a"], "matrix": [[1, 2]]})",
                           R"({"labels": ["a", "b"], "matrix": [[1, 2]]})",
                           R"({"labels": "a", "matrix": [[1]]})"}) {
    EXPECT_EQ(Matrix(json), "") << json;
  }
}

std::map<std::string, std::string> Rows(const v1::JobRecord& record) {
  std::map<std::string, std::string> rows;
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/true, absl::UTCTimeZone())) {
    for (const auto& [name, value] : section.rows) {
      rows[section.title + "/" + name] = value;
    }
  }
  return rows;
}

// What a reviewer asks for in addition to the versions (seed 004, 18):
// checksums, who else used the machine, power, Low Power Mode, heat, round
// trip, mounts.
TEST(Record, HasEveryFieldWithItsUnit) {
  auto rows = Rows(SomeRecord("A"));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"ENVIRONMENT/torch version", "2.6.0"},
           {"ENVIRONMENT/variables OMP_NUM_THREADS", "8"},
           {"ENVIRONMENT/file systems data", "nfs4"},
           {"MEMORY/peak allocated", "3.73 GiB"},
           {"FALLBACKS/allowed", "yes"},
           {"FALLBACKS/ops aten::svd", "3"},
           {"DATA/inputs t.jsonl", std::string(64, 'a')},
           {"CONDITIONS/power sources", "mains"},
           {"CONDITIONS/low power mode", "no"},
           {"CONDITIONS/least battery", "85 %"},
           {"CONDITIONS/thermal levels", "nominal, heavy"},
           {"PAUSES/count", "2"},
           {"DURATIONS/steady step", "0.25s"},
           {"DURATIONS/round trip", "0.0213s"},
           {"RESULTS/state", "SUCCEEDED"},
           {"RESULTS/eval loss", "1.2500"}}) {
    EXPECT_EQ(rows[name], value) << name;
  }
}

TEST(Record, WhatIsNotKnownHasNoMadeUpValue) {
  v1::JobRecord record;
  record.set_kind(v1::JOB_KIND_TRAINING);
  record.mutable_environment();
  record.mutable_conditions();
  record.mutable_memory()->set_peak_footprint_bytes(70'000'000);
  record.mutable_durations();
  auto rows = Rows(record);
  for (const char* name :
       {"ENVIRONMENT/torch version", "ENVIRONMENT/file systems",
        "MEMORY/peak allocated", "CONDITIONS/power sources",
        "CONDITIONS/low power mode", "CONDITIONS/thermal levels",
        "CONDITIONS/user active", "CONDITIONS/most swap",
        "DURATIONS/round trip", "DURATIONS/load", "RESULTS/eval loss"}) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows[name], "-") << name;
  }
  // A run on the CPU has its process' memory, which is not the device's.
  EXPECT_EQ(rows["MEMORY/peak footprint"], "66.8 MiB");
}

class ShowRecordTest : public ClientTest {
 protected:
  void AddPast(const std::string& id) {
    v1::Job job = PastJob(id);
    job.set_name("moods");
    job.set_state(v1::JOB_STATE_SUCCEEDED);
    job.mutable_create_time()->set_seconds(1767323000);
    job.add_tags("baseline");
    data().past.push_back(job);
    data().records[id] = SomeRecord(id);
  }
};

TEST_F(ShowRecordTest, ADeletedJob) {
  AddPast(kOtherId);
  v1::JobRecord& record = data().records[kOtherId];
  record.set_attempt_count(3);
  for (const char* reason : {"Crashed", "Done"}) {
    v1::RunAttempt& attempt = *record.add_attempts();
    attempt.mutable_start_time()->set_seconds(1767323045);
    attempt.set_exit_reason(reason);
  }
  v1::Finding& finding = *record.add_findings();
  finding.set_name("memory.growth");
  finding.set_verdict(v1::VERDICT_FAIL);
  finding.set_found("31 %");
  v1::JobNote& note = *record.add_notes();
  note.mutable_time()->set_seconds(1767323045);
  note.set_author("eve");
  note.set_text("too\nhot\x1b[2J");
  // By a part of its id, too.
  const std::string out = Out({"show", std::string(kOtherId).substr(20)});
  for (const char* text :
       {"It was deleted", "SUCCEEDED, deleted", "baseline", "torch version",
        "2.6.0", "3.73 GiB", "nominal, heavy", "ATTEMPT", "Crashed",
        "memory.growth", "NOTES", "eve\n  too\n", "\\x1b"}) {
    EXPECT_THAT(out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(out, Not(HasSubstr("\x1b")));
  const auto json = ParseJson(RunVerb({"--json", "show", kOtherId}).out);
  EXPECT_EQ(json["past"], true);
  EXPECT_EQ(json["record"]["environment"]["device"], "mps");
  EXPECT_EQ(json["record"]["notes"][0]["author"], "eve");
}

TEST_F(ShowRecordTest, AJobThatIsThere) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().records[kId] = SomeRecord(kId);
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Prints(AllOf(HasSubstr("CONDITIONS"), HasSubstr("Follow it with"))));
  // Another user's job on a daemon with private jobs.
  Fail("GetRecord", StatusCode::NOT_FOUND, "no record");
  EXPECT_THAT(RunVerb({"show", kId}), Prints(Not(HasSubstr("CONDITIONS"))));
  EXPECT_EQ(RunVerb({"show", kOtherId}).code, 4);
}

TEST_F(ShowRecordTest, ListFindsDeletedJobsInOneOrder) {
  v1::Job& old = AddJob(kId, v1::JOB_STATE_FAILED);
  old.mutable_create_time()->set_seconds(1767322000);
  AddPast(kOtherId);
  EXPECT_THAT(RunVerb({"list", "-q"}).out, Not(HasSubstr(kOtherId)));
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--tag", "baseline"}).out,
            std::string(kOtherId) + "\n" + kId + "\n");
  EXPECT_EQ(data().listed.back().tags(0), "baseline");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--limit", "1"}).out,
            std::string(kOtherId) + "\n");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--sort", "create_time"}).out,
            std::string(kId) + "\n" + kOtherId + "\n");
  EXPECT_EQ(RunVerb({"list", "--past", "--count"}).out, "2\n");
  data().past[0].mutable_progress()->set_step(3);
  EXPECT_THAT(RunVerb({"list", "--past", "--columns", "loss,step"}),
              Prints(testing::ContainsRegex("\n- +3/0\n")));
  EXPECT_THAT(RunVerb({"list", "--past"}),
              Prints(HasSubstr("SUCCEEDED (deleted)")));
  const auto progress = ParseJson(
      RunVerb({"--json", "list", "--past", "--limit", "1"}).out)["progress"];
  EXPECT_EQ(progress["step"], 3);
  EXPECT_FALSE(progress.contains("loss")) << "it is unknown";
  EXPECT_EQ(
      RunVerb({"list", "--past", "--csv", "--columns", "id,past,tags"}).out,
      std::string("id,past,tags\r\n") + kOtherId +
          ",true,\"[\"\"baseline\"\"]\"\r\n" + kId + ",false,[]\r\n");
}

}  // namespace
}  // namespace mpsd::client
