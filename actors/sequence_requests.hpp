// SPDX-License-Identifier: Apache-2.0
// The request actor of every sequence that the cores were given and that has not ended: outputs go to
// it, and its sequences stop when it is gone. Used by the scheduler alone.
#pragma once

#include <set>
#include <unordered_map>

#include "actors/message_types.hpp"

namespace troupe {

class SequenceRequests {
 public:
  // True: the first sequence of this request.
  bool add(SequenceId sequence, RequestActor request);
  // Null: the sequence has ended, or was never added.
  const RequestActor* find(SequenceId sequence) const;
  void remove(SequenceId sequence);  // unknown ones are ignored
  // The request is gone. Returns its sequences; each is found until it is removed.
  std::set<SequenceId> lose(caf::actor_id request);

 private:
  std::unordered_map<SequenceId, RequestActor> requests_;
  std::unordered_map<caf::actor_id, std::set<SequenceId>> sequences_;  // until the request is gone
};

}  // namespace troupe
