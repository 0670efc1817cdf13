// SPDX-License-Identifier: Apache-2.0
#include "actors/sequence_requests.hpp"

#include <utility>

namespace troupe {

bool SequenceRequests::add(SequenceId sequence, RequestActor request) {
  const auto [entry, is_new] = sequences_.try_emplace(request->id());
  entry->second.insert(sequence);
  requests_.emplace(sequence, std::move(request));
  return is_new;
}

const RequestActor* SequenceRequests::find(SequenceId sequence) const {
  const auto found = requests_.find(sequence);
  return found == requests_.end() ? nullptr : &found->second;
}

void SequenceRequests::remove(SequenceId sequence) {
  const auto found = requests_.find(sequence);
  if (found == requests_.end()) return;
  if (const auto of_request = sequences_.find(found->second->id()); of_request != sequences_.end())
    of_request->second.erase(sequence);
  requests_.erase(found);
}

std::set<SequenceId> SequenceRequests::lose(caf::actor_id request) {
  auto lost = sequences_.extract(request);
  return lost.empty() ? std::set<SequenceId>{} : std::move(lost.mapped());
}

}  // namespace troupe
