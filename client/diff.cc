// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_id.h"
#include "client/spec_edit.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

struct Side {
  v1::Job job;
  v1::SubmitRequest request;
  bool has_request = false;
};

grpc::Status Fetch(const Console& console, const std::string& id, Side* side) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetJobRequest get;
  get.set_id(id);
  grpc::Status status = console.daemon.jobs().Get(&context, get, &side->job);
  if (!status.ok()) return status;
  grpc::ClientContext again;
  SetDeadline(again);
  v1::GetSubmissionRequest ask;
  ask.set_id(id);
  const grpc::Status kept =
      console.daemon.jobs().GetSubmission(&again, ask, &side->request);
  side->has_request = kept.ok();
  // FAILED_PRECONDITION: a job of a release that kept no requests.
  const bool none = kept.error_code() == grpc::StatusCode::FAILED_PRECONDITION;
  return none ? grpc::Status::OK : kept;
}

// What two jobs have under one name; "" where one has nothing.
struct Pair {
  std::string a, b;
};
// By name, in the order of the names' first use.
class Pairs {
 public:
  void Add(const std::string& name, size_t side, std::string value) {
    auto [at, added] = index_.emplace(name, rows_.size());
    if (added) rows_.push_back({name, {}});
    (side == 0 ? rows_[at->second].second.a : rows_[at->second].second.b) =
        std::move(value);
  }
  const std::vector<std::pair<std::string, Pair>>& rows() const {
    return rows_;
  }

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::pair<std::string, Pair>> rows_;
};

// The differences of two specs; and of what else the requests ask for.
Pairs SpecsOf(const std::array<Side, 2>& sides, bool requests) {
  std::array<std::string, 2> specs;
  Pairs pairs;
  for (size_t i = 0; i < 2; ++i) {
    specs[i] = requests ? WithDefaults(sides[i].request.spec_json())
                        : sides[i].job.spec_json();
  }
  for (const FieldChange& change : CompareSpecs(specs[0], specs[1])) {
    pairs.Add(change.field, 0, change.a);
    pairs.Add(change.field, 1, change.b);
  }
  if (sides[0].job.priority() != sides[1].job.priority()) {
    for (size_t i = 0; i < 2; ++i) {
      pairs.Add("(priority)", i, absl::StrCat(sides[i].job.priority()));
    }
  }
  return pairs;
}

// The files whose bytes differ, or that only one job has.
Pairs DataOf(const std::array<Side, 2>& sides) {
  std::map<std::string, Pair> files;
  for (const v1::InputFile& input : sides[0].request.inputs()) {
    files[input.path()].a = input.sha256();
  }
  for (const v1::InputFile& input : sides[1].request.inputs()) {
    files[input.path()].b = input.sha256();
  }
  Pairs pairs;
  for (const auto& [path, hashes] : files) {
    if (hashes.a == hashes.b) continue;
    pairs.Add(path, 0, hashes.a);
    pairs.Add(path, 1, hashes.b);
  }
  return pairs;
}

Pairs ResultsOf(const std::array<Side, 2>& sides) {
  Pairs pairs;
  for (size_t i = 0; i < 2; ++i) {
    const v1::Job& job = sides[i].job;
    pairs.Add("state", i, StateName(job.state()));
    if (job.has_progress()) {
      pairs.Add("step", i,
                absl::StrCat(job.progress().step(), "/",
                             job.progress().total_steps()));
    }
    if (job.has_train_loss()) {
      pairs.Add("train loss", i, Loss(job.train_loss()));
    }
    if (job.has_eval_loss_before()) {
      pairs.Add("eval loss before", i, Loss(job.eval_loss_before()));
    }
    if (job.has_eval_loss_after()) {
      pairs.Add("eval loss", i, Loss(job.eval_loss_after()));
    }
    if (job.has_best_evaluation()) {
      pairs.Add("best eval loss", i,
                absl::StrCat(Loss(job.best_evaluation().eval_loss()),
                             " at step ", job.best_evaluation().step()));
    }
    const std::map<std::string, double> metrics(job.metrics().begin(),
                                                job.metrics().end());
    for (const auto& [name, value] : metrics) pairs.Add(name, i, Loss(value));
    pairs.Add("device time", i, Seconds(job.device_seconds()));
  }
  return pairs;
}

// As JSON where the text is JSON.
Json ValueOf(const std::string& text) {
  if (text.empty()) return nullptr;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

Json ToJson(const Pairs& pairs, bool values) {
  Json json = Json::object();
  const auto value = [&](const std::string& text) {
    if (values) return ValueOf(text);
    return text.empty() ? Json(nullptr) : Json(text);
  };
  for (const auto& [name, pair] : pairs.rows()) {
    json[name] = {value(pair.a), value(pair.b)};
  }
  return json;
}

void PrintPairs(const Console& console, const char* what, const Pairs& pairs,
                const std::array<Side, 2>& sides, size_t most) {
  Table table({what, sides[0].job.id(), sides[1].job.id()});
  const auto cell = [&](const std::string& text) {
    return text.empty() ? "-" : text.substr(0, most);
  };
  for (const auto& [name, pair] : pairs.rows()) {
    table.Add({name, cell(pair.a), cell(pair.b)});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

void Print(const Console& console, const std::array<Side, 2>& sides,
           bool requests) {
  const Pairs specs = SpecsOf(sides, requests);
  if (specs.rows().empty()) {
    console.out << "The specs are the same.\n";
  } else {
    PrintPairs(console, "SPEC", specs, sides, std::string::npos);
  }
  if (requests) {
    constexpr size_t kShownHash = 12;
    const Pairs data = DataOf(sides);
    if (data.rows().empty()) {
      console.out << "\nThe data are the same: files uploaded "
                  << sides[0].request.inputs_size() << ".\n";
    } else {
      console.out << '\n';
      PrintPairs(console, "DATA (SHA-256)", data, sides, kShownHash);
    }
  }
  console.out << '\n';
  PrintPairs(console, "RESULT", ResultsOf(sides), sides, std::string::npos);
}

ExitCode Diff(const std::vector<std::string>& texts, const Console& console) {
  ExitCode code = ExitCode::kOk;
  std::array<Side, 2> sides;
  for (size_t i = 0; i < 2; ++i) {
    const auto id = ResolveJobId(console, texts[i], &code);
    if (!id) return code;
    const grpc::Status status = Fetch(console, *id, &sides[i]);
    if (!status.ok()) return console.Fail(status);
  }
  const bool requests = sides[0].has_request && sides[1].has_request;
  for (const Side& side : sides) {
    if (side.has_request) continue;
    console.err << "note: job " << side.job.id()
                << " was made by a release that kept no requests: paths are "
                   "the daemon's, and the data are not compared\n";
  }
  if (!console.json) {
    Print(console, sides, requests);
    return ExitCode::kOk;
  }
  Json json = {{"a", sides[0].job.id()}, {"b", sides[1].job.id()}};
  json["spec"] = ToJson(SpecsOf(sides, requests), /*values=*/true);
  if (requests) json["data"] = ToJson(DataOf(sides), /*values=*/false);
  json["jobs"] = {client::ToJson(sides[0].job), client::ToJson(sides[1].job)};
  console.out << json.dump(-1, ' ', false, Json::error_handler_t::replace)
              << '\n';
  return ExitCode::kOk;
}

}  // namespace

void AddDiff(Command& app, Action* action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  Command* verb = app.add_subcommand(
      "diff", "Compare two jobs: their specs, their data, their results");
  verb->add_option(kJobIdName, *ids, "The two jobs")
      ->required()
      ->expected(2)
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Diff(*ids, console); };
  });
}

}  // namespace mpsd::client
