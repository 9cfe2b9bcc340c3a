// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <istream>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"
#include "server/access_options.h"
#include "server/config_file.h"
#include "server/default_places.h"
#include "server/disk_options.h"
#include "server/listen_rules.h"
#include "server/share_options.h"
#include "server/user_limit_options.h"

namespace mpsd {
namespace fs = std::filesystem;
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

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The options as CLI11 fills them in.
struct Options {
  std::string state_dir, worker, device_lock;
  std::string metrics_tls_cert, metrics_tls_key, metrics_token_file;
  std::vector<std::string> model_roots, data_roots, environment;
  Config config;
  double hang_timeout = absl::ToDoubleSeconds(config.hang_timeout);
  double stop_grace = absl::ToDoubleSeconds(config.stop_grace);
  double retry_backoff = absl::ToDoubleSeconds(config.retry_backoff);
  double retry_backoff_max = absl::ToDoubleSeconds(config.retry_backoff_max);
  double metrics_linger = absl::ToDoubleSeconds(config.metrics_linger);
  double audit_keep = config.audit_keep / absl::Hours(24);  // days
  double watchdog = absl::ToDoubleSeconds(config.watchdog);
  std::string thermal, memory_pressure, quiet_hours, host_file;
  double idle_only = 0;
  double settle = absl::ToDoubleSeconds(config.pause.settle);
  double hold_limit = absl::ToDoubleSeconds(config.pause.hold_limit);
  double host_interval = absl::ToDoubleSeconds(config.host_interval);
  UserLimitOptions user_limits;
  ShareOptions shares;
  DiskOptions disk;
  AccessOptions access;
  std::vector<std::string> notify_on;
  double notify_settle = absl::ToDoubleSeconds(config.notify.settle);
};

void DeclarePlaces(CLI::App& app, Options& o) {
  app.add_option("--state-dir", o.state_dir,
                 "Folder of the database, the jobs, the socket and the log "
                 "[" +
                     DefaultStateDir().string() + "]");
  app.add_option("--worker", o.worker, "The mpsd-worker to run [next to mpsd]");
  app.add_flag("--skip-selftest", o.config.skip_selftest,
               "Run jobs on a device that has not passed the worker's "
               "--selftest");
  app.add_option("--http-listen", o.config.http_listen,
                 "Serve a read-only web page of the queue and the jobs on this "
                 "127.0.0.1:PORT, for every account of the machine, or "
                 "unix:PATH [off]");
  const std::string lock = DefaultDeviceLock().string();
  app.add_option("--device-lock", o.device_lock,
                 "File that the mpsd whose job uses the GPU locks, shared by "
                 "every mpsd of the machine, or off [" +
                     (lock.empty() ? "off" : lock) + "]");
}

void DeclareMetrics(CLI::App& app, Options& o) {
  app.add_option("--metrics-address", o.config.metrics_address,
                 "HOST:PORT or unix:PATH of the Prometheus metrics, or off")
      ->capture_default_str();
  app.add_option("--metrics-tls-cert", o.metrics_tls_cert,
                 "Serve the metrics over TLS 1.3 with this certificate, a PEM "
                 "file; SIGHUP reads it again");
  app.add_option("--metrics-tls-key", o.metrics_tls_key,
                 "The certificate's key, a PEM file without a passphrase");
  app.add_option("--metrics-token-file", o.metrics_token_file,
                 "Serve the metrics only to clients that send the token in "
                 "this file as a bearer token; SIGHUP reads it again");
}

void DeclareReads(CLI::App& app, Options& o) {
  app.add_option(
      "--model-root", o.model_roots,
      "Folder of this machine below which jobs may name models and adapters, "
      "in addition to the Hugging Face cache; may be repeated [any folder; "
      "with a port or a group, or once a root is named: none]");
  app.add_option("--data-root", o.data_roots,
                 "Folder of this machine below which jobs may name data, in "
                 "addition to uploads; may be repeated [likewise]");
}

void DeclareEnvironment(CLI::App& app, Options& o) {
  app.add_option(
      "--environment", o.environment,
      "NAME=VALUE in the environment of mpsd and its workers, such as HF_HOME; "
      "may be repeated; in the file the table [environment], at its end");
}

void DeclareLog(CLI::App& app, Options& o) {
  app.add_option("--log-level", o.config.log_level, "Lowest level logged")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option("--log-max-bytes", o.config.log_max_bytes,
                 "Size at which STATE/log/mpsd.log rotates")
      ->check(CLI::Range(int64_t{1} << 10, int64_t{1} << 40))
      ->capture_default_str();
  app.add_option("--log-files", o.config.log_files, "Rotated logs kept")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->capture_default_str();
  app.add_option("--log-stderr", o.config.log_stderr,
                 "Log to stderr too: on or off [on]");
}

void DeclareLimits(CLI::App& app, Options& o) {
  const auto seconds = [&](const char* name, double& value,
                           const char* description) {
    app.add_option(name, value, description)
        ->check(CLI::Range(0.001, 1e9))
        ->capture_default_str();
  };
  seconds("--hang-timeout-seconds", o.hang_timeout,
          "A worker is killed after this long without a sign of work, or three "
          "times the job's slowest step if that is longer");
  seconds("--stop-grace-seconds", o.stop_grace,
          "Time for a checkpoint before a worker is killed");
  seconds("--retry-backoff-seconds", o.retry_backoff,
          "Wait after a job's first failure; doubles with each");
  seconds("--retry-backoff-max-seconds", o.retry_backoff_max,
          "The longest such wait");
  seconds("--metrics-linger-seconds", o.metrics_linger,
          "A finished job's series are kept this long");
  app.add_option(
         "--watchdog-seconds", o.watchdog,
         "mpsd exits with an error, so that a service manager restarts it, "
         "when its own API has not answered it for this long; 0: never")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--max-failures", o.config.max_failures,
                 "Failures in a row, without a new checkpoint between, after "
                 "which a job has FAILED")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--max-interruptions", o.config.max_interruptions,
                 "The same for attempts interrupted by an end of mpsd or the "
                 "machine, or by memory pressure")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void DeclareAudit(CLI::App& app, Options& o) {
  app.add_option("--audit-keep-days", o.audit_keep,
                 "How long the audit keeps who requested which change; 0: "
                 "forever, up to a million entries")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
}

// Declares the options that pause the running job and hold the queue in favour
// of users.
void DeclareManners(CLI::App& app, Options& o) {
  app.add_flag("--pause-on-battery", o.config.pause.on_battery,
               "Do not train on battery or in Low Power Mode");
  app.add_option("--pause-on-thermal", o.thermal,
                 "Do not train at this thermal level or above [heavy is where "
                 "macOS slows down]")
      ->check(CLI::IsMember({"moderate", "heavy", "trapping"}));
  app.add_option("--pause-on-memory-pressure", o.memory_pressure,
                 "Do not train at this memory pressure or above")
      ->check(CLI::IsMember({"warn", "critical"}));
  app.add_option("--quiet-hours", o.quiet_hours,
                 "Do not train in this span of the day, as 22:00-07:00");
  app.add_option("--idle-only-seconds", o.idle_only,
                 "Train only once the machine has had no user input for this "
                 "long; 0: always")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--pause-hold-seconds", o.hold_limit,
                 "A pause longer than this writes a checkpoint and frees the "
                 "memory (after a minute at most under memory pressure)")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--pause-settle-seconds", o.settle,
                 "A pause ends once its reason has been gone for this long")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--host-interval-seconds", o.host_interval,
                 "How often the machine is checked")
      ->check(CLI::Range(0.01, 1e9))
      ->capture_default_str();
  app.add_option("--host-file", o.host_file)->group("");  // for tests
}

// Declares the options of the notifications.
void DeclareNotify(CLI::App& app, Options& o) {
  notify::Settings& notify = o.config.notify;
  std::vector<std::string> topics, defaults;
  for (const auto& topic : notify::kTopics) {
    topics.push_back(topic.name);
    if (notify.topics.contains(topic.value)) defaults.push_back(topic.name);
  }
  app.add_option("--notify-on", o.notify_on,
                 "What is reported to --notify-command; may be repeated [" +
                     absl::StrJoin(defaults, " ") + "]")
      ->check(CLI::IsMember(topics));
  app.add_option("--notify-command", notify.command,
                 "Program, by its absolute path, that gets each notification "
                 "as JSON on its standard input, and its arguments: repeat the "
                 "option for each, or a list in the file");
  app.add_option("--notify-low-disk-bytes", notify.low_disk_bytes,
                 "The state folder's disk is low with fewer bytes free")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 60))
      ->capture_default_str();
  app.add_option(
         "--notify-settle-seconds", o.notify_settle,
         "A hold or a low disk is reported once it has lasted this long, "
         "and once it has been over for this long")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_flag("--check-notify", o.config.check_notify,
               "Give --notify-command a test notification, print the result, "
               "and exit")
      ->configurable(false);
}

// CLI11 reports "INI was not able to parse KEY", "KEY.++" for a section, and
// "KEY: This option is not allowed in a configuration file".
absl::Status UnknownKey(const CLI::ConfigError& error) {
  std::string key = error.what();
  const size_t colon = key.find(": ");
  key =
      colon == key.npos ? key.substr(key.rfind(' ') + 1) : key.substr(0, colon);
  if (const size_t section = key.find(".++"); section != key.npos) {
    key = absl::StrCat("[", key.substr(0, section), "]");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the --config file: '", key,
      "' is not an option that mpsd's file may hold; mpsd --help lists them"));
}

// No CLI11 range excludes NaN.
absl::Status CheckNumbers(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_type_name().find("FLOAT") == std::string::npos) continue;
    for (const std::string& text : option->results()) {
      if (!std::isnan(std::strtod(text.c_str(), nullptr))) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          option->get_name(), ": ", text, " is not a number; mpsd --help"));
    }
  }
  return absl::OkStatus();
}

absl::Status FinishManners(const Options& o, Config& config) {
  jobs::PausePolicy& pause = config.pause;
  pause.thermal = host::ThermalNamed(o.thermal);
  pause.memory_pressure = host::MemoryPressureNamed(o.memory_pressure);
  if (!o.quiet_hours.empty()) {
    absl::StatusOr<jobs::QuietHours> hours =
        jobs::ParseQuietHours(o.quiet_hours);
    if (!hours.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--quiet-hours: ", hours.status().message()));
    }
    pause.quiet_hours = *hours;
  }
  pause.idle_only = absl::Seconds(o.idle_only);
  pause.settle = absl::Seconds(o.settle);
  pause.hold_limit = absl::Seconds(o.hold_limit);
  config.host_interval = absl::Seconds(o.host_interval);
  config.host_file = o.host_file;
  return absl::OkStatus();
}

absl::Status FinishNotify(const Options& o, Config& config) {
  notify::Settings& notify = config.notify;
  if (!o.notify_on.empty()) notify.topics.clear();
  for (const auto& topic : notify::kTopics) {
    if (std::count(o.notify_on.begin(), o.notify_on.end(), topic.name) > 0) {
      notify.topics.insert(topic.value);
    }
  }
  notify.settle = absl::Seconds(o.notify_settle);
  if (!notify.command.empty() && !notify.command[0].starts_with('/')) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--notify-command: '", base::Quotable(notify.command[0]),
        "' is not the absolute path of a program; no shell looks it up"));
  }
  return absl::OkStatus();
}

bool IsVariable(const std::string& name) {
  return !name.empty() && !absl::ascii_isdigit(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

absl::Status FinishEnvironment(const Options& o, const CLI::App& app,
                               Config& config) {
  for (const std::string& entry : o.environment) {
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
    if (fault.empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--environment: '", name, "' ", fault));
  }
  return absl::OkStatus();
}

void FinishReads(const Options& o, Config& config) {
  for (const std::string& root : o.model_roots) {
    config.model_roots.push_back(fs::absolute(root));
  }
  for (const std::string& root : o.data_roots) {
    config.data_roots.push_back(fs::absolute(root));
  }
  const bool others_come =
      !config.socket_group.empty() ||
      std::any_of(config.listen.begin(), config.listen.end(), IsPort);
  if (others_come || !o.model_roots.empty() || !o.data_roots.empty()) return;
  config.model_roots = config.data_roots = {"/"};
}

fs::path AbsoluteOrEmpty(const std::string& path) {
  return path.empty() ? fs::path() : fs::absolute(path);
}

absl::StatusOr<Config> Finish(Options o, const CLI::App& app) {
  if (o.state_dir.empty()) o.state_dir = Environment("MPSD_STATE_DIR");
  Config config = std::move(o.config);
  config.state_dir =
      o.state_dir.empty() ? DefaultStateDir() : fs::path(o.state_dir);
  if (config.state_dir.empty()) {
    return absl::InvalidArgumentError(
        "--state-dir: neither it nor HOME is set; name a folder");
  }
  config.state_dir = fs::absolute(config.state_dir).lexically_normal();
  config.worker = o.worker.empty() ? DefaultWorker() : fs::absolute(o.worker);
  if (config.metrics_address == "off") config.metrics_address.clear();
  if (config.http_listen == "off") config.http_listen.clear();
  config.metrics_tls_cert = AbsoluteOrEmpty(o.metrics_tls_cert);
  config.metrics_tls_key = AbsoluteOrEmpty(o.metrics_tls_key);
  config.metrics_token_file = AbsoluteOrEmpty(o.metrics_token_file);
  RETURN_IF_ERROR(FinishAccess(o.access, config));
  RETURN_IF_ERROR(CheckAddresses(config));
  FinishReads(o, config);
  RETURN_IF_ERROR(FinishEnvironment(o, app, config));
  config.device_lock = o.device_lock.empty()    ? DefaultDeviceLock()
                       : o.device_lock == "off" ? fs::path()
                                                : fs::absolute(o.device_lock);
  config.hang_timeout = absl::Seconds(o.hang_timeout);
  config.stop_grace = absl::Seconds(o.stop_grace);
  config.retry_backoff = absl::Seconds(o.retry_backoff);
  config.retry_backoff_max = absl::Seconds(o.retry_backoff_max);
  config.metrics_linger = absl::Seconds(o.metrics_linger);
  o.shares.Finish(config);
  RETURN_IF_ERROR(o.disk.Finish(config));
  config.watchdog = absl::Seconds(o.watchdog);
  config.audit_keep = o.audit_keep * absl::Hours(24);
  if (!config.hf_command.empty() && !config.hf_command.starts_with('/')) {
    return absl::InvalidArgumentError(
        absl::StrCat("--hf-command: '", base::Quotable(config.hf_command),
                     "' is not the absolute path of a program"));
  }
  ASSIGN_OR_RETURN(jobs::LimitSettings limits, ReadUserLimits(o.user_limits));
  config.user_limits = std::move(limits);
  RETURN_IF_ERROR(FinishManners(o, config));
  RETURN_IF_ERROR(FinishNotify(o, config));
  return config;
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
  app.config_formatter(std::make_shared<ConfigFile>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.footer(kFooter);
  Options options;
  DeclarePlaces(app, options);
  DeclareAccess(app, options.access, options.config);
  DeclareMetrics(app, options);
  DeclareReads(app, options);
  DeclareEnvironment(app, options);
  DeclareLog(app, options);
  DeclareLimits(app, options);
  DeclareAudit(app, options);
  app.add_option(
      "--hf-command", options.config.hf_command,
      "Absolute path of the Hugging Face client that mpsd runs for mpsctl "
      "model pull [hf in PATH, Homebrew's folders or ~/.local/bin]");
  DeclareUserLimits(app, options.user_limits);
  options.shares.Declare(app);
  options.disk.Declare(app);
  DeclareManners(app, options);
  DeclareNotify(app, options);
  try {
    // CLI11 takes the arguments in reverse order.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app.help()};
  } catch (const CLI::CallForVersion&) {
    return PrintAndExit{app.version() + "\n"};
  } catch (const CLI::ConfigError& e) {
    return UnknownKey(e);
  } catch (const CLI::ParseError& e) {
    return absl::InvalidArgumentError(
        absl::StrCat(e.what(), "; mpsd --help lists the options"));
  }
  RETURN_IF_ERROR(CheckNumbers(app));
  return Finish(std::move(options), app);
}

}  // namespace mpsd
