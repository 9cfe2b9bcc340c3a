// SPDX-License-Identifier: Apache-2.0
#include "core/device/profile.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <fstream>
#include <set>

#include "core/base/file.h"
#include "core/device/block_mark.h"
#include "nlohmann/json.hpp"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::profile {
namespace {

// A capture by hand; times in microseconds.
class CaptureBuilder {
 public:
  Event& Add(EventKind kind, const std::string& name, int64_t start,
             int64_t end) {
    capture_.names.push_back(name);
    Event event;
    event.kind = kind;
    event.name = static_cast<uint32_t>(capture_.names.size() - 1);
    event.start_ns = start * 1000;
    event.end_ns = end * 1000;
    capture_.events.push_back(event);
    return capture_.events.back();
  }
  Event& Mark(const std::string& name, int64_t start, int64_t end) {
    return Add(EventKind::kMark, "mpsd::" + name, start, end);
  }
  Event& Call(const std::string& name, int64_t start, int64_t end) {
    return Add(EventKind::kOperator, "aten::" + name, start, end);
  }
  const Capture& capture() const { return capture_; }
  Tally tally() const {
    Tally tally;
    tally.Add(capture_);
    return tally;
  }

 private:
  Capture capture_;
};

// A step with a forward of two blocks and autograd's backward.
void Step(const at::Tensor& weight) {
  const BlockMark step("mpsd::step");
  at::Tensor x = at::ones({32, 32});
  {
    const BlockMark layer(0, "");
    const BlockMark block("mpsd::attention");
    x = at::softmax(at::mm(x, weight), -1);
  }
  {
    const BlockMark layer(1, "");
    const BlockMark block("mpsd::mlp");
    x = at::silu(at::mm(x, weight));
  }
  const at::Tensor loss = x.sum();
  const BlockMark backward("mpsd::backward");
  loss.backward();
}

class RecorderTest : public testing::Test {
 protected:
  const at::Tensor weight_ = at::rand({32, 32}).requires_grad_(true);
  Recorder recorder_;
};

TEST_F(RecorderTest, RecordsCallsMarksAndNodes) {
  recorder_.Start();
  EXPECT_TRUE(recorder_.recording());
  Step(weight_);
  Step(weight_);
  const Capture capture = recorder_.Stop();
  EXPECT_FALSE(recorder_.recording());
  Tally tally;
  tally.Add(capture);
  EXPECT_EQ(tally.steps, 2);
  EXPECT_EQ(tally.operators.at("aten::silu").calls, 2);
  const auto block = [&](const char* name, Phase phase) {
    return tally.blocks.count({name, phase}) > 0
               ? tally.blocks.at({name, phase}).ns
               : 0;
  };
  for (const char* name : {"attention", "mlp"}) {
    EXPECT_GT(block(name, Phase::kForward), 0) << name;
    // By autograd: the nodes go back to where they were made.
    EXPECT_GT(block(name, Phase::kBackward), 0) << name;
  }
  ASSERT_EQ(tally.layers.size(), 2u);
  for (const int64_t layer : {0, 1}) {
    EXPECT_GT(tally.layers.at(layer).ns[static_cast<int>(Phase::kBackward)], 0);
  }
  int64_t sum = 0;
  for (const auto& [name, cost] : tally.blocks) sum += cost.ns;
  EXPECT_EQ(sum, tally.step_ns);
  EXPECT_TRUE(tally.waits.empty());
}

TEST_F(RecorderTest, SavesATraceInChromesFormat) {
  const auto folder = FreshFolder("recorder");
  EXPECT_FALSE(recorder_.Save(folder / "trace.json").ok());
  recorder_.Start();
  Step(weight_);
  recorder_.Stop();
  ASSERT_THAT(recorder_.Save(folder / "trace.json"), IsOk());
  const auto trace =
      nlohmann::json::parse(*base::ReadFile(folder / "trace.json"));
  std::set<std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_TRUE(event.at("ts").is_number());
    EXPECT_GE(event.at("dur").get<double>(), 0);
    names.insert(event.at("name"));
  }
  for (const char* name : {"mpsd::step", "mpsd::layer 1", "mpsd::attention",
                           "mpsd::backward", "aten::mm"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

constexpr int64_t kMicro = 1000;

int64_t SumOfBlocks(const Tally& tally) {
  int64_t sum = 0;
  for (const auto& [name, cost] : tally.blocks) sum += cost.ns;
  return sum;
}

BlockCost Block(const Tally& tally, const std::string& name,
                Phase phase = Phase::kForward) {
  const auto found = tally.blocks.find({name, phase});
  return found == tally.blocks.end() ? BlockCost{} : found->second;
}

TEST(TallyTest, AnOperatorsOwnTimeIsWithoutTheCallsItMakes) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Call("linear", 10, 60);
  b.Call("t", 12, 15);
  b.Call("addmm", 20, 55);
  const Tally tally = b.tally();
  EXPECT_EQ(tally.steps, 1);
  EXPECT_EQ(tally.step_ns, 100 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::linear").self_ns, 12 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::addmm").self_ns, 35 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::t").calls, 1);
}

TEST(TallyTest, ABlocksTimeIsWithoutTheBlocksWithinItAndAllAddUp) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 0", 10, 90);
  b.Mark("attention", 20, 60);
  b.Mark("norm", 20, 30);
  b.Call("mul", 22, 28);
  b.Call("linear", 40, 50);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "norm").ns, 10 * kMicro);
  EXPECT_EQ(Block(tally, "attention").ns, 30 * kMicro);
  EXPECT_EQ(Block(tally, "layer").ns, 40 * kMicro);
  EXPECT_EQ(Block(tally, "step").ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "norm").operator_ns, 6 * kMicro);
  EXPECT_EQ(Block(tally, "attention").operator_ns, 10 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
  EXPECT_EQ(tally.layers.at(0).ns[0], 80 * kMicro);
}

TEST(TallyTest, ThePhaseIsTheMarksOrThatOfTheBlockAroundIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 3 backward", 0, 50);
  b.Mark("attention again", 0, 10);
  b.Mark("norm", 2, 4);
  b.Mark("mlp backward", 10, 40);
  b.Mark("norm", 20, 30);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "attention", Phase::kAgain).ns, 8 * kMicro);
  EXPECT_EQ(Block(tally, "norm", Phase::kAgain).ns, 2 * kMicro);
  EXPECT_EQ(Block(tally, "mlp", Phase::kBackward).ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "norm", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(tally.layers.at(3).ns[static_cast<size_t>(Phase::kBackward)],
            40 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

// A node's number is that of the call which made it: the last one that began
// with this number.
TEST(TallyTest, ANodeBelongsToTheBlockThatMadeIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 1", 0, 20).sequence = 5;
  b.Mark("attention", 0, 10).sequence = 5;
  b.Call("softmax", 1, 9).sequence = 5;
  b.Mark("mlp", 10, 20).sequence = 6;
  b.Call("silu", 11, 15).sequence = 6;
  b.Mark("backward", 50, 90);
  b.Add(EventKind::kNode, "SiluBackward0", 50, 60).sequence = 6;
  b.Call("silu_backward", 51, 59);
  b.Add(EventKind::kNode, "SoftmaxBackward0", 60, 80).sequence = 5;
  b.Add(EventKind::kNode, "AccumulateGrad", 80, 82);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "mlp", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(Block(tally, "attention", Phase::kBackward).ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "backward", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(tally.layers.at(1).ns[static_cast<size_t>(Phase::kBackward)],
            30 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

TEST(TallyTest, GapsAreTimesWithoutAnOperatorNorAWaitForData) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("data", 0, 300);
  b.Call("a", 320, 400);  // after 20
  b.Call("b", 405, 500);  // after 5: too short to be counted
  b.Mark("head", 500, 800);
  b.Call("c", 600, 900);  // after 100, and the mark ends within it
  const Tally tally = b.tally();
  EXPECT_EQ(tally.gaps.ns, (20 + 5 + 100 + 200) * kMicro);
  EXPECT_EQ(tally.gaps.count, 3);
  EXPECT_EQ(tally.gaps.longest_ns, 200 * kMicro);
  EXPECT_EQ(tally.gaps.longest_before, "");
  EXPECT_EQ(tally.gaps.longest_block, "step");
}

TEST(TallyTest, APauseIsNoPartOfAStep) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("held", 100, 900);
  const Tally tally = b.tally();
  EXPECT_EQ(tally.step_ns, 200 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
  EXPECT_EQ(tally.gaps.ns, 200 * kMicro);
}

TEST(TallyTest, CallsThatWaitAreCountedButForTheStepsOwn) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("mlp", 0, 100);
  b.Call("item", 0, 50);
  b.Call("_local_scalar_dense", 10, 40);
  b.Add(EventKind::kRuntime, "cudaStreamSynchronize", 12, 38);
  b.Mark("read back", 900, 1000);
  b.Call("_to_copy", 900, 1000);
  b.Add(EventKind::kRuntime, "cudaStreamSynchronize", 910, 990);
  const Tally tally = b.tally();
  ASSERT_EQ(tally.waits.size(), 1u);
  const WaitCost& wait = tally.waits.at("aten::_local_scalar_dense");
  EXPECT_EQ(wait.calls, 1);
  EXPECT_EQ(wait.ns, 30 * kMicro);
  EXPECT_EQ(wait.blocks.at("mlp"), 1);
}

TEST(TallyTest, TheDevicesTimeIsThatOfTheCallThatQueuedIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 0", 0, 50);
  b.Call("mm", 0, 10).call = 7;
  b.Add(EventKind::kDevice, "gemm", 20, 60).call = 7;
  b.Add(EventKind::kDevice, "gemm", 40, 70).call = 7;
  b.Add(EventKind::kDevice, "unknown", 90, 95).call = 8;
  const Tally tally = b.tally();
  EXPECT_TRUE(tally.device_reports_times);
  EXPECT_EQ(tally.operators.at("aten::mm").device_ns, 70 * kMicro);
  EXPECT_EQ(Block(tally, "layer").device_ns, 70 * kMicro);
  EXPECT_EQ(tally.layers.at(0).device_ns[0], 70 * kMicro);
  EXPECT_EQ(tally.device_busy_ns, (50 + 5) * kMicro);
  EXPECT_EQ(tally.device_window_ns, 100 * kMicro);
}

TEST(TallyTest, CapturesAddUpAndWhatIsOutsideOfAStepIsLeftOut) {
  CaptureBuilder b;
  b.Call("between", 0, 50);
  b.Mark("step", 100, 200);
  b.Mark("held", 210, 220);
  b.Mark("step", 300, 400);
  Tally tally;
  tally.Add({});
  EXPECT_EQ(tally.steps, 0);
  tally.Add(b.capture());
  tally.Add(b.capture());
  EXPECT_EQ(tally.steps, 4);
  EXPECT_EQ(tally.step_ns, 400 * kMicro);
  EXPECT_TRUE(tally.operators.empty());
  EXPECT_EQ(tally.events, 8);
  EXPECT_FALSE(tally.device_reports_times);
}

class TraceFileTest : public testing::Test {
 protected:
  fs::path Write(const std::string& text) const {
    std::ofstream(folder_ / "trace.json") << text;
    return folder_ / "trace.json";
  }
  fs::path packed() const { return folder_ / "trace.json.gz"; }

  std::string Unpacked() const {
    const gzFile file = gzopen(packed().c_str(), "rb");
    std::string text;
    char part[4096];
    for (int size; (size = gzread(file, part, sizeof(part))) > 0;) {
      text.append(part, static_cast<size_t>(size));
    }
    gzclose(file);
    return text;
  }

  const fs::path folder_ = FreshFolder("trace_file");
};

TEST_F(TraceFileTest, PacksAndRemovesTheTextItself) {
  // Longer than a piece.
  std::string text = "{\"traceEvents\": [";
  for (int i = 0; i < 300'000; ++i) text += std::to_string(i) + ", ";
  text += "0]}\n";
  const auto bytes = PackTrace(Write(text), packed()).value();
  EXPECT_EQ(static_cast<uintmax_t>(bytes), fs::file_size(packed()));
  EXPECT_LT(bytes, static_cast<int64_t>(text.size()) / 2);
  EXPECT_EQ(Unpacked(), text);
  EXPECT_FALSE(fs::exists(folder_ / "trace.json"));
}

// Kineto ends a trace with the path at which it wrote it.
TEST_F(TraceFileTest, HoldsNoPathOfTheMachine) {
  const std::string events =
      "{\"traceEvents\": [{\"name\": \"traceName\"}],\n  ";
  ASSERT_THAT(
      PackTrace(
          Write(events + "\"traceName\": \"/state/jobs/1/out/trace.json\"\n}"),
          packed()),
      IsOk());
  EXPECT_EQ(Unpacked(), events + "\"traceName\": \"trace\"\n}\n");
}

TEST_F(TraceFileTest, ATraceThatIsTooLargeOrCutOffIsNotKept) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      PackTrace(Write(std::string(1000, '}')), packed(), 999).status()));
  EXPECT_TRUE(fs::is_empty(folder_));
  for (const char* text : {"{\"traceEvents\": [{\"ph\": \"X\"", " \n", ""}) {
    const auto bytes = PackTrace(Write(text), packed());
    EXPECT_FALSE(bytes.ok()) << text;
    EXPECT_TRUE(fs::is_empty(folder_)) << text;
  }
  EXPECT_TRUE(absl::IsNotFound(
      PackTrace(Write("{}"), folder_ / "none" / "trace.json.gz").status()));
}

}  // namespace
}  // namespace mpsd::profile
