// SPDX-License-Identifier: Apache-2.0
#include "client/clone.h"

#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

class CloneTest : public ClientTest {
 protected:
  CloneTest() {
    AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kId, v1::JOB_STATE_QUEUED);  // what Submit answers with
    v1::SubmitRequest& kept = data().requests[kOtherId];
    kept.set_spec_json(R"({"name": "moods", "model": "org/id",
        "dataset": {"train": "t.jsonl", "eval": "e.jsonl"},
        "training": {"learning_rate": 2e-4}})");
    for (const char* path : {"t.jsonl", "e.jsonl"}) {
      v1::InputFile* input = kept.add_inputs();
      input->set_path(path);
      input->set_sha256(std::string(64, path[0] == 't' ? 'a' : 'b'));
    }
    kept.set_priority(3);
    (*kept.mutable_labels())["team"] = "nlp";
    kept.add_after("01KAH0000000000000000000CC");
  }
  Result Clone(Args options) {
    options.insert(options.begin(), {"clone", kOtherId});
    return RunVerb(options);
  }
};

TEST_F(CloneTest, ChangesWhatIsAskedForAndNothingElse) {
  EXPECT_THAT(
      Clone({"--set", "training.learning_rate=1e-4", "--name", "slower",
             "--label", "try=2", "--detach"}),
      Prints("FIELD                   JOB      CLONE\n"
             "name                    \"moods\"  \"slower\"\n"
             "training.learning_rate  0.0002   0.0001\n"
             "Job 01KAH0000000000000000000AA submitted: QUEUED\n"
             "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n"));
  const v1::SubmitRequest& request = Only(data().submitted);
  const auto spec = ParseJson(request.spec_json());
  EXPECT_EQ(spec["training"]["learning_rate"], 1e-4);
  EXPECT_EQ(spec["name"], "slower");
  EXPECT_EQ(spec["dataset"]["train"], "t.jsonl");
  EXPECT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.priority(), 3);
  EXPECT_EQ(request.labels().at("team"), "nlp");
  EXPECT_EQ(request.labels().at("try"), "2");
  EXPECT_EQ(request.after_size(), 0);
  EXPECT_FALSE(request.idempotency_key().empty());
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(CloneTest, TwoClonesAreTwoJobs) {
  EXPECT_EQ(Clone({"--detach"}).code, 0);
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("The clone has the spec of job"));
  EXPECT_EQ(data().made, 2);
}

TEST_F(CloneTest, WaitsForOthersAndIsHeld) {
  EXPECT_THAT(
      Clone({"--after", "0000BB", "--hold", "--priority", "-1", "--detach"}),
      Prints());
  const v1::SubmitRequest& request = data().submitted.at(0);
  ASSERT_EQ(request.after_size(), 1);
  EXPECT_EQ(request.after(0), kOtherId);
  EXPECT_TRUE(request.held());
  EXPECT_EQ(request.priority(), -1);
}

TEST_F(CloneTest, WhyItWillNotStartIsSaid) {
  data().jobs[0].add_after(kOtherId);
  data().jobs[0].set_hold("waits for job X, which is RUNNING, to succeed");
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("QUEUED\nIt waits for job X, which is RUNNING"));
  data().jobs[0].set_held(true);
  data().jobs[0].set_hold("job X is FAILED");
  EXPECT_THAT(Clone({"--detach"}).out,
              HasSubstr("It is held: job X is FAILED\n"));
}

TEST_F(CloneTest, DataThatAreNamedNoLongerStayBehind) {
  EXPECT_EQ(Clone({"--unset", "dataset.eval", "--detach"}).code, 0);
  ASSERT_EQ(data().submitted.at(0).inputs_size(), 1);
  EXPECT_EQ(data().submitted[0].inputs(0).path(), "t.jsonl");
}

TEST_F(CloneTest, AWrongFieldIsFoundHere) {
  EXPECT_THAT(Clone({"--set", "training.learning_rat=1"}),
              Fails(2, AllOf(HasSubstr("the clone's job.json:"),
                             HasSubstr("learning_rate"),
                             HasSubstr("Nothing was submitted."))));
  EXPECT_EQ(Clone({"--set", "training"}).code, 2);
  EXPECT_EQ(Clone({"--label", "x"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(CloneTest, ADryRunSubmitsNothing) {
  EXPECT_THAT(Clone({"--dry-run", "--set", "training.seed=7"}),
              Prints(HasSubstr("training.seed  42")));
  const auto json =
      ParseJson(Clone({"--json", "--dry-run", "--set", "training.seed=7"}).out);
  EXPECT_EQ(json["spec"]["training"]["seed"], 7);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(CloneTest, WhatTheDaemonRefuses) {
  Fail("Submit", StatusCode::FAILED_PRECONDITION,
       "model: there is no folder org/id");
  EXPECT_THAT(Clone({"--detach"}),
              Fails(2, HasSubstr("model: there is no folder org/id")));
  Fail("GetSubmission", StatusCode::FAILED_PRECONDITION, "no request was kept");
  EXPECT_THAT(Clone({"--detach"}), Fails(2, HasSubstr("no request was kept")));
  EXPECT_EQ(RunVerb({"clone", "01KAH0000000000000000000ZZ"}).code, 4);
}

TEST_F(CloneTest, HostileTextsSteerNoTerminal) {
  data().requests[kOtherId].set_spec_json(
      R"({"name": "\u001b[2J", "model": "m", "dataset": {"train": "t"}})");
  EXPECT_THAT(Clone({"--dry-run", "--name", "x"}),
              Prints(Not(HasSubstr("\x1b"))));
}

constexpr char kSpec[] = R"({"name": "a", "model": "org/id",
  "dataset": {"train": ["t.jsonl"], "eval": "e.jsonl"},
  "training": {"learning_rate": 2e-4, "max_steps": 12345678901234567}})";

std::string Edited(const std::vector<std::string>& set,
                   const std::vector<std::string>& unset = {}) {
  const auto edited = EditSpec(kSpec, set, unset);
  EXPECT_TRUE(edited.ok()) << edited.status();
  return edited.ok() ? ParseJson(*edited).dump() : "";
}
std::string Error(const std::vector<std::string>& set,
                  const std::vector<std::string>& unset = {}) {
  const absl::Status status = EditSpec(kSpec, set, unset).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(EditSpec, PutsValuesIn) {
  EXPECT_EQ(Edited({"training.learning_rate=1e-4", "name=b c", "lora.r=8",
                    "dataset.train=[\"x\",\"y\"]"}),
            R"({"dataset":{"eval":"e.jsonl","train":["x","y"]},)"
            R"("lora":{"r":8},"model":"org/id","name":"b c",)"
            R"("training":{"learning_rate":0.0001,)"
            R"("max_steps":12345678901234567}})");
  // A text that looks like another type is one with quotes.
  EXPECT_THAT(Edited({"name=\"5\""}), HasSubstr(R"("name":"5")"));
  EXPECT_THAT(Edited({"name="}), HasSubstr(R"("name":"")"));
  EXPECT_THAT(Edited({"name=a=b"}), HasSubstr(R"("name":"a=b")"));
  EXPECT_THAT(Edited({"training.bf16=true"}), HasSubstr(R"("bf16":true)"));
}

TEST(EditSpec, TakesFieldsOut) {
  EXPECT_EQ(Edited({}, {"training.learning_rate", "dataset.eval", "name"}),
            R"({"dataset":{"train":["t.jsonl"]},"model":"org/id",)"
            R"("training":{"max_steps":12345678901234567}})");
  EXPECT_EQ(*EditSpec(" {\"as\": \"it is\"}", {}, {}), " {\"as\": \"it is\"}");
}

TEST(EditSpec, SaysWhatCannotBe) {
  EXPECT_THAT(Error({"training.seed"}), HasSubstr("expected FIELD=VALUE"));
  for (const char* bad : {"=1", ".a=1", "a..b=1", "a.=1"}) {
    EXPECT_THAT(Error({bad}), HasSubstr("expected the path of a field"));
  }
  EXPECT_THAT(Error({"name.x=1"}), HasSubstr("'name' is not an object"));
  EXPECT_THAT(Error({}, {"lora.r"}), HasSubstr("does not set this field"));
  EXPECT_THAT(Error({}, {"name.x"}), HasSubstr("'name' is not an object"));
  EXPECT_FALSE(EditSpec("[]", {"a=1"}, {}).ok());
  EXPECT_FALSE(EditSpec(std::string(100'000, '['), {"a=1"}, {}).ok());
  // A value that is nested too deep for JSON is a text, and no crash.
  EXPECT_TRUE(EditSpec(kSpec, {"name=" + std::string(100'000, '[')}, {}).ok());
}

TEST(CompareSpecs, NamesTheFieldsThatDiffer) {
  EXPECT_THAT(CompareSpecs(kSpec, kSpec), IsEmpty());
  const std::string other =
      *EditSpec(kSpec, {"training.learning_rate=1e-4", "lora.r=8"}, {"name"});
  EXPECT_THAT(
      CompareSpecs(kSpec, other),
      ElementsAre(FieldChange{"name", "\"a\"", ""},
                  FieldChange{"training.learning_rate", "0.0002", "0.0001"},
                  FieldChange{"lora.r", "", "8"}));
  EXPECT_THAT(CompareSpecs("{", "[]"), IsEmpty());
}

TEST(CompareSpecs, DefaultsAreFilledIn) {
  const std::string other = *EditSpec(kSpec, {}, {"training.learning_rate"});
  EXPECT_THAT(
      CompareSpecs(WithDefaults(kSpec), WithDefaults(other)),
      ElementsAre(FieldChange{"training.learning_rate", "0.0002", "5e-05"}));
  EXPECT_EQ(WithDefaults("{\"no\": \"spec\"}"), "{\"no\": \"spec\"}");
}

// Whoever may submit chooses how large a spec is.
TEST(CompareSpecs, AHundredThousandFieldsAreNoTrouble) {
  std::string wide = "{\"a\": {";
  for (int i = 0; i < 100'000; ++i) {
    wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\": 1";
  }
  wide += "}}";
  EXPECT_THAT(CompareSpecs(wide, wide), IsEmpty());
  EXPECT_EQ(CompareSpecs(wide, "{}").size(), 100'000u);
}

TEST(DropUnusedInputs, FiftyThousandFilesAreNoTrouble) {
  v1::SubmitRequest request;
  std::string train;
  for (int i = 0; i < 50'000; ++i) {
    const std::string path = "d/" + std::to_string(i);
    train += (i > 0 ? ",\"" : "\"") + path + "\"";
    request.add_inputs()->set_path(path);
  }
  request.set_spec_json("{\"model\": \"m\", \"dataset\": {\"train\": [" +
                        train + "]}}");
  DropUnusedInputs(request);
  EXPECT_EQ(request.inputs_size(), 50'000);
}

TEST(DropUnusedInputs, KeepsWhatTheSpecNames) {
  v1::SubmitRequest request;
  const auto kept = [&](const std::string& fields,
                        const std::vector<std::string>& paths) {
    request.Clear();
    request.set_spec_json("{\"model\": \"m\", " + fields + "}");
    for (const std::string& path : paths) request.add_inputs()->set_path(path);
    DropUnusedInputs(request);
    std::vector<std::string> left;
    for (const auto& input : request.inputs()) left.push_back(input.path());
    return left;
  };
  EXPECT_THAT(kept(R"("dataset": {"train": ["./a/t", "../u"]},
                      "adapter": "ad/")",
                   {"a/t", "../u", "e", "ad/x", "add/x", "a/t2", "/ad/x"}),
              ElementsAre("a/t", "../u", "ad/x"));
  EXPECT_THAT(kept(R"("dataset": {"train": "."}, "task": "IMAGE_CLS")",
                   {"1.png", "other/2.png"}),
              ElementsAre("1.png", "other/2.png"));
}

// A job that is there, and one that was deleted.
class DiffTest : public ClientTest {
 protected:
  DiffTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_device_seconds(80);
    data().records[kId] = SomeRecord(kId);
    data().past.push_back(PastJob(kOtherId));
    v1::JobRecord& other = data().records[kOtherId] = SomeRecord(kOtherId);
    other.set_spec_json(R"({"model": "m", "lora": {"r": 16}})");
    other.mutable_environment()->set_torch_version("2.7.0");
    other.mutable_environment()->mutable_variables()->clear();
    other.mutable_conditions()->set_power_sources(0, "battery");
    other.mutable_data()->mutable_inputs(0)->set_sha256(std::string(64, 'b'));
    (*other.mutable_metrics())["accuracy"] = 0.75;
  }
};

TEST_F(DiffTest, WhatDiffersAndTheResults) {
  const std::string out = Out({"diff", kId, kOtherId});
  EXPECT_THAT(
      out,
      StartsWith(
          "SPEC    01KAH0000000000000000000AA  01KAH0000000000000000000BB\n"
          "lora.r  4                           16\n\n"
          "ENVIRONMENT "));
  for (const char* text :
       {"2.6.0", "2.7.0", "variables OMP_NUM_THREADS", "inputs t.jsonl",
        "battery", "RESULTS", "eval loss", "1.2500", "metrics accuracy"}) {
    EXPECT_THAT(out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(out, Not(HasSubstr("nominal, heavy"))) << "the same";
}

TEST_F(DiffTest, JsonIsOneObject) {
  const std::string out = RunVerb({"diff", kId, kOtherId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = ParseJson(out);
  EXPECT_EQ(json["a"], kId);
  EXPECT_EQ(json["spec"]["lora.r"], (nlohmann::json{4, 16}));
  EXPECT_EQ(json["environment"]["torch version"],
            (nlohmann::json{"2.6.0", "2.7.0"}));
  EXPECT_EQ(json["environment"]["variables OMP_NUM_THREADS"],
            (nlohmann::json{8, nullptr}));
  EXPECT_EQ(json["results"]["eval loss"], (nlohmann::json{1.25, 1.25}));
  EXPECT_EQ(json["jobs"][0]["device_seconds"], 80);
  EXPECT_EQ(json["records"][1]["id"], kOtherId);
}

TEST_F(DiffTest, TwoJobsAreWanted) {
  EXPECT_THAT(RunVerb({"diff", kId, kId}).out,
              StartsWith("The specs are the same.\n\nRESULTS"));
  EXPECT_EQ(RunVerb({"diff", kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId, kId}).code, 2);
  EXPECT_EQ(RunVerb({"diff", kId, "01KAH0000000000000000000ZZ"}).code, 4);
  Fail("GetRecord", StatusCode::PERMISSION_DENIED, "no");
  EXPECT_EQ(RunVerb({"diff", kId, kOtherId}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
