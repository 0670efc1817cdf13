// SPDX-License-Identifier: Apache-2.0
#include "app/command_line.hpp"

#include "telemetry/nearest_name.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <exception>

namespace troupe {
namespace {

constexpr int kUsageError = 64;   // sysexits: EX_USAGE
constexpr int kConfigError = 78;  // sysexits: EX_CONFIG

// The options of the table as flags of one subcommand.
class TableFlags {
 public:
  explicit TableFlags(CLI::App& command) : command_(command) {
    command.add_option("--config", file_, "TOML file with any of the options below")->type_name("FILE");
    command.allow_extras();
    for (const auto& entry : option_table()) add(entry);
  }

  // Throws std::runtime_error as resolve_options does.
  Options resolve() const {
    OptionSources sources{.file = {}, .environment = troupe_environment(), .flags = flags_};
    if (!file_.empty()) sources.file = file_;
    for (const auto& extra : command_.remaining()) refuse_extra(extra);
    return resolve_options(sources);
  }

 private:
  void add(const OptionEntry& entry) {
    const std::string flag(entry.flag);
    const std::string help = std::string(entry.help) + " [" + entry.environment_name() + "]";
    const bool is_bool = std::holds_alternative<bool Options::*>(entry.field);
    CLI::Option* option = nullptr;
    if (is_bool) {
      option = command_.add_flag_function(
          flag, [this, flag](std::int64_t count) { flags_.emplace_back(flag, count > 0 ? "true" : "false"); },
          help);
      option->type_name("[=BOOL]");
    } else {
      option = command_.add_option_function<std::string>(
          flag, [this, flag](const std::string& value) { flags_.emplace_back(flag, value); }, help);
      const bool is_number = !std::holds_alternative<std::string Options::*>(entry.field);
      option->type_name(entry.unit == OptionEntry::Unit::kBytes  ? "SIZE"
                        : entry.unit == OptionEntry::Unit::kPath ? "PATH"
                        : is_number                              ? "N"
                                                                 : "TEXT");
    }
    option->default_str(option_text(Options{}, entry));
    option->group("[" + std::string(entry.key.substr(0, entry.key.find('.'))) + "]");
  }

  [[noreturn]] void refuse_extra(const std::string& extra) const {
    std::vector<std::string> known;
    for (const auto* option : command_.get_options()) known.push_back(option->get_name());
    const auto name = extra.substr(0, extra.find('='));
    const auto nearest = name.starts_with("-") ? nearest_name(name, known) : std::string();
    throw std::runtime_error("unknown argument '" + name + "'" +
                             (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }

  static std::map<std::string, std::string> troupe_environment() {
    std::map<std::string, std::string> found;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string_view text(*entry);
      const auto equals = text.find('=');
      if (text.starts_with("TROUPE_") && equals != std::string_view::npos)
        found.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return found;
  }

  CLI::App& command_;
  std::string file_;
  std::vector<std::pair<std::string, std::string>> flags_;
};

void add_generate_arguments(CLI::App& command, GenerateCommand& generate) {
  command.add_option("--prompt,-p", generate.prompt, "what to say to the model")->required();
  command.add_option("--system", generate.system, "a system message before it");
  command.add_flag("--raw", generate.raw, "continue the text as it is, without the chat template");
  command.add_option("--max-tokens,-n", generate.max_tokens,
                     "most tokens to generate, 0 for the context limit");
  command.add_option("--temperature,-t", generate.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 2.0));
  command.add_option("--seed", generate.seed, "of the random draws");
}

void add_profile_arguments(CLI::App& command, ProfileCommand& profile) {
  command.add_option("--out,-o", profile.out, "the file to write")->type_name("FILE")->capture_default_str();
  command.add_option("--rounds", profile.num_rounds, "how often everything is measured; medians are kept")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

}  // namespace

Command parse_command_line(int argc, const char* const* argv) {
  CLI::App app{"troupe serves language models over HTTP.", "troupe"};
  app.set_version_flag("--version,-V", version_text());
  app.require_subcommand(1);
  auto& serve = *app.add_subcommand("serve", "serve a model over HTTP");
  auto& generate = *app.add_subcommand("generate", "answer one prompt on the terminal");
  auto& inspect = *app.add_subcommand("inspect", "say what a model directory holds and needs");
  auto& profile =
      *app.add_subcommand("profile", "measure what serving costs here, for troupe-loadgen simulate");
  auto& worker = *app.add_subcommand("worker", "run a device for the server that started this");
  worker.group("");  // not shown
  auto& trace = *app.add_subcommand("trace", "sum up a trace file and make a timeline of it");
  TableFlags serve_flags(serve);
  TableFlags generate_flags(generate);
  TableFlags inspect_flags(inspect);
  TableFlags profile_flags(profile);
  GenerateCommand generate_command;
  InspectCommand inspect_command;
  ProfileCommand profile_command;
  add_generate_arguments(generate, generate_command);
  add_profile_arguments(profile, profile_command);
  WorkerCommand worker_command;
  worker.add_option("--log-level", worker_command.log_level);
  worker.add_option("--log-format", worker_command.log_format);
  TraceCommand trace_command;
  trace.add_option("file", trace_command.file, "OTLP JSON lines, as written by --trace-file")->required();
  trace.add_option("--out", trace_command.timeline,
                   "write Chrome trace events here, for https://ui.perfetto.dev");
  inspect.add_option("directory", inspect_command.directory, "the model's directory")->required();

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream text;
    const int status = app.exit(error, text, text);
    return Message{text.str(), status == 0 ? 0 : kUsageError};
  }
  try {
    if (serve.parsed()) return ServeCommand{serve_flags.resolve()};
    if (generate.parsed()) {
      generate_command.options = generate_flags.resolve();
      return generate_command;
    }
    if (profile.parsed()) {
      profile_command.options = profile_flags.resolve();
      return profile_command;
    }
    if (trace.parsed()) return trace_command;
    if (worker.parsed()) return worker_command;
    inspect_command.options = inspect_flags.resolve();
    return inspect_command;
  } catch (const std::exception& error) {
    return Message{"troupe: " + std::string(error.what()) + "\n", kConfigError};
  }
}

std::string version_text() { return "troupe " TROUPE_VERSION " (g++ " __VERSION__ ")"; }

}  // namespace troupe
