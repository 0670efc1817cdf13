// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "text/answer/answer_format_probe.hpp"
#include "text/jinja/syntax/template_parser.hpp"
#include "text/jinja/syntax/template_program.hpp"
#include "text/jinja/template_evaluator.hpp"
#include "text/jinja/template_runtime.hpp"
#include "text/model_file.hpp"
#include "text/thinking_switch.hpp"

namespace troupe {
namespace {

constexpr std::size_t kMaxSourceBytes = 256 * 1024;
constexpr std::size_t kMaxConfigBytes = 64u << 20;
constexpr std::size_t kMaxSteps = 100'000;
constexpr std::size_t kStepsAValue = 64;
constexpr std::size_t kOutputsAnInput = 4;
constexpr std::size_t kFreeOutputBytes = 64 * 1024;
constexpr std::size_t kUsualFrame = 4096;  // bytes that templates write around the messages

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
  } else if (const auto* mixed = std::get_if<MarkedString>(&value.variant())) {
    size.num_bytes += mixed->size();
  } else if (const auto* array = std::get_if<TemplateValue::Array>(&value.variant())) {
    for (const TemplateValue& element : *array) measure(element, size);
  } else if (const auto* object = std::get_if<TemplateValue::Object>(&value.variant())) {
    for (const auto& [name, element] : *object) {
      size.num_bytes += name.size();
      measure(element, size);
    }
  }
}

InputSize size_of(const ChatTemplateInput& input) {
  InputSize size{.num_values = 1, .num_bytes = input.bos_token.size() + input.eos_token.size()};
  for (const TemplateValue& message : input.messages) measure(message, size);
  measure(input.tools, size);
  for (const auto& [name, value] : input.extra) measure(value, size);
  return size;
}

// The variables every template may count on, as transformers gives them.
jinja::Variables all_variables(ChatTemplateInput input) {
  using jinja::Value;
  jinja::Variables variables = {
      {"messages", Value::from(std::move(input.messages))},
      {"tools", Value::from(std::move(input.tools))},
      {"documents", Value(nullptr)},
      {"add_generation_prompt", Value(input.add_generation_prompt)},
      {"bos_token", Value::text(input.bos_token)},
      {"eos_token", Value::text(input.eos_token)},
  };
  for (auto& [name, value] : input.extra) {
    const auto same = [&name = name](const auto& entry) { return entry.first == name; };
    std::erase_if(variables, same);
    variables.emplace_back(name, Value::from(std::move(value)));
  }
  return variables;
}

// What the input is not, the template wrote.
RenderedText rendered_text(MarkedString text) {
  RenderedText rendered;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end) {
    if (begin < end) rendered.trusted.push_back({begin, end});
  };
  for (const TextRange& range : text.input_ranges()) {
    add(range.begin);
    begin = range.end;
  }
  add(text.size());
  rendered.text = std::move(text).take_text();
  return rendered;
}

// Of an entry of a list of templates.
std::string member(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found != entry.end() && found->is_string()) return found->get<std::string>();
  throw std::runtime_error(std::string("chat_template: each in the list needs a string \"") + name + "\"");
}

// A template, or a list of named ones of which we take the default.
std::optional<std::string> template_in(const nlohmann::json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) throw std::runtime_error("chat_template: expected a string or a list");
  for (const nlohmann::json& entry : *found) {
    if (!entry.is_object()) throw std::runtime_error("chat_template: expected a list of objects");
    if (member(entry, "name") == "default") return member(entry, "template");
  }
  throw std::runtime_error("chat_template: none is named \"default\"");
}

// The text of a template and where it is.
struct FoundTemplate {
  std::filesystem::path file;
  std::string source;
};

// Names the file, which some reasons do already.
[[noreturn]] void refuse(const std::filesystem::path& file, const std::exception& error) {
  const std::string reason = error.what();
  throw std::runtime_error(reason.starts_with(file.string()) ? reason : file.string() + ": " + reason);
}

std::optional<FoundTemplate> find_template(const std::filesystem::path& model_dir) {
  std::filesystem::path path = model_dir / "chat_template.jinja";
  if (auto source = read_model_file(path, kMaxSourceBytes)) return FoundTemplate{path, std::move(*source)};
  path = model_dir / "tokenizer_config.json";
  const std::optional<std::string> text = read_model_file(path, kMaxConfigBytes);
  if (!text) return std::nullopt;
  try {
    const nlohmann::json config = parse_model_json(path, *text);
    if (!config.is_object()) throw std::runtime_error("expected an object");
    auto source = template_in(config);
    if (!source) return std::nullopt;
    return FoundTemplate{path, std::move(*source)};
  } catch (const std::exception& error) {
    refuse(path, error);
  }
}

}  // namespace

TemplateValue::Object chat_message(const std::string& role, std::string content) {
  return chat_message_with(role, TemplateValue::input(std::move(content)));
}

TemplateValue::Object chat_message_with(const std::string& role, TemplateValue content) {
  const bool is_known = std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
  TemplateValue::Object message;  // a list in braces would copy the content
  message.reserve(2);
  message.emplace_back("role", is_known ? TemplateValue::trusted(role) : TemplateValue::input(role));
  message.emplace_back("content", std::move(content));
  return message;
}

ChatTemplate::ChatTemplate(std::shared_ptr<const TemplateProgram> program) : program_(std::move(program)) {}

ChatTemplate ChatTemplate::parse(std::string source) {
  if (source.size() > kMaxSourceBytes) {
    throw std::runtime_error("chat template of " + std::to_string(source.size()) + " bytes, at most " +
                             std::to_string(kMaxSourceBytes) + " are read");
  }
  ChatTemplate chat_template(std::make_shared<const TemplateProgram>(jinja::parse_template(source)));
  if (source.find("tool") != std::string::npos)
    chat_template.tool_dialect_ = probe_tool_dialect(chat_template);
  chat_template.thinking_switch_ = probe_thinking_switch(chat_template, source);
  chat_template.answer_format_ = probe_answer_format(chat_template, source);
  const auto& calls = chat_template.answer_format_.calls;
  if (!chat_template.tool_dialect_.shows_calls && calls && shows_written_calls(chat_template, *calls))
    chat_template.tool_dialect_.written = calls;
  chat_template.role_dialect_ = probe_role_dialect(chat_template);
  return chat_template;
}

std::variant<std::vector<TemplatePiece>, TemplateError> ChatTemplate::render(ChatTemplateInput input) const {
  EncodingBudget budget;
  return render(std::move(input), budget);
}

std::variant<std::vector<TemplatePiece>, TemplateError> ChatTemplate::render(ChatTemplateInput input,
                                                                             EncodingBudget& budget) const {
  auto rendered = render_text(std::move(input), budget);
  if (auto* error = std::get_if<TemplateError>(&rendered)) return std::move(*error);
  return pieces_of(std::get<RenderedText>(rendered));
}

std::variant<RenderedText, TemplateError> ChatTemplate::render_text(ChatTemplateInput input,
                                                                    EncodingBudget& encoding) const {
  try {
    const InputSize size = size_of(input);
    jinja::Budget budget(kMaxSteps + kStepsAValue * (size.num_values + size.num_bytes / 1024),
                         kFreeOutputBytes + kOutputsAnInput * size.num_bytes, encoding);
    encoding.spend(size.num_bytes);
    const auto now = input.now;
    auto buffer = std::move(input.buffer);
    buffer.clear();
    buffer.reserve(size.num_bytes + kUsualFrame);
    return rendered_text(
        jinja::evaluate(*program_, all_variables(std::move(input)), now, std::move(buffer), budget));
  } catch (const jinja::EvaluationError& error) {
    return TemplateError{error.what(), error.kind()};
  }
}

std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& model_dir) {
  std::optional<FoundTemplate> found = find_template(model_dir);
  if (!found) return std::nullopt;
  try {
    return ChatTemplate::parse(std::move(found->source));
  } catch (const std::exception& error) {
    refuse(found->file, error);
  }
}

std::optional<std::string> load_chat_template_source(const std::filesystem::path& model_dir) {
  std::optional<FoundTemplate> found = find_template(model_dir);
  return found ? std::optional(std::move(found->source)) : std::nullopt;
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const std::vector<TemplatePiece>& pieces) {
  EncodingBudget budget;
  return encode_chat(tokenizer, join_pieces(pieces), budget);
}

std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const RenderedText& rendered,
                                 EncodingBudget& budget) {
  return tokenizer.encode_within(budget, rendered.text, rendered.trusted);
}

}  // namespace troupe
