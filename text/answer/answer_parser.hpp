// SPDX-License-Identifier: Apache-2.0
// Takes an answer apart while it is written: reasoning, text, calls of tools. How
// the answer is cut into portions makes no difference, and no more is held back
// than may still be part of a marker or of a call's name.
//
//   [reasoning] ─► text ─► call ─► behind a call ─► text …
//                   ▲       │ no call after all: it is text
//                   └───────┘
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_format.hpp"
#include "text/answer/call_arguments.hpp"
#include "text/answer/harmony_parser.hpp"
#include "text/answer/tool_schemas.hpp"

namespace troupe {

// The first of a call brings id and name, the others more of the arguments.
struct CallDelta {
  std::uint32_t index = 0;
  std::string id = {};
  std::string name = {};
  std::string arguments = {};
  bool operator==(const CallDelta&) const = default;
};

struct AnswerParts {
  std::string reasoning = {};
  std::string text = {};
  std::vector<CallDelta> calls = {};
  bool is_empty() const { return reasoning.empty() && text.empty() && calls.empty(); }
};

struct AnswerReading {
  AnswerFormat format = {};
  bool reads_calls = false;
  bool takes_one_call = false;  // is_done() after it
  bool begins_in_reasoning = false;
  // gpt-oss: kSpecialTokenMark stands in front of each mark, and what is spelled like one is text.
  bool has_special_marks = false;
  std::string tools = {};     // a JSON array
  std::string call_ids = {};  // the beginning of the calls' ids
};

// The id of the call with this number.
std::string call_id(const AnswerReading& reading, std::uint32_t number);

// One thread.
class AnswerParser {
 public:
  explicit AnswerParser(AnswerReading reading);
  AnswerParser(const AnswerParser&) = delete;
  AnswerParser& operator=(const AnswerParser&) = delete;

  [[nodiscard]] AnswerParts push(std::string_view text);
  // The rest, now that nothing follows.
  [[nodiscard]] AnswerParts finish(AnswerEnd end = AnswerEnd::kWhole);

  std::uint32_t num_calls() const { return harmony_ ? harmony_->num_calls() : num_calls_; }
  // A call has begun, and not ended: behind finish(kCut) it was cut.
  bool is_in_call() const { return harmony_ ? harmony_->is_in_call() : arguments_.has_value(); }
  bool is_in_reasoning() const {
    return harmony_ ? harmony_->is_in_reasoning() : state_ == State::kReasoning;
  }
  bool is_done() const { return harmony_ ? harmony_->is_done() : state_ == State::kDone; }

 private:
  enum class State : std::uint8_t {
    kStart,
    kReasoning,
    kBehindReasoning,
    kText,
    kCall,
    kArguments,
    kBehindCall,
    kDone
  };

  bool step(AnswerParts& out);
  bool start();
  bool take_reasoning(AnswerParts& out);
  bool skip_content_begin();
  bool take_text(AnswerParts& out);
  bool take_call(AnswerParts& out);
  bool take_arguments(AnswerParts& out);
  bool take_end_of_call();
  bool continue_list();
  void announce(const CallHeader& header, AnswerParts& out);
  void give_up_call(AnswerParts& out);
  void show(std::string_view text, AnswerParts& out);
  bool go_on(State state);
  std::size_t find_trigger() const;
  TextMatch trigger_at(std::size_t at) const;

  const AnswerReading reading_;
  const ToolSchemas schemas_;
  std::optional<HarmonyParser> harmony_;  // reads all, where the format is its
  std::vector<std::string> triggers_;     // first words of the markers of calls
  State state_ = State::kStart;
  std::string held_;
  std::optional<CallArguments> arguments_;
  std::uint32_t num_calls_ = 0;
  bool is_ended_ = false;  // held_ is all there is
  bool is_in_list_ = false;
  bool is_text_blank_ = true;  // white space only, since the beginning or the last call
  bool drops_space_ = false;   // in front of the next text
};

}  // namespace troupe
