// SPDX-License-Identifier: Apache-2.0
#include "app/options/command_line.hpp"

#include "app/options/configuration_error.hpp"
#include "app/options/manual_sections.hpp"
#include "app/options/usage_error.hpp"
#include "manual/completion.hpp"
#include "manual/described_command.hpp"
#include "manual/man_page.hpp"
#include "telemetry/nearest_name.hpp"
#include "telemetry/shipped_path.hpp"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <deque>
#include <exception>
#include <iterator>
#include <sstream>
#include <utility>

namespace troupe {
namespace {

// Sections of the table, or single options of it.
using Keys = std::vector<std::string_view>;

// clang-format off
const Keys kUsedByInspect = {"device.kind", "device.threads", "device.pin_threads", "device.compute_type",
                             "device.quantize", "device.kv_type", "device.activations", "device.deterministic", "device.memory", "worker", "cuda.library",
                             "scheduler.max_batch_tokens", "scheduler.max_batch_sequences",
                             "scheduler.max_in_flight"};
// clang-format on
// clang-format off
const Keys kUsedByGenerate = {"model", "device", "worker", "cuda", "scheduler.max_batch_tokens",
                              "scheduler.max_batch_sequences", "scheduler.prefill_chunk",
                              "scheduler.max_in_flight", "cache.policy", "cache.host_memory",
                              "cache.link_bandwidth", "cache.link_latency_us", "store.directory",
                              "supervisor", "log"};
// clang-format on
// clang-format off
const Keys kUsedByPerplexity = {"device", "worker", "cuda", "scheduler.max_batch_tokens",
                                "scheduler.prefill_chunk", "scheduler.max_in_flight", "supervisor", "log"};
// clang-format on

const Keys kUsedByConvert = {"device.threads", "log"};
const std::vector<std::string> kConvertTypes = {"q8", "q4"};

// All that a profile holds of the server's settings, and what else it is measured with.
Keys used_by_profile() {
  // clang-format off
  Keys keys = {"server.io_threads", "server.io_cpus", "model", "device", "worker", "cuda", "cache",
               "store.directory", "supervisor", "log"};
  // clang-format on
  for (const auto& setting : serving_table()) keys.push_back(setting.key);
  return keys;
}

// The options of the table as flags of one subcommand.
class TableFlags {
 public:
  // used: those that the subcommand has a use for; empty: all. File and environment
  // may hold the others too, they are shared by all subcommands.
  explicit TableFlags(CLI::App& command, const Keys& used = {}) : command_(command) {
    command.add_option("--config", file_, "TOML file with any options that the server has")
        ->type_name("FILE");
    command.allow_extras();
    for (const auto& entry : option_table())
      if (used.empty() || is_among(used, entry)) add(entry);
  }

  // Throws std::runtime_error if an argument is not known.
  OptionSources sources() const {
    OptionSources sources{.file = {}, .environment = troupe_environment(), .flags = flags_};
    for (const auto& given : switches_)
      if (!given.second.empty()) sources.flags.push_back(given);
    if (!file_.empty()) sources.file = file_;
    for (const auto& extra : command_.remaining()) refuse_extra(extra);
    return sources;
  }
  // Throws std::runtime_error as resolve_options does, too.
  Options resolve() const { return options_from(sources()); }

 private:
  static bool is_among(const Keys& keys, const OptionEntry& entry) {
    const auto section = entry.key.substr(0, entry.key.find('.'));
    return std::any_of(keys.begin(), keys.end(),
                       [&](std::string_view key) { return key == entry.key || key == section; });
  }

  void add(const OptionEntry& entry) {
    const std::string flag(entry.flag);
    const std::string help = std::string(entry.help) + " [" + entry.environment_name() + "]";
    CLI::Option* option = nullptr;
    if (entry.is_switch()) {
      auto& [name, value] = switches_.emplace_back(flag, "");
      option = command_.add_flag(flag, value, help);
      option->type_name("[BOOL]");
    } else {
      option = may_repeat(entry) ? add_repeated(flag, help) : add_single(flag, help);
      option->type_name(entry.unit == OptionEntry::Unit::kBytes  ? "SIZE"
                        : entry.unit == OptionEntry::Unit::kPath ? "PATH"
                        : entry.is_text()                        ? "TEXT"
                                                                 : "N");
    }
    option->default_str(option_text(Options{}, entry));
    option->group("[" + std::string(entry.key.substr(0, entry.key.find('.'))) + "]");
  }

  CLI::Option* add_single(const std::string& flag, const std::string& help) {
    return command_.add_option_function<std::string>(
        flag, [this, flag](const std::string& value) { flags_.emplace_back(flag, value); }, help);
  }

  CLI::Option* add_repeated(const std::string& flag, const std::string& help) {
    const auto keep = [this, flag](const std::vector<std::string>& values) {
      for (const auto& value : values) flags_.emplace_back(flag, value);
    };
    return command_.add_option_function<std::vector<std::string>>(flag, keep, help)
        ->allow_extra_args(false);  // one value each time
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
  std::deque<std::pair<std::string, std::string>> switches_;  // all there are, with the value given or none
};

// Refuses a second --model for a command that uses one only.
Options with_one_model(Options options, const std::string& command) {
  if (options.models.size() == 1) return options;
  std::string names;
  for (const auto& model : options.models) names += (names.empty() ? "" : ", ") + served_name(model);
  throw std::runtime_error("--model: " + command + " takes one model, got " + names);
}

void add_generate_arguments(CLI::App& command, GenerateCommand& generate) {
  command.add_option("prompt,--prompt,-p", generate.prompt,
                     "what to say to the model; without it, or for -, what standard input says");
  command.add_option("--system", generate.system, "a system message before it");
  command.add_flag("--raw", generate.raw, "continue the text as it is, without the chat template");
  command.add_option("--max-tokens,-n", generate.max_tokens,
                     "most tokens to generate, 0 for the context limit");
  command.add_option("--temperature,-t", generate.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0, 2.0));
  command.add_option("--seed", generate.seed, "of the random draws");
}

void add_perplexity_arguments(CLI::App& command, PerplexityCommand& perplexity) {
  command.add_option("model", perplexity.model, "the model's directory or GGUF file")->required();
  command.add_option("--text", perplexity.text, "the text to predict; -: what standard input says")
      ->type_name("FILE")
      ->required();
  command.add_option("--window", perplexity.window,
                     "tokens that are run together; 0 for 1024, or the context if that is less");
  command.add_option("--stride", perplexity.stride,
                     "a window begins so many tokens behind the one before; 0 for half a window");
}

void add_convert_arguments(CLI::App& command, ConvertCommand& convert) {
  command.add_option("model", convert.model, "the model's directory or GGUF file")->required();
  command.add_option("out", convert.out, "the GGUF file to write")->type_name("FILE")->required();
  command
      .add_option("--quantize", convert.quantize,
                  "q8 or q4: blocks of 8 bits (Q8_0) or of 4 (Q4_0; embeddings and head stay at 8)")
      ->check(CLI::IsMember(kConvertTypes))
      ->type_name("TEXT")
      ->capture_default_str();
  command.add_flag("--force", convert.replaces, "replace the file if it exists");
}

void add_profile_arguments(CLI::App& command, ProfileCommand& profile) {
  command.add_option("--out,-o", profile.out, "the file to write")->type_name("FILE")->capture_default_str();
  command
      .add_option("--live", profile.live,
                  "fit the iterations that a server wrote to this trace file, and keep what "
                  "the fit leaves over, instead of measuring a grid")
      ->type_name("FILE");
  command.add_option("--rounds", profile.num_rounds, "how often everything is measured; medians are kept")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

// "--deterministic false" as "--deterministic=false": a flag may stand alone, so
// CLI11 takes no word behind it for its value.
std::vector<std::string> with_values_joined(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv, argv + argc);
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    const bool is_switch = std::any_of(option_table().begin(), option_table().end(), [&](const auto& entry) {
      return entry.flag == arguments[i] && entry.is_switch();
    });
    if (!is_switch || !parse_bool(arguments[i + 1])) continue;
    arguments[i] += "=" + arguments[i + 1];
    arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  return arguments;
}

// Empty: it is one of the subcommands, or a flag.
std::string unknown_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.size() < 2 || arguments[1].starts_with("-")) return "";
  const std::string& name = arguments[1];
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({})) {
    if (command->get_name() == name) return "";
    if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  std::string text = "troupe: unknown command '" + name + "'";
  const auto nearest = nearest_name(name, known);
  if (!nearest.empty()) return text + "; did you mean '" + nearest + "'?\n";
  text += "; expected one of";
  for (const auto& other : known) text += " " + other;
  return text + "\n";
}

// A missing argument is wrong usage, an option that can't be is wrong configuration.
int status_of(const CLI::ParseError& error, int cli_status) {
  if (cli_status == 0) return 0;
  return dynamic_cast<const CLI::RequiredError*>(&error) != nullptr ? kUsageStatus : kConfigurationStatus;
}

// The parser, and all that it writes to.
class CommandLine {
 public:
  CommandLine() {
    app_.set_version_flag("--version,-V", version_text());
    app_.require_subcommand(1);
    worker_.group("");  // not shown
    add_generate_arguments(generate_, generate_command_);
    add_perplexity_arguments(perplexity_, perplexity_command_);
    add_convert_arguments(convert_, convert_command_);
    add_profile_arguments(profile_, profile_command_);
    worker_.add_option("--log-level", worker_command_.log_level);
    worker_.add_option("--log-format", worker_command_.log_format);
    trace_.add_option("file", trace_command_.file, "OTLP JSON lines, as written by --trace-file")->required();
    trace_.add_option("--out", trace_command_.timeline,
                      "write Chrome trace events here, for https://ui.perfetto.dev");
    inspect_.add_option("directory", inspect_command_.directory, "the model's directory or GGUF file")
        ->required();
    doctor_.add_flag("--json", doctor_command_.is_json, "print one JSON object");
    completion_.add_option("shell", shell_, "bash, zsh or fish")->required();
  }

  Command parse(int argc, const char* const* argv) {
    auto arguments = with_values_joined(argc, argv);
    if (const auto text = unknown_command(app_, arguments); !text.empty()) return Message{text, kUsageStatus};
    try {
      arguments.erase(arguments.begin());
      std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes a vector
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      std::ostringstream text;
      const int status = app_.exit(error, text, text);
      return Message{text.str(), status_of(error, status)};
    }
    if (completion_.parsed()) return completion();
    if (man_.parsed()) return Message{man_page(manual()), 0};
    if (doctor_.parsed()) return doctor();
    try {
      return command_with_options();
    } catch (const std::exception& error) {
      return Message{"troupe: " + std::string(error.what()) + "\n", kConfigurationStatus};
    }
  }

  ProgramManual manual() const {
    ProgramManual manual{.name = "troupe",
                         .summary = "serves language models over HTTP",
                         .version = TROUPE_VERSION,
                         .commands = {},
                         .sections = manual_sections()};
    for (const auto* command : app_.get_subcommands({})) {
      if (command->get_group().empty()) continue;
      manual.commands.push_back(describe(*command));
      for (auto& option : manual.commands.back().options)
        option.choices = choices_of(manual.commands.back().name, option);
    }
    return manual;
  }

 private:
  static std::vector<std::string> choices_of(const std::string& command, const ManualOption& option) {
    if (option.names.front() == "SHELL") return {std::begin(kShells), std::end(kShells)};
    if (command == "convert" && option.names.front() == "--quantize") return kConvertTypes;
    for (const auto& entry : option_table()) {
      if (entry.flag != option.names.front()) continue;
      std::vector<std::string> choices;
      for (const auto choice : entry.rule().choices)
        if (!choice.ends_with(":N")) choices.emplace_back(choice);
      return choices;
    }
    return {};
  }

  Command completion() const {
    if (const auto script = completion_script(manual(), shell_)) return Message{*script, 0};
    return Message{"troupe completion: expected bash, zsh or fish, got '" + shell_ + "'\n", kUsageStatus};
  }

  // Options that can't be are for the doctor to tell of.
  Command doctor() {
    try {
      doctor_command_.options = doctor_flags_.resolve();
    } catch (const std::exception& error) {
      doctor_command_.problem = error.what();
    }
    return doctor_command_;
  }

  // Throws std::runtime_error as resolve_options does.
  Command command_with_options() {
    if (serve_.parsed()) {
      const OptionSources sources = serve_flags_.sources();
      return ServeCommand{.options = options_from(sources), .sources = sources};
    }
    if (generate_.parsed()) {
      generate_command_.options = with_one_model(generate_flags_.resolve(), "generate");
      return generate_command_;
    }
    if (perplexity_.parsed()) {
      perplexity_command_.options = perplexity_flags_.resolve();
      return perplexity_command_;
    }
    if (convert_.parsed()) {
      convert_command_.options = convert_flags_.resolve();
      return convert_command_;
    }
    if (profile_.parsed()) {
      profile_command_.options = with_one_model(profile_flags_.resolve(), "profile");
      return profile_command_;
    }
    if (trace_.parsed()) return trace_command_;
    if (worker_.parsed()) return worker_command_;
    inspect_command_.options = inspect_flags_.resolve();
    return inspect_command_;
  }

  CLI::App app_{"troupe serves language models over HTTP.", "troupe"};
  CLI::App& serve_ = *app_.add_subcommand("serve", "serve a model over HTTP");
  CLI::App& generate_ = *app_.add_subcommand("generate", "answer one prompt on the terminal");
  CLI::App& inspect_ = *app_.add_subcommand("inspect", "say what a model holds and needs");
  CLI::App& perplexity_ = *app_.add_subcommand("perplexity", "say how well a model predicts a text");
  CLI::App& convert_ = *app_.add_subcommand("convert", "write a model as a GGUF file of 8 or 4 bits");
  CLI::App& doctor_ = *app_.add_subcommand("doctor", "say what would keep serve from working well here");
  CLI::App& profile_ =
      *app_.add_subcommand("profile", "measure what serving costs here, for troupe-loadgen simulate");
  CLI::App& worker_ = *app_.add_subcommand("worker", "run a device for the server that started this");
  CLI::App& trace_ = *app_.add_subcommand("trace", "sum up a trace file and make a timeline of it");
  CLI::App& completion_ = *app_.add_subcommand("completion", "print what completes command lines in a shell");
  CLI::App& man_ = *app_.add_subcommand("man", "print the man page");
  TableFlags serve_flags_{serve_};
  TableFlags generate_flags_{generate_, kUsedByGenerate};
  TableFlags inspect_flags_{inspect_, kUsedByInspect};
  TableFlags perplexity_flags_{perplexity_, kUsedByPerplexity};
  TableFlags convert_flags_{convert_, kUsedByConvert};
  TableFlags doctor_flags_{doctor_};
  TableFlags profile_flags_{profile_, used_by_profile()};
  GenerateCommand generate_command_;
  InspectCommand inspect_command_;
  PerplexityCommand perplexity_command_;
  ConvertCommand convert_command_;
  DoctorCommand doctor_command_;
  ProfileCommand profile_command_;
  TraceCommand trace_command_;
  WorkerCommand worker_command_;
  std::string shell_;
};

}  // namespace

Command parse_command_line(int argc, const char* const* argv) { return CommandLine().parse(argc, argv); }

Options options_from(const OptionSources& sources) {
  Options options = resolve_options(sources);
  for (auto& model : options.models)
    if (model.dir == kDemoModel) {
      model.dir = shipped_path(kDemoModel).string();
      if (model.name.empty()) model.name = kDemoName;
    }
  return options;
}

ProgramManual troupe_manual() { return CommandLine().manual(); }

std::string version_text() { return "troupe " TROUPE_VERSION " (g++ " __VERSION__ ")"; }

}  // namespace troupe
