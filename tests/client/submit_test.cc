// SPDX-License-Identifier: Apache-2.0
#include "client/submit.h"

#include <sys/stat.h>

#include <chrono>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {

namespace {

class SubmitTest : public ClientTest {
 protected:
  SubmitTest() { AddJob(kId, v1::JOB_STATE_QUEUED); }
  Result Submit() { return RunVerb({"submit", job_, "--detach"}); }

  const std::string job_ = WriteJob();
};

TEST_F(SubmitTest, Detached) {
  data().jobs[0].set_queue_position(2);
  EXPECT_THAT(
      RunVerb({"submit", job_, "--detach", "--idempotency-key", "k",
               "--priority", "-5", "--anyway", "--label", "a=1", "--label",
               "b=2"}),
      Prints("Job 01KAH0000000000000000000AA submitted: QUEUED, 2 ahead of it\n"
             "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n"));
  const v1::SubmitRequest& request = Only(data().submitted);
  EXPECT_TRUE(request.anyway());
  EXPECT_EQ(request.spec_json(), Read(job_));
  EXPECT_EQ(request.idempotency_key(), "k");
  EXPECT_EQ(request.priority(), -5);
  EXPECT_EQ(request.owner(), "");  // mpsd knows who calls
  EXPECT_EQ(request.labels().at("b"), "2");
  ASSERT_EQ(request.inputs_size(), 1);
  EXPECT_EQ(request.inputs(0).path(), "t.jsonl");
  EXPECT_EQ(data().blobs.count(request.inputs(0).sha256()), 1u);
}

TEST_F(SubmitTest, AHashThatIsKnownIsBelievedUnlessItShallNot) {
  const std::string data = (folder_ / "t.jsonl").string();
  struct stat info;
  ASSERT_EQ(stat(data.c_str(), &info), 0);
  HashCache cache = HashCache::Load(HashCachePath());
  cache.Keep(data, MarkOf(info), base::Sha256Hex("another"), absl::Now());
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_NE(Submit().code, 0);
  EXPECT_EQ(RunVerb({"submit", job_, "--detach", "--rehash"}).code, 0);
}

TEST_F(SubmitTest, WatchesUntilTheEnd) {
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  AddState(kId, v1::JOB_STATE_FAILED);
  const Result result = RunVerb({"submit", job_});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(data().submitted[0].owner(), "");  // the daemon knows
  EXPECT_NE(result.out.find("03:04:05  FAILED\n"), std::string::npos);
}

TEST_F(SubmitTest, WaitsForTheCheckOfTheData) {
  v1::Job& job = data().jobs[0];
  const auto submit = [&](const std::function<void()>& checked) {
    job.set_data_check_pending(true);
    sleeps_ = 0;
    terminal_.sleep = [this, &job, checked](absl::Duration) {
      if (++sleeps_ != 3 || !checked) return;
      job.set_data_check_pending(false);
      checked();
    };
    return Submit();
  };
  EXPECT_THAT(submit(nullptr),
              Prints(HasSubstr("QUEUED\nIts data are still being checked")));
  EXPECT_EQ(sleeps_, 50);
  EXPECT_THAT(submit([&] { job.add_warnings("45 of 60 rows dropped"); }),
              Ends(0, HasSubstr("submitted: QUEUED\nFollow it"),
                   HasSubstr("warning: 45 of 60 rows dropped\n")));
  EXPECT_EQ(sleeps_, 3);
  const Result refused = submit([&] {
    job.set_state(v1::JOB_STATE_FAILED);
    job.set_exit_reason("Rejected");
    job.set_attempt(0);
    job.set_message("t.jsonl:3: a bad row");
  });
  EXPECT_THAT(refused,
              Ends(2, "", HasSubstr("was refused: t.jsonl:3: a bad row\n")));
}

TEST_F(SubmitTest, TheSameKeyAgain) {
  RunVerb({"submit", job_, "--detach", "--idempotency-key", "k"});
  const Result result =
      RunVerb({"submit", job_, "--detach", "--idempotency-key", "k"});
  EXPECT_EQ(result.out.substr(0, 61),
            "Job 01KAH0000000000000000000AA was submitted before: QUEUED\nF");
  EXPECT_EQ(data().uploads, 1);
}

TEST_F(SubmitTest, ABadSpecIsFoundHere) {
  const std::string bad = Write("bad.json", R"({
  "model": "org/id",
  "dataset": {"train": ["t.jsonl"]},
  "training": {"learning_rat": 1}
})");
  daemon_->Stop();
  const Result result = RunVerb({"submit", bad});
  EXPECT_EQ(result.code, 2);
  for (const char* part : {"bad.json:4", "training.learning_rat",
                           "learning_rate", "Nothing was submitted."}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST_F(SubmitTest, AFieldThatChangesNothingIsSaid) {
  const std::string job = Write("idle.json", R"({"model": "org/id",
      "dataset": {"train": ["t.jsonl"]},
      "training": {"early_stopping_threshold": 0.5}})");
  EXPECT_THAT(RunVerb({"submit", job, "--detach"}),
              Ends(0, testing::_,
                   HasSubstr("idle.json: training.early_stopping_threshold has "
                             "no effect")));
  EXPECT_EQ(data().submitted.size(), 1u);
  EXPECT_THAT(RunVerb({"submit", job_, "--detach"}).err,
              Not(HasSubstr("warning")));
}

TEST_F(SubmitTest, MissingDataOrABadLabelIsBadInput) {
  EXPECT_EQ(RunVerb({"submit", job_, "--label", "x"}).code, 2);
  EXPECT_EQ(data().uploads, 0);
  std::filesystem::remove(folder_ / "t.jsonl");
  EXPECT_THAT(RunVerb({"submit", job_}),
              Fails(2, HasSubstr("dataset.train names 't.jsonl'")));
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SubmitTest, WhatTheDaemonRefuses) {
  for (const auto& [status, code] :
       {std::pair{StatusCode::INVALID_ARGUMENT, 2},
        std::pair{StatusCode::ALREADY_EXISTS, 2},
        std::pair{StatusCode::FAILED_PRECONDITION, 2},
        std::pair{StatusCode::RESOURCE_EXHAUSTED, 6}}) {
    Fail("Submit", status, "because");
    EXPECT_THAT(RunVerb({"submit", job_, "--detach"}),
                Ends(code, "", HasSubstr("because")));
  }
}

TEST_F(SubmitTest, AfterNamesJobsByPartsOfTheirIds) {
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  EXPECT_THAT(RunVerb({"submit", job_, "--detach", "--after", "0000AA",
                       "--after", kOtherId, "--after", kId}),
              Prints());
  EXPECT_THAT(Only(data().submitted).after(), ElementsAre(kId, kOtherId));
  EXPECT_EQ(RunVerb({"submit", job_, "--after", "0000ZZ"}).code, 4);
  EXPECT_EQ(data().submitted.size(), 1u);
}

TEST_F(SubmitTest, AResultOfAJobIsNoFileHere) {
  const std::string job =
      Write("chained.json", std::string(R"({"model": "job:)") + kId +
                                R"(", "adapter": "job:)" + kOtherId +
                                R"(", "dataset": {"train": "t.jsonl"}})");
  EXPECT_THAT(RunVerb({"submit", job, "--detach"}), Prints());
  EXPECT_EQ(Only(data().submitted).spec_json(), Read(job));
  EXPECT_EQ(data().submitted[0].inputs_size(), 1);
}

// Whose monotonic times are those of a list, one after the other.
class ListedClock final : public base::Clock {
 public:
  absl::Time Now() const override { return kNow; }
  absl::Duration Monotonic() const override {
    const absl::Duration next = times_.front();
    if (times_.size() > 1) times_.erase(times_.begin());
    return next;
  }
  mutable std::vector<absl::Duration> times_;
};

class RoundTripTest : public ClientTest {
 protected:
  RoundTripTest() {
    terminal_.clock = &listed_;
    job_ = Write("job.json", R"({"model": "org/id",
      "dataset": {"train": ["/data/of/the/daemon.jsonl"]}})");
    AddJob(kId, v1::JOB_STATE_QUEUED);
  }
  // What `submit` notes where the daemon's two answers take so long.
  double Noted(absl::Duration first, absl::Duration second) {
    const absl::Duration begin = absl::Seconds(100);
    listed_.times_ = {begin, begin + first, begin, begin + second, begin};
    data().submitted.clear();
    EXPECT_THAT(RunVerb({"submit", job_, "--detach"}), Prints());
    if (data().submitted.size() != 1u) return -1;
    EXPECT_TRUE(data().submitted[0].has_round_trip_seconds());
    return data().submitted[0].round_trip_seconds();
  }

  ListedClock listed_;
  std::string job_;
};

TEST_F(RoundTripTest, TheFirstCallsConnectionDoesNotCount) {
  EXPECT_DOUBLE_EQ(Noted(absl::Seconds(4), absl::Milliseconds(20)), 0.02);
  EXPECT_DOUBLE_EQ(Noted(absl::Milliseconds(20), absl::Seconds(4)), 0.02);
}

// A clock that jumps, and a machine that slept: mpsd would refuse them.
TEST_F(RoundTripTest, IsWithinWhatMayBeSaid) {
  EXPECT_EQ(Noted(absl::Hours(4), absl::Hours(3)), 600);
  EXPECT_EQ(Noted(absl::Seconds(-4), absl::Seconds(-5)), 0);
}

using SureSubmitTest = SubmitTest;

TEST_F(SureSubmitTest, EachCallHasAKeyOfItsOwn) {
  EXPECT_EQ(Submit().code, 0);
  EXPECT_EQ(Submit().code, 0);
  ASSERT_EQ(data().submitted.size(), 2u);
  EXPECT_EQ(data().keys.size(), 2u);
  EXPECT_EQ(data().made, 2);  // two calls mean two jobs
  std::set<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(NewIdempotencyKey());
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_EQ(keys.begin()->size(), 39u);
}

TEST_F(SureSubmitTest, ASlowDaemonIsWaitedFor) {
  EXPECT_EQ(Submit().code, 0);
  ASSERT_EQ(data().submit_deadlines.size(), 1u);
  const auto year = std::chrono::hours(24 * 365);
  EXPECT_GT(data().submit_deadlines[0],
            std::chrono::system_clock::now() + year);
}

TEST_F(SureSubmitTest, AnAnswerThatIsLostIsAskedForAgain) {
  for (StatusCode code : {StatusCode::UNAVAILABLE, StatusCode::CANCELLED,
                          StatusCode::DEADLINE_EXCEEDED}) {
    data().made = 0;
    sleeps_ = 0;
    data().submitted.clear();
    data().lost = {grpc::Status(code, "gone"), grpc::Status(code, "gone")};
    const Result result = Submit();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(data().made, 1);
    ASSERT_EQ(data().submitted.size(), 3u);
    EXPECT_EQ(data().submitted[0].SerializeAsString(),
              data().submitted[2].SerializeAsString());
    EXPECT_EQ(sleeps_, 2);
    // It is this call's job, not one of before.
    EXPECT_THAT(result.out, HasSubstr(" submitted: QUEUED"));
    EXPECT_THAT(result.err,
                HasSubstr("sending the job again under the same key"));
  }
}

TEST_F(SureSubmitTest, WhatIsRefusedIsNotSentAgain) {
  Fail("Submit", StatusCode::INVALID_ARGUMENT, "no");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SureSubmitTest, AnInputThatHasGoneIsSentAgainOnce) {
  Fail("Submit", StatusCode::FAILED_PRECONDITION,
       "input 't.jsonl' (ab) has not been uploaded: send it");
  EXPECT_THAT(Submit(), Fails(2, HasSubstr("has not been uploaded")));
  EXPECT_EQ(data().submit_deadlines.size(), 2u);
  data().submit_deadlines.clear();
  Fail("Submit", StatusCode::FAILED_PRECONDITION, "model: there is none");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
}

TEST_F(SureSubmitTest, ItEndsAfterTenMinutesAndSaysHowToLook) {
  Fail("Submit", StatusCode::UNAVAILABLE, "stopping");
  absl::Duration slept;
  terminal_.sleep = [&](absl::Duration pause) { slept += pause; };
  const Result result = Submit();
  EXPECT_EQ(result.code, 7);
  EXPECT_GE(slept, absl::Minutes(10));
  EXPECT_LE(slept, absl::Minutes(10) + absl::Seconds(2));
  EXPECT_THAT(result.err,
              HasSubstr("mpsctl: no answer from mpsd: stopping; the job "
                        "may have been queued\n"
                        "Submit it with --idempotency-key mpsctl-"));
}

TEST_F(SureSubmitTest, CtrlCEndsItAndSaysHowToLook) {
  data().lost = {grpc::Status::OK};
  data().on_idle = [&] { EXPECT_TRUE(interrupt_.Raise()); };
  const Result result = Submit();
  EXPECT_EQ(result.code, 130);
  const std::string key = Only(data().submitted).idempotency_key();
  EXPECT_EQ(result.err,
            "mpsctl: interrupted; the job may have been queued\n"
            "Submit it with --idempotency-key " +
                key +
                " to get that job, or to queue it if there is none; `mpsctl "
                "list` shows the latest.\n");
  // As it says.
  EXPECT_THAT(
      RunVerb({"submit", job_, "--detach", "--idempotency-key", key}).out,
      HasSubstr("was submitted before"));
  EXPECT_EQ(data().made, 1);
}

TEST_F(SureSubmitTest, CtrlCBetweenTwoAttempts) {
  Fail("Submit", StatusCode::UNAVAILABLE, "stopping");
  terminal_.sleep = [&](absl::Duration) {
    ++sleeps_;
    if (sleeps_ == 3) {
      EXPECT_TRUE(interrupt_.Raise());
    }
  };
  EXPECT_THAT(Submit(), Fails(130));
  EXPECT_EQ(sleeps_, 3);
}

namespace fs = std::filesystem;

class InputsTest : public ClientTest {
 protected:
  std::string Job(const std::string& body) {
    return Write("job.json", "{" + body + "}");
  }
  absl::StatusOr<PreparedJob> Prepare(const std::string& body) {
    return PrepareJob({Job(body)});
  }
  // The files that a job sends.
  std::vector<std::string> Sent(const std::string& body) {
    const auto job = Prepare(body);
    EXPECT_TRUE(job.ok()) << job.status();
    std::vector<std::string> paths;
    if (!job.ok()) return paths;
    for (const LocalFile& file : job->files) {
      paths.push_back(file.path);
      EXPECT_EQ(file.sha256, *base::Sha256File(file.local));
      EXPECT_EQ(static_cast<uint64_t>(file.size_bytes),
                fs::file_size(file.local));
    }
    return paths;
  }
  std::string Error(const std::string& body) {
    return std::string(Prepare(body).status().message());
  }
};

TEST_F(InputsTest, DataAndAdapterRelativeToTheJob) {
  Write("data/train.jsonl", "row");
  Write("eval.jsonl", "other");
  Write("start/adapter_config.json", "{}");
  Write("start/adapter_model.safetensors", "weights");
  Write("start/.DS_Store", "not this");
  EXPECT_THAT(
      Sent(R"("model": "org/id", "adapter": "start",
      "dataset": {"train": ["data/train.jsonl"], "eval": ["eval.jsonl"]})"),
      ElementsAre("data/train.jsonl", "eval.jsonl", "start/adapter_config.json",
                  "start/adapter_model.safetensors"));
  Write("p.csv", "b");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "SEQ_CLS",
      "dataset": {"train": "eval.jsonl", "predict": "p.csv"})"),
              ElementsAre("eval.jsonl", "p.csv"));
  // A file that is named twice is sent once.
  EXPECT_THAT(Sent(R"("model": "org/id",
      "dataset": {"train": ["eval.jsonl"], "eval": ["eval.jsonl"]})"),
              ElementsAre("eval.jsonl"));
  // Absolute paths may be the daemon's.
  EXPECT_THAT(Sent(R"("model": "/absent/model", "adapter": "/absent/adapter",
      "dataset": {"train": ["/absent/train.jsonl"]})"),
              IsEmpty());
}

TEST_F(InputsTest, AChatTemplateIsSentToo) {
  Write("t.jsonl", "row");
  Write("my/chat.jinja", "{{ x }}");
  Write("qwen/tokenizer_config.json", "{}");
  Write("qwen/chat_template.jinja", "y");
  Write("qwen/model.safetensors", "weights");
  Write("bare/model.safetensors", "weights");
  const auto job = [&](const std::string& path) {
    return R"("model": "org/id", "dataset": {"train": "t.jsonl"},
        "training": {"chat_template_path": ")" +
           path + "\"}";
  };
  EXPECT_THAT(Sent(job("my/chat.jinja")),
              ElementsAre("t.jsonl", "my/chat.jinja"));
  EXPECT_THAT(Sent(job("qwen/")),
              ElementsAre("t.jsonl", "qwen/chat_template.jinja",
                          "qwen/tokenizer_config.json"));
  EXPECT_THAT(Sent(job("/absent/chat.jinja")), ElementsAre("t.jsonl"));
  EXPECT_THAT(Error(job("absent.jinja")),
              HasSubstr("training.chat_template_path"));
  EXPECT_THAT(Error(job("bare")),
              HasSubstr("has neither chat_template.jinja nor"));
}

TEST_F(InputsTest, AModelFolderHereBecomesAbsolute) {
  Write("t.jsonl", "row");
  Write("models/tiny/config.json", "{}");
  const auto job =
      Prepare(R"("model": "models/tiny", "dataset": {"train": ["t.jsonl"]})");
  ASSERT_TRUE(job.ok()) << job.status();
  const auto spec = ParseJson(job->spec_json);
  EXPECT_EQ(spec["model"], (folder_ / "models/tiny").string());
  EXPECT_EQ(spec["dataset"]["train"][0], "t.jsonl");
}

TEST_F(InputsTest, MissingFilesAreNamed) {
  EXPECT_EQ(
      Error(R"("model": "org/id", "dataset": {"train": ["absent.jsonl"]})"),
      "dataset.train names 'absent.jsonl', and there is no file " +
          (folder_ / "absent.jsonl").string() +
          ". Relative paths are resolved from the folder of job.json.");
  Write("data/t.jsonl", "row");
  const std::string data = R"("dataset": {"train": ["data/t.jsonl"]})";
  EXPECT_THAT(Error(data + R"(, "model": "./absent")"), StartsWith("model"));
  EXPECT_THAT(Error(data + R"(, "model": "org/id", "adapter": "./absent")"),
              StartsWith("adapter"));
  EXPECT_THAT(Error(data + R"(, "model": "org/id", "name": " ")"),
              HasSubstr("name: has only spaces or invisible"));
  // A folder is no data.
  EXPECT_NE(Error(R"("model": "org/id", "dataset": {"train": ["data"]})"), "");
  EXPECT_THAT(
      std::string(PrepareJob({folder_ / "absent.json"}).status().message()),
      HasSubstr("absent.json"));
}

TEST_F(InputsTest, AFolderWithAFolderForEachClass) {
  Write("pets/cat/1.png", "c");
  Write("pets/dog/2.png", "d");
  Write("pets/dog/.DS_Store", "not this");
  Write("e.safetensors", "{\"image\": 1}");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "pets/", "eval": "e.safetensors"})"),
              ElementsAre("pets/cat/1.png", "pets/dog/2.png", "e.safetensors"));
}

TEST_F(InputsTest, RowsNameTheirImages) {
  Write("data/rows.jsonl",
        R"({"picture": "1.png", "label": 0}
{"picture": "../more/2.png"}
{"picture": "1.png"}
{"picture": "/on/the/daemon.png"}
not JSON
)");
  Write("data/1.png", "x");
  Write("more/2.png", "y");
  EXPECT_THAT(Sent(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "./data/rows.jsonl", "image_column": "picture"})"),
              ElementsAre("./data/rows.jsonl", "data/1.png", "more/2.png"));
}

TEST_F(InputsTest, AMissingImageIsNamedWithItsRow) {
  Write("rows.jsonl", "{\"image\": \"a.png\"}\n{\"image\": \"b.png\"}\n");
  Write("a.png", "x");
  EXPECT_THAT(Error(R"("model": "org/id", "task": "IMAGE_CLS",
      "dataset": {"train": "rows.jsonl"})"),
              HasSubstr("rows.jsonl:2: there is no image"));
}

TEST_F(InputsTest, AFileOfTwoGigabytesIsNotRead) {
  const fs::path job = Job("");
  fs::resize_file(job, 2LL << 30);
  const absl::Status status = PrepareJob({job}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  // Its size is named, not what its text is no JSON for.
  EXPECT_THAT(std::string(status.message()), HasSubstr("longer than"));
}

TEST_F(InputsTest, APipeIsAJobFileToo) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream(pipe) << R"({"model": "m", "dataset": {"train": "/t.txt"}})";
  });
  const auto job = PrepareJob({pipe});
  writer.join();
  EXPECT_TRUE(job.ok()) << job.status();
}

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
  const auto name = [&] {
    EXPECT_EQ(Clone({"--detach"}).code, 0);
    return ParseJson(data().submitted.back().spec_json()).value("name", "");
  };
  EXPECT_EQ(name(), "moods-2");
  data().jobs[1].set_name("moods-2");
  EXPECT_EQ(name(), "moods-3");
  v1::SubmitRequest& kept = data().requests[kOtherId];
  kept.set_spec_json(std::string(kept.spec_json()).replace(10, 5, "moods-2"));
  data().jobs[0].set_name("other");
  EXPECT_EQ(name(), "moods-2-2") << "the 2 may mean something";
  data().jobs[0].set_name("moods");
  EXPECT_EQ(name(), "moods-3");
  EXPECT_EQ(data().made, 4);
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

TEST_F(CloneTest, AWrongFieldIsFoundHere) {
  EXPECT_THAT(
      Clone({"--set", "training.learning_rat=1"}),
      Fails(2, AllOf(StartsWith("mpsctl: training.learning_rat: unknown"),
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
