// SPDX-License-Identifier: Apache-2.0
// Responses to store, and what is in the store afterwards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "store/conversation_store.hpp"
#include "tests/store/failing_vfs.hpp"

namespace troupe::test {

// Made from its id; created long ago, and not expired for long.
StoredResponse some_response(const std::string& id, const std::string& previous,
                             std::vector<std::int32_t> tokens, bool extends_previous = false);

// Closes the store to count its responses, deleted ones too, and opens it again.
std::int64_t num_rows(const StateDirectory& directory, std::optional<ConversationStore>& store);

// Opens the store on a disk with faults and saves some responses; each with
// whether that was said to have worked. was_hit: the faults came to bear.
std::vector<std::pair<StoredResponse, bool>> save_with_faults(const StateDirectory& directory,
                                                              DiskFaults faults, bool& was_hit);

}  // namespace troupe::test
