// SPDX-License-Identifier: Apache-2.0
// The command line as typed: the subcommand, its own arguments and the options of the
// table. Help texts are made here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "app/options/options.hpp"
#include "manual/program_manual.hpp"

namespace troupe {

struct ServeCommand {
  Options options;
  OptionSources sources;  // of the options, to be read anew
};

struct GenerateCommand {
  Options options;
  std::optional<std::string> prompt;  // none, or "-": standard input's
  std::string system;
  bool raw = false;              // no chat template
  std::uint32_t max_tokens = 0;  // 0: up to the context limit
  double temperature = 0.0;
  std::uint64_t seed = 0;
};

struct InspectCommand {
  Options options;
  std::string directory;
};

struct PerplexityCommand {
  Options options;
  std::string model;         // a directory or a GGUF file
  std::string text;          // a file, or "-": standard input
  std::uint64_t window = 0;  // tokens; 0: 1024, or the context if that is less
  std::uint64_t stride = 0;  // tokens; 0: half a window
};

struct ConvertCommand {
  Options options;
  std::string model;            // a directory or a GGUF file
  std::string out;              // the GGUF file to write
  std::string quantize = "q8";  // or "q4"
  bool replaces = false;        // a file that is there
};

struct ProfileCommand {
  Options options;
  std::string out = "profile.json";
  std::uint32_t num_rounds = 7;
  std::string live = {};  // a trace file of served iterations, in place of measuring; empty: none
};

struct TraceCommand {
  std::string file;
  std::string timeline;  // empty: none is written
};

// problem: why there are no options as they were asked for; empty: there are.
struct DoctorCommand {
  Options options;
  std::string problem;
  bool is_json = false;
};

// The process that a server starts for its device; not for people.
struct WorkerCommand {
  std::string log_level = "info";
  std::string log_format = "text";
};

// Nothing to run: a help or version text, the man page or a completion was asked for, or
// a line was wrong.
struct Message {
  std::string text;
  int exit_status = 0;
};

using Command = std::variant<ServeCommand, GenerateCommand, InspectCommand, PerplexityCommand, ConvertCommand,
                             TraceCommand, ProfileCommand, DoctorCommand, WorkerCommand, Message>;

// Never throws for what was typed or configured: that comes back as a Message.
Command parse_command_line(int argc, const char* const* argv);

// As resolve_options(), with the demo model where it was shipped to, under its name.
Options options_from(const OptionSources& sources);

// All that the command line takes.
ProgramManual troupe_manual();

// "troupe 0.1.0 (a1b2c3d, g++ 12.2, CAF 0.17.6)"
std::string version_text();

}  // namespace troupe
