// SPDX-License-Identifier: Apache-2.0
#include "manual/described_command.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>

namespace troupe {
namespace {

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

ManualOption describe(const CLI::Option& option) {
  ManualOption described;
  for (const auto& name : option.get_lnames()) described.names.push_back("--" + name);
  for (const auto& name : option.get_snames()) described.names.push_back("-" + name);
  if (described.names.empty()) described.names.push_back(upper(option.get_name(true)));
  // The parser's own types; those that we name ourselves are none of these.
  const std::string type = option.get_type_name();
  described.may_stand_alone = type.starts_with("[");
  const bool takes_value = option.get_expected_max() > 0 || described.may_stand_alone;
  if (takes_value && described.is_flag()) described.value = described.may_stand_alone ? "BOOL" : type;
  described.help = option.get_description();
  described.default_text = option.get_default_str();
  described.group = option.get_group();
  return described;
}

}  // namespace

ManualCommand describe(const CLI::App& command) {
  ManualCommand described{.name = command.get_name(), .summary = command.get_description(), .options = {}};
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty()) described.options.push_back(describe(*option));
  return described;
}

}  // namespace troupe
