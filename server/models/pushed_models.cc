// SPDX-License-Identifier: Apache-2.0
#include "server/models/pushed_models.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/fields.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "server/jobs/submission.h"
#include "server/models/model_book.h"

namespace mpsd::models {
namespace {

bool IsOfName(char c) {
  return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
}

bool IsName(const std::string& text) {
  return std::all_of(text.begin(), text.end(), IsOfName);
}

absl::Status WrongName(const std::string& field, const std::string& value,
                       const std::string& expected) {
  // Text too long for a name may be anything.
  const std::string shown =
      base::Quotable(value.substr(0, limits::kModelIdBytes));
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", shown, "' is invalid: ", expected));
}

}  // namespace

absl::Status CheckModelName(const std::string& field, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  // "..", ".hidden" and "-option" are not names, on either side of the slash; a
  // folder's name has "--" for the slash (spec::RepositoryName).
  const bool valid =
      name.size() <= limits::kModelIdBytes && parts.size() <= 2 &&
      name.find("--") == std::string::npos &&
      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        return !part.empty() && absl::ascii_isalnum(part.front()) &&
               IsName(part);
      });
  if (valid) return absl::OkStatus();
  return WrongName(field, name,
                   absl::StrCat("a model's name is NAME or ORG/NAME, at most ",
                                limits::kModelIdBytes,
                                " letters, digits, '.', '_' and '-', each part "
                                "beginning with a letter or a digit, without "
                                "'--'"));
}

absl::Status CheckRevision(const std::string& field,
                           const std::string& revision) {
  const std::vector<std::string> parts = absl::StrSplit(revision, '/');
  const bool valid =
      revision.size() <= limits::kModelIdBytes &&
      std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        return !part.empty() && part.front() != '.' && IsName(part);
      });
  if (valid) return absl::OkStatus();
  return WrongName(field, revision,
                   absl::StrCat("a revision is a branch, a tag or a commit, at "
                                "most ",
                                limits::kModelIdBytes,
                                " letters, digits, '.', '_', '-' and '/'"));
}

std::string FoldedName(const std::string& name) {
  return absl::AsciiStrToLower(name);
}

namespace fs = std::filesystem;

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

int64_t FolderBytes(const fs::path& folder, uint64_t most_links) {
  int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator file(folder, error);
  for (; !error && file != fs::recursive_directory_iterator();
       file.increment(error)) {
    struct stat info;
    if (lstat(file->path().c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        info.st_nlink <= most_links) {
      bytes += info.st_size;
    }
  }
  return bytes;
}

namespace {

constexpr std::pair<spec::Task, const char*> kTasks[] = {
    {spec::Task::kCausalLm, "CAUSAL_LM"},
    {spec::Task::kSeqCls, "SEQ_CLS"},
    {spec::Task::kImageCls, "IMAGE_CLS"},
};
// Outputs of a head whose labels are not known yet.
constexpr int64_t kFewLabels = 2;

// LoRA with the defaults of job.json, at the layout that the trainer chooses.
spec::TrainSpec DefaultJob(spec::Task task) {
  spec::TrainSpec spec;
  spec.task = task;
  spec.training.auto_find_batch_size = true;
  return spec;
}

}  // namespace

ModelFacts FactsOf(const absl::StatusOr<spec::ModelFolder>& model) {
  ModelFacts facts;
  if (!model.ok()) {
    facts.problem = base::Printable(std::string(model.status().message()));
    return facts;
  }
  facts.family = model->config.model_type;
  facts.parameters = spec::ParameterCount(model->config);
  if (model->config.family != spec::Family::kVision) {
    facts.max_row_tokens = model->config.max_row_tokens();
  }
  for (const auto& [task, name] : kTasks) {
    const spec::TrainSpec spec = DefaultJob(task);
    if (absl::Status s = spec::CheckTask(spec, model->config); !s.ok()) {
      if (facts.problem.empty() && !absl::IsInvalidArgument(s)) {
        facts.problem = base::Printable(std::string(s.message()));
      }
      continue;
    }
    spec::ModelConfig config = model->config;
    if (task != spec::Task::kCausalLm) config.num_labels = kFewLabels;
    facts.tasks.emplace_back(name);
    if (facts.least_memory_bytes > 0) continue;
    facts.least_memory_bytes = jobs::LeastMemory(spec, config);
  }
  if (model->weights.empty()) {
    facts.problem =
        "it has no weights in safetensors: jobs need from_scratch for it";
  }
  return facts;
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModelFacts, family, parameters, tasks,
                                   problem, least_memory_bytes, max_row_tokens)

namespace {

using nlohmann::json;

constexpr char kFile[] = "model.json";
constexpr size_t kMaxBytes = 64 << 10;

std::string Text(const json& tree, const char* name) {
  const auto value = tree.find(name);
  return value != tree.end() && value->is_string() ? value->get<std::string>()
                                                   : "";
}

int64_t Number(const json& tree, const char* name) {
  const auto value = tree.find(name);
  return value != tree.end() && value->is_number_integer()
             ? value->get<int64_t>()
             : 0;
}

// Another release may find other facts in the same files.
std::optional<ModelFacts> FactsIn(const json& tree) {
  if (Text(tree, "facts_of") != MPSD_VERSION) return std::nullopt;
  try {
    return tree.at("facts").get<ModelFacts>();
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

absl::StatusOr<Manifest> ReadManifest(const fs::path& folder) {
  const fs::path path = folder / kFile;
  ASSIGN_OR_RETURN(const std::string text,
                   base::ReadSmallFile(path, kMaxBytes));
  const json tree = base::ParseTree<json>(text);
  Manifest manifest;
  if (tree.is_object()) {
    manifest.name = Text(tree, "name");
    manifest.owner = Text(tree, "owner");
    manifest.revision = Text(tree, "revision");
    manifest.size_bytes = Number(tree, "size_bytes");
    manifest.create_time = absl::FromUnixMicros(Number(tree, "create_time_us"));
    manifest.facts = FactsIn(tree);
  }
  // Names and revisions become paths.
  if (CheckModelName("name", manifest.name).ok() &&
      jobs::IsSha256(manifest.revision) && !manifest.owner.empty()) {
    return manifest;
  }
  return absl::DataLossError(
      absl::StrCat(path.string(),
                   ": cannot be read: push the model again under another "
                   "name, or remove its folder while mpsd does not run"));
}

absl::Status WriteManifest(const fs::path& folder, const Manifest& manifest) {
  json tree = {{"name", manifest.name},
               {"owner", manifest.owner},
               {"revision", manifest.revision},
               {"size_bytes", manifest.size_bytes},
               {"create_time_us", absl::ToUnixMicros(manifest.create_time)}};
  if (manifest.facts) {
    tree["facts"] = *manifest.facts;
    tree["facts_of"] = MPSD_VERSION;
  }
  return base::WriteFileAtomic(
      folder / kFile,
      tree.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

absl::Status RemoveManifest(const fs::path& folder) {
  const fs::path path = folder / kFile;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return base::ErrnoStatus(errno, path.string());
  }
  return base::SyncPath(folder, O_RDONLY);
}

namespace {

absl::Status Wrong(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckFile(const std::string& field, const ModelFile& file) {
  if (file.path.size() > limits::kPathBytes || !spec::IsModelFile(file.path)) {
    return Wrong(
        field + ".path",
        absl::StrCat(
            "'", base::Quotable(file.path),
            "' is not a file of a model: send config.json, model*.safetensors "
            "with its index, and the tokenizer's files"));
  }
  if (!jobs::IsSha256(file.sha256)) {
    return Wrong(field + ".sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (file.size_bytes < 0) {
    return Wrong(field + ".size_bytes",
                 absl::StrCat("must not be negative, is ", file.size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFileList(const std::vector<ModelFile>& files) {
  if (files.size() > limits::kFilesOfModel) {
    return Wrong("files",
                 absl::StrCat("has ", files.size(), " entries, at most ",
                              limits::kFilesOfModel, " are allowed"));
  }
  std::map<std::string, const ModelFile*> by_folded;
  bool has_config = false;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string field = absl::StrCat("files[", i, "]");
    RETURN_IF_ERROR(CheckFile(field, files[i]));
    const auto [other, added] =
        by_folded.emplace(FoldedName(files[i].path), &files[i]);
    if (!added) {
      return Wrong(
          field + ".path",
          absl::StrCat("'", files[i].path, "' and '", other->second->path,
                       "' are one name where case does not count: send one"));
    }
    has_config = has_config || files[i].path == "config.json";
  }
  if (has_config) return absl::OkStatus();
  return Wrong("files",
               "config.json is not among them: push a folder in Hugging Face "
               "layout");
}

std::string RevisionOfFiles(std::vector<ModelFile> files) {
  std::sort(
      files.begin(), files.end(),
      [](const ModelFile& a, const ModelFile& b) { return a.path < b.path; });
  std::string list;
  for (const ModelFile& file : files) {
    absl::StrAppend(&list, file.sha256, "  ", file.path, "\n");
  }
  return base::Sha256Hex(list);
}

namespace {

constexpr char kRevisions[] = "pushed";

absl::Status FsError(const std::error_code& error, const fs::path& path) {
  return base::ErrnoStatus(error.value(), path.string());
}

std::optional<int64_t> SizeOf(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return std::nullopt;
  return static_cast<int64_t>(size);
}

// A hard link, so that the blob store keeps the blob; a copy if the file system
// has no links, or no more for this file.
absl::Status LinkOrCopy(const fs::path& blob, const fs::path& to) {
  std::error_code error;
  fs::create_hard_link(blob, to, error);
  if (!error || error == std::errc::no_such_file_or_directory ||
      error == std::errc::file_exists ||
      error == std::errc::no_space_on_device) {
    return error ? FsError(error, to) : absl::OkStatus();
  }
  fs::copy_file(blob, to, error);
  if (error) return FsError(error, to);
  return base::SyncPath(to, O_RDONLY);
}

// The bytes that are freed with the folder, once the blob store releases them:
// those of files that have no link but the store's and this one.
int64_t OwnBytes(const fs::path& folder) {
  return FolderBytes(folder, /*most_links=*/2);
}

// A revision's folder below STATE/models. Specs have absolute paths, and the
// state folder may have been moved since, or be named by a link.
std::string PlaceOf(const fs::path& revision) {
  const fs::path pushed = revision.parent_path();
  return pushed.parent_path().filename() / pushed.filename() /
         revision.filename();
}

// Whether the folder of a revision, which an earlier push made, has each file
// as it should be.
bool IsWhole(const fs::path& folder, const std::vector<ModelFile>& files) {
  for (const ModelFile& file : files) {
    if (SizeOf(folder / file.path) != file.size_bytes) return false;
  }
  return true;
}

absl::Status CheckBlobs(const PushedModels::Request& request,
                        jobs::Blobs& blobs) {
  for (const ModelFile& file : request.files) {
    RETURN_IF_ERROR(jobs::StillWanted(request.wanted));
    if (!blobs.Has(file.sha256)) {
      return absl::FailedPreconditionError(
          absl::StrCat("files: '", file.path, "' (SHA-256 ", file.sha256,
                       ") has not been uploaded: upload it, then push again"));
    }
    const std::optional<int64_t> size = SizeOf(blobs.PathOf(file.sha256));
    if (size != file.size_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("files: '", file.path, "' has ", size.value_or(0),
                       " bytes, not ", file.size_bytes));
    }
  }
  return absl::OkStatus();
}

// Makes `folder` of links; flushed to the disk, but without its final name.
absl::Status Link(const fs::path& folder, const PushedModels::Request& request,
                  jobs::Blobs& blobs) {
  std::vector<fs::path> made = {folder};
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return FsError(error, folder);
  for (const ModelFile& file : request.files) {
    const fs::path to = folder / file.path;
    if (fs::create_directories(to.parent_path(), error)) {
      made.push_back(to.parent_path());
    }
    if (error) return FsError(error, to);
    absl::Status linked = LinkOrCopy(blobs.PathOf(file.sha256), to);
    if (linked.ok()) linked = jobs::StillWanted(request.wanted);
    if (!linked.ok()) return linked;
  }
  return base::SyncAll(made);
}

absl::StatusOr<ModelFacts> CheckModel(const fs::path& folder) {
  const absl::StatusOr<spec::ModelFolder> model = spec::ReadModelFolder(folder);
  if (model.ok()) return FactsOf(model);
  return absl::InvalidArgumentError(absl::StrCat(
      "files: mpsd cannot train this model: ", model.status().message()));
}

}  // namespace

bool PushedModels::Entry::IsLeased() const {
  return lease.use_count() > 1 ||
         std::any_of(former.begin(), former.end(), [](const auto& revision) {
           return !revision.second.expired();
         });
}

fs::path PushedModels::FolderOf(const std::string& name) const {
  return folder_ / spec::RepositoryName(name);
}

absl::StatusOr<std::unique_ptr<PushedModels>> PushedModels::Open(
    fs::path folder, const std::function<void(const std::string&)>& log) {
  std::error_code error;
  folder = fs::absolute(folder, error).lexically_normal();
  if (!error) fs::create_directories(folder, error);
  if (!error) fs::permissions(folder, fs::perms::owner_all, error);
  if (error) return FsError(error, folder);
  std::unique_ptr<PushedModels> models(new PushedModels(std::move(folder)));
  models->ReadAll(log);
  return models;
}

void PushedModels::ReadAll(const std::function<void(const std::string&)>& log) {
  absl::MutexLock lock(&mutex_);
  for (const fs::path& folder : EntriesOf(folder_)) {
    std::error_code error;
    if (spec::IdOfRepository(folder.filename().string()).empty()) continue;
    for (const fs::path& revision : EntriesOf(folder / kRevisions)) {
      if (base::IsUnfinished(revision)) fs::remove_all(revision, error);
    }
    absl::StatusOr<Manifest> manifest = ReadManifest(folder);
    if (absl::IsNotFound(manifest.status())) {
      // A push or a removal was interrupted: no name refers to this.
      fs::remove_all(folder, error);
      continue;
    }
    if (!manifest.ok()) {
      log(absl::StrCat("models: ", manifest.status().message()));
      continue;
    }
    Entry entry;
    Model& model = entry.model;
    static_cast<Manifest&>(model) = *std::move(manifest);
    model.folder = spec::PushedFolder(folder_, model.name, model.revision);
    if (FolderOf(model.name) != folder || !fs::exists(model.folder, error)) {
      log(absl::StrCat("models: ", folder.string(),
                       " does not match its model.json: it is kept"));
      continue;
    }
    models_.emplace(model.name, std::move(entry));
  }
}

absl::Status PushedModels::CheckMayPush(const Request& request) const {
  absl::MutexLock lock(&mutex_);
  const std::string folded = FoldedName(request.name);
  size_t own = 0;
  for (const auto& [name, entry] : models_) {
    if (entry.model.owner == request.user) ++own;
    if (FoldedName(name) != folded) continue;
    if (name != request.name) {
      return absl::InvalidArgumentError(absl::StrCat(
          "name: '", request.name, "' differs from the model '", name,
          "' by upper and lower case alone: choose another "
          "name"));
    }
    if (entry.model.owner != request.user && !request.is_admin) {
      return absl::PermissionDeniedError(absl::StrCat(
          "name: the model ", name, " is ", entry.model.owner,
          "'s: choose another name (mpsctl model push --name), or ask ",
          entry.model.owner, " or someone with the role admin"));
    }
  }
  if (models_.contains(request.name)) return absl::OkStatus();
  if (own >= limits::kModelsOfUser) {
    return absl::ResourceExhaustedError(
        absl::StrCat("name: ", request.user, " has pushed ", own,
                     " models, at most ", limits::kModelsOfUser,
                     " are allowed: remove one (mpsctl model rm NAME)"));
  }
  // Jobs would get the pushed one from now on.
  if (request.is_admin || ListHubModels(request.name, 1).empty()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "name: ", request.name,
      " is a model in the Hugging Face cache, which only the role admin may "
      "replace: choose another name (mpsctl model push --name)"));
}

// Makes the revision's folder unless it exists; sets the model's folder, and
// its facts if it read them.
absl::Status PushedModels::Place(const Request& request,
                                 const std::string& revision,
                                 jobs::Blobs& blobs, Model& placed) {
  const fs::path folder = spec::PushedFolder(folder_, request.name, revision);
  placed.folder = folder;
  std::error_code error;
  if (fs::exists(folder, error)) {
    // An earlier push of these files made it.
    if (IsWhole(folder, request.files)) {
      return request.count ? request.count() : absl::OkStatus();
    }
    fs::remove_all(folder, error);
    if (error) return FsError(error, folder);
  }
  const fs::path staging = base::TemporaryBeside(folder);
  absl::Status status = Link(staging, request, blobs);
  if (status.ok()) {
    absl::StatusOr<ModelFacts> facts = CheckModel(staging);
    status = facts.status();
    if (facts.ok()) placed.facts = *std::move(facts);
  }
  if (status.ok() && request.count) status = request.count();
  if (status.ok()) {
    fs::rename(staging, folder, error);
    if (error) status = FsError(error, folder);
  }
  // With the folders above, which may be new.
  if (status.ok()) {
    status = base::SyncAll(
        {folder.parent_path(), folder.parent_path().parent_path(), folder_});
  }
  if (!status.ok()) fs::remove_all(staging, error);
  return status;
}

absl::StatusOr<PushedModels::Pushed> PushedModels::Push(const Request& request,
                                                        jobs::Blobs& blobs) {
  absl::MutexLock change(&changes_);
  absl::Status may = CheckMayPush(request);
  if (may.ok()) may = CheckBlobs(request, blobs);
  if (!may.ok()) return may;
  const fs::path folder = FolderOf(request.name);
  const std::string revision = RevisionOfFiles(request.files);
  std::error_code error;
  const bool is_new = !fs::exists(folder, error);
  Model placed;
  if (absl::Status s = Place(request, revision, blobs, placed); !s.ok()) {
    if (is_new) fs::remove_all(folder, error);
    return s;
  }
  Pushed pushed;
  Model& model = pushed.model;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(request.name);
    if (found != models_.end()) model = found->second.model;
    if (model.revision == revision) {
      pushed.existed = true;
      return pushed;
    }
  }
  model.name = request.name;
  if (model.owner.empty()) model.owner = request.user;
  model.revision = revision;
  // As the manifest has it.
  model.create_time = absl::FromUnixMicros(absl::ToUnixMicros(absl::Now()));
  model.size_bytes = 0;
  for (const ModelFile& file : request.files) {
    model.size_bytes += file.size_bytes;
  }
  model.folder = placed.folder;
  model.facts = placed.facts ? std::move(placed.facts)
                             : FactsOf(spec::ReadModelFolder(model.folder));
  if (absl::Status s = WriteManifest(folder, model); !s.ok()) {
    if (is_new) fs::remove_all(folder, error);
    return s;
  }
  absl::MutexLock lock(&mutex_);
  Entry& entry = models_[request.name];
  if (!entry.model.folder.empty()) {
    entry.former[entry.model.folder] = entry.lease;
  }
  entry.model = model;
  entry.lease = std::make_shared<const int>(0);
  return pushed;
}

absl::StatusOr<int64_t> PushedModels::Remove(const std::string& name,
                                             const std::string& user,
                                             bool is_admin,
                                             const Needed& needed) {
  absl::MutexLock change(&changes_);
  const fs::path folder = FolderOf(name);
  {
    // Held while the jobs are checked: a submission that finds the model now
    // would be missed. One that found it before has a lease until its row is
    // stored.
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) {
      return absl::NotFoundError(
          absl::StrCat("no model ", name, " was pushed to this mpsd"));
    }
    const Model& model = found->second.model;
    if (model.owner != user && !is_admin) {
      return absl::PermissionDeniedError(absl::StrCat(
          "the model ", name, " is ", model.owner,
          "'s, who may remove it, as admins may; ask one of them"));
    }
    if (found->second.IsLeased()) {
      return absl::FailedPreconditionError(
          absl::StrCat("a job is being submitted with the model ", name,
                       ": remove it once no job needs it"));
    }
    ASSIGN_OR_RETURN(const std::set<std::string> folders, needed());
    const auto is_here = [&](const fs::path& used) {
      return fs::path(PlaceOf(used)).parent_path() ==
             folder.filename() / kRevisions;
    };
    if (std::any_of(folders.begin(), folders.end(), is_here)) {
      return absl::FailedPreconditionError(
          absl::StrCat("a job that has not ended needs the model ", name,
                       ": `mpsctl list --model ", name,
                       "` shows which; cancel it, or wait for its end"));
    }
    RETURN_IF_ERROR(RemoveManifest(folder));
    models_.erase(found);
  }
  const int64_t bytes = OwnBytes(folder);
  std::error_code ignored;  // the next start removes the rest
  fs::remove_all(folder, ignored);
  return bytes;
}

absl::StatusOr<int> PushedModels::Sweep(const std::string& name,
                                        const Needed& needed) {
  absl::MutexLock change(&changes_);
  std::vector<fs::path> gone;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = models_.find(name);
    if (found == models_.end()) return 0;
    Entry& entry = found->second;
    for (const fs::path& revision : EntriesOf(FolderOf(name) / kRevisions)) {
      const auto former = entry.former.find(revision.string());
      if (former != entry.former.end() && !former->second.expired()) continue;
      if (revision != entry.model.folder) gone.push_back(revision);
    }
    // Called after the leases: a submission whose lease ended has its row by
    // now.
    ASSIGN_OR_RETURN(const std::set<std::string> folders, needed());
    std::set<std::string> places;
    for (const std::string& used : folders) places.insert(PlaceOf(used));
    std::erase_if(gone, [&](const fs::path& revision) {
      return places.contains(PlaceOf(revision));
    });
    for (const fs::path& revision : gone) entry.former.erase(revision.string());
  }
  std::error_code ignored;
  for (const fs::path& revision : gone) fs::remove_all(revision, ignored);
  return static_cast<int>(gone.size());
}

std::vector<std::string> PushedModels::Superseded() const {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : models_) {
    if (EntriesOf(FolderOf(name) / kRevisions).size() > 1) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<PushedModels::Model> PushedModels::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<Model> models;
  models.reserve(models_.size());
  for (const auto& [name, entry] : models_) models.push_back(entry.model);
  return models;
}

std::optional<jobs::ModelFinder::Found> PushedModels::Find(
    const std::string& name) {
  absl::MutexLock lock(&mutex_);
  const auto found = models_.find(name);
  if (found == models_.end()) return std::nullopt;
  return Found{found->second.model.folder, found->second.lease};
}

std::string PushedModels::Alike(const std::string& name) {
  std::vector<std::string> names;
  for (const fs::path& entry : EntriesOf(spec::HubCacheFolder())) {
    const std::string id = spec::IdOfRepository(entry.filename().string());
    if (!id.empty() && spec::FindInHubCache(id).ok()) names.push_back(id);
  }
  absl::MutexLock lock(&mutex_);
  for (const auto& [other, entry] : models_) names.push_back(other);
  std::erase(names, name);
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return std::string(spec::NearestName(name, candidates).value_or(""));
}

}  // namespace mpsd::models
