// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "text/model_file.hpp"
#include "text/template_evaluator.hpp"
#include "text/template_parser.hpp"
#include "text/template_program.hpp"
#include "text/template_runtime.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxSourceBytes = 256 * 1024;
constexpr std::size_t kMaxConfigBytes = 64u << 20;
constexpr std::size_t kMaxSteps = 100'000;
constexpr std::size_t kStepsAValue = 64;
constexpr std::size_t kOutputsAnInput = 4;
constexpr std::size_t kFreeOutputBytes = 64 * 1024;

// The roles whose names may become part of a special token.
constexpr std::array<std::string_view, 5> kRoles = {"system", "user", "assistant", "tool", "developer"};

struct InputSize {
  std::size_t num_values = 0;
  std::size_t num_bytes = 0;
};

void measure(const TemplateValue& value, InputSize& size) {
  ++size.num_values;
  if (const auto* string = std::get_if<TemplateValue::String>(&value.variant())) {
    size.num_bytes += string->text.size();
  } else if (const auto* array = std::get_if<TemplateValue::Array>(&value.variant())) {
    for (const TemplateValue& element : *array) measure(element, size);
  } else if (const auto* object = std::get_if<TemplateValue::Object>(&value.variant())) {
    for (const auto& [name, element] : *object) {
      size.num_bytes += name.size();
      measure(element, size);
    }
  }
}

// The variables every template may count on, as transformers gives them.
TemplateValue::Object all_variables(const ChatTemplateInput& input) {
  TemplateValue::Object variables = {
      {"messages", TemplateValue(input.messages)},
      {"tools", TemplateValue()},
      {"documents", TemplateValue()},
      {"add_generation_prompt", TemplateValue(input.add_generation_prompt)},
      {"bos_token", TemplateValue::trusted(input.bos_token)},
      {"eos_token", TemplateValue::trusted(input.eos_token)},
  };
  for (const auto& [name, value] : input.extra) {
    const auto same = [&name = name](const auto& entry) { return entry.first == name; };
    std::erase_if(variables, same);
    variables.emplace_back(name, value);
  }
  return variables;
}

std::vector<TemplatePiece> pieces_of(const MarkedString& text) {
  std::vector<TemplatePiece> pieces;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, bool from_input) {
    if (begin < end) pieces.push_back({text.text().substr(begin, end - begin), from_input});
    begin = end;
  };
  for (const TextRange& range : text.input_ranges()) {
    add(range.begin, false);
    add(range.end, true);
  }
  add(text.size(), false);
  return pieces;
}

// A template, or a list of named ones of which we take the default.
std::optional<std::string> template_in(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) throw std::runtime_error("chat_template: expected a string or a list");
  for (const nlohmann::json& entry : *found) {
    if (!entry.is_object() || entry.value("name", "") != "default") continue;
    return entry.at("template").get<std::string>();
  }
  throw std::runtime_error("chat_template: none is named \"default\"");
}

}  // namespace

TemplateValue chat_message(const std::string& role, std::string content) {
  const bool is_known = std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
  return TemplateValue(TemplateValue::Object{
      {"role", is_known ? TemplateValue::trusted(role) : TemplateValue::input(role)},
      {"content", TemplateValue::input(std::move(content))},
  });
}

ChatTemplate::ChatTemplate(std::shared_ptr<const TemplateProgram> program) : program_(std::move(program)) {}

ChatTemplate ChatTemplate::parse(std::string source) {
  if (source.size() > kMaxSourceBytes) {
    throw std::runtime_error("chat template of " + std::to_string(source.size()) + " bytes, at most " +
                             std::to_string(kMaxSourceBytes) + " are read");
  }
  return ChatTemplate(std::make_shared<const TemplateProgram>(jinja::parse_template(source)));
}

std::variant<std::vector<TemplatePiece>, TemplateError> ChatTemplate::render(
    const ChatTemplateInput& input) const {
  try {
    const TemplateValue variables(all_variables(input));
    InputSize size;
    measure(variables, size);
    jinja::Budget budget(kMaxSteps + kStepsAValue * size.num_values,
                         kFreeOutputBytes + kOutputsAnInput * size.num_bytes);
    jinja::Variables scope;
    for (const auto& [name, value] : std::get<TemplateValue::Object>(variables.variant())) {
      scope.emplace_back(name, jinja::Value::from(value));
    }
    return pieces_of(jinja::evaluate(*program_, std::move(scope), input.now, budget));
  } catch (const jinja::EvaluationError& error) {
    return TemplateError{error.what()};
  }
}

std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& model_dir) {
  std::filesystem::path path = model_dir / "chat_template.jinja";
  std::optional<std::string> source = read_model_file(path, kMaxSourceBytes);
  try {
    if (!source) {
      path = model_dir / "tokenizer_config.json";
      const std::optional<std::string> text = read_model_file(path, kMaxConfigBytes);
      if (!text) return std::nullopt;
      const nlohmann::json config = parse_model_json(path, *text);
      if (!config.is_object()) throw std::runtime_error("expected an object");
      source = template_in(config);
      if (!source) return std::nullopt;
    }
    return ChatTemplate::parse(std::move(*source));
  } catch (const std::exception& error) {
    const std::string reason = error.what();
    if (reason.starts_with(path.string())) throw;
    throw std::runtime_error(path.string() + ": " + reason);
  }
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const std::vector<TemplatePiece>& pieces) {
  std::string text;
  std::vector<TextRange> trusted;
  for (const TemplatePiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (piece.from_input || piece.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  return tokenizer.encode_trusting(text, trusted);
}

}  // namespace troupe
