// SPDX-License-Identifier: Apache-2.0
// A model's chat template (the Jinja subset such templates use): messages to
// the text the model was trained on. The output keeps apart what the template
// wrote and what a client wrote, so that only the former yields special tokens.
//
// Bounded: source <= 256 KiB, nesting <= 64, evaluation steps <= 100,000 and 64
// more for each value and each KiB in the input, output <= 4 x input + 64 KiB.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "text/answer/answer_format.hpp"
#include "text/encoding_budget.hpp"
#include "text/history/rendered_text.hpp"
#include "text/jinja/template_error.hpp"
#include "text/jinja/template_value.hpp"
#include "text/role_dialect.hpp"
#include "text/token_id.hpp"
#include "text/tokenizer/tokenizer.hpp"
#include "text/tool_dialect.hpp"

namespace troupe {

struct ChatTemplateInput {
  TemplateValue::Array messages;  // see template_messages()
  TemplateValue tools = {};       // a list, or none
  bool add_generation_prompt = true;
  std::string bos_token;  // as spelled in the vocabulary
  std::string eos_token;
  // More variables; they come last and win over those above.
  TemplateValue::Object extra;
  // Time that strftime_now() shows, in local time.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
  // Memory of an earlier text, which the new one is written to: fresh memory costs a page fault each 4 KiB.
  std::string buffer = {};
};

// {"role": …, "content": …}. A role that is one of the usual names counts as
// ours (templates build special tokens of it), any other as the client's.
TemplateValue::Object chat_message_with(const std::string& role, TemplateValue content);
TemplateValue::Object chat_message(const std::string& role, std::string content);

struct TemplateProgram;

// Immutable after parse(): render() may run in any thread at once.
class ChatTemplate {
 public:
  // Throws std::runtime_error with line and reason.
  static ChatTemplate parse(std::string source);

  // Throws EncodingStopped.
  std::variant<RenderedText, TemplateError> render_text(ChatTemplateInput input,
                                                        EncodingBudget& budget) const;
  // The same in pieces.
  std::variant<std::vector<TemplatePiece>, TemplateError> render(ChatTemplateInput input,
                                                                 EncodingBudget& budget) const;
  // Uninterrupted.
  std::variant<std::vector<TemplatePiece>, TemplateError> render(ChatTemplateInput input) const;

  const ToolDialect& tool_dialect() const { return tool_dialect_; }
  // Roles of instructions that are shown: others are to be replaced before template_messages().
  const RoleDialect& role_dialect() const { return role_dialect_; }
  // Markers of the model's answers.
  const AnswerFormat& answer_format() const { return answer_format_; }
  // The variable that says whether the model is to reason (text/thinking_switch.hpp); empty: none.
  const std::string& thinking_switch() const { return thinking_switch_; }

 private:
  explicit ChatTemplate(std::shared_ptr<const TemplateProgram> program);

  std::shared_ptr<const TemplateProgram> program_;
  ToolDialect tool_dialect_;
  RoleDialect role_dialect_;
  AnswerFormat answer_format_;
  std::string thinking_switch_;
};

// From chat_template.jinja, else tokenizer_config.json's "chat_template" (a
// string, or a list with one named "default"). nullopt where neither has one;
// throws std::runtime_error naming file and reason where it can't be used.
std::optional<ChatTemplate> load_chat_template(const std::filesystem::path& model_dir);

// Its source, not parsed. Throws as load_chat_template() where the file can't be read.
std::optional<std::string> load_chat_template_source(const std::filesystem::path& model_dir);

// The ids Hugging Face gives for the rendered text in one piece, except that
// special tokens are recognised only inside the template's own text. So
// ordinary content gets exactly those ids (merges run across the border of
// literal and content) and no content yields a special token. Throws
// EncodingStopped.
std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const RenderedText& rendered,
                                 EncodingBudget& budget);
// Uninterrupted.
std::vector<TokenId> encode_chat(const Tokenizer& tokenizer, const std::vector<TemplatePiece>& pieces);

}  // namespace troupe
