// SPDX-License-Identifier: Apache-2.0
// Takes answers in gpt-oss' notation ("harmony") apart, as AnswerParser does others: they are messages on
// channels. A channel "analysis" is reasoning, a recipient "functions.NAME" makes a call, all else is text.
//
//   [<|start|>assistant] [to=functions.f]<|channel|>commentary …<|message|> body <|end|> …
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// kCut: the model would have gone on.
enum class AnswerEnd : std::uint8_t { kWhole, kCut };

struct AnswerParts;
struct AnswerReading;
class Tokenizer;

namespace harmony {

inline constexpr const char* kStart = "<|start|>assistant";
inline constexpr const char* kChannel = "<|channel|>";
inline constexpr const char* kConstrain = "<|constrain|>";
inline constexpr const char* kMessage = "<|message|>";
inline constexpr const char* kRecipient = " to=functions.";
// Marks behind a body; the last two end the answer as well.
inline constexpr const char* kEnd = "<|end|>";
inline constexpr const char* kReturn = "<|return|>";
inline constexpr const char* kCall = "<|call|>";
inline constexpr std::array<const char*, 3> kEnds = {kEnd, kReturn, kCall};

// Each mark that a header or a body begins or ends with is a special token.
bool has_special_marks(const Tokenizer& tokenizer);

}  // namespace harmony

// One thread.
class HarmonyParser {
 public:
  // The reading must outlive this.
  explicit HarmonyParser(const AnswerReading& reading);

  // Append to out.
  void push(std::string_view text, AnswerParts& out);
  void finish(AnswerEnd end, AnswerParts& out);
  std::uint32_t num_calls() const { return num_calls_; }
  // A call has begun, and not ended.
  bool is_in_call() const { return place_ == Place::kCall; }
  bool is_in_reasoning() const { return place_ == Place::kReasoning; }
  // The one call that is wanted was read.
  bool is_done() const { return is_done_; }

 private:
  enum class Place : std::uint8_t { kHeader, kReasoning, kText, kCall };

  void read(AnswerParts& out);
  bool step(AnswerParts& out);
  bool take_header(AnswerParts& out);
  bool take_body(AnswerParts& out);
  bool may_be_header() const;
  bool has_begun_header() const;
  void begin_body(std::string_view header, AnswerParts& out);
  void show(std::string_view text, AnswerParts& out);
  void end_body(AnswerParts& out);

  const AnswerReading& reading_;
  // As they stand in the answer.
  const std::string message_;
  const std::vector<std::string> header_begins_, ends_;
  Place place_ = Place::kHeader;
  std::string held_;
  std::optional<AnswerEnd> end_;  // held_ is all there is
  bool is_begun_ = false;         // the body has been shown in part
  bool has_text_ = false;
  bool is_done_ = false;
  std::uint32_t num_calls_ = 0;
};

}  // namespace troupe
