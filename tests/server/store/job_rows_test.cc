// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <variant>

#include "absl/strings/ascii.h"
#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::jobs {
namespace {

using enum absl::StatusCode;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Progress SomeProgress() {
  Progress progress;
  progress.step = 3;
  progress.total_steps = 9;
  progress.epoch = 0.5;
  progress.loss = 1.0 / 3.0;
  progress.learning_rate = 1e-4;
  progress.grad_norm = 2;
  progress.tokens = 100;
  progress.label_tokens = 60;
  progress.seconds = 0.25;
  progress.padding_ratio = 0.125;
  progress.data_wait_ratio = 0.5;
  progress.tokens_per_second = 400;
  progress.eta_seconds = 1.5;
  progress.device = "mps";
  progress.memory.current_allocated_bytes = 1;
  progress.memory.driver_allocated_bytes = 2;
  progress.memory.recommended_max_bytes = 3;
  progress.memory.footprint_bytes = 1LL << 40;
  progress.memory.peak_allocated_bytes = 5;
  progress.cpu_fallback_ops = {{"aten::a", 2}};
  return progress;
}

TEST(EventBody, EveryKindComesBackAsWritten) {
  const EventBody bodies[] = {
      StateChanged{State::kFailed, "line 1\nline \"2\""},
      SomeProgress(),
      Evaluated{5, 2.25, 9, 0.5, {{"f1", 0.5}, {"a", kNan}}},
      Checkpoint{{5, "/c/5", 77, 0.5}, absl::FromUnixMicros(123456789)},
      Note{"loading"},
      report::Sampled{4, {"an answer", ""}}};
  int kind = 0;
  for (const EventBody& body : bodies) {
    EXPECT_EQ(KindOf(body), ++kind);
    const std::string text = EncodeBody(body);
    auto decoded = Ok(DecodeBody(kind, text));
    EXPECT_EQ(decoded.index(), body.index());
    EXPECT_EQ(EncodeBody(decoded), text);
  }
  EXPECT_EQ(KindOf(bodies[1]), kProgressKind);
}

// To the byte, as the rows of every release.
TEST(EventBody, BodiesAreThoseOfTheFirstRelease) {
  EXPECT_EQ(
      EncodeColumn(SomeProgress()),
      R"({"step":3,"total_steps":9,"epoch":0.5,"loss":0.3333333333333333,)"
      R"("learning_rate":0.0001,"grad_norm":2.0,"tokens":100,)"
      R"("label_tokens":60,"step_seconds":0.25,"padding_ratio":0.125,)"
      R"("data_wait_ratio":0.5,"tokens_per_second":400.0,"eta_seconds":1.5,)"
      R"("device":"mps","current_allocated_bytes":1,)"
      R"("driver_allocated_bytes":2,"recommended_max_bytes":3,)"
      R"("footprint_bytes":1099511627776,"peak_allocated_bytes":5,)"
      R"("cpu_fallback_ops":{"aten::a":2}})");
  EXPECT_EQ(EncodeBody(StateChanged{State::kFailed, "why"}),
            R"({"state":4,"message":"why"})");
  EXPECT_EQ(EncodeBody(Evaluated{5, 2.25, 9, 0.5, {{"f1", kNan}}, true}),
            R"({"step":5,"eval_loss":2.25,"metrics":{"f1":null}})");
  EXPECT_EQ(EncodeBody(Checkpoint{{5, "/c/5", 77, 0.5},
                                  absl::FromUnixMicros(123456789)}),
            R"({"step":5,"path":"/c/5","size_bytes":77,"seconds":0.5,)"
            R"("create_time_us":123456789})");
}

TEST(EventBody, AWarningIsANoteThatSaysSo) {
  const std::string text = EncodeBody(Note{"memory grows", true});
  EXPECT_EQ(text, R"({"text":"memory grows","is_warning":true})");
  auto note = DecodeBody(5, text);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_TRUE(std::get<Note>(*note).is_warning);
  // As written before there were warnings, and as a plain note still is.
  note = DecodeBody(5, R"({"text":"loading"})");
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_FALSE(std::get<Note>(*note).is_warning);
  EXPECT_EQ(EncodeBody(*note), R"({"text":"loading"})");
}

TEST(EventBody, ANonFiniteLossIsNan) {
  Progress progress = SomeProgress();
  for (double loss : {kNan, HUGE_VAL, -HUGE_VAL}) {
    progress.loss = loss;
    auto decoded = Ok(DecodeColumn<Progress>(EncodeColumn(progress)));
    EXPECT_TRUE(std::isnan(decoded.loss));
  }
}

TEST(EventBody, OldRowsReadWithDefaults) {
  auto progress =
      Ok(DecodeColumn<Progress>(R"({"step": 4, "gone_member": 1})"));
  EXPECT_EQ(progress.step, 4);
  EXPECT_EQ(progress.tokens, 0);
  EXPECT_FALSE(progress.memory.footprint_bytes.has_value());
  EXPECT_FALSE(progress.padding_ratio.has_value());
}

TEST(EventBody, WhatItDidNotWriteIsDataLoss) {
  for (const auto& [kind, text] : {std::pair(2, ""),
                                   {2, "[]"},
                                   {2, "{\"step\": \"4\"}"},
                                   {2, "{\"loss\": true}"},
                                   {2, "{\"footprint_bytes\": 0.5}"},
                                   {1, R"({"state": 9})"},
                                   {1, R"({"message": "no state"})"},
                                   {7, "{}"}}) {
    EXPECT_THAT(DecodeBody(kind, text), Fails(kDataLoss)) << text;
  }
}

// Every member with a value of its own, so that two swapped columns show.
Job FullJob() {
  Job job = QueuedJob(1);
  job.name = "name";
  job.state = State::kQueued;
  job.cancel_requested = true;
  job.owner = "owner";
  job.labels = {{"a", "1"}, {"b", ""}};
  job.priority = -5;
  job.create_time = absl::FromUnixMicros(11);
  job.start_time = absl::FromUnixMicros(12);
  job.end_time = absl::FromUnixMicros(13);
  job.not_before = absl::FromUnixMicros(14);
  job.attempt = 3;
  job.failures = 2;
  job.message = "message";
  job.exit_reason = ExitReason::kHung;
  job.progress.emplace().step = 21;
  job.eval_loss_before = 0.1;
  job.eval_loss_after = 0.2;
  job.train_loss = 0.3;
  job.output_path = "/adapter";
  job.spec_json = "{}";
  job.output_kind = OutputKind::kModel;
  job.metrics = {{"f1", 0.5}, {"accuracy", 0.25}};
  job.best_evaluation = {8, 1.5, 0, 0, {{"f1", 0.75}}};
  job.confusion_matrix = R"({"labels":["a"],"matrix":[[1]]})";
  job.warnings = {"one", "two"};
  job.interruptions = 4;
  job.runs_last = true;
  job.boot_id = "boot";
  job.durable_step = 31;
  job.advanced = true;
  job.memory_bytes = 41;
  job.checkpoint_bytes = 42;
  job.device_time = absl::Microseconds(43);
  job.held = true;
  job.hold_reason = "waits for the data";
  job.place = -44;
  job.among_all = true;
  job.ticket = "01J00000000000000000000007";
  job.fresh = true;
  job.after = {"a", "b"};
  job.model = "org/model";
  job.study_json = R"({"rows":7})";
  job.idempotency_key = "key";
  job.request_hash = "hash";
  return job;
}

auto Members(const Job& j) {
  const Evaluated best = j.best_evaluation.value_or(Evaluated());
  return std::make_tuple(
      j.id, j.kind, j.study_json, j.name, j.state, j.cancel_requested, j.owner,
      j.labels, j.priority, j.create_time, j.start_time, j.end_time,
      j.not_before, j.attempt, j.failures, j.message, j.exit_reason,
      j.progress.has_value(), j.progress.value_or(Progress()).step,
      j.eval_loss_before, j.eval_loss_after, j.train_loss, j.output_path,
      j.spec_json, j.output_kind, j.metrics, j.best_evaluation.has_value(),
      best.step, best.eval_loss, best.metrics, j.confusion_matrix, j.warnings,
      j.interruptions, j.runs_last, j.boot_id, j.durable_step, j.advanced,
      j.memory_bytes, j.checkpoint_bytes, j.device_time, j.held, j.hold_reason,
      j.place, j.among_all, j.ticket, j.fresh, j.after, j.model,
      j.idempotency_key, j.request_hash);
}

class JobRowTest : public StoreFixture {
 protected:
  Job StoredAs(const Job& job) {
    auto read = jobs_.Get(Insert(job).id);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(Job());
  }
  void Corrupt(const std::string& sql) {
    Execute("PRAGMA ignore_check_constraints = ON; " + sql);
  }
};

TEST_F(JobRowTest, EveryMemberComesBack) {
  EXPECT_EQ(Members(StoredAs(FullJob())), Members(FullJob()));
  EXPECT_EQ(Members(StoredAs(QueuedJob(7))), Members(QueuedJob(7)))
      << "absent members stay absent";
}

TEST_F(JobRowTest, EveryExitReasonComesBack) {
  int number = 0;
  for (ExitReason reason : kAllExitReasons) {
    Job job = QueuedJob(++number);
    job.exit_reason = reason;
    EXPECT_EQ(StoredAs(job).exit_reason, reason) << Name(reason);
  }
}

TEST_F(JobRowTest, UnknownValuesAreDataLossNamingTheJob) {
  const Job job = FullJob();
  StoredAs(job);
  for (const char* sql :
       {"UPDATE jobs SET exit_reason = 'Bored'",
        "UPDATE jobs SET exit_reason = NULL, progress = 'x'",
        "UPDATE jobs SET progress = NULL, metrics = '[]'",
        "UPDATE jobs SET metrics = '{}', best_evaluation = '{\"step\": []}'",
        "UPDATE jobs SET best_evaluation = NULL, output_kind = 9",
        "UPDATE jobs SET output_kind = 1, warnings = '{}'",
        "UPDATE jobs SET warnings = '[]', kind = 99"}) {
    Corrupt(sql);
    EXPECT_THAT(jobs_.Get(job.id), Fails(kDataLoss)) << sql;
  }
  Corrupt(
      "DROP TRIGGER jobs_transition; "
      "UPDATE jobs SET kind = 1, state = 9");
  EXPECT_THAT(jobs_.Get(job.id), Fails(kDataLoss, job.id));
}

class JobListTest : public MemoryFixture {
 protected:
  // The ends of the ids of those that are listed.
  std::vector<std::string> Ids(const ListFilter& filter) {
    auto jobs = jobs_.List(filter);
    EXPECT_TRUE(jobs.ok()) << jobs.status();
    std::vector<std::string> ids;
    for (const Job& job : *jobs) {
      ids.push_back(job.id.substr(job.id.size() - 2));
    }
    return ids;
  }
  // Of all pages.
  std::vector<std::string> PagedIds(ListFilter filter) {
    std::vector<std::string> ids;
    for (auto page = jobs_.List(filter); page.ok(); page = jobs_.List(filter)) {
      if (page->empty() || ids.size() > 1000) return ids;
      for (const Job& job : *page) {
        ids.push_back(job.id.substr(job.id.size() - 2));
      }
      filter.after = PlaceOf(page->back(), filter.order);
    }
    ADD_FAILURE() << jobs_.List(filter).status();
    return ids;
  }
};

TEST_F(JobListTest, ListFilters) {
  for (int i = 10; i < 16; ++i) {
    Job job = QueuedJob(i);
    job.state = i % 2 == 0 ? State::kQueued : State::kFailed;
    job.owner = i < 13 ? "ana" : "bo'; DROP TABLE jobs; --";
    job.labels["team"] = i % 3 == 0 ? "nlp" : "cv";
    if (i > 12) job.labels["new"] = "";
    Insert(job);
  }
  ListFilter filter;
  filter.states = {State::kFailed};
  EXPECT_THAT(Ids(filter), ElementsAre("15", "13", "11"));
  filter.states = {State::kFailed, State::kQueued, State::kRunning};
  EXPECT_EQ(Ids(filter).size(), 6u);
  filter.owner = "bo'; DROP TABLE jobs; --";
  EXPECT_THAT(Ids(filter), ElementsAre("15", "14", "13"));
  filter.labels = {{"team", "cv"}};
  EXPECT_THAT(Ids(filter), ElementsAre("14", "13"));
  filter.owner = "";
  filter.labels = {{"team", "nlp"}, {"new", ""}};
  EXPECT_THAT(Ids(filter), ElementsAre("15"));
  filter.labels = {{"team", "none"}};
  EXPECT_THAT(Ids(filter), ElementsAre());
}

// Against every page of every label, and both, by a look at all jobs.
TEST_F(JobListTest, LabelledJobsArePagedInOrder) {
  constexpr int kJobs = 60;
  for (int i = 0; i < kJobs; ++i) {
    Job job = QueuedJob(10 + i);
    job.labels["common"] = "x";
    job.labels["run"] = std::to_string(i % 7);
    if (i % 20 == 3) job.state = State::kFailed;
    Insert(job);
  }
  ListFilter filter;
  filter.limit = 4;
  for (const auto& labels : std::vector<std::map<std::string, std::string>>{
           {{"common", "x"}},
           {{"run", "3"}},
           {{"common", "x"}, {"run", "3"}}}) {
    filter.labels = labels;
    std::vector<std::string> expected;
    for (int i = kJobs - 1; i >= 0; --i) {
      if (labels.count("run") > 0 && i % 7 != 3) continue;
      expected.push_back(std::to_string(10 + i));
    }
    EXPECT_EQ(PagedIds(filter), expected);
    EXPECT_EQ(jobs_.List(filter)->back().labels.at("common"), "x");
  }
  // The last job of a page may be gone when the next page is asked for.
  filter.labels = {{"common", "x"}};
  filter.after = ListPlace{QueuedJob(50).id, {}};
  Execute("DELETE FROM jobs WHERE id = '" + filter.after->id + "'");
  EXPECT_THAT(Ids(filter), ElementsAre("49", "48", "47", "46"));
  filter.states = {State::kFailed};
  filter.labels["run"] = "6";
  EXPECT_THAT(Ids(filter), ElementsAre());
  filter.labels["run"] = "2";  // the 23rd is FAILED, of 3, 23 and 43
  EXPECT_THAT(Ids(filter), ElementsAre("33"));
}

// Rows as older versions stored them, before names and messages had bounds.
TEST_F(JobListTest, SummariesOfLongRowsAreShort) {
  constexpr int kJobs = 75;
  for (int i = 0; i < kJobs; ++i) {
    Job job = QueuedJob(i);
    job.name.assign(1 << 20, 'n');
    job.owner.assign(1000, 'o');
    job.message.assign(100'000, 'm');
    job.spec_json.assign(100'000, ' ');
    job.confusion_matrix.assign(100'000, ' ');
    job.output_path.assign(10'000, 'p');
    job.warnings = {std::string(100'000, 'w')};
    job.metrics = {{std::string(100'000, 'k'), 1}};
    Insert(job);
  }
  ListFilter filter;
  filter.limit = kJobs + 1;
  filter.summaries = true;
  auto listed = Ok(jobs_.List(filter));
  ASSERT_EQ(listed.size(), static_cast<size_t>(kJobs));
  for (const Job& job : listed) {
    EXPECT_EQ(job.name, std::string(limits::kNameBytes - 3, 'n') + "…");
    EXPECT_EQ(job.owner, std::string(limits::kOwnerBytes - 3, 'o') + "…");
    EXPECT_EQ(job.message, std::string(limits::kMessageBytes - 3, 'm') + "…");
    EXPECT_EQ(job.output_path.size(), limits::kPathBytes);
    EXPECT_EQ(job.spec_json, "");
    EXPECT_EQ(job.confusion_matrix, "");
    EXPECT_TRUE(job.warnings.empty());
    EXPECT_TRUE(job.metrics.empty());
  }
}

TEST_F(JobListTest, SummariesOfOrdinaryRowsAreWhole) {
  Job job = QueuedJob(1);
  job.name.assign(limits::kNameBytes, 'n');
  job.owner = "änne";
  job.message.assign(limits::kMessageBytes, 'm');
  job.output_path = "/out";
  job.metrics = {{"f1", 0.5}};
  job.best_evaluation = Evaluated{3, 0.25, 0, 0, {{"f1", 0.5}}};
  job.progress = Progress();
  job.progress->step = 7;
  job.exit_reason = ExitReason::kCrashed;
  job.labels = {{"team", "nlp"}};
  Insert(job);
  ListFilter filter;
  filter.summaries = true;
  auto listed = Ok(jobs_.List(filter));
  const Job& read = listed.at(0);
  EXPECT_EQ(read.id, job.id);
  EXPECT_EQ(read.name, job.name);
  EXPECT_EQ(read.owner, job.owner);
  EXPECT_EQ(read.message, job.message);
  EXPECT_EQ(read.output_path, job.output_path);
  EXPECT_EQ(read.metrics, job.metrics);
  EXPECT_EQ(read.best_evaluation->step, 3);
  EXPECT_EQ(read.progress->step, 7);
  EXPECT_EQ(read.exit_reason, job.exit_reason);
  EXPECT_EQ(read.labels, job.labels);
  EXPECT_EQ(read.create_time, job.create_time);
}

TEST_F(JobListTest, OneUnreadableRowDoesNotHideTheOthers) {
  for (int i = 10; i < 13; ++i) {
    Job job = QueuedJob(i);
    job.message = "why";
    Insert(job);
  }
  Execute(
      "UPDATE jobs SET exit_reason = 'Bored\x1b', progress = 'x', "
      "metrics = '[[[[' WHERE id = '" +
      QueuedJob(11).id + "'");
  ListFilter filter;
  EXPECT_EQ(jobs_.List(filter).status().code(), absl::StatusCode::kDataLoss);
  filter.summaries = true;
  EXPECT_THAT(Ids(filter), ElementsAre("12", "11", "10"));
  const Job read = jobs_.List(filter)->at(1);
  EXPECT_THAT(read.message, HasSubstr("not all of this job can be read: "));
  EXPECT_THAT(read.message, HasSubstr("exit reason Bored\\x1b"));
  EXPECT_THAT(read.message, HasSubstr("; its message: why"));
  EXPECT_EQ(read.name, "job 11");
  EXPECT_FALSE(read.progress.has_value());
}

// A job of each value, with ties and jobs without a value.
TEST_F(JobListTest, EachOrderIsPagedBothWaysAsASortWouldBe) {
  constexpr int kJobs = 40;
  std::vector<Job> all;
  for (int i = 0; i < kJobs; ++i) {
    Job job = QueuedJob(10 + i);
    job.name = std::string(i % 3 == 0 ? "a" : "B") + std::to_string(i % 5);
    job.owner = i % 4 == 0 ? "bob" : "ann";
    job.state = i % 2 == 0 ? State::kFailed : State::kSucceeded;
    job.priority = i % 3 - 1;
    if (i % 7 != 0) job.end_time = absl::FromUnixSeconds(1000 + i % 6);
    if (i % 5 != 0) job.eval_loss_after = 0.5 * (i % 8) - 1;
    job.device_time = absl::Seconds(i % 9);
    Insert(job);
    Execute("UPDATE jobs SET stored_bytes = " + std::to_string(i % 4) +
            " WHERE id = '" + job.id + "'");
    job.stored_bytes = i % 4;
    all.push_back(job);
  }
  const auto value = [](const Job& job, ListOrder order) {
    auto value = PlaceOf(job, order).value;
    if (order == ListOrder::kName) {
      value = absl::AsciiStrToLower(std::get<std::string>(value));
    }
    return value;
  };
  for (ListOrder order : kAllListOrders) {
    for (bool ascending : {true, false}) {
      std::vector<Job> sorted = all;
      std::stable_sort(
          sorted.begin(), sorted.end(), [&](const Job& a, const Job& b) {
            const auto left = value(a, order), right = value(b, order);
            if (left.index() != right.index()) return right.index() == 0;
            if (left != right) return (left < right) == ascending;
            return (a.id < b.id) == ascending;
          });
      std::vector<std::string> expected;
      for (const Job& job : sorted) {
        expected.push_back(job.id.substr(job.id.size() - 2));
      }
      ListFilter filter;
      filter.order = order;
      filter.ascending = ascending;
      filter.limit = 7;
      EXPECT_EQ(PagedIds(filter), expected)
          << "order " << static_cast<int>(order) << ascending;
    }
  }
}

TEST_F(JobListTest, APlaceOutlivesItsJob) {
  for (int i = 10; i < 20; ++i) {
    Job job = QueuedJob(i);
    job.priority = i % 2;
    Insert(job);
  }
  ListFilter filter;
  filter.order = ListOrder::kPriority;
  filter.limit = 3;
  EXPECT_THAT(Ids(filter), ElementsAre("19", "17", "15"));
  filter.after = ListPlace{QueuedJob(15).id, int64_t{1}};
  // The job moves elsewhere in the list, and then goes.
  Execute("UPDATE jobs SET priority = 7 WHERE id = '" + filter.after->id + "'");
  EXPECT_THAT(Ids(filter), ElementsAre("13", "11", "18"));
  Execute("DELETE FROM jobs WHERE id = '" + filter.after->id + "'");
  EXPECT_THAT(Ids(filter), ElementsAre("13", "11", "18"));
  filter.ascending = true;
  EXPECT_THAT(Ids(filter), ElementsAre("17", "19"));
  filter.after = ListPlace{"0", int64_t{0}};
  EXPECT_EQ(Ids(filter).size(), 3u) << "before all";
}

TEST_F(JobListTest, TimesModelsPinsAndHoldsFilter) {
  for (int i = 10; i < 16; ++i) {
    Job job = QueuedJob(i);
    job.create_time = absl::FromUnixSeconds(i);
    if (i < 13) job.end_time = absl::FromUnixSeconds(i + 100);
    job.model = i % 2 == 0 ? "org/tiny" : "/models/tiny";
    job.held = i == 14;
    Insert(job);
  }
  Execute("UPDATE jobs SET pinned = 1 WHERE number = 2");
  ListFilter filter;
  filter.created_from = absl::FromUnixSeconds(12);
  filter.created_to = absl::FromUnixSeconds(14);
  EXPECT_THAT(Ids(filter), ElementsAre("13", "12"));
  EXPECT_EQ(*jobs_.CountListed(filter), 2);
  filter = {};
  filter.ended_from = absl::FromUnixSeconds(111);
  EXPECT_THAT(Ids(filter), ElementsAre("12", "11"));
  filter.ended_to = absl::FromUnixSeconds(112);
  EXPECT_THAT(Ids(filter), ElementsAre("11"));
  filter = {};
  filter.model = "org/tiny";
  EXPECT_THAT(Ids(filter), ElementsAre("14", "12", "10"));
  filter.held = false;
  EXPECT_THAT(Ids(filter), ElementsAre("12", "10"));
  filter = {};
  filter.pinned = true;
  EXPECT_THAT(Ids(filter), ElementsAre("11"));
  filter.pinned = false;
  EXPECT_EQ(*jobs_.CountListed(filter), 5);
  filter.limit = 1;
  filter.after = ListPlace{QueuedJob(11).id, {}};
  EXPECT_EQ(*jobs_.CountListed(filter), 5) << "for any page";
}

TEST_F(JobListTest, TextIsFoundInEachField) {
  Job job = QueuedJob(10);
  job.name = "Ünderfitted moods \"100%\"";
  job.owner = "ann";
  job.model = "org/SmolLM2_135M";
  job.message = "line 3: expected 感情";
  job.labels = {{"Team", "NLP"}, {"path", "back\\slash"}};
  Insert(job);
  Insert(QueuedJob(11));
  const auto found = [&](const std::string& text) {
    ListFilter filter;
    filter.text = text;
    const std::vector<std::string> ids = Ids(filter);
    EXPECT_EQ(*jobs_.CountListed(filter), static_cast<int64_t>(ids.size()));
    return ids;
  };
  for (const char* text : {"moods", "MOODS", "üNDER", "ANN", "an", "smollm2_1",
                           "LINE 3", "感情", "team", "nlp", "NL", "\"100%\"",
                           "0%", "2_", "k\\s", "\"1", "d mo", "ack\\sla"}) {
    EXPECT_THAT(found(text), ElementsAre("10")) << text;
  }
  EXPECT_THAT(found(job.id.substr(20)), ElementsAre("10"));
  EXPECT_THAT(found("01j0000"), ElementsAre("11", "10"));
  for (const char* text :
       {"mods", "1%%", "_3", "xx", "moods OR job", "id:01J", "{id} : \"01J\"",
        "moo*", "^moods", "''", "m_ods", "NEAR(moods)", "-"}) {
    EXPECT_THAT(found(text), ElementsAre()) << text;
  }
}

// With private jobs no search reveals the name of another user's job.
TEST_F(JobListTest, OfOthersTextIsFoundInIdAndOwnerAlone) {
  for (int i = 10; i < 13; ++i) {
    Job job = QueuedJob(i);
    job.owner = i == 10 ? "ann" : i == 11 ? "bob" : "";
    job.name = "secret";
    job.labels["team"] = "nlp";
    Insert(job);
  }
  ListFilter filter;
  filter.text_of_owner = "ann";
  for (const char* text : {"secret", "nlp", "se", "nl"}) {
    filter.text = text;
    EXPECT_THAT(Ids(filter), ElementsAre("10")) << text;
    EXPECT_EQ(*jobs_.CountListed(filter), 1);
  }
  for (const char* text : {"bob", "bo"}) {
    filter.text = text;
    EXPECT_THAT(Ids(filter), ElementsAre("11")) << text;
  }
  filter.text = "01j";
  EXPECT_THAT(Ids(filter), ElementsAre("12", "11", "10"));
  filter.text_of_owner =
      "";  // jobs without owner are no jobs of a nameless caller
  for (const char* text : {"secret", "se"}) {
    filter.text = text;
    EXPECT_THAT(Ids(filter), ElementsAre()) << text;
  }
}

// job_list and job_texts hold what jobs holds, after any write.
TEST_F(JobListTest, TheNarrowTablesEqualTheRows) {
  for (int i = 10; i < 30; ++i) {
    Job job = QueuedJob(i);
    job.labels["i"] = std::to_string(i);
    Insert(job);
    if (i % 2 == 0) continue;
    job.state = State::kRunning;
    job.eval_loss_after = 0.5;
    job.name.assign(1000, 'n');
    job.message = "why";
    Update(job);
  }
  Execute("UPDATE jobs SET owner = 'x', held = 1 WHERE number % 3 = 0");
  Execute("DELETE FROM jobs WHERE number % 5 = 0");
  Insert(QueuedJob(30));  // brings the texts after the two statements
  Connection& c = database_->writer();
  absl::MutexLock lock(&c.mutex());
  for (const char* sql :
       {"SELECT count(*) FROM (SELECT * FROM job_list EXCEPT "
        "SELECT * FROM job_list_source)",
        "SELECT count(*) FROM (SELECT * FROM job_list_source EXCEPT "
        "SELECT * FROM job_list)",
        "SELECT count(*) FROM (SELECT * FROM job_text_rows EXCEPT "
        "SELECT * FROM job_texts_source)",
        "SELECT count(*) FROM (SELECT * FROM job_texts_source EXCEPT "
        "SELECT * FROM job_text_rows)"}) {
    EXPECT_EQ(c.database().execAndGet(sql).getInt(), 0) << sql;
  }
  c.database().exec(
      "INSERT INTO job_texts (job_texts, rank) VALUES "
      "('integrity-check', 1)");
}

using ListInFileTest = StoreFixture;

TEST_F(ListInFileTest, WhoAsksForOneJobWaitsForNoList) {
  absl::MutexLock lock(&database_->lister().mutex());  // a list is in progress
  Insert(QueuedJob(10));
  EXPECT_TRUE(jobs_.Get(QueuedJob(10).id).ok());
}

}  // namespace
}  // namespace mpsd::jobs
