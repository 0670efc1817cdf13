// SPDX-License-Identifier: Apache-2.0
#include "manual/man_page.hpp"

#include <algorithm>
#include <cctype>

namespace troupe {
namespace {

// Any text as text: what troff would take for a request, a quote or a hyphen is escaped.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '.' && (out.empty() || out.back() == '\n')) {
      out += "\\&.";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(const std::string& text) { return "\\fB" + plain(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + plain(text) + "\\fR"; }

char upper(char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); }

std::string upper(std::string text) {
  for (char& c : text) c = upper(c);
  return text;
}

std::string term_of(const ManualOption& option) {
  if (!option.is_flag()) return italic(option.names.front());
  std::string term;
  for (const auto& name : option.names) term += (term.empty() ? "" : ", ") + bold(name);
  if (option.value.empty()) return term;
  return term + (option.may_stand_alone ? "[=" + italic(option.value) + "]" : " " + italic(option.value));
}

std::string entry_of(const ManualOption& option) {
  std::string text = ".TP\n" + term_of(option) + "\n" + plain(option.help);
  if (!option.default_text.empty()) text += " (default: " + plain(option.default_text) + ")";
  return text + "\n";
}

// By the commands in front of `command`.
bool is_known(const ProgramManual& program, const ManualCommand& command, const ManualOption& option) {
  for (const auto& other : program.commands) {
    if (&other == &command) return false;
    if (std::find(other.options.begin(), other.options.end(), option) != other.options.end()) return true;
  }
  return false;
}

std::string command_text(const ProgramManual& program, const ManualCommand& command) {
  std::string summary = command.summary;
  if (!summary.empty()) summary.front() = upper(summary.front());
  std::string text = ".SS " + plain(program.name + " " + command.name) + "\n" + plain(summary) + ".\n";
  std::string known, group;
  for (const auto& option : command.options) {
    if (is_known(program, command, option)) {
      known += (known.empty() ? "" : ", ") + bold(option.names.front());
      continue;
    }
    if (option.group.starts_with("[") && option.group != group)
      text += ".PP\nIn a file under " + bold(option.group) + ":\n";
    group = option.group;
    text += entry_of(option);
  }
  if (!known.empty()) text += ".PP\nAs above: " + known + ".\n";
  return text;
}

std::string section_text(const ManualSection& section) {
  std::string text = ".SH " + plain(section.title) + "\n";
  bool is_first = true;
  for (const auto& paragraph : section.paragraphs) {
    const auto end_of_term = paragraph.find('\t', 1);
    if (paragraph.starts_with("\t") && end_of_term != std::string::npos) {
      text += ".TP\n" + bold(paragraph.substr(1, end_of_term - 1)) + "\n" +
              plain(paragraph.substr(end_of_term + 1)) + "\n";
    } else {
      text += (is_first ? "" : ".PP\n") + plain(paragraph) + "\n";
    }
    is_first = false;
  }
  return text;
}

}  // namespace

std::string man_page(const ProgramManual& program) {
  std::string text = ".TH " + plain(upper(program.name)) + " 1 \"\" \"" + plain(program.name) + " " +
                     plain(program.version) + "\" \"User Commands\"\n";
  text += ".SH NAME\n" + plain(program.name) + " \\- " + plain(program.summary) + "\n";
  text += ".SH SYNOPSIS\n" + bold(program.name) + " " + italic("COMMAND") + " [" + italic("OPTION") +
          " ...]\n.br\n" + bold(program.name) + " [" + italic("COMMAND") + "] " + bold("--help") + "\n.br\n" +
          bold(program.name) + " " + bold("--version") + "\n";
  text += ".SH COMMANDS\n";
  for (const auto& command : program.commands) text += command_text(program, command);
  for (const auto& section : program.sections) text += section_text(section);
  return text;
}

}  // namespace troupe
