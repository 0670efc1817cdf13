// SPDX-License-Identifier: Apache-2.0
#include "http/api/requests/beam_fields.hpp"

#include <string>

#include <boost/json/value.hpp>

#include "http/api/requests/unsupported_fields.hpp"

namespace troupe {
namespace {

constexpr double kMaxLengthPenalty = 10.0;  // sensible ones are below 2

// false, true or "never", as in transformers.
BeamStop read_early_stopping(FieldReader& fields) {
  const auto* value = fields.find("early_stopping");
  if (value == nullptr) return BeamStop::kHopeless;
  if (value->is_bool()) return value->get_bool() ? BeamStop::kFirst : BeamStop::kHopeless;
  if (value->is_string() && value->get_string() == "never") return BeamStop::kNever;
  fields.fail("early_stopping", "true, false or \"never\"", *value);
  return BeamStop::kHopeless;
}

}  // namespace

void read_beams(FieldReader& fields, ApiRequest& request) {
  const auto length_penalty = fields.number("length_penalty", -kMaxLengthPenalty, kMaxLengthPenalty);
  const BeamStop stop = read_early_stopping(fields);
  if (!fields.boolean("use_beam_search").value_or(false)) {
    if (length_penalty.value_or(1.0) != 1.0) fields.fail("length_penalty", " needs use_beam_search");
    if (stop != BeamStop::kHopeless) fields.fail("early_stopping", " needs use_beam_search");
    return;
  }
  refuse_unsupported_beam_fields(fields);
  if (request.num_candidates > kMostBeams)
    fields.fail(request.num_candidates > request.num_choices ? "best_of" : "n",
                " must be at most " + std::to_string(kMostBeams) + " with use_beam_search, got " +
                    std::to_string(request.num_candidates));
  request.generation.beams = BeamWish{.width = request.num_candidates,
                                      .num_answers = request.num_choices,
                                      .length_penalty = length_penalty.value_or(1.0),
                                      .stop = stop};
  // One request finds all answers to a prompt.
  request.num_candidates = request.num_choices = 1;
  request.generation.is_ranked = false;
}

}  // namespace troupe
