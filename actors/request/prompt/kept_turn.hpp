// SPDX-License-Identifier: Apache-2.0
// The parts of a turn that will be stored, gathered while it is answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "actors/engine.hpp"
#include "actors/request/answer/answer_items.hpp"
#include "store/stored_response.hpp"

namespace troupe {

class KeptTurn {
 public:
  // The request must be a turn.
  explicit KeptTurn(std::shared_ptr<const GenerationRequest> request);

  // Before the first token: all of the prompt, of which the first num_inherited
  // are stored already.
  void take_prompt(const std::vector<std::int32_t>& prompt, std::size_t num_inherited);
  // A token of the answer; not the one that ends it.
  void add_token(std::int32_t token) { response_.tokens.push_back(token); }
  void add(const TextDelta& delta);

  StoredResponse finish(const Finished& finished, const ServedModel& model, std::chrono::seconds keep);

 private:
  StoredResponse response_;
  std::shared_ptr<const GenerationRequest> request_;
  AnswerItems answer_;
};

}  // namespace troupe
