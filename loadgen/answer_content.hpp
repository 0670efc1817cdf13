// SPDX-License-Identifier: Apache-2.0
// What an OpenAI-compatible server says in its answers: JSON in, values out.
// A chunk that only carries text, which nearly all do, is found by a scan
// without parsing the JSON: the generator shares the machine with the server.
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
  std::string finish_reason;  // empty: none was given
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

// One event of a stream, chat or text completion. A text chunk is recognized
// by its text member alone; the rest of it is not checked.
ChunkKind add_chunk(AnswerContent& content, std::string_view json);

// A whole, unstreamed answer: kText even if it holds no text.
ChunkKind add_whole_answer(AnswerContent& content, std::string_view json);

// The message of an error body: JSON's error.message (or message, or detail),
// else the first words of whatever it is; one line, at most 200 bytes.
std::string error_text(std::string_view body);

}  // namespace troupe::loadgen
