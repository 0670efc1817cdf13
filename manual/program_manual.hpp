// SPDX-License-Identifier: Apache-2.0
// The commands and options of a program, once, for all that is written of them beside
// its --help: the man page (man_page.hpp) and the completion of shells (completion.hpp).
#pragma once

#include <string>
#include <vector>

namespace troupe {

struct ManualOption {
  // "--max-tokens", "-n"; of an argument without a flag: "FILE".
  std::vector<std::string> names = {};
  std::string value = {};                 // "PATH", "N"; empty: it takes none
  bool may_stand_alone = false;           // its value may be left out
  std::string help = {};                  // one sentence
  std::string default_text = {};          // empty: none
  std::string group = {};                 // "[server]", or a word of the command-line library
  std::vector<std::string> choices = {};  // all values there are; empty: any

  bool is_flag() const { return names.front().starts_with("-"); }
  bool takes_path() const { return value == "PATH" || value == "FILE" || value == "DIRECTORY"; }
  bool operator==(const ManualOption&) const = default;
};

struct ManualCommand {
  std::string name;
  std::string summary;                // begins with a verb, without a full stop
  std::vector<ManualOption> options;  // in the order of its --help
};

struct ManualSection {
  std::string title;  // "EXIT STATUS"
  // Paragraphs; one that begins with a tab has a term in front of the next tab.
  std::vector<std::string> paragraphs;
};

struct ProgramManual {
  std::string name;
  std::string summary;
  std::string version;
  std::vector<ManualCommand> commands;
  std::vector<ManualSection> sections;
};

}  // namespace troupe
