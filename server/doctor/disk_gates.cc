// SPDX-License-Identifier: Apache-2.0
// The disk of the state folder, and the volumes that jobs read.
#include <string>

#include "absl/strings/str_cat.h"
#include "server/doctor/finding_of.h"
#include "server/doctor/judge.h"
#include "server/doctor/texts.h"

namespace mpsd::doctor {
namespace {

using runbook::Finding;

Finding FreeGate(const Facts& facts, const runbook::Thresholds& thresholds) {
  constexpr char kName[] = "disk.free";
  const Disk& disk = facts.disk;
  if (!disk.free_bytes) return NotTold(kName);
  const auto free = static_cast<double>(*disk.free_bytes);
  std::string found = absl::StrCat(BytesText(free), " free");
  if (disk.size_bytes) {
    absl::StrAppend(&found, " of ",
                    BytesText(static_cast<double>(*disk.size_bytes)));
  }
  const auto least = static_cast<double>(disk.min_free_bytes);
  if (free < least) {
    return With(Fail(kName, found,
                     "No job starts below --min-free-bytes: make room; `mpsctl "
                     "gc` shows what nobody needs."),
                free, least, "bytes");
  }
  const double wanted = thresholds.Get("doctor.disk_free");
  if (free >= wanted) return With(Pass(kName, found), free, wanted, "bytes");
  return With(Warn(kName, found,
                   "Make room before a long job: `mpsctl gc` shows what "
                   "nobody needs."),
              free, wanted, "bytes");
}

Finding SpeedGate(const char* name, double speed, absl::Duration age,
                  double least) {
  std::string found = absl::StrCat(BytesText(speed), "/s");
  if (age > absl::Minutes(2)) {
    absl::StrAppend(&found, ", measured ", AgeText(age), " ago");
  }
  if (speed >= least) {
    return With(Pass(name, found), speed, least, "bytes/s");
  }
  return With(Warn(name, found,
                   "Checkpoints and models wait for this disk: put the state "
                   "folder on a faster one (--state-dir)."),
              speed, least, "bytes/s");
}

void JudgeSpeed(const Facts& facts, const runbook::Thresholds& thresholds,
                Findings& findings) {
  const Disk& disk = facts.disk;
  if (!disk.speed) {
    const std::string why = disk.speed_problem.empty()
                                ? "not measured: `mpsctl doctor --deep` does"
                                : "not measured: " + disk.speed_problem;
    findings.push_back(NotTold("disk.write", why));
    findings.push_back(NotTold("disk.read", why));
    return;
  }
  const absl::Duration age = facts.time - disk.speed->time;
  const double least = thresholds.Get("doctor.disk_speed");
  findings.push_back(
      SpeedGate("disk.write", disk.speed->write_bytes_per_second, age, least));
  findings.push_back(
      SpeedGate("disk.read", disk.speed->read_bytes_per_second, age, least));
}

Finding MountGate(const FolderMount& folder) {
  const std::string name = absl::StrCat("mount.", folder.what);
  if (!folder.mount) return NotTold(name);
  const host::Mount& mount = *folder.mount;
  const std::string found =
      absl::StrCat(Foreign(folder.folder), " on ", Foreign(mount.type),
                   mount.network ? ", a network volume from " : " of ",
                   Foreign(mount.source));
  if (mount.network && folder.what == "state") {
    return Fail(name, found,
                "A database on a network volume may be lost, and its locks do "
                "not hold: move the state folder to a disk of this machine.");
  }
  if (mount.network) {
    return Warn(name, found,
                "Each start waits for the network, and its stalls look like "
                "slow training: copy it to a disk of this machine.");
  }
  // Models and data are only read.
  if (mount.read_only && folder.what == "state") {
    return Fail(name, found + ", mounted read-only",
                "Mount it for writing: mpsd keeps everything there.");
  }
  return Pass(name, found);
}

}  // namespace

void JudgeDisk(const Facts& facts, const runbook::Thresholds& thresholds,
               Findings& findings) {
  findings.push_back(FreeGate(facts, thresholds));
  JudgeSpeed(facts, thresholds, findings);
  for (const FolderMount& folder : facts.mounts) {
    findings.push_back(MountGate(folder));
  }
}

}  // namespace mpsd::doctor
