// SPDX-License-Identifier: Apache-2.0
#include "policy/health/suspects.hpp"

#include <algorithm>

namespace troupe {

std::optional<Suspects::SequenceId> Suspects::take_death(Death death, std::span<const Part> parts,
                                                         bool may_be_other) {
  num_batches_ = 0;
  if (parts.empty()) return std::nullopt;  // nobody's fault
  const bool is_alone = !may_be_other && std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return part.sequence == parts.front().sequence;
  });
  const auto known = suspects_.find(parts.front().sequence);
  if (is_alone && known != suspects_.end()) {
    Suspect& suspect = known->second;
    const bool was_there =
        std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return suspect.begin < part.end; });
    if (was_there || suspect.was_alone) {
      explained_.insert(suspect.deaths.begin(), suspect.deaths.end());
      explained_.insert(death);
      suspects_.erase(known);
      return parts.front().sequence;
    }
  }
  for (const Part& part : parts) {
    if (part.has_ended) continue;
    const auto [place, is_new] = suspects_.try_emplace(part.sequence);
    Suspect& suspect = place->second;
    if (is_new) suspect.begin = part.begin;
    suspect.begin = std::min(suspect.begin, part.begin);
    suspect.end = std::max(suspect.end, part.end);
    suspect.was_alone = suspect.was_alone || is_alone;
    if (suspect.deaths.empty() || suspect.deaths.back() != death) suspect.deaths.push_back(death);
  }
  return std::nullopt;
}

void Suspects::computed(SequenceId sequence, std::uint32_t end) {
  const auto found = suspects_.find(sequence);
  if (found != suspects_.end() && found->second.end < end) suspects_.erase(found);
}

void Suspects::forget(SequenceId sequence) { suspects_.erase(sequence); }

std::vector<std::size_t> Suspects::choose_participants(std::span<const SequenceId> running,
                                                       std::span<const SequenceId> in_flight) const {
  const auto is_suspect = [this](SequenceId sequence) { return contains(sequence); };
  const auto suspect = std::find_if(running.begin(), running.end(), is_suspect);
  std::vector<std::size_t> participants;
  if (suspect != running.end()) {
    if (in_flight.empty()) participants.push_back(static_cast<std::size_t>(suspect - running.begin()));
    return participants;
  }
  // One that has left the running ones may still have something in flight.
  if (std::any_of(in_flight.begin(), in_flight.end(), is_suspect)) return participants;
  for (std::size_t i = 0; i < running.size(); ++i) participants.push_back(i);
  return participants;
}

std::optional<std::size_t> Suspects::next_to_admit(std::span<const SequenceId> waiting,
                                                   std::span<const SequenceId> running) const {
  const auto is_suspect = [this](SequenceId sequence) { return contains(sequence); };
  if (waiting.empty() || std::any_of(running.begin(), running.end(), is_suspect)) return std::nullopt;
  if (needs_proof() && !running.empty()) return std::nullopt;  // which will give it
  const auto suspect = std::find_if(waiting.begin(), waiting.end(), is_suspect);
  const auto other = std::find_if_not(waiting.begin(), waiting.end(), is_suspect);
  const bool others_first = needs_proof() && other != waiting.end();
  const auto chosen = others_first || suspect == waiting.end() ? other : suspect;
  return static_cast<std::size_t>(chosen - waiting.begin());
}

std::vector<Suspects::Death> Suspects::take_work() {
  num_batches_ += 1;
  if (num_batches_ < kProvingBatches) return {};
  std::vector<Death> forgiven(explained_.begin(), explained_.end());
  explained_.clear();
  return forgiven;
}

}  // namespace troupe
