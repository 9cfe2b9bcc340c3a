// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "client/submit.h"
#include "core/base/file.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

// Data and job.json are in the current folder.
class InitTest : public ClientTest {
 protected:
  InitTest() : before_(fs::current_path()) {
    fs::current_path(folder_);
    runbook().plan_events.emplace_back().mutable_plan()->set_verdict(
        v1::VERDICT_PASS);
  }
  ~InitTest() override { fs::current_path(before_); }

  v1::Model& AddModel(const std::string& name, int64_t parameters,
                      const std::vector<std::string>& tasks) {
    v1::Model& model = models().listed.emplace_back();
    model.set_name(name);
    model.set_parameters(parameters);
    model.mutable_tasks()->Assign(tasks.begin(), tasks.end());
    model.set_fits(true);
    return model;
  }
  Result Init(Args args) {
    args.insert(args.begin(), {"init", "--force", "--model", "org/m"});
    return RunVerb(args);
  }
  nlohmann::json Job() { return ParseJson(*base::ReadFile("job.json")); }

  const fs::path before_;
};

std::string Rows(const std::string& header, const std::string& row, int count) {
  std::string text = header;
  for (int i = 0; i < count; ++i) {
    text += std::to_string(i) + row;
  }
  return text;
}

TEST_F(InitTest, TheColumnsDecideTaskAndFields) {
  const std::string two =
      "a" + Rows("", ",joy\n", 10) + Rows("", ",fear\n", 10);
  const struct {
    const char* file;
    std::string text;
    const char *task, *dataset;
    int max_length;
  } cases[] = {
      {"faq.csv",
       "\xEF\xBB\xBFQuestion,answer\r\n\"a, \"\"b\"\"\n\",c\r\nd,e\n",
       "CAUSAL_LM",
       R"({"train": ["faq.csv"], "validation_split": 0.1,
           "prompt_column": "Question", "completion_column": "answer"})",
       64},
      {"chat.jsonl",
       R"({"messages": [{"role": "user", "content": ")" +
           std::string(700, 'x') + "\"}]}\n",
       "CAUSAL_LM", R"({"train": ["chat.jsonl"], "validation_split": 0.1,
           "messages_column": "messages"})",
       512},
      {"dpo.jsonl", R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       "CAUSAL_LM", R"({"train": ["dpo.jsonl"], "validation_split": 0.1})", 64},
      {"alpaca.json",
       R"([{"instruction": "i", "input": "", "output": "o", "text": "t"}])",
       "CAUSAL_LM", R"({"train": ["alpaca.json"], "validation_split": 0.1,
           "format": "alpaca"})",
       64},
      {"pairs.tsv", "id\tsentence1\tsentence2\tlabel\n1\ta\tb\t1\n2\tc\td\t0\n",
       "SEQ_CLS", R"({"train": ["pairs.tsv"], "validation_split": 0.1,
           "text_columns": ["sentence1", "sentence2"],
           "label_column": "label"})",
       64},
      {"moods.csv", "tweet,mood\n" + two, "SEQ_CLS",
       R"({"train": ["moods.csv"], "validation_split": 0.1,
           "text_columns": ["tweet"], "label_column": "mood"})",
       64},
      {"texts.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}", "CAUSAL_LM",
       R"({"train": ["texts.jsonl"], "validation_split": 0.1,
           "text_columns": ["text"]})",
       64},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.file);
    Write(c.file, c.text);
    EXPECT_THAT(Init({c.file}), Prints(HasSubstr("Next: `mpsctl submit")));
    EXPECT_EQ(Job()["task"], c.task);
    EXPECT_EQ(Job()["dataset"], ParseJson(c.dataset)) << Job();
    EXPECT_EQ(Job()["training"]["max_length"], c.max_length);
    EXPECT_EQ(Job()["lora"]["target_modules"], "all-linear");
    EXPECT_EQ(Job().contains("preference"), c.file == std::string("dpo.jsonl"));
  }
}

TEST_F(InitTest, KnowsGluesFiles) {
  Write("msr.tsv",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta\tb \"c\n");
  EXPECT_EQ(Init({"msr.tsv"}).code, 0);
  EXPECT_EQ(Job()["task"], "SEQ_CLS");
  EXPECT_EQ(Job()["dataset"]["task_name"], "mrpc");
  EXPECT_EQ(Job()["classification"]["ignore_mismatched_sizes"], true);
}

TEST_F(InitTest, ColumnsOfOnesOwn) {
  Write("own.csv", "ticket,ask,reply,queue\n" + Rows("", ",a,b,x\n", 10) +
                       Rows("", ",c,d,y\n", 10));
  EXPECT_EQ(Init({"own.csv", "--columns", "ask,ticket"}).code, 0);
  EXPECT_EQ(Job()["dataset"]["prompt_column"], "ask");
  EXPECT_EQ(Job()["dataset"]["completion_column"], "ticket");
  EXPECT_EQ(Init({"own.csv", "--columns", "ask,reply,queue"}).code, 0);
  EXPECT_EQ(Job()["task"], "SEQ_CLS");
  EXPECT_EQ(Job()["dataset"]["text_columns"], ParseJson(R"(["ask", "reply"])"));
  EXPECT_EQ(Job()["dataset"]["label_column"], "queue");
  EXPECT_EQ(Init({"own.csv", "--columns", "ask", "--task", "CAUSAL_LM"}).code,
            0);
  EXPECT_EQ(Job()["dataset"]["text_columns"], ParseJson(R"(["ask"])"));
  EXPECT_THAT(Init({"own.csv", "--columns", "ask,nowhere"}),
              Fails(2, HasSubstr("no column nowhere; the columns are ticket, "
                                 "ask, reply, queue")));
  EXPECT_THAT(Init({"own.csv", "--columns", "ask,repli"}),
              Fails(2, HasSubstr("no column repli; did you mean reply?")));
  EXPECT_THAT(Init({"own.csv", "--columns", "ask", "--task", "SEQ_CLS"}),
              Fails(2, AllOf(HasSubstr("expected PROMPT,ANSWER or TEXT"),
                             HasSubstr("TEXT,TEXT,LABEL for a classifier, of "
                                       "ticket, ask"))));
}

TEST_F(InitTest, AnswersMayRepeat) {
  Write("faq.csv",
        Rows("question,answer\n", "," + std::string(50, 'a') + "\n", 10) +
            Rows("", "," + std::string(50, 'b') + "\n", 10));
  EXPECT_EQ(Init({"faq.csv"}).code, 0);
  EXPECT_EQ(Job()["task"], "CAUSAL_LM");
}

TEST_F(InitTest, WhatIsNotClearIsAsked) {
  Write("yes.csv",
        Rows("question,answer\n", ",yes\n", 10) + Rows("", ",no\n", 10));
  EXPECT_THAT(Init({"yes.csv"}),
              Fails(2, HasSubstr("a language model may learn question, answer, "
                                 "or a classifier answer (2 values in 20 "
                                 "rows): choose with --task")));
  EXPECT_EQ(Init({"yes.csv", "--task", "SEQ_CLS"}).code, 0);
  EXPECT_THAT(Init({"yes.csv", "--task", "IMAGE_CLS", "--force"}),
              Fails(2, HasSubstr("--task IMAGE_CLS is for a folder with")));
  EXPECT_EQ(Job()["dataset"]["label_column"], "answer");
  EXPECT_EQ(Init({"yes.csv", "--task", "CAUSAL_LM"}).code, 0);
  EXPECT_EQ(Job()["dataset"]["completion_column"], "answer");
  const std::pair<const char*, const char*> errors[] = {
      {"a.csv", "columns are not known: x, y, z; name them: --columns PROMPT"},
      {"d.csv",
       "separated by semicolons; save it with commas: question;answer"},
      {"e.xlsx", "pandas.read_excel(\"e.xlsx\").to_json(\"e.jsonl\""},
      {"b.csv", "b.csv: has no rows"},
      {"c.parquet", "pandas.read_parquet"},
      {"none.csv", "No such file"},
      {"many", "several kinds of data: a.csv, b.jsonl"},
      {"other",
       "other: has no data file: c.parquet; expected .csv, .tsv, .jsonl or "
       ".json. c.parquet is Parquet"},
      {"cat", "or a folder of images for each label"},
      {"mixed",
       "mixed: val is a part of the data among folders of labels; "
       "move these into mixed/train"}};
  Write("a.csv", "x,y,z\n1,2,3\n");
  Write("d.csv", "question;answer\na;b\n");
  for (const char* name :
       {"b.csv", "c.parquet", "e.xlsx", "many/a.csv", "many/b.jsonl",
        "other/c.parquet", "cat/1.png", "mixed/cat/1.png", "mixed/dog/1.png",
        "mixed/val/cat/2.png"}) {
    Write(name, "");
  }
  for (const auto& [data, error] : errors) {
    EXPECT_THAT(Init({data}), Fails(2, AllOf(HasSubstr(error),
                                             HasSubstr("Nothing was written"))))
        << data;
  }
}

TEST_F(InitTest, FoldersOfFilesAndOfImages) {
  Write("set/train-0.csv", "prompt,completion\na,b\n");
  Write("set/train-1.csv", "prompt,completion\nc,d\n");
  Write("set/dev.csv", "prompt,completion\ne,f\n");
  Write("set/test.csv", "prompt\n");
  Write("set/notes.txt", "");
  EXPECT_THAT(Init({"set"}), Prints(HasSubstr("2 rows")));
  EXPECT_EQ(Job()["dataset"]["train"],
            ParseJson(R"(["set/train-0.csv", "set/train-1.csv"])"));
  EXPECT_EQ(Job()["dataset"]["eval"], ParseJson(R"(["set/dev.csv"])"));
  for (const char* name : {"cat/1.PNG", "cat/2.png", "dog/1.jpeg"}) {
    Write(std::string("pets/") + name, "x");
  }
  EXPECT_THAT(Init({"pets/"}), Prints(HasSubstr("2 labels: cat (2), dog (1)")));
  EXPECT_EQ(Job()["task"], "IMAGE_CLS");
  EXPECT_EQ(Job()["dataset"]["train"], ParseJson(R"(["pets/"])"));
  for (const char* name : {"train/cat/1.png", "train/dog/1.png",
                           "val/cat/2.png", "test/cat/3.png", "new/4.png"}) {
    Write(std::string("split/") + name, "x");
  }
  EXPECT_THAT(Init({"split"}),
              Prints(HasSubstr("2 labels: cat (1), dog (1); without folders of "
                               "labels, so not used: new\n")));
  EXPECT_EQ(Job()["dataset"],
            ParseJson(R"({"train": ["split/train"], "eval": ["split/val"]})"));
  // A folder without a name is named by its whole path.
  fs::current_path("pets");
  EXPECT_EQ(Init({}).code, 0);
  EXPECT_EQ(Job()["dataset"]["train"][0], fs::current_path().string());
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"submit", "--detach", "--set", "dataset.train=."}).code,
            0);
  const v1::SubmitRequest& sent = data().submitted.back();
  EXPECT_EQ(ParseJson(sent.spec_json())["dataset"]["train"][0],
            fs::current_path().string());
  EXPECT_EQ(sent.inputs(0).path(), (fs::current_path() / "cat/1.PNG").string());
  fs::current_path(folder_);
  // A job.json elsewhere names its data by their whole paths.
  Init({"set", "-o", Write("far/j.json", "")});
  EXPECT_EQ(ParseJson(*base::ReadFile("far/j.json"))["dataset"]["eval"][0],
            (fs::current_path() / "set/dev.csv").string());
}

TEST_F(InitTest, TheLargestModelThatFitsIsPlannedAndNothingIsQueued) {
  Write("faq.csv", "prompt,completion\na,b\n");
  AddModel("small", 100, {"CAUSAL_LM", "SEQ_CLS"});
  AddModel("huge", 900, {"CAUSAL_LM", "SEQ_CLS"}).set_fits(false);
  AddModel("large", 300, {"CAUSAL_LM", "SEQ_CLS"}).set_max_row_tokens(32);
  AddModel("bert", 50, {"SEQ_CLS"});
  EXPECT_THAT(
      RunVerb({"init", "faq.csv"}),
      Prints(AllOf(
          testing::ContainsRegex("model +\"large\" +the largest that fits"),
          HasSubstr("Wrote job.json.\n"), HasSubstr("Verdict: fits"),
          EndsWith("Next: `mpsctl submit job.json`\n"))));
  EXPECT_EQ(Job()["training"]["max_length"], 32);
  EXPECT_EQ(runbook().plan_requests.size(), 1u);
  EXPECT_THAT(data().submitted, IsEmpty());
  EXPECT_THAT(RunVerb({"init", "faq.csv"}),
              Fails(2, HasSubstr("job.json exists\n--force replaces it")));
  Write("c.csv", "text,label\na,x\nb,y\n");
  EXPECT_EQ(RunVerb({"init", "c.csv", "--force"}).code, 0);
  EXPECT_EQ(Job()["model"], "bert");
  models().listed.clear();
  EXPECT_THAT(RunVerb({"init", "c.csv", "--force"}),
              Fails(4, AllOf(HasSubstr("no model for SEQ_CLS"),
                             HasSubstr("`mpsctl model push FOLDER`"),
                             Not(HasSubstr("model pull")))));
  daemon_->Stop();
  EXPECT_THAT(RunVerb({"init", "c.csv", "--force"}),
              Fails(3, HasSubstr("With --model MODEL, init needs no daemon")));
  EXPECT_THAT(Init({"c.csv"}), Prints(HasSubstr("No plan: no daemon answers")));
}

TEST_F(InitTest, WhatMpsdRefusesIsNotWritten) {
  Write("faq.csv", "prompt,completion\na,b\n");
  Write("job.json", "{}");
  Fail("Plan", StatusCode::INVALID_ARGUMENT, "faq.csv:2: no answer");
  for (const Args& args : {Args{"faq.csv"}, Args{"faq.csv", "--json"}}) {
    EXPECT_THAT(Init(args),
                Fails(2, AllOf(HasSubstr("faq.csv:2: no answer"),
                               EndsWith("Nothing was written.\n"))));
  }
  EXPECT_EQ(*base::ReadFile("job.json"), "{}");
}

// --- a job.json and the command line -----------------------------------------

class JobFileTest : public ClientTest {
 protected:
  JobFileTest() { AddJob(kId, v1::JOB_STATE_QUEUED); }
  nlohmann::json Sent() {
    return ParseJson(data().submitted.back().spec_json());
  }
  const std::string job_ = WriteJob();
};

TEST_F(JobFileTest, OptionsChangeFields) {
  EXPECT_EQ(RunVerb({"submit", job_, "--detach", "--set", "training.seed=7",
                     "--set", "lora.r=4", "--unset", "lora.r", "--name", "5",
                     "--model", "org/other"})
                .code,
            0);
  EXPECT_EQ(Sent(), ParseJson(R"({"model": "org/other", "name": "5",
      "dataset": {"train": "t.jsonl"}, "lora": {}, "training": {"seed": 7}})"));
  EXPECT_EQ(RunVerb({"sweep", job_, "--grid", "lora.r=4", "--model", "org/x",
                     "--set", "training.seed=7"})
                .code,
            0);
  EXPECT_EQ(Sent()["model"], "org/x");
  // Lines are those of the file only if nothing is changed.
  EXPECT_THAT(RunVerb({"submit", job_, "--set", "training.sed=7"}),
              Fails(2, HasSubstr("did you mean \"seed\"")));
  EXPECT_THAT(RunVerb({"submit", Write("bad.json", "{\n]"), "--name", "n"}),
              Fails(2, HasSubstr("bad.json:2: not valid JSON")));
}

TEST_F(JobFileTest, StandardInputNamesFilesOfTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const int input = dup(STDIN_FILENO);
  const int file = open(job_.c_str(), O_RDONLY);
  dup2(file, STDIN_FILENO);
  const Result result = RunVerb({"submit", "-", "--detach"});
  dup2(input, STDIN_FILENO);
  close(input);
  close(file);
  fs::current_path(before);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(Only(data().submitted).inputs(0).path(), "t.jsonl");
}

TEST_F(JobFileTest, DataInsteadOfAJobLeadToInit) {
  Write("data/a.csv", "");
  EXPECT_THAT(RunVerb({"submit", Write("j.yaml", "model: m\n")}),
              Fails(2, HasSubstr("j.yaml: YAML, which mpsd does not read")));
  for (const char* name : {"none.json", "data", "data/a.csv"}) {
    EXPECT_THAT(RunVerb({"submit", (folder_ / name).string()}),
                Fails(2, HasSubstr("`mpsctl init ")))
        << name;
  }
  EXPECT_THAT(
      RunVerb({"submit", job_, "--set", "dataset.train=data"}),
      Fails(2, HasSubstr("dataset.train names the folder 'data'; name the "
                         "files in it: a.csv")));
}

}  // namespace
}  // namespace mpsd::client
