// SPDX-License-Identifier: Apache-2.0
// The lines of an answer that Ollama's API streams: each a JSON object of its own (NDJSON).
//
//   portion* -> done line          a portion: text, thoughts, or a call
//   portion* -> {"error":…}        instead of the rest
//
// A call comes whole, when it is: clients take its arguments as an object.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "actors/request/answer/answer_items.hpp"
#include "http/api/answers/ollama/ollama_json.hpp"
#include "http/api/answers/stream_writer.hpp"
#include "http/wire/event_framer.hpp"

namespace troupe {

class OllamaWriter final : public StreamWriter {
 public:
  OllamaWriter(const ResponseIdentity& identity, EventFraming framing)
      : framer_(framing), shape_(identity.shape), head_(ollama_head(identity)) {}

  void begin(std::string& out, const Usage& usage) override;
  void delta(std::string& out, const TextDelta& delta) override;
  void finish(std::string& out, const Finished& finished) override;
  void error(std::string& out, const HttpError& error) override;
  // NDJSON has no comments: a portion without text, which clients add to the others.
  void heartbeat(std::string& out) override;

 private:
  void add_line(AnswerJson& json, const OllamaPortion& portion) const;
  void add_piece(AnswerJson& json, const AnswerPiece& piece, std::span<const AnswerToken> tokens);
  void add_call(std::string& out);

  EventFramer framer_;
  const ResponseShape shape_;
  const std::string head_;
  std::optional<CallDelta> call_;  // the one that is being written
  std::uint32_t num_calls_ = 0;    // written
};

}  // namespace troupe
