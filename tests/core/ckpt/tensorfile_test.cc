// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "absl/strings/escaping.h"
#include "core/base/file.h"
#include "core/ckpt/safetensors.h"
#include "core/ckpt/safetensors_writer.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::tensorfile {
namespace {

// A file of header text `json` and `data`, length prefix included.
std::string FileOf(const std::string& json, const std::string& data = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(json.size() >> (8 * i)));
  }
  return bytes + json + data;
}

std::string Entry(const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape +
         R"(,"data_offsets":)" + offsets + "}";
}

std::string FileOfX(const std::string& dtype, const std::string& shape,
                    const std::string& offsets, const std::string& data) {
  return FileOf("{\"x\":" + Entry(dtype, shape, offsets) + "}", data);
}

// tests/golden/headers.py: what the reference reader takes and refuses.
TEST(ParseHeaderTest, TakesAndRefusesWhatTheReferenceReaderDoes) {
  const auto cases = nlohmann::json::parse(*base::ReadFile(
      std::string(MPSD_TEST_SOURCE_DIR) + "/tests/golden/headers.json"));
  int taken = 0;
  for (const auto& c : cases) {
    std::string bytes;
    ASSERT_TRUE(absl::Base64Unescape(c["file"].get<std::string>(), &bytes));
    const auto header = ParseHeader(bytes);
    EXPECT_EQ(header.ok(), c["refused"].is_null())
        << absl::CEscape(bytes) << "\nthey: " << c["refused"]
        << "\nwe: " << header.status();
    taken += header.ok();
  }
  EXPECT_GT(cases.size(), 400u);
  EXPECT_GT(taken, 25);
}

struct Case {
  const char* name;
  std::string bytes;
  const char* message;
};

TEST(ParseHeaderTest, BadHeadersAreRefusedWithTheirReasons) {
  const Case cases[] = {
      {"short", "abc", "shorter than"},
      {"cut_header", std::string("\xff\0\0\0\0\0\0\0{", 9), "leaves the file"},
      {"huge_header", std::string(8, '\xff') + "{}", "leaves the file"},
      {"not_json", FileOf("hello"), "not JSON"},
      {"no_fields", FileOf(R"({"x":{}})"), "needs dtype"},
      {"cut_data", FileOfX("F32", "[2]", "[0,8]", "abcd"),
       "take 8 bytes, and it has 4 of them (is the file cut?)"},
      {"trailing", FileOfX("U8", "[2]", "[0,2]", "abcd"),
       "the last 2 of its bytes belong to no tensor"},
      {"nothing_but_bytes", FileOf("{}", "abc"), "the last 3 of its"},
      {"gap", FileOfX("U8", "[2]", "[1,3]", "abc"),
       "begin at 1, those before them end at 0"},
      {"overlap",
       FileOf("{\"a\":" + Entry("U8", "[4]", "[0,4]") +
                  ",\"b\":" + Entry("U8", "[4]", "[2,6]") + "}",
              "abcdef"),
       "\"b\": its bytes begin at 2, those before them end at 4"},
      {"shared",
       FileOf("{\"a\":" + Entry("U8", "[4]", "[0,4]") +
                  ",\"b\":" + Entry("U8", "[4]", "[0,4]") + "}",
              "abcd"),
       "\"b\": its bytes begin at 0, those before them end at 4"},
      {"shape", FileOfX("F32", "[3]", "[0,8]", "abcdefgh"),
       "do not match its shape"},
      {"negative", FileOfX("U8", "[-1]", "[0,1]", "a"), "not a size"},
      {"reversed", FileOfX("U8", "[1]", "[1,0]", "a"), "end before they begin"},
      {"overflow", FileOfX("U8", "[4294967296,4294967296]", "[0,0]", ""),
       "too many elements"},
      {"overflow_of_bytes",
       FileOfX("F64", "[1152921504606846976]", "[0,0]", ""),
       "too many elements"},
      {"half_a_byte", FileOfX("F4", "[3]", "[0,1]", "a"),
       "do not match its shape"},
      {"twice",
       FileOf("{\"x\":" + Entry("U8", "[1]", "[0,1]") +
                  ",\"x\":" + Entry("U8", "[2]", "[0,2]") + "}",
              "ab"),
       "\"x\" appears twice"},
      {"field_twice",
       FileOf(R"({"x":{"dtype":"U8","dtype":"F32","shape":[1],)"
              R"("data_offsets":[0,4]}})",
              "abcd"),
       "\"dtype\" appears twice"},
      {"metadata", FileOf(R"({"__metadata__":{"a":1}})"),
       "\"a\" of its __metadata__ is not a string"}};
  for (const Case& c : cases) {
    EXPECT_THAT(ParseHeader(c.bytes),
                Fails(absl::StatusCode::kInvalidArgument, c.message))
        << c.name;
  }
}

TEST(ParseHeaderTest, ADtypeOfAnotherDayIsAnEntryWithoutOne) {
  for (const char* dtype : {"U32", "F8_E4M3", "F8", "I3"}) {
    const auto header = ParseHeader(FileOfX(dtype, "[1]", "[0,4]", "abcd"));
    const bool sized = std::string(dtype) == "F8_E4M3";
    ASSERT_EQ(header.ok(), !sized) << header.status();
    if (sized) continue;  // four bytes are not one of F8_E4M3
    EXPECT_EQ(header->entries.at("x").dtype, at::ScalarType::Undefined);
    EXPECT_EQ(header->entries.at("x").dtype_name, dtype);
  }
}

// Any bytes give an answer, and entries that stay within the file.
TEST(ParseHeaderTest, AnyBytesGetAnAnswer) {
  const std::string sound = FileOf(
      R"({"__metadata__":{"k":"v"},"a":)" + Entry("F32", "[2]", "[0,8]") +
          ",\"b\":" + Entry("U8", "[2,2]", "[8,12]") + "}",
      "0123456789ab");
  ASSERT_TRUE(ParseHeader(sound).ok());
  std::mt19937 draw(5);  // NOLINT(cert-msc51-cpp): the same bytes each time
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = sound;
    for (int edits = 1 + static_cast<int>(draw() % 3); edits > 0; --edits) {
      const size_t at = draw() % bytes.size();
      if (draw() % 2 == 0) {
        bytes[at] = static_cast<char>(draw());
      } else {
        bytes[at] = "0123456789[]{},:\""[draw() % 17];
      }
    }
    const auto header = ParseHeader(bytes);
    if (!header.ok()) continue;
    for (const auto& [name, entry] : header->entries) {
      ASSERT_LE(entry.offset, bytes.size());
      ASSERT_LE(entry.bytes, bytes.size() - entry.offset);
    }
  }
}

std::string PathOf(const std::string& name) {
  static const fs::path folder = FreshFolder("safetensors");
  return (folder / name).string();
}

TEST(SafetensorsTest, RoundTripKeepsBitsShapesAndMetadata) {
  const NamedTensors tensors = {
      {"f32", at::randn({3, 5})},
      {"bf16", at::randn({7}).to(at::kBFloat16)},
      {"i64", at::arange(4)},
      {"scalar", at::scalar_tensor(2.5)},
      {"u8", at::ones({3}, at::kByte)},
      {"empty", at::empty({0, 4})},
      {"transposed", at::randn({2, 3}).t()},
      {"after_odd_bytes", at::randn({2})},
  };
  const std::string path = PathOf("round_trip");
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"format", "pt"}}).ok());
  auto file = SafetensorsFile::Open(path).value();
  EXPECT_EQ(file->metadata().at("format"), "pt");
  ASSERT_EQ(file->entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor read = *file->Load(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_TRUE(at::equal(read, tensor)) << name;
  }
}

TEST(SafetensorsTest, WhatIsNoSuchFileIsNamedAndNoDtypeOfTheFormat) {
  const std::string path = PathOf("bad");
  std::ofstream(path, std::ios::binary) << FileOf("{}", "stray");
  EXPECT_THAT(SafetensorsFile::Open(path),
              Fails(absl::StatusCode::kInvalidArgument,
                    path + ": not a safetensors file: the last 5 of its"));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteSafetensors(
      PathOf("complex"), {{"x", at::zeros({1}, at::kComplexFloat)}})));
}

// A file of mlx next to tensors that can be read.
TEST(SafetensorsTest, ADtypeIsTheFaultOfWhoLoadsIt) {
  const std::string path = PathOf("u32");
  std::ofstream(path, std::ios::binary)
      << FileOf(R"({"q":{"dtype":"U32","shape":[1],"data_offsets":[0,4]},)"
                R"("x":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
                std::string("\1\2\3\4\5\6", 6));
  const auto file = SafetensorsFile::Open(path).value();
  EXPECT_TRUE(
      at::equal(*file->Load("x"), at::tensor({5, 6}, at::dtype(at::kByte))));
  for (const auto& loaded :
       {file->Load("q"), file->Load("q", at::kCPU, at::kFloat)}) {
    EXPECT_THAT(loaded, Fails(absl::StatusCode::kUnimplemented,
                              "tensor \"q\" is stored as U32"));
  }
}

// What a copy reads from begins at a multiple of four bytes, as Metal's copies
// want it, and of the dtype's own width.
TEST(SafetensorsTest, TensorsAtOddPlacesAreAlignedForTheCopy) {
  const NamedTensors tensors = {{"byte", at::ones({1}, at::kByte)},
                                {"f32", at::randn({3})},
                                {"half", at::randn({1}).to(at::kHalf)},
                                {"bf16", at::randn({5}).to(at::kBFloat16)},
                                {"f64", at::randn({2}, at::kDouble)}};
  ASSERT_TRUE(WriteSafetensors(PathOf("odd"), tensors).ok());
  const auto file = *SafetensorsFile::Open(PathOf("odd"));
  EXPECT_NE(file->entries().at("f32").offset % 4, 0u);
  EXPECT_NE(file->entries().at("bf16").offset % 4, 0u);
  static std::vector<uintptr_t>* sources;
  std::vector<uintptr_t> found;
  sources = &found;
  at::RecordFunctionCallback seen(
      [](const at::RecordFunction& fn) -> std::unique_ptr<at::ObserverContext> {
        if (std::string(fn.name()) == "aten::copy_") {
          sources->push_back(reinterpret_cast<uintptr_t>(
              fn.inputs()[1].toTensor().const_data_ptr()));
        }
        return nullptr;
      });
  const auto handle = at::addThreadLocalCallback(
      seen.needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  std::vector<at::Tensor> loaded;
  for (const auto& [name, tensor] : tensors) {
    loaded.push_back(*file->Load(name));
  }
  at::removeCallback(handle);
  ASSERT_EQ(found.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(found[i] % 4, 0u) << tensors[i].first;
    EXPECT_TRUE(at::equal(loaded[i], tensors[i].second)) << tensors[i].first;
  }
}

fs::path NewFile() { return FreshFolder("writer") / "x.safetensors"; }

TEST(SafetensorsWriterTest, TakesTheTensorsOfThePlanOnly) {
  auto writer =
      *SafetensorsWriter::Create(NewFile(), {{"a", at::kFloat, {2, 3}}});
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Append(at::zeros({3, 2}))));
  EXPECT_TRUE(
      absl::IsInvalidArgument(writer->Append(at::zeros({2, 3}, at::kHalf))));
  EXPECT_TRUE(absl::IsFailedPrecondition(writer->Finish()));
  EXPECT_TRUE(writer->Append(at::zeros({2, 3})).ok());
  EXPECT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(writer->Append(at::zeros({2, 3}))));
  EXPECT_EQ(
      SafetensorsWriter::Create(NewFile(), {{"a", at::kComplexDouble, {1}}})
          .status()
          .message(),
      "tensor \"a\" has a dtype safetensors lacks");
}

const std::vector<PlannedTensor> kPlan = {{"a", at::kFloat, {10}},
                                          {"b", at::kFloat, {10}},
                                          {"c", at::kFloat, {30}},
                                          {"d", at::kBFloat16, {2, 5}}};

at::Tensor Value(const PlannedTensor& t, double value) {
  return at::full(t.shape, value, t.dtype);
}

int64_t WriteAll(const fs::path& folder, int64_t max_shard_bytes) {
  auto writer = *ShardedWriter::Create(folder, kPlan, max_shard_bytes);
  double value = 0;
  for (const PlannedTensor& t : kPlan) {
    EXPECT_TRUE(writer->Append(Value(t, ++value)).ok());
  }
  EXPECT_TRUE(writer->Finish().ok());
  return writer->shard_count();
}

void ExpectAll(const fs::path& folder) {
  const auto weights = *Weights::Open(folder);
  double value = 0;
  for (const PlannedTensor& t : kPlan) {
    const auto read = weights->Load(t.name, t.shape, at::kCPU, t.dtype).value();
    EXPECT_TRUE(at::equal(read, Value(t, ++value)));
  }
}

TEST(ShardedWriterTest, OneFileWhereAllFits) {
  const fs::path folder = FreshFolder("one");
  EXPECT_EQ(WriteAll(folder, 1000), 1);
  EXPECT_TRUE(fs::exists(folder / "model.safetensors"));
  EXPECT_FALSE(fs::exists(folder / "model.safetensors.index.json"));
  ExpectAll(folder);
}

TEST(ShardedWriterTest, ShardsAndAnIndexAsSavePretrainedWritesThem) {
  const fs::path folder = FreshFolder("shards");
  // a and b fill a file, c alone is larger than one may be.
  EXPECT_EQ(WriteAll(folder, 80), 3);
  ExpectAll(folder);
  const auto index = nlohmann::json::parse(
      *base::ReadFile(folder / "model.safetensors.index.json"));
  EXPECT_EQ(index, nlohmann::json::parse(R"({
    "metadata": {"total_parameters": 60, "total_size": 220},
    "weight_map": {"a": "model-00001-of-00003.safetensors",
                   "b": "model-00001-of-00003.safetensors",
                   "c": "model-00002-of-00003.safetensors",
                   "d": "model-00003-of-00003.safetensors"}})"));
}

TEST(ParseByteSizeTest, SpellsSizesAsTransformersDoes) {
  EXPECT_EQ(*ParseByteSize("5GB"), 5'000'000'000);
  EXPECT_EQ(*ParseByteSize("200MiB"), 200 << 20);
  EXPECT_EQ(*ParseByteSize("4096"), 4096);
  for (const char* bad :
       {"", "GB", "5 gigabytes", "-1GB", "0", "1.5GB", "9999999999999GB"}) {
    EXPECT_FALSE(ParseByteSize(bad).ok()) << bad;
  }
}

fs::path Golden(const std::string& name) {
  return fs::path(MPSD_TEST_SOURCE_DIR) / "tests/golden" / name / "model";
}

TEST(WeightsTest, ShardsReadAsTheWholeFile) {
  auto whole = Weights::Open(Golden("llama2"));
  auto shards = Weights::Open(Golden("llama2_sharded"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_TRUE(shards.ok()) << shards.status();
  EXPECT_GT((*shards)->files().size(), 1u);
  ASSERT_EQ((*whole)->names(), (*shards)->names());
  auto file = *SafetensorsFile::Open(Golden("llama2") / "model.safetensors");
  for (const auto& [name, entry] : file->entries()) {
    auto tensor = *(*shards)->Load(name, entry.shape, at::kCPU, entry.dtype);
    EXPECT_TRUE(at::equal(tensor, *file->Load(name))) << name;
  }
}

TEST(WeightsTest, NamesWhatIsMissingOrMisshapen) {
  auto weights = *Weights::Open(Golden("llama2"));
  EXPECT_THAT(weights->Load("no.such", {1}, at::kCPU, at::kFloat),
              Fails(absl::StatusCode::kNotFound, "no.such"));
  EXPECT_THAT(
      weights->Load("model.norm.weight", {1}, at::kCPU, at::kFloat),
      Fails(absl::StatusCode::kInvalidArgument, "config.json asks for"));
}

class BadFolderTest : public testing::Test {
 protected:
  void WriteIndex(const std::string& text) {
    std::ofstream(dir_ / "model.safetensors.index.json") << text;
  }
  const fs::path dir_ = FreshFolder("weights");
};

TEST_F(BadFolderTest, SaysWhatItLookedForAndLeavesTheFolderForNoIndex) {
  EXPECT_THAT(Weights::Open(dir_),
              Fails(absl::StatusCode::kNotFound, "model.safetensors"));
  WriteIndex(R"({"weight_map": {"x": "../secret.safetensors"}})");
  EXPECT_TRUE(absl::IsInvalidArgument(Weights::Open(dir_).status()));
  WriteIndex("[]");
  EXPECT_TRUE(absl::IsInvalidArgument(Weights::Open(dir_).status()));
  WriteIndex(R"({"weight_map": {"x": "gone.safetensors"}})");
  EXPECT_THAT(Weights::Open(dir_),
              Fails(absl::StatusCode::kNotFound, "gone.safetensors"));
}

}  // namespace
}  // namespace mpsd::tensorfile
