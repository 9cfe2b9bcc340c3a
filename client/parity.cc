// SPDX-License-Identifier: Apache-2.0
#include "client/parity.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/against.h"
#include "client/given.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"

namespace mpsd::client {
namespace {

constexpr int kShownSteps = 20;
constexpr int kShownTensors = 15;

struct Arguments {
  StudyArguments study;
  std::string against, device;
  int steps = 0;
};

std::string Figure(double value) { return absl::StrFormat("%.3g", value); }

const char* RoleName(v1::TensorRole role) {
  switch (role) {
    case v1::TENSOR_ROLE_GRADIENT:
      return "gradient, step 1";
    case v1::TENSOR_ROLE_FIRST_VALUE:
      return "value, step 1";
    case v1::TENSOR_ROLE_LAST_VALUE:
      return "value, last step";
    default:
      return "-";
  }
}

void PrintSteps(const v1::ParityResult& parity, std::ostream& out) {
  if (parity.steps().empty()) return;
  const bool norms = std::all_of(
      parity.steps().begin(), parity.steps().end(),
      [](const v1::ParityStep& s) { return s.has_reference_grad_norm(); });
  std::vector<std::string> header = {"STEP", "LOSS", "REFERENCE", "DIFFERENCE"};
  if (norms) header.insert(header.end(), {"GRAD NORM", "REFERENCE"});
  Table table(std::move(header));
  const int shown = std::min(parity.steps_size(), kShownSteps);
  for (int i = 0; i < shown; ++i) {
    const v1::ParityStep& step = parity.steps(i);
    std::vector<std::string> cells = {
        absl::StrCat(step.step()), absl::StrFormat("%.6f", step.loss()),
        absl::StrFormat("%.6f", step.reference_loss()),
        Figure(step.loss_difference())};
    if (norms) {
      cells.push_back(absl::StrFormat("%.5g", step.grad_norm()));
      cells.push_back(absl::StrFormat("%.5g", step.reference_grad_norm()));
    }
    table.Add(std::move(cells));
  }
  table.Print(out, 0);
  if (parity.steps_size() > shown) {
    out << "… of " << parity.steps_size() << " steps; --json has all\n";
  }
}

void PrintTensors(const v1::ParityResult& parity, std::ostream& out) {
  if (parity.tensors_compared() == 0) return;
  out << parity.tensors_equal() << " of " << parity.tensors_compared()
      << " gradients and values are equal bit for bit\n";
  if (parity.tensors_equal() == parity.tensors_compared()) return;
  Table table({"WHAT", "MAX ABS", "RELATIVE", "NORM", "REFERENCE", "TENSOR"});
  const int shown = std::min(parity.tensors_size(), kShownTensors);
  for (int i = 0; i < shown; ++i) {
    const v1::TensorDelta& delta = parity.tensors(i);
    table.Add({RoleName(delta.role()), Figure(delta.max_abs()),
               Figure(delta.relative_l2()), Figure(delta.norm()),
               Figure(delta.reference_norm()), delta.name()});
  }
  table.Print(out, 0);
}

// The job's metric_for_best_model; empty where the file does not say. What is
// wrong with the file the daemon says.
std::string MetricOf(const std::string& job_file) {
  const auto text = base::ReadSmallFile(job_file, limits::kSpecBytes);
  if (!text.ok()) return "";
  const auto json = base::ParseTree<nlohmann::json>(*text);
  const nlohmann::json::json_pointer place("/training/metric_for_best_model");
  if (!json.is_object() || !json.contains(place)) return "";
  const nlohmann::json& metric = json[place];
  return metric.is_string() ? metric.get<std::string>() : "";
}

ExitCode Run(const Console& console, const Arguments& arguments) {
  v1::Study study;
  v1::ParityOptions& options = *study.mutable_parity();
  options.set_steps(arguments.steps);
  options.set_device(arguments.device);
  absl::Status set =
      AddThresholds(arguments.study.thresholds, options.mutable_thresholds());
  if (set.ok() && !arguments.against.empty()) {
    set = SetAgainst(arguments.against, MetricOf(arguments.study.job_file),
                     &options);
  }
  if (!set.ok()) {
    return console.Fail(ExitCode::kBadInput, set, "Nothing was submitted.");
  }
  return RunStudy(console, arguments.study, study, PrintParity);
}

}  // namespace

void PrintParity(const v1::StudyResult& result, const Console& console) {
  const v1::ParityResult& parity = result.parity();
  std::ostream& out = console.out;
  out << Printable(parity.device()) << " ("
      << Printable(parity.trace().description()) << "), "
      << Printable(parity.dtype());
  if (!parity.reference().empty()) {
    out << ", against " << Printable(parity.reference());
  }
  out << '\n';
  PrintSteps(parity, out);
  PrintTensors(parity, out);
}

void AddParity(Command& app, Action* action) {
  auto arguments = std::make_shared<Arguments>();
  Command* verb = app.add_subcommand(
      "parity",
      "Whether a device computes what another one does, or a recorded run did");
  DeclareStudy(*verb, &arguments->study);
  verb->add_option("--against", arguments->against,
                   "cpu, cuda or mps; a result of parity; metrics.jsonl; "
                   "trainer_state.json")
      ->type_name("WHAT")
      ->check(Given);
  verb->add_option("--steps", arguments->steps, "Steps to compare; default 10")
      ->type_name("N")
      ->check(Range(1, 5000));
  verb->add_option("--device", arguments->device,
                   "The device in question, in place of the job's")
      ->type_name("DEVICE")
      ->check(IsMember({"cpu", "cuda", "mps"}));
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(console, *arguments); };
  });
}

}  // namespace mpsd::client
