// SPDX-License-Identifier: Apache-2.0
#include "manual/completion.hpp"

#include <algorithm>

namespace troupe {
namespace {

// "troupe-loadgen" as part of the name of a shell function.
std::string function_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return "_" + name;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::vector<std::string> flags_of(const ManualCommand& command) {
  std::vector<std::string> flags;
  for (const auto& option : command.options)
    if (option.is_flag()) flags.insert(flags.end(), option.names.begin(), option.names.end());
  return flags;
}

std::vector<std::string> names_of(const ProgramManual& program) {
  std::vector<std::string> names;
  for (const auto& command : program.commands) names.push_back(command.name);
  return names;
}

std::string replaced(const std::string& text, const std::string& part, const std::string& by) {
  std::string out;
  std::size_t at = 0;
  for (auto found = text.find(part); found != std::string::npos; found = text.find(part, at)) {
    out += text.substr(at, found - at) + by;
    at = found + part.size();
  }
  return out + text.substr(at);
}

// For a shell, in single quotes.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// "serve:--host|serve:-h": what a value stands behind.
std::string bash_pattern(const ManualCommand& command, const ManualOption& option) {
  std::vector<std::string> patterns;
  for (const auto& name : option.names) patterns.push_back(command.name + ":" + name);
  return joined(patterns, "|");
}

std::string bash_values(const ManualCommand& command) {
  std::string text;
  for (const auto& option : command.options) {
    const bool needs_value = !option.value.empty() && !option.may_stand_alone;
    if (!option.is_flag()) continue;
    if (!option.choices.empty()) {
      text +=
          "    " + bash_pattern(command, option) + ") words=" + quoted(joined(option.choices, " ")) + " ;;\n";
    } else if (option.takes_path()) {
      text += "    " + bash_pattern(command, option) + ") files=1 ;;\n";
    } else if (needs_value) {
      text += "    " + bash_pattern(command, option) + ") return ;;\n";
    }
  }
  return text;
}

// An argument without a flag: its choices are completed beside the flags, or files.
std::string bash_options(const ManualCommand& command) {
  std::vector<std::string> words = flags_of(command);
  bool takes_files = false;
  for (const auto& option : command.options) {
    if (option.is_flag()) continue;
    words.insert(words.end(), option.choices.begin(), option.choices.end());
    takes_files = takes_files || option.choices.empty();
  }
  return "    " + command.name + ":*) words=" + quoted(joined(words, " ")) + (takes_files ? " files=1" : "") +
         " ;;\n";
}

// `--option=value` comes as three words; the colon of cuda:N would part one more.
std::string bash_script(const ProgramManual& program) {
  const std::string function = function_name(program.name);
  std::string text = "# bash completion for " + program.name + "; made by: " + program.name +
                     " completion bash\n" + function + "() {\n" +
                     "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "  local command= words= files= i\n"
                     "  if [[ $current == = ]]; then\n"
                     "    current=\n"
                     "  elif [[ $previous == = ]]; then\n"
                     "    previous=${COMP_WORDS[COMP_CWORD-2]}\n"
                     "  fi\n"
                     "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
                     "    if [[ ${COMP_WORDS[i]} != -* ]]; then command=${COMP_WORDS[i]}; break; fi\n"
                     "  done\n"
                     "  COMPREPLY=()\n"
                     "  case $command:$previous in\n";
  for (const auto& command : program.commands) text += bash_values(command);
  for (const auto& command : program.commands) text += bash_options(command);
  text += "    :*) words=" + quoted(joined(names_of(program), " ") + " --help --version") + " ;;\n";
  text +=
      "  esac\n"
      "  if [[ $words ]]; then mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\"); fi\n"
      "  if [[ $files && $current != -* ]]; then compopt -o filenames; mapfile -t -O \"${#COMPREPLY[@]}\" "
      "COMPREPLY < <(compgen -f -- \"$current\"); fi\n"
      "}\n"
      "complete -F " +
      function + " " + program.name + "\n";
  return text;
}

// Inside _arguments' specification: brackets, colons and backslashes mean something there.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const ManualOption& option) {
  const std::string name = option.value.empty() ? option.names.front() : option.value;
  const std::string message = ":" + zsh_escaped(name) + ":";
  if (!option.choices.empty()) return message + "(" + zsh_escaped(joined(option.choices, " ")) + ")";
  return message + (option.takes_path() || !option.is_flag() ? "_files" : " ");
}

std::string zsh_options(const ManualCommand& command) {
  std::string text;
  for (const auto& option : command.options) {
    if (!option.is_flag()) {
      text += " \\\n          " + quoted("*" + zsh_action(option));
      continue;
    }
    for (const auto& name : option.names) {
      const bool has_value = !option.value.empty() && !option.may_stand_alone;
      const std::string equals = has_value && name.starts_with("--") ? "=" : "";
      text += " \\\n          " + quoted("*" + name + equals + "[" + zsh_escaped(option.help) + "]" +
                                         (has_value ? zsh_action(option) : ""));
    }
  }
  return text;
}

std::string zsh_script(const ProgramManual& program) {
  const std::string function = function_name(program.name);
  std::string text = "#compdef " + program.name + "\n# made by: " + program.name + " completion zsh\n" +
                     function + "() {\n" +
                     "  local state line curcontext=$curcontext\n"
                     "  _arguments -C '--help[show the help]' '--version[show the version]' '1: :->command' "
                     "'*:: :->argument'\n"
                     "  case $state in\n"
                     "    command)\n"
                     "      local -a commands=(\n";
  for (const auto& command : program.commands)
    text += "        " + quoted(command.name + ":" + command.summary) + "\n";
  text +=
      "      )\n"
      "      _describe command commands ;;\n"
      "    argument)\n"
      "      case $line[1] in\n";
  for (const auto& command : program.commands)
    text += "        " + command.name + ") _arguments -s" + zsh_options(command) + " ;;\n";
  text +=
      "      esac ;;\n"
      "  esac\n"
      "}\n"
      "if [[ $funcstack[1] == " +
      function + " ]]; then " + function + " \"$@\"; else compdef " + function + " " + program.name +
      "; fi\n";
  return text;
}

std::string fish_option(const std::string& program, const ManualCommand& command,
                        const ManualOption& option) {
  std::string text = "complete -c " + program + " -n '__fish_seen_subcommand_from " + command.name + "'";
  for (const auto& name : option.names) {
    if (!option.is_flag()) continue;
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.choices.empty()) {
    text += (option.is_flag() ? " -x -a " : " -a ") + quoted(joined(option.choices, " "));
  } else if (option.takes_path() || !option.is_flag()) {
    text += option.is_flag() ? " -r -F" : " -F";
  } else if (!option.value.empty() && !option.may_stand_alone) {
    text += " -x";
  }
  return text + " -d " + quoted(option.help) + "\n";
}

std::string fish_script(const ProgramManual& program) {
  std::string text = "# made by: " + program.name + " completion fish\ncomplete -c " + program.name + " -f\n";
  for (const auto& command : program.commands)
    text += "complete -c " + program.name + " -n __fish_use_subcommand -a " + command.name + " -d " +
            quoted(command.summary) + "\n";
  for (const auto& command : program.commands)
    for (const auto& option : command.options) text += fish_option(program.name, command, option);
  return text;
}

}  // namespace

std::optional<std::string> completion_script(const ProgramManual& program, std::string_view shell) {
  if (shell == "bash") return bash_script(program);
  if (shell == "zsh") return zsh_script(program);
  if (shell == "fish") return fish_script(program);
  return std::nullopt;
}

}  // namespace troupe
