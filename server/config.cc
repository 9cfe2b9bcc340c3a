// SPDX-License-Identifier: Apache-2.0
// The settings of mpsd: the places it uses by default, the rules that addresses
// have to keep, and the options, each declared by one statement that names its
// member, its help and its range.
#include "server/config.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <functional>
#include <istream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/spec/fields.h"
#include "core/spec/model_folder.h"
#include "server/access/rules.h"
#include "server/rpc/listener.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace mpsd {
namespace fs = std::filesystem;
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path ProgramPath() {
#ifdef __APPLE__
  uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return fs::path(path.c_str());
#else
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
#endif
}

}  // namespace

fs::path DefaultDeviceLock() {
#ifdef __APPLE__
  return "/Users/Shared/mpsd-gpu.lock";
#else
  const bool cuda = ::access("/dev/nvidiactl", F_OK) == 0;
  return cuda ? "/var/tmp/mpsd-gpu.lock" : "";
#endif
}

fs::path DefaultWorker() { return ProgramPath().parent_path() / "mpsd-worker"; }

jobs::JobFiles::ReadFolders FoldersJobsRead(const Config& config) {
  jobs::JobFiles::ReadFolders folders{config.model_roots, config.data_roots};
  folders.models.push_back(spec::HubCacheFolder());
  return folders;
}

std::vector<std::string> FoldersWorkersRead(const Config& config) {
  const jobs::JobFiles::ReadFolders folders = FoldersJobsRead(config);
  std::vector<std::string> roots(folders.models.begin(), folders.models.end());
  roots.insert(roots.end(), folders.data.begin(), folders.data.end());
  return roots;
}

// The author of the table [environment] intends its variables for workers.
host::Environment WorkersEnvironment(const Config& config) {
  host::Environment environment =
      host::WithoutSecrets(host::CurrentEnvironment());
  for (const auto& [name, value] : config.environment) {
    environment.insert_or_assign(name, value);
  }
  return environment;
}

namespace {

absl::Status Invalid(absl::string_view option, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", fault));
}

// Whether other machines or other accounts of this machine can connect to
// `address`: everything but a unix socket.
bool IsPort(const std::string& address) {
  return !address.starts_with("unix:");
}

// Whether other machines can.
bool IsOpen(const std::string& address) {
  return IsPort(address) && !listener::IsLoopback(address);
}

absl::Status CheckPair(const fs::path& cert, const fs::path& key,
                       const char* cert_name, const char* key_name) {
  if (cert.empty() == key.empty()) return absl::OkStatus();
  return Invalid(
      cert.empty() ? key_name : cert_name,
      absl::StrCat("the certificate and its key come together; give ",
                   cert.empty() ? cert_name : key_name, " too"));
}

}  // namespace

absl::Status CheckAddresses(const Config& config) {
  RETURN_IF_ERROR(
      CheckPair(config.tls_cert, config.tls_key, "--tls-cert", "--tls-key"));
  const auto open =
      std::find_if(config.listen.begin(), config.listen.end(), IsOpen);
  if (open != config.listen.end() && config.tls_cert.empty()) {
    return Invalid(
        absl::StrCat("--listen ", *open),
        "without a certificate the API is served only on this machine "
        "(127.0.0.1, ::1, localhost); run mpsd tls init, or give --tls-cert "
        "and --tls-key. Over ssh no port is needed: mpsctl --server "
        "ssh://THIS-HOST");
  }
  if (!config.http_listen.empty() && IsOpen(config.http_listen)) {
    return Invalid(
        absl::StrCat("--http-listen ", config.http_listen),
        "the web page has neither TLS nor tokens yet, and shows jobs with "
        "their data's paths and logs; serve it on 127.0.0.1:PORT or unix:PATH, "
        "and reach that from another machine by ssh -L");
  }
  RETURN_IF_ERROR(CheckPair(config.metrics_tls_cert, config.metrics_tls_key,
                            "--metrics-tls-cert", "--metrics-tls-key"));
  if (config.metrics_token_file.empty() || !config.metrics_tls_cert.empty() ||
      config.metrics_address.empty() || !IsOpen(config.metrics_address)) {
    return absl::OkStatus();
  }
  return Invalid(
      "--metrics-token-file",
      absl::StrCat("on ", config.metrics_address,
                   " others could read the token as it passes; give "
                   "--metrics-tls-cert and --metrics-tls-key too, or serve the "
                   "metrics on 127.0.0.1"));
}

std::vector<std::string> AddressLines(const Config& config) {
  std::vector<std::string> lines = {
      absl::StrCat("API on unix:", config.SocketPath().string())};
  const bool has_tls = !config.tls_cert.empty();
  for (const std::string& address : config.listen) {
    lines.push_back(absl::StrCat(
        "API on ", address, IsPort(address) && has_tls ? ", with TLS" : ""));
  }
  const auto add = [&](const char* what, const std::string& address, bool tls,
                       const char* path) {
    if (address.empty()) return;
    lines.push_back(IsPort(address)
                        ? absl::StrCat(what, " on http", tls ? "s" : "", "://",
                                       address, path)
                        : absl::StrCat(what, " on ", address));
  };
  add("metrics", config.metrics_address, !config.metrics_tls_cert.empty(),
      "/metrics");
  add("web page", config.http_listen, false, "/");
  return lines;
}

namespace {

constexpr char kFooter[] = R"(
An option on the command line wins over the file that --config names, the file
over the environment (MPSD_STATE_DIR), the environment over the default. In the
file each line is an option without its dashes:

  state-dir = "/var/lib/mpsd"
  model-root = ["/srv/models"]
  metrics-address = "off"
  limit-queued-jobs = 20
  [user.ada]
  queued-jobs = 50
  [environment]
  HF_HOME = "/srv/huggingface"

SIGHUP renews the certificates, keys and the token of the API and of the
metrics. Any other change takes effect at a restart, which the running job
survives: it resumes from the checkpoint that it writes.

mpsd tls --help: the certificates of ports that are served over TLS.
)";

// Whether a quote that opens a key or a value is not closed on its line.
bool HasOpenQuote(const std::string& line) {
  char quote = 0, before = '=';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\' && quote == '"') ++i;
      if (c == quote) quote = 0;
    } else if (c == '#') {
      return false;
    } else if ((c == '"' || c == '\'') &&
               std::string_view("=,[.").find(before) !=
                   std::string_view::npos) {
      quote = c;
    }
    if (!absl::ascii_isspace(c)) before = c;
  }
  return quote != 0;
}

// The TOML file that --config names. Reads the table [environment] as the
// option of that name, one NAME=VALUE per key, and the tables [user.NAME] as
// --user-limit.
class ConfigFile : public CLI::ConfigTOML {
 public:
  // `lines` gets those of the file.
  explicit ConfigFile(std::vector<std::string>& lines) : lines_(lines) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::stringstream text;
    int number = 1;
    for (std::string line; std::getline(input, line); ++number) {
      // CLI11 would report another option, or none.
      if (HasOpenQuote(line)) {
        throw CLI::ParseError(
            absl::StrCat("the --config file: line ", number,
                         ": a quote is not closed: ", base::Quotable(line)),
            CLI::ExitCodes::ConfigError);
      }
      text << line << '\n';
      lines_.push_back(line);
    }
    std::vector<CLI::ConfigItem> items;
    CLI::ConfigItem environment{{}, "environment", {}};
    CLI::ConfigItem users{{}, "user-limit", {}};
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(text)) {
      // The marks of a section's beginning and end.
      const bool is_mark = item.name == "++" || item.name == "--";
      if (item.parents == std::vector<std::string>{"environment"}) {
        if (!is_mark) Take(absl::StrCat(item.name, "="), item, environment);
      } else if (item.parents.empty() || item.parents.front() != "user" ||
                 // A key directly below [user] names no user: CLI11 reports it.
                 (!is_mark && item.parents.size() < 2)) {
        items.push_back(std::move(item));
      } else if (!is_mark) {
        Take(absl::StrCat(UserOf(item), ":", item.name, "="), item, users);
      }
    }
    if (!environment.inputs.empty()) items.push_back(environment);
    if (!users.inputs.empty()) items.push_back(users);
    return items;
  }

 private:
  static void Take(const std::string& prefix, const CLI::ConfigItem& item,
                   CLI::ConfigItem& option) {
    for (const std::string& value : item.inputs) {
      option.inputs.push_back(prefix + value);
    }
  }
  // Older versions of CLI11 take [user."a.b"] apart at the dot.
  static std::string UserOf(const CLI::ConfigItem& item) {
    std::string name =
        absl::StrJoin(std::next(item.parents.begin()), item.parents.end(), ".");
    CLI::detail::remove_quotes(name);
    return name;
  }

  std::vector<std::string>& lines_;
};

// Declares options. What CLI11 cannot put into a member of the Config itself, a
// duration or a path, is kept here until Store() converts it.
class Options {
 public:
  // Turns the text of an option into its member; its errors get the option's
  // name.
  using Read = std::function<absl::Status(const std::string& text)>;

  explicit Options(CLI::App& app) : app_(app) {}

  // A member of a type that CLI11 knows.
  template <typename T>
  CLI::Option* Add(const char* name, T& member, const std::string& help) {
    return app_.add_option(name, member, help);
  }
  template <typename T>
  void Number(const char* name, T& member, T least, T most, const char* help) {
    app_.add_option(name, member, help)
        ->check(CLI::Range(least, most))
        ->capture_default_str();
  }
  // The option's number counts `unit`s.
  void Time(const char* name, absl::Duration& member, absl::Duration unit,
            double least, double most, const char* help) {
    double& number = numbers_.emplace_back(absl::FDivDuration(member, unit));
    Number(name, number, least, most, help);
    stores_.emplace_back([&member, &number, unit] {
      member = number * unit;
      return absl::OkStatus();
    });
  }
  void Seconds(const char* name, absl::Duration& member, double least,
               const char* help) {
    Time(name, member, absl::Seconds(1), least, 1e9, help);
  }
  // `read` gets the text if one is given that is not empty.
  CLI::Option* Text(const std::string& name, const std::string& help,
                    Read read) {
    std::string& text = texts_.emplace_back();
    stores_.emplace_back([name, &text, read = std::move(read)] {
      const absl::Status s = text.empty() ? absl::OkStatus() : read(text);
      return s.ok() ? s : Invalid(name, s.message());
    });
    return app_.add_option(name, text, help);
  }
  // An absolute path, empty if none is given.
  CLI::Option* Path(const char* name, fs::path& member,
                    const std::string& help) {
    return Text(name, help, [&member](const std::string& text) {
      member = fs::absolute(text);
      return absl::OkStatus();
    });
  }
  // One of `words`, which `value_of` knows.
  template <typename T, typename ValueOf>
  void Word(const char* name, T& member, const std::vector<std::string>& words,
            ValueOf value_of, const char* help) {
    Text(name, help, [&member, value_of](const std::string& text) {
      member = value_of(text);
      return absl::OkStatus();
    })->check(CLI::IsMember(words));
  }
  void Paths(const char* name, std::vector<fs::path>& member,
             const char* help) {
    List(name, help, [&member](const std::string& text) {
      member.push_back(fs::absolute(text));
      return absl::OkStatus();
    });
  }
  // An option that may be repeated; `read` gets each text.
  CLI::Option* List(const std::string& name, const std::string& help,
                    Read read) {
    std::vector<std::string>& texts = lists_.emplace_back();
    stores_.emplace_back([name, &texts, read = std::move(read)] {
      for (const std::string& text : texts) {
        const absl::Status s = read(text);
        if (!s.ok()) return Invalid(name, s.message());
      }
      return absl::OkStatus();
    });
    return app_.add_option(name, texts, help);
  }
  // A step after the options declared so far are stored.
  void Then(std::function<absl::Status()> step) {
    stores_.push_back(std::move(step));
  }

  // In the order of the declarations.
  absl::Status Store() const {
    for (const auto& store : stores_) RETURN_IF_ERROR(store());
    return absl::OkStatus();
  }

 private:
  CLI::App& app_;
  std::deque<std::string> texts_;
  std::deque<double> numbers_;
  std::deque<std::vector<std::string>> lists_;
  std::vector<std::function<absl::Status()>> stores_;
};

constexpr int64_t kMostBytes = int64_t{1} << 60;

void DeclarePlaces(CLI::App& app, Options& o, Config& c) {
  o.Path("--state-dir", c.state_dir,
         "Folder of the database, the jobs, the socket and the log [" +
             base::DefaultStateDir().string() + "]");
  o.Then([&c] {
    if (c.state_dir.empty()) c.state_dir = Environment("MPSD_STATE_DIR");
    if (c.state_dir.empty()) c.state_dir = base::DefaultStateDir();
    c.state_dir = fs::absolute(c.state_dir).lexically_normal();
    c.worker = DefaultWorker();
    c.device_lock = DefaultDeviceLock();
    return absl::OkStatus();
  });
  o.Path("--worker", c.worker, "The mpsd-worker to run [next to mpsd]");
  app.add_flag("--skip-selftest", c.skip_selftest,
               "Run jobs on a device that has not passed the worker's "
               "--selftest");
  o.Add("--http-listen", c.http_listen,
        "Serve a read-only web page of the queue and the jobs on this "
        "127.0.0.1:PORT, for every account of the machine, or "
        "unix:PATH [off]");
  const std::string lock = DefaultDeviceLock().string();
  o.Text("--device-lock",
         "File that the mpsd whose job uses the GPU locks, shared by "
         "every mpsd of the machine, or off [" +
             (lock.empty() ? "off" : lock) + "]",
         [&c](const std::string& text) {
           c.device_lock = text == "off" ? fs::path() : fs::absolute(text);
           return absl::OkStatus();
         });
}

absl::Status CheckNames(const char* option,
                        const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (access::IsUserName(name)) continue;
    return Invalid(option, absl::StrCat("'", name,
                                        "' is not a user name; expected 1 to "
                                        "64 letters, digits and \"._@+-\""));
  }
  return absl::OkStatus();
}

// Checks the names, and makes STATE/tls, where "mpsd tls init" writes, the
// default of the certificates.
absl::Status FinishAccess(Config& c) {
  const fs::path folder = c.state_dir / "tls";
  std::error_code ignored;
  if (c.tls_cert.empty() && c.tls_key.empty() &&
      fs::exists(folder / "server.crt", ignored)) {
    c.tls_cert = folder / "server.crt";
    c.tls_key = folder / "server.key";
  }
  RETURN_IF_ERROR(CheckNames("--admin", c.admins));
  RETURN_IF_ERROR(CheckNames("--viewer", c.viewers));
  for (const std::string& name : c.admins) {
    if (std::count(c.viewers.begin(), c.viewers.end(), name) > 0) {
      return Invalid("--viewer", absl::StrCat("'", name,
                                              "' is an --admin already; name "
                                              "it once"));
    }
  }
  return absl::OkStatus();
}

void DeclareAccess(CLI::App& app, Options& o, Config& c) {
  o.Add("--listen", c.listen,
        "Also serve the API on this HOST:PORT, over TLS, to clients "
        "with a token; or on this unix:PATH; may be repeated");
  o.Path("--tls-cert", c.tls_cert,
         "The certificate of the API's ports, a PEM file with its chain; "
         "SIGHUP reads it again [STATE/tls/server.crt, which mpsd tls init "
         "makes; without any, ports are served on 127.0.0.1 only]");
  o.Path("--tls-key", c.tls_key,
         "The certificate's key, a PEM file without a passphrase");
  o.Add("--socket-group", c.socket_group,
        "Let the members of this group use the unix sockets, each "
        "under their own name [the daemon's account and root]");
  o.Add("--admin", c.admins,
        "The account of this name is an admin; may be repeated "
        " [the daemon's account and root]");
  o.Add("--viewer", c.viewers,
        "The account of this name may read but change nothing; may be "
        "repeated [others are users]");
  app.add_flag("--private-jobs", c.private_jobs,
               "Show the spec, log, progress and results of a job only to its "
               "owner and to admins, and leave them out of the web page and "
               "the metrics");
  o.Then([&c] { return FinishAccess(c); });
}

void DeclareMetrics(Options& o, Config& c) {
  o.Add("--metrics-address", c.metrics_address,
        "HOST:PORT or unix:PATH of the Prometheus metrics, or off")
      ->capture_default_str();
  o.Path("--metrics-tls-cert", c.metrics_tls_cert,
         "Serve the metrics over TLS 1.3 with this certificate, a PEM "
         "file; SIGHUP reads it again");
  o.Path("--metrics-tls-key", c.metrics_tls_key,
         "The certificate's key, a PEM file without a passphrase");
  o.Path("--metrics-token-file", c.metrics_token_file,
         "Serve the metrics only to clients that send the token in "
         "this file as a bearer token; SIGHUP reads it again");
  o.Then([&c] {
    for (std::string* address : {&c.metrics_address, &c.http_listen}) {
      if (*address == "off") address->clear();
    }
    return CheckAddresses(c);
  });
}

void DeclareReads(Options& o, Config& c) {
  o.Paths("--model-root", c.model_roots,
          "Folder of this machine below which jobs may name models and "
          "adapters, in addition to the Hugging Face cache; may be repeated "
          "[any folder; with a port or a group, or once a root is named: "
          "none]");
  o.Paths("--data-root", c.data_roots,
          "Folder of this machine below which jobs may name data, in "
          "addition to uploads; may be repeated [likewise]");
  o.Then([&c] {
    const bool others_come =
        !c.socket_group.empty() ||
        std::any_of(c.listen.begin(), c.listen.end(), IsPort);
    if (!others_come && c.model_roots.empty() && c.data_roots.empty()) {
      c.model_roots = c.data_roots = {"/"};
    }
    return absl::OkStatus();
  });
}

bool IsVariable(const std::string& name) {
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

absl::Status ReadVariable(const std::string& entry, const CLI::App& app,
                          Config& config) {
  const size_t equals = entry.find('=');
  const std::string name = entry.substr(0, equals);
  std::string fault;
  if (equals == entry.npos) {
    fault = "expected NAME=VALUE";
  } else if (app.get_option_no_throw("--" + name) != nullptr) {
    fault = "is an option of mpsd; in the file it goes above [environment]";
  } else if (!IsVariable(name)) {
    fault = "expected a name of letters, digits and _";
  } else if (name.starts_with("MPSD_")) {
    fault = "is mpsd's own; give the option instead";
  } else if (!config.environment.emplace(name, entry.substr(equals + 1))
                  .second) {
    fault = "is given twice";
  }
  if (fault.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' ", fault));
}

void DeclareLog(Options& o, Config& c) {
  o.Add("--log-level", c.log_level, "Lowest level logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  o.Number("--log-max-bytes", c.log_max_bytes, int64_t{1} << 10,
           int64_t{1} << 40, "Size at which STATE/log/mpsd.log rotates");
  o.Number("--log-files", c.log_files, int64_t{1}, int64_t{1000},
           "Rotated logs kept");
  o.Add("--log-stderr", c.log_stderr, "Log to stderr too: on or off [on]");
}

void DeclareLimits(Options& o, Config& c) {
  o.Seconds("--hang-timeout-seconds", c.hang_timeout, 0.001,
            "A worker is killed after this long without a sign of work, or "
            "three times the job's slowest step if that is longer");
  o.Seconds("--stop-grace-seconds", c.stop_grace, 0.001,
            "Time for a checkpoint before a worker is killed");
  o.Seconds("--retry-backoff-seconds", c.retry_backoff, 0.001,
            "Wait after a job's first failure; doubles with each");
  o.Seconds("--retry-backoff-max-seconds", c.retry_backoff_max, 0.001,
            "The longest such wait");
  o.Seconds("--metrics-linger-seconds", c.metrics_linger, 0.001,
            "A finished job's series are kept this long");
  o.Seconds("--watchdog-seconds", c.watchdog, 0,
            "mpsd exits with an error, so that a service manager restarts it, "
            "when its own API has not answered it for this long; 0: never");
  o.Number("--max-failures", c.max_failures, 1, 1000,
           "Failures in a row, without a new checkpoint between, after "
           "which a job has FAILED");
  o.Number("--max-interruptions", c.max_interruptions, 1, 1000,
           "The same for attempts interrupted by an end of mpsd or the "
           "machine, or by memory pressure");
  o.Time("--audit-keep-days", c.audit_keep, absl::Hours(24), 0, 1e6,
         "How long the audit keeps who requested which change; 0: "
         "forever, up to a million entries");
  o.Text("--hf-command",
         "Absolute path of the Hugging Face client that mpsd runs for mpsctl "
         "model pull [hf in PATH, Homebrew's folders or ~/.local/bin]",
         [&c](const std::string& text) {
           c.hf_command = text;
           if (text.starts_with('/')) return absl::OkStatus();
           return absl::InvalidArgumentError(
               absl::StrCat("'", base::Quotable(text),
                            "' is not the absolute path of a program"));
         });
}

// A limit of one user, "NAME:KEY=VALUE"; a user's name has neither colon nor
// equals sign. `seen`: the users and keys so far.
absl::Status ReadUserLimit(const std::string& text,
                           std::set<std::pair<std::string, std::string>>& seen,
                           jobs::LimitSettings& settings) {
  constexpr char kOption[] = "--user-limit";
  const size_t colon = text.find(':');
  const size_t equals = text.find('=', colon == text.npos ? 0 : colon);
  if (colon == text.npos || equals == text.npos) {
    return Invalid(kOption,
                   absl::StrCat("expected NAME:KEY=VALUE, is '", text, "'"));
  }
  const std::string user = text.substr(0, colon);
  const std::string key = text.substr(colon + 1, equals - colon - 1);
  if (!access::IsUserName(user)) {
    return Invalid(kOption,
                   absl::StrCat("'", user,
                                "' is not a user name: letters, digits and "
                                "._@+-, the first a letter, a digit or _"));
  }
  if (!seen.insert({user, key}).second) {
    return Invalid(kOption,
                   absl::StrCat("'", user, ":", key, "' is given twice"));
  }
  // A user's own table replaces what it names, and leaves the rest as for
  // others.
  jobs::UserLimits& limits =
      settings.users.try_emplace(user, settings.others).first->second;
  const absl::Status set = jobs::SetLimit(limits, key, text.substr(equals + 1));
  if (set.ok()) return set;
  return Invalid(absl::StrCat(kOption, " ", user, ":", key), set.message());
}

constexpr const char* kLimitHelp[] = {
    "Jobs that a user may have in the queue [none]; like the limits below, for "
    "users who are not admins",
    "Bytes of uploads that a user may have, such as 20GiB [none]",
    "No job of a user is queued while the folders of the user's jobs have this "
    "many bytes [none]",
    "LOW:HIGH, the priorities that a user may give; none: any [up to 0]",
    "Hours for which each job may hold the device, all its attempts together; "
    "then it writes a checkpoint and has FAILED. Counts for admins too; 0: "
    "none "
    "[none]"};
static_assert(std::size(kLimitHelp) == std::size(jobs::kLimitKeys));

constexpr const char* kKeepHelp[] = {
    "A job that ended this many days ago is removed with its results [none]; "
    "like the rules below, for each user, admins too; pinned jobs and what "
    "unfinished jobs need are always kept",
    "This many of a user's newest jobs that have ended are kept [none]",
    ("The folders of a user's jobs that have ended have at most this many "
     "bytes, such as 200GiB: the oldest first lose their checkpoints, then are "
     "removed [none]"),
    "The checkpoints of a job that ended this many days ago are removed, its "
    "result is kept [none]"};
static_assert(std::size(kKeepHelp) == std::size(jobs::kKeepKeys));

void DeclareUserLimits(CLI::App& app, Options& o, Config& c) {
  const auto limit = [&](const char* prefix, const char* key,
                         const char* help) {
    o.Text(absl::StrCat(prefix, key), help, [&c, key](const std::string& text) {
      return jobs::SetLimit(c.user_limits.others, key, text);
    });
  };
  for (size_t i = 0; i < std::size(jobs::kLimitKeys); ++i) {
    limit("--limit-", jobs::kLimitKeys[i], kLimitHelp[i]);
  }
  for (size_t i = 0; i < std::size(jobs::kKeepKeys); ++i) {
    limit("--", jobs::kKeepKeys[i], kKeepHelp[i]);
  }
  const auto users = std::make_shared<std::vector<std::string>>();
  app.add_option("--user-limit", *users,
                 "NAME:KEY=VALUE, another limit for one user; may be repeated; "
                 "in the file the tables [user.NAME], at its end");
  o.Then([&c, users] {
    std::set<std::pair<std::string, std::string>> seen;
    for (const std::string& text : *users) {
      RETURN_IF_ERROR(ReadUserLimit(text, seen, c.user_limits));
    }
    return absl::OkStatus();
  });
}

void DeclareShares(CLI::App& app, Options& o, Config& c) {
  o.Time("--fair-share-half-life-hours", c.fair_share_half_life, absl::Hours(1),
         0, 1e5,
         "Among equal priorities the device goes to the owner who used "
         "it least; past use counts half after this long; 0: first "
         "come, first served");
  app.add_flag("--preempt", c.preemption.enabled,
               "A queued job takes the device from a running one of lower "
               "priority, which writes a checkpoint and resumes later");
  o.Seconds("--preempt-margin-seconds", c.preemption.margin, 0,
            "A running job with less training time left keeps the device");
  o.Seconds("--preempt-min-run-seconds", c.preemption.least_run, 0,
            "An attempt keeps the device for at least this long");
}

void DeclareDisk(Options& o, Config& c) {
  o.Number("--min-free-bytes", c.min_free_bytes, int64_t{0}, kMostBytes,
           "No upload begins that would leave less of the state folder's disk "
           "free, and no job starts with less, plus space for its checkpoint");
  o.Seconds("--blob-grace-seconds", c.blob_grace, 1,
            "How long an unused upload is kept after it arrived, was last "
            "requested, or its last job was deleted");
  o.Text("--state-budget-bytes",
         "Budget of the state folder, such as 500GiB: the oldest jobs that "
         "have ended first lose their checkpoints, then are removed [none]",
         [&c](const std::string& text) {
           if (text == "none") return absl::OkStatus();
           c.state_budget = base::ParseBytes(text).value_or(0);
           if (c.state_budget > 0) return absl::OkStatus();
           return absl::InvalidArgumentError(
               absl::StrCat("expected a number of bytes, such as 5000 or "
                            "500GiB, or none, is '",
                            text, "'"));
         });
}

// Declares the options that pause the running job and hold the queue in favour
// of users.
void DeclarePauses(CLI::App& app, Options& o, Config& c) {
  app.add_flag("--pause-on-battery", c.pause.on_battery,
               "Do not train on battery or in Low Power Mode");
  o.Word("--pause-on-thermal", c.pause.thermal,
         {"moderate", "heavy", "trapping"}, host::ThermalNamed,
         "Do not train at this thermal level or above [heavy is where "
         "macOS slows down]");
  o.Word("--pause-on-memory-pressure", c.pause.memory_pressure,
         {"warn", "critical"}, host::MemoryPressureNamed,
         "Do not train at this memory pressure or above");
  o.Text("--quiet-hours",
         "Do not train in this span of the day, as 22:00-07:00",
         [&c](const std::string& text) {
           ASSIGN_OR_RETURN(c.pause.quiet_hours, jobs::ParseQuietHours(text));
           return absl::OkStatus();
         });
  o.Seconds("--idle-only-seconds", c.pause.idle_only, 0,
            "Train only once the machine has had no user input for this "
            "long; 0: always");
  o.Seconds("--pause-hold-seconds", c.pause.hold_limit, 0,
            "A pause longer than this writes a checkpoint and frees the "
            "memory (after a minute at most under memory pressure)");
  o.Seconds("--pause-settle-seconds", c.pause.settle, 0,
            "A pause ends once its reason has been gone for this long");
  o.Seconds("--host-interval-seconds", c.host_interval, 0.01,
            "How often the machine is checked");
  o.Path("--host-file", c.host_file, "")->group("");  // for tests
}

void DeclareNotify(CLI::App& app, Options& o, Config& c) {
  notify::Settings& notify = c.notify;
  std::vector<std::string> topics, defaults;
  for (const auto& topic : notify::kTopics) {
    topics.push_back(topic.name);
    if (notify.topics.contains(topic.value)) defaults.push_back(topic.name);
  }
  const auto chosen = std::make_shared<std::set<jobs::State>>();
  o.List("--notify-on",
         "What is reported to --notify-command; may be repeated [" +
             absl::StrJoin(defaults, " ") + "]",
         [chosen](const std::string& text) {
           for (const auto& topic : notify::kTopics) {
             if (text == topic.name) chosen->insert(topic.value);
           }
           return absl::OkStatus();
         })
      ->check(CLI::IsMember(topics));
  o.Add("--notify-command", notify.command,
        "Program, by its absolute path, that gets each notification "
        "as JSON on its standard input, and its arguments: repeat the "
        "option for each, or a list in the file");
  app.add_flag("--check-notify", c.check_notify,
               "Give --notify-command a test notification, print the result, "
               "and exit")
      ->configurable(false);
  o.Then([&notify, chosen] {
    if (!chosen->empty()) notify.topics = *chosen;
    if (notify.command.empty() || notify.command[0].starts_with('/')) {
      return absl::OkStatus();
    }
    return Invalid("--notify-command",
                   absl::StrCat("'", base::Quotable(notify.command[0]),
                                "' is not the absolute path of a program; no "
                                "shell looks it up"));
  });
}

// Where the file sets `key`, or begins the table "[key]": "line 3: "; "" if
// that cannot be found.
std::string PlaceIn(const std::vector<std::string>& lines,
                    const std::string& key, size_t begin = 0) {
  const bool is_table = key.starts_with('[');
  const std::string name =
      is_table ? key.substr(0, key.size() - 1) : key.substr(key.rfind('.') + 1);
  for (size_t i = begin; i < lines.size(); ++i) {
    absl::string_view rest = absl::StripLeadingAsciiWhitespace(lines[i]);
    if (!absl::ConsumePrefix(&rest, name)) continue;
    rest = absl::StripLeadingAsciiWhitespace(rest);
    const char next = rest.empty() ? ' ' : rest.front();
    if (is_table ? next == ']' || next == '.' : next == '=') {
      return absl::StrCat("line ", i + 1, ": ");
    }
  }
  return "";
}

// Whether --help shows the option and the file may have it.
bool IsShownKey(const CLI::Option* option) {
  return option->get_configurable() && !option->get_group().empty();
}

// "; did you mean 'listen'?", an option near the file's `key`; "" if none is.
std::string DidYouMean(const CLI::App& app, const std::string& key) {
  std::vector<std::string> names = {"[user]", "[environment]"};
  for (const CLI::Option* option : app.get_options(IsShownKey)) {
    names.push_back(option->get_lnames().front());
  }
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const auto nearest = spec::NearestName(key, candidates);
  if (!nearest) return "";
  return absl::StrCat("; did you mean '", std::string(*nearest), "'?");
}

// CLI11 reports "INI was not able to parse KEY", "KEY.++" for a section, and
// "KEY: This option is not allowed in a configuration file".
absl::Status UnknownKey(const CLI::App& app, const CLI::ConfigError& error,
                        const std::vector<std::string>& lines) {
  std::string key = error.what();
  const size_t colon = key.find(": ");
  key =
      colon == key.npos ? key.substr(key.rfind(' ') + 1) : key.substr(0, colon);
  if (const size_t section = key.find(".++"); section != key.npos) {
    key = absl::StrCat("[", key.substr(0, section), "]");
  }
  return Invalid(
      "the --config file",
      absl::StrCat(PlaceIn(lines, key), "'", key,
                   "' is not an option that mpsd's file may hold",
                   DidYouMean(app, key), "; mpsd --help lists them"));
}

// `error`, which begins with an option, "--log-files: …" or "--user-limit
// ada:priority: …", after the line of the file that has the wrong value.
absl::Status WithPlace(const absl::Status& error,
                       const std::vector<std::string>& args,
                       const std::vector<std::string>& lines) {
  absl::string_view text = error.message();
  if (error.ok() || !absl::ConsumePrefix(&text, "--")) return error;
  std::string key(text.substr(0, text.find(':')));
  size_t begin = 0;
  if (absl::ConsumePrefix(&text, "user-limit ")) {
    const std::vector<std::string> parts =
        absl::StrSplit(text, absl::MaxSplits(':', 2));
    if (parts.size() < 3) return error;
    key = parts[1];
    while (begin < lines.size() &&
           (!absl::StartsWith(lines[begin], "[user.") ||
            !absl::StrContains(lines[begin], parts[0]))) {
      ++begin;
    }
  }
  const bool typed = std::any_of(
      args.begin(), args.end(),
      [&](const auto& arg) { return absl::StartsWith(arg, "--" + key); });
  const std::string place = typed ? "" : PlaceIn(lines, key, begin);
  if (place.empty()) return error;
  return Invalid("the --config file", absl::StrCat(place, error.message()));
}

// What the command line has that is no option.
absl::Status NotExpected(const CLI::App& app) {
  std::vector<std::string> words = app.remaining();
  std::stable_partition(words.begin(), words.end(), [](const auto& word) {
    return absl::StartsWith(word, "-");
  });
  std::string key = words[0].substr(0, words[0].find('='));
  key.erase(0, key.find_first_not_of('-'));
  return absl::InvalidArgumentError(
      absl::StrCat("no option ", base::Quotable(words[0]), DidYouMean(app, key),
                   "; mpsd --help lists the options"));
}

// No CLI11 range excludes NaN.
absl::Status CheckNumbers(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_type_name().find("FLOAT") == std::string::npos) continue;
    for (const std::string& text : option->results()) {
      if (!std::isnan(std::strtod(text.c_str(), nullptr))) continue;
      return Invalid(option->get_name(),
                     absl::StrCat(text, " is not a number; mpsd --help"));
    }
  }
  return absl::OkStatus();
}

// What --check-config prints.
std::string EffectiveText(const CLI::App& app, const Config& config) {
  const std::string text =
      absl::StrCat("state folder ", config.state_dir.string(), "\n",
                   absl::StrJoin(AddressLines(config), "\n"), "\n");
  std::string options;
  for (const CLI::Option* option : app.get_options(IsShownKey)) {
    const std::string& name = option->get_lnames().front();
    for (std::string value : option->results()) {
      // A variable's value may be a secret.
      if (name == "environment") value = value.substr(0, value.find('='));
      if (value == option->get_default_str()) continue;
      absl::StrAppend(&options, "  ", name, " = ", base::Quotable(value), "\n");
    }
  }
  return absl::StrCat(text,
                      options.empty() ? "all options have defaults\n"
                                      : "differs from the defaults:\n",
                      options);
}

}  // namespace

absl::StatusOr<std::variant<Config, PrintAndExit>> ParseConfig(
    const std::vector<std::string>& args) {
  CLI::App app(
      "mpsd: the daemon that queues and runs fine-tuning jobs on one "
      "device.",
      "mpsd");
  app.set_version_flag("--version", std::string("mpsd ") + MPSD_VERSION);
  app.set_config("--config", "", "A TOML file with these options");
  std::vector<std::string> lines;
  app.config_formatter(std::make_shared<ConfigFile>(lines));
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer(kFooter);
  bool check = false;
  app.add_flag("--check-config", check,
               "Check the options and the file, print the addresses and what "
               "differs from the defaults, and exit; starts nothing")
      ->configurable(false);
  Config config;
  Options options(app);
  DeclarePlaces(app, options, config);
  DeclareAccess(app, options, config);
  DeclareMetrics(options, config);
  DeclareReads(options, config);
  options.List(
      "--environment",
      "NAME=VALUE in the environment of mpsd and its workers, such as HF_HOME; "
      "may be repeated; in the file the table [environment], at its end",
      [&](const std::string& text) { return ReadVariable(text, app, config); });
  DeclareLog(options, config);
  DeclareLimits(options, config);
  DeclareUserLimits(app, options, config);
  DeclareShares(app, options, config);
  DeclareDisk(options, config);
  DeclarePauses(app, options, config);
  DeclareNotify(app, options, config);
  try {
    // CLI11 takes the arguments in reverse order.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app.help()};
  } catch (const CLI::CallForVersion&) {
    return PrintAndExit{app.version() + "\n"};
  } catch (const CLI::ConfigError& e) {
    return UnknownKey(app, e, lines);
  } catch (const CLI::ExtrasError&) {
    return NotExpected(app);
  } catch (const CLI::ParseError& e) {
    return WithPlace(absl::InvalidArgumentError(absl::StrCat(
                         e.what(), "; mpsd --help lists the options")),
                     args, lines);
  }
  RETURN_IF_ERROR(CheckNumbers(app));
  RETURN_IF_ERROR(WithPlace(options.Store(), args, lines));
  if (check) return PrintAndExit{EffectiveText(app, config)};
  return config;
}

}  // namespace mpsd
