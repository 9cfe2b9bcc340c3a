// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/model_folder.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job_deletion.h"

namespace mpsd::jobs {

namespace fs = std::filesystem;
namespace {

// Makes a hard link, so that the file stays when the blob store drops its own
// name, and so that the store sees the use. A symbolic link where the file
// system has no hard links; a copy where the file has too many.
absl::Status LinkFile(const fs::path& target, const fs::path& link) {
  std::error_code error;
  fs::create_directories(link.parent_path(), error);
  if (error) {
    return base::ErrnoStatus(error.value(), link.parent_path().string());
  }
  fs::create_hard_link(target, link, error);
  if (error == std::errc::too_many_links) {
    fs::copy_file(target, link, error);
    if (!error) return base::SyncPath(link, O_RDONLY);
  } else if (error && error != std::errc::no_such_file_or_directory) {
    fs::create_symlink(target, link, error);
  }
  if (error) return base::ErrnoStatus(error.value(), link.string());
  return absl::OkStatus();
}

absl::Status WriteFile(const fs::path& path, const std::string& bytes) {
  ASSIGN_OR_RETURN(std::unique_ptr<base::AtomicFile> file,
                   base::AtomicFile::Create(path));
  absl::Status status = file->Append(bytes);
  return status.ok() ? file->CommitUnsynced() : status;
}

absl::Status FoldersBelow(const fs::path& folder,
                          std::vector<fs::path>& folders) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory() && !entry->is_symlink()) {
      folders.push_back(entry->path());
    }
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return absl::OkStatus();
}

// The error for a link whose name is taken by an earlier link: this file system
// ignores case, or normalizes accents, and considers the two names equal.
absl::Status TwoInOne(const std::vector<JobFiles::Link>& links, size_t taken,
                      const fs::path& inputs) {
  const std::string& name = links[taken].relative;
  const std::string* other = nullptr;
  for (size_t i = 0; i < taken; ++i) {
    const std::string& earlier = links[i].relative;
    std::error_code ignored;
    // Two links to one blob collide as well; names that differ only in case are
    // the likelier cause.
    if (absl::EqualsIgnoreCase(earlier, name)) {
      other = &earlier;
      break;
    }
    if (fs::equivalent(inputs / earlier, inputs / name, ignored)) {
      other = &earlier;
    }
  }
  if (other == nullptr) {
    return base::ErrnoStatus(EEXIST, (inputs / name).string());
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "inputs: '", *other, "' and '", name,
      "' are one name on the daemon's file system: rename one of the files"));
}

// Flushes the folders of the links; the targets are durable already.
absl::Status Stage(const fs::path& staging, const std::string& spec_json,
                   const std::string& request_json,
                   const std::vector<JobFiles::Link>& links,
                   const Wanted& wanted) {
  std::error_code error;
  fs::create_directories(staging, error);
  if (error) return base::ErrnoStatus(error.value(), staging.string());
  const fs::path inputs = staging / "inputs";
  for (size_t i = 0; i < links.size(); ++i) {
    absl::Status status = StillWanted(wanted);
    if (status.ok()) {
      status = LinkFile(links[i].target, inputs / links[i].relative);
      if (absl::IsAlreadyExists(status)) status = TwoInOne(links, i, inputs);
    }
    if (!status.ok()) return status;
  }
  std::vector<fs::path> flushed = {staging / "job.json",
                                   staging / RequestFile::kFile, staging};
  absl::Status status = WriteFile(flushed[0], spec_json + "\n");
  if (status.ok()) status = WriteFile(flushed[1], request_json);
  const std::string names = InputNames::Encode(links);
  if (status.ok() && !names.empty()) {
    status = WriteFile(staging / InputNames::kFile, names);
  }
  if (status.ok()) status = FoldersBelow(staging, flushed);
  if (status.ok()) status = StillWanted(wanted);
  return status.ok() ? base::SyncAll(flushed) : status;
}

}  // namespace

absl::Status JobFiles::Create(const std::string& job_id,
                              const std::string& spec_json,
                              const std::string& request_json,
                              const std::vector<Link>& links,
                              const Wanted& wanted) {
  const fs::path folder = Folder(job_id);
  const fs::path staging = base::TemporaryBeside(folder);
  std::vector<fs::path> above = {folder.parent_path()};
  // The check comes before Stage, which also makes STATE/jobs if it is missing:
  // the entry of a new folder is durable only after a flush of its parent.
  if (!Exists(above.front())) above.push_back(above.front().parent_path());
  absl::Status status = Stage(staging, spec_json, request_json, links, wanted);
  std::error_code error;
  // Stage flushes before the rename, so a power cut leaves the whole folder or
  // a staged one, which the next start removes.
  if (status.ok()) fs::rename(staging, folder, error);
  if (error) status = base::ErrnoStatus(error.value(), folder.string());
  if (status.ok()) status = base::SyncAll(above);
  if (status.ok()) return status;
  fs::remove_all(staging, error);
  Remove(job_id);
  return status;
}

absl::Status JobFiles::ReplaceSpec(const std::string& job_id,
                                   const std::string& spec_json) {
  ASSIGN_OR_RETURN(std::unique_ptr<base::AtomicFile> file,
                   base::AtomicFile::Create(SpecPath(job_id)));
  absl::Status status = file->Append(spec_json + "\n");
  return status.ok() ? file->Commit() : status;
}

void JobFiles::Remove(const std::string& job_id) {
  std::error_code ignored;
  fs::remove_all(Folder(job_id), ignored);
}

absl::Status JobFiles::BeginDelete(const std::string& job_id) {
  return MarkForDeletion(Folder(job_id));
}

int64_t JobFiles::FinishDelete(const std::string& job_id) {
  return RemoveMarkedFolder(Folder(job_id));
}

void JobFiles::AbandonDelete(const std::string& job_id) {
  UnmarkForDeletion(Folder(job_id));
}

absl::Status JobFiles::RemoveRun(const std::string& job_id) {
  const fs::path out = OutputDir(job_id);
  std::error_code error;
  fs::remove_all(out, error);
  return error ? base::ErrnoStatus(error.value(), out.string())
               : absl::OkStatus();
}

absl::StatusOr<int64_t> JobFiles::RemoveCheckpoints(const std::string& job_id) {
  return RemoveCheckpointsOf(Folder(job_id));
}

bool JobFiles::MakeRoom() { return ThrowOffBallast(BallastPath(jobs_dir())); }

absl::Status JobFiles::WithRoom(const std::function<absl::Status()>& write) {
  const absl::Status written = write();
  return absl::IsResourceExhausted(written) && MakeRoom() ? write() : written;
}

void JobFiles::AppendLog(const std::string& job_id, const std::string& line) {
  const int fd = open(LogPath(job_id).c_str(),
                      O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string text = absl::StrCat(
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(),
                       absl::UTCTimeZone()),
      " mpsd: ", base::Indented(base::Printable(line, base::Breaks::kKeep)),
      "\n");
  // A log line for which the disk has no space is lost; the job continues.
  [[maybe_unused]] ssize_t n = write(fd, text.data(), text.size());
  close(fd);
}

bool JobFiles::Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored) || (!path.starts_with(state_dir_.string()) &&
                                       !PlaceInState(path).empty());
}

bool JobFiles::IsOurs(const fs::path& place,
                      const std::vector<fs::path>& allowed,
                      const std::string& path) {
  std::vector<fs::path> open = allowed;
  open.push_back("/");
  return base::ReadRoots({"/"}).Contain(path) &&
         !base::ReadRoots(open, {place}).Contain(path);
}

std::string JobFiles::PlaceInState(const std::string& path) {
  const auto real = base::ResolveLinks(path);
  const auto state = base::ResolveLinks(state_dir_);
  if (!real || !state) return "";
  const fs::path place = real->lexically_relative(*state);
  return place.empty() || *place.begin() == ".." ? "" : place.string();
}

std::string JobFiles::JobAt(const std::string& path) {
  const fs::path place = PlaceInState(path);
  auto part = place.begin();
  if (part == place.end() || *part != "jobs") return "";
  return ++part == place.end() ? "." : part->string();
}

std::string JobFiles::StampOf(const std::string& path) {
  if (path.starts_with(absl::StrCat(state_dir_.string(), "/"))) return "";
  std::error_code error;
  std::vector<fs::path> files = {path};
  if (fs::is_directory(path, error)) {
    files.clear();
    for (fs::directory_iterator it(path, error), end; !error && it != end;
         it.increment(error)) {
      if (spec::IsModelFile(it->path().filename().string())) {
        files.push_back(it->path());
      }
    }
    std::sort(files.begin(), files.end());
  }
  base::Sha256 stamp;
  for (const fs::path& file : files) {
    struct stat info;
    if (stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const timespec time = base::ModificationTime(info);
    stamp.Update(absl::StrCat(file.string(), "|", info.st_size, "|",
                              time.tv_sec, ".", time.tv_nsec, "\n"));
  }
  return stamp.FinishHex();
}

std::vector<fs::path> JobFiles::FoldersFor(Use use) const {
  std::vector<fs::path> folders;
  const auto add = [&](const std::vector<fs::path>& more) {
    folders.insert(folders.end(), more.begin(), more.end());
  };
  if (use != Use::kData) add(folders_.models);
  if (use != Use::kModel) add(folders_.data);
  return folders;
}

absl::Status JobFiles::MayRead(const std::string& path, Use use) {
  const std::vector<fs::path> folders = FoldersFor(use);
  const std::string job = JobAt(path);
  const bool of_a_job = !job.empty() && job != ".";
  const bool secret = !of_a_job && IsOurs(state_dir_, folders, path);
  const bool inside = !secret && base::ReadRoots(folders).Contain(path);
  const bool no_model =
      use == Use::kModel && IsOurs(jobs_dir_, folders_.models, path);
  if (inside && !no_model) return absl::OkStatus();
  if (inside) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", path,
                     "' belongs to a job and is not a model for others: copy "
                     "the model to another folder, or have mpsd started with "
                     "--model-root for a folder in ",
                     jobs_dir_.string()));
  }
  if (secret) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", path,
        "' lies in mpsd's own folder, of which jobs may read only the folders "
        "of jobs: copy the file to another folder, or upload it"));
  }
  const auto name = [](std::string* out, const fs::path& folder) {
    out->append(folder.string());
  };
  return absl::FailedPreconditionError(absl::StrCat(
      "'", path, "' is not below a folder that jobs may read here (",
      folders.empty() ? "there is none" : absl::StrJoin(folders, ", ", name),
      "); upload it, as mpsctl does with data, or have mpsd started with ",
      use == Use::kData ? "--data-root" : "--model-root", " for its folder"));
}

std::optional<int64_t> JobFiles::FreeBytes() {
  std::error_code error;
  const fs::space_info space = fs::space(jobs_dir_.parent_path(), error);
  if (error) return std::nullopt;
  return static_cast<int64_t>(space.available);
}

absl::Status JobFiles::NoModel(const std::string& model) {
  const std::string shown = base::Quotable(model);
  if (fs::path(model).is_absolute()) {
    return absl::NotFoundError(absl::StrCat(
        "there is no ", Exists(model) ? "config.json in the" : "model",
        " folder '", shown, "' on mpsd's machine: send yours ",
        "with `mpsctl model push FOLDER` and name the model as that says, or "
        "name a folder with config.json that is there"));
  }
  const std::string id = spec::ParseHubName(model).id;
  if (spec::IdOfRepository(spec::RepositoryName(id)) != id) {
    return absl::NotFoundError(
        absl::StrCat("'", shown,
                     "' is neither the absolute path of a folder on mpsd's "
                     "machine nor the name of a model (`mpsctl model list`)"));
  }
  const std::string alike = pushed_ == nullptr ? "" : pushed_->Alike(model);
  const std::string pull =
      can_pull_ && can_pull_(id)
          ? absl::StrCat("fetch it from the hub with `mpsctl model pull ",
                         shown, "`, or ")
          : "";
  return absl::NotFoundError(absl::StrCat(
      "mpsd has no model '", shown, "'",
      alike.empty() ? ": "
                    : absl::StrCat("; did you mean '", alike, "'? Else "),
      pull, "send a folder of yours with `mpsctl model push FOLDER --name ",
      shown, "`, or name one of `mpsctl model list`"));
}

absl::StatusOr<JobFiles::Model> JobFiles::FindModel(const std::string& model) {
  const bool named = fs::path(model).is_absolute();
  if (named) {
    RETURN_IF_ERROR(MayRead(model, Use::kModel));
  } else if (pushed_ != nullptr) {
    std::optional<ModelFinder::Found> found = pushed_->Find(model);
    if (found) {
      ASSIGN_OR_RETURN(spec::ModelConfig config,
                       spec::ReadModelConfig(found->folder));
      return Model{found->folder, std::move(config), std::move(found->lease)};
    }
  }
  absl::StatusOr<std::string> folder =
      named ? spec::FindModelFolder(model) : spec::FindInHubCache(model);
  if (absl::IsNotFound(folder.status())) return NoModel(model);
  if (!folder.ok()) return folder.status();
  // config.json may be a link that leaves the folder.
  RETURN_IF_ERROR(MayRead(*folder + "/config.json", Use::kModel));
  // The link may change after the check: what is opened is checked again.
  const base::ReadRoots within(FoldersFor(Use::kModel), {state_dir_});
  ASSIGN_OR_RETURN(spec::ModelConfig config,
                   spec::ReadModelConfig(*folder, &within));
  return Model{fs::absolute(*folder).lexically_normal(), std::move(config)};
}

absl::StatusOr<JobFiles::Model> JobFiles::ReadResult(
    const std::string& folder) {
  const fs::path normal = fs::path(folder).lexically_normal();
  const base::ReadRoots within({normal});
  if (!base::ReadRoots({jobs_dir_}).Contain(normal)) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder, "' is not a result of a job"));
  }
  ASSIGN_OR_RETURN(spec::ModelConfig config,
                   spec::ReadModelConfig(normal.string(), &within));
  return Model{normal.string(), std::move(config)};
}

namespace {

using Json = nlohmann::json;

constexpr size_t kLargestFile = 256 << 20;

// The member `name` of `json`, if it has the type; else `value`.
template <typename T>
void Take(const Json& json, const char* name, T& value) {
  const auto found = json.find(name);
  if (found == json.end()) return;
  if constexpr (std::is_same_v<T, bool>) {
    if (found->is_boolean()) value = found->get<bool>();
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    if (found->is_number()) value = found->template get<double>();
  } else if constexpr (std::is_integral_v<T>) {
    if (found->is_number_integer()) value = found->get<T>();
  } else {
    if (found->is_string()) value = found->get<T>();
  }
}

std::string Dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

using Member = std::pair<std::string_view, std::string_view>;

// A JSON object of texts, with room for `more` bytes. Is written without one in
// memory, which for 120,000 files would take 40 MB.
std::string ObjectOf(std::vector<Member> members, size_t more = 0) {
  std::sort(members.begin(), members.end());
  std::string object = "{";
  for (const auto& [name, value] : members) {
    more += name.size() + value.size() + sizeof(R"("":"",)");
  }
  object.reserve(more);
  for (const auto& [name, value] : members) {
    absl::StrAppend(&object, object.size() == 1 ? "" : ",",
                    Dumped(std::string(name)), ":", Dumped(std::string(value)));
  }
  object += '}';
  return object;
}

std::optional<SubmitRequest> Decode(const std::string& text) {
  const Json json = base::ParseTree<Json>(text);
  if (!json.is_object()) return std::nullopt;
  SubmitRequest request;
  int kind = static_cast<int>(request.kind);
  Take(json, "kind", kind);
  request.kind = report::Numbered(kJobKinds, kind).value_or(request.kind);
  Take(json, "spec_json", request.spec_json);
  Take(json, "study_json", request.study_json);
  Take(json, "priority", request.priority);
  Take(json, "anyway", request.anyway);
  Take(json, "held", request.held);
  Take(json, "round_trip_seconds", request.round_trip_seconds);
  if (const auto all = json.find("inputs");
      all != json.end() && all->is_object()) {
    for (const auto& [path, sha256] : all->items()) {
      if (!sha256.is_string()) return std::nullopt;
      request.inputs.push_back({path, sha256.get<std::string>()});
    }
  }
  if (const auto all = json.find("labels");
      all != json.end() && all->is_object()) {
    for (const auto& [key, value] : all->items()) {
      if (!value.is_string()) return std::nullopt;
      request.labels[key] = value.get<std::string>();
    }
  }
  if (const auto all = json.find("after");
      all != json.end() && all->is_array()) {
    for (const Json& id : *all) {
      if (!id.is_string()) return std::nullopt;
      request.after.push_back(id.get<std::string>());
    }
  }
  if (request.spec_json.empty()) return std::nullopt;
  return request;
}

}  // namespace

std::string WithInputs(const std::string& json,
                       const std::vector<InputFile>& inputs) {
  constexpr std::string_view kName = R"("inputs":)", kNull = "null";
  std::vector<Member> members;
  for (const InputFile& input : inputs) {
    members.emplace_back(input.path, input.sha256);
  }
  // Quotation marks in texts before it would be escaped.
  const size_t at = json.find(R"("inputs":null)");
  base::Check(at != std::string::npos, "the request has a place for inputs");
  std::string text = ObjectOf(std::move(members), json.size());
  text.insert(0, json, 0, at + kName.size());
  text.append(json, at + kName.size() + kNull.size());
  return text;
}

std::string RequestFile::Encode(const SubmitRequest& request) {
  Json json = {{"kind", static_cast<int>(request.kind)},
               {"spec_json", request.spec_json},
               {"study_json", request.study_json},
               {"inputs", nullptr},
               {"priority", request.priority},
               {"labels", request.labels},
               {"anyway", request.anyway},
               {"held", request.held},
               {"after", request.after}};
  if (request.round_trip_seconds) {
    json["round_trip_seconds"] = *request.round_trip_seconds;
  }
  return WithInputs(Dumped(json), request.inputs);
}

absl::StatusOr<SubmitRequest> RequestFile::Read(
    const std::filesystem::path& folder) {
  const std::string id = folder.filename().string();
  const absl::StatusOr<std::string> text =
      base::ReadSmallFile(folder / kFile, kLargestFile);
  if (absl::IsNotFound(text.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id,
                     " was submitted to a release of mpsd that kept no "
                     "requests: take its spec (`mpsctl --json show ",
                     id, "`) and submit that with the data"));
  }
  if (!text.ok()) return text.status();
  std::optional<SubmitRequest> request = Decode(*text);
  if (request) return *std::move(request);
  return absl::DataLossError(
      absl::StrCat((folder / kFile).string(), " is malformed"));
}

namespace {

constexpr int kMostPaths = 16;

}  // namespace

std::string InputNames::Encode(const std::vector<JobFiles::Link>& links) {
  std::vector<Member> names;
  for (const JobFiles::Link& link : links) {
    if (!link.spelled.empty()) names.emplace_back(link.relative, link.spelled);
  }
  return names.empty() ? "" : ObjectOf(std::move(names));
}

InputNames::InputNames(const std::filesystem::path& folder)
    : inputs_((folder / "inputs").string() + "/") {
  absl::StatusOr<std::string> text =
      base::ReadSmallFile(folder / kFile, kLargestFile);
  if (!text.ok()) return;
  const Json names = base::ParseTree<Json>(*text);
  if (!names.is_object()) return;
  for (const auto& [place, spelled] : names.items()) {
    if (!spelled.is_string()) continue;
    longest_ = std::max(longest_, place.size());
    names_[place] = spelled.get<std::string>();
  }
}

std::string InputNames::Respelled(std::string_view text) const {
  std::string respelled;
  for (int i = 0; i < kMostPaths; ++i) {
    const size_t at = text.find(inputs_);
    if (at == std::string_view::npos) break;
    respelled.append(text.substr(0, at));
    text.remove_prefix(at + inputs_.size());
    const auto [spelled, bytes] = Spelling(text);
    respelled.append(spelled);
    text.remove_prefix(bytes);
  }
  return respelled.append(text);
}

std::pair<std::string, size_t> InputNames::Spelling(
    std::string_view rest) const {
  for (size_t size = std::min(rest.size(), longest_); size > 0; --size) {
    const auto file = names_.find(rest.substr(0, size));
    if (file != names_.end()) return {file->second, size};
  }
  // A folder is spelled as a file in the folder, without the file's own part.
  const std::string_view folder =
      rest.substr(0, rest.find_first_of(":;,'\"() \t\n"));
  std::string inside(folder);
  if (!folder.ends_with("/")) inside += '/';
  const auto file = names_.lower_bound(inside);
  if (folder.empty() || file == names_.end() ||
      !file->first.starts_with(inside)) {
    return {"", 0};  // spelled like its place
  }
  const std::string_view own =
      std::string_view(file->first).substr(folder.size());
  if (!file->second.ends_with(own)) return {"", 0};
  return {file->second.substr(0, file->second.size() - own.size()),
          folder.size()};
}

std::string AsSpelled(std::string text, const fs::path& folder,
                      const std::string& model_folder,
                      const std::string& model_name) {
  if (!model_folder.empty() && !model_name.empty()) {
    absl::StrReplaceAll({{model_folder, model_name}}, &text);
  }
  // Rarely true; reading the names costs a file.
  if (!folder.is_absolute() ||
      text.find((folder / "inputs").string()) == std::string::npos) {
    return text;
  }
  return InputNames(folder).Respelled(text);
}

namespace {

using PathParts = std::vector<std::string_view>;

// The parts between the slashes of a normal path; a leading slash makes no
// part.
PathParts PartsOf(std::string_view normal) {
  PathParts parts;
  while (!normal.empty()) {
    const size_t end = std::min(normal.find('/'), normal.size());
    if (end > 0) parts.push_back(normal.substr(0, end));
    normal.remove_prefix(std::min(end + 1, normal.size()));
  }
  return parts;
}

bool IsAbsolute(std::string_view path) { return path.starts_with('/'); }

// Like std::filesystem::path::lexically_normal, without a slash at the end.
std::string Normal(std::string_view path) {
  PathParts kept;
  for (const std::string_view part : PartsOf(path)) {
    if (part == ".") continue;
    if (part != ".." || (kept.empty() && !IsAbsolute(path)) ||
        (!kept.empty() && kept.back() == "..")) {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  std::string normal;
  for (const std::string_view part : kept) {
    if (!normal.empty() || IsAbsolute(path)) normal += '/';
    normal += part;
  }
  if (!normal.empty()) return normal;
  return IsAbsolute(path) ? "/" : ".";
}

int LevelsUp(std::string_view normal) {
  int levels = 0;
  for (; normal == ".." || normal.starts_with("../"); ++levels) {
    normal.remove_prefix(std::min<size_t>(3, normal.size()));
  }
  return levels;
}

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         path[folder.size()] == '/';
}

// Sorts a folder directly before the paths below it.
bool FolderFirst(std::string_view a, std::string_view b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() || y == b.end()) return y != b.end();
  return *x != *y && (*x == '/' || (*y != '/' && *x < *y));
}

// Lengthens `name` until no part of an input's path has the name.
class FreeName {
 public:
  explicit FreeName(std::string name) : name_(std::move(name)) {}
  void Avoid(std::string_view part) {
    if (part.starts_with(name_) &&
        part.find_first_not_of('_', name_.size()) == std::string_view::npos) {
      taken_.insert(part.size());
    }
  }
  std::string Get() const {
    std::string name = name_;
    while (taken_.contains(name.size())) name += '_';
    return name;
  }

 private:
  const std::string name_;
  std::set<size_t> taken_;  // lengths of such parts
};

absl::Status Invalid(const InputFile& input, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("input '", input.path, "' ", what));
}

}  // namespace

absl::StatusOr<Inputs> Inputs::Create(const std::vector<InputFile>& inputs,
                                      const std::string& job_id,
                                      JobFiles& files, Blobs& blobs) {
  Inputs result(job_id, files, blobs);
  for (const InputFile& input : inputs) {
    RETURN_IF_ERROR(result.Add(input));
  }
  RETURN_IF_ERROR(result.Arrange());
  return result;
}

absl::Status Inputs::Add(const InputFile& input) {
  if (!IsSha256(input.sha256)) {
    return Invalid(input,
                   "must have 64 lower-case hexadecimal digits for its "
                   "sha256");
  }
  // Has also restarts the blob's grace period: Collect must not remove the blob
  // before the job's folder has a link to the file.
  if (!blobs_->Has(input.sha256)) {
    return absl::FailedPreconditionError(
        absl::StrCat("input '", input.path, "' (", input.sha256,
                     ") has not been uploaded: upload it, then submit again"));
  }
  auto [known, added] = inputs_.emplace(Normal(input.path), Input{&input});
  if (!added && (known->second.given->path == input.path ||
                 known->second.given->sha256 != input.sha256)) {
    return Invalid(input, "is given twice");
  }
  return absl::OkStatus();
}

absl::Status Inputs::Arrange() {
  FreeName up(up_), root(root_);
  std::vector<std::string_view> paths;
  for (const auto& [normal, input] : inputs_) {
    for (const std::string_view part : PartsOf(normal)) {
      up.Avoid(part);
      root.Avoid(part);
    }
    levels_up_ = std::max(levels_up_, LevelsUp(normal));
    paths.push_back(normal);
  }
  up_ = up.Get();
  root_ = root.Get();
  for (const auto& [normal, input] : inputs_) {
    if (PlaceOf(normal).empty()) {
      return Invalid(*input.given, "is the path of no file");
    }
  }
  std::sort(paths.begin(), paths.end(), FolderFirst);
  for (size_t i = 1; i < paths.size(); ++i) {
    if (!IsBelow(paths[i], paths[i - 1])) continue;
    return Invalid(*inputs_.at(std::string(paths[i])).given,
                   "lies below another input");
  }
  return absl::OkStatus();
}

std::string Inputs::PlaceOf(const std::string& normal) const {
  std::string place;
  const auto add = [&place](std::string_view part) {
    if (!place.empty()) place += '/';
    place += part;
  };
  if (IsAbsolute(normal)) {
    add(root_);
  } else {
    for (int i = LevelsUp(normal); i < levels_up_; ++i) add(up_);
  }
  bool named = false;
  for (const std::string_view part : PartsOf(normal)) {
    if (part == ".." || part == ".") continue;
    add(part);
    named = true;
  }
  return named ? place : "";
}

bool Inputs::UseBelow(const std::string& folder) {
  if (const auto [known, added] = folders_.try_emplace(folder, false); !added) {
    return known->second;
  }
  const bool here = folder == ".";
  const std::string prefix = here || folder == "/" ? "" : folder + "/";
  bool any = false;
  for (auto it = inputs_.lower_bound(prefix);
       it != inputs_.end() && it->first.starts_with(prefix); ++it) {
    if (prefix.empty() &&
        (IsAbsolute(it->first) == here || LevelsUp(it->first) > 0)) {
      continue;
    }
    it->second.used = any = true;
  }
  return folders_[folder] = any;
}

absl::StatusOr<std::string> Inputs::Resolve(const std::string& field,
                                            const std::string& path,
                                            JobFiles::Use use) {
  const std::string normal = Normal(path);
  if (auto input = inputs_.find(normal); input != inputs_.end()) {
    input->second.used = true;
    return files_->InputPath(*job_id_, PlaceOf(normal));
  }
  if (!UseBelow(normal)) return Local(field, path, use);
  const std::string place = PlaceOf(normal);
  if (!place.empty()) return files_->InputPath(*job_id_, place);
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", path,
                   "' has no name of its own; give the folder by its name"));
}

absl::StatusOr<std::string> Inputs::Local(const std::string& field,
                                          const std::string& path,
                                          JobFiles::Use use) const {
  if (!fs::path(path).is_absolute()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": '", path,
        "' is a relative path and was not uploaded; list it in inputs (mpsctl "
        "submit does), or give the absolute path of a file on the daemon's "
        "machine"));
  }
  if (absl::Status s = files_->MayRead(path, use); !s.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(field, ": ", s.message()));
  }
  if (files_->Exists(path)) return path;
  return absl::FailedPreconditionError(absl::StrCat(
      field, ": '", path, "' is neither uploaded nor on the daemon's machine"));
}

absl::Status Inputs::CheckAllUsed() const {
  for (const auto& [normal, input] : inputs_) {
    if (input.used) continue;
    return Invalid(*input.given,
                   "is not named by the spec: dataset.train, dataset.eval, "
                   "dataset.predict, training.chat_template_path, or a file "
                   "below a folder of theirs or below adapter, must spell it "
                   "the same way");
  }
  return absl::OkStatus();
}

std::vector<JobFiles::Link> Inputs::Links() const {
  std::vector<JobFiles::Link> links;
  links.reserve(inputs_.size());
  for (const auto& [normal, input] : inputs_) {
    JobFiles::Link& link = links.emplace_back();
    link = {PlaceOf(normal), blobs_->PathOf(input.given->sha256)};
    if (link.relative != input.given->path) link.spelled = input.given->path;
  }
  return links;
}

}  // namespace mpsd::jobs
