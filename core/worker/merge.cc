// SPDX-License-Identifier: Apache-2.0
#include "core/lora/merge.h"

#include <c10/util/Exception.h>

#include <exception>
#include <filesystem>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/ckpt/safetensors_writer.h"
#include "core/full/model_card.h"
#include "core/lora/gguf.h"
#include "core/spec/train_spec.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"
#include "core/worker/verbs.h"
#include "nlohmann/json.hpp"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<spec::BaseModel> ModelOfAdapter(const fs::path& adapter) {
  const fs::path path = adapter / "adapter_config.json";
  ASSIGN_OR_RETURN(auto text, base::ReadFile(path));
  const auto config = base::ParseTree<nlohmann::json>(text);
  if (config.is_object() && config.contains("base_model_name_or_path") &&
      config["base_model_name_or_path"].is_string()) {
    spec::BaseModel base;
    base.name = config["base_model_name_or_path"].get<std::string>();
    const auto revision = config.value("revision", nlohmann::json());
    if (revision.is_string()) base.revision = revision.get<std::string>();
    return base;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": names no model; give --model"));
}

absl::StatusOr<std::optional<at::ScalarType>> DtypeOf(const std::string& word) {
  if (word.empty()) return std::nullopt;
  if (word == "float32") return at::kFloat;
  if (word == "bfloat16") return at::kBFloat16;
  if (word == "float16") return at::kHalf;
  return absl::InvalidArgumentError(absl::StrCat(
      "--dtype: expected float32, bfloat16 or float16, found ", word));
}

absl::StatusOr<merge::MergeOptions> OptionsOf(const MergeArguments& a) {
  merge::MergeOptions options;
  options.adapter = a.adapter;
  options.out = fs::absolute(a.out).lexically_normal();
  if (!a.facts.empty()) {
    ASSIGN_OR_RETURN(const plan::Facts facts, ReadFacts(a.facts));
    LimitToStart({.job_id = "",
                  .spec_path = fs::absolute(a.facts).string(),
                  .output_dir = "",
                  .read_roots = facts.read_roots,
                  .closed_roots = facts.closed_roots});
    options.max_compared_bytes = int64_t{1} << 30;
  }
  ASSIGN_OR_RETURN(auto base, a.model.empty() ? ModelOfAdapter(a.adapter)
                                              : spec::BaseModel{a.model, ""});
  ASSIGN_OR_RETURN(options.model, spec::FindBaseModel(base));
  ASSIGN_OR_RETURN(options.dtype, DtypeOf(a.dtype));
  ASSIGN_OR_RETURN(options.max_shard_bytes,
                   tensorfile::ParseByteSize(a.max_shard_size));
  return options;
}

absl::StatusOr<merge::MergeReport> Merge(const MergeArguments& arguments,
                                         std::ostream& out) {
  ASSIGN_OR_RETURN(auto options, OptionsOf(arguments));
  std::string stage;
  auto report = merge::Merge(options, [&](const std::string& now, double) {
    if (now != stage) out << now << "\n" << std::flush;
    stage = now;
  });
  if (!report.ok()) return report;
  out << absl::StrFormat(
      "%d weights merged, %d replaced; logits within %.1e of base and adapter "
      "(%d layers)\n%s in %d file%s: %s\n",
      report->merged_weights, report->replaced_weights, report->logit_error,
      report->compared_layers, base::BytesText(report->bytes), report->shards,
      report->shards == 1 ? "" : "s", options.out.string());
  return report;
}

constexpr std::string_view kGguf = "gguf-";

// Writes the GGUF file of the model, with the adapter merged into it if there
// is one.
absl::Status WriteGguf(const MergeArguments& arguments, gguf::Type type,
                       std::ostream& out) {
  ASSIGN_OR_RETURN(const auto options, OptionsOf(arguments));
  ASSIGN_OR_RETURN(auto staged, base::StagedFolder::Create(options.out));
  fs::path model = options.model;
  if (!arguments.adapter.empty()) {
    MergeArguments merge = arguments;
    model = merge.out = staged.staging() / "merged";
    RETURN_IF_ERROR(Merge(merge, out).status());
  }
  const std::string name = absl::StrCat(
      "model-", absl::AsciiStrToUpper(arguments.format.substr(kGguf.size())),
      ".gguf");
  out << "writing " << name << "\n" << std::flush;
  const absl::Status written =
      gguf::Write(model, staged.staging() / name, type);
  if (!written.ok()) {  // in terms of the model that the user knows
    return absl::Status(
        written.code(),
        absl::StrReplaceAll(written.message(),
                            {{model.string(), options.model.string()}}));
  }
  RETURN_IF_ERROR(full::ConvertCard(model, staged.staging(),
                                    full::CardLibrary::kGguf));
  if (!arguments.adapter.empty()) fs::remove_all(model);
  RETURN_IF_ERROR(base::WriteFileAtomic(staged.staging() / "Modelfile",
                                        absl::StrCat("FROM ./", name, "\n")));
  return staged.Commit();
}

absl::Status Export(const MergeArguments& arguments, std::ostream& out) {
  if (arguments.format == "merged") return Merge(arguments, out).status();
  if (arguments.format == "mlx-adapter") {
    ASSIGN_OR_RETURN(const auto options, OptionsOf(arguments));
    return merge::WriteMlxAdapter(options.model, options.adapter, options.out);
  }
  const std::optional<gguf::Type> known =
      arguments.format.starts_with(kGguf)
          ? gguf::TypeNamed(arguments.format.substr(kGguf.size()))
          : std::nullopt;
  if (known) return WriteGguf(arguments, *known, out);
  return absl::InvalidArgumentError(absl::StrCat(
      "--format: expected merged, mlx-adapter, gguf-f16, gguf-bf16 or "
      "gguf-q8_0, found ",
      arguments.format));
}

int Fail(const wire::Failed& failed, std::ostream& err) {
  err << "mpsd-worker: " << failed.message << "\n";
  return failed.kind == wire::FailureKind::kRejected ? 2 : 1;
}

}  // namespace

int RunMerge(const MergeArguments& arguments, std::ostream& out,
             std::ostream& err) {
  try {
    const absl::Status status = Export(arguments, out);
    return status.ok() ? 0 : Fail(FailureOf(status), err);
  } catch (const c10::Error& e) {
    return Fail(FailureOf(std::string(e.what_without_backtrace())), err);
  } catch (const std::exception& e) {
    return Fail({wire::FailureKind::kInternal, e.what()}, err);
  }
}

}  // namespace mpsd::worker
