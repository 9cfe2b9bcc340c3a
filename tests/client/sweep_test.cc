// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/study.h"
#include "core/base/limits.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class SweepTest : public ClientTest {
 protected:
  SweepTest() {
    AddJob(kId, v1::JOB_STATE_QUEUED);
    job_ = Write("job.json",
                 R"({"model": "org/tiny", "name": "j",
                     "dataset": {"train": "/data/train.jsonl"}})");
  }
  Result Sweep(Args args) {
    args.insert(args.begin(), {"sweep", job_});
    return RunVerb(args);
  }
  nlohmann::json Spec(size_t i) {
    return ParseJson(data().submitted.at(i).spec_json());
  }

  std::string job_;
};

TEST_F(SweepTest, SaysWhatItTakes) {
  const std::string out = Out({"sweep", "--help"});
  for (const char* text : {"--grid", "--random", "--seed"}) {
    EXPECT_THAT(out, HasSubstr(text));
  }
  EXPECT_THAT(Sweep({}), Fails(2, AllOf(HasSubstr("--grid or --random"),
                                        HasSubstr("mpsctl check batch"))));
  EXPECT_EQ(RunVerb({"sweep"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, PlacesForItsFilesAreLookedAtFirst) {
  const std::string nowhere = (folder_ / "none/x").string();
  for (const std::string& place : {nowhere, folder_.string()}) {
    EXPECT_THAT(
        RunVerb({"check", "batch", job_, "--output", place}),
        Fails(2, HasSubstr(absl::StrCat("--output: ", folder_.string()))));
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, AGridIsOrdinaryJobsWithOneLabel) {
  EXPECT_THAT(
      Sweep({"--grid", "training.learning_rate=1e-4,3e-4", "lora.r=8,16",
             "--priority", "2", "--label", "team=a", "--label", "lora.r=mine",
             "--hold", "--name", "Ann's"}),
      Prints(AllOf(HasSubstr("Job 01KAH0000000000000000000AA QUEUED: "
                             "learning_rate=0.0001 r=16\n"),
                   HasSubstr("Sweep Ann's: 4 jobs\nRank them: `mpsctl list "
                             "--label 'sweep=Ann'\\''s' --sort train_loss`"))));
  ASSERT_EQ(data().submitted.size(), 4u);
  std::set<std::string> keys;
  for (const v1::SubmitRequest& request : data().submitted) {
    EXPECT_EQ(request.priority(), 2);
    EXPECT_TRUE(request.held());
    EXPECT_EQ(request.labels().at("team"), "a");
    EXPECT_EQ(request.labels().at("sweep"), "Ann's");
    keys.insert(request.idempotency_key());
  }
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_THAT(*keys.begin(), EndsWith("/0001"));
  EXPECT_THAT(*keys.rbegin(), EndsWith("/0004"));
  EXPECT_EQ(data().submitted[1].labels().at("lora.r"), "16");
  EXPECT_EQ(Spec(1)["lora"]["r"], 16);
  EXPECT_EQ(Spec(1)["training"]["learning_rate"], 1e-4);
  EXPECT_EQ(Spec(1)["name"], "j learning_rate=0.0001 r=16");
}

TEST_F(SweepTest, RanksByTheMetricsOwnDirectionOrTheJobs) {
  for (
      const auto& [dataset, training, key] :
      std::vector<std::array<std::string, 3>>{
          {R"("eval": "/data/e.csv")", "", "eval_loss"},
          {R"("validation_split": 0.1)", "", "eval_loss"},
          {R"("eval": "/data/e.csv")",
           R"("metric_for_best_model": "eval_accuracy",)", "metrics.accuracy"},
          {R"("eval": "/data/e.csv")",
           R"("metric_for_best_model": "accuracy", "greater_is_better": true,)",
           "metrics.accuracy"},
          {R"("eval": "/data/e.csv")",
           R"("metric_for_best_model": "f1", "greater_is_better": false,)",
           "-metrics.f1"}}) {
    Write("job.json",
          absl::StrCat(
              R"({"model": "org/tiny", "task": "SEQ_CLS", "dataset": )",
              R"({"train": "/data/t.csv", )", dataset, R"(}, "training": {)",
              training, R"("load_best_model_at_end": true}})"));
    EXPECT_THAT(Sweep({"--grid", "lora.r=1"}),
                Prints(HasSubstr(" --sort " + key + "`\n")));
  }
}

TEST_F(SweepTest, TheSameSeedIsTheSameJobs) {
  const Args args = {"--random", "2", "training.learning_rate=log(1e-5,1e-3)",
                     "--seed", "7"};
  EXPECT_EQ(Sweep(args).code, 0);
  EXPECT_THAT(Sweep(args).out, HasSubstr("2 jobs, 2 of them from before\n"));
  ASSERT_EQ(data().submitted.size(), 4u);
  EXPECT_EQ(data().submitted[0].spec_json(), data().submitted[2].spec_json());
  EXPECT_EQ(Spec(0)["training"]["learning_rate"], 6.021e-05);
  EXPECT_EQ(data().made, 2);
}

TEST_F(SweepTest, TheSameCommandQueuesTheRest) {
  const Args args = {"--grid", "lora.r=1,2,3"};
  data().most_made = 2;
  EXPECT_THAT(
      Sweep(args),
      Fails(testing::Ne(0),
            AllOf(HasSubstr("ann has 2 jobs queued"),
                  HasSubstr("2 of the 3 jobs of sweep j are queued: the same "
                            "command queues the rest, `mpsctl cancel --label "
                            "'sweep=j'` ends those"))));
  data().most_made = 3;
  EXPECT_THAT(
      Sweep(args),
      Prints(AllOf(HasSubstr(" was submitted before: QUEUED: r=1\n"),
                   HasSubstr(" QUEUED: r=3\n"),
                   HasSubstr("Sweep j: 3 jobs, 2 of them from before"))));
  EXPECT_EQ(data().made, 3);
  // Another name, or key, is another sweep.
  data().most_made = 1000;
  EXPECT_EQ(Sweep({"--grid", "lora.r=1", "--name", "k"}).code, 0);
  EXPECT_EQ(Sweep({"--grid", "lora.r=1", "--idempotency-key", "own"}).code, 0);
  EXPECT_EQ(data().submitted.back().idempotency_key(), "own/0001");
  EXPECT_EQ(data().made, 5);
}

TEST_F(SweepTest, NothingIsQueuedWhereTheCommandMakesNoSense) {
  for (const auto& [args, why] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--grid", "lora.r"}, "expected FIELD=VALUES"},
           {{"--grid", "lora.r=1,,2"}, "a value is empty"},
           {{"--grid", "lora.r=int(1,2)"}, "a grid has no ranges"},
           {{"--grid", "lora.r=4,-1"}, "job 2 (r=-1): "},
           {{"--grid", "lora.rank=4"}, "lora.rank"},
           {{"--grid", "lora.r=1", "--label", "sweep=x"}, "with --name"},
           {{"--random", "many", "lora.r=8"}, "expected how many to draw"},
           {{"--random", "3"}, ""},
           {{"--random", "3", "a=int(1,2)", "--grid", "a=1"}, ""}}) {
    EXPECT_THAT(Sweep(args), Fails(2, HasSubstr(why)));
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, WhatItIsRankedByIsTheJobs) {
  const auto hint = [&](const std::string& spec) {
    job_ = Write("my.json", spec);
    return Sweep({"--grid", "lora.r=1"}).out;
  };
  EXPECT_THAT(hint(R"({"model": "m", "dataset": {"train": "/t.jsonl",
                       "eval": "/e.jsonl"}})"),
              HasSubstr("--label 'sweep=my' --sort eval_loss`"));
  EXPECT_THAT(hint(R"({"model": "m", "dataset": {"train": "/t.jsonl",
               "eval": "/e.jsonl"}, "task": "SEQ_CLS",
               "training": {"load_best_model_at_end": true,
                            "metric_for_best_model": "eval_accuracy"}})"),
              HasSubstr("--sort metrics.accuracy`"));
}

class SweepBatchTest : public ClientTest {
 protected:
  SweepBatchTest() {
    AddEnded(kId, v1::JOB_STATE_SUCCEEDED);
    v1::StudyResult& result = runbook().study_result;
    result.set_verdict(v1::VERDICT_WARN);
    v1::BatchSweepResult& sweep = *result.mutable_batch_sweep();
    sweep.set_device("cpu");
    for (int batch = 1; batch <= 4; batch *= 2) {
      v1::BatchPoint& point = *sweep.add_points();
      point.set_batch(batch);
      point.set_fits(true);
      point.set_peak_bytes(batch * 1'000'000'000LL);
      point.set_tokens_per_second(1000 * batch);
      point.mutable_step_seconds()->set_median(0.5);
    }
    v1::BatchPoint& miss = *sweep.add_points();
    miss.set_batch(8);
    miss.set_why_not("out of memory, \"really\"\x1b[2J");
    sweep.set_largest_batch(4);
    sweep.set_knee_batch(2);
    sweep.set_job_batch(1);
  }

  const std::string job_ = WriteJob();
};

TEST_F(SweepBatchTest, ATableAndTheFilesThatWereAskedFor) {
  EXPECT_THAT(
      RunVerb({"check", "batch", job_, "--max-batch", "8", "--steps", "3",
               "--memory-limit", "1.5", "-o", (folder_ / "b.csv").string()}),
      Ends(11, AllOf(HasSubstr("BATCH  TOK/S"), HasSubstr("knee"),
                     HasSubstr("largest"), Not(HasSubstr("\x1b")))));
  EXPECT_THAT(Read(folder_ / "b.csv"), HasSubstr("\n2,true,2000000000,0.5,"));
  const v1::BatchSweepOptions& sent =
      Only(data().submitted).study().batch_sweep();
  EXPECT_EQ(sent.max_batch(), 8);
  EXPECT_EQ(sent.steps(), 3);
  EXPECT_EQ(sent.memory_limit_bytes(), 1.5 * (1 << 30));
}

TEST_F(SweepBatchTest, ForAScript) {
  const Result json = RunVerb({"check", "batch", job_, "--json"});
  EXPECT_EQ(json.code, 11);
  EXPECT_EQ(ParseJson(json.out)["batch_sweep"]["knee_batch"], 2);
  // No file system has such names, which only writing shows.
  EXPECT_THAT(RunVerb({"check", "batch", job_, "-o",
                       (folder_ / std::string(300, 'b')).string()}),
              Ends(2, HasSubstr("BATCH"),
                   HasSubstr(std::string("mpsctl show ") + kId)));
}

TEST_F(SweepBatchTest, OptionsHaveBounds) {
  EXPECT_EQ(RunVerb({"check", "batch", job_, "--max-batch", "65537"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepBatchTest, TheTableForAProgram) {
  const std::string csv = BatchSweepCsv(runbook().study_result.batch_sweep());
  EXPECT_THAT(csv, HasSubstr("\n8,false,0,,,,,,,false,\"out of memory, "
                             "\"\"really\"\"\\x1b[2J\"\n"));
  for (const char* row : {"batch,", "1,true", "4,true"}) {
    EXPECT_THAT(csv, HasSubstr(row));
  }
}

using nlohmann::json;

using Combinations = std::vector<std::vector<std::string>>;

SweepField Read(const std::string& text) {
  const auto field = ParseSweepField(text);
  EXPECT_TRUE(field.ok()) << field.status();
  return field.ok() ? *field : SweepField();
}
Choices ChoicesOf(const std::string& text) {
  return std::get<Choices>(Read(text).values);
}
template <typename T>
std::string ErrorOf(const absl::StatusOr<T>& result) {
  EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
  return std::string(result.status().message());
}
std::string Error(const std::string& text) {
  return ErrorOf(ParseSweepField(text));
}
std::vector<SweepField> Fields(const std::vector<std::string>& texts) {
  std::vector<SweepField> fields;
  for (const std::string& text : texts) fields.push_back(Read(text));
  return fields;
}
Combinations Grid(const std::vector<std::string>& texts) {
  const auto all = ExpandGrid(Fields(texts));
  EXPECT_TRUE(all.ok()) << all.status();
  return all.value_or(Combinations());
}
Combinations Drawn(size_t count, const std::vector<std::string>& texts,
                   int64_t seed = 1) {
  const auto all = DrawValues(Fields(texts), count, seed);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.value_or(Combinations());
}
std::string GridError(const std::vector<std::string>& texts) {
  return ErrorOf(ExpandGrid(Fields(texts)));
}
std::string DrawError(size_t count, const std::vector<std::string>& texts) {
  return ErrorOf(DrawValues(Fields(texts), count, 1));
}
std::string Numbers(const std::string& field, int count) {
  std::vector<int> numbers(count);
  for (int i = 0; i < count; ++i) numbers[i] = i;
  return absl::StrCat(field, "=", absl::StrJoin(numbers, ","));
}

TEST(ParseSweepField, CommasOfJsonAreJsons) {
  EXPECT_THAT(ChoicesOf(R"(a=["q","v"],"all-linear",{"x": [1,2]})"),
              ElementsAre(R"(["q","v"])", R"("all-linear")", R"({"x":[1,2]})"));
  EXPECT_THAT(ChoicesOf(R"(a="b,c","d\"e,f")"),
              ElementsAre(R"("b,c")", R"("d\"e,f")"));
  EXPECT_THAT(ChoicesOf(R"(a=["x]",1],2)"), ElementsAre(R"(["x]",1])", "2"));
  EXPECT_THAT(ChoicesOf(R"(a=it"s,b)"), ElementsAre(R"("it\"s")", "\"b\""));
  // What is not closed stays one text: the job's check says what is wrong.
  EXPECT_THAT(ChoicesOf("a=[1,2"), ElementsAre("\"[1,2\""));
}

TEST(ParseSweepField, Ranges) {
  EXPECT_EQ(std::get<Uniform>(Read("a=uniform(0, 0.1)").values).high, 0.1);
  EXPECT_EQ(std::get<LogUniform>(Read("a=log(1e-5,1e-3)").values).low, 1e-5);
  EXPECT_EQ(std::get<Integers>(Read("a=int(-3,7)").values).low, -3);
  EXPECT_EQ(std::get<Integers>(Read("a=int(4,4)").values).high, 4);
  // A text that looks like a range is one with quotes.
  EXPECT_THAT(ChoicesOf("a=\"log(1,2)\""), ElementsAre("\"log(1,2)\""));
  EXPECT_THAT(ChoicesOf("a=logarithm"), ElementsAre("\"logarithm\""));
}

TEST(ParseSweepField, SaysWhatWasExpected) {
  for (const char* text : {"", "job.json", "=1"}) {
    EXPECT_THAT(Error(text), HasSubstr("expected FIELD=VALUES"));
  }
  EXPECT_THAT(Error("a="), HasSubstr("a value is empty"));
  EXPECT_THAT(Error("a=1,,2"), HasSubstr("a value is empty"));
  EXPECT_THAT(Error("a=1e-4,0.0001"), HasSubstr("0.0001 twice"));
  EXPECT_THAT(Error("a=b,\"b\""), HasSubstr("twice"));
  for (const char* text :
       {"a=uniform()", "a=uniform(1)", "a=uniform(1,2,3)", "a=uniform(x,2)",
        "a=uniform(1,1)", "a=uniform(2,1)", "a=uniform(nan,1)",
        "a=uniform(0,inf)", "a=uniform(-1e308,1e308)"}) {
    EXPECT_THAT(Error(text), HasSubstr("expected two numbers")) << text;
  }
  for (const char* text : {"a=log(1)", "a=log(0,1)", "a=log(-1,1)"}) {
    EXPECT_THAT(Error(text), HasSubstr("above 0")) << text;
  }
  for (const char* text :
       {"a=int(1.5,2)", "a=int(2,1)", "a=int(0,9223372036854775807)",
        "a=int(-9223372036854775808,0)"}) {
    EXPECT_THAT(Error(text), HasSubstr("two integers")) << text;
  }
  EXPECT_THAT(Error("a\x1b[2J"), HasSubstr("a\\x1b[2J"));
}

TEST(ExpandGrid, IsBounded) {
  EXPECT_EQ(Grid({Numbers("a", 500)}).size(), 500);
  EXPECT_THAT(Error(Numbers("a", 501)), HasSubstr("more than 500 values"));
  EXPECT_THAT(GridError({Numbers("a", 3), Numbers("b", 167)}),
              HasSubstr("more than 500 combinations"));
  // 500 to the 16th is beyond every integer.
  std::vector<std::string> wide;
  for (int i = 0; i < 16; ++i)
    wide.push_back(Numbers(absl::StrCat("f", i), 500));
  EXPECT_THAT(GridError(wide), HasSubstr("more than 500 combinations"));
  EXPECT_THAT(GridError({"f=uniform(0,1)"}), HasSubstr("no ranges"));
}

TEST(ExpandGrid, WhatCannotVaryIsRefused) {
  EXPECT_THAT(GridError({}), HasSubstr("at least one field"));
  for (const char* field : {"name=1", "dataset=1", "dataset.eval=1"}) {
    EXPECT_THAT(GridError({field}), HasSubstr("cannot vary")) << field;
  }
  EXPECT_THAT(GridError({"lora.r=1", "lora.r=2"}), HasSubstr("named twice"));
  EXPECT_THAT(GridError({"lora=1", "lora.r=1"}), HasSubstr("a part of"));
  EXPECT_THAT(GridError({"lora.r=1", "lora=1"}), HasSubstr("a part of"));
  EXPECT_EQ(Grid({"lora.r=1", "loran=1"}).size(), 1u);
}

TEST(DrawValues, TheSameSeedIsTheSameOnEveryMachine) {
  const std::vector<std::string> fields = {
      "training.learning_rate=log(1e-5,1e-3)", "lora.r=8,16,32",
      "lora.lora_dropout=uniform(0,0.1)", "training.seed=int(1,100)"};
  EXPECT_EQ(Drawn(20, fields, 7), Drawn(20, fields, 7));
  EXPECT_NE(Drawn(20, fields, 7), Drawn(20, fields, 8));
  // A longer sweep begins with the shorter one's jobs.
  Combinations longer = Drawn(30, fields, 7);
  longer.resize(20);
  EXPECT_EQ(longer, Drawn(20, fields, 7));
  // SplitMix64 of seed 7 gives these, whatever the platform.
  EXPECT_EQ(Drawn(2, fields, 7),
            (Combinations{{"6.021e-05", "8", "0.09008", "4"},
                          {"8.033e-05", "8", "0.0468", "83"}}));
}

TEST(DrawValues, NoTwoAreAlike) {
  const std::vector<std::string> fields = {Numbers("a", 5), Numbers("b", 4)};
  const Combinations all = Drawn(20, fields);
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 20)
      << "all that there are";
  EXPECT_THAT(DrawError(21, fields),
              HasSubstr("no 21 different combinations, only 20"));
  EXPECT_EQ(Drawn(500, {"a=int(1,500)"}).size(), 500);
  for (const size_t count : {0, 501}) {
    EXPECT_THAT(DrawError(count, {"a=uniform(0,1)"}), HasSubstr("1 to 500"));
  }
}

json Spec() {
  return {{"name", "tiny"},
          {"model", "org/tiny"},
          {"dataset", {{"train", "/t.jsonl"}, {"eval", "/e.jsonl"}}},
          {"training", {{"max_steps", 40}}}};
}
absl::StatusOr<std::vector<SweepJob>> Make(
    const json& spec, const std::vector<std::string>& texts) {
  return MakeSweepJobs(spec.dump(), "ranks", Fields(texts), Grid(texts));
}

TEST(MakeSweepJobs, FieldsOfOneNameKeepTheirPaths) {
  const auto jobs = Make(Spec(), {"lora.r=4", "training.seed=1", "seed=1"});
  EXPECT_THAT(ErrorOf(jobs), HasSubstr("(r=4 training.seed=1 seed=1): "));
}

TEST(MakeSweepJobs, HostileValuesStayTextsOfBoundedLength) {
  const std::vector<std::string> texts = {
      absl::StrCat("model=\"\\u001b[2J\\n\xe2\x80\xae\",\"",
                   std::string(4000, 'v'), "\",\xff")};
  const auto jobs = Make(Spec(), texts);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  for (const SweepJob& job : *jobs) {
    const std::string name = json::parse(job.spec_json)["name"];
    EXPECT_LE(name.size(), limits::kNameBytes);
    EXPECT_EQ(name.find('\x1b'), std::string::npos);
    EXPECT_EQ(name.find('\n'), std::string::npos);
    EXPECT_EQ(name.find("\xe2\x80\xae"), std::string::npos);
    EXPECT_LE(job.labels.at("model").size(), limits::kJobLabelValueBytes);
  }
}

}  // namespace
}  // namespace mpsd::client
