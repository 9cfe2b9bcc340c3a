// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class GenerateTest : public ClientTest {
 protected:
  GenerateTest() {
    AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kId, v1::JOB_STATE_QUEUED);  // what Submit answers with
    v1::SubmitRequest& kept = data().requests[kOtherId];
    kept.set_spec_json(R"({"name": "moods", "model": "org/id",
        "dataset": {"train": "prompts.jsonl", "eval": "e.jsonl"},
        "quantization_config": {"load_in_4bit": true}, "device": "cpu",
        "lora": {"r": 4},
        "training": {"bf16": true, "max_steps": 3, "eos_token": "<|im_end|>",
                     "chat_template_path": "chat.jinja"}})");
    for (const char* path : {"prompts.jsonl", "e.jsonl", "chat.jinja"}) {
      v1::InputFile* input = kept.add_inputs();
      input->set_path(path);
      input->set_sha256(std::string(64, path[0]));
    }
  }
};

TEST_F(GenerateTest, ComputesAsInTrainingAndTakesNothingElseOfTheJob) {
  EXPECT_THAT(RunVerb({"generate", kOtherId, "--prompt", "Sky?", "--top-k", "3",
                       "--stop", "\n", "--compare-base", "--detach"}),
              Prints(HasSubstr("QUEUED")));
  const v1::SubmitRequest& request = Only(data().submitted);
  EXPECT_EQ(ParseJson(request.spec_json()),
            ParseJson(absl::StrCat(R"({"name": "generate )", kOtherId,
                                   R"(", "model": "org/id",
        "adapter": "job:)",
                                   kOtherId, R"(",
        "dataset": {"train": "prompts.jsonl"},
        "quantization_config": {"load_in_4bit": true}, "device": "cpu",
        "training": {"bf16": true, "eos_token": "<|im_end|>",
                     "chat_template_path": "chat.jinja"}})")));
  ASSERT_EQ(request.inputs_size(), 2);
  EXPECT_EQ(request.inputs(0).path(), "chat.jinja");
  EXPECT_EQ(request.inputs(1).path(), "prompts.jsonl");
  EXPECT_EQ(request.inputs(1).sha256(),
            base::Sha256Hex("{\"prompt\":\"Sky?\"}\n"));
  EXPECT_EQ(data().uploads, 1);
  const v1::GenerateOptions& options = request.study().generate();
  EXPECT_TRUE(options.compare_base());
  EXPECT_TRUE(options.do_sample());
  EXPECT_EQ(options.top_k(), 3);
  EXPECT_EQ(options.stop_strings(0), "\n");
  EXPECT_FALSE(options.has_max_new_tokens());
}

TEST_F(GenerateTest, AWholeModelHasItsOwnTextAndAClassifierNone) {
  v1::SubmitRequest& kept = data().requests[kOtherId];
  auto spec = ParseJson(kept.spec_json());
  spec.erase("quantization_config");
  spec.erase("lora");
  spec["fine_tune_type"] = "full";
  kept.set_spec_json(spec.dump());
  const Args args = {"generate", kOtherId, "--prompt", "Sky?", "--detach"};
  EXPECT_THAT(RunVerb(args), Prints());
  const v1::SubmitRequest& request = Only(data().submitted);
  const auto sent = ParseJson(request.spec_json());
  EXPECT_EQ(sent["model"], std::string("job:") + kOtherId);
  EXPECT_FALSE(sent.contains("adapter"));
  EXPECT_FALSE(sent["training"].contains("eos_token"));
  EXPECT_EQ(request.inputs_size(), 1);
  kept.set_spec_json(
      R"({"model": "m", "task": "SEQ_CLS", "dataset": {"train": "t.csv"}})");
  EXPECT_THAT(RunVerb(args), Fails(2, HasSubstr("trains a classifier")));
  EXPECT_EQ(data().submitted.size(), 1u);
}

}  // namespace
}  // namespace mpsd::client
