// SPDX-License-Identifier: Apache-2.0
#include "client/runbook_page.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "client/runbook_steps.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/svg_chart.h"

namespace mpsd::client {
namespace {

using Findings = google::protobuf::RepeatedPtrField<v1::Finding>;

const v1::Finding* Find(const Findings& findings, const std::string& name) {
  const auto found =
      std::find_if(findings.begin(), findings.end(),
                   [&](const v1::Finding& f) { return f.name() == name; });
  return found == findings.end() ? nullptr : &*found;
}

void AddProof(v1::Runbook* runbook, const std::string& name,
              v1::Verdict verdict, const std::string& found) {
  v1::Finding& proof = *runbook->add_proofs();
  proof.set_name("proof." + name);
  proof.set_verdict(verdict);
  proof.set_found(found);
}

// A proof that is one of the doctor's findings.
void AddProofOf(v1::Runbook* runbook, const std::string& name,
                const std::string& gate) {
  const v1::Finding* finding = Find(runbook->doctor().findings(), gate);
  if (finding == nullptr || finding->verdict() == v1::VERDICT_UNSPECIFIED) {
    return AddProof(runbook, name, v1::VERDICT_FAIL,
                    finding == nullptr ? "doctor did not look"
                                       : "not told: " + finding->found());
  }
  AddProof(runbook, name, finding->verdict(), finding->found());
}

// The page as a list of sections, so that both its forms say the same.
struct Section {
  std::string heading;
  v1::Verdict verdict = v1::VERDICT_UNSPECIFIED;
  std::vector<std::string> lines;
  StepTable figures;  // what was measured
  StepTable findings;
  // The chart, which Markdown has as a file.
  std::string svg, svg_file;
};

void AddFindings(const Findings& findings, Section& section) {
  if (findings.empty()) return;
  section.findings.header = {"", "what", "found", "what to do"};
  for (const v1::Finding& finding : findings) {
    section.findings.rows.push_back({VerdictName(finding.verdict()),
                                     finding.name(), finding.found(),
                                     finding.advice()});
  }
}

Section OfStep(const std::string& heading, v1::Verdict verdict,
               const Findings& findings) {
  Section section;
  section.heading = heading;
  section.verdict = verdict;
  AddFindings(findings, section);
  return section;
}

Section OfStudy(const std::string& heading, const v1::StudyResult& result,
                const char* svg_file) {
  Section section = OfStep(heading, result.verdict(), result.findings());
  section.lines = StudyLines(result);
  section.lines.push_back(absl::StrCat("Job ", result.job_id(), "."));
  section.figures = StudyTable(result);
  section.svg = StudyChart(result);
  section.svg_file = svg_file;
  return section;
}

std::vector<Section> SectionsOf(const v1::Runbook& runbook) {
  std::vector<Section> sections;
  sections.push_back(
      OfStep("The final gate", runbook.verdict(), runbook.proofs()));
  if (runbook.has_doctor()) {
    sections.push_back(OfStep("1. The machine (doctor)",
                              runbook.doctor().verdict(),
                              runbook.doctor().findings()));
  }
  if (runbook.has_plan()) {
    Section plan = OfStep("2. The plan", runbook.plan().verdict(),
                          runbook.plan().findings());
    plan.lines = PlanLines(runbook.plan());
    sections.push_back(std::move(plan));
  }
  if (runbook.has_batch_sweep()) {
    sections.push_back(
        OfStudy("3. The sweep of batches", runbook.batch_sweep(), "sweep.svg"));
  }
  if (runbook.has_smoke()) {
    sections.push_back(OfStudy("4. Smoke: memory over short epochs",
                               runbook.smoke(), "smoke.svg"));
  }
  if (runbook.has_parity()) {
    sections.push_back(OfStudy("5. Parity", runbook.parity(), ""));
  }
  if (!runbook.not_taken().empty()) {
    Section left;
    left.heading = "Steps that were not taken";
    left.lines.assign(runbook.not_taken().begin(), runbook.not_taken().end());
    sections.push_back(std::move(left));
  }
  return sections;
}

std::string TitleOf(const v1::Runbook& runbook) {
  return absl::StrCat("Fit to promise: ",
                      runbook.name().empty() ? "a job" : runbook.name());
}

std::string SayingOf(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_PASS:
      return "Fit to promise.";
    case v1::VERDICT_WARN:
      return "Fit to promise with the reservations below.";
    default:
      return "Not fit to promise.";
  }
}

std::string AboutOf(const v1::Runbook& runbook) {
  return absl::StrCat(
      "Model ", runbook.model(), ", at ", runbook.server(), ", ",
      DateTime(ToTime(runbook.time()), absl::UTCTimeZone()), " UTC.");
}

// A text within a line or a cell of Markdown: nothing of it is markup.
std::string Markdown(const std::string& text) {
  return absl::StrReplaceAll(Printable(text), {{"\\", "\\\\"},
                                               {"|", "\\|"},
                                               {"<", "&lt;"},
                                               {">", "&gt;"},
                                               {"&", "&amp;"},
                                               {"[", "\\["},
                                               {"]", "\\]"},
                                               {"*", "\\*"},
                                               {"_", "\\_"},
                                               {"#", "\\#"},
                                               {"`", "\\`"}});
}

std::string Html(const std::string& text) { return XmlText(Printable(text)); }

std::string ClassOf(v1::Verdict verdict) {
  const std::string name = VerdictName(verdict);
  return name == "-" ? "untold" : name;
}

constexpr char kStyle[] = R"css(
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem;
  border-bottom: 1px solid #8884; overflow-wrap: anywhere; }
.findings td:nth-child(-n+2) { white-space: nowrap; }
.figures { width: auto; }
.figures td, .figures th { text-align: right; white-space: nowrap; }
.figures td:last-child { text-align: left; white-space: normal; }
.verdict { border-radius: .3rem; padding: 0 .5rem; border: 1px solid; }
.ok { color: #00734f; } .warn { color: #a04c00; } .fail { color: #c01030; }
@media (prefers-color-scheme: dark) {
  .ok { color: #4fd1a1; } .warn { color: #ffb060; } .fail { color: #ff8090; }
}
svg { width: 100%; height: auto; }
)css";

void AppendTable(const StepTable& table, const char* kind, std::string* out) {
  if (table.rows.empty()) return;
  absl::StrAppend(out, "<table class=\"", kind, "\"><tr>");
  for (const std::string& name : table.header) {
    absl::StrAppend(out, "<th>", Html(name), "</th>");
  }
  absl::StrAppend(out, "</tr>\n");
  for (const auto& row : table.rows) {
    absl::StrAppend(out, "<tr>");
    for (const std::string& cell : row) {
      absl::StrAppend(out, "<td>", Html(cell), "</td>");
    }
    absl::StrAppend(out, "</tr>\n");
  }
  absl::StrAppend(out, "</table>\n");
}

void AppendMarkdownTable(const StepTable& table, std::string* out) {
  if (table.rows.empty()) return;
  std::string rule;
  for (const std::string& name : table.header) {
    absl::StrAppend(out, "| ", Markdown(name), " ");
    rule += "|---";
  }
  absl::StrAppend(out, "|\n", rule, "|\n");
  for (const auto& row : table.rows) {
    for (const std::string& cell : row) {
      absl::StrAppend(out, "| ", Markdown(cell), " ");
    }
    absl::StrAppend(out, "|\n");
  }
  absl::StrAppend(out, "\n");
}

}  // namespace

void JudgeRunbook(v1::Runbook* runbook) {
  runbook->clear_proofs();
  AddProofOf(runbook, "architecture", kArchitectureGate);
  AddProofOf(runbook, "device", kDeviceGate);
  const auto add = [&](const char* name, const v1::StudyResult& result,
                       bool is_there, const std::string& found) {
    AddProof(runbook, name, is_there ? result.verdict() : v1::VERDICT_FAIL,
             is_there ? found : "there is none");
  };
  add("batch_sweep", runbook->batch_sweep(), HasBatches(*runbook),
      absl::StrCat("job ", runbook->batch_sweep().job_id()));
  add("memory_curve", runbook->smoke(), HasMemoryCurve(*runbook),
      absl::StrCat("job ", runbook->smoke().job_id()));
  v1::Verdict worst = v1::VERDICT_PASS;
  const auto take = [&](v1::Verdict verdict) {
    worst = std::max(worst, verdict);
  };
  for (const v1::Finding& proof : runbook->proofs()) take(proof.verdict());
  take(runbook->doctor().verdict());
  take(runbook->plan().verdict());
  take(runbook->parity().verdict());
  if (!runbook->not_taken().empty()) take(v1::VERDICT_FAIL);
  runbook->set_verdict(worst);
}

std::string RunbookMarkdown(const v1::Runbook& runbook) {
  std::string out = absl::StrCat("# ", Markdown(TitleOf(runbook)), "\n\n**",
                                 SayingOf(runbook.verdict()), "** ",
                                 Markdown(AboutOf(runbook)), "\n");
  for (const Section& section : SectionsOf(runbook)) {
    absl::StrAppend(&out, "\n## ", Markdown(section.heading));
    if (section.verdict != v1::VERDICT_UNSPECIFIED) {
      absl::StrAppend(&out, ": ", VerdictName(section.verdict));
    }
    absl::StrAppend(&out, "\n\n");
    for (const std::string& line : section.lines) {
      absl::StrAppend(&out, Markdown(line), "\n\n");
    }
    AppendMarkdownTable(section.figures, &out);
    if (!section.svg.empty()) {
      absl::StrAppend(&out, "![", Markdown(section.heading), "](",
                      section.svg_file, ")\n\n");
    }
    AppendMarkdownTable(section.findings, &out);
  }
  return out;
}

std::map<std::string, std::string> RunbookPictures(const v1::Runbook& runbook) {
  std::map<std::string, std::string> pictures;
  for (const Section& section : SectionsOf(runbook)) {
    if (!section.svg.empty()) pictures[section.svg_file] = section.svg;
  }
  return pictures;
}

std::string RunbookHtml(const v1::Runbook& runbook) {
  std::string out = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
      "'none'; style-src 'unsafe-inline'\">\n<title>",
      Html(TitleOf(runbook)), "</title>\n<style>", kStyle,
      "</style></head><body>\n<h1>", Html(TitleOf(runbook)),
      "</h1>\n<p><strong class=\"", ClassOf(runbook.verdict()), "\">",
      SayingOf(runbook.verdict()), "</strong> ", Html(AboutOf(runbook)),
      "</p>\n");
  for (const Section& section : SectionsOf(runbook)) {
    absl::StrAppend(&out, "<h2>", Html(section.heading));
    if (section.verdict != v1::VERDICT_UNSPECIFIED) {
      absl::StrAppend(&out, " <span class=\"verdict ", ClassOf(section.verdict),
                      "\">", VerdictName(section.verdict), "</span>");
    }
    absl::StrAppend(&out, "</h2>\n");
    for (const std::string& line : section.lines) {
      absl::StrAppend(&out, "<p>", Html(line), "</p>\n");
    }
    AppendTable(section.figures, "figures", &out);
    absl::StrAppend(&out, section.svg);
    AppendTable(section.findings, "findings", &out);
  }
  return out + "</body></html>\n";
}

}  // namespace mpsd::client
