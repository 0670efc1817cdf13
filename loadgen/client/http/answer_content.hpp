// SPDX-License-Identifier: Apache-2.0
// The answers of an OpenAI-compatible server: JSON in, values out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::loadgen {

struct AnswerUsage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  std::uint32_t cached_tokens = 0;
};

// Grows with each chunk of a streamed answer.
struct AnswerContent {
  std::string text;
  std::string finish_reason;  // empty: none was given; of an embedding "stop"
  std::string response_id;    // of /v1/responses
  std::optional<AnswerUsage> usage;
  std::optional<double> queue_ms;  // how long the server says that it waited
  std::string error;               // an error event; one line
};

enum class ChunkKind : std::uint8_t {
  kText,       // has output: text, reasoning or tool calls
  kOther,      // role, finish, usage
  kError,      // content.error says what
  kMalformed,  // no JSON of the expected shape
};

// Reads the events of one stream, of a chat, a text completion or a response.
//
// Nearly all of them are the same but for their text. So once one was parsed, it
// is enough to see that the next has the same bytes around its text: that costs
// a hundredth of parsing, and the generator shares the machine with the server.
class ChunkReader {
 public:
  // Adds what the event's data say.
  ChunkKind add(AnswerContent& content, std::string_view json);

 private:
  bool add_known(AnswerContent& content, std::string_view json) const;
  void remember(std::string_view json, std::string_view text);

  // Around the text of a chunk that says nothing else; empty: none was seen.
  std::string before_text_;
  std::string after_text_;
};

// A whole, unstreamed answer: kText even if it holds no text.
ChunkKind add_whole_answer(AnswerContent& content, std::string_view json);

// The message of an error body: JSON's error.message (or message, or detail),
// else the first words of whatever it is; one line, at most 200 bytes.
std::string error_text(std::string_view body);

}  // namespace troupe::loadgen
